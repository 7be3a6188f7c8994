(() => {
"use strict";
const NEXT = { "": "-", "-": "p", "p": "" }, NAMES = { "": "no link", "-": "sure link", "p": "possible link" };
const data = JSON.parse(document.getElementById("data").textContent);
const place = `alignkit annotation ${data.key}`;

// What is known of each pair: its links, from "source target" to a mark, and whether they are right.
let pairs = data.pairs.map((pair) => ({ marks: Object.fromEntries(pair.links.map((link) => [link.join(" "), "-"])), done: false }));
try {
  pairs = JSON.parse(localStorage.getItem(place)) || pairs;
} catch { /* what the browser keeps is a convenience */ }

function remember() {
  try {
    localStorage.setItem(place, JSON.stringify(pairs));
  } catch { /* it may keep nothing */ }
  count();
}

function count() {
  const done = pairs.filter((pair) => pair.done);
  const empty = done.filter((pair) => !Object.values(pair.marks).some(Boolean)).length;
  document.getElementById("done").textContent = `${done.length} of ${pairs.length} pairs ticked`
    + (empty ? `, ${empty} without a link, not saved` : "");
}

function make(name, parent, text = "") {
  const element = parent.appendChild(document.createElement(name));
  element.textContent = text;
  return element;
}

function word(parent, text) {
  const head = make("th", parent);
  make("span", head, text).dir = "auto";
}

function square(row, pair, s, t, words) {
  const button = make("button", make("td", row)), name = `${s} ${t}`;
  button.type = "button";
  const show = () => {
    button.dataset.state = pair.marks[name] || "";
    button.title = `${words}: ${NAMES[button.dataset.state]}`;
    button.setAttribute("aria-label", button.title);
  };
  button.addEventListener("click", () => {
    pair.marks[name] = NEXT[button.dataset.state];
    show();
    remember();
  });
  show();
}

function grid(pair, { line, source, target }) {
  const section = make("section", document.getElementById("pairs"));
  const label = make("label", section), box = make("input", label);
  box.type = "checkbox";
  box.checked = pair.done;
  box.addEventListener("change", () => {
    pair.done = box.checked;
    remember();
  });
  label.append(` Pair ${line}`);
  const table = make("table", section), head = make("tr", make("thead", table)), body = make("tbody", table);
  make("td", head);
  source.forEach((text) => word(head, text));
  target.forEach((text, t) => {
    const row = make("tr", body);
    word(row, text);
    source.forEach((other, s) => square(row, pair, s, t, `${other} \u2013 ${text}`));
  });
}

// Gold links: a line for every pair of the text up to the last one here, blank where nothing is ticked.
function goldLinks() {
  const lines = new Array(Math.max(...data.pairs.map((pair) => pair.line))).fill("");
  pairs.forEach((pair, n) => {
    const links = Object.entries(pair.marks).filter(([, mark]) => mark);
    const shown = links.map(([name, mark]) => name.split(" ").map(Number).concat(mark)).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    if (pair.done) lines[data.pairs[n].line - 1] = shown.map(([s, t, mark]) => `${s}${mark}${t}`).join(" ");
  });
  return lines.map((line) => `${line}\n`).join("");
}

document.getElementById("save").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([goldLinks()], { type: "text/plain" }));
  link.download = "gold.links";
  link.click();
});
pairs.forEach((pair, n) => grid(pair, data.pairs[n]));
count();
document.documentElement.dataset.ready = "yes"; // for tests
})();
