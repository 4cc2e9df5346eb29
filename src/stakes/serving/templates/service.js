const by = (id) => document.getElementById(id);
const readable = (label) => label.replace(/(\d)T(\d\d:\d\d)(:00)?Z?$/, "$1 $2");
const state = { model: null, cases: [], place: 0, features: {}, outcome: null, parameters: {}, answer: null, csv: null, table: null };

function element(name, properties = {}, ...children) {
  const found = Object.assign(document.createElement(name), properties);
  found.append(...children);
  return found;
}

/** Says what is wrong, or that nothing is, and marks the field that it is about. */
function complain(message, field) {
  by("trouble").textContent = message;
  by("trouble").hidden = !message;
  for (const input of document.querySelectorAll("[data-field]")) input.setAttribute("aria-invalid", Boolean(message) && input.dataset.field === field);
}

/** The answer of the service, or null and a complaint; one question after the other. */
async function ask(path, body, tell = complain) {
  const token = sessionStorage.getItem("token");
  const headers = { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  try {
    const reply = await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
    const answer = await reply.json();
    if (reply.status === 401) signIn();
    tell(reply.ok ? "" : reply.status === 401 ? "This token is not the right one." : answer.error.message, answer.error?.field);
    return reply.ok ? answer : null;
  } catch {
    tell("The service does not answer. Is it still running?");
    return null;
  }
}

/** Runs the work; calls that come meanwhile lead to one more run, with what is then asked for. */
function latest(work) {
  let busy = false;
  let again = false;
  return async () => {
    again = true;
    if (busy) return;
    busy = true;
    while (again) {
      again = false;
      await work();
    }
    busy = false;
  };
}

function signIn() {
  sessionStorage.removeItem("token");
  by("subtitle").textContent = "This service asks for a token.";
  by("sign-in").hidden = false;
  by("token").focus();
}

// Case

function takeCase(place) {
  const found = state.cases[place];
  state.place = place;
  by("case").selectedIndex = place;
  by("previous").disabled = place <= 0;
  by("next").disabled = place >= state.cases.length - 1;
  state.features = { ...found.features };
  state.outcome = found.total;
  for (const input of by("features").querySelectorAll("input")) input.value = Number(state.features[input.name].toPrecision(7));
  update();
}

function takeFeature(input) {
  if (input.value === "" || !Number.isFinite(input.valueAsNumber)) return;
  state.features[input.name] = input.valueAsNumber;
  state.outcome = null;
  by("case").selectedIndex = state.cases.length;
  update();
}

// A forecast that is sent, to be corrected

/** What is typed of it, as a request has it; null where that is not all numbers yet. */
function typedForecast() {
  const { member_levels: levels, features } = state.model.corrects;
  const typed = (name) => by("features").querySelector(`[name="${name}"]`)?.value.trim() ?? "";
  const members = typed("members").split(/[\s,;]+/).filter(Boolean).map(Number);
  if (!members.length || !members.every(Number.isFinite)) return null;
  const known = Object.fromEntries(["time", "site"].filter((name) => typed(name)).map((name) => [name, typed(name)]));
  if (typed("lead")) known.lead = Number(typed("lead"));
  if (features.length) known.features = Object.fromEntries(features.map((name) => [name, Number(typed(name))]));
  return { members, ...(levels ? { member_levels: levels } : {}), ...(Object.keys(known).length ? { known } : {}) };
}

function showTyping() {
  const { form, member_levels: levels, known, features } = state.model.corrects;
  const what = { members: "Members, with commas between them", points: "The forecast", quantiles: `Quantiles at ${levels?.join(", ")}, with commas between them` }[form];
  const field = (name, label, input) => {
    Object.assign(input, { name });
    input.dataset.field = name === "members" ? "members" : "known";
    input.addEventListener("input", update);
    return element("label", { className: name === "members" ? "field wide" : "field" }, element("span", { textContent: label }), input);
  };
  const labels = { time: "Time of the outcome, UTC, as 2020-02-01T13:00", lead: "Hours ahead", site: "Site" };
  by("features").replaceChildren(
    field("members", what, element("textarea", { rows: 3, required: true })),
    ...known.map((name) => field(name, labels[name], element("input", { type: "text" }))),
    ...features.map((name) => field(name, name, element("input", { type: "number", step: "any" }))),
  );
  by("typed").firstElementChild.textContent = "Type a forecast";
  by("typed").open = true;
  by("cases").hidden = true;
}

function showCases() {
  if (state.model.corrects) return showTyping();
  const typed = element("option", { textContent: "features as typed", hidden: true });
  by("case").replaceChildren(...state.cases.map(({ label }) => element("option", { textContent: readable(label) })), typed);
  by("cases").hidden = !state.cases.length;
  by("typed").open = !state.cases.length;
  if (!state.cases.length) by("typed").firstElementChild.textContent = "Type the features";
  by("features").replaceChildren(
    ...state.model.features.map(({ name, typical }) => {
      state.features[name] = typical;
      const input = element("input", { type: "number", step: "any", required: true, name, value: Number(typical.toPrecision(7)) });
      input.dataset.field = `features.${name}`;
      input.addEventListener("input", () => takeFeature(input));
      return element("label", { className: "field" }, element("span", { textContent: name }), input);
    }),
  );
}

// Cost

const STEPS = 200;

function placeOf({ low, high, scale }, value) {
  return scale === "log" ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

function valueAt({ low, high, scale }, share) {
  const value = scale === "log" ? low * (high / low) ** share : low + share * (high - low);
  const digits = Math.log10((Math.max(Math.abs(low), Math.abs(high)) / (high - low)) * STEPS); // so that every step is another value
  return Number(value.toPrecision(scale === "log" ? 3 : Math.max(3, Math.ceil(digits))));
}

function slider(parameter) {
  const range = element("input", { type: "range", min: 0, max: STEPS, id: `slider-${parameter.name}` });
  const exact = element("input", { type: "number", step: "any", required: true, ariaLabel: `${parameter.name}, exactly` });
  exact.dataset.field = `cost.${parameter.name}`;
  const take = (value) => {
    state.parameters[parameter.name] = value;
    range.ariaValueText = shown(value);
    update();
  };
  range.addEventListener("input", () => {
    exact.value = valueAt(parameter, range.value / STEPS);
    take(Number(exact.value));
  });
  exact.addEventListener("input", () => {
    if (!Number.isFinite(exact.valueAsNumber)) return;
    range.value = STEPS * placeOf(parameter, exact.valueAsNumber);
    take(exact.valueAsNumber);
  });
  for (const each of [range, exact]) each.addEventListener("change", () => state.csv && decideTable());
  exact.value = parameter.value;
  range.value = STEPS * placeOf(parameter, parameter.value);
  range.ariaValueText = shown(parameter.value);
  state.parameters[parameter.name] = parameter.value;
  const words = element("span", { textContent: parameter.about && `, ${parameter.about}` });
  const label = element("label", { htmlFor: range.id }, parameter.name.replaceAll("_", " "), words);
  return element("div", { className: "slider" }, label, range, exact);
}

function showSliders() {
  state.parameters = {};
  by("sliders").replaceChildren(...state.model.cost.parameters.filter((each) => each.slider).map(slider));
}

// Decision

const withUnit = (value, unit) => `${shown(value)}${unit ? ` ${unit}` : ""}`;

function fact(name, value) {
  return element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value }));
}

