from __future__ import annotations

import io
import re
import sys

import pytest

from titjudge.cli.show import show_tables
from titjudge.types import Table

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
