"""Draw a chart once, for the page as inline SVG and for files as SVG or PNG; the same numbers give the same bytes.

The content security policy of the page forbids `style` attributes, and dark mode and print have different colours: there
each colour becomes a class (`f-` fill, `s-` stroke) that the style sheet defines. Names are drawn as plain text, whatever
they contain.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from titjudge.core.declarations import FACTS
from titjudge.core.errors import ConfigError, must_be
from titjudge.core.tables import Table
from titjudge.core.words import truncated
from titjudge.stats.bootstrap import Floats

COLOURS = 6  # generators or metrics with a colour, a dash and a distinct mark; the tables have all
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
WIDTH, HEIGHT = 6.2, 2.75  # inches
_KEPT = frozenset(
    (
        "fill stroke stroke-width stroke-dasharray stroke-dashoffset fill-opacity stroke-opacity opacity "
        "text-anchor font-size"
    ).split()
)
_NAMESPACE = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_SETTINGS = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
}


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of a chart; `series` are for generators or metrics."""

    ink: str
    soft: str
    grid: str
    series: tuple[str, ...]


FILE = Palette("#22201c", "#645f56", "#e2ded5", ("#1c5a7d", "#b4552d", "#4d7a3a", "#7b4a8c", "#8a6d1b", "#4a5560"))
PAGE = Palette("#000011", "#000022", "#000033", tuple(f"#0000{number + 5:x}5" for number in range(COLOURS)))
_CLASSES = {PAGE.ink: "ink", PAGE.soft: "soft", PAGE.grid: "grid"} | {
    colour: f"c{number}" for number, colour in enumerate(PAGE.series)
}


class Canvas:
    """A figure of matplotlib with the colours of its destination."""

    def __init__(self, figure: Any, palette: Palette) -> None:
        self.figure, self.palette = figure, palette

    def axes(self, box: tuple[float, float, float, float] = (0.09, 0.19, 0.9, 0.77), grid: str = "y") -> Any:
        """Add axes without a frame, with a grid.

        Args:
            box: Left, bottom, width and height as shares of the figure.
            grid: The axis whose values have grid lines: x, y or both.
        """
        axes = self.figure.add_axes(box)
        axes.set_facecolor("none")
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(self.palette.soft)
        axes.tick_params(length=0, colors=self.palette.soft, labelsize=9.5)
        axes.grid(visible=True, axis=grid, color=self.palette.grid, linewidth=0.8)
        axes.set_axisbelow(True)
        for axis in (axes.xaxis, axes.yaxis):
            axis.label.set_color(self.palette.soft)
            axis.label.set_size(9.5)
        return axes

    def rows(self, names: Sequence[str]) -> Any:
        """Add axes with a row for each name, the first above."""
        height = float(self.figure.get_figheight())
        axes = self.axes((0.36, 0.5 / height, 0.62, 1 - 0.6 / height), grid="x")
        axes.set_yticks(range(len(names)), [shortened(name, 34) for name in names], fontsize=8)
        axes.set_ylim(len(names) - 0.5, -0.5)
        return axes

    def colour(self, place: int) -> str:
        """Return the colour of the generator or metric at a place."""
        return self.palette.series[place % COLOURS]

    def interval(self, axes: Any, x: Sequence[float], y: Sequence[float], colour: str) -> None:
        """Draw the bar of an interval between two points."""
        axes.plot(x, y, color=colour, linewidth=1.3, alpha=0.55, solid_capstyle="round", zorder=2)

    def marks(
        self, axes: Any, x: Sequence[float] | Floats, y: Sequence[float] | Floats, place: int, **style: Any
    ) -> None:
        """Draw the marks of the generator or metric at a place; `linestyle` joins them."""
        style = {"linestyle": "none", "linewidth": 1.6, "markersize": 5.5, "zorder": 3} | style
        marker = MARKERS[place % COLOURS]
        axes.plot(x, y, color=self.colour(place), marker=marker, markeredgewidth=0, **style)

    def band(self, axes: Any, x: Any, low: Any, high: Any, place: int) -> None:
        """Fill the band between two curves."""
        axes.fill_between(x, low, high, color=self.colour(place), alpha=0.13, linewidth=0)

    def legend(self, axes: Any) -> None:
        """Name what has a label; a page names it above its charts instead."""
        if self.palette is FILE and axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=7, frameon=False, labelcolor=self.palette.ink)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with the table of its numbers.

    Attributes:
        id: Its name in the page, by which it can be linked to.
        title: Its title.
        note: How to read it.
        draw: Draws it on a canvas.
        numbers: The numbers that it shows.
        size: Width and height in inches.
        fixed: Whether the page scrolls it at full size rather than fit it to the page's width.
    """

    id: str
    title: str
    note: str
    draw: Callable[[Canvas], None]
    numbers: Table = field(default_factory=lambda: Table("", (), (), declared=FACTS))
    size: tuple[float, float] = (WIDTH, HEIGHT)
    fixed: bool = False

    @property
    def svg(self) -> str:
        """The drawing for the page."""
        return plain_svg(_saved(self, PAGE, "svg").decode(), fixed=self.fixed)


def check_chart(path: Path) -> None:
    """Check the suffix of a chart, before anything is computed.

    Raises:
        ConfigError: It is neither .svg nor .png.
    """
    if path.suffix.lower() not in (".svg", ".png"):
        raise ConfigError(must_be("--plot", "a file that ends in .svg or .png", str(path)))


def write_chart(chart: Chart, path: Path) -> None:
    """Write a chart as SVG or PNG, by the suffix.

    Raises:
        ConfigError: The suffix is another one.
        OSError: The file cannot be written.
    """
    check_chart(path)
    content = _saved(chart, FILE, path.suffix.lower()[1:])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _saved(chart: Chart, palette: Palette, kind: str) -> bytes:
    """Draw a chart with matplotlib and return the file; `kind` is svg or png."""
    import matplotlib
    from matplotlib.figure import Figure

    out = io.BytesIO()
    with matplotlib.rc_context(_SETTINGS | {"svg.hashsalt": chart.id}):
        figure = Figure(figsize=chart.size, dpi=150 if kind == "png" else 72)
        figure.patch.set_visible(palette is FILE)
        chart.draw(Canvas(figure, palette))
        if palette is FILE:
            figure.suptitle(shortened(chart.title, 90), fontsize=9, color=palette.ink, y=1.0, va="bottom")
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        with warnings.catch_warnings():  # letters missing in the font: the SVG has text, drawn in the reader's font
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            figure.savefig(out, format=kind, metadata=metadata, bbox_inches="tight" if palette is FILE else None)
    return out.getvalue()


def shortened(text: str, length: int) -> str:
    """Shorten a name for a chart, without the characters that XML or a line cannot contain."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]", "", text)
    return truncated(text, length)


