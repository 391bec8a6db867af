"use strict";
// Shared by pairs.js and elements.js, which define show, controls and key: requests, images, clock, dialogs.
// Untrusted text is set by textContent only. Images are fetched with the token and kept as blobs.

const $ = (id) => document.getElementById(id);
const token = decodeURIComponent(location.hash.slice(1));
const RETRY_MS = 1000;
const KEEP_BLOBS = 32;

let state = null;     // last state from the server
let busy = true;      // no question is in view that an answer could be for: one is being sent or loaded
let clock = 0;        // ms that this question was in view before `since`
let since = null;     // when it came into view last; null while paused
const read = new Set();   // prompts whose end was in view
const blobs = new Map();  // image code -> Promise of an object URL, oldest first

const pauseMs = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const draftName = () => `draft ${state.question}`;  // key of localStorage: a draft survives a reload
const asked = () => state?.sheet ?? null;
const images = () => asked()?.images ?? [];
const sources = () => asked()?.sources ?? [];  // of edits
const dialogOpen = () => document.querySelector("dialog[open]") !== null;

// -- requests ----------------------------------------------------------------------------------------------------------

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
    } catch { /* no connection; repeating a request is safe, since an answer counts once */ }
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
  const draft = draftName();
  let next = null, refused = "";
  try {
    const reply = await ask(path, body);
    if (reply.ok || reply.status === 409) next = await reply.json();
    else if (reply.status === 403) refused = await reply.text();
  } catch { /* a reply that cannot be read: what it said is asked for again */ }
  await (next ? show(next) : load());
  if (refused) notice(refused);
  if (!state || draftName() !== draft) localStorage.removeItem(draft);
  performance.measure("next-pair", { start: began });
}

function undo() {
  if (state && state.done > 0 && !state.stopped && !dialogOpen()) send("api/undo", { question: state.question });
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
  const wanted = new Set([...state.upcoming, ...images(), ...sources()]);
  for (const [code, blob] of blobs) {
    if (blobs.size <= KEEP_BLOBS) break;
    if (wanted.has(code)) continue;
    blobs.delete(code);
    blob.then((url) => URL.revokeObjectURL(url)).catch(() => {});
  }
}

// -- showing -----------------------------------------------------------------------------------------------------------

