"""Tables of images and their prompts: a manifest, or the metadata of an `imagefolder`, whatever its columns are called."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from titjudge.core import item_meta
from titjudge.core.cells import ImageCell, missing_columns, version, without_images
from titjudge.core.errors import DataError, Unclear, must_be
from titjudge.core.names import by_usual_name, id_of, is_nothing, plain
from titjudge.core.numbers import as_sample, finite, several
from titjudge.core.types import InvalidItem, Item, Items, Json, Note, Pair, Values
from titjudge.core.words import first_of, truncated
from titjudge.data.containers import SUFFIXES as HOLDERS
from titjudge.data.data_paths import files_below, inside
from titjudge.data.images import SUFFIXES
from titjudge.data.tables import READERS, first_row, is_table, scan_table, table_columns
from titjudge.suites.base import Columns, Notes, image_files
from titjudge.suites.samples import COLUMNS
from titjudge.suites.sources import (
    INSTRUCTIONS,
    beside,
    content_name,
    edit_columns,
    is_edit,
    names_of,
    without_named_sources,
)

_PROMPT_WORDS = frozenset("prompt caption recaption text txt instruction".split())
_OTHER_WORDS = frozenset(
    """
    negative neg system id ids idx index hash length len words word tokens token type category class source from count
    num n number lang language embedding embeddings emb path file url template version model strength weight seed score
    scores rating image img ocr color colour font position align alignment similarity clip has is key name set box boxes
    mask theme style difficulty guidance
    """.split()
)
_TRANSLATION = re.compile(
    r"prompts?[ _-]+([a-z]{2}|chinese|english|french|german|japanese|korean|spanish)", re.IGNORECASE
)
_RATINGS = re.compile(r"score|rating|reward|rank|mos\b|vote", re.IGNORECASE)
_COUNTED = 1_000  # different values of a column that are counted
_FEW = 50  # values of a column that may be generators or samples
_FILLED = 0.7  # share of the combinations of prompts and values that have a row
_PROMPTS = 20_000  # prompts whose rows are compared
_LISTED = 12  # columns that a note names


def may_be_prompt(name: str) -> bool:
    """Return True if a column of this name may contain prompts: `caption`, `prompt_en`, `revised prompt`; not `prompt_id`."""
    words = {*re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).casefold())}
    return bool(words & _PROMPT_WORDS) and not words & _OTHER_WORDS


def prompt_columns(names: Iterable[str], chosen: Iterable[str]) -> list[str]:
    """List the columns that may be the prompt.

    Args:
        names: All columns.
        chosen: The column that is read as the prompt by its name. If it is `prompt`, only other kinds of prompts are in doubt,
            such as `revised_prompt`, but not translations; if it is an instruction, only other instructions.
    """
    likely = [name for name in names if may_be_prompt(name)]
    for name in chosen:
        if name in INSTRUCTIONS:
            return [other for other in likely if other in INSTRUCTIONS or "instruction" in other.casefold()]
        if name == "prompt":
            return [other for other in likely if "prompt" in other.casefold() and not _TRANSLATION.fullmatch(other)]
        likely = [name, *(other for other in likely if other != name)]
    return likely


@dataclass(slots=True)
class TableUse:
    """The content of the columns of a table, found by reading all of it.

    Attributes:
        names: All columns, in their order.
        unused: The columns that nothing reads.
        prompts: The first row with different texts in columns that may be the prompt: column -> text.
        values: Unused column -> hashes of its different values, at most `_COUNTED`.
    """

    names: dict[str, None] = field(default_factory=dict)
    unused: dict[str, None] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    values: dict[str, set[int]] = field(default_factory=dict)
    _keys: set[int] = field(default_factory=set)
    _counts: dict[str, Counter[int]] = field(default_factory=dict)
    _samples: dict[str, set[tuple[int, int]]] = field(default_factory=dict)

    def add(self, row: Values, used: Container[str], key: int, sample: int = 0) -> None:
        """Add a row of a table.

        Args:
            row: Its cells.
            used: The columns that something reads.
            key: Tells its prompt and generator from others.
            sample: Tells its sample from others.
        """
        self.names.update(dict.fromkeys(row))
        if len(self._keys) < _PROMPTS:
            self._keys.add(key)
        for name, cell in row.items():
            if name in used:
                continue
            self.unused[name] = None
            if not isinstance(cell, str | int | float) or cell == "":
                continue
            value = hash(plain(cell) if isinstance(cell, str) else cell)
            values = self.values.setdefault(name, set())
            if len(values) < _COUNTED:
                values.add(value)
            if len(values) <= _FEW and key in self._keys:
                self._counts.setdefault(name, Counter())[hash((key, value))] += 1
                self._samples.setdefault(name, set()).add((value, sample))

    def add_prompts(self, row: Values, columns: Iterable[str]) -> None:
        """Add the texts of a row that may be its prompt."""
        texts = {name: text for name in columns if isinstance(text := row[name], str) and not is_nothing(text)}
        if len({*map(plain, texts.values())}) > 1 and len(texts) > len(self.prompts):
            self.prompts = texts

    def check_prompts(self, file: Path, option: Callable[..., str]) -> None:
        """Check that one column only may be the prompt; `option` writes the option that names a column as the `prompt`.

        Raises:
            Unclear: Several may be, and differ.
        """
        if self.prompts:
            readings = [(option(prompt=name), f'"{truncated(text, 60)}"') for name, text in self.prompts.items()]
            raise Unclear(f"{len(readings)} columns can be the prompt; choose one:", file, readings)

    def factors(self) -> list[str]:
        """List the unused columns that distinguish the images of each prompt, as generators or samples do.

        Almost every value occurs with almost every prompt, and equally often. A column that only repeats the samples is none.
        """
        found = []
        for name, counts in self._counts.items():
            values = len(self.values[name])
            cells = values * max(counts.values()) * len(self._keys)
            repeats = len(self._samples[name]) == values == len({sample for _, sample in self._samples[name]})
            crossed = 1 < values <= _FEW and len(self._keys) > 1 and counts.total() >= _FILLED * cells
            if crossed and not repeats and not _RATINGS.search(name):
                found.append(name)
        return found

    def check_factors(self, file: Path, roles: Sequence[str], option: Callable[..., str] | None = None) -> None:
        """Check that no unused column distinguishes the images of each prompt.

        Args:
            file: The table.
            roles: The possible content of such a column: `sample`, `generator`.
            option: Writes the option that names columns by their roles; None if there is none for the table.

        Raises:
            Unclear: One does, and would be averaged over.
        """
        factors = self.factors()
        if not factors or not roles:
            return
        ways = [{role: name} for name in factors for role in reversed(roles)]
        if len(factors) == len(roles) == 2:
            ways = [dict(zip(("generator", "sample"), pair, strict=True)) for pair in (factors, factors[::-1])]
        means = {"generator": "are generators", "sample": "are samples, which are averaged"}
        readings = (
            []
            if option is None
            else [
                (option(**way), "; ".join(f"the values of {name} {means[role]}" for role, name in way.items()))
                for way in ways
            ]
        )
        what = f"images of one prompt differ in columns that are not used: {', '.join(map(self.described, factors))}"
        todo = ". Choose a meaning:" if option else ": rename that key to generator or sample, or delete it"
        raise Unclear(what + todo, file, readings)

    def note(self, notes: Notes) -> None:
        """Add a line to the notes on the columns that are not used, each with the number of its values."""
        if self.unused:
            notes[Note("columns_unused", f"not used: {first_of([*map(self.described, self.unused)], _LISTED)}")] = None

    def described(self, name: str) -> str:
        """Write the name of a column with the number of its values."""
        count = len(self.values.get(name, ()))
        number = f"at least {_COUNTED:,} values" if count >= _COUNTED else several(count, "value")
        return f"{truncated(name, 40)} ({number})" if count else truncated(name, 40)


METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet", "metadata.json", "part-[0-9]*[0-9].json")
"""Names of the table in a folder of images, as Hugging Face's `imagefolder` has it, and of DiffusionDB's."""
GENERATED, MADE = "metadata.jsonl", "made_with"
"""The table that `generate` writes, and a key that each of its lines has."""
SOURCE_DIGESTS = "source_digests"
"""Key of the inputs of an edit (`MADE`): the content of its sources (`content_name`)."""
NAMES: Mapping[str, tuple[str, ...]] = {
    "image": (
        *("image", "file_name", "image_path", "image_file_name", "img_path"),
        *("filename", "img", "file", "path", "images"),
    ),
    "prompt": ("prompt", "text", "caption", "txt"),
    "generator": ("generator", "variant_model", "model"),
    "prompt_id": ("prompt_id",),
    "sample": COLUMNS,
}
"""Usual names of columns by their content; the first that is there counts. For names of edits see `sources.edit_columns`."""
TWO_IMAGES = ("jpg_0", "jpg_1")
TRUTH = ("answers", "text_present", "entity_scores", "attribute_scores", "relation_scores")
"""Columns with the content of an image, for images with known answers (suite `known-answer`)."""
KNOWN = frozenset({*item_meta.KEYS, *TRUTH, "id", "image_id", "label_0", "label_1", "has_label"})
"""Further columns that something reads, or that only number the rows."""
LABEL = "label_0"
"""Columns of Pick-a-Pic: two images a row, and whether people prefer the first; their generators are `model_0`, `model_1`."""
_CHOICES: Mapping[float | None, str] = {1.0: "a", 0.0: "b", 0.5: "tie"}
_LONGEST_PATH = 4_096  # characters; no file system takes longer ones
_CONTENT = ("data:", "iVBORw0KGgo")  # images as text: an address with the data, a PNG in base64


@dataclass(slots=True)
class ManifestReader:
    """Reads the tables of one data folder.

    Attributes:
        root: The folder that paths are relative to.
        roots: Further folders in which images may lie.
        columns: Columns that the user has named.
        taken: Gets a line, with the role, for each column that is read differently from its name.
        notes: Gets a line on columns that are not used.
    """

    root: Path
    roots: Sequence[Path] = ()
    columns: Columns = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)
    notes: Notes = field(default_factory=dict)
    _known: dict[tuple[str, ...], dict[str, list[str]]] = field(default_factory=dict, init=False)
    _paired: set[tuple[str, str]] = field(default_factory=set, init=False)

    def items(self, file: Path) -> Items:
        """Yield an item for each image of the table.

        Raises:
            DataError: The file is not a table, or has no such column; the message has file and line.
        """
        names = table_columns(file)
        chosen = {} if names is None else self._chosen(names)
        required = [column for columns in self.columns.values() for column in columns]
        use = table_use(file, version(file), tuple((role, tuple(named)) for role, named in self.columns.items()))
        if names is not None:
            wanted = ("prompt",) if "description" in names else ("image", "prompt")
            lacking = [role for role in wanted if not chosen[role]]
            if absent := missing_columns(names, [*required, *lacking]):
                if [*required, *lacking] == ["prompt"]:
                    use.check_prompts(file, self._options)
                raise DataError(f"{absent}{_naming(lacking)}", file, 1)
        use.check_prompts(file, self._options)
        several_images = len(self._chosen(tuple(use.names))["image"]) > 1
        apart = ("sample",) if several_images else ("sample", "generator")
        use.check_factors(file, [role for role in apart if role not in self.columns], self._options)
        use.note(self.notes)
        required += chosen.get("prompt", [])
        folder = file.parent.relative_to(self.root).as_posix()
        superseded = _superseded(file)
        for number, record in scan_table(file, tuple(required)):
            if number in superseded:
                continue
            where = _below(folder, f"{file.name}:{number}")
            if isinstance(record, DataError):
                yield InvalidItem(where, str(record))
            else:
                yield from self._row(record, where, folder)

    def pairs(self, file: Path) -> Iterator[Pair]:
        """Yield the preferences of a table with two images a row, as Pick-a-Pic has them; none of any other table.

        `label_0` is 1 if the first image is preferred, 0 if the second is, 0.5 for a tie.
        """
        names = table_columns(file)
        if names is None or not {*TWO_IMAGES, LABEL} <= {*names}:
            return
        chosen = self._chosen(names)
        if chosen["image"] != list(TWO_IMAGES) or not chosen["prompt"]:
            return
        folder = file.parent.relative_to(self.root).as_posix()
        for number, record in scan_table(file):
            if isinstance(record, DataError) or not all(record.get(column) for column in TWO_IMAGES):
                continue
            choice = _CHOICES.get(finite(record[LABEL]))
            if choice is not None and record.get("has_label") not in (False, 0, "False", "false"):
                own_id = first_filled(record, chosen["prompt_id"])
                prompt_id = plain(str(record[chosen["prompt"][0]])) if own_id is None else id_of(own_id)
                where = _below(folder, f"{file.name}:{number}")
                a, b = (
                    f"{where}:{column}"
                    if isinstance(record[column], ImageCell)
                    else _below(folder, str(record[column]))
                    for column in TWO_IMAGES
                )
                yield Pair(prompt_id, plain(a), plain(b), choice, LABEL)

    def _options(self, **chosen: str) -> str:
        """Write the option that names the columns of the user and these."""
        columns = {**self.columns, **{role: [name] for role, name in chosen.items()}}
        return "--columns " + shlex.quote(
            ",".join(f"{role}={name}" for role, names in columns.items() for name in names)
        )

    def _row(self, record: Values, where: str, folder: str) -> Items:
        """Yield an item for each image of a row, or one for its description; an unusable one is an InvalidItem."""
        chosen = self._chosen(record)
        if not chosen["prompt"]:
            there = any(record.get(column) for column in (*chosen["image"], "description"))
            what = "the key 'prompt' is" if there else "the keys 'prompt' and 'image' are"
            yield InvalidItem(where, f"{where}: {what} missing. Add {'it' if there else 'them'}")
            return
        prompt = record[chosen["prompt"][0]]
        own_id = first_filled(record, chosen["prompt_id"])
        prompt_id = id_of(own_id) if own_id is not None else prompt if isinstance(prompt, str) else ""
        generator = named_generator(record, chosen["generator"])
        try:
            sources, mask = self._sources_and_mask(record, chosen, folder)
        except DataError as error:
            yield InvalidItem(where, f"{where}: {error.message}", generator, prompt_id)
            return
        if sources and not own_id:
            prompt_id = " <- ".join((prompt_id, *map(content_name, sources)))
        sample = as_sample(first_filled(record, chosen["sample"]) or 0)
        used = {column for role in ("image", "prompt", "prompt_id", "source", "mask") for column in chosen[role]}
        meta = {key: value for key, value in without_images(record).items() if key not in used}
        meta |= mask
        several = len(chosen["image"]) > 1
        make = partial(item_of, prompt=prompt, prompt_id=prompt_id, root=self.root, roots=self.roots, sources=sources)
        images = [image for column in chosen["image"] for image in _images_of(record.get(column), column, where)]
        if not images and record.get("description"):
            yield make(None, generator=generator, meta=meta, name=str(record.get("id") or where), sample=sample)
        elif not images:
            yield InvalidItem(
                where, f"{where}: neither 'image' nor 'description'. Fill one of them", generator, prompt_id
            )
        for image in images:
            content, column = image.content, image.column
            if several and isinstance(content, str):
                if (content, prompt_id) in self._paired:
                    continue  # it is in several pairs of its prompt
                self._paired.add((content, prompt_id))
            by = str(record.get(f"model_{column.rpartition('_')[2]}") or column) if several else generator
            number = (sample * image.total + image.number) % 10**18  # the largest with 64 bits, as `as_sample` has it
            if isinstance(content, ImageCell):
                cell_meta = {**meta, item_meta.IMAGE_PATH.name: content.name} if content.name else meta
                name = f"{image.where}:{column}" if several else image.where
                yield make(content.place, generator=by, meta=cell_meta, name=name, sample=number)
            elif reason := _no_path(content):
                yield InvalidItem(image.where, f"{where}: '{column}' {reason}", by, prompt_id)
            else:
                path = _below(folder, str(content))
                yield make(path, generator=by, meta=meta, name=plain(path), sample=number)

    def _sources_and_mask(
        self, record: Values, chosen: Mapping[str, Sequence[str]], folder: str
    ) -> tuple[tuple[Path, ...], Json]:
        """Return the sources of an edit, and its mask in the form of an item's meta; neither if the row is not an edit.

        Raises:
            DataError: By the names of the columns, every row is an edit, and this one has no source.
        """
        sources = self._placed(record, chosen["source"], folder, "source")
        if not sources:
            if chosen["source"] and is_edit(chosen):
                raise DataError("the edit has no source image. Add its path")
            return (), {}
        masks = self._placed(record, chosen["mask"], folder, "mask")
        return sources, {item_meta.MASK.name: os.path.realpath(masks[0])} if masks else {}

    def _placed(self, record: Values, columns: Sequence[str], folder: str, what: str) -> tuple[Path, ...]:
        """Return the images of some columns of a row, in order; the cells after the last one may be empty.

        Raises:
            DataError: A cell has no path, an empty one comes before another, or a path leads elsewhere.
        """
        cells = [(column, content) for column in columns for content in names_of(record.get(column))]
        while cells and not cells[-1][1]:
            cells.pop()
        places = []
        for column, content in cells:
            if isinstance(content, ImageCell):
                places.append(content.place)
            elif reason := _no_path(content):
                raise DataError(f"'{column}' {reason}")
            elif what == "source" and _made_from(record, str(content)):
                places.append(Path(str(content)))
            else:
                places.append(inside(self.root, _below(folder, str(content)), what, self.roots))
        return tuple(places)

    def _chosen(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Choose the columns: the user's choice, otherwise the first of the usual names that is there."""
        there = tuple(names)
        if there in self._known:
            return self._known[there]
        names_there = by_usual_name(there)
        edit = edit_columns(list(names_there), self.columns, NAMES)
        edit = {role: [names_there.get(name, name) for name in columns] for role, columns in edit.items()}
        chosen = {role: edit.get(role, list(self.columns.get(role, ()))) for role in (*NAMES, "source", "mask")}
        for role in (role for role in edit if role not in self.columns):
            self.taken |= {f"'{name}' is read as {role}": role for name in chosen[role] if name != role}
        for role, usual in NAMES.items():
            if (
                chosen[role]
                or role in edit
                or (role == "image" and "image" not in names_there and "description" in there)
            ):
                continue
            matching = [names_there[name] for name in usual if name in names_there]
            if role == "image" and not matching and {*TWO_IMAGES} <= {*there}:
                chosen[role] = list(TWO_IMAGES)
                continue
            chosen[role] = matching if role in ("generator", "sample") else matching[:1]
            if matching and role in ("image", "prompt") and matching[0] != role:
                self.taken[f"'{matching[0]}' is read as {role}"] = role
        if len(self._known) < 100:  # each line of a JSONL file may have other keys
            self._known[there] = chosen
        return chosen


