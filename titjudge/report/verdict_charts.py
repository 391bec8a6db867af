"""Charts of comparisons as SVG or PNG files, by the suffix; the same numbers give the same bytes.

Names are drawn as plain text, whatever they contain. Every function that writes a file raises ConfigError for another suffix
and UserError where the file cannot be written.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from titjudge.core.errors import ConfigError, UserError
from titjudge.stats.generators.generator_differences import GeneratorDifference
from titjudge.stats.generators.planning import Pilot, Plan, curve
from titjudge.stats.generators.sequential import OPEN, Settled
from titjudge.stats.ppi.bridging import Bridge
from titjudge.stats.ppi.inference import Estimate
from titjudge.stats.scores.forgetting import Forgetting, Rate

_MOST = 60  # most rows of a chart, so that they can be read
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def check_chart(path: Path) -> None:
    """Check the suffix of a chart, before anything is computed."""
    if path.suffix.lower() not in (".svg", ".png"):
        raise ConfigError(f"{path}: a chart is written as .svg or .png")


def _write(draw: Callable[[Any], None], path: Path, size: tuple[float, float] = (7, 4)) -> None:
    """Write what `draw(axes)` draws; the size is in inches."""
    import matplotlib
    from matplotlib.figure import Figure

    check_chart(path)
    kind, out = path.suffix.lower()[1:], io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "titjudge", "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=size, dpi=150, layout="constrained")
        draw(figure.add_subplot())
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        figure.savefig(out, format=kind, metadata=metadata)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(out.getvalue())
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def write_differences(differences: Sequence[GeneratorDifference], path: Path, delta: float | None = None) -> None:
    """Draw each difference with its 95% interval, and the slices of a single pair below it."""
    rows = [(f"{each.a} - {each.b}", each) for each in differences]
    if len(differences) == 1:
        rows += [(f"{column}: {value}", one) for column, of in differences[0].by.items() for value, one in of.items()]
    rows = [row for row in rows if row[1].difference is not None][:_MOST]

    def draw(axes: Any) -> None:
        axes.axvline(0, color="0.4", linewidth=1)
        if delta:
            axes.axvline(-delta, color="C3", linestyle=":", linewidth=1)
        for place, (_, each) in enumerate(rows):
            low, high = each.interval or (each.difference, each.difference)
            axes.plot([low, high], [place, place], color="C0", linewidth=1.5, solid_capstyle="round")
            axes.plot([each.difference], [place], "o", color="C0", markersize=4)
        _label_rows(axes, [name for name, _ in rows])
        axes.set_xlabel("difference with 95% interval, to the right: the first is better")
        axes.grid(axis="x", alpha=0.3)

    _write(draw, path, (7, 1.2 + 0.22 * max(len(rows), 4)))


def write_settling(pairs: Sequence[Settled], races: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the average share of the judgements that settled each pair and race, paler where some orders stayed open."""
    by_name: dict[str, list[tuple[float, bool]]] = {}
    for each in pairs:
        by_name.setdefault(f"{each.a}, {each.b}", []).append((each.used / each.of, each.verdict == OPEN))
    for race in races:
        names = ", ".join(race["generators"])
        by_name.setdefault(names, []).append((race["used"] / race["of"], race["verdict"] == OPEN))
    rows = sorted((float(np.mean([used for used, _ in of])), name, of) for name, of in by_name.items())[-_MOST:]

    def draw(axes: Any) -> None:
        for place, (used, _, orders) in enumerate(rows):
            stayed = sum(is_open for _, is_open in orders) / len(orders)
            axes.barh(place, 100, color="0.93")
            axes.barh(place, 100 * used, color="C0", alpha=1 - 0.6 * stayed)
        _label_rows(axes, [name for _, name, _ in rows])
        axes.set_xlabel("judgements until the verdict, % (pale: some orders stayed open)")

    _write(draw, path, (7, 1.2 + 0.22 * max(len(rows), 4)))


def write_joined(rows: Sequence[tuple[str, Estimate]], path: Path, gold: str, help_: str) -> None:
    """Draw the estimates by `gold` (people, or a dear judge) of each generator, with and without the help of another judge."""
    rows = [(name, each) for name, each in rows if each.value is not None][:_MOST]

    def draw(axes: Any) -> None:
        for place, (_, each) in enumerate(rows):
            for at, value, ends, colour, label in (
                (place + 0.17, each.people, each.people_interval, "0.55", f"{gold} alone"),
                (place - 0.17, each.value, each.interval, "C0", f"{gold} with the help of {help_}"),
            ):
                if ends is not None:
                    axes.plot(ends, [at, at], color=colour, linewidth=1.5, solid_capstyle="round")
                mark = "s" if colour != "C0" else "o"
                axes.plot([value], [at], mark, color=colour, markersize=4, label=None if place else label)
        _label_rows(axes, [name for name, _ in rows])
        axes.set_xlabel("score with its interval")
        axes.grid(axis="x", alpha=0.3)
        axes.legend(fontsize=7)

    _write(draw, path, (7, 1.4 + 0.3 * max(len(rows), 4)))


