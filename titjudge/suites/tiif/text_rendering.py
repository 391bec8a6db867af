"""Text rendering of TIIF-Bench: the JSON of `suites aggregate tiif-text` from OCR results, tables and files of a run.

Source: paddleocr_models.py and cal_text_errors_models.py (@3aae750). Upstream turns any malformed entry into
GNED 0, a perfect score; here it is an error that names the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from titjudge.core import item_meta
from titjudge.core.errors import DataError, must_be
from titjudge.core.files import read_json, read_jsonl, write_json
from titjudge.core.numbers import mean
from titjudge.core.types import Item, Json, Score, Table, Values
from titjudge.core.words import is_texts
from titjudge.metrics.ocr import text_errors, words_from_questions
from titjudge.suites.base import Results, benchmark_table, check_generator, judged
from titjudge.suites.tiif.layout import LENGTHS

METRICS = ("text-rendering", "text-rendering-vlm")
_MEASURES = ("gned", "recall", "pned")


def aggregate_text(path: Path, questions: Path | None = None) -> Results:
    """Compute GNED and recall of one model: means over images, fractions in [0, 1], unrounded.

    Args:
        path: A JSON list of `{"image_name", "short_image_ocr_results", "long_image_ocr_results", "text"}`. OCR results
            are PaddleOCR 2 lists, PaddleOCR 3 `rec_texts`, plain strings, or null for nothing read; `text` has the gold words.
        questions: text_eval_prompts.jsonl, for entries without `text`: `image_name` is then `<line>.<suffix>`.

    Returns:
        `{"gned_short", "gned_long", "recall_short", ..., "pned_long", "images", ...}` (counts follow) and a table. A length
        that no entry has is None.

    Raises:
        DataError: The file or an entry is malformed, an image occurs twice, or gold words are missing; names the image.
    """
    entries = _entries(path)
    lines = None if questions is None else [record for _, record in read_jsonl(questions, ("yn_question_list",))]
    lengths = [
        length for length in LENGTHS if any(f"{length}_image_ocr_results" in entry for entry in entries.values())
    ]
    if not lengths:
        raise DataError("no entry has short_image_ocr_results or long_image_ocr_results. Give another file", path)
    values: dict[str, list[float]] = {f"{name}_{length}": [] for name in _MEASURES for length in LENGTHS}
    empty = dict.fromkeys(LENGTHS, 0)
    for name, entry in entries.items():
        gold = _gold(entry, name, lines, path)
        for length in lengths:
            strings = _strings(entry, f"{length}_image_ocr_results", name, path)
            empty[length] += not strings
            for name_of, value in text_errors(gold, strings)._asdict().items():
                values[f"{name_of}_{length}"].append(value)
    result: Json = {key: mean(numbers) for key, numbers in values.items()}
    result["images"] = len(entries)
    result |= {f"images_{length}": len(values[f"gned_{length}"]) for length in LENGTHS}
    result |= {f"without_text_{length}": empty[length] for length in LENGTHS}
    rows = (
        (length, *(result[f"{name}_{length}"] for name in (*_MEASURES, "images", "without_text"))) for length in LENGTHS
    )
    columns = ("length", "GNED (0 is perfect)", "recall", "PNED", "images", "nothing read")
    return result, [benchmark_table(f"TIIF-Bench text rendering: {path.stem}", columns, rows)]


def _entries(path: Path) -> dict[str, Json]:
    """Read the entries of a file by the names of their images."""
    listed = read_json(path)
    if not isinstance(listed, list) or not listed:
        raise DataError(must_be("the content", "a JSON list with one object per image", listed), path)
    entries: dict[str, Json] = {}
    for number, entry in enumerate(listed):
        if not isinstance(entry, dict):
            raise DataError(must_be(f"entry {number}", "an object", entry), path)
        name = entry.get("image_name")
        if not isinstance(name, str) or not name:
            raise DataError(f"entry {number} has no image_name. Add it", path)
        if entries.setdefault(name, entry) is not entry:
            raise DataError(f"duplicate image {name}. Remove one of the entries", path)
    return entries


def _gold(entry: Values, name: str, lines: Sequence[Values] | None, path: Path) -> list[str]:
    words = entry.get("text")
    if words is None and lines is not None:
        stem = Path(name).stem
        if not (stem.isascii() and stem.isdigit()) or int(stem) >= len(lines):
            raise DataError(f"image {name}: the name must be the number of a line of questions", path)
        words = words_from_questions(str(question) for question in lines[int(stem)]["yn_question_list"])
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise DataError(f"image {name}: 'text' must be a list of words that is not empty", path)
    return words


def _strings(entry: Values, key: str, name: str, path: Path) -> list[str]:
    if key not in entry:
        raise DataError(f"image {name}: {key} is missing. Add it; null means that nothing was read", path)
    try:
        return strings_of(entry[key])
    except ValueError as error:
        raise DataError(f"image {name}: {key} has {error}. Correct the entry", path) from error


def strings_of(result: Any) -> list[str]:
    """Extract the strings of an OCR result, as any version of PaddleOCR writes it: lists (2), `rec_texts` (3), plain strings, or null.

    Raises:
        ValueError: It has another shape; the message describes it.
    """
    if result is None:
        return []
    if isinstance(result, str):
        return [result]
    if isinstance(result, dict):
        page = result["res"] if isinstance(result.get("res"), dict) else result
        inner = page.get("rec_texts")
        if not is_texts(inner):
            raise ValueError("an object without a list of strings under 'rec_texts'")
        return list(inner)
    if not isinstance(result, list):
        raise ValueError(f"a {type(result).__name__} where a list was expected")
    return [text for entry in result for text in _entry(entry)]


def _entry(entry: Any) -> list[str]:
    """Extract the strings of an entry: a string, a PaddleOCR 2 line `[box, [string, confidence]]`, or a page."""
    if isinstance(entry, str):
        return [entry]
    if entry is None or isinstance(entry, dict):
        return strings_of(entry)
    if not isinstance(entry, list):
        raise ValueError(f"a {type(entry).__name__} among the lines")
    line = _line(entry)
    if line is not None:
        return [line]
    texts = [_line(part) if isinstance(part, list) else None for part in entry]
    if not is_texts(texts):
        raise ValueError("a line that is not [box, [string, confidence]]")
    return texts


def _line(entry: list[Any]) -> str | None:
    if len(entry) == 2 and isinstance(entry[1], list) and entry[1] and isinstance(entry[1][0], str):
        return str(entry[1][0])
    return None


def official_keys(path: Path, result: Values) -> Json:
    """Return one model's result under the keys of cal_gned_and_recall_models.py; a length without images is 0, as there."""
    names = {"GNED_score": "gned", "Recall_score": "recall"}
    scores = {f"{key}_{length}": result[f"{name}_{length}"] or 0 for key, name in names.items() for length in LENGTHS}
    return {"file_name": path.name, **scores}


