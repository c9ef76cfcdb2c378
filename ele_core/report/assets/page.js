// Shared by all pages: their data, elements made without HTML, the theme, and the tooltip.
const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  return fill(made, attributes, children);
}

function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (value != null) made.setAttribute(name, value);
  made.append(...children.flat().filter((child) => child != null).map((c) => (c instanceof Node ? c : String(c))));
  return made;
}

function options(select, entries, chosen) {
  select.replaceChildren(...entries.map(([value, text]) => element("option", { value }, text)));
  if (chosen != null) select.value = chosen;
}

function number(value, digits = 4) {
  if (value == null || !Number.isFinite(value)) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return String(Number(value.toPrecision(digits)));
}

const COLOURS = ["--blue", "--orange-fill", "--green-fill", "--grey-fill"];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const tip = {
  show(event, text) {
    const box = byId("tip");
    box.textContent = text;
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(6, Math.min(event.clientX + 14, innerWidth - width - 6))}px`;
    box.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 12 : event.clientY + 18}px`;
  },
  hide() { byId("tip").hidden = true; },
};

const redraws = [];
// Draw into a box, and again whenever its width or the theme changes.
function drawn(box, draw) {
  let width = 0;
  const again = () => { if (box.clientWidth) box.replaceChildren(draw(box.clientWidth)); };
  new ResizeObserver(() => { if (box.clientWidth !== width) { width = box.clientWidth; again(); } }).observe(box);
  redraws.push(again);
  return again;
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  const button = byId("theme");
  button.textContent = name === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-pressed", String(name === "dark"));
  for (const again of redraws) again();
}

byId("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  theme(next);
  try { localStorage.setItem("ele-theme", next); } catch { /* no storage: the choice is not remembered */ }
});
addEventListener("DOMContentLoaded", () => theme(document.documentElement.dataset.theme));

// The width and height of a picture as it says itself; 0 if it does not.
const natural = (plain, side) => Number(new RegExp(`^[^>]*?\\s${side}=["']([\\d.]+)(?:px)?["']`).exec(plain.svg ?? "")?.[1] ?? 0);

// Show a drawing: a picture as an image, in which no script can run; otherwise marked or plain text.
// `beside` are the drawings next to it: pictures that differ in size are shown at the same scale.
function drawing(plain, { caption = true, beside = [] } = {}) {
  if (plain.svg) {
    const [width, height] = ["width", "height"].map((side) => natural(plain, side) || null);
    const image = element("img", { alt: plain.text, loading: "lazy", decoding: "async", width, height });
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(plain.svg)}`;
    const widest = Math.max(...[plain, ...beside].map((each) => natural(each, "width")));
    if (width < widest) image.style.setProperty("--part", width / widest);
    return [image, caption ? element("span", { class: "caption", title: plain.text }, plain.text) : null];
  }
  if (plain.pieces) {
    const pieces = plain.pieces.map(([text, differs]) => (differs ? element("mark", {}, text) : text));
    return [element("span", { class: "text pieces" }, pieces)];
  }
  return [element("span", { class: "text" }, plain.text)];
}
