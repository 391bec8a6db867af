"""Tables of generators compared prompt by prompt: standings, categories, variance between generators, tiers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from titjudge.core import item_meta
from titjudge.core.declarations import ESTIMATED, NEEDS_BOTH, Declaration, Population, Unit
from titjudge.core.numbers import is_number
from titjudge.core.run_records import MetricRecord, MetricResult, RankedGenerator
from titjudge.core.tables import Cell, Table, p_value, plain, rank_range
from titjudge.core.types import Item, Note
from titjudge.core.words import score_digits
from titjudge.stats.bootstrap import Floats, unit_sums
from titjudge.stats.equality import score_differences
from titjudge.stats.generators.generator_differences import (
    GENERATORS,
    GeneratorDifference,
    generator_differences,
)
from titjudge.stats.generators.slices import (
    BEST,
    CEILING,
    MATURE,
    averages,
    between_variance,
    first_places,
    in_order,
    maturity,
    rank_ranges,
    tier_means,
    tiers,
)
from titjudge.stats.intervals import mean_interval, mean_intervals
from titjudge.stats.scores.population import FEWEST, adjusted_scores, comparable, scores_of_all
from titjudge.stats.scores.scores_table import ScoreTable
from titjudge.stats.significance import ALPHA

STANDINGS = Declaration(
    "standings",
    "mean score and tier of each generator",
    Population.SAME_PROMPTS,
    Unit.PROMPT,
    ESTIMATED,
    "tier, then mean",
    "p best, over all compared generators",
    {
        **dict.fromkeys(("minus", "won", "p", "detectable"), Population.COMMON_OF_TWO),
        "best_on": Population.COMMON_OF_ALL,
    },
)
CATEGORIES = Declaration(
    "categories",
    "mean score of each generator in a category",
    Population.SAME_PROMPTS,
    Unit.PROMPT,
    ESTIMATED,
    "category, then place in the standings",
    by_column={"minus": Population.COMMON_OF_TWO, "best_on": Population.COMMON_OF_ALL},
)
VARIANCES = Declaration(
    "variances", "spread of generators in a category", Population.SAME_PROMPTS, Unit.PROMPT, ESTIMATED, "variance"
)
TIER_MEANS = Declaration(
    "tiers", "mean scores of tiers in a category", Population.SAME_PROMPTS, Unit.PROMPT, ESTIMATED, "gap of the tiers"
)
SHORT_AND_LONG = Declaration(
    "short_and_long",
    "scores of long and short wordings",
    Population.COMMON_OF_TWO,
    Unit.FAMILY,
    NEEDS_BOTH,
    "place in the standings",
    counts="prompts",
)

TIERS = 6  # of a table, the first ones
RANK, TIER = "rank", "tier"
FOLDED = 24  # a table with more rows is shown folded
ROWS = 150  # of a table; the command has all


@dataclass(frozen=True, slots=True)
class Scale:
    """How the scores of a metric are read.

    Attributes:
        range: Its ends; None if it has none.
        higher: Whether more is better.
        digits: Decimals shown.
    """

    range: tuple[float, float] | None
    higher: bool
    digits: int

    @classmethod
    def from_records(
        cls, record: MetricRecord, result: MetricResult, scores: Iterable[float], *, shares: bool = False
    ) -> Scale:
        """Read the scale of a metric from the manifest and the results of a run; without ends the `scores` decide the decimals.

        Shares of prompts whose images are right (`PerPrompt.counts`) lie from 0 to 1, and more is better for every metric.
        """
        if shares:
            return cls((0.0, 1.0), True, score_digits((0.0, 1.0)))
        higher = record.higher_is_better if result.higher_is_better is None else result.higher_is_better
        return cls(record.limits, higher is not False, score_digits(record.limits or scores))

    @property
    def sign(self) -> float:
        """-1 if less is better: scores are negated then."""
        return 1.0 if self.higher else -1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Slice:
    """Mean scores of generators for one value of a category, with decimals, ends and sign of their scale."""

    column: str
    value: str
    means: Mapping[str, float]
    digits: int
    bounds: tuple[float, float] | None
    sign: float


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Generators compared prompt by prompt with the best of them.

    Attributes:
        scores: Scores of the generators that share enough prompts (`population.comparable`).
        against: Names of the generators that the others are compared with: the best, and a baseline.
        differences: Of the others, to each of these.
        tiers: Columns of the generators in each tier, best first.
        aside: Names of the generators that are not compared.
        table: Scores of all generators.
    """

    scores: ScoreTable
    table: ScoreTable
    against: tuple[str, ...]
    differences: tuple[Sequence[GeneratorDifference], ...]
    tiers: Sequence[Sequence[int]]
    aside: Sequence[str]

    @property
    def order(self) -> list[int]:
        """Columns of the generators, best first."""
        return [k for tier in self.tiers for k in tier]

    @property
    def tier_names(self) -> list[list[str]]:
        """Names of the generators in each tier, best first."""
        return [[self.scores.generators[k] for k in tier] for tier in self.tiers]


