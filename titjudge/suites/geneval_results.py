"""`suites aggregate geneval`: the table of GenEval from the results of its script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from titjudge.core.errors import DataError, must_be
from titjudge.core.grouping import group_means
from titjudge.core.types import Json, Note, Values
from titjudge.suites.aggregation import Aggregated, Aggregation
from titjudge.suites.base import Results, benchmark_table

TASKS = ("single_object", "two_object", "counting", "colors", "position", "color_attr")
PROMPTS = 553
_SHOWN = ("images", "prompts", "overall", "images_correct", "prompts_any", "prompts_all")


def aggregate_results(files: Sequence[Path]) -> Results:
    """Compute GenEval's table from results.jsonl files as evaluate_images.py writes them, one for each generator.

    Returns:
        By file (its name without the ending): images, prompts, shares of correct images, of prompts with any and with all
        images correct, shares by task and their mean (`overall`); and the table, with notes on tasks and prompts that are missing.

    Raises:
        DataError: A line is none of GenEval's; names file and line.
    """
    summaries: dict[str, Json] = {}
    for file in files:
        name = file.stem if file.stem not in summaries else str(file)
        summaries[name] = _summary(file)
    tasks = {task for summary in summaries.values() for task in summary["tasks"]}
    order = [*filter(tasks.__contains__, TASKS), *sorted(tasks - {*TASKS})]
    columns = ("generator", *_SHOWN[:3], *order, "images correct", "prompts, any", "prompts, all")
    rows = []
    for name, summary in summaries.items():
        shown = [summary[key] for key in _SHOWN]
        rows.append((name, *shown[:3], *map(summary["tasks"].get, order), *shown[3:]))
    note = "overall is the mean of the tasks; a prompt counts as correct upstream where any of its images is (prompts, any)"
    about = Note("geneval_overall", note)
    notes = [line for name, summary in summaries.items() for line in _deviations(name, summary)]
    return summaries, [benchmark_table("GenEval", columns, rows, about, *notes)]


def _deviations(name: str, summary: Values) -> list[Note]:
    """Write which tasks or prompts are missing or unknown: then the numbers are not GenEval's."""
    tasks, prompts = summary["tasks"], summary["prompts"]
    missing, unknown = [task for task in TASKS if task not in tasks], sorted({*tasks} - {*TASKS})
    lines = [f"no results of {', '.join(missing)}"] if missing else []
    lines += [f"GenEval has no task {', '.join(unknown)}"] if unknown else []
    lines += [f"{prompts:,} prompts, not {PROMPTS}"] if prompts != PROMPTS else []
    return [
        Note("geneval_deviation", f"{name}: {line}; overall is not comparable with published numbers") for line in lines
    ]


def _summary(file: Path) -> Json:
    """Count what one generator got right; see `aggregate_results` for the keys."""
    from titjudge.core.files import read_jsonl

    tasks: dict[str, list[bool]] = {}
    prompts: dict[str, list[bool]] = {}
    for number, row in read_jsonl(file, ("tag", "correct", "metadata")):
        tag, correct, metadata = row["tag"], row["correct"], row["metadata"]
        if not isinstance(tag, str) or not tag:
            raise DataError(must_be("'tag'", "the name of a task", tag), file, number)
        if not isinstance(correct, bool):
            raise DataError(must_be("'correct'", "true or false", correct), file, number)
        tasks.setdefault(tag, []).append(correct)
        prompts.setdefault(metadata if isinstance(metadata, str) else json.dumps(metadata), []).append(correct)
    if not tasks:
        raise DataError("the file has no results. Give the results.jsonl of GenEval", file)
    images = [correct for verdicts in tasks.values() for correct in verdicts]
    shares = group_means(tasks)
    return {
        "images": len(images),
        "prompts": len(prompts),
        "overall": sum(shares.values()) / len(shares),
        "tasks": shares,
        "images_correct": sum(images) / len(images),
        "prompts_any": sum(map(any, prompts.values())) / len(prompts),
        "prompts_all": sum(map(all, prompts.values())) / len(prompts),
    }


GENEVAL = Aggregation(
    summary="GenEval: the six tasks and their mean.",
    help="""Compute the six tasks of GenEval and their mean from the results.jsonl that evaluate_images.py wrote for each generator.

    \b
    Example:
      python cli.py suites aggregate geneval flux.jsonl sd3.jsonl
    """,
    compute=lambda source: Aggregated(*aggregate_results(source.files)),
)