function head() {
  const total = state ? state.done + state.at_most : 0;
  $("progress").max = Math.max(total, 1);
  $("progress").value = state ? state.done : 0;
  $("who").textContent = state ? state.annotator : "";
  $("count").textContent = state ? `${state.done} answered` : "";
  $("left-over").textContent = asked() ? `, ${state.mode === "pairs" ? "at most " : ""}${state.at_most} to go` : "";
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

// -- prompt: it is read to its end before the first answer ---------------------------------------------------------------

const SIZES = ["", ".95rem", ".85rem"];  // of a prompt that is longer than its box
const below = () => $("prompt").scrollHeight - $("prompt").clientHeight - $("prompt").scrollTop;

function fit() {
  if (!asked()) return;
  const at = $("prompt").scrollTop;
  $("more").hidden = true;
  for (const size of SIZES) {
    $("prompt").style.fontSize = size;
    if (below() < 2) break;
  }
  $("prompt").scrollTop = at;
  reading();
}

function reading() {
  if (!asked()) return;
  const more = below() >= 2;
  if (!more) read.add(asked().prompt);
  $("prompt").classList.toggle("cut", more);
  $("more").hidden = !more;
  $("more").classList.remove("first");
  $("more-text").textContent = "More below";
}

function unread() {
  if (read.has(asked().prompt)) return false;
  $("more").classList.add("first");
  $("more-text").textContent = "Read to the end first";
  return true;
}

// Keys that scroll the prompt from anywhere on the page; on a button, Space is for the button.
function scrollKey(pressed) {
  const box = $("prompt"), page = box.clientHeight - 48, on = document.activeElement;
  const to = { " ": box.scrollTop + page, PageDown: box.scrollTop + page, PageUp: box.scrollTop - page, Home: 0, End: box.scrollHeight }[pressed];
  if (to === undefined || !asked() || dialogOpen() || pressed === " " && on.tagName === "BUTTON" || on.matches(".said")) return false;
  box.scrollTop = to;
  return true;
}

// -- clock: how long a question was in view, without pauses ----------------------------------------------------------------

function startClock() {
  const resting = $("rest").open || $("guide").open || document.visibilityState === "hidden";
  if (since === null && asked() && !resting) since = performance.now();
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

// -- before and after a question ---------------------------------------------------------------------------------------

function enter(next) {
  state = next;
  busy = true;
  document.body.dataset.state = !next ? "unknown" : asked() ? "asking" : next.stopped ? "stopped" : "done";
  $("stage").hidden = !asked();
  $("done").hidden = !next || next.stopped || Boolean(asked());
  $("stopped").hidden = !next?.stopped;
  $("broken").hidden = Boolean(next);
  for (const node of document.querySelectorAll("[data-role]")) node.hidden = !next?.expert;
  head();
}

// Enter a state and load the images of its question. Returns their URLs; null if another state has come meanwhile.

async function arrive(next) {
  const question = next?.sheet;
  const samePrompt = asked()?.prompt === question?.prompt;
  enter(next);
  if (!question) return [];
  let urls;
  try {
    urls = await Promise.all([...images(), ...sources()].map(image));
  } catch {
    await load();
    return null;
  }
  if (state !== next) return null;
  if (!samePrompt) {
    $("prompt").textContent = question.prompt;
    $("prompt").scrollTop = 0;
  }
  showSources(urls.slice(images().length));
  prefetch();
  return urls;
}

// Show the images that an edit was made from above its instruction; nothing where there are none.

function showSources(urls) {
  $("sources").replaceChildren(...urls.map((url, at) => {
    const name = urls.length > 1 ? `Source ${at + 1}` : "Source", frame = made("button", "frame"), picture = made("img");
    frame.type = "button";
    frame.setAttribute("aria-label", `Enlarge: ${name}`);
    picture.src = url;
    picture.alt = name;
    frame.append(picture, made("span", "source-name", name));
    frame.addEventListener("click", () => zoomSource(at));
    return frame;
  }));
  $("sources").hidden = $("zoom-source").hidden = !urls.length;
  $("prompt-title").textContent = urls.length ? "Instruction" : "Prompt";
  for (const node of document.querySelectorAll("[data-edit]")) node.hidden = !urls.length;
  for (const node of document.querySelectorAll("[data-image]")) node.hidden = urls.length > 0;
}

function zoomSource(at = 0) {
  const picture = $("sources").querySelectorAll("img")[at];
  if (!picture) return;
  enlarge(picture, "zoom-source");
}

// Show a picture in large; the button that leads to it is pressed.

function enlarge(picture, button) {
  $("large").src = picture.src;
  $("large").alt = picture.alt;
  for (const other of document.querySelectorAll(".zoombar [aria-pressed]:not(#zoom-size)")) other.setAttribute("aria-pressed", String(other.id === button));
  if (!dialogOpen()) $("zoom").showModal();
}

function made(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}

// For experts: how many annotators gave each answer, and their reasons.

function counts(node, said) {
  const given = Object.entries(said).filter(([, number]) => number);
  node.replaceChildren(...given.flatMap(([value, number], place) => [place ? " · " : "", made("b", "", value.replace("_", " ")), ` by ${number}`]));
  return node;
}

function notes(lines) {
  $("said").scrollTop = 0;
  $("said-notes").replaceChildren(...lines.map((line) => made("li", "", line)));
}

function settled() {
  if ($("zoom").open) $("zoom").close();
  fit();
  clock = 0;
  since = null;
  if (state && state.done === 0 && asked() && !$("guide").dataset.seen) toggle($("guide"));
  startClock();
  busy = false;
  controls();
  document.body.dataset.question = state ? state.question : "";
}

// Arrow keys scroll a focused text that is longer than its box.
const scrolls = (pressed) => (pressed === "ArrowUp" || pressed === "ArrowDown") && document.activeElement.matches(".text, .said") && document.activeElement.scrollHeight > document.activeElement.clientHeight;

function sharedKey(event, pressed) {
  if (pressed === "p" && asked() && !$("guide").open) toggle($("rest"));
  else if (pressed === "?") toggle($("guide"));
  else if (scrollKey(pressed));
  else return false;
  event.preventDefault();
  return true;
}

// Keys write in the note field; Enter and Escape leave it.
function noteKey(event, pressed) {
  const writing = document.activeElement === $("note");
  if (writing && (pressed === "Escape" || pressed === "Enter" && !event.shiftKey && !event.isComposing)) $("note").blur();
  else if (!writing && pressed === "w" && !event.ctrlKey && !event.metaKey && !event.altKey && asked() && !busy && !dialogOpen()) $("note").focus();
  else return writing;
  event.preventDefault();
  return true;
}

function sharedControls() {
  $("undo").disabled = busy || !state || state.done === 0 || state.stopped;
  $("pause").disabled = !asked();
}

$("more").addEventListener("click", () => {
  $("more").blur();
  scrollKey("PageDown");
});
$("prompt").addEventListener("scroll", reading);
window.addEventListener("resize", fit);
$("undo").addEventListener("click", undo);
$("pause").addEventListener("click", () => toggle($("rest")));
$("help").addEventListener("click", () => toggle($("guide")));
for (const [button, dialog] of [["begin", "guide"], ["go-on", "rest"], ["zoom-close", "zoom"]]) {
  $(button).addEventListener("click", () => {
    $(button).blur();  // from now on Enter is for the question, not for a button that is gone
    $(dialog).close();
  });
}
$("zoom-source").addEventListener("click", () => zoomSource());
$("zoom-size").addEventListener("click", () => {
  const actual = $("zoom").classList.toggle("actual");
  $("zoom-size").setAttribute("aria-pressed", String(actual));
});
for (const name of ["guide", "rest", "zoom"]) {
  $(name).addEventListener("close", () => {
    if (name === "guide") $("guide").dataset.seen = "yes";
    startClock();
    if (document.activeElement !== $("note")) document.activeElement?.blur();  // a button would take Enter
  });
}
document.addEventListener("keydown", (event) => key(event));
document.addEventListener("visibilitychange", () => (document.visibilityState === "hidden" ? stopClock() : startClock()));
window.addEventListener("hashchange", () => location.reload());
