"""The page of an audit of prompts: how long they are, what encoders would cut, how alike they are, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from titjudge.report.charts import NAME, Chart, frame, svg_of
from titjudge.report.tables_page import write_page
from titjudge.stats.prompt_audit import ENCODERS, SAME, Audit


def write_prompt_page(audit: Audit, source: str, out: Path) -> None:
    """Write the page of an audit.

    Raises:
        OSError: The file cannot be written.
    """
    count = len(audit.prompts)
    lines = [f"{count:,} prompts, {audit.unique:,} of them unique ({audit.unique / count:.0%}) at a cosine of {SAME}."]
    charts = [_lengths(audit)]
    if audit.nearest:
        charts.append(_likeness(audit.nearest))
    write_page(f"Prompts of {source}", lines, charts, audit.tables(), out)


def _lengths(audit: Audit) -> Chart:
    limits = {name: limit for name, limit in ENCODERS.items() if limit <= 1.3 * max(audit.tokens)}

    def draw(figure: Any) -> None:
        axes = _axes(figure)
        axes.hist(audit.tokens, bins=_bins(audit.tokens), color=NAME["c0"])
        top = axes.get_ylim()[1]
        for name, limit in limits.items():
            axes.axvline(limit, color=NAME["c1"], linewidth=1.4, linestyle="--")
            axes.annotate(f"{name} {limit}", (limit, top), xytext=(3, -2), textcoords="offset points", fontsize=9,
                          va="top", color=NAME["ink"])  # fmt: skip
        axes.set_xlabel("tokens of a prompt")

    cut = "; ".join(f"{name} would cut {audit.cut(limit)[0]:,}" for name, limit in ENCODERS.items())
    return Chart("How long the prompts are", f"Prompts by tokens. {cut}.", svg_of(draw, "prompt lengths"), (), ())


def _likeness(nearest: Sequence[float]) -> Chart:
    def draw(figure: Any) -> None:
        axes = _axes(figure)
        axes.hist(nearest, bins=np.linspace(min(0.0, *nearest), 1.0, 41).tolist(), color=NAME["c0"])
        axes.axvline(SAME, color=NAME["c1"], linewidth=1.4, linestyle="--")
        axes.set_xlabel("cosine with the nearest other prompt")

    note = f"Prompts by how alike the nearest other one is; right of {SAME} two say the same."
    return Chart("How alike the prompts are", note, svg_of(draw, "prompt likeness"), (), ())


def _axes(figure: Any) -> Any:
    axes = figure.add_axes((0.09, 0.19, 0.9, 0.77))
    frame(axes)
    return axes


def _bins(values: Sequence[int]) -> list[float]:
    return list(map(float, np.linspace(0, max(values) * 1.02 + 1, 41)))
