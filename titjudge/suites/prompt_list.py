"""Read prompts without images: FILE, FILE:ID,PROMPT with two columns of a table, or FILE.txt[:FIRST] with one prompt per line.

ID may be # or #1: the number of the row, from 0 or 1. FIRST is the number of the first line (-1: it is a title). A
`.json` file may be an array of rows or of prompts, or an object {id: prompt}.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from titjudge.core.cells import without_images
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import read_json, read_text
from titjudge.core.names import by_usual_name, id_of, is_nothing, plain
from titjudge.core.types import InvalidItem, Json
from titjudge.core.words import is_texts
from titjudge.data.tables import first_row, scan_table, table_columns
from titjudge.suites.manifests import NAMES, TableUse, prompt_columns
from titjudge.suites.prompt_names import PromptNames
from titjudge.suites.sources import INSTRUCTIONS, named_sources

_IDS = ("prompt_id", "id", "index")


_TITLE = re.compile(r"#.*|\W*\w*(prompt|caption|text)\w*\W*", re.IGNORECASE)  # "prompts", "caption_en:", "# a set"


class PromptList(NamedTuple):
    """Prompts by their ids.

    Attributes:
        meta: The other columns of their rows, by id.
        problems: The faults of rows.
        counted: Whether the ids are numbers of lines, counted from 0 because the user has not chosen another way.
        folder: That of the file: paths in its rows are relative to it.
    """

    prompts: dict[str, str]
    meta: dict[str, Json]
    problems: list[InvalidItem]
    counted: bool = False
    folder: Path = Path()

    def sources(self, prompt_id: str, roots: Sequence[Path] = ()) -> tuple[Path, ...]:
        """Return the sources of an edit that the row of a prompt names; they lie in the folder or one of `roots`.

        Raises:
            DataError: One is not a path, or leads elsewhere.
        """
        return named_sources(self.meta.get(prompt_id, {}), self.folder, roots)


def split_columns(prompt_file: str) -> tuple[Path, str]:
    """Split what `--prompt-file` takes into the file, and its columns or the number of its first line."""
    file, _, columns = prompt_file.rpartition(":")
    return (Path(prompt_file), "") if not file or Path(prompt_file).is_file() else (Path(file), columns)


def read_prompts(prompt_file: str) -> PromptList:
    """Read the prompts of a file.

    Args:
        prompt_file: FILE, FILE:ID,PROMPT or FILE.txt[:FIRST], as `--prompt-file` takes it.

    Raises:
        DataError: The file cannot be read, or no column is known as id or prompt.
        ConfigError: The columns are not two.
    """
    path, columns = split_columns(prompt_file)
    listing = PromptList({}, {}, [], folder=path.parent)
    content = _json_content(path)
    if isinstance(content, dict):
        listing.prompts.update({plain(name): text.strip() for name, text in content.items() if text.strip()})
    elif (lines := _text_lines(path)) is not None:
        given_first = re.fullmatch(r"-?\d{1,9}", columns) is not None
        listing.prompts.update(_counted(lines, int(columns) if given_first else 0))
        listing = listing._replace(counted=not given_first)
    else:
        _read_rows(path, _columns(path, columns, prompt_file), listing)
    return listing


class Numbering(NamedTuple):
    """One way to assign image numbers to the prompts of a file.

    Attributes:
        prompt_file: As `--prompt-file` takes it; empty for one that it has no words for.
        prompts: The prompts by their ids.
        by: The source of the ids: `ids` of the file, or `lines` counted from some number, the same without `empty` lines,
            with the first line as a `title`, a first line that `looks` like one, or `rows` of a file that has ids; or
            else the `text`.
        names: Finds the prompts whose text is in a name, if `by` is `text`.
    """

    prompt_file: str
    prompts: Mapping[str, str]
    by: str
    names: PromptNames | None = None

    def uses_all(self, prompts: Mapping[str, str]) -> bool:
        """Return True if each prompt belongs to an image, given the prompts of images."""
        return set(self.prompts.values()) == set(prompts.values())


def numberings(file: str) -> list[Numbering]:
    """List the ways to name the prompts of a file, the likeliest first: by their text, and by the ids in its name, or all.

    Raises:
        DataError: The file cannot be read, or has no prompts.
    """
    by_id = _numberings(file)
    return [by_id[0]._replace(by="text", names=PromptNames(by_id[0].prompts)), *by_id]


def _numberings(file: str) -> list[Numbering]:
    path, keys = Path(file), None
    if path.is_file():
        if (listed := _text_lines(path)) is not None:
            return list(_of_lines(file, listed))
        keys = _keys(path)
    key, text = _usual(keys) if keys else ("", "")
    if not text:
        listing = read_prompts(file)
        if listing.problems and not listing.prompts:
            raise DataError(listing.problems[0].reason, file)
        return [Numbering(file, listing.prompts, "ids")]
    first = [f"{file}:{key},{text}"] if key else []
    prompt_files = [*first, f"{file}:#,{text}", f"{file}:#1,{text}"]
    return [
        Numbering(
            prompt_file,
            read_prompts(prompt_file).prompts,
            "ids" if prompt_file in first else "rows" if key else "lines",
        )
        for prompt_file in prompt_files
    ]


def _of_lines(file: str, lines: Sequence[str]) -> Iterator[Numbering]:
    """Yield the ways to number lines: from 0 or 1, after a title, and, if some are empty, without the empty ones."""
    texts = [line for line in lines if line]
    if not texts:
        raise DataError("no prompts found. Write one prompt per line or row", file)
    title = "looks" if _TITLE.fullmatch(texts[0]) else "title"
    for first, by in ((0, "lines"), (1, "lines"), (-1, title)):
        yield Numbering(f"{file}:{first}", _counted(lines, first), by)
        if texts != lines[: len(texts)]:
            yield Numbering("", _counted(texts, first), "empty" if by == "lines" else by)


def _counted(lines: Iterable[str], first: int) -> dict[str, str]:
    """Count lines from a number; empty ones are not prompts, nor is one before number 0."""
    return {str(number): text for number, text in enumerate(lines, first) if text and number >= 0}


def _text_lines(path: Path) -> list[str] | None:
    """Read the lines of a `.txt`, or the prompts of a JSON array of texts; None of any other file."""
    content = _json_content(path)
    if path.suffix.lower() != ".txt" and not isinstance(content, list):
        return None
    lines = re.split(r"\r\n|\r|\n", read_text(path)) if content is None else map(str, content)  # as `open` splits them
    return [line.strip() for line in lines]


def _keys(path: Path) -> Sequence[str] | None:
    """Read the columns of a table, or the first row's if rows differ; None for an object {id: prompt}."""
    if isinstance(_json_content(path), dict):
        return None
    _check_one_prompt(path)
    first = first_row(path)
    return table_columns(path) or tuple(first)


