// An agentic judge: the claims of a prompt with verdicts and evidence, and the transcript of its looks.
const VERDICTS = { met: ["met", "met"], not_met: ["notmet", "not met"], cannot_be_seen: ["unseen", "cannot be seen"], open: ["unseen", "open"] };
const verdictOf = (name) => VERDICTS[name] || ["unseen", name];
const unmet = (score) => (score.ag ? score.ag.claims.filter((claim) => claim.verdict === "not_met") : []);

/** Return the span of the prompt of each claim, in the form of `markedPrompt`. */
function claimMarks(judgement) {
  return judgement.claims.filter((claim) => claim.at).map((claim) => ({ from: claim.at[0], to: claim.at[1], kind: verdictOf(claim.verdict)[0], detail: text(claim.t) }));
}

function caseBlock(judgement, item, prompt, label) {
  const evidence = new Map((judgement.evidence || []).map((one) => [one.id, one]));
  const table = (claims, name) => claimTable(claims, evidence, prompt, judgement.crops || [], name);
  const doubtful = ["not_met", "cannot_be_seen", "open"].flatMap((verdict) => judgement.claims.filter((claim) => claim.verdict === verdict));
  const rest = judgement.claims.filter((claim) => !doubtful.includes(claim));
  const things = new Map();
  for (const claim of rest) things.set(claim.of ?? "", [...(things.get(claim.of ?? "") || []), claim]);
  const folded = [...things].map(([thing, claims]) => {
    const fold = h("details.fold", null, h("summary", null, outside(thing || "without an object", "span"), h("small", null, ` ${number(claims.length)} met`)));
    fold.addEventListener("toggle", () => { if (fold.open && fold.children.length === 1) fold.append(table(claims, `Met: ${thing}`)); });
    return fold;
  });
  return h("section.the-case", null, h("h3", null, "Claims", h("small", null, outside(label))), h("p.note", null, sources(judgement.claims, evidence)),
    doubtful.length ? table(doubtful, "Claims that are not met or not settled") : null, folded, judgement.rounds ? transcript(judgement, evidence, item) : null);
}

/** Count the verdicts that rest on the whole image, and those that rest on an enlarged part. */
function sources(claims, evidence) {
  const looks = claims.map((claim) => evidence.get(claim.evidence)).filter(Boolean);
  const enlarged = looks.filter((look) => look.box).length;
  return `Verdicts from the whole image: ${number(looks.length - enlarged)}; from an enlarged part: ${number(enlarged)}`;
}

/** Return what settled a claim: the line of an inventory, what the judge saw, or the sentence of a report. */
function seenOf(claim, look) {
  if (claim.seen !== undefined) return text(claim.seen);
  return look.t === undefined ? look.failed || "" : nearest(text(look.t), text(claim.t));
}

function claimTable(claims, evidence, prompt, crops, caption) {
  const head = ["", "claim", "kind", "words of the prompt", "verdict", "settled by"];
  const rows = claims.map((claim) => {
    const [kind, name] = verdictOf(claim.verdict);
    const look = evidence.get(claim.evidence);
    return h("tr", null,
      h("td.num", null, claim.n ?? ""), h("th", { scope: "row" }, outside(text(claim.t))), h("td.kind", null, outside(claim.kind || "", "span"), claim.level ? outside(claim.level, "small") : null),
      h("td.quote", null, claim.at ? outside(shorten(prompt.slice(...claim.at), 160)) : "–"),
      h("td", null, h("span.verdict." + kind, null, name), claim.before ? h("small", null, outside(`before: ${claim.before.join(", ").replaceAll("_", " ")}`)) : null),
      h("td", null, claim.cr === undefined ? null : h("img.crop", { src: "data:image/webp;base64," + crops[claim.cr], alt: "The place that was looked at", loading: "lazy" }),
        look ? [h("span.quiet", null, outside(asked(look))), h("small.result", null, outside(seenOf(claim, look)))] : "–"));
  });
  return h("div.wide-table", { tabindex: "0", role: "region", "aria-label": caption }, h("table.claims", null, h("caption.away", null, caption),
    h("thead", null, h("tr", null, head.map((name, index) => (name ? h("th", { scope: "col", class: index ? null : "num" }, name) : h("td.num"))))), h("tbody", null, rows)));
}

