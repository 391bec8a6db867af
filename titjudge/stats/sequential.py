"""Sequential comparison: stop as soon as one of two generators is known to be better.

An asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central limit theory and
asymptotic confidence sequences", Annals of Statistics 52, 2024, Theorem 2.2): one may look after every prompt and stop at
any time, and the interval keeps its coverage, where looking at a fixed-sample test every ten prompts errs about one time in
two. The variance is replaced by the mean square of the differences (which is not smaller), with one added prompt that differs
by the whole scale, so that a few prompts that agree settle nothing. `python -m benchmarks.verdicts` measures the error rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from titjudge.stats.bootstrap import LEVEL, Floats, Interval
from titjudge.stats.equality import score_differences

FEWEST = 30  # prompts before any verdict: the theorem is asymptotic
TUNED = 100  # prompts at which the interval is narrowest
OPEN, EQUIVALENT = "open", "equivalent"


def radius(prompts: Any, squares: Any, level: float = LEVEL) -> Any:
    """Compute the half-width of the interval after each number of prompts, whose squared differences add up to `squares`."""
    alpha = 1 - level
    rho = (2 * math.log(1 / alpha) + math.log(1 + 2 * math.log(1 / alpha))) / TUNED
    mixed = prompts * rho + 1
    return np.sqrt(squares / prompts * 2 * mixed / (prompts**2 * rho) * np.log(np.sqrt(mixed) / alpha))


def share_at_most(hits: float, trials: int) -> float:
    """Compute a 95% upper confidence bound of a share that holds after every trial at once: one may look, and stop, at any time.

    Exact for trials that are hits or misses, and valid for fractional hits (`hits` is their sum), as long as the mean of a
    trial does not depend on the ones before. The uniform mixture of likelihood ratios over all shares (Robbins, "Statistical
    methods related to the law of the iterated logarithm", 1970) exceeds 20 in at most 5% of all
    sequences (Ville's inequality); a likelihood ratio is convex in the hit, so that fractional hits do not increase it.
    """
    misses = trials - hits
    if misses <= 0:
        return 1.0
    mixed = math.lgamma(hits + 1) + math.lgamma(misses + 1) - math.lgamma(trials + 2) + math.log(1 - LEVEL)
    low, high = hits / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        inside = middle < 1 and mixed <= (hits * math.log(middle) if hits else 0.0) + misses * math.log1p(-middle)
        low, high = (middle, high) if inside else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class Settled:
    """Result of a comparison: `verdict` is the better one, "equivalent" or "open", after `used` of `of` prompts.

    `interval` is that of a - b at this point.
    """

    a: str
    b: str
    verdict: str
    used: int
    of: int
    interval: Interval | None

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


def settle(names: tuple[str, str], differences: Floats, *, span: float, margin: float | None = None) -> Settled:
    """Go through differences in the given order and stop at the first verdict.

    Args:
        names: The two generators, a and b.
        differences: a - b of each prompt, in random order.
        span: Width of the scale: the largest possible difference.
        margin: Equivalence margin; None asks for a winner only.
    """
    of = len(differences)
    n = np.arange(1, of + 1)
    mean, half = np.cumsum(differences) / n, radius(n, np.cumsum(differences**2) + span**2)
    low, high = mean - half, mean + half
    ended = (low > 0) | (high < 0)
    if margin is not None:
        ended |= (low > -margin) & (high < margin)
    ended[: FEWEST - 1] = False
    at = int(np.argmax(ended)) if ended.any() else of - 1
    if at < 0:
        return Settled(*names, OPEN, 0, of, None)
    verdict = OPEN
    if ended.any():
        verdict = names[0] if low[at] > 0 else names[1] if high[at] < 0 else EQUIVALENT
    return Settled(*names, verdict, at + 1, of, (float(low[at]), float(high[at])))


@dataclass
class Race:
    """Find the best of several generators, prompt by prompt; those that the leader beats drop out.

    The best one drops out in at most 5% of races: the error is split over its k - 1 comparisons (Bonferroni).

    Args:
        names: Of the generators.
        span: Width of the scale, as in `settle`.
        margin: Equivalence margin, as in `settle`.
    """

    names: Sequence[str]
    span: float
    margin: float | None = None
    prompts: int = 0
    judged: int = 0  # prompts x generators that were still in
    left: list[str] = field(default_factory=list)
    verdict: str = OPEN

    def __post_init__(self) -> None:
        k = len(self.names)
        self.left = list(self.names)
        self._sum, self._squares = np.zeros((k, k)), np.zeros((k, k))
        self._level = 1 - (1 - LEVEL) / max(1, k - 1)

    @property
    def over(self) -> bool:
        """Whether there is a verdict."""
        return self.verdict != OPEN

    def add(self, scores: Sequence[float]) -> None:
        """Add the scores of one more prompt, in the order of the names; those of generators that dropped out are ignored."""
        place = [self.names.index(name) for name in self.left]
        self.prompts += 1
        self.judged += len(place)
        mine = np.asarray(scores, dtype=np.float64)[place]
        d = score_differences(mine[:, None], mine[None, :])
        at = np.ix_(place, place)
        self._sum[at] += d
        self._squares[at] += d**2
        if self.prompts < FEWEST:
            return
        half = radius(self.prompts, self._squares[at] + self.span**2, self._level)
        low, high = self._sum[at] / self.prompts - half, self._sum[at] / self.prompts + half
        best = int(np.argmax(self._sum[at].sum(axis=1)))
        kept = [k for k in range(len(place)) if k == best or not low[best, k] > 0]
        self.left = [self.names[place[k]] for k in kept]
        if len(kept) == 1:
            self.verdict = self.left[0]
        elif self.margin is not None:
            inside = (low > -self.margin) & (high < self.margin)
            np.fill_diagonal(inside, True)
            if inside[np.ix_(kept, kept)].all():
                self.verdict = EQUIVALENT

    def interval(self) -> Interval | None:
        """Return the interval of the first mean minus the second in a race of two; else None."""
        if len(self.names) != 2 or not self.prompts:
            return None
        half = radius(self.prompts, self._squares[0, 1] + self.span**2, self._level)
        mean = self._sum[0, 1] / self.prompts
        return float(mean - half), float(mean + half)
