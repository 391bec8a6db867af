"""Scores by prompt and generator: read from a table file, with the images of a prompt combined into one score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import NamedTuple

import numpy as np

from titjudge.core.declarations import Declaration, Exclusion, Population, Sizes, in_order
from titjudge.core.errors import DataError, unknown
from titjudge.core.types import Note
from titjudge.core.words import first_of
from titjudge.stats.bootstrap import Floats, Interval, Ints, codes, renumbered, table_sums, unit_sums
from titjudge.stats.equality import score_differences, with_ties
from titjudge.stats.intervals import doubt, mean_interval
from titjudge.stats.scores.families import ALONE, Families, counted_units, family_notes, units
from titjudge.stats.scores.part_scores import ELEMENT
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt, pooled
from titjudge.stats.scores.population import FEWEST, comparable, compared, shared_prompts
from titjudge.stats.significance import ALPHA, mcnemar_p

# Columns that distinguish the images of one prompt.
IMAGE_COLUMNS = tuple("image image_id image_index image_path item seed file filename".split())


class Entry(NamedTuple):
    """One score of one image of a run; `value` is None for a failure."""

    prompt: str
    generator: str
    image: str
    value: float | None
    run: str = ""


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Mean scores by prompt and generator.

    Attributes:
        means: Shape (prompts, generators), the images of a prompt combined by `per_prompt`; NaN if there is no score.
        images: Number of images of each mean, same shape.
        seed_variance: Variance between the images of one prompt, by generator; None if no prompt has two.
        judge_variance: Variance between the answers to one image, by generator; None if no image has two.
        samples: Average number of answers to an image.
        missing: Number of failures.
        lost: Number of images of each mean without any score, shape of `means`.
        bounds: Ends of the scale of a score, if known.
        cost: USD for one judged image, if known.
        slices: Column -> value -> means over the prompts (or the questions) with this value, NaN elsewhere; shape of `means`.
        part_bounds: Ends of the scale of the columns of slices that have a different scale.
        texts: Hash of the text of each prompt, in this process, if texts are known.
        incomplete: The runs that have not judged all images, and their statuses; empty if all have.
        unit: Number of the family of each prompt (`families`), the unit of intervals and tests; None if each prompt is a unit.
        sign: -1 if less is better, so that the scores are negated: `printed` takes that back.
    """

    generators: tuple[str, ...]
    prompts: tuple[str, ...]
    means: Floats
    images: Ints
    lost: Ints
    seed_variance: tuple[float | None, ...]
    judge_variance: tuple[float | None, ...]
    samples: float
    metric: str
    source: str
    missing: int = 0
    bounds: Interval | None = None
    cost: float | None = None
    slices: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    per_prompt: PerPrompt = MEAN
    part_bounds: Mapping[str, Interval | None] = field(default_factory=dict)
    texts: Mapping[str, int] = field(default_factory=dict)
    incomplete: str = ""
    unit: Ints | None = None
    sign: float = 1.0

    @property
    def scored_generators(self) -> int:
        """Number of generators that have a score on some prompt."""
        return sum(map(bool, self.prompts_of))

    @property
    def prompts_of(self) -> list[int]:
        """Number of prompts with a score of each generator."""
        return list(map(int, np.isfinite(self.means).sum(axis=0)))

    @property
    def scored_prompts(self) -> int:
        """Number of prompts with a score of some generator."""
        return int(np.isfinite(self.means).any(axis=1).sum())

    def on_scale_of(self, column: str) -> ScoreTable:
        """Return the table with bounds and sign of the slices by `column`."""
        return replace(
            self, bounds=self.part_bounds.get(column, self.bounds), sign=1.0 if self.has_shares(column) else self.sign
        )

    def has_shares(self, column: str) -> bool:
        """Return True if the slices by `column` have shares of claims met, whatever the scale of the scores is."""
        return column == ELEMENT and column in self.part_bounds

    @property
    def direction(self) -> str:
        """The end of the title of a column with differences, for metrics of which less is better."""
        return "" if self.sign > 0 else ", negated: less is better"

    def printed(self, interval: Interval | None) -> Interval | None:
        """Return an interval, or the ends of the scale, on the scale of the metric."""
        return interval if interval is None or self.sign > 0 else (-interval[1], -interval[0])

    def column(self, generator: str) -> int:
        """Return the column of a generator.

        Raises:
            DataError: There is no such generator; names the file and the generators it has.
        """
        if generator not in self.generators:
            raise DataError(unknown("generator", generator, self.generators), self.source)
        return self.generators.index(generator)

    def only(self, generators: Sequence[str]) -> ScoreTable:
        """Return the table of some of the generators, in this order; the number of failures still counts all generators.

        Raises:
            DataError: There is no such generator.
        """
        columns = [self.column(name) for name in generators]
        return replace(
            self,
            generators=tuple(generators),
            means=self.means[:, columns],
            images=self.images[:, columns],
            seed_variance=tuple(self.seed_variance[k] for k in columns),
            judge_variance=tuple(self.judge_variance[k] for k in columns),
            lost=self.lost[:, columns],
            slices={
                column: {value: means[:, columns] for value, means in values.items()}
                for column, values in self.slices.items()
            },
        )

    def differences(self, a: int, b: int) -> Floats:
        """Compute the score of `a` minus the score of `b` on each prompt that both have; equal scores give exactly 0."""
        return self.unit_differences(a, b, by_prompt=True)[0]

    def furthest_behind(self, a: int, b: int, most: int) -> list[int]:
        """List the rows of the prompts on which `a` is furthest behind `b`; of equal gaps the higher scores, then the names decide."""
        gaps = with_ties(score_differences(self.means[:, a], self.means[:, b]))
        behind = np.flatnonzero(gaps < 0).tolist()
        return sorted(behind, key=lambda row: (gaps[row], -self.means[row, a], self.prompts[row]))[:most]

    def unit_differences(self, a: int, b: int, *, by_prompt: bool = False) -> tuple[Floats, Floats]:
        """Sum the differences of each unit, a prompt or a family of prompts, and count its prompts that both have."""
        found = score_differences(self.means[:, a], self.means[:, b])
        return unit_sums(found, None if by_prompt else self.unit)

    def _missing_shares(self, a: int, b: int) -> Floats:
        """Compute the share of a prompt's images that have no score, shape (prompts, 2); 1 if there is no image."""
        lost, images = self.lost[:, [a, b]], (self.lost + self.images)[:, [a, b]]
        shares: Floats = np.divide(lost, images, out=np.ones(images.shape), where=images > 0)
        return shares

    def unequally_missing(self, a: int, b: int) -> str:
        """Write that one of two generators (columns) has no score on clearly more prompts, or families; empty if neither.

        A score is missing if the image does not exist, was not judged, or could not be judged.
        """
        return unequally_missing(self.generators[a], self.generators[b], self._missing_shares(a, b), self.unit)

    def decides(self, leader: int, other: int) -> bool:
        """Return True if a difference in favour of `leader` decides: not if it has no score on clearly more prompts than `other`."""
        lacks = lacking(self._missing_shares(leader, other), self.unit)
        return lacks[0] <= lacks[1] or not self.unequally_missing(leader, other)

    def missing_notes(self, pairs: Iterable[tuple[int, int]]) -> list[Note]:
        """Note the pairs of generators of which one has clearly more missing scores than the other."""
        among = comparable(self.means, unit=self.unit)
        unequal = (self.unequally_missing(a, b) for a, b in pairs if a in among and b in among)
        return [Note("missing_may_decide", f"{line}: what is left out may decide") for line in unequal if line]

    def measured(self, by_prompt: Floats) -> tuple[float | None, Interval | None, str]:
        """Return mean and interval of one score per prompt (NaN: none) on the scale of the metric, and the `Doubt` about the level."""
        values = by_prompt[np.isfinite(by_prompt)]
        if not len(values):
            return None, None, ""
        interval, mean = mean_interval(by_prompt, self.bounds, self.unit), float(values.mean())
        sums, counts = unit_sums(by_prompt, self.unit)
        scores = None if self.per_prompt.counts else sums / counts
        why = doubt(interval, mean, len(sums), self.bounds, scores=scores)
        return self.sign * mean, self.printed(interval), why

    def over(
        self,
        declaration: Declaration,
        groups: Iterable[Sequence[str]] = (),
        *,
        sized: bool = True,
        doubts: Mapping[str, str] | None = None,
    ) -> Declaration:
        """Fill in the sizes of the populations, and the exclusions: generators that share too few prompts, missing scores.

        Args:
            declaration: Of a table of these scores.
            groups: Generators that are compared with each other only; their common prompts are then the population.
            sized: Whether the numbers are over all prompts, and not over the prompts of each category.
            doubts: The `Doubt` about the level of each row.
        """
        of = [[self.column(name) for name in group] for group in groups]
        columns = np.arange(len(self.generators))
        among = np.isin(columns, [k for group in of for k in group]) if of else compared(self.means, self.unit)
        scored = np.isfinite(self.means)
        tables = [self.means] if sized else [means for values in self.slices.values() for means in values.values()]
        inside = [np.isfinite(means[:, among]) for means in tables]
        shared = shared_prompts(self.means[:, among])
        of_two = shared[np.triu_indices(len(shared), 1)].tolist() if sized else []
        sizes: Sizes = {
            Population.SAME_PROMPTS: [int(rows.any(axis=1).sum()) for rows in inside],
            Population.COMMON_OF_ALL: [int(rows.all(axis=1).sum()) for rows in inside],
            Population.COMMON_OF_TWO: of_two if len(set(of_two)) == 1 else [],
        }
        if of:
            sizes = {declaration.population: [int(scored[:, group].all(axis=1).sum()) for group in of]}
        no_score, too_few = Exclusion.NO_SCORE, Exclusion.TOO_FEW
        if declaration.population == Population.SAME_PROMPTS:
            no_score, too_few = Exclusion.ESTIMATED, Exclusion.OWN_MEAN
        here = scored[:, among].sum(axis=1) > 0
        found = [(Exclusion.OF_NONE, "", scored.sum(axis=1) == 0)]
        for k, name in enumerate(self.generators):
            has_score = scored[:, k]
            if among[k]:
                some_lost = has_score & (self.lost[:, k] > 0)
                found += [(no_score, name, here & ~has_score), (Exclusion.OF_SOME_IMAGES, name, some_lost)]
            elif not of:
                found.append((too_few, name, has_score) if has_score.any() else (Exclusion.NO_SCORE, name, here))
        excluded: dict[str, dict[str, list[str]]] = {}
        for reason, name, rows in found:
            if rows.any():
                excluded.setdefault(reason, {})[name] = [*compress(self.prompts, rows)]
        return declaration.over(sizes, excluded, families=self.unit is not None, doubts=doubts)

    def common_scores(self, generators: Sequence[str], needed: str) -> Floats:
        """Return the scores of some generators on the prompts that all of them have: shape (prompts, generators).

        Prompts of one family are averaged to one row.

        Raises:
            DataError: There is no such generator, or fewer than two such prompts; `needed` ends the message.
        """
        scores = self.means[:, [self.column(name) for name in generators]]
        common = np.isfinite(scores).all(axis=1)
        scores, unit = scores[common], None if self.unit is None else self.unit[common]
        if unit is not None:
            columns = [unit_sums(column, unit) for column in scores.T]
            scores = np.stack([sums / counts for sums, counts in columns], axis=1)
        if len(scores) < 2:
            raise self.too_few(generators, len(scores), needed)
        return scores

    def too_few(self, generators: Sequence[str], prompts: int, needed: str) -> DataError:
        """Make the error that generators have fewer than two prompts in common; `needed` ends the message."""
        names, shared = "' and '".join(generators), counted_units(prompts, self.unit)
        few = f"'{names}' have {shared} with a score in common: {needed}"
        return DataError("; ".join((few, *self.only(generators).to_judge())), self.source)

    def to_judge(self, generators: Sequence[str] = ()) -> list[str]:
        """Return the prompts on which each generator, or each of some, has no score, though another one has."""
        scored, lines = np.isfinite(self.means), []
        for name in generators or self.generators:
            has_score = scored[:, self.column(name)]
            needs = in_order(compress(self.prompts, scored.any(axis=1) & ~has_score))
            lines += [f"judge {name} on {first_of(needs)}"] if needs else []
        return lines

    @property
    def width(self) -> float | None:
        """Width of the scale; None if anend is unknown."""
        return None if (spans := self.spans(declared=True)) is None else spans[1]

    @property
    def length(self) -> float:
        """Length of the scale; if an end is unknown, from the lowest score to the highest."""
        scored = self.means[np.isfinite(self.means)]
        return self.width or float(scored.max()) - float(scored.min())

    def spans(self, *, declared: bool = False) -> Interval | None:
        """Return the bounds of a difference of two scores; None if unknown.

        Args:
            declared: Use only `bounds`; if False, the range of the scores themselves replaces missing bounds.
        """
        scored = self.means[np.isfinite(self.means)]
        if self.bounds is None and (declared or not len(scored)):
            return None
        low, high = self.bounds or (float(scored.min()), float(scored.max()))
        return (low - high, high - low) if math.isfinite(high - low) and high > low else None


