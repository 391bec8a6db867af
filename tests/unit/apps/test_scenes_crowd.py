"""Crowded scenes: what is composed, asked and planted in them, how they are made, and what sight of them is refused."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from scene_stubs import noise, unseen

from titjudge.apps.scenes import annotation, visibility
from titjudge.apps.scenes.crowd import FEWEST, MOST
from titjudge.apps.scenes.errors import BANDS, KINDS_OF_ERROR, MISSING, RELATION
from titjudge.apps.scenes.generate import ScenePlan, make, plan
from titjudge.apps.scenes.scene import AskedElements, Options, Scene, Thing, View
from titjudge.core.errors import UserError
from titjudge.suites.known_answer.suite import KnownAnswer

NUMBERS = range(5)
VIEW = View("bright", 6.6, {}, 1)


@cache
def crowd(number: int) -> ScenePlan:
    return plan(Options(7, hard=True), number, unseen)


@pytest.fixture(params=NUMBERS)
def scene(request: pytest.FixtureRequest) -> ScenePlan:
    return crowd(request.param)


def test_a_crowd_has_forty_to_eighty_things_and_counts_to_twelve(scene: ScenePlan) -> None:
    for shown in scene.shown:
        assert FEWEST <= sum(thing.count for thing in shown.scene.things) <= MOST
        assert all(2 <= thing.count <= 12 for thing in shown.scene.things)
    assert max(thing.count for thing in scene.asked.things) >= 10
    assert len({thing.name for thing in scene.asked.things}) == 12


def test_two_groups_differ_in_their_colour_only() -> None:
    def alike(scene: Scene) -> bool:
        looks = Counter(tuple(thing.traits[key] for key in ("of", "count", "tray colour")) for thing in scene.things)
        return max(looks.values()) > 1

    assert sum(alike(crowd(number).asked) for number in NUMBERS) >= 3


def test_the_prompt_asks_for_every_element(scene: ScenePlan) -> None:
    assert 280 <= len(scene.prompt.split()) <= 460
    for thing in scene.asked.things:
        assert f"{thing.traits['count']} small {thing.name}" in scene.prompt
        assert f"{thing.traits['tray colour']} tray" in scene.prompt
        assert thing.traits.get("text", "") in scene.prompt
    for a, word, b in scene.graph.relations:
        said = f"To the right of the {b}" if word == "right of" else f"directly behind the {b}"
        assert said in scene.prompt
        assert a in scene.prompt
    assert scene.asked.surface in scene.prompt
    assert scene.asked.wall in scene.prompt


def test_level_1_has_one_error_of_a_kind_that_goes_round() -> None:
    for number in NUMBERS:
        scene = crowd(number)
        record = annotation.image_record(scene.shown[1], scene.graph, scene.asks)
        kind = KINDS_OF_ERROR[number % len(KINDS_OF_ERROR)]
        assert {error["kind"] for error in record["errors"]} == {kind}
        marks = annotation.marks(scene.graph, scene.shown[1].scene)
        assert marks is not None
        assert 1 <= marks.wrong <= {MISSING: 8, RELATION: 2}.get(kind, 1)


def test_levels_2_and_3_keep_their_share(scene: ScenePlan) -> None:
    for level, (low, high) in BANDS.items():
        marks = annotation.marks(scene.graph, scene.shown[level].scene)
        assert marks is not None
        assert low <= marks.wrong / len(scene.graph) <= high


def test_questions_are_answered_by_what_is_there(scene: ScenePlan) -> None:
    gold = [question.answer(scene.asked) for question in scene.asks]
    assert Counter(gold) == {"yes": 8, "no": 4}
    assert len({question.text for question in scene.asks}) == 12
    last = [question.answer(scene.shown[3].scene) for question in scene.asks]
    assert last != gold


def test_words_of_cards_are_annotated(scene: ScenePlan) -> None:
    record = scene.prompt_record()
    assert len(record["text_words"]) == 4
    first = annotation.image_record(scene.shown[0], scene.graph, scene.asks)
    assert first["text_present"] == record["text_words"]


def test_the_same_seed_gives_the_same_crowd_and_no_simple_scene() -> None:
    assert (
        plan(Options(7, levels=(0, 1), hard=True), 3, unseen)
        == plan(Options(7, levels=(0, 1), hard=True), 3, unseen)
        != plan(Options(7, levels=(0, 1)), 3, unseen)
    )


def test_a_folder_is_made_gone_on_with_and_read(tmp_path: Path) -> None:
    options = Options(seed=3, size=24, levels=(0, 1), hard=True)

    def run(out: Path, given: Options, scenes: int) -> None:
        make(out, scenes, given, look=unseen, render=noise, watch=lambda _: None)

    run(tmp_path / "at-once", options, 2)
    run(tmp_path / "grown", options, 1)
    run(tmp_path / "grown", options, 2)
    for name in ("prompts.jsonl", "images.jsonl", "pairs.jsonl"):
        assert (tmp_path / "grown" / name).read_bytes() == (tmp_path / "at-once" / name).read_bytes()
    assert len(list(KnownAnswer().load(tmp_path / "grown"))) == 4
    assert json.loads((tmp_path / "grown" / "made.json").read_text())["hard"] is True
    with pytest.raises(UserError, match="was made with"):
        run(tmp_path / "grown", replace(options, hard=False), 2)
    assert "--hard" in (tmp_path / "grown" / "README.md").read_text()


def group(count: str, column: int, row: str, **more: str) -> Thing:
    traits = {"of": "cubes", "colour": "red", "count": count, "tray colour": "white", **more}
    return Thing(f"{count} cubes", "set", traits, column, row)


@pytest.mark.slow
def test_what_is_hidden_small_or_not_crowded_is_refused() -> None:
    """Rendered as object ids, tiny: twelve cubes hide one another in part, two do not."""
    graph = AskedElements((), {}, ())

    def wrong(*things: Thing, height: float = 6.6, size: int = 120) -> str:
        view = replace(VIEW, height=height)
        return "; ".join(visibility.look(Scene("plain green cloth", "cream", things, view), graph, size))

    assert "only 0 things stand partly behind others" in wrong(group("two", -1, "middle"))
    assert "stand partly" not in wrong(group("twelve", 1, "middle", of="cones"), height=4.5)
    assert "of it to be seen" in wrong(group("eight", 1, "middle", of="cylinders"), height=0.3)
