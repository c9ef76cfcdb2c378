// A map of the embedding: one dot per structure, coloured by a number; the structure under the pointer beside it.
const RAMP = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
const map = { kept: null };

// Leave out the darkest colours on a dark background, and the brightest on a light one.
function ramp(share) {
  const [from, to] = document.documentElement.dataset.theme === "dark" ? [0.16, 1] : [0, 0.94];
  const at = (from + (to - from) * Math.max(0, Math.min(1, share))) * (RAMP.length - 1);
  const low = Math.floor(at), high = Math.min(RAMP.length - 1, low + 1);
  const parts = [1, 3, 5].map((k) => {
    const [one, other] = [RAMP[low], RAMP[high]].map((c) => parseInt(c.slice(k, k + 2), 16));
    return Math.round(one + (other - one) * (at - low));
  });
  return `rgb(${parts.join(" ")})`;
}

const PAINTS = new Map([
  ...Object.entries(DATA.properties).map(([name, values]) => [name, [name.replaceAll("_", " "), values]]),
  ...DATA.metrics.map((metric) => [`metric ${metric.name}`, [metric.label, ROWS.metrics[metric.name]]]),
  ["energy", ["energy of the prediction", ROWS.energy]],
]);

function paint() {
  const [name, values] = PAINTS.get(byId("map-colour").value);
  const [low, high] = extent(values);
  const share = (value) => (value - low) / (high - low || 1);
  const distinct = [...new Set(values.filter((value) => value != null))].sort((a, b) => a - b);
  return { name, values, low, high, distinct, colour: (row) => (values[row] == null ? colour("--grey-fill") : ramp(share(values[row]))), share };
}

function legend({ name, distinct, low, high, share }) {
  const swatch = (value) => {
    const box = element("span", { class: "swatch" });
    box.style.background = ramp(share(value));
    return box;
  };
  const shown = distinct.length <= 10 ? distinct : Array.from({ length: 6 }, (_, i) => low + (i * (high - low)) / 5);
  byId("map-legend").replaceChildren(element("span", {}, name), ...shown.map((value) => element("span", { class: "item" }, swatch(value), number(value, 3))));
}

function detail(row) {
  const name = `${PRIMARY.label} ${scoreText(PRIMARY, score(PRIMARY, row), bestScore(PRIMARY, row))}, energy ${number(ROWS.energy[row], 3)}`;
  const side = (title, which) => [element("p", {}, element("b", {}, title)), ...drawing(plain(row, which), { beside: [plain(row, 1 - which)] })];
  byId("map-detail").replaceChildren(...[...side("truth", 1), ...side("prediction", 0)].filter(Boolean), element("p", { class: "faint" }, name));
}

// The property to colour by at first: the one in which the fewest structures are equal.
function telling() {
  const most = ([, values]) => {
    const counts = new Map();
    for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
    return Math.max(...counts.values());
  };
  const known = Object.entries(DATA.properties);
  return known.length ? known.reduce((best, next) => (most(next) < most(best) ? next : best))[0] : null;
}

function mapPicture(width) {
  const chosen = DATA.maps[Number(byId("map-kind").value)];
  const paints = paint();
  const height = Math.min(620, Math.max(320, width * 0.68));
  const [xs, ys] = [extent(chosen.x, 0.04), extent(chosen.y, 0.04)];
  const x = scale(xs, [6, width - 6]), y = scale(ys, [height - 6, 6]);
  const picture = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Map of ${chosen.x.length} structures by ${chosen.name}` });
  const order = chosen.x.map((_, row) => row).sort((a, b) => (paints.values[a] ?? -Infinity) - (paints.values[b] ?? -Infinity));
  const radius = chosen.x.length > 800 ? 3 : 4.2;
  for (const row of order) picture.append(shape("circle", { cx: x(chosen.x[row]).toFixed(1), cy: y(chosen.y[row]).toFixed(1), r: radius, fill: paints.colour(row), "fill-opacity": 0.88 }));
  const over = shape("g", {});
  picture.append(over);
  const point = (row) => {
    over.replaceChildren(shape("circle", { class: "ring", cx: x(chosen.x[row]), cy: y(chosen.y[row]), r: 7 }));
    if (chosen.query_x) {
      const [qx, qy] = [x(chosen.query_x[row]), y(chosen.query_y[row])];
      over.append(shape("line", { class: "query", x1: x(chosen.x[row]), y1: y(chosen.y[row]), x2: qx, y2: qy }), shape("rect", { class: "ring", x: qx - 4, y: qy - 4, width: 8, height: 8 }));
    }
    detail(row);
  };
  const under = (event) => {
    const [px, py] = pointer(event, picture);
    let best = null, least = 18 ** 2;
    chosen.x.forEach((_, row) => {
      const far = (x(chosen.x[row]) - px) ** 2 + (y(chosen.y[row]) - py) ** 2;
      if (far < least) [best, least] = [row, far];
    });
    return best;
  };
  picture.addEventListener("pointermove", (event) => { const row = under(event); if (row != null && map.kept == null) point(row); });
  picture.addEventListener("click", (event) => { const row = under(event); map.kept = row === map.kept ? null : row; if (row != null) point(row); });
  if (map.kept != null && map.kept < chosen.x.length) point(map.kept);
  legend(paints);
  byId("map-note").textContent = chosen.note + (chosen.query_x ? " The ring is the truth of an input; the square is the query that was predicted for it." : "");
  return picture;
}

if (DATA.maps.length) {
  options(byId("map-kind"), DATA.maps.map((m, i) => [i, m.name]), DATA.maps.length - 1);
  options(byId("map-colour"), [...PAINTS].map(([key, [name]]) => [key, name]), telling());
  const again = drawn(byId("map"), mapPicture);
  for (const id of ["map-kind", "map-colour"]) byId(id).addEventListener("input", again);
} else {
  byId("embedding").hidden = true;
}
