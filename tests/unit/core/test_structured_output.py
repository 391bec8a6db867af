import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from titjudge.core.structured_output import (
    after_thinking,
    ends_in_thinking,
    objects,
    problem,
    validated,
    without_chat_tokens,
)
from titjudge.metrics.agent.state import ClaimVerdict
from titjudge.metrics.dsg import SceneQuestion
from titjudge.metrics.tit import Rating, TitComparison
from titjudge.metrics.viescore import Semantics


class Mark(BaseModel):
    score: float = Field(ge=0, le=100)
    reason: str


GOOD = '{"score": 61.5, "reason": "fine"}'


def value(text: str, **options: bool) -> float | None:
    found, _ = validated(text, Mark, **options)
    return None if found is None else found.score


def test_plain_fenced_and_wrapped_in_prose() -> None:
    for text in (GOOD, f"```json\n{GOOD}\n```", f"Here you are: {GOOD} Anything else?", f"\ufeff{GOOD}\r\n"):
        assert value(text) == 61.5


def test_the_last_valid_object_counts_so_a_quoted_score_is_not_picked_up() -> None:
    quoted = 'The text says {"score": 100, "reason": "perfect, 10/10"} but I disagree. '
    assert value(quoted + GOOD) == 61.5
    assert value(quoted + "I refuse to rate.") == 100  # nothing else is there; prompts keep quotes out of answers


def test_thinking_is_not_the_answer() -> None:
    assert value(f'<think>{{"score": 1, "reason": "draft"}}</think>{GOOD}') == 61.5
    assert value(f"<think>{GOOD}</think> no object here") is None


def test_what_does_not_validate_is_none() -> None:
    for text in ("", "61.5", "[61.5]", '{"score": 101, "reason": "x"}', '{"score": "high", "reason": "x"}', '{"score": 61.5',
                 '{"score": NaN, "reason": "x"}', '{"score": Infinity, "reason": "x"}', "null", "{}"):  # fmt: skip
        assert value(text) is None, text


def test_lenient_repairs_and_flags() -> None:
    text = '{"score": 61.5, "reason": "cut off'
    assert value(text) is None
    found, flags = validated(text, Mark, lenient=True)
    assert found is not None
    assert (found.score, flags) == (61.5, ("json-repaired",))
    assert validated(GOOD, Mark, lenient=True)[1] == ()


def test_problem_says_what_is_wrong() -> None:
    assert "no complete JSON object" in problem("hello", Mark)
    assert "score" in problem('{"score": 400, "reason": "x"}', Mark)


def test_hostile_lengths_end_soon() -> None:
    assert value("{" * 300_000) is None
    assert value('{"a":' * 50_000 + "1" + "}" * 50_000) is None
    assert value("{" * 50_000 + GOOD) in (61.5, None)


@given(
    st.lists(st.dictionaries(st.text(), st.integers() | st.text()), max_size=4),
    st.text(alphabet=st.characters(exclude_characters="{}")),
)
def test_objects_come_back_in_order_from_any_surroundings(values: list[dict[str, object]], noise: str) -> None:
    assert objects(noise + noise.join(json.dumps(v) + "\n" for v in values)) == values


@given(st.text())
def test_no_text_crashes_or_invents(text: str) -> None:
    found, _ = validated(text, Mark, lenient=True)
    assert found is None or 0 <= found.score <= 100


def test_a_quotation_after_the_answer_is_not_the_answer() -> None:
    quoted = '{"score": 100, "reason": "perfect"}'
    found, _ = validated(f"{GOOD}\nThe text says {quoted}, which I ignore.", Mark, question=f"Judge this: {quoted}")
    assert found is not None
    assert found.score == 61.5


def test_an_object_under_one_key_is_unwrapped_and_flagged() -> None:
    found, flags = validated(f'{{"Rating": {GOOD}}}', Mark)
    assert found is not None
    assert (found.score, flags) == (61.5, ("unwrapped",))
    assert validated(f'{{"a": {GOOD}, "b": {GOOD}}}', Mark)[0] is None
    assert validated(f'{{"Rating": {GOOD}}}', Mark, question=f"Judge this: {GOOD}")[0] is None  # a quotation, wrapped


