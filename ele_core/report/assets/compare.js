// The curve of the deciding metric of every run, one chart per stage; a ring marks the step whose weights were kept.
const RUN_COLOURS = ["--blue", "--orange-fill", "--green-fill", "--grey-fill", "--ink"];
const runColour = (i) => colour(RUN_COLOURS[i % RUN_COLOURS.length]);

function jointChart(stage, width) {
  const values = stage.runs.flatMap((run) => run.values), log = flat(values);
  const ys = log ? extent(values).map((value, i) => (i ? value * 1.1 : value / 1.1)) : extent(values, 0.06);
  const last = Math.max(...stage.runs.map((run) => run.steps.at(-1)));
  const { picture, x, y } = frame(width, 300, [0, last], ys, { xLabel: "step", yLabel: stage.label + (log ? ", logarithmic" : ""), label: `${stage.stage}: ${stage.label}`, log });
  stage.runs.forEach((run, i) => {
    picture.append(shape("path", { class: "line", stroke: runColour(i), d: path(run.steps, run.values, x, y) }));
    const at = run.steps.indexOf(run.kept);
    if (at >= 0 && run.values[at] != null) picture.append(shape("circle", { class: "kept", cx: x(run.kept), cy: y(run.values[at]), r: 5 }));
  });
  picture.addEventListener("pointermove", (event) => {
    const step = x.inverse(pointer(event, picture)[0]);
    tip.show(event, stage.runs.map((run) => { const i = nearest(run.steps, step); return `${run.name}: ${number(run.values[i])} at step ${number(run.steps[i])}`; }).join("\n"));
  });
  picture.addEventListener("pointerleave", tip.hide);
  return picture;
}

byId("joint").replaceChildren(...DATA.curves.map((stage) => {
  const box = element("div", { class: "chart" }), legend = element("div", { class: "legend flat" });
  redraws.push(() => legend.replaceChildren(...stage.runs.map((run, i) => {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = runColour(i);
    return element("span", { class: "item" }, swatch, run.name);
  })));
  drawn(box, (width) => jointChart(stage, width));
  return element("div", { class: "card" }, element("h3", {}, stage.stage), box, legend);
}));
