"""Runs that are compared with people and with each other: their images, scores, metrics and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from titjudge.core import registry
from titjudge.core.errors import ConfigError, DataError, UserError, unknown
from titjudge.core.numbers import known_sum
from titjudge.core.paths import distinct_paths
from titjudge.core.run_records import Results
from titjudge.core.types import Item, Note, Pair
from titjudge.core.words import truncated
from titjudge.data.opinions import spread
from titjudge.probes.canary import refuse_drift
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.human_files import read_human_scores
from titjudge.runs.study.human_study import choose_metric
from titjudge.stats.comparable_runs import judged_differently
from titjudge.stats.generators.generator_differences import compared_pairs
from titjudge.stats.generators.paired_differences import (
    Difference,
    paired_differences,
    prompt_differences,
    run_differences,
)
from titjudge.stats.pairwise_accuracy import values_by_metric
from titjudge.stats.people.agreement import agreement
from titjudge.stats.people.score_correlation import ALL, SCORE, ScoreCorrelation, judged_parts, score_correlations
from titjudge.stats.scores.families import families, in_families
from titjudge.stats.scores.frame import not_applicable
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt
from titjudge.stats.scores.scores_table import ScoreTable, score_table
from titjudge.stats.verdict.judged_runs import JudgedRun, joined, stored_run
from titjudge.suites.base import Notes
from titjudge.suites.pair_files import read_pairs


def read_runs(paths: Sequence[Path], *, allow_drift: bool = False) -> tuple[list[JudgedRun], list[Note]]:
    """Read run folders, each named by its path, and note models that have changed between them.

    Raises:
        DataError: A folder is not a run, or is given twice.
        UserError: A model has changed, and `allow_drift` is False.
    """
    runs = [stored_run(RunFolder(path), str(path)) for path in distinct_paths(paths)]
    return runs, refuse_drift({run.name: run.manifest for run in runs}, allow=allow_drift)


def run_scores(
    paths: Sequence[Path],
    metric: str | None = None,
    by: Sequence[str] = (),
    *,
    allow_drift: bool = False,
    per_prompt: PerPrompt = MEAN,
) -> ScoreTable:
    """Join the scores of runs to one table of generators and prompts.

    A run that names no generator is one itself; a generator of several runs gets the name of the run. Prompts
    are joined by their ids if these mean the same texts, otherwise by their texts. The scores of a metric of which less is
    better are negated.

    Args:
        paths: The run folders.
        metric: Its name; None for the first (`choose_metric`), which a note names.
        by: Categories to slice by: keys of the items' meta (`type`, `theme`, ...), `prompt_length`, `language`, `element`
            (claims by kind), `pillar`, `sub_capability`, `facet`.
        allow_drift: Join runs whose models have drifted or differ, with a note.
        per_prompt: How several images of a prompt become one score.

    Raises:
        UserError: Another judge, protocol or version of the metric, unless `allow_drift`.
        ConfigError: No such metric or category.
        DataError: A folder is not a run.
    """
    runs, notes = read_runs(paths, allow_drift=allow_drift)
    manifests = {run.name: run.manifest for run in runs}
    notes += [
        Note(
            "run_settled",
            f"{name} stopped when a question was settled: its intervals do not allow for that (results.json has one that does)",
        )
        for name, manifest in manifests.items()
        if manifest.status == "settled"
    ]
    frame = joined(runs)
    notes += frame.notes()
    chosen = choose_metric(frame.metrics, metric, paths[0], notes, frame.unscored)
    reasons = judged_differently(manifests, chosen)
    if reasons and not allow_drift:
        raise UserError(
            f"these runs are not comparable: {'; '.join(reasons)}. Add --allow-drift to compare them anyway"
        )
    notes += (Note("judged_differently", f"compared although {reason}") for reason in reasons)
    plugin = registry.metric_of(chosen)
    table = frame.table(
        chosen,
        by,
        answers=True,
        bounds=plugin.range,
        higher_is_better=plugin.higher_is_better,
        per_prompt=per_prompt,
        cost=sum(RunFolder(path).money().list_cost for path in paths),
    )
    if not table.images.any():
        raise DataError(f"no image has a score of {chosen}. Choose another --metric", paths[0])
    return replace(table, notes=(*notes, *table.notes))


class ComparedRuns:
    """One or several runs, read at once.

    With several runs the name of a run follows the name of each metric.

    Args:
        paths: Run folders.
        allow_drift: Compare them even if a model has changed between them.

    Attributes:
        items: Every image by its id.
        families: The families of their prompts.
        scores: The scores of all runs.
        drift: Notes about models that have changed.
        notes: How the votes and ratings of people were read.
        mixed: Notes about runs that several servers or versions have answered.

    Raises:
        UserError: A folder is not a run, or a model has changed.
    """

    def __init__(self, paths: Sequence[Path], *, allow_drift: bool = False) -> None:
        self._runs, self.drift = read_runs(paths, allow_drift=allow_drift)
        self._frame = joined(self._runs)
        self.mixed = [Note(line.id, f"{run.name}: {line}") for run in self._runs for line in run.manifest.mixed]
        self.notes = self._frame.notes()
        self.items = {id: item for run in self._runs for id, item in run.items.items()}
        self.scores = [
            replace(score, metric=self._name(score.metric, run)) for run in self._runs for score in run.scores.values()
        ]
        names = sorted({score.metric for score in self.scores})
        self.families = families(self.items.values(), pairs=self._frame.pairs)
        self._metrics = {name: registry.load("metrics", name.partition(" ")[0]) for name in names}

    def _name(self, metric: str, run: JudgedRun) -> str:
        """Name a metric of a run."""
        return metric if len(self._runs) == 1 else f"{metric} ({self._frame.run_names[run.name]})"

    def pairs(self, file: Path | None) -> Sequence[Pair]:
        """Return the human pairs of a file, or the pairs of the first run."""
        notes = Notes()
        pairs = self._runs[0].results.human_pairs
        if file is not None:
            pairs = read_pairs(file, items=self._runs[0].items.values, notes=notes)
        self.notes += notes
        self._frame.pairs = [*pairs, *self._frame.pairs]
        self.families = families(self.items.values(), pairs=self._frame.pairs)
        return in_families(pairs, self.families)

    def agreement(self, pairs: Sequence[Pair], *, strengths: bool = False) -> Results:
        """Compute the agreement of all metrics with human pairs; see `stats.people.agreement`."""
        listed = self._frame.images
        images = {id: item for by_id in listed.values() for id, item in by_id.items()}
        metrics = {registry.base_metric(name): metric for name, metric in self._metrics.items()}
        excluded = not_applicable(images.values(), self.scores, metrics)
        if len(listed) > 1:  # an image of another run is not missing
            for run in self._runs:
                others = images.keys() - listed[run.name].keys()
                for name in {self._name(metric, run) for _, metric in run.scores} if others else ():
                    excluded[name] = excluded.get(name, frozenset()) | others
        return agreement(
            list(images.values()),
            self.scores,
            pairs,
            negate=self._lower,
            ranges={name: metric.range for name, metric in self._metrics.items()},
            not_applicable=excluded,
            strengths=strengths,
            settled=any(run.manifest.status == "settled" for run in self._runs),
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
            raise DataError(
                f"none of its images is in the runs: it has {names[0]}, the runs have {names[1]}. Correct the names",
                file,
            )
        self.notes += people.notes
        if strangers := [image for image in rated if image not in self.items]:
            first = truncated(strangers[0], 80)
            line = f"{file}: {len(strangers):,} of {len(rated):,} images are not in the runs, the first: {first}"
            self.notes.append(Note("rated_images_unknown", line))
        raters = {
            part: spread([count for image, count in counts.items() if image in self.items])
            for part, counts in people.raters.items()
        }
        slices = _slices(self.items, by)
        return score_correlations(self.items, judged, people.means, slices, self.families), raters

    def differences(self, pairs: Sequence[Pair]) -> list[Difference]:
        """Compare the metrics by their accuracy on human pairs.

        Without pairs: by their mean scores, of each run with the first one, or within one run of its generators.
        """
        if pairs and len(self._metrics) > 1:
            values = values_by_metric(self.scores, negate=self._lower)
            return paired_differences(pairs, {name: values[name] for name in self._metrics})
        if len(self._runs) > 1 and set.intersection(*(set(run.items) for run in self._runs)):
            scores = {self._frame.run_names[run.name]: list(run.scores.values()) for run in self._runs}
            ends = {name.partition(" (")[0]: metric.range for name, metric in self._metrics.items()}
            return run_differences(list(self.items.values()), scores, ends, self.families)
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
        """Compare mean scores prompt by prompt: every two generators of one run, the better one first; or runs with the first."""
        frame, alone = self._frame, len(self._runs) == 1
        named = {item.generator for item in self.items.values()} - {""} if alone else {*frame.run_names.values()}
        families, differences = frame.families(), list[Difference]()
        for metric in frame.metrics:
            entries = frame.entries(metric)
            if not alone:
                entries = [entry._replace(generator=frame.run_names[entry.run]) for entry in entries]
            judged = [entry for entry in entries if entry.generator in named]
            plugin = registry.metric_of(metric)
            table = score_table(
                judged,
                metric=metric,
                source=frame.source,
                families=families,
                bounds=plugin.range,
                higher_is_better=plugin.higher_is_better,
            )
            if len(table.generators) < 2:
                continue
            couples = compared_pairs(table, None if alone else judged[0].generator)
            differences += prompt_differences(table, couples, every=alone)
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
            raise ConfigError(f"--by: {unknown('column', by, columns)}")
    return slices
