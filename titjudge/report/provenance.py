"""The sections of failures and cost, and of provenance: models, prompts, metrics, configuration, deviations, manifests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from titjudge.core.declarations import FACTS, Declaration, Population, Unit
from titjudge.core.failure_advice import advice
from titjudge.core.grouping import grouped
from titjudge.core.run_records import AnsweredRecord
from titjudge.core.tables import Cell, Note, Table, dollars
from titjudge.core.words import in_one_line, percentage, spending, truncated
from titjudge.report.model import Report, is_set, setting
from titjudge.report.sections import Block, FoldedText, Listing, Section, fragment, single

Row = tuple[Any, ...]
COST = Declaration("cost", "requests, tokens and cost of each role", Population.REQUESTS, Unit.REQUEST)
MISSING = Declaration("missing_scores", "images without a score, by cause", Population.ALL_IMAGES, Unit.IMAGE)
_BRIEF = 160  # characters of a reason


def provenance(report: Report, files: Sequence[Block] = ()) -> Section:
    """Make the section on the origin of scores; `files` replace the manifests."""
    introduction = (
        "Every score of the Images section opens to its evidence: the rendered prompt, the raw answer, the model version and the "
        "cost. `titjudge verify` recomputes all of it offline."
    )
    deviations = [
        Listing(
            f"Deviations from the suite, {run.name}",
            f"Suite {run.manifest.suite.name}, version {run.manifest.suite.version}, {run.manifest.protocol} protocol.",
            tuple(run.manifest.suite.deviations),
        )
        for run in report.runs
    ]
    manifests = [
        FoldedText(f"The whole manifest, {run.name}", json.dumps(run.manifest.to_json(), indent=2, ensure_ascii=False))
        for run in report.runs
    ]
    tables = [_answered(report), _prompts(report), _metrics(report), _configuration(report)]
    return Section(
        "provenance", "Provenance", "Provenance", introduction, single(tables, deviations, files or manifests)
    )


def _answered(report: Report) -> Table:
    """Tabulate which model versions answered for each role, and how often."""
    rows = []
    for run in report.runs:
        for name, role in run.manifest.roles.items():
            for version in role.answered or [AnsweredRecord()]:
                endpoint = version.endpoint or role.base_url or None
                answers = version.answers if role.answered else None
                rows.append((run.name, name, role.model, version.version or None, endpoint, answers))
    columns = ("role", "model asked", "version that answered", "endpoint", "answers")
    return _by_run(
        report, "Who answered", columns, rows, empty="No model was used, or the manifest has no record of it."
    )


def _prompts(report: Report) -> Table:
    rows = [(run.name, name, digest) for run in report.runs for name, digest in run.manifest.prompts.items()]
    return _by_run(report, "Prompts", ("prompt", "SHA-256"), rows, empty="None used.")


def _metrics(report: Report) -> Table:
    rows = [
        (
            run.name,
            name,
            metric.version or None,
            "{:g} to {:g}".format(*metric.limits) if metric.limits else None,
            metric.source or None,
        )
        for run in report.runs
        for name, metric in run.manifest.metrics.items()
    ]
    return _by_run(report, "Metrics", ("metric", "version", "range", "source"), rows, empty="None named.")


def _by_run(
    report: Report,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    *,
    empty: str = "",
    notes: Sequence[Note] = (),
    declared: Declaration = FACTS,
) -> Table:
    """Make a table from rows that begin with the run's name, which is dropped if there is only one run."""
    first = 0 if len(report.runs) > 1 else 1
    named, *cells = (tuple(row[first:]) for row in (("run", *columns), *rows))
    return Table(title, named, tuple(cells), tuple(notes), empty, declared=declared)


