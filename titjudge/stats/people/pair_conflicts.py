"""Duplicate and contradictory human pairs."""

from __future__ import annotations

from collections.abc import Sequence

from titjudge.core.types import Pair

_TURNED = {"a": "b", "b": "a"}


def distinct(pairs: Sequence[Pair]) -> tuple[list[Pair], list[str]]:
    """Drop exact duplicates (the same images, preference and source, in either order); returns the pairs and notes.

    Pairs of images with several, different preferences are all kept, since people may differ, and counted in a note.
    """
    kept: dict[tuple[str, str, str, str, str], Pair] = {}
    preferences: dict[tuple[str, str, str], set[str]] = {}
    for pair in pairs:
        a, b, preference = pair.a, pair.b, pair.preference
        if b < a:
            a, b, preference = b, a, _TURNED.get(preference, preference)
        kept.setdefault((pair.prompt_id, a, b, preference, pair.source), pair)
        preferences.setdefault((pair.prompt_id, a, b), set()).add(preference)
    notes = []
    if doubles := len(pairs) - len(kept):
        notes.append(f"{doubles} human pairs are exact doubles of others and count once")
    opposed = [couple for couple, choices in preferences.items() if len(choices) > 1]
    if opposed:
        _, a, b = opposed[0]
        notes.append(f"{len(opposed)} couples of images have several, different preferences; all count: {a} / {b}")
    return list(kept.values()), notes
