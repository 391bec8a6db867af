"""The charts of comparisons, for the report and for `--plot`: differences, settling, power, heat maps, profiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from titjudge.core.declarations import Declaration
from titjudge.core.tables import Table, percent
from titjudge.core.words import percentage
from titjudge.report.drawing import COLOURS, DASHES, WIDTH, Canvas, Chart, shortened
from titjudge.stats.bootstrap import Floats
from titjudge.stats.generators.generator_differences import GeneratorDifference
from titjudge.stats.generators.planning import PLAN, Pilot, Plan, PowerCurve, power_curve
from titjudge.stats.generators.sequential import RaceResult, Settled, replay_averages
from titjudge.stats.ppi.bridging import Bridge
from titjudge.stats.ppi.ppi_leaderboard import GeneratorRank

_ROWS = 60  # most rows of a chart, so that they can be read
_DEEPEST = 0.45  # highest opacity of a cell, so that words on it are legible in either theme
NO_NAME = "(no name)"


def _row_size(rows: int, extra: float = 0.0) -> tuple[float, float]:
    return 7.0, 1.2 + extra + 0.22 * max(rows, 4)


def differences_chart(differences: Sequence[GeneratorDifference], delta: float | None = None) -> Chart:
    """Chart each difference with its 95% interval, and the slices of a single pair below it."""
    rows = [(f"{pair.a} - {pair.b}", pair) for pair in differences]
    if len(differences) == 1:
        rows += [
            (f"{column}: {value}", in_slice)
            for column, slices in differences[0].by.items()
            for value, in_slice in slices.items()
        ]
    bars = [(name, row.difference, row.interval) for name, row in rows if row.difference is not None][:_ROWS]

    def draw(canvas: Canvas) -> None:
        axes = canvas.rows([name for name, _, _ in bars])
        axes.axvline(0, color=canvas.palette.soft, linewidth=1)
        if delta:
            axes.axvline(-delta, color=canvas.colour(1), linestyle=":", linewidth=1.2)
        for place, (_, difference, interval) in enumerate(bars):
            canvas.interval(axes, interval or (difference, difference), [place, place], canvas.colour(0))
            canvas.marks(axes, [difference], [place], 0)
        axes.set_xlabel("difference with 95% interval, to the right: the first is better")

    return Chart("differences", "Differences of generators", "", draw, size=_row_size(len(bars)))


def settling_chart(pairs: Sequence[Settled], races: Sequence[RaceResult]) -> Chart:
    """Chart the average share of the judgements that settled each pair and race, paler if some orders stayed open."""
    rows = sorted(replay_averages([*pairs, *races]), key=lambda row: (row.share, row.generators))[-_ROWS:]

    def draw(canvas: Canvas) -> None:
        axes = canvas.rows([", ".join(row.generators) for row in rows])
        for place, row in enumerate(rows):
            axes.barh(place, 100, color=canvas.palette.grid)
            axes.barh(place, 100 * row.share, color=canvas.colour(0), alpha=1 - 0.6 * row.open)
        axes.set_xlabel("judgements until the verdict, % (pale: some orders stayed open)")

    return Chart("settling", "Judgements until each verdict was clear", "", draw, size=_row_size(len(rows)))


def joined_chart(standings: Sequence[GeneratorRank]) -> Chart:
    """Chart how often people prefer each generator, with and without the help of the judge."""
    rows = [(each.generator, each.win_rate) for each in standings if each.win_rate.value is not None][:_ROWS]

    def draw(canvas: Canvas) -> None:
        axes = canvas.rows([name for name, _ in rows])
        for place, (_, estimate) in enumerate(rows):
            for y, value, ends, series, label in (
                (place + 0.17, estimate.people, estimate.people_interval, 5, "people alone"),
                (place - 0.17, estimate.value, estimate.interval, 0, "people with the help of the judge"),
            ):
                if ends is not None:
                    canvas.interval(axes, ends, [y, y], canvas.colour(series))
                if value is not None:
                    canvas.marks(axes, [value], [y], series, markersize=4, label=None if place else label)
        axes.set_xlabel("score with its interval")
        canvas.legend(axes)

    return Chart("joined", "Scores by people", "", draw, size=_row_size(len(rows), 0.08 * len(rows) + 0.2))


def plan_curves(plans: Sequence[Plan], pilot: Pilot) -> list[PowerCurve]:
    """Return the power of each plan against its cost, or its judgements if no price is known."""
    curves = []
    for plan in plans:
        images, answers = f"image{'s'[: plan.seeds != 1]}", f"answer{'s'[: plan.samples != 1]}"
        label = f"{plan.seeds} {images} a prompt, {plan.samples} {answers}"
        curve = power_curve(plan, pilot, label)
        curves.append(curve._replace(x=curve.x * (plan.price() or 2 * plan.seeds * plan.samples)))
    return curves


def power_chart(
    curves: Sequence[PowerCurve],
    power: float,
    axis: str,
    *,
    id: str = "power",
    title: str = "Power",
    note: str = "",
    what: str = "plan",
    most: float = math.inf,
    declared: Declaration = PLAN,
) -> Chart:
    """Chart curves of power, with a dotted line at the wanted power.

    Args:
        curves: The curves.
        power: The wanted power.
        axis: The quantity along the curves.
        id: Name in the page.
        title: Title.
        note: How to read it.
        what: The meaning of the labels of the curves.
        most: End of the axis.
        declared: The declaration of the pilot.
    """

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes()
        axes.axhline(power, color=canvas.palette.soft, linewidth=1, linestyle=":")
        for place, curve in enumerate(curves):
            inside = curve.x <= most
            canvas.band(axes, curve.x[inside], curve.low[inside], curve.high[inside], place)
            axes.plot(
                curve.x[inside],
                curve.middle[inside],
                color=canvas.colour(place),
                linestyle=DASHES[place % COLOURS],
                linewidth=1.6,
                label=curve.label,
            )
            reached = int(np.argmin(np.abs(curve.middle - power)))
            if inside[reached]:
                canvas.marks(axes, curve.x[reached : reached + 1], curve.middle[reached : reached + 1], place)
        shares(axes, 0.0)
        axes.set_yticks((0, 0.25, 0.5, 0.75, 1))
        axes.set_xlim(left=0)
        axes.set_xlabel(axis)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.6g}")
        canvas.legend(axes)

    rows = tuple(
        (curve.label, round(x), percent(y))
        for curve in curves
        for x, y in zip(curve.x[::6].tolist(), curve.middle[::6].tolist(), strict=True)
        if axis == "prompts"
    )
    return Chart(id, title, note, draw, Table(title, (what, axis, "power"), rows, declared=declared))


def bridge_chart(bridge: Bridge, old: str, new: str) -> Chart:
    """Chart the anchors, and the regression line with its prediction interval."""

    def draw(canvas: Canvas) -> None:
        axes = canvas.axes((0.12, 0.12, 0.86, 0.86), grid="both")
        line = bridge.line
        canvas.marks(axes, line.x, line.y, 0, label="judged by both")
        x = np.linspace(line.x.min(), line.x.max(), 50)
        middle, ends = zip(*(line.predict(float(value)) for value in x), strict=True)
        axes.plot(x, middle, color=canvas.colour(0), linewidth=1.2)
        canvas.band(axes, x, [low for low, _ in ends], [high for _, high in ends], 0)
        axes.plot(x, x, color=canvas.palette.soft, linestyle=":", linewidth=1, label="no difference")
        for name, *point in zip(bridge.anchors, line.x, line.y, strict=True):
            axes.annotate(name, point, xytext=(4, -8), textcoords="offset points", fontsize=6, color=canvas.palette.ink)
        axes.set(xlabel=f"mean score by {old}", ylabel=f"mean score by {new}")
        canvas.legend(axes)

    return Chart("bridge", "Generators by both judges", "", draw, size=(6, 5))


Point = tuple[float | None, Sequence[float] | None]  # a value and its interval


def series(canvas: Canvas, axes: Any, points: Sequence[Point], place: int, shift: float, *, joined: bool) -> None:
    """Draw values with intervals at 0, 1, ... + shift, as the values of a place; `joined` draws a line."""
    drawn = [
        (position + shift, value, interval) for position, (value, interval) in enumerate(points) if value is not None
    ]
    for x, _, interval in drawn:
        if interval is not None:
            canvas.interval(axes, [x, x], interval, canvas.colour(place))
    style = DASHES[place % COLOURS] if joined else "none"
    canvas.marks(axes, [x for x, _, _ in drawn], [value for _, value, _ in drawn], place, linestyle=style)


def categories(axes: Any, labels: Sequence[str], axis: str) -> None:
    """Label the categories 0, 1, ... of the x axis."""
    axes.set_xticks(range(len(labels)), [shortened(label, 14) for label in labels])
    axes.set_xlim(-0.5, len(labels) - 0.5)
    axes.set_xlabel(axis)


def shares(axes: Any, lowest: float = 0.4) -> None:
    """Format the y axis as shares up to 100%, from `lowest` or the lowest value."""
    axes.yaxis.set_major_formatter(lambda y, _: percentage(y, 0))
    low, _ = axes.get_ylim()
    axes.set_ylim(min(lowest, max(0.0, low)) - (0.02 if not lowest else 0.0), 1.02)


def heat_map(
    id: str,
    title: str,
    note: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Floats,
    digits: int,
    numbers: Table,
) -> Chart:
    """Chart a table of numbers with the opacity of a cell by its position in the range of its column; NaN is a dash."""
    named = [shortened(name, 20) for name in columns]
    longest = max(map(len, named))
    cell, height, left, top = 0.48, 0.26, 1.45, 0.25 + 0.04 * longest
    size = (left + cell * len(columns) + 0.05 * longest, top + height * len(rows) + 0.05)

    def draw(canvas: Canvas) -> None:
        from matplotlib.patches import Rectangle

        axes = canvas.figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, size[0]), ylim=(size[1], 0))
        axes.axis("off")
        soft, ink = canvas.palette.soft, canvas.palette.ink
        for k, name in enumerate(named):
            axes.text(
                left + cell * (k + 0.4), top - 0.08, name, color=soft, fontsize=8, rotation=38, rotation_mode="anchor"
            )
        depths = _depths(values)
        for i, name in enumerate(rows):
            y = top + height * i
            axes.text(left - 0.08, y + 0.17, shortened(name, 20), ha="right", color=ink, fontsize=8)
            for k, value in enumerate(values[i].tolist()):
                box = Rectangle(
                    (left + cell * k + 0.01, y + 0.01), cell - 0.02, height - 0.02, linewidth=0, clip_on=False
                )
                box.set(facecolor=canvas.colour(0), alpha=float(depths[i, k]))
                axes.add_patch(box)
                text = "–" if math.isnan(value) else f"{value:.{digits}f}"
                axes.text(left + cell * (k + 0.5), y + 0.17, text, ha="center", color=ink, fontsize=8)

    return Chart(id, title, note, draw, numbers, size, fixed=True)


def _depths(values: Floats) -> Floats:
    """Return the opacity of each cell: nothing for the lowest value of a column, the deepest for the highest."""
    low, best = (
        np.array([end(column[~np.isnan(column)], initial=start) for column in values.T])
        for end, start in ((np.min, np.inf), (np.max, -np.inf))
    )
    spread = np.where(best > low, best - low, np.inf)
    depths: Floats = np.nan_to_num(_DEEPEST * (values - low) / spread)
    return depths


def radar(
    id: str, title: str, note: str, names: Sequence[str], axes_names: Sequence[str], values: Floats, numbers: Table
) -> Chart:
    """Chart at most six names over three axes or more, from a little below the lowest value in the middle to the highest.

    Args:
        id: Name in the page.
        title: Title.
        note: How to read it, with `{low}` and `{high}` for the values in the middle and at the rim.
        names: In the order of their colours.
        axes_names: Labels of the axes.
        values: Shape (names, axes); NaN leaves a gap in the polygon.
        numbers: The table of the numbers.
    """
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    low, high = (low - 0.25 * (high - low), high) if high > low else (low - 1, high + 1)
    angles = [math.pi / 2 - 2 * math.pi * k / len(axes_names) for k in range(len(axes_names))]

    def spot(k: int, share: float) -> tuple[float, float]:
        return share * math.cos(angles[k]), share * math.sin(angles[k])

    def draw(canvas: Canvas) -> None:
        axes = canvas.figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-1.95, 1.95), ylim=(-1.3, 1.3), aspect="equal")
        axes.axis("off")
        for ring in (0.25, 0.5, 0.75, 1.0):
            _polygon(axes, [spot(k, ring) for k in range(len(angles))], color=canvas.palette.grid, linewidth=0.8)
        for k, name in enumerate(axes_names):
            axes.plot(*zip((0, 0), spot(k, 1.0), strict=True), color=canvas.palette.grid, linewidth=0.8)
            side = math.cos(angles[k])
            anchor = "center" if abs(side) < 0.2 else "left" if side > 0 else "right"
            axes.text(
                *spot(k, 1.12), shortened(name, 18), ha=anchor, va="center", color=canvas.palette.soft, fontsize=10.5
            )
        for place in reversed(range(len(names))):
            points = [(k, value) for k, value in enumerate(values[place].tolist()) if not math.isnan(value)]
            spots = [spot(k, (value - low) / (high - low)) for k, value in points]
            line = {"color": canvas.colour(place), "linestyle": DASHES[place], "linewidth": 1.4}
            (_polygon if len(points) == len(axes_names) else _open_line)(axes, spots, **line)
            canvas.marks(axes, [x for x, _ in spots], [y for _, y in spots], place, markersize=6.5)

    return Chart(id, title, note.format(low=low, high=high), draw, numbers, (WIDTH, WIDTH * 2 / 3))


def _polygon(axes: Any, spots: Sequence[tuple[float, float]], **style: Any) -> None:
    _open_line(axes, [*spots, *spots[:1]], **style)


def _open_line(axes: Any, spots: Sequence[tuple[float, float]], **style: Any) -> None:
    axes.plot([x for x, _ in spots], [y for _, y in spots], **style)
