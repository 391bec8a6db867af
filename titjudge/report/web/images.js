// The view of images: image, prompt, description and scores side by side.
const IMAGE_SORTS = [["", "as in the data"], ["low", "score, lowest first"], ["high", "score, highest first"], ["odd", "metrics disagree most"], ["long", "longest prompt first"], ["flaws", "most details missed first"]];

const imagesView = {
  name: "images",
  noun: "images",
  total: () => data.items.length,
  has: (index) => data.items[index] !== undefined,
  items: (index) => [data.items[index]],
  options() {
    const statuses = [...new Set(data.items.flatMap((item) => [item.bad ? "bad_input" : "", ...item.s.map((score) => (score ? score.st : ""))]))].filter(Boolean);
    return {
      g: generatorChoices(),
      s: [["", "all"], ["none", "without a score"], ...statuses.sort().map((status) => [status, statusName(status)])],
      m: metricChoices(data.judges.length > 1 ? "all" : null),
      o: IMAGE_SORTS.filter(([key]) => (key !== "odd" || data.judges.length > 1) && (key !== "flaws" || !data.folder)),
    };
  },
  select(filters) {
    const judge = filters.m === "" ? null : Number(filters.m);
    const searched = searchWords(filters);
    const items = data.items.filter((item) => (!filters.g || item.g === filters.g) && hasStatus(item, filters.s, judge) && searched.every((word) => mentions(item, word)));
    return order(items, filters.o, judge ?? 0).map((item) => item.index);
  },
  row(index, filters, href) {
    const item = data.items[index];
    const judges = filters.m === "" ? judgesFor(item).slice(0, 3) : [Number(filters.m)];
    return h("a.row", { href },
      picture(item, "", ".thumb"),
      h("span.row-text", null, outside(item.bad || shorten(text(item.p), 110), "span"), outside([...runsOf(item), item.g, item.grp === text(item.p) || item.grp === fileName(item).replace(/\.[^.]*$/, "") ? "" : item.grp, fileName(item)].filter(Boolean).map((one) => shorten(one, 40)).join(" · "), "small")),
      h("span.row-scores", null, judges.map((judge) => rowScore(item.s[judge], judge, judges.length > 1))));
  },
  detail(index, view) {
    const item = data.items[index];
    const prompt = text(item.p);
    const scored = item.s.map((score, judge) => [score, judge]).filter(([score]) => score);
    const cases = scored.filter(([score]) => score.ag);
    const details = [
      ...findDetails(prompt, scored.map(([score]) => score)),
      ...cases.slice(0, 1).flatMap(([score]) => claimMarks(score.ag)),
    ];
    const descriptions = new Map();
    for (const [score, judge] of scored) {
      if (score.d === undefined) continue;
      if (!descriptions.has(score.d)) descriptions.set(score.d, []);
      descriptions.get(score.d).push(data.judges[judge].label);
    }
    return [
      h("header.detail-head", null, h("div", null, outside(item.id, "h2"), h("p.note", null, about(item))), view.steps()),
      h("div.four", null,
        withSource(h("figure.the-image", null, largePicture(item, `Image ${item.id}`), severalSources(item))),
        h("section.the-scores", null, h("h3", null, "Judgement"), item.bad ? h("p.status-bad", null, outside(item.bad, "span")) : null,
          scored.map(([score, judge]) => scoreBlock(score, judge, details)), !scored.length && !item.bad ? h("p.note", null, "Not judged.") : null),
        h("section.the-prompt", null, h("h3", null, "Prompt"), promptBlock(prompt, details, item.s)),
        h("div.the-description", null, [...descriptions].map(([number, who]) => descriptionBlock(number, who, descriptions.size > 1, item.s)))),
      ...cases.map(([score, judge]) => caseBlock(score.ag, item, prompt, data.judges[judge].label)),
    ];
  },
};

/** Return the file name of an item's id. */
const fileName = (item) => item.id.slice(item.id.lastIndexOf("/") + 1);

/** Return the numbers of the judges of the runs that have this image. */
const judgesFor = (item) => data.judges.map((_, number) => number).filter((number) => !item.rn || item.rn.includes(data.judges[number].run));

/** Return the names of the runs that judged this image, if not all runs did. */
const runsOf = (item) => (item.rn || []).map((run) => data.runs[run]);

function about(item) {
  const parts = runsOf(item).length ? [["judged in ", outside(runsOf(item).join(", "))]] : [];
  if (item.g) parts.push(h("a", { href: place("images", { g: item.g }) }, outside(item.g)));
  if (item.grp && item.grp !== text(item.p)) parts.push(["prompt ", h("a", { href: place("images", { q: item.grp }) }, outside(shorten(item.grp, 80)))]);
  const met = data.pairs.filter(([a, b]) => a === item.index || b === item.index).length;
  if (met) parts.push(h("a", { href: place("pairs", { q: item.id }) }, `${number(met)} pair${met > 1 ? "s" : ""}`));
  return parts.flatMap((part, index) => (index ? [" · ", part] : [part]));
}

function promptBlock(prompt, details, scores) {
  if (!prompt) return h("p.note", null, "There is no prompt.");
  const cuts = cutoffs(prompt, scores);
  const kinds = new Set(details.map((one) => one.kind));
  return [
    h("p.reading", { dir: "auto" }, markedPrompt(prompt, details, cuts)),
    kinds.size ? h("p.key-line", null, MARKS.filter((kind) => kinds.has(kind)).map((kind) => h("span", null, h("mark." + kind, null, MARK_NAMES[kind] || kind), " "))) : null,
  ];
}

