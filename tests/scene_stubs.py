"""Scenes without a renderer: nothing is ever wrong with the sight of them, and their pictures are plain noise."""

import hashlib
from functools import cache
from typing import Any

import numpy as np

from titjudge.apps.scenes.generate import ScenePlan, plan
from titjudge.apps.scenes.scene import AskedElements, Options, Scene
from titjudge.apps.scenes.template import ERRORS_AT, Rung, Template


def unseen(scene: Scene, graph: AskedElements) -> list[str]:
    return []


def noise(scene: Scene) -> Any:
    seed = int.from_bytes(hashlib.sha256(repr(scene).encode()).digest()[:8], "big")
    return np.random.default_rng(seed).integers(0, 255, (24, 24, 3), dtype=np.uint8)


@cache
def planned(number: int, seed: int = 7) -> ScenePlan:
    return plan(Options(seed), number, unseen)


def only_annotated_pixels_differ(scene: ScenePlan, template: Template, rung: Rung) -> None:
    """Check each level of a scene: as many groups are wrong as there are errors, each differs where it is annotated, and nothing else."""
    right = template.picture(scene.asked, rung).astype(np.int16)
    for shown in scene.shown[1:]:
        apart = np.abs(template.picture(shown.scene, rung) - right).max(axis=2) > 40
        assert len({error.element[0] for error in shown.errors}) == len(shown.errors) == ERRORS_AT[shown.level]
        for error in shown.errors:
            assert error.box is not None
            left, top, end, bottom = error.box
            assert apart[top:bottom, left:end].sum() >= 8, error
            thing = scene.asked.get(error.element[0])
            assert thing is not None
            place = template.place(thing, rung, scene.asked)
            assert 0 <= place[0] < left < end < place[2] <= rung.width
            assert 0 <= place[1] < top < bottom < place[3] <= rung.height
            apart[place[1] : place[3], place[0] : place[2]] = False
        assert not apart.any()