def compared_with_best(scores: ScoreTable, baseline: str = "") -> Comparison | None:
    """Compare generators with the best, and with a baseline if the table has it; None if they share too few prompts."""
    compared = scores.only([scores.generators[k] for k in comparable(scores.means, unit=scores.unit)])
    if not compared.generators:
        return None
    best = compared.generators[in_order(compared)[0]]
    against = (best, *([baseline] if baseline in set(compared.generators) - {best} else []))
    differences = tuple(generator_differences(compared, baseline=name, chosen=name == best) for name in against)
    parts = tiers(compared.means, unit=compared.unit, decides=compared.decides)
    aside = tuple(name for name in scores.generators if name not in compared.generators)
    return Comparison(compared, scores, against, differences, parts, aside)


def standings_table(comparison: Comparison, scale: Scale) -> Table:
    """Tabulate each generator: mean, tier, first places, gaps to the best and the baseline, and the test against the best."""
    scores, against = comparison.scores, comparison.against
    firsts, adjusted, ranks = first_places(scores.means), adjusted_scores(scores.means), rank_ranges(scores)
    by_name = [{difference.a: difference for difference in differences} for differences in comparison.differences]
    rows, doubts = [], dict[str, str]()
    for tier, members in enumerate(comparison.tiers, 1):
        for k in members:
            name, prompts = scores.generators[k], scores.prompts_of[k]
            mean, doubts[name] = mean_cell(scores, adjusted[:, k], scale.digits)
            (gap, *test), *others = (_gap(differences.get(name), scale.digits) for differences in by_name)
            gap = _explained(gap, by_name[0].get(name))
            shown = name, rank_range(ranks[k]), mean, tier, int(firsts[k]), gap
            rows.append((*shown, *(other[0] for other in others), *test, prompts))
    for k in map(comparison.table.column, comparison.aside):
        own = comparison.table.means[:, k]
        (mean, _), prompts = mean_cell(comparison.table, own, scale.digits), comparison.table.prompts_of[k]
        rows.append((comparison.table.generators[k], None, mean, *[None] * (6 + len(against)), prompts))
    columns = ("generator", RANK, "mean", TIER, "best on", *_minus(against, scores), "won / same / lost", "p", "p best",
               "detectable", "prompts")  # fmt: skip
    keys = (
        "generator",
        RANK,
        "mean",
        TIER,
        "best_on",
        *_minus_keys(against),
        "won",
        "p",
        "p_best",
        "detectable",
        "prompts",
    )
    about = (
        f"Won, same, lost and p are against {against[0]}, p by exchange "
        "within prompts, as in `compare`. Detectable: the smallest difference that this many prompts show with 80% power."
    )
    best = (
        f"{against[0]} has the best mean on these very prompts, so gaps to it are a little flattered: p best allows for the choice, "
        f"and the intervals of the differences to it are valid for all of them together."
    )
    tiers = "Rank: the ranks that the tests leave open. A tier ends before the first generator that is clearly worse than the tier's best. Best on: prompts on which none scores higher; where several are equal, each counts."
    notes = (
        Note("about_standings", about),
        Note("gaps_to_best_flattered", best),
        *scores.missing_notes((scores.generators.index(against[0]), k) for k in range(len(scores.generators))),
        Note("about_ranks_and_tiers", tiers),
    )
    doubts |= {each.pair: each.doubt for differences in comparison.differences for each in differences}
    declared = comparison.table.over(STANDINGS, doubts=doubts)
    return Table("Prompt by prompt", columns, tuple(rows), notes, declared=declared, keys=keys)


