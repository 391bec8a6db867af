// Marks that a reader leaves on two images of a prompt: which one is better, that they are interesting, and a word.
// They are kept in the browser, under a name that stays when the report is written again, and exported as votes.
const OTHER = { a: "b", b: "a", tie: "tie" };

class Marks {
  constructor(name) {
    this.key = "titjudge-marks-" + name;
    this.kept = true;
    this.marks = this.load();
  }

  load() {
    try { return JSON.parse(localStorage.getItem(this.key)) || {}; } catch { this.kept = false; return {}; }
  }

  save() {
    try { localStorage.setItem(this.key, JSON.stringify(this.marks)); } catch { this.kept = false; }
  }

  static keyOf(a, b) {
    return JSON.stringify([a.grp, ...[a, b].map((item) => [runsOf(item).join("\n"), item.id]).sort()]);
  }

  /** Return the mark of two images, with its choice as seen from `a`. */
  get(a, b) {
    const mark = this.marks[Marks.keyOf(a, b)];
    if (!mark) return { choice: null, interesting: false, word: "" };
    return mark.a === a.id ? mark : { ...mark, choice: OTHER[mark.choice] ?? null };
  }

  /** Change the mark of two images; one that says nothing is removed. */
  set(a, b, changes) {
    const mark = { ...this.get(a, b), ...changes, prompt_id: a.grp || a.id, a: a.id, b: b.id };
    const key = Marks.keyOf(a, b);
    if (mark.choice || mark.interesting || mark.word) this.marks[key] = mark;
    else delete this.marks[key];
    this.save();
  }

  get all() {
    return Object.values(this.marks);
  }

  /** The marks that say which image is better: two images of one name, of two runs, cannot be distinguished in a file. */
  get votes() {
    return this.all.filter((mark) => mark.choice && mark.a !== mark.b);
  }

  /** Write marks in the form of votes, one JSON object a line; `preference` is missing where none was given. */
  static lines(marks, annotator) {
    return marks.map((mark) => JSON.stringify({
      prompt_id: mark.prompt_id, image_a: mark.a, image_b: mark.b, annotator, ...(mark.choice && mark.a !== mark.b ? { preference: mark.choice } : {}),
      ...(mark.interesting ? { interesting: true } : {}), ...(mark.word ? { word: mark.word } : {}),
    }) + "\n").join("");
  }
}

/** Save a text as a file of the reader. */
function download(name, content) {
  const link = h("a", { href: URL.createObjectURL(new Blob([content], { type: "application/jsonl" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
