"use strict";
// All images of a prompt: they are chosen from best to worst, equals together.

let tiers = [];   // places of images from best to worst, equals in one list
let cards = [];   // {node, rank, picture} in the order of the images
let equal = false;  // the next image joins the last tier

const ranked = () => tiers.flat();

// -- showing -----------------------------------------------------------------------------------------------------------

async function show(next) {
  const urls = await arrive(next);
  if (!urls) return;
  if (next?.sheet) fill(next.sheet, urls);
  $("prompt").blur();
  settled();
}

function fill(sheet, urls) {
  const draft = JSON.parse(localStorage.getItem(draftName()) ?? "null");
  $("note").value = draft?.note ?? sheet.note;
  tiers = draft?.tiers ?? tiersOf(sheet.ranks);
  equal = false;
  cards = sheet.images.map((_, place) => {
    const card = made("div", "card"), node = made("button", "frame"), picture = made("img"), look = made("button", "look", "Enlarge");
    const rank = made("span", "rank", "–");
    node.type = look.type = "button";
    picture.src = urls[place];
    picture.alt = `Image ${place + 1}`;
    picture.draggable = false;
    look.setAttribute("aria-label", `Enlarge image ${place + 1}`);
    node.append(picture, rank);
    node.addEventListener("click", (event) => {
      if (event.detail) node.blur();
      choose(place);
    });
    look.addEventListener("click", () => enlarge(picture, ""));
    card.append(node, look);
    return { card, node, rank, picture };
  });
  $("ranks").replaceChildren(...cards.map(({ card }) => card));
  $("ranks").scrollTop = 0;
}

function tiersOf(ranks) {
  const values = [...new Set(ranks.filter((rank) => rank !== null))].sort((a, b) => a - b);
  return values.map((value) => ranks.flatMap((rank, place) => (rank === value ? [place] : [])));
}

function ranksOf() {
  const ranks = cards.map(() => null);
  let before = 0;
  for (const tier of tiers) {
    for (const place of tier) ranks[place] = before + 1;
    before += tier.length;
  }
  return ranks;
}

function controls() {
  const asking = Boolean(asked()) && !busy;
  const ranks = ranksOf();
  cards.forEach(({ node, rank }, place) => {
    node.disabled = !asking;
    node.setAttribute("aria-pressed", String(ranks[place] !== null));
    node.setAttribute("aria-label", `Image ${place + 1}: ${ranks[place] === null ? "no rank" : `rank ${ranks[place]}`}`);
    rank.textContent = ranks[place] ?? "–";
  });
  const open = ranks.filter((rank) => rank === null).length;
  $("submit").disabled = !asking || open > 0;
  $("missing").textContent = open ? `${open} to rank` : "Next prompt";
  $("submit").querySelector("kbd").hidden = open > 0;
  $("tie").disabled = !asking || !tiers.length || !open;
  $("tie").setAttribute("aria-pressed", String(equal));
  sharedControls();
}

// -- ranking -----------------------------------------------------------------------------------------------------------

function choose(place) {
  if (busy || dialogOpen() || !cards[place]) return;
  if (ranked().includes(place)) tiers = tiers.map((tier) => tier.filter((other) => other !== place)).filter((tier) => tier.length);
  else if (equal && tiers.length) tiers.at(-1).push(place);
  else tiers.push([place]);
  equal = false;
  keep();
}

function tie() {
  if ($("tie").disabled || dialogOpen()) return;
  equal = !equal;
  controls();
}

function keep() {
  if (busy) return;
  localStorage.setItem(draftName(), JSON.stringify({ tiers, note: $("note").value }));
  controls();
}

async function submit() {
  if ($("submit").disabled || dialogOpen() || unread()) return;
  stopClock();
  await send("api/vote", { question: state.question, answer: ranksOf(), note: $("note").value, duration_ms: Math.round(clock) });
}

function key(event) {
  const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (noteKey(event, pressed)) return;
  if (scrolls(pressed) || event.repeat || event.ctrlKey && pressed !== "z" || event.metaKey && pressed !== "z" || event.altKey) return;
  if ($("zoom").open) return;
  if (sharedKey(event, pressed) || dialogOpen() || !asked() && pressed !== "z") return;
  if (pressed === "Enter") {
    if (document.activeElement?.tagName === "BUTTON") return;
    submit();
  } else if (pressed === "z" || pressed === "Backspace") undo();
  else if (pressed === "t") tie();
  else if (/^[1-9]$/.test(pressed)) choose(Number(pressed) - 1);
  else return;
  event.preventDefault();
}

$("submit").addEventListener("click", submit);
$("tie").addEventListener("click", tie);
$("note").addEventListener("input", keep);
load();
