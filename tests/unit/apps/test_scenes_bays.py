"""Templates of the ladder in perspective: what is drawn is what the words say, every kind of error is seen, and bays keep to themselves."""

import re
from dataclasses import fields
from functools import cache
from random import Random

import numpy as np
import pytest
from scene_stubs import only_annotated_pixels_differ, unseen

from benchmarks.ladder_eye import covered
from titjudge.apps.scenes import annotation
from titjudge.apps.scenes.bays import BayTemplate
from titjudge.apps.scenes.generate import ScenePlan, plan
from titjudge.apps.scenes.ladder import TEMPLATES
from titjudge.apps.scenes.scene import PICTURE, WALL, Options, Scene, ThingGroup
from titjudge.apps.scenes.sprites import LIGHTS, STYLES, finished
from titjudge.apps.scenes.template import SIZES, ordinal

BAYS = [template for template in TEMPLATES.values() if isinstance(template, BayTemplate)]
KINDS = [(template, kind) for template in BAYS for kind in template.kinds]
each_template = pytest.mark.parametrize("template", BAYS, ids=lambda template: template.name)
each_kind = pytest.mark.parametrize(("template", "kind"), KINDS, ids=lambda value: getattr(value, "name", value))


@cache
def planned(name: str, difficulty: int, number: int = 0) -> ScenePlan:
    return plan(Options(7, ladder=difficulty, template=name), number, unseen)


@cache
def composed(name: str, seed: int = 3) -> Scene:
    template = TEMPLATES[name]
    return template.compose(Random(seed), template.rungs[3])


def things(template: BayTemplate, kind: str) -> list[ThingGroup]:
    return [thing for seed in (3, 4) for thing in composed(template.name, seed).groups if thing.kind == kind]


def row_of(sprite_count: int, across: int) -> list[int]:
    return [min(across, sprite_count - start) for start in range(0, sprite_count, across)]


@each_kind
def test_every_kind_of_error_is_seen_in_each_style_and_light(template: BayTemplate, kind: str) -> None:
    """At the highest difficulty some errors of each kind differ by enough pixels, at enough contrast, within their bay."""
    rung, scene = template.rungs[3], composed(template.name)
    group = things(template, kind)[0]
    others = list(template.alternatives(group))
    assert others
    for style, light in zip(STYLES, LIGHTS, strict=False):
        view = type(scene.view)(light, 0.0, {}, 5, style, scene.view.camera)
        lit = Scene("", scene.wall, scene.things, view, scene.template)
        assert any(template.difference(group, other, rung, lit) for other in others[:12]), (style, light)


@each_kind
def test_each_alternative_says_something_else_and_draws_something_else(template: BayTemplate, kind: str) -> None:
    for group in things(template, kind)[:4]:
        drawn = template.sprites(group, Random(1))
        for other in template.alternatives(group):
            assert other.traits[kind] != group.traits[kind]
            assert kind == "text" or template.sprites(other, Random(1)) != drawn
            changed = {one.name for one in fields(group) if getattr(group, one.name) != getattr(other, one.name)}
            assert changed <= {"traits", "bits", "number", "looks", "way"}


@each_template
def test_level_1_has_one_wrong_element_of_a_kind_that_goes_round(template: BayTemplate) -> None:
    for number in (0, 3):
        scene = planned(template.name, 1, number)
        marks = annotation.marks(scene.graph, scene.shown[1].scene)
        assert marks is not None
        assert marks.wrong == 1
        assert [error.kind for error in scene.shown[1].errors] == [template.kinds[number]]


@each_template
@pytest.mark.parametrize("difficulty", [1, 3])
def test_pixels_differ_where_the_annotation_says_and_nowhere_else(template: BayTemplate, difficulty: int) -> None:
    scene, rung = planned(template.name, difficulty), template.rungs[difficulty]
    assert template.picture(scene.asked, rung).shape == (*SIZES[difficulty][::-1], 3)
    only_annotated_pixels_differ(scene, template, rung)


