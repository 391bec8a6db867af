"""Texts: their words in any script, their first characters, and lists of them."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, TypeGuard

_SIGN = "\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese and Japanese
_MARK = "\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"  # their space and punctuation
_WORD = re.compile(rf"[{_SIGN}]|[^\s{_SIGN}{_MARK}]+")


def count_words(text: str) -> int:
    """Count the words of a text, with each Chinese or Japanese character as a word."""
    return len(_WORD.findall(text))


def normalised(text: str) -> str:
    """Write each character in one way: composed (NFC), and in its usual width."""
    usual = (
        unicodedata.normalize("NFKC", sign) if unicodedata.decomposition(sign)[:4] in ("<wid", "<nar") else sign
        for sign in text
    )
    return unicodedata.normalize("NFC", "".join(usual))


def truncated(text: str, longest: int) -> str:
    """Cut a text to so many characters, the last of which says that there was more."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def is_texts(value: Any) -> TypeGuard[list[str]]:
    """Tell whether a value is a list of texts; an empty one is."""
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
