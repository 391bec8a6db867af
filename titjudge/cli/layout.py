"""Tables for a terminal of a given width: long cells go on in the next line, and no word or interval is broken."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

GAP = 2  # spaces between columns
_LONGEST = 24  # characters that are never broken; longer words are addresses
_TALLEST = 8  # lines of a row; a taller one is easier to read as a record
_GLUE = "\u00a0"
_WHOLE = re.compile(r"\[[^\[\]]*\]|p [<=] ?\S+|-?[\d.]+ to -?[\d.]+")  # an interval, a p, a range


def laid_out(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], width: int
) -> list[str] | None:
    """Lay a table out in lines of at most `width` characters, the head and a rule first; None where that is too narrow."""
    heads = [_glued(name) for name in columns]
    cells = [[_glued(text) for text in row] for row in rows]
    natural, least = [], []
    for at, head in enumerate(heads):
        texts = [row[at] for row in cells]
        natural.append(max(map(_wide, [head, *texts])))
        least.append(max(min(_wide(word), _LONGEST) for text in [head, *texts] for word in [*_words(text), ""]))
    wide = list(natural)
    room = width - GAP * len(wide)
    while sum(wide) > room:
        at = max(range(len(wide)), key=lambda at: (wide[at] > least[at], wide[at]))
        if wide[at] <= least[at]:
            return None
        wide[at] -= 1
    lines: list[str] = []
    for row in ([*heads], ["-" * each for each in wide], *cells):
        wrapped = [_wrapped(text, each) for text, each in zip(row, wide, strict=True)]
        if max(map(len, wrapped)) > _TALLEST:
            return None
        for number in range(max(map(len, wrapped))):
            line = ""
            for text, each, right in zip(wrapped, wide, numeric, strict=True):
                part = text[number] if number < len(text) else ""
                space = " " * max(0, each - _wide(part))
                line += " " * GAP + (space + part if right else part + space)
            lines.append(line.replace(_GLUE, " ").rstrip())
    return lines


def paragraph(text: str, width: int, indent: str = "  ") -> str:
    """Text in lines of at most `width` characters, broken between words."""
    return textwrap.fill(text, max(20, width), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _glued(text: str) -> str:
    return _WHOLE.sub(lambda found: found[0].replace(" ", _GLUE), text)


def _words(text: str) -> list[str]:
    return textwrap.wrap(text, 1, break_long_words=False, break_on_hyphens=True)


def _wrapped(text: str, width: int) -> list[str]:
    if _wide(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_on_hyphens=True) or [""]


def _wide(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
