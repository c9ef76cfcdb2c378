// The predictions that the filters leave, as a table: copied for a spreadsheet, or as a CSV file.
const COLUMNS = {
  input: ROWS.input, prediction: ROWS.prediction, truth: ROWS.truth, ...(ROWS.other_truths && { other_truths: ROWS.other_truths }), energy: ROWS.energy,
  ...Object.assign({}, ...DATA.metrics.map((m) => ({ [m.name]: ROWS.metrics[m.name], ...(ROWS.best[m.name] && { [m.best_case]: ROWS.best[m.name] }) }))),
  ...ROWS.trusted,
};
const TABLE = Object.keys(COLUMNS);
const cells = (row) => TABLE.map((name) => COLUMNS[name][row] ?? "");
// a cell that a spreadsheet would run gets an apostrophe, as in ele_core/files/formulas.py
const FORMULA = /^'*(?:[=@\t\r]|[+-][\d\s.,;+eE-]*[^\d\s.,;+eE-])/;
const guarded = (text) => (FORMULA.test(text) ? `'${text}` : text);
const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csvCell = (value) => quoted(guarded(String(value)));
const tsvCell = (value) => String(value).replaceAll(/[\t\r\n]+/g, " ");
const asCsv = (rows) => [TABLE, ...rows.map(cells)].map((line) => `${line.map(csvCell).join(",")}\r\n`).join("");
const asTsv = (rows) => [TABLE, ...rows.map(cells)].map((line) => line.map(tsvCell).join("\t")).join("\n");

async function copyText(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* not allowed here: the older way */ }
  const box = element("textarea", { class: "visually-hidden" });
  box.value = text;
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  return done;
}

byId("table-copy").addEventListener("click", async () => {
  const rows = selected();
  const done = await copyText(asTsv(rows));
  byId("table-done").textContent = done ? `Copied ${rows.length} predictions.` : "This browser does not allow copying: download the CSV file.";
});
byId("table-csv").addEventListener("click", () => {
  const address = URL.createObjectURL(new Blob([asCsv(selected())], { type: "text/csv;charset=utf-8" }));
  element("a", { href: address, download: "predictions.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
});
