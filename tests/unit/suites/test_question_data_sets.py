"""A suite may read several sets of prompts, join a table, and take questions from objects by their ids."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from titjudge.core import registry
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import InvalidItem, Item, Score

SUITE: dict[str, Any] = {
    "name": "two-sets",
    "summary": "Two sets.",
    "images": ["images/{part}/{generator}/{prompt_id}"],
    "prompts": {
        "files": ["asked.json"],
        "id": "$key",
        "join": {"file": "prompts.csv", "where": {"use": "yes"}},
        "fields": {"part": "=a", "theme": "theme"},
        "unique": "{part}/{prompt_id}",
    },
    "sets": [
        {"questions": {"question": "question", "parents": "parents"}},
        {"prompts": {"files": ["said.json"], "prompt": "$value", "fields": {"part": "=b"}}},
    ],
    "tables": [
        {"title": "Answers", "by": "theme", "where": {"part": ["a"]}},
        {"title": "Likeness, by {metric}", "metric": "further", "where": {"part": ["b"]}},
    ],
}


def made(folder: Path, **changes: Any) -> Any:
    (folder / "suite.yaml").write_text(yaml.safe_dump({**SUITE, **changes}))
    return registry.load("suites", str(folder / "suite.yaml"))()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "prompts.csv").write_text("id,prompt,theme,use\n1,a cat,pets,yes\n2,a dog,pets,no\n")
    asked = {"question": {"x": "A cat?", "y": "Red?"}, "parents": json.dumps({"y": ["x"]})}
    (tmp_path / "asked.json").write_text(json.dumps({"1": asked, "2": asked}))
    (tmp_path / "said.json").write_text(json.dumps({"1": "Meow."}))
    for part in "ab":
        (tmp_path / f"images/{part}/g").mkdir(parents=True)
        (tmp_path / f"images/{part}/g/1.png").write_bytes(b"")
    return tmp_path


def test_sets_are_read_with_the_columns_of_the_joined_table(data: Path) -> None:
    suite = made(data)
    found = list(suite.load(data))
    items = [item for item in found if isinstance(item, Item)]
    assert [(item.prompt_id, item.prompt, item.meta["theme"]) for item in items] == [
        ("a/1", "a cat", "pets"),
        ("b/1", "Meow.", "pets"),
    ]
    asked = items[0].meta["asked"]["questions"]
    assert [(each["id"], each["question"], each.get("parents", [])) for each in asked] == [
        ("x", "A cat?", []),
        ("y", "Red?", ["x"]),
    ]
    assert "asked" not in items[1].meta
    (lacking,) = [item.reason for item in found if isinstance(item, InvalidItem)]
    assert lacking.startswith("asked.json:2: ")
    assert "prompts.csv" in lacking


def test_a_table_for_each_further_metric_that_scored_its_images(data: Path) -> None:
    suite = made(data)
    items = [item for item in suite.load(data) if isinstance(item, Item)]
    first, second = (item.id for item in items)
    scores = [Score(first, "questions", 1.0), Score(second, "clipscore", 0.5), Score(first, "questions [a/b]", 0.0)]
    answers, likeness = suite.aggregate(items, scores)
    assert (answers.title, answers.rows) == ("Answers", (("g", 1, 1, 100.0, 100.0),))
    assert (likeness.title, likeness.rows) == ("Likeness, by clipscore", (("g", 1, 1, 50.0),))


def test_images_of_a_set_without_prompts_are_left_out_and_a_table_without_images_is_none(data: Path) -> None:
    (data / "images/c/g").mkdir(parents=True)
    (data / "images/c/g/1.png").write_bytes(b"")
    (data / "images/b/g/1.png").unlink()
    suite = made(data)
    found = list(suite.load(data))
    assert not [item for item in found if item.id.startswith("c/")]
    assert any(note.id == "images_outside_pattern" for note in suite.notes)
    items = [item for item in found if isinstance(item, Item)]
    tables = suite.aggregate(items, [Score(items[0].id, "clipscore", 0.5)])
    assert [table.title for table in tables] == ["Answers"]


def test_a_column_of_questions_beside_an_object_is_an_object(data: Path) -> None:
    (data / "asked.json").write_text(json.dumps({"1": {"question": {"x": "A cat?"}, "parents": "x"}}))
    (wrong,) = [item for item in made(data).load(data) if isinstance(item, InvalidItem) and "asked" in item.id]
    assert "'parents' must be an object" in wrong.reason


def test_rows_that_do_not_count_need_no_joined_row_and_ids_may_be_in_objects(data: Path) -> None:
    rows = [{"at": {"id": 1}, "use": "yes", "question": {"x": "A cat?"}}, {"at": {"id": 7}, "use": "no"}]
    (data / "asked.json").write_text(json.dumps(rows))
    prompts = {**SUITE["prompts"], "id": "at.id", "where": {"use": "yes"}}
    suite = made(data, prompts=prompts, sets=[{"questions": {"question": "question"}}], tables=[{"title": "x"}])
    found = list(suite.load(data))
    assert [item.prompt_id for item in found if isinstance(item, Item)] == ["a/1"]
    assert not [item for item in found if isinstance(item, InvalidItem)]


@pytest.mark.parametrize("table", ["id,prompt\n1,a cat\n", "number,prompt,use\n1,a cat,yes\n"])
def test_a_joined_table_without_a_column_is_named(data: Path, table: str) -> None:
    (data / "prompts.csv").write_text(table)
    with pytest.raises(DataError, match=r"prompts\.csv: .*(use|id)"):
        list(made(data).load(data))


def test_a_joined_table_that_is_not_there_is_named(data: Path) -> None:
    (data / "prompts.csv").unlink()
    with pytest.raises(DataError, match=r"prompts\.csv"):
        list(made(data).load(data))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sets": [{"promts": {}}]}, "sets.promts"),
        ({"sets": [{"prompts": {"join": {"fle": "x"}}}]}, "fle"),
        ({"also": ["clipscores"]}, "clipscore"),
        ({"tables": [{"title": "x", "metric": "tit"}]}, "tables.0.metric"),
    ],
)
def test_a_wrong_key_is_named(data: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        made(data, **changes)


def test_a_pattern_of_images_needs_the_fields_that_make_ids_unique(data: Path) -> None:
    made(data)
    with pytest.raises(ConfigError, match=r"\{part\}"):
        registry.load("suites", str(data / "suite.yaml"))(images="out/{generator}/{prompt_id}.png")
