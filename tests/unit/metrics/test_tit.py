"""TIT-Score and TIT-Score-LLM: what is asked, what is compared, and what the official protocol does otherwise."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import png

from titjudge.core.types import Embedding, Failure, FailureKind, Item, Reply, Request, Status, Usage
from titjudge.metrics.tit import self_eval, tit, tit_llm
from titjudge.providers import Capabilities, Embedder
from titjudge.testing import Scored, score_one

PROMPT, DESCRIPTION = "a red door", "  A door, painted red.\n"
COMPARED = {"missing": ["a handle"], "contradicted": [], "reason": "nearly all of it", "score": 87.5}


class Vectors(Embedder):
    """Unit vectors: the prompt points along the first axis, every other text `cosine` away from it."""

    name = "vectors"

    def __init__(self, cosine: float) -> None:
        self.cosine = cosine

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        other = (self.cosine, (1 - self.cosine**2) ** 0.5)
        vectors = [(1.0, 0.0) if text == PROMPT else other for text in texts]
        return [
            Embedding(np.array(vector, np.float32), 5, len(text)) for vector, text in zip(vectors, texts, strict=True)
        ]

    def classify(self, error: Exception) -> Failure:
        return Failure(FailureKind.FATAL, str(error))


def scored(
    folder: Path,
    metric: Any,
    answer: Callable[[Request], Any] = lambda request: DESCRIPTION,
    *,
    protocol: str = "strict",
    cosine: float = 0.5,
    described: Mapping[str, Any] | None = None,
) -> Scored:
    """Score one image, or its description where it is `described` already; also returns the requests."""
    item = Item("i", PROMPT, None if described else png(folder / "a.png"), meta=described or {})
    return score_one(
        metric,
        item,
        answer,
        embedder=Vectors(cosine),
        capabilities=Capabilities(),
        cache=folder / "cache",
        protocol=protocol,
    )


def compared(**changes: Any) -> Callable[[Request], str]:
    return lambda request: DESCRIPTION if request.template == "tit/describe" else json.dumps(COMPARED | changes)


def test_the_captioner_describes_the_image_in_the_papers_words_without_the_prompt(tmp_path: Path) -> None:
    score, (asked,) = scored(tmp_path, tit)
    (message,) = asked.messages
    words = "Please provide a detailed, single-paragraph description of the image in English, using between 250 and 350 words."
    assert (message.text, len(asked.images), asked.role) == (words, 1, "captioner")
    read = {"prompt_tokens_used": 5, "prompt_tokens": 10, "description_tokens_used": 5, "description_tokens": 20}
    assert score.parts == {**read, "description": DESCRIPTION}  # embedded without the blanks around it


@pytest.mark.parametrize(("protocol", "params"), [("official", {}), ("strict", {"temperature": 0})])
def test_a_description_has_512_tokens_and_a_temperature_of_0_under_the_strict_protocol_alone(
    tmp_path: Path, protocol: str, params: dict[str, Any]
) -> None:
    _, (asked,) = scored(tmp_path, tit, protocol=protocol)
    assert asked.params == {"max_tokens": 512, **params}


@pytest.mark.parametrize("cosine", [0.81234567, -0.31234567, 1.0, -1.0])
def test_the_score_is_the_cosine_with_4_decimals_under_the_official_protocol_alone(
    tmp_path: Path, cosine: float
) -> None:
    exact = float(np.float32(cosine))
    assert scored(tmp_path, tit, cosine=cosine)[0].value == exact
    assert scored(tmp_path, tit, cosine=cosine, protocol="official")[0].value == round(exact, 4)
    assert tit.range == (-1, 1)


@pytest.mark.parametrize("metric", [tit, tit_llm])
def test_a_truncated_description_counts_under_the_official_protocol_alone(tmp_path: Path, metric: Any) -> None:
    def cut_off(request: Request) -> Any:
        cut = Reply("A door, pain", Status.TRUNCATED, usage=Usage(1, 1))
        return cut if request.template == "tit/describe" else json.dumps(COMPARED)

    refused, asked = scored(tmp_path, metric, cut_off)
    assert (refused.value, refused.status, len(asked)) == (None, Status.TRUNCATED, 1)
    taken, asked = scored(tmp_path, metric, cut_off, protocol="official")
    assert (taken.value, taken.status) == (0.5 if metric is tit else 87.5, Status.TRUNCATED)
    assert taken.parts["description"] == "A door, pain"
    assert scored(tmp_path, metric, cut_off, protocol="official")[1] == []  # paid once


@pytest.mark.parametrize("protocol", ["official", "strict"])
@pytest.mark.parametrize("metric", [tit, tit_llm])
def test_what_the_captioner_thinks_before_it_describes_is_not_compared(
    tmp_path: Path, metric: Any, protocol: str
) -> None:
    def thought(request: Request) -> str:
        return f"<think>The prompt may ask for a red door.</think>{compared()(request)}"

    score, asked = scored(tmp_path, metric, thought, protocol=protocol)
    assert score.parts["description"] == DESCRIPTION
    assert not any("The prompt may ask" in request.messages[-1].text for request in asked)


def test_a_thought_without_a_description_is_no_score(tmp_path: Path) -> None:
    score, _ = scored(tmp_path, tit, lambda request: "<think>A door.</think>\n")
    assert (score.value, score.status) == (None, Status.UNPARSED)


@pytest.mark.parametrize(("metric", "role"), [(tit_llm, "judge"), (self_eval, "captioner")])
def test_a_language_model_compares_the_texts_and_does_not_see_the_image(tmp_path: Path, metric: Any, role: str) -> None:
    score, (_, asked) = scored(tmp_path, metric, compared())
    assert (score.value, score.reason, score.parts["missing"]) == (87.5, "nearly all of it", ["a handle"])
    assert (asked.template, asked.role) == ("tit/compare", role)
    assert asked.images == []
    assert f"<prompt>\n{PROMPT}\n</prompt>" in asked.messages[-1].text
    assert f"<description>\n{DESCRIPTION.strip()}\n</description>" in asked.messages[-1].text


@pytest.mark.parametrize(("value", "kept"), [(0, True), (100, True), (-0.5, False), (100.5, False), ("many", False)])
def test_a_comparison_outside_0_to_100_is_asked_to_be_put_right_once_and_is_no_score(
    tmp_path: Path, value: Any, kept: bool
) -> None:
    score, asked = scored(tmp_path, tit_llm, compared(score=value))
    assert (score.value, score.status) == ((value, Status.OK) if kept else (None, Status.UNPARSED))
    assert [request.template for request in asked] == ["tit/describe"] + ["tit/compare"] * (1 if kept else 2)
    assert tit_llm.range == self_eval.range == (0, 100)


def test_what_the_repair_turn_brings_is_the_score(tmp_path: Path) -> None:
    answers = iter([DESCRIPTION, "It follows the prompt very well: 90.", json.dumps(COMPARED)])
    score, (_, asked, repair) = scored(tmp_path, tit_llm, lambda request: next(answers))
    assert (score.value, score.status) == (87.5, Status.OK)
    assert len(repair.messages) == len(asked.messages) + 2  # the answer as it was, and what is wrong with it


@pytest.mark.parametrize(("metric", "answer"), [(tit, None), (tit_llm, compared())])
def test_a_description_that_the_data_brings_is_not_asked_for(tmp_path: Path, metric: Any, answer: Any) -> None:
    score, asked = scored(tmp_path, metric, answer, described={"description": " A door. "})
    assert (score.status, score.parts["description"]) == (Status.OK, " A door. ")
    assert [request.template for request in asked] == ([] if metric is tit else ["tit/compare"])


@pytest.mark.parametrize("metric", [tit, tit_llm, self_eval])
@pytest.mark.parametrize("protocol", ["strict", "official"])
@pytest.mark.parametrize(
    "text", ["I'm sorry, I can't assist with that request.", "抱歉，我无法查看图片。", "```\n```", "<|im_end|>"]
)
def test_a_refusal_is_no_description(tmp_path: Path, metric: Any, protocol: str, text: str) -> None:
    """The words are kept, and it is asked again only with `--retry-failed`."""
    found = scored(tmp_path, metric, lambda request: text, protocol=protocol)
    assert (found.score.value, found.score.status) == (None, Status.REFUSED)
    assert text.split()[0][:8] in found.score.reason
    assert len(found.requests) == 1
    again = scored(tmp_path, metric, lambda request: "A door.", protocol=protocol)
    assert (again.score.status, len(again.requests)) == (Status.REFUSED, 0)


@pytest.mark.parametrize("metric", [tit, tit_llm])
def test_a_refusal_in_the_data_is_no_description(tmp_path: Path, metric: Any) -> None:
    found = scored(tmp_path, metric, described={"description": "I don't see any image in your message."})
    assert (found.score.value, found.score.status, len(found.requests)) == (None, Status.REFUSED, 0)


def test_control_tokens_are_no_part_of_a_description(tmp_path: Path) -> None:
    found = scored(tmp_path, tit, lambda request: "A door, painted red.<|im_end|>")
    assert found.score.parts["description"] == "A door, painted red."
