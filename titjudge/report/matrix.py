"""The matrix of pictures: prompts down, generators (of several runs: each with its run) across."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from titjudge.core.registry import first_metric
from titjudge.report.model import Report
from titjudge.report.sections import PictureMatrix, Section, single
from titjudge.stats.scores.frame import categories


def matrix(report: Report) -> Section | None:
    """Make the section; None if there is only one column."""
    columns = {(run, entry.generator) for entry in report.entries if entry.prompt for run in entry.runs}
    if len(columns) < 2:
        return None
    return Section("matrix", "Matrix", "Prompts and generators", parts=single(PictureMatrix()), titled=False)


def matrix_data(report: Report) -> dict[str, Any]:
    """Return the data of the matrix except the images: themes of the prompts, its first comparison, and a name for marks.

    `themes` maps each column of the data that sorts the prompts into groups to its value by prompt. `marks` stays the same
    when the report of a run is written again.
    """
    runs = [[run.name, run.manifest.identity] for run in report.runs]
    marks = hashlib.sha256(json.dumps(runs, sort_keys=True, default=str).encode()).hexdigest()[:16]
    return {"themes": _themes(report), "first": _first(report), "marks": marks}


def _first(report: Report) -> dict[str, str]:
    """Choose what the matrix compares at first: A is the runner-up of the verdict, or the baseline; B is the better generator."""
    whole = report.runs[0].results.verdict if len(report.runs) == 1 else None
    compared = whole.generators if whole else None
    named = {"a": compared.second, "b": compared.first} if compared else {}
    unscored = {name for run in report.runs for name in run.results.unscored}
    metric = first_metric(dict.fromkeys(judge.metric for judge in report.judges), unscored) if report.judges else ""
    return {**named, "m": metric} | ({"a": report.baseline} if report.baseline else {})


def _themes(report: Report) -> dict[str, dict[str, str]]:
    items = [item for run in report.runs for item in run.items.values()]
    columns = categories(items, fewest=1)
    return {name: values for name, values in columns.items() if 2 * len(set(values.values())) <= len(values)}
