const by = (id) => document.getElementById(id);
const readable = (label) => label.replace(/(\d)T(\d\d:\d\d)(:00)?Z?$/, "$1 $2");
const state = { model: null, cases: [], place: 0, features: {}, outcome: null, parameters: {}, answer: null, csv: null, table: null };

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
  const known = state.cases[place];
  state.place = place;
  by("case").selectedIndex = place;
  by("previous").disabled = place <= 0;
  by("next").disabled = place >= state.cases.length - 1;
  state.features = { ...known.features };
  state.outcome = state.model.cost.parts.length ? known.outcome : known.total;
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
  const what = { members: "Members, separated by commas", points: "Forecast, one number", quantiles: `Quantiles at ${levels?.join(", ")}, separated by commas` }[form];
  const field = (name, label, input) => {
    Object.assign(input, { name });
    input.dataset.field = name === "members" ? "members" : "known";
    input.addEventListener("input", update);
    return element("label", { className: name === "members" ? "field wide" : "field" }, element("span", { textContent: label }), input);
  };
  const labels = { time: "Time of the outcome in UTC", lead: "Hours ahead", site: "Site" };
  by("features").replaceChildren(
    field("members", what, element("textarea", { rows: 3, required: true })),
    ...known.map((name) => field(name, labels[name], element("input", { type: "text" }))),
    ...features.map((name) => field(name, name, element("input", { type: "number", step: "any" }))),
  );
  for (const time of by("features").querySelectorAll("[name=time]")) time.placeholder = "2026-01-31T12:00";
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
  const rounded = Number(value.toPrecision(scale === "log" ? 3 : Math.max(3, Math.ceil(digits))));
  return Math.min(Math.max(rounded, low), high); // beyond a range nothing is answered
}

function slider(parameter) {
  const range = element("input", { type: "range", min: 0, max: STEPS, id: `slider-${parameter.name}` });
  const exact = element("input", { type: "number", step: "any", required: true, ariaLabel: `${parameter.name}, exactly` });
  exact.dataset.field = `cost.${parameter.name}`;
  const take = (value) => {
    state.parameters[parameter.name] = value;
    range.ariaValueText = numberText(value);
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
  range.ariaValueText = numberText(parameter.value);
  state.parameters[parameter.name] = parameter.value;
  const column = parameter.column && `in a table the column ${parameter.column}`;
  const words = element("span", { textContent: [parameter.about, column].filter(Boolean).map((each) => `, ${each}`).join("") });
  const label = element("label", { htmlFor: range.id }, parameter.name.replaceAll("_", " "), words);
  return element("div", { className: "slider" }, label, range, exact);
}

function showSliders() {
  state.parameters = {};
  by("sliders").replaceChildren(...state.model.cost.parameters.filter((each) => each.slider).map(slider));
}

// The whole page

const MOST_LISTED = 12; // names in a line of text

/** Names that unfold. */
function folded(summary, names) {
  return element("details", { className: "names" }, element("summary", { textContent: summary }), element("ul", {}, ...names.map((name) => element("li", { textContent: name }))));
}

function showAbout() {
  const { cost, features, targets, forecasts, bundles, version } = state.model;
  const others = forecasts.filter(({ name }) => name !== "selected");
  by("title").textContent = `Decisions on ${targetsText(targets)}`;
  by("targets").replaceChildren(...(targets.length > MOST_NAMED ? [folded(`The ${targetsText(targets)}`, targets)] : []));
  document.title = `${by("title").textContent} · stakes`;
  by("subtitle").textContent = `The best action for each case, and how it changes with the cost (${cost.text.split(":")[0].replaceAll("_", " ")}).`;
  by("other").replaceChildren(...others.map(({ name, title }) => element("option", { value: name, textContent: title })));
  for (const id of ["comparing", "other"]) by(id).hidden = !others.length;
  by("compare").checked = others.length > 0;
  by("reset").hidden = !cost.parameters.some((each) => each.slider);
  const untyped = Boolean(state.model.corrects) && targets.length > 1; // too much to type
  for (const id of ["section-case", "link-case", "section-decision", "link-decision"]) by(id).hidden = untyped;
  by("untyped").hidden = !untyped;
  by("section-table").hidden = by("link-table").hidden = !state.model.takes_tables;
  const columns = state.model.table_columns;
  by("columns").replaceChildren(columns.length > MOST_LISTED ? folded(`Its ${countText(columns.length, "column")}, in any order`, columns) : `Its columns, in any order: ${columns.join(", ")}.`);
  by("cost").textContent = [cost.about && `The cost: ${cost.about}.`, by("reset").hidden ? "" : "Move a slider to decide for another cost."].filter(Boolean).join(" ");
  const warned = forecasts.find(({ name }) => name === "selected").warnings.map((each) => `${each}.`).join(" ");
  by("warnings").replaceChildren(...warned.split("`").map((text, place) => (place % 2 ? element("code", { textContent: text }) : text)));
  by("warnings").hidden = !by("warnings").textContent;
  const names = features.map(({ name }) => name);
  const told = [...(names.length ? [["Features", names.length > MOST_LISTED ? folded(countText(names.length, "feature"), names) : names.join(", ")]] : []), ["Cost", cost.text]];
  told.push(["Forecasts", forecasts.map(({ title, member_count: count }) => (count ? `${title}, ${countText(count, "member")}` : title)).join("; ")]);
  for (const bundle of bundles) {
    const paid = bundle.metrics.cost?.value;
    const parts = [bundle.reason, bundle.data && `${bundle.data.file}, ${countText(bundle.data.rows, "row")}.`, paid != null && `Mean cost on the test cases ${withUnit(paid, cost.unit)}.`];
    told.push([bundle.name, [...parts, `Made ${bundle.created.slice(0, 16).replace("T", " ")} UTC by stakes ${bundle.versions.stakes}.`].filter(Boolean).join(" ")]);
  }
  by("about").replaceChildren(...[...told, ["Service", `stakes ${version}; openapi.json describes its requests`]].map(([name, value]) => fact(name, value)));
}

async function start() {
  by("subtitle").textContent = "Loading.";
  state.model = await ask("v1/model");
  if (!state.model && by("sign-in").hidden) by("subtitle").textContent = "The service does not answer. Reload the page once it runs again.";
  if (!state.model) return;
  const kept = await ask("v1/cases");
  state.cases = kept?.cases ?? [];
  by("seen").textContent = kept?.about ?? "";
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
  noteTable(`${file.name} is too large: the service takes ${numberText(most)} MiB at once.`, true);
});
by("file").addEventListener("click", () => (by("file").value = "")); // the same file, mended, may be chosen again
by("download").addEventListener("click", save);
by("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", by("token").value);
  start();
});
if ("needsToken" in document.body.dataset && !sessionStorage.getItem("token")) signIn();
else start();