function panel() {
  const figure = () => element("figure", { className: "chart" }, element("figcaption"), element("div"));
  return element("article", { className: "forecast" }, element("h3"), element("p", { className: "hint" }), element("dl", { className: "answers" }), element("p", { className: "doubt" }), figure(), figure());
}

function showForecast(article, curve, ranges) {
  const { cost, targets, forecasts } = state.model;
  const { action, expected_cost: expected, quantiles, certificate } = curve.decision;
  const [title, trained, answers, doubt, ...figures] = article.children;
  const weight = forecasts.find(({ name }) => name === curve.forecast).decision_weight;
  const unit = cost.action_is_outcome ? cost.action_unit : "";
  title.textContent = curve.title;
  const sent = curve.forecast === "raw" ? "The forecast as it is typed" : "The forecast corrected by past errors";
  trained.textContent = state.model.corrects ? sent : weight ? "Trained to be accurate and to make cheap decisions" : "Trained to be accurate alone";
  answers.replaceChildren(
    fact(certificate.interior ? "Best action" : "Best action, at its bound", withUnit(action, cost.action_unit)),
    fact("Expected cost", withUnit(expected, cost.unit)),
    fact("Outcome, 10 to 90 %", `${shown(quantiles["0.1"])} to ${withUnit(quantiles["0.9"], unit)}`),
  );
  doubt.textContent = certificate.certified ? "" : "Not certified: this is the best of several hundred actions that were looked at; a better one may exist.";
  doubt.hidden = certificate.certified;
  const best = { x: action, kind: "action", text: `best action ${shown(action)}` };
  const outcome = state.outcome === null ? [] : [{ x: state.outcome, kind: "outcome", text: `outcome ${shown(state.outcome)}` }];
  const onScale = cost.action_is_outcome ? [best] : [];
  const [density, costs] = figures;
  density.firstChild.textContent = `Forecast of ${targets.join(", ")}${targets.length > 1 ? " taken together" : ""}${unit ? ` in ${unit}` : ""}, as a density`;
  drawChart(density.lastChild, {
    xs: curve.outcomes, ys: curve.density, range: ranges.density, filled: true, marks: [...onScale, ...outcome],
    label: `Density of the forecast; the middle is ${shown(quantiles["0.5"])}, 80 % lie between ${shown(quantiles["0.1"])} and ${shown(quantiles["0.9"])}`,
  });
  costs.firstChild.textContent = `Expected cost${cost.unit ? ` in ${cost.unit}` : ""} over the action${cost.action_unit ? ` in ${cost.action_unit}` : ""}`;
  drawChart(costs.lastChild, {
    xs: curve.actions, ys: curve.expected_costs, range: ranges.cost, yTicks: true, marks: [{ ...best, y: expected }],
    label: `Expected cost over the action; the least is ${shown(expected)} at ${shown(action)}`,
  });
}