@each_template
@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_bays_do_not_overlap_and_all_that_is_in_one_is_within_it(template: BayTemplate, difficulty: int) -> None:
    rung, scene = template.rungs[difficulty], template.compose(Random(5), template.rungs[difficulty])
    for camera in template.cameras:
        view = type(scene.view)(next(iter(LIGHTS)), 0.0, {}, 5, STYLES[0], camera)
        seen = Scene("", scene.wall, scene.things, view, scene.template)
        taken = np.zeros((rung.height, rung.width), bool)
        for thing in scene.groups:
            left, top, right, bottom = template.inside(thing, rung, seen)
            assert not taken[top:bottom, left:right].any()
            taken[top:bottom, left:right] = True
            edge = np.ones((bottom - top, right - left), bool)
            edge[1:-1, 1:-1] = False
            sprites = template.sprites(thing, Random(2))
            assert not covered(template, thing, rung, seen, sprites)[edge].any(), thing.name
            if thing.form == "text":
                full, bare = (template.drawn(group, rung, seen, []) for group in (thing, thing.saying("")))
                reach = np.pad(np.abs(full - bare).max(axis=2) > 0.1, 1)
                assert not reach[:, : rung.em // 2].any()
                assert not reach[:, -(rung.em // 2) :].any()


@each_template
def test_words_of_rows_are_true_of_an_independent_count(template: BayTemplate) -> None:
    """What the words say is compared with the looks of the things that are drawn, from the top left."""
    counted = 0
    for thing in [thing for seed in range(6) for thing in composed(template.name, seed).groups if thing.form == "row"]:
        words, across, number = thing.value, thing.across, thing.number
        sprites = [
            sprite
            for sprite in template.sprites(thing, None)
            if not sprite.look.keys() & {"seat"} and sprite.look.get("thing") != "mat"
        ]
        if thing.kind != "extra":
            assert len(sprites) == number
            order = sorted(sprites, key=lambda sprite: (-round(sprite.up, 3), sprite.across))
            if thing.feature == "size":
                other = [sprite.scale < 1 for sprite in order]
            else:
                other = [sprite.look[thing.feature] == thing.looks[-1][thing.feature] for sprite in order]
            last = [sprite.across for sprite in order[number - row_of(number, across)[-1] :]]
            assert last == sorted(last)
        else:
            ups = sorted({round(sprite.up, 2) for sprite in template.sprites(thing, None)})
            other = [False] * number
            for sprite in sprites:
                row = round((max(ups) - sprite.up) / template.pitch[1])
                other[row * across + round(sprite.across / template.pitch[0] + (across - 1) / 2)] = True
        if match := re.match(r"(each|none) of the (\d+)", words):
            assert int(match[2]) == number
            assert not any(other)
        elif "every second one" in words:
            assert other == [k % 2 == 1 for k in range(number)]
        elif match := re.match(r"only the (\w+), counted", words):
            assert [ordinal(k) for k, so in enumerate(other) if so] == [match[1]]
        else:
            assert "exactly one more" in words
            assert other.count(True) == other.count(False) + 1
        counted += 1
    assert counted > 100


@each_template
def test_a_count_is_the_number_of_things_and_one_more_moves_no_other(template: BayTemplate) -> None:
    for thing in things(template, "count"):
        sprites = template.sprites(thing, Random(1))
        assert len(sprites) == thing.number
        assert str(thing.number) in template.sentence(thing)
        for other in template.alternatives(thing):
            more = template.sprites(other, Random(1))
            few, many = sorted((sprites, more), key=len)
            assert len(many) == len(few) + 1
            assert all(sprite in many for sprite in few)


@each_template
def test_an_extra_thing_is_one_more_where_none_is_asked_for(template: BayTemplate) -> None:
    for thing in things(template, "extra"):
        number = len(template.sprites(thing, None))
        assert {len(template.sprites(other, None)) for other in template.alternatives(thing)} == {number + 1}


@each_template
def test_the_prompt_says_all_that_the_graph_asks(template: BayTemplate) -> None:
    scene = planned(template.name, 3)
    view = scene.asked.view
    assert scene.graph.attributes[PICTURE] == {"light": view.light, "style": view.style, "camera": view.camera}
    for said in (view.light, view.style, view.camera, scene.graph.attributes[WALL]["colour"]):
        assert said in scene.prompt
    for thing in scene.asked.groups:
        assert scene.prompt.count(f"n {thing.name} ") == 1
        assert thing.value in template.sentence(thing)
        assert template.sentence(thing) in scene.prompt


@each_template
def test_groups_and_questions_are_shuffled_and_half_of_the_answers_are_no(template: BayTemplate) -> None:
    first, second = planned(template.name, 1), planned(template.name, 1, 3)
    kinds = [[thing.kind for thing in scene.asked.groups] for scene in (first, second)]
    assert kinds[0] != kinds[1]
    assert sorted(kinds[0]) == sorted(kinds[1])
    answers = [question.answer(first.asked) for question in first.asks]
    assert answers.count("yes") == answers.count("no") == 8
    assert answers != sorted(answers)
    assert answers != sorted(answers, reverse=True)


@each_template
def test_light_style_camera_and_colour_vary_from_scene_to_scene(template: BayTemplate) -> None:
    scenes = [composed(template.name, seed) for seed in range(12)]
    for values in zip(*((s.view.light, s.view.style, s.view.camera, s.wall) for s in scenes), strict=True):
        assert len(set(values)) > 1


@each_template
def test_the_camera_makes_near_things_larger(template: BayTemplate) -> None:
    scene, rung = composed(template.name), template.rungs[3]
    widths = set()
    for thing in scene.groups:
        left, _, right, _ = template.inside(thing, rung, scene)
        widths.add(right - left)
    assert max(widths) > 1.07 * min(widths)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("light", LIGHTS)
def test_a_part_is_finished_as_in_the_whole(style: str, light: str) -> None:
    canvas = np.random.default_rng(1).uniform(0, 1, (60, 80, 3)).astype(np.float32)
    whole = finished(canvas, (0, 0), (80, 60), light, style, 3)
    part = finished(canvas[20:50, 10:70], (10, 20), (80, 60), light, style, 3)
    assert np.abs(whole[21:49, 11:69] - part[1:-1, 1:-1]).max() < 1e-5  # ink looks at neighbours
    assert np.abs(whole - canvas).mean() > 0.01


def test_things_of_an_arrangement_are_named_apart() -> None:
    for template in BAYS:
        for kind in template.ways:
            for thing in things(template, kind):
                names = list(map(template.name_of, thing.looks))
                assert len(set(names)) == len(names)
