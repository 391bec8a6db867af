"""What a score was made of, as a digest: whether a score of an earlier session still holds is decided by it.

A score holds while the item's line in items.jsonl (prompt, names, meta, size and time of its image) is what it was. One
that compares images (scope "prompt") holds only while all images of its prompt are what they were, and are the same ones.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from titjudge.core import containers
from titjudge.core.serialization import item_record
from titjudge.core.types import InvalidItem, Item
from titjudge.metrics import Metric

PLACE = "place"  # of an item in the data, in a shard's items.jsonl: no part of what is judged


def compares(metric: Metric) -> bool:
    """Tell whether a metric's score depends on the other images of the prompt."""
    return metric.scope == "prompt"


def listed_record(item: Item | InvalidItem) -> dict[str, Any]:
    """Make an item's line in items.jsonl: with size and time of its image, so that a changed image is judged again."""
    record = item_record(item)
    if isinstance(item, Item) and item.image is not None:
        try:
            found = os.stat(containers.holder(item.image) or item.image)
            record["stat"] = [found.st_size, found.st_mtime_ns]
        except OSError:
            record["stat"] = None
    return record


def mark(item: Item, metric: Metric) -> str:
    """Digest what `metric` judges when it scores `item` (as `loop.prepared` hands it over)."""
    if not compares(metric) or not item.same_prompt:
        return _digest(listed_record(item)).hex()
    return Marks(map(listed_record, item.same_prompt), prompts=True).of(item.id, together=True)


class Marks:
    """The digests of all items of a run, from their lines in items.jsonl; `prompts`: those of whole prompts as well."""

    def __init__(self, records: Iterable[Mapping[str, Any]], *, prompts: bool) -> None:
        self._own: dict[str, bytes] = {}
        self._prompt_of: dict[str, str] = {}
        self.prompts: dict[str, list[str]] = {}
        for record in records:
            if "bad" not in record:
                self._own[record["id"]] = _digest(record)
                if prompts:
                    self._prompt_of[record["id"]] = record["group"]
                    self.prompts.setdefault(record["group"], []).append(record["id"])

    def of(self, item: str, *, together: bool) -> str:
        """Give the digest of one item, or with `together` of all images of its prompt; empty where it is not listed."""
        if item not in self._own:
            return ""
        if not together:
            return self._own[item].hex()
        members = self.prompts[self._prompt_of[item]]
        return hashlib.sha256(b"".join(self._own[each] for each in members)).digest()[:16].hex()


def _digest(record: Mapping[str, Any]) -> bytes:
    line = {name: value for name, value in record.items() if name != PLACE}
    return hashlib.sha256(orjson.dumps(line, option=orjson.OPT_SORT_KEYS)).digest()[:16]
