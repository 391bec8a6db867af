"""Runs with their items and scores, joined to one table of scores by prompt and generator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.registry import BESIDE, base_metric
from titjudge.core.run_records import Manifest, MetricRecord, MetricResult, Results
from titjudge.core.score_parts import LEVELS
from titjudge.core.types import Item, Score
from titjudge.stats.bootstrap import Floats
from titjudge.stats.generators.comparison_tables import COLUMNS, Scale, categories
from titjudge.stats.people.agreement import MARKS_JUDGE
from titjudge.stats.scores.joined_runs import Items, prompt_keys, run_labels
from titjudge.stats.scores.part_scores import part_scores
from titjudge.stats.scores.per_prompt import PerPrompt
from titjudge.stats.scores.population import FEWEST
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table


class RunScores(Protocol):
    """The scores of a run by item and metric, which may lack what no statistic needs; `whole` reads one completely."""

    def items(self) -> Iterable[tuple[tuple[str, str], Score]]: ...

    def whole(self, item: str, metric: str) -> Score: ...


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run as statistics read it.

    Attributes:
        name: Tells it from the others.
        manifest, results: Its records.
        items: Its valid items by their ids.
        scores: Its scores.
    """

    name: str
    manifest: Manifest
    results: Results
    items: Mapping[str, Item]
    scores: RunScores

    @property
    def metrics(self) -> list[str]:
        """The metrics that rank images and have results, in the order of the run; without the single judges of a panel."""
        names = dict.fromkeys([*self.manifest.metrics, *self.results.metrics])
        return [name for name in names if base_metric(name) == name and self._ranks(name)]

    def scale(self, metric: str) -> Scale:
        """Return how the scores of a metric are read."""
        result = self._result(metric)
        return Scale.from_records(self.manifest.metrics.get(metric, MetricRecord()), result, [result.mean or 0.0])

    def prompt_scale(self, metric: str) -> Scale:
        """Return how the scores of prompts are read, which may be shares (`--per-prompt any`)."""
        result, record = self._result(metric), self.manifest.metrics.get(metric, MetricRecord())
        return Scale.from_records(record, result, [result.mean or 0.0], shares=self.per_prompt.counts)

    @property
    def per_prompt(self) -> PerPrompt:
        """How several images of a prompt become one score."""
        return PerPrompt.parse(self.results.per_prompt)

    def _ranks(self, metric: str) -> bool:
        if metric not in self.results.metrics or metric in BESIDE:
            return False
        return MARKS_JUDGE not in self._result(metric).reasons.values()

    def _result(self, metric: str) -> MetricResult:
        return self.results.metrics.get(metric, MetricResult())

    @property
    def cost(self) -> float | None:
        """List price in USD of all answers; None where nobody knows it."""
        return self.manifest.list_cost if self.results.list_cost is None else self.results.list_cost


def items_of(runs: Sequence[JudgedRun]) -> Items:
    """Return the items of runs, by run and item id."""
    return {run.name: run.items for run in runs}


def joined_table(runs: Sequence[JudgedRun], metric: str, *, sliced: bool = True) -> ScoreTable | None:
    """Join the scores of a metric by prompt and generator, with the categories of prompts and parts of scores as slices.

    A run that names no generator is one itself. Slices hold only values that six prompts or more have.

    Args:
        runs: The runs.
        metric: The metric.
        sliced: Whether to make slices.

    Returns:
        None without any score, or where the rule for several images of a prompt does not fit the metric.
    """
    label, key = run_labels(items_of(runs)), prompt_keys(items_of(runs))
    entries: list[Entry] = []
    parts: dict[str, list[tuple[str, str, str, float]]] = {}
    for run in runs:
        cells = {id: (key(item), label(run.name, item)) for id, item in run.items.items()}
        scores = [score for (id, name), score in run.scores.items() if name == metric and id in cells]
        entries += [Entry(*cells[score.item_id], f"{run.name}/{score.item_id}", score.value) for score in scores]
        for column, by_item in _parts(run.items, scores).items() if sliced else ():
            numbers = parts.setdefault(column, [])
            numbers += [
                (*cells[id], value, number) for id, values in by_item.items() for value, number in values.items()
            ]
    if not any(entry.value is not None for entry in entries):
        return None
    named = [_keyed(item, key(item)) for run in runs for item in run.items.values()] if sliced else []
    scale, costs = runs[0].scale(metric), [run.cost for run in runs]
    alone = all(len(run.manifest.metrics) == 1 for run in runs)
    try:
        table = score_table(
            entries, metric=metric, source=", ".join(run.name for run in runs), bounds=scale.range,
            higher_is_better=scale.higher, categories=categories(named), parts=parts,
            cost=(sum(cost or 0.0 for cost in costs) / len(entries) or None) if alone else None,
            per_prompt=runs[0].per_prompt,
        )  # fmt: skip
    except ConfigError:  # the rule needs a score from which on an image is right
        return None
    return replace(table, slices=_large_slices(table, [*parts, *table.slices]))


def _keyed(item: Item, prompt: str) -> Item:
    """Return an item that names its prompt as the table does."""
    return item if item.prompt_id == prompt else replace(item, prompt_id=prompt)


def _parts(items: Mapping[str, Item], scores: Sequence[Score]) -> dict[str, dict[str, Mapping[str, float]]]:
    """Read the parts of scores; without claims if one is malformed."""
    try:
        return part_scores(items, scores)
    except DataError:
        return part_scores(items, scores, LEVELS)


def _large_slices(table: ScoreTable, columns: Iterable[str]) -> dict[str, dict[str, Floats]]:
    """Return the first columns of slices with several values that enough prompts have."""
    enough = {
        column: {
            value: means
            for value, means in table.slices[column].items()
            if np.isfinite(means).any(axis=1).sum() >= FEWEST
        }
        for column in columns
    }
    return dict([(column, values) for column, values in enough.items() if len(values) > 1][:COLUMNS])
