"""Your own images: a data folder, one manifest, or a folder of images with same-named text files.

    DATA/prompts.jsonl  prompt_id, prompt             DATA.jsonl, .json, .csv, .tsv or .xlsx  image, prompt[, generator, prompt_id]
    DATA/images.jsonl   image, prompt_id[, generator]
    DATA/pairs.jsonl    prompt_id, image_a, image_b, preference (a, b, tie or both_bad), or model_a, model_b, winner; optional
    DATA/facets.jsonl   prompt, facets, as `prompts facets` writes it; optional
    or
    descriptions instead of images: a manifest with `description` (and optionally `id`) instead of `image`
    or
    DATA/metadata.jsonl, .csv or .json  file_name, text  (Hugging Face's `imagefolder`; also in folders below DATA)
    or
    captions_*.json of COCO, part-*.json of DiffusionDB
    or
    DATA.parquet, .arrow, .tar or .tar.gz, or a folder of them   image (bytes, or a struct of bytes and path, or a list of them), prompt[, generator, prompt_id]
    or
    DATA/NAME.png + DATA/NAME.txt, or DATA/GENERATOR/NAME.png with the text beside it or in DATA/NAME.txt;
    several images of one prompt: NAME_0.png, NAME_1.png, ... + NAME.txt; without a text, what ComfyUI or A1111 left in
    the image or DATA/GENERATOR/0001.png + one list of prompts, prompts.txt or a table: see `titjudge.suites.layouts`

Image paths are relative to the data folder, or absolute, and stay inside it and the folders of --image-root, also through
links. Further keys of a line become `item.meta`. Each unusable row is an InvalidItem with its reason; the rest is judged.

Two more suites read the same folders: prompts without images, for tasks, and the starter set (examples/starter/README.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from titjudge.core import item_meta
from titjudge.core.cells import version
from titjudge.core.errors import DataError, must_be
from titjudge.core.files import read_text, scan_jsonl
from titjudge.core.names import plain
from titjudge.core.paths import starter_file
from titjudge.core.serialization import without_surrogates
from titjudge.core.types import InvalidItem, Item, Items, Json, Note, Pair
from titjudge.core.words import truncated
from titjudge.data.data_paths import files_below, inside, real_name
from titjudge.data.embedded_prompts import embedded_prompt
from titjudge.data.tables import is_table, read_table
from titjudge.suites.base import Columns, Notes, Suite, SuiteInputs, image_files, printable
from titjudge.suites.edit_folders import edit_folder
from titjudge.suites.image_tree import ImageTree
from titjudge.suites.layouts import recognised
from titjudge.suites.manifests import (
    NAMES,
    ManifestReader,
    check_manifest,
    find_tables,
    item_of,
    named_generator,
    note_unused,
    table_use,
)
from titjudge.suites.patterns import PromptPlace, distinct
from titjudge.suites.prompt_list import PromptList, read_prompts
from titjudge.suites.samples import sample_of, split_sample
from titjudge.suites.sources import named_sources, without_named_sources

_BESIDE = ("pairs.jsonl", "facets.jsonl")
"""Tables beside images that have no prompts of images."""


class Folder(Suite):
    """Your own images: no official aggregation; agreement with people if there is `pairs.jsonl`."""

    name = "folder"
    AGGREGATES = False
    metrics: tuple[str, ...] = ("tit", "tit-llm")
    TAKES_COLUMNS = True
    TAKES_IMAGES = True

    def __init__(self, inputs: SuiteInputs = SuiteInputs()) -> None:
        super().__init__(inputs)
        self._tree = None
        if inputs.images:
            self._tree = ImageTree(inputs.images, inputs.prompt_file, sources=inputs.sources)
        self._taken: dict[str, str] = {}

    @property
    def notes(self) -> list[Note]:
        """Lines for the user: columns that are read as something else, and images that were left out."""
        roles = [*NAMES, *(["source"] if "source" in self._taken.values() else [])]
        line = f"{', '.join(self._taken)}; --columns {'=...,'.join(roles)}=... changes this"
        return [*([Note("columns_recognised", line)] if self._taken else []), *self._notes]

    def load(self, folder: Path) -> Items:
        """Yield the items of a data folder or manifest, in the order of the files.

        Raises:
            DataError: There is nothing to judge at that place.
        """
        if (tree := self._tree_of(folder)) is not None:
            items = tree.items(folder, self.image_roots, self._notes)
        elif (edits := edit_folder(folder, self.image_roots)) is not None:
            self.data_set, items = edits.summary, _unique(edits.items)
        else:
            items = read_items(folder, self.image_roots, self.inputs.columns, self._taken, self._notes)
        file = (folder.parent if folder.is_file() else folder) / "facets.jsonl"
        return _with_facets(items, file) if file.is_file() else items

    def prompts(self, folder: Path) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the prompts of a tree, of prompts.jsonl, or of the items."""
        if (tree := self._tree_of(folder)) is not None:
            return tree.places(folder, self.image_roots)
        if (folder / "prompts.jsonl").is_file():
            records, problems = _prompts(folder)
            texts = (
                (name, record["prompt"], named_sources(record, folder, self.image_roots))
                for name, record in records.items()
                if isinstance(record["prompt"], str)
            )
            return chain(problems, distinct(texts))
        items = (item for item in self.items(folder) if isinstance(item, Item))
        return distinct((item.prompt_id, item.prompt, item.sources) for item in items)

    def _tree_of(self, folder: Path) -> ImageTree | None:
        """Return the images by a pattern: the given one, or the one that their names and a list of prompts show."""
        if self._tree is None and not self.inputs.columns:
            self._tree = recognised(folder, self.inputs.prompt_file, self.image_roots)
        return self._tree

    def pairs(self, folder: Path) -> list[Pair]:
        """Read the preferences of `pairs.jsonl`, if the folder has one, or of tables with two images per row (Pick-a-Pic)."""
        from titjudge.suites.pair_files import read_pairs

        file = folder / "pairs.jsonl"
        if not file.is_file():
            reader = ManifestReader(
                folder.parent if folder.is_file() else folder, self.image_roots, self.inputs.columns
            )
            tables = [folder] if folder.is_file() else find_tables(folder, self.image_roots)
            return [pair for table in tables for pair in reader.pairs(table)]
        if not file.stat().st_size:
            self._notes[Note("pairs_empty", "pairs.jsonl is empty")] = None
            return []
        items = lambda: (item for item in self.items(folder) if isinstance(item, Item))  # noqa: E731
        return read_pairs(file, known_images(folder), items, self._notes)


