"use strict";
// Polls the state of the runs. Untrusted text is set by textContent only.

const EVERY_MS = 2000;
const $ = (id) => document.getElementById(id);
const key = location.hash.slice(1);  // it is sent as a header, and stays out of every address that is requested
const rows = new Map();  // run id -> list element

const count = (n) => (n === null ? "–" : n.toLocaleString("en"));
const money = (usd) => (usd === null ? "–" : `$${usd.toFixed(usd > 0 && usd < 0.1 ? 4 : 2)}`);

function span(seconds) {
  if (!(seconds >= 0)) return "–";
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  return h ? `${h} h ${m} min` : m ? `${m} min ${s} s` : `${s} s`;
}

function kind(status) {
  if (status === "running" || status === "complete") return status;
  return status.startsWith("incomplete") || status === "stopped" ? "stopped" : "trouble";
}

function fill(row, run) {
  const set = (selector, text) => { row.querySelector(selector).textContent = text; };
  row.dataset.state = kind(run.status);
  set("h2", run.id);
  set(".status", run.status);
  const bar = row.querySelector("progress");
  bar.hidden = run.total === null;
  bar.max = Math.max(run.total ?? 1, 1);
  bar.value = Math.min(run.scores, bar.max);
  bar.setAttribute("aria-label", `Progress of ${run.id}`);
  set(".scores", run.total === null ? count(run.scores) : `${count(run.scores)} of ${count(run.total)}`);
  set(".failed", count(run.failed));
  set(".spent", sum(run.spent, run.unpriced));
  set(".time", run.started === null || run.updated === null ? "–" : span(run.updated - run.started));
  set(".detail", run.problem || [run.suite, run.metrics.join(", "), run.models.join(", ")].filter(Boolean).join(" · "));
  const link = row.querySelector(".report");
  link.hidden = !run.href;
  if (run.href) link.href = `report.html#${key}/${run.href}`;
  link.setAttribute("aria-label", `Open the report of ${run.id}`);
}

// A sum of USD; requests whose price nobody knows are not in it.
function sum(value, unpriced) {
  if (!unpriced) return money(value);
  return value ? `at least ${money(value)}` : "unknown";
}

function show({ root, runs }) {
  $("root").textContent = root === "runs" ? "" : root;
  const going = runs.filter((run) => run.status === "running").length;
  const spent = runs.reduce((sum, run) => sum + (run.spent ?? 0), 0);
  const unpriced = runs.reduce((sum, run) => sum + run.unpriced, 0);
  $("summary").textContent = `${count(runs.length)} in all, ${count(going)} running, ${sum(spent, unpriced)} spent`;
  document.title = going ? `${going} running · Runs` : "Runs";
  $("empty").hidden = runs.length > 0;
  const present = new Set(runs.map((run) => run.id));
  for (const [id, row] of rows) {
    if (!present.has(id)) {
      row.remove();
      rows.delete(id);
    }
  }
  runs.forEach((run, place) => {
    let row = rows.get(run.id);
    if (!row) {
      row = $("row").content.firstElementChild.cloneNode(true);
      rows.set(run.id, row);
    }
    fill(row, run);
    if ($("runs").children[place] !== row) $("runs").insertBefore(row, $("runs").children[place] ?? null);
  });
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

async function poll() {
  try {
    const reply = await fetch("api/runs", { headers: { Authorization: `Bearer ${key}` }, cache: "no-store" });
    if (reply.ok) {
      show(await reply.json());
      notice("");
    } else {
      if ($("summary").textContent === "Loading") $("summary").textContent = "";
      notice("This page is locked: open the link that view printed.");
    }
  } catch {
    notice("The server does not answer. This is the last known state.");
  }
  setTimeout(poll, document.visibilityState === "hidden" ? EVERY_MS * 5 : EVERY_MS);
}

window.addEventListener("hashchange", () => location.reload());
poll();