def _gap(difference: GeneratorDifference | None, digits: int) -> list[Cell | str | None]:
    """Make the cells of a difference: its value, wins / ties / losses, p, p best, and the detectable difference."""
    if difference is None or difference.units < FEWEST:
        return [None] * 5
    counts = f"{difference.wins} / {difference.same} / {difference.losses}"
    detectable = plain(difference.detectable, digits=digits + 1)
    ps = (p_value(difference.p), p_value(difference.p_adjusted))
    return [plain(difference.difference, difference.interval, digits + 1), counts, *ps, detectable]


def _explained(gap: Any, difference: GeneratorDifference | None) -> Any:
    """Note in the cell of a gap to the best that its interval is for all pairs together, if it and the test (p best) disagree."""
    if not isinstance(gap, Cell) or difference is None or difference.interval is None or difference.p_adjusted is None:
        return gap
    low, high = difference.interval
    if (low <= 0 <= high) != (difference.p_adjusted < ALPHA):
        return gap
    return replace(gap, note="interval for all pairs together; p best decides on the tier")


def slice_tables(
    scores: ScoreTable, against: Sequence[str], parts: Sequence[Sequence[str]], scale: Scale
) -> list[Table]:
    """Make a table for each category, one of the variance between generators, and one of the means of tiers.

    Args:
        scores: Scores, with the categories as slices.
        against: The generators that gaps are to: the best, and a baseline.
        parts: Names of the generators of each tier, best first.
        scale: Of the scores.
    """
    order = [scores.column(name) for tier in parts for name in tier]
    tables, cuts = [], []
    overall = averages(adjusted_scores(scores.means))
    all_means = {scores.generators[k]: scores.sign * float(overall[k]) for k in order if np.isfinite(overall[k])}
    whole = _Slice("", "all prompts", all_means, scale.digits, None, scores.sign)
    for column, values in scores.slices.items():
        title, part = column.replace("_", " "), scores.on_scale_of(column)
        digits, bounds = scale.digits, scale.range if part.sign > 0 else None
        if scores.has_shares(column):
            digits, bounds = 3, (0.0, 1.0)
        rows: list[tuple[object, ...]] = []
        doubts: dict[str, str] = {}
        for value, means in values.items():
            firsts, adjusted = first_places(means), adjusted_scores(means)
            mean = averages(adjusted)
            means_by_name = {scores.generators[k]: part.sign * float(mean[k]) for k in order if np.isfinite(mean[k])}
            cuts.append(_Slice(title, value, means_by_name, digits, bounds, part.sign))
            for k in order if len(values) * len(order) <= ROWS else ():
                gaps = [_difference(part, means, k, name, digits) for name in against]
                name, prompts = scores.generators[k], int(np.isfinite(means[:, k]).sum())
                mean_of, doubts[f"{value}: {name}"] = mean_cell(part, adjusted[:, k], digits)
                rows.append((value, name, mean_of, *gaps, int(firsts[k]), prompts))
        note = "Best on: prompts on which none scores higher. Every interval is for itself: `compare generators --by` adjusts."
        columns = (title, "generator", "mean", *_minus(against, part), "best on", "prompts")
        if rows:
            tables.append(
                Table(
                    f"By {title}",
                    columns,
                    tuple(rows),
                    (Note("about_categories", note),),
                    folded=True,
                    declared=scores.over(CATEGORIES, sized=False, doubts=doubts),
                    keys=("category", "generator", "mean", *_minus_keys(against), "best_on", "prompts"),
                )
            )
    return [*tables, *_variances(cuts, scores), *_tiers([whole, *cuts], parts, scores)]


def _minus(names: Sequence[str], scores: ScoreTable) -> list[str]:
    """Title the columns of differences, which are negated if less is better."""
    return [f"minus {name}{scores.direction}" for name in names]