def read_items(
    folder: Path,
    roots: Sequence[Path] = (),
    columns: Columns | None = None,
    taken: dict[str, str] | None = None,
    notes: Notes | None = None,
) -> Items:
    """Read the items of a data folder or manifest, in the order of the files.

    Args:
        folder: The folder or manifest.
        roots: Further folders in which images may lie.
        columns: Columns of a table that the user has named.
        taken: Gets a line, with the role, for each column that is read differently from its name.
        notes: Gets a line on prompts that were found elsewhere, and on columns that are not used.

    Raises:
        DataError: There is nothing to judge at that place.
    """
    root = folder.parent if folder.is_file() else folder
    reader = ManifestReader(root, roots, columns or {}, {} if taken is None else taken, {} if notes is None else notes)
    items = _read_items(folder, reader)
    first = next(items, None)
    if first is None:
        raise DataError("the table has no rows. Add one row per image", folder)
    yield first
    yield from items


def _read_items(folder: Path, reader: ManifestReader) -> Items:
    if folder.is_file():
        check_manifest(folder)
        return _unique(reader.items(folder))
    if (listed := folder / "images.jsonl").is_file() and (folder / "prompts.jsonl").is_file():
        return _unique(_images(folder, reader))
    if tables := [listed] if listed.is_file() else find_tables(folder, reader.roots):
        return _unique(item for table in tables for item in reader.items(table))
    if folder.is_dir():
        return _loose(folder, reader.roots, reader.notes)
    raise DataError("no such data folder or manifest. Correct the path", folder)


