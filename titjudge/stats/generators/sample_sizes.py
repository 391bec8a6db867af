"""Sample sizes for comparing generators: when a sequential test would have stopped, and how many prompts the next comparison takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from titjudge.core.errors import DataError
from titjudge.core.formats import number
from titjudge.core.tables import Cell, CellFormat, Table, dollars
from titjudge.stats.generators.comparison_tables import Scale
from titjudge.stats.generators.planning import SHORT, Pilot, PowerCurve, curve, plans
from titjudge.stats.generators.replay_settling import replay_pairs, verdicts
from titjudge.stats.generators.sequential import FEWEST
from titjudge.stats.scores.scores_table import ScoreTable

ORDERS = 20
POWER = 0.8
_SHARES = (0.01, 0.02, 0.05)  # of the scale: the differences to plan for


def settling(scores: ScoreTable, best: str) -> list[Table]:
    """Tabulate after how many prompts, in random orders, a sequential test would have told the best from each other generator."""
    rows = []
    for name in scores.generators:
        if name == best:
            continue
        try:
            replays = replay_pairs(scores, [(best, name)], repeat=ORDERS)
        except DataError:  # fewer than two common prompts
            continue
        used, of = float(np.mean([each.used for each in replays])), replays[0].of
        if of < FEWEST:
            continue
        spared = None if scores.cost is None else dollars(2 * scores.cost * (of - used))
        share = Cell(used / of, CellFormat.PERCENT, bar=True)
        rows.append((name, verdicts(each.verdict for each in replays), round(used), of, share, spared))
    notes = (
        f"`judge --settle` replayed on these scores: {ORDERS} random orders of the prompts, stopped when an interval that holds at "
        "every moment leaves zero"
        + (
            f" (asymptotic, as the scale has no ends: at {FEWEST} prompts at the earliest)"
            if scores.width is None
            else ""
        )
        + ". Open: the prompts did not settle it.",
    )
    columns = (f"{best} against", "verdict", "prompts used", "of", "share", "spared")
    table = Table("Had it stopped when it was settled", columns, tuple(rows), notes, axis=(0, 1))
    return [table] if rows else []


class Planning(NamedTuple):
    """How many prompts a difference needs: a table, the power by number of prompts, and the end of its axis."""

    table: Table
    curves: list[PowerCurve]
    most: float


def planning(scores: ScoreTable, best: str, order: Sequence[int], scale: Scale) -> Planning | None:
    """Tabulate how many prompts a difference needs, with the best and its runner-up as the pilot; None where it tells nothing."""
    others = [scores.generators[k] for k in order if scores.generators[k] != best]
    try:
        pilot = Pilot.from_scores(scores, best, others[0])
    except DataError:  # too few prompts, or all with the same difference
        return None
    if pilot.prompts < SHORT:
        return None
    known = scores.means[np.isfinite(scores.means)]
    low, high = (
        scale.range if scale.range and np.isfinite(scale.range).all() else (float(known.min()), float(known.max()))
    )
    seeds, samples = round(pilot.images), round(pilot.answers)
    if pilot.variance_with(seeds, samples) is None:  # not as many images of every prompt
        return None
    rows, curves, needed = [], [], []
    for share in _SHARES:
        difference = share * (high - low)
        (plan,) = plans(pilot, difference, POWER, seeds=[seeds], samples=[samples], cost=scores.cost)
        shown = number(difference, scale.digits)
        needed.append(plan.prompts)
        prices = map(dollars, plan.dollars or (None, None, None))
        rows.append((Cell(shown, sort=difference), plan.prompts, *plan.range, plan.judgements, *prices))
        x, (middle, high_power, low_power) = curve(plan, difference, pilot.factor)
        curves.append(PowerCurve(shown, x, middle, low_power, high_power))
    notes = (
        f"To show a difference at 95% with power {POWER:.0%}, from the spread of {best} and {others[0]} on {pilot.prompts:,} prompts; "
        "from - to: what that leaves open. `compare plan` takes other differences, pairs, seeds and answers.",
    )
    columns = ("difference", "prompts", "from", "to", "judgements", "USD from", "USD", "USD to")
    table = Table("Planning the next comparison", columns, tuple(rows), notes)
    return Planning(table, curves, 1.5 * needed[1])
