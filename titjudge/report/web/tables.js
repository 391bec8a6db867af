// Tables are sorted by the headings of their columns.
function sortTables() {
  for (const button of document.querySelectorAll("button.sort")) button.addEventListener("click", () => sortBy(button.closest("th")));
}

function sortBy(heading) {
  const numeric = heading.classList.contains("num");
  const up = heading.getAttribute("aria-sort") === "descending" || (!numeric && !heading.hasAttribute("aria-sort"));
  for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const body = heading.closest("table").tBodies[0];
  const rows = [...body.rows].map((row) => [keyOf(row.cells[heading.cellIndex]), row]);
  rows.sort(([x], [y]) => {
    if (x === "–" || y === "–") return (x === "–") - (y === "–");
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
    return up ? order : -order;
  });
  body.append(...rows.map(([, row]) => row));
}

const keyOf = (cell) => (cell.dataset.sort === undefined ? cell.querySelector("a, span").textContent : Number(cell.dataset.sort));
