"""With the renderer: what covers what, the same bits again, and a sight that is refused. Tiny pictures."""

import os
import signal
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from titjudge.apps.scenes import visibility
from titjudge.apps.scenes.layout import Finish, Primitive
from titjudge.apps.scenes.render import denoise, mesh
from titjudge.apps.scenes.scene import AskedElements, Scene, Thing, View

pytestmark = pytest.mark.slow  # many in all, each of them short

VIEW = View("warm", 4.9, {}, 1)
MUG = Thing("mug", "mug", {"colour": "red", "contents": "coffee"}, -1, "front")
BLOCKS = Thing("blocks", "blocks", {"colour": "blue", "count": "three"}, 1, "back")
SIGN = Thing("sign", "sign", {"text": "OPEN DAILY", "frame colour": "black"}, 0, "back")
BOTTLE = Thing("bottle", "bottle", {"colour": "green"}, 0, "front")
LOW = Thing("ring", "ring", {"colour": "red"}, 0, "back")
GRAPH = AskedElements(("mug", "blocks"), {}, (("mug", "left of", "blocks"),))


def scene(*things: Thing) -> Scene:
    return Scene("white marble", "red brick", things, VIEW)


@pytest.mark.parametrize(
    "part",
    [
        Primitive("lathe", Finish("matte"), (1, 2, 0), profile=((0, 0), (0.5, 0), (0.6, 0.4), (0.5, 1), (0, 1))),
        Primitive("sphere", Finish("matte"), (1, 2, 0), (0.3, 0.2, 0.5), tilt=30),
        Primitive("box", Finish("matte"), (1, 2, 0), (0.3, 0.2, 0.5), turn=30),
        Primitive("ring", Finish("matte"), (1, 2, 0), (0.6, 0.2, 0)),
    ],
)
def test_meshes_face_outward(part: Primitive) -> None:
    vertices, normals, faces = mesh(part)
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    area = np.cross(b - a, c - a)
    size = np.linalg.norm(area, axis=1)
    facing = (area * normals[faces[:, 0]]).sum(axis=1)[size > 1e-9]
    assert (facing > 0).mean() > 0.99
    assert np.allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-6)
    volume = (a * np.cross(b, c)).sum() / 6  # of a closed surface, positive when it faces outward
    assert volume > 0.01


def test_the_filter_takes_grain_and_leaves_edges() -> None:
    rng = np.random.default_rng(0)
    albedo = np.full((40, 40, 3), 0.2, dtype=np.float32)
    albedo[:, 20:] = 0.8
    normal = np.zeros_like(albedo)
    noisy = (albedo * (1 + 0.2 * rng.standard_normal((40, 40, 1)))).astype(np.float32)
    smooth = denoise(noisy, albedo, normal, 16)
    assert smooth[8:-8, 4:16].std() < 0.5 * noisy[8:-8, 4:16].std()
    assert abs(smooth[:, 18].mean() - 0.2) < 0.02
    assert abs(smooth[:, 21].mean() - 0.8) < 0.08


class TestRendered:
    @pytest.fixture(autouse=True)
    def _renderer(self) -> None:
        pytest.importorskip("mitsuba")

    def test_every_object_has_its_own_id_where_it_stands(self) -> None:
        from titjudge.apps.scenes.render import Stage

        stage = Stage(scene(MUG, BLOCKS, SIGN), 64)
        ids = stage.ids()
        assert set(np.unique(ids)) == set(range(len(stage.objects) + 1))
        across = {each.label: np.nonzero(ids == k)[1].mean() for k, each in enumerate(stage.objects, 1)}
        assert across["mug__0"] < across["sign__0"] < across["blocks__0"]
        rows = [np.nonzero(ids == k)[0].mean() for k, each in enumerate(stage.objects, 1) if each.name == "blocks"]
        assert rows == sorted(rows, reverse=True)  # the tower is counted from below
        alone = stage.ids("mug__0")
        assert set(np.unique(alone)) == {0, 1}
        assert ((ids == 1) <= (alone > 0)).all()

    @pytest.mark.slow
    def test_a_good_sight_passes_and_hidden_or_cropped_things_do_not(self) -> None:
        assert visibility.look(scene(MUG, BLOCKS, SIGN), GRAPH, 96) == []
        near = replace(BOTTLE, column=0)
        assert any("sign" in what for what in visibility.look(scene(MUG, SIGN, near, BLOCKS), GRAPH, 96))
        beyond = View("warm", 4.9, {(-1, "front"): (-1.2, 0.0, 0.0)}, 1)
        assert any("edge" in what for what in visibility.look(replace(scene(MUG, BLOCKS), view=beyond), GRAPH, 96))

    @pytest.mark.slow
    def test_the_same_scene_gives_the_same_bits_and_another_does_not(self) -> None:
        from titjudge.apps.scenes.render import Stage

        first = Stage(scene(MUG, SIGN), 48).picture(2)
        assert first.shape == (48, 48, 3)
        assert first.dtype == np.uint8
        assert np.array_equal(first, Stage(scene(MUG, SIGN), 48).picture(2))
        assert not np.array_equal(first, Stage(scene(MUG.having("colour", "blue"), SIGN), 48).picture(2))

    @pytest.mark.parametrize("colour", ["red", "green", "blue"])
    def test_a_colour_is_seen_as_that_colour(self, colour: str) -> None:
        from titjudge.apps.scenes.render import Stage

        stage = Stage(scene(Thing("cylinder", "cylinder", {"colour": colour}, 0, "front")), 64)
        inside = stage.picture(4)[stage.ids() == 1].astype(float).mean(axis=0)
        assert int(inside.argmax()) == ["red", "green", "blue"].index(colour)

    def test_a_render_that_an_ignored_ctrl_c_cuts_short_is_made_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from titjudge.apps.scenes.render import Stage

        stage = Stage(scene(MUG), 96)
        whole = stage.picture(64)
        render, calls = stage._mi.render, []

        def interrupted(loaded: Any) -> Any:
            calls.append(loaded)
            if len(calls) == 1:
                threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            return render(loaded)

        monkeypatch.setattr(stage._mi, "render", interrupted)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a background job of a script
        try:
            assert np.array_equal(stage.picture(64), whole)
        finally:
            signal.signal(signal.SIGINT, before)
        assert len(calls) == 3, "the first of two was made again"

    def test_ctrl_c_ends_a_render_by_an_interrupt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from titjudge.apps.scenes.render import Stage

        stage = Stage(scene(MUG), 96)
        render = stage._mi.render

        def interrupted(loaded: Any) -> Any:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            return render(loaded)

        monkeypatch.setattr(stage._mi, "render", interrupted)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                stage.picture(64)
        finally:
            signal.signal(signal.SIGINT, before)

    def test_every_finish_can_be_rendered(self) -> None:
        from titjudge.apps.scenes.render import Stage

        things = [
            Thing("sphere", "sphere", {"material": "clear glass"}, -1, "front"),
            Thing("cube", "cube", {"material": "wood"}, 0, "front"),
            Thing("small cone", "small cone", {"material": "gold"}, 0, "front", "cube", "on"),
            Thing("candle", "candle", {"colour": "pink"}, 1, "back"),
            Thing("vase", "vase", {"colour": "blue"}, -1, "back"),
            Thing("flowers", "flowers", {"colour": "yellow", "count": "two"}, -1, "back", "vase", "in"),
        ]
        picture = Stage(scene(*things), 64).picture(1)
        assert 20 < picture.mean() < 240
