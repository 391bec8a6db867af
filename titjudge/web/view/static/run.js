"use strict";
// One run while it goes on. Pictures are fetched with the key as they come into view, and kept as blobs.

const STEP = 48;
const run = path.join("/");
const cards = new Map();  // item -> list element
let most = STEP;

const address = () => `api/run?run=${encodeURIComponent(run)}&shown=${most}&failed=${Number($("failed").checked)}&generator=${encodeURIComponent($("generator").value)}`;

function facts(state) {
  const judged = state.scored + state.failed;
  const values = {
    Scores: state.total === null ? count(judged) : `${count(judged)} of ${count(state.total)}`,
    "Without a score": count(state.failed),
    Cost: cost(state),
    Time: time(state),
    "Errors met": count(state.errors),
    Metrics: state.metrics.join(", "),
    Models: state.models.join(", "),
  };
  $("facts").replaceChildren(...Object.entries(values).filter(([, value]) => value).map(([title, value]) => {
    const pair = made("div");
    pair.append(made("dt", "", title), made("dd", "", value));
    return pair;
  }));
}

function heading(state) {
  write($("name"), state.id);
  document.title = `${state.id} · Run`;
  document.body.dataset.state = kind(state);
  $("status").replaceChildren(state.status);
  const link = made("a", "", state.report ? "Report" : "Make a report");
  link.href = `report.html#${key}/${run}`;
  if (state.scored) $("status").append(" · ", link);
  $("progress").hidden = state.status !== "running" || state.total === null;
  $("progress").max = Math.max(state.total ?? 1, 1);
  $("progress").value = Math.min(state.scored + state.failed, $("progress").max);
  const [first, ...others] = state.verdict;
  $("verdict").replaceChildren(...(first ? [made("p", "", first), ...others.map((line) => made("p", "quiet", line))] : []));
  write($("trouble"), state.problem || (state.trouble && `Last error: ${state.trouble}`));
  $("trouble").hidden = !$("trouble").textContent;
}

function means(state) {
  const metrics = Object.keys(state.boards);
  const generators = [...new Set([state.means, ...Object.values(state.boards)].flat().map(([generator]) => generator))];
  const ranked = Object.keys(state.ranks).length > 0;
  const mean = (metric, generator) => state.boards[metric].find(([name]) => name === generator)?.[1];
  $("means").hidden = generators.length === 0;
  $("means-heads").replaceChildren(made("th", "", "Generator"), ...(ranked ? [made("th", "number", "Rank")] : []), ...metrics.map((metric) => made("th", "number", metric)));
  $("means-rows").replaceChildren(...generators.map((generator) => {
    const row = made("tr");
    row.append(made("th", "", generator || "all images"), ...(ranked ? [made("td", "number", state.ranks[generator] ?? "–")] : []));
    row.append(...metrics.map((metric) => made("td", "number", mean(metric, generator) === undefined ? "–" : score(mean(metric, generator)))));
    return row;
  }));
  const known = new Set([...$("generator").options].map((option) => option.value));
  for (const generator of generators.filter((one) => !known.has(one))) $("generator").append(new Option(generator, generator));
  $("generator").hidden = generators.length < 2;
}

function reasons({ reasons: listed, advice }) {
  $("reasons").hidden = listed.length === 0;
  $("advice").replaceChildren(...advice.map((line) => made("li", "", line)));
  $("reasons-list").replaceChildren(...listed.map(([reason, number]) => {
    const line = made("li");
    line.append(made("b", "", count(number)), ` ${reason}`);
    return line;
  }));
}

// -- images ------------------------------------------------------------------------------------------------------------

const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    watcher.unobserve(target);
    picture(target);
  }
}, { rootMargin: "600px" });

async function picture(frame) {
  const place = `api/picture?run=${encodeURIComponent(run)}&item=${encodeURIComponent(frame.dataset.item)}`;
  try {
    const reply = await fetch(place, { headers: { Authorization: `Bearer ${key}` } });
    if (!reply.ok) return write(frame, (await reply.json()).error);
    const image = made("img");
    image.alt = frame.dataset.item;
    image.src = URL.createObjectURL(await reply.blob());
    image.addEventListener("load", () => URL.revokeObjectURL(image.src), { once: true });
    frame.replaceChildren(image);
  } catch {
    watcher.observe(frame);  // the server does not answer: tried again when it comes into view
  }
}

function card(image) {
  const node = made("li", "card"), frame = made("div", "frame");
  frame.dataset.item = image.item;
  node.append(frame, made("p", "by"), made("ul", "values"), made("p", "prompt"));
  watcher.observe(frame);
  return node;
}

function fill(node, image) {
  node.classList.toggle("failed", image.scores.some((one) => one.value === null));
  write(node.querySelector(".by"), image.generator || image.item);
  node.querySelector(".by").title = image.item;
  write(node.querySelector(".prompt"), image.prompt);
  node.querySelector(".prompt").title = image.prompt;
  node.querySelector(".values").replaceChildren(...image.scores.map((one) => {
    const line = made("li");
    line.append(made("b", "", one.value === null ? one.status : score(one.value)), ` ${one.metric}`);
    if (one.reason) line.append(made("span", "", one.reason));
    return line;
  }));
}

function images(listed, more) {
  $("judged").hidden = listed.length === 0 && !$("failed").checked && !$("generator").value;
  const present = new Set(listed.map((image) => image.item));
  for (const [item, node] of cards) {
    if (!present.has(item)) {
      node.remove();
      cards.delete(item);
    }
  }
  listed.forEach((image, place) => {
    let node = cards.get(image.item);
    if (!node) cards.set(image.item, node = card(image));
    fill(node, image);
    if ($("images").children[place] !== node) $("images").insertBefore(node, $("images").children[place] ?? null);
  });
  $("more").hidden = more === 0;
  write($("more"), `Show ${count(Math.min(more, STEP))} more of ${count(more)}`);
}

function show(state) {
  $("run").hidden = false;
  heading(state);
  facts(state);
  means(state);
  reasons(state);
  images(state.images, state.more);
}

async function now() {
  const reply = await ask(address());
  if (reply.ok) show(await reply.json());
}

$("back").href = `./#${key}`;
$("more").addEventListener("click", () => {
  most += STEP;
  now();
});
for (const id of ["failed", "generator"]) $(id).addEventListener("change", now);
document.querySelector(".tools").addEventListener("submit", (event) => event.preventDefault());
poll(address, show);
