// Errors by the size of the truth, or by another of its properties: the exact share and the first other metric of each group.
const MEASURES = new Map([
  ...Object.entries(DATA.properties).map(([name, values]) => [name, [name.replaceAll("_", " "), values]]),
  ["", ["characters of the truth", ROWS.truth.map((text) => text.length)]],
]);
const sized = [];
const redrawSizes = () => { for (const [box, draw] of sized) if (box.clientWidth) box.replaceChildren(draw(box.clientWidth)); };
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function sizeCharts() {
  const [name, values] = MEASURES.get(byId("sizes-measure").value);
  const shown = groups(values);
  const of = (metric) => shown.map(({ rows }) => mean(rows.map((row) => score(metric, row)).filter((value) => value != null)) || 0);
  const exact = DATA.metrics.find((metric) => metric.name === "exact"), others = DATA.metrics.filter((metric) => metric !== exact);
  const metrics = [exact, ...others.slice(0, 1)];
  const means = metrics.map(of);
  sized.length = 0;
  byId("sizes").replaceChildren(...metrics.map((metric, m) => {
    const box = element("div", { class: "chart" });
    const value = (i) => (metric.share ? `${number(100 * means[m][i], 3)} %` : number(means[m][i]));
    const text = ({ rows, name: group }, i) => `${name} ${group}\n${metric.label} ${value(i)}\n${rows.length} predictions`;
    const top = metric.share ? 1 : Math.max(...means[m], 1e-9) * 1.08;
    sized.push([box, (width) => columns(width, shown, means[m], { top, text, xLabel: name, yLabel: metric.label, percent: metric.share })]);
    return box;
  }));
  const head = [name, "predictions", ...metrics.map((metric) => metric.label)].map((text, i) => element("th", { scope: "col", class: i ? "num" : null }, text));
  const rows = shown.map((group, i) => element("tr", {}, element("th", { scope: "row" }, group.name), element("td", { class: "num" }, number(group.rows.length)),
    metrics.map((metric, m) => element("td", { class: "num" }, metric.share ? `${number(100 * means[m][i], 3)} %` : number(means[m][i])))));
  byId("sizes-table").replaceChildren(element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows));
  redrawSizes();
}

options(byId("sizes-measure"), [...MEASURES].map(([key, [name]]) => [key, name]));
byId("sizes-measure").addEventListener("input", sizeCharts);
new ResizeObserver(redrawSizes).observe(byId("sizes"));
redraws.push(redrawSizes);
sizeCharts();
