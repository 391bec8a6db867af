"""How many prompts, seeds and judge samples it takes to see a difference, from a pilot, and what they cost.

The variance of a paired difference between prompts is what the pilot shows, less what its images and answers add by chance,
plus what as many images and answers as planned will add. A small pilot knows that variance badly, so the answer is a range:
of its logarithm 90%, by the spread of the pilot's own squares. `python -m benchmarks.verdicts` measures what power is
achieved and how often the range holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from titjudge.core.errors import DataError
from titjudge.core.types import Table
from titjudge.stats.bootstrap import Floats
from titjudge.stats.intervals import TAIL
from titjudge.stats.scores_table import ScoreTable

FEWEST = 10  # prompts of any plan
SHORT = 30  # a pilot below this is short
_RANGE = 1.6449  # normal quantile of a 90% range


@dataclass(frozen=True, slots=True)
class Pilot:
    """What a pilot shows of two generators.

    Attributes:
        variance: of the difference between prompts, with the pilot's images and answers. factor: by which the true one may
            lie above or below. seeds, samples: the variance between images of a prompt, and answers to an image, of the
            two generators together; None where the pilot has no two, or the score of a prompt is no mean of them.
        images, answers: of a prompt, and to an image, in the pilot.
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

    @classmethod
    def of(cls, table: ScoreTable, a: str, b: str) -> Pilot:
        """Read two generators of a table.

        Raises:
            DataError: one is not there, there are fewer than two common prompts, or all show the same difference.
        """
        columns = [table.column(a), table.column(b)]
        d = table.differences(*columns)
        if len(d) < 2:
            raise table.too_few((a, b), len(d), "a pilot needs two")
        variance = float(d.var(ddof=1))
        if variance <= 1e-24:
            raise DataError(
                f"all prompts show the same difference of '{a}' and '{b}': nothing to plan from", table.source
            )
        both = np.isfinite(table.means[:, columns]).all(axis=1)
        seeds, samples = (
            _together(each, columns) if table.per_prompt.kind == "mean" else None
            for each in (table.seed_variance, table.judge_variance)
        )
        return cls(
            a, b, len(d), variance, variance_factor(d), seeds, samples, float(table.images[both][:, columns].mean()),
            table.samples,
        )  # fmt: skip

    def variance_with(self, seeds: int, samples: int) -> float | None:
        """Estimate the variance with other numbers of images and answers; None where the pilot cannot tell."""
        if (self.seeds is None and seeds != self.images) or (self.samples is None and samples != self.answers):
            return None
        judge = self.samples or 0.0
        between = max(0.0, (self.seeds or 0.0) - judge / self.answers)  # images of a prompt, without the judge's noise
        fixed = self.variance - between / self.images - judge / (self.images * self.answers)
        return max(fixed, 0.0) + between / seeds + judge / (seeds * samples)


def _together(variances: Sequence[float | None], columns: Sequence[int]) -> float | None:
    known = [value for k in columns if (value := variances[k]) is not None]
    return 2 * sum(known) / len(known) if known else None


def variance_factor(differences: Floats) -> float:
    """By which factor the variance of a sample may be wrong either way, in 90% of samples (delta method on its logarithm).

    Few prompts show too little of their kurtosis: hence 1 + 4 / n, by simulation.
    """
    z = differences - differences.mean()
    kurtosis = float((z**4).mean() / (z**2).mean() ** 2)
    n = len(differences)
    return float(np.exp(_RANGE * (1 + 4 / n) * np.sqrt(max(kurtosis - 1, 0.0) / n + 2 / n**2)))


def prompts_needed(variance: float, difference: float, power: float) -> int:
    """How many prompts a paired t-test needs."""
    from scipy.special import stdtrit

    n = FEWEST
    for _ in range(30):  # the quantiles of t hang on the answer, and settle soon
        quantiles = float(stdtrit(n - 1, 1 - TAIL) + stdtrit(n - 1, power))
        before, n = n, max(FEWEST, int(np.ceil(quantiles**2 * variance / difference**2)))
        if n == before:
            break
    return n


