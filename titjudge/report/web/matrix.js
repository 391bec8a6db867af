// The matrix: prompts down, generators (of several runs: each with its run) across.
const MATRIX_FIELDS = ["q", "a", "b", "m", "s", "c", "o"];
const CELL_PICTURES = 4;
const NATURAL = (x, y) => x.localeCompare(y, undefined, { numeric: true });

let columnList = null;
/** Return the columns {run, g, label}: generators in natural order, those of each run together. */
function columns() {
  if (columnList) return columnList;
  const byName = new Map();
  for (const item of data.items) {
    if (item.p === undefined) continue;
    for (const run of item.rn || data.runs.keys()) byName.set(run + "\n" + item.g, { run, g: item.g });
  }
  columnList = [...byName.values()].sort((x, y) => x.run - y.run || NATURAL(x.g, y.g));
  for (const column of columnList) column.label = labelOf(column, columnList);
  return columnList;
}

function labelOf({ run, g }, all) {
  if (data.runs.length === 1) return g || "no generator";
  const alone = all.filter((one) => one.run === run).length === 1;
  return alone || !g ? data.runs[run] : `${g} · ${data.runs[run]}`;
}

const columnNamed = (label) => columns().findIndex((column) => column.label === label);
const matrixMetrics = () => [...new Set(data.judges.map((judge) => judge.metric))];
const judgeIn = (column, metric) => data.judges.findIndex((judge) => judge.run === column.run && judge.metric === metric);

/** Return the images of a prompt in each column; a cell has several where there are several images of a prompt. */
function cellsOf(prompt) {
  prompt.cells ??= columns().map(({ run, g }) => prompt.items.filter((item) => item.g === g && (item.rn || [run]).includes(run)));
  return prompt.cells;
}

const valueIn = (item, judge) => (item.s[judge] && item.s[judge].v !== null ? item.s[judge].v : null);
const meanOf = (values) => (values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : null);
const cellValue = (items, judge) => (judge < 0 ? null : meanOf(items.map((item) => valueIn(item, judge)).filter((value) => value !== null)));

/** Return by how much a prompt's image in column `b` is better than that in `a`; null where one has no score. */
function gapBetween(prompt, a, b, metric) {
  const [x, y] = [a, b].map((index) => cellValue(cellsOf(prompt)[index], judgeIn(columns()[index], metric)));
  if (x === null || y === null) return null;
  return data.judges[judgeIn(columns()[a], metric)].higher ? y - x : x - y;
}

const failures = (prompt, metric) => cellsOf(prompt).filter((items, index) => items.length && items.some((item) => valueIn(item, judgeIn(columns()[index], metric)) === null)).length;

/** Return how far the metrics disagree at most on one image of a prompt: by the share of images that each finds worse. */
function disagreement(prompt) {
  const spreads = prompt.items.map((item) => item.s.map((score, judge) => (score && score.v !== null ? rankShare(judge, score.v) : null)).filter((one) => one !== null))
    .filter((shares) => shares.length > 1).map((shares) => Math.max(...shares) - Math.min(...shares));
  return spreads.length ? Math.max(...spreads) : null;
}

/** Say in one line why an image has its score: in the words of the metric, else of another metric of the run. */
function reasonOf(item, judge) {
  const score = item.s[judge];
  if (item.bad) return item.bad;
  const reason = score ? saidBy(score) : "";
  if (reason || (score && score.v === null)) return reason;
  const other = item.s.findIndex((one, index) => one && data.judges[index].run === data.judges[judge]?.run && saidBy(one));
  return other < 0 ? "" : `${data.judges[other].metric}: ${saidBy(item.s[other])}`;
}

function saidBy(score) {
  if (score.r !== undefined) return text(score.r);
  const [kind, detail] = score.co?.length ? ["contradicted", score.co[0]] : ["missing", score.mi?.[0]];
  return detail ? `${kind}: ${detail}` : "";
}

