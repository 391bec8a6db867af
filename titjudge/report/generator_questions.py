"""Sample sizes for comparing generators: when a sequential test would have stopped, planning, and combinations of two judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from titjudge.core.errors import DataError
from titjudge.core.formats import number, percentage
from titjudge.core.tables import Cell, Form, Table, dollars
from titjudge.report.drawing import Chart
from titjudge.report.model import Judge, Loaded, Report
from titjudge.report.plots import PowerCurve, power_chart
from titjudge.stats.generators.planning import SHORT, Pilot, curve, plans
from titjudge.stats.generators.replay_settling import replay_pairs, verdicts
from titjudge.stats.generators.sequential import FEWEST
from titjudge.stats.ppi.bridging import bridge, bridge_table
from titjudge.stats.ppi.two_tier import two_tier
from titjudge.stats.scores.scores_table import ScoreTable

ORDERS = 20
POWER = 0.8
_SHARES = (0.01, 0.02, 0.05)  # of the scale: the differences to plan for
_PART = 0.8  # of the prompts: a judge of fewer judged a part


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
        share = Cell(used / of, Form.PERCENT, bar=True)
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


def planning(
    scores: ScoreTable, best: str, order: Sequence[int], judge: Judge, id: str
) -> tuple[list[Table], Chart | None]:
    """Tabulate and draw how many prompts a difference needs, with the best and its runner-up as the pilot."""
    others = [scores.generators[k] for k in order if scores.generators[k] != best]
    try:
        pilot = Pilot.of(scores, best, others[0])
    except DataError:  # too few prompts, or all with the same difference
        return [], None
    if pilot.prompts < SHORT:
        return [], None
    known = scores.means[np.isfinite(scores.means)]
    low, high = (
        judge.range if judge.range and np.isfinite(judge.range).all() else (float(known.min()), float(known.max()))
    )
    seeds, samples = round(pilot.images), round(pilot.answers)
    if pilot.variance_with(seeds, samples) is None:  # not as many images of every prompt
        return [], None
    rows, curves, needed = [], [], []
    for share in _SHARES:
        difference = share * (high - low)
        (plan,) = plans(pilot, difference, POWER, seeds=[seeds], samples=[samples], cost=scores.cost)
        shown = number(difference, judge.digits)
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
    shown = ", ".join(
        f"{each.label} ({mark})" for each, mark in zip(curves, ("disc", "square", "triangle"), strict=True)
    )
    chart = power_chart(
        curves, POWER, "prompts", id=f"{id}-power", title="Power by number of prompts", what="difference",
        note=f"Of showing {shown}; dotted: {percentage(POWER, 0)}.", most=1.5 * needed[1],
    )  # fmt: skip
    return [Table("Planning the next comparison", columns, tuple(rows), notes)], chart


def across_judges(report: Report, scores: Mapping[int, ScoreTable]) -> list[Table]:
    """Tabulate combinations of two runs by different judges: a transferred leaderboard, or a dear judge on a part of the prompts."""
    combined: list[Table] = []
    for (first, old), (second, new) in pairwise(scores.items()):
        one, other = (report.runs[report.judges[place].run] for place in (first, second))
        if one is other or not _judges_differ(one, other):
            continue
        part = set(new.prompts) <= set(old.prompts) and len(new.prompts) <= _PART * len(old.prompts)
        try:
            if part:
                tables = two_tier(old, new).tables()
            elif set(old.generators) - set(new.generators):
                tables = [bridge_table(bridge(old, new))]
            else:
                continue
        except DataError:  # too little in common: the commands say what
            continue
        both = f"{report.judges[first].label} and {report.judges[second].label}"
        combined += [replace(table, title=f"{table.title}: {both}") for table in tables]
    return combined


def _judges_differ(one: Loaded, other: Loaded) -> bool:
    models = [{role: record.model for role, record in run.manifest.roles.items()} for run in (one, other)]
    return models[0] != models[1] or set(one.manifest.metrics) != set(other.manifest.metrics)