@lru_cache(64)
def table_use(file: Path, _version: tuple[int, int], named: tuple[tuple[str, tuple[str, ...]], ...] = ()) -> TableUse:
    """Read a table to find the content of its columns, given the user's choice of columns; empty for one that `generate` wrote."""
    reader = ManifestReader(file.parent, columns=dict(named))
    by_names: dict[tuple[str, ...], tuple[dict[str, list[str]], list[str], set[str]]] = {}
    use = TableUse()
    for _, record in scan_table(file):
        if isinstance(record, DataError):
            continue
        if MADE in record:
            return TableUse()
        there = tuple(record)
        if there not in by_names:
            chosen = reader._chosen(there)
            used = {*chain.from_iterable(chosen.values()), *KNOWN}
            used |= {f"model_{name.rpartition('_')[2]}" for name in chosen["image"]}
            likely = [] if "prompt" in reader.columns else prompt_columns(there, chosen["prompt"])
            by_names[there] = chosen, likely, used
        chosen, likely, used = by_names[there]
        use.add_prompts(record, likely)
        prompt = first_filled(record, chosen["prompt_id"]) or [
            record.get(name) for name in chosen["prompt"] + chosen["source"]
        ]
        key = hash((plain(str(prompt)), plain(str(first_filled(record, chosen["generator"])))))
        use.add(without_images(record), used, key, hash(str(first_filled(record, chosen["sample"]))))
    return use


