// Learning curves: the series of a stage over its steps; a ring marks the step whose weights were kept.
function curve(chosen, width, log) {
  const names = Object.keys(chosen.series);
  const shown = shownSeries(chosen);
  const values = shown.flatMap((name) => chosen.series[name]);
  const [low, high] = extent(values, 0.06), [least, most] = extent(values);
  const linear = [Math.min(0, low) < 0 && low > -high / 8 ? 0 : low, high];
  const { picture, x, y, room } = frame(width, 300, [0, chosen.steps.at(-1)], log ? [least / 1.1, most * 1.1] : linear, {
    xLabel: "step", label: `Learning curve of ${chosen.stage}`, log,
  });
  shown.forEach((name) => {
    const stroke = colour(COLOURS[names.indexOf(name) % COLOURS.length]);
    picture.append(shape("path", { class: "line", stroke, d: path(chosen.steps, chosen.series[name], x, y) }));
    chosen.steps.forEach((step, i) => {
      if (chosen.series[name][i] != null) picture.append(shape("circle", { cx: x(step), cy: y(chosen.series[name][i]), r: 3, fill: stroke }));
    });
  });
  const at = chosen.steps.indexOf(chosen.kept);
  const value = at < 0 ? null : (chosen.series[chosen.decides] ?? [])[at];
  if (value != null) {
    picture.append(shape("line", { class: "rule", x1: x(chosen.kept), x2: x(chosen.kept), y1: room.top, y2: room.bottom }));
    picture.append(shape("circle", { class: "kept", cx: x(chosen.kept), cy: y(value), r: 6 }));
    const end = x(chosen.kept) > (room.left + room.right) / 2;
    picture.append(shape("text", { x: x(chosen.kept) + (end ? -8 : 8), y: room.top + 10, "text-anchor": end ? "end" : "start" }, "kept"));
  }
  picture.addEventListener("pointermove", (event) => {
    const i = nearest(chosen.steps, x.inverse(pointer(event, picture)[0]));
    const lines = names.map((name) => `${name.replaceAll("_", " ")} ${number(chosen.series[name][i])}`);
    tip.show(event, [`step ${number(chosen.steps[i])}`, ...lines].join("\n"));
  });
  picture.addEventListener("pointerleave", tip.hide);
  return picture;
}

// The training loss and the deciding metric; all series if no deciding metric is known.
function shownSeries(chosen) {
  const names = Object.keys(chosen.series);
  return chosen.decides === null ? names : names.filter((name) => name === "loss" || name === chosen.decides);
}

function curveCard(chosen) {
  const names = Object.keys(chosen.series);
  const box = element("div", { class: "chart" });
  const values = shownSeries(chosen).flatMap((name) => chosen.series[name]).filter((value) => value != null);
  const log = element("input", { type: "checkbox" });
  log.checked = flat(values);
  const legend = element("div", { class: "legend flat" });
  const paint = () => legend.replaceChildren(...shownSeries(chosen).map((name) => {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = colour(COLOURS[names.indexOf(name) % COLOURS.length]);
    return element("span", { class: "item" }, swatch, name === "loss" ? "training loss" : `${name.replaceAll("_", " ")}${name === chosen.decides ? " (selects the weights)" : ""}`);
  }));
  redraws.push(paint);
  log.addEventListener("input", drawn(box, (width) => curve(chosen, width, log.checked)));
  const axis = values.length && values.every((value) => value > 0) ? element("label", {}, log, "logarithmic") : null;
  const head = element("tr", {}, element("th", { scope: "col" }, "step"), names.map((n) => element("th", { scope: "col", class: "num" }, n.replaceAll("_", " "))));
  const rows = chosen.steps.map((step, i) => element("tr", {},
    element("th", { scope: "row" }, number(step), step === chosen.kept ? " (kept)" : ""),
    names.map((n) => element("td", { class: "num" }, number(chosen.series[n][i])))));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, rows));
  return element("div", { class: "card" }, element("div", { class: "head" }, element("h3", {}, chosen.stage), axis), box, legend,
    element("details", {}, element("summary", { class: "faint" }, "Numbers"), element("div", { class: "scroll" }, table)));
}

if (byId("curves")) {
  byId("curves").replaceChildren(...DATA.curves.map(curveCard));
  if (!DATA.curves.length) byId("curves").append(element("p", { class: "note" }, "This run recorded no evaluations."));
}
