"""Tables of results: agreement with people, the leaderboard of generators, and what suites and comparisons wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from titjudge.report import table_cells
from titjudge.report.manifest_access import metric as about_metric
from titjudge.report.manifest_access import strings
from titjudge.report.model import Loaded, Report
from titjudge.report.table_cells import DASH, Json, cell, fragment, measured, percent, ranged, table

_NOTE = (
    "Agreement: how often the metric gives the higher score to the image that people prefer; equal scores count as wrong. "
    "The second line is the 95% interval. Guessing reaches 50%, or less where scores are equal."
)


def agreement(report: Report) -> list[Json]:
    """One row a metric; empty where nothing is known of people."""
    found = [
        (place, judge, about_metric(report.runs[judge.run], judge.metric)) for place, judge in enumerate(report.judges)
    ]
    if not any(
        table_cells.is_number(about.get("accuracy")) or table_cells.is_number(about.get("srcc"))
        for _, _, about in found
    ):
        return []
    columns = ["metric", "agreement", "ties", "pairs", "to beat guessing", "SRCC", "KRCC", "nDCG", "coverage"]
    rows: list[list[Any]] = []
    for place, judge, about in found:
        link = fragment("pairs", m=place)
        rows.append([
            judge.label, percent(about.get("accuracy"), about.get("accuracy_interval"), link=link, bar=True),
            percent(about.get("tie_rate")), _pairs(about, link), _threshold(about),
            *(measured(about.get(key), 3, about.get(f"{key}_interval")) for key in ("srcc", "krcc", "ndcg")),
            percent(about.get("coverage"), link=fragment("images", m=place)),
        ])  # fmt: skip
    kept = [at for at in range(len(columns)) if at < 2 or any(row[at] != DASH for row in rows)]
    notes = list(dict.fromkeys(note for run in report.runs for note in strings(run.results.get("notes")))) or [_NOTE]
    return [table("Agreement with people", [columns[at] for at in kept], [[row[at] for at in kept] for row in rows],
                  notes=notes, span=(0.5, 1.0))]  # fmt: skip


def _pairs(about: Mapping[str, Any], link: str) -> Any:
    scored, asked = about.get("pairs_scored"), about.get("pairs")
    shown = scored if table_cells.is_number(scored) else asked
    if not table_cells.is_number(shown):
        return DASH
    sub = f"of {asked:,}" if table_cells.is_number(scored) and table_cells.is_number(asked) and scored != asked else ""
    return cell(f"{shown:,}", sub=sub, sort=float(shown or 0), link=link)


def _threshold(about: Mapping[str, Any]) -> Any:
    """The fewest correct pairs that guessing reaches one time in twenty."""
    needed, scored, p = about.get("threshold_05"), about.get("pairs_scored"), about.get("p_value")
    if not (table_cells.is_number(needed) and table_cells.is_number(scored) and needed and scored):
        return DASH
    return cell(f"{needed / scored:.1%}", sub=table_cells.p_value(p), sort=needed / scored)


def leaderboards(report: Report) -> list[Json]:
    """Generators with mean scores, intervals and ranks, for each run that has them."""
    return [_leaderboard(report, number) for number, run in enumerate(report.runs) if run.results.get("leaderboard")]


def _leaderboard(report: Report, at: int) -> Json:
    run = report.runs[at]
    board = run.results["leaderboard"]
    judges = [(place, judge) for place, judge in enumerate(report.judges) if judge.run == at]
    people = any(row.get("human") for row in board)
    columns = ["generator", *(["people"] if people else [])]
    for _, judge in judges:
        columns += [judge.metric, f"rank by {judge.metric}" if len(judges) > 1 else "rank"]
    rows = []
    for one in board:
        name = str(one.get("generator") or "")
        row: list[Any] = [cell(name or "(no name)", link=fragment("images", g=name))]
        if people:
            row.append(_rank(one.get("human") or {}))
        for place, judge in judges:
            about = (one.get("metrics") or {}).get(judge.metric) or {}
            row.append(
                ranged(about.get("mean"), about.get("interval"), judge.digits, link=fragment("images", g=name, m=place))
            )
            row.append(_rank(about))
        rows.append(row)
    title = "Generators" if len(report.runs) == 1 else f"Generators, {run.name}"
    notes = [
        "Mean score with its 95% interval, and rank by mean rank over the prompts where generators compete (1 is best).",
        *_board_notes(run),
    ]
    return table(title, columns, rows, notes=notes)


def _rank(about: Mapping[str, Any]) -> Any:
    rank, mean, share = about.get("rank"), about.get("mean_rank"), about.get("coverage")
    if not table_cells.is_number(rank):
        return DASH
    sub = f"mean {mean:.2f}" if table_cells.is_number(mean) else ""
    if table_cells.is_number(about.get("prompts")):
        sub += f"{' over' if sub else ''} {about['prompts']} prompts"
    if table_cells.is_number(share) and share is not None and share < 1:
        sub += f"{', ' if sub else ''}{share:.0%} covered"
    return cell(f"{rank:g}", sub=sub, sort=float(rank or 0))


def _board_notes(run: Loaded) -> list[str]:
    found = run.results.get("leaderboard_srcc")
    if not isinstance(found, Mapping):
        return []
    said = [f"{name} {value:.3f}" for name, value in found.items() if table_cells.is_number(value)]
    return [f"Rank correlation (SRCC) of the generators with people’s order: {', '.join(said)}."] if said else []


def official(report: Report) -> list[Json]:
    """Tables that a suite or a comparison wrote, but for those that this report draws itself."""
    made = []
    for run in report.runs:
        drawn = {"Leaderboard"} if run.results.get("leaderboard") else set()
        if any(table_cells.is_number(about.get("accuracy")) for about in (run.results.get("metrics") or {}).values()):
            drawn.add("Agreement with people")
        for one in run.results.get("tables") or ():
            title = str(one.get("title", ""))
            if title not in drawn:
                shown = title if len(report.runs) == 1 else f"{title}, {run.name}"
                made.append(
                    table(shown, strings(one.get("columns")), one.get("rows") or (), notes=strings(one.get("notes")))
                )
    return made
