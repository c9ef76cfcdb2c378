// A slider through the steps of a decoding: the structure at each step beside its goal, and a chart of the energy.
const stepper = { way: null, timer: null, redraw: null };

function stepChart(width) {
  const { steps, energies, facts } = stepper.way;
  const last = steps.length - 1;
  const [low, high] = extent(energies, 0.06);
  const { picture, x, y, room } = frame(width, 210, [steps[0], steps[last] || 1], [Math.min(0, low), high], { whole: true, xLabel: "step", yLabel: "energy", label: "Energy at each step" });
  picture.append(shape("path", { class: "line", stroke: colour("--blue"), d: path(steps, energies, x, y) }));
  const at = Number(byId("way-slider").value);
  picture.append(shape("line", { class: "rule", x1: x(steps[at]), x2: x(steps[at]), y1: room.top, y2: room.bottom }));
  if (energies[at] != null) picture.append(shape("circle", { class: "now", cx: x(steps[at]), cy: y(energies[at]), r: 6.5 }));
  const go = (event) => {
    const i = nearest(steps, x.inverse(pointer(event, picture)[0]));
    tip.show(event, [["step", steps[i]], ...facts(i)].map((pair) => pair.join(" ")).join("\n"));
    return i;
  };
  picture.addEventListener("pointermove", go);
  picture.addEventListener("pointerleave", tip.hide);
  picture.addEventListener("click", (event) => { byId("way-slider").value = go(event); showStep(); });
  return picture;
}

// All drawings of this decoding, which are shown at one scale.
const everyone = () => [stepper.way.goal, ...stepper.way.drawings].map((i) => stepper.way.stored[i]);

function showStep() {
  const { steps, energies, drawings, stored, facts, about } = stepper.way, slider = byId("way-slider");
  const at = Number(slider.value);
  byId("way-structure").replaceChildren(...drawing(stored[drawings[at]], { beside: everyone() }).filter(Boolean));
  byId("way-step").textContent = `${steps[at]} of ${steps.at(-1)}`;
  slider.setAttribute("aria-valuetext", `step ${steps[at]}, energy ${number(energies[at])}`);
  byId("way-facts").replaceChildren(...[...about, ...facts(at)].map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text))));
  stepper.redraw();
}

// Show a decoding: `steps`, `energies` and `drawings` by step, the drawing `goal`, all `stored` drawings, a `note`,
// pairs of a name and a text `about` all of it, and `facts(i)` about step i.
function showWay(way, first = 0) {
  stopSteps();
  stepper.way = way;
  stepper.redraw ??= drawn(byId("way-chart"), stepChart);
  const slider = byId("way-slider");
  slider.max = way.steps.length - 1;
  slider.value = first;
  byId("way-truth").replaceChildren(...drawing(way.stored[way.goal], { beside: everyone() }).filter(Boolean));
  byId("way-note").textContent = way.note;
  showStep();
}

function stopSteps() {
  clearInterval(stepper.timer);
  stepper.timer = null;
  byId("way-play").textContent = "Play";
}

function playSteps() {
  if (stepper.timer) { stopSteps(); return; }
  const slider = byId("way-slider");
  if (slider.value === slider.max) { slider.value = 0; showStep(); }
  byId("way-play").textContent = "Pause";
  stepper.timer = setInterval(() => {
    if (slider.value === slider.max) { stopSteps(); return; }
    slider.value = Number(slider.value) + 1;
    showStep();
  }, Math.max(150, Math.min(900, 6000 / (Number(slider.max) || 1))));
}

byId("way-slider").addEventListener("input", () => { stopSteps(); showStep(); });
byId("way-play").addEventListener("click", playSteps);