def score_table(
    entries: Sequence[Entry],
    *,
    metric: str,
    source: str,
    categories: Mapping[str, Mapping[str, str]] | None = None,
    bounds: Interval | None = None,
    cost: float | None = None,
    parts: Mapping[str, Iterable[tuple[str, str, str, float]]] | None = None,
    per_prompt: PerPrompt = MEAN,
    higher_is_better: bool = True,
    texts: Mapping[str, int] | None = None,
    families: Families = ALONE,
) -> ScoreTable:
    """Average the answers to each image, and combine the images of each prompt and generator into one score.

    If less is better, scores, bounds and parts are negated, so that more is better in every table; the share of claims
    met (`ELEMENT`) is not.

    Args:
        entries: One score of one image each.
        metric: Name of the metric.
        source: The origin of the scores, for messages.
        categories: Column -> prompt -> value: categories of prompts.
        bounds: Ends of the metric's scale, if it has them.
        cost: USD for one judged image, if known.
        parts: Column -> (prompt, generator, value, number) of each image: scores of parts, such as pillars.
        per_prompt: How the images of a prompt become one score.
        higher_is_better: Whether more is better.
        texts: Hash of the text of each prompt.
        families: Prompt -> its family.

    Raises:
        ConfigError: `per_prompt` needs a score from which on an image is right, and neither it nor the scale gives one.
    """
    rule = per_prompt.of_metric(bounds, higher_is_better, metric)
    sign = 1.0 if higher_is_better else -1.0
    if sign < 0:
        rule, bounds = rule.negated(), bounds and (-bounds[1], -bounds[0])
    generators = sorted({entry.generator for entry in entries})
    number = {name: k for k, name in enumerate(generators)}
    generator = np.array([number[entry.generator] for entry in entries], dtype=np.int64)
    prompt, prompts = codes(entry.prompt for entry in entries)
    shape = (len(prompts), len(generators))
    cell = prompt * len(generators) + generator
    name, _ = codes(entry.image for entry in entries)
    run, runs = codes(entry.run for entry in entries)
    image, first = renumbered(renumbered(name * math.prod(shape) + cell)[0] * len(runs) + run)
    value = sign * np.array([entry.value for entry in entries], dtype=np.float64)
    answered = np.isfinite(value)
    unit, answers = renumbered(image[answered])
    scored = image[answered][answers]
    score, judge_variance, samples = pooled(unit, value[answered], generator[answered], len(generators))
    scores = np.full(len(first), np.nan)
    scores[scored] = score
    cells = cell[first]
    cell, lost = cells[scored], cells[np.isnan(scores)]
    _, seed_variance, _ = pooled(renumbered(cell)[0], score, cell % max(1, len(generators)), len(generators))
    means = rule.combine(cells, scores, shape[0] * shape[1], max(1, shape[1])).reshape(shape)
    slices = {column: _means_by_category(means, prompts, category) for column, category in (categories or {}).items()}
    for column, numbers in (parts or {}).items():
        slices[column] = _means_by_part(numbers, prompts, generators, 1.0 if column == ELEMENT else sign)
    return ScoreTable(
        generators=tuple(generators),
        prompts=tuple(prompts),
        means=means,
        images=_counts(cell, shape),
        seed_variance=seed_variance,
        judge_variance=judge_variance,
        samples=samples,
        metric=metric,
        source=source,
        missing=int((~answered).sum()),
        bounds=(0.0, 1.0) if rule.counts else bounds,
        cost=cost,
        slices=slices,
        notes=(
            *family_notes([*compress(prompts, np.isfinite(means).sum(axis=1))], families),
            *_constant(metric, sign * score),
            *rule.warnings(_counts(cells, shape).ravel(), metric),
        ),
        per_prompt=rule,
        part_bounds={column: (0.0, 1.0) if column == ELEMENT else bounds for column in parts or ()},
        lost=_counts(lost, shape),
        texts=texts or {},
        unit=units(prompts, families),
        sign=1.0 if rule.counts else sign,
    )