function show() {
  if (!state.answer) return;
  const { curves } = state.answer;
  const all = (name) => curves.flatMap((curve) => curve[name]);
  const [least, most] = [Math.min(...all("expected_costs")), Math.max(...all("expected_costs"))];
  const ranges = { density: [0, Math.max(...all("density")) * 1.05], cost: [least > 0 && least < most / 4 ? 0 : least, most] };
  const host = by("forecasts");
  while (host.children.length > curves.length) host.lastChild.remove();
  while (host.children.length < curves.length) host.append(panel());
  curves.forEach((curve, place) => showForecast(host.children[place], curve, ranges));
  by("spoken").textContent = curves.map(({ title, decision }) => `${title}: best action ${shown(decision.action)}, expected cost ${shown(decision.expected_cost)}`).join("; ");
}

const update = latest(async () => {
  const forecasts = ["chosen", ...(by("compare").checked ? [by("other").value] : [])];
  const given = state.model.corrects ? typedForecast() : { features: state.features };
  if (!given) return;
  by("forecasts").ariaBusy = "true";
  const answer = await ask("v1/curve", { ...given, cost: state.parameters, forecasts, points: 201 });
  by("forecasts").ariaBusy = "false";
  by("forecasts").classList.toggle("stale", !answer);
  if (!answer) return;
  state.answer = answer;
  show();
});

// Coming decisions

