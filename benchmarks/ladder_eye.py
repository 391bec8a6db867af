"""How much of the ladder can be seen from one look: an eye that reads each box from the pixels that a model would get.

    python -m benchmarks.ladder_eye [--scenes N] [--seed S] [--difficulty 1|2|3] [--template NAME]

The image is scaled to 768 or 1,536 pixels (long side), gets noise and JPEG, and only then the eye sees it; "zoom" is each
box enlarged twice. No error rate is put in. The eye knows the prompt and how things look by themselves, not where they lie or
how they are turned: it fits what one box may show, at that sharpness, and takes what fits best. Things of a heap it finds one
by one, the clearest first. An element is what one box shows; the eye says whether it is as the prompt asks.

"element": mean of the share of right elements that it accepts and of wrong ones that it notices. "pair": the image with one
error is put below the flawless one; where it sees no difference, half. The other columns are elements by kind.
"""

from __future__ import annotations

import argparse
import io
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from PIL import Image

from titjudge.apps.scenes.bays import TURNS, VARIANTS, BayTemplate
from titjudge.apps.scenes.cabinet import Cabinet, drawn
from titjudge.apps.scenes.generate import plan
from titjudge.apps.scenes.ladder import TEMPLATES
from titjudge.apps.scenes.scene import Look, Options, Scene, ThingGroup
from titjudge.apps.scenes.sprites import FONTS, LIGHTS, lay
from titjudge.apps.scenes.template import SIZES, Box, Rung, Sprite, Template

VIEWS = {"768": 768, "1536": 1536, "zoom": 0}  # pixels of the long side; 0: each box enlarged twice
_NOISE, _JPEG = 2.0, 85  # of 255; quality
_WHOLE = 0.35  # of what one thing of a heap explains by itself: less is no further thing
_DIFFERS = 0.04  # of a channel, from 0 to 1: where two drawings are told apart
_HEAD = 0.5  # of the contrast within what shows of each thing of a crowd: what fits worse is none
_CABINET = Cabinet()
Field = NDArray[np.float32]  # (rows, columns, channels), 0 to 1


Kernel = tuple[Field, Field]  # what a thing adds to the floor under it, and how much of the floor it covers


@dataclass(frozen=True, eq=False)
class Eye(ABC):
    """An eye at one sharpness: `share` is pixels seen over pixels of the image, across."""

    rung: Rung
    share: float

    @abstractmethod
    def accepts(self, seen: Field, asked: ThingGroup) -> bool:
        """Tell whether a group (its inside, as seen) shows what the prompt says of it."""

    def sees(self, picture: NDArray[np.uint8], seed: int) -> Field:
        """Return what is left of a picture, laid over the picture again pixel by pixel."""
        whole = Image.fromarray(picture)
        return received(whole, (round(whole.width * self.share), round(whole.height * self.share)), whole.size, seed)

    def blurred(self, field: Field) -> Field:
        """Return a drawing as sharp as the eye sees it."""
        if self.share >= 1:
            return field
        h, w = field.shape[:2]
        size = max(1, round(w * self.share)), max(1, round(h * self.share))
        channels = (Image.fromarray(np.ascontiguousarray(field[..., k])) for k in range(field.shape[2]))
        return np.stack([np.asarray(channel.resize(size, Image.Resampling.LANCZOS).resize((w, h), Image.Resampling.BICUBIC)) for channel in channels], axis=2)  # fmt: skip

    @staticmethod
    def counted(seen: Field, floor: Field, kernels: Sequence[Kernel], near: int, most: int) -> int:
        """Count things one by one: what explains most is laid under what was found before, until too little is explained."""
        left, open_ = seen - floor, np.ones((*seen.shape[:2], 1), np.float32)
        gains = np.stack([_gains(left, open_, d) for d, _ in kernels])
        needed = _WHOLE * float((kernels[0][0] ** 2).sum())
        tall, wide = kernels[0][0].shape[:2]
        for number in range(most):
            turn, y, x = np.unravel_index(int(gains.argmax()), gains.shape)
            if gains[turn, y, x] < needed:
                return number
            d, alpha = kernels[turn]
            here = np.s_[y : y + tall, x : x + wide]
            left[here] -= open_[here] * d
            open_[here] *= 1 - alpha
            top, start = max(0, y - tall + 1), max(0, x - wide + 1)
            part = np.s_[top : y + 2 * tall - 1, start : x + 2 * wide - 1]
            for k, (d, _) in enumerate(kernels):
                fresh = _gains(left[part], open_[part], d)
                old = gains[k, top : top + fresh.shape[0], start : start + fresh.shape[1]]
                old[:] = np.where(np.isneginf(old), old, fresh)
            gains[:, max(0, y - near) : y + near + 1, max(0, x - near) : x + near + 1] = -np.inf
        return most


