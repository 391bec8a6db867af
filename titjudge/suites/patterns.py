"""Patterns of image paths with fields in braces, such as `{generator}/{prompt_id}_{sample}.png`, and the places for new images.

`{{` and `}}` are braces of a name.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from titjudge.core.errors import ConfigError, nearest
from titjudge.core.types import Json, Values

NUMBERS = ("sample", "seed", "index")
"""Fields that are whole numbers: which of several images of a prompt it is."""
_FIELD = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")  # a field, or an escaped brace
FIELDS = ("generator", "prompt_id", "suffix", *NUMBERS)
_SYNONYM = "model"
_LIKE = {"generator": ("generator", "model", "gen"), "prompt_id": ("prompt_id",)}
"""Words that a field of this meaning may have been meant by, if a slip is near to one of them."""


def split_pattern(pattern: str) -> tuple[Path, str]:
    """Split a pattern into the folder before its first field, and the rest."""
    parts = Path(pattern).parts
    fixed = next((index for index, part in enumerate(parts) if "{" in part.replace("{{", "")), len(parts))
    return Path(*(part.replace("{{", "{").replace("}}", "}") for part in parts[:fixed])), "/".join(parts[fixed:])


def named_pattern(option: str, pattern: str) -> tuple[Path, str]:
    """Split a pattern that the user has named as an option of a suite, from the working directory.

    Raises:
        ConfigError: It begins with no folder.
    """
    folder, rest = split_pattern(pattern)
    if not folder.is_dir():
        raise ConfigError(f"--suite-option {option}={pattern}: {folder} is not a folder. Correct the path")
    return folder, rest


def checked_pattern(pattern: str) -> str:
    """Return a pattern with `{generator}` instead of `{model}`.

    Raises:
        ConfigError: It has no `{prompt_id}`, has a brace that begins no field, or a field that looks like a slip.
    """
    option = f"--images '{pattern}'"
    if re.search(r"[{}]", _FIELD.sub("", pattern)):
        raise ConfigError(
            f"{option}: a brace is not part of a field such as {{generator}}. Write {{{{ for a brace of a name"
        )
    if "generator" not in fields_of(pattern):
        pattern = _FIELD.sub(lambda match: "{generator}" if match[1] == _SYNONYM else match[0], pattern)
    for meant, words in _LIKE.items():
        for name in () if meant in fields_of(pattern) else fields_of(pattern):
            if name not in FIELDS and nearest(name, words):
                raise ConfigError(f"{option}: unknown field {{{name}}}. Did you mean {{{meant}}}?")
    if "prompt_id" not in fields_of(pattern):
        raise ConfigError(f"{option}: the pattern must contain {{prompt_id}}")
    return pattern


def fields_of(pattern: str) -> list[str]:
    """List the names of the fields, in their order."""
    return [match[1] for match in _FIELD.finditer(pattern) if match[1]]


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern to a regular expression with a group for each field."""
    seen: set[str] = set()

    def group(name: str) -> str:
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return rf"(?P<{name}>{'[0-9]+' if name in NUMBERS else '[^/]+'})"

    parts, end = [], 0
    for match in _FIELD.finditer(pattern):
        parts += [re.escape(pattern[end : match.start()]), group(match[1]) if match[1] else re.escape(match[0][0])]
        end = match.end()
    return re.compile("".join((*parts, re.escape(pattern[end:]))))


GENERATOR = "{generator}"
SOURCE = "source_image"
"""Key of a line that names the source of an edit, or several in a list."""
_PLAIN = re.compile(r"\w[\w.+-]{0,99}")


@dataclass(frozen=True, slots=True)
class PromptPlace:
    """A prompt, and the places for its images.

    Attributes:
        image: Path below the data folder with {generator}, and with {sample} or {seed} if the suite numbers its images.
        fields: Further keys of the line of an image, such as `length`, by which prompts can be chosen.
    """

    prompt_id: str
    prompt: str
    image: str
    fields: Values = field(default_factory=dict)

    def path(self, sample: int, samples: int, seed: int) -> str:
        """Return the path of one of `samples` images: `cat.png`, or `cat_0.png`, `cat_1.png`, ... if there are several."""
        if any(f"{{{name}}}" in self.image for name in NUMBERS):
            return filled(self.image, {"sample": sample, "index": sample, "seed": seed})
        place = PurePosixPath(self.image)
        return str(place.with_stem(f"{place.stem}_{sample}")) if samples > 1 else self.image

    def lines(self, samples: int, seed: int) -> Iterator[Json]:
        """Yield a line for each image to be generated."""
        for sample in range(samples):
            yield {
                "prompt_id": self.prompt_id,
                "prompt": self.prompt,
                "image": self.path(sample, samples, seed + sample),
                "sample": sample,
                "seed": seed + sample,
                **self.fields,
            }


def filled(pattern: str, values: Values) -> str:
    """Fill the fields of a path in one pass, so that braces in a value are not a field; `{{` is a brace."""
    return re.sub(
        r"\{\{|\}\}|\{(\w+)\}", lambda match: str(values.get(match[1], match[0])) if match[1] else match[0][0], pattern
    )


def source_field(sources: Sequence[Path]) -> Json:
    """Return the field of a line that names the sources of an edit, by absolute paths; none without sources."""
    paths = [os.path.abspath(source) for source in sources]
    return {SOURCE: paths[0] if len(paths) == 1 else paths} if paths else {}


def sources_of(fields: Values) -> list[Path]:
    """Return the paths of the sources that the line of an edit names; none if it is not an edit."""
    named = fields.get(SOURCE, ())
    return [Path(named)] if isinstance(named, str) else list(map(Path, named))


def loose_place(prompt_id: str, prompt: str, sources: Sequence[Path] = ()) -> PromptPlace:
    """Name the images of a prompt by its id, or by a part of it and a hash if it is not a file name."""
    name = prompt_id
    if not _PLAIN.fullmatch(prompt_id):
        name = re.sub(r"[^\w.+-]+", "_", prompt_id).strip("._")[:60]
        name += f"-{hashlib.sha256(prompt_id.encode('utf-8', 'replace')).hexdigest()[:8]}"
    return PromptPlace(prompt_id, prompt, f"{GENERATOR}/{name}.png", source_field(sources))


def distinct(prompts: Iterable[tuple[str, str, Sequence[Path]]]) -> Iterator[PromptPlace]:
    """Yield a place for the first prompt of each id, with its sources if it is the instruction of an edit."""
    seen: set[str] = set()
    for prompt_id, prompt, sources in prompts:
        if prompt_id not in seen:
            seen.add(prompt_id)
            yield loose_place(prompt_id, prompt, sources)