def note_unused(rows: Mapping[str, Values], notes: Notes, *used: str) -> None:
    """Add a line to the notes on the columns of a list of prompts that nothing reads, without columns of sources."""
    use, known = TableUse(), {*used, *KNOWN}
    for name, row in rows.items():
        use.add(without_named_sources(row), known, hash(name))
    use.note(notes)


def _made_from(record: Values, source: str) -> bool:
    """Return True if `generate` made this row's edit from an absolute path that still has the recorded content.

    Such a source may lie anywhere: the writer of its digest knew the content of the file.
    """
    made = record.get(MADE)
    digests = made.get(SOURCE_DIGESTS) if isinstance(made, Mapping) and os.path.isabs(source) else None
    return isinstance(digests, list) and (name := content_name(Path(source))) != source and name in digests


def _superseded(file: Path) -> set[int]:
    """List the rows of images that `generate` has made again, in a later row."""
    last: dict[str, int] = {}
    superseded = set()
    for number, record in scan_table(file) if file.name == GENERATED else ():
        if isinstance(record, DataError) or MADE not in record:
            break
        name = str(record.get("file_name"))
        if name in last:
            superseded.add(last[name])
        last[name] = number
    return superseded


def _naming(roles: Sequence[str]) -> str:
    options = ",".join(f"{role}=COLUMN" for role in roles)
    return f". Name {'it' if len(roles) == 1 else 'them'} with --columns {options}" if roles else ". Correct --columns"


