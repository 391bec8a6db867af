"""The trust card of a judge as a table, if there is one in the run folder or beside it."""

from __future__ import annotations

from titjudge.core.numbers import is_number
from titjudge.report.model import Loaded, Report
from titjudge.report.table_cells import DASH, Json, cell, mapping, measured, p_value, strings, table


def cards(report: Report) -> list[Json]:
    """Make a table for each run with a trust card."""
    return [_card(run, several=len(report.runs) > 1) for run in report.runs if _lines(run)]


def _card(run: Loaded, *, several: bool) -> Json:
    rows = []
    for each in _lines(run):
        wanted = f"{each.get('rule', '')} {each['limit']:g}" if is_number(each.get("limit")) else DASH
        trials = f"{each.get('prompts')} prompts" if each.get("prompts") else ""
        rows.append([
            cell(str(each.get("name", "")), sub=str(each.get("family") or "")),
            cell(str(each.get("verdict") or DASH), sub=p_value(each.get("p_value"))),
            measured(each.get("effect"), 3, each.get("interval")), wanted,
            cell(str(each.get("trials", DASH)), sub=trials),
        ])  # fmt: skip
    models = ", ".join(f"{role} {model}" for role, model in mapping(run.card.get("models")).items())
    skipped = [f"Not tested: {name}: {reason}." for name, reason in mapping(run.card.get("skipped")).items()]
    notes = [
        f"How far {run.card.get('metric', 'the judge')} ({models}) can be believed, as probed; effects in units of its own span.",
        *strings(run.card.get("notes")),
        *skipped,
    ]
    title = f"Trust card, {run.name}" if several else "Trust card"
    return table(title, ["test", "verdict", "effect", "should be", "trials"], rows, notes=notes, text=2)


def _lines(run: Loaded) -> list[Json]:
    lines = run.card.get("lines")
    return [each for each in lines if isinstance(each, dict)] if isinstance(lines, list) else []