/** Text in whatever encoding files have: by its mark, else UTF-8, else that of Windows. */
function decoded(bytes) {
  const marks = { "255,254": "utf-16le", "254,255": "utf-16be" };
  const encoding = marks[new Uint8Array(bytes.slice(0, 2)).join()];
  if (encoding) return new TextDecoder(encoding).decode(bytes);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

const ROWS_SHOWN = 200;

function noteTable(message, trouble) {
  by("table-note").textContent = message;
  by("table-note").classList.toggle("trouble", trouble);
}

function takeTable(found) {
  state.table = found;
  for (const id of ["decisions", "download"]) by(id).hidden = !found;
}

const decideTable = latest(async () => {
  noteTable("Deciding.", false);
  const found = await ask("v1/table", { csv: state.csv, cost: state.parameters }, (message) => noteTable(message, true));
  takeTable(found);
  if (!found) return;
  const shownRows = found.rows.slice(0, ROWS_SHOWN);
  const cell = (value) => (typeof value === "number" ? shown(value) : typeof value === "boolean" ? (value ? "yes" : "no") : readable(value ?? "–"));
  const numeric = (value) => (typeof value === "number" ? "number" : "");
  const { unit, action_unit: actionUnit } = state.model.cost;
  const units = { action: actionUnit, expected_cost: unit };
  const head = (name, value) => [name.replaceAll("_", " "), /T.*Z$/.test(value) ? "UTC" : units[name]].filter(Boolean).join(", ");
  const heads = found.columns.map((name, place) => element("th", { scope: "col", className: numeric(found.rows[0][place]), textContent: head(name, found.rows[0][place]) }));
  by("decisions").querySelector("thead").replaceChildren(element("tr", {}, ...heads));
  by("decisions").querySelector("tbody").replaceChildren(
    ...shownRows.map((row) => element("tr", {}, ...row.map((value) => element("td", { className: numeric(value), textContent: cell(value) })))),
  );
  const more = found.rows.length > ROWS_SHOWN ? `The first ${ROWS_SHOWN} are shown; the file has all.` : "";
  const count = found.rows.length === 1 ? "1 decision" : `${found.rows.length} decisions`;
  noteTable([`${count} for ${found.cost}.`, more, ...found.notes.map((note) => `${note}.`)].filter(Boolean).join(" "), false);
});

function save() {
  const quoted = (value) => (/[",\n]/.test(value ?? "") ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  const lines = [state.table.columns, ...state.table.rows].map((row) => row.map(quoted).join(","));
  const link = element("a", { download: "decisions.csv", href: URL.createObjectURL(new Blob([lines.join("\n"), "\n"], { type: "text/csv" })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// The whole page

function showAbout() {
  const { cost, features, targets, forecasts, bundles, version } = state.model;
  const others = forecasts.filter(({ name }) => name !== "chosen");
  by("title").textContent = `Decisions about ${targets.join(", ")}`;
  document.title = `${by("title").textContent} · stakes`;
  by("subtitle").textContent = `The best action for each case, and how it moves with what a decision costs (${cost.text.split(":")[0].replaceAll("_", " ")}).`;
  by("other").replaceChildren(...others.map(({ name, title }) => element("option", { value: name, textContent: title })));
  for (const id of ["comparing", "other"]) by(id).hidden = !others.length;
  by("compare").checked = others.length > 0;
  by("reset").hidden = !cost.parameters.some((each) => each.slider);
  for (const id of ["section-case", "section-decision"]) by(id).hidden = Boolean(state.model.corrects) && targets.length > 1; // too much to type
  by("section-table").hidden = by("link-table").hidden = !state.model.takes_tables;
  by("columns").textContent = `Its columns, in any order: ${state.model.table_columns.join(", ")}.`;
  by("cost").textContent = [cost.about && `The cost: ${cost.about}.`, by("reset").hidden ? "" : "Move a slider to decide for another cost."].filter(Boolean).join(" ");
  const told = [...(features.length ? [["Features", features.map(({ name }) => name).join(", ")]] : []), ["Cost of the fit", cost.text]];
  told.push(["Forecasts", forecasts.map(({ title, member_count: count }) => (count ? `${title}, ${count} members` : title)).join("; ")]);
  for (const bundle of bundles) {
    const paid = bundle.metrics.cost?.value;
    const parts = [bundle.reason, bundle.data && `${bundle.data.file}, ${bundle.data.rows} rows.`, paid != null && `Mean cost on the test cases ${withUnit(paid, cost.unit)}.`];
    told.push([bundle.name, [...parts, `Made ${bundle.created.slice(0, 16).replace("T", " ")} UTC by stakes ${bundle.versions.stakes}.`].filter(Boolean).join(" ")]);
  }
  by("about").replaceChildren(...[...told, ["Service", `stakes ${version}; openapi.json describes what programs can ask`]].map(([name, value]) => fact(name, value)));
}

async function start() {
  by("subtitle").textContent = "Loading.";
  state.model = await ask("v1/model");
  if (!state.model && by("sign-in").hidden) by("subtitle").textContent = "Nothing to show; load the page again when the service is there.";
  if (!state.model) return;
  state.cases = (await ask("v1/cases"))?.cases ?? [];
  by("sign-in").hidden = true;
  showAbout();
  showCases();
  showSliders();
  by("main").dataset.ready = "";
  dispatchEvent(new Event("scroll")); // the contents mark what is read
  if (state.cases.length) takeCase(state.cases.length - 1);
  else update();
}

by("case").addEventListener("change", () => takeCase(by("case").selectedIndex));
by("previous").addEventListener("click", () => takeCase(state.place - 1));
by("next").addEventListener("click", () => takeCase(state.place + 1));
for (const id of ["compare", "other"]) by(id).addEventListener("change", update);
by("reset").addEventListener("click", () => [showSliders(), update(), state.csv && decideTable()]);
by("file").addEventListener("change", async () => {
  const [file] = by("file").files;
  if (!file) return;
  const most = state.model.limits.max_body_mb;
  state.csv = file.size > most * 2 ** 20 ? null : decoded(await file.arrayBuffer());
  if (state.csv !== null) return decideTable();
  takeTable(null);
  noteTable(`${file.name} is too large: the service takes ${shown(most)} MiB at once.`, true);
});
by("file").addEventListener("click", () => (by("file").value = "")); // the same file, mended, may be chosen again
by("download").addEventListener("click", save);
by("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", by("token").value);
  start();
});
new ResizeObserver(show).observe(by("forecasts"));
if ("needsToken" in document.body.dataset && !sessionStorage.getItem("token")) signIn();
else start();
