"use strict";
// Polls how far the labelling is. Untrusted text is set by textContent only.

const EVERY_MS = 5000;
const $ = (id) => document.getElementById(id);
const key = location.hash.slice(1);  // it is sent as a header, and stays out of every address that is requested

const count = (n) => n.toLocaleString("en");

function made(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}

function span(seconds) {
  if (seconds === null) return "–";
  const minutes = Math.round(seconds / 60);
  if (minutes < 1) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function ago(seconds) {
  if (seconds === null) return "not begun";
  const since = Math.max(0, Date.now() / 1000 - seconds);
  return since < 60 ? "just now" : `${span(since)} ago`;
}

function cells(columns, values, numbers) {
  return values.map((value, place) => {
    const cell = made("td", numbers[place] ? "number" : "");
    cell.dataset.title = columns[place];
    cell.append(value);
    return cell;
  });
}

function person(one) {
  const bar = made("progress");
  bar.max = Math.max(one.done + one.left, 1);
  bar.value = one.done;
  bar.setAttribute("aria-label", `Progress of ${one.name}`);
  const row = made("tr");
  const name = made("span", one.stopped ? "stopped" : "", one.stopped ? `${one.name} (stopped: checks wrong)` : one.name);
  const left = one.seconds === null || one.left === 0 ? null : one.seconds * one.left;
  const titles = ["Who", "Done", "Answers", "To go, at most", "An answer takes", "Too fast", "Left, about", "Last answer"];
  row.append(...cells(titles, [name, bar, count(one.done), count(one.left), span(one.seconds), count(one.too_fast), span(left), ago(one.last)], [0, 0, 1, 1, 1, 1, 1, 0]));
  return row;
}

function table({ title, columns, rows, notes }) {
  const section = made("section"), node = made("table", columns.length > 3 ? "wide" : ""), head = made("tr"), body = made("tbody");
  const numbers = columns.map((_, place) => rows.length > 0 && rows.every((row) => /^[–-]?[\d.,%]*$/.test(row[place])));
  head.append(...columns.map((column, place) => made("th", numbers[place] ? "number" : "", column)));
  body.append(...rows.map((row) => {
    const line = made("tr");
    line.append(...cells(columns, row, numbers));
    return line;
  }));
  const top = made("thead");
  top.append(head);
  node.append(top, body);
  section.append(made("h2", "", title), node, ...notes.map((note) => made("p", "note", note)));
  return section;
}

function show({ people, seats, tables, no_tables, export: command }) {
  const done = people.reduce((total, one) => total + one.done, 0), left = people.reduce((total, one) => total + one.left, 0);
  const ready = people.filter((one) => one.left === 0 && one.done > 0).length;
  const come = seats ? `${count(people.length)} of at most ${count(seats)} people have come; ` : "";
  $("summary").textContent = `${come}${count(done)} answers, at most ${count(left)} to go; done: ${ready} of ${people.length}`;
  document.querySelector("#people tbody").replaceChildren(...people.map(person));
  $("tables").replaceChildren(...tables.map(table));
  $("none").textContent = no_tables;
  $("none").hidden = !no_tables;
  $("export").textContent = command;
  $("overview").hidden = false;
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

async function poll() {
  try {
    const reply = await fetch("api/overview", { headers: { Authorization: `Bearer ${key}` }, cache: "no-store" });
    if (reply.ok) show(await reply.json());
    notice(reply.ok ? "" : "This link does not work: open the organiser's link that label printed.");
  } catch {
    notice("The server does not answer. This is the last known state.");
  }
  setTimeout(poll, document.visibilityState === "hidden" ? EVERY_MS * 6 : EVERY_MS);
}

window.addEventListener("hashchange", () => location.reload());
poll();
