"""Figures of the documents as SVG elements: colours are classes of their style sheet, words are text."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from titjudge.report.drawing import shortened

DASHES = ("", "6 3", "6 2 1.5 2", "1.5 2.5", "9 2", "3 1")
SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-3.4-3.4h6.8v6.8h-6.8z", "M0-4.2l4.2 7.6h-8.4z", "M0-4.6l4.6 4.6l-4.6 4.6l-4.6-4.6z",
    "M0 4.2l4.2-7.6h-8.4z", "M-1.5-4h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5z",
)  # fmt: skip


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
        ElementTree.SubElement(self._root, tag, {"class": classes, **written}).text = shortened(text, len(text)) or None

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
