// What all panels use: the data, elements, numbers, and the list of panels.
window.pageErrors = [];
window.addEventListener("error", (e) => window.pageErrors.push(String(e.message)));
const D = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const find = (selector) => document.querySelector(selector);

// An element with attributes (functions are listeners) and children.
function add(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value == null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child != null && child !== false) node.append(child);
  return node;
}
const el = (tag, attributes, ...children) => add(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) => add(document.createElementNS(SVG, tag), attributes, children);
const label = (x, y, text, attributes) => draw("text", { x, y, ...attributes }, String(text));
const picture = (width, height, name, ...children) =>
  draw(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name },
    ...children,
  );

const number = (n, digits = 2) => Number(n).toLocaleString("en", { maximumFractionDigits: digits });
const plural = (n, word, words) => `${number(n)} ${n === 1 ? word : words || word + "s"}`;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// 32 colours in order of lightness, for lanes and banks (viridis, cut where text stays readable).
function shade(n, of = 32) {
  const stops = [
    [68, 1, 84],
    [59, 82, 139],
    [33, 145, 140],
    [94, 201, 98],
    [253, 231, 37],
  ];
  const t = (0.18 + (0.82 * n) / Math.max(1, of - 1)) * (stops.length - 1);
  const k = Math.min(stops.length - 2, Math.floor(t)),
    f = t - k;
  return stops[k].map((c, i) => Math.round(c + (stops[k + 1][i] - c) * f));
}
const shaded = (n, of) => `rgb(${shade(n, of).join(",")})`;
const onShade = (n, of) => {
  const [r, g, b] = shade(n, of);
  return 0.3 * r + 0.59 * g + 0.11 * b > 120 ? "#101214" : "#fff";
};
const WARPS = ["#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#999999"];

// Arrow keys on an element: `move(dx, dy)`.
function arrows(move) {
  const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  return (e) => {
    if (!by[e.key]) return;
    e.preventDefault();
    move(...by[e.key]);
  };
}

const panels = [];
// A panel: `draws(body)` fills it, and again when the theme changes.
const panel = (id, title, question, draws) => panels.push({ id, title, question, draws });
const show = (id) => document.getElementById(id)?.scrollIntoView();
