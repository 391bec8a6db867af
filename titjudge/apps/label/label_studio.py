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

from titjudge.apps.label.dataset import is_utf8, load_material
from titjudge.apps.label.elements import LOCKED, MODES, Element, find_elements, settle
from titjudge.apps.label.question_order import draw, shuffled
from titjudge.apps.label.store import ANSWERS, Store, current_submissions
from titjudge.core.errors import DataError, UserError
from titjudge.core.files import read_json, write_atomic

PAIRS = "pairs"
_NEEDED = {PAIRS: ("prompt_id", "left_image", "right_image"), "marks": ("prompt_id", "image_id", "elements")}
_LISTS = ("choices", "text")
_WHAT_TO_DO = "export the project as JSON (not JSON-MIN or CSV)"

_PAIRS_CONFIG = """<View>
  <Header value="Which image follows the prompt better?"/>
  <Text name="prompt" value="$prompt"/>
  <View style="display: flex; gap: 1em">
    <View style="flex: 1"><Image name="left" value="$left"/></View>
    <View style="flex: 1"><Image name="right" value="$right"/></View>
  </View>
  <Choices name="preference" toName="prompt" choice="single" showInline="true" required="true">
    <Choice value="left" hotkey="1"/>
    <Choice value="tie" hotkey="2"/>
    <Choice value="right" hotkey="3"/>
    <Choice value="both_bad" hotkey="4"/>
  </Choices>
  <TextArea name="note" toName="prompt" placeholder="Why, if you like" rows="2" maxSubmissions="1"/>
</View>
"""
_BOTH_BAD_CHOICE = """    <Choice value="both_bad" hotkey="4"/>
"""
_MARKS_CONFIG = """<View>
  <Header value="{title}"/>
  <Text name="prompt" value="$prompt"/>
  <View style="display: flex; gap: 1em">
    <View style="flex: 1"><Image name="image" value="$image"/></View>
    <View style="flex: 1">
      <Repeater on="$elements" indexFlag="{{{{i}}}}">
        <Text name="element_{{{{i}}}}" value="$elements[{{{{i}}}}].text"/>
        {control}{locked}
      </Repeater>
      <TextArea name="note" toName="image" placeholder="Why, where it is not plain" rows="2" maxSubmissions="1"/>
    </View>
  </View>
</View>
"""
_LOCKED_CONFIG = """
        <View visibleWhen="choice-selected" whenTagName="mark_{{{{i}}}}" whenChoiceValue="yes" style="margin-left: 2em">
          <Repeater on="$elements[{{{{i}}}}].locked" indexFlag="{{{{j}}}}">
            <Text name="element_{{{{i}}}}_{{{{j}}}}" value="$elements[{{{{i}}}}].locked[{{{{j}}}}].text"/>
            {control}
          </Repeater>
        </View>"""
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
        known: Annotations that the store had, in this form or a newer one.
        skipped: Annotations that the annotator skipped or left empty.
    """

    added: int
    known: int
    skipped: int


@dataclass(frozen=True, slots=True)
class _Annotation:
    """The answer of one person to one task; `subject` identifies the pair or the image."""

    annotator: str
    subject: tuple[str, ...]
    data: Mapping[str, Any]
    said: Any
    note: str
    duration_ms: int | None
    at: float | None
    source: str


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
        DataError: There is nothing to compare, or to mark.
        UserError: `out` cannot be written.
    """
    material = load_material(data, least=2 if mode == PAIRS else 1)
    elements = {} if mode == PAIRS else find_elements(material, mode)
    tasks: list[dict[str, Any]] = []
    for group in shuffled(material.images, seed, "prompts"):
        shared = {"prompt_id": group, "prompt": material.prompts[group]}
        if mode == PAIRS:
            for a, b in shuffled(itertools.combinations(material.usable(group), 2), seed, group):
                left, right = (a, b) if draw(seed, "side", group, a, b) & 1 else (b, a)
                shown = {"left": address + quote(left), "right": address + quote(right)}
                tasks.append({"data": {**shared, "left_image": left, "right_image": right, **shown}})
        else:
            for image in shuffled(material.usable(group), seed, group):
                shown = {"mode": mode, "image_id": image, "image": address + quote(image)}
                tasks.append({"data": {**shared, **shown, "elements": _tree(elements[image])}})
    pairs_config = _PAIRS_CONFIG if both_bad else _PAIRS_CONFIG.replace(_BOTH_BAD_CHOICE, "")
    config = pairs_config if mode == PAIRS else _marks_config(mode, next(iter(elements.values()))[0].values)
    try:
        write_atomic(out, json.dumps(tasks, indent=1, ensure_ascii=False))
        write_atomic(out.with_suffix(".xml"), config)
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error.strerror}") from error
    problems = [problem.partition(": ") for problem in material.problems]
    return len(tasks), [(image, reason) for image, _, reason in problems]


