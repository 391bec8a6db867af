"""Generators by category of prompts: mean scores, gaps to the best, first places, and what tells generators apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from titjudge.core.types import Item
from titjudge.report.table_cells import DASH, Json, measured, number, plain, table
from titjudge.stats.bootstrap import Floats
from titjudge.stats.equality import score_differences
from titjudge.stats.intervals import mean_intervals
from titjudge.stats.scores_table import DERIVED, ScoreTable
from titjudge.stats.slices import between_variance, first_places

FEWEST = 6  # prompts of a category
VALUES = 12  # of a category
COLUMNS = 4  # categories
ROWS = 150  # of a table; the command has all


def categories(items: Sequence[Item]) -> dict[str, dict[str, str]]:
    """Find what the data say of prompts in a few words: column -> prompt -> value, and the prompts' length.

    A column has two to twelve values, the same for all images of a prompt, each of six prompts or more.
    """
    found: dict[str, dict[str, str]] = {}
    mixed: set[str] = set()
    for item in items:
        told = {key: str(value) for key, value in item.meta.items() if isinstance(value, str | int) and value != ""}
        for key, value in (told | {name: of(item.prompt) for name, of in DERIVED.items()}).items():
            if found.setdefault(key, {}).setdefault(item.prompt_id or item.id, value) != value:
                mixed.add(key)
    usable = {key: values for key, values in found.items() if key not in mixed and _sizes_fit(values)}
    return dict(list(usable.items())[:COLUMNS])


def _sizes_fit(values: Mapping[str, str]) -> bool:
    counts = np.unique(list(values.values()), return_counts=True)[1]
    return 2 <= len(counts) <= VALUES and int(counts.min()) >= FEWEST


def slice_tables(scores: ScoreTable, best: str, title: str, digits: int, *, negated: bool) -> list[Json]:
    """Make a table for each category, and one of how far generators differ within each.

    Args:
        scores: With the categories as its slices.
        best: The generator that gaps are to.
        title: What the tables are of, in words.
        digits: Decimals of a score.
        negated: Less is better.
    """
    order = np.argsort(-np.nan_to_num(_averages(scores.means), nan=-np.inf), kind="stable").tolist()
    made, apart = [], []
    for column, values in scores.slices.items():
        if len(values) * len(order) > ROWS:
            continue
        rows: list[list[object]] = []
        for value, means in values.items():
            firsts, averages = first_places(means), _averages(means)
            for k in order:
                rows.append(_row(scores, means, k, scores.column(best), digits, negated=negated))
                rows[-1][:0] = [value, scores.generators[k]]
                rows[-1][4:4] = [int(firsts[k])]
            known = averages[np.isfinite(averages)].tolist()
            apart.append((column, value, between_variance({value: known})[value], known))
        notes = (
            f"Mean over the prompts with its 95% interval; behind {best}: score minus its score, paired by prompt"
            + (" (less is better: negated)" if negated else "")
            + "; first: prompts on which none scores higher. Every interval is for itself: `compare generators --by` adjusts."
        )
        columns = [column.replace("_", " "), "generator", "mean", f"behind {best}", "first", "prompts"]
        made.append(table(f"{title} and {column.replace('_', ' ')}", columns, rows, notes=[notes], text=2))
    return [*made, *_apart(apart, title, digits)] if made else []


def short_and_long(
    items: Mapping[str, Item], scores: ScoreTable, title: str, digits: int, *, negated: bool
) -> list[Json]:
    """Compare the long wording of each prompt with the short one, where the data have both (TIIF-Bench).

    Args:
        items: An item of each prompt, whose meta says type, number and length.
        scores: Of all prompts.
        title: What the table is of, in words.
        digits: Decimals of a score.
        negated: Less is better.
    """
    places: dict[tuple[Any, Any], dict[str, int]] = {}
    for at, prompt in enumerate(scores.prompts):
        meta = items[prompt].meta
        if meta.get("length") in ("short", "long") and "index" in meta:
            places.setdefault((meta.get("type"), meta["index"]), {})[meta["length"]] = at
    both = [(of["short"], of["long"]) for of in places.values() if len(of) == 2]
    if len(both) < FEWEST:
        return []
    short, long = (scores.means[[pair[k] for pair in both]] for k in (0, 1))
    sign, rows = (-1.0 if negated else 1.0), []
    for k in np.argsort(-np.nan_to_num(_averages(scores.means), nan=-np.inf), kind="stable").tolist():
        known = np.isfinite(short[:, k]) & np.isfinite(long[:, k])
        if known.sum() < FEWEST:
            continue
        gap = score_differences(long[known, k], short[known, k])
        interval = mean_intervals(gap, np.ones(len(gap)), scores.spans(declared=True))[0]
        means = (plain(round(sign * float(each[known, k].mean()), digits + 1)) for each in (short, long))
        rows.append([scores.generators[k], *means, measured(float(gap.mean()), digits + 1, interval), len(gap)])
    notes = [
        "long minus short, paired by prompt, with its 95% interval" + (" (less is better: negated)" if negated else "")
    ]
    columns = ["generator", "short", "long", "long minus short", "prompts"]
    return [table(f"{title}: short and long prompts", columns, rows, notes=notes)] if rows else []


def _averages(means: Floats) -> Floats:
    known = np.isfinite(means)
    total = np.where(known, means, 0.0).sum(axis=0)
    found: Floats = np.divide(total, known.sum(axis=0), out=np.full(means.shape[1], np.nan), where=known.any(axis=0))
    return found


def _row(scores: ScoreTable, means: Floats, k: int, best: int, digits: int, *, negated: bool) -> list[object]:
    own = means[np.isfinite(means[:, k]), k]
    sign, ends = (-1.0 if negated else 1.0), mean_intervals(own, np.ones(len(own)), scores.bounds)[0]
    shown = (sign * ends[0], sign * ends[1]) if ends else None
    mean = measured(sign * float(own.mean()), digits, sorted(shown) if shown else None) if len(own) else DASH
    gap = score_differences(means[:, k], means[:, best])
    gap = gap[np.isfinite(gap)]
    if k == best or not len(gap):
        return [mean, DASH, len(own)]
    interval = mean_intervals(gap, np.ones(len(gap)), scores.spans(declared=True))[0]
    return [mean, measured(float(gap.mean()), digits + 1, interval), len(own)]


def _apart(found: Sequence[tuple[str, str, float | None, list[float]]], title: str, digits: int) -> list[Json]:
    """Tabulate the variance between generators, the most telling category first."""
    known = [(column, value, variance, means) for column, value, variance, means in found if variance is not None]
    least = min((variance for *_, variance, _ in known if variance > 0), default=None)
    if least is None:
        return []
    known.sort(key=lambda each: -each[2])
    rows = [
        [
            column.replace("_", " "), value, plain(variance), number(variance / least, 2),
            number(max(means) - min(means), digits),
        ]
        for column, value, variance, means in known
    ]  # fmt: skip
    notes = [
        "Variance of the generators' mean scores; times the least of these categories. Few prompts add to it by chance."
    ]
    columns = ["category", "value", "variance", "times the least", "best minus worst"]
    return [table(f"{title}: where generators differ", columns, rows, notes=notes, text=2)]
