"""Charts as inline SVG, drawn by matplotlib, with classes in place of styles and colours.

The content security policy of the page forbids `style` attributes, and dark mode and print have their own colours: each
colour becomes a class (`f-` fill, `s-` stroke) that the style sheet defines.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from titjudge.report import human_agreement
from titjudge.report.model import Report
from titjudge.report.svg import clean

MAX_METRICS = 6  # metrics with a colour and a mark of their own; the tables have all
HAZE = 400  # most faint dots, one an image
_COLOURS = {"#000011": "ink", "#000022": "soft", "#000033": "grid", "#000044": "paper"} | {
    f"#0000{number + 5:x}5": f"c{number}" for number in range(MAX_METRICS)
}
NAME = {name: colour for colour, name in _COLOURS.items()}
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
_KEPT = frozenset({"fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-dashoffset", "fill-opacity", "stroke-opacity",
                   "opacity", "text-anchor", "font-size"})  # fmt: skip
NAMESPACE = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"


Point = tuple[float | None, Sequence[float] | None]  # a value and its interval


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, and its numbers as `rows` below `columns`."""

    title: str
    note: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def charts(report: Report) -> list[Chart]:
    """Draw the agreement of metrics with people, as far as the report has data; nothing without pairs."""
    if not report.pairs or not report.judges:
        return []
    key, categories = human_agreement.by_category(report)
    gaps = "Agreement with people by how far apart the two scores are, in fifths of each metric’s own gaps."
    ranks = "Places between the two images in people’s ranking of that prompt."
    drawn = [
        _lines(report, cut, title, note, axis, joined=cut is not categories)
        for cut, title, note, axis in (
            (human_agreement.calibration(report), "Is a clear verdict a safe one?", gaps, "gap between the two scores"),
            (human_agreement.by_rank_gap(report), "Agreement by how clearly people prefer one", ranks, "gap in human rank"),
            (human_agreement.by_length(report), "Agreement by length of the prompt", "", "words in the prompt"),
            (categories, f"Agreement by {key}", "", key),
        )
    ]  # fmt: skip
    drawn += [_scatter(report, judge) for judge in range(min(MAX_METRICS, len(report.judges)))]
    return [chart for chart in drawn if chart is not None]


def _lines(report: Report, cut: human_agreement.Cut, title: str, note: str, axis: str, *, joined: bool) -> Chart | None:
    """Draw the accuracy of each metric over the bins of a cut; None where it is empty."""
    shown = [judge for judge in cut if judge < MAX_METRICS]
    if not shown:
        return None

    def draw(figure: Any) -> None:
        axes = new_axes(figure)
        shift = 0.5 / len(shown)
        for place, judge in enumerate(shown):
            points = [(one.value, one.interval) for one in cut[judge]]
            series(axes, points, judge, (place - (len(shown) - 1) / 2) * shift * 0.5, joined=joined)
        label_categories(axes, [one.label for one in cut[shown[0]]], axis)
        draw_percent(axes)
        axes.axhline(0.5, color=NAME["soft"], linewidth=0.8, dashes=(2, 3), zorder=1)

    rows = [
        (report.judges[judge].label, one.label, percentage(one.value), span(one.interval), str(one.pairs))
        for judge in cut
        for one in cut[judge]
    ]
    return Chart(title, note, svg_of(draw, title), ("metric", axis, "agreement", "95% interval", "pairs"), tuple(rows))


def series(axes: Any, points: Sequence[Point], place: int, shift: float, *, joined: bool) -> None:
    """Draw values with intervals at 0, 1, ... + shift, in the colour, dash and mark of `place`; `joined` draws a line."""
    drawn = [(at + shift, value, interval) for at, (value, interval) in enumerate(points) if value is not None]
    colour = NAME[f"c{place}"]
    for x, _, interval in drawn:
        if interval is not None:
            axes.plot([x, x], interval, color=colour, linewidth=1.1, alpha=0.55, solid_capstyle="round", zorder=2)
    axes.plot(
        [x for x, _, _ in drawn], [value for _, value, _ in drawn], color=colour, linewidth=1.6,
        linestyle=DASHES[place] if joined else "none", marker=MARKERS[place], markersize=5.5,
        markeredgewidth=0, zorder=3,
    )  # fmt: skip


