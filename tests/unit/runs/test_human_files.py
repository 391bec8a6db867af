"""Votes from files, good and bad."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from titjudge.core.errors import DataError
from titjudge.runs.study.human_files import COLUMNS, pair_records, read_votes
from titjudge.stats.people.votes import Vote, aggregate_votes

HEADER = ",".join(COLUMNS)


def test_csv_and_json_lines_say_the_same(tmp_path: Path) -> None:
    votes = [Vote("p,1", "x", "y", "ann", "a"), Vote("p,1", "x", "y", "bob", "b"), Vote("p,1", "x", "y", "eve", "tie")]
    table = tmp_path / "votes.csv"
    table.write_text(
        f'\ufeff{HEADER},time\n"p,1",x,y,ann,A,1\n"p,1",x,y,bob,right,2\n\n"p,1",x,y,eve, Tie,3\n', "utf-8"
    )
    lines = tmp_path / "votes.jsonl"
    rows = [dict(zip(COLUMNS, (v.prompt_id, v.a, v.b, v.annotator, v.choice), strict=True)) for v in votes]
    lines.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", "utf-8")
    assert read_votes(table) == read_votes(lines) == votes


def test_numbers_as_ids_are_text(tmp_path: Path) -> None:
    file = tmp_path / "votes.jsonl"
    file.write_text('{"prompt_id": 3, "image_a": 1, "image_b": 2, "annotator": 7, "preference": "left"}')
    assert read_votes(file) == [Vote("3", "1", "2", "7", "a")]


def test_decided_pairs_become_records() -> None:
    found = aggregate_votes([Vote("p", "x", "y", f"n{k}", "b") for k in range(15)])
    assert pair_records(found.pairs) == [
        {"prompt_id": "p", "image_a": "x", "image_b": "y", "preference": "b", "source": "votes: consensus"}
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.csv", b"", "v.csv:1: the column 'prompt_id' is missing (there are: none)"),
        ("v.csv", b"prompt_id,image_a,image_b,annotator\n", "the column 'preference' is missing"),
        ("v.csv", HEADER.encode() + b"\np,x,y,ann\n", "v.csv:2: 4 cells where the first line has 5 columns"),
        ("v.csv", HEADER.encode() + b"\np,x,y,,a\n", "v.csv:2: 'annotator' is missing"),
        ("v.csv", HEADER.encode() + b"\np,x,y,ann,a\np,x,y,bob,better\n", "v.csv:3: preference 'better'"),
        ("v.csv", HEADER.encode() + b"\np,x,y,\xff,a\n", "not UTF-8"),
        ("v.jsonl", b"\xff", "not a JSON object in UTF-8"),
        ("v.jsonl", b"\n[1]\n", "v.jsonl:2: every line is a JSON object"),
        ("v.jsonl", b"{", "v.jsonl:1: not a JSON object"),
        ("v.jsonl", b'{"prompt_id": "p", "image_a": true}', "the key 'image_b' is missing"),
        ("v.jsonl", b"[" * 100_000, "not a JSON object"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_votes(tmp_path / name)
    assert message in str(caught.value)


def test_a_missing_file_is_a_user_error(tmp_path: Path) -> None:
    for name in ("none.csv", "none.jsonl"):
        with pytest.raises(DataError, match=rf"{name}: .*No such file"):
            read_votes(tmp_path / name)
