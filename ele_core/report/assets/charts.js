// Small charts as SVG: scales with round ticks, a frame with axes, lines and columns.
function ticks(low, high, count = 5) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => span / size <= count) ?? 10 * power;
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step) found.push(at);
  return found.map((value) => Number(value.toPrecision(12)));
}

function scale([low, high], [from, to]) {
  const span = high - low || 1;
  const place = (value) => from + ((value - low) / span) * (to - from);
  place.inverse = (at) => low + ((at - from) / (to - from)) * span;
  return place;
}

// A logarithmic scale and its ticks: 1, 2 and 5 times powers of ten, or only the powers if these are many.
function logScale([low, high], [from, to]) {
  const place = scale([Math.log10(low), Math.log10(high)], [from, to]);
  return (value) => place(Math.log10(value));
}

function logTicks(low, high) {
  const powers = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) powers.push(power);
  const factors = powers.length > 3 ? [1] : [1, 2, 5];
  return powers.flatMap((power) => factors.map((factor) => Number((factor * 10 ** power).toPrecision(3)))).filter((value) => value >= low && value <= high);
}

// Whether curves would lie flat on the bottom of a linear axis: positive, and most values in the lowest part of a wide range.
function flat(values) {
  const known = values.filter((value) => value != null);
  if (known.length < 4 || !known.every((value) => value > 0)) return false;
  const [low, high] = extent(known);
  return high > 10 * low && known.filter((value) => value < low + 0.15 * (high - low)).length > known.length / 2;
}

// Draw a frame of `width` × `height` with ticks; return the drawing, its scales and the area inside.
function frame(width, height, xs, ys, { xLabel = "", yLabel = "", label = "", whole = false, log = false, bare = false, percent = false } = {}) {
  const room = { left: log ? 60 : 52, right: width - 14, top: yLabel ? 26 : 12, bottom: height - (xLabel ? 42 : 26) };
  const x = scale(xs, [room.left, room.right]);
  const y = (log ? logScale : scale)(ys, [room.bottom, room.top]);
  const picture = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const value of log ? logTicks(...ys) : ticks(...ys, 5)) {
    picture.append(shape("line", { class: "grid", x1: room.left, x2: room.right, y1: y(value), y2: y(value) }));
    picture.append(shape("text", { x: room.left - 8, y: y(value) + 4, "text-anchor": "end" }, percent ? `${number(100 * value)} %` : number(value)));
  }
  const across = ticks(...xs, Math.max(3, Math.floor(width / 90)));
  for (const value of bare ? [] : whole ? across.filter(Number.isInteger) : across) {
    picture.append(shape("text", { x: x(value), y: room.bottom + 18, "text-anchor": "middle" }, number(value)));
  }
  picture.append(shape("line", { class: "axis", x1: room.left, x2: room.right, y1: room.bottom, y2: room.bottom }));
  if (xLabel) picture.append(shape("text", { x: (room.left + room.right) / 2, y: height - 4, "text-anchor": "middle" }, xLabel));
  if (yLabel) picture.append(shape("text", { x: 4, y: 12 }, yLabel));
  return { picture, x, y, room };
}

function extent(values, padding = 0) {
  const finite = values.filter((value) => value != null && Number.isFinite(value));
  if (!finite.length) return [0, 1];
  const low = Math.min(...finite), high = Math.max(...finite);
  const more = (high - low || Math.abs(high) || 1) * padding;
  return [low - more, high + more];
}

function path(xs, ys, x, y) {
  let text = "", pen = false;
  xs.forEach((value, i) => {
    if (ys[i] == null) { pen = false; return; }
    text += `${pen ? "L" : "M"}${x(value).toFixed(1)},${y(ys[i]).toFixed(1)}`;
    pen = true;
  });
  return text;
}

const nearest = (values, to) => values.reduce((best, value, i) => (Math.abs(value - to) < Math.abs(values[best] - to) ? i : best), 0);

