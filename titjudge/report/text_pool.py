"""Deduplicated texts of a report: a prompt that is part of six requests to three models is stored once."""

from __future__ import annotations

from collections.abc import Sequence

from titjudge.core.serialization import without_surrogates

_WORTH = 40  # characters; splitting at shorter texts costs more than it saves


class Texts:
    """A table of texts, numbered from `first`. An entry is a string, or a list of numbers of entries to concatenate."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.table: list[str | list[int]] = []
        self._plain: dict[str, int] = {}
        self._composed: dict[tuple[int, ...], int] = {}

    def add(self, text: str) -> int:
        """Return the number of a text, which is added if it is new."""
        text = without_surrogates(text)
        number = self._plain.get(text)
        if number is None:
            number = self._plain[text] = self.first + len(self.table)
            self.table.append(text)
        return number

    def compose(self, text: str, fragments: Sequence[str]) -> int:
        """Return the number of a text; the `fragments` that it contains are stored once."""
        pieces = _split(
            text, sorted({fragment for fragment in fragments if len(fragment) >= _WORTH}, key=len, reverse=True)
        )
        if len(pieces) < 2:
            return self.add(text)
        numbers = tuple(self.add(piece) for piece in pieces)
        number = self._composed.get(numbers)
        if number is None:
            number = self._composed[numbers] = self.first + len(self.table)
            self.table.append(list(numbers))
        return number

    def get(self, number: int) -> str:
        """Return the text of a number."""
        entry = self.table[number - self.first]
        return entry if isinstance(entry, str) else "".join(self.get(part) for part in entry)


def _split(text: str, fragments: Sequence[str]) -> list[str]:
    """Split a text at the fragments, which are pieces of their own."""
    if not fragments:
        return [text] if text else []
    first, rest = fragments[0], fragments[1:]
    pieces: list[str] = []
    for number, between in enumerate(text.split(first)):
        if number:
            pieces.append(first)
        pieces.extend(_split(between, rest))
    return pieces
