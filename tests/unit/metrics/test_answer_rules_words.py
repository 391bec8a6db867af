"""Yes and no in words: affirmations and denials are read with equal care, in sentences and in Chinese."""

from pathlib import Path

import pytest
from builders import png
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.types import Item, Request, Status
from titjudge.metrics.answer_rules import begins_like, read_yes_no
from titjudge.metrics.dsg import dsg
from titjudge.metrics.questions import questions
from titjudge.metrics.yes_no import parse
from titjudge.testing import score_one

DOG = "Is there a dog in the image?"
SAID = [
    ("It does.", True), ("It doesn't.", False), ("There is none.", False), ("There isn't.", False), ("It is not.", False), ("There is.", True),
    ("There is. Actually, no.", None), ("It is not clear.", None),
    ('Yes', True),
    ('yes.', True),
    ('No', False),
    ('No.', False),
    ('No dog is visible.', False),
    ('No dogs here.', False),
    ('There is no dog.', False),
    ('There are no dogs in the image.', False),
    ('Yes, there is a dog.', True),
    ('There is a dog.', True),
    ('A dog is visible.', True),
    ('The image shows a dog.', True),
    ('The image does not show a dog.', False),
    ("The image doesn't contain any dogs.", False),
    ("I don't see a dog.", False),
    ('I cannot see any dog in the picture.', False),
    ('The answer is yes.', True),
    ('The answer is no.', False),
    ('Final answer: yes', True),
    ('Final answer: **No**', False),
    ('{"Answer": "Yes"}', True),
    ('{"answer": "No"}', False),
    ('{"answer": false}', False),
    ('{"answer": true}', True),
    ('```json\n{"Answer": "no"}\n```', False),
    ('Nope', False),
    ('Nope.', False),
    ('Yep!', True),
    ('No cat.', None),
    ('No cat is visible.', None),
    ('There is no cat.', None),
    ('No idea.', None),
    ("No, there isn't.", False),
    ('Not visible.', None),
    ('No dog', False),
    ('yes/no', None),
    ('Yes and no.', None),
    ('Maybe.', None),
    ('I am not sure.', None),
    ('It is not clear.', None),
    ('No image was provided.', None),
    ('I cannot see the image.', None),
    ('There is no image.', None),
    ('Looking at the image, I see grass.\n\nFinal answer: No', False),
    ('So the answer is: yes, because a dog lies there.', True),
    ('The answer is yes or no.', None),
    ('If there is a dog, the answer is yes.', None),
    ('The answer is not yes.', None),
    ('<answer>Yes</answer>', True),
    ('\\boxed{No}', False),
    ('I would say no.', False),
    ("I'd say yes.", True),
    ('Correct.', True),
    ('Incorrect.', False),
    ('Absolutely not.', False),
    ('Absolutely!', True),
    ('False', False),
    ('True', True),
    ('There is no dog. Actually, there is one.', None),
    ('There is a dog, but also a cat.', None),
    ('No doubt, there is a dog.', None),
    ('There is no doubt that there is a dog.', None),
    ('There is a dog on the left.', None),
    ('Yes, no dog.', None),
    ('是', True),
    ('否', False),
    ('Oui.', True),
    ('Non.', False),
    ('Nein.', False),
    ('It is a dog.', True),
    ('The dog is not there.', False),
    ('No other animal than a dog.', None),
    ('None.', None),
    ('Yes<|im_end|>', True),
    ('<thinking>no</thinking>Yes', True),
    ('Answer: No dog is visible.', False),
    ('“No.”', False),
    ('- No', False),
    ('1. Yes', True),

]  # fmt: skip
ASKED = [
    ('Is the dog to the left of the cat?', 'The dog is to the left of the cat.', True),
    ('Is the dog to the left of the cat?', 'The cat is to the left of the dog.', None),
    ('Is the dog to the left of the cat?', 'The cat is not to the left of the dog.', None),
    ('Is the dog to the left of the cat?', 'No cat is visible.', False),
    ('Is the dog black?', 'The dog is not black.', False),
    ('Is the dog black?', 'The dog is black.', True),
    ('Is the dog black?', 'The dog is not brown.', None),
    ('Is the dog black and white?', 'The dog is black.', None),
    ('Is there no dog?', 'There is no dog.', None),
    ('Is the street free of dogs?', 'There are no dogs.', None),
    ('Are there two dogs?', 'There are two dogs.', True),
    ('Are there two dogs?', 'There is one dog.', None),
    ('Are there two dogs?', 'There are no dogs.', False),
    ('Is there a dog or a cat?', 'There is no dog.', None),
    ("Does the image show at least one 'dog'?", 'No dog is visible.', False),
    ("Does the image show exactly 2 of the object 'clock'?", 'There are no clocks.', False),
    ('图中有狗吗？', '图中没有狗。', False),
    ('图中有一只狗吗？', '图中有一只狗。', True),
    ('图中有狗吗？', '没有狗。', False),
    ('图中有狗吗？', '有。', True),
    ('图中有狗吗？', '没有。', False),
    ('图中有狗吗？', '没有猫。', None),
    ('图中有狗吗？', '答案是：是', True),
    ('图中有狗吗？', '答案：否', False),
    ('狗是黑色的吗？', '狗不是黑色的。', False),
    ('狗是黑色的吗？', '狗是黑色的。', True),
    ('图片中是否没有狗？', '没有狗。', None),
    ('图中有狗吗？', '是的，图中有一只狗。', True),
    ('图中有狗吗？', '不，图中没有狗。', False),
    ('图中有狗吗？', '不确定。', None),
    ('图中有狗吗？', '无法看到图片。', None),
    ('画面中是否存在一只红色的狗？', '画面中不存在红色的狗。', False),
    ('图中有狗吗？', '对', True),
    ('图中有狗吗？', '图中没有图片。', None),
    ('Is there a bus?', 'There is no bus.', False),
    ('Is there a glass?', 'No glasses are visible.', False),
    ('Are there people in the scene?', 'No people are visible.', False),
    ('Is the box closed?', 'The boxes are not closed.', False),
    # a word and its contradiction
    ("Is there a dog?", "Yes, but it is a cat, not a dog.", None),
    ("Is there a dog?", "Yes, there is a dog, but it is not brown.", True),
    ("Is there a dog?", "No, wait, there is a dog.", None),
    ("Is there a dog?", "No. Sorry, I was wrong: there is a dog.", None),
    ("Is there a dog?", "No, there is a dog.", None),
    ("Is there a dog?", "No, you are right, there is a dog.", None),
    ("Is there a dog?", "Yes, there isn't a dog.", None),
    ("Is there a dog?", "No problem: the dog is there.", None),
    ("Is there a dog?", "No doubt about it: there is a dog.", None),
    ("Is there a dog?", "It is not true that there is no dog.", None),
    ("Is there a dog?", "There is a dog. That is wrong.", None),
    ("Is there a dog?", "There is no dog. Oh, there it is.", None),
    ("Is there a dog?", "1. Yes\n2. No", None),
    ("Is there a dog?", "No. 1: there is a dog", None),
    ("Is there a dog?", "Absolutely! The sofa is empty.", None),
    ("Is there a dog?", "Ja, nein.", None),
    ("Is there a dog?", "Ja, aber es ist kein Hund.", None),
    ("Is there a dog?", "Oui ou non ?", None),
    ("Is there a dog?", "はい/いいえ", None),
    ("图中有一只狗吗？", "是的，没有狗。", None),
    ("图中有一只狗吗？", "不，图中有一只狗。", None),
    ("图中有一只狗吗？", "有，但是是猫。", None),
    ("图中有狗吗？", "是的，图中有狗，没有猫。", True),
    ("图中有狗吗？", "是，但不是棕色的。", True),
    ("Is there a dog?", "No, there is a cat, not a dog.", False),
    ('Does the sign say "NEIN"?', 'Yes, the sign says "NEIN".', True),
    ("Are people waiting?", "Yes, people wait in a line.", True),
    ("Is there a person without a hat?", "Yes, there is a person without a hat.", True),
    # a question that holds a negation
    ("Is there no dog?", "No, there is no dog.", None),
    ("Is there no dog?", "Yes, there is no dog.", None),
    ("Is there no dog?", "No.", False),
    ("图中是否没有人？", "没有", None),
    ("图中是否没有人？", "否", False),
    # the question again
    ("Is there a dog?", "Is there a dog?", None),
    ("Is there a dog?", "Is there a dog? No.", False),
    ("Is there a dog?", "Q: Is there a dog?\nA: Yes", True),
    ("Is there a dog?", "There is a dog, isn't there?", None),
    ("图中有狗吗？", "图中有狗吗？没有。", False),
    ("图中有狗吗？", "有没有狗？有。", True),
    # conclusions that somebody else might draw
    ("Is there a dog?", "I don't think the answer is yes.", None),
    ("Is there a dog?", "It is not the case that the answer is yes.", None),
    ("Is there a dog?", "The expected answer is yes. In the image, there is no dog.", None),
    ("Is there a dog?", "The image does not show a dog, so the answer is no.", False),
    ("Is there a dog?", "The correct answer would be no.", False),
    ("Is there a dog?", "Answer - no", False),
    # no answer to the question
    ("Is there a dog?", "No, I cannot see any image.", None),
    ("Is there a dog?", "No, I can't help with that.", None),
    ("Is there a dog?", "Yes, please share the image.", None),
    ("Is there a dog?", "Yes, I can't tell.", None),
    ("Is there a picture on the wall?", "No, I cannot see any picture.", False),
    ("Is there a dog?", '{"no": true}', None),
    ("Is there a dog?", '{"uncertain": true}', None),
    ("Is there a dog?", '{"answer": "yes", "final_answer": "no"}', None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), SAID)
