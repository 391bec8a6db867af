"""Prompts without images: FILE, FILE:ID,PROMPT with the columns of a table (ID may be # or #1: the number of the row, from 0 or 1), or FILE.txt[:FIRST] with a prompt a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import read_text, scan_table, table_columns
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
    if path.suffix.lower() == ".txt":
        first = int(told) if told.isdecimal() else 0
        texts = (line.strip() for line in read_text(path).splitlines())
        prompts.update({str(number): text for number, text in enumerate(texts, first) if text})
        return
    key, text = _columns(path, told, given)
    counted = int(key[1:] or 0) if re.fullmatch(r"#\d{0,9}", key) else None
    required = [text] if counted is not None else [key, text]
    for at, (number, record) in enumerate(scan_table(path, tuple(required) if key and text else ())):
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


def _columns(path: Path, told: str, given: str) -> tuple[str, str]:
    if told:
        key, _, text = told.partition(",")
        if not text:
            raise ConfigError(f"--prompt-file '{given}': expected FILE:ID,PROMPT with two columns")
        return key.strip(), text.strip()
    known = table_columns(path)
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
