"""The plain lines of a run that goes on."""

from types import SimpleNamespace
from typing import Any

import pytest

from titjudge.cli.progress import Live, Plain, TimeLeft, lines
from titjudge.engine.roles import RoleStats
from titjudge.runs.loop import Progress


def engine(tally: RoleStats) -> Any:
    roles = SimpleNamespace(open=lambda: [SimpleNamespace(tally=tally)])
    return SimpleNamespace(roles=roles, budget=SimpleNamespace(spent=tally.spent))


def test_what_goes_wrong_is_said_at_once_and_not_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    tally = RoleStats()
    asking = engine(tally)
    shown = Plain(None)
    shown.show(Progress(), asking)
    assert capsys.readouterr().err == ""
    tally.errors, tally.trouble = 3, "cannot connect to 127.0.0.1:9: refused"
    for _ in range(3):
        shown.show(Progress(), asking)
        tally.errors += 1
    (said,) = capsys.readouterr().err.splitlines()
    assert "3 errors met, the last: cannot connect to 127.0.0.1:9: refused" in said


def test_a_run_that_waits_says_for_what_and_does_not_fall_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asking = [0.0], engine(RoleStats())
    monkeypatch.setattr("titjudge.cli.progress.time.monotonic", lambda: now[0])
    shown, progress = Plain(None), Progress(total=9, answers=9, by_metric={"tit": 0, "tit-llm": 7})
    said = dict[int, str]()
    for second in range(1, 300):
        now[0] = float(second)
        progress.waits = ["5 to be embedded (the embedder is loading)"] if 15 <= second < 200 else []
        shown.show(progress, asking)
        if text := capsys.readouterr().err:
            said[second] = text.strip()
    assert list(said) == [10, 20, 80, 140, 200]  # at the first change, then every minute, and when it is over
    assert "scored: tit 0, tit-llm 7" in said[10]
    assert [second for second, text in said.items() if "embedder is loading" in text] == [20, 80, 140]


@pytest.mark.parametrize(
    ("begun", "done", "bad", "said"),
    [
        (64, 5, 5, None),  # nothing is judged yet
        (64, 25, 5, None),  # most of what was paid is for items in flight
        (70, 65, 5, "about $2.69 in all"),  # $1 for 60 that are judged and half of 10 in flight: 110 are left
        (175, 180, 5, None),
    ],
)
def test_the_cost_of_a_run_is_foretold_from_what_was_judged(begun: int, done: int, bad: int, said: str | None) -> None:
    money = lines(Progress(total=180, begun=begun, done=done, bad=bad), engine(RoleStats(asked=128, spent=1.0)), 3.0)[1]
    assert money == ", ".join(filter(None, ["$1.000 of $3.00", said]))


def test_answers_count_before_any_item_is_done() -> None:
    progress = Progress(total=60, begun=60, answers=97, planned=2.0)
    assert lines(progress, engine(RoleStats(asked=90, cached=7)), None) == ["97/120 answers (7 cached), 0/60 items"]
    assert lines(Progress(answers=3), engine(RoleStats(asked=3)), None) == ["3 answers, 0/? items"]  # still counted


def test_each_line_of_progress_is_short_enough_for_a_terminal_with_a_bar() -> None:
    """Errors are long and come last, so that they hide neither the money nor what the run waits for."""
    tally = RoleStats(asked=90, spent=1.0, errors=17, trouble="HTTP 429 from " + "x" * 99)
    progress = Progress(
        total=60,
        answers=97,
        planned=2.0,
        by_metric={"tit": 3, "tit-llm": 0},
        waits=["17 to be asked again in at most 9 s"],
    )
    *short, errors = lines(progress, engine(tally), 5.0, "240 answers/min, 3 to 6 min left")
    assert [line.split(",")[0] for line in short] == [
        "97/120 answers",
        "$1.000 of $5.00",
        "scored: tit 3",
        progress.waits[0],
    ]
    assert max(map(len, short)) < 55
    assert errors.startswith("17 errors met, the last: HTTP 429")


def test_a_bar_keeps_its_length_beside_long_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits, and until when, is wrapped, not cut."""
    monkeypatch.setenv("COLUMNS", "80")
    wait = "rate limit of openai/Qwen/Qwen3-VL-8B-Instruct: 47 waiting, the next in 7 s"
    shown = Live(None)
    shown.show(Progress(total=60, answers=97, planned=2.0, waits=[wait]), engine(RoleStats(asked=90)))
    shown.close()
    with shown._bar.console.capture() as printed:
        shown._bar.console.print(shown._bar.get_renderable(), width=80)
    first, *others = printed.get().splitlines()
    assert len(first.partition(" ")[0]) >= 19  # of 24, for 97 of 120
    assert " ".join(" ".join(others).split()) == wait


def at(answers: int, started: float = 0.0, **more: int) -> Progress:
    """A run of 60 items of two questions."""
    return Progress(total=60, begun=60, answers=answers, planned=2.0, started=started, **more)


def test_the_time_left_is_a_range_and_nothing_is_said_before_it_can_be_known() -> None:
    left = TimeLeft()
    assert left(at(0), 0.0) == ""
    assert left(at(1), 15.0) == ""  # one answer says nothing of the pace
    assert left(at(24), 60.0) == "24 answers/min, 3 to 5 min left"
    assert left(at(110), 270.0).endswith("answers/min, less than 1 min left")
    assert left(at(120), 290.0) == ""


def test_a_run_that_has_slowed_down_has_a_wider_range() -> None:
    left = TimeLeft()
    assert [left(at(2 * second), float(second)) for second in (0, 15)] == ["", "120 answers/min, less than 1 min left"]
    for second in range(20, 90):
        text = left(at(30 + (second - 15) // 10), float(second))
    assert text.endswith(", 3 to 15 min left")


def test_a_run_that_stands_still_says_no_time() -> None:
    left = TimeLeft()
    assert [left(at(30), float(second)) for second in range(0, 100, 1)][-1] == ""


def test_where_no_answers_are_known_to_come_items_tell_the_time() -> None:
    left = TimeLeft()
    left(Progress(total=100, started=0.0), 0.0)
    assert left(Progress(total=100, done=50, resumed=10, started=0.0), 80.0) == "30 items/min, 1 to 2 min left"