@dataclass(frozen=True, eq=False)
class CabinetEye(Eye):
    """An eye for the boxes of a cabinet, which are lined with one paper."""

    scene: Scene
    drawings: dict[object, Field] = field(default_factory=dict, repr=False)  # shared by eyes of other sharpness

    def accepts(self, seen: Field, asked: ThingGroup) -> bool:
        """Tell whether a box (its inside, as seen) shows what the prompt says of it."""
        if asked.form == "count":
            return self._counts(seen, asked) == asked.number
        if asked.form == "row":
            return all(self._member(seen, asked, k) == bit for k, bit in enumerate(asked.bits))
        if asked.form == "contents":
            return self._holds(seen, asked) == (asked.value != "nothing")
        if asked.form == "text":
            return self._reads(seen, asked)
        errors = [self._misfit(seen, self._inside(each), 3.2, 0.45) for each in (asked, *_CABINET.alternatives(asked))]
        return errors.index(min(errors)) == 0

    def _inside(self, thing: ThingGroup) -> Field:
        return self.blurred(_CABINET.part(thing, self.rung, self.scene, None))

    def _misfit(
        self, seen: Field, proto: Field, units: float, by: float, at: tuple[float, float] = (0.0, 0.0)
    ) -> float:
        """Return the least squared difference from a drawing around a place, moved by up to `by` units."""
        unit, reach = self.rung.unit, round(by * self.rung.unit)
        h, w = seen.shape[:2]
        x, y, half = round(w / 2 + at[0] * unit), round(h / 2 + at[1] * unit), round(units * unit)
        half = min(half, x - reach, y - reach, w - x - reach, h - y - reach)
        part = seen[y - half - reach : y + half + reach, x - half - reach : x + half + reach]
        return float(_misfits(part, proto[y - half : y + half, x - half : x + half]).min())

    def _member(self, seen: Field, asked: ThingGroup, k: int) -> str:
        """Return the state, 0 or 1, that fits the object of a row best."""
        bits = asked.bits
        best = {}
        for bit in "01":
            thing = replace(asked, bits=bits[:k] + bit + bits[k + 1 :])
            sprite = _CABINET.sprites(thing, None)[k]
            hues = [sprite.look["hue"]] if bit == "1" else [look["hue"] for look in asked.looks[:-1]]
            at = sprite.across, -sprite.up
            best[bit] = min(
                self._misfit(seen, self._alone(sprite, hue, turn, seen.shape[:2]), 0.65, 0.18, at)
                for hue, turn in product(hues, (-10.0, 0.0, 10.0))
            )
        return min(best, key=lambda bit: best[bit])

    def _alone(self, sprite: Sprite, hue: str, turn: float, shape: tuple[int, ...]) -> Field:
        """Draw a box with one thing in it, in a colour and turned."""
        look = {**sprite.look, "hue": hue}
        key = (*look.values(), sprite[1:4], turn, shape, self.share)
        if key not in self.drawings:
            canvas = _CABINET.floor(self.scene, *shape)
            _CABINET.lay(canvas, sprite._replace(look=look, turn=turn), self.rung, self.scene)
            self.drawings[key] = self.blurred(canvas)
        return self.drawings[key]

    def _reads(self, seen: Field, asked: ThingGroup) -> bool:
        """Tell whether the text asked for fits better than every one with another letter, in the font that fits best."""
        fonts = {font: self._text_misfit(seen, replace(asked, font=font)) for font in FONTS}
        thing = replace(asked, font=min(fonts, key=lambda font: fonts[font]))
        right = fonts[thing.font]
        return all(self._text_misfit(seen, other) >= right for other in _CABINET.alternatives(thing))

    def _text_misfit(self, seen: Field, thing: ThingGroup) -> float:
        """Return the least squared difference from a tag in the middle third of a box, wherever it lies there."""
        em, (h, w) = self.rung.em, seen.shape[:2]
        proto, reach = self._inside(thing), round(0.8 * em) + 1
        across = round(em * (0.36 * len(thing.value) + 1))
        y, x = h // 2, w // 2
        proto = proto[y - em : y + em, x - across : x + across]
        top, left = y - em - reach, max(0, x - across - reach)
        part = seen[top : y + em + reach, left : x + across + reach].mean(axis=2, keepdims=True)
        return float(_misfits(part, proto.mean(axis=2, keepdims=True)).min())

    def _holds(self, seen: Field, asked: ThingGroup) -> bool:
        """Tell whether the thing that may lie in an otherwise empty box lies there."""
        return self._found(seen, asked.looks[0], (-24, -12, 0, 12, 24), 1) > 0

    def _counts(self, seen: Field, asked: ThingGroup) -> int:
        return self._found(seen, asked.looks[0], (-8, -4, 0, 4, 8), 45)

    def _laid(self, look: Look, turn: float, shade: float) -> Field:
        """Draw a thing with its shadow on black (0) or white (1), with a little room around it."""
        image = drawn(*_CABINET.drawing_of(look), self.rung.unit, turn)
        side = image.shape[0] + 4
        canvas = np.full((side, side, 3), shade, np.float32)
        lay(canvas, image, (side / 2, side / 2), shadow=_CABINET.lights[self.scene.view.light])
        return canvas

    def _found(self, seen: Field, look: Look, turns: Sequence[float], most: int) -> int:
        floor = _CABINET.floor(self.scene, 1, 1)[0, 0]
        kernels = []
        for turn in turns:
            on_black, on_white = (self.blurred(self._laid(look, turn, shade)) for shade in (0.0, 1.0))
            alpha = 1 - (on_white - on_black).mean(axis=2, keepdims=True)
            kernels.append((on_black - alpha * floor, alpha))
        return self.counted(seen, floor, kernels, round(0.45 * self.rung.unit), most)


