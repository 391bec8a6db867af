"""Tables of agreement with people, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from titjudge.core.formats import WIDE, p_value, percent, plain
from titjudge.core.types import Table
from titjudge.stats.people.agreement import Agreement

LEGEND = "mean rank over the prompts where generators compete, 1 is best; mean with 95% interval; images scored/all"
SPREAD = "spread: standard deviation of the images of one prompt by one generator"
FIRSTS = "people: mean of their ranks as given, and the prompts on which no generator has a better one"


def agreement_tables(agreement: Agreement) -> list[Table]:
    """Make the main table, the leaderboard where generators are named, and Bradley-Terry strengths where asked for."""
    tables = [_metrics(agreement)]
    if agreement.leaderboard:
        tables.append(_leaderboard(agreement))
    tables += [_strengths(name, each) for name, each in agreement.strengths.items()]
    return tables


def _metrics(agreement: Agreement) -> Table:
    if not any(each["pairs"] for each in agreement.metrics.values()):
        rows = tuple(
            (name, plain(each["mean"], digits=4), each["scored"], percent(each["coverage"]))
            for name, each in agreement.metrics.items()
        )
        return Table("Metrics", ("metric", "mean", "scored", "coverage"), rows, (*agreement.notes, *agreement.warnings))
    columns = (
        "metric",
        "accuracy",
        "ties",
        "pairs",
        "to beat guessing",
        "SRCC",
        "KRCC",
        "nDCG",
        "nDCG chance",
        "paper fit",
        "paper fit chance",
        "coverage",
    )
    rows = tuple(_metric_row(name, each) for name, each in agreement.metrics.items())
    return Table("Agreement with people", columns, rows, (*agreement.notes, *agreement.warnings))


def _metric_row(name: str, each: Any) -> tuple[Any, ...]:
    threshold, scored = each["threshold_05"], each["pairs_scored"]
    return (
        name,
        percent(each["accuracy"], each["accuracy_interval"]),
        percent(each["tie_rate"]),
        f"{scored} of {each['pairs']}" if each["pairs"] else None,
        f"{100 * threshold / scored:.1f}%, p {p_value(each['p_value'])}" if threshold else p_value(each["p_value"]),
        plain(each["srcc"]),
        plain(each["krcc"]),
        *(plain(each[key]) for key in ("ndcg", "ndcg_chance", "ndcg_paper_fit", "ndcg_paper_fit_chance")),
        percent(each["coverage"]),
    )


def _leaderboard(agreement: Agreement) -> Table:
    names = list(agreement.leaderboard[0]["metrics"])
    people = any(row["human"] for row in agreement.leaderboard)
    wide = len(names) > WIDE
    firsts = any("first_places" in (row["human"] or {}) for row in agreement.leaderboard)
    columns = [
        "generator",
        "prompts",
        *(["people: mean rank"] if people else []),
        *(["people: first"] if firsts else []),
    ]
    spread = [name for name in names if any("spread" in row["metrics"][name] for row in agreement.leaderboard)]
    for name in names:
        columns += [f"{name}: mean rank"] if wide else [f"{name}: mean rank", f"{name}: mean", f"{name}: images"]
        columns += [f"{name}: spread"] if name in spread and not wide else []
    rows = [_leaderboard_row(row, names, people, firsts, wide, spread) for row in agreement.leaderboard]
    if people and names:
        last: list[Any] = ["SRCC with people", None, None, *([None] if firsts else [])]
        for name in names:
            blank = 0 if wide else 2 + (name in spread)
            last += [plain(agreement.leaderboard_srcc.get(name)), *[None] * blank]
        rows.append(tuple(last))
    legend = (LEGEND, *([FIRSTS] if firsts else []), *([SPREAD] if spread and not wide else []))
    return Table("Leaderboard", tuple(columns), tuple(rows), legend)


def _leaderboard_row(
    row: Any, names: Sequence[str], people: bool, firsts: bool, wide: bool, spread: Sequence[str]
) -> tuple[Any, ...]:
    prompts = sorted({row["metrics"][name]["prompts"] for name in names})
    cells: list[Any] = [
        row["generator"] or "(unnamed)",
        "-".join(map(str, dict.fromkeys([*prompts[:1], *prompts[-1:]]))) or None,
    ]
    if people:
        cells.append(plain(row["human"]["mean_rank"], digits=2) if row["human"] else None)
    if firsts:
        cells.append((row["human"] or {}).get("first_places"))
    for name in names:
        place = row["metrics"][name]
        cells.append(plain(place["mean_rank"], digits=2))
        if not wide:
            cells += [plain(place["mean"], place["interval"], digits=4), f"{place['scored']}/{place['images']}"]
            cells += [plain(place.get("spread"), digits=4)] if name in spread else []
    return tuple(cells)


def _strengths(name: str, fit: Any) -> Table:
    rows = tuple((each["generator"], plain(each["strength"], each["interval"], digits=2)) for each in fit["generators"])
    notes = [f"{fit['pairs']} pairs; natural logarithm, mean 0; 95% interval by resampling prompts"]
    if fit["degenerate"]:
        notes.append(
            f"{fit['degenerate']} resamples have no finite fit: who never loses there counts as infinitely strong"
        )
    if fit["reason"]:
        notes.append(fit["reason"])
    return Table(f"Bradley-Terry strength: {name}", ("generator", "strength"), rows, tuple(notes))