/** Draw a cell: the pictures of one prompt by one generator, their score, and the reason of the one with the lowest. */
function matrixCell(items, judge, name, enlarged) {
  if (!items.length) return h("div.cell.empty", { role: "img", "aria-label": `${name}: no image` }, "–");
  const scored = items.filter((item) => valueIn(item, judge) !== null);
  const worst = scored.reduce((low, item) => (low && (valueIn(low, judge) <= valueIn(item, judge)) === data.judges[judge].higher ? low : item), null) || items[0];
  const mean = cellValue(items, judge);
  const reason = reasonOf(worst, judge);
  return h("div.cell", null,
    h("button.cell-pictures" + (items.length > 1 ? ".several" : ""), { type: "button", "aria-label": `${name}: show large`, click: enlarged },
      items.slice(0, CELL_PICTURES).map((item) => picture(item, ""))),
    h("p.cell-score", null, mean === null ? h("span.status-bad", null, statusName(worst.bad ? "bad_input" : worst.s[judge]?.st ?? "missing")) : h("strong", null, shown(mean, judge)),
      items.length > 1 ? h("small", null, `${scored.length === items.length ? "" : `${scored.length} of `}${items.length} images`) : null),
    h("p.cell-reason", { title: reason || null, dir: "auto" }, shorten(reason, 160)));
}

