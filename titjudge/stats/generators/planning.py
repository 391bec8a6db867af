"""Sample size planning from a pilot: prompts, seeds and judge samples that a difference needs, and their cost.

The variance of a paired difference over prompts is the pilot's variance, minus the variance between its images and
answers, plus the variance with as many images and answers as planned. A small pilot estimates it badly, so the answer is
a range: a 90% interval of the log variance, from the kurtosis of the pilot. `python -m benchmarks.verdicts` measures the
achieved power and the coverage of the range on people's marks, `python -m benchmarks.coverage` for rare large
differences. A range cannot allow for what the pilot has not shown, so the notes give the number of prompts for the case
that a single prompt differs by the whole scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np

from titjudge.core.declarations import NEEDS_BOTH, Declaration, Excluded, Population, Unit
from titjudge.core.errors import DataError
from titjudge.core.tables import Note, Table, plain
from titjudge.core.words import number
from titjudge.stats.bootstrap import Floats
from titjudge.stats.intervals import TAIL
from titjudge.stats.scores.scores_table import ScoreTable
from titjudge.stats.significance import POWER

PLAN = Declaration(
    "plan", "prompts that a difference needs", Population.COMMON_OF_TWO, Unit.PROMPT, NEEDS_BOTH, "order of the pairs"
)

FEWEST = 10  # prompts of any plan
SHORT = 30  # prompts of a pilot, below which a note warns of it
HEAVY = 0.3  # of the spread, more than which one prompt seldom makes up if differences are normal
_RANGE = 1.6449  # normal quantile of a 90% range
_SHARES = (0.01, 0.02, 0.05)  # of the scale: the differences that a report plans for


@dataclass(frozen=True, slots=True)
class Pilot:
    """Variances of two generators in a pilot.

    Attributes:
        variance: Of the paired difference over prompts, with the pilot's numbers of images and answers.
        factor: By which the true variance may be larger or smaller (90%).
        seeds, samples: Variance between images of a prompt, and between answers to an image, summed over the two generators;
            None if the pilot has only one each, or the score of a prompt is not a mean of them.
        images, answers: Images of a prompt, and answers to an image, in the pilot; of unequal numbers of images the number
            that leaves the same variance.
        largest: Share of the spread that the prompt (or family) with the largest difference makes up.
        units: Number of families; of prompts if each is a unit.
        scale: Length of the scale of a score; None if it has no ends.
        uneven: Whether prompts have unequal numbers of images.
        excluded: Prompts that do not count, as in a `Declaration`.
    """

    a: str
    b: str
    prompts: int
    variance: float
    factor: float
    seeds: float | None
    samples: float | None
    images: float
    answers: float
    largest: float = 0.0
    scale: float | None = None
    uneven: bool = False
    units: int = 0
    excluded: Excluded = field(default_factory=dict)

    @classmethod
    def from_scores(cls, table: ScoreTable, a: str, b: str) -> Pilot:
        """Estimate the variances from two generators of a table.

        Raises:
            DataError: One is unknown, they have fewer than two common prompts, or all prompts show the same difference.
        """
        columns = [table.column(a), table.column(b)]
        sums, sizes = table.unit_differences(*columns)
        prompts, units = round(sizes.sum()), len(sums)
        if units < 2:
            raise table.too_few((a, b), units, "a pilot needs two. Judge more prompts")
        d = (sums - sums.sum() / prompts * sizes) / (prompts / units) if table.unit is not None else sums
        variance = float(d.var(ddof=1)) * (
            prompts / units
        )  # of a prompt, as if each were a unit: with the design effect
        if variance <= 1e-24:
            raise DataError(
                f"all prompts have the same difference of '{a}' and '{b}', so nothing can be planned. Use other prompts",
                table.source,
            )
        both = np.isfinite(table.means[:, columns]).all(axis=1)
        counts = table.images[both][:, columns]
        images, uneven = float(counts.mean()), bool(np.ptp(counts))
        seeds, samples = (
            _sum_over_both(variances, columns) if table.per_prompt.kind == "mean" else None
            for variances in (table.seed_variance, table.judge_variance)
        )
        of_each = [table.seed_variance[k] for k in columns]
        if uneven and None in of_each:
            seeds = None
        elif uneven and seeds:
            noise = np.array(of_each, dtype=np.float64)
            images = float(noise.sum() / (noise * (1 / counts).mean(axis=0)).sum())
        squares = (d - d.mean()) ** 2
        scale = table.bounds[1] - table.bounds[0] if table.bounds and np.isfinite(table.bounds).all() else None
        return cls(
            a, b, prompts, variance, variance_factor(d), seeds, samples, images,
            table.samples, float(squares.max() / squares.sum()), scale, uneven, units, table.only((a, b)).over(PLAN).excluded,
        )  # fmt: skip

    @property
    def design(self) -> tuple[int, int]:
        """Images of a prompt and answers to an image, as whole numbers."""
        return round(self.images), round(self.answers)

    def variance_with(self, seeds: int, samples: int) -> float | None:
        """Estimate the variance of the difference with other numbers of images and answers; None if the pilot does not show it."""
        if (self.seeds is None and (self.uneven or seeds != self.images)) or (
            self.samples is None and samples != self.answers
        ):
            return None
        judge = self.samples or 0.0
        between = max(0.0, (self.seeds or 0.0) - judge / self.answers)  # images of a prompt, without the judge's noise
        fixed = self.variance - between / self.images - judge / (self.images * self.answers)
        return max(fixed, 0.0) + between / seeds + judge / (seeds * samples)


def _sum_over_both(variances: Sequence[float | None], columns: Sequence[int]) -> float | None:
    """Add up the variances of two generators; one that is not known counts as the other."""
    measured = [value for k in columns if (value := variances[k]) is not None]
    return 2 * sum(measured) / len(measured) if measured else None


def usable_pilot(table: ScoreTable, a: str, b: str) -> Pilot | None:
    """Take two generators as a pilot for a design like theirs.

    Returns:
        None if they show too little: fewer than `SHORT` common prompts (or families), the same difference on all, or not
        as many images of every prompt.
    """
    try:
        pilot = Pilot.from_scores(table, a, b)
    except DataError:
        return None
    return pilot if pilot.units >= SHORT and pilot.variance_with(*pilot.design) is not None else None


def variance_factor(differences: Floats) -> float:
    """Compute the largest factor by which a sample variance is wrong, in 90% of samples (delta method on its logarithm).

    Small samples underestimate the kurtosis: hence the factor 1 + 4 / n, found by simulation.
    """
    z = differences - differences.mean()
    kurtosis = float((z**4).mean() / (z**2).mean() ** 2)
    n = len(differences)
    return float(np.exp(_RANGE * (1 + 4 / n) * np.sqrt(max(kurtosis - 1, 0.0) / n + 2 / n**2)))


def prompts_needed(variance: float, difference: float, power: float) -> int:
    """Compute the number of prompts that a paired t-test needs."""
    from titjudge.stats.special import stdtrit

    n = FEWEST
    for _ in range(30):  # the quantiles of t depend on n: a fixed point, which is reached soon
        quantiles = float(stdtrit(n - 1, 1 - TAIL) + stdtrit(n - 1, power))
        before, n = n, max(FEWEST, int(np.ceil(quantiles**2 * variance / difference**2)))
        if n == before:
            break
    return n


def power_of(prompts: Floats, variance: float, difference: float) -> Floats:
    """Compute the power of a paired t-test with each number of prompts."""
    from titjudge.stats.special import ndtr, stdtrit

    power: Floats = ndtr(difference * np.sqrt(prompts / variance) - stdtrit(prompts - 1, 1 - TAIL))
    return power


@dataclass(frozen=True, slots=True)
class Plan:
    """Numbers of prompts, images per prompt (`seeds`) and answers per image (`samples`) for each of two generators.

    Attributes:
        difference: The difference to detect.
        range: Prompts needed at the low and the high end of the variance.
        dollars: Cost at the low end, of `prompts`, and at the high end; None if no price is known.
    """

    a: str
    b: str
    difference: float
    seeds: int
    samples: int
    prompts: int
    range: tuple[int, int]
    judgements: int
    dollars: tuple[float, float, float] | None
    variance: float

    def price(self) -> float | None:
        """Return the cost of one prompt in USD."""
        return None if self.dollars is None else self.dollars[1] / self.prompts


def plans(
    pilot: Pilot, difference: float, power: float, *, seeds: Iterable[int], samples: Iterable[int], cost: float | None
) -> list[Plan]:
    """Make a plan for each number of seeds and samples for which the pilot gives a variance.

    Args:
        pilot: Variances measured on a few prompts.
        difference: Difference in mean score to detect.
        power: Probability of detecting it, in (0, 1).
        seeds: Numbers of images per prompt.
        samples: Numbers of answers per image.
        cost: USD for one image with the pilot's number of answers.
    """
    options = []
    for k, s in product(seeds, samples):
        variance = pilot.variance_with(k, s)
        if variance is not None:
            low, n, high = (
                prompts_needed(assumed, difference, power)
                for assumed in (variance / pilot.factor, variance, variance * pilot.factor)
            )
            per_prompt = None if cost is None else cost * 2 * k * s / pilot.answers
            dollars = None if per_prompt is None else (low * per_prompt, n * per_prompt, high * per_prompt)
            options.append(Plan(pilot.a, pilot.b, difference, k, s, n, (low, high), 2 * n * k * s, dollars, variance))
    return options


def plan_like(pilot: Pilot, difference: float, power: float, cost: float | None = None) -> Plan:
    """Make the plan with as many images of a prompt, and answers to an image, as a `usable_pilot` has."""
    seeds, samples = pilot.design
    (plan,) = plans(pilot, difference, power, seeds=[seeds], samples=[samples], cost=cost)
    return plan


def cheapest(plans: Sequence[Plan]) -> Plan:
    """Return the plan with the lowest cost, or the fewest judgements if no price is known."""
    return min(plans, key=lambda plan: (plan.dollars[1] if plan.dollars else plan.judgements, plan.judgements))


def plan_table(plans: Sequence[Plan], pilots: Sequence[Pilot], power: float, digits: int | None = None) -> Table:
    """Tabulate plans, with notes on the limits of their pilots.

    Args:
        plans: One row each.
        pilots: The pilots that they were made from.
        power: The probability of detecting the difference.
        digits: Decimals of the difference; None for as many as its size asks for.
    """
    rows = tuple(
        (
            p.a, p.b, p.difference if digits is None else plain(p.difference, digits=digits), p.seeds, p.samples, p.prompts, *p.range, p.judgements,
            *(p.dollars or (None, None, None)),
        )
        for p in plans
    )  # fmt: skip
    columns = (
        "a", "b", "difference", "seeds", "samples", "prompts", "from", "to", "judgements", "USD from", "USD", "USD to",
    )  # fmt: skip
    line = f"to show the difference at 95% with power {power:.0%}; from - to: uncertainty of the pilot"
    notes = [Note("about_plan", line)]
    if any(pilot.seeds is None for pilot in pilots):
        line = "the pilot has one image per prompt: the effect of more seeds is unknown"
        notes.append(Note("pilot_with_one_seed", line))
    if any(pilot.units < SHORT for pilot in pilots):
        line = (
            f"a pilot of fewer than {SHORT} prompts does not show the spread: do not rely on the number. If a few "
            "prompts differ far more than the others, the range is wrong too"
        )
        notes.append(Note("pilot_too_short", line))
    for pilot in pilots:
        notes += _pilot_notes(pilot, plans, power)
    families = any(pilot.units != pilot.prompts for pilot in pilots)
    excluded: dict[str, dict[str, Sequence[str]]] = {}
    for pilot in pilots:
        for why, of in pilot.excluded.items():
            excluded.setdefault(why, {}).update(of)
    declared = PLAN.over({PLAN.population: [pilot.prompts for pilot in pilots]}, excluded, families=families)
    return Table("Plan", columns, rows, tuple(notes), declared=declared)


def _pilot_notes(pilot: Pilot, plans: Sequence[Plan], power: float) -> Iterator[Note]:
    """Yield what a pilot may not have shown: a longer tail, and one prompt that differs by the whole scale."""
    if pilot.units >= SHORT and pilot.largest > HEAVY:
        yield Note(
            "pilot_with_heavy_tail",
            f"{pilot.a} / {pilot.b}: one prompt of {pilot.prompts} makes up {pilot.largest:.0%} of the spread; with such "
            "tails, the range contains the number in fewer than 90%: plan for its upper end",
        )
    plan = next((plan for plan in plans if (plan.a, plan.b) == (pilot.a, pilot.b)), None)
    unseen = None if plan is None else _with_one_unseen(pilot, plan, power)
    if plan is not None and unseen is not None:
        yield Note(
            "pilot_with_one_unseen",
            f"{pilot.a} / {pilot.b}: if 1 prompt in {pilot.prompts} differs by the whole scale, which {pilot.prompts} may "
            f"well not have shown, a difference of {number(plan.difference)} takes {unseen:,} prompts",
        )


def _with_one_unseen(pilot: Pilot, plan: Plan, power: float) -> int | None:
    """Compute the prompts of a plan if a single prompt, in as many as the pilot has, differs by the whole scale.

    None if the scale has no ends, or the range of the plan contains the number.
    """
    if pilot.scale is None:
        return None
    share = 1 / pilot.prompts
    prompts = prompts_needed(plan.variance + share * (1 - share) * pilot.scale**2, plan.difference, power)
    return prompts if prompts > plan.range[1] else None


class PowerCurve(NamedTuple):
    """The power of a plan along an axis, with the range that the pilot leaves open."""

    label: str
    x: Floats
    middle: Floats
    low: Floats
    high: Floats


def power_curve(plan: Plan, pilot: Pilot, label: str) -> PowerCurve:
    """Compute the power by the number of prompts, with the pilot's variance and at both ends of its range."""
    prompts = np.unique(np.linspace(2, 2 * plan.range[1], 60).astype(np.int64)).astype(np.float64)
    middle, low, high = (
        power_of(prompts, plan.variance * factor, plan.difference) for factor in (1.0, pilot.factor, 1 / pilot.factor)
    )
    return PowerCurve(label, prompts, middle, low, high)


class Outlook(NamedTuple):
    """How many prompts the next comparison takes: a table, the power by number of prompts, and the end of its axis."""

    table: Table
    curves: list[PowerCurve]
    most: float


def outlook(scores: ScoreTable, best: str, runner_up: str, digits: int) -> Outlook | None:
    """Plan for differences of 1, 2 and 5% of the scale, with the best generator and its runner-up as the pilot.

    Args:
        scores: The scores.
        best: Name of the best generator.
        runner_up: Name of the next.
        digits: Decimals of a difference.

    Returns:
        None if the two show too little (`usable_pilot`).
    """
    pilot = usable_pilot(scores, best, runner_up)
    if pilot is None:
        return None
    planned = [plan_like(pilot, share * scores.length, POWER, scores.cost) for share in _SHARES]
    curves = [power_curve(plan, pilot, number(plan.difference, digits)) for plan in planned]
    return Outlook(plan_table(planned, [pilot], POWER, digits), curves, 1.5 * planned[1].prompts)