def label_categories(axes: Any, labels: Sequence[str], axis: str) -> None:
    """Label the categories 0, 1, ... of the x axis."""
    axes.set_xticks(range(len(labels)), [label if len(label) < 15 else label[:13] + "…" for label in labels])
    axes.set_xlim(-0.5, len(labels) - 0.5)
    axes.set_xlabel(axis)


def _scatter(report: Report, judge: int) -> Chart | None:
    """Plot the mean score of each generator against the share of comparisons won with people, with a faint dot an image."""
    points = human_agreement.generators(report, judge)
    if len(points) < 2:
        return None
    about = report.judges[judge]
    haze = human_agreement.images(report, judge, HAZE)

    def draw(figure: Any) -> None:
        axes = new_axes(figure)
        axes.plot([x for x, _ in haze], [y for _, y in haze], color=NAME[f"c{judge}"], linestyle="none", marker="o",
                  markersize=3.2, markeredgewidth=0, alpha=0.38, zorder=2)  # fmt: skip
        axes.margins(0.08, 0.1)
        _points(axes, points, judge)
        axes.set_xlabel("share of comparisons won with people")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")

    rows = tuple(
        (about.label, point.label or "(no name)", percentage(point.human), f"{point.score:.{about.digits}f}",
         span(point.interval, about.digits))
        for point in points
    )  # fmt: skip
    note = "One large mark a generator, its bar the 95% interval of the mean; one faint dot an image."
    return Chart(f"{clean(about.label, 28)} against people", note, svg_of(draw, f"scatter {judge}"),
                 ("metric", "generator", "won with people", "mean score", "95% interval"), rows)  # fmt: skip


def _points(axes: Any, points: Sequence[human_agreement.Point], place: int) -> None:
    colour = NAME[f"c{place}"]
    for point in points:
        if point.interval is not None:
            axes.plot([point.human] * 2, point.interval, color=colour, linewidth=1.3, alpha=0.6, solid_capstyle="round",
                      zorder=3)  # fmt: skip
    axes.plot([p.human for p in points], [p.score for p in points], color=colour, linestyle="none",
              marker=MARKERS[place], markersize=7, markeredgewidth=0, zorder=4)  # fmt: skip
    _names(axes, points)


def _names(axes: Any, points: Sequence[human_agreement.Point]) -> None:
    """Write names beside the marks where they cover nothing; a name that fits nowhere is left out (the table has it)."""
    axes.set_xlim(axes.get_xlim())  # fix the limits: the names are placed in page coordinates
    axes.set_ylim(axes.get_ylim())
    spots = axes.transData.transform([(point.human, point.score) for point in points])
    scale = axes.figure.dpi / 72
    right = axes.bbox.x1
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in spots]
    for point, (x, _) in zip(points, spots, strict=True):
        if point.interval is not None:
            low, high = (float(axes.transData.transform((point.human, end))[1]) for end in point.interval)
            taken.append((x - 2, low, x + 2, high))
    for point, (x, y) in zip(points, spots, strict=True):
        text = clean(point.label, 16)
        width, height = 5.6 * scale * len(text), 11 * scale
        for dx, dy in ((7, -3.5), (7, 6), (7, -13), (-7, -3.5), (-7, 6), (-7, -13)):
            left = x + dx * scale if dx > 0 else x + dx * scale - width
            box = (left, y + dy * scale, left + width, y + dy * scale + height)
            free = not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)
            if free and box[2] < right + 4 and left > axes.bbox.x0:
                axes.annotate(text, (point.human, point.score), xytext=(dx, dy), textcoords="offset points", fontsize=9,
                              ha="left" if dx > 0 else "right", va="bottom", color=NAME["ink"], zorder=5)  # fmt: skip
                taken.append(box)
                break


