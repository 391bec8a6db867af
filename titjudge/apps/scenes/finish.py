"""The light on a drawn scene and the style it is drawn in, as attributes of the whole picture that the prompt asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from titjudge.core.files import read_yaml

Canvas = NDArray[np.float32]  # (rows, columns, 3), 0 to 1


@dataclass(frozen=True, slots=True)
class Light:
    """A light.

    Attributes:
        tint: What it does to red, green and blue.
        side: Where it comes from: -1 the left, 1 the right, 0 above.
        shadow: Length of a shadow, as a share of the height of the thing.
        lamp: Whether it is a pool of light in the middle.
    """

    tint: Sequence[float]
    side: int
    shadow: float
    lamp: bool = False


_READ = read_yaml(Path(__file__).with_name("finish.yaml"), "lights and styles")
LIGHTS = {name: Light(**light) for name, light in _READ["lights"].items()}
_CLEAN, INK, POSTER = STYLES = tuple(_READ["styles"])
_PAPER = np.array((0.97, 0.95, 0.89), np.float32)
_STEPS = 5  # of a channel on a poster


def finished(
    canvas: Canvas, corner: tuple[int, int], size: tuple[int, int], light: str, style: str, grain: int
) -> Canvas:
    """Light a part of a picture and draw it in a style.

    Args:
        canvas: The part.
        corner: Its left and top in the picture.
        size: Width and height of the picture.
        light: A key of LIGHTS.
        style: One of STYLES.
        grain: Seed of the paper.
    """
    canvas = canvas * _lit(canvas.shape[:2], corner, size, light)
    if style == INK:
        canvas = _inked(canvas) * _paper(grain, *size)[corner[1] :, corner[0] :][: canvas.shape[0], : canvas.shape[1]]
    elif style == POSTER:
        canvas = _printed(canvas)
    return np.clip(canvas, 0, 1)


def _lit(shape: tuple[int, ...], corner: tuple[int, int], size: tuple[int, int], name: str) -> Canvas:
    """Return how much of its colour each pixel shows."""
    light = LIGHTS[name]
    x = (np.arange(shape[1]) + corner[0])[None, :, None] / size[0]
    y = (np.arange(shape[0]) + corner[1])[:, None, None] / size[1]
    if light.lamp:
        away = ((x - 0.5) / 0.62) ** 2 + ((y - 0.45) / 0.62) ** 2
        tone = 0.6 + 0.45 * np.exp(-1.6 * away)
    else:
        tone = 1.0 - 0.1 * light.side * (0.5 - x) + 0 * y
    return np.asarray(tone * np.array(light.tint), np.float32)


def _inked(canvas: Canvas) -> Canvas:
    """Draw dark lines where the brightness changes, and leave a third of the paper's colour in all others."""
    grey = np.pad(canvas.mean(axis=2), 1, mode="edge")
    slope = np.hypot(grey[1:-1, 2:] - grey[1:-1, :-2], grey[2:, 1:-1] - grey[:-2, 1:-1])
    line = np.clip((slope - 0.12) * 2.2, 0, 0.85)[..., None]
    wash = canvas + (_PAPER - canvas) * 0.28
    return np.asarray(wash * (1 - line) + np.array((0.10, 0.09, 0.14), np.float32) * line, np.float32)


@lru_cache(2)
def _paper(grain: int, width: int, height: int) -> Canvas:
    rng = np.random.default_rng(grain)
    tone = np.zeros((height, width), np.float32)
    for pitch, depth in ((3, 0.022), (17, 0.02)):
        knots = rng.normal(0, depth, (height // pitch + 2, width // pitch + 2)).astype(np.float32)
        tone += np.asarray(Image.fromarray(knots).resize((width, height), Image.Resampling.BICUBIC))
    return 1 + tone[..., None]


def _printed(canvas: Canvas) -> Canvas:
    """Make colours stronger, and give each channel one of few values."""
    grey = canvas.mean(axis=2, keepdims=True)
    strong = np.clip(grey + (canvas - grey) * 1.45, 0, 1)
    return np.asarray(np.round(strong * (_STEPS - 1)) / (_STEPS - 1), np.float32)