def _below(folder: str, name: str) -> str:
    return name if folder == "." or not name else str(PurePosixPath(folder, name))


class _Image(NamedTuple):
    """One image of a row.

    Attributes:
        content: A cell, or what should be a path.
        column: Its column.
        where: File and row, and its number in a list of images.
        number: Its number in that list, from 0.
        total: How many images the list has.
    """

    content: Any
    column: str
    where: str
    number: int = 0
    total: int = 1


def _images_of(value: Any, column: str, where: str) -> list[_Image]:
    """Return the image of a column, or the images of a list; a list of anything else, such as pixels, is one invalid image."""
    if isinstance(value, list) and all(content is None or isinstance(content, str | ImageCell) for content in value):
        return [
            _Image(content, column, f"{where}.{number}", number, len(value)) for number, content in enumerate(value)
        ]
    return [_Image(value, column, where)] if value else []


def _no_path(image: Any) -> str:
    """Return the reason why a cell is not the path of an image, but the image; empty if it can be a path."""
    if not image:
        return "has no image here. Add its path"
    if isinstance(image, Mapping | Sequence) and not isinstance(image, str):
        return f"must be a path, not {type(image).__name__} {image!r:.40}...; images inside a table are bytes in a parquet file"
    text = str(image)
    if len(text) > _LONGEST_PATH or text.startswith(_CONTENT):
        return f"must be a path, not {len(text):,} characters ({text:.20}...); images inside a table are bytes in a parquet file"
    return ""


