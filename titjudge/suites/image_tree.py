"""A tree of images whose paths say what they are, `{generator}/{prompt_id}_{sample}.png`, and a table of prompts beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.core.data_paths import inside
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import read_json
from titjudge.core.images import SUFFIXES
from titjudge.core.serialization import without_surrogates
from titjudge.core.types import InvalidItem, Item
from titjudge.suites.manifests import item_of
from titjudge.suites.prompt_list import read_prompts
from titjudge.suites.prompt_places import PromptPlace, filled
from titjudge.suites.samples import sample_of

_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")
_NUMBERS = ("sample", "seed", "index")


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
        prompts: FILE, FILE:ID,PROMPT or FILE.txt[:FIRST]; see `titjudge.suites.prompt_list`.
        known: The prompts by their ids, where a suite has read them.
    """

    pattern: str
    prompts: str
    known: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        names = _FIELD.findall(self.pattern)
        if "prompt_id" not in names:
            raise ConfigError(f"--images '{self.pattern}': the pattern needs {{prompt_id}}")
        if re.search(r"[{}]", _FIELD.sub("", self.pattern)):
            raise ConfigError(f"--images '{self.pattern}': a field is a name in braces, such as {{generator}}")

    def places(self) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the prompts, and where their images belong.

        Raises:
            ConfigError: The pattern has a field that nothing says of an image that is not there yet.
        """
        unknown = set(_FIELD.findall(self.pattern)) - {"generator", "prompt_id", "suffix", *_NUMBERS}
        if unknown:
            raise ConfigError(f"--images '{self.pattern}': nothing says what {{{min(unknown)}}} of a new image is")
        prompts = dict(self.known or {})
        if self.known is None:
            yield from read_prompts(self.prompts, prompts)
        for name, prompt in prompts.items():
            yield PromptPlace(name, prompt, filled(self.pattern, {"prompt_id": name, "suffix": "png"}))

    def items(self, root: Path, roots: Sequence[Path], notes: dict[str, None]) -> Iterator[Item | InvalidItem]:
        """Yield the images that fit the pattern, in the order of their paths.

        Raises:
            DataError: No image fits, or the prompts cannot be read.
        """
        prompts = dict(self.known or {})
        further: dict[str, dict[str, Any]] = {}
        if self.known is None:
            yield from read_prompts(self.prompts, prompts, further)
        fits, others = self.regex(), 0
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
            meta = {**further.get(prompt_id, {}), **found}
            yield item_of(name, prompts[prompt_id], generator, prompt_id, meta, root, roots, sample_of(found))
        if not made:
            raise DataError(f"none of {others:,} images fits '{self.pattern}'", root)
        if others:
            notes[f"{others:,} images do not fit '{self.pattern}' and are left out"] = None
        for generator, ids in made.items():
            if missing := len(prompts.keys() - ids):
                whose = f" by {generator}" if generator else ""
                notes[f"{missing:,} of {len(prompts):,} prompts have no image{whose}"] = None

    def regex(self) -> re.Pattern[str]:
        """Make the expression that fits an image's path below the folder."""
        seen: set[str] = set()

        def field(name: str) -> str:
            if name in seen:
                return f"(?P={name})"
            seen.add(name)
            return rf"(?P<{name}>{'[0-9]+' if name in _NUMBERS else '[^/]+'})"

        pieces = _FIELD.split(self.pattern)
        return re.compile("".join(field(piece) if at % 2 else re.escape(piece) for at, piece in enumerate(pieces)))


def find_tree(folder: Path, patterns: Sequence[str], named: str = "") -> tuple[Path, str]:
    """Find where a suite's images lie: the folder above all fields, and the pattern below it.

    Args:
        folder: The data folder.
        patterns: Where the suite expects them below it, without ending; the first that fits an image counts.
        named: A pattern that the user has named instead, from the working directory.

    Raises:
        ConfigError: The pattern that the user has named begins with no folder.
        DataError: No pattern fits an image.
    """
    if named:
        root, pattern = split_pattern(named)
        if not root.is_dir():
            raise ConfigError(f"--suite-option images={named}: {root} is no folder")
        return root, pattern
    for each in patterns:
        top, rest = split_pattern(each)
        place, pattern = inside(folder, top.as_posix(), "folder"), f"{rest}.{{suffix}}"
        fits = ImageTree(pattern, "").regex()
        files = (path for path in place.rglob("*") if path.suffix.lower() in SUFFIXES) if place.is_dir() else ()
        if any(fits.fullmatch(path.relative_to(place).as_posix()) for path in files):
            return place, pattern
    wanted = " or ".join(f"{each}.png" for each in patterns)
    raise DataError(f"no images: expected {wanted} here, or say --suite-option images=PATTERN", folder)


def listed_images(
    file: Path, prompts: Mapping[str, str], roots: Sequence[Path], notes: dict[str, None]
) -> Iterator[Item | InvalidItem]:
    """Yield the images of a JSON object of prompts and image paths, relative to its folder; its name is the generator's.

    Raises:
        DataError: It is no such object, or names no prompt that is known.
    """
    content = read_json(file)
    if not isinstance(content, dict) or not all(isinstance(path, str) for path in content.values()):
        raise DataError("not an object of prompts and image paths", file)
    ids = {prompt: name for name, prompt in prompts.items()}
    if not ids.keys() & content.keys():
        raise DataError(f"none of its {len(content):,} keys is a prompt", file)
    for prompt, path in content.items():
        if prompt in ids:
            yield item_of(path, prompt, file.stem, ids[prompt], {}, file.parent, roots)
        else:
            yield InvalidItem(path, f"{file.name}: not one of the prompts: '{prompt:.60}'", file.stem)
    if missing := len(ids.keys() - content.keys()):
        notes[f"{missing:,} of {len(ids):,} prompts have no image by {file.stem}"] = None
