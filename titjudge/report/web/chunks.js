// What a report of a folder loads when it is looked at: reasons, details and answers of a hundred images at a time. A page
// that is opened from a disk may not fetch files, but it may load scripts: each calls one function with JSON.
const chunkLoads = new Map();
const chunksArrived = new Map();
let chunkPolicy = null;

/** The file of a chunk: made of a whole number, whatever is asked for. */
const chunkFile = (number) => `${data.folder}/${String(Math.trunc(Number(number))).padStart(4, "0")}.js`;

/** Load all about some items; null where it is there already. */
function whole(items) {
  const chunks = new Set(items.filter((item) => item.c !== undefined).map((item) => item.c));
  return chunks.size ? Promise.all([...chunks].map(loadChunk)) : null;
}

function loadChunk(number) {
  if (!chunkLoads.has(number)) chunkLoads.set(number, fetchChunk(number).then(addChunk));
  return chunkLoads.get(number);
}

function fetchChunk(number) {
  return new Promise((resolve, reject) => {
    const script = h("script", {
      load: () => { script.remove(); resolve(unpacked(chunksArrived.get(number))); },
      error: () => { script.remove(); chunkLoads.delete(number); reject(new Error(`${chunkFile(number)} is not beside this page`)); },
    });
    chunkPolicy ??= globalThis.trustedTypes?.createPolicy("titjudge-chunks", { createScriptURL: (asked) => chunkFile(asked) });
    script.src = chunkPolicy ? chunkPolicy.createScriptURL(String(number)) : chunkFile(number);
    document.head.append(script);
  });
}

globalThis.titjudgeChunk = (number, content) => { chunksArrived.set(number, content); };

function addChunk(content) {
  for (const name of ["texts", "replies"]) {
    const [first, entries] = content[name];
    entries.forEach((entry, index) => { data[name][first + index] = entry; });
  }
  content.items.forEach((index, place) => {
    data.items[index].s = content.scores[place];
    delete data.items[index].c;
  });
}
