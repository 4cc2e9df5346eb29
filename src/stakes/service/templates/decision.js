// The decision of a case: forecasts side by side.

const MOST_NAMED = 3; // targets, in a title

const withUnit = (value, unit) => `${numberText(value)}${unit ? ` ${unit}` : ""}`;
const inUnit = (unit) => (unit ? ` in ${unit}` : "");

/** The names of a few targets, or how many there are. */
function targetsText(targets) {
  return targets.length > MOST_NAMED ? countText(targets.length, state.model.corrects ? "site" : "target") : targets.join(", ");
}

function fact(name, value) {
  return element("div", {}, element("dt", { textContent: name }), element("dd", {}, value));
}

function panel() {
  const figure = () => element("figure", { className: "chart" }, element("figcaption"), element("div"));
  return element("article", { className: "forecast" }, element("h3"), element("p", { className: "hint" }), element("dl", { className: "answers" }), element("p", { className: "doubt" }), figure(), figure());
}

function trainedHow(name, forecasts) {
  if (state.model.corrects) return name === "raw" ? "As typed" : "Corrected by past errors";
  const weight = forecasts.find((each) => each.name === name).decision_weight;
  return weight ? "Trained for accuracy and cheap decisions" : "Trained for accuracy only";
}

/** What every kind of decision tells above its charts. */
function showAnswers(article, { forecast, title, decision }, facts, doubt) {
  const [heading, trained, answers, doubts] = article.children;
  heading.textContent = title;
  trained.textContent = trainedHow(forecast, state.model.forecasts);
  answers.replaceChildren(...facts.map(([name, value]) => fact(name, value)));
  const outside = decision.outside_training_range;
  doubts.textContent = [
    decision.certificate.certified ? "" : `Not certified: ${doubt}`,
    outside ? `Outside the training range: ${readable(outside)}. The forecast has not seen such a value.` : "",
  ].filter(Boolean).join(" ");
  doubts.hidden = !doubts.textContent;
}

/** The share of a density below each of equally spaced places, in words. */
function chancesOfLess(density) {
  let below = 0;
  const sums = density.map((height, place) => (below += place ? (height + density[place - 1]) / 2 : 0));
  return sums.map((sum) => `about ${fixedText((100 * sum) / (below || 1), 0)} %`);
}

function showForecast(article, curve, ranges) {
  const { cost, targets } = state.model;
  const { action, expected_cost: expected, quantiles, certificate } = curve.decision;
  const [density, costs] = article.querySelectorAll(".chart");
  const unit = cost.action_is_outcome ? cost.action_unit : "";
  const [low, middle, high] = ["0.1", "0.5", "0.9"].map((level) => numberText(quantiles[level]));
  const facts = [
    [certificate.interior ? "Best action" : "Best action, at its bound", withUnit(action, cost.action_unit)],
    ["Expected cost", withUnit(expected, cost.unit)],
    ["Outcome, 10 to 90 %", `${low} to ${withUnit(quantiles["0.9"], unit)}`],
  ];
  showAnswers(article, curve, facts, "this is the best of several hundred actions that were looked at; a better one may exist.");
  const best = { name: "best action", kind: "ink", x: action };
  const outcome = state.outcome === null ? [] : [{ name: "outcome", kind: "orange dashed", x: state.outcome }];
  density.firstChild.textContent = `Forecast of ${targetsText(targets)}${targets.length > 1 ? " together" : ""}${inUnit(unit)}, density`;
  drawChart(density.lastChild, {
    label: `Density of the forecast; the middle is ${middle}, 80 % lie between ${low} and ${high}`,
    x: "value", xs: curve.outcomes, range: ranges.density, hidesHeights: true, height: 170, together: "outcomes",
    lines: [{ name: "probability of less", kind: "blue filled", filled: true, values: curve.density, texts: chancesOfLess(curve.density) }],
    marks: [...(cost.action_is_outcome ? [best] : []), ...outcome],
  });
  costs.firstChild.textContent = `Expected cost${inUnit(cost.unit)} over the action${inUnit(cost.action_unit)}`;
  drawChart(costs.lastChild, {
    label: `Expected cost over the action; the least is ${numberText(expected)} at ${numberText(action)}`,
    x: "action", xs: curve.actions, range: ranges.cost, together: "actions",
    lines: [{ name: "expected cost", kind: "blue", values: curve.expected_costs }],
    marks: [best],
  });
}

const LOOKS = ["ink", "blue dashed", "orange dotted"];

/** Parts as lines over the outcomes, such as charge and discharge over the hours; else one line over the parts. */
function plannedLines(parts, targets, action) {
  const areOf = parts.length % targets.length === 0 && parts.every((part, place) => part.endsWith(`_${targets[place % targets.length]}`));
  if (!areOf) return { names: parts, lines: [{ name: "action", kind: "ink", values: action }] };
  const starts = parts.flatMap((_, place) => (place % targets.length === 0 ? [place] : []));
  const line = (start, row) => ({ name: parts[start].slice(0, -targets[0].length - 1), kind: LOOKS[row % LOOKS.length], values: action.slice(start, start + targets.length) });
  return { names: targets, lines: starts.map(line) };
}