def _label_rows(axes: Any, names: Sequence[str]) -> None:
    """Name the rows of a chart, the first above."""
    axes.set_yticks(range(len(names)), [name if len(name) < 50 else name[:48] + "…" for name in names], fontsize=7)
    axes.set_ylim(len(names) - 0.5, -0.5)


def write_power(plans: Sequence[Plan], pilot: Pilot, difference: float, power: float, path: Path) -> None:
    """Draw the power of each plan against its cost (judgements where no price is known), with the pilot's range."""

    def draw(axes: Any) -> None:
        for k, plan in enumerate(plans):
            prompts, (middle, high, low) = curve(plan, difference, pilot.factor)
            x = prompts * (plan.price() or 2 * plan.seeds * plan.samples)
            images, answers = f"image{'s'[: plan.seeds != 1]}", f"answer{'s'[: plan.samples != 1]}"
            label = f"{plan.seeds} {images} a prompt, {plan.samples} {answers}"
            axes.plot(x, 100 * middle, color=f"C{k % 10}", label=label)
            axes.fill_between(x, 100 * low, 100 * high, color=f"C{k % 10}", alpha=0.12, linewidth=0)
        axes.axhline(100 * power, color="0.4", linestyle=":", linewidth=1)
        axes.set(xlabel="USD" if plans[0].dollars else "judgements", ylabel="power, %", ylim=(0, 101))
        axes.set_xlim(left=0)
        axes.set_title(f"{pilot.a} against {pilot.b}: a difference of {difference:g}", fontsize=9)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)

    _write(draw, path)


def write_bridge(bridge: Bridge, path: Path, old: str, new: str) -> None:
    """Draw the anchors, and the regression line with its prediction interval."""

    def draw(axes: Any) -> None:
        line = bridge.line
        axes.plot(line.x, line.y, "o", color="C0", markersize=5, label="judged by both")
        at = np.linspace(line.x.min(), line.x.max(), 50)
        middle, ends = zip(*(line.predict(float(x)) for x in at), strict=True)
        axes.plot(at, middle, color="C0", linewidth=1.2)
        axes.fill_between(at, [low for low, _ in ends], [high for _, high in ends], color="C0", alpha=0.12, linewidth=0)
        axes.plot(at, at, color="0.6", linestyle=":", linewidth=1, label="no difference")
        for name, x, y in zip(bridge.anchors, line.x, line.y, strict=True):
            axes.annotate(name, (x, y), xytext=(4, -8), textcoords="offset points", fontsize=6)
        axes.set(xlabel=f"mean score by {old}", ylabel=f"mean score by {new}")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)

    _write(draw, path, (6, 5))


def write_forgetting(forgetting: Forgetting, path: Path) -> None:
    """Draw the share of claims met by position in the prompt, one line a generator with its 95% interval."""

    def draw(axes: Any) -> None:
        for k, generator in enumerate(dict.fromkeys(rate.generator for rate in forgetting.places)):
            _draw_rates(axes, [rate for rate in forgetting.places if rate.generator == generator], k)
        for k, step in enumerate(forgetting.steps):
            if step.position is not None:
                axes.axvline(100 * step.position, color=f"C{k % 10}", linestyle=":", linewidth=1)
        axes.set(xlabel="place in the prompt, %", ylabel="claims met, %", xlim=(0, 100), ylim=(0, 102))
        axes.grid(alpha=0.3)
        if forgetting.places:
            axes.legend()

    _write(draw, path)


def _draw_rates(axes: Any, rates: Sequence[Rate], number: int) -> None:
    shown = [rate for rate in rates if rate.rate is not None]
    x = [_middle(rate.label) for rate in shown]
    y = [100 * (rate.rate or 0.0) for rate in shown]
    colour, marker = f"C{number % 10}", _MARKERS[number % len(_MARKERS)]
    name = rates[0].generator.lstrip("_") or "(unnamed)"
    axes.plot(x, y, color=colour, marker=marker, clip_on=False, zorder=3, label=name)
    wide = [(at, rate.interval) for at, rate in zip(x, shown, strict=True) if rate.interval]
    if wide:
        low, high = [100 * i[0] for _, i in wide], [100 * i[1] for _, i in wide]
        axes.fill_between([at for at, _ in wide], low, high, color=colour, alpha=0.15, linewidth=0)


def _middle(label: str) -> float:
    """Return the middle of a bin such as `10-20%`."""
    low, high = (float(number) for number in re.findall(r"[\d.]+", label)[:2])
    return (low + high) / 2
