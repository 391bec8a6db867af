// Navigation between the sections, the keyboard, and the light and dark themes.
const VIEWS = [...document.querySelectorAll("nav a")].map((link) => link.dataset.view);
const SPLIT = { images: imagesView, prompts: promptsView, pairs: pairsView };
const split = {};

function drawStatic() {
  document.querySelectorAll(".count").forEach((count) => { count.textContent = number(SPLIT[count.dataset.of].total()); });
  sortTables();
  document.querySelectorAll("[data-image]").forEach((link) => link.append(picture(data.items[Number(link.dataset.image)], "")));
  if (data.folder) document.querySelectorAll("input[type=search]").forEach((field) => { field.placeholder = "words in prompt, name"; });
}

function route() {
  const [name, tail] = location.hash.slice(1).split("?");
  const view = VIEWS.includes(name) ? name : "overview";
  for (const one of VIEWS) $("#view-" + one).hidden = one !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view) { link.setAttribute("aria-current", "page"); link.scrollIntoView({ block: "nearest", inline: "nearest" }); }
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.view = view;
  if (SPLIT[view] || view === "matrix") {
    split[view] ??= view === "matrix" ? new MatrixView() : new SplitView(SPLIT[view]);
    split[view].enter(new URLSearchParams(tail || ""));
  } else if (route.last !== view) {
    scrollTo(0, 0);
  }
  route.last = view;
  fadeTabs();
  tell();
}

/** Let the tabs fade at a side where there are more of them. */
function fadeTabs() {
  const tabs = $(".top nav");
  tabs.classList.toggle("more-left", tabs.scrollLeft > 1);
  tabs.classList.toggle("more-right", tabs.scrollLeft + tabs.clientWidth < tabs.scrollWidth - 1);
}

/** Tell `view`, which loads the report of a running run again, where the reader is. */
function tell() {
  if (parent !== window) parent.postMessage({ hash: location.hash || "#overview", top: scrollY }, "*");
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
  else if (/^[0-9]$/.test(event.key) && VIEWS[(Number(event.key) || 10) - 1]) location.hash = "#" + VIEWS[(Number(event.key) || 10) - 1];
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
  addEventListener("hashchange", route);
  addEventListener("resize", fadeTabs);
  $(".top nav").addEventListener("scroll", fadeTabs);
  addEventListener("keydown", onKey);
  $(".skip").addEventListener("click", (event) => { event.preventDefault(); $("#main").focus(); });
  route();
  scrollTo(0, Number(window.name) || 0);
  for (const sign of ["scroll", "pointerdown", "keydown"]) addEventListener(sign, tell, { passive: true });
  document.documentElement.dataset.ready = "yes";
}

main().catch((error) => {
  $("#main").prepend(h("p.plain", null, "The report could not be opened: " + error));
});
