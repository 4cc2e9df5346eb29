// Charts by uPlot, with the values under the pointer, or at the arrow keys, in the key below them.

const HEIGHT = 200;
const DASHES = { dashed: [7, 4], dotted: [2, 3] };
const TICK_FONT = 12;
const NAME_LENGTH = 14; // letters of a name on an axis
const MOST_LIMITS = 3; // told of a place
const TIME_TICKS = [
  [86400 * 360, "{YYYY}", null, null, null, null, null, null, 1],
  [86400 * 28, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
];

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** From the least to the largest of some numbers, with a little room; they may be too many for the arguments of a call. */
function spanOf(values) {
  const known = values.filter(Number.isFinite);
  if (!known.length) return [0, 1];
  const [low, high] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
  const size = Math.max(Math.abs(low), Math.abs(high));
  const room = 0.05 * (high - low > 1e-6 * size ? high - low : size || 1); // no noise fills a chart
  return [low - room, high + room];
}

/** Where the step of each place begins: halfway from the one before. */
function beginnings(xs) {
  return xs.map((x, place) => x - (place ? x - xs[place - 1] : (xs[1] ?? x + 1) - x) / 2);
}

/** What a place is called. */
function placeTexts({ xs, names, times }) {
  const digits = xs.every((x) => x % 86400 === 0) ? 10 : 16; // of a time, the day alone where that says it
  const time = (x) => new Date(1000 * x).toISOString().slice(0, digits).replace("T", " ");
  return (place) => (names ? names[place] : times ? time(xs[place]) : numberText(xs[place]));
}

/** The largest of some values, beside which others may be none. */
const beside = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value ?? 0)), 0);

/** The entries of the key: what each thing is called, how it looks, and its text at a place, or where nobody points. */
function keyOf(chart, span) {
  const { x, lines = [], bands = [], marks = [], limits = [] } = chart;
  const beyond = (mark) => (mark.x < span[0] ? `← ${numberText(mark.x)}` : mark.x > span[1] ? `${numberText(mark.x)} →` : numberText(mark.x));
  return [
    { name: x, text: placeTexts(chart) },
    ...lines.map((line) => ({ ...line, text: (place) => line.texts?.[place] ?? numberText(line.values[place], beside(line.values)) })),
    ...bands.map((band) => ({ ...band, text: (place) => [band.low, band.high].map((edge) => numberText(edge[place], beside(edge))).join(" to ") })),
    ...(limits.length ? [limitEntry(limits)] : []),
    ...marks.map((mark) => ({ ...mark, kind: `${mark.kind} upright`, text: () => beyond(mark), always: beyond(mark) })),
  ];
}

function keyEntry(entry) {
  const look = entry.kind ? [element("i", { className: `look ${entry.kind}` })] : [];
  return element("div", { className: entry.isWide ? "wide" : "" }, element("dt", {}, ...look, entry.name), element("dd", { textContent: entry.always ?? "" }));
}

/** What limits say of a place, those about the fewest parts first. */
function limitEntry(limits) {
  const sorted = [...limits].sort((a, b) => a.parts.length - b.parts.length);
  const text = (place) => {
    const here = sorted.filter(({ parts }) => parts.includes(place)).map((limit) => limit.text);
    const more = here.length > MOST_LIMITS ? [`${here.length - MOST_LIMITS} more`] : [];
    return [...here.slice(0, MOST_LIMITS), ...more].join("; ") || "none";
  };
  return { name: "limits that bind", kind: "purple limit", isWide: true, text };
}

/** Lines across the chart, and limits on it that bind, placed by shares of it, so that they stay right at any width. */
function overlays({ marks = [], limits = [], lines }, begins, span, range) {
  const share = (value, [low, high]) => Math.min(1, Math.max(0, (value - low) / (high - low)));
  const placed = (className, [left, right], heights) => {
    const [bottom, top] = heights.map((height) => share(height, range)).sort((a, b) => a - b);
    const [from, to] = [share(left, span), share(right, span)];
    const made = element("i", { className });
    const shares = { left: from, width: to - from, top: 1 - top, height: top - bottom };
    for (const [side, value] of Object.entries(shares)) made.style[side] = `${(100 * value).toFixed(3)}%`;
    return made;
  };
  const bar = ({ parts: [first, second = first], line = 0 }) => {
    const end = begins[first + 1] ?? span[1];
    return placed("limit purple", [second === first ? begins[first] : end, end], [lines[line].values[first], lines[line].values[second]]);
  };
  const isDrawn = ({ parts }) => parts.length === 1 || (parts.length === 2 && parts[1] === parts[0] + 1);
  return [...marks.map(({ kind, x }) => placed(`across ${kind}`, [x, x], range)), ...limits.filter(isDrawn).map(bar)];
}

