"""Transfer a leaderboard from one judge to another, by a linear regression over the generators that both have judged.

The line through the mean scores of these anchors must rise, so that it keeps the order; a transferred score has a 95%
prediction interval (Student's t with n - 2 degrees of freedom), wider if the generator has no score on some of the common prompts. `python -m benchmarks.verdicts --answers OLD NEW` measures
its coverage for generators that were left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from titjudge.core.declarations import ESTIMATED, Declaration, Exclusion, Population, Unit
from titjudge.core.errors import DataError
from titjudge.core.types import Json, Note, Table, Values
from titjudge.stats.bootstrap import Floats, Interval, Ints, unit_sums
from titjudge.stats.equality import with_ties
from titjudge.stats.generators.slices import averages
from titjudge.stats.intervals import TAIL, mean_interval
from titjudge.stats.scores.population import adjusted_scores, compared
from titjudge.stats.scores.scores_table import ScoreTable

BRIDGE = Declaration(
    "bridge",
    "scores on the new judge's scale",
    Population.PROMPTS_OF_JUDGES,
    Unit.PROMPT,
    ESTIMATED,
    "score, best first",
)

FEWEST = 4  # anchors
_SHARE = 0.5  # of the common prompts for which a generator must have a score


@dataclass(frozen=True, slots=True)
class BridgeLine:
    """Least-squares line through the anchors: mean scores `x` by the old judge, `y` by the new one."""

    x: Floats
    y: Floats

    @property
    def slope(self) -> float:
        """Change of the new judge's score for each unit of the old judge's score."""
        x = self.x - self.x.mean()
        return float(x @ self.y / (x @ x)) if x @ x > 0 else 0.0

    @property
    def spread(self) -> float:
        """Residual standard deviation of the anchors."""
        residuals = self.y - self.y.mean() - self.slope * (self.x - self.x.mean())
        return float(np.sqrt(residuals @ residuals / (len(self.x) - 2)))

    def predict(self, old_score: float, uncertain: float = 0.0) -> tuple[float, Interval]:
        """Predict the new judge's score of a generator, with a 95% prediction interval.

        Args:
            old_score: The generator's mean score by the old judge.
            uncertain: Half-width of the 95% interval of `old_score`, for a generator that has only some of the anchors' prompts.
        """
        from titjudge.stats.special import stdtrit

        n, off = len(self.x), old_score - float(self.x.mean())
        squares = float(((self.x - self.x.mean()) ** 2).sum())
        value = float(self.y.mean()) + self.slope * off
        half = -float(stdtrit(n - 2, TAIL)) * self.spread * (1 + 1 / n + off**2 / squares) ** 0.5
        half = float(np.hypot(half, self.slope * uncertain))
        return value, (value - half, value + half)


@dataclass(frozen=True, slots=True)
class BridgedGenerator:
    """A generator on the new leaderboard.

    Attributes:
        carried: Whether the score is predicted from the old judge's, with a prediction interval; if not, it was measured.
        outside: Whether the old score lies outside the range of the anchors.
    """

    generator: str
    carried: bool
    score: float
    interval: Interval | None
    prompts: int
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Bridge:
    """The new judge's leaderboard with the old judge's generators on it.

    Attributes:
        held: Anchors with a measured score that lies in the interval predicted from the other anchors (leave-one-out).
        half_width: Median half-width of these intervals.
        unbridged: Largest difference between the two judges' scores of an anchor.
        prompts: Prompts that both judges have.
        left_out: Generators with too few common prompts on one of the boards: fewer than half, or than `FEWEST`.
        lacking: The common prompts for which one of the judges that have a generator has no score of it, by its name.
        families: Whether families of prompts are the unit.
    """

    anchors: tuple[str, ...]
    line: BridgeLine
    standings: tuple[BridgedGenerator, ...]
    held: int
    half_width: float
    unbridged: float
    prompts: int
    left_out: tuple[str, ...]
    lacking: dict[str, list[str]]
    families: bool = False

    def to_json(self) -> Json:
        """Return the leaderboard, the line and its leave-one-out error."""
        return {
            "anchors": list(self.anchors), "prompts": self.prompts,
            "map": {"slope": self.line.slope, "spread": self.line.spread,
                    "intercept": float(self.line.y.mean() - self.line.slope * self.line.x.mean())},
            "leave_one_out": {"held": self.held, "of": len(self.anchors), "half_width": self.half_width,
                              "error_without_bridge": self.unbridged},
            "generators": list(self.standings), "left_out": list(self.left_out),
            "lacking": {name: len(prompts) for name, prompts in self.lacking.items()},
        }  # fmt: skip


def bridge(old: ScoreTable, new: ScoreTable) -> Bridge:
    """Predict the new judge's scores of the generators that only the old judge has judged.

    Means are over the prompts that both judges have (`population.adjusted_scores`, if scores are missing); a generator with
    fewer than half of them is left out.

    Raises:
        DataError: Prompts with the same id and another text, fewer than two common prompts or four common generators, anchors that all but one have the same old score
            or all the same new one, or a line that does not rise.
    """
    prompts = _common_prompts(old, new)
    old_board, new_board = _means(old, prompts), _means(new, prompts)
    anchors = tuple(sorted(set(old_board) & set(new_board)))
    if len(anchors) < FEWEST:
        named = ", ".join(anchors) or "none"
        raise DataError(
            f"{len(anchors)} anchors ({named}) are too few for a score mapping. Score {FEWEST} with both judges",
            new.source,
        )
    pairs = _paired(old, new, anchors, prompts)
    if not np.isfinite(pairs).all():
        raise DataError("some anchors share no prompt with the others. Judge the same prompts for all", new.source)
    pairs[:, 0] = with_ties(pairs[:, 0])
    held_out = [np.delete(pairs, k, axis=0) for k in range(len(anchors))]
    line = _rising_line(pairs, held_out, old.source, new.source)
    measured = [BridgedGenerator(name, False, *measurement) for name, measurement in new_board.items()]
    carried = [_carried(line, old, name, prompts) for name in old_board if name not in new_board]
    standings = [
        replace(standing, score=new.sign * standing.score, interval=new.printed(standing.interval))
        for standing in sorted([*measured, *carried], key=lambda standing: (-standing.score, standing.generator))
    ]
    signed = pairs * (old.sign, new.sign)
    predicted = [BridgeLine(*rest.T).predict(score)[1] for rest, score in zip(held_out, pairs[:, 0], strict=True)]
    return Bridge(
        anchors,
        BridgeLine(*signed.T),
        tuple(standings),
        held=sum(bool(low <= y <= high) for (low, high), y in zip(predicted, pairs[:, 1], strict=True)),
        half_width=float(np.median([(high - low) / 2 for low, high in predicted])),
        unbridged=float(np.abs(signed[:, 0] - signed[:, 1]).max()),
        prompts=len(prompts),
        left_out=tuple(sorted({*old.generators} - old_board.keys() | {*new.generators} - new_board.keys())),
        lacking=_lacking((old, new), prompts, (old_board, new_board)),
        families=new.unit is not None,
    )


def _common_prompts(old: ScoreTable, new: ScoreTable) -> list[str]:
    """List the prompts that both judges have, without prompts that only uncomparable generators have.

    Raises:
        DataError: There are fewer than two, or one has another text for each of the judges.
    """
    prompts = sorted(_scored(old) & _scored(new))
    if len(prompts) < 2:
        raise DataError(f"only {len(prompts)} prompts are common with {old.source}. Judge two or more", new.source)
    if other := [name for name in prompts if _other_text(name, old, new)]:
        what = f"{len(other):,} of {len(prompts):,} prompts have a different text in {old.source} under the same id ('{other[0]}')"
        raise DataError(f"{what}. Judge the same prompts with both judges", new.source)
    return prompts


def _scored(table: ScoreTable) -> set[str]:
    means = table.means[:, compared(table.means, table.unit)]
    return set(compress(table.prompts, np.isfinite(means).sum(axis=1)))


def _carried(line: BridgeLine, old: ScoreTable, name: str, prompts: Sequence[str]) -> BridgedGenerator:
    """Predict the new score of a generator that only the old judge has judged."""
    rows, unit, column = _rows(old, prompts), _units(old, prompts), old.column(name)
    adjusted = _adjusted(rows, unit)
    scored = np.isfinite(rows[:, column])
    mean = _mean(adjusted[:, column])
    levels = averages(
        (np.delete(rows - averages(adjusted), column, axis=1)).T
    )  # of the prompts, by the other generators
    score, interval = line.predict(mean, _uncertain(rows[:, column] - np.nan_to_num(levels), unit))
    outside = not line.x.min() <= mean <= line.x.max()
    return BridgedGenerator(name, True, score, interval, int(scored.sum()), outside)


def _other_text(prompt: str, old: ScoreTable, new: ScoreTable) -> bool:
    """Return True if a prompt has two known, different texts."""
    return prompt in old.texts and prompt in new.texts and old.texts[prompt] != new.texts[prompt]


def _lacking(tables: Sequence[ScoreTable], prompts: Sequence[str], boards: Sequence[Values]) -> dict[str, list[str]]:
    """List the prompts without a score of each generator on one of the boards, by name."""
    scored: Json = {}
    for table, board in zip(tables, boards, strict=True):
        rows = np.isfinite(_rows(table, prompts))
        for name in board:
            scored[name] = rows[:, table.column(name)] & scored.get(name, True)
    return {name: [*compress(prompts, ~column)] for name, column in sorted(scored.items()) if not column.all()}


def _rising_line(pairs: Floats, held_out: Sequence[Floats], old: str, new: str) -> BridgeLine:
    """Draw the line through the anchors.

    Args:
        pairs: Scores of the anchors by the old and the new judge, shape (anchors, 2).
        held_out: The same without each anchor.
        old: The source of the old judge's scores.
        new: The source of the new judge's scores.

    Raises:
        DataError: There is no line, or it does not rise.
    """
    if not all(np.ptp(rest[:, 0]) for rest in held_out):
        what = f"at most one of the {len(pairs)} anchors has a different score"
        raise DataError(f"{what}, so no line fits them. Add anchors", old)
    if not np.ptp(with_ties(pairs[:, 1])):
        raise DataError("all anchors have the same score, so no line fits them. Add anchors", new)
    line = BridgeLine(pairs[:, 0], pairs[:, 1])
    if not line.slope > 0:
        raise DataError(
            "the two judges order the anchors in opposite ways, so scores cannot be mapped. Choose another judge", new
        )
    return line


def _adjusted(means: Floats, unit: Ints | None) -> Floats:
    """Return `adjusted_scores` of the generators that can be compared, and NaN for the others."""
    return adjusted_scores(np.where(compared(means, unit), means, np.nan))


def _rows(table: ScoreTable, prompts: Sequence[str]) -> Floats:
    place = {prompt: row for row, prompt in enumerate(table.prompts)}
    return table.means[[place[prompt] for prompt in prompts]]


def _units(table: ScoreTable, prompts: Sequence[str]) -> Ints | None:
    if table.unit is None:
        return None
    unit_of = dict(zip(table.prompts, table.unit.tolist(), strict=True))
    return np.array([unit_of[prompt] for prompt in prompts])


def _means(table: ScoreTable, prompts: Sequence[str]) -> dict[str, tuple[float, Interval | None, int]]:
    """Return mean, interval and number of prompts of each generator with at least half of these prompts."""
    means, unit = _rows(table, prompts), _units(table, prompts)
    adjusted, counts = _adjusted(means, unit), np.isfinite(means).sum(axis=0).tolist()
    boards = {}
    for k, name in enumerate(table.generators):
        if counts[k] >= max(2, _SHARE * len(prompts)) and np.isfinite(adjusted[:, k]).any():
            boards[name] = _mean(adjusted[:, k]), mean_interval(adjusted[:, k], table.bounds, unit), counts[k]
    return boards


def _uncertain(scores: Floats, unit: Ints | None) -> float:
    """Compute the half-width of the 95% interval of the mean over all prompts (or families), of which some have a score.

    The mean is adjusted for the prompts, and so are these scores: how hard a prompt is adds nothing to its error.
    """
    from titjudge.stats.special import stdtrit

    sums, sizes = unit_sums(scores, unit)
    units = len(scores) if unit is None else len(np.unique(unit))
    lacking = 1 / len(sums) - 1 / units  # of a finite population: 0 if every prompt has a score
    return float(-stdtrit(len(sums) - 1, TAIL) * (sums / sizes).std(ddof=1) * lacking**0.5)


def _paired(old: ScoreTable, new: ScoreTable, names: Sequence[str], prompts: Sequence[str]) -> Floats:
    """Average each anchor's scores by each judge, over one set of prompts, from the images that both have scored: shape (anchors, 2)."""
    x, y = (_rows(table, prompts)[:, [table.column(name) for name in names]] for table in (old, new))
    both = np.isfinite(x) & np.isfinite(y)
    if few := [name for name, count in zip(names, both.sum(axis=0), strict=True) if count < 2]:
        raise DataError(f"'{few[0]}' has fewer than two prompts that both judges have scored. Judge more", new.source)
    adjusted = [adjusted_scores(np.where(both, scores, np.nan)) for scores in (x, y)]
    return np.array([[_mean(scores[:, k]) for scores in adjusted] for k in range(len(names))])


