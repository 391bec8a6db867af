"""Textures of surfaces and sign boards in sRGB, from Pillow and seeded noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from titjudge.apps.scenes.scene import PALETTE

Pixels = NDArray[np.uint8]  # (height, width, 3)


def surface(name: str, grain: int) -> Pixels:
    """Paint a table top or wall; `grain` is the seed of its noise."""
    rng = np.random.default_rng(grain)
    if name == "red brick":
        return _bricks(rng)
    if name == "brown wooden planks":
        return planks(rng, (112, 68, 38), boards=9)
    if name == "white marble":
        return _marble(rng)
    if name == "black and white checkerboard":
        return _checkerboard()
    return np.full((8, 8, 3), PALETTE["plain"][name], dtype=np.uint8)


def light_wood(grain: int) -> Pixels:
    """Paint pale yellowish wood, for things on the table."""
    return planks(np.random.default_rng(grain + 2), (206, 160, 98), boards=3, size=512)


def planks(rng: Any, colour: tuple[int, int, int], boards: int, size: int = 1024) -> Pixels:
    """Paint boards that run from bottom to top, with streaks along them and dark seams between."""
    x = np.arange(size)
    board = x * boards // size
    shade = rng.uniform(0.82, 1.14, boards)[board]
    streaks = _stretched(rng, size, 90, 5) * 0.16 + _stretched(rng, size, 300, 9) * 0.10
    seam = np.where((x * boards % size) < boards * 5, 0.35, 1.0)
    tone = (shade * seam)[None, :] * (1.0 + streaks)
    return _bytes(tone[..., None] * np.array(colour))


def _bytes(tone: NDArray[np.float64]) -> Pixels:
    return np.asarray(np.clip(tone, 0, 255), dtype=np.uint8)


def _stretched(rng: Any, size: int, across: int, along: int) -> NDArray[np.float64]:
    """Return noise from -1 to 1 with `across` x `along` knots, interpolated to a square."""
    knots = rng.uniform(-1, 1, (along, across)).astype(np.float32)
    return np.asarray(Image.fromarray(knots).resize((size, size), Image.Resampling.BICUBIC), dtype=np.float64)


def _marble(rng: Any) -> Pixels:
    size = 1024
    warp = sum(_stretched(rng, size, 4 * 2**k, 4 * 2**k) / 1.7**k for k in range(5))
    y, x = np.mgrid[0:size, 0:size] / size
    vein = np.abs(np.sin((2.2 * x + 1.3 * y) * 9 + 2.1 * warp)) ** 0.35
    tone = 238 - 62 * (1 - vein) + 5 * warp
    return _bytes(tone[..., None] * np.array([1.0, 0.995, 0.985]))


def _checkerboard() -> Pixels:
    squares, size = 14, 980
    k = np.arange(size) * squares // size
    return np.where(((k[:, None] + k[None, :]) % 2 == 0)[..., None], 228, 22).repeat(3, axis=2).astype(np.uint8)


def _bricks(rng: Any) -> Pixels:
    columns, rows, width, height = 14, 20, 1400, 1000
    picture = Image.new("RGB", (width, height), (206, 192, 172))
    draw = ImageDraw.Draw(picture)
    w, h = width // columns, height // rows
    for row in range(rows):
        for column in range(-1, columns):
            left = column * w + (w // 2 if row % 2 else 0)
            tone = rng.uniform(0.82, 1.12)
            colour = tuple(int(min(255, channel * tone)) for channel in (158, 62, 44))
            draw.rectangle((left + 4, row * h + 4, left + w - 4, row * h + h - 4), fill=colour)
    speckle = 1.0 + 0.06 * _stretched(rng, width, 350, 250)[:height]
    return _bytes(np.asarray(picture, dtype=np.float64) * speckle[..., None])


def words(text: str) -> Pixels:
    """Draw black text on white, a word a line, as large as the board allows."""
    lines = text.split()
    width, height = 1120, 570 if len(lines) > 1 else 395  # a sign, and a card
    picture = Image.new("RGB", (width, height), (238, 238, 234))
    draw = ImageDraw.Draw(picture)
    size, stroke = height // len(lines), 0
    while size > 20:
        font, stroke = ImageFont.load_default(size), max(1, size // 22)
        boxes = [draw.textbbox((0, 0), line, font=font, stroke_width=stroke) for line in lines]
        if max(box[2] - box[0] for box in boxes) < width * 0.86 and size * 1.02 * len(lines) < height * 0.98:
            break
        size -= 4
    pitch = size * 0.98
    first = height / 2 - pitch * (len(lines) - 1) / 2
    for number, line in enumerate(lines):
        middle = (width / 2, first + number * pitch)
        draw.text(
            middle, line, font=font, fill=(12, 12, 12), anchor="mm", stroke_width=stroke, stroke_fill=(12, 12, 12)
        )
    return np.asarray(picture, dtype=np.uint8)
