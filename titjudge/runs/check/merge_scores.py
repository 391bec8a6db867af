"""Choose the scores of a merge from those of its parts, and warn where they are not comparable."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from titjudge.core.errors import UserError
from titjudge.core.files import JsonlReader
from titjudge.core.registry import base_metric
from titjudge.core.run_records import Manifest
from titjudge.core.types import Json, Status
from titjudge.metrics import Metric
from titjudge.runs.folder.run_folder import PLACE, RunFolder, compares_images

Record = Json
Key = tuple[int, str]  # number of the item (`MergedItems.number`) and metric


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

    Raises:
        UserError: An item has different prompts.
    """

    def __init__(self, parts: Sequence[ShardRun]) -> None:
        self._parts = parts
        self._numbers: dict[str, int] = {}  # of the ids, as they come
        self._lines = array("q")  # where the record is: offset * parts + part
        self._valid = bytearray()
        places, prompts = array("q"), array("q")  # of the prompts hashes are enough: only whether they differ is asked
        for part_number, part in enumerate(parts):
            for position, (offset, item) in enumerate(part.located("items")):
                number = self._numbers.setdefault(item["id"], len(self._numbers))
                valid = "bad" not in item
                prompt = hash(item["prompt"]) if valid else 0
                line = offset * len(parts) + part_number
                if number == len(places):
                    places.append(item.get(PLACE, position) * len(parts) + part_number)
                    prompts.append(prompt)
                    self._lines.append(line)
                    self._valid.append(valid)
                    continue
                if valid and self._valid[number] and prompts[number] != prompt:
                    raise UserError(f"{part.folder.path}: {item['id']} has another prompt than in the other runs")
                prompts[number], self._lines[number], self._valid[number] = prompt, line, valid
        self._order = array("q", sorted(range(len(places)), key=places.__getitem__))
        self._ranks = array("q", bytes(8 * len(places)))
        for rank, number in enumerate(self._order):
            self._ranks[number] = rank

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Record]:
        """Read the records again, in the order of the merge."""
        for number in self._order:
            offset, part = divmod(self._lines[number], len(self._parts))
            yield self._parts[part].read_at("items", offset)

    def number(self, item: str) -> int:
        """Return the number of an item; one that is in no items.jsonl gets one, too."""
        return self._numbers.setdefault(item, len(self._numbers))

    def rank(self, number: int) -> int:
        """Return the position of an item in the merge; that of an unknown item is behind all others."""
        return self._ranks[number] if number < len(self._ranks) else len(self._ranks)

    @property
    def judged(self) -> list[int]:
        """The numbers of the items that are valid."""
        return [number for number in self._order if self._valid[number]]


class MergedScores:
    """The scores of a merge: which line of which part has the score of an item by a metric, and whether it has a value.

    The newest score with a value counts, else the newest one. Scores that compare images are taken from one part for all
    images of a prompt: the part that has most of them, and of several such parts the newest.
    """

    def __init__(self, parts: Sequence[ShardRun], items: MergedItems, metrics: Mapping[str, Metric]) -> None:
        self._parts, self._items = parts, items
        self._names: dict[str, int] = {}  # of metrics; a key is item * 2^16 + metric
        self._chosen: dict[int, int] = {}  # a line is (offset * parts + part) * 2, and 1 more where there is a value
        comparing: list[dict[int, int]] = []
        for part_number, part in enumerate(parts):
            last: dict[int, int] = {}
            for offset, record in part.located("scores"):
                has_value = record["value"] is not None
                key = items.number(record["item"]) << 16 | self._metric(record["metric"])
                last[key] = (offset * len(parts) + part_number) << 1 | has_value
            compared = {number for name, number in self._names.items() if _compares(name, metrics)}
            comparing.append({key: line for key, line in last.items() if key & 0xFFFF in compared})
            for key, line in last.items():
                if _has_value(line) or not _has_value(self._chosen.get(key, 0)):
                    self._chosen[key] = line
        if any(comparing):
            self._choose_together(comparing)

    def _metric(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _choose_together(self, comparing: Sequence[Mapping[int, int]]) -> None:
        """Take the scores that compare the images of a prompt from one part."""
        prompts: dict[str, list[int]] = {}
        for item in self._items:
            prompts.setdefault(item["prompt_id"], []).append(self._items.number(item["id"]))
        for metric in dict.fromkeys(key & 0xFFFF for last in comparing for key in last):
            for items_of_prompt in prompts.values():
                keys = [item << 16 | metric for item in items_of_prompt]
                counts = [sum(_has_value(last.get(key, 0)) for key in keys) for last in comparing]
                best = max(range(len(comparing)), key=lambda number: (counts[number], number))
                for key in keys:
                    if counts[best] and key in comparing[best]:
                        self._chosen[key] = comparing[best][key]

    def __iter__(self) -> Iterator[Record]:
        """Read the records again, in the order of the items."""
        for key in sorted(self._chosen, key=lambda key: self._items.rank(key >> 16)):
            yield self._read(self._chosen[key])

    def _read(self, line: int) -> Record:
        offset, part = divmod(line >> 1, len(self._parts))
        return self._parts[part].read_at("scores", offset)

    def with_value(self) -> Iterator[tuple[int, Record]]:
        """Read the records that have a value, each with the number of its part."""
        for line in self._chosen.values():
            if _has_value(line):
                yield (line >> 1) % len(self._parts), self._read(line)

    def count(self, metrics: Iterable[str]) -> tuple[int, int, int]:
        """Count the scores of these metrics with a value, those without one, and the valid items that have all of them."""
        numbers = {self._names.get(name, -1) for name in metrics}
        with_values = [_has_value(line) for key, line in self._chosen.items() if key & 0xFFFF in numbers]
        done = sum(all(item << 16 | number in self._chosen for number in numbers) for item in self._items.judged)
        return sum(with_values), len(with_values) - sum(with_values), done


def _has_value(line: int) -> bool:
    """Tell whether a line of `MergedScores`, in its packed form, has a score with a value."""
    return bool(line & 1)


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
