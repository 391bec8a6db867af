"""Choose the scores of a merge from those of its parts, and warn where they are not comparable."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from titjudge.core.errors import UserError
from titjudge.core.files import JsonlReader
from titjudge.core.registry import base_metric
from titjudge.core.run_records import Manifest
from titjudge.core.types import Json, Status
from titjudge.metrics import Metric
from titjudge.runs.folder.run_folder import PLACE, RunFolder, compares_images

Record = Json
Key = tuple[str, str]  # item and metric


@dataclass(frozen=True, slots=True)
class ShardRun:
    """A run folder to merge, and its manifest. Its lines are read again where they are needed, and not kept.

    Attributes:
        folder: The run folder.
        manifest: Its manifest.
    """

    folder: RunFolder
    manifest: Manifest
    _readers: dict[str, JsonlReader] = field(default_factory=dict)

    @property
    def source(self) -> tuple[str, str | None]:
        """The name of its folder and its shard (`2/4`), by which the manifest of a merge knows it."""
        return self.folder.path.name, self.manifest.identity.get("shard")

    @property
    def shard(self) -> tuple[int, int] | None:
        """(1, 4) for the first of four; None for a run that is not a shard."""
        return shard_numbers(self.manifest.identity.get("shard"))

    def read(self, name: str) -> Iterator[Record]:
        """Read the records of NAME.jsonl; none where there is no such file."""
        return self.folder.read(f"{name}.jsonl")

    def located(self, name: str) -> Iterator[tuple[int, Record]]:
        """Read the records of NAME.jsonl, each with its offset."""
        return self.folder.located(f"{name}.jsonl")

    def read_at(self, name: str, offset: int) -> Record:
        """Read the record of NAME.jsonl at an offset again."""
        if name not in self._readers:
            self._readers[name] = JsonlReader(self.folder.path / f"{name}.jsonl")
        return self._readers[name].read_at(offset)

    def text_answers(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield key, template and digest of every good answer to a question without an image."""
        for reply in self.read("replies"):
            has_image = any(isinstance(piece, dict) for _, *pieces in reply["messages"] for piece in pieces)
            if reply["status"] == Status.OK and not has_image:
                yield reply["key"], reply["template"], hashlib.sha256(reply["text"].encode()).digest()[:16]


class MergedItems:
    """The items of all parts, each once, in the order of the data where shards know it; the newest record counts.

    Only ids, places and hashes of prompts are kept, and the records are read again when they are written.

    Raises:
        UserError: Two parts have different prompts for one item.
    """

    def __init__(self, parts: Sequence[ShardRun]) -> None:
        self._parts = parts
        self._lines: dict[str, tuple[int, int]] = {}  # part and offset of the record
        self._prompts: dict[str, int] = {}  # hashes, of valid items: only whether they differ is asked
        places: dict[str, tuple[int, int]] = {}
        for number, part in enumerate(parts):
            for position, (offset, item) in enumerate(part.located("items")):
                id = sys.intern(item["id"])
                places.setdefault(id, (item.get(PLACE, position), number))
                if "bad" in item:
                    self._prompts.pop(id, None)
                elif self._prompts.setdefault(id, prompt := hash(item["prompt"])) != prompt:
                    raise UserError(f"{part.folder.path}: {id} has another prompt than in the other runs")
                self._lines[id] = number, offset
        self.ranks = {id: rank for rank, id in enumerate(sorted(places, key=places.__getitem__))}

    def __len__(self) -> int:
        return len(self.ranks)

    def __iter__(self) -> Iterator[Record]:
        """Read the records again, in the order of the merge."""
        for id in self.ranks:
            part, offset = self._lines[id]
            yield self._parts[part].read_at("items", offset)

    @property
    def judged(self) -> list[str]:
        """The ids of the items that are valid."""
        return [id for id in self.ranks if id in self._prompts]


class _ScoreLine(NamedTuple):
    """Where a score is, and whether it has a value."""

    part: int
    offset: int
    has_value: bool


