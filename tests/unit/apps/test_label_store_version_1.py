"""Stores of version 1, which kept pairs and marks apart, made and exported by the program of then: all goes on as before.

Only alpha of pairs is the number of today, with chance agreement over both orders of a pair.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from labelling_data import VERSION_1, version_1_data, version_1_store

from titjudge.apps.label.export import export_labels
from titjudge.apps.label.forms import collect
from titjudge.apps.label.label_studio import write_tasks
from titjudge.apps.label.questions import Form
from titjudge.apps.label.service import Service
from titjudge.apps.label.store import Store
from titjudge.core.types import Pair

NAMES = sorted(file.stem for file in VERSION_1.glob("*.sql"))
SHARES = {"pairs-all": 1 / 3, "yes-no": 0.25}
KNOWN = "image,element,value\np2n0.png,a CAT?,yes\np2n1.png,Is the mat red?,no\n"
EXPORTS: dict[str, dict[str, Any]] = {
    "export-least-0": {"least": 0.0},
    "export-annotators-3": {"annotators": 3},
    "export-annotators-4": {"annotators": 4},
}


def expected(name: str) -> dict[str, Any]:
    """What the program of then exported, and what its pages showed to annotators and experts."""
    record: dict[str, Any] = json.loads((VERSION_1 / f"{name}.json").read_text(encoding="utf-8"))
    return record


@pytest.mark.parametrize("name", NAMES)
def test_each_exported_file_is_the_same_byte_by_byte(tmp_path: Path, name: str) -> None:
    store = version_1_store(tmp_path / "store.sqlite", name)
    gold = tmp_path / "gold.csv"
    gold.write_text(KNOWN)
    for export, then in expected(name)["exports"].items():
        rules = {"gold": gold} if export == "export-gold" else EXPORTS.get(export, {})
        tables = export_labels(store, tmp_path / export, **rules).tables
        shown = [[table.title, table.columns, table.rows, table.notes] for table in tables]
        assert rounded(json.loads(json.dumps(shown))) == rounded(then["tables"])
        files = {file.name: file.read_text(encoding="utf-8") for file in (tmp_path / export).iterdir()}
        assert {file: compared(file, files[file]) for file in then["files"]} == {
            file: compared(file, text) for file, text in then["files"].items()
        }
        assert export != "export" or files.keys() == then["files"].keys()


def rounded(value: Any) -> Any:
    """The last digit of alpha was another one on each processor then."""
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return round(value, 12) if isinstance(value, float) else value


def compared(file: str, text: str) -> Any:
    """The text of a file; of the one that holds alpha its content."""
    return rounded(json.loads(text)) if file == "labels.json" else text


def shown_to(service: Service) -> dict[str, Any]:
    """What the page of each person shows, with images in place of their codes."""
    states = {}
    for who in service.names:
        state = service.state(who)
        sheet = state["sheet"]
        asked = sheet and {key: sheet[key] for key in ("note", "elements", "said", "notes") if key in sheet}
        states[who] = {key: state[key] for key in ("done", "at_most", "stopped")} | {
            "upcoming": [service._images[code] for code in state["upcoming"]],
            "asked": asked and {"images": [service._images[code] for code in sheet["images"]], **asked},
        }
    return json.loads(json.dumps(states))


def shown_then(name: str, role: str) -> dict[str, Any]:
    """The same of the program of then, whose notes on pairs came in parts and in another order."""
    states: dict[str, Any] = expected(name)["states"].get(role, {})
    for state in states.values():
        asked = state["asked"] or {}
        for key in [key for key, value in asked.items() if value is None]:
            del asked[key]
        if "notes" in asked and "elements" not in asked:
            asked["notes"] = sorted(f"{answer.replace('_', ' ')}: {note}" for answer, note in asked["notes"])
    return states


def serve(data: Path, store: Store, form: Form, annotators: int, **rules: Any) -> Service:
    dataset = form.load(data)
    dataset.gold = tuple(Pair(pair.prompt_id, pair.a, pair.b, pair.preference) for pair in form.gold)
    return Service(dataset, store, form, annotators=annotators, seed=3, **rules)


@pytest.mark.parametrize("name", NAMES)
def test_annotators_go_on_where_they_were(tmp_path: Path, name: str) -> None:
    path = version_1_store(tmp_path / "store.sqlite", name)
    labelling = collect(path)
    rules = {"votes": labelling.enough, "gold_share": SHARES.get(name)}
    with contextlib.closing(Store(path)) as store:
        service = serve(version_1_data(tmp_path / "data"), store, labelling.form, labelling.annotators, **rules)
        assert shown_to(service) == shown_then(name, "annotators")


@pytest.mark.parametrize("name", ["pairs-all", "yes-no", "graph"])
def test_experts_go_on_where_they_were(tmp_path: Path, name: str) -> None:
    data, path = version_1_data(tmp_path / "data"), version_1_store(tmp_path / "store.sqlite", name)
    labelling = collect(path)
    dataset = labelling.form.load(data)
    form = labelling.form.for_experts(labelling, dataset, None)
    with contextlib.closing(Store(path)) as store:
        shown = shown_to(Service(dataset, store, form, annotators=2, seed=3))
    for state in shown.values():
        if name == "pairs-all" and state["asked"]:
            state["asked"]["notes"].sort()
    assert shown == shown_then(name, "experts")


def test_a_store_of_version_1_is_copied_once_and_its_tables_stay(tmp_path: Path) -> None:
    path = version_1_store(tmp_path / "store.sqlite", "pairs-merge")
    for _ in range(2):
        with contextlib.closing(Store(path)) as store:
            rows = {
                table: store._read(f"SELECT count(*) FROM {table}")[0][0] for table in ("answers", "votes", "undos")
            }
            assert rows["answers"] == rows["votes"] + rows["undos"]
            assert store.setting("schema_version") == "2"


def test_tasks_for_label_studio_are_the_same_byte_by_byte(tmp_path: Path) -> None:
    data = version_1_data(tmp_path / "data")
    then: dict[str, str] = json.loads((VERSION_1 / "tasks.json").read_text(encoding="utf-8"))
    for mode in ("pairs", "yes-no", "facets", "graph", "rating"):
        write_tasks(data, tmp_path / f"{mode}.json", mode=mode, seed=2, address="/data/?d=", both_bad=mode != "pairs")
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in then} == then
