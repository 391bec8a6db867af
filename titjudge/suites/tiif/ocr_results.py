"""Strings in the OCR results of TIIF-Bench's files, as the versions of PaddleOCR write them."""

from __future__ import annotations

from typing import Any

from titjudge.core.words import is_texts


def strings_of(result: Any) -> list[str]:
    """Extract the strings of an OCR result: PaddleOCR 2 lists, PaddleOCR 3 `rec_texts`, plain strings, or null.

    Raises:
        ValueError: It has another shape, which is named.
    """
    if result is None:
        return []
    if isinstance(result, str):
        return [result]
    if isinstance(result, dict):
        page = result["res"] if isinstance(result.get("res"), dict) else result
        inner = page.get("rec_texts")
        if not is_texts(inner):
            raise ValueError("an object without a list of strings under 'rec_texts'")
        return list(inner)
    if not isinstance(result, list):
        raise ValueError(f"a {type(result).__name__} where a list was expected")
    return [text for entry in result for text in _entry(entry)]


def _entry(entry: Any) -> list[str]:
    """Extract the strings of an entry: a string, a PaddleOCR 2 line `[box, [string, confidence]]`, or a page."""
    if isinstance(entry, str):
        return [entry]
    if entry is None or isinstance(entry, dict):
        return strings_of(entry)
    if not isinstance(entry, list):
        raise ValueError(f"a {type(entry).__name__} among the lines")
    line = _line(entry)
    if line is not None:
        return [line]
    texts = [_line(part) if isinstance(part, list) else None for part in entry]
    if not is_texts(texts):
        raise ValueError("a line that is not [box, [string, confidence]]")
    return texts


def _line(entry: list[Any]) -> str | None:
    if len(entry) == 2 and isinstance(entry[1], list) and entry[1] and isinstance(entry[1][0], str):
        return str(entry[1][0])
    return None
