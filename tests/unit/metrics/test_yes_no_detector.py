"""Yes/no questions that a detector answers: which it can read, and what boxes say about them."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from titjudge.core.errors import Unanswered
from titjudge.core.types import Item, Reply, Score, Status
from titjudge.metrics.agent.places import Detection
from titjudge.metrics.yes_no_detector import has_readable_question, read_question, yes_no_detector


@pytest.mark.parametrize(
    ("text", "things", "number", "side"),
    [
        ("Is there a white cat in the image?  ", ("white cat",), None, ""),
        ("Is the number of strawberries 7?", ("strawberries",), 7, ""),
        ("Are there three dogs in the picture?", ("dogs",), 3, ""),
        ("Is the clock on the top of the car?", ("clock", "car"), None, "top"),
        ("Are the dividers left of the can of soda?", ("dividers", "can of soda"), None, "left"),
        ("Is there a cup on the right side of a plate?", ("cup", "plate"), None, "right"),
        ("Is the boy under a tree?", ("boy", "tree"), None, "bottom"),
    ],
)
def test_questions_that_boxes_can_answer(text: str, things: tuple[str, ...], number: int | None, side: str) -> None:
    assert read_question(text) == (things, number, side)


@pytest.mark.parametrize(
    "text",
    [
        "Is the cat brown?",
        "Is there a cat and a dog in the image?",
        "Is there only one cat in the image?",
        "Is there a man without a hat in the image?",
        "Is there another cat in the image?",
        "Are there 3 dogs with hats in the image?",
        "Is the cat on the left of the image?",
        "Is the balloon floating above the table?",
        "Are there in the image?",
        "",
    ],
)
def test_questions_that_stay_open(text: str) -> None:
    assert read_question(text) is None


class Detector:
    """Finds the boxes that it was given, by thing."""

    protocol = "strict"

    def __init__(self, boxes: Mapping[str, Sequence[tuple[float, ...]] | Status]) -> None:
        self.boxes, self.asked = boxes, list[tuple[str, ...]]()

    async def __call__(self, template: str, **given: Any) -> Reply:
        assert given["role"] == "detector"
        self.asked.append(given["things"])
        (thing,) = given["things"]
        boxes = self.boxes.get(thing, [])
        if isinstance(boxes, Status):
            raise Unanswered(boxes, "no answer")
        rows = [{"name": thing.upper(), "box": list(box), "score": score} for *box, score in boxes]
        return Reply("", data=Detection.model_validate({"boxes": [*rows, {"name": "other", "box": [0, 0, 1, 1]}]}))


QUESTIONS = [
    "Is there a cat in the image?",
    "Is the number of cats 2?",
    "Is the cat left of the dog?",
    "Is the cat brown?",
]
CATS = [(0.0, 0.0, 0.2, 0.2, 0.9), (0.6, 0.0, 0.8, 0.2, 0.8), (0.3, 0.0, 0.4, 0.1, 0.4), (0.5, 0.5, 0.5, 0.9, 1.0)]


def judged(ask: Detector, questions: list[str] = QUESTIONS, **options: Any) -> Score:
    meta = {"questions": questions, "gold_answers": ["yes"] * len(questions)}
    found: Score = asyncio.run(yes_no_detector.function(Item("i", "p", Path("i.png"), meta=meta), ask, **options))  # type: ignore[arg-type]
    return found


def test_the_score_is_over_the_questions_that_are_read() -> None:
    ask = Detector({"cat": CATS, "cats": CATS, "dog": [(0.4, 0.4, 0.6, 0.6, 0.75)]})
    found = judged(ask)
    assert found.value == 1
    assert found.parts["preds"] == ["yes", "yes", "yes", "open"]
    assert sorted(ask.asked) == [("cat",), ("cats",), ("dog",)]  # each thing once
    assert found.parts["boxes"] == {"cat": 2, "cats": 2, "dog": 1}
    lower = judged(ask, threshold=0.3)
    assert lower.parts["preds"] == ["yes", "no", "yes", "open"]  # three boxes
    none = judged(Detector({"cats": CATS}))
    assert none.value == pytest.approx(1 / 3)
    assert none.parts["preds"] == ["no", "yes", "no", "open"]


def test_a_detector_without_an_answer_is_no_score() -> None:
    with pytest.raises(Unanswered, match="no answer"):
        judged(Detector({"cat": CATS, "cats": Status.FAILED}))


def test_it_applies_to_images_with_a_question_that_it_can_read() -> None:
    assert has_readable_question(Item("i", "p", None, meta={"questions": QUESTIONS}))
    for questions in (["Is the cat brown?"], [], None, "text", [1]):
        assert not has_readable_question(Item("i", "p", None, meta={"questions": questions}))
