"""Tables of agreement: percentages to one decimal, coefficients to three, intervals in brackets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from titjudge.core.formats import WIDE
from titjudge.core.run_records import BradleyTerryRecord, MetricResult, PlaceRecord, Results, StandingRecord
from titjudge.core.tables import Table, Value, p_value, percent, plain
from titjudge.stats.people.agreement import EXPLANATION

LEGEND = "mean rank over the prompts where generators compete, 1 is best; mean with 95% interval; images scored/all"
SPREAD = "spread: standard deviation of the images of one prompt by one generator"
FIRSTS = "{}: mean of their ranks as given, and the prompts on which no generator has a better one"
UNNAMED = "(unnamed)"  # a generator without a name
SRCC_WITH = "SRCC with"  # whose order: the last row of a leaderboard
AGREEMENT_WITH = "Agreement with"
_COLUMNS = (
    "metric", "accuracy", "ties", "pairs", "chance level", "SRCC", "KRCC", "nDCG", "nDCG chance", "paper fit",
    "paper fit chance", "coverage",
)  # fmt: skip
_SECONDARY = ("paper fit chance", "paper fit", "nDCG chance", "nDCG", "KRCC", "ties", "SRCC", "coverage")


def agreement_tables(agreed: Results) -> list[Table]:
    """Make the main table, the leaderboard where generators are named, and Bradley-Terry strengths where asked for."""
    explanation = tuple(note for note in agreed.notes if note in EXPLANATION)
    notes = (*(note for note in agreed.notes if note not in EXPLANATION), *agreed.warnings)
    tables = [_metrics(agreed.metrics, notes, explanation, agreed.reference)]
    if agreed.leaderboard:
        tables.append(_leaderboard(agreed.leaderboard, agreed.leaderboard_srcc, agreed.reference))
    return [*tables, *(strengths_table(name, fit) for name, fit in agreed.bradley_terry.items())]


def _metrics(
    metrics: Mapping[str, MetricResult], notes: tuple[str, ...], explanation: tuple[str, ...], reference: str
) -> Table:
    if any(result.pairs for result in metrics.values()):
        rows = tuple(_metric_row(name, result) for name, result in metrics.items())
        return Table(
            f"{AGREEMENT_WITH} {reference}",
            _COLUMNS,
            rows,
            notes,
            explanation=explanation,
            secondary=_SECONDARY,
            estimates=True,
        )
    rows = tuple(
        (name, plain(result.mean, digits=4), result.scored, percent(result.coverage))
        for name, result in metrics.items()
    )
    return Table("Metrics", ("metric", "mean", "scored", "coverage"), rows, notes, estimates=True)


def _metric_row(name: str, result: MetricResult) -> tuple[Any, ...]:
    scored = result.pairs_scored
    coefficients = (
        result.srcc, result.krcc, result.ndcg, result.ndcg_chance, result.ndcg_paper_fit, result.ndcg_paper_fit_chance,
    )  # fmt: skip
    return (
        name,
        percent(result.accuracy, result.accuracy_interval),
        percent(result.tie_rate),
        f"{scored} of {result.pairs}" if result.pairs else None,
        chance_level(result),
        *map(plain, coefficients),
        percent(result.coverage),
    )


def chance_level(result: MetricResult) -> Value:
    """Make the cell of the accuracy that is reached without skill, and how often the metric's own is: `55.3%, p 0.002`."""
    threshold, scored, p = result.threshold_05, result.pairs_scored, p_value(result.p_value)
    return f"{100 * threshold / scored:.1f}%, p {p}" if threshold and scored else p


def _leaderboard(standings: Sequence[StandingRecord], srcc: Mapping[str, float | None], reference: str) -> Table:
    names = list(standings[0].metrics)
    people = any(standing.human for standing in standings)
    firsts = any(standing.human and standing.human.first_places is not None for standing in standings)
    wide = len(names) > WIDE
    spread = (
        []
        if wide
        else [
            name
            for name in names
            if any((place := s.metrics.get(name)) and place.spread is not None for s in standings)
        ]
    )
    rank, first = f"{reference}: mean rank", f"{reference}: first"
    columns = ["generator", "prompts", *([rank] if people else []), *([first] if firsts else [])]
    for name in names:
        columns += [f"{name}: {column}" for column in _columns_of_metric(wide, name in spread)]
    rows = [
        (
            standing.generator or UNNAMED,
            _prompts([standing.metrics.get(name, PlaceRecord()) for name in names]),
            *_people_cells(standing.human, people, firsts),
            *(
                cell
                for name in names
                for cell in _place_cells(standing.metrics.get(name, PlaceRecord()), wide, name in spread)
            ),
        )
        for standing in standings
    ]
    if people and names:
        rows.append(_srcc_row(f"{SRCC_WITH} {reference}", names, srcc, firsts, wide, spread))
    legend = (LEGEND, *([FIRSTS.format(reference)] if firsts else []), *([SPREAD] if spread else []))
    secondary = [f"{name}: {column}" for column in ("spread", "images") for name in names]
    secondary += [first, "prompts"] + ([] if wide else [f"{name}: mean rank" for name in reversed(names)])
    return Table(
        "Leaderboard", tuple(columns), tuple(rows), explanation=legend, secondary=tuple(secondary), estimates=True
    )


def _people_cells(place: PlaceRecord | None, people: bool, firsts: bool) -> list[Any]:
    mean_rank = [plain(place.mean_rank, digits=2) if place else None] if people else []
    return [*mean_rank, *([place.first_places if place else None] if firsts else [])]


def _columns_of_metric(wide: bool, spread: bool) -> list[str]:
    return ["mean rank"] if wide else ["mean rank", "mean", "images", *(["spread"] if spread else [])]


def _place_cells(place: PlaceRecord, wide: bool, spread: bool) -> list[Any]:
    cells: list[Any] = [
        plain(place.mean_rank, digits=2),
        plain(place.mean, place.interval, digits=4),
        None if place.images is None else f"{place.scored}/{place.images}",
        *([plain(place.spread, digits=4)] if spread else []),
    ]
    return cells[:1] if wide else cells


def _prompts(places: Sequence[PlaceRecord]) -> str | None:
    """Show the number of prompts, or the lowest and highest where metrics have different ones."""
    counts = sorted({place.prompts or 0 for place in places})
    return "-".join(map(str, dict.fromkeys([*counts[:1], *counts[-1:]]))) or None


def _srcc_row(
    title: str, names: Sequence[str], srcc: Mapping[str, float | None], firsts: bool, wide: bool, spread: Sequence[str]
) -> tuple[Any, ...]:
    cells: list[Any] = [title, None, None, *([None] if firsts else [])]
    for name in names:
        blank = len(_columns_of_metric(wide, name in spread)) - 1
        cells += [plain(srcc.get(name)), *[None] * blank]
    return tuple(cells)


def strengths_table(name: str, fit: BradleyTerryRecord) -> Table:
    """Tabulate the strengths of generators under a metric, or people."""
    rows = tuple((row.generator, plain(row.strength, row.interval, digits=2)) for row in fit.generators)
    notes = [f"{fit.pairs} pairs; natural logarithm, mean 0; 95% interval by resampling prompts"]
    if fit.degenerate:
        notes.append(
            f"{fit.degenerate} resamples have no finite fit: who never loses there counts as infinitely strong"
        )
    if fit.reason:
        notes.append(fit.reason)
    return Table(f"Bradley-Terry strength: {name}", ("generator", "strength"), rows, tuple(notes))
