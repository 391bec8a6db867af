"""What the columns of a table may hold: the prompt, a generator, a sample. Where several readings are possible, nothing is judged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from titjudge.core.errors import UnclearData
from titjudge.core.names import is_nothing, plain
from titjudge.core.numbers import several
from titjudge.core.types import Values
from titjudge.core.words import truncated
from titjudge.suites.sources import INSTRUCTIONS

_PROMPT_WORDS = frozenset("prompt caption recaption text txt instruction".split())
_OTHER_WORDS = frozenset(
    """
    negative neg system id ids idx index hash length len words word tokens token type category class source from count
    num n number lang language embedding embeddings emb path file url template version model strength weight seed score
    scores rating image img ocr color colour font position align alignment similarity clip has is key name set box boxes
    mask theme style difficulty guidance
    """.split()
)
_TRANSLATION = re.compile(
    r"prompts?[ _-]+([a-z]{2}|chinese|english|french|german|japanese|korean|spanish)", re.IGNORECASE
)
_RATINGS = re.compile(r"score|rating|reward|rank|mos\b|vote", re.IGNORECASE)
_COUNTED = 1_000  # different values of a column that are counted
_FEW = 50  # values of a column that may be generators or samples
_FILLED = 0.7  # share of the combinations of prompts and values that have a row
_PROMPTS = 20_000  # prompts whose rows are compared
_LISTED = 12  # columns that a note names


def may_be_prompt(name: str) -> bool:
    """Return True if a column of this name may hold prompts: `caption`, `prompt_en`, `revised prompt`; not `prompt_id`."""
    words = {*re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).casefold())}
    return bool(words & _PROMPT_WORDS) and not words & _OTHER_WORDS


def prompt_columns(names: Iterable[str], chosen: Iterable[str]) -> list[str]:
    """List the columns that may be the prompt.

    Args:
        names: All columns.
        chosen: The column that is read as the prompt by its name. If it is `prompt`, only other kinds of prompts are in doubt,
            such as `revised_prompt`, but not translations; if it is an instruction, only other instructions.
    """
    likely = [name for name in names if may_be_prompt(name)]
    for name in chosen:
        if name in INSTRUCTIONS:
            return [other for other in likely if other in INSTRUCTIONS or "instruction" in other.casefold()]
        if name == "prompt":
            return [other for other in likely if "prompt" in other.casefold() and not _TRANSLATION.fullmatch(other)]
        likely = [name, *(other for other in likely if other != name)]
    return likely


@dataclass(slots=True)
class TableUse:
    """What the columns of a table hold, found by reading all of it.

    Attributes:
        names: All columns, in their order.
        unused: The columns that nothing reads.
        prompts: The first row with different texts in columns that may be the prompt: column -> text.
        values: Unused column -> hashes of its different values, at most `_COUNTED`.
    """

    names: dict[str, None] = field(default_factory=dict)
    unused: dict[str, None] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    values: dict[str, set[int]] = field(default_factory=dict)
    _keys: set[int] = field(default_factory=set)
    _counts: dict[str, Counter[int]] = field(default_factory=dict)
    _samples: dict[str, set[tuple[int, int]]] = field(default_factory=dict)

    def add(self, row: Values, unused: Iterable[str], key: int, sample: int) -> None:
        """Add a row of a table.

        Args:
            row: Its cells.
            unused: Its columns that nothing reads.
            key: Tells its prompt and generator from others.
            sample: Tells its sample from others.
        """
        self.names.update(dict.fromkeys(row))
        if len(self._keys) < _PROMPTS:
            self._keys.add(key)
        for name in unused:
            self.unused[name] = None
            cell = row.get(name)
            if not isinstance(cell, str | int | float) or cell == "":
                continue
            value = hash(plain(cell) if isinstance(cell, str) else cell)
            values = self.values.setdefault(name, set())
            if len(values) < _COUNTED:
                values.add(value)
            if len(values) <= _FEW and key in self._keys:
                self._counts.setdefault(name, Counter())[hash((key, value))] += 1
                self._samples.setdefault(name, set()).add((value, sample))

    def add_prompts(self, row: Values, columns: Iterable[str]) -> None:
        """Add the texts of a row that may be its prompt."""
        texts = {name: text for name in columns if isinstance(text := row[name], str) and not is_nothing(text)}
        if len({*map(plain, texts.values())}) > 1 and len(texts) > len(self.prompts):
            self.prompts = texts

    def check_prompts(self, file: Path, option: Callable[[str], str]) -> None:
        """Check that one column only may be the prompt; `option` writes the option that names a column.

        Raises:
            UnclearData: Several may be, and differ.
        """
        if self.prompts:
            readings = [(option(name), f'"{truncated(text, 60)}"') for name, text in self.prompts.items()]
            raise UnclearData(f"{len(readings)} columns may be the prompt; choose one:", file, readings)

    def factors(self) -> list[str]:
        """List the unused columns that tell the images of each prompt apart, as generators or samples do.

        Almost every value stands with almost every prompt, and equally often. A column that only repeats the samples is none.
        """
        found = []
        for name, counts in self._counts.items():
            values = len(self.values[name])
            cells = values * max(counts.values()) * len(self._keys)
            repeats = len(self._samples[name]) == values == len({sample for _, sample in self._samples[name]})
            crossed = 1 < values <= _FEW and len(self._keys) > 1 and counts.total() >= _FILLED * cells
            if crossed and not repeats and not _RATINGS.search(name):
                found.append(name)
        return found

    def line(self) -> str:
        """Write which columns are not used, each with the number of its values; empty without any."""
        parts = [self.described(name) for name in self.unused]
        more = f" and {len(parts) - _LISTED:,} more columns" if len(parts) > _LISTED else ""
        return f"not used: {', '.join(parts[:_LISTED])}{more}" if parts else ""

    def described(self, name: str) -> str:
        """Write the name of a column with the number of its values."""
        count = len(self.values.get(name, ()))
        number = f"at least {_COUNTED:,} values" if count >= _COUNTED else several(count, "value")
        return f"{truncated(name, 40)} ({number})" if count else truncated(name, 40)
