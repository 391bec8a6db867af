"""Prompts without images: FILE, FILE:ID,PROMPT with the columns of a table (ID may be # or #1: the number of the row, from 0 or 1), or FILE.txt[:FIRST] with a prompt a line.

A `.json` file may be an array of rows or of prompts, or an object of ids and prompts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import read_json, read_text, scan_table, table_columns
from titjudge.core.types import InvalidItem
from titjudge.suites.manifests import NAMES

_IDS = ("prompt_id", "id", "index")


def read_prompts(
    given: str, prompts: dict[str, str], further: dict[str, dict[str, Any]] | None = None
) -> Iterator[InvalidItem]:
    """Fill in the prompts of a file by their ids; yield what is wrong with rows.

    Args:
        given: FILE, FILE:ID,PROMPT or FILE.txt[:FIRST], as `--prompt-file` takes it.
        prompts: Gets the prompts.
        further: Gets the other columns of each prompt's row.

    Raises:
        DataError: The file cannot be read, or has no column that is known. ConfigError: The columns are no two.
    """
    file, _, told = (given, "", "") if Path(given).is_file() else given.rpartition(":")
    path = Path(file or given)
    whole = _whole_json(path)
    if isinstance(whole, dict):
        prompts.update({name: text.strip() for name, text in whole.items() if text.strip()})
        return
    if path.suffix.lower() == ".txt" or (whole and isinstance(whole[0], str)):
        lines = read_text(path).splitlines() if whole is None else map(str, whole)
        texts = enumerate((line.strip() for line in lines), int(told) if told.isdecimal() else 0)
        prompts.update({str(number): text for number, text in texts if text})
        return
    key, text = _columns(path, told, given)
    counted = int(key[1:] or 0) if re.fullmatch(r"#\d{0,9}", key) else None
    required = [text] if counted is not None else [key, text]
    for at, (number, record) in enumerate(_rows(path, whole, tuple(required) if key and text else ())):
        where = f"{path.name}:{number}"
        if isinstance(record, DataError):
            yield InvalidItem(where, str(record))
            continue
        own_key, own_text = (key, text) if key and text else _usual(record)
        if not own_key or not own_text:
            yield InvalidItem(where, f"{where}: no prompt with its id: name the columns, {path.name}:ID,PROMPT")
            continue
        name = str(record[own_key]) if counted is None else str(at + counted)
        prompt = record[own_text]
        if not isinstance(prompt, str) or not prompt.strip():
            yield InvalidItem(where, f"{where}: '{own_text}' is no prompt: {prompt!r}")
        elif prompts.setdefault(name, prompt) != prompt:
            yield InvalidItem(where, f"{where}: another text for the prompt '{name}'; the first one counts")
        elif further is not None:
            further[name] = {key: value for key, value in record.items() if key not in (own_key, own_text)}


def _whole_json(path: Path) -> list[Any] | dict[str, str] | None:
    """Read a `.json` file that is an array, or an object of ids and prompts; None of other files, JSON lines among them."""
    if path.suffix.lower() != ".json":
        return None
    try:
        found = read_json(path)
    except DataError:
        return None  # JSON lines, or an error that their reader names
    of_texts = isinstance(found, dict) and all(isinstance(text, str) for text in found.values())
    return found if isinstance(found, list) or (of_texts and not all(_usual(found))) else None


def _rows(path: Path, whole: Any, required: tuple[str, ...]) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    if not isinstance(whole, list):
        yield from scan_table(path, required)
        return
    for number, record in enumerate(whole, 1):
        lacks = [name for name in required if name not in record] if isinstance(record, dict) else ["an object"]
        yield number, DataError(f"element {number} lacks {lacks[0]}", path) if lacks else record


def _columns(path: Path, told: str, given: str) -> tuple[str, str]:
    known = table_columns(path)
    if told:
        key, _, text = told.partition(",")
        if not text:
            there = f" (there are: {', '.join(known)})" if known else ""
            raise ConfigError(f"--prompt-file '{given}': expected FILE:ID,PROMPT with two columns{there}")
        return key.strip(), text.strip()
    if known is None:
        return "", ""
    if not any(known):
        raise DataError("no prompts here", path)
    key, text = _usual(known)
    if not key or not text:
        there = ", ".join(known) or "none"
        raise DataError(
            f"no column with the {'prompt' if key else 'id'} (there are: {there}): {path.name}:ID,PROMPT", path
        )
    return key, text


def _usual(names: Iterable[str]) -> tuple[str, str]:
    there = set(names)
    pick = [next((name for name in usual if name in there), "") for usual in (_IDS, NAMES["prompt"])]
    return pick[0], pick[1]