def _marks_config(mode: str, values: Sequence[str]) -> str:
    """Write the interface of a mode; all its elements have these values."""

    def control(place: str) -> str:
        head = f'name="mark_{place}" toName="element_{place}" required="true"'
        if mode == "rating":
            return f'<Rating {head} maxRating="{values[-1]}"/>'
        choices = "".join(f'<Choice value="{value}"/>' for value in values)
        return f'<Choices {head} choice="single" showInline="true">{choices}</Choices>'

    locked = _LOCKED_CONFIG.format(control=control("{{i}}_{{j}}")) if mode == "graph" else ""
    return _MARKS_CONFIG.format(title=_TITLES[mode], control=control("{{i}}"), locked=locked)


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
    last: dict[tuple[str, tuple[str, ...]], _Annotation] = {}
    skipped = 0
    for annotation in _annotations(tasks, mode, file):
        if annotation is None:
            skipped += 1
            continue
        before = last.get((annotation.annotator, annotation.subject))
        if before is None or (before.at or 0) <= (annotation.at or 0):
            last[annotation.annotator, annotation.subject] = annotation
    generators = (
        {} if data is None else {item.id: item.generator for item in load_material(data, least=1).items.values()}
    )
    with closing(Store(store)) as opened, opened.writing():
        _check_store(opened, mode)
        ids = ("left_image", "right_image") if mode == PAIRS else ("image_id",)
        shown = [annotation.data for annotation in last.values()]
        images = [(str(of[key]), str(of["prompt_id"]), generators.get(str(of[key]), "")) for of in shown for key in ids]
        opened.describe({str(of["prompt_id"]): str(of.get("prompt", "")) for of in shown}, images, ())
        added = (_add_votes if mode == PAIRS else _add_marks)(opened, last.values())
    return Imported(added, len(last) - added, skipped)


def _check_store(store: Store, mode: str) -> None:
    plan = store.setting("plan") or (PAIRS if store.votes(undone=True) else mode)
    known = plan if plan in MODES else PAIRS
    if known != mode:
        raise UserError(f"{store.path} has {known}, and the export has {mode}: use another store")
    if mode != PAIRS:
        store.setting("plan", mode)


def _add_votes(store: Store, annotations: Iterable[_Annotation]) -> int:
    last = {(vote.annotator, vote.prompt_id, vote.left, vote.right): vote for vote in store.votes()}
    added = 0
    for given in annotations:
        group, left, right = given.subject
        before = last.get((given.annotator, group, left, right))
        if before and (
            (before.answer, before.note) == (given.said, given.note)
            or (given.at is not None and given.at <= before.voted_at)
        ):
            continue
        if before:
            store.undo(given.annotator, before.id)
        vote = (given.annotator, "pair", group, left, right, given.said)
        store.add(*vote, duration_ms=given.duration_ms, voted_at=given.at, source=given.source, note=given.note)
        added += 1
    return added


