"""Which of several images of one prompt an image is: by a column, a field of its path, or the end of its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

COLUMNS = ("sample", "seed")
_NAME = re.compile(r"(.+?)[_-]([0-9]{1,18})")


def sample_of(record: Mapping[str, Any]) -> int:
    """Read the number, or seed, of an image among those of its prompt; 0 where nothing says."""
    found = next((record[name] for name in COLUMNS if record.get(name) not in (None, "")), 0)
    return as_sample(found)


def as_sample(value: Any) -> int:
    """Make the number of a sample from a cell; 0 where it is no whole number."""
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 and not isinstance(value, bool) else 0


def split_sample(name: str) -> tuple[str, int] | None:
    """Split `cat_2` or `cat-2` into name and sample; None of a name that does not end in a number."""
    found = _NAME.fullmatch(name)
    return (found[1], int(found[2])) if found else None
