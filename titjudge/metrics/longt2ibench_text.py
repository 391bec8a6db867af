"""The text form of LongT2IBench alignments (dataset.py, train.py @e47380b), read with brackets and commas in names.

all entity:
 cat,mat

entity_score:
  align: [cat]
  misalign: [mat]

attribute_score:
  align: [[black, small]cat]
  misalign: [[red]mat]

relation_score:
  align: []
  misalign: [cat[lies on]mat]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from titjudge.core.structured_output import after_thinking

CATEGORIES = ("entity", "attribute", "relation")
Element = tuple[str, ...]
Marks = Sequence[tuple[Element, bool]]  # every element with its verdict
Alignment = Mapping[str, Marks]  # by category

_SECTION = re.compile(r"(all entity|entity_score|attribute_score|relation_score)\W*?:", re.IGNORECASE)
_LIST = re.compile(r"\b(mis)?align(?:ed)?\W*?:\s*\[", re.IGNORECASE)
_TAIL = " \t\r\n'\"`*."


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a text says. `complete` is False when a list or a section is cut off or absent; `problems` say why."""

    alignment: Alignment
    entities: tuple[str, ...]
    complete: bool
    problems: tuple[str, ...]


def target_text(alignment: Alignment) -> str:
    """Write an alignment as the text that `parse_target` reads."""
    entities = dict.fromkeys(element[0] for element, _ in alignment["entity"])
    blocks = ["all entity:\n " + ",".join(entities)]
    for category in CATEGORIES:
        lists = [", ".join(_entries(alignment[category], category, aligned)) for aligned in (True, False)]
        blocks.append(f"{category}_score:\n  align: [{lists[0]}]\n  misalign: [{lists[1]}]")
    return "\n\n".join(blocks)


def _entries(marks: Marks, category: str, wanted: bool) -> list[str]:
    elements = [element for element, aligned in marks if aligned is wanted]
    if category == "relation":
        return [f"{one}[{relation}]{two}" for one, relation, two in elements]
    if category == "entity":
        return [element[0] for element in elements]
    grouped: dict[str, list[str]] = {}
    for entity, attribute in elements:
        grouped.setdefault(entity, []).append(attribute)
    return [f"[{', '.join(attributes)}]{entity}" for entity, attributes in grouped.items()]


def parse_target(text: str, known: Mapping[str, Collection[str]] | None = None) -> Parsed | None:
    """Read the alignment that a text states; None when it has none of the three score sections.

    Args:
        text: an answer; what comes before the first "all entity:" (and before the last `</think>`) is left out.
        known: names by category (`entity`: names, `relation`: `entity1[relation]entity2`) that may hold commas or
            brackets; they are recognised whole.
    """
    answer = after_thinking(text)
    start = re.search("all entity:", answer, re.IGNORECASE)
    sections = _sections(answer[start.start() :] if start else answer)
    if not {f"{category}_score" for category in CATEGORIES} & sections.keys():
        return None
    known = known or {}
    gaps: list[str] = []
    unread: list[str] = []
    alignment: dict[str, Marks] = {}
    listed = split_list(sections.get("all entity", ("", False))[0].strip(_TAIL + "[]"), known.get("entity", ()))
    for category in CATEGORIES:
        name = f"{category}_score"
        marks: list[tuple[Element, bool]] = []
        lists = _lists(*sections[name]) if name in sections else {}
        gaps += [
            f"{name} has no {label} list" for good, label in ((True, "align"), (False, "misalign")) if good not in lists
        ]
        for aligned, (body, cut) in lists.items():
            elements, bad = read_elements(body, category, known, cut=cut)
            marks += [(element, aligned) for element in elements]
            unread += [f"{name}: '{each}' cannot be read" for each in bad]
            gaps += [f"{name} is cut off"] if cut else []
        alignment[category] = marks
    return Parsed(alignment, tuple(listed), not gaps, (*unread, *gaps))


def _sections(text: str) -> dict[str, tuple[str, bool]]:
    """Find the body of each section (the first of its name), and whether it is the last thing in the text."""
    labels = list(_SECTION.finditer(text))
    found: dict[str, tuple[str, bool]] = {}
    for i, label in enumerate(labels):
        last = i + 1 == len(labels)
        body = text[label.end() : len(text) if last else labels[i + 1].start()]
        found.setdefault(label[1].lower(), (body, last))
    return found


