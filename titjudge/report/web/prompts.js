// The view of prompts: the images of all generators and runs for a prompt side by side, with their scores.
let promptList = null;

/** Return the prompts in the order of the data, each with its items. */
function prompts() {
  if (promptList) return promptList;
  const byText = new Map();
  for (const item of data.items) {
    if (item.p === undefined) continue;
    const key = item.grp + "\n" + item.p;
    if (!byText.has(key)) byText.set(key, { grp: item.grp, p: item.p, items: [] });
    byText.get(key).items.push(item);
  }
  promptList = [...byText.values()];
  const names = new Set();  // by which links name them, also after the report is written again with other runs
  promptList.forEach((prompt, index) => {
    prompt.name = [prompt.grp, prompt.items[0].id, String(index)].find((name) => name && !names.has(name));
    names.add(prompt.name);
  });
  for (const prompt of promptList) prompt.items.sort((a, b) => a.g.localeCompare(b.g) || (a.rn || [0])[0] - (b.rn || [0])[0] || a.index - b.index);
  return promptList;
}

const valuesOf = (prompt, judge) => prompt.items.map((item) => item.s[judge]).filter((score) => score && score.v !== null).map((score) => score.v);

/** Say why an image has its score, in the words of the metric that is looked at, or of the first that has any. */
function promptReason(item, judges) {
  const reason = !item.bad && judges.map((judge) => reasonOf(item, judge)).find(Boolean);  // the frame of a bad one says why
  return reason ? h("p.note", { title: reason, dir: "auto" }, shorten(reason, 160)) : null;
}

const promptsView = {
  name: "prompts",
  noun: "prompts",
  total: () => prompts().length,
  has: (index) => prompts()[index] !== undefined,
  items: (index) => prompts()[index].items,
  options: () => ({
    g: generatorChoices(),
    s: [["", "all"]],
    m: metricChoices(data.judges.length > 1 ? "all" : null),
    o: [["", "as in the data"], ["spread", "images differ most"], ["low", "mean score, lowest first"], ["high", "mean score, highest first"], ["long", "longest prompt first"]],
  }),
  select(filters) {
    const searched = searchWords(filters);
    const rows = prompts().map((prompt, index) => ({ prompt, index })).filter(({ prompt }) =>
      (!filters.g || prompt.items.some((item) => item.g === filters.g)) && searched.every((word) => prompt.items.some((item) => mentions(item, word))));
    const judge = Number(filters.m || 0);
    const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
    const keys = {
      spread: ({ prompt }) => { const values = valuesOf(prompt, judge); return values.length > 1 ? Math.min(...values) - Math.max(...values) : null; },
      low: ({ prompt }) => mean(valuesOf(prompt, judge)),
      high: ({ prompt }) => { const value = mean(valuesOf(prompt, judge)); return value === null ? null : -value; },
      long: ({ prompt }) => -text(prompt.p).length,
    };
    const key = keys[filters.o];
    if (key) for (const row of rows) row.key = key(row);
    if (key) rows.sort((x, y) => (x.key === null) - (y.key === null) || x.key - y.key || x.index - y.index);
    return rows.map(({ index }) => index);
  },
  row(index, filters, href) {
    const prompt = prompts()[index];
    const count = prompt.items.length;
    return h("a.row", { href },
      h("span.two", null, prompt.items.slice(0, 2).map((item) => picture(item, "", ".thumb"))),
      h("span.row-text", null, outside(shorten(text(prompt.p), 90), "span"), outside(prompt.grp === text(prompt.p) ? "" : shorten(prompt.grp, 60), "small")),
      h("span.row-scores", null, h("span.one.quiet", null, `${number(count)} image${count === 1 ? "" : "s"}`)));
  },
  detail(index, view) {
    const prompt = prompts()[index];
    const judges = judgesOf(view.filters);
    const best = judges.map((judge) => { const values = valuesOf(prompt, judge); return new Set(values).size > 1 ? (data.judges[judge].higher ? Math.max(...values) : Math.min(...values)) : null; });
    return [
      h("header.detail-head", null, h("div", null, outside(prompt.grp === text(prompt.p) ? "Prompt" : prompt.grp, "h2"), h("p.note", null, `${number(prompt.items.length)} image${prompt.items.length === 1 ? "" : "s"}`)), view.steps()),
      h("div.short", { tabindex: "0", role: "region", "aria-label": "Prompt" }, h("p.reading", { dir: "auto" }, text(prompt.p))),
      withSource(h("div", null, h("div.grid", null, prompt.items.map((item) => h("figure", null, largePicture(item, `Image ${item.id}`), h("figcaption", null,
        h("strong", null, h("a", { href: place("images", { i: item.index }) }, outside(item.g || fileName(item)))),
        [item.g ? fileName(item) : "", ...runsOf(item)].filter(Boolean).map((one) => outside(one, "small")),
        h("dl", null, judges.filter((judge) => judgesFor(item).includes(judge)).map((judge) => {
          const score = item.s[judge];
          const leads = score && score.v !== null && score.v === best[judges.indexOf(judge)];
          return h("div" + (leads ? ".best" : ""), { title: leads ? "the best of this prompt" : null }, h("dt", null, outside(data.judges[judge].label)), h("dd" + (score && score.v === null ? ".status-bad" : ""), null, scoreOf(score, judge)));
        })), promptReason(item, judges))))))),
    ];
  },
};
