"""Runs that stop as soon as one generator is known to be better; until then prompts are judged in random order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError, must_be, unknown
from titjudge.core.grouping import random_place
from titjudge.core.names import split_names
from titjudge.core.registry import first_metric
from titjudge.core.run_records import Results, SettledPair, SettleRecord
from titjudge.core.types import InvalidItem, Item, Note, Pair, Score, prompt_of
from titjudge.metrics import Metric
from titjudge.runs.loop import RunLoop
from titjudge.runs.open_run import OpenRun
from titjudge.runs.session import Session, pairs_among
from titjudge.stats.generators.sequential import OPEN, Race
from titjudge.stats.scores.families import families, units
from titjudge.stats.scores.scores_table import unequally_missing
from titjudge.stats.significance import ALPHA

STOPPED = Note(
    "question_settled",
    "this run stopped when its question was settled: only the interval of the verdict allows for that, and the other means, "
    "intervals and ranks favour the winner",
)


@dataclass(frozen=True, slots=True)
class SettlingQuestion:
    """Which generators to compare, and within which margin they count as equal.

    Attributes:
        names: The generators, two or more.
        margin: The largest difference of mean scores that counts as equal; None if none does.

    Raises:
        ConfigError: Fewer than two names, or one twice.
    """

    names: tuple[str, ...]
    margin: float | None = None

    def __post_init__(self) -> None:
        if len(self.names) < 2 or len(set(self.names)) < len(self.names) or not all(self.names):
            raise ConfigError(must_be("--settle", "two or more different generators", ",".join(self.names)))


class Settling:
    """Chooses the next image to judge, and passes the scores to a sequential test, until there is a verdict.

    The verdict depends on the data and the scores alone: prompts are ordered by a hash of their ids, and scores enter the
    test in that order, whatever order the answers come in. The prompts of a family enter together, as their mean. A
    prompt on which a generator has no score is left out; if one generator has clearly more missing scores than another,
    there is no verdict, as the excluded prompts could change it.

    Args:
        question: The generators and the margin.
        items: The items of the run. Items of other generators, and of prompts without an image by each generator, are not
            judged.
        metrics: The one metric, by name.
        pairs: Human pairs, which may name families of prompts.

    Attributes:
        names: The generators.

    Raises:
        ConfigError: There is not one metric.
        DataError: An unknown generator, or fewer than two common prompts.
    """

    def __init__(
        self,
        question: SettlingQuestion,
        items: Iterable[Item | InvalidItem],
        metrics: Mapping[str, Metric],
        pairs: Sequence[Pair] = (),
    ) -> None:
        if len(metrics) != 1:
            raise ConfigError(f"--settle requires one metric, not {', '.join(metrics)}. Choose one with --metric")
        ((self._metric, metric),) = metrics.items()
        self._sign = 1.0 if metric.higher_is_better else -1.0
        by_prompt: dict[str, dict[str, list[Item]]] = {}
        items = list(items)
        generators = {item.generator for item in items}
        question = SettlingQuestion(split_names(",".join(question.names), generators), question.margin)
        self.names = question.names
        for item in items:
            if isinstance(item, Item) and item.generator in question.names and metric.applies(item):
                by_prompt.setdefault(prompt_of(item), {}).setdefault(item.generator, []).append(item)
        for name in question.names:
            if name not in generators:
                raise DataError(f"--settle: {unknown('generator', name, sorted(generators - {''}))}")
        common = [prompt for prompt, images in by_prompt.items() if len(images) == len(question.names)]
        kept = (item for prompt in common for images in by_prompt[prompt].values() for item in images)
        declared = families(kept, pairs=pairs)
        self._family = {prompt: declared.get(prompt, prompt) for prompt in common}
        if len(set(self._family.values())) < 2:
            has = "1 prompt, or family of prompts," if common else "no prompt"
            raise DataError(
                f"--settle: {' and '.join(question.names)} have {has} in common, but a comparison requires two. Judge more prompts"
            )
        place = {name: random_place(name) for name in {*common, *self._family.values()}}
        self._prompts = sorted(common, key=lambda prompt: (place[self._family[prompt]], place[prompt]))
        self._together: list[list[float]] = []  # means of the prompts of a family that has not entered the test
        self._used = 0
        self._items = by_prompt
        self._scores: dict[str, float | None] = {}
        self._next = 0  # index of the first prompt that has not entered the test
        self._yielded: dict[str, int] = {}  # images of each prompt that has not entered the test
        self._missing: list[tuple[float, ...]] = []  # share of images without a score, of prompt and generator
        low, high = metric.range
        self._race = Race(question.names, high - low if math.isfinite(high - low) else None, question.margin)

    def order(self) -> Iterator[Item]:
        """Yield the images to judge next, while there is no verdict."""
        for position, prompt in enumerate(self._prompts):
            for name, items in self._items[prompt].items():
                for item in items:
                    if self.over:
                        return
                    if name in self._race.unbeaten:
                        if position >= self._next:
                            self._yielded[prompt] = self._yielded.get(prompt, 0) + 1
                        yield item

    def ahead(self) -> int:
        """Count the images that `order` has yielded and whose prompts have not entered the test."""
        return sum(self._yielded.values())

    @property
    def over(self) -> bool:
        return self._race.over

    def take(self, score: Score) -> bool:
        """Take a score; returns whether there is a verdict now."""
        if score.metric != self._metric:  # the score of a single judge of a panel
            return self.over
        self._scores[score.item_id] = None if score.value is None else self._sign * score.value
        while not self.over and self._next < len(self._prompts):
            prompt = self._prompts[self._next]
            items = {name: self._items[prompt][name] for name in self._race.unbeaten}
            if any(item.id not in self._scores for images in items.values() for item in images):
                break
            self._next += 1
            self._yielded.pop(prompt, None)
            self._take_prompt([[self._scores[item.id] for item in items.get(name, ())] for name in self._race.names])
            following = self._prompts[self._next : self._next + 1]
            if self._together and (not following or self._family[following[0]] != self._family[prompt]):
                self._race.add(np.mean(self._together, axis=0))
                self._used += len(self._together)
                self._together = []
        return self.over

    def _take_prompt(self, scores: Sequence[Sequence[float | None]]) -> None:
        """Keep the means of a prompt's images by each generator for its family; none of one that dropped out."""
        scored = [[value for value in values if value is not None] for values in scores]
        self._missing.append(
            tuple(1 - len(k) / len(all_) if all_ else math.nan for k, all_ in zip(scored, scores, strict=True))
        )
        means = [sum(values) / len(values) if values else math.nan for values in scored]
        if not any(
            math.isnan(mean) for name, mean in zip(self._race.names, means, strict=True) if name in self._race.unbeaten
        ):
            self._together.append(means)

    def _unequal(self) -> str:
        """Write which generators have no score on clearly more prompts than others that affect the verdict; empty if none."""
        names, missing = self._race.names, np.array(self._missing).reshape(-1, len(self._race.names))
        unit = units(self._prompts[: len(missing)], self._family)
        lines = [
            unequally_missing(names[k], names[j], missing[:, [k, j]], unit, ALPHA / (len(names) - 1))
            for k, j in combinations(range(len(names)), 2)
            if {names[k], names[j]} & set(self._race.unbeaten)
        ]
        return "; ".join(filter(None, lines))

    def record(self, spent: float | None, list_cost: float | None) -> SettleRecord:
        """Return the verdict for results.json; `saved` is the list price (USD) of the images that were not judged."""
        ids = [item.id for prompt in self._prompts for items in self._items[prompt].values() for item in items]
        judged = sum(id in self._scores for id in ids)
        price = (list_cost or 0.0) / len(self._scores) if self._scores else 0.0
        return SettleRecord(
            metric=self._metric,
            margin=self._race.margin,
            pairs=[self._generators().joined(self._verdict())],
            images=judged,
            of_images=len(ids),
            spent=spent,
            saved=round(price * (len(ids) - judged), 6) if self.over else 0.0,
        )

    def _generators(self) -> SettledPair:
        names = list(self._race.names)
        if len(names) > 2:
            return SettledPair(generators=names, left=self._race.unbeaten)
        return SettledPair(a=names[0], b=names[1])

    def _verdict(self) -> SettledPair:
        unequal = self._unequal()
        return SettledPair(
            verdict=OPEN if unequal else self._race.verdict,
            used=self._used,
            of=len(self._prompts),
            interval=self._race.interval(),
            method=self._race.method,
            without_score={name: sum(row[k] > 0 for row in self._missing) for k, name in enumerate(self._race.names)},
            reason=unequal,
        )


