// The view of pairs: two images, which one is better for people or by construction, and the preference of each metric; the worst disagreements first.
const SAID = { 1: "A", 0: "neither", "-1": "B" };

const gapOf = ([a, b], judge) => {
  const [x, y] = [data.items[a].s[judge], data.items[b].s[judge]];
  if (!x || !y || x.v === null || y.v === null) return null;
  return data.judges[judge].higher ? x.v - y.v : y.v - x.v;
};

/** Compare a metric with people on a pair: agree, disagree, tied (equal scores), open (no preference), none (no score). */
function outcome(pair, judge) {
  const gap = gapOf(pair, judge);
  if (gap === null) return "none";
  if (pair[2] === 0) return "open";
  if (gap === 0) return "tied";
  return gap > 0 === pair[2] > 0 ? "agree" : "disagree";
}
const OUTCOME = { agree: "agrees", disagree: "disagrees", tied: "equal scores", open: "no preference", none: "no score" };

const spreads = [];
/** Return the root mean square of a metric's gaps, by which the gaps of several metrics are made comparable. */
function spread(judge) {
  if (spreads[judge] === undefined) {
    const gaps = data.pairs.map((pair) => gapOf(pair, judge)).filter((gap) => gap !== null);
    spreads[judge] = Math.sqrt(gaps.reduce((sum, gap) => sum + gap * gap, 0) / Math.max(1, gaps.length)) || 1;
  }
  return spreads[judge];
}

/** Return how far the metrics disagree with people on a pair: positive for disagreement, null without a comparison. */
function against(pair, judges) {
  const gaps = judges.map((judge) => [gapOf(pair, judge), judge]).filter(([gap]) => gap !== null);
  if (!gaps.length || pair[2] === 0) return null;
  return gaps.reduce((sum, [gap, judge]) => sum - (gap * pair[2]) / spread(judge), 0) / gaps.length;
}

const pairsView = {
  name: "pairs",
  noun: "pairs",
  total: () => data.pairs.length,
  has: (index) => data.pairs[index] !== undefined,
  items: (index) => data.pairs[index].slice(0, 2).map((one) => data.items[one]),
  options: () => ({
    g: generatorChoices(),
    s: [["", "all"], ["disagree", "metric disagrees"], ["agree", "metric agrees"], ["tied", "equal scores"], ["open", "no preference"], ["none", "no score"]],
    m: metricChoices(data.judges.length > 1 ? "all" : null),
    o: [["", "worst disagreement first"], ["sure", "clearest agreement first"], ["close", "closest call first"], ["data", "as in the data"]],
  }),
  select(filters) {
    const judges = judgesOf(filters);
    const searched = searchWords(filters);
    const rows = data.pairs.map((pair, index) => ({ pair, index })).filter(({ pair }) => {
      const [a, b] = [data.items[pair[0]], data.items[pair[1]]];
      if (filters.g && a.g !== filters.g && b.g !== filters.g) return false;
      if (filters.s && !judges.some((judge) => outcome(pair, judge) === filters.s)) return false;
      return searched.every((word) => pairHay(a).includes(word) || pairHay(b).includes(word));
    });
    if (filters.o === "data") return rows.map(({ index }) => index);
    for (const row of rows) row.lean = against(row.pair, judges);
    const sign = { "": -1, sure: 1 }[filters.o];
    const key = (row) => (sign ? sign * row.lean : Math.abs(row.lean));
    return rows.sort((x, y) => (x.lean === null) - (y.lean === null) || key(x) - key(y) || x.index - y.index).map(({ index }) => index);
  },
  row(index, filters, href) {
    const pair = data.pairs[index];
    const [a, b] = [data.items[pair[0]], data.items[pair[1]]];
    const judges = judgesOf(filters).slice(0, 4);
    return h("a.row", { href },
      h("span.two", null, picture(a, "", ".thumb" + (pair[2] > 0 ? ".won" : "")), picture(b, "", ".thumb" + (pair[2] < 0 ? ".won" : ""))),
      h("span.row-text", null, outside(shorten(text(a.p), 70), "span"), outside([...runsOf(a).map((one) => shorten(one, 40)), shorten(`${a.g || fileName(a)} / ${b.g || fileName(b)}`, 60)].join(" · "), "small")),
      h("span.row-scores", null, judges.map((judge) => {
        const how = outcome(pair, judge);
        return h("span.one." + how, null, judges.length > 1 ? h("small", null, outside(shorten(data.judges[judge].label, 18))) : null, OUTCOME[how]);
      })));
  },
  detail(index, view) {
    const pair = data.pairs[index];
    const [a, b] = [data.items[pair[0]], data.items[pair[1]]];
    const details = (item) => findDetails(text(item.p), item.s.filter(Boolean));
    return [
      h("header.detail-head", null, h("div", null, h("h2", null, preferred(SAID[pair[2]])), h("p.note", null, outside(a.grp === text(a.p) ? "" : a.grp))), view.steps()),
      withSource(h("div", null, h("div.duel", null, side("A", a, pair[2] > 0), side("B", b, pair[2] < 0)))),
      verdictTable(pair, a, b),
      h("section.the-prompt", null, h("h3", null, "Prompt"), h("p.reading", { dir: "auto" }, text(a.p))),
      h("div.duel", null, [["A", a], ["B", b]].map(([letter, item]) => h("section", null, h("h3", null, `What was missed in ${letter}`), missed(item, details(item))))),
    ];
  },
};

