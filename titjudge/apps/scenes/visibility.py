"""Checks that everything the annotation names can be seen: renders object ids and measures them, so that no person has to look.

All measures are shares of the image, so that a small rendering stands for a large one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from titjudge.apps.scenes.layout import Body, holds, label_of, tray_of, words_of
from titjudge.apps.scenes.scene import KINDS, SIGN, AskedElements, Scene, Thing

Mask = NDArray[np.bool_]  # (size, size): the pixels of one object

CHECK_SIZE = 192  # pixels
# Parts of the height of a sign or card that a line of its text takes, and the minimum height of a line, as a share of the
# image's.
_LETTERS = {SIGN: (3, 0.024), "set": (1, 0.016)}  # 12 pixels of 512, and of 768 in a crowd
_PIXELS, _PIXELS_IN_CROWD = 0.0007, 0.0002  # of the image: about 14 x 14 of 512 x 512, and 11 x 11 of 768 x 768
_VISIBLE = 0.62  # of an object's own outline
_VISIBLE_IN_GROUP = 0.6
_VISIBLE_INSIDE = 0.42  # things in a bowl, and the bowl
_LEAST = {"books": 0.3, "blocks": 0.3, "set": 0.3}
_VISIBLE_TRAY = 0.25
_VISIBLE_TEXT = 0.96
_PARTLY, _FEWEST_PARTLY = 0.85, 8  # in a crowd at least this many show less than this share of their outline


def look(scene: Scene, graph: AskedElements, size: int = 0) -> list[str]:
    """Render a scene as object ids, all together and each alone, and list what cannot be seen as `problems` does.

    A crowd, in which much is to be hidden in part, is rendered a quarter larger than other scenes if no size is given.

    Raises:
        MissingExtra: The renderer is not installed.
    """
    size = size or CHECK_SIZE * (5 if scene.crowded else 4) // 4
    return problems(scene, graph, *_masks(scene, size))


def _masks(scene: Scene, size: int) -> tuple[dict[str, Mask], dict[str, Mask]]:
    """Return the pixels of each object by its label: the visible ones, and its outline."""
    from titjudge.apps.scenes.render import Stage

    stage = Stage(scene, size)
    ids = stage.ids()
    seen = {thing.label: ids == number for number, thing in enumerate(stage.objects, 1)}
    outline: dict[str, Mask] = {}
    for thing in stage.objects:
        key = (size, scene.view.height, thing.body)
        if key not in _outlines:
            while len(_outlines) >= _REMEMBERED:
                del _outlines[next(iter(_outlines))]
            _outlines[key] = stage.ids(thing.label) > 0
        outline[thing.label] = _outlines[key]
    return seen, outline


_REMEMBERED = 200  # most objects are the same at all levels of a scene
_outlines: dict[tuple[int, float, Body], Mask] = {}


def problems(scene: Scene, graph: AskedElements, seen: Mapping[str, Mask], outline: Mapping[str, Mask]) -> list[str]:
    """List objects that are hidden, cropped, too small, miscounted or contradict the graph's relations; empty if none is.

    Args:
        scene: The rendered scene.
        graph: The graph of its prompt.
        seen: The pixels of each object in the image, by its label.
        outline: The pixels it would have if it were alone.
    """
    faults: list[str] = []
    partly = 0
    for thing in scene.things:
        labels = [label_of(thing, number) for number in range(thing.count)]
        shown = [label for label in labels if label in seen and seen[label].any()]
        if len(shown) != thing.count and not scene.crowded:
            faults.append(f"{thing.name}: {len(shown)} of {thing.count} to be seen")
            continue
        for label in labels:
            if thing.kind == SIGN and (words := words_of(thing)) in seen:  # the board is behind its words
                seen = {**seen, label: seen[label] | seen[words]}
                outline = {**outline, label: outline[label] | outline[words]}
            partly += _share(seen[label], outline[label]) < _PARTLY
            least, pixels = _least(scene, thing), _PIXELS_IN_CROWD if scene.crowded else _PIXELS
            faults += _unclear(label, seen[label], outline[label], least, pixels)
        if scene.crowded and (share := _share(seen[tray_of(thing)], outline[tray_of(thing)])) < _VISIBLE_TRAY:
            faults.append(f"{tray_of(thing)}: {share:.0%} of it to be seen")
        if "text" in thing.traits:
            faults += _unreadable(thing, seen, outline, *_LETTERS[thing.kind])
    if scene.crowded and partly < _FEWEST_PARTLY:
        faults.append(f"only {partly} things stand partly behind others")
    return faults or _contradicted(scene, graph, seen)


def _least(scene: Scene, thing: Thing) -> float:
    """Return the share of its outline that must be visible of a thing."""
    load = scene.load_of(thing.name)
    if thing.place == "in" or (load is not None and load.place == "in"):
        return _VISIBLE_INSIDE
    usual = _VISIBLE_IN_GROUP if thing.kind in KINDS and KINDS[thing.kind].plural else _VISIBLE
    return _LEAST.get(thing.kind, usual)


def _share(seen: Mask, outline: Mask) -> float:
    return float(seen.sum() / max(1, outline.sum()))


def _unclear(label: str, seen: Mask, outline: Mask, least: float, pixels: float) -> list[str]:
    """Return the reason why an object is too small, hidden or cropped; empty if it is not."""
    faults = []
    if seen.mean() < pixels:
        faults.append(f"{label}: only {seen.mean():.2%} of the picture")
    if (share := _share(seen, outline)) < least:
        faults.append(f"{label}: {share:.0%} of it to be seen")
    if outline[0].any() or outline[-1].any() or outline[:, 0].any() or outline[:, -1].any():
        faults.append(f"{label}: cut by the edge of the picture")
    return faults


def _unreadable(
    thing: Thing, seen: Mapping[str, Mask], outline: Mapping[str, Mask], lines: int, least: float
) -> list[str]:
    """Return the reason why the text of a sign or card cannot be read; empty if it can."""
    words = words_of(thing)
    if words not in seen or not seen[words].any():
        return [f"{thing.name}: its words are not to be seen"]
    share = _share(seen[words], outline[words])
    height = outline[words].any(axis=1).mean() / lines
    faults = [f"{thing.name}: {share:.0%} of its board to be seen"] if share < _VISIBLE_TEXT else []
    return faults + ([f"{thing.name}: a line is {height:.1%} of the picture high"] if height < least else [])


def _contradicted(scene: Scene, graph: AskedElements, seen: Mapping[str, Mask]) -> list[str]:
    """List the relations for which the pixels contradict the scene."""
    faults = []
    for a, word, b in graph.relations:
        first, second = scene.get(a), scene.get(b)
        if first is None or second is None:
            continue
        here, there = _place(first, seen), _place(second, seen)
        across, down = here[0] - there[0], here[1] - there[1]
        said = holds(scene, a, word, b)
        if word in ("left of", "right of"):
            shown = across > 0 if word == "right of" else across < 0
        elif word == "behind":
            shown = down < 0
        else:  # on top of, inside
            shown = abs(across) < 0.06 and down < 0
        if said is not None and shown != said:
            faults.append(f"{a} {word} {b}: said to be {said}, seen to be {shown}")
    return faults


def _place(thing: Thing, seen: Mapping[str, Mask]) -> tuple[float, float]:
    """Return the middle of a thing's pixels across and their lowest point, each from 0 to 1."""
    mask = np.logical_or.reduce([seen[label_of(thing, number)] for number in range(thing.count)])
    rows, columns = np.nonzero(mask)
    return float(columns.mean()) / mask.shape[1], float(rows.max()) / mask.shape[0]
