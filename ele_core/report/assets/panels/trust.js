// How far answers can be trusted: confidence against the share of right answers, the error of the most confident, sizes of prediction sets.
function reliabilityChart(width) {
  const intervals = DATA.trust.reliability, most = Math.max(...intervals.map((each) => each.examples));
  const { picture, x, y } = frame(width, 300, [0, 1], [0, 1], { xLabel: "confidence", yLabel: "share of right answers", label: "Reliability: the share of right answers by confidence" });
  picture.append(shape("line", { class: "rule", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
  for (const each of intervals) {
    const text = `confidence ${number(each.from)} to ${number(each.to)}: mean ${number(each.confidence, 3)}\nright ${number(100 * each.right, 3)} %\n${each.examples} predictions`;
    const dot = shape("circle", { class: "column", cx: x(each.confidence), cy: y(each.right), r: 4 + 8 * Math.sqrt(each.examples / most) });
    dot.addEventListener("pointermove", (event) => tip.show(event, text));
    dot.addEventListener("pointerleave", tip.hide);
    picture.append(dot);
  }
  return picture;
}

function riskChart(width) {
  const shares = DATA.trust.risk_by_coverage.map(([share]) => share), risks = DATA.trust.risk_by_coverage.map(([, risk]) => risk);
  const { picture, x, y } = frame(width, 300, [0, 1], [0, Math.max(...risks, 1e-3) * 1.08], {
    xLabel: "share of answers accepted, the most confident first", yLabel: "wrong among them", label: "Risk by coverage", percent: true,
  });
  picture.append(shape("path", { class: "line", stroke: colour(COLOURS[0]), d: path(shares, risks, x, y) }));
  picture.addEventListener("pointermove", (event) => {
    const i = nearest(shares, x.inverse(pointer(event, picture)[0]));
    tip.show(event, `the most confident ${number(100 * shares[i], 3)} %\n${number(100 * risks[i], 3)} % of them are wrong`);
  });
  picture.addEventListener("pointerleave", tip.hide);
  return picture;
}

function setChart(width) {
  const found = DATA.trust.sets[Number(byId("trust-set").value)];
  const shown = found.sizes.map((count, size) => ({ name: number(size), count, size })).filter(({ count, size }) => count || size < 2);
  const text = ({ count, size }) => `${size === 0 ? "empty sets" : `sets of ${size}`}\n${count} of ${COUNT} (${((100 * count) / COUNT).toFixed(1)} %)`;
  return columns(width, shown, shown.map(({ count }) => count), { top: Math.max(...found.sizes) * 1.08, text, xLabel: "structures in the set", yLabel: "predictions" });
}

if (DATA.trust) {
  drawn(byId("reliability"), reliabilityChart);
  drawn(byId("risk"), riskChart);
  const promised = DATA.trust.sets.map((each, i) => [i, each]).filter(([, each]) => !each.refused);
  options(byId("trust-set"), promised.map(([i, each]) => [String(i), `coverage ${number(each.coverage)}`]), String(promised.find(([, each]) => each.coverage === 0.9)?.[0] ?? promised[0]?.[0]));
  if (promised.length) byId("trust-set").addEventListener("input", drawn(byId("set-sizes"), setChart));
}
