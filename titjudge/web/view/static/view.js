"use strict";
// The list of runs. What one chooses (columns, order, filters) is kept in this browser.

const COLUMNS = {
  run: { title: "Run", by: (run) => run.id, write: nameCell },
  status: { title: "Status", by: (run) => run.status, write: statusCell },
  verdict: { title: "Verdict", by: (run) => run.verdict[0] ?? "", write: verdictCell },
  scores: { title: "Scores", by: (run) => run.means[0]?.[1] ?? null, write: scoresCell },
  coverage: { title: "Scored", by: (run) => run.coverage, write: (cell, run) => plain(cell, percent(run.coverage)), number: true },
  cost: { title: "Cost", by: (run) => run.spent, write: (cell, run) => plain(cell, cost(run)), number: true },
  time: { title: "Time", by: (run) => (run.status === "running" ? run.seconds_left : run.updated - run.started), write: (cell, run) => plain(cell, time(run)), number: true },
  updated: { title: "Written", by: (run) => run.updated, write: (cell, run) => plain(cell, ago(run.updated)), number: true },
  images: { title: "Images", by: (run) => run.items, write: (cell, run) => plain(cell, count(run.items)), number: true },
  failed: { title: "Without a score", by: (run) => run.failed, write: (cell, run) => plain(cell, count(run.failed)), number: true },
  errors: { title: "Errors met", by: (run) => run.errors, write: (cell, run) => plain(cell, count(run.errors)), number: true },
  metric: { title: "Metrics", by: (run) => run.metrics.join(), write: (cell, run) => plain(cell, run.metrics.join(", ")) },
  models: { title: "Models", by: (run) => run.models.join(), write: (cell, run) => plain(cell, run.models.join(", ")) },
  suite: { title: "Data", by: (run) => run.suite, write: (cell, run) => plain(cell, run.suite) },
};
const USUAL = ["run", "status", "verdict", "scores", "coverage", "cost", "time", "updated"];
const MEANS = 4;  // generators of a run whose means are shown
const KEPT = "titjudge runs";

const rows = new Map();   // run id -> table row
const ticked = [];        // ids of at most two runs, the first ticked first
let runs = [];
let chosen = { columns: USUAL, order: "", down: true, hide: false, ...kept() };

function kept() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEPT)) ?? {};
    if (stored.columns) stored.columns = stored.columns.filter((id) => id in COLUMNS);
    if (!(stored.order in COLUMNS)) stored.order = "";
    return stored;
  } catch {
    return {};
  }
}

function choose(changes) {
  chosen = { ...chosen, ...changes };
  localStorage.setItem(KEPT, JSON.stringify(chosen));
  heads();
  list();
}

// -- cells -------------------------------------------------------------------------------------------------------------

function plain(cell, text) {
  write(cell, text);
  cell.title = text;
}

function nameCell(cell, run) {
  const [box, link] = cell.children.length ? cell.children : fresh(cell, run);
  box.checked = ticked.includes(run.id);
  write(link, run.id);
  link.title = run.id;
  link.href = `report.html#${key}/${run.href}`;
}

function fresh(cell, run) {
  const box = made("input", "tick");
  box.type = "checkbox";
  box.setAttribute("aria-label", `Compare ${run.id}`);
  box.addEventListener("change", () => tick(run.id, box.checked));
  cell.append(box, made("a", "name"));
  return cell.children;
}

function statusCell(cell, run) {
  if (!cell.children.length) cell.append(made("a", "state"), made("progress"));
  const [link, bar] = cell.children;
  const errors = run.status === "running" && run.errors ? `, ${count(run.errors)} ${run.errors === 1 ? "error" : "errors"} met` : "";
  const waits = run.status === "running" ? run.waits.map((line) => `; ${line}`).join("") : "";
  write(link, run.judged_nothing ? `nothing judged: ${run.status}` : run.status + errors + waits);
  link.href = `report.html#${key}/${run.href}`;
  const scored = run.metrics.map((metric) => `${metric} ${count(run.scored_by[metric] ?? 0)}`).join(", ");
  link.title = [link.textContent, scored && `scored: ${scored}`, run.trouble && `last error: ${run.trouble}`, run.problem, ...run.advice].filter(Boolean).join("\n");
  bar.hidden = run.status !== "running" || run.total === null;
  bar.max = Math.max(run.total ?? 1, 1);
  bar.value = Math.min(run.scored + run.failed, bar.max);
  bar.setAttribute("aria-label", `Progress of ${run.id}`);
}

function scoresCell(cell, run) {
  const one = ([generator, mean]) => `${generator in run.ranks ? `${run.ranks[generator]}: ` : ""}${generator} ${score(mean)}`.trim();
  const text = run.means.map(one).join(" · ");
  if (cell.title === text) return;
  cell.title = text;
  const more = run.means.length - MEANS;
  const separator = (place) => place + 1 < run.means.length ? " ·" : "";
  cell.replaceChildren(...run.means.slice(0, MEANS).flatMap((named, place) => [
    made(place || run.means.length < 2 || !run.leader ? "span" : "b", "", one(named) + separator(place)), " ",
  ]), more > 0 ? `${more} more` : "");
}

function verdictCell(cell, run) {
  write(cell, run.brief);
  cell.title = run.verdict.join("\n");
}

function ago(seconds) {
  if (seconds === null) return "–";
  const date = new Date(seconds * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return today ? date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }) : date.toISOString().slice(0, 10);
}

