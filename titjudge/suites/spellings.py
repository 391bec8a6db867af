"""Names of generators, prompts and images that are spelled in several ways: they count as one, and a note reports it."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

from titjudge.core.names import plain
from titjudge.core.types import InvalidItem, Item
from titjudge.core.words import truncated


class Spellings:
    """Writes the names of items as names are compared, and records which of them were spelled in several ways."""

    def __init__(self) -> None:
        self._plain: set[int] = set()  # hashes of kind and name of what is written as it is compared
        self._others: dict[tuple[str, str], set[str]] = {}  # kind and name -> its other spellings
        self._ids: dict[str, list[str]] = {}

    def unified(self, item: Item | InvalidItem) -> Item | InvalidItem:
        """Return the item with plain names; the id of an image only in NFC, and numbered if two files have the same."""
        generator = self._name("generator", item.generator)
        prompt_id = self._name("prompt", item.prompt_id)
        name = item.id
        if not name.isascii():
            name = unicodedata.normalize("NFC", name)
            files = self._ids.setdefault(name, [])
            if item.id not in files:
                files.append(item.id)
            if number := files.index(item.id):
                name = f"{name} ({number + 1})"
        if (name, generator, prompt_id) == (item.id, item.generator, item.prompt_id):
            return item
        return replace(item, id=name, generator=generator, prompt_id=prompt_id)

    def _name(self, kind: str, written: str) -> str:
        name = plain(written)
        if name == written:
            self._plain.add(hash((kind, name)))
        else:
            self._others.setdefault((kind, name), set()).add(written)
        return name

    def notes(self) -> list[str]:
        """Return a line for each kind of name of which several spellings count as one."""
        spellings = {key: len(others) + (hash(key) in self._plain) for key, others in self._others.items()}
        lines = []
        for kind in ("generator", "prompt"):
            if merged := [(name, count) for (of, name), count in spellings.items() if of == kind and count > 1]:
                name, count = merged[0]
                more = f", and in {len(merged) - 1:,} more {kind}s" if len(merged) > 1 else ""
                lines.append(
                    f"{count} spellings count as one {kind}, '{truncated(name, 60)}': they differ only in outer blanks, "
                    f"invisible characters or Unicode form{more}"
                )
        return lines