def first_filled(record: Values, columns: Iterable[str]) -> Any:
    """Return the first of these cells that is not empty, as the number 0 is not; None if all are."""
    return next((value for column in columns if (value := record.get(column)) or type(value) in (int, float)), None)


def named_generator(record: Values, columns: Iterable[str]) -> str:
    """Return the generator that a row names; an empty text if it names none."""
    name = first_filled(record, columns)
    return "" if name is None else str(name)


def check_manifest(file: Path) -> None:
    """Refuse a file that is not a manifest by one error, not by one for each line.

    Raises:
        DataError: It is an image, of another format, or one JSON array in a file of JSON lines.
    """
    if file.suffix.lower() in SUFFIXES:
        raise DataError("this is an image. Give its folder, or use `score --prompt TEXT IMAGE`", file)
    if not is_table(file):
        raise DataError(must_be("a manifest", f"one of {', '.join(READERS)}", file.suffix or file.name), file)
    if file.suffix.lower() not in (".jsonl", ".ndjson"):
        return
    try:
        with file.open("rb") as opened:
            head = opened.read(64)
    except OSError:  # the reader reports it
        return
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        raise DataError("this is one JSON array, not JSON lines. Let its name end in .json", file)


def names_images(file: Path) -> bool:
    """Return True if a table has a column of images, or of descriptions in their place; of JSON its first record counts.

    Raises:
        DataError: It cannot be read.
    """
    usual = {*NAMES["image"], *TWO_IMAGES, "description"}
    columns = tuple(by_usual_name(table_columns(file) or first_row(file)))
    return not usual.isdisjoint(columns) or bool(edit_columns(columns, {}, NAMES).get("image"))


