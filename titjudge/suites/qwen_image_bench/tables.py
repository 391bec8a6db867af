"""Results of Qwen-Image-Bench: means by generator, the files of the official scripts, and the tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core import item_meta
from titjudge.core.files import write_atomic, write_json
from titjudge.core.numbers import mean
from titjudge.core.types import Item, Json, Score, Table, Values
from titjudge.metrics.checklist import COLUMNS, PillarMarks, judge_answer, rubric, sub_capabilities
from titjudge.suites.base import benchmark_table, first_rows
from titjudge.suites.qwen_image_bench.dataset import Facets, Problem
from titjudge.suites.spreadsheet import write_sheets

LEVELS = ("level1", "level2", "level3")
Levels = Mapping[str, Values]
"""By level, then pillar: its points, those of its sub-capabilities, and those of their facets."""
_OURS = (
    "ID",
    item_meta.FACETS.name,
    item_meta.RUBRIC_FACETS.name,
)  # keys of an item's meta that are no columns of the input
_SUMMARY = "Level-1 Summary"
_ORDER = ("Quality", "Aesthetics", "Alignment", "Creative Generation", "Real-world Fidelity")  # of compute_scores.py


def levels(row: Mapping[str, PillarMarks]) -> Levels:
    """Collect the three levels of one image from the verdicts on its pillars; failed pillars drop out."""
    return {
        level: {pillar: getattr(verdict, level) for pillar, verdict in row.items() if verdict.status == "ok"}
        for level in LEVELS
    }


def total(row: Levels) -> float | None:
    """Compute the score of one image: the mean of its pillars."""
    return mean(row["level1"].values())


def summarise(rows: Iterable[Levels]) -> Json:
    """Average the images of a generator: each entry of each level, and `overall`, the mean of the images' totals.

    Entries without any number are left out, as in the official files; `overall` is then None.
    """
    rows = list(rows)
    means = {level: _means([row[level] for row in rows]) for level in LEVELS}
    return {"overall": mean(total(row) for row in rows), **means}


def _means(trees: Sequence[Any]) -> Any:
    """Average each leaf over the trees that have it, without leaves that none has, and branches without leaves."""
    if trees and not isinstance(trees[0], Mapping):
        return mean(trees)
    keys = dict.fromkeys(key for tree in trees for key, value in tree.items() if value is not None)
    means = {key: _means([tree[key] for tree in trees if tree.get(key) is not None]) for key in keys}
    return {key: value for key, value in means.items() if value is not None and value != {}}


def coverage(rows: Mapping[tuple[str, Any], Mapping[str, str]], facets: Mapping[str, Facets]) -> Json:
    """Count the answers of a generator.

    Args:
        rows: The status of every judged pillar, by image: its ID, and what distinguishes images of one ID.
        facets: The facets that each ID activates; `missing` counts their pillars without an answer.
    """
    statuses = [status for row in rows.values() for status in row.values()]
    missing = [row for (name, _), row in rows.items() for pillar in facets.get(name, {}) if pillar not in row]
    return {
        "prompts": len({name for name, _ in rows}),
        "images": len(rows),
        "of_prompts": len(facets),
        "answers": len(statuses),
        **{status: statuses.count(status) for status in ("ok", "parse_failure", "invalid")},
        "missing": len(missing),
    }


def tables(models: Values, counts: Values, problems: Sequence[Problem]) -> list[Table]:
    """Make the tables of pillars and overall, sub-capabilities, facets, coverage, and the first problems."""
    order = sorted(models, key=lambda name: (models[name]["overall"] is None, -(models[name]["overall"] or 0), name))
    pillars = list(rubric())
    rows = [(name, *map(models[name]["level1"].get, pillars), models[name]["overall"]) for name in order]
    unused = [(problem.name, problem.model, problem.reason) for problem in problems]
    return [
        benchmark_table(
            "Qwen-Image-Bench", ("generator", *pillars, "Overall"), rows, *_notes(counts), id="qwen_image_bench"
        ),
        _detail("Qwen-Image-Bench: sub-capabilities", models, order, 2),
        _detail("Qwen-Image-Bench: facets", models, order, 3),
        _coverage_table(order, counts),
        *first_rows("Qwen-Image-Bench: not used", ("what", "generator", "why"), unused),
    ]


def _notes(counts: Values) -> list[str]:
    notes = ["Overall is the mean of the images' totals, not of the pillars' means. Scale 0 to 100."]
    failed = {name: c["parse_failure"] + c["invalid"] + c["missing"] for name, c in counts.items()}
    if any(failed.values()):
        named = ", ".join(f"{name} {count}" for name, count in failed.items() if count)
        notes.append(f"Pillars without a usable answer drop out of an image's mean: {named}.")
    if len({(c["prompts"], failed[name]) for name, c in counts.items()}) > 1:
        notes.append(
            "Generators were judged on different numbers of prompts or answers: their order may be due to that."
        )
    return notes


def _detail(title: str, models: Values, order: Sequence[str], level: int) -> Table:
    """Make the table of one level: a row for each entry of the rubric (and of answers beside it), a column for each generator."""
    names: dict[tuple[str, ...], None] = {}
    for pillar in rubric():
        published = [(pillar, sub, facet) for facet, sub in sub_capabilities(pillar).items()]
        further = [
            (pillar, sub, facet)
            for model in order
            for sub, facets in models[model]["level3"].get(pillar, {}).items()
            for facet in facets
        ]
        names |= dict.fromkeys(name[:level] for name in (*published, *further))
    rows = ((*name, *(_at(models[model][f"level{level}"], name) for model in order)) for name in names)
    heads = ("pillar", "sub-capability", "facet")[:level]
    return benchmark_table(title, (*heads, *order), rows)


def _at(tree: Any, path: Sequence[str]) -> Any:
    """Return the entry of a tree at a path; None where there is none."""
    for name in path:
        tree = tree.get(name) if tree is not None else None
    return tree


def _coverage_table(order: Sequence[str], counts: Values) -> Table:
    columns = ("prompts", "images", "of_prompts", "answers", "ok", "parse_failure", "invalid", "missing")
    rows = ((name, *map(counts[name].get, columns)) for name in order if name in counts)
    note = (
        "answers counts pillars; parse_failure: no JSON object; invalid: JSON on which the official code crashes; "
        "missing: a pillar that the prompt activates, without any answer"
    )
    return benchmark_table("Qwen-Image-Bench: coverage", ("generator", *columns), rows, note)


def write_bench_scores(result: Values, path: Path) -> None:
    """Write one generator's result as judge.py's `<stem>_bench_scores.json`, with level3 added."""
    write_json(
        path,
        {
            "level1": result["level1"],
            "level2": result["level2"],
            "total": result["overall"],
            "level3": result["level3"],
        },
    )


def write_bench_xlsx(result: Values, path: Path) -> None:
    """Write one generator's result as judge.py's `<stem>_bench_scores.xlsx`: a summary, and a sheet a pillar.

    Raises:
        MissingExtra: openpyxl is not installed.
    """
    summary = [*result["level1"].items(), ("Total", result["overall"])]
    pillars = {name: [("Sub-dimension", "Score"), *subs.items()] for name, subs in result["level2"].items() if subs}
    write_sheets(path, {_SUMMARY: [("Dimension", "Score"), *summary], **pillars})


def write_scores_result(models: Values, path: Path) -> None:
    """Write all generators as compute_scores.py's `scores_result.xlsx`: a summary, best first, and a sheet a pillar.

    Raises:
        MissingExtra: openpyxl is not installed.
    """
    order = _best_first(models)
    heads = ("Model", *_ORDER, "Total")
    summary = [(name, *map(models[name]["level1"].get, _ORDER), models[name]["overall"]) for name in order]
    sheets = {_SUMMARY: [heads, *summary]}
    for pillar in _ORDER:
        level2 = {name: models[name]["level2"].get(pillar, {}) for name in order}
        if subs := sorted({sub for points in level2.values() for sub in points}):
            sheets[pillar] = [("Model", *subs), *((name, *map(points.get, subs)) for name, points in level2.items())]
    write_sheets(path, sheets)


def _best_first(models: Values) -> list[str]:
    return sorted(models, key=lambda name: models[name]["overall"] or 0, reverse=True)


def write_scores_detail(models: Values, path: Path) -> None:
    """Write all generators as compute_scores.py's `scores_detail.json` (best first), with level3 added."""
    order = _best_first(models)
    write_json(
        path,
        {
            name: {"total": models[name]["overall"], **{level: models[name][level] for level in LEVELS}}
            for name in order
        },
    )


