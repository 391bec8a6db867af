"""Two images at a time, both orders, each comparison asked once for both images."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from PIL import Image

from titjudge.core.config import load_config
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import InvalidItem, Item, Request, Score, Status
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import score_item
from titjudge.metrics.pairwise import pairwise, pairwise_text
from titjudge.providers.fake import Fake
from titjudge.runs.loop import prepared


def items(tmp_path: Path, count: int = 3) -> list[Item]:
    made = []
    for i in range(count):
        Image.new("RGB", (8, 8), (i * 60, 0, 0)).save(tmp_path / f"{i}.png")
        made.append(Item(f"{i}.png", "a red square", tmp_path / f"{i}.png", f"g{i}", "p"))
    return made


def brightest(request: Request) -> str:
    """An honest judge: the redder image is better."""
    first, second = (int(picture.path.stem) for picture in request.pictures)
    better = "first" if first > second else "second" if second > first else "tie"
    return json.dumps({"reason": "redder", "better": better})


def scores(tmp_path: Path, answer: object, metric: object = pairwise, count: int = 3) -> tuple[list[Score], Fake]:
    async def work() -> tuple[list[Score], Fake]:
        fake = Fake(None, answer)  # type: ignore[arg-type]
        engine = Engine(
            Roles(load_config(None, {"captioner": "fake/m", "judge": "fake/m"}), make=lambda _: fake), PromptLibrary()
        )
        ready = [item for item in prepared(items(tmp_path, count), {"m": metric}) if isinstance(item, Item)]  # type: ignore[dict-item]
        found = await asyncio.gather(*(score_item(engine, item, "m", metric) for item in ready))
        return list(found), fake

    return asyncio.run(work())


def test_an_honest_judge_orders_the_images(tmp_path: Path) -> None:
    found, fake = scores(tmp_path, brightest)
    assert [score.value for score in found] == [0, 0.5, 1]
    assert all(score.parts["order_effect"] == 0 for score in found)
    orders = {tuple(picture.path.stem for picture in request.pictures) for request in fake.requests}
    assert orders == {(a, b) for a in "012" for b in "012" if a != b}


def test_a_judge_that_always_takes_the_first_is_a_tie_and_is_found_out(tmp_path: Path) -> None:
    found, _ = scores(tmp_path, lambda request: json.dumps({"reason": "r", "better": "first"}))
    assert [score.value for score in found] == [0.5, 0.5, 0.5]
    assert all(score.parts["order_effect"] == 1 for score in found)
    assert all(score.parts["first_advantage"] == 1 for score in found)


def test_what_is_not_answered_is_counted_and_the_rest_scores(tmp_path: Path) -> None:
    def refuses_zero(request: Request) -> str:
        return "no" if any(picture.path.stem == "0" for picture in request.pictures) else brightest(request)

    found, _ = scores(tmp_path, refuses_zero)
    assert (found[0].value, found[0].status) == (None, Status.UNPARSED)
    assert [score.value for score in found[1:]] == [0, 1]
    assert found[1].parts["unanswered"] == 1


def test_a_lone_image_has_no_score(tmp_path: Path) -> None:
    (only,), fake = scores(tmp_path, brightest, count=1)
    assert (only.value, only.status) == (None, Status.BAD_INPUT)
    assert fake.requests == []


def test_over_descriptions_each_image_is_described_once(tmp_path: Path) -> None:
    def answer(request: Request) -> str:
        if request.pictures:
            return f"picture {request.pictures[0].path.stem}"
        text = request.messages[-1].text
        return (
            json.dumps({"reason": "r", "better": "first" if text.index("<first>\npicture 2") >= 0 else "tie"})
            if "<first>\npicture 2" in text
            else json.dumps({"reason": "r", "better": "second" if "<second>\npicture 2" in text else "tie"})
        )

    found, _ = scores(tmp_path, answer, pairwise_text)
    assert [score.value for score in found] == [0.25, 0.25, 1]


def test_bad_items_are_no_siblings(tmp_path: Path) -> None:
    ready = list(prepared([*items(tmp_path, 2), InvalidItem("x", "broken", "g", "p")], {"m": pairwise}))
    assert isinstance(ready[0], Item)
    assert [each.id for each in ready[0].same_prompt] == ["0.png", "1.png"]
    assert isinstance(ready[2], InvalidItem)


@pytest.mark.parametrize("metric", [pairwise, pairwise_text])
def test_the_metric_says_what_it_needs(metric: object) -> None:
    assert metric.scope == "prompt"  # type: ignore[attr-defined]
