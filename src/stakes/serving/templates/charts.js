const HEIGHT = 190;
const EDGES = { left: 52, right: 14, top: 34, bottom: 26 };

const words = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const shown = (value) => words.format(value || 0).replace("-", "−"); // and no −0

function svgElement(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Round numbers between low and high, about so many. */
function ticks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= rough);
  const found = [];
  for (let place = Math.ceil(low / step); place * step <= high + step * 1e-9 && found.length < 20; place++) found.push(place * step);
  return found;
}

/** A place on paper for each number between low and high. */
function scale([low, high], [from, to]) {
  return (value) => from + ((value - low) / (high - low || 1)) * (to - from);
}

/** Vertical lines with their words, each in a row of its own above all lines; an arrow points to those beyond it. */
function drawMarks(svg, marks, x, y, width) {
  const begin = marks.length * 15;
  marks.forEach((mark, row) => {
    const [first, last] = [EDGES.left, width - EDGES.right];
    const at = Math.min(last, Math.max(first, x(mark.x)));
    const text = x(mark.x) < first - 1 ? `← ${mark.text}` : x(mark.x) > last + 1 ? `${mark.text} →` : mark.text;
    const top = 11 + row * 15;
    svg.append(svgElement("line", { class: mark.kind, x1: at, x2: at, y1: begin, y2: HEIGHT - EDGES.bottom }));
    if (mark.y !== undefined) svg.append(svgElement("circle", { class: "dot", cx: at, cy: y(mark.y), r: 4.5 }));
    const anchor = at > width * 0.75 ? "end" : at < width * 0.25 ? "start" : "middle";
    svg.append(svgElement("text", { class: mark.kind, x: at, y: top, "text-anchor": anchor }, text));
  });
}

/**
 * Draws ys over xs into the element, as wide as it is, with axes and marks.
 * chart: { xs, ys, range: [low, high] of ys, filled, marks: [{ x, y, kind, text }], label, yTicks }
 */
function drawChart(element, chart) {
  const width = Math.max(240, element.clientWidth);
  const x = scale([chart.xs[0], chart.xs.at(-1)], [EDGES.left, width - EDGES.right]);
  const y = scale(chart.range, [HEIGHT - EDGES.bottom, EDGES.top]);
  const svg = svgElement("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": chart.label });
  const base = HEIGHT - EDGES.bottom;
  svg.append(svgElement("line", { class: "axis", x1: EDGES.left, x2: width - EDGES.right, y1: base, y2: base }));
  for (const value of ticks(chart.xs[0], chart.xs.at(-1), width / 90)) {
    svg.append(svgElement("line", { class: "axis", x1: x(value), x2: x(value), y1: base, y2: base + 5 }));
    svg.append(svgElement("text", { x: x(value), y: base + 19, "text-anchor": "middle" }, shown(value)));
  }
  for (const value of chart.yTicks ? ticks(...chart.range, 4) : []) {
    svg.append(svgElement("line", { class: "axis", x1: EDGES.left, x2: width - EDGES.right, y1: y(value), y2: y(value) }));
    svg.append(svgElement("text", { x: EDGES.left - 7, y: y(value) + 4, "text-anchor": "end" }, shown(value)));
  }
  const line = chart.xs.map((each, place) => `${x(each).toFixed(1)},${y(chart.ys[place]).toFixed(1)}`);
  if (chart.filled) svg.append(svgElement("path", { class: "area", d: `M${x(chart.xs[0])},${base}L${line.join("L")}L${x(chart.xs.at(-1))},${base}Z` }));
  svg.append(svgElement("path", { class: "curve", d: `M${line.join("L")}` }));
  drawMarks(svg, chart.marks, x, y, width);
  element.replaceChildren(svg);
}
