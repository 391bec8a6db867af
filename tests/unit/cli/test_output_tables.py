from __future__ import annotations

import io
import re
import sys

import click
import pytest

from titjudge.cli.output import show_notes, show_tables
from titjudge.core.types import Table

WIDE = Table(
    "Agreement",
    ("metric", "accuracy", "to beat guessing", "SRCC", "coverage"),
    (("tit-llm", "88.9% [72.2, 100.0]", "24 of 36 (66.7%)", 0.833, None),),
    ("a note on how to read this that is longer than the terminal is wide",),
)
LONG = Table("metrics", ("metric", "what it is"), (("tit", "cosine between the embeddings of prompt and description"),))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(table: Table, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    out = Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", out)
    show_tables([table])
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()


def test_a_narrow_terminal_gets_one_line_a_cell_and_no_broken_word(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(WIDE, 40, monkeypatch)
    assert any(line.split() == ["accuracy", "88.9%", "[72.2,", "100.0]"] for line in lines)
    assert any(line.split() == ["coverage", "-"] for line in lines)
    assert max(map(len, lines)) <= 40


def test_a_wide_terminal_gets_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(WIDE, 120, monkeypatch)
    assert any("88.9% [72.2, 100.0]" in line and "24 of 36 (66.7%)" in line for line in lines)


def test_only_long_cells_go_on_in_a_next_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(LONG, 40, monkeypatch)
    (head,) = [number for number, line in enumerate(lines) if "what it is" in line]
    assert "metric" in lines[head]
    assert max(map(len, lines)) <= 40


LEADERS = Table(
    "Leaderboard",
    ("generator", "prompts", "people: mean rank", "tit: mean rank", "tit: mean", "tit: images"),
    (("model_a", 6, 1.67, 1.33, "0.8834 [0.8565, 0.9103]", "6/6"), ("SRCC with people", None, None, 0.8, None, None)),
    ("mean rank over prompts",),
)


def test_eighty_columns_hold_a_leaderboard_with_whole_words_and_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(LEADERS, 80, monkeypatch)
    assert max(map(len, lines)) <= 80
    assert any("generator" in line and "tit: images" in line for line in lines)  # a table, not a record for each row
    assert any("[0.8565, 0.9103]" in line for line in lines)
    assert len(lines) < 12


def test_notes_are_broken_between_words_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stdout", out)
    show_tables([WIDE, LEADERS, WIDE])
    show_notes(["mean rank over prompts", "another note that is longer than the terminal is wide", "a"], [LEADERS])
    said = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert said.count("a note on how to read this") == 1
    assert said.count("mean rank over prompts") == 1
    assert "  note: another note that is longer than\n  the terminal is wide\n" in said


def test_words_of_eighty_columns_in_every_help(capsys: pytest.CaptureFixture[str]) -> None:
    from titjudge.cli.commands import command_of, names
    from titjudge.cli.dispatch import run_command

    run_command("python cli.py", ["--help"])
    wrong = [line for line in capsys.readouterr().out.splitlines() if len(line) > 80 or line.endswith("...")]
    for name in names():
        command = command_of(name)
        parts = command.list_commands(click.Context(command)) if isinstance(command, click.Group) else []
        for words in ([name], *([name, part] for part in parts)):
            run_command("python cli.py", [*words, "--help"])
            said = capsys.readouterr().out
            wrong += [f"{words}: {line}" for line in said.splitlines() if len(line) > 80]
            if words == [name] and parts:  # a line for each, whole
                wrong += [line for line in said.partition("\nCommands:")[2].splitlines() if line.endswith("...")]
    assert wrong == []


@pytest.mark.parametrize("name", ["metrics", "suites", "providers"])
def test_lists_fit_a_terminal_of_eighty_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from titjudge.cli.dispatch import run_command

    out = Terminal()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", out)
    run_command("python cli.py", [name])
    lines = out.getvalue().splitlines()
    assert len(lines) > 10
    assert [
        line for line in lines if len(line) > 80 and " " in line.strip()
    ] == []  # a path or an address may be longer
