"""Read scores.jsonl while it is written: each look reads only what was added since the last one."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.errors import DataError
from titjudge.core.files import open_regular
from titjudge.core.numbers import is_number
from titjudge.core.run_records import FailureRecord

_BLOCK = 1 << 20
Identity = tuple[int, ...]


def identity(file: Path) -> Identity:
    """Return what changes when a file is written or replaced; empty where there is no file."""
    try:
        facts = os.stat(file)
    except OSError:
        return ()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """One line of scores.jsonl, as far as a list shows it; `value` is None where there is no score."""

    item: str
    metric: str
    generator: str
    prompt_id: str
    value: float | None
    status: str
    reason: str
    cause: str


@dataclass(slots=True)
class ScoreTail:
    """The scores of one run so far.

    Attributes:
        file: The scores.jsonl.
        latest: The last line of each item and metric; those that were written last come last.
    """

    file: Path
    latest: dict[tuple[str, str], ScoreLine] = field(default_factory=dict)
    _seen: Identity = ()
    _read: int = 0
    _torn: bytes = b""

    def look(self) -> bool:
        """Read what was added since the last look, all of it where the file was replaced; tell whether there was anything."""
        now = identity(self.file)
        if now == self._seen:
            return False
        if now[:2] != self._seen[:2] or now[2] < self._read:
            self._forget()
        try:
            self._read_on()
        except (OSError, DataError):
            self._forget()
            return True
        self._seen = now
        return True

    def _forget(self) -> None:
        self._seen, self._read, self._torn = (), 0, b""
        self.latest.clear()

    def _read_on(self) -> None:
        """Read the lines that were added; a line that is not finished waits for the next look."""
        with open_regular(self.file) as handle:
            handle.seek(self._read)
            while block := handle.read(_BLOCK):
                self._read += len(block)
                *lines, self._torn = (self._torn + block).split(b"\n")
                for line in lines:
                    self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            score = score_line(orjson.loads(line))
        except (orjson.JSONDecodeError, AttributeError, TypeError, KeyError):
            return  # a damaged line; the run itself says so
        self.latest.pop((score.item, score.metric), None)
        self.latest[score.item, score.metric] = score

    @property
    def metrics(self) -> list[str]:
        """The metrics that have scored something."""
        return list(dict.fromkeys(metric for _, metric in self.latest))

    def means(self, metric: str) -> list[tuple[str, float]]:
        """Return the mean score of each generator so far by a metric."""
        values: dict[str, list[float]] = {}
        for score in self.latest.values():
            if score.metric == metric and score.value is not None:
                values.setdefault(score.generator, []).append(score.value)
        return [(generator, math.fsum(listed) / len(listed)) for generator, listed in values.items()]

    def failures(self) -> list[FailureRecord]:
        """List the scores so far that have no value."""
        lines = (score for score in self.latest.values() if score.value is None)
        return [FailureRecord(item=s.item, status=s.status, reason=s.reason, cause=s.cause) for s in lines]

    def reasons(self) -> Counter[str]:
        """Count why images have no score, the metrics together."""
        return Counter(": ".join(filter(None, (failure.status, failure.reason))) for failure in self.failures())


def score_line(record: Mapping[str, Any]) -> ScoreLine:
    """Take from a record of scores.jsonl what a list shows.

    Raises:
        KeyError: It names no item or metric.
    """
    value, texts = record.get("value"), ("generator", "prompt_id", "status", "reason", "cause")
    return ScoreLine(
        item=str(record["item"]),
        metric=str(record["metric"]),
        value=float(value) if is_number(value) else None,
        **{name: str(record.get(name, "")) for name in texts},
    )
