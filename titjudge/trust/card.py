"""The trust card: for each thing that a judge should do, an effect, an interval, a p-value and a verdict.

Effects on scores are in units of the judge's own span: 1 is the distance between its mean for images that show everything
and for those that show a third (levels 0 and 3 of the known answers), so that judges with different scales compare.

Each line has a limit. A judge is `caught` when it is beyond the limit with p < 0.01, it passes when the whole 95% interval is
on the right side of it, and else there is not enough data, and the line says how many more prompts would probably be enough.
The p-value is for a judge exactly at the limit: one well inside is caught far less often than once in a hundred. The unit of
all statistics is the prompt: Student's t over the means of prompts (flipping signs could not say p < 0.01 with fewer than
seven of them, and the bundled example has six). More trials make those means surer, never their number larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from titjudge.types import Table

CAUGHT, PASS, OPEN = "caught", "pass", "not enough data"
ALPHA = 0.01
FEWEST = 3  # prompts
POWER = 0.8  # of the prompts that a line without a verdict asks for
MOST_PROMPTS = 1000


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the card.

    `rule` says on which side of `limit` the effect should be: `at most`, `at least` or `within` (plus or minus).
    `p_value` is that of the catch: how likely an effect this bad, or worse, is for a judge exactly at the limit;
    `adjusted` is after Holm over all lines of the card.
    `trials` had their scores, `failed` lacked one. `deviation` is the standard deviation between prompts. `more` are the
    prompts that a line without a verdict lacks: with so many more its verdict falls with a chance of 80%, if effect and
    deviation are what they seem to be; None where that is unknown or over 1,000.
    """

    family: str
    name: str
    rule: str
    limit: float
    effect: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    adjusted: float | None
    verdict: str
    trials: int
    prompts: int
    failed: int = 0
    note: str = ""
    deviation: float | None = None
    more: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def line(
    family: str,
    name: str,
    rows: Sequence[tuple[str, float]],
    *,
    rule: str,
    limit: float,
    failed: int = 0,
    step: float = 0.0,
    bounds: tuple[float, float] | None = None,
    note: str = "",
) -> Line:
    """A line from (prompt, effect) rows.

    Args:
        rule: `at most`, `at least` or `within`.
        step: the least by which an effect can differ from another, for scores come in steps (shares: 1). Equal effects
            are then not certain: no standard deviation below that of such steps at the limit is believed.
        bounds: what the effect cannot leave; the interval is cut to it.
    Raises:
        ValueError: no such rule.
    """
    import numpy as np
    from scipy.special import stdtr, stdtrit

    if rule not in ("at most", "at least", "within"):
        raise ValueError(f"no such rule: {rule}")
    groups: dict[str, list[float]] = {}
    for group, effect in rows:
        groups.setdefault(group, []).append(effect)
    blank = Line(family, name, rule, limit, None, None, None, None, OPEN, len(rows), len(groups), failed, note)
    if not groups:
        return replace(blank, note=note or "no trial has its scores")
    means = np.array([np.mean(effects) for effects in groups.values()])
    effect = float(means.mean())
    if len(means) < FEWEST:
        return replace(blank, effect=effect, note=note or f"fewer than {FEWEST} prompts")
    deviation = max(float(means.std(ddof=1)), _least(step, limit) / (len(rows) / len(means)) ** 0.5)
    error, free = deviation / len(means) ** 0.5, len(means) - 1
    wide = float(stdtrit(free, 0.975)) * error
    above, below = float(stdtr(free, (limit - effect) / error)), float(stdtr(free, (effect - limit) / error))
    p_value = below if rule == "at least" else above
    if rule == "within":
        p_value = min(1.0, 2 * min(above, float(stdtr(free, (limit + effect) / error))))
    low, high = bounds or (-np.inf, np.inf)
    interval = (max(low, effect - wide), min(high, effect + wide))
    return replace(blank, effect=effect, interval=interval, p_value=p_value, deviation=deviation)


def _least(step: float, limit: float) -> float:
    """The standard deviation of what moves in steps, by `limit` on average: that of a coin where a step is larger than
    the limit, else of rounding."""
    return float(max((step * limit - limit**2) ** 0.5 if step > limit else step / 12**0.5, 1e-9))


def rate_line(family: str, name: str, bad: int, total: int, *, limit: float, note: str = "") -> Line:
    """A line from a count: exact binomial p-value, Wilson interval; the rate should be at most `limit`."""
    from scipy.stats import binomtest

    if not total:
        return Line(family, name, "at most", limit, None, None, None, None, OPEN, 0, 0, 0, "nothing was asked")
    found = binomtest(bad, total, limit, alternative="greater")
    low, high = binomtest(bad, total).proportion_ci(method="wilson")
    p_value = float(found.pvalue)
    return Line(
        family, name, "at most", limit, bad / total, (float(low), float(high)), p_value, None, OPEN, total, 0, 0, note
    )


