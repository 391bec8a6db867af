"use strict";
// Loads a report into a frame that has no key and cannot leave it, and loads it again while the run goes on. The fragment is
// KEY/RUN, as in the list, or KEY/RUN&RUN for two side by side.

const runs = path.join("/").split("&");
const IDLE_MS = 5000;  // without a key or a click in the report, after which it is loaded again by itself
const LEAST_MS = 10000;  // between two reports of a running run
const EASE = 20;  // times the time that a report takes to be made
let shown = null;  // how many scores the report has
let scores = 0;
let next = 0;  // when the report may be made again
let touched = -Infinity;
let place = { hash: "", top: 0 };  // of the reader in the report

/** Make the report, and load it at the place of the one before. */
async function load() {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const waiting = shown === null && setTimeout(notice, 700, "The report is being made. This takes some seconds for each hundred images.");
  const began = performance.now();
  next = Infinity;
  try {
    const reply = await fetch("api/ticket", { method: "POST", headers, body: JSON.stringify({ runs }), cache: "no-store" });
    clearTimeout(waiting);
    if (reply.status === 403) return notice(await reply.text());
    const answer = await reply.json();
    if (!reply.ok) return notice(reply.status === 401 ? LOCKED : `No report: ${answer.error}`);
    notice("");
    shown = scores;
    $("update").hidden = true;
    $("report").name = String(place.top);
    $("report").src = `report/${answer.ticket}/${place.hash}`;
    if ($("report").hidden) $("report").addEventListener("load", () => $("report").focus(), { once: true });
    $("report").hidden = false;
  } catch {
    clearTimeout(waiting);
    notice("The server does not answer.");
  } finally {
    next = performance.now() + Math.max(LEAST_MS, EASE * (performance.now() - began));
  }
}

/** Show the state of a run above its report; new scores are loaded when the reader is at rest, or asks for them. */
function show(state) {
  const judged = state.scored + state.failed;
  const going = state.status === "running";
  document.body.dataset.state = kind(state);
  write($("state"), [
    state.judged_nothing ? `nothing judged: ${state.status}` : state.status,
    going && (state.total === null ? `${count(judged)} score${judged === 1 ? "" : "s"}` : `${count(judged)} of ${count(state.total)} scores`),
    state.failed ? `${count(state.failed)} without a score` : "",
    going && cost(state), going && time(state),
    state.problem || (going && state.trouble && `last error: ${state.trouble}`), ...state.advice.slice(0, 1),
  ].filter(Boolean).join(" · "));
  $("progress").hidden = !going || state.total === null;
  $("progress").max = Math.max(state.total ?? 1, 1);
  $("progress").value = Math.min(judged, $("progress").max);
  scores = judged;
  if (shown === null || shown === judged) return;
  $("update").hidden = false;
  const now = performance.now();
  if (now > next && now - touched > IDLE_MS && document.visibilityState === "visible") load();
}

// The report says where its reader is, as a fragment of its own address and a number; nothing else of it is used.
addEventListener("message", ({ source, data }) => {
  if (source !== $("report").contentWindow) return;
  touched = performance.now();
  if (typeof data?.hash === "string" && data.hash.startsWith("#")) place = { hash: data.hash, top: Number(data.top) || 0 };
});

document.title = `${runs.map(decodeURIComponent).join(" · ")} · Report`;
$("back").href = `./#${key}`;
$("update").addEventListener("click", load);
const address = () => `api/run?run=${encodeURIComponent(runs[0])}`;
(async () => {
  if (runs.length > 1) write($("state"), runs.map(decodeURIComponent).join(" · "));
  const reply = runs.length === 1 && await ask(address()).catch(() => null);
  if (reply?.ok) show(await reply.json());
  await load();
  if (runs.length === 1) poll(address, show);
})();
