// New decisions, for the rows of a table that is sent.

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

function takeTable(table) {
  state.table = table;
  for (const id of ["decisions", "decided", "download"]) by(id).hidden = !table;
}

/** The actions of the table over its times, rows or names, with the forecast behind them where both have one scale. */
function drawTable({ columns, rows }) {
  const figure = by("decided");
  const column = (name) => rows.map((row) => row[columns.indexOf(name)]);
  figure.hidden = rows.length < 2 || !columns.includes("action");
  if (figure.hidden) return;
  const { action_unit: unit, action_is_outcome: isOutcome } = state.model.cost;
  const cases = column(columns[0]);
  const times = cases.every((value) => /T.*Z$/.test(value));
  const xs = times ? cases.map((value) => Date.parse(value) / 1000) : cases.map((_, place) => place);
  const levels = columns.flatMap((name) => name.match(/^quantile_([\d.]+)$/)?.[1] ?? []);
  const [low, high] = [levels.at(0), levels.at(-1)];
  const band = () => ({ name: `forecast, ${numberText(100 * low)} to ${numberText(100 * high)} %`, kind: "blue band", low: column(`quantile_${low}`), high: column(`quantile_${high}`) });
  figure.firstChild.textContent = `The actions${inUnit(unit)}${isOutcome ? ", over the forecast" : ""}`;
  drawChart(figure.lastChild, {
    label: `The action of ${countText(rows.length, "decision")}`, steps: true, x: times ? "time (UTC)" : columns[0], xs, times,
    ...(times ? {} : { names: cases.map(String) }),
    lines: [{ name: "action", kind: "ink", values: column("action") }],
    bands: isOutcome && levels.length > 1 ? [band()] : [],
  });
}

const decideTable = latest(async () => {
  noteTable("Deciding.", false);
  const own = state.model.cost.parameters.filter((each) => each.column).map((each) => each.name); // each row has its own
  const cost = Object.fromEntries(Object.entries(state.parameters).filter(([name]) => !own.includes(name)));
  const table = await ask("v1/table", { csv: state.csv, cost }, (message) => noteTable(message, true));
  takeTable(table);
  if (!table) return;
  const shownRows = table.rows.slice(0, ROWS_SHOWN);
  const cell = (value) => (typeof value === "number" ? numberText(value) : typeof value === "boolean" ? (value ? "yes" : "no") : readable(value ?? "–"));
  const numeric = (value) => (typeof value === "number" ? "number" : "");
  const { unit, action_unit: actionUnit } = state.model.cost;
  const units = { action: actionUnit, expected_cost: unit, gap: unit };
  const head = (name, value) => [name.replaceAll("_", " "), /T.*Z$/.test(value) ? "UTC" : name.startsWith("action_") ? actionUnit : units[name]].filter(Boolean).join(", ");
  const heads = table.columns.map((name, place) => element("th", { scope: "col", className: numeric(table.rows[0][place]), textContent: head(name, table.rows[0][place]) }));
  by("decisions").querySelector("thead").replaceChildren(element("tr", {}, ...heads));
  by("decisions").querySelector("tbody").replaceChildren(
    ...shownRows.map((row) => element("tr", {}, ...row.map((value) => element("td", { className: numeric(value), textContent: cell(value) })))),
  );
  const more = table.rows.length > ROWS_SHOWN ? `The first ${ROWS_SHOWN} are shown; the file has all.` : "";
  by("decisions").classList.toggle("long", shownRows.length > 40);
  drawTable(table);
  noteTable([`${countText(table.rows.length, "decision")} for ${table.cost}.`, more, ...table.notes.map((note) => `${note}.`)].filter(Boolean).join(" "), false);
});

function save() {
  const quoted = (value) => (/[",\n]/.test(value ?? "") ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  const lines = [state.table.columns, ...state.table.rows].map((row) => row.map(quoted).join(","));
  const link = element("a", { download: "decisions.csv", href: URL.createObjectURL(new Blob([lines.join("\n"), "\n"], { type: "text/csv" })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
