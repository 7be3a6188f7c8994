// The list of sentence pairs (only the rows in sight exist), search, order, and what holds the page together.
const ITEM = 74;

function sentenceText(tokens) {
  const inner = data.specials ? tokens.filter((t, i) => !((i === 0 && t === "<s>") || (i === tokens.length - 1 && t === "</s>"))) : tokens;
  return data.style === "sentencepiece" ? inner.join("").replaceAll("▁", " ").trim() : inner.join(" ");
}

class Browser {
  constructor(maps) {
    this.maps = maps;
    this.list = document.getElementById("list");
    this.rows = document.getElementById("rows");
    this.count = document.getElementById("count");
    this.search = document.getElementById("search");
    this.order = document.getElementById("order");
    this.texts = data.sentences.map((p) => [sentenceText(p.x), sentenceText(p.y)]);
    this.folded = this.texts.map((sides) => sides.join("\n").toLowerCase());
    this.selected = null;
    this.search.addEventListener("input", () => this.refresh());
    this.order.addEventListener("change", () => this.refresh());
    this.list.addEventListener("scroll", () => this.paint());
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => {
      const item = event.target.closest(".item");
      if (item) this.select(Number(item.dataset.place));
    });
    new ResizeObserver(() => this.paint()).observe(this.list);
    this.refresh();
  }

  score() {
    this.shares = data.sentences.map((pair, m) => {
      if (sets < 2) return null;
      const found = hits(m, chosen.u, chosen.v);
      return pair.x.length && found.length ? found.filter(Boolean).length / found.length : null;
    });
  }

  remark(m) {
    if (this.shares[m] !== null) return `${percent(this.shares[m])} agree`;
    return data.sentences[m].x.length && data.sentences[m].y.length ? "" : "blank";
  }

  refresh() {
    this.score();
    const asked = this.search.value.trim().toLowerCase(), number = /^#(\d+)$/.exec(asked);
    const words = asked.split(/\s+/).filter(Boolean);
    const fits = (m) => (number ? m + 1 === Number(number[1]) : words.every((word) => this.folded[m].includes(word)));
    const size = (m) => data.sentences[m].x.length;
    const share = (m, none) => (this.shares[m] === null ? none : this.shares[m]);
    const orders = {
      worst: (a, b) => share(a, 2) - share(b, 2) || size(b) - size(a) || a - b,
      best: (a, b) => share(b, -1) - share(a, -1) || size(b) - size(a) || a - b,
      longest: (a, b) => size(b) - size(a) || a - b,
      text: (a, b) => a - b,
    };
    this.found = data.sentences.map((_, m) => m).filter(fits).sort(orders[this.order.value]);
    const all = data.sentences.length.toLocaleString("en");
    this.count.textContent = this.found.length === data.sentences.length ? `${all} pairs` : `${this.found.length.toLocaleString("en")} of ${all} pairs`;
    this.rows.style.height = `${this.found.length * ITEM}px`;
    this.list.scrollTop = 0;
    this.select(this.found.length ? 0 : null);
  }

  paint() {
    const first = Math.max(0, Math.floor(this.list.scrollTop / ITEM) - 3);
    const last = Math.min(this.found.length, Math.ceil((this.list.scrollTop + this.list.clientHeight) / ITEM) + 3);
    const items = [];
    for (let place = first; place < last; place++) {
      const m = this.found[place];
      const item = element("div", { className: "item", id: `pair-${m + 1}` },
        element("div", { className: "top" }, `#${m + 1}`, element("b", { textContent: this.remark(m) })),
        element("div", { dir: "auto", textContent: this.texts[m][0] }),
        element("div", { dir: "auto", className: "sub", textContent: this.texts[m][1] }));
      item.dataset.place = place;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", String(place === this.selected));
      item.setAttribute("aria-posinset", place + 1);
      item.setAttribute("aria-setsize", this.found.length);
      item.style.top = `${place * ITEM}px`;
      items.push(item);
    }
    this.rows.replaceChildren(...items);
    if (this.selected !== null) this.list.setAttribute("aria-activedescendant", `pair-${this.found[this.selected] + 1}`);
    else this.list.removeAttribute("aria-activedescendant");
  }

  select(place) {
    this.selected = place;
    if (place !== null) {
      const top = place * ITEM;
      if (top < this.list.scrollTop) this.list.scrollTop = top;
      else if (top + ITEM > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = top + ITEM - this.list.clientHeight;
    }
    this.paint();
    this.maps.show(place === null ? null : this.found[place]);
    if (place === null) {
      const empty = data.sentences.length ? "No pair has these words." : "There are no sentence pairs.";
      this.maps.readout.replaceChildren(element("p", { className: "empty", textContent: empty }));
    }
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.list.clientHeight / ITEM));
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || !this.found.length) return;
    event.preventDefault();
    this.select(Math.min(Math.max((this.selected ?? 0) + steps[event.key], 0), this.found.length - 1));
  }
}

