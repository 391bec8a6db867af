import io
import re
import sys

import click
import pytest

from titjudge.cli.output import EXPLAIN, show_notes, show_tables
from titjudge.core.tables import percent, plain
from titjudge.core.types import Table

WIDE = Table(
    "Agreement",
    ("metric", "accuracy", "chance threshold", "SRCC", "coverage"),
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
    assert any(line.split()[:2] == ["generator", "prompts"] for line in lines)  # a table, not a record for each row
    assert any("[0.8565, 0.9103]" in line for line in lines)
    assert len(lines) < 12


def test_names_are_never_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "recraft-v3-svg-very-long-name-of-a-checkpoint"
    table = Table("Board", ("generator", "tit-llm: mean rank"), ((name, "2.5 [1.5, 3.5] and more"),))
    for columns in (80, 70):
        text = "\n".join(drawn(table, columns, monkeypatch))
        assert name in text
        assert "tit-llm:" in text


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
    from titjudge.cli.commands import command_of, names, run_command

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
    from titjudge.cli.commands import run_command

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


STATISTICS = Table(
    "Agreement",
    ("metric", "accuracy", "chance threshold", "coverage", "SRCC", "nDCG"),
    (("tit-llm", percent(0.889, (0.7, 0.95)), "66.7%, p 0.02", percent(1.0), plain(0.8333), plain(0.96)),),
    ("one pair is left out",),
    explanation=("SRCC: rank correlation.",),
    secondary=("nDCG", "SRCC", "coverage"),
    estimates=True,
)


@pytest.mark.parametrize("terminal", [True, False])
def test_columns_that_have_no_room_are_left_out_in_their_order_and_named(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    shown = {}
    for columns in (60, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        show_tables([STATISTICS])
        shown[columns] = capsys.readouterr().out
    assert "coverage" in shown[60]
    assert "  a wider terminal also shows: SRCC, nDCG\n" in shown[60]
    assert "0.833" in shown[120]
    assert "a wider terminal" not in shown[120]
    assert max(map(len, shown[60].splitlines())) <= 60


def test_a_column_that_says_nothing_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (("a", None, "6/6"), ("b", None, "6/6"))
    show_tables([Table("Board", ("generator", "rank", "images"), rows, secondary=("images", "rank"))])
    assert capsys.readouterr().out.split() == ["Board", "generator", "---------", "a", "b"]


def test_a_row_whose_only_value_had_no_room_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    rows = (("a", 1, "a long cell"), ("SRCC with people", 0.8, None))
    show_tables([Table("Board", ("generator", "rank", "remark"), rows, secondary=("rank",))])
    out = capsys.readouterr().out
    assert "a long cell" in out
    assert "SRCC" not in out


@pytest.mark.parametrize(("chosen", "explained"), [(None, True), (False, False), (True, True)])
def test_a_command_with_explain_says_what_columns_mean_only_where_it_is_given(
    chosen: bool | None, explained: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with click.Context(click.Command("judge")) as context:
        context.meta.update({} if chosen is None else {EXPLAIN: chosen})
        show_tables([STATISTICS])
    out = capsys.readouterr().out
    assert ("SRCC: rank correlation." in out) is explained
    assert ("add --explain for what the columns mean" in out) is not explained
    assert "one pair is left out" in out


def test_estimates_have_three_digits_here_and_all_of_them_in_files(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (("a", plain(72.1574, (67.0384, 77.0251), 4), 0.04551), ("b", plain(8.1, None, 4), -0.001))
    table = Table("Means", ("generator", "mean", "difference"), rows, estimates=True)
    show_tables([table])
    out = capsys.readouterr().out
    assert "72.2 [67.0, 77.0]" in out
    assert "0.0455" in out
    assert "-0.0010" in out
    assert table.plain_rows[0] == ["a", "72.1574 [67.0384, 77.0251]", 0.04551]
