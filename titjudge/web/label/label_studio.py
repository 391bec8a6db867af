"""Label Studio, both ways: pairs as tasks, and its annotations as votes.

A task is `{"data": {prompt_id, prompt, left_image, right_image, left, right}}`; `left_image` and `right_image` are
image ids, `left` and `right` the addresses that Label Studio shows. Answers are read from a Choices control (left,
right, tie, both_bad) and from a Pairwise control, which knows no tie. Format: Label Studio's documentation, "Label Studio Task
Format".
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from titjudge.core.errors import DataError, UserError
from titjudge.core.files import read_json
from titjudge.web.label.dataset import load_material
from titjudge.web.label.question_order import draw, shuffled
from titjudge.web.label.store import ANSWERS, Store

CONFIG = """<View>
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
</View>
"""


def write_tasks(data: Path, out: Path, *, address: str = "", seed: int = 0) -> int:
    """Write every pair of a data folder as a task, order and sides at random, and the labelling interface beside it.

    Args:
        data: A data folder or manifest.
        out: The JSON file; the interface goes to the same name with `.xml`.
        address: What stands before the (quoted) image path, for example `/data/local-files/?d=`.
        seed: Decides order and sides.

    Returns:
        The number of tasks.

    Raises:
        DataError: Nothing to compare.
        UserError: `out` cannot be written.
    """
    material = load_material(data)
    tasks = []
    for group in shuffled(material.images, seed, "prompts"):
        for a, b in shuffled(itertools.combinations(material.usable(group), 2), seed, group):
            left, right = (a, b) if draw(seed, "side", group, a, b) & 1 else (b, a)
            tasks.append({"data": _data(group, material.prompts[group], left, right, address)})
    _write(out, tasks)
    return len(tasks)


def read_annotations(file: Path, store: Path) -> int:
    """Add the annotations of an export (JSON) to a store as votes; those that are there already are left out.

    A person becomes the annotator `label-studio:ID`. Skipped and empty annotations are no votes.

    Returns:
        The number of votes added.

    Raises:
        DataError: not such an export; names the task.
    """
    tasks = _load(file)
    found = [(task, vote) for number, task in enumerate(tasks, 1) for vote in _votes(task, number, file)]
    opened = Store(store)
    try:
        with opened.writing():
            known = {(vote.annotator, vote.source) for vote in opened.votes(undone=True)}
            datas = [task["data"] for task, _ in found]
            images = [(str(d[key]), str(d["prompt_id"]), "") for d in datas for key in ("left_image", "right_image")]
            opened.describe({str(d["prompt_id"]): str(d.get("prompt", "")) for d in datas}, images, ())
            added = 0
            for task, vote in found:
                if (vote["annotator"], vote["source"]) in known:
                    continue
                data = task["data"]
                group, left, right = (str(data[key]) for key in ("prompt_id", "left_image", "right_image"))
                opened.add(kind="pair", prompt_id=group, left=left, right=right, **vote)
                added += 1
    finally:
        opened.close()
    return added


def _load(file: Path) -> list[dict[str, Any]]:
    tasks = read_json(file)
    if not isinstance(tasks, list):
        raise DataError("an export of Label Studio is a JSON list of tasks", file)
    for number, task in enumerate(tasks, 1):
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(data, dict):
            raise DataError(f"task {number} has no data", file)
        absent = [key for key in ("prompt_id", "left_image", "right_image") if not data.get(key)]
        if absent:
            raise DataError(f"task {number}: the key '{absent[0]}' is missing in its data", file)
    return tasks


def _votes(task: Mapping[str, Any], number: int, file: Path) -> Iterable[dict[str, Any]]:
    annotations = task.get("annotations") or []
    if not isinstance(annotations, list):
        raise DataError(f"task {number}: annotations is a list", file)
    for place, annotation in enumerate(annotations, 1):
        if not isinstance(annotation, dict):
            raise DataError(f"task {number}: an annotation is an object", file)
        answer = _answer(annotation.get("result") or [])
        if annotation.get("was_cancelled") or annotation.get("result") in (None, []):
            continue
        if answer is None:
            raise DataError(f"task {number}, annotation {place}: none of left, right, tie and both_bad", file)
        person = annotation.get("completed_by")
        if isinstance(person, dict):
            person = person.get("email") or person.get("id")
        seconds = annotation.get("lead_time")
        identity = annotation.get("id") or f"{task['data']['left_image']}|{task['data']['right_image']}|{place}"
        yield {
            "annotator": f"label-studio:{'unknown' if person is None else person}",
            "answer": answer,
            "duration_ms": round(seconds * 1000) if isinstance(seconds, int | float) and 0 <= seconds < 1e6 else None,
            "voted_at": _time(annotation.get("created_at")),
            "source": f"label-studio:{identity}",
        }


def _answer(result: Any) -> str | None:
    for part in result if isinstance(result, list) else ():
        value = part.get("value") if isinstance(part, dict) else None
        if isinstance(value, dict):
            given = value.get("selected") or next(iter(value.get("choices") or ()), None)
            if isinstance(given, str) and given.strip().lower() in ANSWERS:
                return given.strip().lower()
    return None


def _time(text: Any) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError):
        return time.time()


def _data(prompt_id: str, prompt: str, left: str, right: str, address: str) -> dict[str, str]:
    return {
        "prompt_id": prompt_id,
        "prompt": prompt,
        "left_image": left,
        "right_image": right,
        "left": address + quote(left),
        "right": address + quote(right),
    }


def _write(out: Path, tasks: list[dict[str, Any]]) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(tasks, indent=1, ensure_ascii=False), encoding="utf-8")
        out.with_suffix(".xml").write_text(CONFIG, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error.strerror}") from error
