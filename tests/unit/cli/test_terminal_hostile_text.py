"""Text of other people stays text: on the terminal, in spreadsheets, in YAML, in the environment of programs."""

import csv
import io
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import write_lines
from PIL import Image

from titjudge.cli.commands import run_command
from titjudge.cli.output import show_tables
from titjudge.cli.terminal import printable
from titjudge.core.config import RoleConfig, load_config
from titjudge.core.errors import ConfigError
from titjudge.core.files import csv_text, load_yaml, read_yaml, scan_csv
from titjudge.core.prompts import PromptLibrary
from titjudge.core.serialization import MAX_PROMPT, storable
from titjudge.core.types import InvalidItem, Item, Table
from titjudge.providers.learned.subprocess import run

ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\x1b]52;c;ZXZpbA==\x07\u202e\r\x7f"
MARKS = ("\x1b", "\x07", "\x9b", "\u202e", "\r", "\x7f")


# -- terminal ----------------------------------------------------------------------------------------------------------


def test_control_characters_are_shown_and_not_sent() -> None:
    assert printable("a\x1b[2Jb\n\tc\u202e ä 🐈") == "a\\x1b[2Jb\n\tc\\u202e ä 🐈"


@pytest.mark.parametrize("terminal", [True, False])
def test_tables_carry_no_escape_sequences(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    show_tables(
        [Table(f"title {ESCAPES}", (f"column {ESCAPES}", "n"), ((f"cell {ESCAPES}\nrow", 1),), (f"note {ESCAPES}",))]
    )
    out = capsys.readouterr().out
    assert "\\x1b" in out
    assert not [mark for mark in MARKS if mark in out]


def test_a_run_and_its_errors_send_no_escape_sequences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "0.png")
    lines = [
        {"image": "0.png", "prompt": "x", "generator": f"gen {ESCAPES}"},
        {"image": f"missing {ESCAPES}.png", "prompt": "x", "generator": "g2"},
    ]
    write_lines(tmp_path / "m.jsonl", *lines)
    arguments = ["judge", "--data", str(tmp_path / "m.jsonl"), "--metric", "lmm-score", "--captioner", "fake"]
    arguments += ["--set", f"cache={tmp_path / 'c'}", "--out", str(tmp_path / "run"), "--no-report"]
    assert run_command("titjudge", arguments) == 4
    assert run_command("titjudge", ["judge", "--data", f"none {ESCAPES}"]) == 2
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert "\\x1b" in text
        assert not [mark for mark in MARKS if mark in text]


# -- spreadsheets ------------------------------------------------------------------------------------------------------

FORMULAS = ("=1+1", "+cmd", "-2", "@SUM(A1)", "\t=1", "\r=1", "x\r=1+1\r\n=2", 'a"b,c', "plain", "'quoted'", "a\0b")


def test_no_cell_is_a_formula_and_none_breaks_out(tmp_path: Path) -> None:
    text = csv_text(("a", "b", "c"), [(cell, -1.5, None) for cell in FORMULAS])
    assert "\r" not in text
    assert "\0" not in text
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert len(rows) == len(FORMULAS) + 1
    assert not [row for row in rows if row[0].startswith(("=", "+", "-", "@", "\t"))]
    assert {(row[1], row[2]) for row in rows[1:]} == {("-1.5", "")}
    (tmp_path / "t.csv").write_text(text)
    back = [record["a"] for _, record in scan_csv(tmp_path / "t.csv") if isinstance(record, dict)]
    assert back[:5] == list(FORMULAS[:5])  # as they were
    assert back[7:10] == list(FORMULAS[7:10])


# -- YAML --------------------------------------------------------------------------------------------------------------

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limits: {max_cost: 1}\njudge: fake\nlimits: {rpm: 5}\n", "line 3: duplicate key 'limits'. Remove one"),
        ("limits:\n  max_cost: 1\n  max_cost: 2\n", "duplicate key 'max_cost'"),
        (BOMB, "expand to more than 100,000 values"),
        ("a: " + "[" * 3000 + "]" * 3000, "nested"),
        ("a: " + "[" * 60 + "]" * 60, "nested more than 50 levels deep"),
        ("a: &a [*a]\n", "contains itself"),
        ("a: [", "line 1: a bracket is not closed"),
        ("a: !!python/object/apply:os.getcwd []", "line 1: a special character begins a text. Put"),
    ],
)
def test_yaml_that_nobody_means_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        read_yaml(tmp_path / "run.yaml", "a configuration")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_aliases_and_merges_that_people_write_are_read() -> None:
    text = "base: &b {model: fake, temperature: 0}\njudge:\n  <<: *b\n  temperature: 1\npanel: [*b, *b]\n"
    base = {"model": "fake", "temperature": 0}
    assert load_yaml(text) == {"base": base, "judge": {"model": "fake", "temperature": 1}, "panel": [base, base]}


