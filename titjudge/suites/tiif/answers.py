"""Results of TIIF-Bench: read, count and write the official answer tree `<generator>/<type>/{short,long}/<idx>.json`.

A file that cannot be read, or that does not answer every question with yes or no, is a named problem and never a score.
Keys of a file, in order: attribute, desc, jsonl_file, line_idx, questions, gt_answers, model_pred, model_output.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from titjudge.core import item_meta
from titjudge.core.errors import DataError, file_fault, must_be
from titjudge.core.files import json_fault, write_json
from titjudge.core.types import Item, Json, Note, Score, Table, Values
from titjudge.data.data_paths import is_stray
from titjudge.suites.base import benchmark_table, check_generator, judged
from titjudge.suites.tiif.layout import DIMENSIONS, LENGTHS, MOVED, NUMBER, SIZES, TYPES, TypeCounts, roll_up, which_set

_CHUNK = 1 << 16
_LIMIT = 64 << 20
METRIC = "yes-no"


@dataclass(frozen=True, slots=True)
class AnswerProblem:
    """A file or folder that was not scored, and why. `path` is relative to the tree."""

    path: str
    reason: str
    generator: str = ""
    length: str = ""


@dataclass(slots=True)
class AnswerCounts:
    """The content of one tree; `cells` are the counts by (generator, length) and then by type."""

    cells: dict[tuple[str, str], dict[str, TypeCounts]] = field(default_factory=dict)
    problems: list[AnswerProblem] = field(default_factory=list)

    @property
    def generators(self) -> list[str]:
        return sorted({generator for generator, _ in self.cells} | {p.generator for p in self.problems if p.generator})


@lru_cache(1024)  # there are few ways to write yes and no
def _normal(raw: Any) -> str:
    """Return an answer in lower case and without blanks.

    Raises:
        ValueError: It is neither yes nor no.
    """
    answer: Any = raw.strip().lower() if isinstance(raw, str) else raw
    if answer not in ("yes", "no"):
        raise ValueError(must_be("the answer", "yes or no", raw))
    return str(answer)


def read_answers(folder: Path) -> AnswerCounts:
    """Count the answers of a tree in one pass over its files.

    Raises:
        DataError: There is no such folder, nothing in it is a tree of answers, or it mixes two numberings of prompts.
    """
    answers, numbering = AnswerCounts(), _Numbering(folder)
    for generator, length, kind, files in _walk(folder, answers.problems):
        cell = answers.cells.setdefault((generator, length), {}).setdefault(kind, TypeCounts())
        for file in files:
            if kind in MOVED:
                numbering.add(kind, file.number, file.record.get("questions"), file.path)
            cell.add(file.correct, file.questions)
    if not answers.cells:
        raise DataError("no answers found. Name them <generator>/<type>/{short,long}/<idx>.json", folder)
    numbering.check()
    return answers


def answers_as_scores(folder: Path) -> Iterator[Score]:
    """Yield the readable answers of a tree as `yes-no` scores under the item ids of the suite."""
    for generator, length, kind, files in _walk(folder, []):
        for file in files:
            parts = {
                "preds": [_normal(answer) for answer in file.record["model_pred"]],
                "gold": [_normal(answer) for answer in file.record["gt_answers"]],
                "questions": file.record.get("questions", []),
                "output": file.record.get("model_output", ""),
                "template": "",
                "source": "official answer tree",
            }
            group, value = f"{kind}/{length}/{file.number}", file.correct / file.questions
            yield Score(f"{generator}/{group}", METRIC, value, parts=parts, generator=generator, prompt_id=group)


def _reason(error: Exception) -> str:
    if isinstance(error, orjson.JSONDecodeError):
        return f"not JSON: {json_fault(error)}"
    if isinstance(error, TypeError):
        return "an answer is not a text. Put it in quotes"
    return file_fault(error) if isinstance(error, OSError) else str(error)


class _AnswerFile(NamedTuple):
    """The answers about one image.

    Attributes:
        number: That of its prompt.
        correct: How many answers are right.
        questions: Of how many questions.
    """

    path: str
    number: int
    record: Json
    correct: int
    questions: int


def _walk(folder: Path, problems: list[AnswerProblem]) -> Iterator[tuple[str, str, str, Iterator[_AnswerFile]]]:
    """Yield generator, length, type and the answer files of each folder, sorted; any other file is a problem."""
    if not folder.is_dir():
        raise DataError("no such folder. Correct the path", folder)
    for generator in _folders(folder):
        for kind in _folders(folder / generator):
            if kind not in TYPES:
                problems.append(
                    AnswerProblem(f"{generator}/{kind}", "not one of the 39 types. Rename the folder", generator)
                )
                continue
            for length in _folders(folder / generator / kind):
                if length not in LENGTHS:
                    problems.append(
                        AnswerProblem(f"{generator}/{kind}/{length}", "the folder must be short or long", generator)
                    )
                    continue
                yield generator, length, kind, _files(folder, generator, kind, length, problems)


def _files(
    folder: Path, generator: str, kind: str, length: str, problems: list[AnswerProblem]
) -> Iterator[_AnswerFile]:
    base = f"{folder}/{generator}/{kind}/{length}"
    for name in sorted(name for name in os.listdir(base) if name.endswith(".json") and not name.startswith("._")):
        try:
            yield _read_answer_file(f"{base}/{name}", kind, length)
        except (ValueError, TypeError, OSError) as error:
            problems.append(AnswerProblem(f"{generator}/{kind}/{length}/{name}", _reason(error), generator, length))


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir() and not is_stray(entry.name))
    except OSError as error:
        raise DataError(f"the folder cannot be read: {file_fault(error)}", folder) from error


def _read_answer_file(path: str, kind: str, length: str) -> _AnswerFile:
    """Read an answer file, and count the answers in it that are right.

    Args:
        path: The file, GENERATOR/TYPE/LENGTH/NUMBER.json.
        kind: The type in its path.
        length: The length in its path, short or long.

    Raises:
        ValueError, TypeError, OSError: It is not an answer file, or its content belongs to another path.
    """
    record = orjson.loads(_bytes(path))
    if type(record) is not dict:
        raise ValueError(must_be("the content", "a JSON object", record))
    gold, preds = _answers(record)
    number = _number_in(path)
    _check_path(record, number, kind, length)
    correct = sum(map(eq, map(_normal, gold), map(_normal, preds)))
    return _AnswerFile(path, number, record, correct, len(gold))


def _answers(record: Json) -> tuple[list[Any], list[Any]]:
    """Return the right answers and the judge's answers: one of each for every question."""
    gold, preds = record.get("gt_answers"), record.get("model_pred")
    if type(gold) is not list or type(preds) is not list:
        raise ValueError("gt_answers and model_pred must be lists")
    if len(gold) != len(preds):
        raise ValueError(f"{len(preds)} answers to {len(gold)} questions. Answer each question")
    if not gold:
        raise ValueError("the file has no questions. Remove it")
    questions = record.get("questions", gold)
    if type(questions) is not list or len(questions) != len(gold):
        raise ValueError("questions must be a list as long as gt_answers")
    return gold, preds