def _lists(body: str, last: bool) -> dict[bool, tuple[str, bool]]:
    """Find the inside of the lists by verdict (True: align), and whether it is cut off by the end of the text."""
    labels = list(_LIST.finditer(body))
    found: dict[bool, tuple[str, bool]] = {}
    for i, label in enumerate(labels):
        final = i + 1 == len(labels)
        region = body[label.end() : len(body) if final else labels[i + 1].start()]
        end = _closing(region)
        cut = end is None and final and last
        if end is None:
            end = len(region) if cut else max(region.rfind("]"), 0)
        elif not (final and last) and region[end + 1 :].strip(_TAIL) and "]" in region[end + 1 :]:
            end = region.rfind("]")  # a stray bracket in a name closed the list early
        found.setdefault(label[1] is None, (region[:end], cut))
    return found


def _closing(text: str, depth: int = 1) -> int | None:
    """Where the bracket that was opened before `text` closes."""
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth == 0:
            return at
    return None


def _pieces(text: str) -> list[str]:
    """`text` cut at the commas outside brackets."""
    found, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "[]":
            depth = max(0, depth + (1 if letter == "[" else -1))
        elif letter == "," and depth == 0:
            found.append(text[start:at])
            start = at + 1
    return [*found, text[start:]]


def split_list(text: str, known: Collection[str] = ()) -> list[str]:
    """Split the names in a comma-separated list; those in `known` (compared case-folded) are kept whole with their commas."""
    merged = _merge(_pieces(text), {_folded(name) for name in known if "," in name})
    return [name.strip() for name in merged if name.strip()]


def _merge(pieces: Sequence[str], whole: Collection[str]) -> list[str]:
    found, at = [], 0
    longest = 1 + max((name.count(",") for name in whole), default=0)
    while at < len(pieces):
        for end in range(min(len(pieces), at + longest), at, -1):
            name = ",".join(pieces[at:end])
            if end == at + 1 or _folded(name) in whole:
                found.append(name)
                at = end
                break
    return found


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())


def read_elements(
    body: str, category: str, known: Mapping[str, Collection[str]] | None = None, *, cut: bool = False
) -> tuple[list[Element], list[str]]:
    """Read the elements in the inside of a list, and the entries that are none. `cut` drops the last entry, which is not whole."""
    known = known or {}
    if category == "entity":
        names = split_list(body, known.get("entity", ()))
        return [(name,) for name in (names[:-1] if cut else names)], []
    if category == "attribute":
        entries = _glued(_pieces(body), lambda piece: piece.strip().startswith("["))
    else:
        whole = {_folded(name): None for name in known.get("relation", ())}
        entries = _glued(_merge(_pieces(body), whole), lambda piece: "[" in piece)
    entries = [entry.strip() for entry in entries if entry.strip()]
    elements: list[Element] = []
    bad: list[str] = []
    for entry in entries[:-1] if cut else entries:
        read = _attributes(entry, known) if category == "attribute" else _relation(entry, known)
        if read is None:
            bad.append(entry)
        else:
            elements += read
    return elements, bad


def _glued(pieces: Sequence[str], starts: Callable[[str], bool]) -> list[str]:
    """Pieces that begin no entry joined to the entry before them (or, at the very start, to the one after)."""
    found: list[str] = []
    for piece in pieces:
        if found and (not starts(piece) or not starts(found[-1])):
            found[-1] = f"{found[-1]},{piece}"
        else:
            found.append(piece)
    return found


def _attributes(entry: str, known: Mapping[str, Collection[str]]) -> list[Element] | None:
    """Read `[a, b]entity` as single attributes; None when it has another form."""
    end = _closing(entry[1:]) if entry.startswith("[") else None
    if end is None:
        return None
    inner, entity = entry[1 : end + 1], entry[end + 2 :].strip()
    attributes = split_list(inner, known.get("attribute", ()))
    return [(entity, attribute) for attribute in attributes] if entity else None


def _relation(entry: str, known: Mapping[str, Collection[str]]) -> list[Element] | None:
    """`entity1[relation]entity2`; known entity names may hold brackets."""
    first = next(
        (name for name in sorted(known.get("entity", ()), key=len, reverse=True) if entry.startswith(f"{name}[")), None
    )
    start = entry.find("[") if first is None else len(first)
    end = _closing(entry[start + 1 :]) if start >= 0 else None
    if end is None:
        return None
    element = entry[:start].strip(), entry[start + 1 : start + 1 + end].strip(), entry[start + end + 2 :].strip()
    return [element] if all(element) else None