def test_what_is_said_of_a_dog(text: str, wanted: bool | None) -> None:
    assert read_yes_no(text, DOG) is wanted
    assert read_yes_no(f"{text}\n", DOG) is wanted


@pytest.mark.parametrize(("question", "text", "wanted"), ASKED)
def test_a_sentence_answers_the_question_in_its_own_words(question: str, text: str, wanted: bool | None) -> None:
    assert read_yes_no(text, question) is wanted


WORDS = st.sampled_from(["dog", "cats", "red box", "old clock", "bus", "glasses", "child", "wooden chairs"])


@given(
    WORDS,
    st.sampled_from(
        [
            "There is no {}.",
            "No {} is visible.",
            "There are no {} here.",
            "I do not see any {}.",
            "The image does not show a {}.",
        ]
    ),
)
def test_every_denial_is_read_where_the_affirmation_is(thing: str, denial: str) -> None:
    question = f"Does the image show a {thing}?"
    affirmation = (
        denial.replace("no {}", "a {}")
        .replace("No {}", "A {}")
        .replace("do not see any", "see a")
        .replace("does not show", "shows")
    )
    assert read_yes_no(denial.format(thing), question) is False
    assert read_yes_no(affirmation.format(thing), question) is True
    assert read_yes_no(denial.format("zebra"), question) is None
    assert read_yes_no(affirmation.format("zebra"), question) is None


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_text_crashes(text: str, question: str) -> None:
    assert read_yes_no(text, question) in (True, False, None)
    assert begins_like(text) in ("denial", "affirmation", "")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("No such thing can be made out.", "denial"), ("There isn't one that I know.", "denial"), ("没有看清。", "denial"), ("Nothing of that kind.", "denial"),
        ("Hier ist kein solches Tier.", "denial"), ("そのような犬は見えません。", "denial"),
        ("There is something.", "affirmation"), ("Perhaps.", ""), ("", ""), ("<think>no</think>Perhaps.", ""),
    ],
)  # fmt: skip
def test_what_an_unreadable_reply_begins_like(text: str, kind: str) -> None:
    assert begins_like(text) == kind


