"use strict";
// Shared by view.js and framed.js: requests with the key, and how numbers and states are shown.
// Untrusted text is set by textContent only.

const EVERY_MS = 2000;
const LEAST_COVERAGE = 0.9;  // a run that scored fewer of its images is in trouble
const LOCKED = "This page is locked: open the link that view printed.";
const $ = (id) => document.getElementById(id);
const [key, ...path] = location.hash.slice(1).split("/");  // the key is sent as a header, and stays out of every address

const count = (n) => (n === null ? "–" : n.toLocaleString("en"));
const money = (usd) => (usd === null ? "–" : `$${usd.toFixed(usd > 0 && usd < 0.1 ? 4 : 2)}`);
const percent = (share) => (share === null ? "–" : `${share > 0.999 && share < 1 ? "99.9" : (100 * share).toFixed(share === 1 ? 0 : 1)}%`);
const score = (value) => value.toFixed(Math.abs(value) <= 2 ? 3 : 1);

function span(seconds) {
  if (!(seconds >= 0)) return "–";
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  return h ? `${h} h ${m} min` : m ? `${m} min ${s} s` : `${s} s`;
}

const about = (seconds) => (seconds < 60 ? "under 1 min" : `about ${span(60 * Math.ceil(seconds / 60)).replace(" 0 s", "")}`);

function kind(run) {
  if (run.status === "running") return "running";
  if (run.judged_nothing) return "nothing";
  if (run.coverage !== null && run.coverage < LEAST_COVERAGE && !unfinished(run)) return "trouble";
  if (run.status === "complete" || run.status === "settled") return "complete";
  return unfinished(run) ? "stopped" : "trouble";
}

const unfinished = (run) => run.status.startsWith("incomplete") || run.status === "stopped";

// A sum of USD; requests whose price nobody knows are not in it.
function sum(value, unpriced) {
  if (!unpriced) return money(value);
  return value ? `at least ${money(value)}` : "unknown";
}

const cost = (run) => sum(run.spent, run.unpriced) + (run.cap === null ? "" : ` of ${money(run.cap)}`);

function time(run) {
  if (run.status === "running" && run.seconds_left !== null) return `${about(run.seconds_left)} left`;
  return run.started === null || run.updated === null ? "–" : span(run.updated - run.started);
}

function made(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function notice(text) {
  write($("notice"), text);
  $("notice").hidden = !text;
}

const ask = (address) => fetch(address, { headers: { Authorization: `Bearer ${key}` }, cache: "no-store" });

// Ask for JSON again and again; `show` gets each answer.
async function poll(address, show) {
  try {
    const reply = await ask(address());
    const answer = await reply.json();
    if (reply.ok) {
      show(answer);
      notice("");
    } else {
      for (const waiting of document.querySelectorAll("[role=status]")) if (waiting.textContent === "Loading") waiting.textContent = "";
      notice(reply.status === 401 ? LOCKED : answer.error);
    }
  } catch {
    notice("The server does not answer. This is the last known state.");
  }
  setTimeout(poll, document.visibilityState === "hidden" ? EVERY_MS * 5 : EVERY_MS, address, show);
}

window.addEventListener("hashchange", () => location.reload());
