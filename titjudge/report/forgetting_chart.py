"""The forgetting curve as an image."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from titjudge.report.chart_files import write_figure
from titjudge.stats.forgetting import Forgetting, Rate

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def write_chart(found: Forgetting, path: Path) -> None:
    """Write the share of met claims by place in the prompt, one line a generator with its 95% interval, as SVG or PNG.

    The same numbers give the same bytes. Names are drawn as plain text, whatever they contain.

    Raises:
        ConfigError: another suffix. UserError: the file cannot be written.
    """
    write_figure(lambda axes: _draw(found, axes), path)


def _draw(found: Forgetting, axes: Any) -> None:
    for k, generator in enumerate(dict.fromkeys(rate.generator for rate in found.places)):
        _line(axes, [rate for rate in found.places if rate.generator == generator], generator, f"C{k % 10}", k)
    for k, step in enumerate(found.steps):
        if step.position is not None:
            axes.axvline(100 * step.position, color=f"C{k % 10}", linestyle=":", linewidth=1)
    axes.set(xlabel="place in the prompt, %", ylabel="claims met, %", xlim=(0, 100), ylim=(0, 102))
    axes.grid(alpha=0.3)
    if found.places:
        axes.legend()


def _line(axes: Any, rates: list[Rate], generator: str, colour: str, number: int) -> None:
    shown = [rate for rate in rates if rate.rate is not None]
    x = [_middle(rate.label) for rate in shown]
    y = [100 * (rate.rate or 0.0) for rate in shown]
    marker = _MARKERS[number % len(_MARKERS)]
    axes.plot(x, y, color=colour, marker=marker, clip_on=False, zorder=3, label=generator.lstrip("_") or "(unnamed)")
    wide = [(at, rate.interval) for at, rate in zip(x, shown, strict=True) if rate.interval]
    if wide:
        low, high = [100 * i[0] for _, i in wide], [100 * i[1] for _, i in wide]
        axes.fill_between([at for at, _ in wide], low, high, color=colour, alpha=0.15, linewidth=0)


def _middle(label: str) -> float:
    low, high = (float(number) for number in re.findall(r"[\d.]+", label)[:2])
    return (low + high) / 2
