"""Regular expressions that are compiled at their first use: many modules have more of them than a command needs."""

from __future__ import annotations

import re
from typing import cast


class _Pattern:
    def __init__(self, text: str, flags: int) -> None:
        self._source = text, flags

    def __getattr__(self, name: str) -> object:
        attribute: object = getattr(re.compile(*self._source), name)
        setattr(self, name, attribute)  # from now on it is found without this method
        return attribute


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Make a pattern with the methods of `re.compile(text, flags)`. A mistake in it is an `re.error` at its first use."""
    return cast("re.Pattern[str]", _Pattern(text, flags))