function descriptionBlock(index, who, several, scores) {
  const description = text(index);
  const cuts = cutoffs(description, scores.map((score) => (score && score.d === index ? score : null)), 2);
  return h("section", null, h("h3", null, "Description", several ? h("small", null, outside(who.join(", "))) : null), h("p.reading", { dir: "auto" }, markedPrompt(description, [], cuts)));
}

function scoreBlock(score, judge, details) {
  const placed = new Set(details.map((one) => one.detail));
  const list = (kind, details) => details && h("div.details", null, h("h4", null, kind === "missing" ? "Missing" : "Contradicted"),
    h("ul", null, details.map((detail) => h("li." + kind, placed.has(detail) ? null : { title: "not found in the words of the prompt" }, outside(detail)))));
  return h("div.score", null,
    h("div.score-head", null, outside(data.judges[judge].label, "h4"), score.v === null ? h("span.status-bad", null, statusName(score.st)) : h("span.value", null, shown(score.v, judge)), scale(score.v, judge)),
    score.v !== null && score.st !== "ok" ? h("p.status-bad", null, statusName(score.st)) : null,
    score.r === undefined ? null : outside(text(score.r), "p"),
    list("contradicted", score.co), list("missing", score.mi), weakMatches(score.wk), receipts(score, judge));
}

/** List the sentences of the prompt with the worst match, each with the closest part of the description. */
const weakMatches = (matches) => matches && h("div.details", null, h("h4", null, "Weakest matches"),
  h("ul", null, matches.map(([sentence, closest]) => h("li.weak", null, outside(sentence), h("small", null, "closest: ", outside(closest))))));

function scale(value, judge) {
  const { range } = data.judges[judge];
  if (value === null || !range || !(range[1] > range[0])) return null;
  const low = range[0] < 0 ? 0 : range[0];
  const share = Math.min(1, Math.max(0, (value - low) / (range[1] - low)));
  return svg("svg", { class: "scale", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "axis-fill", width: 100, height: 4 }), svg("rect", { class: "reach-fill", width: share * 100, height: 4 }));
}

function rowScore(score, judge, named) {
  const name = named ? h("small", null, outside(shorten(data.judges[judge].label, 18))) : null;
  if (!score) return h("span.one", null, name, "–");
  return score.v === null ? h("span.one.status-bad", null, name, statusName(score.st)) : h("span.one", null, name, shown(score.v, judge));
}

function hasStatus(item, status, judge) {
  if (!status) return true;
  const scores = judge === null ? item.s : [item.s[judge]];
  if (status === "none") return Boolean(item.bad) || scores.some((score) => !score || score.v === null);
  return (status === "bad_input" && Boolean(item.bad)) || scores.some((score) => score && score.st === status);
}

const promptHay = [];
/** Tell whether a word is in the prompt, the name, or what was said of an image; in a folder that is not all in memory. */
function mentions(item, word) {
  if (item.p !== undefined && (promptHay[item.p] ??= text(item.p).toLowerCase()).includes(word)) return true;
  return haystack(item).includes(word);
}

function haystack(item) {
  if (item.hay === undefined) {
    const texts = data.folder ? [] : item.s.filter(Boolean).flatMap((score) => [text(score.d), text(score.r), ...(score.mi || []), ...(score.co || []), ...(score.ag ? score.ag.claims.map((claim) => text(claim.t)) : [])]);
    item.hay = [item.id, item.g, item.grp, ...runsOf(item), item.bad || "", ...texts].join("\n").toLowerCase();
  }
  return item.hay;
}

function order(items, by, judge) {
  const valued = (item) => (item.s[judge] && item.s[judge].v !== null ? item.s[judge].v : null);
  const keys = {
    low: (item) => valued(item),
    high: (item) => (valued(item) === null ? null : -valued(item)),
    long: (item) => -text(item.p).length,
    flaws: (item) => -item.s.reduce((sum, score) => sum + (score ? (score.mi || []).length + (score.co || []).length + unmet(score).length : 0), 0),
    odd: (item) => { const ranks = item.s.map((score, index) => (score && score.v !== null ? rankShare(index, score.v) : null)).filter((one) => one !== null); return ranks.length > 1 ? Math.min(...ranks) - Math.max(...ranks) : null; },
  };
  if (!keys[by]) return items;
  const keyed = items.map((item) => [keys[by](item), item]);
  return keyed.sort(([x, a], [y, b]) => (x === null) - (y === null) || x - y || a.index - b.index).map(([, item]) => item);
}

const rankTables = [];
/** Return the share of images with a worse score, which is comparable between metrics. */
function rankShare(judge, value) {
  rankTables[judge] ??= data.items.map((item) => item.s[judge]).filter((score) => score && score.v !== null).map((score) => score.v).sort((a, b) => a - b);
  const table = rankTables[judge];
  let low = 0;
  for (let high = table.length; low < high;) { const middle = (low + high) >> 1; if (table[middle] < value) low = middle + 1; else high = middle; }
  const share = low / Math.max(1, table.length);
  return data.judges[judge].higher ? share : 1 - share;
}
