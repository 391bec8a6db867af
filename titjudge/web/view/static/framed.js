"use strict";
// Loads a report into a frame that has no key and cannot leave it. The fragment is KEY/RUN, as in the list, or KEY/RUN&RUN
// for two side by side.

const $ = (id) => document.getElementById(id);
const [key, ...path] = location.hash.slice(1).split("/");
const runs = path.join("/").split("&");

function say(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

async function load() {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const waiting = setTimeout(say, 700, "The report is being made. This takes some seconds for each hundred images.");
  try {
    document.title = `${runs.map(decodeURIComponent).join(" · ")} · Report`;
    const reply = await fetch("api/ticket", { method: "POST", headers, body: JSON.stringify({ runs }), cache: "no-store" });
    clearTimeout(waiting);
    if (reply.status === 403) return say(await reply.text());
    const answer = await reply.json();
    if (!reply.ok) return say(reply.status === 401 ? "This page is locked: open the link that view printed." : `No report: ${answer.error}`);
    say("");
    $("report").src = `report/${answer.ticket}/`;
    $("report").hidden = false;
    $("report").addEventListener("load", () => $("report").focus(), { once: true });
  } catch {
    clearTimeout(waiting);
    say("The server does not answer.");
  }
}

window.addEventListener("hashchange", () => location.reload());
load();