def _constant(metric: str, scores: Floats) -> list[Note]:
    """Note that all images have the same score: the judge, or its input, gives no information."""
    if len(scores) < FEWEST or np.ptp(with_ties(scores)):
        return []
    line = (
        f"{metric}: all {len(scores)} images have the same score ({scores[0]:g}). Check that the images reach the judge, and try "
        "another judge: this one distinguishes nothing."
    )
    return [Note("all_scores_equal", line)]


def _counts(cell: Ints, shape: tuple[int, int]) -> Ints:
    """Count the images of each cell."""
    counts: Ints = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    return counts


def _means_by_category(means: Floats, prompts: Sequence[str], category: Mapping[str, str]) -> dict[str, Floats]:
    """Return for each value of a category the means of its prompts, NaN elsewhere."""
    values = np.array([category.get(prompt, "") for prompt in prompts], dtype=object)
    return {name: np.where((values == name)[:, None], means, np.nan) for name in sorted(set(values) - {""})}


def _means_by_part(
    numbers: Iterable[tuple[str, str, str, float]], prompts: Sequence[str], generators: Sequence[str], sign: float
) -> dict[str, Floats]:
    """Average for each value of a column the numbers of a prompt and generator, NaN if there are none.

    Args:
        numbers: Prompt, generator, value and number of each image.
        prompts: Names of the rows.
        generators: Names of the columns.
        sign: -1 to negate the numbers.
    """
    row, column = (dict(zip(names, range(len(names)), strict=True)) for names in (prompts, generators))
    by_value: dict[str, list[tuple[int, float]]] = {}
    for prompt, generator, value, number in numbers:
        by_value.setdefault(value, []).append((row[prompt] * len(generators) + column[generator], number))
    means = {}
    for value, members in sorted(by_value.items()):
        cells, values = zip(*members, strict=True)
        combined = MEAN.combine(np.array(cells), np.array(values), len(prompts) * len(generators))
        means[value] = sign * combined.reshape(len(prompts), len(generators))
    return means


