import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.errors import Unanswered
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item, Reply, Score, Status
from titjudge.metrics.yes_no import PAPER_TEMPLATE, TEMPLATES, choose_template, draw_template, parse, yes_no

SHA = ("d31a2a63260a75b3", "d8dc329af43e1ea1", "642193592eea8991")


class Scripted:
    """Answers with the given texts in turn, and keeps what it was asked."""

    def __init__(self, *texts: str | Exception, protocol: str = "strict") -> None:
        self.texts, self.protocol, self.calls = list(texts), protocol, list[dict[str, Any]]()

    async def __call__(
        self,
        template: str,
        *,
        role: str,
        images: Sequence[Path] = (),
        params: Mapping[str, Any] | None = None,
        **rest: Any,
    ) -> Reply:
        self.calls.append({"template": template, "role": role, "images": images, "params": params, **rest})
        text = self.texts.pop(0)
        if isinstance(text, Exception):
            raise text
        return Reply(text)


def item(gold: Sequence[Any] = ("yes", "No"), **meta: Any) -> Item:
    questions = [f"Is there a thing {i}?  " for i in range(len(gold))]
    return Item(
        "m/style/short/3", "a prompt", Path("3.png"), meta={"questions": questions, "gold_answers": list(gold), **meta}
    )


def score(ask: Scripted, of: Item | None = None) -> Score:
    return asyncio.run(yes_no(of or item(), ask))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        ("yes, it is\nNo there is no dog", 2, ["yes", "no"]),
        ("  YES\n\n\n no.\n", 2, ["yes", "no"]),
        ("Is it red?\nyes: red\n  because of the light\nno; not blue\n", 2, ["yes", "no"]),
        ("yes\r\nno\r\n", 2, ["yes", "no"]),
        ("no, there is no yes", 1, ["no"]),
        ("yesterday\nnothing\nnot\nyes", 1, ["yes"]),
        ("I'm sorry, but I cannot look at images.", 1, None),
        ("yes", 2, None),
        ("yes\nno\nyes", 2, None),
        ("", 1, None),
        ('["yes", "no"]', 2, None),
        ("1", 1, None),
        ("Infinity", 1, None),
        ('{"answer": "yes"}{"answer": "no"}', 1, None),
        ("**yes**\n- no", 2, None),
        ("да\n是", 2, None),
        ("yes\u00a0it is", 1, ["yes"]),
    ],
)
def test_parse_by_the_official_rule(text: str, count: int, expected: list[str] | None) -> None:
    assert parse(text, count) == expected


def test_thinking_is_not_an_answer_under_the_strict_protocol() -> None:
    text = "<think>\nyes or no?\n</think>\nno"
    assert parse(text, 2) == ["yes", "no"]  # the official rule reads the thoughts as an answer
    assert parse(text, 1, strict=True) == ["no"]
    assert parse("<think>\nyes", 1, strict=True) is None


@pytest.mark.parametrize("line", ["yes/no", "Yes, or no?", "Yes: no", "no, yes", "No, wait: yes", "No idea."])
def test_a_line_that_says_both_is_an_answer_to_the_official_rule_alone(line: str) -> None:
    assert parse(f"{line}\nyes", 2) is not None
    assert parse(f"{line}\nyes", 2, strict=True) is None


@pytest.mark.parametrize(
    "line", ["yes, no people are in it", "no, there is no yes", "No there is no dog", "yes: not a dog but a cat"]
)
def test_a_reason_is_no_second_answer(line: str) -> None:
    assert parse(line, 1, strict=True) == [line[:3].strip(" ,").lower()]


@given(st.lists(st.sampled_from(["yes", "no", "Yes", "NO"]), min_size=1), st.text("abc \t", max_size=5))
def test_parse_finds_what_was_written(answers: list[str], noise: str) -> None:
    text = "\n".join(f"{noise}\n  {answer}, {noise}" for answer in answers)
    assert parse(text, len(answers)) == [answer.lower() for answer in answers]
    assert parse(text, len(answers) + 1) is None


def test_score_is_the_fraction_of_right_answers() -> None:
    result = score(ask := Scripted("yes\nyes"))
    assert (result.value, result.status) == (0.5, Status.OK)
    assert result.parts["preds"] == ["yes", "yes"]
    assert result.parts["gold"] == ["yes", "no"]
    assert result.parts["output"] == "yes\nyes"
    assert result.parts["template"] == PAPER_TEMPLATE
    assert ask.calls[0]["params"] == {"temperature": 0.0}
    assert ask.calls[0]["role"] == "judge"
    assert ask.calls[0]["images"] == [Path("3.png")]


def test_official_asks_at_temperature_one_with_a_drawn_template() -> None:
    result = score(ask := Scripted("yes\nno", protocol="official"))
    assert result.value == 1.0
    assert ask.calls[0]["params"] == {"temperature": 1.0}
    assert ask.calls[0]["template"] == draw_template("m/style/short/3", 0, 0) == result.parts["template"]


def test_a_reply_that_does_not_parse_is_asked_again_with_another_sample_number() -> None:
    result = score(ask := Scripted("yes", "sorry", "no\nno"))
    assert (result.value, result.parts["tries"]) == (0.5, 3)
    assert [call["sample"] for call in ask.calls] == [0, 1, 2]


def test_after_three_tries_there_is_no_number() -> None:
    result = score(ask := Scripted("yes", "yes", "maybe"))
    assert (result.value, result.status) == (None, Status.UNPARSED)
    assert len(ask.calls) == 3
    assert result.parts["output"] == "maybe"


def test_what_ask_raises_passes_through() -> None:
    with pytest.raises(Unanswered):
        score(Scripted(Unanswered(Status.REFUSED, "content filter")))


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        (Item("i", "p", Path("x.png")), Status.MISSING),
        (item(("yes", "perhaps")), Status.BAD_INPUT),
        (item(("yes", 1)), Status.BAD_INPUT),
        (item(questions=["one?"]), Status.BAD_INPUT),
        (item(questions="two"), Status.BAD_INPUT),
    ],
)
def test_unusable_items_are_never_asked(bad: Item, status: Status) -> None:
    result = score(ask := Scripted(), bad)
    assert (result.value, result.status, ask.calls) == (None, status, [])


def test_draw_is_repeatable_and_uses_all_three() -> None:
    drawn = [draw_template(f"i{n}", 1, 0) for n in range(60)]
    assert drawn == [draw_template(f"i{n}", 1, 0) for n in range(60)]
    assert set(drawn) == set(TEMPLATES)
    assert drawn != [draw_template(f"i{n}", 2, 0) for n in range(60)]


def test_template_can_be_fixed() -> None:
    assert choose_template(item(template=2), "official", 0) == TEMPLATES[1]
    assert choose_template(item(template="tiif/mine"), "strict", 0) == "tiif/mine"
    assert choose_template(item(template="random"), "strict", 0) in TEMPLATES


@pytest.mark.parametrize(("name", "sha"), list(zip(TEMPLATES, SHA, strict=True)))
def test_templates_are_the_official_texts(name: str, sha: str) -> None:
    prompt = PromptLibrary().get(name)
    system, user = prompt.messages({"questions": ["##YNQuestions##"]})
    assert hashlib.sha256(user.text.encode()).hexdigest()[:16] == sha
    assert system.text == "You are a professional image critic."
    assert prompt.images == "last"


def test_questions_are_stripped_and_joined_by_newlines() -> None:
    _, user = PromptLibrary().get(TEMPLATES[0]).messages({"questions": [" a? ", "{{ b }}?\t"]})
    assert "Questions:\na?\n{{ b }}?\n\nNote that:" in user.text
