"""Images of a prompt side by side: both orders, only where verdicts differ, and a verdict changes only if both agree."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from test_agent_loop import PROMPT, StandIn, all_met, turn

from titjudge.core.errors import Unanswered
from titjudge.core.types import Item, Score, Status
from titjudge.metrics.agent.pairs import tit_agent_pairs


class Images(StandIn):
    """Two images: of the second one, claim 3 is settled as told."""

    def __init__(self, folder: Path, but: Mapping[int, str], pair: Callable[[Mapping[str, Any]], Any]) -> None:
        super().__init__(turn(), eyes={"agent/pair": pair})
        self.files = [folder / "first.png", folder / "second.png"]
        for number, file in enumerate(self.files):
            Image.new("RGB", (64 + number, 64)).save(file)
        self.items = [Item(file.stem, PROMPT, file, "g", "p") for file in self.files]
        self.siblings = self.items[1:]  # type: ignore[assignment]
        self.but, self.one_at_a_time = but, asyncio.Lock()

    async def __call__(self, template: str, **rest: Any) -> Any:
        async with self.one_at_a_time:
            if template == "agent/see":
                second = rest["images"][0] == self.files[1]
                self.turns = [turn(all_met(but=self.but if second else {}))]
            return await super().__call__(template, **rest)

    def judged(self, **options: Any) -> Score:
        metric = tit_agent_pairs.configured({"first_look": "sight", **options})
        return asyncio.run(metric(self.items[0], self))  # type: ignore[arg-type]

    @property
    def pairs(self) -> list[list[Path]]:
        return [each["images"] for each in self.asked if each["template"] == "agent/pair"]


def says(first: str, second: str) -> str:
    place = {"claims": [3], "first_seen": "two oranges", "second_seen": "three", "first": first, "second": second}
    return json.dumps({"places": [place]})


def swapping(first: str, second: str) -> Callable[[Mapping[str, Any]], str]:
    """Answer about the images as they are, whichever is shown first."""
    order = iter([(first, second), (second, first)])
    return lambda given: says(*next(order))


def test_a_claim_on_which_two_images_differ_is_seen_side_by_side_in_both_orders(tmp_path: Path) -> None:
    ask = Images(tmp_path, {3: "not_met"}, swapping("not_met", "met"))
    score = ask.judged(max_looks=1)
    assert ask.pairs == [ask.files, ask.files[::-1]]
    row = score.parts["claims"][2]
    assert (row["verdict"], row["seen"], row["before"]) == ("not_met", "two oranges", [["met", "E1"]])
    assert score.parts["counts"]["revised"] == 1
    assert score.value is not None
    assert score.value < 100
    assert "three oranges [3]" in ask.texts("agent/pair")[0]
    assert "Pictures 1 (first image) and 2 (second image): claims 3" in ask.texts("agent/pair")[0]


@pytest.mark.parametrize("answer", [says("not_met", "met"), says("met", "not_met"), json.dumps({"places": []})])
def test_an_answer_that_follows_the_order_changes_nothing(answer: str, tmp_path: Path) -> None:
    score = Images(tmp_path, {3: "not_met"}, lambda given: answer).judged(max_looks=1)
    assert (score.value, score.parts["claims"][2]["verdict"]) == (100, "met")


def test_images_without_a_difference_or_with_many_are_not_compared(tmp_path: Path) -> None:
    for but in ({}, dict.fromkeys(range(1, 7), "not_met")):
        ask = Images(tmp_path, but, lambda given: pytest.fail("nothing is to be compared"))
        assert ask.judged(max_looks=1).value == 100


def test_a_comparison_without_an_answer_is_no_score(tmp_path: Path) -> None:
    def fails(given: Mapping[str, Any]) -> Any:
        return Unanswered(Status.FAILED, "an outage")

    with pytest.raises(Unanswered, match="an outage"):
        Images(tmp_path, {3: "not_met"}, fails).judged(max_looks=1)


def test_a_verdict_on_a_claim_that_was_not_asked_about_is_ignored(tmp_path: Path) -> None:
    def other(given: Mapping[str, Any]) -> str:
        return says("not_met", "not_met").replace("[3]", "[1, 2, 99]")

    assert Images(tmp_path, {3: "not_met"}, other).judged(max_looks=1).value == 100
