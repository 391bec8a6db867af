"""A note is found by its id, so that its words can be improved: every kind has one, of its own."""

import ast
import copy
import json
import pickle
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from titjudge.core.tables import Note

PACKAGE = Path(__file__).parents[2] / "titjudge"


def notes() -> Iterator[tuple[str, ast.Call]]:
    """Every place that makes a note."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Note":
                yield f"{file.relative_to(PACKAGE).as_posix()}:{node.lineno}", node


def test_each_kind_of_note_has_an_id_of_its_own() -> None:
    made = dict(notes())
    ids = {place: node.args[0].value for place, node in made.items() if isinstance(node.args[0], ast.Constant)}
    kept = [node for node in made.values() if isinstance(node.args[0], ast.Attribute) and node.args[0].attr == "id"]
    assert len(ids) + len(kept) == len(made), sorted(made.keys() - ids.keys())
    assert {id: count for id, count in Counter(ids.values()).items() if count > 1} == {}
    assert {place: id for place, id in ids.items() if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", id)} == {}
    assert "images_outside_pattern" in ids.values()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda note: pickle.loads(pickle.dumps(note))])  # noqa: S301
def test_a_note_is_a_text_that_keeps_its_id(copied) -> None:
    note = Note("pairs_empty", "pairs.jsonl is empty")
    assert (copied(note), copied(note).id) == ("pairs.jsonl is empty", "pairs_empty")
    assert [kept.id for kept in {**dict.fromkeys([note, note])}] == ["pairs_empty"]
    assert json.dumps([note]).encode() == b'["pairs.jsonl is empty"]'
    assert orjson.dumps([note]) == b'["pairs.jsonl is empty"]'
    assert f"{note}; {'; '.join([note])}" == "pairs.jsonl is empty; pairs.jsonl is empty"
