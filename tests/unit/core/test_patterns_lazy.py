"""Patterns that are compiled at their first use."""

import re

import pytest

from titjudge.core import patterns
from titjudge.core.patterns import lazy_pattern


def test_a_pattern_does_what_a_compiled_one_does() -> None:
    lazy, compiled = lazy_pattern(r"(?P<word>[a-z]+)-", re.IGNORECASE), re.compile(r"(?P<word>[a-z]+)-", re.IGNORECASE)
    for text in ("ABC-d", "1", "x-y-"):
        assert lazy.findall(text) == compiled.findall(text)
        assert lazy.sub("_", text) == compiled.sub("_", text)
        assert bool(lazy.match(text)) == bool(compiled.match(text))
    assert (lazy.pattern, lazy.flags, lazy.groupindex) == (compiled.pattern, compiled.flags, compiled.groupindex)


def test_it_is_compiled_once_and_at_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    made = re.compile

    def count(text: str, flags: int) -> re.Pattern[str]:
        compiled.append(text)
        return made(text, flags)

    monkeypatch.setattr(patterns.re, "compile", count)
    lazy = lazy_pattern("count me")
    assert compiled == []
    assert len([text for text in ("so count me", "count me", "") if lazy.search(text)]) == 2
    assert compiled == ["count me"]


def test_a_mistake_is_an_error_at_the_first_use() -> None:
    lazy = lazy_pattern("(")
    with pytest.raises(re.error):
        lazy.search("")