def new_axes(figure: Any) -> Any:
    """Add the axes that most charts have."""
    axes = figure.add_axes((0.09, 0.19, 0.9, 0.77))
    frame(axes)
    return axes


def frame(axes: Any) -> None:
    """Style axes: no frame, a horizontal grid, colours of the page."""
    axes.set_facecolor("none")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(NAME["soft"])
    axes.tick_params(length=0, colors=NAME["soft"], labelsize=9.5)
    axes.yaxis.grid(True, color=NAME["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_color(NAME["soft"])
    axes.xaxis.label.set_size(9.5)


def draw_percent(axes: Any, lowest: float = 0.4) -> None:
    """Format the y axis as shares up to 100%, from `lowest` or the lowest value."""
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:.0%}")
    low, _ = axes.get_ylim()
    axes.set_ylim(min(lowest, max(0.0, low)) - (0.02 if not lowest else 0.0), 1.02)


def percentage(value: float | None) -> str:
    """Format a share, a dash for None."""
    return "–" if value is None else f"{value:.1%}"


def span(interval: tuple[float, float] | None, digits: int | None = None) -> str:
    """Format an interval, of shares unless `digits` are given; a dash for None."""
    if interval is None:
        return "–"
    return " – ".join(f"{end:.1%}" if digits is None else f"{end:.{digits}f}" for end in interval)


def svg_of(draw: Callable[[Any], None], salt: str, height: float = 2.75) -> str:
    """Return what `draw(figure)` draws as SVG for the page; `salt` makes the ids unique. The height is in inches."""
    import matplotlib
    from matplotlib.figure import Figure

    settings = {"svg.fonttype": "none", "svg.hashsalt": salt, "text.parse_math": False, "font.family": "DejaVu Sans",
                "axes.formatter.use_mathtext": False, "axes.unicode_minus": True}  # fmt: skip
    out = io.StringIO()
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(6.2, height))
        figure.patch.set_visible(False)
        draw(figure)
        with warnings.catch_warnings():  # letters missing in the font: the SVG has text, drawn in the reader's font
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return plain(out.getvalue())


def plain(svg: str) -> str:
    """Rewrite an SVG with classes in place of styles, without unused ids and metadata."""
    root = ElementTree.fromstring(svg)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", svg))
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{NAMESPACE}metadata", f"{NAMESPACE}style"):
                parent.remove(child)
    for element in root.iter():
        _strip(element, used)
    root.attrib = {"viewBox": root.attrib["viewBox"], "aria-hidden": "true", "focusable": "false"}
    return ElementTree.tostring(root, encoding="unicode")


def _strip(element: Any, used: set[str]) -> None:
    element.tag = element.tag.removeprefix(NAMESPACE)
    attributes: dict[str, str] = {}
    classes: list[str] = []
    for name, content in element.attrib.items():
        if name == "style":
            for declaration in content.split(";"):
                _declare(declaration, attributes, classes)
        elif name == f"{_XLINK}href":
            attributes["href"] = content
        elif name != "id" or content in used:
            attributes[name] = content
    if element.tag == "text" and "fill" not in attributes and not classes:
        classes.append("f-ink")
    if classes:
        attributes["class"] = " ".join(classes)
    element.attrib = attributes


def _declare(declaration: str, attributes: dict[str, str], classes: list[str]) -> None:
    name, _, content = (part.strip() for part in declaration.partition(":"))
    if name in ("fill", "stroke") and content in _COLOURS:
        classes.append(f"{name[0]}-{_COLOURS[content]}")
    elif name == "font":
        size = re.search(r"([\d.]+)px", content)
        attributes["font-size"] = size[1] if size else "10"
    elif name in _KEPT:
        attributes[name] = content.removesuffix("px")
