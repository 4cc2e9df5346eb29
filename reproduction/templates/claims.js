function enableFilters(group) {
  const rows = [...document.querySelectorAll("[data-verdict]")];
  const buttons = [...group.querySelectorAll("[data-filter]")];
  const show = (verdict) => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.filter === verdict);
    for (const row of rows) row.hidden = verdict !== "" && row.dataset.verdict !== verdict;
    const shown = rows.filter((row) => !row.hidden).length;
    group.querySelector("[data-shown]").textContent = verdict ? `${shown} of ${rows.length} shown` : "";
  };
  for (const button of buttons) button.addEventListener("click", () => show(button.dataset.filter));
  group.hidden = false;
}

document.querySelectorAll("[data-filters]").forEach(enableFilters);