/** Return the title of a pair whose better image is A, B or neither. */
const preferred = (better) => {
  if (better === "neither") return data.constructed ? "Equal by construction" : "People see no difference";
  return data.constructed ? `${better} is better by construction` : `People prefer ${better}`;
};
const judgesOf = (filters) => (filters.m === "" ? data.judges.map((_, index) => index) : [Number(filters.m)]);
const pairHay = (item) => (item.pairHay ??= [item.id, item.g, item.grp, text(item.p)].join("\n").toLowerCase());

function side(letter, item, won) {
  return h("figure" + (won ? ".won" : ""), null, largePicture(item, `Image ${letter}, ${item.id}`),
    h("figcaption", null, h("strong", null, letter), " ", h("a", { href: place("images", { i: item.index }) }, outside(item.id)), item.g ? [" · ", outside(item.g)] : null,
      won ? h("span.badge", null, data.constructed ? "better by construction" : "people’s choice") : null));
}

function verdictTable(pair, a, b) {
  const rows = data.judges.map((judge, index) => {
    const how = outcome(pair, index);
    const gap = gapOf(pair, index);
    const says = gap === null ? "–" : isOpen(a.s[index], b.s[index]) ? "not decided" : gap > 0 ? "A" : gap < 0 ? "B" : "equal";
    return h("tr", null, h("th", { scope: "row" }, outside(judge.label)), [a, b].map((item) => h("td.num", null, scoreOf(item.s[index], index))), h("td", null, says), h("td", null, h("span.one." + how, null, OUTCOME[how])));
  });
  const head = ["metric", "A", "B", "prefers", data.constructed ? "with construction" : "with people"].map((name, index) => h("th", { scope: "col", class: index === 1 || index === 2 ? "num" : null }, name));
  return h("div.wide-table", { tabindex: "0", role: "region", "aria-label": "Scores of the metrics" }, h("table", null, h("caption.away", null, "Scores of the metrics"), h("thead", null, h("tr", null, head)), h("tbody", null, rows)));
}

/** Whether what stayed open of two scores could reverse their order. */
function isOpen(one, other) {
  const [x, y] = [one, other].map((score) => score.b || [score.v, score.v]);
  return one.v !== other.v && Boolean(one.b || other.b) && x[0] < y[1] && y[0] < x[1];
}

const scoreOf = (score, judge) => (!score ? "–" : score.v === null ? statusName(score.st) : shown(score.v, judge));

function missed(item) {
  const details = [...new Set(item.s.flatMap((score) => (score ? [...(score.co || []).map((one) => "contradicted\n" + one), ...unmet(score).map((claim) => "notmet\n" + text(claim.t)), ...(score.mi || []).map((one) => "missing\n" + one)] : [])))];
  if (!details.length) return h("p.note", null, "No judge named anything.");
  return h("div.details", null, h("ul", null, details.map((one) => { const [kind, detail] = [one.slice(0, one.indexOf("\n")), one.slice(one.indexOf("\n") + 1)]; return h("li." + kind, null, h("small", null, (MARK_NAMES[kind] || kind) + " "), outside(detail)); })));
}
