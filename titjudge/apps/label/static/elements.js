"use strict";
// Elements of one image: questions, facets, parts of a graph, pillars. An element that needs a missing one is locked.

let rows = [];     // {element, value, node, buttons} in the order of the elements
let current = 0;   // the row that gets the keys

const locked = (row) => row.element.needs.find((place) => rows[place].value === "no");
const valueOf = (row) => (locked(row) === undefined ? row.value : "no");
const KEY_OF = { "10": "0", "cannot tell": "c", "n/a": "n", yes: "y", no: "n" };

// -- showing -----------------------------------------------------------------------------------------------------------

async function show(next) {
  const urls = await arrive(next);
  if (!urls) return;
  if (next?.sheet) {
    [$("picture").src] = urls;
    fill(next.sheet);
  }
  for (const node of document.querySelectorAll("[data-mode]")) node.hidden = node.dataset.mode !== next?.mode;
  $("prompt").blur();
  settled();
}

function fill(sheet) {
  const draft = JSON.parse(localStorage.getItem(draftName()) ?? "null");
  $("note").value = draft?.note ?? sheet.note;
  $("elements").replaceChildren();
  const kinds = new Set(sheet.elements.map((element) => element.kind));
  const headed = kinds.size > 1 && kinds.size < sheet.elements.length;
  let kind = null;
  rows = sheet.elements.map((element, place) => {
    if (headed && element.kind !== kind) $("elements").append(made("h2", "", element.kind));
    kind = element.kind;
    const row = { element, value: draft?.values[place] ?? element.value, node: made("div", "element"), buttons: [] };
    row.node.setAttribute("role", "group");
    row.node.setAttribute("aria-label", element.text);
    row.node.classList.toggle("many", element.values.length > 4);
    const said = made("div");
    said.append(made("p", "", element.text), made("p", "hint", element.hint));
    if (element.said) said.append(counts(made("p", "counts"), element.said));
    const values = made("div", "values");
    for (const value of element.values) {
      const button = made("button", "", value);
      button.type = "button";
      button.addEventListener("click", (event) => {
        if (event.detail) button.blur();
        choose(place, value);
      });
      row.buttons.push(button);
      values.append(button);
    }
    row.node.append(said, values);
    row.node.addEventListener("click", () => move(place));
    $("elements").append(row.node);
    return row;
  });
  $("elements").scrollTop = 0;
  if (state.expert) {
    notes(sheet.notes);
    $("said").hidden = !sheet.notes.length;
  }
  const open = rows.findIndex((row) => valueOf(row) === null);
  current = open < 0 ? 0 : open;
}

function controls() {
  const asking = Boolean(asked()) && !busy;
  rows.forEach((row, place) => {
    const lock = locked(row);
    row.node.classList.toggle("locked", lock !== undefined);
    row.node.classList.toggle("current", asking && place === current);
    row.node.querySelector(".hint").textContent = lock === undefined ? row.element.hint : `no, as ${rows[lock].element.text} is missing`;
    row.buttons.forEach((button, number) => {
      button.disabled = !asking || lock !== undefined;
      button.setAttribute("aria-pressed", String(valueOf(row) === row.element.values[number]));
    });
  });
  const open = rows.filter((row) => valueOf(row) === null).length;
  $("submit").disabled = !asking || open > 0;
  $("discard").disabled = !asking;
  $("discard").hidden = Boolean(state?.expert);
  $("missing").textContent = open ? `${open} to mark` : "Next image";
  $("submit").querySelector("kbd").hidden = open > 0;
  sharedControls();
}

// -- marking -----------------------------------------------------------------------------------------------------------

function move(place) {
  if (!rows[place]) return;
  current = place;
  rows[place].node.scrollIntoView({ block: "nearest" });
  controls();
}

function choose(place, value) {
  if (busy || dialogOpen() || locked(rows[place]) !== undefined) return;
  rows[place].value = value;
  current = place;
  keep();
}

function keep() {
  if (busy) return;
  localStorage.setItem(draftName(), JSON.stringify({ values: rows.map((row) => row.value), note: $("note").value }));
  controls();
}

function step(by) {
  let place = current + by;
  while (rows[place] && locked(rows[place]) !== undefined) place += by;
  move(place);
}

function shift(by) {
  const { values } = rows[current].element;
  const at = values.indexOf(rows[current].value);
  const to = at < 0 ? (by > 0 ? 0 : values.length - 1) : at + by;
  if (values[to] !== undefined) choose(current, values[to]);
}

async function submit() {
  if ($("submit").disabled || dialogOpen() || unread()) return;
  stopClock();
  await send("api/vote", { question: state.question, answer: rows.map(valueOf), note: $("note").value, duration_ms: Math.round(clock) });
}

async function discard() {
  if (!asked() || busy || state.expert || dialogOpen() || unread()) return;
  const reason = $("note").value.trim();
  if (!reason) {
    notice("Write why you discard this image, then discard it.");
    $("note").focus();
    return;
  }
  stopClock();
  await send("api/vote", { question: state.question, answer: { discard: reason }, note: reason, duration_ms: Math.round(clock) });
}

function zoom() {
  if (asked()) enlarge($("picture"), "");
}

function valueFor(pressed) {
  const { values } = rows[current].element;
  const named = values.find((value) => (KEY_OF[value] ?? value) === pressed);
  return named ?? (isNaN(values[0]) ? values[Number(pressed) - 1] : undefined);
}

function key(event) {
  const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (noteKey(event, pressed)) return;
  const arrow = pressed.startsWith("Arrow");
  if (scrolls(pressed) || event.repeat && !arrow || event.ctrlKey && pressed !== "z" || event.metaKey && pressed !== "z" || event.altKey) return;
  if ($("zoom").open) {
    if (pressed === "f") $("zoom").close();
    else if (pressed === "s") zoomSource();
    return;
  }
  if (sharedKey(event, pressed) || dialogOpen() || !asked() && pressed !== "z") return;
  if (pressed === "Enter") {
    if (document.activeElement?.tagName === "BUTTON") return;
    submit();
  } else if (pressed === "z" || pressed === "Backspace") undo();
  else if (pressed === "f") zoom();
  else if (pressed === "d") discard();
  else if (pressed === "ArrowDown" || pressed === "ArrowUp") step(pressed === "ArrowDown" ? 1 : -1);
  else if (pressed === "ArrowLeft" || pressed === "ArrowRight") shift(pressed === "ArrowRight" ? 1 : -1);
  else {
    const value = valueFor(pressed);
    if (value === undefined || busy) return;
    choose(current, value);
    step(1);
  }
  event.preventDefault();
}

$("submit").addEventListener("click", submit);
$("discard").addEventListener("click", discard);
$("note").addEventListener("input", keep);
$("frame").addEventListener("click", zoom);
load();
