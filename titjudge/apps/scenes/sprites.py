"""Small drawn things: colours, fonts, a pen that paints in units of the thing, and laying what is painted on a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from titjudge.apps.scenes.scene import COLOURS
from titjudge.apps.scenes.textures import Pixels
from titjudge.core.files import read_yaml
from titjudge.core.types import Values

Canvas = NDArray[np.float32]  # (rows, columns, 3), 0 to 1


@dataclass(frozen=True, slots=True)
class Light:
    """A light.

    Attributes:
        tint: Its factors for red, green and blue.
        side: Its direction: -1 the left, 1 the right, 0 above.
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


RGB = tuple[int, int, int]
Point = tuple[float, float]
Strokes = Sequence[Any]
"""Form, places, colour, colour of the edge, and width of each stroke; a colour is a name or red, green, blue."""
FONTS = ("DejaVuSans", "DejaVuSerif", "DejaVuSansMono", "DejaVuSans-Oblique")
_FINE = 4  # how much larger a thing is painted before it is scaled down
WIDE, TALL, UNDER = 2.0, 1.7, 0.2  # the canvas of a thing in its units, and how much of it is below its foot


def rgb(hue: str) -> tuple[int, int, int]:
    """Return a colour of the palette in sRGB."""
    red, green, blue = (round(255 * (0.04 + 0.92 * value ** (1 / 2.2))) for value in COLOURS[hue])
    return red, green, blue


@lru_cache(64)
def font(name: str, em: int) -> ImageFont.FreeTypeFont:
    """Return one of the fonts that Matplotlib ships, at a size in pixels."""
    import matplotlib

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf", em)


def lay(canvas: NDArray[np.float32], what: NDArray[np.float32], middle: Point, *, shadow: Point | None = None) -> None:
    """Lay an object (colours times alpha, then alpha) on a canvas, its middle at a pixel; with a shadow, where light comes from there."""
    h, w = what.shape[:2]
    top, left = round(middle[1] - h / 2), round(middle[0] - w / 2)
    if shadow is not None:
        dark = Image.fromarray((what[..., 3] * 110).astype(np.uint8)).filter(ImageFilter.GaussianBlur(w / 24))
        dx, dy = round(-shadow[0] * w / 12), round(-shadow[1] * w / 12)
        under = np.zeros((h, w, 4), np.float32)
        under[..., 3] = np.asarray(dark, dtype=np.float32) / 255
        lay(canvas, under, (middle[0] + dx, middle[1] + dy))
    if top + h <= 0 or left + w <= 0:
        return
    part = canvas[max(0, top) : top + h, max(0, left) : left + w]
    what = what[max(0, -top) :, max(0, -left) :][: part.shape[0], : part.shape[1]]
    part *= 1 - what[..., -1:]
    part += what[..., :-1]


def label(text: str, name: str, em: int, size: tuple[int, int], edge: tuple[int, ...]) -> NDArray[np.float32]:
    """Draw a text on a white paper with an edge, as `lay` takes it."""
    paper = Image.new("RGBA", size, (250, 250, 246, 255))
    draw = ImageDraw.Draw(paper)
    draw.rectangle((0, 0, size[0] - 1, size[1] - 1), outline=edge)
    draw.text((em, size[1] / 2), text, font=font(name, em), fill=(24, 24, 28), anchor="lm")
    return np.asarray(np.asarray(paper, np.float32) / 255, np.float32)


def grained(canvas: NDArray[np.floating], seed: int, marks: Iterable[tuple[str, Point]], em: int) -> Pixels:
    """Return a picture with a little grain, and with letters or numbers at these places."""
    grain = np.random.default_rng(seed).normal(0, 0.008, canvas.shape[:2])[..., None]
    picture = Image.fromarray((np.clip(canvas + grain, 0, 1) * 255).astype(np.uint8))
    draw, letters = ImageDraw.Draw(picture), font("DejaVuSans-Bold", em)
    for mark, (x, y) in marks:
        draw.text((x, y), mark, (255, 255, 255), letters, "mm", stroke_width=3, stroke_fill=(20, 20, 20))
    return np.asarray(picture)


class Pen:
    """Paints one thing; lengths are in its units, across from its middle and up from its foot."""

    def __init__(self, pixels: float) -> None:
        self._pixels_of_unit = pixels
        self._unit = pixels * _FINE
        size = round(WIDE * self._unit), round(TALL * self._unit)
        self.canvas = Image.new("RGBA", size, (60, 50, 40, 0))
        self._draw = ImageDraw.Draw(self.canvas)

    def like(self) -> Pen:
        """Return an empty pen of the same size."""
        return Pen(self._pixels_of_unit)

    def _at(self, points: Sequence[Point]) -> list[Point]:
        return [((WIDE / 2 + x) * self._unit, (TALL - UNDER - y) * self._unit) for x, y in points]

    def _pixels(self, width: float) -> int:
        return max(1, round(width * self._unit))

    def shape(
        self, points: Sequence[Point], fill: tuple[int, ...] | None, edge: RGB | None = None, width: float = 0.03
    ) -> None:
        self._draw.polygon(self._at(points), fill=fill, outline=edge, width=self._pixels(width) if edge else 0)

    def line(self, points: Sequence[Point], fill: RGB, width: float) -> None:
        self._draw.line(self._at(points), fill=fill, width=self._pixels(width), joint="curve")

    def strokes(self, strokes: Strokes, colours: Values) -> None:
        """Paint shapes, ovals and lines, as a YAML file has them."""
        for form, places, *named, width in strokes:
            fill, edge = (colours[colour] if isinstance(colour, str) else colour and tuple(colour) for colour in named)
            if form == "line":
                self.line(places, fill, width)
            elif form == "shape":
                self.shape(places, fill, edge, width)
            else:
                x, y, rx, ry = places
                (left, top), (right, bottom) = self._at([(x - rx, y + ry), (x + rx, y - ry)])
                line = self._pixels(width) if edge else 0
                self._draw.ellipse((left, top, right, bottom), fill=fill, outline=edge, width=line)

    def texture(self, colours: NDArray[np.uint8], mask: Pen) -> None:
        """Lay a texture (rows, columns, 3), stretched over the canvas, where another pen of the same size has painted."""
        picture = Image.fromarray(colours).resize(self.canvas.size, Image.Resampling.BILINEAR)
        self.canvas.paste(picture, (0, 0), mask.canvas.getchannel("A"))

    def picture(self, turn: float) -> NDArray[np.float32]:
        """Return the painted sprite, turned by degrees around its foot: colours times alpha, and alpha, from 0 to 1."""
        foot = (WIDE / 2 * self._unit, (TALL - UNDER) * self._unit)
        canvas = self.canvas.rotate(turn, Image.Resampling.BICUBIC, center=foot) if turn else self.canvas
        canvas = canvas.convert("RGBa")
        size = max(2, round(canvas.width / _FINE)), max(2, round(canvas.height / _FINE))
        return np.asarray(np.asarray(canvas.resize(size, Image.Resampling.BOX)) / 255, np.float32)
