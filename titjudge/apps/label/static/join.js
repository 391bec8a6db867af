"use strict";
// Asks for a name, and goes on to the page of that person. The last name, and the key of each name that was typed here, stay in
// this browser, so that nobody is asked twice whether they are themselves.
// Untrusted text is set by textContent only.

const $ = (id) => document.getElementById(id);
const link = location.hash.slice(1);  // the key that lets people in; it is sent as a header
const LAST = `name ${link}`;
const placeOf = (name) => `key ${link} ${name.trim().toLowerCase()}`;  // in localStorage
let busy = false;

function turn(to) {
  for (const part of ["ask", "taken", "broken"]) $(part).hidden = part !== to;
  document.body.dataset.state = to;
  if (to === "ask") $("name").focus();
  if (to === "taken") $("another").focus();
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function problem(text) {
  $("problem").textContent = text;
  $("name").setAttribute("aria-invalid", String(Boolean(text)));
}

function ago(seconds) {
  const minutes = Math.round((Date.now() / 1000 - seconds) / 60);
  if (minutes < 2) return "just now";
  if (minutes < 120) return `${minutes} minutes ago`;
  return minutes < 48 * 60 ? `${Math.round(minutes / 60)} hours ago` : `${Math.round(minutes / 60 / 24)} days ago`;
}

function described({ name, done, last }) {
  const what = !done ? "has come here from another browser, without an answer so far." :
    `has given ${done === 1 ? "one answer" : `${done} answers`} from another browser, the last one ${ago(last)}.`;
  const strong = document.createElement("b");
  strong.textContent = name;
  return [strong, ` ${what}`];
}

function post(body) {
  const headers = { Authorization: `Bearer ${link}`, "Content-Type": "application/json" };
  return fetch("api/join", { method: "POST", headers, body: JSON.stringify(body), cache: "no-store" });
}

async function answered(reply) {
  notice("");
  if (reply.status === 401) return turn("broken");
  if (reply.status === 403) return notice(await reply.text());
  const { error, taken, name, key } = await reply.json();
  if (error) return problem(`${error[0].toUpperCase()}${error.slice(1)}.`);
  if (taken) {
    $("holder").replaceChildren(...described(taken));
    return turn("taken");
  }
  localStorage.setItem(LAST, name);
  localStorage.setItem(placeOf(name), key);
  location.assign(`./#${key}`);
}

async function join(sure) {
  if (busy) return;
  busy = true;
  problem("");
  const name = $("name").value;
  try {
    await answered(await post({ name, key: localStorage.getItem(placeOf(name)) ?? "", sure }));
  } catch {
    notice("The server does not answer. Try again in a moment.");
  }
  busy = false;
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  join(false);
});
$("same").addEventListener("click", () => join(true));
$("another").addEventListener("click", () => {
  $("name").value = "";
  turn("ask");
});
window.addEventListener("hashchange", () => location.reload());
$("name").value = localStorage.getItem(LAST) ?? "";
if ($("name").value) $("begin").textContent = "Go on";
turn(link ? "ask" : "broken");