/** One forecast of a decision with several parts. */
function showParts(article, told, range) {
  const { cost, targets } = state.model;
  const { decision: { action, expected_cost: expected, quantiles }, binding } = told;
  const [first, second] = article.querySelectorAll(".chart");
  const { parts } = state.answer;
  const perUnit = cost.unit && cost.action_unit ? `${cost.unit} / ${cost.action_unit}` : cost.unit;
  const limit = ({ kind, place, saves }) => `${kind} ${place}: ${withUnit(saves, perUnit)}`;
  const more = binding.length > 3 ? `; ${binding.length - 3} more` : "";
  const facts = [
    areOutcomes() ? ["All parts together", withUnit(action.reduce((sum, each) => sum + each, 0), cost.action_unit)] : ["Parts", numberText(parts.length)],
    ["Expected cost", withUnit(expected, cost.unit)],
    ["Limits that bind, and what one unit more saves", binding.slice(0, 3).map(limit).join("; ") + more || "none"],
  ];
  showAnswers(article, told, facts, "the search for the best action did not end. Do not use it.");
  const seen = state.outcome ? [{ name: "outcome", kind: "orange dashed", values: targets.map((name) => state.outcome[name]) }] : [];
  const { names, lines } = plannedLines(parts, targets, action);
  const limits = binding.map((each) => ({ text: limit(each), line: Math.floor(each.parts[0] / names.length), parts: each.parts.map((part) => part % names.length) }));
  const steps = (of) => ({ steps: true, x: "part", xs: of.map((_, place) => place), names: of, together: of === parts ? "actions" : "parts" });
  const forecast = {
    ...steps(targets), range: range.outcome,
    bands: [
      { name: "5 to 95 %", kind: "blue band", low: quantiles["0.05"], high: quantiles["0.95"] },
      { name: "25 to 75 %", kind: "blue half band", low: quantiles["0.25"], high: quantiles["0.75"] },
    ],
  };
  second.hidden = areOutcomes();
  if (areOutcomes()) {
    first.firstChild.textContent = `What is decided for each part${inUnit(cost.action_unit)}, over the middle 90 and 50 % of the forecast`;
    return drawChart(first.lastChild, { ...forecast, height: 240, lines: [...lines, ...seen], limits, label: `The action of ${countText(parts.length, "part")} over the forecast` });
  }
  first.firstChild.textContent = "The middle 90 and 50 % of the forecast of each outcome";
  drawChart(first.lastChild, { ...forecast, lines: seen, label: `Forecast of ${countText(targets.length, "outcome")}` });
  second.firstChild.textContent = `What is decided for each part${inUnit(cost.action_unit)}`;
  drawChart(second.lastChild, { ...steps(names), range: range.action, lines, limits, label: `The action of ${countText(parts.length, "part")}` });
}

/** Whether parts are on the scale of the outcomes, one for each, as commitments of a schedule are. */
function areOutcomes() {
  return state.model.cost.action_is_outcome && state.answer.parts.length === state.model.targets.length;
}

function showAllParts() {
  const { forecasts } = state.answer;
  const actions = forecasts.flatMap(({ decision }) => decision.action);
  const seen = [...forecasts.flatMap(({ decision }) => [...decision.quantiles["0.05"], ...decision.quantiles["0.95"]]), ...(state.outcome ? Object.values(state.outcome) : [])];
  const range = { outcome: spanOf(areOutcomes() ? [...seen, ...actions] : seen), action: spanOf(actions) };
  takePanels(forecasts.length);
  forecasts.forEach((told, place) => showParts(by("forecasts").children[place], told, range));
  by("spoken").textContent = forecasts.map(({ title, decision }) => `${title}: expected cost ${numberText(decision.expected_cost)}`).join("; ");
}

function takePanels(count) {
  const host = by("forecasts");
  while (host.children.length > count) {
    for (const plot of host.lastChild.querySelectorAll(".plot")) plot.uplot?.destroy();
    host.lastChild.remove();
  }
  while (host.children.length < count) host.append(panel());
}

function show() {
  if (!state.answer) return;
  if (state.model.cost.parts.length) return showAllParts();
  const { curves } = state.answer;
  const all = (name) => curves.flatMap((curve) => curve[name]);
  const [least, most] = spanOf(all("expected_costs"));
  const ranges = { density: [0, Math.max(...all("density")) * 1.05], cost: [least > 0 && least < most / 4 ? 0 : least, most] };
  takePanels(curves.length);
  curves.forEach((curve, place) => showForecast(by("forecasts").children[place], curve, ranges));
  by("spoken").textContent = curves.map(({ title, decision }) => `${title}: best action ${numberText(decision.action)}, expected cost ${numberText(decision.expected_cost)}`).join("; ");
}

const update = latest(async () => {
  const forecasts = ["selected", ...(by("compare").checked ? [by("other").value] : [])];
  const given = state.model.corrects ? typedForecast() : { features: state.features };
  if (!given) return;
  by("forecasts").ariaBusy = "true";
  const several = state.model.cost.parts.length > 0;
  const answer = await ask(several ? "v1/parts" : "v1/curve", { ...given, cost: state.parameters, forecasts, ...(several ? {} : { points: 201 }) });
  by("forecasts").ariaBusy = "false";
  by("forecasts").classList.toggle("stale", !answer);
  if (!answer) return;
  state.answer = answer;
  show();
});