def _with_facets(items: Items, file: Path) -> Items:
    """Add the facets that `prompts facets` has found for the text of an item's prompt.

    Raises:
        DataError: A line of the file is malformed; names file and line.
    """
    facets: Json = {}
    for line, record in read_table(file, ("prompt", "facets")):
        if facets.setdefault(record["prompt"], record["facets"]) != record["facets"]:
            raise DataError(
                f"two rows have different facets for the prompt '{truncated(str(record['prompt']), 80)}'. Correct one",
                file,
                line,
            )
    for item in items:
        if isinstance(item, Item) and item.prompt in facets and not item_meta.FACETS.is_in(item):
            item = replace(item, meta={**item.meta, item_meta.FACETS.name: facets[item.prompt]})
        yield item


def known_images(folder: Path) -> dict[str, dict[str, str]]:
    """Map the images of `images.jsonl` to the item ids that they have by their prompt ids; empty without such a file."""
    listed = folder / "images.jsonl"
    images: dict[str, dict[str, str]] = {}
    for _, record in scan_jsonl(listed, ("image", "prompt_id")) if listed.is_file() else ():
        if isinstance(record, Mapping):
            image = plain(str(record["image"]))
            ids = images.setdefault(image, {})
            ids.setdefault(plain(str(record["prompt_id"])), _numbered(image, len(ids)))
    return images


def _images(folder: Path, reader: ManifestReader) -> Items:
    """Yield the images that images.jsonl lists, with the prompts and further keys of prompts.jsonl."""
    file, roots = folder / "images.jsonl", reader.roots
    use = table_use(file, version(file))
    use.check_factors(file, ("sample", "generator"))
    use.note(reader.notes)
    prompts, problems = _prompts(folder)
    note_unused(prompts, reader.notes, "prompt", "prompt_id")
    yield from problems
    for number, record in scan_jsonl(file, ("image", "prompt_id")):
        if isinstance(record, DataError):
            yield InvalidItem(f"images.jsonl:{number}", str(record))
            continue
        image, prompt_id = record["image"], str(record["prompt_id"])
        generator = named_generator(record, NAMES["generator"])
        prompt = prompts.get(plain(prompt_id))
        if not isinstance(image, str):
            yield InvalidItem(f"images.jsonl:{number}", must_be("the image", "a path", image), generator, prompt_id)
        elif prompt is None:
            reason = f"prompts.jsonl has no prompt '{prompt_id}' (images.jsonl:{number}). Add it"
            yield InvalidItem(image, reason, generator, prompt_id)
        else:
            both = {**prompt, **record}
            try:
                sources = named_sources(both, folder, roots)
            except DataError as error:
                yield InvalidItem(image, error.message, generator, prompt_id)
                continue
            rest = without_named_sources(both)
            meta = {key: value for key, value in rest.items() if key not in ("prompt", "image", "prompt_id")}
            yield item_of(
                image,
                prompt["prompt"],
                generator,
                prompt_id,
                meta,
                folder,
                roots,
                sample_of(record),
                name=plain(image),
                sources=sources,
            )


def _prompts(folder: Path) -> tuple[dict[str, Json], list[InvalidItem]]:
    """Read prompts.jsonl: its lines by prompt id, and the faults of other lines."""
    prompts: dict[str, Json] = {}
    problems = []
    for number, record in scan_jsonl(folder / "prompts.jsonl", ("prompt_id", "prompt")):
        if isinstance(record, DataError):
            problems.append(InvalidItem(f"prompts.jsonl:{number}", str(record), counts=False))
            continue
        first = prompts.setdefault(plain(str(record["prompt_id"])), record)
        if first["prompt"] != record["prompt"]:
            reason = f"another text for the prompt '{record['prompt_id']}'; the first one is used. Remove one of them"
            prompt_id = str(record["prompt_id"])
            problems.append(InvalidItem(f"prompts.jsonl:{number}", reason, prompt_id=prompt_id, counts=False))
    return prompts, problems


