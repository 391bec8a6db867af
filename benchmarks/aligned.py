"""Planted errors that `tit-aligned`, `tit` and counts of words notice, for each embedder.

    python -m benchmarks.aligned [--embedder NAME[/MODEL] ...] [--photos FOLDER]

An error is noticed if the prompt with the error scores lower than the prompt without it, beside the same description. An
equal score counts half. The bundled example gives the descriptions, the planted errors of `probe`, and the pairs of images.
Exchanged words are two colours or two numbers that change places in a prompt. The two rows without a model are the floor:
the share of the prompt's content words that the description has (bag of words), and the same with ordered pairs of words.
For `tit-aligned-llm`, another language model than that of the descriptions read each sentence beside its description, without
knowing which has an error: `sentence_verdicts.jsonl`. It has none for photographs.

`--photos` is a folder with `build.py`, `prompts_src.py` and `captions.py`, which describe photographs and errors in their
prompts. Without it there is no column of photographs. Exit 1 if `tit-aligned` misses a goal with the default embedder: 92% of planted
errors, 85% of photographs and of exchanged words, 32 of 36 pairs.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scripted_ask import ScriptedAsk
from titjudge.core import item_meta
from titjudge.core.types import Embedding, Item, ProviderSettings
from titjudge.metrics.tit import tit
from titjudge.metrics.tit_aligned import REACH, content_words, share_found, terms, tit_aligned, tit_aligned_llm
from titjudge.probes import battery, prompt_edits
from titjudge.probes.prompt_edits import EXCHANGED
from titjudge.providers import make_embedder
from titjudge.suites.known_answer.suite import KnownAnswer

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "known_answer"
VERDICTS = Path(__file__).with_name("sentence_verdicts.jsonl")
CHECKED = (5, 13)  # sentences: the default, and all
GOALS = {"planted": 0.92, "photographs": 0.85, EXCHANGED: 0.85, "pairs": 32 / 36}
Match = Callable[[str, str], Awaitable[float]]


class Trial(NamedTuple):
    """A prompt with and without an error, and the description of the image."""

    kind: str
    right: str
    wrong: str
    description: str


class Reader(ScriptedAsk):
    """An `ask` that embeds each text once, and checks sentences by the recorded verdicts.

    Args:
        name: The embedder.
        descriptions: The description of each image of the bundled example.
    """

    def __init__(self, name: str, descriptions: dict[str, str]) -> None:
        provider, _, model = name.partition("/")
        self.embedder, self.known = make_embedder(provider, model, ProviderSettings("")), dict[str, Embedding]()
        self.wrong: dict[tuple[str, str], bool] = {}
        for line in map(json.loads, VERDICTS.read_text("utf-8").splitlines()):
            for wrong in (True, False):
                listed = line["wrong" if wrong else "confirmed"]
                self.wrong |= {(descriptions[line["image"]], sentence): wrong for sentence in listed}

    def _tit_check(self, given: dict[str, Any]) -> str:
        verdicts = [self.wrong[given["description"], sentence] for sentence in given["sentences"]]
        return json.dumps({"wrong": [number for number, wrong in enumerate(verdicts, 1) if wrong]})

    def book(self, template: str, schema: Any, given: dict[str, Any], text: str) -> None:
        """Keep no account: prices are those of `--dry-run`."""

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known.update(zip(new, await self.embedder.embed(new), strict=True) if new else ())
        return [self.known[text] for text in texts]


def by_metric(metric: Any, ask: Reader) -> Match:
    """Score a prompt and a description by a metric."""

    async def match(prompt: str, description: str) -> float:
        item = Item("i", prompt, None, meta={item_meta.DESCRIPTION.name: description})
        value = (await metric(item, ask)).value
        assert value is not None
        return float(value)

    return match


def by_words(reach: int) -> Match:
    """Score by the share of the prompt's content words and ordered pairs that the description has."""

    async def match(prompt: str, description: str) -> float:
        return share_found(prompt, set(terms(content_words(description), reach + 1)), reach) or 0.0

    return match


