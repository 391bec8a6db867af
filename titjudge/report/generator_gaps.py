"""How far each generator is behind the best, prompt by prompt, and by category: `compare generators --baseline BEST` of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from titjudge.core.errors import DataError
from titjudge.core.types import Item
from titjudge.report.generator_slices import categories, short_and_long, slice_tables
from titjudge.report.model import Judge, Loaded, Report
from titjudge.report.table_cells import Json, cell, measured, number, p_value, table
from titjudge.stats.equality import with_ties
from titjudge.stats.generator_differences import GeneratorDifference, generator_differences
from titjudge.stats.scores_table import Entry, score_table

FEWEST = 6  # prompts: exchanging the two on fewer never is as rare as 5%
MOST = 4  # metrics; the command has all


def generator_gaps(report: Report) -> list[Json]:
    """Make the tables of the first metrics of each run whose generators share enough prompts."""
    found = []
    for at, run in enumerate(report.runs):
        if run.manifest.status == "settled":  # stopped at a verdict: fixed intervals and tests do not hold
            continue
        judges = [judge for judge in report.judges if judge.run == at and " [" not in judge.metric]
        several = len(judges) > 1 or len(report.runs) > 1
        for judge in judges[:MOST]:
            found += _gaps(run, judge, several=several)
    return found


def _gaps(run: Loaded, judge: Judge, *, several: bool) -> list[Json]:
    sign = 1.0 if judge.higher else -1.0
    entries = [
        Entry(item.prompt_id or item.id, item.generator, item.id, sign * score.value)
        for item in run.items
        if isinstance(item, Item) and item.generator and (score := run.scores.get((item.id, judge.metric))) is not None
        and score.value is not None
    ]  # fmt: skip
    if len({entry.generator for entry in entries}) < 2:
        return []
    cut = score_table(
        entries, metric=judge.metric, source=run.name, bounds=judge.range if judge.higher else None,
        categories=categories([item for item in run.items if isinstance(item, Item) and item.generator]),
    )  # fmt: skip
    scores = replace(cut, slices={})
    known = np.isfinite(scores.means)
    means = with_ties(np.where(known, scores.means, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))
    best = scores.generators[int(np.argmax(np.where(known.sum(axis=0) >= FEWEST, means, -np.inf)))]
    try:
        gaps = [each for each in generator_differences(scores, baseline=best) if each.prompts >= FEWEST]
    except DataError:  # no two share two prompts
        return []
    if not gaps:
        return []
    gaps.sort(key=lambda each: -(each.difference or 0.0))
    columns = [f"behind {best}", "difference", "won / same / lost", "p", "would have shown", "prompts"]
    notes = [
        f"Score minus that of {best}, paired by prompt, with its 95% interval"
        + ("" if judge.higher else " (less is better: negated)")
        + "; p by exchange within prompts, adjusted by Holm; the smallest difference that these prompts show with 80% power. "
        "The best was chosen on the same prompts: gaps to it are a little flattered."
    ]
    title = f"Behind the best by {judge.label}" if several else "Behind the best"
    asked = {item.prompt_id or item.id: item for item in run.items if isinstance(item, Item)}
    by = f"Generators by {judge.label}" if several else "Generators"
    return [
        table(title, columns, [_row(each, judge.digits) for each in gaps], notes=notes),
        *slice_tables(cut, best, by, judge.digits, negated=not judge.higher),
        *short_and_long(asked, scores, by, judge.digits, negated=not judge.higher),
    ]


def _row(each: GeneratorDifference, digits: int) -> list[object]:
    shown = [] if each.detectable is None else [number(each.detectable, digits + 1)]
    return [
        each.a, measured(each.difference, digits + 1, each.interval), f"{each.wins} / {each.same} / {each.losses}",
        cell(p_value(each.p_adjusted).removeprefix("p ").removeprefix("= ") or "–", sort=each.p_adjusted),
        cell(*shown, sort=each.detectable) if shown else None, each.prompts,
    ]  # fmt: skip