def write_judged(items: Sequence[Item], scores: Sequence[Score], path: Path) -> None:
    """Write answers as judge.py's `<stem>_judged.jsonl`: a line for each item, in order, with None where there is no answer.

    Further columns of the input are kept. `judge_model_output` holds the corrected marks of all pillars as JSON text,
    `<dim>_judge_output` the raw answers.
    """
    by_id = {score.item_id: score for score in scores}
    lines = []
    for item in items:
        score = by_id.get(item.id)
        outputs = score.parts.get("outputs", {}) if score else {}
        facets = 38 if item_meta.RUBRIC_FACETS.get(item) == 38 else 56
        corrected = {pillar: judge_answer(text, pillar, facets=facets).corrected for pillar, text in outputs.items()}
        marks = {pillar: mark for pillar, mark in corrected.items() if mark is not None}
        row = {
            "ID": int(item.prompt_id) if item.prompt_id.isascii() and item.prompt_id.isdigit() else item.prompt_id,
            "model": item.generator,
            "prompt": item.prompt,
            "image_path": str(item.image or ""),
            **{name: value for name, value in item.meta.items() if name not in _OURS},
        }
        row["judge_model_output"] = json.dumps(marks, ensure_ascii=False) if marks else None
        row |= {f"{column}_judge_output": outputs.get(pillar) for column, pillar in COLUMNS.items()}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    write_atomic(path, "".join(lines))
