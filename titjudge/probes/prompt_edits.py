"""Prompts with errors: a known-answer prompt is edited so that its image no longer shows what it asks for.

Editing the prompt instead of the image gives errors of every kind on images whose content is known, and the same ones
to a judge that sees the image and to one that reads a description.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import combinations, zip_longest

from titjudge.core.types import Values

EXCHANGED = "exchanged words"
KINDS = ("missing entity", "wrong attribute", "wrong count", "swapped relation", "misspelt text", EXCHANGED)


def _others(lines: str) -> dict[str, tuple[str, ...]]:
    """Read the wrong words for each word from entries `word: other other; ...`."""
    entries = (entry.partition(":") for entry in lines.split(";"))
    return {word.strip(): tuple(others.split()) for word, _, others in entries}


_OTHER = _others(
    """
    red: purple turquoise; blue: yellow pink; yellow: blue purple; green: pink orange; orange: grey blue;
    white: black violet; black: orange pink; brown: turquoise violet; golden: silver purple; gold: silver marble;
    copper: glass marble; cream: violet green; teal: crimson yellow; pale: dark; light: dark; glass: wood marble;
    wood: marble metal; wooden: metal marble; brick: glass metal; brass: wood marble; full: half crescent;
    snow: sand grass; mountains: waves houses; silver: red green; purple: green yellow; pink: green black;
    grey: orange red
    """
)
_COUNT = _others(
    "one: four three; two: four five; three: five six; four: two six; five: three seven; six: four three; seven: five four"
)
_COUNTED = re.compile(r"\b(two|three|four|five|six|seven)\b(?=\s+(?:[\w-]+\s+){0,2}[\w-]+s\b)")
_COLOUR = re.compile(
    r"(?<![\w-])(red|blue|green|yellow|orange|purple|black|white|grey|brown|golden|pink|cream|teal)(?![\w-])"
)
_ADDED = (
    "In the foreground lies a shiny silver trumpet.",
    "A large pink umbrella stands open at the left edge of the picture.",
    "A purple kite with a long tail hangs in the upper right corner.",
    "Near the right edge stands an old bicycle with a wicker basket.",
    "A grey elephant stands in the middle distance.",
    "In the lower left corner lies an open violin case.",
    "A tall cactus in a clay pot stands beside it.",
    "A striped hot-air balloon can be seen in the background.",
)
_NEAR = r"[^.;:]{0,40}?"

Element = tuple[str, ...]
Place = list[tuple[str, str, str]]  # (edited prompt, words before, words after) for each edit of one place


@dataclass(frozen=True, slots=True)
class Edit:
    """A prompt that asks for one thing that the image does not show.

    Attributes:
        was: The words that changed.
        now: The words in their place.
        element: The annotation that is no longer true: `("attribute", entity, name)`, `("relation", entity, relation, entity)`,
            `("text", word)`, or the places of exchanged words; empty for something that is asked for in addition.
    """

    kind: str
    prompt: str
    was: str
    now: str
    element: Element = ()


def edits(
    prompt: str,
    annotation: Values,
    words: list[str],
    kind: str,
    most: int = 6,
    shown: Collection[Element] | None = None,
) -> list[Edit]:
    """Make up to `most` prompts with one error of a kind each; fewer if the prompt has fewer places for it.

    Every place is edited once before any is edited again with another wrong word. Their order is by a hash of the edit,
    and so always the same.

    Args:
        prompt: The prompt.
        annotation: Entities, attributes (entity -> name -> value) and relations, as in prompts.jsonl.
        words: The words that the image must show.
        kind: One of `KINDS`.
        most: Most prompts.
        shown: The elements that the image shows, which are the elements that an edit can make wrong; None when it shows
            everything in the prompt, annotated or not.
    """
    makers = {
        "missing entity": lambda: _entities(prompt),
        "wrong attribute": lambda: _attributes(prompt, annotation),
        "wrong count": lambda: _counts(prompt, annotation, every=shown is None),
        "swapped relation": lambda: _relations(prompt, annotation),
        "misspelt text": lambda: _texts(prompt, words),
        EXCHANGED: lambda: _exchanged(prompt),
    }
    places = []
    for element, place in makers[kind]():
        if element and shown is not None and element not in shown:
            continue
        of_place = [Edit(kind, changed, was, now, element) for changed, was, now in place if changed != prompt]
        places.append(sorted(of_place, key=_hash))
    places = sorted(filter(None, places), key=lambda place: _hash(place[0]))
    in_turn = [edit for turn in zip_longest(*places) for edit in turn if edit]
    by_prompt = {edit.prompt: edit for edit in reversed(in_turn)}
    return list(reversed(by_prompt.values()))[:most]


def _hash(edit: Edit) -> bytes:
    return hashlib.sha256(f"{edit.element}/{edit.was}/{edit.now}".encode()).digest()


def _entities(prompt: str) -> Iterator[tuple[Element, Place]]:
    """Add a sentence that asks for one more thing."""
    sentences = re.split(r"(?<=\.)\s+", prompt)
    for number, added in enumerate(_ADDED):
        position = 1 + number % max(len(sentences) - 1, 1)
        yield (), [(" ".join([*sentences[:position], added, *sentences[position:]]), "", added)]


def _attributes(prompt: str, annotation: Values) -> Iterator[tuple[Element, Place]]:
    for entity, pairs in annotation.get("attributes", {}).items():
        for name, value in pairs.items():
            word = next((word for word in str(value).split() if word in _OTHER), None)
            if word is not None and "count" not in name and name != "text":
                yield ("attribute", entity, name), _beside(prompt, entity, word, _OTHER[word])


def _counts(prompt: str, annotation: Values, *, every: bool) -> Iterator[tuple[Element, Place]]:
    """Change the annotated counts, and with `every` all numbers of things in the prompt."""
    taken = set()
    for entity, pairs in annotation.get("attributes", {}).items():
        for name, value in pairs.items():
            if "count" in name and str(value) in _COUNT:
                place = _beside(prompt, entity, str(value), _COUNT[str(value)])
                taken |= {changed for changed, _, _ in place}
                yield ("attribute", entity, name), place
    for match in _COUNTED.finditer(prompt) if every else ():
        place = [(_put(prompt, match, other), match[1], other) for other in _COUNT[match[1]]]
        if not taken.intersection(changed for changed, _, _ in place):
            yield ("number", str(match.start())), place


def _put(prompt: str, match: re.Match[str], other: str) -> str:
    return prompt[: match.start(1)] + other + prompt[match.end(1) :]


def _beside(prompt: str, entity: str, word: str, others: Collection[str]) -> Place:
    """Replace `word` in the prompt if it is near the entity's noun, before it or otherwise behind it."""
    noun = re.escape(entity.split()[-1])
    for pattern in (rf"\b({word})\b{_NEAR}\b{noun}\b", rf"\b{noun}\b{_NEAR}\b({word})\b"):
        match = re.search(pattern, prompt)
        if match:
            return [(_put(prompt, match, other), f"{entity}: {word}", other) for other in others]
    return []


