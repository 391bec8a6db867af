"""What every metric may rely on: an image or a status, its siblings, sample numbers that last."""

import asyncio
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import png

from titjudge.core import registry
from titjudge.core.config import load_config
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Ask, Item, Request, Score, Status
from titjudge.engine.ask import Purpose, Sample
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import score_item
from titjudge.metrics import metric, task
from titjudge.metrics.unifiedreward import unifiedreward
from titjudge.providers.fake import Fake
from titjudge.runs.folder.run_folder import digest_of

READS_NO_IMAGE = {"tit", "tit-aligned", "tit-aligned-llm", "tit-llm", "self-eval", "pairwise", "pairwise-text"}
META = {
    "questions": ["a?"], "gold_answers": ["yes"], "text_words": ["a"], "facets": {"Quality": [["Detail", "Noise"]]},
    "edit_type": "style", "category": "causal_reasoning", "reference": "a door",
}  # fmt: skip


def scored(item: Item, which: Any, provider: Any = None, **rest: Any) -> tuple[Score, list[Request]]:
    fake = provider or Fake(None, lambda request: "an answer")

    async def go() -> Score:
        roles = Roles(load_config(None, {"captioner": "fake/m", "judge": "fake/m"}), make=lambda _: fake)
        return await score_item(Engine(roles, PromptLibrary()), item, which.name, which, **rest)

    return asyncio.run(go()), fake.requests


@pytest.mark.parametrize("name", sorted(set(registry.TABLES["metrics"]) - READS_NO_IMAGE))
def test_without_an_image_nothing_is_asked(name: str, tmp_path: Path) -> None:
    asked = registry.load("metrics", name)
    sources = (png(tmp_path / "a.png"),) if asked.sources == "required" else ()
    score, requests = scored(Item("i", "a red door", None, meta=META, sources=sources), asked)
    assert (score.value, score.status, requests) == (None, Status.BAD_INPUT, [])
    assert score.reason == "this metric requires an image"


@metric("others", roles=(), range=(0, 9), scope="prompt")
async def others(item: Item, ask: Ask) -> Score:
    """The other images of the prompt."""
    return Score.of(len(ask.siblings), names=[other.id for other in ask.siblings])


def test_a_metric_over_a_prompt_gets_the_other_images() -> None:
    family = tuple(Item(name, "p", None) for name in "abc")
    item = replace(family[1], same_prompt=family)
    assert scored(item, others)[0].parts["names"] == ["a", "c"]
    assert (others.scope, unifiedreward.scope) == ("prompt", "item")


def test_a_score_over_a_prompt_falls_with_any_of_its_images() -> None:
    before, other, changed = Item("a", "p", None), Item("b", "p", None), Item("b", "p", None, "another")
    one, two = (replace(before, same_prompt=(before, each)) for each in (other, changed))
    assert digest_of(one, others) != digest_of(two, others)
    assert digest_of(one, unifiedreward) == digest_of(two, unifiedreward) == digest_of(before, unifiedreward)


@metric("two", roles=("captioner", "judge"), range=(0, 1))
async def two(item: Item, ask: Ask) -> Score:
    """One question to each role, the second attempt."""
    for role in ("captioner", "judge"):
        await ask("lmm_score/rate", role=role, sample=1, prompt=item.prompt)
    return Score.of(1)


@pytest.mark.parametrize(
    ("sample", "numbers"),
    [
        (Sample(), [1, 1]),
        (Sample(3), [1, 301]),
        (Sample(3, purpose=Purpose.PROBE), [301, 301]),
        (Sample(3, purpose=Purpose.CANARY), [1_003_001, 1_003_001]),
    ],
)
def test_requests_carry_the_numbers_of_the_caches_on_disk(sample: Sample, numbers: list[int]) -> None:
    _, requests = scored(Item("i", "p", None), two, sample=sample)
    assert [request.sample for request in requests] == numbers


@task("halves", roles=("judge",))
async def halves(item: Item, ask: Ask, *, most: int = 2) -> list[dict[str, Any]]:
    """Cut a prompt into parts.

    Args:
        item: The prompt.
        ask: Asks nothing.
        most: Most parts.
    """
    return [{"prompt": part} for part in item.prompt.split(", ")[:most]]


def test_a_task_is_recorded_with_its_lines() -> None:
    score, _ = scored(Item("i", "a, b, c", None), halves.configured({"most": "3"}))
    assert (score.value, score.status, score.parts) == (
        1,
        Status.OK,
        {"lines": [{"prompt": "a"}, {"prompt": "b"}, {"prompt": "c"}]},
    )
    assert (halves.summary, halves.roles, halves.range) == ("Cut a prompt into parts.", ("judge",), (0, 1))
    assert pickle.loads(pickle.dumps(halves.configured({"most": 1}))) == halves.configured({"most": 1})  # noqa: S301


def test_a_suite_says_whether_a_run_over_it_does_tasks() -> None:
    assert registry.metric_kind("prompts") == "tasks"
    assert {registry.metric_kind(name) for name in registry.TABLES["suites"] if name != "prompts"} == {"metrics"}
