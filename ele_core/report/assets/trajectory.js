// A slider through the steps of a decoding: the structure at each step beside the truth, and a chart of the energy.
const WAYS = DATA.trajectories;
const way = { timer: null };
const current = () => WAYS[Number(byId("way-example").value)];

function wayChart(width) {
  const chosen = current();
  if (!chosen) return shape("svg", {});
  const last = chosen.steps.length - 1;
  const [, high] = extent(chosen.energies, 0.06);
  const { picture, x, y, room } = frame(width, 210, [chosen.steps[0], chosen.steps[last] || 1], [0, high], { whole: true, xLabel: "step", yLabel: "energy", label: "Energy at each step" });
  const stroke = colour("--blue");
  picture.append(shape("path", { class: "line", stroke, d: path(chosen.steps, chosen.energies, x, y) }));
  const at = Number(byId("way-slider").value);
  picture.append(shape("line", { class: "rule", x1: x(chosen.steps[at]), x2: x(chosen.steps[at]), y1: room.top, y2: room.bottom }));
  picture.append(shape("circle", { class: "now", cx: x(chosen.steps[at]), cy: y(chosen.energies[at]), r: 6.5 }));
  const go = (event) => {
    const i = nearest(chosen.steps, x.inverse(pointer(event, picture)[0]));
    tip.show(event, `step ${chosen.steps[i]}\nenergy ${number(chosen.energies[i])}\n${PRIMARY.label} ${scoreText(PRIMARY, chosen.scores[i])}`);
    return i;
  };
  picture.addEventListener("pointermove", go);
  picture.addEventListener("pointerleave", tip.hide);
  picture.addEventListener("click", (event) => { byId("way-slider").value = go(event); showStep(); });
  return picture;
}

const redrawWay = WAYS.length ? drawn(byId("way-chart"), wayChart) : null;

function showStep() {
  const chosen = current(), slider = byId("way-slider");
  const at = Number(slider.value);
  byId("way-structure").replaceChildren(...drawing(DATA.drawings[chosen.drawings[at]]).filter(Boolean));
  byId("way-step").textContent = `${chosen.steps[at]} of ${chosen.steps.at(-1)}`;
  slider.setAttribute("aria-valuetext", `step ${chosen.steps[at]}, energy ${number(chosen.energies[at])}`);
  const facts = [["input", ROWS.input[chosen.row]], ["energy", number(chosen.energies[at])], [PRIMARY.label, scoreText(PRIMARY, chosen.scores[at])]];
  byId("way-facts").replaceChildren(...facts.map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text))));
  redrawWay();
}

function showWay() {
  stop();
  const chosen = current(), slider = byId("way-slider");
  slider.max = chosen.steps.length - 1;
  slider.value = 0;
  byId("way-truth").replaceChildren(...drawing(DATA.drawings[chosen.truth]).filter(Boolean));
  byId("way-note").textContent = chosen.note;
  showStep();
}

// How much a decoding improved: the one that improved most is shown first.
const gain = (w) => (PRIMARY.better === "min" ? w.scores[0] - w.scores.at(-1) : w.scores.at(-1) - w.scores[0]) + new Set(w.drawings).size / 100;

function showExamples() {
  const decoder = byId("way-decoder").value;
  const own = WAYS.map((w, i) => [w, i]).filter(([w]) => w.decoder === decoder);
  options(byId("way-example"), own.map(([w, i]) => [i, `${w.group}: ${ROWS.input[w.row]}`]));
  byId("way-example").value = own.reduce((best, next) => (gain(next[0]) > gain(best[0]) ? next : best))[1];
  showWay();
}

function stop() {
  clearInterval(way.timer);
  way.timer = null;
  byId("way-play").textContent = "Play";
  byId("way-play").setAttribute("aria-label", "Play");
}

function play() {
  if (way.timer) { stop(); return; }
  const slider = byId("way-slider");
  if (slider.value === slider.max) { slider.value = 0; showStep(); }
  byId("way-play").textContent = "Pause";
  byId("way-play").setAttribute("aria-label", "Pause");
  way.timer = setInterval(() => {
    if (slider.value === slider.max) { stop(); return; }
    slider.value = Number(slider.value) + 1;
    showStep();
  }, Math.max(150, Math.min(900, 6000 / (Number(slider.max) || 1))));
}

if (WAYS.length) {
  options(byId("way-decoder"), [...new Set(WAYS.map((w) => w.decoder))].map((name) => [name, name]));
  byId("way-decoder").addEventListener("input", showExamples);
  byId("way-example").addEventListener("input", showWay);
  byId("way-slider").addEventListener("input", () => { stop(); showStep(); });
  byId("way-play").addEventListener("click", play);
  showExamples();
} else {
  byId("trajectory").replaceChildren(element("p", { class: "note" }, "There are no recorded steps to show."));
}
