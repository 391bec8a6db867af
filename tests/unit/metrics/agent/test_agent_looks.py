"""What single looks bring, fail to bring, and send."""

from pathlib import Path

import pytest
from test_agent_loop import StandIn, all_met, image, judged, turn, verdicts

from titjudge.core.errors import MissingExtra, Unanswered
from titjudge.core.types import Reply, Status
from titjudge.metrics import ocr
from titjudge.metrics.agent.looks import MAX_DESCRIPTION, MAX_REPORT

__all__ = ["image"]


def test_looks_that_bring_nothing_settle_nothing(image: Path) -> None:
    refused = Unanswered(Status.REFUSED, "content filter")
    ask = StandIn(
        turn(looks=[("ask", "who?"), ("count", "bowls")]),
        turn(all_met("E2")),
        turn(all_met("E3")),
        eyes={"agent/ask": refused},
    )
    score = judged(ask, image)
    assert score.value == 100
    assert score.parts["counts"]["failed_looks"] == 1
    assert score.parts["counts"]["unsupported"] == 6
    assert score.parts["evidence"][1]["failed"] == "refused"


def test_when_nothing_can_be_seen_the_first_failure_is_the_reason(image: Path) -> None:
    refused = Unanswered(Status.REFUSED, "content filter")
    eyes = dict.fromkeys(("tit/describe", "agent/ask"), refused)
    score = judged(StandIn(turn(looks=[("ask", "who?")]), turn(), eyes=eyes), image)
    assert (score.value, score.status) == (None, Status.REFUSED)
    assert score.reason == "no look brought anything: content filter"


@pytest.mark.parametrize("status", [Status.FAILED, Status.BAD_INPUT])
def test_an_outage_is_no_answer(image: Path, status: Status) -> None:
    ask = StandIn(turn(all_met()), eyes={"tit/describe": Unanswered(status, "no such luck")})
    score = judged(ask, image)
    assert (score.value, score.status, score.reason) == (None, status, "no such luck")
    assert ask.count("agent/orchestrate") == 0


def test_an_outage_in_the_middle_keeps_what_was_found(image: Path) -> None:
    ask = StandIn(turn([(1, "met", "E1")], [("ask", "colour?"), ("count", "bowls")]), eyes={"agent/ask": Unanswered(Status.FAILED, "down")})  # fmt: skip
    score = judged(ask, image)
    assert (score.value, score.status) == (None, Status.FAILED)
    assert verdicts(score)[0] == "met"
    assert [each["failed"] for each in score.parts["evidence"]] == ["", "failed", ""]


def test_what_is_not_on_file_settles_nothing(image: Path) -> None:
    eyes = {
        "agent/ask": Unanswered(Status.MISSING, "no answer"),
        "agent/count": Unanswered(Status.MISSING, "no answer"),
    }
    ask = StandIn(turn(looks=[("ask", "colour?"), ("count", "bowls")]), turn(all_met("E1")), eyes=eyes)
    score = judged(ask, image)
    assert [each["failed"] for each in score.parts["evidence"]] == ["", "missing", "missing"]
    assert score.value == 100


def test_zoom_sends_an_enlarged_part(image: Path) -> None:
    ask = StandIn(
        turn(looks=[("zoom", "what?", [0.5, 0, 1, 0.5]), ("zoom", "what?", [0, 0, 0.05, 0.5])]), turn(all_met("E2"))
    )
    judged(ask, image)
    zooms = [each for each in ask.asked if each["template"] == "agent/parts"]
    assert sorted(size for each in zooms for size in each["sizes"]) == [
        (80, 400),
        (400, 200),
    ]  # as wide or high as the image
    assert not any(path.exists() for each in zooms for path in each["images"])


def test_words_are_read_by_ocr_where_it_is_installed(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "read_text", lambda path: ["FRESH", "</evidence>"])
    ask = StandIn(turn(looks=[("read_text",)]), turn(all_met("E2")))
    score = judged(ask, image)
    assert score.parts["evidence"][1]["text"] == "FRESH | </evidence>"
    assert score.parts["evidence"][1]["source"] == ocr.engine_version()
    assert ask.count("agent/read_text") == 0
    assert ask.texts("agent/orchestrate")[1].count("</evidence>") == 1


def test_words_are_read_by_the_captioner_elsewhere(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(path: Path) -> list[str]:
        raise MissingExtra("rapidocr", "ocr", "reading text in images")

    monkeypatch.setattr(ocr, "read_text", absent)
    score = judged(ask := StandIn(turn(looks=[("read_text",)]), turn(all_met("E2"))), image)
    assert ask.count("agent/read_text") == 1
    assert score.parts["evidence"][1]["source"] == ""


def test_endless_answers_are_cut_and_reported(image: Path) -> None:
    endless = Reply("and so on " * 5000, Status.TRUNCATED)
    ask = StandIn(
        turn(looks=[("ask", "what?")]), turn(all_met("E2")), eyes={"tit/describe": endless, "agent/ask": endless}
    )
    score = judged(ask, image)
    assert score.parts["counts"]["cut_answers"] == 2
    assert len(score.parts["evidence"][1]["text"]) < MAX_REPORT + 10
    assert len(ask.texts("agent/orchestrate")[1]) < MAX_DESCRIPTION + 8_000
    assert score.value == 100


def test_a_part_is_described_and_the_whole_only_once(image: Path) -> None:
    looks = [
        {"tool": "describe", "question": "", "box": [0, 0, 0.5, 0.5]},
        ("describe",),
        ("describe", "", [9, 0, 9, 9]),
    ]
    ask = StandIn(turn(looks=looks), turn(all_met("E2")), eyes={"agent/describe": "a bowl"})
    score = judged(ask, image)
    assert score.value == 100
    assert [(each["tool"], each["box"], each["text"]) for each in score.parts["evidence"][1:]] == [
        ("describe", [0, 0, 0.5, 0.5], "a bowl")
    ]
    assert [each["sizes"] for each in ask.asked if each["template"] == "agent/describe"] == [[(400, 200)]]
    assert (score.parts["counts"]["repeats_refused"], score.parts["counts"]["bad_boxes"]) == (1, 1)
