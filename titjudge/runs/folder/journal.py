"""Read the JSONL files of a run folder, which a kill, a full disk or an editor may have damaged.

A last line without its newline is ignored: it may be in the middle of being written, and the next session cuts it off. Any
other damaged line is skipped and reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import orjson

from titjudge.core.errors import DataError
from titjudge.core.files import locate_jsonl, missing_key, packed, raw_lines
from titjudge.core.numbers import is_number
from titjudge.core.serialization import is_key, json_bytes
from titjudge.core.types import Json, Status, Values

_STRINGS = {
    "items.jsonl": ("id", "generator", "prompt_id"),
    "replies.jsonl": ("key", "status", "text"),
    "vectors.jsonl": ("key",),
    "scores.jsonl": tuple("item metric status reason generator prompt_id".split()),
}
_OTHER_KEYS = {
    "replies.jsonl": tuple("attempt list_cost messages template provider".split()),
    "scores.jsonl": ("value", "parts", "replies"),
}
_STATUSES = frozenset(Status)
_MOST = 5  # damaged lines that are named


def torn(file: Path) -> bool:
    """Tell whether the last line of a file lacks its newline."""
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
    for number, offset, record in locate_jsonl(file, whole=True):
        problem = record.message if isinstance(record, DataError) else flaw(file.name, record)
        if problem:
            damage[f"{file.name}:{number}"] = problem
        elif not isinstance(record, DataError):
            yield number, offset, record


def flaw(name: str, record: Values) -> str:
    """Say why an object is not a valid line of the file `name` of a run folder; empty when it is one."""
    if name == "billing.jsonl":
        return _flaw_of_bill(record)
    if problem := _no_string(record, _STRINGS.get(name, ())):
        return problem
    others = _OTHER_KEYS.get(name, ())
    if not record.keys() >= {*others}:
        return missing_key(record, others)
    if name in ("replies.jsonl", "vectors.jsonl") and not is_key(record["key"]):
        return f"'key' is no key of an answer: {record['key'][:80]!r}"
    if name in ("replies.jsonl", "scores.jsonl") and record["status"] not in _STATUSES:
        return f"there is no status '{record['status']}'"
    if name == "scores.jsonl":
        if record["value"] is not None and not is_number(record["value"]):
            return f"the score is no number: {record['value']!r}"
        if not (isinstance(record["parts"], dict) and isinstance(record["replies"], list)):
            return "its parts or replies are none"
    if name == "items.jsonl" and not (isinstance(record.get("bad"), str) or _is_item(record)):
        return "neither an item nor the reason why there is none"
    if name == "replies.jsonl" and not (record["list_cost"] is None or is_number(record["list_cost"])):
        return f"the list price is no number: {record['list_cost']!r}"
    return ""


def _is_item(record: Values) -> bool:
    image, sources, sample = record.get("image", 0), record.get("sources", []), record.get("sample", 0)
    return (
        isinstance(record.get("prompt"), str)
        and isinstance(record.get("meta"), dict)
        and (image is None or isinstance(image, str))
        and isinstance(sources, list)
        and all(isinstance(source, str) for source in sources)
        and type(sample) is int
    )


def _flaw_of_bill(record: Values) -> str:
    sent = "worst" in record  # a request that goes out, not the bill that settles it
    for key in ("worst", "tokens") if sent else ("cost", "uncertain", "tokens"):
        if not is_number(record.get(key)):
            return f"'{key}' is no number" if key in record else f"the key '{key}' is missing"
        if record[key] < 0:
            return f"'{key}' is negative: {record[key]}"
    return _no_string(record, ("role", "id") if sent else ("role",))


def _no_string(record: Values, keys: Iterable[str]) -> str:
    for key in keys:
        if not isinstance(record.get(key), str):
            return f"'{key}' must be a text" if key in record else f"the key '{key}' is missing"
    return ""


def write_records(file: Path, records: Iterable[Values]) -> int:
    """Write a JSONL file anew and return the number of its lines."""
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


def damage_lines(damage: Mapping[str, str]) -> list[str]:
    """Describe the first damaged lines, a line each, and count the others."""
    lines = [f"{where} is damaged and was left out: {why}" for where, why in list(damage.items())[:_MOST]]
    return lines + ([f"... and {len(damage) - _MOST} more damaged lines"] if len(damage) > _MOST else [])
