"""The ladder: errors of one element that can be seen, in a box of their own, said by prompt, graph, questions and annotation alike."""

from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
from builders import read_lines
from PIL import Image
from scene_stubs import only_annotated_pixels_differ, unseen

from titjudge.apps.scenes import annotation
from titjudge.apps.scenes.cabinet import Cabinet
from titjudge.apps.scenes.generate import ScenePlan, plan
from titjudge.apps.scenes.ladder import MIXED, TEMPLATES, readme
from titjudge.apps.scenes.scene import Options, Scene, ThingGroup
from titjudge.apps.scenes.template import ERRORS_AT, SIZES, Template, bits_of

CABINET = Cabinet()
RUNGS, KINDS = CABINET.rungs, CABINET.kinds


@cache
def planned(difficulty: int, number: int = 0) -> ScenePlan:
    return plan(Options(7, ladder=difficulty), number, unseen)


@cache
def composed() -> Scene:
    return CABINET.compose(Random(3), RUNGS[3])


def test_the_difficulties_have_more_groups_and_smaller_things_each() -> None:
    rungs = [RUNGS[difficulty] for difficulty in (1, 2, 3)]
    assert [len(planned(difficulty).asked.things) for difficulty in (1, 2, 3)] == [25, 40, 60]
    assert [rung.unit for rung in rungs] == sorted((rung.unit for rung in rungs), reverse=True)
    assert all(1024 <= rung.width <= 2048 for rung in rungs)


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_level_1_has_one_wrong_element_of_a_kind_that_goes_round(number: int) -> None:
    scene = plan(Options(7, levels=(0, 1), ladder=2), number, unseen)
    shown = scene.shown[1]
    found = annotation.marks(scene.graph, shown.scene)
    assert found is not None
    assert found.wrong == 1
    assert [error.kind for error in shown.errors] == [KINDS[number]]


@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_pixels_differ_where_the_annotation_says_and_nowhere_else(difficulty: int) -> None:
    only_annotated_pixels_differ(planned(difficulty), CABINET, RUNGS[difficulty])


def test_errors_are_in_boxes_of_their_own_and_as_many_as_the_level_says() -> None:
    for shown in planned(3).shown:
        boxes = [error.element[0] for error in shown.errors]
        assert len(set(boxes)) == len(boxes) == ERRORS_AT.get(shown.level, 0)


def places(thing: ThingGroup) -> set[tuple[float, ...]]:
    return {sprite[1:] for sprite in CABINET.sprites(thing, Random(1))}


def test_an_error_of_a_count_is_one_thing_more_or_fewer_and_moves_no_other() -> None:
    for thing in composed().groups:
        if thing.kind == "count":
            was, *others = (places(each) for each in (thing, *CABINET.alternatives(thing)))
            assert [len(was ^ other) for other in others] == [1, 1]


def test_every_alternative_says_something_else_than_the_prompt() -> None:
    for thing in composed().groups:
        about = thing.kind
        others = [each.traits[about] for each in CABINET.alternatives(thing)]
        assert others
        assert thing.traits[about] not in others


def test_the_prompt_says_all_that_the_graph_asks_and_each_box_once() -> None:
    scene = planned(3)
    for thing in scene.asked.groups:
        about = thing.kind
        assert scene.prompt.count(f"ox {thing.name[4:]} ") == 1, thing.name
        assert thing.traits[about] == "nothing" or thing.traits[about].removeprefix("one ") in scene.prompt
    assert "surface" in scene.graph.attributes["table"]


def test_questions_have_both_answers_and_those_of_an_image_differ_where_it_is_wrong() -> None:
    answers = [question.answer(planned(1).asked) for question in planned(1).asks]
    assert answers.count("yes") == answers.count("no") == 8
    shown = planned(1).shown[3]
    asked_about = {question.about[0]: question for question in planned(1).asks}
    wrong = [asked_about[error.element[0]] for error in shown.errors if error.element[0] in asked_about]
    assert wrong
    assert all(q.answer(planned(1).asked) == "no" or q.answer(shown.scene) == "no" for q in wrong)


@pytest.mark.parametrize("rule", ["all", "none", "every second", "only", "more"])
def test_a_rule_is_true_of_the_states_that_are_drawn_for_it(rule: str) -> None:
    bits = bits_of(Random(2), rule, 11)
    wanted = {"all": {0}, "none": {0}, "every second": {5}, "only": {1}, "more": {6}}
    assert bits.count("1") in wanted[rule]
    assert rule != "every second" or bits.startswith("0101")


def test_an_error_that_changes_too_few_pixels_is_not_seen() -> None:
    thing = next(each for each in composed().groups if each.kind == "count")
    assert CABINET.difference(thing, thing, RUNGS[3], composed()) is None


BUNDLED = Path(__file__).resolve().parents[3] / "examples" / "ladder"


@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_the_bundled_scenes_are_those_that_the_command_makes(difficulty: int) -> None:
    """The images are JPEG: their pixels are near those that are drawn, and far from those of the other level at the error."""
    folder = BUNDLED / str(difficulty)
    made = plan(Options(1, levels=(0, 1), ladder=difficulty), 0, unseen)
    (prompt,) = read_lines(folder / "prompts.jsonl")
    assert (prompt["prompt_id"], prompt["prompt"]) == (made.prompt_id, made.prompt)
    images = read_lines(folder / "images.jsonl")
    assert {image["level"] for image in images} == {0, 1}
    drawn = {shown.level: CABINET.picture(shown.scene, RUNGS[difficulty]) for shown in made.shown}
    (error,) = made.shown[1].errors
    left, top, right, bottom = error.box
    for image in images:
        with Image.open(folder / image["image"]) as opened:
            pixels = np.asarray(opened.convert("RGB"), np.int16)
        place = np.s_[top:bottom, left:right]
        own, other = (
            np.abs(pixels[place] - drawn[level][place]).mean() for level in (image["level"], 1 - image["level"])
        )
        assert np.abs(pixels - drawn[image["level"]]).mean() < 4
        assert own < other / 2


def test_a_mixed_set_holds_the_first_scenes_of_each_template() -> None:
    mixed = [
        plan(Options(7, levels=(0,), ladder=1, template=MIXED), number, unseen) for number in range(len(TEMPLATES) + 1)
    ]
    assert [scene.asked.template for scene in mixed[: len(TEMPLATES)]] == list(TEMPLATES)
    assert mixed[0] == plan(Options(7, levels=(0,), ladder=1), 0, unseen)
    assert mixed[-1] == plan(Options(7, levels=(0,), ladder=1), 1, unseen)
    assert len({scene.prompt_id for scene in mixed}) == len(mixed)


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_templates_have_the_same_sizes_and_a_line_for_each_kind_of_error(template: Template) -> None:
    for difficulty, rung in template.rungs.items():
        assert (rung.width, rung.height) == SIZES[difficulty]
        assert 1024 <= rung.height <= rung.width <= 2048
        assert 25 <= rung.columns * rung.rows <= 60
    assert tuple(template.about_errors) == template.kinds
    text = readme(Options(1, 1024, 0, ladder=1, template=template.name), 1, 4, 6)
    assert f"--scene {template.name}" in text
    assert all(f"| {kind} | {says} |" in text for kind, says in template.about_errors.items())