def _unique(items: Iterable[Item | InvalidItem]) -> Items:
    """Yield the items; an image under another prompt gets a separate id, one listed again is an InvalidItem."""
    prompts: dict[str, tuple[str, ...]] = {}  # prompt ids by the id of an image
    for item in items:
        prompt_ids, prompt_id = prompts.get(item.id, ()), plain(item.prompt_id)
        if isinstance(item, Item) and prompt_id in prompt_ids:
            reason = "the same image is listed twice for its prompt; the first line is used. Remove one of them"
            yield InvalidItem(f"{item.id} (again)", reason, item.generator, item.prompt_id, counts=False)
            continue
        prompts[item.id] = (*prompt_ids, prompt_id)
        seen = prompt_ids and isinstance(item, Item)
        yield replace(item, id=_numbered(item.id, len(prompt_ids))) if seen else item


def _numbered(image: str, before: int) -> str:
    """Make the id of an image that was listed under `before` other prompts before."""
    return f"{image} ({before + 1})" if before else image


def _loose(folder: Path, roots: Sequence[Path], notes: Notes) -> Items:
    """Yield images whose prompts are in text files of the same name, or in the images themselves."""
    images = image_files(folder)
    tables = [path for path in files_below(folder) if is_table(path) and path.name not in _BESIDE]
    unread = (
        f"{tables[0]} is not read. Judge this file instead of its folder, or give it with --prompt-file"
        if tables
        else ""
    )
    if not images:
        raise DataError(
            f"nothing to judge: the folder has no images.jsonl and no images. Unpack archives first. {unread or 'See `judge --help` for the layouts'}",
            folder,
        )
    used: set[Path] = set()
    embedded: Counter[str] = Counter()
    texts = {path for path in files_below(folder) if path.suffix == ".txt"}
    hint = (
        f"; {unread}"
        if unread
        else ""
        if texts
        else ", or put the prompts of all images into prompts.txt, or --prompt-file FILE"
    )
    prompts: dict[str, str] = {}
    for path in images:
        place = path.relative_to(folder)
        name, stem, sample = place.as_posix(), path.stem, 0
        if printable(name) != name:
            yield InvalidItem(printable(name), "the file name is not UTF-8. Rename it")
            continue
        text = _text_of(path, stem, folder)
        if text is None and (numbered := split_sample(stem)) is not None:
            stem, sample = numbered
            text = _text_of(path, stem, folder)
        generator = place.parent.as_posix() if len(place.parts) > 1 else ""
        if text is None:
            item = _with_embedded_prompt(name, generator, folder, roots)
            if item is not None:
                embedded[str(item_meta.PROMPT_FROM.required(item))] += 1
            reason = f"no prompt: {place.with_suffix('.txt')} is missing. Add it{hint}"
            yield item or InvalidItem(name, reason, generator, path.stem)
            continue
        used.add(text)
        try:
            prompt = read_text(inside(folder, text.relative_to(folder).as_posix(), "prompt", roots)).strip()
        except DataError as error:
            yield InvalidItem(name, f"{text.name}: {error.message}", generator, path.stem)
            continue
        same = prompts.setdefault(plain(stem), plain(prompt)) == plain(prompt)
        prompt_id = stem if same else place.with_name(stem).as_posix()  # the same name, but another prompt
        yield item_of(name, prompt, generator, prompt_id, {}, folder, roots, sample, typed=True)
    if embedded:
        sources = ", ".join(f"{source} {count:,}" for source, count in embedded.items())
        line = f"{embedded.total():,} prompts are read from the images themselves ({sources})"
        notes[Note("prompts_in_images", line)] = None
    for text in sorted(texts - used):
        yield InvalidItem(
            printable(text.relative_to(folder).as_posix()), "this prompt has no image of the same name. Add the image"
        )


