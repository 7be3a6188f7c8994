// Lines by training step, dots by band, bars of weight: SVG, drawn at the available width.
function axes(svg, box, top, right = box.right) {
  for (let share = 0; share <= top + 1e-9; share += top > 0.5 ? 0.2 : 0.1) {
    const y = box.y(share);
    svg.append(shape("line", { class: "grid", x1: box.left, x2: right, y1: y, y2: y }));
    svg.append(shape("text", { x: box.left - 8, y: y + 4, "text-anchor": "end" }, `${Math.round(100 * share)}`));
  }
  svg.append(shape("text", { x: box.left - 8, y: box.top - 12, "text-anchor": "end" }, "%"));
}

function plotBox(width, height, left, right, bottom, top) {
  const box = { left, right: width - right, top: 26, bottom: height - bottom };
  box.y = (share) => box.bottom - (box.bottom - box.top) * Math.max(share, 0) / top;
  return box;
}

function legend(entries) {
  return element("ul", { className: "legend" }, ...entries.map(([kind, text]) => {
    const key = shape("svg", { width: 26, height: 12, "aria-hidden": "true" });
    if (kind === "forced") key.append(shape("rect", { class: "forced", x: 1, y: 0, width: 24, height: 12 }));
    else if (kind === "chance") key.append(shape("path", { class: "chance", d: "M1 6H25" }));
    else if (kind === "dot" || kind === "range") {
      const group = shape("g", { class: "c0" });
      group.append(kind === "dot" ? shape("circle", { class: "dot", cx: 13, cy: 6, r: 5 }) : shape("line", { class: "range", x1: 13, x2: 13, y1: 0, y2: 12 }));
      key.append(group);
    } else if (kind === "tick") key.append(shape("line", { class: "even", x1: 13, x2: 13, y1: 1, y2: 11 }));
    else if (kind.startsWith("bar")) {
      const group = shape("g", { class: kind.slice(4) });
      group.append(shape("rect", { class: "bar", x: 3, y: 1, width: 20, height: 10, rx: 2 }));
      key.append(group);
    } else {
      const group = shape("g", { class: kind.split(" ")[0] });
      group.append(shape("path", { class: `line ${kind.split(" ")[1] || ""}`, d: "M1 6H25" }));
      key.append(group);
    }
    return element("li", {}, key, text);
  }));
}

