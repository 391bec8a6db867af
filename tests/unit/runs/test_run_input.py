"""`--limit` draws whole prompts; many equal refusals are said once; a metric that can judge nothing is refused."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError
from titjudge.core.grouping import alike, brief, listed
from titjudge.core.types import InvalidItem, Item
from titjudge.metrics.tit import lmm_score
from titjudge.runs.run_input import Drawn, RunInput
from titjudge.suites.base import Suite


def _data(generators: int = 3, prompts: int = 4) -> list[Item | InvalidItem]:
    """In the order of a folder: one generator after the other."""
    return [
        Item(f"g{g}/{p}.png", f"prompt {p}", None, f"g{g}", f"p{p}") for g in range(generators) for p in range(prompts)
    ]


def _drawn(data: list[Item | InvalidItem], limit: int, seed: int | None = None) -> tuple[list[str], str]:
    def load() -> Iterator[Item | InvalidItem]:
        return iter(data)

    drawn = Drawn.draw(load, limit, seed)
    return [item.id for item in drawn.items(load)], drawn.line


def test_a_limit_takes_all_generators_of_the_first_prompts() -> None:
    ids, line = _drawn(_data(), 7)
    assert ids == ["g0/0.png", "g0/1.png", "g1/0.png", "g1/1.png", "g2/0.png", "g2/1.png"]
    assert line == "--limit 7: 6 of 12 images, all those of 2 of 4 prompts"


def test_a_seed_draws_random_prompts_whatever_their_order_and_a_larger_limit_holds_the_smaller_one() -> None:
    data = _data(2, 20)
    ids, line = _drawn(data, 10, seed=1)
    assert line == "--limit 10: 10 of 40 images, all those of 5 of 20 prompts, drawn at random"
    assert len(ids) == 10
    assert set(ids) == set(_drawn(data[::-1], 10, seed=1)[0])
    assert ids != _drawn(data, 10)[0]
    assert set(ids) != set(_drawn(data, 10, seed=2)[0])
    assert set(ids) < set(_drawn(data, 12, seed=1)[0])


def test_prompts_without_images_are_counted_as_such() -> None:
    prompts: list[Item | InvalidItem] = [Item(f"p{n}", f"prompt {n}", None, "", f"p{n}") for n in range(3)]
    assert _drawn(prompts, 2) == (["p0", "p1"], "--limit 2: 2 of 3 prompts")


def test_a_limit_below_one_prompt_takes_a_part_of_it_and_says_so() -> None:
    ids, line = _drawn(_data(), 2)
    assert ids == ["g0/0.png", "g1/0.png"]
    assert line == "--limit 2: the first 2 of 3 images of one prompt, of 4 prompts"


def test_a_limit_that_holds_everything_says_nothing() -> None:
    ids, line = _drawn(_data(), 12)
    assert (len(ids), line) == (12, "")


def test_what_cannot_be_used_takes_no_room() -> None:
    data = [InvalidItem("prompts.jsonl:1", "no object"), InvalidItem("g0/0.png", "no prompt", "g0", "p0"), *_data(2, 2)]
    ids, _ = _drawn(data, 2)
    assert ids == ["prompts.jsonl:1", "g0/0.png", "g0/0.png", "g1/0.png"]


def test_a_larger_limit_holds_the_smaller_one() -> None:
    data = _data(3, 5)
    taken = [set(_drawn(data, limit)[0]) for limit in range(3, 16)]
    assert all(small <= large for small, large in pairwise(taken))


def test_refusals_of_a_kind_stand_together_whatever_their_names() -> None:
    refused = [(f"train/{n:05}.png", f"no prompt: train/{n:05}.txt is missing") for n in range(9)]
    refused.insert(4, ("x.png", "the image file is empty"))
    assert [len(group) for group in alike(refused)] == [9, 1]
    assert brief(refused) == (
        "train/00000.png: no prompt: train/00000.txt is missing (and 8 more like this); x.png: the image file is empty"
    )


def test_the_brief_ends_after_some_kinds() -> None:
    said = brief([("a", "one"), ("b", "two"), ("c", "three"), ("d", "four"), ("e", "five")], kinds=2)
    assert said == "a: one; b: two; 3 for other reasons"


def test_a_reason_that_names_its_place_is_said_once() -> None:
    assert list(listed([("a.csv:3", "a.csv:3: no prompt")], 1)) == ["a.csv:3: no prompt"]
    assert list(listed([("x.png", "data/x.png: no such image file")], 1)) == ["data/x.png: no such image file"]
    assert list(listed([("a", "data: no image")], 1)) == ["a: data: no image"]


class _Suite(Suite):
    name = "items"
    metrics = ()

    def __init__(self, *items: Item) -> None:
        super().__init__()
        self._items = items

    def load(self, folder: Path) -> Iterator[Item | InvalidItem]:
        yield InvalidItem("x.png", "no prompt")
        yield from self._items


_IMAGE = Item("a.png", "make it red", Path("a.png"))
_EDIT = Item("b.png", "make it red", Path("b.png"), sources=(Path("a.png"),))
_OF_EDITS = replace(lmm_score, name="of-edits", sources="required")


def _check(*items: Item, ignore_sources: bool = False) -> None:
    config = RunConfig(data=Path(), ignore_sources=ignore_sources)
    RunInput(config, _Suite(*items)).check_sources([lmm_score, _OF_EDITS])


def test_a_metric_that_can_judge_no_item_for_want_or_presence_of_sources_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(ConfigError, match="none of the items can be judged: of-edits judges edits"):
        _check(_IMAGE, _IMAGE)
    with pytest.raises(ConfigError, match="none of the items can be judged: this is an edit, and lmm-score"):
        _check(_EDIT, _EDIT)
    with pytest.raises(ConfigError, match="none of the items can be judged: of-edits"):
        _check(_IMAGE, ignore_sources=True)
    _check(_IMAGE, _EDIT)
    _check(_EDIT, ignore_sources=True)
    _check()
