"""Files of scores as the official scripts of benchmarks of edits write them, for the authors' statistics scripts."""

from __future__ import annotations

import csv
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core import item_meta
from titjudge.core.types import Item, Score
from titjudge.metrics import rise
from titjudge.metrics.imgedit import RATINGS
from titjudge.suites.base import by_generator, check_generator

_GEDIT_TYPES = (
    "background_change", "color_alter", "material_alter", "motion_change", "ps_human", "style_change", "subject-add",
    "subject-remove", "subject-replace", "text_change", "tone_transfer",
)  # fmt: skip
_GEDIT_COLUMNS = (
    "source_image", "edited_image", "instruction", "sementics_score", "quality_score", "intersection_exist",
    "instruction_language",
)  # fmt: skip
_GEDIT_LANGUAGES = {"cn": "zh"}  # the statistics script takes `--language zh`, which no row of the data has


def write_gedit(items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
    """Write GENERATOR/gpt4o/eval_results_new/GENERATOR_TYPE_gpt_score.csv for all types, and one of them together.

    Returns:
        The number of files.
    """
    count = 0
    for generator, _, scored in by_generator(items, scores):
        place = folder / check_generator(generator) / "gpt4o" / "eval_results_new"
        place.mkdir(parents=True, exist_ok=True)
        by_type = {
            name: [_gedit_row(item, score) for item, score in scored if item_meta.TASK_TYPE.required(item) == name]
            for name in _GEDIT_TYPES
        }
        combined = [row for rows in by_type.values() for row in rows]
        for name, lines in {**by_type, "combined": combined}.items():
            with (place / f"{generator}_{name}_gpt_score.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, _GEDIT_COLUMNS)
                writer.writeheader()
                writer.writerows(lines)
            count += 1
    return count


def _gedit_row(item: Item, score: Score) -> dict[str, Any]:
    language = item_meta.INSTRUCTION_LANGUAGE.required(item)
    values = (
        item.sources[0], item.image, item.prompt, score.parts["SC"], score.parts["PQ"],
        str(item_meta.INTERSECTION.get(item)).lower() == "true", _GEDIT_LANGUAGES.get(language, language),
    )  # fmt: skip
    return dict(zip(_GEDIT_COLUMNS, values, strict=True))


def write_imgedit(items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
    """Write GENERATOR/result.json: replies by the key of the edit; under the strict protocol the lines of a reply with its ratings.

    Returns:
        The number of files.
    """
    count = 0
    for generator, _, scored in by_generator(items, scores):
        replies = {item.prompt_id: _imgedit_reply(item, score) for item, score in scored}
        place = folder / check_generator(generator) / "result.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(replies, indent=4), encoding="utf-8")
        count += 1
    return count


def _imgedit_reply(item: Item, score: Score) -> str:
    if "output" in score.parts:
        return str(score.parts["output"])
    edit_type = item_meta.EDIT_TYPE.get(item)
    ratings = {name: score.parts[name] for name in RATINGS[edit_type]} if edit_type else {"Score": score.value}
    return "\n".join(f"{name}: {rating:.0f}" for name, rating in ratings.items())


def write_kris(items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
    """Write GENERATOR/CATEGORY/metrics.json, with the ratings by the number of the edit, as BAGEL's summarize.py reads them.

    Returns:
        The number of files.
    """
    count = 0
    for generator, _, scored in by_generator(items, scores):
        records: dict[str, dict[str, Any]] = {}
        for item, score in scored:
            category, key = item.prompt_id.split("/", 1)
            explanation = item_meta.EXPLANATION.get(item, "")
            record = {"instruction": item.prompt, "explain": explanation, **score.parts["ratings"]}
            records.setdefault(category, {})[key] = record
        for category, record in records.items():
            place = folder / check_generator(generator) / check_generator(category) / "metrics.json"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(record, indent=2, ensure_ascii=False), encoding="utf-8")
            count += 1
    return count


def write_rise(items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
    """Write GENERATOR/GENERATOR.pkl, with a reply to each question by the index of the edit, from which gpt_eval.py makes its tables.

    Returns:
        The number of files.
    """
    count = 0
    for generator, _, scored in by_generator(items, scores):
        place = folder / check_generator(generator) / f"{generator}.pkl"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(pickle.dumps({item.prompt_id: _rise_replies(item, score) for item, score in scored}))
        count += 1
    return count


def _rise_replies(item: Item, score: Score) -> dict[str, str | None]:
    logical = item_meta.CATEGORY.get(item) == rise.LOGICAL
    names = (rise.CONSISTENCY, rise.REASONING) if logical else (rise.CONSISTENCY, rise.REASONING, rise.PLAUSIBILITY)
    marks = {name: (rating - 1) // 4 if logical else rating for name, rating in score.parts["ratings"].items()}
    return {
        f"judge{number}": f"**Final Score:** **{marks[name]}**" if name in marks else None
        for number, name in enumerate(names, 1)
    }


Writer = Callable[[Sequence[Item], Sequence[Score], Path], int]
WRITERS: Mapping[str, Writer] = {"gedit": write_gedit, "imgedit": write_imgedit, "kris": write_kris, "rise": write_rise}
"""The writer of each layout, by the name that a suite's YAML file gives it."""
