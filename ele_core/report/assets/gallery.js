// The predictions: filtered, sorted, and shown a few at a time, as pictures if they were drawn, otherwise as text.
const ROWS = DATA.rows;
const COUNT = ROWS.energy.length;
const PRIMARY = DATA.metrics[0];
const CONFIDENCE = ROWS.trusted.confidence;
const GROUP_OF = new Map(Object.entries(DATA.groups).flatMap(([group, rows]) => rows.map((row) => [row, group])));
const STEP = 24;
const gallery = { limit: STEP };
const score = (metric, row) => ROWS.metrics[metric.name][row];
const isRight = (row) => ROWS.metrics.exact[row] > 0;
const bestScore = (metric, row) => ROWS.best[metric.name]?.[row];
// A value as text; if it is known only between bounds, both of them.
function scoreText(metric, value, best = value) {
  if (best !== value) return metric.better === "min" ? `≤ ${number(value)}, ≥ ${number(best)}` : `≥ ${number(value)}, ≤ ${number(best)}`;
  return metric.share ? (value > 0 ? "yes" : "no") : number(value);
}

const SORTS = (() => {
  const worst = PRIMARY.better === "min" ? -1 : 1;
  const by = (value, sign) => (a, b) => sign * (value(a) - value(b)) || a - b;
  const text = (name) => (a, b) => (ROWS[name][a] < ROWS[name][b] ? -1 : ROWS[name][a] > ROWS[name][b] ? 1 : a - b);
  const sorts = {
    group: ["suggested order", null],
    worst: [`${PRIMARY.label}, worst first`, by((row) => score(PRIMARY, row), worst)],
    best: [`${PRIMARY.label}, best first`, by((row) => score(PRIMARY, row), -worst)],
    high: ["energy, high first", by((row) => ROWS.energy[row], -1)],
    low: ["energy, low first", by((row) => ROWS.energy[row], 1)],
    input: ["input, A to Z", text("input")],
    order: ["order of the data", (a, b) => a - b],
  };
  if (CONFIDENCE) {
    sorts.sure = ["confidence, high first", by((row) => CONFIDENCE[row], -1)];
    sorts.unsure = ["confidence, low first", by((row) => CONFIDENCE[row], 1)];
  }
  return sorts;
})();

const SURE = 0.9, DOUBTFUL = 0.5;
const OUTCOMES = {
  all: () => true,
  right: isRight,
  wrong: (row) => !isRight(row),
  confident: (row) => !isRight(row) && CONFIDENCE[row] >= SURE,
  doubtful: (row) => isRight(row) && CONFIDENCE[row] < DOUBTFUL,
};

function plain(row, side) {
  const drawn = DATA.drawn[row];
  return drawn ? DATA.drawings[drawn[side]] : { text: side ? ROWS.truth[row] : ROWS.prediction[row] };
}

function chip(row) {
  const text = PRIMARY.name === "exact" ? (isRight(row) ? "exact" : "wrong") : `${PRIMARY.label} ${scoreText(PRIMARY, score(PRIMARY, row), bestScore(PRIMARY, row))}`;
  return element("span", { class: `chip ${isRight(row) ? "yes" : "no"}` }, element("span", { "aria-hidden": "true" }, isRight(row) ? "✓" : "✗"), text);
}

function example(row) {
  const others = DATA.metrics.slice(1).filter((m) => m.name !== "exact").map((m) => element("span", {}, `${m.label} ${scoreText(m, score(m, row), bestScore(m, row))}`));
  const pane = (side, name) => element("figure", {}, element("figcaption", {}, name), element("div", { class: "pane" }, drawing(plain(row, side), { beside: [plain(row, 1 - side)] })));
  return element("article", { class: "example", "data-row": row },
    element("header", {},
      element("div", { class: "input" }, ROWS.input[row]),
      element("div", { class: "meta" }, chip(row), element("span", {}, `energy ${number(ROWS.energy[row], 3)}`),
        CONFIDENCE ? element("span", {}, `confidence ${number(CONFIDENCE[row], 3)}`) : null, others)),
    element("div", { class: "pair" }, pane(0, "prediction"), pane(1, "truth")),
    ROWS.other_truths?.[row] ? element("p", { class: "faint" }, `Also right: ${ROWS.other_truths[row]}`) : null);
}

function selected() {
  const group = byId("gallery-group").value, outcome = byId("gallery-outcome").value;
  const words = byId("gallery-find").value.trim().toLowerCase();
  let rows = group === "all" ? [...Array(COUNT).keys()] : group === "drawn" ? interleaved() : [...DATA.groups[group]];
  rows = rows.filter(OUTCOMES[outcome]);
  if (words) rows = rows.filter((row) => [ROWS.input, ROWS.prediction, ROWS.truth, ROWS.other_truths ?? []].some((texts) => (texts[row] ?? "").toLowerCase().includes(words)));
  const order = SORTS[byId("gallery-sort").value][1];
  return order ? rows.sort(order) : rows;
}

// One row of each group in turn, so that the first rows show the whole range from worst to best.
function interleaved() {
  const groups = Object.values(DATA.groups), longest = Math.max(0, ...groups.map((group) => group.length));
  return Array.from({ length: longest }, (_, i) => groups.map((group) => group[i])).flat().filter((row) => row != null);
}

function showGallery() {
  const rows = selected();
  byId("gallery").replaceChildren(...rows.slice(0, gallery.limit).map(example));
  const shown = Math.min(gallery.limit, rows.length);
  byId("gallery-count").textContent = rows.length
    ? `${shown} of ${rows.length} predictions shown; ${COUNT} in all.`
    : `No prediction matches: change the filters above. ${COUNT} in all.`;
  byId("gallery-more").hidden = shown === rows.length;
}

const size = (group) => DATA.groups[group].length;
options(byId("gallery-group"), [
  ["drawn", `worst, typical and best (${GROUP_OF.size})`],
  ...Object.keys(DATA.groups).map((group) => [group, `the ${group} (${size(group)})`]),
  ["all", `all (${COUNT})`],
], GROUP_OF.size ? "drawn" : "all");
options(byId("gallery-sort"), Object.entries(SORTS).map(([name, [text]]) => [name, text]));
for (const id of ["gallery-group", "gallery-outcome", "gallery-sort", "gallery-find"]) {
  byId(id).addEventListener("input", () => { gallery.limit = STEP; showGallery(); });
}
byId("gallery-more").addEventListener("click", () => {
  const before = byId("gallery").children.length;
  gallery.limit += STEP;
  showGallery();
  const next = byId("gallery").children[before];
  if (next) { next.tabIndex = -1; next.focus({ preventScroll: true }); }
});
showGallery();

options(byId("histogram-metric"), [...DATA.metrics.map((m) => [m.name, m.label]), ["energy", "energy"]], DATA.metrics.find((m) => !m.share)?.name);
const redrawHistogram = drawn(byId("histogram"), (width) => {
  const name = byId("histogram-metric").value;
  const found = DATA.metrics.find((metric) => metric.name === name);
  return histogram(name === "energy" ? ROWS.energy : ROWS.metrics[name], found ? found.label : "energy", width);
});
byId("histogram-metric").addEventListener("input", redrawHistogram);
