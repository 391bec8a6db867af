"""Is everything to be seen that the annotation says is there? Told from object ids, so that nobody has to look.

All measures are shares of the picture, so that a small picture of ids stands for a large one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from titjudge.suites.known_answer.scenes.layout import WORDS, holds, label_of
from titjudge.suites.known_answer.scenes.objects import KINDS
from titjudge.suites.known_answer.scenes.scene import SIGN, Graph, Scene, Thing

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


def look(scene: Scene, graph: Graph, size: int = CHECK_SIZE) -> list[str]:
    """List what is wrong with the sight of a scene: rendered as object ids, all together and each alone.

    Raises:
        MissingExtra: the renderer is not installed.
    """
    from titjudge.suites.known_answer.scenes.render import Stage

    stage = Stage(scene, size)
    ids = stage.ids()
    labels = [each.label for each in stage.objects]
    seen = {label: ids == number for number, label in enumerate(labels, 1)}
    whole = {label: stage.ids(label) > 0 for label in labels}
    return problems(scene, graph, seen, whole)


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
        labels = [label_of(thing.name, number) for number in range(thing.count)]
        shown = [label for label in labels if label in seen and seen[label].any()]
        if len(shown) != thing.count:
            found.append(f"{thing.name}: {len(shown)} of {thing.count} to be seen")
            continue
        for label in labels:
            if thing.kind == SIGN and WORDS in seen:  # the board is behind its words
                seen = {**seen, label: seen[label] | seen[WORDS]}
                whole = {**whole, label: whole[label] | whole[WORDS]}
            found += [f"{label}: {what}" for what in _object(scene, thing, seen[label], whole[label])]
    if scene.get(SIGN) is not None:
        found += _words(seen, whole)
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


def _words(seen: Mapping[str, Mask], whole: Mapping[str, Mask]) -> list[str]:
    if WORDS not in seen or not seen[WORDS].any():
        return ["sign: its words are not to be seen"]
    share = seen[WORDS].sum() / whole[WORDS].sum()
    rows = whole[WORDS].any(axis=1).sum() / len(whole[WORDS])
    found = [f"sign: {share:.0%} of its board to be seen"] if share < _SEEN_WORDS else []
    return found + ([f"sign: a line is {rows / 3:.1%} of the picture high"] if rows / 3 < LETTER else [])


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

    mask = np.logical_or.reduce([seen[label_of(thing.name, number)] for number in range(thing.count)])
    rows, columns = np.nonzero(mask)
    return float(columns.mean()) / mask.shape[1], float(rows.max()) / mask.shape[0]