function courseChart(place) {
  const course = data.course;
  const steps = [...new Set(course.series.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b);
  const unit = steps.find((s) => s > 0) || 1, far = Math.log1p(steps[steps.length - 1] / unit) || 1;
  const redraw = (width) => {
    const svg = shape("svg", { width, height: 360, role: "group", "aria-label": "Agreement and performance by step" });
    const box = plotBox(width, 360, 40, 18, 52, 1);
    const x = (step) => box.left + (box.right - box.left) * Math.log1p(step / unit) / far;
    axes(svg, box, 1);
    const label = (step) => step.toLocaleString("en");
    const apart = (a, b) => x(b) - x(a) > 4 * (label(a).length + label(b).length) + 12; // a character is 8 wide at most
    const last = steps[steps.length - 1];
    let before = null;
    for (const step of steps) { // those that have room beside the one before and the last
      if ((before !== null && !apart(before, step)) || (step !== last && !apart(step, last))) continue;
      before = step;
      svg.append(shape("text", { class: "step", x: x(step), y: box.bottom + 20, "text-anchor": "middle" }, label(step)));
    }
    svg.append(shape("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    svg.append(shape("text", { x: (box.left + box.right) / 2, y: box.bottom + 42, "text-anchor": "middle" }, width < 480 ? "training step" : "training step (logarithmic scale)"));
    if (course.forced) {
      const end = x(Math.min(course.forced, steps[steps.length - 1]));
      svg.append(shape("rect", { class: "forced", x: box.left, y: box.top, width: Math.max(end - box.left, 2), height: box.bottom - box.top }));
    }
    if (course.chance !== null) {
      const y = box.y(course.chance);
      svg.append(shape("path", { class: "chance", d: `M${box.left} ${y}H${box.right}` }));
    }
    course.series.forEach((series, i) => {
      const group = shape("g", { class: `c${i % 6}` });
      const d = series.points.map(([step, value], k) => `${k ? "L" : "M"}${x(step).toFixed(1)} ${box.y(value).toFixed(1)}`);
      group.append(shape("path", { class: `line ${series.role}`, d: d.join("") }));
      for (const [step, value] of series.points) {
        const hollow = series.forced && step <= series.forced ? " hollow" : "";
        group.append(shape("circle", { class: `dot${hollow}`, cx: x(step), cy: box.y(value), r: 4 }));
      }
      svg.append(group);
    });
    steps.forEach((step, i) => {
      const low = i ? (x(steps[i - 1]) + x(step)) / 2 : box.left - 6;
      const high = i + 1 < steps.length ? (x(steps[i + 1]) + x(step)) / 2 : box.right + 6;
      const strip = shape("rect", { class: "hit", x: low, y: box.top, width: Math.max(high - low, 1), height: box.bottom - box.top });
      const lines = course.series.map((s) => [s, s.points.find((p) => p[0] === step)]).filter(([, p]) => p);
      explain(strip, [`after ${step.toLocaleString("en")} steps`, ...lines.map(([s, p]) => `${s.label}: ${percent(p[1], 1)}${s.forced && step <= s.forced ? " (not trained yet)" : ""}`)].join("\n"));
      svg.append(strip);
    });
    const entries = course.series.map((s, i) => [`c${i % 6} ${s.role}`, s.label]);
    if (course.chance !== null) entries.push(["chance", `agreement by chance (${percent(course.chance)})`]);
    if (course.forced) entries.push(["forced", `attention fixed to uniform (the first ${course.forced.toLocaleString("en")} steps)`]);
    place.replaceChildren(legend(entries), svg);
  };
  fitted(place, redraw);
  const rows = course.series.flatMap((s) => s.points.map(([step, value]) => [s.label, step.toLocaleString("en"), percent(value, 1) + (s.forced && step <= s.forced ? " (attention fixed to uniform)" : "")]));
  if (course.chance !== null) rows.push(["agreement by chance", "–", percent(course.chance, 1)]);
  table(document.getElementById("course-table"), ["What", "Step", "Value"], rows);
}

function bandChart(name, unit, short) {
  const place = document.getElementById(`${name}-figure`);
  const rows = () => data.bands[name][`${chosen.u},${chosen.v}`] || [];
  const redraw = (width) => {
    const bands = rows();
    const svg = shape("svg", { width, height: 300, role: "group", "aria-label": `Agreement by ${unit}` });
    const box = plotBox(width, 300, 40, 12, 58, 1), slot = (box.right - box.left) / Math.max(bands.length, 1);
    axes(svg, box, 1);
    svg.append(shape("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    svg.append(shape("text", { x: (box.left + box.right) / 2, y: box.bottom + 48, "text-anchor": "middle" }, width < 480 ? short : unit));
    const group = shape("g", { class: "c0" });
    bands.forEach(([band, count, value, chance, low, high], i) => {
      const x = box.left + (i + 0.5) * slot, half = Math.min(18, slot / 3);
      svg.append(shape("path", { class: "chance", d: `M${x - half} ${box.y(chance)}H${x + half}` }));
      if (low !== null) group.append(shape("line", { class: "range", x1: x, x2: x, y1: box.y(low), y2: box.y(high) }));
      group.append(shape("circle", { class: "dot", cx: x, cy: box.y(value), r: 6 }));
      const [first, ...rest] = slot < 70 ? band.split(" ") : [band];
      const lift = slot < 46 && i % 2 ? 15 : 0;
      svg.append(shape("text", { x, y: box.bottom + 17 + lift, "text-anchor": "middle" }, first));
      if (rest.length) svg.append(shape("text", { x, y: box.bottom + 32, "text-anchor": "middle" }, rest.join(" ")));
      const strip = shape("rect", { class: "hit", x: x - slot / 2, y: box.top, width: slot, height: box.bottom - box.top });
      explain(strip, `${band}: ${percent(value, 1)} (${interval(low, high)})\nchance ${percent(chance, 1)}\n${count.toLocaleString("en")} target words`);
      group.append(strip);
    });
    svg.append(group);
    const pair = `${data.sets[chosen.u].label} and ${data.sets[chosen.v].label}`;
    place.replaceChildren(legend([["dot", `agreement of ${pair}`], ["range", "its 95 % interval"], ["chance", "agreement by chance"]]), svg);
    const header = [unit, "Target words", "Agreement", "95 % interval", "Chance"];
    table(document.getElementById(`${name}-table`), header, bands.map(([band, count, value, chance, low, high]) =>
      [band, count.toLocaleString("en"), percent(value, 1), interval(low, high), percent(chance, 1)]));
  };
  return fitted(place, redraw);
}

function massChart(place) {
  const redraw = (width) => {
    const classes = [...new Set(data.mass.flatMap((s) => s.rows.map((r) => r[0])))];
    const left = Math.min(150, Math.max(width * 0.36, 122)), bar = 20, gap = 22, step = data.mass.length * (bar + 4) + gap;
    const height = classes.length * step + 40;
    const svg = shape("svg", { width, height, role: "group", "aria-label": "Where the weight goes" });
    const x = (share) => left + (width - left - 56) * share;
    for (let share = 0; share <= 1.001; share += width < 480 ? 0.5 : 0.25) {
      svg.append(shape("line", { class: "grid", x1: x(share), x2: x(share), y1: 4, y2: height - 30 }));
      svg.append(shape("text", { x: x(share), y: height - 10, "text-anchor": "middle" }, `${Math.round(100 * share)} %`));
    }
    classes.forEach((kind, i) => {
      const top = 12 + i * step;
      svg.append(shape("text", { class: "strong", x: left - 10, y: top + (step - gap) / 2 + 4, "text-anchor": "end" }, kind));
      data.mass.forEach((set, k) => {
        const row = set.rows.find((r) => r[0] === kind);
        if (!row) return;
        const y = top + k * (bar + 4), group = shape("g", { class: `c${k % 6}` });
        group.append(shape("rect", { class: "bar", x: left, y, width: Math.max(x(row[1]) - left, 1), height: bar, rx: 3 }));
        if (row[2] > 0) group.append(shape("line", { class: "even", x1: x(row[2]), x2: x(row[2]), y1: y - 3, y2: y + bar + 3 }));
        const end = Math.max(x(row[1]), row[2] > 0 && x(row[2]) - x(row[1]) < 50 ? x(row[2]) : 0);
        group.append(shape("text", { x: end + 7, y: y + 15 }, percent(row[1], 1)));
        const strip = shape("rect", { class: "hit", x: left, y, width: x(1) - left, height: bar });
        explain(strip, `${set.label}: ${percent(row[1], 1)} on ${kind}` + (row[2] > 0 ? `\nspread evenly: ${percent(row[2], 1)}` : ""));
        group.append(strip);
        svg.append(group);
      });
    });
    const entries = data.mass.map((set, k) => [`bar c${k % 6}`, set.label]);
    place.replaceChildren(legend([...entries, ["tick", "if spread evenly"]]), svg);
  };
  fitted(place, redraw);
  const rows = data.mass.flatMap((s) => s.rows.map(([kind, mass, even]) => [s.label, kind, percent(mass, 1), percent(even, 1)]));
  table(document.getElementById("mass-table"), ["Aligner", "Source tokens", "Share of the weight", "Spread evenly"], rows);
}
