"""Digests of what was judged, by which a resumed run finds the scores that are still valid.

A score is valid while the item's line in items.jsonl (prompt, names, meta, size and time of its images) has not changed.
One that compares images (scope "prompt") is valid while none of the images of its prompt has changed, come or gone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import orjson

from titjudge.core.serialization import item_record
from titjudge.core.types import InvalidItem, Item, Json, Values
from titjudge.data import containers
from titjudge.metrics import Metric

PLACE = "place"  # key in a shard's items.jsonl: position of the item in the data; not part of the digest


def compares_images(metric: Metric) -> bool:
    """Tell whether a metric's score depends on the other images of the prompt."""
    return metric.scope == "prompt"


def listed_record(item: Item | InvalidItem) -> Json:
    """Make an item's line in items.jsonl, with size and time of its images, so that a changed image is judged again."""
    record = item_record(item)
    if isinstance(item, Item) and item.image is not None:
        record["stat"] = _stat(item.image)
    if isinstance(item, Item) and item.sources:
        record["source_stats"] = [_stat(source) for source in item.sources]
    return record


def _stat(image: Path) -> list[int] | None:
    """Return size and modification time (nanoseconds) of an image, or of the file that it is in; None without one."""
    try:
        stat = os.stat(containers.holder(image) or image)
    except OSError:
        return None
    return [stat.st_size, stat.st_mtime_ns]


def digest_of(item: Item, metric: Metric) -> str:
    """Return the digest of what `metric` judges in `item`, which has the other images of its prompt (`loop.prepared`)."""
    if not compares_images(metric) or not item.same_prompt:
        return _digest(listed_record(item)).hex()
    return Digests(map(listed_record, item.same_prompt), prompts=True).digest(item.id, together=True)


class Digests:
    """The digests of all items of a run, from their lines in items.jsonl; with `prompts`, also those of whole prompts."""

    def __init__(self, records: Iterable[Values], *, prompts: bool) -> None:
        self._digests: dict[str, bytes] = {}
        self._prompt_of: dict[str, str] = {}
        self.prompts: dict[str, list[str]] = {}
        for record in records:
            if "bad" not in record:
                self._digests[record["id"]] = _digest(record)
                if prompts:
                    self._prompt_of[record["id"]] = prompt = record["prompt_id"]
                    self.prompts.setdefault(prompt, []).append(record["id"])

    def digest(self, item: str, *, together: bool) -> str:
        """Return the digest of one item, or with `together` of all images of its prompt; empty for an unknown item."""
        if item not in self._digests:
            return ""
        if not together:
            return self._digests[item].hex()
        items = self.prompts[self._prompt_of[item]]
        return hashlib.sha256(b"".join(self._digests[id] for id in items)).digest()[:16].hex()


def _digest(record: Values) -> bytes:
    line = {name: value for name, value in record.items() if name != PLACE}
    return hashlib.sha256(orjson.dumps(line, option=orjson.OPT_SORT_KEYS)).digest()[:16]
