"""The page of a prompt audit: histograms of lengths, similarity and reading level, balance of categories, and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from titjudge.apps.prompt_sets.audit_statistics import ENCODERS, SAME, Audit, by_frequency, evenness_note
from titjudge.report.drawing import WIDTH, Canvas, Chart, shortened
from titjudge.report.tables_page import write_page

_BARS = 30  # values of a column that are drawn


def write_prompt_page(audit: Audit, source: str, out: Path) -> None:
    """Write the page of an audit.

    Raises:
        OSError: The file cannot be written.
    """
    count = len(audit.prompts)
    lines = [
        f"{count:,} prompts, {audit.unique:,} of them unique ({audit.unique / count:.0%}) at a cosine of {SAME}.",
        f"Counted {audit.counted}.",
    ]
    if audit.leaks:
        lines.append(f"{len({leak.prompt for leak in audit.leaks}):,} say the same as a prompt of another set.")
    cut = "; ".join(f"{name} would cut {audit.cut(limit)[0]:,}" for name, limit in ENCODERS.items())
    limits = {f"{name} {limit}": limit for name, limit in ENCODERS.items() if limit <= 1.3 * max(audit.tokens)}
    charts = [
        _histogram(
            "tokens",
            "How long the prompts are",
            f"Prompts by tokens. {cut}.",
            audit.tokens,
            "tokens of a prompt",
            limits,
        ),
        _histogram("words", "Words", "Prompts by words.", audit.words, "words of a prompt"),
    ]
    if audit.nearest:
        note = f"Prompts by how alike the nearest other one is; right of {SAME} two say the same."
        bins = np.linspace(min(0.0, *audit.nearest), 1.0, 41)
        axis = "cosine with the nearest other prompt"
        charts.append(_histogram("alike", "How alike the prompts are", note, audit.nearest, axis, {"": SAME}, bins))
    if grades := [grade for grade in audit.grades if grade is not None]:
        note = "Prompts by Flesch-Kincaid school grade: for English."
        charts.append(
            _histogram("reading", "Reading level", note, grades, "school grade", bins=np.linspace(*_span(grades), 41))
        )
    charts += [_balance(k, name, values) for k, (name, values) in enumerate(audit.columns.items())]
    write_page(f"Prompts of {source}", lines, charts, audit.tables(), out)


def _histogram(
    id: str,
    title: str,
    note: str,
    values: Sequence[float],
    axis: str,
    marks: Mapping[str, float] | None = None,
    bins: np.ndarray | None = None,
) -> Chart:
    """Chart a histogram over prompts, with a line at each mark."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes()
        edges = np.linspace(0, max(values) * 1.02 + 1, 41) if bins is None else bins
        axes.hist(values, bins=edges.tolist(), color=canvas.colour(0))
        top = axes.get_ylim()[1]
        for name, place in (marks or {}).items():
            axes.axvline(place, color=canvas.colour(1), linewidth=1.4, linestyle="--")
            axes.annotate(
                name,
                (place, top),
                xytext=(3, -2),
                textcoords="offset points",
                fontsize=9,
                va="top",
                color=canvas.palette.ink,
            )
        axes.set_xlabel(axis)

    return Chart(id, title, note, draw)


def _balance(number: int, column: str, values: Mapping[str, int]) -> Chart:
    """Chart the numbers of prompts with the most frequent values of a column, with a line at the mean."""
    kept, rare = by_frequency(values)[:_BARS], len(values) - _BARS
    height = 0.5 + 0.22 * len(kept)

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes((0.3, 0.35 / height, 0.68, 1 - 0.4 / height), grid="x")
        axes.barh(range(len(kept)), [count for _, count in kept], color=canvas.colour(0), height=0.7)
        axes.axvline(sum(values.values()) / len(values), color=canvas.colour(1), linewidth=1.4, linestyle="--")
        axes.set_yticks(range(len(kept)), [shortened(value, 25) for value, _ in kept])
        axes.invert_yaxis()
        axes.xaxis.get_major_locator().set_params(integer=True)

    rest = f"; {rare} rarer ones are in the table" if rare > 0 else ""
    note = f"Prompts by {column}; the line: all equally often; {evenness_note(values)}{rest}."
    return Chart(f"balance-{number}", f"Balance of {column}", note, draw, size=(WIDTH, height))


def _span(values: Sequence[float]) -> tuple[float, float]:
    return min(0.0, *values), max(values) + 1
