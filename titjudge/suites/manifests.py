"""A table of images and their prompts: a manifest, or the metadata of an `imagefolder`; columns as people name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from titjudge.core.contained import Cell
from titjudge.core.containers import TABLES
from titjudge.core.data_paths import inside
from titjudge.core.errors import DataError
from titjudge.core.files import scan_table, table_columns
from titjudge.core.images import SUFFIXES
from titjudge.core.types import InvalidItem, Item
from titjudge.suites.samples import COLUMNS, as_sample

FORMATS = (".jsonl", ".csv", ".json", ".ndjson", *TABLES)
METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")
"""Names of the table in a folder of images, as Hugging Face's `imagefolder` has it."""
NAMES: Mapping[str, tuple[str, ...]] = {
    "image": ("image", "file_name", "image_path", "image_file_name", "img_path", "filename", "img", "file", "path"),
    "prompt": ("prompt", "text", "caption", "txt"),
    "generator": ("generator", "variant_model", "model"),
    "prompt_id": ("prompt_id",),
    "sample": COLUMNS,
}
"""What columns are called, the first name before the others."""
Columns = Mapping[str, Sequence[str]]
"""What the user says: `image`, `prompt`, `generator`, `prompt_id`, `sample` -> columns; several only of images."""


@dataclass(slots=True)
class ManifestReader:
    """Reads tables of one data folder.

    Attributes:
        root: The folder that paths are relative to.
        roots: Further folders in which images may lie.
        columns: Columns that the user has named.
        taken: Which columns were taken for what, in words.
    """

    root: Path
    roots: Sequence[Path] = ()
    columns: Columns = field(default_factory=dict)
    taken: dict[str, None] = field(default_factory=dict)
    _known: dict[tuple[str, ...], dict[str, list[str]]] = field(default_factory=dict, init=False)

    def items(self, file: Path) -> Iterator[Item | InvalidItem]:
        """Yield an item for each image of the table.

        Raises:
            DataError: The file is no table, or lacks a column; names file and line.
        """
        known = table_columns(file)
        chosen = {} if known is None else self._chosen(known)
        for role in ("prompt", "image"):
            if known is not None and not chosen[role] and (role == "prompt" or "description" not in known):
                there = ", ".join(known) or "none"
                hint = f"name the column with --columns {role}=COLUMN"
                raise DataError(f"the column '{role}' is missing (there are: {there}): {hint}", file, 1)
        required = [column for given in self.columns.values() for column in given]
        required += chosen.get("prompt", [])
        place = file.parent.relative_to(self.root).as_posix()
        for number, record in scan_table(file, tuple(required)):
            where = self._below(place, f"{file.name}:{number}")
            if isinstance(record, DataError):
                yield InvalidItem(where, str(record))
            else:
                yield from self._row(record, where, place)

    def _row(self, record: Mapping[str, Any], where: str, place: str) -> Iterator[Item | InvalidItem]:
        chosen = self._chosen(record)
        if not chosen["prompt"]:
            yield InvalidItem(where, f"{where}: the key 'prompt' is missing")
            return
        prompt = record[chosen["prompt"][0]]
        prompt_id = str(_first(record, chosen["prompt_id"]) or prompt)
        own = chosen["own"]
        meta = {key: value for key, value in record.items() if key not in own and not isinstance(value, Cell)}
        generator = str(_first(record, chosen["generator"]) or "")
        sample = as_sample(_first(record, chosen["sample"]) or 0)
        images = [(column, record[column]) for column in chosen["image"] if record.get(column)]
        if not images and record.get("description"):
            yield _text(str(record.get("id") or where), prompt, generator, prompt_id, meta, sample)
        elif not images:
            yield InvalidItem(where, f"{where}: neither 'image' nor 'description'", generator, prompt_id)
        for column, image in images:
            several = len(self.columns.get("image", ())) > 1
            by = column if several else generator
            if isinstance(image, Cell):
                own_meta = {**meta, "image_path": image.name} if image.name else meta
                name = f"{where}:{column}" if several else where
                problem = _unusable(prompt)
                yield (
                    InvalidItem(name, problem, by, prompt_id)
                    if problem
                    else Item(name, prompt, image.place, by, prompt_id, own_meta, sample)
                )
                continue
            name = self._below(place, str(image))
            yield item_of(name, prompt, by, prompt_id, meta, self.root, self.roots, sample)

    def _chosen(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Choose the columns: those that the user has named, else the first of the usual names that is there.

        `own` has those of them that are no further keys of the image.
        """
        there = tuple(names)
        if there in self._known:
            return self._known[there]
        found = {role: list(self.columns.get(role, ())) for role in NAMES}
        for role, usual in NAMES.items():
            if found[role]:
                continue
            if role == "image" and "image" not in there and "description" in there:
                continue
            same = [name for name in usual if name in there]
            found[role] = same if role in ("generator", "sample") else same[:1]
            if same and role in ("image", "prompt") and same[0] != role:
                self.taken[f"'{same[0]}' is read as {role}"] = None
        found["own"] = [*found["image"], *found["prompt"], *found["prompt_id"]]
        if len(self._known) < 100:
            self._known[there] = found
        return found

    @staticmethod
    def _below(place: str, name: str) -> str:
        return name if place == "." or not name else str(PurePosixPath(place, name))


def _first(record: Mapping[str, Any], columns: Iterable[str]) -> Any:
    """Return the first cell of some columns that holds something; None where none does."""
    for column in columns:
        if value := record.get(column):
            return value
    return None


def check_manifest(file: Path) -> None:
    """Refuse a file that is no manifest with one error, not an error a line.

    Raises:
        DataError: It is an image, of another format, or one JSON array.
    """
    if file.suffix.lower() in SUFFIXES:
        raise DataError("this is an image: name the folder it is in, or use `score --prompt TEXT IMAGE`", file)
    if file.suffix.lower() not in FORMATS:
        raise DataError(
            f"a manifest is a .jsonl, .csv, .parquet, .arrow or .tar file, not '{file.suffix or file.name}'", file
        )
    try:
        with file.open("rb") as opened:
            head = opened.read(64)
    except OSError:  # whoever reads it says so
        return
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        raise DataError("this is one JSON array: write one object a line (jq -c '.[]' does)", file)


def find_tables(folder: Path, roots: Sequence[Path]) -> list[Path]:
    """Find the tables of a folder: of an `imagefolder` at its top or below, else files with images inside where no others are.

    Raises:
        DataError: One is a link that leads out of the folder.
    """
    found = [folder / name for name in METADATA if (folder / name).is_file()][:1]
    found = found or sorted(path for name in METADATA for path in folder.rglob(name) if path.is_file())
    if not found and not any(path.suffix.lower() in SUFFIXES for path in folder.rglob("*")):
        found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in TABLES and path.is_file())
        found = [path for path in found if not path.name.startswith("cache-")]  # what `datasets` has computed before
    return [inside(folder, path.relative_to(folder).as_posix(), "table", roots) for path in found]


def item_of(
    image: str,
    prompt: Any,
    generator: str,
    prompt_id: str,
    meta: dict[str, Any],
    root: Path,
    roots: Sequence[Path],
    sample: int = 0,
) -> Item | InvalidItem:
    """Make the item of an image that lies in `root` or one of `roots`, or say why it cannot be judged."""
    if problem := _unusable(prompt):
        return InvalidItem(image, problem, generator, prompt_id)
    try:
        return Item(image, prompt, inside(root, image, roots=roots), generator, prompt_id, meta, sample)
    except DataError as error:
        return InvalidItem(image or "(empty)", error.message, generator, prompt_id)


def _text(
    name: str, prompt: Any, generator: str, prompt_id: str, meta: dict[str, Any], sample: int
) -> Item | InvalidItem:
    """Make an item that is a description without its image."""
    if problem := _unusable(prompt):
        return InvalidItem(name, problem, generator, prompt_id)
    if not isinstance(meta["description"], str):
        return InvalidItem(name, f"the description is no text: {meta['description']!r}", generator, prompt_id)
    return Item(name, prompt, None, generator, prompt_id, meta, sample)


def _unusable(prompt: Any) -> str:
    """Say what is wrong with a prompt; empty when nothing is."""
    if not isinstance(prompt, str):
        return f"the prompt is no text: {prompt!r}"
    return "" if prompt.strip() else "the prompt is empty"
