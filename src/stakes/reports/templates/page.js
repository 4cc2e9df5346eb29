"use strict";

/** Light or dark: what the system asks for, until the reader chooses. */
function enableTheme(button) {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const other = () => ((root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark" ? "light" : "dark");
  const label = () => {
    button.querySelector("[data-label]").textContent = other() === "dark" ? "Dark colours" : "Light colours";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = other();
    label();
  });
  system.addEventListener("change", label);
  button.hidden = false;
  label();
}

/** Compares two cells of a column; what is missing comes last whichever way one sorts. */
function compareCells(first, second, kind, sign) {
  const [a, b] = [first, second].map((cell) => cell.dataset.key ?? cell.textContent.trim());
  if (kind === "number") {
    const [x, y] = [a, b].map((key) => (key === "" ? NaN : Number(key)));
    if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
    return x === y ? 0 : sign * (x < y ? -1 : 1);
  }
  if (a === "" || b === "") return (a === "") - (b === "");
  return sign * a.localeCompare(b, undefined, { numeric: true });
}

function sortTable(table, header) {
  const body = table.tBodies[0];
  const descending = header.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const cell = (row) => row.cells[header.cellIndex];
  const compare = (a, b) => compareCells(cell(a), cell(b), header.dataset.kind, descending ? -1 : 1);
  body.append(...[...body.rows].sort(compare));
}

/** Turns the head of every column into a button that sorts by it. */
function enableSorting(table) {
  for (const header of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sortTable(table, header));
    header.append(button);
  }
}

/** Shows the rows of a table that contain what is typed. */
function enableSearch(input) {
  const body = document.getElementById(input.dataset.search).querySelector("table").tBodies[0];
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  input.closest("p").hidden = false;
}

/** Hands out the drawing in the page as a file, so that it need not be in the page twice. */
function enableDownload(link) {
  const drawing = document.getElementById(link.getAttribute("href").slice(1));
  link.download = link.dataset.download;
  link.addEventListener("click", () => {
    const file = new Blob([new XMLSerializer().serializeToString(drawing)], { type: "image/svg+xml" });
    link.href = URL.createObjectURL(file);
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  });
  link.hidden = false;
}

/** Opens what is folded while the page is printed. */
function enablePrinting() {
  let opened = [];
  matchMedia("print").addEventListener("change", ({ matches }) => {
    if (matches) opened = [...document.querySelectorAll("details:not([open])")];
    for (const details of opened) details.open = matches;
  });
}

/** Marks the section being read in the table of contents. */
function enableContents() {
  const links = [...document.querySelectorAll("nav a")];
  const sections = links.map((link) => document.getElementById(link.getAttribute("href").slice(1)));
  const mark = () => {
    const current = sections.findLastIndex((section) => section.getBoundingClientRect().top < innerHeight / 3);
    links.forEach((link, index) => link.setAttribute("aria-current", index === current));
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
}

document.querySelectorAll("[data-theme-toggle]").forEach(enableTheme);
document.querySelectorAll("[data-sortable]").forEach(enableSorting);
document.querySelectorAll("[data-search]").forEach(enableSearch);
document.querySelectorAll("[data-download]").forEach(enableDownload);
enablePrinting();
enableContents();
