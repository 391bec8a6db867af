"""Text rendering of TIIF-Bench from OCR results that exist: the JSON of `aggregate tiif-text`.

Source: paddleocr_models.py and cal_gned_and_recall_models.py (@3aae750). Upstream turns any malformed entry into
GNED 0, a perfect score; here it is an error that names the image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.files import read_json, read_jsonl
from titjudge.core.numbers import mean
from titjudge.core.ocr import gned_and_recall, strings_of, words_from_questions
from titjudge.core.types import Item, Score, Table
from titjudge.suites.tiif.layout import LENGTHS

METRIC = "text-rendering"


def aggregate_text(path: Path, questions: Path | None = None) -> tuple[dict[str, Any], list[Table]]:
    """GNED and recall of one model, means over images, fractions in [0, 1], unrounded.

    Args:
        path: a JSON list of `{"image_name", "short_image_ocr_results", "long_image_ocr_results", "text"}`. OCR results
            are PaddleOCR 2 lists, PaddleOCR 3 `rec_texts`, plain strings, or null for nothing read; `text` holds the
            gold words.
        questions: text_eval_prompts.jsonl, for entries without `text`: `image_name` is then `<line>.<suffix>`.

    Returns `{"gned_short", "gned_long", "recall_short", "recall_long", "images", ...}` (counts follow) and a table.
    A length that no entry has is None.

    Raises:
        DataError: the file or an entry is malformed, an image stands there twice, or gold words are missing; the
            message names the image.
    """
    entries = _entries(path)
    lines = None if questions is None else [record for _, record in read_jsonl(questions, ("yn_question_list",))]
    lengths = [length for length in LENGTHS if any(f"{length}_image_ocr_results" in entry for entry in entries)]
    if not lengths:
        raise DataError("no entry has short_image_ocr_results or long_image_ocr_results", path)
    values: dict[str, list[float]] = {f"{name}_{length}": [] for name in ("gned", "recall") for length in LENGTHS}
    empty = dict.fromkeys(LENGTHS, 0)
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        name = _name(entry, number, seen, path)
        gold = _gold(entry, name, lines, path)
        for length in lengths:
            strings = _strings(entry, f"{length}_image_ocr_results", name, path)
            empty[length] += not strings
            gned, recall = gned_and_recall(gold, strings)
            values[f"gned_{length}"].append(gned)
            values[f"recall_{length}"].append(recall)
    found: dict[str, Any] = {key: mean(numbers) for key, numbers in values.items()}
    found["images"] = len(entries)
    found |= {f"images_{length}": len(values[f"gned_{length}"]) for length in LENGTHS}
    found |= {f"without_text_{length}": empty[length] for length in LENGTHS}
    rows = tuple(
        (length, found[f"gned_{length}"], found[f"recall_{length}"], found[f"images_{length}"], empty[length])
        for length in LENGTHS
    )
    columns = ("length", "GNED (0 is perfect)", "recall", "images", "nothing read")
    return found, [Table(f"TIIF-Bench text rendering: {path.stem}", columns, rows)]


def _entries(path: Path) -> list[dict[str, Any]]:
    entries = read_json(path)
    if not isinstance(entries, list) or not entries:
        raise DataError("expected a JSON list with one object for each image", path)
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise DataError(f"entry {number} is not an object", path)
    return entries


def _name(entry: Mapping[str, Any], number: int, seen: set[str], path: Path) -> str:
    name = entry.get("image_name")
    if not isinstance(name, str) or not name:
        raise DataError(f"entry {number} has no image_name", path)
    if name in seen:
        raise DataError(f"image {name}: it stands there twice", path)
    seen.add(name)
    return name


def _gold(entry: Mapping[str, Any], name: str, lines: Sequence[Mapping[str, Any]] | None, path: Path) -> list[str]:
    words = entry.get("text")
    if words is None and lines is not None:
        stem = Path(name).stem
        if not (stem.isascii() and stem.isdigit()) or int(stem) >= len(lines):
            raise DataError(f"image {name}: its name is not the number of a line of questions", path)
        words = words_from_questions(str(question) for question in lines[int(stem)]["yn_question_list"])
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise DataError(f"image {name}: no gold words: 'text' must be a list of words", path)
    return words


def _strings(entry: Mapping[str, Any], key: str, name: str, path: Path) -> list[str]:
    if key not in entry:
        raise DataError(f"image {name}: {key} is missing (null means that nothing was read)", path)
    try:
        return strings_of(entry[key])
    except ValueError as error:
        raise DataError(f"image {name}: {key}: {error}", path) from error


def text_table(items: Sequence[Item], scores: Sequence[Score]) -> Table | None:
    """GNED and recall of each generator from `text-rendering` scores; None when nothing was measured."""
    by_id = {item.id: item for item in items}
    found: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        item = by_id.get(score.item_id)
        if score.metric == METRIC and item is not None and item.meta.get("text_words"):
            found.setdefault((item.generator, item.meta["length"]), []).append(score)
    if not found:
        return None
    rows = []
    for (generator, length), group in sorted(
        found.items(), key=lambda entry: (entry[0][0], LENGTHS.index(entry[0][1]))
    ):
        scored = [score for score in group if score.value is not None]
        gned, recall = mean(score.value for score in scored), mean(score.parts["recall"] for score in scored)
        rows.append((generator, length, gned, recall, len(scored), len(group)))
    columns = ("generator", "length", "GNED (0 is perfect)", "recall", "scored", "images")
    return Table("TIIF-Bench: text rendering, means over images", columns, tuple(rows))