@pytest.mark.parametrize("text", ["true", '"1_0"', '"١٢"', '" 1 2 "', '"NaN"', '"ten"', '"+1"', "null"])
def test_what_is_no_number_in_json_is_no_score(text: str) -> None:
    answers = (
        (TitComparison, f'{{"missing": [], "contradicted": [], "reason": "", "score": {text}}}'),
        (Rating, f'{{"reason": "", "score": {text}}}'),
        (Semantics, f'{{"score": [{text}]}}'),
        (ClaimVerdict, f'{{"verdict": "met", "evidence": "E1", "claim": {text}}}'),
        (SceneQuestion, f'{{"question": "Is it?", "id": {text}}}'),
        (SceneQuestion, f'{{"question": "Is it?", "id": 2, "parents": [{text}]}}'),
    )
    for schema, answer in answers:
        assert validated(answer, schema)[0] is None, answer


@pytest.mark.parametrize(("text", "score"), [("85", 85), ("85.5", 85.5), ('"85.5"', 85.5), ("8.5e1", 85)])
def test_numbers_are_read(text: str, score: float) -> None:
    found, _ = validated(f'{{"reason": "", "score": {text}}}', Rating)
    assert found is not None
    assert found.score == score


DRAFT = '{"reason": "draft", "score": 5}'
THOUGHTS = [
    ("<think>", "</think>"), ("<THINK>", "</THINK>"), ("<thinking>", "</thinking>"), ("<Thinking mode='deep'>", "</Thinking>"),
    ("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>"), ("<reasoning>", "</reasoning>"), ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"), ("<|begin_of_thought|>", "<|end_of_thought|>"), ("<|thinking|>", "<|/thinking|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"), ("\u25c1think\u25b7", "\u25c1/think\u25b7"), ("<longcat_think>", "</longcat_think>"),
    ("<antThinking>", "</antThinking>"), ("<scratchpad>", "</scratchpad>"), ("<inner_monologue>", "</inner_monologue>"),
    ("<unused94>thought\n", "<unused95>"), ("<|inner_prefix|>", "<|inner_suffix|>"), ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>"),
    ("<\uff5cbegin\u2581of\u2581thinking\uff5c>", "<\uff5cend\u2581of\u2581thinking\uff5c>"),
    ("Thinking...\n", "\n...done thinking.\n\n"),
    ("\uff1cthink\uff1e", "\uff1c/think\uff1e"), ("&lt;think&gt;", "&lt;/think&gt;"), ("<思考>", "</思考>"), ("< think >", "</ think >"),
    ("analysisWe need a score. ", "assistantfinal"), ("Here is my thought process:\n", "\nHere is my response:\n"),
]  # fmt: skip


@pytest.mark.parametrize(("begin", "end"), THOUGHTS)
def test_the_thoughts_of_open_models_are_no_answer(begin: str, end: str) -> None:
    assert value(f"{begin}{DRAFT}{end}My final score is 80.") is None
    assert value(f"{begin}{DRAFT}{end}{GOOD}") == 61.5
    assert value(f"{begin}{DRAFT}{end}{GOOD}<|return|>") == 61.5
    assert value(f"{begin}{DRAFT}{end}") is None
    for text in (f"{begin}{DRAFT}", f"\n {begin}{DRAFT} so I would say"):
        assert value(text) is None
        assert ends_in_thinking(text)
        assert after_thinking(text) == ""
    assert value(f"{begin}{DRAFT}{end}80", lenient=True) is None
    assert value(f"{begin}{begin}{DRAFT}{end}{DRAFT}{end}80") is None
    assert after_thinking(f"{begin}a draft{end}the answer").strip() == "the answer"


@pytest.mark.parametrize(
    "text",
    [
        "A wall with the word <thin> on it.", "A [thinker] sits on a stone.", "analysis of the picture: a cat",
        "Here is my description: a cat", 'The sign says "<think>".', "x < y and think > z", "[think tank] is written there",
    ],
)  # fmt: skip
def test_what_only_resembles_a_thought_is_kept(text: str) -> None:
    assert after_thinking(text) == text
    assert not ends_in_thinking(text)


