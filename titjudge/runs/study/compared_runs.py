"""Runs that are compared with people and with each other: their images, scores, metrics and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from titjudge.core import registry
from titjudge.core.errors import ConfigError, DataError, nearest
from titjudge.core.numbers import known_sum
from titjudge.core.run_records import Results
from titjudge.core.types import InvalidItem, Item, Pair
from titjudge.core.words import truncated
from titjudge.data.opinions import spread
from titjudge.probes.canary import refuse_drift
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.results import not_applicable
from titjudge.runs.study.human_files import read_human_scores
from titjudge.stats.generators.paired_differences import (
    Difference,
    paired_differences,
    prompt_differences,
    run_differences,
)
from titjudge.stats.pairwise_accuracy import values_by_metric
from titjudge.stats.people.agreement import agreement
from titjudge.stats.people.score_correlation import ALL, SCORE, ScoreCorrelation, judged_parts, score_correlations
from titjudge.stats.verdict.judged_runs import joined, stored_run
from titjudge.suites.pair_files import read_pairs


class ComparedRuns:
    """One or several runs, read at once.

    With several runs the name of a run stands behind that of each metric.

    Args:
        paths: Run folders.
        allow_drift: Compare them even if a model has changed between them.

    Attributes:
        items: Every image by its id.
        scores: The scores of all runs.
        drift: Notes about models that have changed.
        notes: How the votes and ratings of people were read.
        mixed: Notes about runs that several servers or versions have answered.

    Raises:
        UserError: A folder is no run, or a model has changed.
    """

    def __init__(self, paths: Sequence[Path], *, allow_drift: bool = False) -> None:
        self._folders = [RunFolder(path) for path in paths]
        manifests = {str(path): folder.manifest() for path, folder in zip(paths, self._folders, strict=True)}
        self.drift = refuse_drift(manifests, allow=allow_drift)
        self.mixed = [f"{path}: {line}" for path, manifest in manifests.items() for line in manifest.mixed]
        self.notes: list[str] = []
        self._runs = [stored_run(run, name) for run, name in zip(self._folders, _labels(paths), strict=True)]
        self.items = {id: item for run in self._runs for id, item in run.items.items()}
        self.scores = [
            score if len(paths) == 1 else replace(score, metric=f"{score.metric} ({run.name})")
            for run in self._runs
            for score in run.scores.values()
        ]
        names = sorted({score.metric for score in self.scores})
        self._metrics = {name: registry.load("metrics", name.partition(" ")[0]) for name in names}

    def pairs(self, file: Path | None) -> Sequence[Pair]:
        """Return the human pairs of a file, or those of the first run."""
        if file is None:
            return self._runs[0].results.human_pairs
        notes: dict[str, None] = {}
        pairs = read_pairs(file, items=self._folders[0].judged, notes=notes)
        self.notes += notes
        return pairs

    def agreement(self, pairs: Sequence[Pair], *, strengths: bool = False) -> Results:
        """Compute the agreement of all metrics with human pairs; see `stats.people.agreement`."""
        listed = {run.name: {item.id: item for item in run.listed if _is_image(item)} for run in self._runs}
        images = {id: item for by_id in listed.values() for id, item in by_id.items()}
        metrics = {registry.base_metric(name): metric for name, metric in self._metrics.items()}
        excluded = not_applicable(list(images.values()), self.scores, metrics)
        if len(listed) > 1:  # an image of another run is not missing
            for run in self._runs:
                others = images.keys() - listed[run.name].keys()
                for name in {f"{metric} ({run.name})" for _, metric in run.scores} if others else ():
                    excluded[name] = excluded.get(name, frozenset()) | others
        return agreement(
            list(images.values()),
            self.scores,
            pairs,
            negate=self._lower,
            ranges={name: metric.range for name, metric in self._metrics.items()},
            not_applicable=excluded,
            strengths=strengths,
        )

    def correlations(self, file: Path, by: str | None) -> tuple[list[ScoreCorrelation], dict[str, str]]:
        """Correlate each metric with the human scores of a file, and its pillars and claims if people have scored these.

        Also return how many people have rated each image, by part.

        Args:
            file: Human scores.
            by: A column of the data; generators are also compared over the images of each of its values.

        Raises:
            DataError: The scores are of other images.
            ConfigError: The data have no such column.
        """
        judged = judged_parts(self.items, self.scores)
        parts = sorted({part for parts in judged.values() for part in parts} - {SCORE})
        people = read_human_scores(file, parts, self.items)
        rated = {image: None for scores in people.means.values() for image in scores}
        if not rated.keys() & self.items.keys():
            names = [f"'{truncated(next(iter(named), ''), 80)}'" for named in (rated, self.items)]
            raise DataError(f"none of its images is in the runs: it has {names[0]}, the runs have {names[1]}", file)
        self.notes += people.notes
        if strangers := [image for image in rated if image not in self.items]:
            first = truncated(strangers[0], 80)
            self.notes.append(
                f"{file}: {len(strangers):,} of {len(rated):,} images are not in the runs, the first: {first}"
            )
        raters = {
            part: spread([count for image, count in counts.items() if image in self.items])
            for part, counts in people.raters.items()
        }
        return score_correlations(self.items, judged, people.means, _slices(self.items, by)), raters

    def differences(self, pairs: Sequence[Pair]) -> list[Difference]:
        """Compare the metrics by their accuracy on human pairs.

        Without pairs: by their mean scores, of each run with the first one, or within one run of its generators.
        """
        if pairs and len(self._metrics) > 1:
            values = values_by_metric(self.scores, negate=self._lower)
            return paired_differences(pairs, {name: values[name] for name in self._metrics})
        if len(self._runs) > 1 and set.intersection(*(set(run.items) for run in self._runs)):
            scores = {run.name: list(run.scores.values()) for run in self._runs}
            return run_differences(list(self.items.values()), scores, baseline=self._runs[0].name)
        return self._differences_by_prompt()

    def costs(self) -> dict[str, float | None]:
        """Sum what the runs have cost, and the list prices of the answers that they use, in USD."""
        results = [run.results for run in self._runs]
        listed = [result.list_cost for result in results]
        return {
            "spent": known_sum(sum(result.spent or 0.0 for result in results), sum(r.unpriced for r in results)),
            "list_cost": known_sum(sum(cost or 0.0 for cost in listed), listed.count(None)),
        }

    @property
    def _lower(self) -> set[str]:
        return {name for name, metric in self._metrics.items() if not metric.higher_is_better}

    def _differences_by_prompt(self) -> list[Difference]:
        """Compare mean scores prompt by prompt, with those of the first run, or of the first generator of one run."""
        frame, alone = joined(self._runs), len(self._runs) == 1
        named = {item.generator for item in self.items.values()} - {""}
        differences: list[Difference] = []
        for metric in frame.metrics:
            sides: dict[str, dict[str, list[float | None]]] = {
                name: {} for name in (sorted(named) if alone else frame.items)
            }
            for entry in frame.entries(metric):
                side = sides.get(entry.generator if alone else entry.run)
                if side is not None:
                    side.setdefault(entry.prompt, []).append(entry.value)
            values = {name: prompts for name, prompts in sides.items() if prompts}
            if len(values) > 1:
                compared = prompt_differences(values, baseline=next(iter(values)))
                differences += [replace(pair, what=f"{pair.what}, {metric}") for pair in compared]
        return differences


def _labels(paths: Sequence[Path]) -> list[str]:
    """Name runs by their folders, or by their paths where two folders have one name."""
    short = [path.resolve().name for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def _is_image(item: Item | InvalidItem) -> bool:
    return isinstance(item, Item) or item.is_image


def _slices(items: Mapping[str, Item], by: str | None) -> dict[str, list[str]]:
    """List the images of each value of a column of the data, after all images.

    Raises:
        ConfigError: The data have no such column.
    """
    slices = {ALL: list(items)}
    if by is not None:
        for image, item in items.items():
            if item.meta.get(by) not in (None, ""):
                slices.setdefault(str(item.meta[by]), []).append(image)
        if len(slices) == 1:
            columns = sorted({key for item in items.values() for key in item.meta})
            raise ConfigError(
                f"--by {by}: the data have no such column.{nearest(by, columns)} They have: {', '.join(columns) or 'none'}"
            )
    return slices
