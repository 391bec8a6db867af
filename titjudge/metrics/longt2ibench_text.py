"""Read and write alignments in LongT2IBench's text format (dataset.py, train.py @e47380b).

Names may contain commas and brackets, like some of its prompts; if the names are known, they are recognised whole.

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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
    """A parsed text.

    Attributes:
        alignment: The elements of each category with their verdicts.
        entities: The names listed under "all entity".
        complete: False when a list or a section is missing or cut off.
        problems: Entries that cannot be read, then what is missing or cut off.
    """

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


def _entries(marks: Marks, category: str, verdict: bool) -> list[str]:
    elements = [element for element, aligned in marks if aligned is verdict]
    if category == "relation":
        return [f"{first}[{relation}]{second}" for first, relation, second in elements]
    if category == "entity":
        return [element[0] for element in elements]
    grouped: dict[str, list[str]] = {}
    for entity, attribute in elements:
        grouped.setdefault(entity, []).append(attribute)
    return [f"[{', '.join(attributes)}]{entity}" for entity, attributes in grouped.items()]


def parse_target(text: str, known_names: Mapping[str, Collection[str]] | None = None) -> Parsed | None:
    """Parse an alignment; None when the text has none of the three score sections.

    Args:
        text: An answer; text before the first "all entity:" (and before the last `</think>`) is ignored.
        known_names: Names by category (`entity`: names, `relation`: `entity1[relation]entity2`) that may contain commas
            or brackets; they are recognised whole.
    """
    answer = after_thinking(text)
    start = re.search("all entity:", answer, re.IGNORECASE)
    sections = _sections(answer[start.start() :] if start else answer)
    if not {f"{category}_score" for category in CATEGORIES} & sections.keys():
        return None
    known_names = known_names or {}
    gaps: list[str] = []
    unread: list[str] = []
    alignment: dict[str, Marks] = {}
    listed = split_list(sections.get("all entity", ("", False))[0].strip(_TAIL + "[]"), known_names.get("entity", ()))
    for category in CATEGORIES:
        name = f"{category}_score"
        marks: list[tuple[Element, bool]] = []
        lists = _lists(*sections[name]) if name in sections else {}
        gaps += [
            f"{name} has no {label} list" for good, label in ((True, "align"), (False, "misalign")) if good not in lists
        ]
        for aligned, (body, cut) in lists.items():
            elements, bad = read_elements(body, category, known_names, cut=cut)
            marks += [(element, aligned) for element in elements]
            unread += [f"{name}: '{entry}' cannot be read" for entry in bad]
            gaps += [f"{name} is cut off"] if cut else []
        alignment[category] = marks
    return Parsed(alignment, tuple(listed), not gaps, (*unread, *gaps))


def _sections(text: str) -> dict[str, tuple[str, bool]]:
    """Find the body of each section (the first of its name), and whether it is the last one of the text."""
    sections: dict[str, tuple[str, bool]] = {}
    for label, body, last in _labelled(_SECTION, text):
        sections.setdefault(label[1].lower(), (body, last))
    return sections


def _labelled(pattern: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str, bool]]:
    """Yield each label, the text from it to the next one, and whether it is the last label."""
    labels = list(pattern.finditer(text))
    ends = [*(label.start() for label in labels[1:]), len(text)]
    for label, end in zip(labels, ends, strict=False):
        yield label, text[label.end() : end], label is labels[-1]


def _lists(body: str, last: bool) -> dict[bool, tuple[str, bool]]:
    """Find the inside of each list by its verdict (True: align), and whether the end of the text cuts it off."""
    lists: dict[bool, tuple[str, bool]] = {}
    for label, region, final in _labelled(_LIST, body):
        end = _closing(region)
        cut = end is None and final and last
        if end is None:
            end = len(region) if cut else max(region.rfind("]"), 0)
        elif not (final and last) and region[end + 1 :].strip(_TAIL) and "]" in region[end + 1 :]:
            end = region.rfind("]")  # a stray bracket in a name closed the list early
        lists.setdefault(label[1] is None, (region[:end], cut))
    return lists


def _closing(text: str) -> int | None:
    """Return the index of the bracket that closes one opened just before `text`."""
    depth = 1
    for index, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth == 0:
            return index
    return None


def _pieces(text: str) -> list[str]:
    """Split a text at the commas outside brackets."""
    pieces, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        if letter in "[]":
            depth = max(0, depth + (1 if letter == "[" else -1))
        elif letter == "," and depth == 0:
            pieces.append(text[start:index])
            start = index + 1
    return [*pieces, text[start:]]


def split_list(text: str, known_names: Collection[str] = ()) -> list[str]:
    """Split a comma-separated list; names in `known` (compared case-folded) are kept whole with their commas."""
    merged = _merge(_pieces(text), {_folded(name) for name in known_names if "," in name})
    return [name.strip() for name in merged if name.strip()]


def _merge(pieces: Sequence[str], known_names: Collection[str]) -> list[str]:
    """Join the pieces that together are a known name (folded), the longest name first."""
    merged, index = [], 0
    longest = 1 + max((name.count(",") for name in known_names), default=0)
    while index < len(pieces):
        for end in range(min(len(pieces), index + longest), index, -1):
            name = ",".join(pieces[index:end])
            if end == index + 1 or _folded(name) in known_names:
                merged.append(name)
                index = end
                break
    return merged


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())


def read_elements(
    body: str, category: str, known_names: Mapping[str, Collection[str]] | None = None, *, cut: bool = False
) -> tuple[list[Element], list[str]]:
    """Parse the elements of a list (its inside), and return the entries that cannot be parsed beside them.

    `cut` drops the last entry, which is incomplete.
    """
    known_names = known_names or {}
    if category == "entity":
        names = split_list(body, known_names.get("entity", ()))
        return [(name,) for name in (names[:-1] if cut else names)], []
    if category == "attribute":
        entries = _joined(_pieces(body), lambda piece: piece.strip().startswith("["))
    else:
        relations = {_folded(name) for name in known_names.get("relation", ())}
        entries = _joined(_merge(_pieces(body), relations), lambda piece: "[" in piece)
    entries = [entry.strip() for entry in entries if entry.strip()]
    elements: list[Element] = []
    bad: list[str] = []
    for entry in entries[:-1] if cut else entries:
        read = _attributes(entry, known_names) if category == "attribute" else _relation(entry, known_names)
        if read is None:
            bad.append(entry)
        else:
            elements += read
    return elements, bad


def _joined(pieces: Sequence[str], starts: Callable[[str], bool]) -> list[str]:
    """Join pieces that do not start an entry to the entry before them (at the very start, to the one after)."""
    entries: list[str] = []
    for piece in pieces:
        if entries and (not starts(piece) or not starts(entries[-1])):
            entries[-1] = f"{entries[-1]},{piece}"
        else:
            entries.append(piece)
    return entries


def _attributes(entry: str, known_names: Mapping[str, Collection[str]]) -> list[Element] | None:
    """Parse `[a, b]entity` into an element for each attribute; None when it has another form."""
    end = _closing(entry[1:]) if entry.startswith("[") else None
    if end is None:
        return None
    inner, entity = entry[1 : end + 1], entry[end + 2 :].strip()
    attributes = split_list(inner, known_names.get("attribute", ()))
    return [(entity, attribute) for attribute in attributes] if entity else None


def _relation(entry: str, known_names: Mapping[str, Collection[str]]) -> list[Element] | None:
    """Parse `entity1[relation]entity2`, where known entity names may contain brackets; None when it has another form."""
    first = next(
        (name for name in sorted(known_names.get("entity", ()), key=len, reverse=True) if entry.startswith(f"{name}[")),
        None,
    )
    start = entry.find("[") if first is None else len(first)
    end = _closing(entry[start + 1 :]) if start >= 0 else None
    if end is None:
        return None
    element = entry[:start].strip(), entry[start + 1 : start + 1 + end].strip(), entry[start + end + 2 :].strip()
    return [element] if all(element) else None