class SettlingSession(Session):
    """A run of the generators to compare, which ends with the verdict and can be resumed.

    Raises:
        ConfigError, DataError: As `SettlingQuestion` and `Settling`.
    """

    def __init__(self, config: RunConfig, question: SettlingQuestion) -> None:
        super().__init__(config)
        if len(self.metrics) > 1 and not config.metrics:  # one settles the question: no other is paid for
            chosen, others = first_metric(self.metrics), ", ".join(self.metrics)
            super().__init__(config.model_copy(update={"metrics": [chosen]}))
            line = f"only {chosen} decides, of {others}. Choose another with --metric"
            self.warnings.append(Note("one_metric_decides", line))
        self._settling = Settling(question, (item for item, _ in super().listed()), self.metrics, super().pairs())

    def listed(self) -> Iterator[tuple[Item | InvalidItem, int | None]]:
        return ((item, place) for item, place in super().listed() if item.generator in self._settling.names)

    def pairs(self) -> list[Pair]:
        """List the human pairs whose two images are in this run."""
        return pairs_among(super().pairs(), self.items())

    def _items_to_judge(self, run: OpenRun, loop: RunLoop) -> Iterator[Item]:
        loop.until(self._take, self._settling.ahead, self.config.limits.concurrency)
        for (item, metric), score in run.folder.scores(slim=True).items():
            if (item, metric) in run.done and self._take(score):
                loop.settle()
        return self._settling.order()

    def _findings(self, results: Results) -> Results:
        record = self._settling.record(results.spent, results.list_cost)
        return Results(settle=record, saved=record.saved)

    def _take(self, score: Score) -> bool:
        over = self._settling.take(score)
        if over and STOPPED not in self.warnings:
            self.warnings.append(STOPPED)
        return over
