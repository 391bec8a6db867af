"""Generators by category of prompts: mean scores, gaps to the best, first places, and what tells generators apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from titjudge.core.types import Item
from titjudge.report.model import Judge
from titjudge.report.table_cells import DASH, Json, cell, measured, number, plain, table
from titjudge.stats.bootstrap import Floats
from titjudge.stats.equality import score_differences
from titjudge.stats.intervals import mean_intervals
from titjudge.stats.part_scores import ELEMENT
from titjudge.stats.scores_table import DERIVED, IMAGE_COLUMNS, ScoreTable
from titjudge.stats.slices import BEST, CEILING, MATURE, averages, between_variance, first_places, maturity, tier_means

FEWEST = 6  # prompts of a category
VALUES = 60  # of a category
TIERS = 6  # of a table, the first ones
FOLDED = 24  # rows of a table that is opened when it is asked for
COLUMNS = 4  # categories
_NUMBERS = frozenset(
    {"index", "line", "number", "seed", *IMAGE_COLUMNS}
)  # count prompts and images, and say nothing of them
ROWS = 150  # of a table; the command has all


@dataclass(frozen=True, slots=True, eq=False)
class _Slice:
    """Mean scores of generators in a category, with the scale they are on."""

    column: str
    value: str
    means: Mapping[str, float]
    digits: int
    bounds: tuple[float, float] | None


def categories(items: Sequence[Item]) -> dict[str, dict[str, str]]:
    """Find what the data say of prompts in a few words: column -> prompt -> value, and the prompts' length.

    A column has two to sixty values, the same for all images of a prompt, each of six prompts or more.
    """
    found: dict[str, dict[str, str]] = {}
    mixed: set[str] = set()
    for item in items:
        told = {
            key: str(value)
            for key, value in item.meta.items()
            if isinstance(value, str | int) and value != "" and key not in _NUMBERS
        }
        for key, value in (told | {name: of(item.prompt) for name, of in DERIVED.items()}).items():
            if found.setdefault(key, {}).setdefault(item.prompt_id or item.id, value) != value:
                mixed.add(key)
    usable = {key: values for key, values in found.items() if key not in mixed and _sizes_fit(values)}
    return dict(list(usable.items())[:COLUMNS])


def _sizes_fit(values: Mapping[str, str]) -> bool:
    counts = np.unique(list(values.values()), return_counts=True)[1]
    return 2 <= len(counts) <= VALUES and int(counts.min()) >= FEWEST


def slice_tables(
    scores: ScoreTable, against: Sequence[str], tiers: Sequence[Sequence[str]], judge: Judge
) -> list[Json]:
    """Make a table for each category, and for all of them what tells generators apart and what tells tiers apart.

    Args:
        scores: With the categories as its slices.
        against: The generators that gaps are to: the best, and a baseline.
        tiers: Names of the generators of each tier, best first.
        judge: What gave the scores.
    """
    negated = not judge.higher
    sign = -1.0 if negated else 1.0
    order = [scores.column(name) for tier in tiers for name in tier]
    made, found = [], []
    for column, values in scores.slices.items():
        title, part = column.replace("_", " "), scores.on_scale_of(column)
        share = part is not scores and column == ELEMENT  # claims met, whatever the score's own scale is
        digits, bounds = (3, (0.0, 1.0)) if share else (judge.digits, None if negated else judge.range)
        rows: list[list[object]] = []
        for value, means in values.items():
            firsts, mean = first_places(means), averages(means)
            known = {scores.generators[k]: sign * float(mean[k]) for k in order if np.isfinite(mean[k])}
            found.append(_Slice(title, value, known, digits, bounds))
            for k in order if len(values) * len(order) <= ROWS else ():
                rows.append([value, scores.generators[k], *_row(part, means, k, against, digits, negated=negated)])
                rows[-1].insert(-1, int(firsts[k]))
        notes = (
            f"Mean over the prompts with its 95% interval; behind {' or '.join(against)}: score minus its score, paired by prompt"
            + (" (less is better: negated)" if negated else "")
            + "; first: prompts on which none scores higher. Every interval is for itself: `compare generators --by` adjusts."
        )
        columns = [title, "generator", "mean", *(f"behind {name}" for name in against), "first", "prompts"]
        if rows:
            made.append(table(f"By {title}", columns, rows, notes=[notes], text=2, folded=True))
    return [*made, *_apart(found, sign), *_tiers(found, tiers, sign)]


def short_and_long(items: Mapping[str, Item], scores: ScoreTable, digits: int, *, negated: bool) -> list[Json]:
    """Compare the long wording of each prompt with the short one, where the data have both (TIIF-Bench).

    Args:
        items: An item of each prompt, whose meta says type, number and length.
        scores: Of all prompts.
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
    for k in np.argsort(-np.nan_to_num(averages(scores.means), nan=-np.inf), kind="stable").tolist():
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
    return [table("Short and long prompts", columns, rows, notes=notes)] if rows else []


