"""Prompts with errors in them: what a known-answer prompt asks for is changed, so that its image no longer has it.

Editing the prompt instead of the image makes an error of any kind against an image that is known to have none, and is the
same for a judge that sees the image and for one that reads a description.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

KINDS = ("missing entity", "wrong attribute", "wrong count", "swapped relation", "misspelt text")

_OTHER = {
    "red": "purple", "blue": "yellow", "yellow": "blue", "green": "pink", "orange": "grey", "white": "black", "black": "white",
    "brown": "turquoise", "golden": "silver", "gold": "silver", "copper": "glass", "cream": "violet", "teal": "crimson",
    "pale": "dark", "light": "dark", "glass": "wood", "wood": "marble", "wooden": "metal", "brick": "glass", "brass": "wood",
    "full": "half", "snow": "sand", "mountains": "waves", "silver": "red", "purple": "green", "pink": "green", "grey": "orange",
}  # fmt: skip
_COUNT = {"one": "four", "two": "four", "three": "five", "four": "two", "five": "three", "six": "four", "seven": "five"}
_ADDED = (
    "In the foreground lies a shiny silver trumpet.",
    "A large pink umbrella stands open at the left edge of the picture.",
    "A purple kite with a long tail hangs in the upper right corner.",
)
_NEAR = r"[^.;:]{0,40}?"


@dataclass(frozen=True, slots=True)
class Edit:
    """A prompt in which one thing is asked for that the image does not have; `was` and `now` say what changed."""

    kind: str
    prompt: str
    was: str
    now: str


def edits(prompt: str, annotation: Mapping[str, Any], words: list[str], kind: str, most: int = 3) -> list[Edit]:
    """Up to `most` prompts with one error of that kind each; fewer, or none, where the prompt offers no place for it.

    Args:
        annotation: entities, attributes (entity -> name -> value) and relations, as in prompts.jsonl.
        words: the words that the image must show.
    """
    makers = {
        "missing entity": lambda: _entities(prompt),
        "wrong attribute": lambda: _attributes(prompt, annotation),
        "wrong count": lambda: _counts(prompt, annotation),
        "swapped relation": lambda: _relations(prompt, annotation),
        "misspelt text": lambda: _texts(prompt, words),
    }
    found: dict[str, Edit] = {}
    for changed, was, now in makers[kind]():
        if changed != prompt:
            found.setdefault(changed, Edit(kind, changed, was, now))
    return list(islice(found.values(), most))


def _entities(prompt: str) -> Iterator[tuple[str, str, str]]:
    """Asks for something more, after the second sentence: an end of a prompt is read with less care."""
    sentences = re.split(r"(?<=\.)\s+", prompt)
    for added in _ADDED:
        yield " ".join([*sentences[:2], added, *sentences[2:]]), "", added


def _attributes(prompt: str, annotation: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for entity, pairs in annotation.get("attributes", {}).items():
        for name, value in pairs.items():
            if "count" in name or name == "text":
                continue
            for word in str(value).split():
                if word in _OTHER:
                    yield from _beside(prompt, entity, word, _OTHER[word])
                    break


def _counts(prompt: str, annotation: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for entity, pairs in annotation.get("attributes", {}).items():
        for name, value in pairs.items():
            if "count" in name and str(value) in _COUNT:
                yield from _beside(prompt, entity, str(value), _COUNT[str(value)])


def _beside(prompt: str, entity: str, word: str, other: str) -> Iterator[tuple[str, str, str]]:
    """The prompt with `word` replaced where it stands next to the entity's noun, before it or else behind it."""
    noun = re.escape(entity.split()[-1])
    for pattern in (rf"\b({word})\b{_NEAR}\b{noun}\b", rf"\b{noun}\b{_NEAR}\b({word})\b"):
        match = re.search(pattern, prompt)
        if match:
            yield prompt[: match.start(1)] + other + prompt[match.end(1) :], f"{entity}: {word}", other
            return


def _relations(prompt: str, annotation: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for relation in annotation.get("relations", ()):
        noun, said = re.escape(str(relation["entity2"]).split()[-1]), str(relation["relation"])
        the = rf"(?:the|these|this)\s(?:[\w-]+\s){{0,2}}{noun}\b"
        for old, new in _swaps(said):
            match = re.search(rf"\b({old})(?=\s{the})", prompt, re.IGNORECASE)
            if match:
                put = new.capitalize() if match[1][0].isupper() else new
                yield prompt[: match.start(1)] + put + prompt[match.end(1) :], match[0], put
                break


def _swaps(relation: str) -> list[tuple[str, str]]:
    if relation in ("left of", "right of"):
        old, new = relation.split()[0], {"left": "right", "right": "left"}[relation.split()[0]]
        return [(f"to the {old} of", f"to the {new} of"), (f"{old} of", f"{new} of")]
    return {
        "behind": [("behind", "in front of")],
        "in front of": [("directly in front of", "far behind"), ("in front of", "behind")],
        "on top of": [("on top of", "underneath")],
        "above": [("above", "below")],
        "inside": [("inside", "beside")],
    }.get(relation, [])


def _texts(prompt: str, words: list[str]) -> Iterator[tuple[str, str, str]]:
    quoted = re.search(r'"[^"]+"', prompt)
    for word in words:
        at = next((k for k in range(len(word) - 2, 0, -1) if word[k] != word[k + 1]), None)
        if at is None or quoted is None:
            continue
        wrong = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        inside = re.sub(rf"\b{re.escape(word)}\b", wrong, quoted[0], count=1)
        yield prompt[: quoted.start()] + inside + prompt[quoted.end() :], word, wrong


def several(prompt: str, annotation: Mapping[str, Any], words: list[str], kind: str, count: int) -> str | None:
    """A prompt with `count` errors of that kind, one put upon the other; None when there is no room for so many."""
    changed, done = prompt, set[str]()
    for _ in range(count):
        options = [each for each in edits(changed, annotation, words, kind, 20) if each.was + each.now not in done]
        fresh = [each for each in options if not any(each.was and each.was in before for before in done)]
        if not fresh:
            return None
        changed = fresh[0].prompt
        done.add(fresh[0].was + fresh[0].now)
    return changed
