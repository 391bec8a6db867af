"""The trust card: an effect, an interval, a p-value and a verdict for each test of a judge.

Effects on scores are in units of the judge's own span: 1 is the distance between its mean for images without errors and
for images with the most errors (levels 0 and 3 of the known answers), so that judges with different scales can be
compared.

Each line has a limit. A judge is `caught` when its effect is beyond the limit with p < 0.01 after Holm's correction over
the lines of the family. It passes when the whole 95% interval is within the limit. Otherwise there is not enough data,
and the line gives the number of further prompts that would be enough. The unit of all statistics is the prompt: more
trials make the means of prompts more precise, and do not add prompts. No assumption is made about prompts that were not
seen, except
that their effect is bounded: an error may go unnoticed there, give or take the noise that the seen ones show, and an
attack may move the score over the metric's whole range (see `bounds`). Six prompts without an effect leave open that up
to 46% of all prompts have one; to show that there is none takes 72 prompts at a limit of 0.05 for a judge whose span is
the whole range of its metric, and twice as many if it is half of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, inf

from titjudge.core.types import Json
from titjudge.report.card_record import CAUGHT, MOST_PROMPTS, OPEN, PASS, CardLine, LimitRule
from titjudge.stats.bootstrap import Floats
from titjudge.stats.intervals import approximate_bound, below, bound

ALPHA = 0.01
FEWEST = 3  # prompts
TAIL = 0.025  # of a 95% interval


class Line(CardLine):
    """A line of the card, with the data of its verdict.

    Attributes:
        ends: Least and greatest effect that a prompt that was not seen may have.
        means: The effects of the prompts.
    """

    limit: float
    ends: tuple[float, float] | None = None
    means: tuple[float, ...] = ()

    @property
    def allowed(self) -> tuple[float, float]:
        """The least and the greatest effect that the rule allows."""
        return _allowed(self.rule, self.limit)


def untested(
    family: str, name: str, rule: str, limit: float, *, trials: int = 0, prompts: int = 0, failed: int = 0, note: str
) -> Line:
    """Make a line without an effect; all of its keys are in card.json."""
    return Line(
        family=family,
        name=name,
        rule=rule,
        limit=limit,
        effect=None,
        interval=None,
        p_value=None,
        adjusted=None,
        verdict=OPEN,
        trials=trials,
        prompts=prompts,
        failed=failed,
        note=note,
        deviation=None,
        more=None,
    )


def _allowed(rule: str, limit: float) -> tuple[float, float]:
    return {LimitRule.AT_MOST: (-inf, limit), LimitRule.AT_LEAST: (limit, inf), LimitRule.WITHIN: (-limit, limit)}[
        LimitRule(rule)
    ]


def line(
    family: str,
    name: str,
    rows: Sequence[tuple[str, float]],
    *,
    rule: str,
    limit: float,
    failed: int = 0,
    bounds: tuple[float, float] | None = None,
    reach: float = 1.0,
    note: str = "",
) -> Line:
    """Compute a line from the effects of its trials.

    Args:
        family: The family within which p-values are adjusted.
        name: Name of the line.
        rows: (prompt, effect) of each trial.
        rule: `at most`, `at least` or `within`.
        limit: The limit of the effect.
        failed: Number of trials without an effect, because there was no answer.
        note: A remark to print with the line.
        bounds: Least and greatest possible effect of a prompt, if noise cannot move it beyond them (a share); by
            default an error is noticed by 0, less the noise, to one span, and an attack works by 0 to `reach`.
        reach: The largest change of a prompt's mean that an attack can cause, in units of the effect.

    Raises:
        ValueError: There is no such rule.
    """
    import numpy as np

    rule = LimitRule(rule)
    groups: dict[str, list[float]] = {}
    for group, effect in rows:
        groups.setdefault(group, []).append(effect)
    counts = {"trials": len(rows), "prompts": len(groups), "failed": failed}
    if not groups:
        return untested(family, name, rule, limit, **counts, note=note or "no trial has its scores")
    means = np.array([fsum(effects) / len(effects) for effects in groups.values()])
    few = len(means) < FEWEST
    found = untested(family, name, rule, limit, **counts, note=note or (f"fewer than {FEWEST} prompts" if few else ""))
    changes: Json = {"effect": float(means.mean())}
    if not few:
        low, high = _ends(means, rule, limit, bounds, reach)
        changes |= {
            "interval": (bound(means, low, TAIL), bound(means, high, TAIL)),
            "p_value": _p_value(means, rule, limit, bounds),
            "deviation": float(means.std(ddof=1)),
            "ends": (low, high),
            "means": tuple(means.tolist()),
        }
    return found.model_copy(update=changes)


def _ends(
    means: Floats, rule: str, limit: float, bounds: tuple[float, float] | None, reach: float
) -> tuple[float, float]:
    """Bound the effect of a prompt that was not seen, from below and from above.

    A judge that only guesses has effects on both sides of 0. Were 0, or the least effect seen, the least of all, six
    guesses that happen to be positive would pass too often: hence the standard deviation.
    """
    if rule == LimitRule.WITHIN:  # if the mean effect is beyond the limit, no prompt is taken to move the other way
        effect = float(means.mean())
        least, most = (0.0 if effect > limit else -reach), (0.0 if effect < -limit else reach)
    else:
        least, most = bounds or ((0.0, reach) if rule == LimitRule.AT_MOST else (-float(means.std(ddof=1)), 1.0))
    return min(least, float(means.min())), max(most, float(means.max()))


def _p_value(means: Floats, rule: str, limit: float, bounds: tuple[float, float] | None) -> float:
    """Compute the probability of an effect this far beyond what is allowed, for a judge exactly at the limit."""
    import numpy as np

    low, high = _allowed(rule, limit)
    least, most = (0.0, 0.0) if rule == LimitRule.WITHIN else bounds or (0.0, 1.0)
    sides = [(means, least, high), (-means, -most, -low)]  # too high; too low, with all signs changed
    tails = [
        float(below(effects, min(end, float(effects.min())), np.array([edge]))[0])
        for effects, end, edge in sides
        if edge < inf
    ]
    return min(1.0, len(tails) * min(tails))


def with_verdicts(lines: Sequence[Line]) -> list[Line]:
    """Add the p-values after Holm's correction over the lines of each family, and the verdicts."""
    judged = list(lines)
    for family in dict.fromkeys(line.family for line in lines):
        tested = sorted(
            (line.p_value, k) for k, line in enumerate(lines) if line.family == family and line.p_value is not None
        )
        adjusted = 0.0
        for place, (p, k) in enumerate(tested):
            adjusted = min(1.0, max(adjusted, p * (len(tested) - place)))
            verdict = CAUGHT if adjusted < ALPHA else PASS if _within_limits(lines[k]) else OPEN
            more = more_prompts(lines[k]) if verdict == OPEN else None
            judged[k] = lines[k].model_copy(update={"adjusted": adjusted, "verdict": verdict, "more": more})
    return judged


def more_prompts(line: Line) -> int | None:
    """Estimate how many more prompts like these would give the line a verdict; None when unknown or over 1,000."""
    import numpy as np

    if line.effect is None or line.ends is None:
        return None
    means = np.array(line.means)
    counts = np.arange(line.prompts + 1, line.prompts + MOST_PROMPTS + 1, dtype=np.float64)

    def interval(alpha: float) -> list[Floats]:
        return [approximate_bound(means, end, alpha, counts) for end in line.ends or ()]

    least, most = line.allowed
    (low, high), (lowest, highest) = interval(TAIL), interval(ALPHA / 2 if line.rule == LimitRule.WITHIN else ALPHA)
    passes, caught = (low >= least) & (high <= most), (lowest > most) | (highest < least)
    enough = counts[passes | caught]
    return int(enough[0]) - line.prompts if len(enough) else None


def _within_limits(line: Line) -> bool:
    (least, most), interval = line.allowed, line.interval
    return interval is not None and interval[0] >= least and interval[1] <= most