const MAX_RESULT = 140;
const MAX_ANSWER = 4200;
const telling = (sentence) => new Set(words(sentence).map((word) => word.stem).filter((one) => one.length > 1 && !STOP.has(one)));

/** Return the sentence of a long answer that shares most words with a claim, the first words of the claim weighing more;
 *  the transcript has the whole answer. */
function nearest(answer, claim) {
  if (answer.length <= MAX_RESULT) return answer;
  const claimStems = [...telling(claim)];
  const sentences = answer.slice(0, MAX_ANSWER).split(/(?<=[.!?。！？]["”’)]?)\s+/u);
  const shared = sentences.map(telling).map((sentenceStems) => claimStems.reduce((sum, word, index) => sum + (sentenceStems.has(word) ? 1 / (index + 2) : 0), 0));
  const most = Math.max(...shared);
  const index = shared.indexOf(most);
  return most ? `${index ? "… " : ""}${shorten(sentences[index], MAX_RESULT)}` : "";
}

/** Describe a look in one line: its number, the tool and the question. */
const asked = (look) => `${look.id} ${look.tool}${look.question ? ` “${look.question}”` : ""}`;

function transcript(judgement, evidence, item) {
  const looks = judgement.rounds.reduce((sum, round) => sum + (round.looks || []).length, 0);
  const last = judgement.rounds[judgement.rounds.length - 1];
  const said = [`${number(last.n ?? judgement.rounds.length)} rounds`, `${number(looks)} looks`, judgement.stopped ? `stopped: ${judgement.stopped}` : ""].filter(Boolean).join(", ");
  const folded = h("details.receipts.transcript", null, h("summary", null, "Transcript ", outside(`(${said})`)));
  folded.addEventListener("toggle", () => {
    if (folded.open && folded.children.length === 1) folded.append(h("ol.rounds", null, judgement.rounds.map((round) => roundBlock(round, judgement, evidence, item))));
  });
  return folded;
}

function roundBlock(round, judgement, evidence, item) {
  const settled = (round.settled || []).map(([claim, verdict, by]) => {
    const about = judgement.claims.find((one) => one.n === claim);
    const [kind, name] = verdictOf(verdict);
    return h("li", null, `Claim ${claim}: `, h("span.verdict." + kind, null, name), ` by ${by} `, about ? outside(text(about.t), "small") : null);
  });
  const looks = (round.looks || []).map((id) => evidence.get(id)).filter(Boolean);
  return h("li", null, h("h4", null, round.n ? `Round ${round.n}` : "First look", round.by ? h("small", null, " ", outside(round.by)) : null),
    round.t === undefined ? null : outside(text(round.t), "p"),
    settled.length ? h("ul.settled", null, settled) : null,
    looks.map((look) => lookBlock(look, judgement, item)),
    (round.refused || []).map((note) => h("p.note", null, "Refused: ", outside(note, "span"))));
}

function lookBlock(look, judgement, item) {
  const settles = judgement.rounds.flatMap((round) => round.settled || []).filter(([, , by]) => by === look.id);
  return h("div.look", null, look.box ? boxed(item, look) : null,
    h("div", null, outside(asked(look), "h5"), look.box ? h("p.note", null, "Box ", look.box.map((edge) => edge.toFixed(2)).join(", "), " (left, top, right, bottom)") : null,
      look.failed ? h("p.status-bad", null, "Brought nothing: ", outside(look.failed, "span")) : outside(text(look.t), "p"),
      look.cut ? h("p.note", null, "The answer was longer and is cut here.") : null, look.source ? h("p.note", null, outside(look.source, "span")) : null,
      h("p.note", null, settles.length ? `Settled ${settles.map(([claim, verdict]) => `claim ${claim} (${verdictOf(verdict)[1]})`).join(", ")}.` : "Settled no claim.")));
}

/** Make the image of an item with the box of a zoom. */
function boxed(item, look) {
  const [left, top, right, bottom] = look.box;
  return h("figure.boxed", null, picture(item, `Where ${look.id} looked`),
    svg("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { x: left, y: top, width: right - left, height: bottom - top })));
}
