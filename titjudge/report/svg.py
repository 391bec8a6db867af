"""Charts written as SVG elements: colours are classes of the page's style sheet, words are text and never markup."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from xml.etree import ElementTree

import numpy as np

from titjudge.stats.bootstrap import Floats

DASHES = ("", "6 3", "6 2 1.5 2", "1.5 2.5", "9 2", "3 1")
SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-3.4-3.4h6.8v6.8h-6.8z", "M0-4.2l4.2 7.6h-8.4z", "M0-4.6l4.6 4.6l-4.6 4.6l-4.6-4.6z",
    "M0 4.2l4.2-7.6h-8.4z", "M-1.5-4h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5z",
)  # fmt: skip
_DEEPEST = 0.45  # highest opacity of a cell, so that words on it are legible in either theme


class Drawing:
    """An SVG image; a `fixed` one is not scaled to the width of the page, but scrolls."""

    def __init__(self, width: float, height: float, *, fixed: bool = False) -> None:
        box = {"viewBox": f"0 0 {width:g} {height:g}", "aria-hidden": "true", "focusable": "false"}
        size = {"width": f"{width:g}", "class": f"fixed {'wide' if width > 540 else ''}"} if fixed else {}
        self._root = ElementTree.Element("svg", box | size)

    def add(self, tag: str, classes: str, text: str = "", **attributes: float | str) -> None:
        """Add an element; `_` in a name stands for `-`."""
        written = {
            name.replace("_", "-"): f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
            for name, value in attributes.items()
        }
        ElementTree.SubElement(self._root, tag, {"class": classes, **written}).text = clean(text) or None

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "middle", soft: bool = True, turned: int = 0
    ) -> None:
        """Add a text, rotated by `turned` degrees."""
        turn = {"transform": f"rotate({turned} {x:.1f} {y:.1f})"} if turned else {}
        self.add("text", "f-soft" if soft else "f-ink", text, x=x, y=y, font_size="11", text_anchor=anchor, **turn)

    def line(self, points: Sequence[tuple[float, float]], place: int, *, closed: bool = False) -> None:
        """Add a line in the colour and dash of `place`."""
        shown = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        tag = "polygon" if closed else "polyline"
        self.add(
            tag, f"s-c{place}", points=shown, fill="none", stroke_width="1.7", stroke_dasharray=DASHES[place] or "none"
        )

    def mark(self, x: float, y: float, place: int) -> None:
        """Add the mark of `place`."""
        self.add("path", f"f-c{place}", d=SHAPES[place], transform=f"translate({x:.1f} {y:.1f})")

    def __str__(self) -> str:
        return ElementTree.tostring(self._root, encoding="unicode")


def clean(text: str, length: int = 0) -> str:
    """Remove the characters of a name that XML or a line cannot contain, and shorten it to `length`."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]", "", text)
    return text if not length or len(text) <= length else text[: length - 1] + "…"


def heat_map(rows: Sequence[str], columns: Sequence[str], values: Floats, digits: int) -> str:
    """Draw a table of numbers with the opacity of a cell by its position in the range of its column; NaN is a dash."""
    named = [clean(name, 20) for name in columns]
    long = max(map(len, named))
    cell, high, left, top = 46, 25, 138, 22 + 4 * long
    drawing = Drawing(left + cell * len(columns) + 5 * long, top + high * len(rows) + 4, fixed=True)
    for k, name in enumerate(named):
        drawing.text(left + cell * (k + 0.5) - 4, top - 8, name, anchor="start", turned=-38)
    for i, name in enumerate(rows):
        y = top + high * i
        drawing.text(left - 8, y + 17, clean(name, 20), anchor="end", soft=False)
        for k, value in enumerate(values[i].tolist()):
            low, best = (
                (float(end(values[:, k])) for end in (np.nanmin, np.nanmax)) if not math.isnan(value) else (0, 0)
            )
            depth = _DEEPEST * (value - low) / (best - low) if best > low else 0.0
            x = left + cell * k
            drawing.add(
                "rect", "f-c0", x=x + 1, y=y + 1, width=cell - 2, height=high - 2, rx=3, fill_opacity=float(depth)
            )
            shown = "–" if math.isnan(value) else f"{value:.{digits}f}"
            drawing.text(x + cell / 2, y + 17, shown, soft=False)
    return str(drawing)


