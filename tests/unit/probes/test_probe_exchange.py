"""Self-preference: two families describe and judge each other."""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from titjudge.core.config import RunConfig
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item, Request
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.metrics.tit import tit_llm
from titjudge.probes import battery, trust_card
from titjudge.probes.item_scorer import Prober
from titjudge.probes.probe import SELF_PREFERENCE, excess, exchange, family
from titjudge.probes.trust_card import CAUGHT, OPEN, PASS, Line, with_verdicts
from titjudge.providers import Capabilities
from titjudge.providers.fake import Fake
from titjudge.suites.known_answer.suite import KnownAnswer

Taste = Callable[[str, str], float]  # (judge, author) -> points


@pytest.fixture(scope="module")
def items(small_known: Path) -> list[Item]:
    return [battery.adherence_item(item) for item in KnownAnswer().load(small_known) if isinstance(item, Item)]


def noise(*parts: object) -> float:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4]) / 2**32 - 0.5


def line(
    items: list[Item], taste: Taste, rivals: tuple[str, ...], captioner: str = "fake/third", blind: str = ""
) -> Line:
    """The self-preference line of the judge fake/alpha, whose descriptions are signed by their author."""
    truth = {item.image.stem: item.meta["alignment"] for item in items if item.image is not None}
    scale = {"alpha": 80, "beta": 40}

    def make(role: Any) -> Fake:
        name = role.model.rpartition("/")[2]

        def answer(request: Request) -> str:
            if request.images:
                return f"{request.images[0].path.stem} as seen by {name}"
            stem, author = re.findall(r"(\w+) as seen by (\w+)", request.messages[-1].text)[0]
            points = scale.get(name, 60) * (truth[stem] + taste(name, author) / 80) + noise(name, author, stem)
            return json.dumps({"missing": [], "contradicted": [], "reason": "r", "score": max(0, min(100, points))})

        return Fake(answers=answer, capabilities=Capabilities(direct=True, images=name != blind))

    async def go() -> Line:
        config = RunConfig.model_validate({"captioner": captioner, "judge": "fake/alpha", "panel": list(rivals)})
        engine = Engine(Roles(config, make=make), PromptLibrary())
        return await exchange(Prober(engine, "tit-llm", tit_llm), items, config.judge_roles[1:])

    return with_verdicts([asyncio.run(go())])[0]


def surely(found: Line) -> str:
    """The verdict with 80 times as many prompts like these."""
    rows = [(f"p{k}", effect) for k, effect in enumerate(found.means * 80)]
    return with_verdicts([trust_card.line("f", "n", rows, rule=found.rule, limit=found.limit)])[0].verdict


def fair(judge: str, author: str) -> float:
    return 3.0 * (author == "alpha")  # alpha describes better, and everybody says so


def partial(judge: str, author: str) -> float:
    return fair(judge, author) + 10 * (judge == author == "alpha")


@pytest.mark.parametrize("captioner", ["fake/third", "fake/beta"])
def test_who_prefers_its_own_texts_is_caught_and_who_only_writes_better_is_not(
    items: list[Item], captioner: str
) -> None:
    honest = line(items, fair, ("fake/beta",), captioner)
    assert (honest.name, honest.verdict, honest.prompts) == (SELF_PREFERENCE, OPEN, 6)
    assert surely(honest) == PASS
    caught = line(items, partial, ("fake/beta",), captioner)
    assert caught.verdict == CAUGHT
    assert caught.effect == pytest.approx(10 / (80 * 0.657), abs=0.03)
    assert ("cannot be distinguished" in caught.note) == (captioner == "fake/beta")


def test_with_a_third_author_the_other_judge_s_liking_for_its_own_texts_is_not_blamed_on_this_one(
    items: list[Item],
) -> None:
    def other(judge: str, author: str) -> float:
        return 10.0 * (judge == author == "beta")

    assert surely(line(items, other, ("fake/beta",))) == PASS
    assert line(items, other, ("fake/beta",), "fake/beta").verdict == CAUGHT  # two authors: the sum of both
    assert surely(line(items, other, ("fake/beta", "fake/gamma"), "fake/beta")) == PASS


@pytest.mark.parametrize("rivals", [(), ("fake/alpha-2",)])
def test_one_family_says_that_it_takes_two(items: list[Item], rivals: tuple[str, ...]) -> None:
    found = line(items, partial, rivals)
    assert (found.verdict, found.effect) == (OPEN, None)
    assert "needs two families" in found.note


def test_a_model_that_cannot_see_writes_no_descriptions(items: list[Item]) -> None:
    assert "fake/beta cannot see images" in line(items, partial, ("fake/beta",), blind="beta").note


def test_an_image_without_all_its_scores_is_left_out() -> None:
    cells = {(judge, author): {"a": 1.0, "b": 1.0} for judge in "JK" for author in "JK"}
    cells["J", "J"] = {"a": 1.5}
    assert excess(cells, "J", {"a": "p", "b": "q"}) == [("p", 0.5)]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("openai/gpt-4o", "litellm/openai/o3-mini", True), ("openai/gpt-4o", "gemini/gemini-2.5-pro", False),
     ("vllm/Qwen/Qwen2.5-VL-7B", "local/Qwen/Qwen3-VL-8B", True), ("recorded", "recorded", True)],
)  # fmt: skip
def test_families(one: str, other: str, same: bool) -> None:
    assert (family(one) == family(other)) is same
