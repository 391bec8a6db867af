"""Choose the scores of a merge from those of its parts, and warn where they are not comparable."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from titjudge.core.registry import base_metric
from titjudge.core.run_records import Manifest
from titjudge.core.types import Status
from titjudge.metrics import Metric
from titjudge.runs.run_folder import RunFolder
from titjudge.runs.score_digests import compares_images

Record = dict[str, Any]
Key = tuple[str, str]  # item and metric


@dataclass(frozen=True, slots=True)
class Part:
    """A run folder to merge, and its manifest."""

    folder: RunFolder
    manifest: Manifest

    @property
    def shard(self) -> tuple[int, int] | None:
        """(1, 4) for the first of four; None for a run that is not a shard."""
        return shard_numbers(self.manifest.identity.get("shard"))

    def read(self, name: str) -> Iterator[Record]:
        """Read the records of NAME.jsonl; none where there is no such file."""
        return self.folder.read(f"{name}.jsonl")

    def text_answers(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield key, template and digest of every good answer to a question without an image."""
        for reply in self.read("replies"):
            has_image = any(isinstance(piece, dict) for _, *pieces in reply["messages"] for piece in pieces)
            if reply["status"] == Status.OK and not has_image:
                yield reply["key"], reply["template"], hashlib.sha256(reply["text"].encode()).digest()[:16]


def shard_numbers(shard: str | None) -> tuple[int, int] | None:
    """Parse "1/4" to (1, 4)."""
    return (int(shard.split("/")[0]), int(shard.split("/")[1])) if shard else None


def choose_scores(
    parts: Sequence[Part], items: Sequence[Record], metrics: Mapping[str, Metric]
) -> tuple[dict[Key, Record], dict[Key, int]]:
    """Choose the score of each item and metric, and return with it the number of its part.

    The newest score with a value counts, else the newest one. Scores that compare images are taken from one part for all
    images of a prompt: the part that has most of them, and of several such parts the newest.
    """
    scores: dict[Key, Record] = {}
    sources: dict[Key, int] = {}
    comparing: list[dict[Key, Record]] = []
    for number, part in enumerate(parts):
        last = {(record["item"], record["metric"]): record for record in part.read("scores")}
        comparing.append({key: record for key, record in last.items() if _compares(key[1], metrics)})
        for key, record in last.items():
            if record["value"] is not None or key not in scores or scores[key]["value"] is None:
                scores[key], sources[key] = record, number
    prompts: dict[str, list[str]] = {}
    for item in items:
        prompts.setdefault(item["group"], []).append(item["id"])
    for name in dict.fromkeys(name for last in comparing for _, name in last):
        for items_of_prompt in prompts.values():
            keys = [(item, name) for item in items_of_prompt]
            counts = [sum(key in last and last[key]["value"] is not None for key in keys) for last in comparing]
            best = max(range(len(parts)), key=lambda number: (counts[number], number))
            for key in keys:
                if counts[best] and key in comparing[best]:
                    scores[key], sources[key] = comparing[best][key], best
    return scores, sources


def _compares(name: str, metrics: Mapping[str, Metric]) -> bool:
    """Tell whether a metric, or the vote of one judge in it (`pairwise [openai/gpt-4o]`), compares images."""
    metric = metrics.get(name) or metrics.get(base_metric(name))
    return metric is not None and compares_images(metric)


def other_models(parts: Sequence[Part]) -> list[str]:
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


def different_questions(
    parts: Sequence[Part], scores: Mapping[tuple[str, str], Record], sources: Mapping[tuple[str, str], int]
) -> list[str]:
    """List warnings for the metrics that judged images of one prompt by different questions.

    A metric may derive questions, claims or a graph from the prompt alone, once for all its images. Parts that share no
    cache may have got different answers to that request.
    """
    first: dict[str, bytes] = {}
    ambiguous: set[str] = set()  # keys with different answers
    for part in parts:
        ambiguous.update(key for key, _, answer in part.text_answers() if first.setdefault(key, answer) != answer)
    if not ambiguous:
        return []
    texts = [
        {key: (template, answer) for key, template, answer in part.text_answers() if key in ambiguous} for part in parts
    ]
    answers: dict[tuple[str, str, str], set[bytes]] = {}  # by metric, prompt and key
    templates: dict[str, str] = {}
    for (item, name), score in scores.items():
        for key in score["replies"] if score["value"] is not None else ():
            if key in (known := texts[sources[item, name]]):
                templates[key], answer = known[key]
                answers.setdefault((name, score["group"], key), set()).add(answer)
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
