"""DSG and TIFA: the dependency rule by its published example, answers that are no answers, the way through the engine."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import png
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from titjudge.core.config import RunConfig, load_config
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item, Message, Request, Status
from titjudge.engine.cache import AnswerCache
from titjudge.metrics import Metric
from titjudge.metrics._shared import MOST_QUESTIONS
from titjudge.metrics.answer_rules import read_yes_no
from titjudge.metrics.dsg import SceneGraph, dsg, dsg_score, valid_questions
from titjudge.metrics.tifa import ChoiceQuestion, by_type, read_choice, tifa
from titjudge.providers import Capabilities
from titjudge.runs.open_run import open_planner
from titjudge.testing import Scored, score_one

# The example of the paper's notebook (t2i_eval_example.ipynb): it prints 0.4.
PARENTS = {1: [0], 2: [0], 3: [0], 4: [3], 5: [1], 6: [2], 7: [2], 8: [0], 9: [8], 10: [8]}
YES = {id_: id_ in (1, 3, 4, 5, 6, 7, 10) for id_ in PARENTS}


def test_the_published_example_scores_four_tenths_with_and_seven_without_dependencies() -> None:
    assert dsg_score(YES, PARENTS) == (0.4, 0.7)
    assert [id_ for id_, valid in valid_questions(YES, PARENTS).items() if not valid] == [6, 7, 9, 10]


def test_only_direct_parents_count() -> None:
    """1 no, 2 (child of 1) yes, 3 (child of 2) yes: upstream keeps 3, though 2 does not hold."""
    assert dsg_score({1: False, 2: True, 3: True}, {2: [1], 3: [2]}) == (1 / 3, 2 / 3)


def test_no_questions_are_no_score() -> None:
    with pytest.raises(ValueError, match="no questions"):
        dsg_score({}, {})


@given(st.dictionaries(st.integers(1, 12), st.booleans(), min_size=1), st.data())
def test_dependencies_never_raise_a_score(yes: dict[int, bool], data: st.DataObject) -> None:
    parents = {id_: data.draw(st.lists(st.sampled_from([0, *(p for p in yes if p < id_)]))) for id_ in yes}
    value, plain = dsg_score(yes, parents)
    assert 0 <= value <= plain <= 1
    if all(yes.values()) or not any(any(each) for each in parents.values()):
        assert value == plain


def graph(*rows: tuple[int, list[int]]) -> dict[str, Any]:
    return {"questions": [{"id": id_, "question": f"q{id_}?", "parents": above} for id_, above in rows]}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (graph(), "at least 1"),
        (graph((1, []), (1, [])), "same id"),
        (graph((1, [7])), "does not exist"),
        (graph((1, [1])), "depends on itself"),
        (graph((1, [2]), (2, [3]), (3, [1])), "depends on itself"),
        (graph(*((n, []) for n in range(1, MOST_QUESTIONS + 2))), "at most 100"),
    ],
)
def test_a_graph_that_cannot_be_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SceneGraph.model_validate(wrong)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("yes", True),
        ("Yes.", True),
        ("NO!", False),
        (" **no**", False),
        ("<think>yes or no?</think>\nno", False),
        ("yes, the door is", True),
        ("nothing", None),
        ("yesterday", None),
        ("The answer is yes", True),
        ("Answer: yes", True),
        ("**Answer:** No.", False),
        ('{"answer": "yes"}', True),
        ('```json\n{"answer": "No", "reason": "no cat"}\n```', False),
        ('{"answer": "yes/no"}', None),
        ('{"score": 1}', None),
        ("是", True),
        ("是的。", True),
        ("否", False),
        ("不是,图中没有", False),
        ("答案：是", True),
        ("是否", None),
        ("ＹＥＳ", True),
        ("yes/no", None),
        ("Yes or no?", None),
        ("Yes and no", None),
        ("yes\nno", None),
        ("Yes: no", None),
        ("No idea", None),
        ("No, wait: yes", None),
        ("No dog can be seen", None),
        ("No, there is no dog", False),
        ("No there is none", False),
        ("yes\nThere is no dog.", True),
        ("", None),
    ],
)
def test_yes_and_no(text: str, wanted: bool | None) -> None:
    assert read_yes_no(text) is wanted


CHOICES = ["red", "Dark Blue", "a", "4"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("A", None),  # the first choice by its letter, the third by its word
        ("B", 1),
        ("B.", 1),
        ("(B) dark blue", 1),
        ("Answer: B", 1),
        ("B dark blue", 1),
        ("A dark blue one", None),
        ("B, because it is the sea", 1),
        ("dark  blue.", 1),
        ("Red", 0),
        ("4", 3),
        ("E", None),
        ("blue", None),
        ("Both are red", None),
        ("<think>A?</think> D", 3),
        ("", None),
    ],
)
def test_choices(text: str, wanted: int | None) -> None:
    assert read_choice(text, CHOICES) == wanted


def choice(**changes: Any) -> dict[str, Any]:
    made = {"question": "what color?", "choices": ["red", "blue"], "answer": "Red.", "type": "color"}
    return {**made, **changes}


@pytest.mark.parametrize(
    "wrong", [{"choices": ["red", "Red"]}, {"answer": "green"}, {"choices": ["red"]}, {"choices": ["red", "."]}]
)
def test_a_question_without_one_right_answer_is_refused(wrong: dict[str, Any]) -> None:
    assert ChoiceQuestion.model_validate(choice()).answer == "Red."
    with pytest.raises(ValidationError):
        ChoiceQuestion.model_validate(choice(**wrong))


def test_humans_and_animals_are_one_type() -> None:
    made = [ChoiceQuestion.model_validate(choice(type=kind)) for kind in ("human", "animal", "color")]
    assert by_type(made, [True, False, True]) == {"animal/human": 0.5, "color": 1.0}


# -- through the engine ------------------------------------------------------------------------------------------------


def config() -> RunConfig:
    return load_config(None, {"captioner": "fake/eyes", "judge": "fake/mind", "prices": {"eyes": {"input": 1, "output": 1}, "mind": {"input": 1, "output": 1}}})  # fmt: skip


def scored(folder: Path, metric: Metric, answers: Callable[[Request], Any], **meta: Any) -> Scored:
    item = Item("i", "a red door", png(folder / "a.png"), meta=meta)
    return score_one(metric, item, answers, capabilities=Capabilities(), cache=folder / "cache")


DOOR = graph((1, []), (2, [1]), (3, [0]))


def dsg_answers(request: Request) -> str:
    if request.template == "dsg/questions":
        return json.dumps(DOOR)
    if request.template == "repair/yes_no":
        return "I cannot tell."
    return {"q1?": "No.", "q2?": "yes", "q3?": "Yes"}[request.messages[-1].text.rpartition("Question: ")[2]]


def test_dsg_asks_once_for_questions_and_once_for_each_answer(tmp_path: Path) -> None:
    score, requests = scored(tmp_path, dsg, dsg_answers)
    assert (score.value, score.parts["without_dependencies"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert [each["valid"] for each in score.parts["questions"]] == [True, False, True]
    assert sorted(each.role for each in requests) == ["captioner"] * 3 + ["judge"]
    for each in requests:
        assert bool(each.images) is (each.role == "captioner")
        assert ("red door" in each.messages[-1].text) is (each.role == "judge")  # who looks does not know the prompt


def test_dsg_with_ready_questions_asks_no_judge(tmp_path: Path) -> None:
    score, requests = scored(tmp_path, dsg, dsg_answers, dsg=DOOR["questions"])
    assert score.value == pytest.approx(1 / 3)
    assert {each.role for each in requests} == {"captioner"}
    bad, requests = scored(tmp_path, dsg, dsg_answers, dsg=[{"id": 1}])
    assert (bad.value, bad.status) == (None, Status.BAD_INPUT)
    assert requests == []


@pytest.mark.parametrize("answer", ["perhaps", "", "I cannot see that"])
def test_an_answer_that_is_neither_is_no_no(tmp_path: Path, answer: str) -> None:
    def say(request: Request) -> str:
        return answer if request.messages[-1].text.endswith("q2?") else dsg_answers(request)

    score, _ = scored(tmp_path, dsg, say)
    assert (score.value, score.status) == (None, Status.UNPARSED)
    assert "1 of 3" in score.reason
    assert "2:" in score.reason


QUIZ = {
    "questions": [
        choice(),
        choice(question="is there a door?", choices=["yes", "no"], answer="yes", type="object"),
    ]
}


def tifa_answers(request: Request) -> str:
    if request.template == "tifa/questions":
        return json.dumps(QUIZ)
    return "A" if "is there a door?" in request.messages[-1].text else "blue"


def test_tifa_is_the_fraction_of_right_choices(tmp_path: Path) -> None:
    score, requests = scored(tmp_path, tifa, tifa_answers)
    assert score.value == 0.5
    assert score.parts["by_type"] == {"color": 0.0, "object": 1.0}
    assert [each["chosen"] for each in score.parts["questions"]] == ["blue", "yes"]
    asked = next(each for each in requests if "door?" in each.messages[-1].text)
    assert "A. yes\nB. no\n" in asked.messages[-1].text


def test_questions_without_one_right_answer_are_dropped_and_counted(tmp_path: Path) -> None:
    def say(more: list[dict[str, Any]]) -> Callable[[Request], str]:
        return lambda r: json.dumps({"questions": more}) if r.template == "tifa/questions" else tifa_answers(r)

    score, _ = scored(tmp_path, tifa, say([*QUIZ["questions"], choice(answer="green")]))
    assert (score.value, score.parts["dropped"]) == (0.5, 1)
    score, _ = scored(tmp_path / "", tifa, say([choice(answer="green")]), tifa=[choice(answer="green")])
    assert (score.value, score.status) == (None, Status.BAD_INPUT)


def test_a_quiz_of_bad_questions_alone_is_no_score(tmp_path: Path) -> None:
    score, _ = scored(tmp_path, tifa, lambda _: json.dumps({"questions": [choice(answer="green")]}))
    assert (score.value, score.status) == (None, Status.UNPARSED)


def test_tifa_takes_no_nearest_choice(tmp_path: Path) -> None:
    score, _ = scored(tmp_path, tifa, lambda r: json.dumps(QUIZ) if r.template == "tifa/questions" else "navy")
    assert (score.value, score.status) == (None, Status.UNPARSED)


@pytest.mark.parametrize("metric", [dsg, tifa])
def test_a_plan_counts_the_questions_a_prompt_will_bring(tmp_path: Path, metric: Any) -> None:
    item = Item("i", "word " * 40, png(tmp_path / "a.png"))

    async def go() -> int:
        cache = AnswerCache(tmp_path / "cache")
        planner = open_planner(config(), cache, per_item=True)
        try:
            return len(await planner.expect(item, {metric.name: metric}))
        finally:
            await planner.aclose()
            cache.close()

    assert asyncio.run(go()) == 1 + 12


def test_the_request_for_an_answer_is_dsgs_own() -> None:
    (message,) = PromptLibrary().get("dsg/answer").messages({"question": "Is there a door?"})
    assert message == Message(
        "user",
        ("Answer only with 'yes' or 'no'. Do not give other outputs or punctuation marks. Question: Is there a door?",),
    )
