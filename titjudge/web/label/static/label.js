"use strict";
// One question at a time. Text from outside goes through textContent only; images are fetched with the token and kept as blobs.

const $ = (id) => document.getElementById(id);
const token = decodeURIComponent(location.hash.slice(1));
const KEYS = { ArrowLeft: "left", 1: "left", ArrowDown: "tie", 2: "tie", ArrowRight: "right", 3: "right", ArrowUp: "both_bad", 4: "both_bad" };
const RETRY_MS = 1000;
const KEEP_BLOBS = 32;

let state = null;     // what the server said last
let busy = false;     // an answer is on its way
let clock = 0;        // ms this pair was in view
let since = null;     // when it came (back) into view
const blobs = new Map();  // image code -> Promise of an object URL, oldest first

const pauseMs = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const dialogOpen = () => document.querySelector("dialog[open]") !== null;

// -- talking to the server ---------------------------------------------------------------------------------------------

async function ask(path, body) {
  const options = { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" };
  if (body) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  for (;;) {
    try {
      const reply = await fetch(path, options);
      if (reply.status < 500) {
        notice("");
        return reply;
      }
    } catch { /* the server is away: the same request again is safe, an answer counts once */ }
    notice(body ? "The server does not answer. Your answer is not stored yet; trying again." : "The server does not answer; trying again.");
    await pauseMs(RETRY_MS);
  }
}

async function load() {
  const reply = await ask("api/state");
  if (reply.status === 401) return show(null);
  await show(await reply.json());
}

async function send(path, body) {
  if (busy || !state) return;
  busy = true;
  controls();
  const began = performance.now();
  let next = null;
  try {
    const reply = await ask(path, body);
    if (reply.ok || reply.status === 409) next = await reply.json();
  } finally {
    busy = false;
  }
  await (next ? show(next) : load());
  performance.measure("next-pair", { start: began });
}

function vote(answer) {
  if (!state?.pair || busy || dialogOpen()) return;
  stopClock();
  document.querySelector(`[data-answer="${answer}"]`).classList.add("chosen");
  send("api/vote", { question: state.question, answer, duration_ms: Math.round(clock) });
}

function undo() {
  if (state && state.done > 0 && !dialogOpen()) send("api/undo", { question: state.question });
}

// -- images ------------------------------------------------------------------------------------------------------------

function image(code) {
  let blob = blobs.get(code);
  if (!blob) blob = fetchImage(code);
  blobs.delete(code);
  blobs.set(code, blob);
  return blob;
}

async function fetchImage(code) {
  const reply = await ask(`api/image/${code}`);
  if (!reply.ok) {
    blobs.delete(code);
    throw new Error("image");
  }
  const url = URL.createObjectURL(await reply.blob());
  const ahead = new Image();
  ahead.src = url;
  await ahead.decode().catch(() => {});
  return url;
}

function prefetch() {
  for (const code of state.upcoming) image(code).catch(() => {});
  const wanted = new Set([...state.upcoming, state.pair?.left, state.pair?.right]);
  for (const [code, blob] of blobs) {
    if (blobs.size <= KEEP_BLOBS) break;
    if (wanted.has(code)) continue;
    blobs.delete(code);
    blob.then((url) => URL.revokeObjectURL(url)).catch(() => {});
  }
}

// -- showing -----------------------------------------------------------------------------------------------------------

async function show(next) {
  const samePrompt = state?.pair?.prompt === next?.pair?.prompt;
  state = next;
  const pair = next?.pair;
  document.body.dataset.state = !next ? "unknown" : pair ? "asking" : "done";
  $("stage").hidden = !pair;
  $("done").hidden = !next || Boolean(pair);
  $("broken").hidden = Boolean(next);
  head();
  if (pair) {
    let urls;
    try {
      urls = await Promise.all([image(pair.left), image(pair.right)]);
    } catch {
      return load();
    }
    if (state !== next) return;
    if (!samePrompt) {
      $("prompt").textContent = pair.prompt;
      $("prompt").scrollTop = 0;
    }
    [$("left").src, $("right").src] = urls;
    prefetch();
  }
  for (const button of document.querySelectorAll(".chosen")) button.classList.remove("chosen");
  $("prompt").blur();
  if ($("zoom").open) $("zoom").close();
  clock = 0;
  since = null;
  if (next && next.done === 0 && pair && !$("guide").dataset.seen) toggle($("guide"));
  startClock();
  controls();
  document.body.dataset.question = next ? next.question : "";
}

function head() {
  const total = state ? state.done + state.at_most : 0;
  $("progress").max = Math.max(total, 1);
  $("progress").value = state ? state.done : 0;
  $("who").textContent = state ? state.annotator : "";
  $("count").textContent = state ? `${state.done} answered` : "";
  $("left-over").textContent = state?.pair ? `, at most ${state.at_most} to go` : "";
}

function controls() {
  const asking = Boolean(state?.pair) && !busy;
  for (const button of document.querySelectorAll("[data-answer]")) button.disabled = !asking;
  $("undo").disabled = busy || !state || state.done === 0;
  $("pause").disabled = !state?.pair;
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

// -- the clock counts what was really looked at --------------------------------------------------------------------------

function startClock() {
  const resting = $("rest").open || $("guide").open || document.visibilityState === "hidden";
  if (since === null && state?.pair && !resting) since = performance.now();
}

function stopClock() {
  if (since !== null) clock += performance.now() - since;
  since = null;
}

// -- dialogs -----------------------------------------------------------------------------------------------------------

function toggle(dialog) {
  if (dialog.open) dialog.close();
  else if (!dialogOpen()) {
    stopClock();
    dialog.showModal();
    dialog.scrollTop = 0;
  }
}

function zoom(side) {
  if (!state?.pair) return;
  $("large").src = $(side).src;
  $("large").alt = $(side).alt;
  $("zoom-left").setAttribute("aria-pressed", String(side === "left"));
  $("zoom-right").setAttribute("aria-pressed", String(side === "right"));
  if (!dialogOpen()) $("zoom").showModal();
}

function zoomKey(event) {
  if (event.key === "ArrowLeft" || event.key === "1") zoom("left");
  else if (event.key === "ArrowRight" || event.key === "3") zoom("right");
  else if (event.key.toLowerCase() === "f") $("zoom").close();
  else return;
  event.preventDefault();
}

function key(event) {
  const scrolls = document.activeElement === $("prompt") && $("prompt").scrollHeight > $("prompt").clientHeight;
  if (scrolls && (event.key === "ArrowDown" || event.key === "ArrowUp")) return;
  if (event.repeat || event.ctrlKey && event.key !== "z" || event.metaKey && event.key !== "z" || event.altKey) return;
  const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if ($("zoom").open) return zoomKey(event);
  if (pressed === "p" && state?.pair && !$("guide").open) toggle($("rest"));
  else if (pressed === "?") toggle($("guide"));
  else if (dialogOpen()) return;
  else if (KEYS[pressed]) vote(KEYS[pressed]);
  else if (pressed === "z" || pressed === "Backspace") undo();
  else if (pressed === "f") zoom("left");
  else return;
  event.preventDefault();
}

for (const button of document.querySelectorAll("[data-answer]")) button.addEventListener("click", () => vote(button.dataset.answer));
$("undo").addEventListener("click", undo);
$("pause").addEventListener("click", () => toggle($("rest")));
$("help").addEventListener("click", () => toggle($("guide")));
$("begin").addEventListener("click", () => $("guide").close());
$("go-on").addEventListener("click", () => $("rest").close());
for (const side of ["left", "right"]) {
  $(`frame-${side}`).addEventListener("click", () => zoom(side));
  $(`zoom-${side}`).addEventListener("click", () => zoom(side));
}
$("zoom-close").addEventListener("click", () => $("zoom").close());
$("zoom-size").addEventListener("click", () => {
  const actual = $("zoom").classList.toggle("actual");
  $("zoom-size").setAttribute("aria-pressed", String(actual));
});
for (const name of ["guide", "rest", "zoom"]) {
  $(name).addEventListener("close", () => {
    if (name === "guide") $("guide").dataset.seen = "yes";
    startClock();
    document.activeElement?.blur();
  });
}
document.addEventListener("keydown", key);
document.addEventListener("visibilitychange", () => (document.visibilityState === "hidden" ? stopClock() : startClock()));
window.addEventListener("hashchange", () => location.reload());
load();