@dataclass(frozen=True, eq=False)
class BayEye(Eye):
    """An eye for bays: it draws what a bay may show, without displacements, and compares where that differs from what is asked.

    It knows the light, the style, the camera and how things look by themselves; not where exactly each stands, how it is
    turned, or which of the looks it has that nobody asks for.
    """

    scene: Scene
    template: BayTemplate
    drawings: dict[object, Any] = field(default_factory=dict, repr=False)  # shared by eyes of other sharpness

    def accepts(self, seen: Field, asked: ThingGroup) -> bool:
        if asked.form == "count":
            return self._counts(seen, asked) == asked.number
        if asked.form == "text":
            asked = self._font(seen, asked)
        return all(self._fits(seen, asked, other) for other in self.template.alternatives(asked))

    def blurred(self, field: Field) -> Field:
        """Return a drawing as the eye would get it, but for the noise."""
        if field.shape[2] == 1:
            return super().blurred(field)
        sent = Image.fromarray((np.clip(field, 0, 1) * 255).astype(np.uint8))
        return received(sent, (round(sent.width * self.share), round(sent.height * self.share)), sent.size, None)

    def _sprites(self, thing: ThingGroup, variant: int, turn: int = 0) -> list[Sprite]:
        return [sprite._replace(variant=variant, turn=turn) for sprite in self.template.sprites(thing, None)]

    def _drawn(self, thing: ThingGroup, variant: int = 0, turn: int = 0, window: Box | None = None) -> Field:
        """Draw the inside of a bay, or a window of it, as sharp as the picture is."""
        sprites = self._sprites(thing, variant, turn)
        return self.template.drawn(thing, self.rung, self.scene, sprites, window=window)

    def _alone(self, thing: ThingGroup, variant: int, turn: int) -> tuple[Field, Field]:
        """Draw a bay with one look, and how much of it is covered."""
        key = thing.name, thing.number, variant, turn
        if key not in self.drawings:
            covers = covered(self.template, thing, self.rung, self.scene, self._sprites(thing, variant, turn))
            self.drawings[key] = self._drawn(thing, variant, turn), covers
        drawing, covers = self.drawings[key]
        return self.blurred(drawing), self.blurred(covers)

    def _window(self, asked: ThingGroup, other: ThingGroup) -> Box | None:
        """Return where a bay as asked differs from another, with room around it; None where it does not."""
        key = asked.name, asked.value, asked.font
        if key not in self.drawings:
            self.drawings[key] = self._drawn(asked).astype(np.float16)
        rows, columns = np.nonzero(np.abs(self.drawings[key] - self._drawn(other)).max(axis=2) > _DIFFERS)
        if not len(rows):
            return None
        h, w = self.drawings[key].shape[:2]
        room = 8 + max(self._reach(asked))
        left, top = (max(0, int(low - room) // 8 * 8) for low in (columns.min(), rows.min()))
        return left, top, min(w, int(columns.max()) + 1 + room), min(h, int(rows.max()) + 1 + room)

    def _reach(self, thing: ThingGroup) -> tuple[int, int]:
        """Return how many pixels across and down a thing may be displaced."""
        parts = (0.4 * self.rung.em, 0.3 * self.rung.em) if thing.form == "text" else (0.12 * self.rung.unit,) * 2
        return round(parts[0]) + 1, round(parts[1]) + 1

    def _fits(self, seen: Field, asked: ThingGroup, other: ThingGroup) -> bool:
        """Tell whether what is asked fits at least as well as something else, where the two differ; close calls with turned things."""
        key = asked.name, asked.value, asked.font, other.value
        if key not in self.drawings:
            self.drawings[key] = self._window(asked, other)
        window = self.drawings[key]
        if window is None:
            return True
        looks = [(variant, 0) for variant in range(1 if asked.form == "text" else VARIANTS)]
        right, wrong = self._misfits(seen, asked, other, window, looks)
        if asked.form != "text" and min(right, wrong) > 0.4 * max(right, wrong):
            turned = self._misfits(
                seen, asked, other, window, [(variant, turn) for variant, _ in looks for turn in TURNS]
            )
            right, wrong = min(right, turned[0]), min(wrong, turned[1])
        return right <= wrong

    def _misfits(
        self, seen: Field, asked: ThingGroup, other: ThingGroup, window: Box, looks: Sequence[tuple[int, int]]
    ) -> tuple[float, float]:
        """Return the least squared differences of a window from both, moved a little, where these two differ."""
        left, top, right, bottom = window
        seen, (across, down) = seen[top:bottom, left:right], self._reach(asked)
        one, two = self._pair(asked, other, window, (0, 0))
        where = np.abs(one - two).max(axis=2) > _DIFFERS
        if not where.any():  # too blurred to differ
            return 0.0, 0.0
        where = where[down:-down, across:-across, None]
        rows, columns, _ = np.nonzero(where)
        box = np.s_[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        part = seen[rows.min() : rows.max() + 1 + 2 * down, columns.min() : columns.max() + 1 + 2 * across]
        best = [np.inf, np.inf]
        for look in looks:
            for k, drawing in enumerate(self._pair(asked, other, window, look)):
                misfits = _misfits(part, drawing[down:-down, across:-across][box], where[box])
                best[k] = min(best[k], float(misfits.min()))
        return best[0], best[1]

    def _pair(self, asked: ThingGroup, other: ThingGroup, window: Box, look: tuple[int, int]) -> tuple[Field, Field]:
        """Draw a window of a bay as asked and as another, with one look that nobody asks for."""
        key = window, asked.name, asked.value, asked.font, other.value, look
        if key not in self.drawings:
            self.drawings[key] = [self._drawn(thing, *look, window).astype(np.float16) for thing in (asked, other)]
        one, two = (self.blurred(drawing.astype(np.float32)) for drawing in self.drawings[key])
        return one, two

    def _font(self, seen: Field, asked: ThingGroup) -> ThingGroup:
        """Return a text in the font that fits it best."""
        tags = [replace(asked, font=name) for name in FONTS]
        key = "fonts", asked.name, asked.value
        if key not in self.drawings:
            bare = self._drawn(asked.saying(""))
            self.drawings[key] = [self._drawn(tag) for tag in tags], bare
        drawings, bare = (
            [self.blurred(drawing) for drawing in drawings]
            for drawings in (self.drawings[key][0], [self.drawings[key][1]])
        )
        where = np.any([np.abs(drawing - bare[0]).max(axis=2) > 0.1 for drawing in drawings], axis=0)
        rows, columns = np.nonzero(where)
        across, down = self._reach(asked)
        top, left = max(down, rows.min()), max(across, columns.min())
        bottom, right = min(where.shape[0] - down, rows.max() + 1), min(where.shape[1] - across, columns.max() + 1)
        part, box = seen[top - down : bottom + down, left - across : right + across], np.s_[top:bottom, left:right]
        misfits = [_misfits(part, drawing[box], where[box][..., None]).min() for drawing in drawings]
        return tags[int(np.argmin(misfits))]

    def _counts(self, seen: Field, asked: ThingGroup) -> int:
        """Count the things of a crowd by what none hides of another: places where it fits well, the best first."""
        alone = replace(asked, number=1)
        misfits, box = [], None
        for variant, turn in product(range(VARIANTS), TURNS):
            drawing, covers = self._alone(alone, variant, turn)
            if box is None:  # all looks have one outline
                rows, columns = (np.nonzero((covers > 0.5).any(axis=axis))[0] for axis in ((1, 2), (0, 2)))
                box = np.s_[rows[0] : rows[-1] - round(self.template.hidden * len(rows)), columns[0] : columns[-1] + 1]
            top, where = drawing[box], np.clip(covers[box] * 4 - 3, 0, 1)
            if not where.any():  # too blurred for one to be told from what is around it
                return 0
            contrast = float((where * (top - (where * top).mean(axis=(0, 1)) / where.mean()) ** 2).sum())
            misfits.append(_weighted_misfits(seen, top, where) / contrast)
        misfit = np.min(misfits, axis=0)
        near = round(0.2 * self.rung.unit)
        for number in range(45):
            y, x = np.unravel_index(int(misfit.argmin()), misfit.shape)
            if misfit[y, x] > _HEAD:
                return number
            misfit[max(0, y - near) : y + near + 1, max(0, x - near) : x + near + 1] = np.inf
        return 45


def covered(template: BayTemplate, group: ThingGroup, rung: Rung, scene: Scene, sprites: Iterable[Sprite]) -> Field:
    """Return how much of each pixel of a drawn bay things cover, from 0 to 1: (rows, columns, 1)."""
    left, top, right, bottom = template.inside(group, rung, scene)
    canvas = np.zeros((bottom - top, right - left, 1), np.float32)
    for sprite in sprites:
        image, _, middle = template.image(sprite, template.frame(group, rung, scene), rung, LIGHTS[scene.view.light])
        lay(canvas, np.repeat(image[..., 3:], 2, axis=2), middle)
    return canvas


def received(sent: Image.Image, seen: tuple[int, int], laid: tuple[int, int], seed: int | None) -> Field:
    """Return what is left of an image that is scaled to `seen` pixels, with noise (of a seed, or none) and JPEG, laid over `laid` pixels."""
    small = sent.resize(seen, Image.Resampling.LANCZOS)
    noise = 0 if seed is None else np.random.default_rng(seed).normal(0, _NOISE, (*seen[::-1], 3))
    noisy = np.asarray(small, np.float32) + noise
    buffer = io.BytesIO()
    Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=_JPEG)
    with Image.open(buffer) as got:
        return np.asarray(got.resize(laid, Image.Resampling.BICUBIC), np.float32) / 255


def _misfits(part: Field, proto: Field, mask: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
    """Return the squared differences of a drawing from each window of a part that is as large."""
    windows = sliding_window_view(part, proto.shape)[:, :, 0]
    apart = (windows - proto) ** 2
    return (apart if mask is None else apart * mask).sum(axis=(2, 3, 4))


def _weighted_misfits(seen: Field, proto: Field, weight: Field) -> NDArray[np.float32]:
    """Return the weighted squared differences of a drawing from each window of what is seen that is as large."""
    from scipy.signal import fftconvolve  # slow to import

    flipped = (weight[::-1, ::-1], (weight * proto)[::-1, ::-1])
    square = fftconvolve((seen**2).sum(axis=2), flipped[0][..., 0], "valid")
    both = fftconvolve(seen, flipped[1], "valid", axes=(0, 1)).sum(axis=2)
    return np.asarray(square - 2 * both + (weight * proto**2).sum(), np.float32)


def _gains(left: Field, open_: Field, d: Field) -> NDArray[np.float32]:
    """Return how much of what is left a thing explains at each place where it fits, as far as it is not covered there."""
    from scipy.signal import fftconvolve

    mirrored = d[::-1, ::-1]  # a convolution with it is a correlation with the thing
    fit = fftconvolve(left * open_, mirrored, "valid", axes=(0, 1)).sum(axis=2)
    cost = fftconvolve(open_[..., 0] ** 2, (mirrored**2).sum(axis=2), "valid")
    return np.asarray(2 * fit - cost, np.float32)


# ---------------------------------------------------------------------- the measurement


def eye_for(scene: Scene, rung: Rung, share: float) -> Eye:
    """Return the eye that reads a scene of the ladder."""
    template = TEMPLATES[scene.template]
    if isinstance(template, BayTemplate):
        return BayEye(rung, share, scene, template)
    return CabinetEye(rung, share, scene)


def insides(scene: Scene, rung: Rung, seen: Field) -> dict[str, Field]:
    """Cut what is seen of each group out of a picture."""
    template = TEMPLATES[scene.template]
    boxes = {thing.name: template.inside(thing, rung, scene) for thing in scene.groups}
    return {name: seen[top:bottom, left:right] for name, (left, top, right, bottom) in boxes.items()}


def measure(template: Template, difficulty: int, scenes: Iterable[int], seed: int) -> dict[str, dict[str, float]]:
    """Return for each view the share of elements and pairs that the eye gets right, of all and by kind of element."""
    rung = template.rungs[difficulty]
    verdicts: dict[str, dict[tuple[str, bool], list[bool]]] = defaultdict(lambda: defaultdict(list))
    pairs: dict[str, list[float]] = defaultdict(list)
    for number in scenes:
        made = plan(Options(seed, ladder=difficulty, template=template.name), number, lambda *_: [])
        pictures = [template.picture(shown.scene, rung) for shown in made.shown]
        sharp = eye_for(made.asked, rung, 1.0)
        for view, pixels in VIEWS.items():
            share = min(1.0, pixels / rung.width) if pixels else 2.0
            eye = replace(sharp, share=share)
            seen = [
                insides(made.asked, rung, eye.sees(picture, 100 * number + level))
                for level, picture in enumerate(pictures)
            ]
            right = {thing.name: eye.accepts(seen[0][thing.name], thing) for thing in made.asked.groups}
            for thing in made.asked.groups:
                verdicts[view][thing.kind, True].append(right[thing.name])
            for shown in made.shown[1:]:
                for error in shown.errors:
                    thing = next(group for group in made.asked.groups if group.name == error.element[0])
                    accepted = eye.accepts(seen[shown.level][thing.name], thing)
                    verdicts[view][error.kind, False].append(not accepted)
                    if shown.level == 1:  # all else is the same in both images
                        pairs[view].append(0.5 + 0.5 * (int(right[thing.name]) - int(accepted)))
    return {view: _shares(template.kinds, verdicts[view], pairs[view]) for view in VIEWS}


def _shares(
    all_kinds: Sequence[str], verdicts: dict[tuple[str, bool], list[bool]], pairs: list[float]
) -> dict[str, float]:
    def share(kinds: Iterable[str]) -> float:
        sides = [[so for kind in kinds for so in verdicts[kind, side]] for side in (True, False)]
        return float(np.mean([np.mean(side) for side in sides if side]))

    return {"element": share(all_kinds), "pair": float(np.mean(pairs)), **{kind: share([kind]) for kind in all_kinds}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--difficulty", type=int, choices=tuple(SIZES))
    parser.add_argument("--template", choices=tuple(TEMPLATES))
    options = parser.parse_args()
    for name in [options.template] if options.template else TEMPLATES:
        columns = ("element", "pair", *TEMPLATES[name].kinds)
        print(f"| {name} | view | " + " | ".join(columns) + " |\n|" + " --- |" * (len(columns) + 2))
        for difficulty in [options.difficulty] if options.difficulty else SIZES:
            views = measure(TEMPLATES[name], difficulty, range(options.scenes), options.seed)
            for view, shares in views.items():
                cells = " | ".join(f"{shares[column]:.0%}" for column in columns)
                print(f"| {difficulty} | {view} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
