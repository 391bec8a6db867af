"""Qwen-Image-Bench results: rows to models, the files of the official scripts, and the tables people read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.files import write_atomic
from titjudge.core.numbers import mean
from titjudge.core.types import Item, Score, Table
from titjudge.metrics.checklist import COLUMNS, Verdict, homes, judge_answer, rubric
from titjudge.suites.base import first_rows
from titjudge.suites.qwen_image_bench.dataset import Facets, Problem
from titjudge.suites.spreadsheet import write_sheets

Levels = Mapping[
    str, Mapping[str, Any]
]  # "level1", "level2", "level3" -> pillar -> number, by sub-capability, by facet


_OURS = ("ID", "facets", "rubric_facets")  # of an item's meta: no columns of the input
_SUMMARY = "Level-1 Summary"
_RESULT_ORDER = (
    "Quality",
    "Aesthetics",
    "Alignment",
    "Creative Generation",
    "Real-world Fidelity",
)  # of compute_scores.py


def levels(row: Mapping[str, Verdict]) -> Levels:
    """Compute the three levels of one image, from the verdicts on its pillars; failed pillars drop out."""
    good = {pillar: verdict for pillar, verdict in row.items() if verdict.status == "ok"}
    return {
        "level1": {pillar: verdict.level1 for pillar, verdict in good.items()},
        "level2": {pillar: verdict.level2 for pillar, verdict in good.items()},
        "level3": {pillar: verdict.level3 for pillar, verdict in good.items()},
    }


def total(row: Levels) -> float | None:
    """Compute the score of one image: the mean of its pillars."""
    return mean(row["level1"].values())


def summarise(rows: Iterable[Levels]) -> dict[str, Any]:
    """One generator: for each entry of each level the mean over images, and `overall`, the mean of the images' totals.

    Entries that no image has a number for are not there, as in the official files; `overall` is then None.
    """
    rows = list(rows)
    means = {level: _means([row[level] for row in rows]) for level in ("level1", "level2", "level3")}
    return {"overall": mean(total(row) for row in rows), **means}


def _means(trees: Sequence[Any]) -> Any:
    """Average each leaf over the trees that have it; leaves that none has, and branches without any, are left out."""
    if trees and not isinstance(trees[0], Mapping):
        return mean(trees)
    keys = dict.fromkeys(key for tree in trees for key, value in tree.items() if value is not None)
    found = {key: _means([tree[key] for tree in trees if tree.get(key) is not None]) for key in keys}
    return {key: value for key, value in found.items() if value is not None and value != {}}


def coverage(rows: Mapping[tuple[str, Any], Mapping[str, str]], facets: Mapping[str, Facets]) -> dict[str, Any]:
    """Count what one generator has.

    `rows` holds the status of every judged pillar by image: its ID, and what tells images of one ID apart. `missing` counts the pillars that the prompts of these images activate, without any answer.
    """
    statuses = [status for row in rows.values() for status in row.values()]
    missing = [row for (name, _), row in rows.items() for pillar in facets.get(name, {}) if pillar not in row]
    return {
        "prompts": len({name for name, _ in rows}),
        "images": len(rows),
        "of_prompts": len(facets),
        "answers": len(statuses),
        "ok": statuses.count("ok"),
        "parse_failure": statuses.count("parse_failure"),
        "invalid": statuses.count("invalid"),
        "missing": len(missing),
    }


def tables(models: Mapping[str, Any], counts: Mapping[str, Any], problems: Sequence[Problem]) -> list[Table]:
    """Pillars and overall, sub-capabilities, facets, coverage, and the first problems by name."""
    order = sorted(models, key=lambda name: (models[name]["overall"] is None, -(models[name]["overall"] or 0), name))
    pillars = list(rubric())
    first = Table(
        "Qwen-Image-Bench",
        ("generator", *pillars, "Overall"),
        tuple((m, *(models[m]["level1"].get(p) for p in pillars), models[m]["overall"]) for m in order),
        _notes(counts),
    )
    return [
        first,
        _detail("Qwen-Image-Bench: sub-capabilities", models, order, 2),
        _detail("Qwen-Image-Bench: facets", models, order, 3),
        _coverage_table(order, counts),
        *first_rows(
            "Qwen-Image-Bench: not used", ("what", "generator", "why"), [(p.name, p.model, p.reason) for p in problems]
        ),
    ]


def _notes(counts: Mapping[str, Any]) -> tuple[str, ...]:
    notes = ["Overall is the mean of the images' totals, not of the pillars' means. Scale 0 to 100."]
    bad = {name: c["parse_failure"] + c["invalid"] + c["missing"] for name, c in counts.items()}
    if any(bad.values()):
        named = ", ".join(f"{name} {count}" for name, count in bad.items() if count)
        notes.append(f"Pillars without a usable answer drop out of an image's mean: {named}.")
    if len({(c["prompts"], bad[name]) for name, c in counts.items()}) > 1:
        notes.append(
            "Generators were judged on different numbers of prompts or answers: their order may be due to that."
        )
    return tuple(notes)


def _detail(title: str, models: Mapping[str, Any], order: Sequence[str], level: int) -> Table:
    names: dict[tuple[str, ...], None] = {}
    for pillar in rubric():
        published = [(pillar, sub, facet) for facet, sub in homes(pillar).items()]
        names |= dict.fromkeys(key[:level] for key in published)
        for model in order:
            for sub, facets in models[model]["level3"].get(pillar, {}).items():
                names |= dict.fromkeys((pillar, sub, facet)[:level] for facet in facets)
    rows = tuple((*key, *(_at(models[model][f"level{level}"], key) for model in order)) for key in names)
    heads = ("pillar", "sub-capability", "facet")[:level]
    return Table(title, (*heads, *order), rows)


def _at(tree: Any, key: Sequence[str]) -> Any:
    for name in key:
        tree = tree.get(name) if tree is not None else None
    return tree


def _coverage_table(order: Sequence[str], counts: Mapping[str, Any]) -> Table:
    columns = ("prompts", "images", "of_prompts", "answers", "ok", "parse_failure", "invalid", "missing")
    rows = tuple((name, *(counts[name][column] for column in columns)) for name in order if name in counts)
    notes = (
        "answers counts pillars; parse_failure: no JSON object; invalid: JSON on which the official code crashes; "
        "missing: a pillar that the prompt activates, without any answer",
    )
    return Table("Qwen-Image-Bench: coverage", ("generator", *columns), rows, notes)


def official_shape(result: Mapping[str, Any]) -> dict[str, Any]:
    """Give a generator's result the keys of the official files (`total` for overall), plus level3."""
    return {
        "level1": result["level1"],
        "level2": result["level2"],
        "total": result["overall"],
        "level3": result["level3"],
    }


