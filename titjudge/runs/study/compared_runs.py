"""Runs that are compared with people and with each other: their images, scores, metrics and costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from titjudge.core import registry
from titjudge.core.errors import ConfigError, DataError, nearest
from titjudge.core.numbers import known_sum
from titjudge.core.run_records import Results
from titjudge.core.types import InvalidItem, Item, Pair, Score
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
from titjudge.stats.scores.joined_runs import prompt_keys
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
        self._results = [folder.results() for folder in self._folders]
        manifests = {str(path): folder.manifest() for path, folder in zip(paths, self._folders, strict=True)}
        self.drift = refuse_drift(manifests, allow=allow_drift)
        self.mixed = [f"{path}: {line}" for path, manifest in manifests.items() for line in manifest.mixed]
        self.notes: list[str] = []
        self._items: dict[str, dict[str, Item]] = {}
        self._listed: dict[str, dict[str, Item | InvalidItem]] = {}  # also the images that cannot be used
        self._scores: dict[str, list[Score]] = {}
        for label, folder in zip(_labels(paths), self._folders, strict=True):
            self._items[label], unusable, scores = folder.compared()
            self._listed[label] = {item.id: item for item in unusable} | self._items[label]
            self._scores[label] = list(scores.values())
        self.items = {id: item for listed in self._items.values() for id, item in listed.items()}
        self.scores = [
            score if len(paths) == 1 else replace(score, metric=f"{score.metric} ({label})")
            for label, scores in self._scores.items()
            for score in scores
        ]
        names = sorted({score.metric for score in self.scores})
        self._metrics = {name: registry.load("metrics", name.partition(" ")[0]) for name in names}

    def pairs(self, file: Path | None) -> Sequence[Pair]:
        """Return the human pairs of a file, or those of the first run."""
        if file is None:
            return self._results[0].human_pairs
        notes: dict[str, None] = {}
        pairs = read_pairs(file, items=self._folders[0].judged, notes=notes)
        self.notes += notes
        return pairs

    def agreement(self, pairs: Sequence[Pair], *, strengths: bool = False) -> Results:
        """Compute the agreement of all metrics with human pairs; see `stats.people.agreement`."""
        images = list({id: item for listed in self._listed.values() for id, item in listed.items()}.values())
        metrics = {registry.base_metric(name): metric for name, metric in self._metrics.items()}
        excluded = not_applicable(images, self.scores, metrics)
        if len(self._listed) > 1:  # an image of another run is not missing
            for label, scores in self._scores.items():
                others = {image.id for image in images} - self._listed[label].keys()
                for name in {f"{score.metric} ({label})" for score in scores} if others else ():
                    excluded[name] = excluded.get(name, frozenset()) | others
        return agreement(
            images,
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
        if len(self._items) == 1:
            return self._generator_differences()
        if set.intersection(*map(set, self._items.values())):
            return run_differences(list(self.items.values()), self._scores, baseline=next(iter(self._scores)))
        return _differences_by_prompt(self._items, self._scores, prompt_keys(self._items))

    def costs(self) -> dict[str, float | None]:
        """Sum what the runs have cost, and the list prices of the answers that they use, in USD."""
        spent = sum(results.spent or 0.0 for results in self._results)
        listed = [results.list_cost for results in self._results]
        return {
            "spent": known_sum(spent, sum(results.unpriced for results in self._results)),
            "list_cost": known_sum(sum(cost or 0.0 for cost in listed), listed.count(None)),
        }

    @property
    def _lower(self) -> set[str]:
        return {name for name, metric in self._metrics.items() if not metric.higher_is_better}

    def _generator_differences(self) -> list[Difference]:
        generators = sorted({item.generator for item in self.items.values()} - {""})
        sides = {name: [score for score in self.scores if score.generator == name] for name in generators}
        return _differences_by_prompt(dict.fromkeys(generators, self.items), sides, prompt_keys(self._items))


def _labels(paths: Sequence[Path]) -> list[str]:
    """Name runs by their folders, or by their paths where two folders have one name."""
    short = [path.resolve().name for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def _differences_by_prompt(
    items: Mapping[str, Mapping[str, Item]], sides: Mapping[str, Sequence[Score]], prompt_of: Callable[[Item], str]
) -> list[Difference]:
    """Compare the mean scores of each side with the first one, prompt by prompt.

    Args:
        items: Of each side, its images by their ids.
        sides: Of each side, its scores.
        prompt_of: Names the prompt of an image.
    """
    differences: list[Difference] = []
    for metric in dict.fromkeys(score.metric for scores in sides.values() for score in scores):
        values: dict[str, dict[str, list[float | None]]] = {}  # side -> prompt -> its scores
        for name, scores in sides.items():
            for score in scores:
                if score.metric == metric and score.item_id in items[name]:
                    prompt = prompt_of(items[name][score.item_id])
                    values.setdefault(name, {}).setdefault(prompt, []).append(score.value)
        if len(values) > 1:
            compared = prompt_differences(values, baseline=next(iter(values)))
            differences += [replace(pair, what=f"{pair.what}, {metric}") for pair in compared]
    return differences


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