def _minus_keys(names: Sequence[str]) -> list[str]:
    return [f"{name}:minus" for name in names]


def ranked_means(scores: ScoreTable, scale: Scale, ranking: Sequence[RankedGenerator], *, settled: bool) -> Table:
    """Tabulate the generators of a verdict with their ranks and means, best first.

    Args:
        scores: Their scores.
        scale: Of the scores.
        ranking: The generators as the verdict ranks them.
        settled: Whether the judging stopped at a verdict, so that intervals for a fixed sample are not valid.
    """
    adjusted, rows = scores_of_all(scores.means, scores.unit), []
    doubts = dict.fromkeys(scores.generators, "")
    for ranked in (ranked for ranked in ranking if ranked.generator in scores.generators):
        own = adjusted[:, scores.column(ranked.generator)]
        mean, doubts[ranked.generator] = mean_cell(scores, own, scale.digits)
        if mean is not None:
            mean = replace(mean, bar=True, interval=None if settled else mean.interval)
        rows.append((ranked.generator, rank_range(ranked.ranks), mean))
    declared = scores.over(GENERATORS, doubts={} if settled else doubts)
    return Table("", ("generator", RANK, "mean"), tuple(rows), declared=declared)


def making(items: Sequence[item_meta.HasMeta]) -> list[Cell | str | None]:
    """Return the metadata of the images of a generator: USD and seconds per image, vendor, licence; None for facts that no image has."""
    made = [record for item in items if isinstance(record := item_meta.MADE_WITH.get(item), Mapping)]
    cells: list[Cell | str | None] = []
    for name, digits in (("cost", 4), ("seconds", 1)):
        numbers = [record[name] for record in made if is_number(record.get(name))]
        note = f"of {len(numbers):,} images" if len(numbers) < len(items) else ""
        cells.append(plain(float(np.mean(numbers)), digits=digits, note=note) if numbers else None)
    for key in (item_meta.VENDOR, item_meta.LICENCE):
        cells.append(", ".join(dict.fromkeys(str(key.get(item)) for item in items if key.get(item))) or None)
    return cells


def slice_means(scores: ScoreTable, column: str) -> Floats:
    """Average each generator's scores over the prompts of each value of a category: shape (generators, values).

    Args:
        scores: Scores, negated if less is better.
        column: Name of the category.
    """
    means: Floats = scores.on_scale_of(column).sign * np.stack(
        [averages(adjusted_scores(by_prompt)) for by_prompt in scores.slices[column].values()], axis=1
    )
    return means


def mean_cell(scores: ScoreTable, by_prompt: Floats, digits: int) -> tuple[Cell | None, str]:
    """Make the cell of the mean of `adjusted_scores` with its interval.

    Returns:
        The cell, None without a score, and the `Doubt` about its level.
    """
    mean, ends, doubt = scores.measured(by_prompt)
    return plain(mean, ends, digits), doubt


def short_and_long(items: Mapping[str, Item], scores: ScoreTable, scale: Scale) -> list[Table]:
    """Compare the long wording of each prompt with the short one, if the data have both (TIIF-Bench).

    Args:
        items: An item of each prompt, with type, number and length in its meta.
        scores: Scores of all prompts.
        scale: Of the scores.
    """
    places: dict[tuple[Any, Any], dict[str, int]] = {}
    for row, prompt in enumerate(scores.prompts):
        item = items[prompt]
        length, index = item_meta.LENGTH.get(item), item_meta.INDEX.get(item)
        if length in ("short", "long") and index is not None:
            places.setdefault((item_meta.TYPE.get(item), index), {})[length] = row
    both = [(wordings["short"], wordings["long"]) for wordings in places.values() if len(wordings) == 2]
    if len(both) < FEWEST:
        return []
    short, long = (scores.means[[pair[k] for pair in both]] for k in (0, 1))
    digits, rows = scale.digits + 1, []
    for k in in_order(scores):
        paired = np.isfinite(short[:, k]) & np.isfinite(long[:, k])
        if paired.sum() < FEWEST:
            continue
        gap = score_differences(long[paired, k], short[paired, k])
        means = (plain(scores.sign * float(scored[paired, k].mean()), digits=digits) for scored in (short, long))
        interval = mean_interval(gap, scores.spans(declared=True))
        rows.append((scores.generators[k], *means, plain(float(gap.mean()), interval, digits), len(gap)))
    columns = ("generator", "short", "long", *(f"long {title}" for title in _minus(["short"], scores)), "prompts")
    keys = ("generator", "short", "long", "long_minus_short", "prompts")
    return [Table("Short and long prompts", columns, tuple(rows), declared=SHORT_AND_LONG, keys=keys)] if rows else []