// -- two runs ----------------------------------------------------------------------------------------------------------

function tick(id, on) {
  if (on) ticked.push(id);
  else ticked.splice(ticked.indexOf(id), 1);
  if (ticked.length > 2) ticked.shift();
  list();
}

function comparison() {
  const two = ticked.map((id) => runs.find((run) => run.id === id)?.href);
  const link = $("compare");
  link.setAttribute("aria-disabled", String(two.length !== 2));
  link.title = two.length === 2 ? `${ticked[0]} against ${ticked[1]}` : "Tick two runs";
  if (two.length === 2) link.href = `report.html#${key}/${two.join("&")}`;
  else link.removeAttribute("href");
}

// -- the list ----------------------------------------------------------------------------------------------------------

const shown = () => Object.keys(COLUMNS).filter((id) => chosen.columns.includes(id) && (id !== "verdict" || runs.some((run) => run.verdict.length)));

function heads() {
  const columns = shown();
  $("heads").replaceChildren(...columns.map((id) => {
    const head = made("th", `${id}${COLUMNS[id].number ? " number" : ""}`);
    const button = made("button", "", COLUMNS[id].title);
    button.type = "button";
    button.addEventListener("click", () => choose({ order: id, down: chosen.order === id ? !chosen.down : Boolean(COLUMNS[id].number) }));
    if (chosen.order === id) head.setAttribute("aria-sort", chosen.down ? "descending" : "ascending");
    head.append(button);
    return head;
  }));
  $("columns").replaceChildren($("columns").firstElementChild, ...Object.entries(COLUMNS).filter(([id]) => id !== "run").map(([id, { title }]) => {
    const label = made("label"), box = made("input");
    box.type = "checkbox";
    box.checked = chosen.columns.includes(id);
    box.addEventListener("change", () => choose({ columns: box.checked ? [...chosen.columns, id] : chosen.columns.filter((one) => one !== id) }));
    label.append(box, ` ${title}`);
    return label;
  }));
}

function matches(run) {
  if (chosen.hide && run.judged_nothing) return false;
  const state = $("state").value;
  if (state && kind(run) !== state && !(state === "trouble" && run.judged_nothing)) return false;
  const text = [run.id, run.status, run.suite, ...run.verdict, ...run.metrics, ...run.models, ...run.means.map(([generator]) => generator)].join(" ").toLowerCase();
  return $("search").value.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function ordered(listed) {
  if (!chosen.order) return listed;
  const { by } = COLUMNS[chosen.order], sign = chosen.down ? -1 : 1;
  const known = (value) => value !== null && value !== "" && !Number.isNaN(value);
  return listed.toSorted((one, other) => {
    const [a, b] = [by(one), by(other)];
    if (!known(a) || !known(b)) return known(b) - known(a);
    return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
  });
}

function fill(row, run, columns) {
  row.dataset.state = kind(run);
  if (row.dataset.columns !== columns.join()) {
    row.dataset.columns = columns.join();
    row.replaceChildren(...columns.map((id) => {
      const cell = made("td", `${id}${COLUMNS[id].number ? " number" : ""}`);
      cell.dataset.title = COLUMNS[id].title;
      return cell;
    }));
  }
  columns.forEach((id, place) => COLUMNS[id].write(row.children[place], run));
}

function list() {
  const listed = ordered(runs.filter(matches)), columns = shown();
  const present = new Set(listed.map((run) => run.id));
  for (const [id, row] of rows) {
    if (!present.has(id)) {
      row.remove();
      rows.delete(id);
    }
  }
  listed.forEach((run, place) => {
    let row = rows.get(run.id);
    if (!row) rows.set(run.id, row = made("tr"));
    fill(row, run, columns);
    if ($("rows").children[place] !== row) $("rows").insertBefore(row, $("rows").children[place] ?? null);
  });
  comparison();
  $("runs").hidden = listed.length === 0;
  $("empty").hidden = listed.length > 0;
  write($("empty"), runs.length ? "No run matches." : "No run yet. The page updates by itself.");
}

function show(answer) {
  const verdicts = runs.some((run) => run.verdict.length);
  runs = answer.runs;
  $("root").textContent = answer.root === "runs" ? "" : answer.root;
  const going = runs.filter((run) => run.status === "running").length;
  const nothing = runs.filter((run) => run.judged_nothing).length;
  const spent = runs.reduce((total, run) => total + (run.spent ?? 0), 0);
  const unpriced = runs.reduce((total, run) => total + run.unpriced, 0);
  write($("summary"), `${count(runs.length)} in all, ${count(going)} running, ${sum(spent, unpriced)} spent`);
  document.title = going ? `${going} running · Runs` : "Runs";
  $("tools").hidden = runs.length === 0;
  $("nothing-label").hidden = nothing === 0;
  write($("nothing-label").lastElementChild, `Hide ${count(nothing)} that judged nothing`);
  for (const id of ticked.filter((id) => !runs.some((run) => run.id === id))) ticked.splice(ticked.indexOf(id), 1);
  if (!$("heads").children.length || verdicts !== runs.some((run) => run.verdict.length)) heads();
  list();
}

$("tools").addEventListener("submit", (event) => event.preventDefault());
$("search").addEventListener("input", list);
$("state").addEventListener("change", list);
$("nothing").checked = chosen.hide;
$("nothing").addEventListener("change", () => choose({ hide: $("nothing").checked }));
poll(() => "api/runs", show);
