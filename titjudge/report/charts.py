"""Charts as inline SVG: drawn by matplotlib, then freed of every style, id and colour that the page should decide.

A page with a content security policy takes no `style` attribute, and dark mode and print want their own colours, so
each colour becomes a class (`f-` fill, `s-` stroke) that the style sheet fills in.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from titjudge.report import people
from titjudge.report.model import Report

MAX_METRICS = 6
_COLOURS = {"#000011": "ink", "#000022": "soft", "#000033": "grid", "#000044": "paper"} | {
    f"#0000{number + 5}5": f"c{number}" for number in range(MAX_METRICS)
}
_NAME = {name: colour for colour, name in _COLOURS.items()}
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
_KEPT = frozenset({"fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-dashoffset", "fill-opacity", "stroke-opacity",
                   "opacity", "text-anchor", "font-size"})  # fmt: skip
_NAMESPACE = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture and the same in numbers: `rows` below `columns`."""

    title: str
    note: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def charts(report: Report) -> list[Chart]:
    """Every chart for which the report has data; none without pairs."""
    if not report.pairs or not report.judges:
        return []
    key, categories = people.by_category(report)
    wanted: list[Chart | None] = [
        _scatter(report),
        _lines(report, people.calibration(report), "Is a clear verdict a safe one?",
               "Agreement with people by how far apart the two scores are, in fifths of each metric’s own gaps.", "gap between the two scores"),
        _lines(report, people.by_rank_gap(report), "Agreement by how clearly people prefer one",
               "Places between the two images in people’s ranking of that prompt.", "gap in human rank"),
        _lines(report, people.by_length(report), "Agreement by length of the prompt", "Words in the prompt.", "words"),
        _lines(report, categories, f"Agreement by {key}", "", key, joined=False),
    ]  # fmt: skip
    return [chart for chart in wanted if chart is not None]


def _lines(report: Report, cut: people.Cut, title: str, note: str, axis: str, *, joined: bool = True) -> Chart | None:
    if not cut:
        return None
    shown = list(cut)[:MAX_METRICS]

    def draw(figure: Any) -> None:
        axes = figure.add_axes((0.1, 0.17, 0.87, 0.78))
        _frame(axes)
        shift = 0.5 / max(1, len(shown))
        for place, judge in enumerate(shown):
            _series(axes, cut[judge], place, (place - (len(shown) - 1) / 2) * shift * 0.5, joined)
        labels = [one.label for one in cut[shown[0]]]
        axes.set_xticks(range(len(labels)), [label if len(label) < 15 else label[:13] + "…" for label in labels])
        axes.set_xlim(-0.5, len(labels) - 0.5)
        axes.set_xlabel(axis)
        _percent(axes)
        axes.axhline(0.5, color=_NAME["soft"], linewidth=0.8, dashes=(2, 3), zorder=1)

    rows = [
        (report.judges[judge].label, one.label, _percentage(one.value), _span(one.interval), str(one.pairs))
        for judge in cut
        for one in cut[judge]
    ]
    return Chart(title, note, _svg(draw, title), ("metric", axis, "agreement", "95% interval", "pairs"), tuple(rows))


def _series(axes: Any, bins: Sequence[people.Bin], place: int, offset: float, joined: bool) -> None:
    drawn = [(number + offset, one) for number, one in enumerate(bins) if one.value is not None]
    colour = _NAME[f"c{place}"]
    for x, one in drawn:
        if one.interval is not None:
            axes.plot([x, x], one.interval, color=colour, linewidth=1.1, alpha=0.55, solid_capstyle="round", zorder=2)
    axes.plot(
        [x for x, _ in drawn], [one.value for _, one in drawn], color=colour, linewidth=1.6,
        linestyle=_DASHES[place] if joined else "none", marker=_MARKERS[place], markersize=5.5,
        markeredgewidth=0, zorder=3,
    )  # fmt: skip


