"""A tree of images whose paths say what they are, `{generator}/{prompt_id}_{sample}.png`, and a table of prompts beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import read_text, scan_table, table_columns
from titjudge.core.images import SUFFIXES
from titjudge.core.serialization import without_surrogates
from titjudge.core.types import InvalidItem, Item
from titjudge.suites.manifests import NAMES, item_of

_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")
_NUMBERS = ("sample", "seed", "index")
_IDS = ("prompt_id", "id", "index")


def split_pattern(pattern: str) -> tuple[Path, str]:
    """Split a pattern into the folder before its first field, and the rest."""
    parts = Path(pattern).parts
    fixed = next((at for at, part in enumerate(parts) if "{" in part), len(parts))
    return Path(*parts[:fixed]), "/".join(parts[fixed:])


@dataclass(frozen=True, slots=True)
class ImageTree:
    """Where images lie below the data folder, and which prompts they were made from.

    Attributes:
        pattern: Path of an image with fields in braces: prompt_id; generator, sample and any others.
        prompts: FILE, FILE:ID,PROMPT with the columns of a table, or FILE.txt[:FIRST] with a prompt a line.
    """

    pattern: str
    prompts: str

    def __post_init__(self) -> None:
        names = _FIELD.findall(self.pattern)
        if "prompt_id" not in names:
            raise ConfigError(f"--images '{self.pattern}': the pattern needs {{prompt_id}}")
        if re.search(r"[{}]", _FIELD.sub("", self.pattern)):
            raise ConfigError(f"--images '{self.pattern}': a field is a name in braces, such as {{generator}}")

    def items(self, root: Path, roots: Sequence[Path], notes: dict[str, None]) -> Iterator[Item | InvalidItem]:
        """Yield the images that fit the pattern, in the order of their paths.

        Raises:
            DataError: No image fits, or the prompts cannot be read.
        """
        prompts: dict[str, str] = {}
        yield from self._read(prompts)
        fits, others = self._regex(), 0
        made: dict[str, set[str]] = {}
        for path in sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES):
            name = path.relative_to(root).as_posix()
            if without_surrogates(name) != name:
                yield InvalidItem(
                    name.encode("utf-8", "backslashreplace").decode(), "the file name is not UTF-8: rename it"
                )
                continue
            match = fits.fullmatch(name)
            if match is None:
                others += 1
                continue
            found = match.groupdict()
            written, generator = found.pop("prompt_id"), found.pop("generator", "")
            padded = written.isdecimal() and written not in prompts
            prompt_id = written.lstrip("0") or "0" if padded else written
            made.setdefault(generator, set()).add(prompt_id)
            if prompt_id not in prompts:
                yield InvalidItem(name, f"{self.prompts} has no prompt '{written}'", generator, written)
                continue
            yield item_of(name, prompts[prompt_id], generator, prompt_id, dict(found), root, roots)
        if not made:
            raise DataError(f"none of {others:,} images fits '{self.pattern}'", root)
        if others:
            notes[f"{others:,} images do not fit '{self.pattern}' and are left out"] = None
        for generator, ids in made.items():
            if missing := len(prompts.keys() - ids):
                whose = f" by {generator}" if generator else ""
                notes[f"{missing:,} of {len(prompts):,} prompts have no image{whose}"] = None

    def _regex(self) -> re.Pattern[str]:
        seen: set[str] = set()

        def field(name: str) -> str:
            if name in seen:
                return f"(?P={name})"
            seen.add(name)
            return rf"(?P<{name}>{'[0-9]+' if name in _NUMBERS else '[^/]+'})"

        pieces = _FIELD.split(self.pattern)
        return re.compile("".join(field(piece) if at % 2 else re.escape(piece) for at, piece in enumerate(pieces)))

    def _read(self, prompts: dict[str, str]) -> Iterator[InvalidItem]:
        """Fill in the prompts by their ids; yield what is wrong with rows."""
        file, _, told = (self.prompts, "", "") if Path(self.prompts).is_file() else self.prompts.rpartition(":")
        path = Path(file or self.prompts)
        if path.suffix.lower() == ".txt":
            first = int(told) if told.isdecimal() else 0
            texts = (line.strip() for line in read_text(path).splitlines())
            prompts.update({str(number): text for number, text in enumerate(texts, first) if text})
            return
        key, text = self._columns(path, told)
        for number, record in scan_table(path, (key, text) if key and text else ()):
            where = f"{path.name}:{number}"
            if isinstance(record, DataError):
                yield InvalidItem(where, str(record))
                continue
            own_key, own_text = (key, text) if key and text else self._usual(record)
            if not own_key or not own_text:
                yield InvalidItem(where, f"{where}: no prompt with its id: name the columns, {path.name}:ID,PROMPT")
                continue
            name, prompt = str(record[own_key]), record[own_text]
            if not isinstance(prompt, str) or not prompt.strip():
                yield InvalidItem(where, f"{where}: '{own_text}' is no prompt: {prompt!r}")
            elif prompts.setdefault(name, prompt) != prompt:
                yield InvalidItem(where, f"{where}: another text for the prompt '{name}'; the first one counts")

    def _columns(self, path: Path, told: str) -> tuple[str, str]:
        if told:
            key, _, text = told.partition(",")
            if not text:
                raise ConfigError(f"--prompt-file '{self.prompts}': expected FILE:ID,PROMPT with two columns")
            return key.strip(), text.strip()
        known = table_columns(path)
        if known is None:
            return "", ""
        key, text = self._usual(known)
        if not key or not text:
            there = ", ".join(known) or "none"
            raise DataError(
                f"no column with the {'prompt' if key else 'id'} (there are: {there}): {path.name}:ID,PROMPT", path
            )
        return key, text

    @staticmethod
    def _usual(names: Iterable[str]) -> tuple[str, str]:
        there = set(names)
        pick = [next((name for name in usual if name in there), "") for usual in (_IDS, NAMES["prompt"])]
        return pick[0], pick[1]
