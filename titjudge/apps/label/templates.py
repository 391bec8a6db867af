"""Fill the parts of a static file, `<!-- part: NAME -->`, with text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

STATIC = Path(__file__).parent / "static"
_PART = re.compile(r"<!-- part: (\w+) -->")


def filled(name: str, parts: Mapping[str, str]) -> str:
    """Return the text of a static file with its parts filled in."""
    return _PART.sub(lambda match: parts[match[1]], (STATIC / name).read_text(encoding="utf-8"))


def parts_of(name: str) -> dict[str, str]:
    """Read a static file that lists parts, each below its mark."""
    _, *parts = _PART.split((STATIC / name).read_text(encoding="utf-8"))
    return {part: text.strip("\n") for part, text in zip(parts[::2], parts[1::2], strict=True)}
