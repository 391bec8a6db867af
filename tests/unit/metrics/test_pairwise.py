"""Two images at a time, both orders, each comparison asked once for both images."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from PIL import Image

from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import InvalidItem, Item, Request, Score, Status
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import score_item
from titjudge.metrics.pairwise import drawn, pairwise, pairwise_text
from titjudge.providers.fake import Fake
from titjudge.runs.loop import prepared
from titjudge.stats.ranking.bradley_terry import drawn_pairs, duel_tables


def items(tmp_path: Path, count: int = 3) -> list[Item]:
    made = []
    for i in range(count):
        Image.new("RGB", (8, 8), (i * 60, 0, 0)).save(tmp_path / f"{i}.png")
        made.append(Item(f"{i}.png", "a red square", tmp_path / f"{i}.png", f"g{i}", "p"))
    return made


def brightest(request: Request) -> str:
    """An honest judge: the redder image is better."""
    first, second = (int(picture.path.stem) for picture in request.images)
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
    orders = {tuple(picture.path.stem for picture in request.images) for request in fake.requests}
    assert orders == {(a, b) for a in "012" for b in "012" if a != b}


def test_a_judge_that_always_takes_the_first_is_a_tie_and_is_found_out(tmp_path: Path) -> None:
    found, _ = scores(tmp_path, lambda request: json.dumps({"reason": "r", "better": "first"}))
    assert [score.value for score in found] == [0.5, 0.5, 0.5]
    assert all(score.parts["order_effect"] == 1 for score in found)
    assert all(score.parts["first_advantage"] == 1 for score in found)


def test_what_is_not_answered_is_counted_and_the_rest_scores(tmp_path: Path) -> None:
    def refuses_zero(request: Request) -> str:
        return "no" if any(picture.path.stem == "0" for picture in request.images) else brightest(request)

    found, _ = scores(tmp_path, refuses_zero)
    assert (found[0].value, found[0].status) == (None, Status.UNPARSED)
    assert [score.value for score in found[1:]] == [0, 1]
    assert found[1].parts["unanswered"] == 1


def test_duels_are_drawn_at_random_and_asked_in_both_orders(tmp_path: Path) -> None:
    metric = pairwise.configured({"duels": "0.3"})
    found, fake = scores(tmp_path, brightest, metric, count=5)
    asked = [tuple(picture.path.name for picture in request.images) for request in fake.requests]
    assert len(asked) == len(set(asked)) == 6  # three of ten pairs, each in both orders, each asked once
    assert {(b, a) for a, b in asked} == set(asked)
    assert all(score.value is not None for score in found)  # every image meets one at least
    pairs = drawn_pairs([replace(score, item_id=f"{k}.png", prompt_id="p") for k, score in enumerate(found)])
    assert {frozenset((pair.a, pair.b)) for pair in pairs} == {frozenset(each) for each in asked}
    assert all((pair.a > pair.b) == (pair.preference == "a") for pair in pairs)
    again, _ = scores(tmp_path, brightest, metric, count=5)
    other, _ = scores(tmp_path, brightest, metric.configured({"duels": 0.3, "seed": 1}), count=5)
    assert [score.parts for score in again] == [score.parts for score in found] != [score.parts for score in other]


def test_all_duels_are_the_default_and_leave_no_trace_of_a_draw(tmp_path: Path) -> None:
    found, fake = scores(tmp_path, brightest, count=5)
    assert len(fake.requests) == 20
    assert all("against" not in score.parts for score in found)


@pytest.mark.parametrize("count", [2, 3, 7, 12])
def test_every_pair_is_drawn_equally_often(count: int) -> None:
    ids = [f"{k}.png" for k in range(count)]
    draws = [drawn(ids, 0.2, seed) for seed in range(400)]
    (size,) = {len(each) for each in draws}
    pairs = count * (count - 1) // 2
    assert size == max((count + 1) // 2, round(0.2 * pairs))
    assert all(set().union(*each) == set(ids) for each in draws)
    share = [sum(frozenset(pair) in each for each in draws) / 400 for pair in combinations(ids, 2)]
    assert all(abs(each - size / pairs) < 0.13 for each in share)  # over five standard errors


def test_a_draw_of_everything_is_everything() -> None:
    assert len(drawn("abcdef", 1, 0)) == 15
    assert len(drawn("abcde", 1, 0)) == 10


def run_of_duels(prompts: int, level: Callable[[int, int], float]) -> tuple[list[Item], list[Score]]:
    """Six generators; the image of the higher level wins each of the drawn comparisons."""
    items = [Item(f"{p}/{g}", "prompt", None, f"g{g}", str(p)) for p in range(prompts) for g in range(6)]
    found = []
    for item in items:
        p, g = map(int, item.id.split("/"))
        pairs = drawn([f"{p}/{k}" for k in range(6)], 0.2, 0)
        others = [next(iter(pair - {item.id})) for pair in pairs if item.id in pair]
        gaps = {other: level(p, g) - level(p, int(other[-1])) for other in others}
        points = {other: 0.5 if not gap else float(gap > 0) for other, gap in gaps.items()}
        found.append(Score(item.id, "pairwise", 0.5, parts={"against": points}, prompt_id=str(p)))
    return items, found


def test_strengths_over_drawn_duels() -> None:
    items, found = run_of_duels(60, lambda p, g: g + (p * (g + 3)) % 4)
    (table,) = duel_tables(items, found)
    assert [row[0] for row in table.rows] == [1, 2, 3, 4, 5, 6]
    assert {row[1] for row in table.rows[:2]} == {"g4", "g5"}
    assert all(row[3] < row[2] < row[4] for row in table.rows)
    assert sum(row[-1] for row in table.rows) == 2 * len(drawn_pairs(found)) == 2 * 60 * 3


def test_without_a_finite_fit_points_decide_and_the_table_says_so() -> None:
    (table,) = duel_tables(*run_of_duels(60, lambda p, g: g))
    assert [row[1] for row in table.rows] == ["g5", "g4", "g3", "g2", "g1", "g0"]
    assert {row[2] for row in table.rows} == {None}
    assert table.notes[-1].id == "no_strengths_of_drawn"
    assert duel_tables([], [Score("0/0", "pairwise", 0.5, parts={"duels": []})]) == []


@pytest.mark.parametrize("share", ["0", "1.5", "nan", "x"])
def test_a_share_that_is_none_is_refused(share: str) -> None:
    with pytest.raises(ConfigError, match=r"pairwise\.duels"):
        pairwise.configured({"duels": share})


def test_a_lone_image_has_no_score(tmp_path: Path) -> None:
    (only,), fake = scores(tmp_path, brightest, count=1)
    assert (only.value, only.status) == (None, Status.BAD_INPUT)
    assert fake.requests == []


def test_over_descriptions_each_image_is_described_once(tmp_path: Path) -> None:
    def answer(request: Request) -> str:
        if request.images:
            return f"picture {request.images[0].path.stem}"
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
