// Navigation between the sections, the keyboard, and the light and dark themes.
const VIEWS = [...document.querySelectorAll("nav a")].map((link) => link.dataset.view);
const SPLIT = { images: imagesView, prompts: promptsView, pairs: pairsView };
const split = {};

function drawStatic() {
  const told = data.summary;
  $("#title").textContent = told.title;
  $("#n-images").textContent = number(data.items.length);
  $("#n-prompts").textContent = number(prompts().length);
  $("#n-pairs").textContent = number(data.pairs.length);
  add($("#headlines"), [told.runs.map((run) => headline(run, told.runs.length > 1))]);
  add($("#overview-tables"), [told.overview.map((table) => drawTable(table))]);
  add($("#failures-tables"), [told.failures.map((table) => drawTable(table))]);
  add($("#deviations"), [told.deviations.map(deviations)]);
  add($("#provenance-tables"), [told.provenance.map((table) => drawTable(table))]);
  add($("#manifests"), [told.manifests.map((one) => h("details.block", null, h("summary", null, "The whole manifest, ", outside(one.run)), outside(one.text, "pre")))]);
  const legend = $("#legend");
  if (legend) add(legend, [data.judges.slice(0, 6).map((judge, at) => h("li", null, marker(at), outside(judge.label)))]);
  for (const line of document.querySelectorAll(".curve .legend li")) line.prepend(marker(Number(line.dataset.colour)));
  for (const spot of document.querySelectorAll(".steps-table")) spot.append(drawTable(told.claims[Number(spot.dataset.steps)]));
  for (const spot of document.querySelectorAll("[data-section]")) {
    const { tables, worst } = told.generators[Number(spot.dataset.section)];
    const board = spot.dataset.part === "board";
    add(spot, [(board ? tables.slice(0, 1) : tables.slice(1)).map((table) => drawTable(table, "h3")), board ? null : worstPrompts(worst)]);
  }
  const charts = JSON.parse($("#chart-data").textContent);
  for (const spot of document.querySelectorAll(".chart-table")) {
    const chart = charts[Number(spot.dataset.chart)];
    const draw = () => spot.append(drawTable({ title: chart.title, columns: chart.columns, rows: chart.rows, text: 2 }, "h3"));
    spot.closest("details").addEventListener("toggle", draw, { once: true });
  }
}

function headline(run, several) {
  const complete = run.status === "complete";
  return h("section.headline", null,
    several ? outside(run.name, "h2") : null,
    h("p.lead", null, outside(run.lead, "span")),
    h("p.note", null, outside(run.counts, "span")),
    complete ? null : h("p.banner", { role: "note" }, h("strong", null, "This run is not complete: "), outside(run.status, "span")),
    h("dl.facts", null, run.facts.map((fact) => h("div", null, h("dt", null, outside(fact.label, "span")), h("dd", null, h("a", { href: fact.h }, fact.value), h("small", null, fact.sub))))),
    run.warnings.slice(0, 3).map(banner),
    run.warnings.length > 3 ? h("details", null, h("summary", null, `${run.warnings.length - 3} more warnings`), run.warnings.slice(3).map(banner)) : null);
}

/** Show the prompts with the lowest mean scores, the worst image first. */
function worstPrompts(worst) {
  if (!worst.length) return null;
  return h("section.block", null, h("h3", null, "Worst prompts"),
    h("ol.worst", null, worst.map((one) => {
      const items = one.items.map((at) => data.items[at]);
      const prompt = prompts().findIndex((each) => each.items.includes(items[0]));
      return h("li", null,
        h("p", null, h("a", { href: place("prompts", { i: prompt }) }, outside(shorten(text(items[0].p), 240)))),
        h("p.note", null, `Mean ${one.mean} of ${number(one.of)} image${one.of === 1 ? "" : "s"}`, one.of > items.length ? `, the lowest ${items.length}:` : ":"),
        h("div.shots", null, items.map((item) => h("a", { href: place("images", { i: item.at }) }, picture(item, `Image ${item.id}`), outside(item.g, "small"), h("small", null, shown(item.s[one.judge].v, one.judge))))));
    })));
}

const banner = (warning) => h("p.banner", { role: "note" }, outside(warning, "span"));

