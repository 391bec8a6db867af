"""Families of prompts: prompts that vary together, such as the wordings of one prompt, and count as one unit.

Scores of one family are correlated, so intervals and tests that take its prompts as independent are too narrow. All statistics
therefore sum over the prompts of a family first, and take families as the sample. Means stay means over prompts.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from titjudge.core import item_meta
from titjudge.core.declarations import RELIABLE
from titjudge.core.errors import DataError
from titjudge.core.item_meta import HasMeta
from titjudge.core.numbers import several
from titjudge.core.types import InvalidItem, Item, Note, Pair, Values, prompt_of
from titjudge.core.words import truncated

if TYPE_CHECKING:
    from titjudge.stats.bootstrap import Ints

Families = Mapping[str, str]
"""Prompt -> name of its family; an absent prompt is a family alone."""
ALONE: Families = {}
UNIT = "a family is one unit of all intervals and tests"
FEWEST = 6  # prompts, or families of prompts, that two generators must share to be compared; prompts of a category


def _wording(item: HasMeta) -> object:
    """Return type and number of a short or long wording, which the wordings of one prompt share (TIIF-Bench)."""
    index = item_meta.INDEX.get(item)
    return (
        None
        if index is None or item_meta.LENGTH.get(item) not in ("short", "long")
        else (item_meta.TYPE.get(item), index)
    )


def _pair(item: HasMeta) -> object:
    return item_meta.PAIR.get(item) if item_meta.LENGTH.is_in(item) else None


DECLARED: Mapping[str, Callable[[HasMeta], object]] = {
    item_meta.CLUSTER.name: item_meta.CLUSTER.get,
    item_meta.PAIR.name: _pair,
    item_meta.LENGTH.name: _wording,
    item_meta.THEME.name: item_meta.THEME.get,
}
"""Columns that declare families, the most certain first."""
READ = (*DECLARED, item_meta.TYPE.name, item_meta.INDEX.name)
"""Columns that `families` reads."""


class NoFamilies(dict[str, str]):
    """No families, as the column `cluster` has two values for one prompt: `conflict` names it."""

    conflict: str


def cluster_of(
    record: Values, prompt: str, seen: dict[str, str], path: Path | None = None, line: int | None = None
) -> str:
    """Return the value of the column `cluster` of a row; empty if there is none. `seen` keeps the value of each prompt.

    Raises:
        DataError: Another row of the prompt has another value.
    """
    value = record.get(item_meta.CLUSTER.name)
    text = "" if value is None else str(value).strip()
    if text and (first := seen.setdefault(prompt, text)) != text:
        prompt, first, text = (f"'{truncated(name, 80)}'" for name in (prompt, first, text))
        problem = f"prompt {prompt} has {first} and {text} in the column '{item_meta.CLUSTER.name}'"
        raise DataError(f"{problem}. Give it one value", path, line)
    return text


def families(
    items: Iterable[Item | InvalidItem], key: Callable[[Item], str] = prompt_of, pairs: Iterable[Pair] = ()
) -> Families:
    """Find the families of prompts; empty if every prompt is alone.

    The first of the columns `DECLARED` counts in which several prompts share a value. If there is a column `cluster`, no other
    counts. Themes are families only if they have fewer than `FEWEST` prompts on average: larger ones are categories.
    A column of which one prompt has several values declares nothing; if it is `cluster`, nothing does (`NoFamilies`).
    If the items declare none, the families count that human pairs name.

    Args:
        items: The images.
        key: Names the prompt of an image.
        pairs: Human pairs of the images.
    """
    named = families_of_pairs(pairs)
    of_pairs: dict[str, str] = {}
    columns: dict[str, dict[str, str]] = {}
    mixed: set[str] = set()
    clusters: dict[str, str] = {}
    for item in items:
        if not isinstance(item, Item):
            continue
        if named and (family := named.get(prompt_of(item))):
            of_pairs[key(item)] = family
        if not DECLARED.keys().isdisjoint(item.meta):
            try:
                cluster_of(item.meta, key(item), clusters)
            except DataError as error:
                none = NoFamilies()
                none.conflict = error.message
                return none
            for column, read in DECLARED.items():
                if (value := read(item)) not in (None, ""):
                    text = str(value)
                    if columns.setdefault(column, {}).setdefault(key(item), text) != text:
                        mixed.add(column)
    for column in DECLARED:
        found = columns.get(column, {}) if column not in mixed else {}
        sizes = len(set(found.values()))
        if sizes < len(found) and (column != item_meta.THEME.name or len(found) < FEWEST * sizes):
            return found
        if found and column == item_meta.CLUSTER.name:
            break
    return of_pairs


def units(prompts: Sequence[str], declared: Families) -> Ints | None:
    """Return the number of the unit of each prompt, its family or itself; None if no two prompts are of one family."""
    from titjudge.stats.bootstrap import codes

    unit, distinct = codes(declared.get(prompt, prompt) for prompt in prompts) if declared else (None, prompts)
    return unit if len(distinct) < len(prompts) else None


class Alike:
    """Finds prompts with nearly the same words as another one, among the first prompts that declare no family."""

    _MOST = 1_000  # prompts that are looked at
    _SHARE = 0.8  # of the words of two prompts together, that both must have
    # Orders of the pairs of neighbouring words: prompts with the same first pair are compared.
    _MASKS = (0, 0x5BD1E995, 0x9E3779B9, 0xC2B2AE35)
    _COMPARED = 4  # prompts with one first pair

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}
        self._first: dict[tuple[int, int], list[tuple[str, frozenset[str]]]] = {}
        self._found: dict[str, str] = {}

    def look(self, item: Item | InvalidItem) -> Item | InvalidItem:
        """Compare the item's prompt with those before, and return the item."""
        if isinstance(item, Item):
            self.compare(prompt_of(item), item.prompt, item.meta)
        return item

    def compare(self, prompt: str, text: str, columns: Container[str]) -> None:
        """Compare the text of a prompt with those before, unless its columns declare a family."""
        if prompt not in self._seen and len(self._seen) < self._MOST:
            self._seen[prompt] = None
            if text and not any(column in columns for column in DECLARED):
                self._compare(prompt, re.findall(r"\w+", text.casefold()))

    def _compare(self, prompt: str, listed: list[str]) -> None:
        words, following = frozenset(listed), [*listed[1:], ""]
        hashes = {zlib.crc32(f"{a} {b}".encode(errors="replace")) for a, b in zip(listed, following, strict=True)}
        for mask in self._MASKS if words else ():
            others = self._first.setdefault((mask, min(number ^ mask for number in hashes)), [])
            for name, other in others:
                if len(words & other) > self._SHARE * len(words | other):
                    self._found.setdefault(prompt, name)
            if len(others) < self._COMPARED:
                others.append((prompt, words))

    def notes(self) -> list[Note]:
        """Return one line that counts the prompts and explains how to declare a family; none without such prompts."""
        if not self._found:
            return []
        first, other = next(iter(self._found.items()))
        line = (
            f"{several(len(self._found), 'prompt')} nearly the same as another ({truncated(first, 40)} as {truncated(other, 40)}). "
            f"If such prompts are variants of one, give them one value in a column '{item_meta.CLUSTER.name}': they then count as one unit."
        )
        return [Note("prompts_nearly_same", line)]