def _add_marks(store: Store, annotations: Iterable[_Annotation]) -> int:
    last = {(row.annotator, row.image): row for row in current_submissions(store.submissions())}
    added = 0
    for given in annotations:
        (image,) = given.subject
        before = last.get((given.annotator, image))
        if before and ((before.marks, before.note) == (given.said, given.note) or (given.at or 1e11) <= before.sent_at):
            continue
        store.submit(
            given.annotator, image, given.said, note=given.note, duration_ms=given.duration_ms, sent_at=given.at
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
        if mode != PAIRS and mode not in MODES:
            raise DataError(f"task {number}: mode is one of {', '.join((PAIRS, *MODES))}, not '{mode[:40]}'", file)
        absent = [key for key in _NEEDED.get(mode, _NEEDED["marks"]) if not data.get(key)]
        if absent:
            todo = "label tasks of `label tasks` alone"
            raise DataError(f"task {number}: the key '{absent[0]}' is missing in its data: {todo}", file)
        modes.setdefault(mode, number)
        if len(modes) > 1:
            kinds = " and ".join(f"task {first} of mode {each}" for each, first in modes.items())
            raise DataError(f"{kinds}: export and import each project on its own", file)
    return next(iter(modes), PAIRS), tasks


def _annotations(tasks: Iterable[Mapping[str, Any]], mode: str, file: Path) -> Iterator[_Annotation | None]:
    """Read the annotations of each task; None for one that was skipped."""
    for number, task in enumerate(tasks, 1):
        annotations = task.get("annotations") or task.get("completions") or []
        if not isinstance(annotations, list) or not all(isinstance(annotation, dict) for annotation in annotations):
            raise DataError(f"task {number}: annotations is a list of objects", file)
        nameless = sum(annotation.get("completed_by") is None for annotation in annotations)
        if nameless > 1:
            raise DataError(f"task {number}: completed_by does not say who made its {nameless} annotations", file)
        for place, annotation in enumerate(annotations, 1):
            result = annotation.get("result")
            if annotation.get("was_cancelled") or annotation.get("skipped") or not result:
                yield None
                continue
            where = f"task {number}, annotation {place}"
            if not isinstance(result, list) or not all(isinstance(part, dict) for part in result):
                raise DataError(f"{where}: its result is a list of objects", file)
            data = task["data"]
            try:
                said: Any = _answer(result) if mode == PAIRS else _marks(result, data["elements"])
            except DataError as error:
                raise DataError(f"{where}: {error.message}: complete or delete it in Label Studio", file) from error
            person = annotation.get("completed_by")
            if isinstance(person, dict):
                person = person.get("email") or person.get("id")
            keys = ("prompt_id", "left_image", "right_image") if mode == PAIRS else ("image_id",)
            subject = tuple(str(data[key]) for key in keys)
            seconds = annotation.get("lead_time")
            timed = isinstance(seconds, int | float) and 0 <= seconds < 1e6
            yield _Annotation(
                annotator=f"label-studio:{'unknown' if person is None else person}",
                subject=subject,
                data=data,
                said=said,
                note=next(_values(result, "note", "text"), ""),
                duration_ms=round(seconds * 1000) if timed else None,
                at=_time(annotation.get("updated_at")) or _time(annotation.get("created_at")),
                source=f"label-studio:{annotation.get('id') or '|'.join((*subject, str(place)))}",
            )


def _values(result: Iterable[Mapping[str, Any]], name: str | None, *keys: str) -> Iterator[str]:
    """Read the values of one control, or of any: the first of a list, a number as its digits."""
    for part in result:
        value = part.get("value")
        if (name is None or part.get("from_name") == name) and isinstance(value, dict):
            for key in keys:
                given = value.get(key)
                if key in _LISTS:
                    given = given[0] if isinstance(given, list) and given else None
                if isinstance(given, str | int) and not isinstance(given, bool):
                    yield str(given).strip()


def _answer(result: Sequence[Mapping[str, Any]]) -> str:
    for given in _values(result, None, "selected", "choices"):
        if given.lower() in ANSWERS:
            return given.lower()
    raise DataError("none of left, right, tie and both_bad")


def _marks(result: Sequence[Mapping[str, Any]], data: Any) -> tuple[tuple[str, str, str], ...]:
    """Read the marks of an image in the order of its elements."""
    given: list[tuple[int, Element, str | None]] = []
    try:
        for place, record in _numbered(data):
            name, kind, text, *rest = (record[key] for key in ("name", "kind", "text", "values", "needs"))
            values, needs = map(tuple, rest)
            if not all(isinstance(part, str) for part in (name, kind, text, *values, *needs)):
                raise TypeError
            value = next(_values(result, f"mark_{place}", "choices", "rating"), None)
            given.append((record["number"], Element(name, kind, values, text, needs=needs), value))
        given.sort(key=lambda mark: mark[0])
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError("the elements in its data are not those that `label tasks` wrote") from error
    elements = [element for _, element, _ in given]
    settled = settle(elements, [value for *_, value in given])
    return tuple((element.name, element.kind, settled[element.name]) for element in elements)


def _numbered(elements: Any) -> Iterator[tuple[str, Any]]:
    """List the elements of a task with the numbers in the names of their controls."""
    for i, record in enumerate(elements):
        yield str(i), record
        for j, below in enumerate(record["locked"]):
            yield f"{i}_{j}", below


def _time(value: Any) -> float | None:
    """Read a time in ISO 8601 (UTC if it names no zone) or in Unix seconds; None for anything else."""
    try:
        if isinstance(value, int | float):
            return float(value) if 0 < value < time.time() + 1e6 else None
        at = datetime.fromisoformat(value)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
