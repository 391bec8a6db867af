"use strict";
// One prompt at a time. Untrusted text is set by textContent only.

const $ = (id) => document.getElementById(id);
const key = decodeURIComponent(location.hash.slice(1));
const RETRY_MS = 1000;
const HIDDEN = new Set(["prompt_id", "prompt", "checks", "provenance", "written", "gold_answers"]);  // shown elsewhere, or only for programs
const PARTS = {
  facets: "Facets and notes, one per line: PILLAR / SUB-CAPABILITY / FACET: NOTE",
  graph: "Graph, one per line: ENTITY, ENTITY | ATTRIBUTE, ENTITY | RELATION | ENTITY",
  questions: "Questions, one per line: yes | QUESTION or no | QUESTION",
};
let state = null;  // last state from the server
let busy = false;

async function ask(path, body) {
  const headers = { Authorization: `Bearer ${key}` };
  const post = body && { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  for (;;) {
    try {
      const reply = await fetch(path, { headers, cache: "no-store", ...post });
      if (reply.ok) {
        notice("");
        return await reply.json();
      }
      if (reply.status === 401 && !state) return null;
      const told = reply.status === 401 ? "the link is out of date: open the one that was printed last" : reply.status === 403 ? await reply.text() : (await reply.json()).error;
      notice(`Nothing was stored: ${told}`);
      throw new Error(told);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;  // a TypeError means no connection; repeating a request is safe
    }
    notice(body ? "The server does not answer. Your decision is not stored yet; trying again." : "The server does not answer; trying again.");
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

async function exchange(path, body) {
  if (busy) return null;
  busy = true;
  controls();
  try {
    return await ask(path, body);
  } catch {
    return null;  // the notice shows the error; the typed text stays
  } finally {
    busy = false;
    controls();
  }
}

async function go(at) {
  const next = await exchange(at === null ? "api/prompt" : `api/prompt?at=${at}`);
  if (next) show(next);
  else if (!state) {
    document.body.dataset.state = "unknown";
    $("broken").hidden = false;
  }
}

async function decide(decision) {
  const stored = await exchange("api/decide", { at: state.at, seen: state.seen, ...decision });
  if (!stored) return;
  if (stored.next === null) show(stored);
  else {
    edit(false);
    state = stored;
    await go(stored.next);
  }
}

// -- showing -----------------------------------------------------------------------------------------------------------

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function plain(value) {
  if (value === null || typeof value !== "object") return String(value);
  if (Array.isArray(value) || "relation" in value) return Object.values(value).map(plain).join(" · ");
  return Object.entries(value).map(([name, each]) => `${name}: ${plain(each)}`).join(", ");
}

function listed(rows) {  // of texts, or of [left, right]
  const list = element("ul");
  for (const row of rows) {
    const item = element("li", Array.isArray(row) ? undefined : row, Array.isArray(row) ? "pair" : "");
    if (Array.isArray(row)) item.append(...row.map((text) => element("span", text)));
    list.append(item);
  }
  return list;
}

function shaped(value) {
  if (Array.isArray(value)) return listed(value.map(plain));
  if (typeof value !== "object") return element("span", plain(value));
  const lines = (each) => (Array.isArray(each) ? each.map(plain) : Object.entries(each).map(([name, one]) => `${name}: ${plain(one)}`));
  return listed(Object.entries(value).map(([name, each]) => [name, each !== null && typeof each === "object" ? lines(each).join("\n") : plain(each)]));
}

function others({ people, disagreements }) {
  const list = listed(people.map(({ reviewer, decision, reason, text, parts }) => [reviewer, reason ? `rejected: ${reason}` : `${decision}${text || parts ? ", edited" : ""}`]));
  const parts = Object.entries(disagreements).flatMap(([part, lines]) => [
    element("h2", `Lines of ${part} on which people disagree`),
    listed(lines.map(([text, count]) => [text, `${count} of ${people.filter((each) => each.decision === "accepted").length}`])),
  ]);
  const texts = [...new Set(people.filter((each) => each.text).map((each) => each.text))];
  return [element("h2", `${people.length} people have decided`), list, ...texts.map((text) => element("p", text)), ...parts];
}

function about({ line, rechecked }) {
  const parts = [];
  const add = (name, content) => {
    const dd = element("dd");
    dd.append(content);
    parts.push(element("dt", name), dd);
  };
  for (const [name, value] of Object.entries(line)) {
    if (HIDDEN.has(name) || value === null || value === "" || (typeof value === "object" && !Object.keys(value).length)) continue;
    if (name === "questions" && Array.isArray(value)) {
      add("questions, and what the prompt asks for", listed(value.map((each, at) => [plain(each), plain(line.gold_answers?.[at] ?? "")])));
    } else add(name.replaceAll("_", " "), shaped(value));
  }
  const checks = Array.isArray(line.checks) ? line.checks.map(plain) : [];
  const list = listed(checks.map((name) => {
    const found = rechecked?.[name];
    if (!rechecked) return `✓ ${name}`;
    if (!found) return `– ${name}: not made again for the edited text`;
    return found.length ? `✗ ${name}: ${found.join("; ")}` : `✓ ${name}`;
  }));
  for (const item of list.children) item.classList.toggle("wrong", item.textContent.startsWith("✗"));
  if (checks.length) add("checks", list);
  return parts;
}

function show(next) {
  state = next;
  const { line, decision } = next;
  const decided = next.accepted + next.rejected;
  const text = decision.text ?? line.prompt;
  document.body.dataset.state = "asking";
  $("stage").hidden = false;
  $("place").textContent = `${next.at + 1} of ${next.total}`;
  $("count").textContent = `· ${next.accepted} accepted, ${next.rejected} rejected`;
  $("progress").max = next.total;
  $("progress").value = decided;
  $("name").textContent = line.prompt_id;
  $("words").textContent = `· ${text.split(/\s+/u).filter(Boolean).length} words, ${[...text].length} characters`;
  $("prompt").textContent = text;
  $("before").textContent = line.prompt;
  $("was").hidden = decision.text === undefined;
  $("about").replaceChildren(...about(next));
  $("verdict").hidden = !decision.decision;
  $("verdict").classList.toggle("rejected", decision.decision === "rejected");
  $("verdict").textContent = !decision.decision ? "" : `${decision.decision === "rejected" ? `Rejected: ${decision.reason}` : decision.text === undefined && decision.parts === undefined ? "Accepted" : "Accepted as edited"} · ${decision.reviewer}`;
  $("others").hidden = next.people.length < 2;
  $("others").replaceChildren(...(next.people.length < 2 ? [] : others(next)));
  $("done").hidden = next.next !== null;
  $("done").textContent = `All ${next.total} prompts are decided (${next.edited} edited). Write them with: prompts review ${next.file} --out FILE`;
  edit(false);
  controls();
  $("stage").scrollTop = 0;
  document.body.dataset.at = `${next.at} ${decided}`;
}

function edit(on) {
  $("text").hidden = $("parts").hidden = $("editing").hidden = !on;
  $("prompt").hidden = $("bar").hidden = on;
  if (on) {
    $("parts").replaceChildren(...Object.entries(state.parts).map(([name, lines]) => {
      const label = element("label", PARTS[name]);
      const area = element("textarea", undefined, "text");
      area.name = name;
      area.dir = "auto";
      area.rows = Math.min(lines.length + 1, 14);
      area.value = lines.join("\n");
      label.append(area);
      return label;
    }));
    $("text").value = $("prompt").textContent;
    $("text").focus();
    $("text").setSelectionRange(0, 0);
    $("text").scrollTop = 0;
  }
}

function controls() {
  for (const button of document.querySelectorAll("button")) button.disabled = busy;
  for (const area of document.querySelectorAll("textarea")) area.readOnly = busy;
  if (state && !busy) {
    $("previous").disabled = state.at === 0;
    $("next").disabled = state.at === state.total - 1;
  }
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

// -- deciding ----------------------------------------------------------------------------------------------------------

const areas = () => [...$("parts").querySelectorAll("textarea")];
const parts = () => Object.fromEntries(areas().map((area) => [area.name, area.value.split("\n")]));
const changed = () => $("text").value !== $("prompt").textContent || areas().some((area) => area.value !== state.parts[area.name].join("\n"));
const accept = () => decide({ decision: "accepted", text: state.decision.text ?? "", parts: state.decision.parts ?? {} });
const keep = () => ($("text").value.trim() ? decide({ decision: "accepted", text: $("text").value, parts: parts() }) : notice("A prompt cannot be empty: reject it instead."));
const turn = (step) => state && state.at + step >= 0 && state.at + step < state.total && go(state.at + step);
const leave = () => !changed() || confirm("Leave your changes? They are not stored.");

function reject() {
  $("reason").value = state.decision.reason ?? "";
  $("why").showModal();
}

function pressed(event) {
  if (!state || busy || event.repeat || $("why").open) return;
  if (!$("editing").hidden) {
    if (event.key === "Escape" && leave()) edit(false);
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) keep();
    else return;
  } else if (event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key.toLowerCase() === "a") accept();
  else if (event.key.toLowerCase() === "e") edit(true);
  else if (event.key.toLowerCase() === "r") reject();
  else if (event.key === "ArrowLeft") turn(-1);
  else if (event.key === "ArrowRight") turn(1);
  else return;
  event.preventDefault();
}

const actions = { accept, reject, keep, edit: () => edit(true), cancel: () => leave() && edit(false) };
for (const [id, action] of Object.entries(actions)) $(id).addEventListener("click", action);
$("previous").addEventListener("click", () => ($("editing").hidden || leave()) && turn(-1));
$("next").addEventListener("click", () => ($("editing").hidden || leave()) && turn(1));
$("dismiss").addEventListener("click", () => $("why").close());
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const reason = $("reason").value.trim();
  if (!reason) return;
  $("why").close();
  decide({ decision: "rejected", reason });
});
document.addEventListener("keydown", pressed);
window.addEventListener("beforeunload", (event) => !$("editing").hidden && changed() && event.preventDefault());
window.addEventListener("hashchange", () => location.reload());
go(null);