@pytest.mark.parametrize(("text", "score"), [
    (f"<draft>{DRAFT}</draft>\nMy final score is 80.", None),
    (f"<critique>{DRAFT}</critique>{GOOD}", 61.5),
    (f"[plan]{DRAFT}[/plan] 80 of 100", None),
    (f"Let me see. <thinking>{DRAFT} and then", None),
    (f"{GOOD}\n<notes>{DRAFT}</notes> That is all.", 61.5),
    (f"<answer>{GOOD}</answer>", 61.5),
    (f"<answer>{GOOD}</answer>\nIs there anything else?", 61.5),
    (f"<verdict>{GOOD}</verdict><|im_end|>", 61.5),
    ('{"reason": "<b>bold</b> letters, <think> on a sign", "score": 61.5}', 61.5),
])  # fmt: skip
def test_an_object_in_a_tag_that_closes_before_the_end_is_no_answer(text: str, score: float | None) -> None:
    assert value(text) == score
    assert value(text, lenient=True) == score


@pytest.mark.parametrize("quote", [
    '{"score": 100, "reason": "all"}', '{ "score" : 100 , "reason" : "all" }', '{\n  "reason": "all",\n  "score": 100.0\n}',
    '{"reason": "All", "score": "100"}',
    '{"reason":"\\u0061ll","score":1e2}', '{"verdict": {"score": 100, "reason": "all"}}',
])  # fmt: skip
@pytest.mark.parametrize("prompt", [
    '{"score":100,"reason":"all"}', '{"reason": "all", "score": 100}', "{'score':100,'reason':'all'}", "{score: 100, reason: all}",
    "{\u201cscore\u201d: 100, \u201creason\u201d: \u201call\u201d,}", '{"x": {"score": 100, "reason": "all"}}',
])  # fmt: skip
def test_a_quotation_is_compared_by_its_value(quote: str, prompt: str) -> None:
    found, _ = validated(f"{GOOD}\nThe prompt held {quote}", Mark, question=f"a cat {prompt}")
    assert found is not None
    assert found.score == 61.5
    assert validated(quote, Mark, question=f"a cat {prompt}", lenient=True)[0] is None


def test_a_tag_of_the_question_may_be_quoted() -> None:
    text = f"The prompt asks for <think> on a sign. {GOOD}"
    assert validated(text, Mark, question="a sign with <think>")[0] is not None
    assert validated(text, Mark)[0] is None


def test_a_key_that_occurs_twice_is_no_clear_answer() -> None:
    twice = '{"score": 12, "reason": "x", "score": 99}'
    assert value(twice) is None
    assert value(twice, lenient=True) is None
    assert value(f"{GOOD} {twice}") is None
    assert value(f"{twice} {GOOD}") == 61.5  # what comes last is clear
    assert value('{"answer": {"score": 12, "reason": "x", "score": 99}}') is None
    assert value('{"score": 12, "reason": "x", "score": 12}') == 12
    assert "'score'" in problem(twice, Mark)


@given(st.text(alphabet='<>[]/|{}think ":score1,', max_size=60))
def test_no_mixture_of_tags_crashes(text: str) -> None:
    found, _ = validated(text, Mark, lenient=True)
    assert found is None or 0 <= found.score <= 100
    assert after_thinking(text) in text


def test_control_tokens_at_the_ends_are_removed() -> None:
    for text in (
        "A cat.<|im_end|>",
        "<|im_start|> A cat. <|im_end|>\n<|endoftext|>",
        "<s>A cat.</s>",
        "A cat.<end_of_turn>",
    ):
        assert without_chat_tokens(text) == "A cat."
    assert without_chat_tokens("A sign: <|im_end|> in red") == "A sign: <|im_end|> in red"
    assert without_chat_tokens("<|im_end|>") == ""


@pytest.mark.parametrize("between", ["", "\n", ", ", ",\n  ", "\r\n\r\n"])
@pytest.mark.parametrize("ends", [("", ""), ("[", "]"), ("```json\n[", "]\n```")])
def test_objects_side_by_side_with_other_values_are_no_clear_answer(between: str, ends: tuple[str, str]) -> None:
    other = '{"score": 20, "reason": "poor"}'
    for text, score in ((other + between + GOOD, None), (GOOD + between + GOOD, 61.5), (GOOD, 61.5)):
        assert value(f"{ends[0]}{text}{ends[1]}") == score
        assert value(f"{ends[0]}{text}{ends[1]}", lenient=True) == score
    assert value(f"{other}\nOn second thoughts:\n{GOOD}") == 61.5
    assert value(f'{{"thing": 1}}{between}{GOOD}') == 61.5
