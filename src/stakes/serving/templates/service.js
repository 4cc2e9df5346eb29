const by = (id) => document.getElementById(id);
const readable = (label) => label.replace(/(\d)T(\d\d:\d\d)(:00$)?/, "$1 $2");
const state = { model: null, cases: [], features: {}, outcome: null, parameters: {}, answer: null, csv: null, table: null };

function element(name, properties = {}, ...children) {
  const found = Object.assign(document.createElement(name), properties);
  found.append(...children);
  return found;
}

function complain(message) {
  by("trouble").textContent = message;
  by("trouble").hidden = !message;
}

/** The answer of the service, or null and a complaint; one question after the other. */
async function ask(path, body) {
  const token = sessionStorage.getItem("token");
  const headers = { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  try {
    const reply = await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
    const answer = await reply.json();
    if (reply.status === 401) signIn();
    complain(reply.ok ? "" : [answer.error.field, answer.error.message].filter(Boolean).join(": "));
    return reply.ok ? answer : null;
  } catch {
    complain("The service does not answer.");
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
  by("case").selectedIndex = -1;
  update();
}

function showCases() {
  by("case").replaceChildren(...state.cases.map(({ label }) => element("option", { textContent: readable(label) })));
  by("cases").hidden = !state.cases.length;
  by("typed").open = !state.cases.length;
  by("features").replaceChildren(
    ...state.model.features.map(({ name, typical }) => {
      state.features[name] = typical;
      const input = element("input", { type: "number", step: "any", name, value: Number(typical.toPrecision(7)) });
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
  return Number(value.toPrecision(3));
}

function slider(parameter) {
  const range = element("input", { type: "range", min: 0, max: STEPS, id: `slider-${parameter.name}` });
  const exact = element("input", { type: "number", step: "any", ariaLabel: `${parameter.name}, exactly` });
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
  const label = element("label", { htmlFor: range.id, textContent: parameter.name.replaceAll("_", " ") });
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
  return element("article", { className: "forecast" }, element("h3"), element("dl", { className: "answers" }), element("p", { className: "doubt" }), figure(), figure());
}

function showForecast(article, curve, ranges) {
  const { cost, targets } = state.model;
  const { action, expected_cost: expected, quantiles, certificate } = curve.decision;
  const [title, answers, doubt, ...figures] = article.children;
  title.textContent = curve.title;
  answers.replaceChildren(
    fact("Best action", withUnit(action, cost.action_unit)),
    fact("Expected cost", withUnit(expected, cost.unit)),
    fact("Outcome, 10 to 90 %", `${shown(quantiles["0.1"])} to ${shown(quantiles["0.9"])}`),
  );
  doubt.textContent = certificate.converged ? "" : "Not certified: this is the best action that was found.";
  doubt.hidden = certificate.converged;
  const best = { x: action, kind: "action", text: `best action ${shown(action)}` };
  const outcome = state.outcome === null ? [] : [{ x: state.outcome, kind: "outcome", text: `outcome ${shown(state.outcome)}` }];
  const onScale = cost.action_is_outcome ? [best] : [];
  const [density, costs] = figures;
  density.firstChild.textContent = `Forecast of ${targets.join(", ")}${targets.length > 1 ? " taken together" : ""}, as a density`;
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
  const answer = await ask("v1/curve", { features: state.features, cost: state.parameters, forecasts, points: 201 });
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
const decideTable = latest(async () => {
  by("table-note").textContent = "Deciding.";
  const found = await ask("v1/table", { csv: state.csv, cost: state.parameters });
  state.table = found;
  for (const id of ["decisions", "download"]) by(id).hidden = !found;
  by("table-note").textContent = found ? "" : "No decisions.";
  if (!found) return;
  const shownRows = found.rows.slice(0, ROWS_SHOWN);
  const cell = (value) => (typeof value === "number" ? shown(value) : typeof value === "boolean" ? (value ? "yes" : "no") : readable(value ?? "–"));
  const numeric = (value) => (typeof value === "number" ? "number" : "");
  const heads = found.columns.map((name, place) => element("th", { scope: "col", className: numeric(found.rows[0][place]), textContent: name.replaceAll("_", " ") }));
  by("decisions").querySelector("thead").replaceChildren(element("tr", {}, ...heads));
  by("decisions").querySelector("tbody").replaceChildren(
    ...shownRows.map((row) => element("tr", {}, ...row.map((value) => element("td", { className: numeric(value), textContent: cell(value) })))),
  );
  const more = found.rows.length > ROWS_SHOWN ? `The first ${ROWS_SHOWN} are shown; the file has all.` : "";
  by("table-note").textContent = [`${found.rows.length} decisions for ${found.cost}.`, more, ...found.notes].filter(Boolean).join(" ");
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
  by("section-table").hidden = !state.model.takes_tables;
  const told = [["Features", features.map(({ name }) => name).join(", ")], ["Cost of the fit", cost.text]];
  told.push(["Forecasts", forecasts.map(({ title, member_count: count }) => `${title}, ${count} members`).join("; ")]);
  for (const bundle of bundles) {
    const paid = bundle.metrics.cost?.value;
    const parts = [bundle.reason, bundle.data && `${bundle.data.file}, ${bundle.data.rows} rows.`, paid != null && `Mean cost on the test cases ${withUnit(paid, cost.unit)}.`];
    told.push([bundle.name, [...parts, `Made ${bundle.created} by stakes ${bundle.versions.stakes}.`].filter(Boolean).join(" ")]);
  }
  by("about").replaceChildren(...[...told, ["Service", `stakes ${version}; openapi.json describes what programs can ask`]].map(([name, value]) => fact(name, value)));
}

async function start() {
  state.model = await ask("v1/model");
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
by("previous").addEventListener("click", () => takeCase(by("case").selectedIndex - 1));
by("next").addEventListener("click", () => takeCase(by("case").selectedIndex + 1));
for (const id of ["compare", "other"]) by(id).addEventListener("change", update);
by("reset").addEventListener("click", () => [showSliders(), update(), state.csv && decideTable()]);
by("file").addEventListener("change", async () => {
  if (!by("file").files.length) return;
  state.csv = decoded(await by("file").files[0].arrayBuffer());
  decideTable();
});
by("download").addEventListener("click", save);
by("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", by("token").value);
  start();
});
new ResizeObserver(show).observe(by("forecasts"));
if ("needsToken" in document.body.dataset && !sessionStorage.getItem("token")) signIn();
else start();