def test_front_matter_of_a_prompt_says_every_key_once(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "p.md").write_text("---\nversion: 1\nvars: []\nversion: 2\n---\nx\n")
    with pytest.raises(ConfigError, match="duplicate key 'version'"):
        PromptLibrary(tmp_path).get("mine/p")


def test_what_a_wrong_key_was_given_is_shown_short() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, {"samples": ["x" * 10_000], "judge": "fake"})
    assert len(str(caught.value)) < 300
    with pytest.raises(ConfigError) as caught:
        load_config(None, {"samples": "x" * 10_000, "judge": "fake"})
    assert len(str(caught.value)) < 300


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_a_key_in_an_address_is_in_no_label_of_a_sweep() -> None:
    from titjudge.runs.study.sweep import _label

    role = RoleConfig(model="openai/m", base_url="http://bob:S3CRETPASS@host/v1?api-key=S3CRETQUERY, http://b/v1")
    label = _label(role)
    assert "S3CRET" not in label
    assert "bob" not in label
    assert "host/v1" in label
    assert "b/v1" in label


def test_a_program_of_the_person_sees_no_secrets_but_those_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from titjudge.providers.learned.external import _environment

    for name in ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "MY_OWN_SECRET", "MY_OTHER", "DATABASE_URL"):
        monkeypatch.setenv(name, "S3CRET")
    monkeypatch.setenv("HF_HOME", "/cache")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("LC_ALL", "C")
    seen = _environment(("MY_OTHER",))
    assert [name for name, value in seen.items() if value == "S3CRET"] == ["MY_OTHER"]
    assert {"PATH", "HF_HOME", "CUDA_VISIBLE_DEVICES", "LC_ALL"} <= seen.keys()
    assert {"MY_OTHER", "MY_OWN_SECRET"} <= _environment(("MY_*",)).keys()
    words = [sys.executable, "-c", "import os; print('S3CRET' in os.environ.values())"]
    outcome = run(words, b"", timeout=60, limit=1000, environment=_environment(()))
    assert outcome.output.strip() == b"False"


# -- servers -----------------------------------------------------------------------------------------------------------


def test_answers_of_label_and_view_do_not_wait_for_acknowledgements() -> None:
    from titjudge.web.http_guard import listen

    with listen("127.0.0.1", 0) as sock:
        assert sock.proto == socket.IPPROTO_TCP  # asyncio turns Nagle's algorithm off for sockets that say so


def test_pairs_are_shuffled_once_and_not_at_every_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    from titjudge.apps.label import queues

    shuffles: list[Any] = []
    real = queues.shuffled
    monkeypatch.setattr(queues, "shuffled", lambda *args: shuffles.append(args) or real(*args))
    images = [f"shuffled-once-{number}" for number in range(12)]
    outcomes: dict[tuple[str, ...], int] = {}
    asked = []
    for left in range(66, 0, -1):
        found = queues.all_pairs(images, outcomes)
        assert found.question is not None
        assert found.at_most == left
        asked.append(found.question)
        outcomes[found.question] = 1
        outcomes[found.question[::-1]] = -1  # both directions may stand there
    assert queues.all_pairs(images, outcomes).question is None
    assert sorted(asked) == sorted((a, b) for at, a in enumerate(images) for b in images[at + 1 :])
    assert len(shuffles) == 1


def test_an_endless_prompt_is_no_prompt() -> None:
    assert storable(Item("a.png", "w" * MAX_PROMPT, None)).id == "a.png"
    endless = storable(Item("b.png", "w" * (MAX_PROMPT + 1), None, generator="g", prompt_id="p"))
    assert endless == InvalidItem(
        "b.png", "the prompt has 1,000,001 characters, more than 1,000,000. Shorten it", "g", "p"
    )