def planted(items: Sequence[Item], descriptions: dict[str, str]) -> Iterator[Trial]:
    """Yield the single errors of `probe` on the bundled example."""
    for test in battery.sensitivity(items):
        if "at once" not in test.name:
            for trial in test.trials:
                described = descriptions[trial.base.id.partition("#")[0]]
                yield Trial(test.name, trial.base.prompt, trial.changed.prompt, described)


def photographs(folder: Path) -> Iterator[Trial]:
    """Yield the errors of the photographs, one at a time, and their exchanged words."""
    sys.path.insert(0, str(folder))
    build, prompts, captions = map(importlib.import_module, ("build", "prompts_src", "captions"))
    for name, caption in captions.C.items():
        right = build.variants(prompts.P[name], ())
        for place in range(len(build.slots(prompts.P[name]))):
            yield Trial("photographs", right, build.variants(prompts.P[name], (place,)), caption)
        for edit in prompt_edits.edits(right, {}, [], EXCHANGED):
            yield Trial(EXCHANGED, right, edit.prompt, caption)


async def noticed(match: Match, trials: Sequence[Trial]) -> float:
    """Count the errors that lower the score; an equal score counts half."""
    found = 0.0
    for trial in trials:
        right, wrong = await match(trial.right, trial.description), await match(trial.wrong, trial.description)
        found += 0.5 if abs(right - wrong) < 1e-12 else float(wrong < right)
    return found


async def rows(embedders: Sequence[str], photos: Path | None) -> bool:
    """Print a row for each way to score; return whether `tit-aligned` with the first embedder reaches the goals."""
    suite = KnownAnswer()
    items = [item for item in suite.load(EXAMPLE) if isinstance(item, Item)]
    lines = map(json.loads, (EXAMPLE / "descriptions.jsonl").read_text("utf-8").splitlines())
    descriptions = {line["image"]: line["description"] for line in lines}
    trials = [*planted(items, descriptions), *(photographs(photos) if photos else ())]
    kinds = {kind: [trial for trial in trials if trial.kind == kind] for kind in dict.fromkeys(t.kind for t in trials)}
    kinds["planted"] = [trial for trial in trials if trial.kind not in (EXCHANGED, "photographs")]
    pairs = suite.pairs(EXAMPLE)
    prompts, recorded = {item.id: item.prompt for item in items}, {*descriptions.values()}
    print(f"| way | {' | '.join(f'{kind} ({len(found)})' for kind, found in kinds.items())} | pairs ({len(pairs)}) |")
    print(f"| --- |{' ---: |' * (len(kinds) + 1)}")
    ways: dict[str, Match] = {"bag of words": by_words(0), "words and ordered pairs": by_words(REACH)}
    for name in embedders:
        ask = Reader(name, descriptions)
        ways |= {f"{metric.name}, {name}": by_metric(metric, ask) for metric in (tit, tit_aligned)}
        for count in CHECKED:
            metric = tit_aligned_llm.configured({"checked": count})
            ways[f"{metric.name}, {name}, {count} checked"] = by_metric(metric, ask)
    reached = True
    for way, match in ways.items():
        found = {
            kind: await noticed(match, these)
            for kind, these in kinds.items()
            if "checked" not in way or all(trial.description in recorded for trial in these)
        }
        values = {key: await match(prompts[key], descriptions[key]) for key in prompts}
        right = sum((values[pair.a] > values[pair.b]) == (pair.preference == "a") for pair in pairs)
        print(
            f"| {way} | {' | '.join(f'{found[kind]:g}' if kind in found else '-' for kind in kinds)} | {right} |",
            flush=True,
        )
        if way == f"tit-aligned, {embedders[0]}":
            shares = {kind: found[kind] / len(kinds[kind]) for kind in kinds} | {"pairs": right / len(pairs)}
            reached = all(shares[kind] >= goal for kind, goal in GOALS.items() if kind in shares)
    return reached


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", action="append", help="default, sentence-transformers/MODEL, ...; repeatable")
    parser.add_argument("--photos", type=Path)
    given = parser.parse_args()
    return 0 if asyncio.run(rows(given.embedder or ["default"], given.photos)) else 1


if __name__ == "__main__":
    sys.exit(main())