class MergedScores:
    """The scores of a merge: which line of which part has the score of an item by a metric.

    The newest score with a value counts, else the newest. Scores that compare the images of a prompt come from one part: the
    one with most of them.
    """

    def __init__(self, parts: Sequence[ShardRun], items: MergedItems, metrics: Mapping[str, Metric]) -> None:
        self._parts, self._items = parts, items
        self._chosen: dict[Key, _ScoreLine] = {}
        comparing: list[dict[Key, _ScoreLine]] = []
        for number, part in enumerate(parts):
            last: dict[Key, _ScoreLine] = {}
            for offset, record in part.located("scores"):
                key = sys.intern(record["item"]), sys.intern(record["metric"])
                last[key] = _ScoreLine(number, offset, record["value"] is not None)
            compared = {name for name in {name for _, name in last} if _compares(name, metrics)}
            comparing.append({key: line for key, line in last.items() if key[1] in compared})
            for key, line in last.items():
                if line.has_value or key not in self._chosen or not self._chosen[key].has_value:
                    self._chosen[key] = line
        if any(comparing):
            self._choose_together(comparing)

    def _choose_together(self, comparing: Sequence[Mapping[Key, _ScoreLine]]) -> None:
        """Take the scores that compare the images of a prompt from one part."""
        prompts: dict[str, list[str]] = {}
        for item in self._items:
            prompts.setdefault(item["prompt_id"], []).append(item["id"])
        for metric in dict.fromkeys(name for last in comparing for _, name in last):
            for items_of_prompt in prompts.values():
                keys = [(item, metric) for item in items_of_prompt]
                counts = [sum(key in last and last[key].has_value for key in keys) for last in comparing]
                best = max(range(len(comparing)), key=lambda number: (counts[number], number))
                for key in keys:
                    if counts[best] and key in comparing[best]:
                        self._chosen[key] = comparing[best][key]

    def __iter__(self) -> Iterator[Record]:
        """Read the records again, in the order of the items; those of unknown items come last."""
        ranks = self._items.ranks
        for key in sorted(self._chosen, key=lambda key: ranks.get(key[0], len(ranks))):
            yield self._read(self._chosen[key])

    def _read(self, line: _ScoreLine) -> Record:
        return self._parts[line.part].read_at("scores", line.offset)

    def with_value(self) -> Iterator[tuple[int, Record]]:
        """Read the records that have a value, each with the number of its part."""
        return ((line.part, self._read(line)) for line in self._chosen.values() if line.has_value)

    def count(self, metrics: Iterable[str]) -> tuple[int, int, int]:
        """Count the scores of these metrics with a value, those without one, and the valid items that have all of them."""
        names = set(metrics)
        with_values = [line.has_value for (_, name), line in self._chosen.items() if name in names]
        done = sum(all((item, name) in self._chosen for name in names) for item in self._items.judged)
        return sum(with_values), len(with_values) - sum(with_values), done


def shard_numbers(shard: str | None) -> tuple[int, int] | None:
    """Parse "1/4" to (1, 4)."""
    return (int(shard.split("/")[0]), int(shard.split("/")[1])) if shard else None


def _compares(name: str, metrics: Mapping[str, Metric]) -> bool:
    """Tell whether a metric, or the vote of one judge in it (`pairwise [openai/gpt-4o]`), compares images."""
    metric = metrics.get(name) or metrics.get(base_metric(name))
    return metric is not None and compares_images(metric)


def other_models(parts: Sequence[ShardRun]) -> list[str]:
    """List warnings for the roles in which the parts used different weights, programs or embedders of one name."""
    pins: dict[str, set[str]] = {}
    for part in parts:
        for name, pin in part.manifest.pins.items():
            pins.setdefault(name, set()).add(pin)
    return [
        f"joined over different models: what answered as {name} was {' and '.join(sorted(models))}"
        for name, models in pins.items()
        if len(models) > 1
    ]


def different_questions(parts: Sequence[ShardRun], scores: MergedScores) -> list[str]:
    """List warnings for the metrics that judged images of one prompt by different questions.

    A metric may derive questions, claims or a graph from the prompt alone, once for all its images. Parts that share no
    cache may have got different answers to that request.
    """
    first: dict[int, int] = {}  # hashes of key and answer: what is taken for ambiguous here is looked at below
    ambiguous: set[int] = set()
    for part in parts:
        for key, _, answer in part.text_answers():
            if first.setdefault(hash(key), hash(answer)) != hash(answer):
                ambiguous.add(hash(key))
    del first
    if not ambiguous:
        return []
    texts = [
        {key: (template, answer) for key, template, answer in part.text_answers() if hash(key) in ambiguous}
        for part in parts
    ]
    answers: dict[tuple[str, str, str], set[bytes]] = {}  # by metric, prompt and key
    templates: dict[str, str] = {}
    for part_number, score in scores.with_value():
        for key in score["replies"]:
            if key in (text_answers := texts[part_number]):
                templates[key], answer = text_answers[key]
                answers.setdefault((score["metric"], score["prompt_id"], key), set()).add(answer)
    mixed: dict[tuple[str, str], dict[str, None]] = {}
    for (name, prompt, key), different in answers.items():
        if len(different) > 1:
            mixed.setdefault((name, templates[key]), {})[prompt] = None
    return [
        f"{name}: images of {_listed(list(prompts))} were judged by different answers to {template}: their scores are "
        "not comparable; judge whole prompts in one run"
        for (name, template), prompts in mixed.items()
    ]


def _listed(prompts: Sequence[str]) -> str:
    count = "one prompt" if len(prompts) == 1 else f"{len(prompts)} prompts"
    return f"{count} ({', '.join(prompts[:3])}{', ...' if len(prompts) > 3 else ''})"
