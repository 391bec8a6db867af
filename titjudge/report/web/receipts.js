// Receipts of a score: raw answers, rendered prompts and embeddings, rendered when they are opened.
function receipts(score, judge) {
  const rest = score.x || [];
  const answers = (score.k || []).map((index) => data.replies[index]);
  if (!rest.length && !answers.length) return null;
  const folded = h("details.receipts", null, h("summary", null, `Evidence (${answers.length})`));
  folded.addEventListener("toggle", () => {
    if (folded.open && folded.children.length === 1) add(folded, [partsOf(rest), answers.map((one) => receipt(one, judge))]);
  });
  return folded;
}

function partsOf(rest) {
  if (!rest.length) return null;
  return h("dl.parts", null, rest.map(([name, index]) => [h("dt", null, outside(name)), h("dd", null, outside(text(index), "span"))]));
}

function receipt(reply) {
  const key = h("code.key", null, reply.k);
  if (reply.lost) return h("div.receipt", null, key, h("p.note", null, "This answer is not in the run folder."));
  if (reply.embedded !== undefined) {
    const [used, total] = reply.tokens;
    return h("div.receipt", null, h("h4", null, "Embedding"), key,
      h("p.note", null, used === null || used === undefined ? "" : `${number(used)} of ${number(total)} tokens read`), folded("The text", outside(text(reply.embedded), "pre")));
  }
  return h("div.receipt", null, h("h4", null, outside([reply.role, reply.template].filter(Boolean).join(" · ") || "Answer")), key,
    h("p.note", null, outside(facts(reply), "span")),
    folded("Raw answer", outside(text(reply.text), "pre")),
    reply.msg.length ? folded("Rendered prompt", reply.msg.map(turn)) : null);
}

function facts(reply) {
  const said = [[reply.provider, reply.model].filter(Boolean).join("/")];
  if (reply.model_version && reply.model_version !== reply.model) said.push(`answered by ${reply.model_version}`);
  if (reply.status && reply.status !== "ok") said.push(statusName(reply.status) + (reply.reason ? `: ${reply.reason}` : ""));
  if (reply.usage) said.push(`${number(reply.usage[0])} tokens in, ${number(reply.usage[1])} out${reply.usage[3] ? ` (${number(reply.usage[3])} thinking)` : ""}`);
  if (typeof reply.list_cost === "number") said.push(`$${reply.list_cost.toFixed(5)}`);
  if (reply.cached) said.push("from the cache");
  if (reply.sample) said.push(`sample ${reply.sample}`);
  if (reply.attempt) said.push(`repair turn ${reply.attempt}`);
  if (reply.flags) said.push(reply.flags.join(", "));
  if (reply.params) said.push(Object.entries(reply.params).map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(", "));
  return said.filter(Boolean).join(" · ");
}

function turn([role, ...parts]) {
  return h("div.turn", null, h("h5", null, outside(role)),
    parts.map((part) => (typeof part === "number" ? outside(text(part), "pre") : h("p.note", null, "image, SHA-256 ", h("code.key", null, part)))));
}

const folded = (title, ...content) => h("details", null, h("summary", null, title), content);
