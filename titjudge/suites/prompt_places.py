"""Prompts to generate images for, and the paths where a suite expects them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from titjudge.core.types import Json, Values

GENERATOR = "{generator}"
NUMBERS = ("{sample}", "{index}", "{seed}")
SOURCE = "source_image"
"""Key of a line that names the source of an edit, or several in a list."""
_PLAIN = re.compile(r"\w[\w.+-]{0,99}")


@dataclass(frozen=True, slots=True)
class PromptPlace:
    """A prompt, and where its images belong.

    Attributes:
        image: Path below the data folder with {generator}, and with {sample} or {seed} where the suite numbers its images.
        fields: Further keys of the line of an image, such as `length`, by which prompts can be chosen.
    """

    prompt_id: str
    prompt: str
    image: str
    fields: Values = field(default_factory=dict)

    def path(self, sample: int, samples: int, seed: int) -> str:
        """Return the path of one of `samples` images: `cat.png`, or `cat_0.png`, `cat_1.png`, ... where there are several."""
        if any(name in self.image for name in NUMBERS):
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
    """Fill the fields of a path in one pass, so that braces in a value are no field; `{{` is a brace."""
    return re.sub(
        r"\{\{|\}\}|\{(\w+)\}",
        lambda match: str(values.get(match[1], match[0])) if match[1] else match[0][0],
        pattern,
    )


def source_field(sources: Sequence[Path]) -> Json:
    """Return the field of a line that names the sources of an edit, by absolute paths; none without sources."""
    paths = [os.path.abspath(source) for source in sources]
    return {SOURCE: paths[0] if len(paths) == 1 else paths} if paths else {}


def sources_of(fields: Values) -> list[Path]:
    """Return the paths of the sources that the line of an edit names; none where it is no edit."""
    named = fields.get(SOURCE, ())
    return [Path(named)] if isinstance(named, str) else list(map(Path, named))


def loose_place(prompt_id: str, prompt: str, sources: Sequence[Path] = ()) -> PromptPlace:
    """Name the images of a prompt by its id, or by a part of it and a hash where it is no file name."""
    name = prompt_id
    if not _PLAIN.fullmatch(prompt_id):
        name = re.sub(r"[^\w.+-]+", "_", prompt_id).strip("._")[:60]
        name += f"-{hashlib.sha256(prompt_id.encode('utf-8', 'replace')).hexdigest()[:8]}"
    return PromptPlace(prompt_id, prompt, f"{GENERATOR}/{name}.png", source_field(sources))


def distinct(prompts: Iterable[tuple[str, str, Sequence[Path]]]) -> Iterator[PromptPlace]:
    """Yield a place for the first prompt of each id, with its sources where it is the instruction of an edit."""
    seen: set[str] = set()
    for prompt_id, prompt, sources in prompts:
        if prompt_id not in seen:
            seen.add(prompt_id)
            yield loose_place(prompt_id, prompt, sources)
