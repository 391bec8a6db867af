"""manifest.json and results.json: what a run writes is what the published schemas say, and damage is one clear line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from pydantic import BaseModel

from titjudge.cli.judge import exit_code
from titjudge.core.errors import DataError
from titjudge.core.paths import run_schema
from titjudge.core.run_records import (
    Manifest,
    MetricResult,
    Results,
    RoleRecord,
    TableRecord,
    joined_pairs,
    stopped_by,
)
from titjudge.core.tables import Table


def unknown_keys(record: Any, where: str = "") -> Iterator[str]:
    if isinstance(record, BaseModel):
        yield from (f"{where}.{key}" for key in record.model_extra or ())
        for name in type(record).model_fields:
            yield from unknown_keys(getattr(record, name), f"{where}.{name}")
    elif isinstance(record, dict | list):
        members = record.items() if isinstance(record, dict) else enumerate(record)
        for key, member in members:
            yield from unknown_keys(member, f"{where}.{key}")


def test_every_key_of_a_run_is_in_the_schema_and_comes_back_as_it_was(judged: Path) -> None:
    for kind, path in ((Manifest, judged / "one" / "manifest.json"), (Results, judged / "one" / "results.json")):
        stored = json.loads(path.read_bytes())
        record = kind.read(path, "")
        assert list(unknown_keys(record)) == []
        assert record.to_json() == stored
        schema = run_schema().with_name(f"{kind.__name__.lower()}.schema.json")
        jsonschema.validate(stored, json.loads(schema.read_bytes()))


def test_unknown_keys_of_a_later_titjudge_are_kept(tmp_path: Path) -> None:
    content = {"status": "complete", "weather": "fine", "roles": {"judge": {"model": "fake/m", "mood": 3}}}
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    assert Manifest.read(tmp_path / "manifest.json", "").with_(spent=1.0).to_json() == content | {"spent": 1.0}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "damaged: Invalid JSON"),
        ("[]", "damaged: must be an object"),
        ('{"roles": {"judge": {"asked": "7"}}}', "damaged: roles.judge.asked: must be a valid integer"),
        ('{"spent": NaN}', "damaged: spent: must be a finite number"),
        ('{"schema_version": 2}', r"a newer titjudge wrote it \(format 2\). Update titjudge"),
    ],
)
def test_damage_is_one_line_that_says_where(content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=says) as caught:
        Manifest.read(tmp_path / "manifest.json", "make it again")
    assert "\n" not in str(caught.value)


def test_what_a_role_did_in_two_sessions_is_summed() -> None:
    def role(version: str, asked: int) -> RoleRecord:
        answered = [{"version": version, "endpoint": "e", "answers": asked}]
        return RoleRecord.model_validate(
            {"model": "m", "answered": answered, "asked": asked, "spent": 0.1, "tokens": {"input": asked}}
        )

    whole = role("a", 2).plus(role("b", 3)).plus(role("a", 4))
    assert (whole.asked, whole.spent, whole.tokens.input) == (9, 0.3, 9)
    assert {each.version: each.answers for each in whole.answered} == {"a": 6, "b": 3}


def test_the_ranks_that_people_gave_are_kept_with_the_pairs() -> None:
    pair = {"prompt_id": "p", "a": "x", "b": "y", "preference": "a", "ranks": [1, 3]}
    (found,) = Results.model_validate({"schema_version": 1, "pairs": [pair]}).human_pairs
    assert found.ranks == (1.0, 3.0)


def test_a_record_is_joined_with_the_keys_of_another() -> None:
    first, second = MetricResult(accuracy=0.5, pairs=4), MetricResult(srcc=None, pairs=5)
    assert first.joined(second).to_json() == {"accuracy": 0.5, "pairs": 5, "srcc": None}
    assert first.to_json() == {"accuracy": 0.5, "pairs": 4}


def test_a_table_whose_values_are_no_json_is_written_all_the_same() -> None:
    table = Table("T", ("a", "b"), ((np.int64(5), Path("x")), (None, 0.5)))
    assert TableRecord.of_table(table).to_json()["rows"] == [["5", "x"], [None, 0.5]]


def test_pairs_of_several_runs_are_as_often_as_in_one_of_them() -> None:
    pair, other = ({"prompt_id": "p", "a": "x", "b": "y", "preference": preference} for preference in "ab")
    one = Results.model_validate({"pairs": [pair, pair, other]})
    two = Results.model_validate({"pairs": [pair, {**pair, "prompt_id": "q"}]})
    assert [(p.prompt_id, p.preference) for p in joined_pairs([one, two])] == [
        ("p", "a"), ("p", "a"), ("p", "b"), ("q", "a"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "why", "code"),
    [
        ("complete", "", 0),
        ("settled", "", 0),
        ("incomplete: budget", "budget", 3),
        ("incomplete: interrupted", "interrupted", 130),
        ("incomplete: disk (no space left, the budget interrupted)", "disk", 1),
        ("incomplete: shard 2/3 missing", "shard", 1),
        ("failed: the download was interrupted, budget and disk are fine", "", 1),
    ],
)
def test_the_first_word_of_a_status_decides(status: str, why: str, code: int) -> None:
    assert stopped_by(status) == why
    assert exit_code(status) == code
