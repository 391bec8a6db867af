"""Tables of results: agreement with people, leaderboards, and the tables of suites and comparisons."""

from __future__ import annotations

from typing import Any

from titjudge.core.run_records import MetricResult, PlaceRecord
from titjudge.core.score_parts import objects
from titjudge.report.model import Report
from titjudge.report.table_cells import (
    DASH,
    Json,
    cell,
    ends_of,
    fragment,
    measured,
    money,
    p_value,
    percent,
    strings,
    table,
)
from titjudge.stats.scores.per_prompt import PerPrompt

_NOTE = (
    "Agreement: how often the metric gives the higher score to the image that people prefer; equal scores count as wrong. "
    "The second line is the 95% interval. Guessing reaches 50%, or less where scores are equal."
)


def agreement(report: Report) -> list[Json]:
    """Tabulate agreement with people, one row a metric; nothing without human pairs."""
    found = [(at, judge, report.runs[judge.run].metric(judge.metric)) for at, judge in enumerate(report.judges)]
    if all(result.accuracy is None and result.srcc is None for _, _, result in found):
        return []
    columns = ["metric", "agreement", "ties", "pairs", "to beat guessing", "SRCC", "KRCC", "nDCG",
               "paper fit", "coverage"]  # fmt: skip
    rows: list[list[Any]] = []
    for place, judge, result in found:
        link = fragment("pairs", m=place)
        rows.append([
            judge.label, percent(result.accuracy, result.accuracy_interval, link=link, bar=True),
            percent(result.tie_rate), _pairs(result, link), _threshold(result), measured(result.srcc, 3, result.srcc_interval),
            measured(result.krcc, 3, result.krcc_interval), _ndcg(result.ndcg, result.ndcg_chance),
            _ndcg(result.ndcg_paper_fit, result.ndcg_paper_fit_chance),
            percent(result.coverage, link=fragment("images", m=place)),
        ])  # fmt: skip
    kept = [at for at in range(len(columns)) if at < 2 or any(row[at] != DASH for row in rows)]
    notes = list(dict.fromkeys(note for run in report.runs for note in run.results.notes)) or [_NOTE]
    return [table("Agreement with people", [columns[at] for at in kept], [[row[at] for at in kept] for row in rows],
                  notes=notes, span=(0.5, 1.0))]  # fmt: skip


def _ndcg(value: float | None, chance: float | None) -> Any:
    """Make the cell of an nDCG: what a random order reaches stands below, in the place of the interval."""
    shown = measured(value, 3)
    return shown if isinstance(shown, str) or chance is None else shown | {"s": f"chance {chance:.3f}"}


def _pairs(result: MetricResult, link: str) -> Any:
    scored, asked = result.pairs_scored, result.pairs
    shown = asked if scored is None else scored
    if shown is None:
        return DASH
    sub = f"of {asked:,}" if asked is not None and shown != asked else ""
    return cell(f"{shown:,}", sub=sub, sort=float(shown), link=link)


def _threshold(result: MetricResult) -> Any:
    """Make the cell of the accuracy that guessing reaches with a probability below .05."""
    if not (result.threshold_05 and result.pairs_scored):
        return DASH
    share = result.threshold_05 / result.pairs_scored
    return cell(f"{share:.1%}", sub=p_value(result.p_value), sort=share)


def settled(report: Report) -> list[Json]:
    """Tabulate the verdicts of runs that were to settle a question."""
    tables = []
    for run in report.runs:
        record = run.results.settle or {}
        rows, unequal = [], []
        for pair in objects(record.get("pairs")):
            names = strings(pair.get("generators")) or strings([pair.get("a"), pair.get("b")])
            ends = ends_of(pair.get("interval"))
            interval = f"{ends[0]:.4g} – {ends[1]:.4g}" if ends else DASH
            if pair.get("reason"):
                unequal.append(f"Open, as what is left out may decide: {pair['reason']}.")
            rows.append([", ".join(names), str(pair.get("verdict")), pair.get("used"), pair.get("of"), interval,
                         record.get("images"), record.get("of_images"), money(record.get("spent")), money(record.get("saved"))])  # fmt: skip
        columns = ["generators", "better", "prompts", "of", "first minus second", "images", "of all", "spent", "spared"]
        notes = ["The interval holds at every moment at once, so that the run could stop at the verdict.", *unequal]
        if rows:
            tables.append(table("The question that was to be settled", columns, rows, text=2, notes=notes))
    return tables


def leaderboards(report: Report) -> list[Json]:
    """Tabulate mean scores, intervals and ranks of generators, for each run with a leaderboard."""
    return [_leaderboard(report, number) for number, run in enumerate(report.runs) if run.results.leaderboard]


def _leaderboard(report: Report, at: int) -> Json:
    run = report.runs[at]
    board = run.results.leaderboard
    judges = report.judges_of(at)
    people = any(row.human for row in board)
    columns = ["generator", *(["people"] if people else [])]
    for _, judge in judges:
        columns += [judge.metric, f"rank by {judge.metric}" if len(judges) > 1 else "rank"]
    rows = []
    for one in board:
        name = one.generator
        row: list[Any] = [cell(name or "(no name)", link=fragment("images", g=name))]
        if people:
            row.append(_rank(one.human))
        for at_judge, judge in judges:
            place = one.metrics.get(judge.metric, PlaceRecord())
            link = fragment("images", g=name, m=at_judge)
            row += [measured(place.mean, judge.digits, place.interval, link=link, bar=True), _rank(place)]
        rows.append(row)
    title = "Generators" if len(report.runs) == 1 else f"Generators, {run.name}"
    notes = [
        "Mean score with its 95% interval, and rank by mean rank over the prompts where generators compete (1 is best).",
    ]
    if run.results.per_prompt:
        notes[0] += f" First {PerPrompt.parse(run.results.per_prompt).about}."
    if srcc := [f"{name} {value:.3f}" for name, value in run.results.leaderboard_srcc.items() if value is not None]:
        notes.append(f"Rank correlation (SRCC) of the generators with people’s order: {', '.join(srcc)}.")
    return table(title, columns, rows, notes=notes)


def _rank(place: PlaceRecord | None) -> Any:
    if place is None or place.rank is None:
        return DASH
    mean = "" if place.mean_rank is None else f"mean {place.mean_rank:.2f}"
    if place.prompts is not None:
        mean += f"{' over' if mean else ''} {place.prompts} prompts"
    spread = "" if place.spread is None else f"spread between seeds {place.spread:.2g}"
    firsts = "" if place.first_places is None else f"first on {place.first_places}"
    covered = f"{place.coverage:.0%} covered" if place.coverage is not None and place.coverage < 1 else ""
    return cell(str(place.rank), sub=", ".join(filter(None, (mean, firsts, spread, covered))), sort=float(place.rank))


def official(report: Report) -> list[Json]:
    """Return the tables of suites and comparisons, without those that the report draws itself."""
    tables = []
    for run in report.runs:
        drawn = {"Leaderboard"} if run.results.leaderboard else set()
        if any(result.accuracy is not None for result in run.results.metrics.values()):
            drawn.add("Agreement with people")
        for one in run.results.tables:
            if one.title not in drawn:
                title = one.title if len(report.runs) == 1 else f"{one.title}, {run.name}"
                tables.append(table(title, one.columns, one.rows, notes=one.notes))
    return tables
