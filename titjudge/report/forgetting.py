"""Forgetting curves of a report: charts and tables of the share of claims met, for each metric with claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.types import Item
from titjudge.report.charts import (
    MAX_METRICS,
    Chart,
    draw_percent,
    label_categories,
    new_axes,
    percentage,
    series,
    span,
    svg_of,
)
from titjudge.report.model import Loaded, Report
from titjudge.report.table_cells import Json, cell, p_value, percent, table
from titjudge.stats.scores.claims import claims_of
from titjudge.stats.scores.forgetting import BINS, Claim, Forgetting, Rate, forgetting

PLACES = tuple(f"{100 * k / BINS:.0f}-{100 * (k + 1) / BINS:.0f}%" for k in range(BINS))
_VIEWS = (
    ("places", "Claims met by place in the prompt", "place in the prompt, %", True),
    ("kinds", "Claims met by kind", "kind of claim", False),
    ("lengths", "Claims met by length of the prompt", "words in the prompt", True),
)


@dataclass(frozen=True, slots=True)
class Curve:
    """The curves of one metric of one run. `names` are the generators in the charts, in the order of their colours."""

    title: str
    names: tuple[str, ...]
    note: str
    charts: tuple[Chart, ...]
    steps: Json


def curves(report: Report) -> list[Curve]:
    """Make the curves of each metric with settled claims."""
    claims = [(judge.label, _claims(report.runs[judge.run], judge.metric)) for judge in report.judges]
    return [_curve(label, of) for label, of in claims if any(claim.met is not None for claim in of)]


def _claims(run: Loaded, metric: str) -> list[Claim]:
    items = [item for item in run.items if isinstance(item, Item)]
    try:
        return claims_of(items, [score for (_, name), score in run.scores.items() if name == metric])
    except DataError:  # a claim that is malformed: `compare forgetting` names it
        return []


def _curve(title: str, claims: Sequence[Claim]) -> Curve:
    rates = forgetting(claims)
    generators = list(dict.fromkeys(rate.generator for rate in rates.places))
    drawn = generators[:MAX_METRICS]
    charts = [_chart(rates, drawn, *view, title) for view in _VIEWS]
    unseen = sum(rate.unseen for rate in rates.places)
    note = f"{len(claims) - unseen:,} claims met or not met; {unseen:,} more cannot be seen, or were not settled."
    if len(drawn) < len(generators):
        note += f" {len(drawn)} of {len(generators)} generators are drawn, all are in the tables."
    shown = tuple(chart for chart in charts if chart is not None)
    return Curve(title, tuple(name or "(no name)" for name in drawn), note, shown, _steps(rates))


def _chart(
    of: Forgetting, drawn: Sequence[str], attribute: str, title: str, axis: str, joined: bool, salt: str
) -> Chart | None:
    """Draw the rates of each generator by label; None with a single label, which the table of steps covers."""
    rates: tuple[Rate, ...] = getattr(of, attribute)
    labels = list(dict.fromkeys(rate.label for rate in rates))
    if attribute == "places" and len(labels) > 1:
        labels = list(PLACES)  # also those without a claim, so that the axis is linear
    if len(labels) < 2:
        return None

    def draw(figure: Any) -> None:
        axes = new_axes(figure)
        for place, generator in enumerate(drawn):
            shift = (place - (len(drawn) - 1) / 2) * 0.04 * len(labels) / max(2, len(drawn))
            own = {rate.label: rate for rate in rates if rate.generator == generator}
            points = [(own[label].rate, own[label].interval) if label in own else (None, None) for label in labels]
            series(axes, points, place, shift, joined=joined)
        label_categories(axes, [label.removesuffix("%") for label in labels], axis)
        draw_percent(axes, 0.0)

    rows = tuple(
        (r.generator or "(no name)", r.label, percentage(r.rate), span(r.interval), str(r.claims), str(r.unseen))
        for r in rates
    )
    columns = ("generator", axis, "met", "95% interval", "claims", "not settled")
    return Chart(title, "", svg_of(draw, f"{salt} {attribute}"), columns, rows)


def _steps(of: Forgetting) -> Json:
    rows = []
    for step in of.steps:
        at = "–" if step.position is None else percent(step.position, step.interval)
        fall = percent(step.within_kinds) if step.within_kinds is not None else "–"
        said = cell(step.reason or "a step", sub=p_value(step.p_value))
        rows.append([step.generator or "(no name)", said, at, percent(step.before), percent(step.after), fall])
    notes = [
        "The place in the prompt after which a generator meets fewer claims, with its 95% interval; p by exchanging verdicts "
        "within prompts.",
        "Fall within kinds: among claims of the same kind only, since style and light tend to stand last.",
    ]
    columns = ["generator", "found", "stops reading at", "met before", "met after", "fall within kinds"]
    return table("The step of each generator", columns, rows, notes=notes, text=2)
