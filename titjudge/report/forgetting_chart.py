"""The forgetting curve as a picture."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, UserError
from titjudge.stats.forgetting import Forgetting, Rate

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def check_chart(path: Path) -> None:
    """Say that a chart cannot be written under that name before anything is computed.

    Raises:
        ConfigError: the suffix is neither .svg nor .png.
    """
    if path.suffix.lower() not in (".svg", ".png"):
        raise ConfigError(f"{path}: a chart is written as .svg or .png")


def write_chart(found: Forgetting, path: Path) -> None:
    """The chart as a file, SVG or PNG after its suffix.

    Raises:
        ConfigError: another suffix. UserError: the file cannot be written.
    """
    check_chart(path)
    try:
        if path.suffix.lower() == ".svg":
            path.write_text(forgetting_svg(found), encoding="utf-8")
        else:
            path.write_bytes(_saved(found, "png"))
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def forgetting_svg(found: Forgetting) -> str:
    """Share of met claims by place in the prompt, one line a generator with its 95% interval, as an SVG document.

    The same numbers give the same bytes. Names are drawn as plain text, whatever they contain.
    """
    return _saved(found, "svg").decode()


def _saved(found: Forgetting, kind: str) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "titjudge", "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=(7, 4), dpi=150, layout="constrained")
        axes = figure.add_subplot()
        for k, generator in enumerate(dict.fromkeys(rate.generator for rate in found.places)):
            _line(axes, [rate for rate in found.places if rate.generator == generator], generator, f"C{k % 10}", k)
        for k, step in enumerate(found.steps):
            if step.position is not None:
                axes.axvline(100 * step.position, color=f"C{k % 10}", linestyle=":", linewidth=1)
        axes.set(xlabel="place in the prompt, %", ylabel="claims met, %", xlim=(0, 100), ylim=(0, 102))
        axes.grid(alpha=0.3)
        if found.places:
            axes.legend()
        out = io.BytesIO()
        figure.savefig(
            out, format=kind, metadata={"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        )
    return out.getvalue()


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
