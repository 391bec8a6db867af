"""Lay out tables for a terminal: long cells are wrapped between words, and an interval is never broken."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import zip_longest

GAP = 2  # spaces between columns
_MAX_WORD = 24  # characters; a longer word, such as a URL, may be broken
_MAX_LINES = 8  # lines of a row; a longer row is easier to read as a list of cells
_GLUE = "\u00a0"
_UNBREAKABLE = re.compile(
    r"\[[^\[\]]*\]|p [<=] ?\S+|p (Holm|BH|best)|-?[\d.]+ to -?[\d.]+"
)  # an interval, a p, a range


def laid_out(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], width: int
) -> list[str] | None:
    """Format a table as lines of at most `width` characters: columns, a rule, rows; None if it does not fit.

    Where there is too little room, headings are wrapped before cells are.
    """
    cells = [[_glued(text) for text in row] for row in (columns, *rows)]
    widths = [max(map(_width, texts)) for texts in zip(*cells, strict=True)]
    room = width - GAP * len(widths)
    if not (_shrunk(widths, _whole_cells(cells), room) or _shrunk(widths, _whole_words(cells), room)):
        return None
    lines: list[str] = []
    for row in (cells[0], ["-" * column for column in widths], *cells[1:]):
        wrapped = [_wrapped(text, column) for text, column in zip(row, widths, strict=True)]
        if max(map(len, wrapped)) > _MAX_LINES:
            return None
        for parts in zip_longest(*wrapped, fillvalue=""):
            line = ""
            for part, column, right in zip(parts, widths, numeric, strict=True):
                space = " " * max(0, column - _width(part))
                line += " " * GAP + (space + part if right else part + space)
            lines.append(line.replace(_GLUE, " ").rstrip())
    return lines


def least_width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return the width of a table whose headings are wrapped between words, and whose cells stand in one line each."""
    return sum(GAP + least for least in _whole_cells([[_glued(text) for text in row] for row in (columns, *rows)]))


def _whole_cells(cells: Sequence[Sequence[str]]) -> list[int]:
    """Return the least widths at which only headings are wrapped."""
    return [max(_longest_word(heading), *map(_width, texts), 0) for heading, *texts in zip(*cells, strict=True)]


def _whole_words(cells: Sequence[Sequence[str]]) -> list[int]:
    """Return the least widths at which cells are wrapped between words, and only very long words are broken."""
    return [max(min(_longest_word(text), _MAX_WORD) for text in texts) for texts in zip(*cells, strict=True)]


def _longest_word(text: str) -> int:
    return max(map(_width, _words(text)), default=0)


def _shrunk(widths: list[int], least: Sequence[int], room: int) -> bool:
    """Make the widest columns narrower until they fit, none below its least width; returns whether they do."""
    while sum(widths) > room:
        widest = max(range(len(widths)), key=lambda column: (widths[column] > least[column], widths[column]))
        if widths[widest] <= least[widest]:
            return False
        widths[widest] -= 1
    return True


def paragraph(text: str, width: int, indent: str = "  ") -> str:
    """Wrap text between words into indented lines of at most `width` characters."""
    return textwrap.fill(text, max(20, width), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _glued(text: str) -> str:
    return _UNBREAKABLE.sub(lambda match: match[0].replace(" ", _GLUE), text)


def _words(text: str) -> list[str]:
    return textwrap.wrap(text, 1, break_long_words=False, break_on_hyphens=True)


def _wrapped(text: str, width: int) -> list[str]:
    if _width(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_on_hyphens=True) or [""]


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