def in_families(pairs: Sequence[Pair], declared: Families) -> list[Pair]:
    """Return pairs that name the families of their prompts; if none are declared, pairs keep the families of their file."""
    return [replace(pair, family=declared.get(pair.prompt_id, "")) for pair in pairs] if declared else list(pairs)


def families_of_pairs(pairs: Iterable[Pair]) -> Families:
    """Return the families that human pairs name."""
    return {pair.prompt_id: pair.family for pair in pairs if pair.family}


def family_notes(prompts: Sequence[str], declared: Families) -> list[Note]:
    """Note that families are the unit, and that few of them give no reliable level; or that the data contradict themselves."""
    if isinstance(declared, NoFamilies):
        line = f"{declared.conflict}: families are not used, and levels are valid only if prompts are independent"
        return [Note("families_conflict", line)]
    unit = units(prompts, declared)
    if unit is None:
        return []
    count = int(unit.max()) + 1
    return [Note("families_are_unit", f"{len(prompts):,} prompts in {counted(count)}: {UNIT}")]


def counted(families: int) -> str:
    """Write a number of families, and whether they are too few for the level of an interval or a test to be reliable."""
    return f"{families:,} famil{'y' if families == 1 else 'ies'}{too_few(families)}"


def counted_units(count: int, unit: Ints | None) -> str:
    """Write a number of prompts, or of families if these are the unit."""
    return several(count, "prompt") if unit is None else f"{count:,} prompt famil{'y' if count == 1 else 'ies'}"


def few_prompts(count: int) -> list[Note]:
    """Note that the prompts are too few for a reliable level; none if there are enough."""
    return [Note("few_prompts", f"{several(count, 'prompt')}{too_few(count)}")] if too_few(count) else []


def too_few(count: int) -> str:
    """Write that too few units, or people, give no reliable level; empty if there are enough."""
    return ", too few for a reliable level" if count < RELIABLE else ""


def annotators_note(count: int, *, allowed: bool = True, what: str = "intervals") -> Note:
    """Write how many annotators made all choices, and whether intervals allow for the choice of them."""
    some = "1 annotator has" if count == 1 else f"{count} annotators have"
    line = f"{some} made all choices: {what} {'' if allowed else 'do not '}allow for the choice of annotators{too_few(count)}"
    return Note("annotators", line)