// The position of the pointer in the units of a drawing, which is scaled to its box.
function pointer(event, picture) {
  const box = picture.getBoundingClientRect();
  const view = picture.viewBox.baseVal;
  return [((event.clientX - box.left) / box.width) * view.width, ((event.clientY - box.top) / box.height) * view.height];
}

// Columns of a histogram: one for each whole number if all values are whole and few, otherwise equal bins.
function bins(values, most = 30) {
  const finite = values.filter((value) => value != null);
  const [low, high] = extent(finite);
  const whole = finite.every(Number.isInteger) && high - low < 60;
  const count = whole ? high - low + 1 : Math.max(1, Math.min(most, Math.ceil(Math.sqrt(finite.length))));
  const size = whole ? 1 : (high - low || 1) / count;
  const start = whole ? low - 0.5 : low;
  const counts = new Array(count).fill(0);
  for (const value of finite) counts[Math.min(count - 1, Math.floor((value - start) / size))] += 1;
  return { counts, start, size, whole, total: finite.length };
}

function histogram(values, label, width) {
  const { counts, start, size, whole, total } = bins(values);
  const { picture, x, y } = frame(width, 300, [start, start + size * counts.length], [0, Math.max(...counts) * 1.05 || 1], {
    whole, xLabel: label, yLabel: "predictions", label: `Distribution of ${label} over ${total} predictions`,
  });
  counts.forEach((count, i) => {
    const from = start + i * size;
    const about = whole ? number(from + 0.5) : `${number(from, 3)} to ${number(from + size, 3)}`;
    const text = `${label} ${about}\n${count} of ${total} (${((100 * count) / total).toFixed(1)} %)`;
    const gap = Math.min(3, (x(start + size) - x(start)) * 0.15);
    const column = shape("rect", {
      class: "column", x: x(from) + gap / 2, width: Math.max(1, x(from + size) - x(from) - gap),
      y: y(count), height: Math.max(0, y(0) - y(count)), rx: 2,
    });
    column.addEventListener("pointermove", (event) => tip.show(event, text));
    column.addEventListener("pointerleave", tip.hide);
    picture.append(column);
  });
  return picture;
}

// Groups of rows by a number: one for each whole number if these are few, otherwise equal ranges; empty ones are left out.
function groups(values, most = 12) {
  const known = values.map((value, row) => [value, row]).filter(([value]) => value != null);
  if (!known.length) return [];
  const [low, high] = extent(known.map(([value]) => value));
  const whole = known.every(([value]) => Number.isInteger(value));
  const size = whole ? Math.ceil((high - low + 1) / most) : (high - low || 1) / most;
  const found = new Map();
  for (const [value, row] of known) {
    const place = Math.min(most - 1, Math.floor((value - low) / size));
    found.set(place, [...(found.get(place) ?? []), row]);
  }
  return [...found].sort(([a], [b]) => a - b).map(([place, rows]) => {
    const from = low + place * size, to = whole ? Math.min(high, from + size - 1) : from + size;
    return { rows, name: from === to ? number(from) : `${number(from, 3)}–${number(to, 3)}` };
  });
}

// One column per group, each with its name below; `text` is the tooltip.
function columns(width, shown, values, { top, xLabel, yLabel, text, percent = false }) {
  const { picture, x, y, room } = frame(width, 240, [0, shown.length], [0, top], { xLabel, yLabel, label: `${yLabel} by ${xLabel}`, bare: true, percent });
  const every = Math.ceil(shown.length / Math.max(1, Math.floor((room.right - room.left) / 52)));
  shown.forEach((group, i) => {
    const gap = Math.min(8, (x(1) - x(0)) * 0.2);
    const column = shape("rect", { class: "column", x: x(i) + gap / 2, width: x(i + 1) - x(i) - gap, y: y(values[i]), height: Math.max(1, y(0) - y(values[i])), rx: 2 });
    column.addEventListener("pointermove", (event) => tip.show(event, text(group, i)));
    column.addEventListener("pointerleave", tip.hide);
    picture.append(column);
    if (i % every === 0) picture.append(shape("text", { x: x(i + 0.5), y: room.bottom + 18, "text-anchor": "middle" }, group.name));
  });
  return picture;
}
