"use strict";
// Loads the report of a run into a frame that has no key and cannot leave it. The fragment is KEY/RUN, as in the list.

const $ = (id) => document.getElementById(id);
const [key, ...path] = location.hash.slice(1).split("/");
const run = path.join("/");

function refuse(text) {
  $("notice").textContent = text;
  $("notice").hidden = false;
}

async function load() {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  try {
    const reply = await fetch("api/ticket", { method: "POST", headers, body: JSON.stringify({ run }), cache: "no-store" });
    if (!reply.ok) return refuse("This page is locked: open the link that view printed.");
    document.title = `${decodeURIComponent(run)} · Report`;
    $("report").src = `report/${(await reply.json()).ticket}`;
    $("report").hidden = false;
    $("report").addEventListener("load", () => $("report").focus(), { once: true });
  } catch {
    refuse("The server does not answer.");
  }
}

window.addEventListener("hashchange", () => location.reload());
load();
