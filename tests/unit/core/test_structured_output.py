from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from titjudge.core.structured_output import objects, problem, validated
from titjudge.metrics.agent.state import ClaimVerdict
from titjudge.metrics.dsg import SceneQuestion
from titjudge.metrics.lmm_score import Rating
from titjudge.metrics.tit import TitComparison
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
