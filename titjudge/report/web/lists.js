// A virtual list with a few dozen of its rows in the page, its filters, and their state in the address.
const ROWS_AROUND = 6;

class VirtualList {
  constructor(scroller, draw) {
    this.scroller = scroller;
    this.rows = $(".rows", scroller);
    this.draw = draw;
    this.shown = [];
    this.chosen = -1;
    this.from = this.to = -1;
    this.made = new Map();
    let waiting = false;
    scroller.addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; this.render(); });
    }, { passive: true });
    new ResizeObserver(() => this.render(true)).observe(scroller);
  }

  get height() {
    return parseFloat(getComputedStyle(this.rows).getPropertyValue("--row")) || 88;
  }

  show(shown, chosen) {
    this.shown = shown;
    this.chosen = chosen;
    this.rows.style.height = this.height * shown.length + "px";
    this.render(true);
  }

  render(again) {
    const { height } = this;
    const from = Math.max(0, Math.floor(this.scroller.scrollTop / height) - ROWS_AROUND);
    const to = Math.min(this.shown.length, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / height) + ROWS_AROUND);
    if (!again && from === this.from && to === this.to) return;
    const focused = this.rows.contains(document.activeElement) ? Number(document.activeElement.dataset.at) : -1;
    this.from = from;
    this.to = to;
    const made = new Map();
    for (let index = from; index < to; index += 1) made.set(index, (!again && this.made.get(index)) || this.row(index, height));
    this.place(made);
    if (focused >= from && focused < to) $(`a[data-at="${focused}"]`, this.rows)?.focus({ preventScroll: true });
  }

  /** Draw some rows again: those in the page whose content has `changed`. */
  renew(changed) {
    for (const [index, row] of this.made) {
      if (!changed(this.shown[index])) continue;
      row.remove();
      this.made.delete(index);
    }
    this.from = -1;
    this.render();
  }

  /** Put the rows into the page in their order; those that are there already are not touched. */
  place(made) {
    for (const [index, row] of this.made) if (made.get(index) !== row) row.remove();
    let next = null;
    for (const row of [...made.values()].reverse()) {
      if (row.parentNode !== this.rows || row.nextSibling !== next) this.rows.insertBefore(row, next);
      next = row;
    }
    this.made = made;
  }

  row(index, height) {
    const chosen = index === this.chosen;
    const link = this.draw(this.shown[index], chosen);
    link.dataset.at = index;
    if (chosen) link.setAttribute("aria-current", "true");
    const row = h("li", { "aria-setsize": this.shown.length, "aria-posinset": index + 1 }, link);
    row.style.top = index * height + "px";
    return row;
  }

  /** Scroll a row into view. */
  reveal(index) {
    const { height } = this;
    const top = index * height;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top - height;
    else if (top + height > this.scroller.scrollTop + this.scroller.clientHeight) {
      this.scroller.scrollTop = top + 2 * height - this.scroller.clientHeight;
    }
    this.render();
  }
}

/** A split view: filters and list on the left, the selected item on the right. */
class SplitView {
  /** `about`: name, options(), select(filters) -> numbers, row(at, filters, link), items(at) that detail(at, filters) shows. */
  constructor(about) {
    this.about = about;
    this.root = $("#view-" + about.name);
    this.form = $(".filters", this.root);
    this.detail = $(".detail", this.root);
    this.filters = {};
    this.shown = [];
    this.key = null;
    this.index = null;
    this.list = new VirtualList($(".scroller", this.root), (one, chosen) => this.row(one, chosen));
    this.fillOptions();
    let timer = 0;
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", (event) => {
      clearTimeout(timer);
      timer = setTimeout(() => this.change(), event.target.name === "q" ? 140 : 0);
    });
  }

  fillOptions() {
    const options = this.about.options();
    for (const [name, choices] of Object.entries(options)) {
      const select = this.form.elements[name];
      select.replaceChildren(...choices.map(([value, label]) => h("option", { value }, label)));
      select.closest("label").hidden = choices.length < 2;
    }
  }

  /** Update the address, and with it the list, after a change of the filters. */
  change() {
    const filters = {};
    for (const name of ["q", "g", "s", "m", "o"]) filters[name] = this.form.elements[name].value;
    go(place(this.about.name, filters));
  }

  /** Show the state of the address. */
  enter(query) {
    const filters = {};
    for (const name of ["q", "g", "s", "m", "o"]) {
      const field = this.form.elements[name];
      const value = query.get(name) ?? "";
      if (field !== document.activeElement || field.value !== value) field.value = value;
      if (field.tagName === "SELECT" && field.selectedIndex < 0) field.selectedIndex = 0;
      filters[name] = field.value;
    }
    const key = JSON.stringify(filters);
    const fresh = key !== this.key;
    if (fresh) {
      this.key = key;
      this.filters = filters;
      this.shown = this.about.select(filters);
      this.list.scroller.scrollTop = 0;
      const all = this.about.total();
      $(".found", this.root).textContent = this.shown.length === all ? `${number(all)} ${this.about.noun}` : `${number(this.shown.length)} of ${number(all)} ${this.about.noun}`;
    }
    const asked = query.get("i");
    this.root.classList.toggle("opened", asked !== null);
    const chosen = asked === null ? this.shown[0] : Number(asked);
    const index = this.shown.indexOf(chosen);
    this.list.show(this.shown, index);
    if (index >= 0) this.list.reveal(index);
    if (fresh || chosen !== this.index) this.open(chosen);
  }

  open(chosen) {
    this.index = chosen;
    const known = chosen !== undefined && this.about.has(chosen);
    const waiting = known && whole(this.about.items(chosen));
    if (waiting) waiting.then(() => this.index === chosen && this.open(chosen), (error) => this.detail.replaceChildren(h("p.plain", null, error.message)));
    const shown = waiting ? [h("p.plain", null, "Loading…")] : known ? this.about.detail(chosen, this) : [h("p.plain", null, "Nothing matches these filters.")];
    this.detail.replaceChildren(...shown);
    this.detail.scrollTop = 0;
  }

  row(one) {
    return this.about.row(one, this.filters, this.link(one));
  }

  link(one) {
    return place(this.about.name, { ...this.filters, i: one });
  }

  /** Select the item `step` places after the selected one. */
  move(step) {
    const index = this.shown.indexOf(this.index);
    const next = Math.min(this.shown.length - 1, Math.max(0, index < 0 ? 0 : index + step));
    if (this.shown.length) go(this.link(this.shown[next]));
  }

  steps() {
    const index = this.shown.indexOf(this.index);
    const step = (label, by, key) => h("button.quiet", { type: "button", disabled: index + by < 0 || index + by >= this.shown.length, click: () => this.move(by), title: `${label} (${key})` }, label);
    return h("div.steps", null,
      h("a.back", { href: place(this.about.name, this.filters) }, "← List"),
      h("span.where", null, index >= 0 ? `${number(index + 1)} of ${number(this.shown.length)}` : ""), step("Previous", -1, "k"), step("Next", 1, "j"));
  }
}

function metricChoices(first) {
  return [...(first ? [["", first]] : []), ...data.judges.map((judge, index) => [String(index), judge.label])];
}
const generatorChoices = () => [["", "all"], ...data.generators.map((name) => [name, shorten(name, 60)])];