def plain_svg(svg: str, *, fixed: bool = False) -> str:
    """Rewrite an SVG with classes instead of styles, without unused ids and metadata; a `fixed` one keeps its width."""
    root = ElementTree.fromstring(svg)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", svg))
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{_NAMESPACE}metadata", f"{_NAMESPACE}style"):
                parent.remove(child)
    for element in root.iter():
        _strip(element, used)
    box = root.attrib["viewBox"]
    root.attrib = {"viewBox": box, "aria-hidden": "true", "focusable": "false"}
    if fixed:
        width = float(box.split()[2])
        root.attrib |= {"width": f"{width * 4 / 3:g}", "class": "fixed wide" if width > 400 else "fixed"}
    return ElementTree.tostring(root, encoding="unicode")


def _strip(element: Any, used: set[str]) -> None:
    """Turn the style of an element into classes and attributes, and drop ids that nothing refers to."""
    element.tag = element.tag.removeprefix(_NAMESPACE)
    attributes: dict[str, str] = {}
    classes: list[str] = []
    for name, content in element.attrib.items():
        if name == "style":
            # A declaration becomes a class if it is a colour of the page, otherwise an attribute.
            for declaration in content.split(";"):
                style, _, value = (part.strip() for part in declaration.partition(":"))
                if style in ("fill", "stroke") and value in _CLASSES:
                    classes.append(f"{style[0]}-{_CLASSES[value]}")
                elif style == "font":
                    size = re.search(r"([\d.]+)px", value)
                    attributes["font-size"] = size[1] if size else "10"
                elif style in _KEPT:
                    attributes[style] = value.removesuffix("px")
        elif name == f"{_XLINK}href":
            attributes["href"] = content
        elif name != "id" or content in used:
            attributes[name] = content
    if element.tag == "text" and "fill" not in attributes and not classes:
        classes.append("f-ink")
    if classes:
        attributes["class"] = " ".join(classes)
    element.attrib = attributes