def radar(names: Sequence[str], axes: Sequence[str], values: Floats) -> tuple[str, tuple[float, float]]:
    """Draw a radar chart of at most six names over three axes or more; also return the values at the centre and the rim.

    Args:
        names: In the order of their colours.
        axes: Labels of the axes.
        values: Shape (names, axes); NaN leaves a gap in the polygon.
    """
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    low, high = (low - 0.25 * (high - low), high) if high > low else (low - 1, high + 1)
    width, height, reach = 460.0, 310.0, 118.0
    drawing, centre = Drawing(width, height), (width / 2, height / 2 + (26 if len(axes) == 3 else 2))
    angles = [2 * math.pi * k / len(axes) - math.pi / 2 for k in range(len(axes))]

    def spot(k: int, share: float) -> tuple[float, float]:
        return centre[0] + reach * share * math.cos(angles[k]), centre[1] + reach * share * math.sin(angles[k])

    for ring in (0.25, 0.5, 0.75, 1.0):
        shown = " ".join(f"{x:.1f},{y:.1f}" for x, y in (spot(k, ring) for k in range(len(axes))))
        drawing.add("polygon", "s-grid", points=shown, fill="none", stroke_width="1")
    for k, name in enumerate(axes):
        (x, y), (far_x, far_y) = spot(k, 1.0), spot(k, 1.13)
        drawing.add("line", "s-grid", x1=centre[0], y1=centre[1], x2=x, y2=y, stroke_width="1")
        side = math.cos(angles[k])
        drawing.text(
            far_x, far_y + 4, clean(name, 18), anchor="middle" if abs(side) < 0.2 else "start" if side > 0 else "end"
        )
    for place in reversed(range(len(names))):
        own = [(k, value) for k, value in enumerate(values[place].tolist()) if not math.isnan(value)]
        spots = [spot(k, (value - low) / (high - low)) for k, value in own]
        drawing.line(spots, place, closed=len(own) == len(axes))
        for x, y in spots:
            drawing.mark(x, y, place)
    return str(drawing), (low, high)


def curves(lines: Sequence[tuple[Floats, Floats, Floats, Floats]], most: float, axis: str, wanted: float) -> str:
    """Draw at most six curves of shares over an axis from zero, each with its band and a mark where it reaches a level.

    Args:
        lines: x, curve, and low and high end of the band of each.
        most: End of the x axis.
        axis: Label of the x axis.
        wanted: The level.
    """
    width, height, left, right, top, bottom = 560.0, 270.0, 44.0, 16.0, 12.0, 40.0
    drawing = Drawing(width, height)

    def at(x: float, y: float) -> tuple[float, float]:
        return left + (width - left - right) * x / most, height - bottom - (height - top - bottom) * y

    for level in (0.0, 0.25, 0.5, 0.75, 1.0):
        (x1, y1), (x2, _) = at(0, level), at(most, level)
        drawing.add("line", "s-grid", x1=x1, y1=y1, x2=x2, y2=y1, stroke_width="1")
        drawing.text(left - 6, y1 + 4, f"{level:.0%}", anchor="end")
    (x1, y1), (x2, _) = at(0, wanted), at(most, wanted)
    drawing.add("line", "s-soft", x1=x1, y1=y1, x2=x2, y2=y1, stroke_width="1", stroke_dasharray="2 3")
    step = 10 ** math.floor(math.log10(most)) if most >= 1 else most
    step = next(step * each for each in (0.2, 0.5, 1, 2) if most / (step * each) <= 6)
    for k in range(int(most / step) + 1):
        x, y = at(k * step, 0)
        drawing.text(x, y + 15, f"{k * step:,.0f}")
    drawing.text((left + width - right) / 2, height - 6, axis)
    for place, (along, middle, low, high) in enumerate(lines):
        shown = along <= most
        band = [at(*each) for each in zip(along[shown], high[shown], strict=True)]
        band += [at(*each) for each in zip(along[shown][::-1], low[shown][::-1], strict=True)]
        drawing.add("polygon", f"f-c{place}", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in band), fill_opacity="0.13")
        drawing.line([at(*each) for each in zip(along[shown], middle[shown], strict=True)], place)
        spot = int(np.argmin(np.abs(middle - wanted)))
        if shown[spot]:
            drawing.mark(*at(float(along[spot]), float(middle[spot])), place)
    return str(drawing)