/** The axes: names, times or numbers below, numbers on the left, as wide as they are. */
function axesOf({ names, xs, times, hidesHeights }, host) {
  const look = (property) => () => getComputedStyle(host)[property];
  const shared = { stroke: look("color"), font: `${TICK_FONT}px ${getComputedStyle(host).fontFamily}`, grid: { stroke: look("borderTopColor"), width: 1 }, ticks: { show: false } };
  const numbers = { values: (_, splits, axis, space, step) => tickTexts(splits, step) };
  const short = (name) => (name.length > NAME_LENGTH ? `${name.slice(0, NAME_LENGTH - 1)}…` : name);
  const letters = (names ?? []).reduce((most, name) => Math.max(most, short(name).length), 0);
  const everyName = (plot) => Math.max(1, Math.ceil((xs.length * (letters * 7 + 14)) / (plot.bbox.width / devicePixelRatio || 300)));
  const isNamed = (place, every) => place % every === (every - 1) >> 1 && place + (every >> 1) < xs.length; // and none cut at an edge
  const named = {
    splits: (plot) => xs.filter((_, place) => isNamed(place, everyName(plot))),
    values: (_, splits) => splits.map((x) => short(names[xs.indexOf(x)])),
  };
  const across = names ? named : times ? { values: TIME_TICKS, space: 64, size: 44 } : { ...numbers, space: 74 };
  const widest = (plot, texts) => {
    plot.ctx.font = shared.font; // of a CSS pixel, as sizes are
    return Math.max(0, ...(texts ?? []).map((text) => plot.ctx.measureText(text).width)) + 12;
  };
  return [
    { size: 28, gap: 6, ...shared, grid: { show: false }, ...across },
    { ...shared, ...numbers, gap: 6, space: 34, size: widest, show: !hidesHeights },
  ];
}

/** Lines and the edges of bands, as uPlot has them; how each looks is what its swatch in the key looks like. */
function seriesOf({ lines = [], bands = [], steps, xs }, look) {
  const paths = steps ? uPlot.paths.stepped({ align: 1 }) : undefined;
  const edge = { paths, width: 0, points: { show: false } };
  const line = ({ kind, dots, filled }) => ({
    paths,
    width: 2,
    stroke: () => look(kind).color,
    dash: DASHES[look(kind).borderTopStyle],
    ...(filled ? { fill: () => look(kind).backgroundColor } : {}),
    points: { show: Boolean(dots) || (xs.length < 2 && !steps), size: 5, width: 0, fill: () => look(kind).color },
  });
  return {
    series: [{}, ...bands.flatMap(() => [edge, edge]), ...lines.map(line)],
    bands: bands.map(({ kind }, place) => ({ series: [2 * place + 2, 2 * place + 1], fill: () => look(kind).backgroundColor })),
  };
}

/** The place that a key leads to; null to none, undefined where the key is not for us. */
function nextPlace(key, place, first, last) {
  const tenth = Math.max(1, Math.round(last / 10));
  const moved = (by) => (place === null ? first : Math.min(last, Math.max(0, place + by)));
  return { ArrowRight: moved(1), ArrowLeft: moved(-1), PageUp: moved(tenth), PageDown: moved(-tenth), Home: 0, End: last, Escape: null }[key];
}

/** The parts of a chart that stay when it is drawn anew: the plot, which can have the focus, and the key. */
function chartParts(host) {
  if (host.children.length) return host.children;
  const plot = element("div", { className: "plot", role: "slider", tabIndex: 0, ariaReadOnly: "true", ariaValueMin: "0" });
  host.replaceChildren(plot, element("dl", { className: "key" }));
  new ResizeObserver(() => plot.clientWidth && plot.uplot?.setSize({ width: plot.clientWidth, height: plot.uplot.height })).observe(plot);
  plot.addEventListener("blur", () => plot.pointAt(null));
  plot.addEventListener("keydown", (event) => {
    const place = event.ctrlKey || event.altKey || event.metaKey ? undefined : plot.placeFor(event.key);
    if (place === undefined) return;
    event.preventDefault();
    plot.pointAt(place);
  });
  return host.children;
}

