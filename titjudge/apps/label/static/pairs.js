"use strict";
// Pairs: one question at a time, two images.

const KEYS = { ArrowLeft: "left", 1: "left", ArrowDown: "tie", 2: "tie", ArrowRight: "right", 3: "right", ArrowUp: "both_bad", 4: "both_bad" };

function vote(answer) {
  if (!asked() || busy || dialogOpen() || !asked().answers.includes(answer) || unread()) return;
  stopClock();
  document.querySelector(`[data-answer="${answer}"]`).classList.add("chosen");
  send("api/vote", { question: state.question, answer, note: $("note").value, duration_ms: Math.round(clock) });
}

async function show(next) {
  const urls = await arrive(next);
  if (!urls) return;
  const pair = next?.sheet;
  if (pair) {
    document.body.classList.toggle("three-answers", !pair.answers.includes("both_bad"));
    [$("left").src, $("right").src] = urls;
    if (next.expert) {
      counts($("said-counts"), pair.said);
      notes(pair.notes);
    }
    $("note").value = localStorage.getItem(draftName()) ?? pair.note;
  }
  for (const button of document.querySelectorAll(".chosen")) button.classList.remove("chosen");
  $("prompt").blur();
  settled();
}

function controls() {
  const asking = Boolean(asked()) && !busy;
  for (const button of document.querySelectorAll("[data-answer]")) button.disabled = !asking;
  sharedControls();
}

function zoom(side) {
  if (asked()) enlarge($(side), `zoom-${side}`);
}

function zoomKey(event) {
  if (event.key === "ArrowLeft" || event.key === "1") zoom("left");
  else if (event.key === "ArrowRight" || event.key === "3") zoom("right");
  else if (event.key.toLowerCase() === "s") zoomSource();
  else if (event.key.toLowerCase() === "f") $("zoom").close();
  else return;
  event.preventDefault();
}

function key(event) {
  const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (noteKey(event, pressed)) return;
  if (scrolls(pressed) || event.repeat || event.ctrlKey && event.key !== "z" || event.metaKey && event.key !== "z" || event.altKey) return;
  if ($("zoom").open) return zoomKey(event);
  if (sharedKey(event, pressed) || dialogOpen()) return;
  if (KEYS[pressed]) vote(KEYS[pressed]);
  else if (pressed === "z" || pressed === "Backspace") undo();
  else if (pressed === "f") zoom("left");
  else if (pressed === "s" && sources().length && asked()) zoomSource();
  else return;
  event.preventDefault();
}

for (const button of document.querySelectorAll("[data-answer]")) button.addEventListener("click", () => vote(button.dataset.answer));
for (const side of ["left", "right"]) {
  $(`frame-${side}`).addEventListener("click", () => zoom(side));
  $(`zoom-${side}`).addEventListener("click", () => zoom(side));
}
$("note").addEventListener("input", () => busy || localStorage.setItem(draftName(), $("note").value));
load();
