"""Files are written whole or not at all, and reading says what is wrong."""

import gzip
import os
from pathlib import Path

import pytest

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import JsonlReader, has_lines, load_yaml, locate_jsonl, read_json, read_jsonl, write_atomic


def test_a_file_is_written_whole_in_a_folder_that_is_made(tmp_path: Path) -> None:
    file = tmp_path / "new" / "a.json"
    write_atomic(file, b"one")
    write_atomic(file, "zw\u00f6lf")
    assert file.read_bytes() == "zw\u00f6lf".encode()
    assert os.listdir(file.parent) == ["a.json"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    file.write_text("before")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(file, b"after", sync=True)
    assert file.read_text() == "before"
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "1: not JSON: column 1: '' is not expected. Put texts in double quotes"),
        ("{\n'a': 1}", "2: not JSON: column 1: \"'a': 1}\" is not expected. Put texts in double quotes"),
        ('{"a": "x', "1: not JSON: column 7: it ends too early. Close every quotation mark"),
        ('{"a": "x\ty"}', "1: not JSON: column 9: a line break or a control character in a text. Write"),
        (r'"\q"', "1: not JSON: column 2: an unknown escape in a text. Double the backslash"),
        ("1 2", "1: not JSON: column 3: more text after the value. Remove it"),
        ("[1, nil]", "1: not JSON: column 5: 'nil]' is not expected. Put texts in double quotes"),
        ("[" * 100_000, " not JSON: it is nested too deeply. Flatten it"),
    ],
)
def test_json_faults_have_a_place_and_an_action(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(content)
    with pytest.raises(DataError) as caught:
        read_json(file)
    assert str(caught.value).startswith(f"{file}:{message}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": 1,}', "column 8: a comma before a closing bracket. Remove it"),
        ('{"a": NaN}', "column 7: 'NaN}' is not expected. Put texts in double quotes, write null for NaN"),
        ('{"a": 1', "column 8: it ends too early. Close every quotation mark and bracket"),
    ],
)
def test_json_lines_have_faults_in_the_same_words(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(f"\n{line}\n")
    with pytest.raises(DataError) as caught:
        list(read_jsonl(file))
    assert str(caught.value).startswith(f"{file}:2: not JSON: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("limits:\n\tmax_cost: 1", "line 2: a tab. Indent with spaces"),
        ("a: 1\nb: 'x\nc: 2\n", "line 2: a quotation mark is not closed. Close it"),
        ("a: [1, 2\nb: 3", "line 1: a bracket is not closed, or a comma is missing. Add it"),
        ('a: "\\q"', "line 1: an unknown escape after a backslash. Use single quotes"),
        ("a: 1\nb: *x", "line 2: a special character begins a text. Put the text in quotes"),
        ("a: @x", "line 1: a special character begins a text. Put the text in quotes"),
        ("---\na: 1\n---\nb: 2", "line 3: a second document. Remove it"),
        ("a: 1\nb: c: d", "line 2: a key or a colon in a wrong place. Align the keys"),
        ("a: 1\nb: \x07", "line 2: a control character. Remove it"),
        ("a: 1\na: 2", "line 2: duplicate key 'a'. Remove one of the two"),
    ],
)
def test_yaml_faults_have_a_line_and_an_action(content: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_yaml(content)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{", "not JSON"), (b"[" * 100_000, "not JSON"), (b"\xff\xfe{\0}\0", "UTF-16"), (b'"\xe9"', "not UTF-8")],
)
def test_json_that_cannot_be_read_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_json(file)
    assert str(file) in str(caught.value)
    file.write_bytes(b'\xef\xbb\xbf{"a": [1]}')
    assert read_json(file) == {"a": [1]}


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_is_read_again_at_its_offset(tmp_path: Path, packed: bool) -> None:
    file = tmp_path / "lines.jsonl"
    texts = ["short", "x" * 4095, "é" * 10_000, "", "last"]
    lines = [f'{{"text": "{text}"}}' for text in texts]
    content = ("\ufeff" + "\n".join([*lines[:2], "", *lines[2:]])).encode()
    stored = tmp_path / "lines.jsonl.gz" if packed else file
    stored.write_bytes(gzip.compress(content) if packed else content)
    assert has_lines(file)
    located = [(number, offset) for number, offset, _ in locate_jsonl(file)]
    assert [number for number, _ in located] == [1, 2, 4, 5, 6]
    reader = JsonlReader(file)
    stored.unlink()  # what was opened stays
    assert [reader.read_at(offset)["text"] for _, offset in reversed(located)] == texts[::-1]


def test_a_packed_file_that_is_cut_off_or_no_gzip_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"a": 1}\n' * 100_000)
    for content in (whole[: len(whole) // 2], b"no gzip"):
        (tmp_path / "lines.jsonl.gz").write_bytes(content)
        with pytest.raises(DataError, match="cannot be unpacked"):
            list(locate_jsonl(tmp_path / "lines.jsonl"))


@pytest.mark.parametrize("cell", ["x" * 6000, "long words " * 600])
def test_no_message_quotes_more_than_400_characters_of_a_cell(tmp_path: Path, cell: str) -> None:
    error = DataError(f"the score is a number, not '{cell}'; write one", tmp_path / "t.csv", 7)
    assert error.message.startswith("the score is a number, not '")
    assert error.message.endswith("; write one")
    assert len(error.message) <= 400
    assert f"{tmp_path}/t.csv:7: " in str(error)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-01-01", "2024-01-01"), ("2024-01-01 10:00:00", "2024-01-01 10:00:00"), ("9223372036854775807", 2**63 - 1),
        ("[1, 1.5, true, null, a]", [1, 1.5, True, None, "a"]),
    ],
)  # fmt: skip
def test_yaml_has_the_values_of_json(text: str, value: object) -> None:
    assert load_yaml(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "9" * 5000, str(2**63), "1" + ":59" * 20, ".inf", ".nan", "!!binary aGk=", "!!set {a}", "{1: 2}", "{a: {2024: 1}}", '"\\0"',
        '"\\ud83d"', "!!bool x", "!!python/name:os.system", "[" * 1000,
    ],
)  # fmt: skip
def test_other_values_of_yaml_are_refused(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_yaml(text)
    assert len(str(refused.value)) < 400
