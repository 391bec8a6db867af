"""Sample sizes for comparing generators: when a sequential test would have stopped, planning, and combinations of two judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from titjudge.core.errors import DataError
from titjudge.report.charts import Chart
from titjudge.report.model import Judge, Loaded, Report
from titjudge.report.svg import curves
from titjudge.report.table_cells import DASH, Json, cell, money, number, table
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


def settling(scores: ScoreTable, best: str) -> list[Json]:
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
        spared = (
            DASH if scores.cost is None else cell(money(2 * scores.cost * (of - used)), sort=scores.cost * (of - used))
        )
        share = cell(f"{used / of:.0%}", sort=used / of, bar=(0.0, used / of, used / of))
        rows.append([name, verdicts(each.verdict for each in replays), number(used, 0), of, share, spared])
    notes = [
        f"`judge --settle` replayed on these scores: {ORDERS} random orders of the prompts, stopped when an interval that holds at "
        "every moment leaves zero"
        + (
            f" (asymptotic, as the scale has no ends: at {FEWEST} prompts at the earliest)"
            if scores.width is None
            else ""
        )
        + ". Open: the prompts did not settle it.",
    ]
    columns = [f"{best} against", "verdict", "prompts used", "of", "share", "spared"]
    made = table("Had it stopped when it was settled", columns, rows, notes=notes, text=2, span=(0, 1))
    return [made] if rows else []


def planning(scores: ScoreTable, best: str, order: Sequence[int], judge: Judge) -> tuple[list[Json], Chart | None]:
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
    rows, lines, drawn = [], [], []
    for share in _SHARES:
        difference = share * (high - low)
        (plan,) = plans(pilot, difference, POWER, seeds=[seeds], samples=[samples], cost=scores.cost)
        shown = number(difference, judge.digits)
        dollars = plan.dollars or (None, None, None)
        prices = (DASH if each is None else cell(money(each), sort=each) for each in dollars)
        rows.append([shown, plan.prompts, *plan.range, plan.judgements, *prices])
        x, (middle, worst, least) = curve(plan, difference, pilot.factor)
        lines.append((x, middle, least, worst))
        drawn.append((shown, plan.prompts))
    notes = [
        f"To show a difference at 95% with power {POWER:.0%}, from the spread of {best} and {others[0]} on {pilot.prompts:,} prompts; "
        "from - to: what that leaves open. `compare plan` takes other differences, pairs, seeds and answers.",
    ]
    columns = ["difference", "prompts", "from", "to", "judgements", "USD from", "USD", "USD to"]
    most = 1.5 * drawn[1][1]
    chart = Chart(
        "Power by number of prompts",
        "Of showing "
        + ", ".join(f"{shown} ({mark})" for (shown, _), mark in zip(drawn, ("disc", "square", "triangle"), strict=True))
        + f"; dotted: {POWER:.0%}.",
        curves(lines, most, "prompts", POWER),
        ("difference", "prompts", "power"),
        tuple(
            (shown, f"{x:,.0f}", f"{y:.0%}")
            for (shown, _), line in zip(drawn, lines, strict=True)
            for x, y in zip(line[0][::6], line[1][::6], strict=True)
        ),
    )
    return [table("Planning the next comparison", columns, rows, notes=notes)], chart


def across_judges(report: Report, scores: Mapping[int, ScoreTable]) -> list[Json]:
    """Tabulate combinations of two runs by different judges: a transferred leaderboard, or a dear judge on a part of the prompts."""
    combined = []
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
        combined += [table(f"{each.title}: {both}", each.columns, each.rows, notes=each.notes) for each in tables]
    return combined


def _judges_differ(one: Loaded, other: Loaded) -> bool:
    models = [{role: record.model for role, record in run.manifest.roles.items()} for run in (one, other)]
    return models[0] != models[1] or set(one.manifest.metrics) != set(other.manifest.metrics)