def _row(
    scores: ScoreTable, means: Floats, k: int, against: Sequence[str], digits: int, *, negated: bool
) -> list[object]:
    """Give the mean of a generator, how far it is behind others, and over how many prompts."""
    own = means[np.isfinite(means[:, k]), k]
    sign, ends = (-1.0 if negated else 1.0), mean_intervals(own, np.ones(len(own)), scores.bounds)[0]
    shown = (sign * ends[0], sign * ends[1]) if ends else None
    row: list[object] = [
        measured(sign * float(own.mean()), digits, sorted(shown) if shown else None) if len(own) else DASH
    ]
    for name in against:
        gap = score_differences(means[:, k], means[:, scores.column(name)])
        gap = gap[np.isfinite(gap)]
        interval = mean_intervals(gap, np.ones(len(gap)), scores.spans(declared=True))[0] if len(gap) else None
        same = name == scores.generators[k] or not len(gap)
        row.append(DASH if same else measured(float(gap.mean()), digits + 1, interval))
    return [*row, len(own)]


def _apart(found: Sequence[_Slice], sign: float) -> list[Json]:
    """Tabulate how far generators differ in each category, the most telling first, and how far all of them come."""
    variances = between_variance({each: list(each.means.values()) for each in found})
    least: dict[str, float] = {}
    for each, variance in variances.items():
        if variance:
            least[each.column] = min(variance, least.get(each.column, variance))
    rows = []
    for each in sorted(found, key=lambda each: -(variances[each] or 0.0) / least.get(each.column, 1.0)):
        means, variance = list(each.means.values()), variances[each]
        if variance is None or each.column not in least:
            continue
        together = sum(means) / len(means)
        best = max(means, key=lambda mean: sign * mean)
        told = [max(means) - min(means), together, best]
        rows.append([
            each.column, each.value, plain(variance), number(variance / least[each.column], 2),
            *(cell(number(one, each.digits), sort=one) for one in told), maturity(means, each.bounds) or DASH,
        ])  # fmt: skip
    notes = [
        "Variance of the generators' mean scores; times the least of this category's values. Few prompts add to it by chance.",
        f"All together: mature above {MATURE:.0%} of the scale on average; a ceiling below {CEILING:.0%}, and the best below {BEST:.0%} "
        "(the limits of the Qwen-Image-Bench paper, section 4.8, for its own judge).",
    ]
    columns = [
        "category",
        "value",
        "variance",
        "times the least",
        "best minus worst",
        "mean of all",
        "best",
        "all together",
    ]
    return (
        [table("Where generators differ", columns, rows, notes=notes, text=2, folded=len(rows) > FOLDED)]
        if rows
        else []
    )


def _tiers(found: Sequence[_Slice], tiers: Sequence[Sequence[str]], sign: float) -> list[Json]:
    """Tabulate the mean of each tier in each category, and the gaps between tiers (Qwen-Image-Bench paper, Table 3)."""
    tiers = tiers[:TIERS]
    if len(tiers) < 2 or not found:
        return []
    rows = []
    for each in found:
        means, gaps = tier_means(each.means, tiers)
        told = [*means, *(None if gap is None else sign * gap for gap in gaps)]
        shown = [None if one is None else cell(number(one, each.digits), sort=one) for one in told]
        rows.append([each.column, each.value, *shown])
    names = [f"tier {k}" for k in range(1, len(tiers) + 1)]
    notes = [f"{name.capitalize()}: {', '.join(of)}." for name, of in zip(names, tiers, strict=True)]
    columns = ["category", "value", *names, *(f"{k} to {k + 1}" for k in range(1, len(tiers)))]
    return [table("What separates the tiers", columns, rows, notes=notes, text=2, folded=True)]
