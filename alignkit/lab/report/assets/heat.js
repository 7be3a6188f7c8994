// Heat maps of one sentence pair on canvases, with one cursor for all of them.
const sets = data.sets.length;

// One IEEE half: what two bytes of a matrix stand for.
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, power = (bits >> 10) & 31, rest = bits & 1023;
  if (power === 31) return sign * Infinity;
  return sign * (power ? 2 ** (power - 25) * (1024 + rest) : 2 ** -24 * rest);
}

const decoded = new Map();

// The matrices of a sentence pair, one Float32Array (T * L) per aligner; the last few are kept.
function matrices(m) {
  if (decoded.has(m)) return decoded.get(m);
  const bytes = atob(data.sentences[m].v), size = data.sentences[m].y.length * data.sentences[m].x.length;
  const found = Array.from({ length: sets }, (_, k) => Float32Array.from({ length: size }, (_, i) => {
    const at = 2 * (k * size + i);
    return half(bytes.charCodeAt(at) | (bytes.charCodeAt(at + 1) << 8));
  }));
  if (decoded.size > 20) decoded.delete(decoded.keys().next().value);
  decoded.set(m, found);
  return found;
}

// The tokens of a sentence as a reader sees them: pieces within a word begin with a hyphen, specials say what they are.
function plainTokens(tokens) {
  return tokens.map((token, i) => {
    if (data.specials && i === 0 && token === "<s>") return "[start]";
    if (data.specials && i === tokens.length - 1 && token === "</s>") return "[end]";
    if (data.style !== "sentencepiece") return token;
    if (token.startsWith("▁")) return token.slice(1) || "␣";
    return i === 0 ? token : `-${token}`;
  });
}

const seen = new Map();

function shown(m) {
  if (!seen.has(m)) seen.set(m, { x: plainTokens(data.sentences[m].x), y: plainTokens(data.sentences[m].y) });
  return seen.get(m);
}

// Whether v agrees with u, row by row.
function hits(m, u, v) {
  const T = data.sentences[m].y.length, width = Math.ceil(T / 4), at = (u * sets + v) * width;
  const digits = data.sentences[m].h.slice(at, at + width);
  return Array.from({ length: T }, (_, t) => (parseInt(digits[t >> 2], 16) >> (3 - (t & 3)) & 1) === 1);
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const stops = ["heat0", "heat1", "heat2"].map((name) => rgb(colour(name)));
  const heat = (share) => {
    const at = Math.min(Math.max(share, 0), 1) * 2, low = Math.min(Math.floor(at), 1);
    const mixed = stops[low].map((c, i) => Math.round(c + (stops[low + 1][i] - c) * (at - low)));
    return `rgb(${mixed.join(",")})`;
  };
  const named = Object.fromEntries(["ink", "soft", "gold", "accent", "warn", "mark", "mark-weak"].map((n) => [n, colour(n)]));
  return { heat, ...named };
}

const FACE = 'px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const clip = (text) => ([...text].length > 18 ? `${[...text].slice(0, 17).join("")}…` : text);

const SMALLEST = 13; // pixels of a cell, for pictures side by side

