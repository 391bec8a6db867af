"""Runs as statistics read them: records, items and scores; and their scores joined to one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from titjudge.core.errors import ConfigError
from titjudge.core.files import JsonlReader
from titjudge.core.registry import BESIDE, base_metric, first_metric
from titjudge.core.run_records import Manifest, MetricRecord, MetricResult, Results, StoredRun
from titjudge.core.serialization import lean_item, lean_score, score_from
from titjudge.core.types import InvalidItem, Item, Json, Score
from titjudge.stats.generators.comparison_tables import Scale
from titjudge.stats.people.agreement import agreement
from titjudge.stats.scores.frame import Frame, images_of
from titjudge.stats.scores.per_prompt import PerPrompt
from titjudge.stats.scores.scores_table import ScoreTable
from titjudge.stats.scores.withheld import counted


class RunScores(dict[tuple[str, str], Score]):
    """The scores of a run by item and metric."""

    def whole(self, item: str, metric: str) -> Score:
        """Return a score with its reason, replies and parts, as far as they are known."""
        return self[item, metric]


class StoredScores(RunScores):
    """The scores of a run folder, as far as `read` keeps them of the located records; `whole` has all of one."""

    def __init__(self, folder: Path, records: Iterable[tuple[int, Json]], read: Callable[[Json], Score]) -> None:
        super().__init__()
        self._offsets: dict[tuple[str, str], int] = {}
        for offset, record in records:
            score = read(record)
            key = score.item_id, score.metric
            self[key], self._offsets[key] = score, offset
        self._reader = JsonlReader(folder / "scores.jsonl") if self else None

    def whole(self, item: str, metric: str) -> Score:
        """Read a score with its reason, replies and parts."""
        offset, lean = self._offsets.get((item, metric)), self[item, metric]
        if self._reader is None or offset is None:
            return lean
        score = score_from(self._reader.read_at(offset))
        if lean.value == score.value:
            return score
        return replace(score, value=lean.value, status=lean.status, reason=lean.reason or score.reason)


@dataclass(slots=True)
class JudgedRun:
    """A run as statistics read it.

    Attributes:
        name: Tells it from the others.
        manifest, results: Its records.
        listed: Its items, those included that cannot be judged.
        scores: Its scores.
        items: Its valid items by their ids.
    """

    name: str
    manifest: Manifest
    results: Results
    listed: Sequence[Item | InvalidItem]
    scores: RunScores
    items: Mapping[str, Item] = field(init=False)

    def __post_init__(self) -> None:
        self.items = {item.id: item for item in self.listed if isinstance(item, Item)}

    def count(self, items: Callable[[], Iterable[Item | InvalidItem]]) -> None:
        """Remove the values that no table counts (`withheld`), and sort the scores by metric: the answers came in any order.

        `items` reads the whole items again, if a score is in doubt.
        """
        kept = counted(self.scores.values(), lambda: (item for item in items() if isinstance(item, Item)))
        turns = {name: place for place, name in enumerate(self.manifest.metrics)}
        turn = {name: turns.get(base_metric(name), len(turns)) for name in {name for _, name in kept}}
        ordered = sorted(kept.items(), key=lambda entry: turn[entry[0][1]])
        self.scores.clear()
        self.scores.update(ordered)

    @property
    def metrics(self) -> list[str]:
        """The metrics that rank images and have results, in the order of the run; without the single judges of a panel."""
        names = dict.fromkeys([*self.manifest.metrics, *self.results.metrics])
        ranked = [name for name in names if base_metric(name) == name and name in self.results.metrics]
        return [name for name in ranked if name not in BESIDE and self.metric(name).ranks_images]

    def scale(self, metric: str, *, of_prompts: bool = False) -> Scale:
        """Return how the scores of a metric are read; those `of_prompts` may be shares (`--per-prompt any`)."""
        result, record = self.metric(metric), self.manifest.metrics.get(metric, MetricRecord())
        shares = of_prompts and self.per_prompt.counts
        return Scale.from_records(record, result, [result.mean or 0.0], shares=shares)

    @property
    def per_prompt(self) -> PerPrompt:
        """How several images of a prompt become one score."""
        return PerPrompt.parse(self.results.per_prompt)

    @property
    def covered(self) -> tuple[str, int, int]:
        """The coverage of the run as `Results.covered`; if it has no score, of all its images."""
        return self.results.covered or (first_metric([*self.manifest.metrics, ""]), 0, len(images_of(self.listed)))

    def metric(self, metric: str) -> MetricResult:
        """Return the results of a metric; empty ones if there are none."""
        return self.results.metrics.get(metric, MetricResult())

    @property
    def list_cost(self) -> float | None:
        """List price in USD of all answers; None if it is unknown."""
        return self.manifest.list_cost if self.results.list_cost is None else self.results.list_cost


ReadItem = Callable[[Item | InvalidItem], Item | InvalidItem]


def readers(
    *, alone: bool = False, whole: bool = False, slim: bool = False
) -> tuple[ReadItem, Callable[[Json], Score]]:
    """Return how an item and the record of a score are read; the arguments are as in `stored_run`."""
    if whole:
        return lambda item: item, score_from
    return partial(lean_item, alone=alone, counted=slim), partial(lean_score, counted=slim)


def stored_run(run: StoredRun, name: str, results: Results | None = None, **reading: bool) -> JudgedRun:
    """Read a run folder, without what no statistic needs (`lean_item`, `StoredScores`).

    Args:
        run: The folder.
        name: Tells the run from the others.
        results: Its results; by default the results in the folder, or of its scores so far if the folder has none, or has
            only results of an earlier session.
        reading: `alone`: there is no other run; `whole`: read all of it, texts, replies and parts; `slim`: read only what
            tables count.

    Raises:
        DataError: The folder is not a run, or one of its files is damaged.
    """
    manifest, found = run.manifest(), run.results() if results is None else results
    read_item, read_score = readers(**reading)
    listed = {item.id: item for item in map(read_item, run.items())}
    judged = JudgedRun(
        name, manifest, found, list(listed.values()), StoredScores(run.path, run.located("scores.jsonl"), read_score)
    )
    judged.count(run.items)
    if results is None and (stale := _is_stale(found, manifest)):  # it was killed, or goes on
        judged.results = Results(pairs=found.pairs, reference=found.reference, per_prompt=found.per_prompt).joined(
            Results(spent=manifest.spent, unpriced=manifest.unpriced, list_cost=manifest.list_cost)
        )
    if results is None and (stale or not found.metrics):
        judged.results = judged.results.joined(_so_far(judged))
    return judged


def _is_stale(found: Results, manifest: Manifest) -> bool:
    """Return True if there is no results.json, or it is of an earlier session than the scores."""
    older = manifest.status == "running" or found.status not in ("", manifest.status)
    return older or not found.model_fields_set


def _so_far(run: JudgedRun) -> Results:
    """Compute the content of a run's results.json from its scores."""
    records = {name: run.manifest.metrics.get(base_metric(name), MetricRecord()) for _, name in run.scores}
    return agreement(
        images_of(run.listed),
        list(run.scores.values()),
        run.results.human_pairs,
        negate={name for name, record in records.items() if record.higher_is_better is False},
        ranges={name: record.limits for name, record in records.items() if record.limits},
        per_prompt=run.per_prompt,
    )