def _read_rows(path: Path, columns: tuple[str, str], listing: PromptList) -> None:
    """Add the prompts of a table to a list, and the faults of its rows."""
    first = int(columns[0][1:] or 0) if re.fullmatch(r"#\d{0,9}", columns[0]) else None
    required = columns if first is None else columns[1:]
    for index, (number, row) in enumerate(scan_table(path, required if all(columns) else ())):
        where = f"{path.name}:{number}"
        key, text = columns if all(columns) or isinstance(row, DataError) else _usual(row)
        if isinstance(row, DataError):
            reason = str(row)
        elif not key or not text:
            reason = f"{where}: no column is known as {'id' if text else 'prompt'}: name both, {path.name}:ID,PROMPT"
        elif not isinstance(row[text], str) or is_nothing(row[text]):
            reason = f"{where}: '{text}' must be a prompt, not {row[text]!r:.60}"
        else:
            name = id_of(row[key]) if first is None else str(index + first)
            if listing.prompts.setdefault(name, row[text]) == row[text]:
                listing.meta[name] = {
                    other: value for other, value in without_images(row).items() if other not in (key, text)
                }
                continue
            reason = f"{where}: another text for the prompt '{name}'; the first one counts"
        listing.problems.append(InvalidItem(where, reason))


def _json_content(path: Path) -> list[Any] | dict[str, str] | None:
    """Read a `.json` file that is an array of prompts, or an object {id: prompt}; None of other files, tables among them."""
    if path.suffix.lower() != ".json":
        return None
    try:
        content = read_json(path)
    except DataError:
        return None  # JSON lines, or an error that their reader reports
    if isinstance(content, dict) and len(content) == 1 and is_texts(only := next(iter(content.values()))):
        content = only  # {"prompts": [...]}
    if isinstance(content, list):
        return content if content and isinstance(content[0], str) else None
    of_texts = isinstance(content, dict) and all(isinstance(text, str) for text in content.values())
    return content if of_texts and not all(_usual(content)) else None


def _columns(path: Path, named: str, prompt_file: str) -> tuple[str, str]:
    """Choose the columns of id and prompt; empty if rows have different columns."""
    columns = table_columns(path)
    if named:
        key, _, text = named.partition(",")
        if not text:
            there = f" (there are: {', '.join(columns)})" if columns else ""
            raise ConfigError(f"--prompt-file '{prompt_file}' must be FILE:ID,PROMPT with two columns{there}")
        return plain(key), plain(text)
    _check_one_prompt(path)
    if columns is None:
        return "", ""
    if not any(columns):
        raise DataError("no prompts found. Write one prompt per line or row", path)
    key, text = _usual(columns)
    if not key or not text:
        there = ", ".join(columns)
        raise DataError(
            f"no column is the {'id' if text else 'prompt'} (there are: {there}). Add --prompt-file {path}:ID,PROMPT, or "
            f"{path}:#,PROMPT to number the rows from 0",
            path,
        )
    return key, text


def _check_one_prompt(path: Path) -> None:
    """Check that one column only of a table may be the prompt.

    Raises:
        Unclear: Several may be, and differ.
    """
    use, key = TableUse(), ""
    for _, row in scan_table(path):
        if not isinstance(row, DataError):
            usual, text = _usual(row)
            key = key or usual
            use.add_prompts(row, prompt_columns(row, filter(None, [text])))
    use.check_prompts(path, lambda prompt: "--prompt-file " + shlex.quote(f"{path}:{key or '#'},{prompt}"))


def _usual(names: Iterable[str]) -> tuple[str, str]:
    """Choose the columns of id and prompt by their usual names; empty if there is none."""
    there = by_usual_name(names)
    texts = (*NAMES["prompt"], *INSTRUCTIONS)
    key, text = (next((there[name] for name in usual if name in there), "") for usual in (_IDS, texts))
    return key, text
