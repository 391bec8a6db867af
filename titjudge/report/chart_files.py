"""Charts as files: SVG or PNG after the suffix, the same bytes for the same numbers."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, UserError


def check_chart(path: Path) -> None:
    """Say that a chart cannot be written under that name before anything is computed.

    Raises:
        ConfigError: the suffix is neither .svg nor .png.
    """
    if path.suffix.lower() not in (".svg", ".png"):
        raise ConfigError(f"{path}: a chart is written as .svg or .png")


def write_figure(draw: Callable[[Any], None], path: Path, size: tuple[float, float] = (7, 4)) -> None:
    """Write what `draw(axes)` draws.

    Raises:
        ConfigError: another suffix than .svg or .png. UserError: the file cannot be written.
    """
    check_chart(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(figure_bytes(draw, path.suffix.lower()[1:], size))
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def figure_bytes(draw: Callable[[Any], None], kind: str, size: tuple[float, float] = (7, 4)) -> bytes:
    """Draw on one pair of axes; names are drawn as plain text, whatever they contain."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "titjudge", "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=size, dpi=150, layout="constrained")
        draw(figure.add_subplot())
        out = io.BytesIO()
        figure.savefig(
            out, format=kind, metadata={"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        )
    return out.getvalue()
