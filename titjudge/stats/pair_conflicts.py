"""Human pairs as they come: the same line twice counts once, and what contradicts itself or its prompt is said."""

from __future__ import annotations

from collections.abc import Sequence

from titjudge.core.types import Pair

_TURNED = {"a": "b", "b": "a"}


def distinct(pairs: Sequence[Pair]) -> tuple[list[Pair], list[str]]:
    """Take exact doubles out of the pairs (the same images, preference and source, in either order), and what to tell of them.

    Couples with opposite preferences are kept, both ways: people may differ. They are counted in a note.
    """
    kept: dict[tuple[str, str, str, str, str], Pair] = {}
    said: dict[tuple[str, str, str], set[str]] = {}
    for pair in pairs:
        a, b, preference = pair.a, pair.b, pair.preference
        if b < a:
            a, b, preference = b, a, _TURNED.get(preference, preference)
        kept.setdefault((pair.prompt_id, a, b, preference, pair.source), pair)
        said.setdefault((pair.prompt_id, a, b), set()).add(preference)
    notes = []
    if doubles := len(pairs) - len(kept):
        notes.append(f"{doubles} human pairs are exact doubles of others and count once")
    opposed = [couple for couple, found in said.items() if len(found) > 1]
    if opposed:
        _, a, b = opposed[0]
        notes.append(f"{len(opposed)} couples of images have several, different preferences; all count: {a} / {b}")
    return list(kept.values()), notes