def write_ocr(items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
    """Write the words that a run has read as paddleocr_models.py does, one file a generator; returns how many.

    Raises:
        DataError: No words were read, or a generator's name is not a file name.
    """
    models: dict[str, dict[int, Json]] = {}
    for item, score in judged(items, scores, *METRICS):
        if score.value is None or not item_meta.LENGTH.is_in(item):
            continue
        entry = models.setdefault(item.generator, {}).setdefault(
            int(item_meta.INDEX.required(item)),
            {"image_name": f"{item_meta.INDEX.required(item)}.png", "text": list(score.parts["gold"])},
        )
        lines = [[None, [text, 1.0]] for text in score.parts["read"]]
        entry.setdefault(f"{item_meta.LENGTH.required(item)}_image_ocr_results", lines or None)
    if not models:
        raise DataError("the run has no words that were read. Add --metric text-rendering")
    for generator, entries in models.items():
        check_generator(generator)
        keys = [f"{length}_image_ocr_results" for length in LENGTHS]
        rows = [entry | {key: entry.get(key) for key in keys} for _, entry in sorted(entries.items())]
        write_json(folder / f"{generator}.json", rows, indent=1)
    return len(models)


def text_table(items: Sequence[Item], scores: Sequence[Score]) -> Table | None:
    """Make the table of GNED, recall and PNED by generator; None if no text was read."""
    groups: dict[tuple[str, int, str], list[Score]] = {}
    for item, score in judged(items, scores, *METRICS):
        if item_meta.TEXT_WORDS.get(item):
            length = LENGTHS.index(item_meta.LENGTH.required(item))
            groups.setdefault((item.generator, length, score.metric), []).append(score)
    if not groups:
        return None
    rows = []
    for (generator, length, metric), group in sorted(groups.items()):
        scored = [score for score in group if score.value is not None]
        parts = (mean(score.parts.get(name) for score in scored) for name in ("recall", "pned"))
        gned = mean(score.value for score in scored)
        reader = "OCR" if metric == METRICS[0] else "captioner"
        rows.append((generator, LENGTHS[length], reader, gned, *parts, len(scored), len(group)))
    columns = ("generator", "length", "read by", "GNED (0 is perfect)", "recall", "PNED", "scored", "images")
    return benchmark_table("TIIF-Bench: text rendering, means over images", columns, rows)