def _number_in(path: str) -> int:
    """Return the number of the prompt, which is the name of the file."""
    stem = path.rpartition("/")[2].removesuffix(".json")
    if not NUMBER.fullmatch(stem):
        raise ValueError("the file name must be the number of a prompt")
    return int(stem)


def _check_path(record: Json, number: int, kind: str, length: str) -> None:
    """Check that a record belongs to the prompt in its path: a file may have been moved."""
    for key, value in ("line_idx", number), ("attribute", kind), ("desc", f"{length}_description"):
        if record.get(key, value) != value:
            raise ValueError(must_be(key, f"{value}, as in the path", record[key]))


def _bytes(path: str) -> bytearray:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a named pipe must not hang the run
    try:
        raw = bytearray(piece := os.read(handle, _CHUNK))
        while len(piece) == _CHUNK:
            raw += (piece := os.read(handle, _CHUNK))
            if len(raw) > _LIMIT:
                raise ValueError(f"more than {_LIMIT >> 20} MiB. Give a file of answers")
    finally:
        os.close(handle)
    return raw


class _Numbering:
    """Detects a tree that mixes the numbers of the full set with numbers of testmini.

    They differ for style and real_world only. The proof is a number with two prompts (sets of questions without one in
    common), where the questions of one of them also occur under another number.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first: dict[tuple[str, int], tuple[list[Any], str]] = {}
        self._numbers: dict[str, set[int]] = {}
        self._clashes: list[tuple[str, int, list[Any], str]] = []

    def add(self, kind: str, index: int, questions: Any, path: str) -> None:
        if not questions:
            return
        self._numbers.setdefault(f"{kind}\0{questions}", set()).add(index)
        first_questions = self._first.setdefault((kind, index), (questions, path))[0]
        if first_questions != questions and not any(question in first_questions for question in questions):
            self._clashes.append((kind, index, questions, path))

    def check(self) -> None:
        for kind, index, questions, path in self._clashes:
            first_questions, first = self._first[kind, index]
            if any(len(self._numbers[f"{kind}\0{asked}"]) > 1 for asked in (questions, first_questions)):
                first_file, second_file = (os.path.relpath(name, self._folder) for name in (first, path))
                raise DataError(
                    f"{first_file} and {second_file} have the same number, but different prompts. For {kind}, testmini files number "
                    f"answers 0, 1, 2, ..., and --sample_idx_file keeps the numbers of the full set. Aggregate the two "
                    f"numberings separately",
                    self._folder,
                )


def write_answers(folder: Path, items: Iterable[Item], scores: Sequence[Score], *, overwrite: bool = False) -> int:
    """Write scores as the official tree; returns how many files were written.

    Files that exist are kept, as upstream does, unless `overwrite`. Only scores of a single judge with a value are written:
    upstream then asks for the missing ones again.

    Raises:
        DataError: A generator's name is not one folder name.
    """
    written = 0
    for item, score in judged(items, scores, METRIC):
        if score.value is None or "preds" not in score.parts:
            continue
        kind, length = item_meta.TYPE.required(item), item_meta.LENGTH.required(item)
        index = item_meta.INDEX.required(item)
        target = folder / check_generator(item.generator) / kind / length / f"{index}.json"
        if target.exists() and not overwrite:
            continue
        record = {
            "attribute": kind,
            "desc": f"{length}_description",
            "jsonl_file": f"{kind}_eval_prompts.jsonl",
            "line_idx": index,
            "questions": list(item_meta.QUESTIONS.required(item)),
            "gt_answers": list(item_meta.GOLD_ANSWERS.required(item)),
            "model_pred": list(score.parts["preds"]),
            "model_output": score.parts["output"],
        }
        write_json(target, record)
        written += 1
    return written


_SHOWN = 20
_MEANS = ("overall", "basic", "advanced")


def summarise(cells: Mapping[str, TypeCounts], problems: Sequence[AnswerProblem], expected: Mapping[str, int]) -> Json:
    """Compute the result of one generator and length: by the official rule, by image (paper), counts and coverage.

    Values are in percent, unrounded, None if nothing was answered. `expected` is the number of prompts of each type.
    """
    official = roll_up({kind: cell.accuracy() for kind, cell in cells.items()})
    per_image = roll_up({kind: cell.accuracy(per_image=True) for kind, cell in cells.items()})
    scored = {kind: cells[kind].files if kind in cells else 0 for kind in TYPES}
    files = sum(scored.values())
    return {
        **official,
        "files": files,
        "questions": sum(cell.questions for cell in cells.values()),
        "correct": sum(cell.correct for cell in cells.values()),
        "per_image": per_image,
        "coverage": {
            "scored": files,
            "expected": sum(expected.values()),
            "unusable": len(problems),
            "missing_types": [kind for kind in TYPES if expected.get(kind) and not scored[kind]],
            "incomplete_types": {
                kind: [scored[kind], expected[kind]] for kind in TYPES if 0 < scored[kind] < expected.get(kind, 0)
            },
        },
        "problems": _named(problems),
    }


def _named(problems: Sequence[AnswerProblem]) -> list[dict[str, str]]:
    return [{"path": problem.path, "reason": problem.reason} for problem in problems]


def results(answers: AnswerCounts, expected: Mapping[tuple[str, str], Mapping[str, int]] | None = None) -> Json:
    """Compute `{"generators": {NAME: {"short": {...}, "long": {...}}}, ...}`; a length without answers has no values.

    Args:
        answers: The counts.
        expected: The number of prompts by (generator, length), then type; without it the set is inferred from the files,
            and is given in `"set"`.
    """
    inferred = which_set((kind, cell.files) for cells in answers.cells.values() for kind, cell in cells.items())
    generators: Json = {}
    for generator in answers.generators:
        generators[generator] = {}
        for length in LENGTHS:
            problems = [p for p in answers.problems if p.generator == generator and p.length in (length, "")]
            sizes = SIZES[inferred] if expected is None else expected.get((generator, length), {})
            cells = answers.cells.get((generator, length), {})
            generators[generator][length] = summarise(cells, problems, sizes)
    record: Json = {"generators": generators, "unit": "percent"}
    if expected is None:
        record["set"] = inferred
    record["problems"] = _named(answers.problems)
    record["warnings"] = _warnings(record, inferred=expected is None)
    return record


def _rows(record: Values) -> list[tuple[str, str, Json]]:
    """List the results with generator and length."""
    return [(name, length, lengths[length]) for name, lengths in record["generators"].items() for length in LENGTHS]


def _warnings(record: Values, *, inferred: bool) -> list[Note]:
    """Write a warning about missing answers, so that means must not be compared."""
    warnings = []
    rows = _rows(record)
    for name, length, result in rows:
        coverage = result["coverage"]
        if coverage["scored"] and coverage["scored"] < coverage["expected"]:
            types = ""
            if parts := len(coverage["incomplete_types"]):
                types += f"; {parts} types are incomplete"
            if missing := coverage["missing_types"]:
                types += f"; without an answer: {', '.join(missing)} (left out of every mean, as upstream does)"
            line = f"{name}, {length}: {coverage['scored']} of {coverage['expected']} images{types}"
            warnings.append(Note("tiif_incomplete", line))
        elif not coverage["scored"] and coverage["expected"]:
            warnings.append(Note("tiif_no_answers", f"{name}, {length}: no answers"))
    scored = {result["files"] for _, _, result in rows if result["files"]}
    if len(scored) > 1:
        line = "coverage differs between rows: these numbers do not rank the generators"
        warnings.append(Note("tiif_coverage_differs", line))
    if record["problems"]:
        line = f"{len(record['problems'])} files or folders could not be used and are not scored"
        warnings.append(Note("tiif_unusable", line))
    if inferred and warnings:
        line = f"what is expected follows the {record['set']} set, inferred from the number of files"
        warnings.append(Note("tiif_set_inferred", line))
    return warnings


def tables(record: Values) -> list[Table]:
    """Make the tables of overall results, dimensions and types, a row for each generator and length; percent."""
    rows = _rows(record)
    problems = record["problems"]
    notes = [*record["warnings"]]
    notes += [Note("tiif_problem", f"{problem['path']}: {problem['reason']}") for problem in problems[:_SHOWN]]
    if (more := len(problems) - _SHOWN) > 0:
        notes.append(Note("tiif_more_problems", f"... and {more} more"))
    summary = benchmark_table(
        "TIIF-Bench: accuracy in percent, official rule, and by means over the images of each type",
        (
            *("generator", "length", *_MEANS),
            *("overall (images)", "basic (images)", "advanced (images)"),
            *("images", "expected", "unusable", "questions", "correct"),
        ),
        (
            (
                *(name, length, *map(result.get, _MEANS), *map(result["per_image"].get, _MEANS)),
                *map(result["coverage"].get, ("scored", "expected", "unusable")),
                *(result["questions"], result["correct"]),
            )
            for name, length, result in rows
        ),
        *notes,
        id="tiif",
    )
    dimensions = benchmark_table(
        "TIIF-Bench: the nine dimensions, percent, official rule",
        ("generator", "length", *DIMENSIONS),
        ((name, length, *map(result["dimensions"].get, DIMENSIONS)) for name, length, result in rows),
        *record["warnings"],
    )
    types = benchmark_table(
        "TIIF-Bench: the 39 types, percent, official rule",
        ("type", *(f"{name} {length}" for name, length, _ in rows)),
        ((kind, *(result["types"][kind] for _, _, result in rows)) for kind in TYPES),
        *record["warnings"],
    )
    return [summary, dimensions, types]


def published_table(record: Values) -> Table:
    """Make the table of an official summary file, a row for each generator and length; percent."""
    rows = (
        (name, length, *map(result.get, _MEANS), *map(result["dimensions"].get, DIMENSIONS))
        for name, length, result in _rows(record)
    )
    columns = ("generator", "length", *_MEANS, *DIMENSIONS)
    return benchmark_table("TIIF-Bench: official summary, percent", columns, rows)
