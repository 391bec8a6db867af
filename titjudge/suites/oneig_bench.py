"""OneIG-Bench: alignment, text and reasoning, English or Chinese (github.com/OneIG-Bench/OneIG-Benchmark @41b4983)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from titjudge.core import item_meta
from titjudge.core.declarations import BENCHMARK
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import read_json, scan_csv
from titjudge.core.grouping import grouped
from titjudge.core.structured_output import first_problem
from titjudge.core.types import InvalidItem, Item, Items, Json, Score, Table, Values
from titjudge.data.data_paths import inside
from titjudge.metrics.questions import Asked, Asking
from titjudge.metrics.text_reading import Wanted, listed, matched_share
from titjudge.suites.base import Suite, SuiteInputs, by_generator, reason_of
from titjudge.suites.image_tree import ImageTree, find_tree
from titjudge.suites.patterns import PromptPlace
from titjudge.suites.question_data import PromptRecord, TableSpec, inconsistent_ids
from titjudge.suites.question_suite import make_table

CLASSES = {
    "anime": "Anime_Stylization",
    "human": "Portrait",
    "object": "General_Object",
    "multilingualism": "Multilingualism",
    "text": "Text_Rendering",
    "reasoning": "Knowledge_Reasoning",
}
_ALIGNED = ("anime", "human", "object", "multilingualism")  # classes with questions
_MOST_EDITS = {"EN": 100, "ZH": 50}  # more edits count as so many
_FIELDS = {"type": "type", "prompt_length": "prompt_length", "class": "subject"}
_ASKED, _READ = "questions", "text-reading"
Rows = Mapping[str, Json]
Prompts = dict[str, PromptRecord]


class OneIGBench(Suite):
    """OneIG-Bench: alignment by questions, rendered text, reasoning by similarity (style and diversity are left out).

    Args:
        variant: `zh`: the Chinese prompts.
        images: A pattern of image paths with {class}, from the working directory, where they are not in `images/`.
    """

    name = "oneig-bench"
    metrics = (_ASKED, _READ)
    DEVIATIONS = (
        "style and diversity are left out: they take CSD, a style encoder and DreamSim, whose code comes with their weights",
        "reasoning is the similarity of the image and the text of the answer, as upstream, by whichever learned metric is asked for "
        "(--metric clipscore); upstream's LLM2CLIP is code from the hub, which is not run here. Other numbers than the published",
        "official: an answer is yes where it is exactly `Yes`, anything else is a no; strict: an answer that is neither leaves the "
        "image without a score. Both: the parents' own answers count (dependencies are not handed on)",
        "official: a reply without a word is a no, and a reading of no words, as upstream; strict: an outage, asked for again",
        "official: no temperature is sent, as upstream; strict: 0. Both: what a judge thinks aloud before </think> is no answer to a "
        "question; upstream reads it (official: in readings of text, too)",
        "official: text is compared with the cell of the table as it stands, `['a', 'b']` with its escapes; strict: with the texts",
        "official: 'No text recognized' without a full stop, as the prompt asks for it, counts as text; strict: it is none",
        "the four images of a prompt are four files, 000_0.webp to 000_3.webp, or a grid with --grid 2x2; upstream leaves out "
        "parts that are all black, and where all are black takes the text of the image before",
        "images go out as they are; upstream cuts each grid and shows the judge its parts saved as JPEG (quality 75)",
        "the judge is any vision model; upstream's is Qwen2.5-VL-7B-Instruct. A reply cut at 128 tokens (256 for texts of over 60 "
        "words, as upstream) has no score",
        "means by prompt length and type are those of fine_grained_analysis.py, English only, as there",
    )

    def __init__(self, inputs: SuiteInputs = SuiteInputs(), *, variant: str = "en", images: str = "") -> None:
        super().__init__(inputs)
        if variant.upper() not in _MOST_EDITS:
            raise ConfigError(f"the variant must be en or zh, not '{variant}'")
        if images and "{class}" not in images:
            raise ConfigError(f"images={images}: the pattern needs {{class}}, as ids are those of a class")
        self._mode, self._images = variant.upper(), images

    def load(self, folder: Path) -> Items:
        """Yield the images of the three tasks with what metrics ask about them.

        Raises:
            DataError: There are no prompts, or no images.
        """
        by_class, problems = self._read(folder)
        yield from problems
        lacking = 0
        for name, prompts in by_class.items():
            patterns = [f"images/{name}/{{generator}}/{{prompt_id}}{end}" for end in ("_{sample}", "")]
            try:
                root, (pattern, *others) = find_tree(folder, patterns, self._images.replace("{class}", name))
            except DataError:
                self._notes[f"there are no images of {name}"] = None
                if (lacking := lacking + 1) == len(by_class):
                    places = "images/anime/{generator}/{prompt_id}_{sample}.png and so on"
                    raise DataError(
                        f"no images: expected {places}, or say --suite-option images=PATTERN", folder
                    ) from None
                continue
            texts = {key: record.prompt for key, record in prompts.items()}
            tree = ImageTree(pattern, f"OneIG-Bench ({name})", texts, others)
            for item in tree.items(root, self.image_roots, self._notes):
                item = replace(item, id=f"{name}/{item.id}")
                if isinstance(item, Item):
                    item = replace(item, prompt_id=f"{name}/{item.prompt_id}", meta=prompts[item.prompt_id].fields)
                yield item

    def prompts(self, folder: Path) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the prompts of the three tasks, and where their images belong.

        Raises:
            DataError: There are no prompts.
        """
        by_class, problems = self._read(folder)
        yield from problems
        for name, prompts in by_class.items():
            for key, record in prompts.items():
                text = record.fields.get(item_meta.GENERATED_FROM.name, record.prompt)
                yield PromptPlace(f"{name}/{key}", text, f"images/{name}/{{generator}}/{key}_{{sample}}.png")

    def _read(self, folder: Path) -> tuple[dict[str, Prompts], list[InvalidItem]]:
        """Read the prompts by class, with what is asked of their images, and what is wrong with rows."""
        problems: list[InvalidItem] = []
        end, column = ("", "prompt_en") if self._mode == "EN" else ("_zh", "prompt_cn")
        table = _file(folder, f"OneIG-Bench{end.replace('_', '-').upper()}.csv")
        rows: dict[str, dict[str, Json]] = {category: {} for category in CLASSES.values()}
        for number, row in scan_csv(table, ("category", "id", column)):
            if isinstance(row, DataError):
                problems.append(InvalidItem(f"{table.name}:{number}", str(row)))
            elif row["category"] in rows:
                rows[row["category"]][row["id"]] = row
        by_class: dict[str, Prompts] = {}
        for name in _ALIGNED[: 3 if self._mode == "EN" else 4]:
            file = _file(folder, f"scripts/alignment/Q_D/{name}{end}.json")
            by_class[name] = self._questions(file, name, rows[CLASSES[name]], problems)
        file = _file(folder, f"scripts/text/text_content{end}.csv")
        by_class["text"] = _texts(file, rows[CLASSES["text"]], problems)
        answers = read_json(_file(folder, f"scripts/reasoning/gt_answer{end}.json"))
        by_class["reasoning"] = {
            key: _record(key, row, "reasoning", {item_meta.GENERATED_FROM.name: _prompt(row)}, answer)
            for key, row in rows[CLASSES["reasoning"]].items()
            if isinstance(answer := answers.get(key), str) and answer.strip()
        }
        return by_class, problems

    def _questions(self, file: Path, name: str, rows: Rows, problems: list[InvalidItem]) -> Prompts:
        """Read the prompts of a class with their questions; what is wrong with a prompt is added to `problems`."""
        prompts: Prompts = {}
        official = self.protocol == "official"
        how = Asking(
            template="oneig/question",
            answer="oneig" if official else "yes-no",
            max_tokens=128,
            temperature=None if official else 0.0,
            accept_empty=official,
        ).model_dump()
        for key, entry in read_json(file).items():
            try:
                asked = {**how, "questions": _questions_of(entry)}
                record = _record(key, rows[key], name, {item_meta.ASKED.name: asked})
                record.questions = Asked.model_validate(asked).questions
                if problem := inconsistent_ids(record, parents_exist=True):
                    raise ValueError(problem)
                prompts[key] = record
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                reason = first_problem(error) if isinstance(error, ValidationError) else reason_of(error)
                problems.append(InvalidItem(f"{file.name}:{key}", f"{file.name}:{key}: {reason}"))
        return prompts

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Make the tables of alignment, text and reasoning, as far as there are images of each."""
        by_class = {name: [item for item in items if item_meta.CLASS.get(item) == name] for name in CLASSES}
        by_metric = grouped(scores, lambda score: score.metric)

        def table(part: str, items: Sequence[Item], metric: str, by: str) -> Table:
            title = f"OneIG-Bench ({self._mode}): {part}"
            spec = TableSpec(title=title, id=f"oneig_{self._mode}_{by}", mean="prompts", by=by, overall="all", times=1)
            return make_table(spec, items, by_metric.get(metric, ()))

        tables = []
        if aligned := [item for name in _ALIGNED for item in by_class[name]]:
            for by in ("class", "prompt_length", "type") if self._mode == "EN" else ("class",):
                tables.append(table(f"alignment by {by.replace('_', ' ')}", aligned, _ASKED, by))
        if by_class["text"]:
            tables.append(self._text_table(by_class["text"], by_metric.get(_READ, ())))
        ids = {item.id for item in by_class["reasoning"]}
        for metric in sorted(by_metric.keys() - {_ASKED, _READ}):
            if any(score.item_id in ids for score in by_metric[metric]):
                tables.append(table(f"reasoning, by {metric}", by_class["reasoning"], metric, "subject"))
        return tables

    def _text_table(self, items: Sequence[Item], scores: Sequence[Score]) -> Table:
        rows = []
        for generator, images, scored in by_generator(items, scores):
            values = text_scores([score for _, score in scored], _MOST_EDITS[self._mode])
            rows.append((generator, len(images), len(scored), *values))
        columns = ("generator", "images", "scored", "ED", "CR", "WAC", "text score")
        declared = replace(BENCHMARK, id=f"oneig_{self._mode}_text")
        return Table(f"OneIG-Bench ({self._mode}): text", columns, tuple(rows), declared=declared)


def text_scores(scores: Sequence[Score], farthest: int) -> tuple[float | None, ...]:
    """Compute edit distance, share without an error, share of words, and the score of all three (`text_score.py`)."""
    words = matched_share(scores)
    if words is None:
        return (None,) * 4
    distance = sum(score.parts["distance"] for score in scores) / len(scores)
    complete = sum(score.parts["distance"] == 0 for score in scores) / len(scores)
    return distance, complete, words, 1 - min(farthest, distance) * (1 - complete) * (1 - words) / farthest


def _questions_of(entry: Values) -> list[Json]:
    """Return the questions of a prompt, each with those it depends on; the parent 0 is none."""
    texts, parents = (_decoded(entry[part]) for part in ("question", "dependency"))
    return [
        {"id": number, "question": text, "parents": [str(parent) for parent in parents.get(number, []) if parent != 0]}
        for number, text in texts.items()
    ]


def _texts(file: Path, rows: Rows, problems: list[InvalidItem]) -> Prompts:
    """Read the prompts that ask for text, with the texts to look for."""
    prompts: Prompts = {}
    for number, row in scan_csv(file, ("id", "text_content")):
        where = f"{file.name}:{number}"
        if isinstance(row, DataError):
            problems.append(InvalidItem(where, str(row)))
            continue
        cell = row["text_content"]
        most = 256 if len(cell.split()) > 60 else 128
        try:
            wanted = Wanted(texts=listed(cell), rule="oneig", source=cell, max_tokens=most)
        except ValueError as error:
            problems.append(InvalidItem(where, f"{where}: 'text_content' is {error}"))
            continue
        key = row["id"]
        prompts[key] = _record(key, rows.get(key, row), "text", {item_meta.TEXT.name: wanted.model_dump()})
    return prompts


def _file(folder: Path, name: str) -> Path:
    file = inside(folder, name, "file")
    if not file.is_file():
        raise DataError(f"no {name} here: --data is a copy of OneIG-Benchmark", folder)
    return file


def _prompt(row: Values) -> str:
    return str(row.get("prompt_en") or row.get("prompt_cn") or "")


def _record(key: str, row: Values, name: str, meta: Values, prompt: str = "") -> PromptRecord:
    """Make the record of a prompt of a class, with its fields for the tables."""
    fields = {field: row[column] for column, field in _FIELDS.items() if row.get(column)}
    return PromptRecord(key, prompt or _prompt(row), "", fields={**fields, item_meta.CLASS.name: name, **meta})


def _decoded(value: Any) -> Json:
    """Read the questions of a prompt, or their dependencies: an object, or an object as JSON text."""
    try:
        decoded = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f"its questions are not JSON: {value[:40]!r}") from error
    if not isinstance(decoded, dict):
        raise ValueError("its questions are no object")
    return decoded