def _relations(prompt: str, annotation: Values) -> Iterator[tuple[Element, Place]]:
    for relation in annotation.get("relations", ()):
        first, words, second = (str(relation[key]) for key in ("entity1", "relation", "entity2"))
        the = rf"(?:the|these|this)\s(?:[\w-]+\s){{0,2}}{re.escape(second.split()[-1])}\b"
        for old, new in _swaps(words):
            match = re.search(rf"\b({old})(?=\s{the})", prompt, re.IGNORECASE)
            if match:
                put = new.capitalize() if match[1][0].isupper() else new
                yield ("relation", first, words, second), [(_put(prompt, match, put), match[0], put)]
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


def _texts(prompt: str, words: list[str]) -> Iterator[tuple[Element, Place]]:
    quoted = re.search(r'"[^"]+"', prompt)
    for word in words if quoted is not None else ():
        assert quoted is not None
        place = []
        for wrong in _misspelt(word):
            inside = re.sub(rf"\b{re.escape(word)}\b", wrong, quoted[0], count=1)
            place.append((prompt[: quoted.start()] + inside + prompt[quoted.end() :], word, wrong))
        yield ("text", word), place


def _exchanged(prompt: str) -> Iterator[tuple[Element, Place]]:
    """Exchange two colours, or two numbers of things, of different sentences: all words of the prompt stay."""
    for pattern in (_COLOUR, _COUNTED):
        for a, b in combinations(pattern.finditer(prompt), 2):
            between = prompt[a.end(1) : b.start(1)]
            if a[1] != b[1] and ". " in between:
                changed = prompt[: a.start(1)] + b[1] + between + a[1] + prompt[b.end(1) :]
                yield (EXCHANGED, str(a.start(1)), str(b.start(1))), [(changed, a[1], b[1])]


def _misspelt(word: str) -> list[str]:
    """Swap two adjacent letters of a word; the first letter stays."""
    swapped = [word[:k] + word[k + 1] + word[k] + word[k + 2 :] for k in range(1, len(word) - 1)]
    return [wrong for wrong in swapped if wrong != word]


def several(
    prompt: str,
    annotation: Values,
    words: list[str],
    kind: str,
    count: int,
    shown: Collection[Element] | None = None,
    skip: int = 0,
) -> str | None:
    """Make a prompt with `count` errors of a kind in as many places; None when it has fewer places.

    The first possible errors are used, after `skip` of them, so that another `skip` gives another prompt.
    """
    changed, done = prompt, list[Edit]()
    for _ in range(count):
        options = edits(changed, annotation, words, kind, 99, shown)
        options = options[skip:] + options[:skip]
        edit = next((option for option in options if not any(_same_place(option, before) for before in done)), None)
        if edit is None:
            return None
        changed = edit.prompt
        done.append(edit)
    return changed


def _same_place(edit: Edit, other: Edit) -> bool:
    return (
        edit.now == other.now
        if not edit.element
        else edit.element == other.element or bool(edit.was and edit.was == other.now)
    )
