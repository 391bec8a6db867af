"""The small rules: what is clear, what is near, what is misspelt, what is seen."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scene_stubs import planned

from titjudge.apps.scenes import annotation, layout, visibility
from titjudge.apps.scenes.errors import misspell
from titjudge.apps.scenes.layout import bodies
from titjudge.apps.scenes.scene import (
    COLOURS,
    KINDS,
    SIGN_FIRST,
    SIGN_SECOND,
    SURFACES,
    WALLS,
    AskedElements,
    Scene,
    Thing,
    View,
    lost_before,
    near,
)

VIEW = View("cool", 4.9, {}, 1)
MUG = Thing("mug", "mug", {"colour": "red", "contents": "coffee"}, 0, "front")
RING = Thing("ring", "ring", {"colour": "blue"}, -1, "front")
CONE = Thing("cone", "cone", {"colour": "green"}, 0, "back")
CUBE = Thing("cube", "cube", {"colour": "blue"}, 0, "front")
LOAD = Thing("small cone", "small cone", {"colour": "red"}, 0, "front", "cube", "on")


def scene(*things: Thing) -> Scene:
    return Scene("white marble", "red brick", things, VIEW)


@pytest.mark.parametrize(
    ("a", "word", "b", "so"),
    [
        ("ring", "left of", "mug", True),
        ("ring", "right of", "mug", False),
        ("mug", "right of", "ring", True),
        ("cone", "behind", "mug", True),
        ("mug", "behind", "cone", False),
        ("cone", "left of", "mug", None),  # the same column
        ("cone", "behind", "ring", None),  # behind, but in another column
        ("ring", "behind", "mug", None),  # the same row
        ("mug", "on", "table", True),
    ],
)
def test_a_relation_is_clear_or_open(a: str, word: str, b: str, so: bool | None) -> None:
    assert layout.holds(scene(MUG, RING, CONE), a, word, b) is so


@pytest.mark.parametrize(("place", "so"), [("on", True), ("before", False)])
def test_a_load_is_on_its_carrier_or_before_it(place: str, so: bool) -> None:
    shown = scene(CUBE, replace(LOAD, place=place))
    assert layout.holds(shown, "small cone", "on top of", "cube") is so
    height = layout.origin(shown, shown.things[1])[2]
    assert (height > 0) is so


def test_marks_of_an_open_relation_are_none_and_such_a_scene_is_not_annotated() -> None:
    graph = AskedElements(("mug", "cone"), {}, (("cone", "left of", "mug"),))
    assert annotation.marks(graph, scene(MUG, CONE)) is None
    from titjudge.apps.scenes.scene import ShownScene

    with pytest.raises(ValueError, match="neither"):
        annotation.image_record(ShownScene(0, scene(MUG, CONE)), graph, [])


def test_projection_is_from_the_viewers_side() -> None:
    here = scene(MUG)
    middle, right, up, far = (layout.project(here, point) for point in ((0, 0, 0), (1, 0, 0), (0, 0, 1), (0, 2, 0)))
    assert middle[0] == pytest.approx(0.5)
    assert right[0] > 0.5
    assert up[1] < middle[1]
    assert far[2] > middle[2]


@given(st.sampled_from(SIGN_FIRST), st.sampled_from(SIGN_SECOND), st.integers(0, 10_000))
def test_a_misspelt_text_differs_in_one_word_and_is_no_other_word(first: str, second: str, seed: int) -> None:
    words = misspell(f"{first} {second}", Random(seed)).split()
    changed = [new for new, old in zip(words, (first, second), strict=True) if new != old]
    assert len(changed) == 1
    assert changed[0] not in (*SIGN_FIRST, *SIGN_SECOND)
    assert changed[0][0] in (first[0], second[0])


def test_nearness_is_symmetric_and_leaves_a_clear_error_for_every_value() -> None:
    for a in COLOURS:
        assert near(a, a)
        for b in COLOURS:
            assert near(a, b) == near(b, a)
    for kind in KINDS.values():
        for name, values in kind.traits.items():
            if name not in ("count", "text"):
                assert all(any(not near(a, b) for b in values) for a in values), (kind.name, name)


def test_every_kind_stands_out_somewhere_before_every_wall() -> None:
    for kind in KINDS.values():
        for name, values in kind.traits.items():
            if "back" in kind.rows and name != "count":
                assert all(any(not lost_before(value, wall) for value in values) for wall in WALLS)


def test_a_group_has_as_many_bodies_as_its_count_and_they_do_not_touch() -> None:
    for kind in KINDS.values():
        for count in kind.traits.get("count", ()):
            traits = {"colour": "red", "count": count}
            thing = Thing(kind.name, kind.name, traits, 0, "front")
            found = bodies(thing)
            assert len(found) == thing.count
            if kind.name in ("apples", "oranges", "lemons", "balls"):
                middles = np.array([body[0].at[:2] for body in found])
                apart = np.linalg.norm(middles[:, None] - middles[None], axis=2) + 9 * np.eye(len(found))
                assert apart.min() > 0.38, kind.name


def test_labels_are_unique_and_name_their_thing() -> None:
    for shown in planned(4).shown:
        objects = list(layout.placed(shown.scene))
        labels = [each.label for each in objects]
        assert len(set(labels)) == len(labels)
        for thing in shown.scene.things:
            assert sum(each.name == thing.name for each in objects) == thing.count + (thing.kind == "sign")


# ------------------------------------------------------------------ what is seen, on drawn masks


def mask(top: int, bottom: int, left: int, right: int) -> visibility.Mask:
    found = np.zeros((100, 100), dtype=bool)
    found[top:bottom, left:right] = True
    return found


GRAPH = AskedElements(("mug", "ring"), {}, (("ring", "left of", "mug"),))
GOOD = {"mug__0": mask(50, 60, 45, 55), "ring__0": mask(50, 60, 10, 20)}


def wrong(changes: dict[str, visibility.Mask], *things: Thing, whole: dict[str, visibility.Mask] | None = None) -> str:
    seen = GOOD | changes
    return " | ".join(visibility.problems(scene(*(things or (MUG, RING))), GRAPH, seen, whole or (GOOD | changes)))


def test_nothing_is_wrong_with_a_good_sight() -> None:
    assert wrong({}) == ""


@pytest.mark.parametrize(
    ("seen", "whole", "word"),
    [
        (mask(0, 0, 0, 0), mask(50, 60, 45, 55), "0 of 1"),
        (mask(50, 55, 45, 55), mask(50, 60, 45, 55), "50% of it"),
        (mask(50, 52, 45, 47), mask(50, 52, 45, 47), "only 0.04%"),
        (mask(50, 60, 90, 100), mask(50, 60, 90, 100), "edge"),
        (mask(50, 60, 2, 8), mask(50, 60, 2, 8), "left of"),
    ],
)
def test_what_is_wrong_is_named(seen: visibility.Mask, whole: visibility.Mask, word: str) -> None:
    assert word in wrong({"mug__0": seen}, whole=GOOD | {"mug__0": whole})


def test_a_group_that_shows_one_less_is_miscounted() -> None:
    apples = Thing("apples", "apples", {"colour": "red", "count": "two"}, 0, "front")
    assert "apples: 1 of 2" in wrong({"apples__0": mask(50, 60, 45, 55)}, RING, apples)


def test_words_must_be_seen_whole_and_large() -> None:
    sign = Thing("sign", "sign", {"text": "A B", "frame colour": "red"}, 0, "back")
    frame, board = mask(20, 40, 40, 60), mask(22, 38, 42, 58)
    parts = {"sign__0": frame & ~board, "sign__words": board}
    whole = GOOD | {"sign__0": frame, "sign__words": board}
    assert wrong(parts, MUG, RING, sign, whole=whole) == ""
    assert "of its board" in wrong(parts | {"sign__words": mask(22, 35, 42, 58)}, MUG, RING, sign, whole=whole)
    small = mask(36, 38, 42, 58)
    assert "high" in wrong(parts | {"sign__words": small}, MUG, RING, sign, whole=whole | {"sign__words": small})


def test_surfaces_are_told_apart_by_their_pictures() -> None:
    from titjudge.apps.scenes import textures

    for name in (*SURFACES, *WALLS):
        pixels = textures.surface(name, 3)
        assert pixels.dtype == np.uint8
        assert np.array_equal(pixels, textures.surface(name, 3))
    dark, light = textures.words("FRESH MARKET").min(), textures.words("FRESH MARKET").max()
    assert (dark < 30, light > 220) == (True, True)
    assert not np.array_equal(textures.words("FRESH MARKET"), textures.words("FRESH MAKRET"))
