"""The section of claims met and not met: forgetting curves of each metric that settles single claims."""

from __future__ import annotations

from collections.abc import Sequence

from titjudge.core.errors import DataError
from titjudge.core.types import Item
from titjudge.report.drawing import COLOURS, Chart
from titjudge.report.model import Loaded, Report
from titjudge.report.plots import NO_NAME, place_labels, rates_chart
from titjudge.report.sections import Charts, Note, Part, Section
from titjudge.stats.scores.claims import claims_of
from titjudge.stats.scores.forgetting import BINS, ClaimOutcome, Forgetting, Rate, forgetting


def claims(report: Report) -> Section | None:
    """Make the section; None where no metric settled a claim."""
    settled = [(place, _claims(report.runs[judge.run], judge.metric)) for place, judge in enumerate(report.judges)]
    settled = [(place, outcomes) for place, outcomes in settled if any(claim.met is not None for claim in outcomes)]
    titles = [report.judges[place].label if len(settled) > 1 else "" for place, _ in settled]
    parts = tuple(_part(place, title, outcomes) for (place, outcomes), title in zip(settled, titles, strict=True))
    introduction = (
        "A judge took each prompt apart into claims and settled each as met or not met in the image. Bars are 95% intervals over "
        "prompts. A line that falls to the right is a generator that forgets the end of a long prompt; a dotted line is the place "
        "after which it meets fewer claims."
    )
    return Section("claims", "Claims", "Where generators stop reading", introduction, parts) if parts else None


def _claims(run: Loaded, metric: str) -> list[ClaimOutcome]:
    items = [item for item in run.items if isinstance(item, Item)]
    try:
        return claims_of(items, [score for (_, name), score in run.scores.items() if name == metric])
    except DataError:  # a claim that is malformed: `compare forgetting` names it
        return []


def _part(place: int, title: str, settled: Sequence[ClaimOutcome]) -> Part:
    """Make the part of one metric: how many claims were settled, the charts, and the table of steps."""
    curve = forgetting(settled)
    generators = list(dict.fromkeys(rate.generator for rate in curve.places))
    drawn = generators[:COLOURS]
    note = f"{sum(rate.claims for rate in curve.places):,} claims met or not met; {curve.unseen:,} more cannot be seen, or were not settled."
    if len(drawn) < len(generators):
        note += f" {len(drawn)} of {len(generators)} generators are drawn, all are in the tables."
    names = tuple(name or NO_NAME for name in drawn)
    return Part(
        title, (Note(note), Charts(tuple(_charts(f"claims-{place}", curve, drawn)), names), curve.steps_table())
    )


def _charts(id: str, curve: Forgetting, drawn: Sequence[str]) -> list[Chart]:
    """Chart the rates of each generator by label, but none with a single label, which the table of steps covers."""
    steps = {step.generator: step.position for step in curve.steps if step.position is not None}
    charts = []
    if (
        len({rate.label for rate in curve.places}) > 1
    ):  # all tenths, also those without a claim, so that the axis is linear
        title = "Claims met by place in the prompt"
        charts.append(
            rates_chart(
                f"{id}-place", title, "place in the prompt, %", curve.places, drawn, place_labels(BINS), steps=steps
            )
        )
    for name, title, axis, rates, joined in (
        ("kind", "Claims met by kind", "kind of claim", curve.kinds, False),
        ("length", "Claims met by length of the prompt", "words in the prompt", curve.lengths, True),
    ):
        if len(labels := _labels(rates)) > 1:
            charts.append(rates_chart(f"{id}-{name}", title, axis, rates, drawn, labels, joined=joined))
    return charts


def _labels(rates: Sequence[Rate]) -> list[str]:
    return list(dict.fromkeys(rate.label for rate in rates))
