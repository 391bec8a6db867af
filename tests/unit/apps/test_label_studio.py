"""Label Studio both ways: pairs and every mode of marks, edits, skips, several people, wrong files, its own library."""

from __future__ import annotations

import contextlib
import csv
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from titjudge.apps.label.element_form import Elements
from titjudge.apps.label.export import export_labels
from titjudge.apps.label.label_studio import Imported, read_annotations, write_tasks
from titjudge.apps.label.service import Service
from titjudge.apps.label.store import Store
from titjudge.cli.dispatch import run_command
from titjudge.core.errors import DataError, UserError

MODES = ("yes-no", "facets", "graph", "rating")
GRAPH: dict[str, list[Any]] = {
    "entities": ["cat", "mat"],
    "attributes": [["Cat", "black"], ["mat", "red"], ["dog", "loud"]],
    "relations": [["cat", "on", "mat"]],
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    names = ["g 0.png", "g1.png"]
    for name in names:
        Image.new("L", (8, 8)).save(folder / name)
    prompt = {"prompt_id": "p", "prompt": "a cat", "questions": ["A cat?", "Is the mat red?"], "graph": GRAPH}
    facets = {"facets": {"Quality": [["Detail", "Noise"], ["Realism", "Physical Logic"]]}}
    (folder / "prompts.jsonl").write_text(json.dumps({**prompt, **facets}) + "\n")
    lines = [json.dumps({"image": name, "prompt_id": "p", "generator": name[:2]}) for name in names]
    (folder / "images.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def written(data: Path, mode: str) -> tuple[list[dict[str, Any]], str]:
    out = data.parent / f"{mode}.json"
    write_tasks(data, out, mode=mode, address="/data/local-files/?d=", seed=1)
    return json.loads(out.read_text(encoding="utf-8")), out.with_suffix(".xml").read_text(encoding="utf-8")


def numbered(task: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every element of a task by the place that its control has."""
    found = {}
    for i, element in enumerate(task["data"]["elements"]):
        found[str(i)] = element
        found |= {f"{i}_{j}": below for j, below in enumerate(element["locked"])}
    return found


def answered(task: dict[str, Any], values: dict[str, str], **more: Any) -> dict[str, Any]:
    """Answer as Label Studio's editor does; `values` are by name, what has none is not answered."""
    result = []
    for place, element in numbered(task).items():
        if (value := values.get(element["name"])) is None:
            continue
        said = (
            {"type": "rating", "value": {"rating": int(value)}}
            if task["data"]["mode"] == "rating"
            else {"type": "choices", "value": {"choices": [value]}}
        )
        result.append({"id": place, "from_name": f"mark_{place}", "to_name": f"element_{place}", **said})
    return {"id": 1, "completed_by": 4, "result": result, "was_cancelled": False, **more}


def exported(path: Path, tasks: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


def marks_of(store: Path) -> dict[str, dict[str, str]]:
    export_labels(store, store.parent / "out")
    found: dict[str, dict[str, str]] = {}
    for row in csv.DictReader((store.parent / "out" / "marks.csv").read_text(encoding="utf-8").splitlines()):
        found.setdefault(row["annotator"], {})[row["element"]] = row["value"]
    return found


# -- pairs ----------------------------------------------------------------------------------------------------------


def test_tasks_for_label_studio_hold_every_pair(tmp_path: Path, example: Path) -> None:
    number, left = write_tasks(example, tmp_path / "tasks.json", address="/data/local-files/?d=", seed=1)
    assert not left
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert number == len(tasks) == 36
    assert all(task["data"]["left"] == "/data/local-files/?d=" + task["data"]["left_image"] for task in tasks)
    assert '<Choice value="tie"' in (tmp_path / "tasks.xml").read_text()


def test_annotations_of_label_studio_become_votes(tmp_path: Path) -> None:
    data = {"prompt_id": "p", "prompt": "t", "left_image": "i0", "right_image": "i1"}
    people = zip(["left"] * 7 + ["right"] * 6 + ["tie"] * 2, range(1, 16), strict=True)
    annotations = [
        {"completed_by": person, "lead_time": 1.5, "result": [{"type": "choices", "value": {"choices": [answer]}}]}
        for answer, person in people
    ]
    (tmp_path / "ls.json").write_text(json.dumps([{"data": data, "annotations": annotations}]))
    assert read_annotations(tmp_path / "ls.json", tmp_path / "v.db") == Imported(15, 0, 0)
    assert read_annotations(tmp_path / "ls.json", tmp_path / "v.db") == Imported(0, 15, 0), "an annotation counts once"
    result = export_labels(tmp_path / "v.db", tmp_path / "out").result
    assert result["rules"]["needs experts"] == 1
    assert "p,i0,i1,,votes: needs experts,7,6,2,0,0" in (tmp_path / "out" / "open.csv").read_text()


def annotated(result: object, **more: object) -> list[dict]:
    data = {"prompt_id": "p", "prompt": "t", "left_image": "x", "right_image": "y"}
    return [
        {"data": data, "annotations": [{"id": 7, "completed_by": {"id": 3, "email": "k@x"}, "result": result, **more}]}
    ]


def test_the_pairwise_control_is_read_and_skips_are_no_votes(tmp_path: Path) -> None:
    file, store = tmp_path / "ls.json", tmp_path / "v.db"
    pairwise = [{"type": "pairwise", "value": {"selected": "right"}}]
    file.write_text(json.dumps(annotated(pairwise, was_cancelled=True)))
    assert read_annotations(file, store) == Imported(0, 0, 1)
    file.write_text(json.dumps(annotated([])))
    assert read_annotations(file, store) == Imported(0, 0, 1)
    file.write_text(json.dumps(annotated(pairwise, lead_time=4.2, created_at="2026-03-09T22:16:08.728353Z")))
    assert read_annotations(file, store) == Imported(1, 0, 0)
    opened = Store(store)
    (vote,) = opened.answers()
    opened.close()
    assert (vote.annotator, vote.text, vote.duration_ms) == ("label-studio:k@x", "right", 4200)
    assert vote.question.images[0] == "x"
    assert vote.answered_at == 1773094568.728353


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("{}", "a JSON list"),
        ("[1]", "task 1 has no data"),
        ('[{"data": {"prompt_id": "p"}}]', "'left_image' is missing"),
        (json.dumps(annotated([{"value": {"choices": ["maybe"]}}])), "task 1, annotation 1"),
        (json.dumps(annotated([{"value": {"choices": "left"}}])), "task 1, annotation 1"),
    ],
)
def test_a_wrong_export_of_label_studio_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "ls.json").write_text(content)
    with pytest.raises(DataError, match=message):
        read_annotations(tmp_path / "ls.json", tmp_path / "v.db")


def test_an_edited_vote_takes_the_place_of_the_old_one_and_an_older_export_does_not(tmp_path: Path) -> None:
    def of(answer: str, hour: int) -> list[dict]:
        return annotated([{"value": {"choices": [answer]}}], updated_at=f"2026-03-09T{hour:02}:00:00Z")

    store = tmp_path / "v.db"
    assert read_annotations(exported(tmp_path / "1.json", of("left", 10)), store) == Imported(1, 0, 0)
    assert read_annotations(exported(tmp_path / "2.json", of("right", 12)), store) == Imported(1, 0, 0)
    assert read_annotations(exported(tmp_path / "3.json", of("tie", 11)), store) == Imported(0, 1, 0)
    with contextlib.closing(Store(store)) as opened:
        assert [vote.text for vote in opened.answers()] == ["right"]
        assert [vote.text for vote in opened.answers(ended=True)] == ["left", "right"]


def test_reasons_come_with_votes_and_generators_with_the_data(data: Path, tmp_path: Path) -> None:
    tasks, _ = written(data, "pairs")
    why = {"type": "textarea", "from_name": "note", "to_name": "prompt", "value": {"text": ["two cats"]}}
    for task in tasks:
        result = [{"type": "choices", "from_name": "preference", "value": {"choices": ["left"]}}, why]
        task["annotations"] = [{"id": 1, "completed_by": 4, "result": result}]
    file, store = exported(tmp_path / "ls.json", tasks), tmp_path / "v.db"
    read_annotations(file, store)
    assert read_annotations(file, store, data) == Imported(0, 1, 0)
    with contextlib.closing(Store(store)) as opened:
        assert [vote.note for vote in opened.answers()] == ["two cats"]
        assert opened.images() == {"g 0.png": ("p", "g "), "g1.png": ("p", "g1")}


# -- marks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_tasks_of_every_mode_hold_each_element_and_an_interface_that_asks_it(data: Path, mode: str) -> None:
    tasks, config = written(data, mode)
    elements = Elements(mode).load(data).elements
    assert {task["data"]["image_id"] for task in tasks} == set(elements)
    assert {task["data"]["image"] for task in tasks} == {
        "/data/local-files/?d=g%200.png",
        "/data/local-files/?d=g1.png",
    }
    for task in tasks:
        of = sorted(numbered(task).values(), key=lambda element: element["number"])
        assert [element["name"] for element in of] == [each.name for each in elements[task["data"]["image_id"]]]
    controls = {tag.attrib["name"]: tag for tag in ElementTree.fromstring(config).iter() if "required" in tag.attrib}
    assert set(controls) == {"mark_{{i}}", *(("mark_{{i}}_{{j}}",) if mode == "graph" else ())}
    values = next(iter(elements.values()))[0].values
    for control in controls.values():
        shown = [choice.attrib["value"] for choice in control]
        assert shown == list(values) if mode != "rating" else control.attrib["maxRating"] == values[-1]


@pytest.mark.parametrize("mode", MODES)
def test_annotations_of_every_mode_come_back_as_marks_that_the_page_goes_on_with(
    data: Path, tmp_path: Path, mode: str
) -> None:
    tasks, _ = written(data, mode)
    said: dict[str, dict[str, str]] = {}
    for person in (4, 5, 6):
        for task in tasks:
            elements = numbered(task).values()
            values = {
                each["name"]: each["values"][(person + each["number"]) % len(each["values"])] for each in elements
            }
            note = {"type": "textarea", "from_name": "note", "to_name": "image", "value": {"text": ["since <b>"]}}
            annotation = answered(task, values, id=person, completed_by={"id": person, "email": f"{person}@x"})
            annotation["result"].append(note)
            task.setdefault("annotations", []).append(annotation)
            missing = {name for name, value in values.items() if mode == "graph" and value == "no"}
            locked = {each["name"] for each in elements if missing & set(each["needs"])}
            said[f"label-studio:{person}@x"] = values | dict.fromkeys(locked, "no")
        for task in tasks:
            task["predictions"] = [{"result": answered(task, values)["result"]}]
    store = tmp_path / "m.db"
    file = exported(tmp_path / "ls.json", tasks)
    assert read_annotations(file, store) == Imported(6, 0, 0)
    assert read_annotations(file, store) == Imported(0, 6, 0)
    assert marks_of(store) == said
    with contextlib.closing(Store(store)) as opened:
        assert {row.note for row in opened.answers()} == {"since <b>"}
        form = Elements(mode)
        Service(form.load(data), opened, form, annotators=3, seed=0)


def test_what_is_locked_needs_no_answer_and_what_is_not_does(data: Path, tmp_path: Path) -> None:
    tasks, config = written(data, "graph")
    assert 'whenTagName="mark_{{i}}" whenChoiceValue="yes"' in config
    task = tasks[0]
    relation = next(each for each in numbered(task).values() if each["kind"] == "relation")
    assert relation["text"] == "cat on mat (no where cat or mat is missing)"
    given = {"cat": "no", "mat": "yes", "mat | red": "yes", "dog | loud": "yes", "cat | on | mat": "yes"}
    task["annotations"] = [answered(task, given)]
    store = tmp_path / "m.db"
    read_annotations(exported(tmp_path / "ls.json", [task]), store)
    assert marks_of(store)["label-studio:4"] == {**given, "Cat | black": "no", "cat | on | mat": "no"}
    del given["mat | red"]
    task["annotations"] = [answered(task, given)]
    with pytest.raises(DataError, match=r"task 1, annotation 1: 'mat: red' is one of yes, no: complete or delete it"):
        read_annotations(exported(tmp_path / "ls.json", [task]), tmp_path / "other.db")


def test_edits_count_once_the_newest_stands_and_skipped_tasks_are_no_marks(data: Path, tmp_path: Path) -> None:
    (task, other), _ = written(data, "yes-no")
    questions = ["A cat?", "Is the mat red?"]

    def export(value: str, hour: int, skip: bool = False) -> Path:
        at = f"2026-03-09T{hour:02}:00:00.5Z"
        task["annotations"] = [answered(task, dict.fromkeys(questions, value), updated_at=at, was_cancelled=skip)]
        return exported(tmp_path / "ls.json", [task, other])

    store = tmp_path / "m.db"
    assert read_annotations(export("yes", 10, skip=True), store) == Imported(0, 0, 1)
    assert read_annotations(export("yes", 10), store) == Imported(1, 0, 0)
    assert read_annotations(export("no", 12), store) == Imported(1, 0, 0)
    assert read_annotations(export("cannot tell", 11), store) == Imported(0, 1, 0)
    assert marks_of(store) == {"label-studio:4": dict.fromkeys(questions, "no")}
    with contextlib.closing(Store(store)) as opened:
        assert len(opened.answers(ended=True)) == 2


def test_two_annotations_of_one_person_in_a_file_are_one_the_newer(data: Path, tmp_path: Path) -> None:
    (task, _), _ = written(data, "rating")
    names = [element["name"] for element in task["data"]["elements"]]
    newer = answered(task, dict.fromkeys(names, "9"), id=1, updated_at="2026-03-09T12:00:00Z")
    task["completions"] = [newer, answered(task, dict.fromkeys(names, "2"), id=2, created_at=1600000000)]
    store = tmp_path / "m.db"
    assert read_annotations(exported(tmp_path / "ls.json", [task]), store) == Imported(1, 0, 0)
    assert marks_of(store) == {"label-studio:4": dict.fromkeys(names, "9")}
    assert read_annotations(tmp_path / "ls.json", store) == Imported(0, 1, 0)


def test_a_store_keeps_to_one_mode(data: Path, tmp_path: Path) -> None:
    (task, _), _ = written(data, "yes-no")
    task["annotations"] = [answered(task, {"A cat?": "yes", "Is the mat red?": "no"})]
    marks = exported(tmp_path / "marks.json", [task])
    pairs = exported(tmp_path / "pairs.json", annotated([{"value": {"choices": ["left"]}}]))
    read_annotations(pairs, tmp_path / "pairs.db")
    with pytest.raises(UserError, match=r"pairs\.db has pairs, and the export has yes-no: use another store"):
        read_annotations(marks, tmp_path / "pairs.db")
    read_annotations(marks, tmp_path / "marks.db")
    with pytest.raises(UserError, match=r"marks\.db has yes-no, and the export has pairs"):
        read_annotations(pairs, tmp_path / "marks.db")
    mixed = exported(tmp_path / "mixed.json", [task, *annotated([])])
    with pytest.raises(DataError, match="task 1 of mode yes-no and task 2 of mode pairs: export and import each"):
        read_annotations(mixed, tmp_path / "other.db")


def _with(task: dict[str, Any], **data: Any) -> dict[str, Any]:
    return {**task, "data": {**task["data"], **data}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda task: _with(task, mode="dance"),
            "task 1: mode is one of pairs, yes-no, facets, graph, rating, not 'dance'",
        ),
        (lambda task: _with(task, elements=[]), "the key 'elements' is missing"),
        (lambda task: _with(task, elements="ab"), "not those that `label tasks` wrote"),
        (lambda task: _with(task, elements=[{"name": ["x"]}]), "not those that `label tasks` wrote"),
        (lambda task: _with(task, prompt="\ud800"), "task 1 is not valid UTF-8"),
        (lambda task: {**task, "annotations": {"x": 1}}, "task 1: annotations is a list of objects"),
        (lambda task: {**task, "annotations": [{"result": "x"}]}, "its result is a list of objects"),
        (
            lambda task: {**task, "annotations": [{"result": [{}]}]},
            "annotation 1: 'A cat.' is one of yes, no, cannot tell",
        ),
        (
            lambda task: {**task, "annotations": [{"result": [{}]}, {}]},
            "completed_by does not say who made its 2 annot",
        ),
        (lambda task: task["data"], "task 1 has no data: export the project as JSON"),
    ],
)
def test_a_wrong_export_of_marks_is_refused_and_leaves_no_mark(
    data: Path, tmp_path: Path, change: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (task, _), _ = written(data, "yes-no")
    task["annotations"] = [answered(task, {"A cat?": "yes"})]
    file = exported(tmp_path / "ls.json", [change(task)])
    assert run_command("titjudge", ["label", "import", str(file), str(tmp_path / "m.db")]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert re.search(message, told)
    assert not (tmp_path / "m.db").exists()


def test_the_graphs_of_the_bundled_scenes_are_tasks(example: Path, tmp_path: Path) -> None:
    assert write_tasks(example, tmp_path / "t.json", mode="graph") == (24, [])
    names = {each["name"] for each in numbered(json.loads((tmp_path / "t.json").read_text())[0]).values()}
    assert any(name.count(" | ") == 1 and ": " in name for name in names)
    assert any(name.count(" | ") == 2 for name in names)


def test_the_command_line_goes_out_and_back(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tasks.json"
    assert run_command("titjudge", ["label", "tasks", str(data), str(file), "--mode", "yes-no"]) == 0
    tasks = json.loads(file.read_text())
    for task in tasks:
        task["annotations"] = [answered(task, {"A cat?": "yes", "Is the mat red?": "no"})]
    exported(file, tasks)
    assert run_command("titjudge", ["label", "import", str(file), str(tmp_path / "m.db")]) == 0
    assert "2 annotations read into" in capsys.readouterr().out
    broken = {"image": "gone.png", "prompt_id": "p", "generator": "h"}
    (data / "images.jsonl").write_text((data / "images.jsonl").read_text() + json.dumps(broken) + "\n")
    assert run_command("titjudge", ["label", "tasks", str(data), str(file), "--mode", "yes-no"]) == 0
    said = capsys.readouterr()
    assert "2 tasks written" in said.out
    assert said.err.startswith("1 left out:\n  gone.png: ")
    (data / "prompts.jsonl").write_text('{"prompt_id": "p", "prompt": "t"}\n')
    assert run_command("titjudge", ["label", "tasks", str(data), str(file), "--mode", "yes-no"]) == 2
    assert "nothing to mark in mode yes-no: g 0.png: it has no questions" in capsys.readouterr().err


# -- Label Studio's own library ---------------------------------------------------------------------------------------


def expanded(node: ElementTree.Element, data: Any) -> list[ElementTree.Element]:
    """Write out Repeaters as Label Studio's editor does: once for each entry, with the entry's number for the index flag."""
    if node.tag == "Repeater":
        found: Any = data
        for key in re.findall(r"\w+", node.attrib["on"]):
            found = found[int(key) if key.isdigit() else key]
        return [
            each
            for number in range(len(found))
            for child in node
            for each in expanded(_numbered(child, node.attrib["indexFlag"], number), data)
        ]
    copy = ElementTree.Element(node.tag, node.attrib)
    copy.extend(each for child in node for each in expanded(child, data))
    return [copy]


def _numbered(node: ElementTree.Element, flag: str, number: int) -> ElementTree.Element:
    text = ElementTree.tostring(node, encoding="unicode").replace(flag, str(number))
    return ElementTree.fromstring(text)


@pytest.mark.parametrize("mode", ["pairs", *MODES])
def test_label_studio_takes_the_interface_the_tasks_and_the_annotations(data: Path, mode: str) -> None:
    interface = pytest.importorskip("label_studio_sdk.label_interface", reason="label-studio-sdk is not installed")
    tasks, config = written(data, mode)
    interface.LabelInterface(config).validate()
    for task in tasks:
        (root,) = expanded(ElementTree.fromstring(config), task["data"])
        own = interface.LabelInterface(_with_values(ElementTree.tostring(root, encoding="unicode"), task))
        own.validate()
        assert own.validate_task(task if mode == "pairs" else {"data": {**task["data"]}})
        if mode != "pairs":
            values = {each["name"]: each["values"][-1] for each in numbered(task).values()}
            assert own.validate_annotation(answered(task, values))
            assert not own.validate_annotation(answered(task, dict.fromkeys(values, "11")))


def _with_values(config: str, task: dict[str, Any]) -> str:
    """Put the texts of elements in place of their paths, which the library (unlike the editor) does not follow."""

    def text(match: re.Match[str]) -> str:
        found: Any = task["data"]
        for key in re.findall(r"\w+", match[1]):
            found = found[int(key) if key.isdigit() else key]
        return f'value="{len(found)} characters"'

    return re.sub(r'value="\$(elements[^"]+)"', text, config)


def test_both_bad_can_be_left_out_of_the_tasks(example: Path, tmp_path: Path) -> None:
    write_tasks(example, tmp_path / "tasks.json", both_bad=False)
    assert re.findall(r'Choice value="(\w+)"', (tmp_path / "tasks.xml").read_text()) == ["left", "tie", "right"]