def with_verdicts(lines: Sequence[Line]) -> list[Line]:
    """The lines with p-values after Holm and their verdicts."""
    order = sorted(
        (k for k, each in enumerate(lines) if each.p_value is not None), key=lambda k: lines[k].p_value or 0.0
    )
    done = list(lines)
    worst = 0.0
    for place, k in enumerate(order):
        raw = lines[k].p_value or 0.0
        worst = min(1.0, max(worst, raw * (len(order) - place)))
        verdict = CAUGHT if raw < ALPHA else PASS if _inside(lines[k]) else OPEN
        more = more_prompts(lines[k]) if verdict == OPEN else None
        done[k] = replace(lines[k], adjusted=worst, verdict=verdict, more=more)
    return done


def more_prompts(each: Line) -> int | None:
    """How many more prompts would give the line a verdict, `POWER` of the time; None when that is unknown or too many."""
    import numpy as np
    from scipy.special import stdtrit

    if each.effect is None or each.deviation is None:
        return None
    gap = each.effect - each.limit if each.rule == "at least" else each.limit - each.effect
    if each.rule == "within":
        gap = each.limit - abs(each.effect)
    sure = 0.975 if gap > 0 else 1 - ALPHA
    counts = np.arange(max(each.prompts + 1, FEWEST), each.prompts + MOST_PROMPTS + 1)
    wide = (stdtrit(counts - 1, sure) + stdtrit(counts - 1, POWER)) * each.deviation / np.sqrt(counts)
    enough = counts[wide <= abs(gap)]
    return int(enough[0]) - each.prompts if len(enough) else None


def _inside(each: Line) -> bool:
    if each.interval is None:
        return False
    low, high = each.interval
    if each.rule == "at least":
        return low >= each.limit
    return high <= each.limit and (each.rule == "at most" or low >= -each.limit)


@dataclass(frozen=True, slots=True)
class Card:
    """What is known of a judge.

    `models` and `versions` by role; `span` is the unit of the effects, in the metric's own; `price` in USD and `seconds`
    of model time are for 1,000 scores (None: unknown, or nothing was asked anew); `skipped` are lines that this judge
    cannot be asked for, with the reason.
    """

    metric: str
    models: dict[str, str]
    versions: dict[str, list[str]]
    lines: tuple[Line, ...]
    span: float | None
    scores: int
    price: float | None
    seconds: float | None
    skipped: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def caught(self) -> list[Line]:
        return [each for each in self.lines if each.verdict == CAUGHT]

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "models": self.models,
            "versions": self.versions,
            "span": self.span,
            "scores": self.scores,
            "price_per_1000": self.price,
            "seconds_per_1000": self.seconds,
            "lines": [each.to_json() for each in self.lines],
            "skipped": self.skipped,
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        rows = tuple(
            (
                each.family,
                each.name,
                _effect(each),
                f"{each.rule} {each.limit:g}",
                _p(each.p_value),
                each.verdict,
                _counts(each),
                _lacks(each),
            )
            for each in self.lines
        )
        columns = ("", "test", "effect [95%]", "should be", "p", "verdict", "trials", "lacks")
        notes = [
            ", ".join(f"{sum(each.verdict == kind for each in self.lines)} {kind}" for kind in (PASS, CAUGHT, OPEN))
        ]
        models = ", ".join(f"{role} {model}" for role, model in self.models.items())
        unit = "unknown" if self.span is None else f"{self.span:.4g}"
        notes += [
            f"{self.metric} ({models}); {self.scores} scores; effects on scores in units of the judge's own span, {unit}",
            *self.notes,
            *_not_tested(self.skipped),
        ]
        price = "unknown" if self.price is None else f"{self.price:.2f} USD"
        seconds = "unknown" if self.seconds is None else f"{self.seconds:.0f} s of model time"
        notes.append(f"per 1,000 scores: {price}, {seconds}")
        return [Table("Trust card", columns, rows, tuple(notes))]


def _not_tested(skipped: Mapping[str, str]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for name, reason in skipped.items():
        by_reason.setdefault(reason, []).append(name)
    return [f"not tested: {', '.join(names)}: {reason}" for reason, names in by_reason.items()]


def _effect(each: Line) -> str | None:
    if each.effect is None:
        return None
    bracket = f" [{each.interval[0]:.3f}, {each.interval[1]:.3f}]" if each.interval else ""
    return f"{each.effect:.3f}{bracket}"


def _p(value: float | None) -> str | None:
    return None if value is None else "<0.0001" if value < 0.0001 else f"{value:.4f}"


def _lacks(each: Line) -> str | None:
    """What a line without a verdict lacks, and what else is to be said of it."""
    if each.verdict != OPEN or each.deviation is None:
        return each.note or ("more answers" if each.verdict == OPEN and each.trials else None)
    prompts = f"over {MOST_PROMPTS} prompts: it is at the limit" if each.more is None else f"about {each.more} prompts"
    return f"{prompts}; {each.note}" if each.note else prompts


def _counts(each: Line) -> str:
    prompts = f" of {each.prompts} prompts" if each.prompts else ""
    return f"{each.trials}{prompts}" + (f", {each.failed} without a score" if each.failed else "")
