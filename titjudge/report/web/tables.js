// Tables that can be sorted by their columns, and bars of intervals.
function drawTable(table, level = "h2") {
  const heading = h(level, null, outside(table.title));
  const parts = [heading];
  if (!table.rows.length) {
    parts.push(h("p.plain", null, table.empty || "Nothing to show."));
  } else {
    const body = h("tbody");
    fill(body, table, table.rows);
    const head = h("tr", null, table.columns.map((name, at) => heading_(table, body, name, at)));
    parts.push(h("div.wide-table", { tabindex: "0", role: "region", "aria-label": table.title },
      h("table", null, h("caption.away", null, table.title), h("thead", null, head), body)));
  }
  const notes = (table.notes || []).map((note) => h("p.note", null, outside(note, "span")));
  const told = notes.length > 2 ? h("details", null, h("summary", null, "How to read this"), notes) : notes;
  if (table.folded) return h("details.block.folded", null, h("summary", null, heading), parts.slice(1), told);
  return h("section.block", null, parts, told);
}

function heading_(table, body, name, at) {
  const cell = h("th", { scope: "col", class: at < table.text ? null : "num" });
  const button = h("button.sort", {
    type: "button",
    click: () => {
      const up = cell.getAttribute("aria-sort") === "descending" || (at < table.text && !cell.hasAttribute("aria-sort"));
      for (const other of cell.parentNode.children) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", up ? "ascending" : "descending");
      fill(body, table, sorted(table.rows, at, up));
    },
  }, outside(name, "span"));
  cell.append(button);
  return cell;
}

function sorted(rows, at, up) {
  const key = (row) => (typeof row[at] === "object" ? row[at].v ?? row[at].t : row[at]);
  return [...rows].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    const [noX, noY] = [x === "–", y === "–"];
    if (noX || noY) return noX - noY;
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
    return up ? order : -order;
  });
}

function fill(body, table, rows) {
  const spans = spansOf(table);
  body.replaceChildren(...rows.map((row) => h("tr", null, row.map((cell, at) => drawCell(cell, at, table.text, spans[at])))));
}

/** Return the common axis of the bars of each column. */
function spansOf(table) {
  return table.columns.map((_, at) => {
    const bars = table.rows.map((row) => row[at] && row[at].b).filter(Boolean).flat();
    if (!bars.length) return null;
    const low = Math.min(...bars, ...(table.span || []));
    const high = Math.max(...bars, ...(table.span || []));
    return high > low ? [low, high] : null;
  });
}

function drawCell(cell, at, textColumns, span) {
  const about = typeof cell === "object" ? cell : { t: cell };
  const main = about.h ? h("a", { href: about.h.startsWith("#") ? about.h : null }, outside(about.t)) : outside(about.t, "span");
  const content = [main, about.s ? outside(about.s, "small") : null];
  const drawn = span ? [h("div.with-bar", null, h("div", null, content), about.b ? interval(about.b, span) : h("span.bar"))] : content;
  return at === 0 ? h("th", { scope: "row" }, drawn) : h("td", { class: at < textColumns ? null : "num" }, drawn);
}

function interval([low, middle, high], [from, to]) {
  const x = (value) => (4 + (92 * (value - from)) / (to - from)).toFixed(2);
  return svg("svg", { class: "bar", viewBox: "0 0 100 12", "aria-hidden": "true", focusable: "false" },
    svg("line", { class: "axis", x1: 4, x2: 96, y1: 6, y2: 6 }),
    svg("line", { class: "reach", x1: x(low), x2: x(high), y1: 6, y2: 6 }),
    svg("circle", { class: "dot", cx: x(middle), cy: 6, r: 3.2 }));
}