class MatrixView {
  constructor() {
    this.about = { name: "matrix" };
    this.root = $("#view-matrix");
    this.form = $(".filters", this.root);
    this.marks = new Marks(data.marks);
    this.shown = [];
    this.key = null;
    this.list = new VirtualList($(".scroller", this.root), (index) => this.row(index));
    this.closeup = new Closeup(this);
    this.fillOptions();
    let timer = 0;
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", (event) => {
      clearTimeout(timer);
      timer = setTimeout(() => this.change(), event.target.name === "q" ? 140 : 0);
    });
    $("[name=annotator]", this.root).value = this.annotator;
    $("[name=annotator]", this.root).addEventListener("input", (event) => { this.annotator = event.target.value; });
    $(".export-votes", this.root).addEventListener("click", () => download("votes.jsonl", Marks.lines(this.marks.votes, this.annotator || "reader")));
    $(".export-marks", this.root).addEventListener("click", () => download("marks.jsonl", Marks.lines(this.marks.all, this.annotator || "reader")));
    this.showMarks();
  }

  get annotator() {
    try { return localStorage.getItem("titjudge-annotator") || ""; } catch { return ""; }
  }

  set annotator(name) {
    try { localStorage.setItem("titjudge-annotator", name.trim()); } catch { this.marks.kept = false; }
  }

  fillOptions() {
    const named = columns().map(({ label }) => [label, shorten(label, 60)]);
    const themes = Object.entries(data.themes).map(([name, values]) => [name, [...new Set(Object.values(values))].sort(NATURAL).map((value) => [`${name}=${value}`, shorten(value, 60)])]);
    const options = {
      a: named,
      b: named,
      m: matrixMetrics().map((metric) => [metric, metric]),
      s: [["", "all prompts"], ["lost", "B lost"], ["won", "B won"], ["equal", "equal scores"], ["failed", "an image has no score"], ["marked", "marked"], ["wrong", "the judge is wrong"], ["interesting", "interesting"]],
      c: [["", "all"], ...themes],
      o: [["", "B lost most first"], ["won", "B won most first"], ["low", "mean score, lowest first"], ...(matrixMetrics().length > 1 ? [["odd", "metrics disagree most"]] : []), ["failed", "failures first"], ["data", "as in the data"]],
    };
    for (const [name, choices] of Object.entries(options)) {
      const select = this.form.elements[name];
      select.replaceChildren(...choices.map(([value, label]) => (Array.isArray(label)
        ? h("optgroup", { label: value.replaceAll("_", " ") }, label.map(([one, said]) => h("option", { value: one }, said)))
        : h("option", { value }, label))));
      select.closest("label").hidden = choices.length < 2;
    }
  }

  /** What is compared when nothing is chosen: as the verdict has it, else the first column with the last. */
  get usual() {
    const named = (name, without) => columns().findIndex((column, index) => name !== undefined && column.g === name && index !== without);
    const a = Math.max(0, named(data.first.a));
    const b = named(data.first.b, a);
    const others = columns().map((_, index) => index).filter((index) => index !== a);
    return { a: columns()[a].label, b: columns()[b < 0 ? others[others.length - 1] : b].label, m: data.first.m };
  }

  change() {
    const filters = {};
    for (const name of MATRIX_FIELDS) filters[name] = this.form.elements[name].value;
    go(place("matrix", filters));
  }

  /** Show the state of the address. */
  enter(query) {
    const filters = {};
    for (const name of MATRIX_FIELDS) {
      const field = this.form.elements[name];
      const value = query.get(name) ?? this.usual[name] ?? "";
      if (field !== document.activeElement || field.value !== value) field.value = value;
      if (field.tagName === "SELECT" && field.selectedIndex < 0) field.value = this.usual[name] ?? "";
      filters[name] = field.value;
    }
    const key = JSON.stringify(filters);
    if (key !== this.key) {
      this.key = key;
      this.filters = filters;
      this.order = this.columnOrder();
      this.drawHead();
      this.refresh();
      this.list.scroller.scrollTop = 0;
    }
    const asked = query.has("p") ? prompts().findIndex((prompt) => prompt.name === query.get("p")) : Number(query.get("i") ?? -1);
    const right = columnNamed(query.get("g"));
    if (right >= 0) this.closeup.right = right;
    if (prompts()[asked]) this.closeup.open(asked);
    else this.closeup.close();
  }

  get a() { return columnNamed(this.filters.a); }
  get b() { return columnNamed(this.filters.b); }
  get metric() { return this.filters.m; }

  /** A and B stand first, so that they are seen together on a small screen too. */
  columnOrder() {
    return [...new Set([this.a, this.b, ...columns().keys()])];
  }

  drawHead() {
    const head = $(".columns", this.root);
    this.list.scroller.style.setProperty("--columns", this.order.length);
    this.list.scroller.classList.toggle("few", this.order.length < 4);
    head.replaceChildren(h("div.matrix-prompt", null, "Prompt"), ...this.order.map((index) => h("div", null,
      index === this.a ? h("b.tag", null, "A") : index === this.b ? h("b.tag", null, "B") : null, outside(columns()[index].label))));
  }

  /** Filter and sort again, and draw the rows. */
  refresh() {
    this.shown = this.select();
    this.list.show(this.shown, -1);
    const all = prompts().length;
    const lost = this.shown.filter((index) => this.gap(index) < 0).length;
    const won = this.shown.filter((index) => this.gap(index) > 0).length;
    $(".found", this.root).textContent = `${this.shown.length === all ? "" : `${number(this.shown.length)} of `}${number(all)} prompts: B won ${number(won)}, lost ${number(lost)}`;
  }

  gap(index) {
    return gapBetween(prompts()[index], this.a, this.b, this.metric);
  }

  select() {
    const { q, s, c, o } = this.filters;
    const searched = searchWords(this.filters);
    const [column, value] = [c.slice(0, c.indexOf("=")), c.slice(c.indexOf("=") + 1)];
    const rows = prompts().map((prompt, index) => ({ prompt, index, gap: this.gap(index) })).filter((row) =>
      this.passes(row, s) && (!c || data.themes[column]?.[row.prompt.items[0].grp || row.prompt.items[0].id] === value)
      && (!q || searched.every((word) => row.prompt.items.some((item) => mentions(item, word)))));
    const keys = {
      "": (row) => row.gap,
      won: (row) => (row.gap === null ? null : -row.gap),
      low: ({ prompt }) => { const mean = meanOf(cellsOf(prompt).map((items, index) => cellValue(items, judgeIn(columns()[index], this.metric))).filter((one) => one !== null)); return mean === null || data.judges.find((judge) => judge.metric === this.metric).higher ? mean : -mean; },
      odd: ({ prompt }) => { const far = disagreement(prompt); return far === null ? null : -far; },
      failed: ({ prompt }) => -failures(prompt, this.metric),
      data: ({ index }) => index,
    };
    for (const row of rows) row.key = keys[o](row);
    return rows.sort((x, y) => (x.key === null) - (y.key === null) || x.key - y.key || x.index - y.index).map(({ index }) => index);
  }

  passes({ prompt, gap }, filter) {
    const marked = () => this.marksOf(prompt);
    switch (filter) {
      case "lost": return gap !== null && gap < 0;
      case "won": return gap !== null && gap > 0;
      case "equal": return gap === 0;
      case "failed": return failures(prompt, this.metric) > 0;
      case "marked": return marked().length > 0;
      case "wrong": return marked().some(({ a, b, mark }) => this.isWrong(a, b, mark.choice));
      case "interesting": return marked().some(({ mark }) => mark.interesting);
      default: return true;
    }
  }

  /** Return the marks on any two images of a prompt, with the columns of the images. */
  marksOf(prompt) {
    if (!this.marks.all.length) return [];
    const placed = cellsOf(prompt).flatMap((items, column) => items.map((item) => ({ item, column })));
    const marked = [];
    placed.forEach((a, index) => placed.slice(index + 1).forEach((b) => {
      if (a.item === b.item) return;
      const mark = this.marks.get(a.item, b.item);
      if (mark.choice || mark.interesting || mark.word) marked.push({ a, b, mark });
    }));
    return marked;
  }

  /** Return what the metric prefers of two images {item, column}: a, b, tie, or null where one has no score. */
  judged(a, b) {
    const [x, y] = [a, b].map(({ item, column }) => valueIn(item, judgeIn(columns()[column], this.metric)));
    if (x === null || y === null) return null;
    const gap = data.judges[judgeIn(columns()[a.column], this.metric)].higher ? x - y : y - x;
    return gap > 0 ? "a" : gap < 0 ? "b" : "tie";
  }

  isWrong(a, b, choice) {
    const said = this.judged(a, b);
    return said !== null && (choice === "a" || choice === "b") && choice !== said;
  }

  row(index) {
    const prompt = prompts()[index];
    const gap = this.gap(index);
    const cells = cellsOf(prompt);
    const digits = data.judges[judgeIn(columns()[this.a], this.metric)]?.digits ?? 1;
    const marked = this.marksOf(prompt);
    this.loadSoon(prompt);
    return h("div.matrix-row", null,
      h("div.matrix-prompt", null, prompt.items[0]?.src ? sourcePicture(prompt.items[0], 0, "Source", ".row-source") : null,
        h("a", { href: place("prompts", { i: index }), title: text(prompt.p).length > 200 ? text(prompt.p).slice(0, 2000) : null }, outside(shorten(text(prompt.p), 420), "span")),
        gap === null ? null : h("p.gap" + (gap > 0 ? ".agree" : gap < 0 ? ".disagree" : ""), null, `B − A ${gap > 0 ? "+" : ""}${gap.toFixed(digits).replace("-", "−")}`),
        marked.slice(0, 2).map(({ a, b, mark }) => h("p.a-mark", null, this.isWrong(a, b, mark.choice) ? "judge is wrong" : mark.choice ? "voted" : mark.interesting ? "interesting" : "", mark.word ? [" ", outside(mark.word)] : null))),
      this.order.map((column) => matrixCell(cells[column], judgeIn(columns()[column], this.metric), columns()[column].label,
        () => { this.closeup.right = column === this.a ? this.b : column; this.step(index); })));
  }

  /** Load the reasons of a prompt when the list has come to rest with it in view, and draw again. */
  loadSoon(prompt) {
    if (!prompt.items.some((item) => item.c !== undefined)) return;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      const inView = [...this.list.made.keys()].map((index) => this.shown[index]).filter((index) => prompts()[index].items.some((item) => item.c !== undefined));
      whole(inView.flatMap((index) => prompts()[index].items))?.then(() => this.list.renew((index) => inView.includes(index)), (error) => { $(".found", this.root).textContent = error.message; });
    }, 80);
  }

  /** Show a prompt in large, with the address of its two images; null closes it. */
  step(index) {
    const { right } = this.closeup;
    go(place("matrix", { ...this.filters, p: prompts()[index]?.name, g: index === null || right === null ? "" : columns()[right].label }));
  }

  /** Show the prompt `by` places after the one that is shown in large; without one the list scrolls. */
  move(by) {
    this.list.scroller.scrollBy({ top: by * this.list.height });
  }

  /** Draw again after a mark has changed: how many there are, and the rows. */
  showMarks() {
    const [votes, all] = [this.marks.votes.length, this.marks.all.length];
    const count = (one, name) => `${number(one)} ${name}${one === 1 ? "" : "s"}`;
    $(".export-votes", this.root).disabled = !votes;
    $(".export-votes", this.root).textContent = votes ? `Export ${count(votes, "vote")}` : "Export votes";
    $(".export-marks", this.root).hidden = all === votes;
    $(".export-marks", this.root).textContent = `Export ${count(all, "mark")}`;
    $(".not-kept", this.root).hidden = this.marks.kept;
    if (this.filters) this.list.render(true);
  }
}
