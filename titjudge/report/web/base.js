// The data, and the functions that make elements: text is added as text nodes, never as HTML.
const LIMIT_ROW_TEXT = 220;

const $ = (selector, root = document) => root.querySelector(selector);

/** Make an element. Attributes that are functions are event listeners; children that are no nodes become text nodes. */
function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Wrap untrusted text with its own direction, so that right-to-left marks do not affect what is around it. */
const outside = (text, tag = "bdi") => h(tag, { dir: "auto" }, text);

const number = (value) => value.toLocaleString("en-US");

let data = null;
let imageLines = null;

async function open() {
  data = await unpacked(JSON.parse($("#data").textContent));
  $("#data").remove();
  data.pairs = chunk(data.pairs, 3);
  data.items.forEach((item, index) => { item.index = index; });
  data.generators = [...new Set(data.items.map((item) => item.g))].filter(Boolean).sort((a, b) => a.localeCompare(b));
}

const unpacked = async (content) => (content.packed ? JSON.parse(await unpack(content.packed)) : content);

async function unpack(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let index = 0; index < raw.length; index += 1) bytes[index] = raw.charCodeAt(index);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function chunk(flat, size) {
  const made = [];
  for (let index = 0; index < flat.length; index += size) made.push(flat.slice(index, index + size));
  return made;
}

/** Look up a text by number: an entry is a string, or a list of numbers to concatenate. */
function text(index) {
  if (index === undefined || index === null) return "";
  const entry = data.texts[index];
  return typeof entry === "string" ? entry : entry.map(text).join("");
}

/** Make the image of an item, or a placeholder with the reason why there is none. */
function picture(item, alt, extra, full) {
  const line = item.im === undefined ? null : imageLine(item.im);
  if (line && !line.startsWith("!")) {
    const files = line.startsWith("+") ? line.slice(1).split(" ") : ["data:image/webp;base64," + line];
    const src = files[full ? files.length - 1 : 0];
    return h("img" + (extra || ""), { src, alt, decoding: "async" });
  }
  const reason = line ? utf8(line.slice(1)) : item.bad || "no image: the description was given as text";
  return h("div.noimage" + (extra || ""), { role: "img", "aria-label": `${alt}: ${reason}` }, h("span", null, "No image"), outside(reason, "small"));
}

/** Make the image of an item, with a button that shows it in full size. */
function largePicture(item, alt, extra) {
  const small = item.src ? layers(item, alt) : picture(item, alt, extra);
  if (small.classList.contains("noimage")) return small;
  return h("button.zoom", { type: "button", title: "Full size", "aria-label": `${alt}: full size`, click: () => enlarge(item, alt) }, small);
}

function enlarge(item, alt) {
  const dialog = $("#picture");
  const large = picture(item, alt, "", true);
  const fit = h("button.zoom", { type: "button", "aria-label": "fit to the window, or pixel by pixel", click: () => dialog.classList.toggle("whole") }, large);
  dialog.classList.remove("whole");
  $(".stage", dialog).replaceChildren(fit);
  large.addEventListener("load", () => { $(".size", dialog).textContent = `${large.naturalWidth} × ${large.naturalHeight} pixels`; });
  $(".name", dialog).replaceChildren(outside([item.id, item.g].filter(Boolean).join(" · "), "span"));
  dialog.showModal();
}

function imageLine(index) {
  if (!imageLines) {
    imageLines = $("#image-data").textContent.split("\n");
    $("#image-data").remove();
  }
  return imageLines[index];
}

const utf8 = (base64) => new TextDecoder().decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));

/** Format a score with the decimals of its metric. */
function shown(value, judge) {
  return value === null || value === undefined ? "–" : value.toFixed(data.judges[judge].digits);
}

/** Make a link within this report: always a fragment, which cannot run or load anything. */
function place(view, filters) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(filters || {})) {
    if (value !== "" && value !== null && value !== undefined) query.set(key, value);
  }
  const tail = query.toString();
  return "#" + view + (tail ? "?" + tail : "");
}

/** Split the text of the search field into words in lower case. */
const searchWords = (filters) => filters.q.trim().toLowerCase().split(/\s+/).filter(Boolean);

const shorten = (long, length = LIMIT_ROW_TEXT) => (long.length > length ? long.slice(0, length - 1).trimEnd() + "…" : long);

const STATUS = {
  ok: "scored", truncated: "truncated", refused: "refused", unparsed: "not readable", failed: "failed",
  bad_input: "bad input", missing: "missing", budget: "not asked: budget",
};
const statusName = (status) => STATUS[status] || status;
