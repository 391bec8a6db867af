// Two images of a prompt in large, side by side: stepped through with the keys, zoomed and moved together, and marked.
const ZOOM_STEP = 1.25;
const ZOOM_MOST = 16;

class Closeup {
  constructor(matrix) {
    this.matrix = matrix;
    this.dialog = $("#closeup");
    this.panes = [...this.dialog.querySelectorAll(".pane")];
    this.right = null;
    this.sample = 0;
    this.index = null;
    this.touches = new Map();
    this.resetZoom();
    this.dialog.addEventListener("close", () => { if (this.index !== null) { this.index = null; this.matrix.step(null); } });
    this.dialog.addEventListener("keydown", (event) => this.onKey(event));
    for (const button of this.dialog.querySelectorAll("[data-act]")) button.addEventListener("click", () => this.act(button.dataset.act));
    $("[name=word]", this.dialog).addEventListener("input", (event) => this.mark({ word: event.target.value.trim() }, false));
    for (const pane of this.panes) this.listen(pane);
  }

  open(index) {
    const changed = index !== this.index;
    this.index = index;
    if (this.right === null || this.right === this.matrix.a) this.right = this.matrix.b;
    if (changed) { this.sample = 0; this.resetZoom(); }
    if (!this.dialog.open) this.dialog.showModal();
    this.draw();
  }

  close() {
    this.index = null;
    if (this.dialog.open) this.dialog.close();
  }

  /** The two images as {item, column}; an item is undefined where a generator has no image of the prompt. */
  get sides() {
    const cells = cellsOf(prompts()[this.index]);
    return [this.matrix.a, this.right].map((column) => ({ column, item: cells[column][Math.min(this.sample, cells[column].length - 1)] }));
  }

  get both() {
    const [a, b] = this.sides;
    return a.item && b.item && a.item !== b.item ? [a, b] : null;
  }

  draw() {
    const prompt = prompts()[this.index];
    const where = this.matrix.shown.indexOf(this.index);
    $(".closeup-where", this.dialog).textContent = where < 0 ? "" : `${number(where + 1)} of ${number(this.matrix.shown.length)}`;
    $(".closeup-prompt", this.dialog).replaceChildren(outside(text(prompt.p), "span"));
    this.sides.forEach((side, index) => this.drawSide(this.panes[index], side, "AB"[index]));
    const controls = sourceControls(this.dialog);
    $(".closeup-source", this.dialog).replaceChildren(...(controls ? [controls] : []));
    this.drawMarks();
    this.zoomed();
    const { index } = this;
    whole(prompt.items)?.then(() => this.index === index && this.draw(), () => {});
  }

  drawSide(pane, { item, column }, letter) {
    const judge = judgeIn(columns()[column], this.matrix.metric);
    pane.replaceChildren(item ? layers(item, `${columns()[column].label}: ${item.id}`, true) : h("div.noimage", null, "No image"));
    const caption = pane.nextElementSibling;
    const others = item ? item.s.map((score, index) => [score, index]).filter(([score, index]) => score && index !== judge && data.judges[index].run === columns()[column].run) : [];
    const samples = cellsOf(prompts()[this.index])[column].length;
    caption.replaceChildren(h("p", null, h("b.tag", null, letter), " ", outside(columns()[column].label, "strong"),
      samples > 1 ? h("small", null, ` image ${Math.min(this.sample, samples - 1) + 1} of ${samples}`) : null,
      item && judge >= 0 ? h("span.value", null, item.bad ? "bad input" : scoreOf(item.s[judge], judge)) : null,
      others.map(([score, index]) => h("small", null, " ", outside(data.judges[index].metric), " ", scoreOf(score, index)))),
      h("p.closeup-reason", { dir: "auto" }, item ? reasonOf(item, judge) : ""),
      item ? h("p", null, h("a", { href: place("images", { i: item.index }) }, "How it was judged")) : null);
  }

  drawMarks() {
    const both = this.both;
    const named = both && both[0].item.id !== both[1].item.id;
    const mark = both ? this.matrix.marks.get(both[0].item, both[1].item) : { choice: null, interesting: false, word: "" };
    const said = both ? this.matrix.judged(...both) : null;
    const wrong = Boolean(both) && this.matrix.isWrong(...both, mark.choice);
    const pressed = { wrong, a: mark.choice === "a", tie: mark.choice === "tie", b: mark.choice === "b", interesting: mark.interesting };
    for (const [act, on] of Object.entries(pressed)) $(`[data-act=${act}]`, this.dialog).setAttribute("aria-pressed", String(on));
    for (const act of ["a", "tie", "b"]) $(`[data-act=${act}]`, this.dialog).disabled = !named;
    $("[data-act=wrong]", this.dialog).disabled = !named || !(said === "a" || said === "b");
    $("[data-act=interesting]", this.dialog).disabled = !both;
    $("[name=word]", this.dialog).disabled = !both;
    if (document.activeElement !== $("[name=word]", this.dialog)) $("[name=word]", this.dialog).value = mark.word;
    $(".judge-says", this.dialog).textContent = !both ? "" : !named ? "The two runs call both images by one name: a file of votes could not tell them apart."
      : { a: "The judge prefers A.", b: "The judge prefers B.", tie: "The judge finds them equal." }[said] || "The judge has no score for one of them.";
  }