def item(folder: Path) -> Item:
    return Item("i", "a dog", png(folder / "i.png"), meta={
        "asked": {"questions": [{"question": DOG}]}, "dsg": [{"id": 1, "question": DOG}],
    })  # fmt: skip


@pytest.mark.parametrize("metric", [questions, dsg])
@pytest.mark.parametrize(
    ("second", "value", "kinds"), [("no", 0, None), ("Yes.", 1, None), ("Hard to say.", None, ["denial"])]
)
def test_an_unreadable_reply_is_asked_for_once_more(
    tmp_path: Path, metric: object, second: str, value: float | None, kinds: list[str] | None
) -> None:
    def say(request: Request) -> str:
        return second if request.template == "repair/yes_no" else "No animal of that kind, I believe."

    found = score_one(metric, item(tmp_path), say)
    assert found.score.value == value
    assert [request.template for request in found.requests].count("repair/yes_no") == 1
    assert len(found.requests) == 2
    assert found.score.parts.get("unread_as") == kinds
    asked = found.requests[-1].messages[-1].text
    assert DOG in asked
    assert "of that kind" in asked
    if value is None:
        assert found.score.status is Status.UNPARSED


def test_several_answers_in_one_reply_may_be_sentences() -> None:
    """Strict: a line for each question; official: only lines that begin with yes or no."""
    asked = ["Is there a dog?", "Is the cat red?", "Is there a bus?"]
    text = "There is no dog.\n2. Yes, it is.\n- There is a bus."
    assert parse(text, 3, strict=True, questions=asked) == ["no", "yes", "yes"]
    assert parse(text, 3) is None
    assert parse("There is no zebra.\nyes\nyes", 3, strict=True, questions=asked) is None