def _difference(scores: ScoreTable, means: Floats, k: int, other: str, digits: int) -> Cell | None:
    """Make the cell of a generator's score minus the score of another, paired by prompt."""
    gap = score_differences(means[:, k], means[:, scores.column(other)])
    sums, counts = unit_sums(gap, scores.unit)
    if other == scores.generators[k] or not len(sums):
        return None
    (interval,) = mean_intervals(sums, counts, scores.spans(declared=True))
    return plain(float(gap[np.isfinite(gap)].mean()), interval, digits + 1)


def _variances(cuts: Sequence[_Slice], scores: ScoreTable) -> list[Table]:
    """Tabulate the variance between generators for each value, the largest of a category first, and the maturity."""
    variances = between_variance({cut: list(cut.means.values()) for cut in cuts})
    least: dict[str, float] = {}
    for cut, variance in variances.items():
        if variance:
            least[cut.column] = min(variance, least.get(cut.column, variance))
    rows = []
    for cut in sorted(cuts, key=lambda cut: -(variances[cut] or 0.0) / least.get(cut.column, 1.0)):
        means, variance = list(cut.means.values()), variances[cut]
        if variance is None or cut.column not in least:
            continue
        together = sum(means) / len(means)
        statistics = [max(means) - min(means), together, max(means) if cut.sign > 0 else min(means)]
        rows.append(
            (
                cut.column,
                cut.value,
                plain(variance, digits=4),
                plain(variance / least[cut.column], digits=2),
                *(plain(number, digits=cut.digits) for number in statistics),
                maturity(means, cut.bounds) or None,
            )
        )
    about = "Variance of the generators' mean scores; times the least of this category's values. Few prompts add to it by chance."
    limits = (
        f"All together: mature above {MATURE:.0%} of the scale on average; a ceiling below {CEILING:.0%}, and the best below {BEST:.0%} "
        "(the limits of the Qwen-Image-Bench paper, section 4.8, for its own judge)."
    )
    notes = Note("about_variances", about), Note("limits_of_categories", limits)
    columns = (
        "category", "value", "variance", "times the least", "best minus worst", "mean of all", "best", "all together",
    )  # fmt: skip
    declared = scores.over(VARIANCES, sized=False)
    table = Table("Where generators differ", columns, tuple(rows), notes, folded=len(rows) > FOLDED, declared=declared)
    return [table] if rows else []


def _tiers(cuts: Sequence[_Slice], parts: Sequence[Sequence[str]], scores: ScoreTable) -> list[Table]:
    """Tabulate the mean of each tier over all prompts and in each category, and the gaps between tiers (Qwen-Image-Bench paper, Table 3)."""
    parts = parts[:TIERS]
    if len(parts) < 2 or len(cuts) < 2:
        return []
    rows = []
    for cut in cuts:
        means, gaps = tier_means(cut.means, parts)
        statistics = [*means, *(None if gap is None else cut.sign * gap for gap in gaps)]
        rows.append((cut.column, cut.value, *(plain(number, digits=cut.digits) for number in statistics)))
    names = [f"tier {k}" for k in range(1, len(parts) + 1)]
    notes = tuple(
        Note("members_of_tier", f"{name.capitalize()}: {', '.join(members)}.")
        for name, members in zip(names, parts, strict=True)
    )
    columns = ("category", "value", *names, *(f"{k} to {k + 1}" for k in range(1, len(parts))))
    return [Table("What separates the tiers", columns, tuple(rows), notes, folded=True,
                  declared=scores.over(TIER_MEANS, sized=False))]  # fmt: skip
