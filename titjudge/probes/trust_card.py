"""The trust card: for each thing that a judge should do, an effect, an interval, a p-value and a verdict.

Effects on scores are in units of the judge's own span: 1 is the distance between its mean for images that show everything
and for those that show a third (levels 0 and 3 of the known answers), so that judges with different scales compare.

Each line has a limit. A judge is `caught` when it is beyond the limit with p < 0.01 after Holm over the lines of the family,
it passes when the whole 95% interval is on the right side of it, and else there is not enough data, and the line says how
many more prompts like these would be enough. The unit of all statistics is the prompt: more trials make the means of prompts
surer, never their number larger. Nothing is taken for granted of prompts that were not seen: there an error may go unnoticed,
an attack may work by a whole span (see `bounds`). Six prompts without an effect leave up to 46% of prompts open, so
"it does nothing" needs more of them: 72 at a limit of 0.05.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Any

from titjudge.core.types import Table
from titjudge.stats.bootstrap import Floats
from titjudge.stats.bounds import approximate_bound, below, bound

CAUGHT, PASS, OPEN = "caught", "pass", "not enough data"
ALPHA = 0.01
FEWEST = 3  # prompts
TAIL = 0.025  # of a 95% interval
MOST_PROMPTS = 1000


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the card.

    `rule` says on which side of `limit` the effect should be: `at most`, `at least` or `within` (plus or minus).
    `p_value` is that of the catch: how likely an effect this bad, or worse, is for a judge exactly at the limit;
    `adjusted` is after Holm over the lines of the family, and decides.
    `trials` had their scores, `failed` lacked one. `deviation` is the standard deviation between prompts. `more` are the
    prompts that a line without a verdict lacks, if those to come are like those seen; None where that is unknown or over
    1,000. `means` are the effects of the prompts, and `ends` what a prompt that was not seen may show.
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
    ends: tuple[float, float] | None = None
    means: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("ends", "means")}


def line(
    family: str,
    name: str,
    rows: Sequence[tuple[str, float]],
    *,
    rule: str,
    limit: float,
    failed: int = 0,
    bounds: tuple[float, float] | None = None,
    note: str = "",
) -> Line:
    """Make a line from (prompt, effect) rows.

    Args:
        family: The family within which p-values are adjusted.
        name: The name of the line.
        rows: The effect on each image, with its prompt.
        rule: `at most`, `at least` or `within`.
        limit: What the effect is compared with.
        failed: How many images have no effect, for want of an answer.
        note: What else is to be said of it.
        bounds: What the effect of a prompt cannot leave; an effect in spans is taken to lie between nothing and one span.

    Raises:
        ValueError: no such rule.
    """
    import numpy as np

    if rule not in ("at most", "at least", "within"):
        raise ValueError(f"no such rule: {rule}")
    groups: dict[str, list[float]] = {}
    for group, effect in rows:
        groups.setdefault(group, []).append(effect)
    blank = Line(family, name, rule, limit, None, None, None, None, OPEN, len(rows), len(groups), failed, note)
    if not groups:
        return replace(blank, note=note or "no trial has its scores")
    means = np.array([fsum(effects) / len(effects) for effects in groups.values()])
    effect = float(means.mean())
    if len(means) < FEWEST:
        return replace(blank, effect=effect, note=note or f"fewer than {FEWEST} prompts")
    deviation = float(means.std(ddof=1))
    low, high = _ends(means, rule, limit, bounds)
    interval = (bound(means, low, TAIL), bound(means, high, TAIL))
    p_value = _p_of(means, rule, limit, bounds)
    return replace(
        blank,
        effect=effect,
        interval=interval,
        p_value=p_value,
        deviation=deviation,
        ends=(low, high),
        means=tuple(means.tolist()),
    )


def _ends(means: Floats, rule: str, limit: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Bound what a prompt that was not seen may show, at the least and at the most."""
    least, most = bounds or (0.0, 1.0)
    if rule == "within":  # of what moves one way, no prompt is taken to move the other way
        effect = float(means.mean())
        least, most = (0.0 if effect > limit else -1.0), (0.0 if effect < -limit else 1.0)
    return min(least, float(means.min())), max(most, float(means.max()))


def _p_of(means: Floats, rule: str, limit: float, bounds: tuple[float, float] | None) -> float:
    """How likely an effect this bad is at the limit, whatever the prompts that were not seen would show."""
    import numpy as np

    least, most = bounds or (0.0, 1.0)
    if rule == "at least":
        return float(below(-means, min(-most, float((-means).min())), np.array([-limit]))[0])
    if rule == "at most":
        return float(below(means, min(least, float(means.min())), np.array([limit]))[0])
    up = float(below(means, min(0.0, float(means.min())), np.array([limit]))[0])
    down = float(below(-means, min(0.0, float((-means).min())), np.array([limit]))[0])
    return min(1.0, 2 * min(up, down))


def with_verdicts(lines: Sequence[Line]) -> list[Line]:
    """Give the lines p-values after Holm over those of their family, and their verdicts."""
    done = list(lines)
    for family in dict.fromkeys(each.family for each in lines):
        tested = [
            (each.p_value, k) for k, each in enumerate(lines) if each.family == family and each.p_value is not None
        ]
        worst = 0.0
        for place, (raw, k) in enumerate(sorted(tested)):
            worst = min(1.0, max(worst, raw * (len(tested) - place)))
            verdict = CAUGHT if worst < ALPHA else PASS if _inside(lines[k]) else OPEN
            more = more_prompts(lines[k]) if verdict == OPEN else None
            done[k] = replace(lines[k], adjusted=worst, verdict=verdict, more=more)
    return done


def more_prompts(each: Line) -> int | None:
    """How many more prompts like these would give the line a verdict; None when that is unknown or too many."""
    import numpy as np

    if each.effect is None or each.ends is None:
        return None
    means, limit = np.array(each.means), each.limit
    counts = np.arange(each.prompts + 1, each.prompts + MOST_PROMPTS + 1, dtype=np.float64)

    def side(end: float, alpha: float) -> Floats:
        return approximate_bound(means, end, alpha, counts)

    low, high = each.ends
    passes = {
        "at most": lambda: side(high, TAIL) <= limit,
        "at least": lambda: side(low, TAIL) >= limit,
        "within": lambda: (side(high, TAIL) <= limit) & (side(low, TAIL) >= -limit),
    }[each.rule]()
    caught = {
        "at most": lambda: side(low, ALPHA) > limit,
        "at least": lambda: side(high, ALPHA) < limit,
        "within": lambda: (side(low, ALPHA / 2) > limit) | (side(high, ALPHA / 2) < -limit),
    }[each.rule]()
    enough = counts[passes | caught]
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
        """The lines in which the judge was caught."""
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
    """Say what a line without a verdict lacks, and what else is to be said of it."""
    if each.verdict != OPEN or each.deviation is None:
        return each.note or ("more answers" if each.verdict == OPEN and each.trials else None)
    prompts = f"over {MOST_PROMPTS} prompts: it is at the limit" if each.more is None else f"about {each.more} prompts"
    return f"{prompts}; {each.note}" if each.note else prompts


def _counts(each: Line) -> str:
    prompts = f" of {each.prompts} prompts" if each.prompts else ""
    return f"{each.trials}{prompts}" + (f", {each.failed} without a score" if each.failed else "")
