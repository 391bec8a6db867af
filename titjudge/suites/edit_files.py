"""Files of scores as the official scripts of benchmarks of edits write them, for the authors' statistics scripts."""

from __future__ import annotations

import csv
import io
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core import item_meta
from titjudge.core.types import Item, Json, Score
from titjudge.metrics import rise
from titjudge.metrics.imgedit import RATINGS
from titjudge.suites.base import Scored, by_generator, check_generator

Files = Iterator[tuple[str, bytes]]
"""Path below the folder of a generator, and content."""

_GEDIT_TYPES = """
    background_change color_alter material_alter motion_change ps_human style_change subject-add subject-remove
    subject-replace text_change tone_transfer
""".split()
_GEDIT_COLUMNS = """
    source_image edited_image instruction sementics_score quality_score intersection_exist instruction_language
""".split()
_GEDIT_LANGUAGES = {"cn": "zh"}  # the statistics script takes `--language zh`, which no row of the data has


def write_files(layout: str, items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
    """Write the files of a layout, for each generator into a folder of its name; returns their number.

    Raises:
        DataError: A generator's name is no file name.
    """
    count = 0
    for generator, _, scored in by_generator(items, scores):
        for path, content in LAYOUTS[layout](generator, scored):
            place = folder / check_generator(generator) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            count += 1
    return count


def _gedit(generator: str, scored: Sequence[Scored]) -> Files:
    """Make gpt4o/eval_results_new/GENERATOR_TYPE_gpt_score.csv of each type of edit, and one of all types together."""
    rows = {
        name: [_gedit_row(item, score) for item, score in scored if item_meta.TASK_TYPE.required(item) == name]
        for name in _GEDIT_TYPES
    }
    rows["combined"] = [row for of_type in rows.values() for row in of_type]
    for name, lines in rows.items():
        table = io.StringIO(newline="")
        csv.writer(table).writerows([_GEDIT_COLUMNS, *lines])
        yield f"gpt4o/eval_results_new/{generator}_{name}_gpt_score.csv", table.getvalue().encode()


def _gedit_row(item: Item, score: Score) -> tuple[Any, ...]:
    language = item_meta.INSTRUCTION_LANGUAGE.required(item)
    return (
        item.sources[0],
        item.image,
        item.prompt,
        score.parts["SC"],
        score.parts["PQ"],
        str(item_meta.INTERSECTION.get(item)).lower() == "true",
        _GEDIT_LANGUAGES.get(language, language),
    )


def _imgedit(generator: str, scored: Sequence[Scored]) -> Files:
    """Make result.json: replies by the key of the edit; under the strict protocol the lines of a reply with its ratings."""
    replies = {item.prompt_id: _imgedit_reply(item, score) for item, score in scored}
    yield "result.json", json.dumps(replies, indent=4).encode()


def _imgedit_reply(item: Item, score: Score) -> str:
    if "output" in score.parts:
        return str(score.parts["output"])
    edit_type = item_meta.EDIT_TYPE.get(item)
    ratings = {name: score.parts[name] for name in RATINGS[edit_type]} if edit_type else {"Score": score.value}
    return "\n".join(f"{name}: {rating:.0f}" for name, rating in ratings.items())


def _kris(generator: str, scored: Sequence[Scored]) -> Files:
    """Make CATEGORY/metrics.json, with the ratings by the number of the edit, as BAGEL's summarize.py reads them."""
    records: dict[str, Json] = {}
    for item, score in scored:
        category, key = item.prompt_id.split("/", 1)
        explanation = item_meta.EXPLANATION.get(item, "")
        record = {"instruction": item.prompt, "explain": explanation, **score.parts["ratings"]}
        records.setdefault(category, {})[key] = record
    for category, record in records.items():
        yield f"{check_generator(category)}/metrics.json", json.dumps(record, indent=2, ensure_ascii=False).encode()


def _rise(generator: str, scored: Sequence[Scored]) -> Files:
    """Make GENERATOR.pkl, with a reply to each question by the index of the edit, from which gpt_eval.py makes its tables."""
    yield f"{generator}.pkl", pickle.dumps({item.prompt_id: _rise_replies(item, score) for item, score in scored})


def _rise_replies(item: Item, score: Score) -> dict[str, str | None]:
    logical = item_meta.CATEGORY.get(item) == rise.LOGICAL
    names = (rise.CONSISTENCY, rise.REASONING) if logical else (rise.CONSISTENCY, rise.REASONING, rise.PLAUSIBILITY)
    marks = {name: (rating - 1) // 4 if logical else rating for name, rating in score.parts["ratings"].items()}
    return {
        f"judge{number}": f"**Final Score:** **{marks[name]}**" if name in marks else None
        for number, name in enumerate(names, 1)
    }


LAYOUTS: Mapping[str, Callable[[str, Sequence[Scored]], Files]] = {
    "gedit": _gedit,
    "imgedit": _imgedit,
    "kris": _kris,
    "rise": _rise,
}
"""What makes the files of a generator in each layout, by the name that a suite's YAML file gives it."""
