"""Is everything to be seen that the annotation says is there? Told from object ids, so that nobody has to look.

All measures are shares of the picture, so that a small picture of ids stands for a large one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from titjudge.suites.known_answer.scenes.layout import holds, label_of, tray_of, words_of
from titjudge.suites.known_answer.scenes.objects import KINDS
from titjudge.suites.known_answer.scenes.scene import SIGN, Graph, Scene, Thing
from titjudge.suites.known_answer.scenes.shapes import Body

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]  # (size, size): the pixels of one object

CHECK_SIZE = 192  # pixels
SMALLEST = 0.0007  # of the picture: about 14 x 14 pixels of 512 x 512
LETTER = 0.024  # height of a line of the sign, of the picture's: 12 pixels of 512
_SEEN = 0.62  # of an object's own outline
_SEEN_IN_GROUP = 0.6
_SEEN_INSIDE = 0.42  # what is in a bowl, and the bowl
_SEEN_IN_STACK = 0.3
_SEEN_WORDS = 0.96
_STACKS = ("books", "blocks")
_SMALLEST_IN_CROWD, _SEEN_IN_CROWD = 0.0002, 0.3  # about 11 x 11 pixels of 768 x 768
_SEEN_TRAY, _CARD_LETTER = 0.25, 0.016  # 12 pixels of 768
_PARTLY, _HIDDEN = 0.85, 8  # so many things show less than that of their outline


def look(scene: Scene, graph: Graph, size: int = CHECK_SIZE) -> list[str]:
    """List what is wrong with the sight of a scene: rendered as object ids, all together and each alone.

    Raises:
        MissingExtra: the renderer is not installed.
    """
    return problems(scene, graph, *_masks(scene, size))


def _masks(scene: Scene, size: int) -> tuple[dict[str, Mask], dict[str, Mask]]:
    """Render the pixels of each object as object ids: in the image, and if it were alone."""
    from titjudge.suites.known_answer.scenes.render import Stage

    stage = Stage(scene, size)
    ids = stage.ids()
    seen = {each.label: ids == number for number, each in enumerate(stage.objects, 1)}
    whole: dict[str, Mask] = {}
    for each in stage.objects:
        key = (size, scene.view.height, each.body)
        if key not in _alone:
            while len(_alone) >= _REMEMBERED:
                del _alone[next(iter(_alone))]
            _alone[key] = stage.ids(each.label) > 0
        whole[each.label] = _alone[key]
    return seen, whole


_REMEMBERED = 200  # outlines: most objects are the same at all levels of a scene
_alone: dict[tuple[int, float, Body], Mask] = {}


def look_crowd(scene: Scene, graph: Graph, size: int = 5 * CHECK_SIZE // 4) -> list[str]:
    """List what is wrong with the sight of a crowded scene: nothing may be hidden, but much is to hide in part.

    Raises:
        MissingExtra: the renderer is not installed.
    """
    seen, whole = _masks(scene, size)
    found = []
    hidden = 0
    for thing in scene.things:
        for number in range(thing.count):
            label = label_of(thing, number)
            share = seen[label].sum() / max(1, whole[label].sum())
            hidden += share < _PARTLY
            if seen[label].mean() < _SMALLEST_IN_CROWD:
                found.append(f"{label}: only {seen[label].mean():.3%} of the picture")
            if share < _SEEN_IN_CROWD:
                found.append(f"{label}: {share:.0%} of it to be seen")
            if _at_the_edge(whole[label]):
                found.append(f"{label}: cut by the edge of the picture")
        tray = tray_of(thing)
        if seen[tray].sum() < _SEEN_TRAY * whole[tray].sum():
            found.append(f"{tray}: {seen[tray].sum() / whole[tray].sum():.0%} of it to be seen")
        if "text" in thing.traits:
            found += _words(thing, seen, whole, lines=1, least=_CARD_LETTER)
    if hidden < _HIDDEN:
        found.append(f"only {hidden} things stand partly behind others")
    return found or _relations(scene, graph, seen)


def problems(scene: Scene, graph: Graph, seen: Mapping[str, Mask], whole: Mapping[str, Mask]) -> list[str]:
    """List what is hidden, cropped, too small, miscounted or not where the graph's relations say; empty when nothing is.

    Args:
        scene: What was rendered.
        graph: What the prompt says of it.
        seen: Label -> its pixels in the image.
        whole: Label -> its pixels if it were alone.
    """
    found: list[str] = []
    for thing in scene.things:
        labels = [label_of(thing, number) for number in range(thing.count)]
        shown = [label for label in labels if label in seen and seen[label].any()]
        if len(shown) != thing.count:
            found.append(f"{thing.name}: {len(shown)} of {thing.count} to be seen")
            continue
        for label in labels:
            if thing.kind == SIGN and (words := words_of(thing)) in seen:  # the board is behind its words
                seen = {**seen, label: seen[label] | seen[words]}
                whole = {**whole, label: whole[label] | whole[words]}
            found += [f"{label}: {what}" for what in _object(scene, thing, seen[label], whole[label])]
    sign = scene.get(SIGN)
    if sign is not None:
        found += _words(sign, seen, whole, lines=3, least=LETTER)
    return found or _relations(scene, graph, seen)


def _object(scene: Scene, thing: Thing, seen: Mask, whole: Mask) -> list[str]:
    share = seen.sum() / max(1, whole.sum())
    least = _SEEN_IN_GROUP if KINDS[thing.kind].plural else _SEEN
    load = scene.load_of(thing.name)
    if thing.place == "in" or (load is not None and load.place == "in"):
        least = _SEEN_INSIDE
    least = _SEEN_IN_STACK if thing.kind in _STACKS else least
    found = []
    if seen.mean() < SMALLEST:
        found.append(f"only {seen.mean():.2%} of the picture")
    if share < least:
        found.append(f"{share:.0%} of it to be seen")
    if _at_the_edge(whole):
        found.append("cut by the edge of the picture")
    return found


def _at_the_edge(mask: Mask) -> bool:
    return bool(mask[0].any() or mask[-1].any() or mask[:, 0].any() or mask[:, -1].any())


def _words(thing: Thing, seen: Mapping[str, Mask], whole: Mapping[str, Mask], *, lines: int, least: float) -> list[str]:
    words = words_of(thing)
    if words not in seen or not seen[words].any():
        return [f"{thing.name}: its words are not to be seen"]
    share = seen[words].sum() / whole[words].sum()
    rows = whole[words].any(axis=1).sum() / len(whole[words])
    found = [f"{thing.name}: {share:.0%} of its board to be seen"] if share < _SEEN_WORDS else []
    low = rows / lines < least
    return found + ([f"{thing.name}: a line is {rows / lines:.1%} of the picture high"] if low else [])


def _relations(scene: Scene, graph: Graph, seen: Mapping[str, Mask]) -> list[str]:
    """Check the relations that the marks call so or not so against where the pixels are."""
    found = []
    for a, word, b in graph.relations:
        first, second = scene.get(a), scene.get(b)
        if first is None or second is None:
            continue
        here, there = _place(first, seen), _place(second, seen)
        across, down = here[0] - there[0], here[1] - there[1]
        said = holds(scene, a, word, b)
        if word in ("left of", "right of"):
            so: Any = across > 0 if word == "right of" else across < 0
        elif word == "behind":
            so = down < 0
        else:  # on top of, inside
            so = abs(across) < 0.06 and down < 0
        if said is not None and bool(so) != said:
            found.append(f"{a} {word} {b}: said to be {said}, seen to be {bool(so)}")
    return found


def _place(thing: Thing, seen: Mapping[str, Mask]) -> tuple[float, float]:
    """(middle across, lowest point) of a thing's pixels, each from 0 to 1."""
    import numpy as np

    mask = np.logical_or.reduce([seen[label_of(thing, number)] for number in range(thing.count)])
    rows, columns = np.nonzero(mask)
    return float(columns.mean()) / mask.shape[1], float(rows.max()) / mask.shape[0]
