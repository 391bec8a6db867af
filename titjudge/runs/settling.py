"""A run that stops as soon as it is known which generator is better: prompts in random order, judged until the verdict."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError, nearest
from titjudge.core.types import InvalidItem, Item, Pair, Score
from titjudge.metrics import Metric
from titjudge.runs.loop import RunLoop
from titjudge.runs.run_folder import RunFolder
from titjudge.runs.session import Session
from titjudge.stats.equality import apart
from titjudge.stats.sequential import EQUIVALENT, OPEN, Race

STOPPED = (
    "this run stopped when its question was settled: only the interval of the verdict allows for that, and the other means, "
    "intervals and ranks favour the winner"
)


@dataclass(frozen=True, slots=True)
class Question:
    """Which generators are to be told apart, and within which margin they count as equal.

    Raises:
        ConfigError: fewer than two names, or one twice.
    """

    names: tuple[str, ...]
    margin: float | None = None

    def __post_init__(self) -> None:
        if len(self.names) < 2 or len(set(self.names)) < len(self.names) or not all(self.names):
            raise ConfigError(f"--settle takes two or more generators, each once: not '{','.join(self.names)}'")


class Settling:
    """Feeds a loop with the images of one random prompt after the other, and its scores to a race, until there is a verdict.

    The verdict depends on the data and the scores alone: prompts are taken in an order that their ids decide, and scores are
    looked at in that order whatever order the answers come in. A prompt on which a generator has no score is left out.

    Args:
        items: of the run; those of other generators, and of prompts that not all of them have, are not judged.

    Raises:
        ConfigError: several metrics. DataError: a generator that is not there, or fewer than two common prompts.
    """

    def __init__(self, question: Question, items: Iterable[Item | InvalidItem], metrics: Mapping[str, Metric]) -> None:
        if len(metrics) != 1:
            raise ConfigError(f"--settle needs one metric, and there are {len(metrics)}: {', '.join(metrics)}")
        ((self._metric, metric),) = metrics.items()
        self._sign = 1.0 if metric.higher_is_better else -1.0
        by_prompt: dict[str, dict[str, list[Item]]] = {}
        there: set[str] = set()
        for item in items:
            there.add(item.generator)
            if isinstance(item, Item) and item.generator in question.names and metric.applies(item):
                by_prompt.setdefault(item.prompt_id or item.id, {}).setdefault(item.generator, []).append(item)
        for name in question.names:
            if name not in there:
                known = ", ".join(sorted(there - {""})) or "none is named"
                raise DataError(f"--settle: no generator '{name}'.{nearest(name, there)} Known: {known}")
        common = [prompt for prompt, of in by_prompt.items() if len(of) == len(question.names)]
        if len(common) < 2:
            has = "1 prompt" if len(common) == 1 else "no prompt"
            raise DataError(f"--settle: {' and '.join(question.names)} have {has} in common: a comparison needs two")
        self._prompts = sorted(common, key=lambda prompt: hashlib.sha256(prompt.encode()).digest())
        self._items = by_prompt
        self._scores: dict[str, float | None] = {}
        self._next = 0
        low, high = metric.range
        self._range = high - low if math.isfinite(high - low) else 1.0  # where all scores are the same as yet
        self._ends = (math.inf, -math.inf)
        self._race = Race(question.names, self._range, question.margin)

    def order(self) -> Iterator[Item]:
        """Yield the images still to be judged, while there is no verdict."""
        for prompt in self._prompts:
            for name, items in self._items[prompt].items():
                for item in items:
                    if self.over:
                        return
                    if name in self._race.left:
                        yield item

    @property
    def over(self) -> bool:
        return self._race.over

    def take(self, score: Score) -> bool:
        """Take a score as it comes; returns whether there is a verdict now."""
        if score.metric != self._metric:  # of one judge of a panel
            return self.over
        self._scores[score.item_id] = None if score.value is None else self._sign * score.value
        while not self.over and self._next < len(self._prompts):
            items = {name: self._items[self._prompts[self._next]][name] for name in self._race.left}
            if any(item.id not in self._scores for each in items.values() for item in each):
                break
            self._next += 1
            self._add([self._mean(items.get(name, ())) for name in self._race.names])
        return self.over

    def _mean(self, items: Sequence[Item]) -> float:
        values = [value for item in items if (value := self._scores[item.id]) is not None]
        return sum(values) / len(values) if values else math.nan

    def _add(self, scores: Sequence[float]) -> None:
        known = [value for name, value in zip(self._race.names, scores, strict=True) if name in self._race.left]
        if any(map(math.isnan, known)):
            return
        self._ends = min(*known, self._ends[0]), max(*known, self._ends[1])
        self._race.span = apart(*self._ends, self._range)
        self._race.add(scores)

    def record(self, spent: float, list_cost: float) -> dict[str, Any]:
        """Record what there is to say at the end; `saved` is what the images that were not judged would have cost at list price."""
        every = [item.id for prompt in self._prompts for items in self._items[prompt].values() for item in items]
        judged = sum(each in self._scores for each in every)
        price = list_cost / len(self._scores) if self._scores else 0.0
        about = {
            "verdict": self._race.verdict, "used": self._race.prompts, "of": len(self._prompts),
            "interval": None if (ends := self._race.interval()) is None else list(ends),
        }  # fmt: skip
        names = self._race.names
        who = (
            {"a": names[0], "b": names[1]} if len(names) == 2 else {"generators": list(names), "left": self._race.left}
        )
        return {
            "metric": self._metric, "margin": self._race.margin, "pairs": [who | about], "images": judged,
            "of_images": len(every), "spent": spent, "saved": round(price * (len(every) - judged), 6) if self.over else 0.0,
        }  # fmt: skip


class SettlingSession(Session):
    """A run of the generators that are to be told apart, which ends with the verdict and can be gone on with.

    Raises:
        ConfigError, DataError: as `Question` and `Settling`.
    """

    def __init__(self, config: RunConfig, question: Question) -> None:
        super().__init__(config)
        self._names = frozenset(question.names)
        self._settling = Settling(question, (item for item, _ in super().listed()), self.metrics)

    def listed(self) -> Iterator[tuple[Item | InvalidItem, int | None]]:
        return (each for each in super().listed() if each[0].generator in self._names)

    def pairs(self) -> list[Pair]:
        """List the human pairs whose two images are among those of this run."""
        known = {item.id for item in self.items()}
        return [pair for pair in super().pairs() if pair.a in known and pair.b in known]

    def _work(self, folder: RunFolder, loop: RunLoop, done: set[tuple[str, str]]) -> Iterator[Item]:
        loop.until(self._take, self.config.limits.concurrency)
        for (item, metric), score in folder.scores(slim=True).items():
            if (item, metric) in done and self._take(score):
                loop.settle()
        return self._settling.order()

    def _findings(self, results: dict[str, Any]) -> dict[str, Any]:
        record = self._settling.record(results["spent"], results["list_cost"])
        return {"settle": record, "saved": record["saved"]}

    def _take(self, score: Score) -> bool:
        over = self._settling.take(score)
        if over and STOPPED not in self.warnings:
            self.warnings.append(STOPPED)
        return over


def told(record: Mapping[str, Any]) -> str:
    """Put the verdict into a line."""
    (pair,) = record["pairs"]
    names = pair.get("generators") or [pair["a"], pair["b"]]
    verdict, share = pair["verdict"], f"{record['images']:,} of {record['of_images']:,} images judged"
    saved = f", about ${record['saved']:.4f} saved" if record["saved"] else ""
    ends = f", {names[0]} - {names[1]} {_span(pair['interval'])}" if pair["interval"] else ""
    if verdict == OPEN:
        left = f"; still in: {', '.join(pair['left'])}" if "left" in pair else ""
        return f"not settled below ${record['spent']:.4f}: {' or '.join(names)}{ends}{left} ({share})"
    if verdict == EQUIVALENT:
        equal = pair.get("left") or names
        return f"settled: {' and '.join(equal)} are equivalent within {record['margin']:g}{ends} ({share}{saved})"
    return f"settled: {verdict} is the better one{ends} ({share}{saved})"


def _span(interval: Sequence[float]) -> str:
    return f"between {interval[0]:.4g} and {interval[1]:.4g}"
