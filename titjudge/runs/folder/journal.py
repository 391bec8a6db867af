"""Read the JSONL files of a run folder, which a kill, a full disk or an editor may have damaged.

A last line without its newline is ignored: it may be in the middle of being written, and the next session cuts it off. Any
other damaged line is skipped and reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.errors import DataError
from titjudge.core.files import locate_jsonl, missing_key, packed, raw_lines
from titjudge.core.numbers import is_number
from titjudge.core.serialization import KEY, json_bytes
from titjudge.core.types import Json, Note, Status, Values

_STATUSES = frozenset(Status)
_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "anything": lambda value: True,
    "a text": lambda value: isinstance(value, str),
    "a text or null": lambda value: value is None or isinstance(value, str),
    "a list": lambda value: isinstance(value, list),
    "a list of texts": lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value),
    "an object": lambda value: isinstance(value, dict),
    "a whole number": lambda value: type(value) is int,
    "a number or null": lambda value: value is None or is_number(value),
    "a number of at least 0": lambda value: is_number(value) and value >= 0,
    "a status": lambda value: isinstance(value, str) and value in _STATUSES,
    "a key of an answer": lambda value: isinstance(value, str) and KEY.fullmatch(value) is not None,
}
_FORMS = {  # of the lines of a file, or of the lines with a key
    "items.jsonl": {
        "a text": "id generator prompt_id prompt",
        "a text or null": "image",
        "an object": "meta",
        "a list of texts": "sources",
        "a whole number": "sample",
    },
    "bad": {"a text": "id generator prompt_id bad"},
    "replies.jsonl": {
        "a key of an answer": "key",
        "a status": "status",
        "a text": "text",
        "a number or null": "list_cost",
        "anything": "attempt messages template provider",
    },
    "vectors.jsonl": {"a key of an answer": "key"},
    "scores.jsonl": {
        "a text": "item metric reason generator prompt_id",
        "a status": "status",
        "a number or null": "value",
        "an object": "parts",
        "a list": "replies",
    },
    "billing.jsonl": {"a number of at least 0": "cost uncertain tokens", "a text": "role"},
    "worst": {"a number of at least 0": "worst tokens", "a text": "role id"},  # a request that goes out
}
_KEYS = {name: [(key, what) for what in form for key in form[what].split()] for name, form in _FORMS.items()}
_VARIANTS = {"items.jsonl": "bad", "billing.jsonl": "worst"}
_OPTIONAL = ("sources", "sample")
_MOST = 5  # damaged lines that are reported


def torn(file: Path) -> bool:
    """Return True if the last line of a file has no newline."""
    if packed(file) is not None:
        return any(not line.endswith(b"\n") for line in deque(raw_lines(file), maxlen=1))
    with file.open("rb") as opened:
        end = opened.seek(0, 2)
        opened.seek(max(0, end - 1))
        return end > 0 and opened.read(1) != b"\n"


def records(file: Path, damage: dict[str, str]) -> Iterator[tuple[int, Json]]:
    """Yield line number and object of every valid line; the problems of the others go into `damage`, by `name:line`."""
    return ((number, record) for number, _, record in located(file, damage))


def located(file: Path, damage: dict[str, str]) -> Iterator[tuple[int, int, Json]]:
    """Yield the lines as `records` does, each with its offset, at which `core.files.JsonlReader` reads it again."""
    name, variant = file.name, _VARIANTS.get(file.name, "")
    for number, offset, record in locate_jsonl(file, whole=True):
        if isinstance(record, DataError):
            damage[f"{name}:{number}"] = record.message
            continue
        for key, what in _KEYS.get(variant if variant in record else name, ()):
            if key not in record and key not in _OPTIONAL:
                damage[f"{name}:{number}"] = missing_key(record, [key])
                break
            if key in record and not _KINDS[what](record[key]):
                damage[f"{name}:{number}"] = f"'{key}' must be {what}, not {record[key]!r:.80}"
                break
        else:
            yield number, offset, record


def write_records(file: Path, records: Iterable[Values]) -> int:
    """Write a new JSONL file and return the number of its lines."""
    file.unlink(missing_ok=True)
    count = 0
    try:
        with file.open("wb") as lines:
            for record in records:
                lines.write(json_bytes(record, orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY))
                count += 1
    except OSError as error:
        error.filename = str(file)
        raise
    return count


def damage_lines(damage: Mapping[str, str]) -> list[Note]:
    """Describe the first damaged lines, a line each, and count the others."""
    first = list(damage.items())[:_MOST]
    lines = [Note("line_damaged", f"{where} is damaged and was left out: {why}") for where, why in first]
    if (more := len(damage) - _MOST) > 0:
        lines.append(Note("more_lines_damaged", f"... and {more} more damaged lines"))
    return lines