def power_of(prompts: Floats, variance: float, difference: float) -> Floats:
    """Compute the power of a paired t-test with so many prompts."""
    from scipy.special import ndtr, stdtrit

    found: Floats = ndtr(difference * np.sqrt(prompts / variance) - stdtrit(prompts - 1, 1 - TAIL))
    return found


@dataclass(frozen=True, slots=True)
class Plan:
    """So many prompts (from `low` to `high`), images a prompt and answers an image for each of two generators.

    `dollars` are for `low`, `prompts` and `high`; None where no price is known.
    """

    a: str
    b: str
    seeds: int
    samples: int
    prompts: int
    range: tuple[int, int]
    judgements: int
    dollars: tuple[float, float, float] | None
    variance: float

    def to_json(self) -> dict[str, Any]:
        """Write the plan as JSON has it."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def price(self) -> float | None:
        """USD for one prompt."""
        return None if self.dollars is None else self.dollars[1] / self.prompts


def plans(
    pilot: Pilot, difference: float, power: float, *, seeds: Iterable[int], samples: Iterable[int], cost: float | None
) -> list[Plan]:
    """Make one plan for each number of seeds and samples that the pilot can tell of.

    Args:
        pilot: What was measured on a few prompts.
        difference: In mean score, that is to be found.
        power: With which probability, in (0, 1).
        seeds: Numbers of images a prompt.
        samples: Numbers of answers an image.
        cost: USD for one image with the pilot's answers.
    """
    found = []
    wanted = list(samples)
    for k in seeds:
        for s in wanted:
            variance = pilot.variance_with(k, s)
            if variance is None:
                continue
            low, n, high = (
                prompts_needed(each, difference, power)
                for each in (variance / pilot.factor, variance, variance * pilot.factor)
            )
            one = None if cost is None else cost * 2 * k * s / pilot.answers
            dollars = None if one is None else (low * one, n * one, high * one)
            found.append(Plan(pilot.a, pilot.b, k, s, n, (low, high), 2 * n * k * s, dollars, variance))
    return found


def cheapest(of: Sequence[Plan]) -> Plan:
    """Take the plan with the fewest dollars, or judgements where no price is known."""
    return min(of, key=lambda plan: (plan.dollars[1] if plan.dollars else plan.judgements, plan.judgements))


def plan_table(of: Sequence[Plan], pilots: Sequence[Pilot], difference: float, power: float) -> Table:
    """Show the plans in rows."""
    rows = tuple(
        (p.a, p.b, p.seeds, p.samples, p.prompts, *p.range, p.judgements, *(p.dollars or (None, None, None)))
        for p in of
    )
    columns = ("a", "b", "seeds", "samples", "prompts", "from", "to", "judgements", "USD from", "USD", "USD to")
    notes = [
        f"to show a difference of {difference:g} at 95% with power {power:.0%}; from - to: what the pilot leaves open"
    ]
    if any(pilot.seeds is None for pilot in pilots):
        notes.append("the pilot has one image a prompt: what more seeds would bring it cannot tell")
    if any(pilot.prompts < SHORT for pilot in pilots):
        notes.append(f"a pilot of fewer than {SHORT} prompts knows the spread badly: trust the range, not the number")
    return Table("Plan", columns, rows, tuple(notes))


def curve(plan: Plan, difference: float, factor: float, points: int = 60) -> tuple[Floats, list[Floats]]:
    """Prompts up to twice the plan's, and the power there: as the pilot has it, and at either end of its range."""
    n = np.unique(np.linspace(2, 2 * plan.range[1], points).astype(np.int64)).astype(np.float64)
    return n, [power_of(n, plan.variance * each, difference) for each in (1.0, 1 / factor, factor)]
