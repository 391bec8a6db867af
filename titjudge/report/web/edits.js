// Edits: the source over its result up to a slider, and where the two differ as they are shown here.
const CHANGED = 24; // of 255 levels of a colour, as the metric `preservation` has it
const MAP_EDGE = 512; // longest edge, in pixels, at which source and result are compared
const sourceShown = { upTo: 50, changes: false }; // stays while one image after the other is looked at

/** Make the picture of one of the sources of an edit. */
const sourcePicture = (item, index, alt, extra) => picture({ im: item.src[index] }, alt, extra);

/** Make the result of an edit with its source over it; of several sources the first. Without both, the result alone. */
function layers(item, alt, full) {
  const result = picture(item, alt, "", full);
  const source = item.src ? sourcePicture(item, 0, "", ".source") : null;
  if (result.tagName !== "IMG" || source?.tagName !== "IMG") return result;
  return h("span.layers", null, result, source, h("canvas.changes", { "aria-hidden": "true" }));
}

/** Make the slider of the edits in a part of the page, and the box that shows their changes; nothing where there is no edit.
 *  In a folder there is no such box: a browser lets no page read the pixels of files beside it. */
function sourceControls(within) {
  if (!within.querySelector(".layers")) return null;
  const show = () => {
    within.style.setProperty("--source", sourceShown.upTo + "%");
    within.classList.toggle("with-changes", sourceShown.changes);
    if (sourceShown.changes) within.querySelectorAll(".layers").forEach(drawChanges);
  };
  const slide = (event) => { sourceShown.upTo = Number(event.target.value); show(); };
  const tick = (event) => { sourceShown.changes = event.target.checked; show(); };
  show();
  return h("div.source-controls", null,
    h("label.upto", null, h("span", null, "Source"), h("input", { type: "range", min: 0, max: 100, value: sourceShown.upTo, "aria-label": "How much of the source is shown", input: slide }), h("span", null, "Result")),
    data.folder ? null : h("label.tick", { title: `Pixels in which a colour differs by more than ${CHANGED} of 255 levels, in the pictures as they are here` },
      h("input", { type: "checkbox", checked: sourceShown.changes, change: tick }), "Changes"));
}

/** Put the slider of the edits before a part of the page. */
function withSource(within) {
  const controls = sourceControls(within);
  if (controls) within.prepend(controls);
  return within;
}

/** Make the sources of an edit in small, in the order of the instruction; nothing of one that the slider shows. */
function severalSources(item) {
  if (!item.src || item.src.length < 2) return null;
  return h("div.sources", null, item.src.map((_, index) => h("figure", null, sourcePicture(item, index, `Source ${index + 1}`), h("figcaption", null, `Source ${index + 1}`))));
}

/** Colour the pixels of the result that differ from the source; once, when it is first asked for. */
async function drawChanges(stack) {
  const [result, source] = stack.querySelectorAll("img");
  const canvas = stack.querySelector("canvas");
  if (canvas.dataset.drawn) return;
  canvas.dataset.drawn = "yes";
  await Promise.all([result.decode(), source.decode()]);
  const by = Math.min(1, MAP_EDGE / Math.max(result.naturalWidth, result.naturalHeight));
  canvas.width = Math.max(1, Math.round(result.naturalWidth * by));
  canvas.height = Math.max(1, Math.round(result.naturalHeight * by));
  const [after, before] = [result, source].map((image) => pixelsOf(image, canvas.width, canvas.height));
  for (let index = 0; index < after.data.length; index += 4) {
    const far = Math.max(...[0, 1, 2].map((colour) => Math.abs(after.data[index + colour] - before.data[index + colour])));
    after.data.set(far > CHANGED ? [255, 0, 160, 170] : [0, 0, 0, 0], index);
  }
  canvas.getContext("2d").putImageData(after, 0, 0);
}

function pixelsOf(image, width, height) {
  const canvas = h("canvas", { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, width, height);
  return context.getImageData(0, 0, width, height);
}
