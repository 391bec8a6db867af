"""The lines of a run folder, as a kill, a full disk or somebody's editor left them.

A last line without its end is left out: whoever writes the folder next cuts it off, and it may be written at this moment.
Any other line that is damaged is skipped and named; what the others say still counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.files import scan_jsonl
from titjudge.core.numbers import is_number
from titjudge.core.types import Status

_TEXTS = {
    "items.jsonl": ("id", "generator", "group"),
    "replies.jsonl": ("key", "status", "text"),
    "vectors.jsonl": ("key",),
    "scores.jsonl": ("item", "metric", "status", "reason", "generator", "group"),
}
_OTHERS = {
    "replies.jsonl": ("attempt", "list_cost", "messages", "template", "provider"),
    "scores.jsonl": ("value", "parts", "replies"),
}
_AMOUNTS = {True: ("worst", "tokens"), False: ("cost", "uncertain", "tokens")}
_STATUSES = frozenset(Status)


def torn(file: Path) -> bool:
    """Tell whether the last line of a file has no end."""
    with file.open("rb") as opened:
        end = opened.seek(0, 2)
        opened.seek(max(0, end - 1))
        return end > 0 and opened.read(1) != b"\n"


def records(file: Path, damage: dict[str, str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line number and object of every sound line; what is wrong with others goes into `damage`, by `name:line`."""
    for number, record in scan_jsonl(file, whole=True):
        problem = record.message if isinstance(record, DataError) else flaw(file.name, record)
        if problem:
            damage[f"{file.name}:{number}"] = problem
        elif not isinstance(record, DataError):
            yield number, record


def flaw(name: str, record: Mapping[str, Any]) -> str:
    """Say why an object is no line of that file of a run folder; empty when it is one."""
    if name == "billing.jsonl":
        return _flaw_of_bill(record)
    for key in _TEXTS.get(name, ()):
        if not isinstance(record.get(key), str):
            return f"'{key}' is no text" if key in record else f"the key '{key}' is missing"
    for key in _OTHERS.get(name, ()):
        if key not in record:
            return f"the key '{key}' is missing"
    if name in ("replies.jsonl", "scores.jsonl") and record["status"] not in _STATUSES:
        return f"there is no status '{record['status']}'"
    if name == "scores.jsonl":
        if record["value"] is not None and not is_number(record["value"]):
            return f"the score is no number: {record['value']!r}"
        if not (isinstance(record["parts"], dict) and isinstance(record["replies"], list)):
            return "its parts or replies are none"
    if name == "items.jsonl" and not (
        isinstance(record.get("bad"), str)
        or (isinstance(record.get("prompt"), str) and isinstance(record.get("meta"), dict) and "image" in record)
    ):
        return "neither an item nor the reason why there is none"
    if name == "replies.jsonl" and not (record["list_cost"] is None or is_number(record["list_cost"])):
        return f"the list price is no number: {record['list_cost']!r}"
    return ""


def _flaw_of_bill(record: Mapping[str, Any]) -> str:
    for key in _AMOUNTS["worst" in record]:
        if not is_number(record.get(key)):
            return f"'{key}' is no number" if key in record else f"the key '{key}' is missing"
        if record[key] < 0:
            return f"'{key}' is negative: {record[key]}"
    for key in ("role", "id") if "worst" in record else ("role",):
        if not isinstance(record.get(key), str):
            return f"'{key}' is no text" if key in record else f"the key '{key}' is missing"
    return ""


def told(damage: Mapping[str, str], most: int = 5) -> list[str]:
    """Put the damage into lines for people."""
    lines = [f"{where} is damaged and was left out: {why}" for where, why in list(damage.items())[:most]]
    return lines + ([f"... and {len(damage) - most} more damaged lines"] if len(damage) > most else [])
