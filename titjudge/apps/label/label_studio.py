"""Write tasks for Label Studio, and read its annotations as votes or marks.

A task of a pair is `{"data": {prompt_id, prompt, left_image, right_image, left, right}}`, one of marks `{"data": {prompt_id,
prompt, image_id, image, mode, elements}}`: `*_image` and `image_id` are image ids; `left`, `right` and `image` are the
addresses that Label Studio shows. Element N is answered by the control `mark_N`. An element that depends on one entity alone
is in the entity's `locked`, is answered by `mark_N_M`, and is only visible if the entity is there. Format: Label Studio's
documentation, "Label Studio Task Format" and the tags Choices, Pairwise, Rating, TextArea, View and Repeater.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from titjudge.apps.label.dataset import Element, LabelingData, is_utf8, load_dataset
from titjudge.apps.label.elements import LOCKED, check_values
from titjudge.apps.label.forms import MODES, PAIRS, form_of
from titjudge.apps.label.question_order import draw, shuffled
from titjudge.apps.label.questions import IMAGE, PAIR, Question
from titjudge.apps.label.store import Store
from titjudge.apps.label.templates import rendered
from titjudge.apps.label.votes import ANSWERS
from titjudge.core.errors import DataError, UserError
from titjudge.core.files import read_json, write_atomic, write_json

_LISTS = ("choices", "text")
_WHAT_TO_DO = "export the project as JSON (not JSON-MIN or CSV)"
_TITLES = {
    "yes-no": "Answer each question from the image.",
    "facets": "0: not met, 1: partly, 2: met, n/a: does not apply.",
    "graph": "Is it in the image?",
    "rating": "Rate each pillar from 1 to 10.",
}


class Imported(NamedTuple):
    """How many annotations of an export were added to the store.

    Attributes:
        added: New or changed annotations.
        present: Annotations that the store had, in this form or a newer one.
        skipped: Annotations that the annotator skipped or left empty.
    """

    added: int
    present: int
    skipped: int


@dataclass(frozen=True, slots=True)
class _Annotation:
    """The answer of one person to one task."""

    annotator: str
    question: Question
    data: Mapping[str, Any]
    text: str
    note: str
    duration_ms: int | None
    answered_at: float | None
    source: str


class _PairTasks:
    """Tasks of pairs."""

    needed = ("prompt_id", "left_image", "right_image")

    def tasks(self, dataset: LabelingData, group: str, seed: int, address: str) -> Iterator[dict[str, Any]]:
        """List what the task of each pair of a prompt shows, in random order and with random sides."""
        for a, b in shuffled(itertools.combinations(dataset.usable(group), 2), seed, group):
            left, right = (a, b) if draw(seed, "side", group, a, b) & 1 else (b, a)
            yield {
                "left_image": left,
                "right_image": right,
                "left": address + quote(left),
                "right": address + quote(right),
            }

    def config(self, dataset: LabelingData, both_bad: bool) -> str:
        """Write the interface."""
        return rendered("label_studio_pairs.xml", both_bad=both_bad)

    def question(self, data: Mapping[str, Any]) -> Question:
        """Return the question of a task."""
        return Question(PAIR, str(data["prompt_id"]), (str(data["left_image"]), str(data["right_image"])))

    def answer(self, result: Sequence[Mapping[str, Any]], data: Mapping[str, Any]) -> str:
        """Read the answer of an annotation."""
        for choice in _values(result, None, "selected", "choices"):
            if choice.lower() in ANSWERS:
                return choice.lower()
        raise DataError("none of left, right, tie and both_bad")


class _ElementTasks:
    """Tasks of images whose elements are marked."""

    needed = ("prompt_id", "image_id", "elements")

    def __init__(self, mode: str) -> None:
        self._mode = mode

    def tasks(self, dataset: LabelingData, group: str, seed: int, address: str) -> Iterator[dict[str, Any]]:
        """List what the task of each image of a prompt shows, in random order."""
        for image in shuffled(dataset.usable(group), seed, group):
            fields = {"mode": self._mode, "image_id": image, "image": address + quote(image)}
            yield {**fields, "elements": _tree(dataset.elements[image])}

    def config(self, dataset: LabelingData, both_bad: bool) -> str:
        """Write the interface; all elements of a mode have the same values."""
        values = next(iter(dataset.elements.values()))[0].values
        return rendered("label_studio_elements.xml", mode=self._mode, title=_TITLES[self._mode], values=values)

    def question(self, data: Mapping[str, Any]) -> Question:
        """Return the question of a task."""
        return Question(IMAGE, str(data["prompt_id"]), (str(data["image_id"]),))

    def answer(self, result: Sequence[Mapping[str, Any]], data: Mapping[str, Any]) -> str:
        """Read the marks of an annotation, in the order of the elements."""
        rows: list[tuple[int, Element, str | None]] = []
        try:
            for place, record in _numbered(data["elements"]):
                value = next(_values(result, f"mark_{place}", "choices", "rating"), None)
                rows.append((record["number"], _element(record), value))
            rows.sort(key=lambda mark: mark[0])
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError("the elements in its data are not those that `label tasks` wrote") from error
        marks = check_values([element for _, element, _ in rows], [value for *_, value in rows])
        return json.dumps(marks, ensure_ascii=False)


def _tasks_of(mode: str) -> _PairTasks | _ElementTasks:
    return _PairTasks() if mode == PAIRS else _ElementTasks(mode)


def write_tasks(
    data: Path, out: Path, *, mode: str = PAIRS, address: str = "", seed: int = 0, both_bad: bool = True
) -> tuple[int, list[tuple[str, str]]]:
    """Write a task for every pair, or image to mark, of a data folder, and the labelling interface beside it.

    Args:
        data: A data folder or manifest.
        out: The JSON file; the interface goes to the same name with `.xml`.
        mode: pairs, yes-no, facets, graph or rating.
        address: Prefix of the (quoted) image path, for example `/data/local-files/?d=`.
        seed: Seed of order and sides.
        both_bad: Whether "both bad" is an answer on a pair.

    Returns:
        The number of tasks, and the images that were left out, each with the reason.

    Raises:
        DataError: There is nothing to compare, or to mark; or these are edits, whose source a task has no place for.
        UserError: `out` cannot be written.
    """
    dataset, form = form_of(mode).load(data), _tasks_of(mode)
    if any(dataset.sources.values()):
        raise DataError(
            "these are edits, and a task of Label Studio has no place for the source: `label` shows it", data
        )
    tasks = [
        {"data": {"prompt_id": group, "prompt": dataset.prompts[group], **task}}
        for group in shuffled(dataset.images, seed, "prompts")
        for task in form.tasks(dataset, group, seed, address)
    ]
    try:
        write_json(out, tasks, indent=1)
        write_atomic(out.with_suffix(".xml"), form.config(dataset, both_bad))
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error.strerror}") from error
    problems = [problem.partition(": ") for problem in dataset.problems]
    return len(tasks), [(image, reason) for image, _, reason in problems]


def _tree(elements: Sequence[Element]) -> list[dict[str, Any]]:
    """Put each element that depends on one other alone below it; `number` keeps the order of the store."""
    records: dict[str, dict[str, Any]] = {}
    for number, element in enumerate(elements):
        text = f"{element.text} ({element.hint})" if element.hint else element.text
        if len(element.needs) > 1:
            text += f" ({LOCKED} where {' or '.join(element.needs)} is missing)"
        record = {"name": element.name, "kind": element.kind, "text": text, "number": number}
        records[element.name] = {**record, "values": list(element.values), "needs": list(element.needs), "locked": []}
    top: list[dict[str, Any]] = []
    for element in elements:
        siblings = records[element.needs[0]]["locked"] if len(element.needs) == 1 else top
        siblings.append(records[element.name])
    return top


def read_annotations(file: Path, store: Path, data: Path | None = None) -> Imported:
    """Add the annotations of an export (JSON) to a store as votes or marks.

    A person becomes the annotator `label-studio:ID`. The last annotation of a person for a task counts, and replaces one that
    was read before. Skipped and empty annotations, drafts and predictions are left out.

    Args:
        file: The export.
        store: The SQLite file of the votes or marks; made if it is missing.
        data: Data folder or manifest of the images, which names their generators; tasks do not.

    Raises:
        DataError: The file is no such export, or an annotation is incomplete; names the task.
        UserError: The store has another mode.
    """
    mode, tasks = _load(file)
    last: dict[tuple[str, Question], _Annotation] = {}
    skipped = 0
    for annotation in _annotations(tasks, mode, file):
        if annotation is None:
            skipped += 1
            continue
        earlier = last.get((annotation.annotator, annotation.question))
        if earlier is None or (earlier.answered_at or 0) <= (annotation.answered_at or 0):
            last[annotation.annotator, annotation.question] = annotation
    generators = (
        {} if data is None else {item.id: item.generator for item in load_dataset(data, least=1).items.values()}
    )
    with closing(Store(store)) as opened, opened.writing():
        _check_store(opened, mode)
        prompts = {a.question.prompt_id: str(a.data.get("prompt", "")) for a in last.values()}
        questions = [annotation.question for annotation in last.values()]
        images = [(image, q.prompt_id, generators.get(image, "")) for q in questions for image in q.images]
        opened.describe(prompts, images)
        added = _add(opened, last.values())
    return Imported(added, len(last) - added, skipped)


def _check_store(store: Store, mode: str) -> None:
    plan = store.setting("plan") or (PAIRS if store.answers(ended=True) else mode)
    store_mode = plan if plan in MODES else PAIRS
    if store_mode != mode:
        raise UserError(f"{store.path} has {store_mode}, and the export has {mode}: use another store")
    if mode != PAIRS:
        store.setting("plan", mode)


def _add(store: Store, annotations: Iterable[_Annotation]) -> int:
    """Add the annotations that are not in the store in this form or a newer one; returns how many."""
    last = {(answer.annotator, answer.question): answer for answer in store.answers()}
    added = 0
    for annotation in annotations:
        earlier = last.get((annotation.annotator, annotation.question))
        if earlier and (
            (earlier.text, earlier.note) == (annotation.text, annotation.note)
            or (annotation.answered_at is not None and annotation.answered_at <= earlier.answered_at)
        ):
            continue
        store.add(
            annotation.annotator,
            annotation.question,
            annotation.text,
            note=annotation.note,
            answered_at=annotation.answered_at,
            duration_ms=annotation.duration_ms,
            source=annotation.source,
        )
        added += 1
    return added


def _load(file: Path) -> tuple[str, list[dict[str, Any]]]:
    """Read an export, whose tasks must all have the same mode; returns the mode and the tasks."""
    tasks = read_json(file)
    if not isinstance(tasks, list):
        raise DataError(f"an export of Label Studio is a JSON list of tasks: {_WHAT_TO_DO}", file)
    modes: dict[str, int] = {}
    for number, task in enumerate(tasks, 1):
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(data, dict):
            raise DataError(f"task {number} has no data: {_WHAT_TO_DO}", file)
        if not is_utf8(json.dumps(task, ensure_ascii=False)):
            raise DataError(f"task {number} is not valid UTF-8", file)
        mode = str(data.get("mode", PAIRS))
        if mode not in MODES:
            raise DataError(f"task {number}: mode is one of {', '.join(MODES)}, not '{mode[:40]}'", file)
        absent = [key for key in _tasks_of(mode).needed if not data.get(key)]
        if absent:
            todo = "label tasks of `label tasks` alone"
            raise DataError(f"task {number}: the key '{absent[0]}' is missing in its data: {todo}", file)
        modes.setdefault(mode, number)
        if len(modes) > 1:
            kinds = " and ".join(f"task {first} of mode {name}" for name, first in modes.items())
            raise DataError(f"{kinds}: export and import each project on its own", file)
    return next(iter(modes), PAIRS), tasks


def _annotations(tasks: Iterable[Mapping[str, Any]], mode: str, file: Path) -> Iterator[_Annotation | None]:
    """Read the annotations of each task; None for one that was skipped."""
    form = _tasks_of(mode)
    for number, task in enumerate(tasks, 1):
        annotations = task.get("annotations") or task.get("completions") or []
        if not isinstance(annotations, list) or not all(isinstance(annotation, dict) for annotation in annotations):
            raise DataError(f"task {number}: annotations is a list of objects", file)
        nameless = sum(annotation.get("completed_by") is None for annotation in annotations)
        if nameless > 1:
            raise DataError(f"task {number}: completed_by does not say who made its {nameless} annotations", file)
        for place, annotation in enumerate(annotations, 1):
            try:
                yield _read_annotation(form, task["data"], annotation, place)
            except DataError as error:
                raise DataError(f"task {number}, annotation {place}: {error.message}", file) from error


def _read_annotation(
    form: _PairTasks | _ElementTasks, data: Mapping[str, Any], annotation: Mapping[str, Any], place: int
) -> _Annotation | None:
    """Read an annotation, the one at `place` of its task; None if it was skipped.

    Raises:
        DataError: It is malformed or incomplete.
    """
    result = annotation.get("result")
    if annotation.get("was_cancelled") or annotation.get("skipped") or not result:
        return None
    if not isinstance(result, list) or not all(isinstance(part, dict) for part in result):
        raise DataError("its result is a list of objects")
    try:
        text = form.answer(result, data)
    except DataError as error:
        raise DataError(f"{error.message}: complete or delete it in Label Studio") from error
    person = annotation.get("completed_by")
    if isinstance(person, dict):
        person = person.get("email") or person.get("id")
    question = form.question(data)
    number = annotation.get("id") or "|".join((question.prompt_id, *question.images, str(place)))
    seconds = annotation.get("lead_time")
    is_time = isinstance(seconds, int | float) and 0 <= seconds < 1e6
    return _Annotation(
        annotator=f"label-studio:{'unknown' if person is None else person}",
        question=question,
        data=data,
        text=text,
        note=next(_values(result, "note", "text"), ""),
        duration_ms=round(1000 * float(seconds or 0)) if is_time else None,
        answered_at=_time(annotation.get("updated_at")) or _time(annotation.get("created_at")),
        source=f"label-studio:{number}",
    )


def _values(result: Iterable[Mapping[str, Any]], name: str | None, *keys: str) -> Iterator[str]:
    """Read the values of one control, or of any: the first of a list, a number as its digits."""
    for part in result:
        value = part.get("value")
        if (name is None or part.get("from_name") == name) and isinstance(value, dict):
            for key in keys:
                choice = value.get(key)
                if key in _LISTS:
                    choice = choice[0] if isinstance(choice, list) and choice else None
                if isinstance(choice, str | int) and not isinstance(choice, bool):
                    yield str(choice).strip()


def _element(record: Mapping[str, Any]) -> Element:
    """Read an element of a task."""
    name, kind, text, *rest = (record[key] for key in ("name", "kind", "text", "values", "needs"))
    values, needs = map(tuple, rest)
    if not all(isinstance(part, str) for part in (name, kind, text, *values, *needs)):
        raise TypeError
    return Element(name, kind, values, text, needs=needs)


def _numbered(elements: Any) -> Iterator[tuple[str, Any]]:
    """List the elements of a task with the numbers in the names of their controls."""
    for i, record in enumerate(elements):
        yield str(i), record
        for j, child in enumerate(record["locked"]):
            yield f"{i}_{j}", child


def _time(value: Any) -> float | None:
    """Read a time in ISO 8601 (UTC if it names no zone) or in Unix seconds; None for anything else."""
    try:
        if isinstance(value, int | float):
            return float(value) if 0 < value < time.time() + 1e6 else None
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