function pairControls(changed) {
  const choose = (side, text) => {
    const options = data.sets.map((set, i) => element("option", { value: i, textContent: set.label }));
    const select = element("select", { id: `choose-${side}` }, ...options);
    select.value = chosen[side];
    select.addEventListener("change", () => {
      const other = side === "u" ? "v" : "u", value = Number(select.value);
      if (value === chosen[other]) {
        chosen[other] = chosen[side];
        document.getElementById(`choose-${other}`).value = chosen[other];
      }
      chosen[side] = value;
      changed();
    });
    return element("label", {}, text, select);
  };
  if (data.sets.length < 2) return;
  document.getElementById("pair-controls").append(choose("u", "The favourite of"), choose("v", "is looked up in"));
}

// What every mark and colour of the pictures means.
function heatLegend() {
  const colours = palette(), key = (width) => shape("svg", { width, height: 14, "aria-hidden": "true" });
  const scale = key(62), dot = key(14), sure = key(14), possible = key(14), word = key(34);
  for (let i = 0; i < 6; i++) scale.append(shape("rect", { x: 10 * i + 1, y: 1, width: 10, height: 12, fill: colours.heat(i / 5) }));
  dot.append(shape("rect", { x: 0, y: 0, width: 14, height: 14, fill: colours.heat(1) }), shape("circle", { cx: 7, cy: 7, r: 2.5, fill: colours.mark }));
  const box = { x: 1, y: 1, width: 12, height: 12, fill: "none", stroke: colours.gold, "stroke-width": 2 };
  sure.append(shape("rect", box));
  possible.append(shape("rect", { ...box, "stroke-dasharray": "3 2" }));
  const text = shape("text", { x: 0, y: 11, class: "rust" }, "word");
  word.append(text);
  const range = maps.shade === "row" ? "0 to the strongest of its row" : "0 to 1";
  const entries = [[scale, range], [dot, "the strongest of its row"]];
  if (data.gold) entries.push([sure, "gold link"], [possible, "possible gold link"]);
  const [u, v] = [data.sets[chosen.u].label, data.sets[chosen.v].label];
  if (sets > 1) entries.push([word, `target word whose favourite by “${u}” is not at the top of “${v}”`]);
  return element("ul", { className: "legend" }, ...entries.map(([mark, said]) => element("li", {}, mark, said)));
}

function explainKeys() {
  const u = data.sets[chosen.u].label;
  document.getElementById("keys").replaceChildren(heatLegend());
  for (const place of document.querySelectorAll("[data-u]")) place.textContent = u;
}

const maps = new HeatMaps(document.getElementById("maps"), document.getElementById("readout"), document.getElementById("views"));
const browser = new Browser(maps);
for (const place of ["frequency", "length"]) {
  const empty = Object.keys(data.bands[place]).length === 0;
  document.getElementById(place).hidden = empty;
  if (empty) document.querySelector(`nav a[href="#${place}"]`).hidden = true;
}
const charts = [
  bandChart("frequency", "occurrences of the source word in the training text", "occurrences in the training text"),
  bandChart("length", "source words in the sentence", "source words in the sentence"),
];
pairControls(() => {
  explainKeys();
  browser.refresh();
  for (const redraw of charts) redraw();
});
explainKeys();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", explainKeys);
document.getElementById("shade").addEventListener("change", (event) => {
  maps.shade = event.target.value;
  maps.draw();
  explainKeys();
});
if (data.course) courseChart(document.getElementById("course-figure"));
if (data.mass.length) massChart(document.getElementById("mass-figure"));
document.documentElement.dataset.ready = "yes";
