"""Files of scores as the official scripts of benchmarks of edits write them, for the authors' statistics scripts."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core import item_meta
from titjudge.core.types import Item, Score
from titjudge.metrics.imgedit import RATINGS
from titjudge.suites.base import by_generator, check_generator

Scored = tuple[Item, Score]

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
            name: [_gedit_row(*each) for each in scored if each[0].meta["task_type"] == name] for name in _GEDIT_TYPES
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
    language = str(item.meta["instruction_language"])
    values = (
        item.sources[0], item.image, item.prompt, score.parts["SC"], score.parts["PQ"],
        str(item.meta["intersection"]).lower() == "true", _GEDIT_LANGUAGES.get(language, language),
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


Writer = Callable[[Sequence[Item], Sequence[Score], Path], int]
WRITERS: Mapping[str, Writer] = {"gedit": write_gedit, "imgedit": write_imgedit}
"""The writer of each layout, by the name that a suite's YAML file gives it."""
