"""Names of files and folders that are the text of a prompt, or its beginning: `a_red_cube_on_a_000001.png`, `two dogs/0.png`.

Programs write spaces as `_` or `-`, drop or replace characters that a file system reserves, cut a name at N characters or words, and
put numbers before or after it.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from urllib.parse import unquote

_LEAST = 6  # letters and digits of a beginning that is hardly a chance
_TRIED = 200  # names from which a template is derived
_DECORATIONS = 3  # words before or after the text
_SEPARATORS = re.compile(r"([_\-. ()\[\]#,]+)")
_NUMBER = re.compile(r"([A-Za-z]*)(\d+)")
_NUMBERS = re.compile(r"[\d\W_]*")
_DROPPED = re.compile(r"[^\w\s-]")
_SIZE = re.compile(r"\d+x\d+")
_MARKS = "seed sample s n no num img image idx index id batch prompt p".split()
"""Words before a number that are not part of a prompt."""


@lru_cache(2**16)
def plain_text(text: str) -> str:
    """Return the letters and digits of a text, without case and accents; with spaces only between two numbers."""
    text = unquote(text)
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(sign for sign in decomposed if unicodedata.category(sign) != "Mn")
    return re.sub(r"(?<!\d) | (?!\d)", "", re.sub(r"[\W_]+", " ", text.casefold()).strip())


def _exact(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


class PromptNames:
    """Finds the prompts whose text is in a name.

    Args:
        prompts: The prompts by their ids; of several ids with the same text the first counts.
    """

    def __init__(self, prompts: Mapping[str, str]) -> None:
        self._prompts = prompts

    @cached_property
    def _exact(self) -> dict[str, str]:
        exact: dict[str, str] = {}
        for key, text in self._prompts.items():
            exact.setdefault(_exact(text), key)
        return exact

    @cached_property
    def _plain(self) -> dict[str, set[str]]:
        plain: dict[str, set[str]] = {}
        for text, key in self._exact.items():
            for spelled in {plain_text(text), plain_text(_DROPPED.sub("", text))} - {""}:
                plain.setdefault(spelled, set()).add(key)
        return plain

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self._plain)

    def find(self, names: Iterable[str], *, whole: bool = False) -> dict[str, str]:
        """Map the names that are the text of exactly one prompt, or the beginning of exactly one, to its id.

        A whole text that could also be the beginning of another prompt is not mapped if other names are cut at its length or before.

        Args:
            names: The names.
            whole: Whether only whole texts count.
        """
        hits = {name: hit for name in names if (hit := self._hit(name)) is not None}
        shortest = min((len(plain_text(name)) for name, (_, whole) in hits.items() if not whole), default=None)
        return {
            name: key
            for name, (key, is_whole) in hits.items()
            if shortest is None or ((is_whole or not whole) and not self._may_be_cut(name, shortest))
        }

    def are_sure(self, names: Iterable[str]) -> bool:
        """Return True if names with a prompt are too long to have the text of one by chance."""
        for name in names:
            hit, plain = self._hit(name), plain_text(name)
            size = sum(1 if sign.isascii() else 2 for sign in plain)
            if hit is not None and size < (2 if hit[1] else _LEAST):
                return False
        return True

    def templates(self, names: Collection[str]) -> Iterator[str]:
        """Yield the pattern by which most names are the text of a prompt, with numbers before or after it; none if few are."""
        counts: Counter[str] = Counter()
        lengths: Counter[str] = Counter()
        tried = sorted(names)[:: max(1, len(names) // _TRIED)]
        for name in tried:
            for template, text in _splits(name):
                if self._hit(text) is not None:
                    counts[template] += 1
                    lengths[template] += len(text)
        best = max(counts, key=lambda template: (counts[template], lengths[template]), default="")
        if 2 * counts[best] > len(tried):
            yield best

    def _hit(self, name: str) -> tuple[str, bool] | None:
        """Return the id of the prompt, and whether the name is its whole text; None if no prompt or several have it."""
        if _NUMBERS.fullmatch(name):
            return None
        if (key := self._exact.get(_exact(name))) is not None:
            return key, True
        plain = plain_text(name)
        if _NUMBERS.fullmatch(plain):
            return None
        keys = self._plain.get(plain)
        if keys is not None and not name.endswith(("_", "-")):  # after these, a name is cut
            return (next(iter(keys)), True) if len(keys) == 1 else None
        whole, keys = keys is not None, set()
        for text in self._beginning(plain):
            keys |= self._plain[text]
            if len(keys) > 1:
                return None
        return (keys.pop(), whole) if keys else None

    def _beginning(self, plain: str) -> Iterator[str]:
        for index in range(bisect_left(self._sorted, plain), len(self._sorted)):
            if not self._sorted[index].startswith(plain):
                return
            yield self._sorted[index]

    def _may_be_cut(self, name: str, shortest: int) -> bool:
        plain = plain_text(name)
        keys = {key for text in self._beginning(plain) for key in self._plain[text]}
        return len(plain) >= shortest and len(keys) > 1


def _splits(name: str) -> Iterator[tuple[str, str]]:
    """Yield the ways to take numbers away at both ends of a name: the pattern, and the text that is left."""
    parts = _SEPARATORS.split(name)
    end = len(parts) if parts[-1] else len(parts) - 2  # `two dogs_00001_`, `two dogs (1)`
    for before in range(_DECORATIONS + 1):
        for after in range(_DECORATIONS + 1):
            first, last = 2 * before, (end - 2 * after if after else len(parts))
            if first >= last:
                continue
            lead, trail = parts[:first], parts[last:]
            fields = _fields(lead, trail)
            if fields is not None:
                start, finish = fields
                yield f"{start}{{prompt_id}}{finish}", "".join(parts[first:last])


def _fields(lead: list[str], trail: list[str]) -> tuple[str, str] | None:
    """Write the numbers around a text as fields of a pattern; None if there is anything else than numbers and their marks."""
    parts = [*lead, "", *trail]
    free = ["index", "sample", "seed"]
    for index in range(len(parts) - 1, -1, -1):
        part = parts[index]
        if not part or _SEPARATORS.fullmatch(part) or _SIZE.fullmatch(part):
            continue
        number = _NUMBER.fullmatch(part)
        if number is None:
            if part.lower() in _MARKS and index + 2 < len(parts) and parts[index + 2].startswith("{"):
                continue
            return None
        mark = number[1] or (parts[index - 2] if index >= 2 else "")
        if mark.lower() == "seed" or (len(number[2]) > 6 and number[2][0] != "0"):
            field = "seed"
        else:
            field = "index" if index < len(lead) and len(free) < 3 else "sample"
        if field not in free:
            return None
        free.remove(field)
        parts[index] = f"{number[1]}{{{field}}}"
    return "".join(parts[: len(lead)]), "".join(parts[len(lead) + 1 :])