def _scatter(report: Report) -> Chart | None:
    """Small multiples: for each metric the generators' mean score against how often people prefer their images."""
    found = [
        (judge, points) for judge in range(len(report.judges)) if len(points := people.generators(report, judge)) > 1
    ]
    if not found:
        return None
    shown = found[:MAX_METRICS]
    across = min(3, len(shown))
    down = -(-len(shown) // across)

    def draw(figure: Any) -> None:
        for place, (judge, points) in enumerate(shown):
            column, row = place % across, down - 1 - place // across
            width, height = 1 / across, 1 / down
            axes = figure.add_axes(
                (
                    column * width + 0.1 * (0.6 + 0.4 * (across < 2)),
                    row * height + 0.17 * (0.5 + 0.5 / down),
                    width - 0.085,
                    height - 0.3 / down,
                )
            )
            _frame(axes)
            _points(axes, points, place)
            axes.set_title(_short(report.judges[judge].label), fontsize=11, color=_NAME["ink"], loc="left")
            axes.set_xlabel("comparisons won with people")
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")

    rows = [
        (report.judges[judge].label, point.label or "(no name)", _percentage(point.human),
         f"{point.score:.{report.judges[judge].digits}f}", _span(point.interval, report.judges[judge].digits))
        for judge, points in found for point in points
    ]  # fmt: skip
    return Chart(
        "Generators: mean score against people", "One dot a generator; bars are 95% intervals of the mean.",
        _svg(draw, "generators", height=2.6 * down + 0.4 if across > 1 else 3.4),
        ("metric", "generator", "won with people", "mean score", "95% interval"), tuple(rows),
    )  # fmt: skip


def _points(axes: Any, points: Sequence[people.Point], place: int) -> None:
    colour = _NAME[f"c{place}"]
    for point in points:
        if point.interval is not None:
            axes.plot(
                [point.human] * 2,
                point.interval,
                color=colour,
                linewidth=1.1,
                alpha=0.55,
                solid_capstyle="round",
                zorder=2,
            )
    axes.plot([p.human for p in points], [p.score for p in points], color=colour, linestyle="none",
              marker=_MARKERS[place], markersize=6.5, markeredgewidth=0, zorder=3)  # fmt: skip
    if len(points) <= 8:
        for point in points:
            axes.annotate(_short(point.label, 14), (point.human, point.score), xytext=(6, 5), textcoords="offset points",
                          fontsize=9, color=_NAME["soft"], zorder=4)  # fmt: skip
    axes.margins(0.16, 0.12)


def _short(text: str, length: int = 28) -> str:
    text = re.sub(r"[\x00-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", "", text)
    return text if len(text) <= length else text[: length - 1] + "…"


def _frame(axes: Any) -> None:
    axes.set_facecolor("none")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_NAME["soft"])
    axes.tick_params(length=0, colors=_NAME["soft"], labelsize=9.5)
    axes.yaxis.grid(True, color=_NAME["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_color(_NAME["soft"])
    axes.xaxis.label.set_size(9.5)


def _percent(axes: Any) -> None:
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:.0%}")
    low, _ = axes.get_ylim()
    axes.set_ylim(min(0.4, max(0.0, low)), 1.02)


def _percentage(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _span(interval: tuple[float, float] | None, digits: int | None = None) -> str:
    if interval is None:
        return "–"
    return " – ".join(f"{end:.1%}" if digits is None else f"{end:.{digits}f}" for end in interval)


def _svg(draw: Callable[[Any], None], salt: str, width: float = 7.6, height: float = 3.0) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    settings = {"svg.fonttype": "none", "svg.hashsalt": salt, "text.parse_math": False, "font.family": "DejaVu Sans",
                "axes.formatter.use_mathtext": False, "axes.unicode_minus": True}  # fmt: skip
    out = io.StringIO()
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(width, height))
        figure.patch.set_visible(False)
        draw(figure)
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return plain(out.getvalue())


def plain(svg: str) -> str:
    """An SVG with classes in place of styles, without ids that nothing refers to, without metadata."""
    root = ElementTree.fromstring(svg)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", svg))
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{_NAMESPACE}metadata", f"{_NAMESPACE}style"):
                parent.remove(child)
    for element in root.iter():
        _strip(element, used)
    root.attrib = {"viewBox": root.attrib["viewBox"], "aria-hidden": "true", "focusable": "false"}
    return ElementTree.tostring(root, encoding="unicode")


def _strip(element: Any, used: set[str]) -> None:
    element.tag = element.tag.removeprefix(_NAMESPACE)
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
