// Shared by all figures: the data, elements, numbers as text, the tooltip.
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const chosen = { u: data.main[0], v: data.main[1] };

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function shape(tag, attributes = {}, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function percent(value, digits = 0) {
  return value === null || Number.isNaN(value) ? "–" : `${(100 * value).toFixed(digits)}\u00a0%`;
}

function interval(low, high) {
  return low === null ? "–" : `${percent(low)} to ${percent(high)}`; // of one sentence there is none
}

function number(value) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001 || size >= 10000) {
    const [mantissa, power] = value.toExponential(1).split("e");
    const raised = [...String(Number(power))].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");
    return `${mantissa} · 10${raised}`.replace("-", "−");
  }
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

const tip = document.getElementById("tip");

function showTip(target, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = target.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const left = Math.min(Math.max(6, box.left + box.width / 2 - own.width / 2), innerWidth - own.width - 6);
  const above = box.top - own.height - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 4 ? above : box.bottom + 8}px`;
}

function explain(target, text) {
  target.setAttribute("tabindex", "0");
  target.setAttribute("role", "img");
  target.setAttribute("aria-label", text.replaceAll("\n", "; "));
  for (const event of ["pointerenter", "focus"]) target.addEventListener(event, () => showTip(target, text));
  for (const event of ["pointerleave", "blur"]) target.addEventListener(event, () => { tip.hidden = true; });
}

function table(place, header, rows) {
  const head = element("tr", {}, ...header.map((text) => element("th", { scope: "col", textContent: text })));
  const body = rows.map((row) => element("tr", {}, ...row.map((text) => element("td", { textContent: text }))));
  place.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

// Calls draw(width) now and whenever the place gets another width.
function fitted(place, draw) {
  let last = 0;
  const again = () => {
    const width = Math.round(place.clientWidth) - 24;
    if (width > 0 && width !== last) { last = width; draw(width); }
  };
  new ResizeObserver(again).observe(place);
  again();
  return () => { last = 0; again(); };
}