/**
 * Draws a chart into the element, as wide as it is.
 * chart: { label, x: what runs to the right, xs, names or times: what xs are, steps: whether values hold from place to place,
 *   lines: [{ name, kind, values, texts, dots, filled }], bands: [{ name, kind, low, high }], range of both, hidesHeights,
 *   marks: [{ name, kind, x }], limits: [{ parts, text, line }] that bind a line, the first unless another is named, together: whose pointer moves ours, height };
 * a kind is the CSS class of a look.
 */
function drawChart(host, chart) {
  const [plot, key] = chartParts(host);
  const { xs, steps, lines = [], bands = [] } = chart;
  const begins = steps ? beginnings(xs) : xs;
  const span = steps || xs.length > 1 ? [begins[0], steps ? 2 * xs.at(-1) - begins.at(-1) : xs.at(-1)] : spanOf(xs);
  const values = [...bands.flatMap(({ low, high }) => [low, high]), ...lines.map((line) => line.values)];
  const range = chart.range ?? spanOf(values.flat());
  const before = plot.place ?? null;
  const entries = keyOf(chart, span);
  key.replaceChildren(...entries.map(keyEntry));
  const look = (kind) => getComputedStyle(key.querySelector(`[class="look ${kind}"]`));

  const tell = (place) => {
    plot.place = place;
    const texts = entries.map((entry) => (place === null ? entry.always ?? "" : entry.text(place)));
    entries.forEach((_, row) => (key.children[row].lastChild.textContent = texts[row]));
    plot.ariaValueNow = String(place ?? 0);
    plot.ariaValueText = place === null ? "the arrow keys read the values" : entries.map(({ name }, row) => `${name}: ${texts[row]}`).join("; ");
  };
  const told = (u) => {
    const x = u.cursor.left < 0 ? null : u.posToVal(u.cursor.left, "x");
    tell(x === null ? null : steps ? Math.max(0, begins.findLastIndex((begin) => begin <= x)) : u.valToIdx(x));
  };
  plot.uplot?.destroy();
  const u = (plot.uplot = new uPlot(
    {
      width: plot.clientWidth || 300,
      height: chart.height ?? HEIGHT,
      ...seriesOf(chart, look),
      axes: axesOf(chart, plot),
      scales: { x: { time: Boolean(chart.times), range: () => [...span] }, y: { range: () => [...range] } },
      tzDate: (seconds) => uPlot.tzDate(new Date(1000 * seconds), "Etc/UTC"),
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: !steps }, sync: { key: chart.together ?? null, scales: ["x", null] } },
      hooks: { setCursor: [told], ready: [() => before !== null && before < xs.length && plot.pointAt(before)] },
    },
    steps ? [[...begins, span[1]], ...values.map((each) => [...each, each.at(-1)])] : [begins, ...values], // the last step has its width
    plot,
  ));
  u.over.append(...overlays(chart, begins, span, range));
  u.over.addEventListener("pointermove", ({ pointerType, offsetX }) => pointerType === "touch" && u.setCursor({ left: offsetX, top: 0 }, true, true));
  plot.pointAt = (place) => u.setCursor(place === null ? { left: -10, top: -10 } : { left: u.valToPos(xs[place], "x"), top: 0 }, true, true);
  plot.placeFor = (pressed) => nextPlace(pressed, plot.place, chart.marks?.length ? u.valToIdx(chart.marks[0].x) : 0, xs.length - 1);
  Object.assign(plot, { ariaLabel: chart.label, ariaValueMax: String(xs.length - 1) });
  tell(null);
}

/** Charts are painted in the colours of the page, and again where those change. */
function repaintCharts() {
  for (const plot of document.querySelectorAll(".plot")) plot.uplot?.redraw(false);
}

for (const question of ["(prefers-color-scheme: dark)", "print"]) matchMedia(question).addEventListener("change", repaintCharts);
new MutationObserver(repaintCharts).observe(document.documentElement, { attributeFilter: ["data-theme"] });

// Charts that a report holds in place of its drawings, where scripts run.

for (const host of document.querySelectorAll("[data-charts]")) {
  host.hidden = false;
  for (const chart of JSON.parse(host.dataset.charts)) {
    const place = element("div");
    host.append(element("p", { className: "chart-title", textContent: chart.title }), place);
    drawChart(place, chart);
  }
  host.previousElementSibling.hidden = true;
}