def joined(runs: Sequence[JudgedRun]) -> Frame:
    """Join the scores of runs to one table."""
    return Frame(
        {run.name: run.listed for run in runs},
        {run.name: run.scores for run in runs},
        {run.name: run.manifest.metrics for run in runs},
        {run.name: run.manifest.lacking for run in runs},
        [pair for run in runs for pair in run.results.human_pairs],
    )


def whole_frame(run: StoredRun) -> Frame:
    """Read the scores of one run folder with all that is stored of them.

    Raises:
        DataError: The folder is not a run, or one of its files is damaged.
    """
    return joined([stored_run(run, str(run.path), whole=True)])


def joined_table(runs: Sequence[JudgedRun], metric: str, *, sliced: bool = True) -> ScoreTable | None:
    """Join the scores of a metric by prompt and generator.

    Args:
        runs: The runs.
        metric: The metric.
        sliced: Whether to slice by categories of prompts and parts of scores (`Frame.table`).

    Returns:
        None without any score, or if the rule for several images of a prompt does not fit the metric.
    """
    scale, costs = runs[0].scale(metric), [run.list_cost or 0.0 for run in runs]
    alone = all(len(run.manifest.metrics) == 1 for run in runs)
    try:
        table = joined(runs).table(
            metric,
            None if sliced else (),
            bounds=scale.range,
            higher_is_better=scale.higher,
            per_prompt=runs[0].per_prompt,
            cost=sum(costs) if alone else None,
        )
    except ConfigError:  # the rule needs a score from which on an image is right
        return None
    return table if table.images.any() else None
