"""Read, count and write the official answer tree `<generator>/<type>/{short,long}/<idx>.json`.

A file that cannot be read, or that does not answer every question with yes or no, is a named problem and never a score.
Keys of a file, in order: attribute, desc, jsonl_file, line_idx, questions, gt_answers, model_pred, model_output.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from titjudge.core import item_meta
from titjudge.core.errors import DataError
from titjudge.core.files import write_json
from titjudge.core.types import Item, Json, Score
from titjudge.data.data_paths import is_stray
from titjudge.suites.base import check_generator, judged
from titjudge.suites.tiif.layout import LENGTHS, MOVED, NUMBER, TYPES, TypeCounts

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
    """What one tree holds; `cells` are the counts by (generator, length) and then by type."""

    cells: dict[tuple[str, str], dict[str, TypeCounts]] = field(default_factory=dict)
    problems: list[AnswerProblem] = field(default_factory=list)

    @property
    def generators(self) -> list[str]:
        return sorted({generator for generator, _ in self.cells} | {p.generator for p in self.problems if p.generator})


class _Normal(dict[Any, str]):
    """A cache of answers in lower case and without blanks, as there are few ways to write yes and no.

    Raises:
        ValueError: An answer is neither yes nor no.
    """

    def __missing__(self, raw: Any) -> str:
        answer = raw.strip().lower() if isinstance(raw, str) else raw
        if answer not in ("yes", "no"):
            raise ValueError(f"the answer {json.dumps(raw)[:40]} is neither yes nor no")
        self[raw] = answer
        return answer


_normal = _Normal({"yes": "yes", "no": "no"}).__getitem__


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
        raise DataError("no answers found: expected <generator>/<type>/{short,long}/<idx>.json", folder)
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
        return f"not JSON in UTF-8: {error}"
    if isinstance(error, TypeError):
        return "an answer is not a string"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


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
    """Yield generator, length, type and the answer files of each folder, sorted; what is none of them is a problem."""
    if not folder.is_dir():
        raise DataError("no such folder", folder)
    for generator in _folders(folder):
        for kind in _folders(folder / generator):
            if kind not in TYPES:
                problems.append(AnswerProblem(f"{generator}/{kind}", "not one of the 39 types", generator))
                continue
            for length in _folders(folder / generator / kind):
                if length not in LENGTHS:
                    problems.append(AnswerProblem(f"{generator}/{kind}/{length}", "neither short nor long", generator))
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
        raise DataError(f"the folder cannot be read: {error.strerror}", folder) from error


def _read_answer_file(path: str, kind: str, length: str) -> _AnswerFile:
    """Read an answer file, and count the answers in it that are right.

    Args:
        path: The file, GENERATOR/TYPE/LENGTH/NUMBER.json.
        kind: The type in its path.
        length: The length in its path, short or long.

    Raises:
        ValueError, TypeError, OSError: It is no answer file, or its content belongs to another path.
    """
    record = orjson.loads(_bytes(path))
    if type(record) is not dict:
        raise ValueError("not a JSON object")
    gold, preds = _answers(record)
    number = _number_in(path)
    _check_path(record, number, kind, length)
    correct = sum(map(eq, map(_normal, gold), map(_normal, preds)))
    return _AnswerFile(path, number, record, correct, len(gold))


def _answers(record: Json) -> tuple[list[Any], list[Any]]:
    """Return the right answers and those of the judge: one of each for every question."""
    gold, preds = record.get("gt_answers"), record.get("model_pred")
    if type(gold) is not list or type(preds) is not list:
        raise ValueError("gt_answers and model_pred are not both lists")
    if len(gold) != len(preds):
        raise ValueError(f"{len(preds)} answers to {len(gold)} questions")
    if not gold:
        raise ValueError("no questions")
    questions = record.get("questions", gold)
    if type(questions) is not list or len(questions) != len(gold):
        raise ValueError("questions is not a list as long as gt_answers")
    return gold, preds


def _number_in(path: str) -> int:
    """Return the number of the prompt, which is the name of the file."""
    stem = path.rpartition("/")[2].removesuffix(".json")
    if not NUMBER.fullmatch(stem):
        raise ValueError("the file name is not the number of a prompt")
    return int(stem)


def _check_path(record: Json, number: int, kind: str, length: str) -> None:
    """Check that what a record says of its prompt is what its path says: a file may have been moved."""
    if record.get("line_idx", number) != number:
        raise ValueError(f"line_idx is {record['line_idx']}, the file name says {number}")
    if record.get("attribute", kind) != kind:
        raise ValueError(f"attribute is {record['attribute']}, the folder says {kind}")
    if record.get("desc", f"{length}_description") != f"{length}_description":
        raise ValueError(f"desc is {record['desc']}, the folder says {length}")


def _bytes(path: str) -> bytearray:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a named pipe must not hang the run
    try:
        raw = bytearray(piece := os.read(handle, _CHUNK))
        while len(piece) == _CHUNK:
            raw += (piece := os.read(handle, _CHUNK))
            if len(raw) > _LIMIT:
                raise ValueError(f"more than {_LIMIT >> 20} MiB: not an answer file")
    finally:
        os.close(handle)
    return raw


class _Numbering:
    """Detects a tree that mixes the numbers of the full set with those of testmini.

    They differ for style and real_world only. The proof is a number with two prompts (sets of questions without one in
    common), where the questions of one of them also stand under another number.
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
                    f"two numberings under one layout: {first_file} and {second_file} have the same number and ask about different "
                    f"prompts. Answers for {kind} made from the testmini files are numbered 0, 1, 2, ...; those made "
                    f"with --sample_idx_file keep the numbers of the full set. Aggregate them as two trees",
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
