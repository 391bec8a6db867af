"""Charts as inline SVG: drawn by matplotlib, then freed of every style, id and colour that the page should decide.

A page with a content security policy takes no `style` attribute, and dark mode and print want their own colours, so
each colour becomes a class (`f-` fill, `s-` stroke) that the style sheet fills in.
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
HAZE = 400  # faint dots at most
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
    """An image and the same in numbers: `rows` below `columns`."""

    title: str
    note: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def charts(report: Report) -> list[Chart]:
    """Draw every chart for which the report has data; none without pairs."""
    if not report.pairs or not report.judges:
        return []
    key, categories = human_agreement.by_category(report)
    clear = "Agreement with people by how far apart the two scores are, in fifths of each metric’s own gaps."
    gap = "Places between the two images in people’s ranking of that prompt."
    found = [
        _lines(
            report,
            human_agreement.calibration(report),
            "Is a clear verdict a safe one?",
            clear,
            "gap between the two scores",
        ),
        _lines(
            report,
            human_agreement.by_rank_gap(report),
            "Agreement by how clearly people prefer one",
            gap,
            "gap in human rank",
        ),
        _lines(
            report, human_agreement.by_length(report), "Agreement by length of the prompt", "", "words in the prompt"
        ),
        _lines(report, categories, f"Agreement by {key}", "", key, joined=False),
        *(_scatter(report, judge, judge) for judge in range(min(MAX_METRICS, len(report.judges)))),
    ]
    return [chart for chart in found if chart is not None]


def _lines(
    report: Report, cut: human_agreement.Cut, title: str, note: str, axis: str, *, joined: bool = True
) -> Chart | None:
    if not cut:
        return None
    shown = [judge for judge in cut if judge < MAX_METRICS]
    if not shown:
        return None

    def draw(figure: Any) -> None:
        axes = figure.add_axes((0.09, 0.19, 0.9, 0.77))
        frame(axes)
        shift = 0.5 / max(1, len(shown))
        for place, judge in enumerate(shown):
            points = [(one.value, one.interval) for one in cut[judge]]
            series(axes, points, judge, (place - (len(shown) - 1) / 2) * shift * 0.5, joined=joined)
        labels = [one.label for one in cut[shown[0]]]
        axes.set_xticks(range(len(labels)), [shortened(label) for label in labels])
        axes.set_xlim(-0.5, len(labels) - 0.5)
        axes.set_xlabel(axis)
        draw_percent(axes)
        axes.axhline(0.5, color=NAME["soft"], linewidth=0.8, dashes=(2, 3), zorder=1)

    rows = [
        (report.judges[judge].label, one.label, percentage(one.value), span(one.interval), str(one.pairs))
        for judge in cut
        for one in cut[judge]
    ]
    return Chart(title, note, svg_of(draw, title), ("metric", axis, "agreement", "95% interval", "pairs"), tuple(rows))


def series(axes: Any, points: Sequence[Point], place: int, shift: float, *, joined: bool) -> None:
    """Draw a line, or a row of marks, in the colour, dash and mark of `place`: values with intervals at 0, 1, ... + shift."""
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


def shortened(label: str) -> str:
    """Shorten a label so that it fits under an axis."""
    return label if len(label) < 15 else label[:13] + "…"


def _scatter(report: Report, judge: int, place: int) -> Chart | None:
    """Plot the mean score of each generator against how often people prefer its images, over a haze of all images."""
    points = human_agreement.generators(report, judge)
    if len(points) < 2:
        return None
    about = report.judges[judge]
    haze = human_agreement.images(report, judge, HAZE)

    def draw(figure: Any) -> None:
        axes = figure.add_axes((0.09, 0.19, 0.9, 0.77))
        frame(axes)
        axes.plot([x for x, _ in haze], [y for _, y in haze], color=NAME[f"c{place}"], linestyle="none", marker="o",
                  markersize=3.2, markeredgewidth=0, alpha=0.38, zorder=2)  # fmt: skip
        axes.margins(0.08, 0.1)
        _points(axes, points, place)
        axes.set_xlabel("share of comparisons won with people")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")

    rows = tuple(
        (
            about.label,
            point.label or "(no name)",
            percentage(point.human),
            f"{point.score:.{about.digits}f}",
            span(point.interval, about.digits),
        )
        for point in points
    )
    note = "One large mark a generator, its bar the 95% interval of the mean; one faint dot an image."
    return Chart(f"{clean(about.label, 28)} against people", note, svg_of(draw, f"scatter {judge}"),
                 ("metric", "generator", "won with people", "mean score", "95% interval"), rows)  # fmt: skip


def _points(axes: Any, points: Sequence[human_agreement.Point], place: int) -> None:
    colour = NAME[f"c{place}"]
    for point in points:
        if point.interval is not None:
            axes.plot(
                [point.human] * 2,
                point.interval,
                color=colour,
                linewidth=1.3,
                alpha=0.6,
                solid_capstyle="round",
                zorder=3,
            )
    axes.plot([p.human for p in points], [p.score for p in points], color=colour, linestyle="none",
              marker=MARKERS[place], markersize=7, markeredgewidth=0, zorder=4)  # fmt: skip
    _names(axes, points)


def _names(axes: Any, points: Sequence[human_agreement.Point]) -> None:
    """Write names beside the marks, each where it covers no other; one that fits nowhere is left to the table."""
    axes.set_xlim(axes.get_xlim())  # fixed now: places on the page are asked for below
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


def frame(axes: Any) -> None:
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
    """Draw an axis of shares up to 100% that begins at `lowest`, or below where a mark asks for it."""
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:.0%}")
    low, _ = axes.get_ylim()
    axes.set_ylim(min(lowest, max(0.0, low)) - (0.02 if not lowest else 0.0), 1.02)


def percentage(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def span(interval: tuple[float, float] | None, digits: int | None = None) -> str:
    if interval is None:
        return "–"
    return " – ".join(f"{end:.1%}" if digits is None else f"{end:.{digits}f}" for end in interval)


def svg_of(draw: Callable[[Any], None], salt: str, width: float = 6.2, height: float = 2.75) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    settings = {"svg.fonttype": "none", "svg.hashsalt": salt, "text.parse_math": False, "font.family": "DejaVu Sans",
                "axes.formatter.use_mathtext": False, "axes.unicode_minus": True}  # fmt: skip
    out = io.StringIO()
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(width, height))
        figure.patch.set_visible(False)
        draw(figure)
        with (
            warnings.catch_warnings()
        ):  # of letters that the font lacks: the SVG holds text, which the reader's font draws
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return plain(out.getvalue())


def plain(svg: str) -> str:
    """Rewrite an SVG with classes in place of styles, without ids that nothing refers to, without metadata."""
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