def find_tables(folder: Path, roots: Sequence[Path]) -> list[Path]:
    """Find the tables of a folder: `imagefolder` metadata at its top or below, or, without image files, tables with images.

    Raises:
        DataError: One is a link that leads out of the folder.
    """
    at_top = ([path for path in sorted(folder.glob(name)) if path.is_file()] for name in METADATA)
    tables = next(filter(None, at_top), [])
    files = files_below(folder)
    tables = tables or [path for name in METADATA for path in files if path.match(name)]
    if not tables and not image_files(folder):
        holders = (path for path in files if path.name.lower().endswith(HOLDERS))
        tables = [path for path in holders if not path.name.startswith("cache-")]  # what `datasets` has computed before
    return [inside(folder, path.relative_to(folder).as_posix(), "table", roots) for path in tables]


def item_of(
    image: str | Path | None,
    prompt: Any,
    generator: str,
    prompt_id: str,
    meta: Json,
    root: Path,
    roots: Sequence[Path],
    sample: int = 0,
    *,
    name: str = "",
    sources: Sequence[Path] = (),
    typed: bool = False,
) -> Item | InvalidItem:
    """Make an item, or an invalid one with the reason.

    Args:
        image: A path as the data name it, which must lie in `root` or one of `roots`; a Path is taken as it is. None if
            there is only `meta["description"]`.
        prompt: Its prompt.
        generator: The generator that made it.
        prompt_id: The id of the prompt.
        meta: Further keys of its line.
        root: The data folder.
        roots: Further folders in which images may lie.
        sample: Which of several images of the prompt it is.
        name: The id of the item; without it the path of the image.
        sources: Of an edit, the images that it was made from; without it the one that lies beside the image (`sources.beside`).
        typed: Whether the prompt is from a text file, in which `nan` is a prompt and not an empty cell.
    """
    reason = ""
    if not isinstance(prompt, str):
        reason = f"the prompt must be a text, not {prompt!r:.60}"
    elif not plain(prompt) if typed else is_nothing(prompt):
        reason = f"the prompt is empty{f' ({prompt:.20})' if prompt.strip() else ''}"
    elif image is None and not isinstance(meta[item_meta.DESCRIPTION.name], str):
        reason = f"the description must be a text, not {meta[item_meta.DESCRIPTION.name]!r:.60}"
    name, is_file = name or str(image), isinstance(image, str)
    if not reason and isinstance(image, str):
        try:
            image = inside(root, image, roots=roots)
        except DataError as error:
            reason = error.message
    if not sources and isinstance(image, Path) and is_file:
        sources = beside(image)
    if image in sources:
        reason = (
            reason or "result and source are the same image: give the columns with --columns image=COLUMN,source=COLUMN"
        )
    if reason or isinstance(image, str):
        return InvalidItem(name or "(empty)", reason, generator, prompt_id)
    return Item(name, prompt, image, generator, prompt_id, meta, sample, sources=tuple(sources))
