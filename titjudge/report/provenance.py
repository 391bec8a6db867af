"""Tables of models, prompts, configuration, cost and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from titjudge.core.numbers import is_number
from titjudge.core.run_records import AnsweredRecord
from titjudge.report.model import Report, as_text
from titjudge.report.table_cells import DASH, Json, cell, fragment, spending, table

Row = list[Any]


def provenance(report: Report) -> list[Json]:
    """Tabulate models, prompts, metrics and configuration."""
    answered, prompts, metrics = [], [], []
    for run in report.runs:
        for name, role in run.manifest.roles.items():
            for version in role.answered or [AnsweredRecord()]:
                endpoint = version.endpoint or role.base_url or DASH
                answers = version.answers if role.answered else None
                answered.append([run.name, name, role.model, version.version or DASH, endpoint, answers])
        prompts += [[run.name, name, digest] for name, digest in run.manifest.prompts.items()]
        for name, metric in run.manifest.metrics.items():
            limits = "{:g} to {:g}".format(*metric.limits) if metric.limits else DASH
            metrics.append([run.name, name, metric.version or DASH, limits, metric.source or DASH])
    return [
        _by_run(report, "Who answered", ["role", "model asked", "version that answered", "endpoint", "answers"], answered, text=4,
                empty="No model was asked, or the manifest does not say."),
        _by_run(report, "Prompts", ["prompt", "SHA-256"], prompts, text=2, empty="None used."),
        _by_run(report, "Metrics", ["metric", "version", "range", "source"], metrics, text=4, empty="None named."),
        _configuration(report),
    ]  # fmt: skip


def _by_run(report: Report, title: str, columns: Sequence[str], rows: Sequence[Row], *, text: int, empty: str = "",
            notes: Sequence[str] = ()) -> Json:  # fmt: skip
    """Make a table from rows that begin with the run's name, which is dropped if there is only one run."""
    if len(report.runs) > 1:
        return table(title, ["run", *columns], rows, text=text + 1, empty=empty, notes=notes)
    return table(title, columns, [row[1:] for row in rows], text=text, empty=empty, notes=notes)


def _configuration(report: Report) -> Json:
    """Tabulate the configurations with one row a setting and one column a run."""
    each = [
        {key: setting(value) for key, value in run.manifest.identity.items() if value not in (None, {}, [], "")}
        | {"titjudge": run.manifest.titjudge or DASH}
        for run in report.runs
    ]
    names = list(dict.fromkeys(name for settings in each for name in settings))
    columns = ["setting", *(run.name for run in report.runs)] if len(report.runs) > 1 else ["setting", "value"]
    rows = [[name, *(settings.get(name, DASH) for settings in each)] for name in names]
    return table("Configuration", columns, rows, text=len(columns))


def setting(value: Any) -> str:
    """Format a value of a configuration in one line."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {setting(one)}" for key, one in value.items() if one not in (None, {}, [], ""))
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return as_text(value)


def failures(report: Report) -> list[Json]:
    """Tabulate failures by generator, metric, status and reason, and invalid items."""
    rows: list[Row] = []
    for at, run in enumerate(report.runs):
        places = {judge.metric: place for place, judge in report.judges_of(at)}
        asked = Counter((score.generator, score.metric) for score in run.scores.values())
        found = Counter(
            (s.generator, s.metric, str(s.status), _brief(s.reason)) for s in run.scores.values() if s.value is None
        )
        for (generator, metric, status, reason), count in found.most_common():
            link = fragment("images", g=generator, m=places.get(metric), s=status)
            share = f"{count / asked[generator, metric]:.1%} of {asked[generator, metric]:,} judged"
            rows.append([run.name, cell(generator or "(no name)", link=link), metric, status.replace("_", " "), reason or DASH,
                         cell(f"{count:,}", sub=share, sort=count)])  # fmt: skip
    notes = ["A failure is never counted as a low score: it is left out of every mean, and shown here."] if rows else []
    bad = [[entry.id, entry.generator or DASH, entry.bad] for entry in report.entries if entry.bad]
    return [
        _by_run(report, "Without a score", ["generator", "metric", "status", "reason", "scores"], rows, text=4,
                empty="Every image that was judged got its score.", notes=notes),
        table("Input that could not be used", ["item", "generator", "reason"], bad, text=3, empty="All of it could be used."),
    ]  # fmt: skip


def _brief(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= 160 else line[:159] + "…"


def cost(report: Report) -> Json:
    """Tabulate requests, tokens and money by role."""
    rows: list[Row] = []
    for run in report.runs:
        counted: list[list[int]] = []
        for name, role in run.manifest.roles.items():
            tokens = role.tokens
            counts = [role.asked, role.cached, role.errors, role.unusable, tokens.input, tokens.output, tokens.thinking]
            counted.append(counts)
            rows.append([run.name, name, role.model, *counts, _dollars(role.spent, role.unpriced)])
        sums = [sum(column) for column in zip(*counted, strict=True)] or [None] * 7
        rows.append([run.name, "all roles", "", *sums, _dollars(run.spent, run.unpriced)])
    columns = [
        "role",
        "model",
        "asked",
        "from cache",
        "errors",
        "unusable",
        "tokens in",
        "tokens out",
        "thinking",
        "spent",
    ]
    notes = [
        *(f"{run.name}: all answers at list price, those from the cache included, {spending(run.list_cost, run.unpriced)}." for run in report.runs),
        "Answers from the cache are counted for the last session of a run; all else is of all sessions together.",
    ]  # fmt: skip
    return _by_run(report, "Cost by role", columns, rows, text=2, notes=notes)


def _dollars(value: Any, unpriced: int) -> Any:
    text = spending(value, unpriced)
    return cell(text, sort=float(value)) if is_number(value) else text
