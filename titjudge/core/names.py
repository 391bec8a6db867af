"""Names that come from data: generators, prompt ids, image ids, and cells of a table that stand for nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

_INVISIBLE = (
    "\u00ad\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
)
_WHOLE = re.compile(r"(0|[1-9][0-9]*)\.0")
_INSIDE = dict.fromkeys(map(ord, "\u00ad\u180e\u200b\u2060\ufeff"), "") | dict.fromkeys(
    map(ord, "\u00a0\u2007\u202f"), " "
)
_NOTHING = frozenset("na nan none null n/a #n/a <na> nat".split())


def plain(name: str) -> str:
    """Return a name as names are compared: in Unicode NFC, without outer blanks and invisible characters.

    Zero-width characters that shape or direct letters remain inside. Other blanks than the ideographic one count as a space.
    """
    if name.isascii():
        return name.strip()
    name = unicodedata.normalize("NFC", name).translate(_INSIDE)
    while (shorter := name.strip().strip(_INVISIBLE)) != name:
        name = shorter
    return name


def by_usual_name(columns: Iterable[str]) -> dict[str, str]:
    """Return columns by their names, and by these in lower case if no other column has that name."""
    columns = list(columns)
    return {**{plain(name).casefold(): name for name in reversed(columns)}, **{name: name for name in columns}}


def split_names(text: str, known: Iterable[str]) -> tuple[str, ...]:
    """Split names at the commas between them; known names with commas stay whole."""
    name = "|".join([*map(re.escape, sorted(known, key=len, reverse=True)), "[^,]*"])
    return tuple(map(plain, re.findall(rf"(?:^|,)\s*({name})(?=\s*(?:,|$))", text)))


def id_of(value: Any) -> str:
    """Return the id of a prompt as text: 7.0, which programs write for 7 if another cell of the column is empty, is `7`."""
    name = plain(str(value))
    return whole[1] if (whole := _WHOLE.fullmatch(name)) else name


def is_nothing(text: str) -> bool:
    """Return True for a blank text, and for the words that programs write for a missing one (`nan`, `None`, `NULL`)."""
    text = plain(text)
    return not text or text.casefold() in _NOTHING
