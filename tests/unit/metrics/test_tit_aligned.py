"""TIT-Aligned: what is compared with what, which sentences are the reasons, and what exchanged words cost."""

import hashlib
from collections.abc import Sequence

import numpy as np
import pytest

from titjudge.core.types import Embedding, Failure, FailureKind, Item, Status
from titjudge.metrics import Metric
from titjudge.metrics.tit_aligned import content_words, tit_aligned, tit_aligned_llm
from titjudge.providers import Capabilities, Embedder
from titjudge.testing import Scored, score_one

DESCRIPTION = "A red cube lies on a green ball, and a white mug is near. The light is warm. Nothing else can be seen."


class BagOfWords(Embedder):
    """Unit vectors of the words of a text, without their order: each word has a place of its own among 512."""

    name = "bag-of-words"

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Embedding:
        vector = np.full(512, 1e-3, np.float32)
        for word in content_words(text):
            vector[int(hashlib.sha256(word.encode()).hexdigest(), 16) % 512] += 1
        return Embedding(vector / np.linalg.norm(vector), len(text), len(text))

    def classify(self, error: Exception) -> Failure:
        return Failure(FailureKind.FATAL, str(error))


def scored(prompt: str, description: str = DESCRIPTION, metric: Metric = tit_aligned, answer: str = "") -> Scored:
    item = Item("i", prompt, None, meta={"description": description})
    return score_one(metric, item, lambda request: answer, embedder=BagOfWords(), capabilities=Capabilities())


def value(prompt: str, description: str = DESCRIPTION) -> float:
    found = scored(prompt, description)[0].value
    assert found is not None
    return found


def test_a_prompt_that_the_description_repeats_has_the_highest_score() -> None:
    assert value("The light is warm. Nothing else can be seen.") == pytest.approx(1, abs=1e-6)


def test_the_score_is_the_mean_match_of_the_sentences() -> None:
    parts = ["A red cube lies on a blue ball.", "The light is cold.", "There is a mug."]
    assert value(" ".join(parts)) == pytest.approx(sum(map(value, parts)) / 3)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("A red cube lies on a green ball.", "A green cube lies on a red ball."),  # words exchanged
        ("A red cube lies on a green ball.", "A red cone lies on a green ball."),
        ("A white mug is near.", "A white mug and a lamp are near."),
        ("The light is warm.", "The light is cold."),
    ],
)
def test_an_error_in_one_sentence_lowers_the_score(right: str, wrong: str) -> None:
    rest = " The light is warm. Nothing else can be seen. A white mug is near."
    assert value(wrong + rest) < value(right + rest) - 0.01


def test_the_reasons_are_the_sentences_with_the_worst_match_beside_the_closest_part() -> None:
    prompt = "The light is warm. Three dogs run. A white mug is far. The light is cold."
    score, _ = scored(prompt)
    weakest = score.parts["weakest"]
    assert [entry["sentence"] for entry in weakest] == ["Three dogs run.", "The light is cold.", "A white mug is far."]
    assert weakest[1]["closest"] == "The light is warm."
    assert weakest[2]["closest"] == "a white mug is near."  # a clause, not its whole sentence
    assert [entry["match"] for entry in weakest] == sorted(entry["match"] for entry in weakest)


def test_the_order_of_the_descriptions_sentences_does_not_matter() -> None:
    prompt = "A red cube lies on a blue ball. The light is warm."
    turned = "Nothing else can be seen. The light is warm. A red cube lies on a green ball, and a white mug is near."
    assert value(prompt, turned) == pytest.approx(value(prompt), abs=1e-9)


@pytest.mark.parametrize("prompt", ["It is what it is.", "!!!", "...", "«»"])
def test_a_prompt_without_content_words_is_scored_by_its_cosine_alone(prompt: str) -> None:
    assert -0.5 <= value(prompt) <= 1


@pytest.mark.parametrize("prompt", ["红色的碗。绿色的杯子！", "赤い椀。", "빨간 그릇. 초록 컵."])
def test_characters_of_other_scripts_are_words(prompt: str) -> None:
    assert value(prompt, prompt) == pytest.approx(1, abs=1e-6)
    assert value(prompt) < 0.6


def test_tokens_are_those_of_all_parts() -> None:
    score, _ = scored("The light is warm. Nothing.")
    assert score.parts["prompt_tokens"] == len("The light is warm.") + len("Nothing.")
    assert score.parts["description"] == DESCRIPTION


PROMPT = "The light is warm. Three dogs run. A white mug is far. The light is cold."


def checked(answer: str, count: int = 2) -> Scored:
    return scored(PROMPT, metric=tit_aligned_llm.configured({"checked": count}), answer=answer)


def test_the_judge_checks_the_sentences_with_the_worst_match() -> None:
    score, requests = checked('{"wrong": []}')
    (request,) = requests
    text = "".join(part for message in request.messages for part in message.parts if isinstance(part, str))
    assert "1. Three dogs run.\n2. The light is cold.\n</sentences>" in text
    assert DESCRIPTION in text
    assert (score.reason, score.parts["contradicted"]) == ("every checked sentence is confirmed", [])


@pytest.mark.parametrize(("wrong", "share"), [("[]", 1), ("[2]", 0.5), ("[2, 2]", 0.5), ("[1, 2]", 0)])
def test_match_and_confirmed_share_weigh_the_same(wrong: str, share: float) -> None:
    assert checked(f'{{"wrong": {wrong}}}').score.value == pytest.approx((value(PROMPT) + share) / 2)


def test_the_reason_is_a_sentence_that_is_not_confirmed() -> None:
    score = checked('{"wrong": [2]}').score
    assert (score.reason, score.parts["contradicted"]) == ("not confirmed: The light is cold.", ["The light is cold."])


@pytest.mark.parametrize("answer", ['{"wrong": [3]}', '{"wrong": [0]}', '{"wrong": [-1]}', '{"wrong": ["a"]}', "2", ""])
def test_an_answer_about_no_sentence_of_the_request_is_no_score(answer: str) -> None:
    score = checked(answer).score
    assert (score.value, score.status) == (None, Status.UNPARSED)


def test_a_prompt_with_few_sentences_is_checked_whole() -> None:
    assert checked('{"wrong": [4]}', count=9).score.parts["contradicted"] == ["The light is warm."]
