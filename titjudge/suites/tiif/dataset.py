"""Read the official TIIF-Bench folders: prompts, questions, images.

An image is `<images>/<type><postfix>/<generator>/{short,long}_description/<number>.{png,jpg,jpeg,webp}`.
Source: eval_with_vlm.py and inference_t2i_models.py (@3aae750).
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from titjudge.core.errors import DataError, must_be
from titjudge.core.files import read_json, read_jsonl
from titjudge.core.types import Values
from titjudge.data.data_paths import is_stray
from titjudge.suites.samples import split_sample
from titjudge.suites.tiif.layout import LENGTHS, MOVED, NUMBER, SIZES, TYPES

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")  # as upstream
_FOLDERS = {"full": ("test_prompts", "test_eval_prompts"), "testmini": ("testmini_prompts", "testmini_eval_prompts")}


@dataclass(frozen=True, slots=True)
class DatasetLine:
    """A prompt with its questions.

    Attributes:
        kind: Its type, one of 39.
        number: Its line in the files that were read, from 0.
        full: Its line in the files of the full set; None if that is not known.
        short: The short prompt.
        long: The long prompt.
        questions: The questions about its image.
        gold: The right answers to them.
    """

    kind: str
    number: int
    full: int | None
    short: str
    long: str
    questions: tuple[str, ...]
    gold: tuple[str, ...]

    def prompt(self, length: str) -> str:
        """Return the short or the long prompt."""
        return self.short if length == "short" else self.long

    def numbered(self, how: str) -> int:
        """Return its number in the names of images, for the numbering `how`."""
        return self.full if how == "full" and self.full is not None else self.number


Lines = dict[str, list[DatasetLine]]


def find_set(folder: Path, subset: str) -> tuple[str, Path]:
    """Find which set is there, `full`, `testmini` or `both`, and its folder.

    Args:
        folder: The data folder.
        subset: The set to find; "auto" for any.

    Raises:
        DataError: There is none.
    """
    places = [place for place in (folder, folder / "data") if place.is_dir()]
    there = [(name, place) for name in _FOLDERS for place in places if (place / _FOLDERS[name][1]).is_dir()]
    if subset != "auto":
        there = [entry for entry in there if entry[0] == subset]
    if not there:
        expected = " or ".join(_FOLDERS[name][1] for name in _FOLDERS if subset in ("auto", name))
        raise DataError(f"not a TIIF-Bench folder: {expected} is missing, also in data/. Give another --data", folder)
    return there[-1] if len({name for name, _ in there}) == 1 else ("both", there[0][1])


def read_set(place: Path, name: str) -> Lines:
    """Read all prompts of a set by type, in file order.

    Raises:
        DataError: A file is missing or not UTF-8 JSON lines, the two files of a type differ in length, a type differs
            from the type of its file, or questions and answers do not fit; names file and line.
    """
    prompts, questions = (place / part for part in _FOLDERS[name])
    kinds = [path.stem.removesuffix("_eval_prompts") for path in sorted(questions.glob("[!.]*.jsonl"))]
    texts = [path.stem.removesuffix("_prompts") for path in prompts.glob("[!.]*.jsonl")]
    if not kinds:
        raise DataError("the folder has no *_eval_prompts.jsonl. Unpack the data set again", questions)
    if alone := sorted({*kinds} ^ {*texts}):
        raise DataError(
            f"only one of {prompts.name} and {questions.name} has these types: {', '.join(alone)}. Unpack the data set again",
            place,
        )
    lines: Lines = {}
    for kind in kinds:
        path = questions / f"{kind}_eval_prompts.jsonl"
        if kind not in TYPES:
            raise DataError(f"'{kind}' is not one of the 39 types. Rename the file", path)
        lines[kind] = _read_type(kind, prompts / f"{kind}_prompts.jsonl", path, name)
    return lines


def _read_type(kind: str, prompts: Path, questions: Path, name: str) -> list[DatasetLine]:
    """Read the prompts and questions of one type: line by line from two files of one length."""
    texts = list(read_jsonl(prompts, ("type", "short_description", "long_description")))
    records = list(read_jsonl(questions, ("type", "yn_question_list", "yn_answer_list")))
    if len(texts) != len(records):
        raise DataError(
            f"{len(records)} lines of questions do not fit {len(texts)} prompts in {prompts.name}. Unpack the data set again",
            questions,
        )
    lines = []
    for number, ((prompt_line, text), (line, record)) in enumerate(zip(texts, records, strict=True)):
        if text["type"] != kind:
            raise DataError(f"type is {text['type']}, the file is for {kind}. Correct it", prompts, prompt_line)
        if record["type"] != kind:
            raise DataError(f"type is {record['type']}, the file is for {kind}. Correct it", questions, line)
        for key in ("short_description", "long_description"):
            if not isinstance(text[key], str) or not text[key].strip():
                raise DataError(f"{key} must be a text that is not empty", prompts, prompt_line)
        asking, gold = _questions(record, questions, line)
        full = number if name == "full" or kind not in MOVED else _pointer(record, questions, line)
        lines.append(DatasetLine(kind, number, full, text["short_description"], text["long_description"], asking, gold))
    return lines


def _questions(record: Values, path: Path, line: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    asking, gold = record["yn_question_list"], record["yn_answer_list"]
    if not isinstance(asking, list) or not isinstance(gold, list) or not asking:
        raise DataError("yn_question_list and yn_answer_list must be lists that are not empty", path, line)
    if len(asking) != len(gold):
        raise DataError(
            f"{len(asking)} questions do not fit {len(gold)} answers. Unpack the data set again", path, line
        )
    if not all(isinstance(text, str) and text.strip() for text in asking):
        raise DataError("a question must be a text that is not empty", path, line)
    for answer in gold:
        if not isinstance(answer, str) or answer.strip().lower() not in ("yes", "no"):
            raise DataError(f"the answer {json.dumps(answer)} must be yes or no", path, line)
    return tuple(asking), tuple(gold)


def _pointer(record: Values, path: Path, line: int) -> int | None:
    pointer = record.get("corrspond_idx")
    if pointer is not None and (not isinstance(pointer, int) or isinstance(pointer, bool) or pointer < 0):
        raise DataError(must_be("corrspond_idx", "a line number", pointer), path, line)
    return pointer


def with_full_numbers(mini: Lines, place: Path) -> Lines:
    """Fill in the numbers of testmini lines in the full set by the text of their prompts, if the full set is there."""
    if not all((place / part).is_dir() for part in _FOLDERS["full"]):
        return mini
    full = read_set(place, "full")
    numbered: Lines = {}
    for kind, lines in mini.items():
        numbers = {(line.short, line.long): line.number for line in reversed(full.get(kind, []))}
        numbered[kind] = [replace(line, full=numbers.get((line.short, line.long), line.full)) for line in lines]
    return numbered


def sampled(lines: Lines, path: Path) -> Lines:
    """Choose the lines that a sample index file (`{type: [number, ...]}`, upstream's --sample_idx_file) names.

    Raises:
        DataError: It cannot be read, has no entry for a type, or a number is not a line or occurs twice.
    """
    sample = read_json(path)
    if not isinstance(sample, dict):
        raise DataError(must_be("the content", "an object {type: [number, ...]}", sample), path)
    chosen: Lines = {}
    for kind, all_lines in lines.items():
        numbers = sample.get(kind)
        if not isinstance(numbers, list):
            raise DataError(must_be(f"'{kind}'", "a list of numbers", numbers), path)
        for number in numbers:
            if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(all_lines):
                raise DataError(must_be(f"a number of '{kind}'", f"a line number below {len(all_lines)}", number), path)
        if len(set(numbers)) != len(numbers):
            raise DataError(f"{kind}: a number occurs twice. Remove one", path)
        chosen[kind] = [all_lines[number] for number in numbers]
    return chosen


@dataclass(slots=True)
class Images:
    """The images of one folder.

    Attributes:
        by_number: The files of each number.
        unplaced: Names of files that are not a number.
    """

    by_number: dict[int, list[Path]] = field(default_factory=dict)
    unplaced: list[str] = field(default_factory=list)


Tree = dict[tuple[str, str, str], Images]  # by generator, type, length


def find_images(folder: Path, postfix: str) -> Path:
    """Find the folder that contains folders named after types: `folder`, or one in it.

    Raises:
        DataError: There is none, or more than one.
    """
    names = {f"{kind}{postfix}" for kind in TYPES}
    below = [
        folder / "images",
        folder,
        *sorted(path for path in folder.iterdir() if path.is_dir() and not is_stray(path.name)),
    ]
    tops = list(dict.fromkeys(place for place in below if any((place / name).is_dir() for name in names)))
    if not tops:
        example = f"{sorted(names)[0]}/<generator>/short_description/0.png"
        raise DataError(f"no images found. Name them <images>/{example}", folder)
    if len(tops) > 1:
        raise DataError(
            f"several folders have images: {', '.join(top.name for top in tops)}. Add --suite-option images=FOLDER",
            folder,
        )
    return tops[0]


def read_images(top: Path, postfix: str) -> Tree:
    """List the images of the tree by generator, type and length.

    Raises:
        DataError: There is no image folder of any type.
    """
    tree: Tree = {}
    for kind in TYPES:
        base = top / f"{kind}{postfix}"
        if not base.is_dir():
            continue
        for generator in sorted(os.listdir(base)):
            for length in LENGTHS:
                place = base / generator / f"{length}_description"
                if place.is_dir():
                    tree[generator, kind, length] = _images(place)
    if not tree:
        raise DataError(
            f"no images found. Name their folders <type>{postfix}/<generator>/{{short,long}}_description/", top
        )
    return tree


def _images(place: Path) -> Images:
    """List the images of a folder by the numbers that are their names."""
    images = Images()
    for name in sorted(os.listdir(place)):
        stem, suffix = os.path.splitext(name)
        if suffix.lower() not in SUFFIXES or is_stray(name):
            continue
        numbered = split_sample(stem)
        stem = numbered[0] if numbered else stem
        if NUMBER.fullmatch(stem):
            images.by_number.setdefault(int(stem), []).append(place / name)
        else:
            images.unplaced.append(name)
    return images


def numbering(lines: Lines, tree: Tree, subset: str, top: Path) -> str:
    """Return the numbering in the names of the images: the numbers of the prompt files (`file`), or for testmini of the `full` set.

    Raises:
        DataError: Both occur, or images numbered as testmini lie beside the prompts of the full set.
    """
    if subset == "full":
        _refuse_mini_images(lines, tree, top)
        return "file"
    seen: dict[str, str] = {}
    for (generator, kind, length), images in tree.items():
        if kind not in MOVED or kind not in lines or not images.by_number:
            continue
        numbers = set(images.by_number)
        as_file = numbers <= {line.number for line in lines[kind]}
        full = {line.full for line in lines[kind]}
        as_full = numbers <= full if None not in full else max(numbers) >= len(lines[kind])
        where = f"{kind}/{generator}/{length}_description"
        if not as_file and not as_full:
            raise DataError(
                f"{where}: the numbers fit neither the testmini files (0 to {len(lines[kind]) - 1}) nor their numbers "
                f"in the full set. Put images with different numberings into separate folders",
                top,
            )
        if as_file != as_full:
            seen.setdefault("file" if as_file else "full", where)
    if len(seen) == 2:
        raise DataError(
            f"the same number means different prompts: {seen['file']} is numbered like the testmini files (0, 1, 2, ...), "
            f"{seen['full']} like the full set. Put them into separate folders",
            top,
        )
    return next(iter(seen), "file")


def _refuse_mini_images(lines: Lines, tree: Tree, top: Path) -> None:
    """Refuse images of testmini beside the full prompt files: they are exactly 0 to 24 of real_world and 0 to 29 of style."""
    for generator, _, length in {(g, "", n) for g, _, n in tree}:
        sets = {
            kind: set(tree[generator, kind, length].by_number) for kind in MOVED if (generator, kind, length) in tree
        }
        mini = {kind: set(range(SIZES["testmini"][kind])) for kind in sets}
        if sets and sets == mini and all(len(lines.get(kind, ())) > len(mini[kind]) for kind in sets):
            raise DataError(
                f"{generator}, {length}: style and real_world are numbered as in testmini (0, 1, 2, ...). In the full "
                f"set, these numbers mean other prompts. Use the testmini set",
                top,
            )
