"""Scenes without a renderer: nothing is ever wrong with the sight of them, and their pictures are plain noise."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np

from titjudge.apps.scenes.generate import ScenePlan, plan
from titjudge.apps.scenes.scene import LEVELS, AskedElements, Scene


def unseen(scene: Scene, graph: AskedElements) -> list[str]:
    return []


def noise(scene: Scene) -> Any:
    seed = int.from_bytes(hashlib.sha256(repr(scene).encode()).digest()[:8], "big")
    return np.random.default_rng(seed).integers(0, 255, (24, 24, 3), dtype=np.uint8)


@cache
def planned(number: int, seed: int = 7) -> ScenePlan:
    return plan(seed, number, LEVELS, unseen)