  /** Change the mark of the two images; a choice that is taken again is withdrawn. */
  mark(changes, again = true) {
    const both = this.both;
    if (!both) return;
    const [a, b] = both.map(({ item }) => item);
    this.matrix.marks.set(a, b, changes);
    this.matrix.showMarks();
    if (again) this.drawMarks();
  }

  act(name) {
    const both = this.both;
    if ($(`[data-act=${name}]`, this.dialog)?.disabled) return;
    const mark = both && this.matrix.marks.get(both[0].item, both[1].item);
    const choose = (choice) => this.mark({ choice: mark.choice === choice ? null : choice });
    const acts = {
      next: () => this.move(1), previous: () => this.move(-1), in: () => this.zoom(ZOOM_STEP), out: () => this.zoom(1 / ZOOM_STEP), fit: () => { this.resetZoom(); this.zoomed(); },
      turn: () => this.turn(1), back: () => this.turn(-1), close: () => this.dialog.close(),
      a: () => choose("a"), b: () => choose("b"), tie: () => choose("tie"), interesting: () => this.mark({ interesting: !mark.interesting }),
      wrong: () => choose(OTHER[this.matrix.judged(...both)]),
    };
    acts[name]();
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input")) return;
    const name = {
      j: "next", ArrowDown: "next", k: "previous", ArrowUp: "previous", ArrowRight: "turn", ArrowLeft: "back", "+": "in", "=": "in", "-": "out", 0: "fit",
      w: "wrong", a: "a", b: "b", e: "tie", i: "interesting",
    }[event.key];
    if (!name) return;
    event.preventDefault();
    this.act(name);
  }

  move(by) {
    const { shown } = this.matrix;
    const next = shown[Math.min(shown.length - 1, Math.max(0, shown.indexOf(this.index) + by))];
    if (next !== undefined && next !== this.index) this.matrix.step(next);
  }

  /** Show the next image of the two, and after the last the next generator beside A. */
  turn(by) {
    const cells = cellsOf(prompts()[this.index]);
    const most = Math.max(cells[this.matrix.a].length, cells[this.right].length);
    this.sample += by;
    if (this.sample < 0 || this.sample >= most) {
      const others = this.matrix.order.filter((column) => column !== this.matrix.a);
      this.right = others[(others.indexOf(this.right) + by + others.length) % others.length];
      this.sample = by > 0 ? 0 : Math.max(0, cells[this.right].length - 1);
      this.matrix.step(this.index);
    }
    this.draw();
  }

  // -- zoom: one scale and one shift, in pixels of a pane, for both images -----------------------------------------------

  resetZoom() {
    this.scale = 1;
    this.x = this.y = 0;
  }

  zoomed() {
    for (const pane of this.panes) pane.firstElementChild.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
    $(".zoom-level", this.dialog).textContent = `${Math.round(this.scale * 100)}%`;
  }

  /** Zoom by a factor; the point (x, y), from the middle of a pane, stays where it is. */
  zoom(factor, x = 0, y = 0) {
    const scale = Math.min(ZOOM_MOST, Math.max(1, this.scale * factor));
    const by = scale / this.scale;
    this.scale = scale;
    this.shift(x - by * (x - this.x) - this.x, y - by * (y - this.y) - this.y);
  }

  shift(x, y) {
    const { clientWidth, clientHeight } = this.panes[0];
    const within = (value, size) => Math.min(size * (this.scale - 1) / 2, Math.max(-size * (this.scale - 1) / 2, value));
    this.x = within(this.x + x, clientWidth);
    this.y = within(this.y + y, clientHeight);
    this.zoomed();
  }

  listen(pane) {
    const middle = (event) => { const box = pane.getBoundingClientRect(); return [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2]; };
    pane.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(-event.deltaY / 400), ...middle(event)); }, { passive: false });
    pane.addEventListener("dblclick", (event) => (this.scale > 1 ? this.act("fit") : this.zoom(3, ...middle(event))));
    pane.addEventListener("pointerdown", (event) => { pane.setPointerCapture(event.pointerId); this.touches.set(event.pointerId, middle(event)); });
    pane.addEventListener("pointermove", (event) => this.drag(event, middle(event)));
    for (const end of ["pointerup", "pointercancel"]) pane.addEventListener(end, (event) => this.touches.delete(event.pointerId));
  }

  /** Move with one finger or the mouse; with two fingers zoom by the change of their distance. */
  drag(event, now) {
    const before = this.touches.get(event.pointerId);
    if (!before) return;
    const others = [...this.touches].filter(([id]) => id !== event.pointerId).map(([, spot]) => spot);
    this.touches.set(event.pointerId, now);
    if (!others.length) { this.shift(now[0] - before[0], now[1] - before[1]); return; }
    const [other] = others;
    const far = (spot) => Math.max(1, Math.hypot(spot[0] - other[0], spot[1] - other[1]));
    this.zoom(far(now) / far(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  }
}