function deviations(about) {
  return h("section.block", null, h("h2", null, "Deviations from the suite", data.summary.runs.length > 1 ? [", ", outside(about.run)] : null),
    about.protocol ? h("p.note", null, `Protocol: ${about.protocol}.`) : null,
    about.list.length ? h("ul.plain-list", null, about.list.map((one) => h("li", null, outside(one, "span")))) : h("p.plain", null, "None are listed."));
}

const SHAPES = ["M1 6a5 5 0 1 0 10 0a5 5 0 1 0-10 0", "M2 2h8v8h-8z", "M6 1l5 9.5h-10z", "M6 0.5l5.5 5.5l-5.5 5.5l-5.5-5.5z", "M6 11l5-9.5h-10z", "M4 1h4v3h3v4h-3v3h-4v-3h-3v-4h3z"];
const marker = (at) => svg("svg", { class: "marker", viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("path", { class: "f-c" + at, d: SHAPES[at] }));

function route() {
  const [name, tail] = location.hash.slice(1).split("?");
  const view = VIEWS.includes(name) ? name : "overview";
  for (const one of VIEWS) $("#view-" + one).hidden = one !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view) { link.setAttribute("aria-current", "page"); link.scrollIntoView({ block: "nearest", inline: "nearest" }); }
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.view = view;
  if (SPLIT[view]) {
    split[view] ??= new SplitView(SPLIT[view]);
    split[view].enter(new URLSearchParams(tail || ""));
  } else if (route.last !== view) {
    scrollTo(0, 0);
  }
  route.last = view;
}

/** Navigate synchronously, so that keys pressed in quick succession each start from the state that the last one led to. */
function go(fragment) {
  history.replaceState(null, "", fragment);
  route();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const view = split[document.body.dataset.view];
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape") {
    if (typing) typing.blur();
    else if (view && view.root.classList.contains("opened")) location.hash = place(view.about.name, view.filters);
    return;
  }
  if (typing) return;
  const reading = event.target.closest?.(".detail, .wide-table, pre, dialog");  // there the arrows scroll
  if (view && !reading && /^Arrow(Up|Down|Left|Right)$/.test(event.key)) {
    event.preventDefault();
    view.move(event.key === "ArrowDown" || event.key === "ArrowRight" ? 1 : -1);
    return;
  }
  const act = {
    j: () => view && view.move(1),
    k: () => view && view.move(-1),
    "/": () => { if (!view) location.hash = "#images"; setTimeout(() => $(".view:not([hidden]) input[type=search]")?.focus(), view ? 0 : 30); },
    "?": () => $("#help").showModal(),
    t: nextTheme,
    r: () => { const all = [...document.querySelectorAll(".view:not([hidden]) .receipts")]; const shut = all.some((one) => !one.open); all.forEach((one) => { one.open = shut; }); },
  }[event.key];
  if (act) { event.preventDefault(); act(); }
  else if (/^[1-9]$/.test(event.key) && VIEWS[Number(event.key) - 1]) location.hash = "#" + VIEWS[Number(event.key) - 1];
}

const THEMES = ["auto", "light", "dark"];
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("#theme").textContent = "Theme: " + theme;
  try { localStorage.setItem("titjudge-theme", theme); } catch { /* a file without storage: the choice lasts as long as the page */ }
}
const nextTheme = () => setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);

async function main() {
  let theme = "auto";
  try { theme = localStorage.getItem("titjudge-theme") || "auto"; } catch { /* as above */ }
  setTheme(THEMES.includes(theme) ? theme : "auto");
  $("#theme").addEventListener("click", nextTheme);
  $("#help-open").addEventListener("click", () => $("#help").showModal());
  await open();
  drawStatic();
  $("#loading").remove();
  addEventListener("hashchange", route);
  addEventListener("keydown", onKey);
  $(".skip").addEventListener("click", (event) => { event.preventDefault(); $("#main").focus(); });
  route();
  document.documentElement.dataset.ready = "yes";
}

main().catch((error) => {
  const spot = $("#loading") || $("#main").appendChild(h("p.plain"));
  spot.textContent = "The report could not be opened: " + error;
});