class HeatMaps {
  constructor(place, readout, views) {
    this.place = place;
    this.readout = readout;
    this.view = "auto"; // or "all", or the number of an aligner
    this.shade = "row";
    this.cursor = null;
    this.m = null;
    this.maps = data.sets.map((set, k) => {
      const canvas = element("canvas", { tabIndex: 0 });
      canvas.setAttribute("role", "application");
      canvas.addEventListener("pointermove", (event) => this.point(k, event));
      canvas.addEventListener("pointerdown", (event) => this.point(k, event));
      canvas.addEventListener("keydown", (event) => this.key(event));
      canvas.addEventListener("focus", () => { if (this.m !== null && !this.cursor) this.move(0, 0); });
      const caption = element("figcaption", { textContent: set.label, title: set.note });
      return { canvas, figure: element("figure", {}, caption, element("div", { className: "hold" }, canvas)) };
    });
    place.replaceChildren(...this.maps.map((map) => map.figure));
    this.buttons = sets < 2 ? [] : ["all", ...data.sets.keys()].map((view) => {
      const button = element("button", { type: "button", textContent: view === "all" ? "side by side" : data.sets[view].label });
      button.addEventListener("click", () => { this.view = view; this.draw(); });
      return { view, button };
    });
    views.replaceChildren(...this.buttons.map(({ button }) => button));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => { if (this.width !== place.clientWidth) this.draw(); }).observe(place);
  }

  show(m) {
    this.m = m;
    this.cursor = null;
    this.place.hidden = m === null;
    if (m === null) { this.readout.replaceChildren(); return; }
    const { x, y } = data.sentences[m];
    this.maps.forEach((map, k) => map.canvas.setAttribute("aria-label",
      `${data.sets[k].label}: ${y.length} target by ${x.length} source words; arrow keys move`));
    this.gold = new Map((data.sentences[m].g || []).map(([s, t, sure]) => [t * x.length + s, sure]));
    this.draw();
    this.tell();
  }

  layout() {
    const { x, y } = shown(this.m);
    const pen = this.maps[0].canvas.getContext("2d");
    pen.font = `13${FACE}`;
    const longest = (tokens) => Math.max(20, ...tokens.map((t) => pen.measureText(clip(t)).width));
    this.width = this.place.clientWidth;
    const left = Math.ceil(longest(y)) + 12, rise = Math.ceil(longest(x) * 0.8) + 14, tail = Math.ceil(rise * 0.55);
    const fit = (columns) => Math.min(26, Math.floor(((this.width - 22 * (columns - 1)) / columns - left - tail) / Math.max(x.length, 1)));
    const most = [3, 2].find((count) => count <= sets && fit(count) >= SMALLEST) || 1;
    const columns = Math.ceil(sets / Math.ceil(sets / most)); // four as two and two
    // Where two do not fit beside each other, one at a time: then its numbers and its words are in sight together.
    const view = this.view !== "auto" ? this.view : sets > 1 && columns === 1 ? chosen.u : "all";
    // Small enough to see all rows of pictures at once below the numbers, if that leaves something to be seen.
    const high = Math.floor(((innerHeight - 130) / Math.ceil(sets / columns) - rise - 40) / Math.max(y.length, 1));
    const cell = view === "all" && columns > 1 ? Math.min(fit(columns), Math.max(SMALLEST, high)) : Math.max(15, fit(1));
    return { left, rise, cell, tail, view };
  }

  draw() {
    if (this.m === null || this.place.hidden) return;
    const { x, y } = shown(this.m), values = matrices(this.m), colours = palette();
    const ratio = window.devicePixelRatio || 1, form = this.layout();
    this.form = form;
    const agree = sets < 2 ? y.map(() => true) : hits(this.m, chosen.u, chosen.v);
    for (const { view, button } of this.buttons) button.setAttribute("aria-pressed", String(view === form.view));
    this.maps.forEach(({ canvas, figure }, k) => {
      figure.hidden = form.view !== "all" && form.view !== k;
      if (figure.hidden) return;
      const width = form.left + form.cell * x.length + form.tail, height = form.rise + form.cell * y.length + 4;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      const pen = canvas.getContext("2d");
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.labels(pen, x, y, colours, agree);
      this.cells(pen, values[k], x.length, y.length, colours);
    });
  }

  labels(pen, x, y, colours, agree) {
    const { left, rise, cell } = this.form, at = this.cursor || {}, font = `${Math.min(13, Math.max(10, cell - 2))}${FACE}`;
    pen.textBaseline = "middle";
    x.forEach((token, s) => {
      pen.save();
      pen.translate(left + (s + 0.5) * cell - 1, rise - 5);
      pen.rotate(-Math.PI / 3.4);
      pen.font = at.s === s ? `bold ${font}` : font;
      pen.fillStyle = at.s === s ? colours.accent : colours.soft;
      pen.fillText(clip(token), 0, 0);
      pen.restore();
    });
    pen.textAlign = "right";
    y.forEach((token, t) => {
      pen.font = at.t === t ? `bold ${font}` : font;
      pen.fillStyle = at.t === t ? colours.accent : agree[t] ? colours.soft : colours.warn;
      pen.fillText(clip(token), left - 7, rise + (t + 0.5) * cell);
    });
    pen.textAlign = "left";
  }

  cells(pen, values, L, T, colours) {
    const { left, rise, cell } = this.form;
    for (let t = 0; t < T; t++) {
      const row = values.subarray(t * L, t * L + L);
      let best = 0, top = -Infinity, low = Infinity;
      row.forEach((value, s) => {
        if (value > top) { top = value; best = s; }
        if (value < low) low = value;
      });
      const floor = this.shade === "row" ? Math.min(low, 0) : 0, full = this.shade === "row" ? top : 1;
      row.forEach((value, s) => {
        const share = full > floor ? (value - floor) / (full - floor) : 0;
        const [px, py] = [left + s * cell, rise + t * cell];
        pen.fillStyle = colours.heat(Number.isFinite(share) ? share : 0);
        pen.fillRect(px, py, cell - 1, cell - 1);
        if (s === best && top > low) {
          pen.fillStyle = share > 0.6 ? colours.mark : colours["mark-weak"];
          pen.beginPath();
          pen.arc(px + (cell - 1) / 2, py + (cell - 1) / 2, Math.max(2, cell / 8), 0, 2 * Math.PI);
          pen.fill();
        }
      });
    }
    pen.lineWidth = 2;
    pen.strokeStyle = colours.gold;
    for (const [place, sure] of this.gold) {
      pen.setLineDash(sure ? [] : [3, 2]);
      pen.strokeRect(left + (place % L) * cell + 0.5, rise + Math.floor(place / L) * cell + 0.5, cell - 2, cell - 2);
    }
    pen.setLineDash([]);
    if (this.cursor) {
      pen.strokeStyle = colours.ink;
      pen.strokeRect(left + this.cursor.s * cell - 1.5, rise + this.cursor.t * cell - 1.5, cell + 2, cell + 2);
    }
  }

  point(k, event) {
    if (this.m === null) return;
    const box = this.maps[k].canvas.getBoundingClientRect(), { left, rise, cell } = this.form;
    const s = Math.floor((event.clientX - box.left - left) / cell);
    const t = Math.floor((event.clientY - box.top - rise) / cell);
    const { x, y } = data.sentences[this.m];
    if (s >= 0 && t >= 0 && s < x.length && t < y.length) this.move(s, t);
  }

  key(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!(event.key in steps) || this.m === null) return;
    event.preventDefault();
    const { x, y } = data.sentences[this.m], [ds, dt] = steps[event.key], at = this.cursor || { s: 0, t: 0 };
    this.move(Math.min(Math.max(at.s + ds, 0), x.length - 1), Math.min(Math.max(at.t + dt, 0), y.length - 1));
  }

  move(s, t) {
    const { x, y } = data.sentences[this.m];
    if (!x.length || !y.length || (this.cursor && this.cursor.s === s && this.cursor.t === t)) return;
    this.cursor = { s, t };
    this.draw();
    this.tell();
  }

  tell() {
    const { x, y } = shown(this.m);
    if (!this.cursor) {
      const text = `${x.length} source and ${y.length} target words. Point at a cell to read its numbers.`;
      this.readout.replaceChildren(element("p", { className: "fine", textContent: text }));
      return;
    }
    const { s, t } = this.cursor, at = t * x.length + s;
    const words = element("p", { className: "words" },
      element("b", { id: "source-word", dir: "auto", textContent: x[s] }), element("span", { className: "arrow", textContent: "→" }),
      element("b", { id: "target-word", dir: "auto", textContent: y[t] }));
    const items = matrices(this.m).map((values, k) => {
      const row = values.subarray(t * x.length, (t + 1) * x.length);
      const rank = 1 + row.reduce((above, value) => above + (value > values[at]), 0);
      return element("li", {}, `${data.sets[k].label} `, element("b", { textContent: number(values[at]), title: String(values[at]) }),
        element("span", { textContent: ` no. ${rank} of ${x.length}` }));
    });
    const gold = this.gold.get(at);
    if (gold !== undefined) items.push(element("li", { className: "gold", textContent: gold ? "gold: linked" : "gold: possibly linked" }));
    else if (data.sentences[this.m].g) items.push(element("li", {}, element("span", { textContent: "gold: not linked" })));
    this.readout.replaceChildren(words, element("ul", {}, ...items));
  }
}