def _configuration(report: Report) -> Table:
    """Tabulate the configurations with one row per setting and one column per run."""
    runs = [
        {key: setting(value) for key, value in run.manifest.identity.items() if is_set(value)}
        | ({"titjudge": run.manifest.titjudge} if run.manifest.titjudge else {})
        for run in report.runs
    ]
    columns = ("setting", *(run.name for run in report.runs)) if len(report.runs) > 1 else ("setting", "value")
    names = dict.fromkeys(name for settings in runs for name in settings)
    return Table(
        "Configuration",
        columns,
        tuple((name, *(settings.get(name) for settings in runs)) for name in names),
        declared=FACTS,
    )


def failures(report: Report) -> Section:
    """Make the section of scores that are missing, input that could not be used, and money."""
    tables = [*_remedies(report), _without_score(report), _unusable(report), _cost(report)]
    return Section("failures", "Failures & cost", "Failures and cost", parts=single(tables))


def _remedies(report: Report) -> list[Table]:
    """Tabulate what to do about missing scores, by cause; no table if none is missing."""
    rows = [
        (run.name, str(line.cause), line.count, line.remedy)
        for run in report.runs
        for line in advice(run.results.failures, run.manifest.limits)
    ]
    columns = ("images without a score", "how many", "what to do")
    return [_by_run(report, "What to do", columns, rows, declared=MISSING)] if rows else []


def _without_score(report: Report) -> Table:
    """Tabulate images without a score by generator, status and reason, with the metrics that have none."""
    rows: list[Row] = []
    for run in report.runs:
        judged = Counter(generator for _, generator in {(s.item_id, s.generator) for s in run.scores.values()})
        kinds = grouped(
            (score for score in run.scores.values() if score.value is None),
            lambda s: (s.generator, str(s.status), truncated(in_one_line(s.reason), _BRIEF)),
        )
        for (generator, status, reason), scores in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
            count = len({s.item_id for s in scores})
            note = f"{percentage(count / judged[generator])} of {judged[generator]:,} judged"
            rows.append((run.name, Cell(generator or "(no name)", link=fragment("images", g=generator, s=status)),
                         ", ".join(sorted({s.metric for s in scores})), status.replace("_", " "), reason or None,
                         Cell(f"{count:,}", note=note, sort=count)))  # fmt: skip
    line = "A failure is never counted as a low score: it is excluded from every mean, and shown here."
    return _by_run(
        report, "Without a score", ("generator", "metrics", "status", "reason", "images"), rows,
        empty="Every image that was judged got its score.", notes=[Note("failures_excluded", line)], declared=MISSING,
    )  # fmt: skip


def _unusable(report: Report) -> Table:
    rows = tuple((entry.id, entry.generator or None, entry.bad) for entry in report.entries if entry.bad)
    columns = ("item", "generator", "reason")
    return Table("Input that could not be used", columns, rows, empty="All of it could be used.", declared=FACTS)


def _cost(report: Report) -> Table:
    """Tabulate requests, tokens and money by role."""
    rows: list[Row] = []
    for run in report.runs:
        counted: list[list[int]] = []
        for name, role in run.manifest.roles.items():
            tokens = role.tokens
            counts = [role.asked, role.cached, role.errors, role.unusable, tokens.input, tokens.output, tokens.thinking]
            counted.append(counts)
            rows.append((run.name, name, role.model, *counts, dollars(role.spent, role.unpriced)))
        sums = [sum(column) for column in zip(*counted, strict=True)] or [None] * 7
        rows.append((run.name, "all roles", "", *sums, dollars(run.spent, run.unpriced)))
    columns = (
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
    )
    notes = [
        *(
            Note(
                "all_at_list_price",
                f"{run.name}: all answers at list price, those from the cache included, {spending(run.list_cost, run.unpriced)}.",
            )
            for run in report.runs
        ),
        Note(
            "cached_of_last_session",
            "Answers from the cache are counted for the last session of a run; all else is of all sessions together.",
        ),
    ]
    return _by_run(report, "Cost by role", columns, rows, notes=notes, declared=COST)
