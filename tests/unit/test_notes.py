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

from titjudge.core.run_records import Results, TableRecord
from titjudge.core.tables import Note, Table

PACKAGE = Path(__file__).parents[2] / "titjudge"
COLLECTED = re.compile(r"(\w*_)?(notes|warnings|explanation)")
OTHERS = {"apps/prompt_sets/review/annotations.py", "metrics/agent/state.py"}  # words of people, and words for a model


def nodes() -> Iterator[tuple[str, ast.AST]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        yield from ((f"{name}:{getattr(node, 'lineno', 0)}", node) for node in ast.walk(ast.parse(file.read_bytes())))


def named(node: ast.AST) -> str:
    return str(getattr(node, "id", getattr(node, "attr", getattr(node, "arg", getattr(node, "name", "")))))


def plain(node: ast.AST | None) -> bool:
    """Return True for a text, and for a collection with one."""
    match node:
        case ast.List() | ast.Tuple() | ast.Set():
            return any(map(plain, node.elts))
        case ast.Dict():
            return any(map(plain, node.keys))
        case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
            return plain(node.elt)
        case ast.IfExp():
            return plain(node.body) or plain(node.orelse)
        case ast.BinOp():
            return plain(node.left) or plain(node.right)
        case ast.Starred() | ast.NamedExpr():
            return plain(node.value)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def without_id(node: ast.AST) -> bool:
    """Return True if a collection of notes is declared for texts, or gets one."""
    match node:
        case ast.AnnAssign(target=of, annotation=declared, value=value) if COLLECTED.fullmatch(named(of)):
            return plain(value) or re.search(r"\bstr\b", ast.unparse(declared)) is not None
        case ast.arg(annotation=ast.AST() as declared) if COLLECTED.fullmatch(node.arg):
            return re.search(r"\bstr\b", ast.unparse(declared)) is not None
        case ast.FunctionDef(returns=ast.AST() as declared) if COLLECTED.fullmatch(node.name):
            return re.search(r"\bstr\b", ast.unparse(declared)) is not None
        case ast.Call(func=ast.Attribute(value=of, attr="append" | "extend" | "insert" | "update"), args=given):
            return COLLECTED.fullmatch(named(of)) is not None and any(map(plain, given))
        case ast.Assign(targets=[of], value=value) | ast.AugAssign(target=of, value=value):
            if isinstance(of, ast.Subscript):
                return COLLECTED.fullmatch(named(of.value)) is not None and plain(of.slice)
            return COLLECTED.fullmatch(named(of)) is not None and plain(value)
        case ast.keyword(arg="notes" | "warnings" | "explanation"):
            return plain(node.value)
        case ast.Call(func=ast.Name(id="Table"), args=[_, _, _, below, *_]):
            return plain(below)
    return False


@pytest.mark.parametrize(
    "code",
    [
        "notes.append('seen')",
        "result.notes += [f'{a} seen']",
        "self._notes['seen'] = None",
        "warnings = ['seen'] if a else []",
        "warnings: list[str] = []",
        "def family_notes(prompts: list[str]) -> list[str]: ...",
        "def f(extra_warnings: Sequence[str] = ()): ...",
        "Table('t', (), (), ('seen',))",
        "replace(table, notes=(*table.notes, f'{a} seen'))",
        "Table('t', (), (), explanation=('seen',))",
    ],
)
def test_a_note_without_an_id_is_noticed(code: str) -> None:
    assert any(map(without_id, ast.walk(ast.parse(code))))


def test_each_note_is_collected_with_an_id() -> None:
    found = [place for place, node in nodes() if without_id(node) and place.partition(":")[0] not in OTHERS]
    assert found == []


def test_each_kind_of_note_has_an_id_of_its_own() -> None:
    made = {place: node.args[0] for place, node in nodes() if isinstance(node, ast.Call) and named(node.func) == "Note"}
    ids = {place: id.value for place, id in made.items() if isinstance(id, ast.Constant)}
    passed_on = [id for id in made.values() if isinstance(id, ast.Attribute) and id.attr == "id"]
    assert len(ids) + len(passed_on) == len(made), sorted(made.keys() - ids.keys())
    assert {id: count for id, count in Counter(ids.values()).items() if count > 1} == {}
    assert {place: id for place, id in ids.items() if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", id)} == {}
    assert {"images_outside_pattern", "cap_passed", "no_better_than_guessing"} <= {*ids.values()}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda note: pickle.loads(pickle.dumps(note))])  # noqa: S301
def test_a_note_is_a_text_that_keeps_its_id(copied) -> None:
    note = Note("pairs_empty", "pairs.jsonl is empty")
    assert (copied(note), copied(note).id) == ("pairs.jsonl is empty", "pairs_empty")
    assert [kept.id for kept in {**dict.fromkeys([note, note])}] == ["pairs_empty"]
    assert json.dumps([note]).encode() == b'["pairs.jsonl is empty"]'
    assert orjson.dumps([note]) == b'["pairs.jsonl is empty"]'
    assert f"{note}; {'; '.join([note])}" == "pairs.jsonl is empty; pairs.jsonl is empty"


def test_a_record_keeps_the_id_and_writes_the_text_alone() -> None:
    note, told = Note("pairs_empty", "pairs.jsonl is empty"), Note("about_ndcg", "nDCG: a number")
    results = Results(warnings=[note], tables=[TableRecord.of_table(Table("t", (), (), (note,), explanation=(told,)))])
    assert [each.id for each in (*results.warnings, *results.tables[0].notes)] == [
        "pairs_empty",
        "about_ndcg",
        "pairs_empty",
    ]
    read = Results.model_validate_json(results.model_dump_json())
    assert (read.warnings, read.warnings[0].id) == (["pairs.jsonl is empty"], "")
    assert read.model_dump() == results.model_dump()
    assert results.model_json_schema()["properties"]["warnings"]["items"] == {"type": "string"}