def _mean(scores: Floats) -> float:
    """Average the scores that there are; NaN without any."""
    scored = scores[np.isfinite(scores)]
    return float(scored.mean()) if len(scored) else np.nan


def bridge_table(bridged: Bridge) -> Table:
    """Tabulate the leaderboard."""
    rows = tuple(
        (
            standing.generator,
            "carried over" if standing.carried else "measured",
            standing.score,
            *(standing.interval or (None, None)),
            standing.prompts,
        )
        for standing in bridged.standings
    )
    line = (
        f"map through {len(bridged.anchors)} anchors: slope {bridged.line.slope:.3f}, spread "
        f"{bridged.line.spread:.4g}; of anchors left out one by one {bridged.held} of {len(bridged.anchors)} lie within their "
        f"interval, half-width {bridged.half_width:.4g} (without a bridge scores differ by up to {bridged.unbridged:.4g})"
    )
    intervals = "measured: mean with 95% interval; carried over: 95% prediction interval"
    notes = [Note("intervals_of_bridge", intervals), Note("line_of_bridge", line)]
    if outside := [standing.generator for standing in bridged.standings if standing.outside]:
        line = f"beyond the anchors, where the line is a guess: {', '.join(outside)}"
        notes.append(Note("beyond_anchors", line))
    few: dict[str, list[str]] = {name: [] for name in bridged.left_out}
    declared = BRIDGE.over(
        bridged.prompts, {Exclusion.ESTIMATED: bridged.lacking, Exclusion.TOO_FEW: few}, families=bridged.families
    )
    return Table(
        "The old board on the new judge's scale",
        ("generator", "", "score", "low", "high", "prompts"),
        rows,
        tuple(notes),
        declared=declared,
    )
