"""Scoring one item: which metrics judge edits, and what of an edit they are shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import png
from PIL import Image

from titjudge.core.errors import Unanswered
from titjudge.core.serialization import score_from, score_record
from titjudge.core.types import Ask, Cause, Failure, FailureKind, Item, Reply, Request, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._shared import gather_answers, image_of, sources_of
from titjudge.providers.fake import Fake
from titjudge.providers.hosted.failures import ProviderFailure, classify
from titjudge.testing import score_one


@metric("looks-at-result", roles=("judge",), range=(0, 1))
async def looks_at_result(item: Item, ask: Ask) -> Score:
    """Count the images."""
    await ask("tit/describe", role="judge", images=[image_of(item)])
    return Score.of(1)


@metric("looks-at-both", roles=("judge",), range=(0, 1), sources="required")
async def looks_at_both(item: Item, ask: Ask) -> Score:
    """Count the images."""
    await ask("tit/describe", role="judge", images=[*sources_of(item), image_of(item)])
    return Score.of(1)


@metric("looks-at-both-if-any", roles=("judge",), range=(0, 1), sources="optional")
async def looks_at_both_if_any(item: Item, ask: Ask) -> Score:
    """Count the images."""
    await ask("tit/describe", role="judge", images=[*item.sources, image_of(item)])
    return Score.of(1)


@metric("asks-twice", roles=("judge",), range=(0, 1))
async def asks_twice(item: Item, ask: Ask) -> Score:
    """Lose the cause of a failure in a sentence of its own."""
    questions = (ask("tit/compare", role="judge", prompt=item.prompt, description=text) for text in "ab")
    failed = [answer for answer in await gather_answers(*questions) if isinstance(answer, Unanswered)]
    return Score.none(Status.FAILED, f"{len(failed)} have no answer")


class Failing(Fake):
    """Ends the questions with the given failures, in turn."""

    failures: Iterator[Failure]

    async def complete(self, request: Request) -> Reply:
        raise ProviderFailure(next(self.failures))

    def classify(self, error: Exception) -> Failure:
        return classify(error)


def _image(folder: Path) -> Item:
    return Item("after.png", "make it blue", png(folder / "after.png", (0, 0, 255)))


def _edit(folder: Path) -> Item:
    sources = (png(folder / "b.png", (255, 0, 0)), png(folder / "a.png", (0, 255, 0)))
    return Item("after.png", "make it blue", png(folder / "after.png", (0, 0, 255)), sources=sources)


def test_a_metric_that_looks_at_the_result_alone_refuses_an_edit_unless_told_to_ignore_its_sources(
    tmp_path: Path,
) -> None:
    edit = _edit(tmp_path)
    refused = score_one(looks_at_result, edit, ["a square"])
    assert (refused.score.value, refused.score.status, refused.requests) == (None, Status.BAD_INPUT, [])
    assert "--set ignore_sources=yes" in refused.score.reason
    assert score_one(looks_at_result, edit, ["a square"], ignore_sources=True).score.value == 1
    assert score_one(looks_at_result, _image(tmp_path), ["a square"]).score.value == 1


def test_a_metric_of_edits_refuses_an_image_without_a_source(tmp_path: Path) -> None:
    refused = score_one(looks_at_both, _image(tmp_path), ["a square"])
    assert (refused.score.status, refused.requests) == (Status.BAD_INPUT, [])
    assert "no source" in refused.score.reason
    assert score_one(looks_at_both, _image(tmp_path), ["a square"], ignore_sources=True).score.value is None
    assert score_one(looks_at_both_if_any, _image(tmp_path), ["a square"]).score.value == 1


def test_sources_are_sent_in_the_order_of_the_instruction_before_the_result(tmp_path: Path) -> None:
    edit = _edit(tmp_path)
    for judging in (looks_at_both, looks_at_both_if_any):
        (request,) = score_one(judging, edit, ["two squares"]).requests
        assert [image.path for image in request.images] == [*edit.sources, edit.image]


def test_a_source_that_is_no_image_leaves_the_edit_without_a_score(tmp_path: Path) -> None:
    edit = _edit(tmp_path)
    edit.sources[1].write_bytes(b"no image")
    score = score_one(looks_at_both, edit, ["two squares"]).score
    assert (score.value, score.status) == (None, Status.BAD_INPUT)
    assert "a.png" in score.reason


def test_an_edit_of_another_source_is_another_question(tmp_path: Path) -> None:
    edit, cache = _edit(tmp_path), tmp_path / "cache"
    answers = ["first", "second"]
    assert len(score_one(looks_at_both, edit, answers, cache=cache).requests) == 1
    assert len(score_one(looks_at_both, edit, answers, cache=cache).requests) == 0
    Image.new("RGB", (16, 16), (1, 2, 3)).save(edit.sources[0])
    assert len(score_one(looks_at_both, edit, answers, cache=cache).requests) == 1


_LATER, _NEVER = Failure(FailureKind.RATE_LIMIT, "later", 9e9), Failure(FailureKind.REJECTED, "never")


@pytest.mark.parametrize(
    ("failures", "cause"), [((_LATER, _NEVER), Cause.CROWDED), ((_NEVER, _LATER), Cause.CROWDED), ((_NEVER,) * 2, Cause.REJECTED)]
)  # fmt: skip
def test_the_cause_travels_whatever_a_metric_says(failures: tuple[Failure, ...], cause: Cause) -> None:
    model = Failing(None)
    model.failures = iter(failures)
    score = score_one(asks_twice, Item("a", "a cube", None), model).score
    assert score.cause is cause
    assert score_from(score_record(score)) == score


def test_a_score_with_another_status_has_no_cause_beside_it(tmp_path: Path) -> None:
    assert score_one(looks_at_both, _image(tmp_path), ["a square"]).score.cause is None