def write_bench_scores(result: Mapping[str, Any], path: Path) -> None:
    """Write one generator's result as judge.py's `<stem>_bench_scores.json`, plus level3."""
    _write(official_shape(result), path)


def write_bench_xlsx(result: Mapping[str, Any], path: Path) -> None:
    """Write one generator's result as judge.py's `<stem>_bench_scores.xlsx`: a summary, and a sheet a pillar.

    Raises:
        MissingExtra: openpyxl is not installed.
    """
    summary = [*result["level1"].items(), ("Total", result["overall"])]
    pillars = {name: [("Sub-dimension", "Score"), *of.items()] for name, of in result["level2"].items() if of}
    write_sheets(path, {_SUMMARY: [("Dimension", "Score"), *summary], **pillars})


def write_scores_result(models: Mapping[str, Any], path: Path) -> None:
    """Write all generators as compute_scores.py's `scores_result.xlsx`: a summary, best first, and a sheet a pillar.

    Raises:
        MissingExtra: openpyxl is not installed.
    """
    order = _best_first(models)
    heads = ("Model", *_RESULT_ORDER, "Total")
    summary = [
        (name, *(models[name]["level1"].get(pillar) for pillar in _RESULT_ORDER), models[name]["overall"])
        for name in order
    ]
    sheets: dict[str, list[tuple[str | float | None, ...]]] = {_SUMMARY: [heads, *summary]}
    for pillar in _RESULT_ORDER:
        level2 = {name: models[name]["level2"].get(pillar, {}) for name in order}
        if subs := sorted({sub for of in level2.values() for sub in of}):
            sheets[pillar] = [("Model", *subs), *((name, *map(of.get, subs)) for name, of in level2.items())]
    write_sheets(path, sheets)


def _best_first(models: Mapping[str, Any]) -> list[str]:
    return sorted(models, key=lambda name: models[name]["overall"] or 0, reverse=True)


def write_scores_detail(models: Mapping[str, Any], path: Path) -> None:
    """Write all generators as compute_scores.py's `scores_detail.json` (best first), plus level3."""
    shaped = {name: official_shape(models[name]) for name in _best_first(models)}
    _write({name: {"total": of.pop("total"), **of} for name, of in shaped.items()}, path)


def write_judged(items: Sequence[Item], scores: Sequence[Score], path: Path) -> None:
    """Write answers as judge.py's `<stem>_judged.jsonl`: a line for each item, in order, None where nothing was answered.

    Further columns of the input are kept. `judge_model_output` holds the corrected marks of all pillars as JSON text, `<dim>_judge_output` the raw answers.
    """
    by_id = {score.item_id: score for score in scores}
    lines = []
    for item in items:
        score = by_id.get(item.id)
        outputs = score.parts.get("outputs", {}) if score else {}
        size = 38 if item.meta.get("rubric_facets") == 38 else 56
        marks = {pillar: judge_answer(text, pillar, facets=size).corrected for pillar, text in outputs.items()}
        marks = {pillar: of for pillar, of in marks.items() if of is not None}
        row: dict[str, Any] = {
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


def _write(value: Any, path: Path) -> None:
    write_atomic(path, json.dumps(value, ensure_ascii=False, indent=2))