def lacking(missing: Floats, unit: Ints | None = None) -> tuple[int, int]:
    """Count the prompts, or families, on which the first of two generators misses more of its scores, and the reverse.

    Args:
        missing: Share of a prompt's images that have no score, shape (prompts, 2); NaN if there is no image.
        unit: Number of the family of each prompt; None if each prompt is a unit.
    """
    both = np.isfinite(missing).all(axis=1)
    first, second = table_sums(missing[both], None if unit is None else unit[both]).T
    more = score_differences(first, second)
    return int((more > 0).sum()), int((more < 0).sum())


def unequally_missing(first: str, second: str, missing: Floats, unit: Ints | None = None, level: float = ALPHA) -> str:
    """Write that one of two generators has no score on clearly more prompts, or families (exact McNemar test); empty if neither.

    Args:
        first: Name of the first generator.
        second: Name of the second.
        missing: As for `lacking`.
        unit: Likewise.
        level: Significance level.
    """
    first_lacks, second_lacks = lacking(missing, unit)
    p = mcnemar_p(first_lacks, second_lacks)
    if p is None or p >= level:
        return ""
    (name, most), (other, least) = sorted([(first, first_lacks), (second, second_lacks)], key=lambda lacks: -lacks[1])
    units = "prompts" if unit is None else "families of prompts"
    return (
        f"{name} lacks a score on {most:,} {units} where {other} has one, and {other} on {least:,} where {name} has one"
    )