def _with_embedded_prompt(name: str, generator: str, folder: Path, roots: Sequence[Path]) -> Item | None:
    """Make the item of an image with an embedded prompt; None if it has none."""
    try:
        path = inside(folder, name, roots=roots)
        embedded = embedded_prompt(path)
    except (DataError, OSError):  # reported as an image without a prompt
        return None
    if embedded is None:
        return None
    meta, prompt = {item_meta.PROMPT_FROM.name: embedded.source}, without_surrogates(embedded.prompt)
    return Item(name, prompt, path, generator or embedded.model, embedded.prompt, meta, embedded.seed)


def _text_of(image: Path, stem: str, folder: Path) -> Path | None:
    places = (image.with_name(f"{stem}.txt"), folder / f"{stem}.txt")
    return next((file for file in map(real_name, places) if file.is_file()), None)


class Prompts(Suite):
    """Prompts without images: a list of prompts, or the prompts of a data folder.

    Args:
        columns: The two columns ID,PROMPT of a table, or the number of the first line of a .txt.
    """

    name = "prompts"
    AGGREGATES = False
    TASKS = True
    metrics = ()

    def __init__(self, inputs: SuiteInputs = SuiteInputs(), *, columns: str = "") -> None:
        super().__init__(inputs)
        self._columns = columns

    def load(self, folder: Path) -> Items:
        """Yield an item without an image for each prompt, by its id.

        Raises:
            DataError: There are no prompts at that place.
        """
        file = folder / "prompts.jsonl" if folder.is_dir() else folder
        if folder.is_dir() and not file.is_file():
            prompts, meta, problems, *_ = _of_images(folder)
        else:
            prompts, meta, problems, *_ = read_prompts(f"{file}:{self._columns}" if self._columns else str(file))
        yield from problems
        if not prompts:
            raise DataError(
                problems[0].reason if problems else f"{folder}: no prompts found. Write one prompt per line or row"
            )
        for prompt_id, prompt in prompts.items():
            yield Item(prompt_id, prompt, None, "", prompt_id, meta.get(prompt_id, {}))


def _of_images(folder: Path) -> PromptList:
    listing = PromptList({}, {}, [])
    for item in read_items(folder):
        if isinstance(item, InvalidItem):
            listing.problems.append(item)
        elif listing.prompts.setdefault(item.prompt_id, item.prompt) == item.prompt:
            listing.meta.setdefault(item.prompt_id, dict(item.meta))
    return listing


class Starter(Folder):
    """Twenty bundled prompts (five of them short and long) with questions, facets and graphs: bring only images."""

    name = "starter"
    metrics = ("yes-no", "checklist", "graph-alignment")
    PROMPTS: Path = starter_file()

    def load(self, folder: Path) -> Items:
        """Yield the images of the prompts: from tables or --images, otherwise GENERATOR/PROMPT_ID.png.

        Raises:
            DataError: There are no images of them.
        """
        if folder == self.PROMPTS.parent:
            raise DataError(
                "the folder has prompts, but no images. Add --images 'out/{generator}/{prompt_id}.png'", folder
            )
        listed = folder.is_file() or (folder / "images.jsonl").is_file() or find_tables(folder, self.image_roots)
        if self._tree is None and not listed:
            self._tree = _usual_tree()
        lines = {item.prompt_id: item for item in Prompts().load(self.PROMPTS) if isinstance(item, Item)}
        for item in super().load(folder):
            line = lines.get(item.prompt_id)
            if isinstance(item, InvalidItem):
                yield item
            elif line is None or line.prompt != item.prompt:
                reason = (
                    f"the starter set has no prompt '{item.prompt_id}' with this text. Generate its prompts as written"
                )
                yield InvalidItem(item.id, reason, item.generator, item.prompt_id)
            else:
                image_meta = item_meta.without(item, item_meta.SUFFIX)
                yield replace(item, meta={**line.meta, **image_meta})

    def prompts(self, folder: Path) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the bundled prompts."""
        return (self._tree or _usual_tree()).places()


def _usual_tree() -> ImageTree:
    return ImageTree("{generator}/{prompt_id}.{suffix}", str(starter_file()))
