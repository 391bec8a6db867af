"""The keys of `Item.meta`: their values are checked in one place, and no other file reads one by its name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import titjudge
from titjudge.core import item_meta, registry
from titjudge.core.errors import DataError
from titjudge.core.types import Item

PACKAGE = Path(titjudge.__file__).parent


def item(**meta: object) -> Item:
    return Item("a.png", "a fox", None, meta=meta)


def test_a_value_is_taken_as_it_is_or_by_its_form() -> None:
    assert item_meta.LEVEL.get(item(level="two"), 0) == "two"
    assert item_meta.LEVEL.get(item(), 0) == 0
    assert item_meta.LEVEL.checked(item()) is None
    assert item_meta.LEVEL.required(item(level=2)) == 2
    assert item_meta.without(item(level=2, type="x"), item_meta.LEVEL) == {"type": "x"}


@pytest.mark.parametrize(
    ("meta", "key", "message"),
    [
        ({}, item_meta.CONCEPTS, "the item has no concepts. Add a list of texts"),
        ({"concepts": "a fox"}, item_meta.CONCEPTS, "'concepts' must be a list of texts, not 'a fox'"),
        ({"level": True}, item_meta.LEVEL, "'level' must be a whole number, not True"),
        ({"text_words": ["a", " "]}, item_meta.TEXT_WORDS, "'text_words' must be a list of words, not ['a', ' ']"),
        ({"graph": []}, item_meta.GRAPH, "'graph' must be an object, not []"),
        ({"align_ratio": float("nan")}, item_meta.ALIGN_RATIO, "'align_ratio' must be a number, not nan"),
    ],
)
def test_an_error_names_the_key_and_its_form_in_one_line(
    meta: dict[str, object], key: item_meta.MetaKey[object], message: str
) -> None:
    with pytest.raises(DataError) as error:
        key.required(item(**meta))
    assert error.value.message == message


def test_what_metrics_need_are_known_keys() -> None:
    needs = {key for name in registry.TABLES["metrics"] for key in registry.load("metrics", name).needs}
    assert needs <= item_meta.KEYS.keys()


def is_meta(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "meta") or (
        isinstance(node, ast.Name) and node.id == "meta"
    )


def is_get(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("get", "pop", "setdefault") and is_meta(node.value)


def literal_keys(source: str) -> Iterator[str]:
    """The keys in quotes by which `meta` is read: `meta["key"]`, `meta.get("key")` and `"key" in meta`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and is_meta(node.value):
            key: ast.AST = node.slice
        elif isinstance(node, ast.Call) and is_get(node.func) and node.args:
            key = node.args[0]
        elif isinstance(node, ast.Compare) and is_meta(node.comparators[0]):
            key = node.left
        else:
            continue
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value


def test_the_search_for_keys_in_quotes_finds_them() -> None:
    source = """item.meta["a"], item.meta.get("b", 0), "c" in item.meta, meta["d"], item.meta[KEY], KEY.get(item)"""
    assert sorted(literal_keys(source)) == ["a", "b", "c", "d"]


def test_no_other_file_reads_meta_by_a_key_in_quotes() -> None:
    sources = {file: file.read_text("utf-8") for file in PACKAGE.rglob("*.py")}
    assert [(file, key) for file, source in sources.items() if "meta" in source for key in literal_keys(source)] == []
