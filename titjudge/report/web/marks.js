// Marks in the prompt: missing and contradicted details located by their words, and where a model truncated the text.
const STOP = new Set(("a an and are as at be been but by for from has have in into is it its no not of on or so than that the " +
  "their them there these they this those to was were which while with without instead image picture shown visible missing " +
  "only should does appears described prompt description absent lacks").split(" "));
const MAX_DETAILS = 60;
const MAX_WORDS = 20000;

const words = (string) => {
  const matches = [];
  for (const match of string.matchAll(/[\p{L}\p{N}]+/gu)) {
    matches.push({ from: match.index, to: match.index + match[0].length, stem: stem(match[0]) });
    if (matches.length >= MAX_WORDS) break;
  }
  return matches;
};

function stem(word) {
  const low = word.toLowerCase();
  return low.length > 3 && low.endsWith("s") && !low.endsWith("ss") ? low.slice(0, -1) : low;
}

/** Return the span {from, to, kind, detail} of each detail of the scores whose words are in the prompt. */
function findDetails(prompt, scores) {
  const inPrompt = words(prompt);
  const low = prompt.toLowerCase();
  const spans = [];
  const each = (kind, details) => scores.flatMap((score) => details(score) || []).map((detail) => [kind, detail]);
  const all = [...each("contradicted", (score) => score.co), ...each("missing", (score) => score.mi), ...each("weak", (score) => score.wk?.map(([sentence]) => sentence))];
  for (const [kind, detail] of all.slice(0, MAX_DETAILS)) {
    const span = exact(low, detail) || closest(inPrompt, detail);
    if (span) spans.push({ ...span, kind, detail });
  }
  return spans;
}

function exact(low, detail) {
  const wanted = detail.trim().toLowerCase().replace(/[.]$/, "");
  if (wanted.length < 4) return null;
  const index = low.indexOf(wanted);
  return index < 0 ? null : { from: index, to: index + wanted.length };
}

/** Return the shortest span of the prompt with the most content words of a detail, at least half of them. */
function closest(inPrompt, detail) {
  const wanted = new Set(words(detail.slice(0, 400)).map((word) => word.stem).filter((one) => one.length > 1 && !STOP.has(one)));
  if (!wanted.size) return null;
  const reach = Math.min(24, wanted.size * 2 + 3);
  const hits = inPrompt.map((word, index) => ({ ...word, index })).filter((word) => wanted.has(word.stem));
  let best = null;
  for (let first = 0; first < hits.length; first += 1) {
    const seen = new Set();
    for (let last = first; last < hits.length && hits[last].index - hits[first].index <= reach; last += 1) {
      seen.add(hits[last].stem);
      const length = hits[last].index - hits[first].index;
      if (!best || seen.size > best.size || (seen.size === best.size && length < best.length)) {
        best = { size: seen.size, length, from: hits[first].from, to: hits[last].to };
      }
    }
  }
  const enough = Math.max(wanted.size > 1 ? 2 : 1, Math.ceil(wanted.size / 2));
  return best && best.size >= enough ? { from: best.from, to: best.to } : null;
}

/**
 * Return where models truncated a text: {index, judges, used, total}, by the share of tokens, at a word boundary.
 * `from` is the index of the counts of the text in a score: 0 for the prompt, 2 for the description.
 */
function cutoffs(prompt, scores, from = 0) {
  const places = new Map();
  scores.forEach((score, judge) => {
    if (!score || !score.n || !(score.n[from] < score.n[from + 1])) return;
    const [used, total] = score.n.slice(from, from + 2);
    let index = Math.round((prompt.length * used) / total);
    const space = prompt.indexOf(" ", index);
    if (space >= 0 && space - index < 40) index = space;
    const key = index + "/" + used;
    if (!places.has(key)) places.set(key, { index, judges: [], used, total });
    places.get(key).judges.push(data.judges[judge].label);
  });
  return [...places.values()].sort((a, b) => a.index - b.index);
}

/** Return a text with its marks as a list of nodes. */
function markedPrompt(prompt, details, cuts) {
  const edges = new Set([0, prompt.length]);
  details.forEach((one) => { edges.add(one.from); edges.add(one.to); });
  cuts.forEach((one) => edges.add(one.index));
  const ordered = [...edges].sort((a, b) => a - b);
  const nodes = [];
  ordered.forEach((from, place) => {
    for (const cut of cuts.filter((one) => one.index === from)) nodes.push(scissors(cut));
    const to = ordered[place + 1];
    if (to === undefined) return;
    const inside = details.filter((one) => one.from <= from && one.to >= to);
    const unread = cuts.length > 0 && from >= cuts[0].index;
    const piece = prompt.slice(from, to);
    const words = unread ? h("span.unread", null, piece) : document.createTextNode(piece);
    nodes.push(inside.length ? mark(inside, words) : words);
  });
  return nodes;
}

// Most severe first: a word inside several marks is drawn as the first of them.
const MARKS = ["contradicted", "notmet", "missing", "unseen", "weak", "met"];
const MARK_NAMES = { notmet: "not met", unseen: "not settled", weak: "weak match" };

function mark(inside, content) {
  const kind = MARKS.find((one) => inside.some((detail) => detail.kind === one));
  const title = [...new Set(inside.map((one) => `${MARK_NAMES[one.kind] || one.kind}: ${one.detail}`))].join("\n");
  return h("mark." + kind, { title: shorten(title, 600) }, content);
}

function scissors(cut) {
  const who = cut.judges.join(", ");
  return h("span.cut", { title: "By its share of tokens, so to within a few words" },
    outside(who), ` read up to about here: ${number(cut.used)} of ${number(cut.total)} tokens`);
}
