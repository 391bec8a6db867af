"""Generate and judge in rounds: some prompts of all generators, their verdict, then more of them, while money is left.

Prompts come in the order of a hash of their ids, as with early stopping, so that the results after some rounds are valid
for the other prompts as well. Everything lies in one folder:

    images/GENERATOR/PROMPT.png     the images, with metadata.jsonl, refused.jsonl and the ledger of each generator
    images.jsonl                    what is judged: image, prompt, prompt_id, generator
    run/                            the run, which every other command reads
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from PIL import Image

from titjudge.apps.generate.generating import LEDGERS, ImageToMake, changed
from titjudge.apps.generate.image_makers import DiffusersMaker, HostedMaker, Maker, hosted_maker
from titjudge.core.errors import ConfigError, DataError, must_be, unknown
from titjudge.core.files import scan_jsonl, write_atomic
from titjudge.core.grouping import random_place
from titjudge.core.serialization import json_bytes
from titjudge.core.types import Json
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.suites.base import check_generator
from titjudge.suites.layouts import prompts_of_one
from titjudge.suites.manifests import GENERATED, MADE
from titjudge.suites.patterns import source_field
from titjudge.suites.sources import content_name, source_columns

_NAMED = re.compile(r"([^/=\s]+)=(.+)")


@dataclass(frozen=True, slots=True)
class Generator:
    """One generator.

    Attributes:
        name: Its name in tables.
        model: `provider/model`; empty for images that exist.
        folder: The folder of images that exist, named after their prompts; None for a model.
        options: Settings of its images, as text.
    """

    name: str
    model: str = ""
    folder: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def maker(self, timeout: float, prices: Sequence[str], keys: Mapping[str, Any]) -> HostedMaker | Maker | None:
        """Make the maker of its images; None if they exist.

        Raises:
            UserError: There is no such model, or its settings are not for it.
        """
        if self.folder is not None:
            return None
        provider, _, model = self.model.partition("/")
        if provider == "diffusers":
            return DiffusersMaker(model, self.options)
        return hosted_maker(self.model, self.options, timeout, prices, keys)


def read_generators(texts: Sequence[str], options: Mapping[str, str]) -> list[Generator]:
    """Read `[NAME=]PROVIDER/MODEL` and `[NAME=]FOLDER`.

    Args:
        texts: The arguments of the command line.
        options: Settings by `NAME.KEY`, or by `KEY` for all models.

    Raises:
        ConfigError: Fewer than two generators, a name twice, or a setting for a generator that is not there.
    """
    generators = [_read(text, options) for text in texts]
    names = [generator.name for generator in generators]
    if len(generators) < 2 or len(set(names)) < len(names):
        raise ConfigError(
            "--generator must be given at least twice, with different names: --generator NAME=PROVIDER/MODEL or NAME=FOLDER"
        )
    for key in options:
        name, dot, _ = key.rpartition(".")  # a name may have dots
        if dot and name not in names:
            raise ConfigError(f"--option {key}: {unknown('generator', name, names)}")
    return generators


def _read(text: str, options: Mapping[str, str]) -> Generator:
    """Read one `--generator`.

    Raises:
        ConfigError: It is neither a folder nor a model.
    """
    named = _NAMED.fullmatch(text)
    what = named[2] if named else text
    name = named[1] if named else what.rstrip("/").rpartition("/")[2]
    check_generator(name)
    if Path(what).is_dir():
        return Generator(name, folder=Path(what))
    if "/" not in what:
        raise ConfigError(must_be("--generator", "a folder or PROVIDER/MODEL, such as openai/gpt-image-2", text))
    own_options = {key.removeprefix(f"{name}."): value for key, value in options.items() if key.startswith(f"{name}.")}
    return Generator(name, what, options={key: value for key, value in options.items() if "." not in key} | own_options)


FIRST = 4  # prompts of the first round
# Prompts of a further round, as a share of those before: while a question is to be settled few, so that few are too many.
DOUBLING, SETTLING = 1.0, 0.25
IMAGES, LIST, RUN = Path("images"), "images.jsonl", Path("run")
_UNSAFE = str.maketrans(dict.fromkeys('/\\:*?"<>|\0', "_"))


class Benchmark:
    """Prompts and generators, in a folder.

    Args:
        folder: The folder for all files.
        prompts: Prompts by id.
        generators: The generators or folders of the images.
        samples: Images of each prompt by each generator.
        sources: Of edits, the images that each prompt is the instruction for, by the id of the prompt.
        prompt_file: Where the prompts are from, as `judge --prompt-file` takes it; for the images that exist.
        meta: Further columns of the prompts, by id, such as a category.

    Raises:
        DataError: The images of a folder have no prompts for certain.
    """

    def __init__(
        self,
        folder: Path,
        prompts: Mapping[str, str],
        generators: Sequence[Generator],
        samples: int = 1,
        sources: Mapping[str, Sequence[Path]] | None = None,
        prompt_file: str = "",
        meta: Mapping[str, Json] | None = None,
    ) -> None:
        self._prompt_file, self._meta = prompt_file, dict(meta or {})
        self.folder, self.generators, self.sources = folder, generators, dict(sources or {})
        ordered = sorted(prompts, key=random_place)
        self.prompts = {prompt: prompts[prompt] for prompt in ordered}
        self.samples = samples
        self._there = {
            generator.name: self._existing(generator) for generator in generators if generator.folder is not None
        }

    def spent(self) -> float:
        """Sum the USD that images and judgements have cost, or may have cost, over all sessions."""
        return self.spent_on_images() + RunFolder(self.folder / RUN).used()["max_cost"]

    def spent_on_images(self) -> float:
        """Sum the USD that images have cost, or may have cost: also images of generators that are no longer included."""
        ledgers = (self.folder / IMAGES / LEDGERS).glob("*/billing.jsonl")
        return sum(RunFolder(ledger.parent).used()["max_cost"] for ledger in ledgers)

    def spent_on_these(self) -> float:
        """Sum the USD that judgements and the images of these generators have cost, or may have cost."""
        return self.spent_on_their_images() + RunFolder(self.folder / RUN).used()["max_cost"]

    def spent_on_their_images(self) -> float:
        """Sum the USD that the images of these generators have cost, or may have cost."""
        ledgers = (self.folder / IMAGES / LEDGERS / generator.name for generator in self.generators)
        return sum(RunFolder(ledger).used()["max_cost"] for ledger in ledgers)

    def images_to_make(self, generator: Generator, prompts: Iterable[str]) -> list[ImageToMake]:
        """List the images of some prompts that a generator is to make."""
        images = []
        for row, (prompt, sample) in enumerate(product(prompts, range(self.samples)), 1):
            name = f"{generator.name}/{_file_name(prompt, sample, self.samples)}"
            line = {**self._line(generator, prompt, sample, name), "seed": sample}
            digests = tuple(map(content_name, self.sources.get(prompt, ())))
            images.append(ImageToMake(row, self.folder / IMAGES / name, line, digests))
        return images

    def check_images(self) -> None:
        """Refuse images that are there and were made of another prompt or source: they would be judged as if made of this one.

        Raises:
            DataError: There are some; names the first.
        """
        for generator in self.generators:
            images = self.images_to_make(generator, self.prompts) if generator.folder is None else []
            if changes := list(changed(images, self.folder / IMAGES)):
                (image, reason), others = changes[0], f" (and {len(changes) - 1:,} more)" if changes[1:] else ""
                raise DataError(f"{reason}{others}", image.place)

    def begun(self) -> int:
        """Count the prompts that an earlier session has had judged: the prompts in its list."""
        file = self.folder / LIST
        listed = (
            {line["prompt_id"] for _, line in scan_jsonl(file) if isinstance(line, dict)} if file.is_file() else set()
        )
        return len(listed & set(self.prompts))

    def write_list(self, prompts: Sequence[str]) -> int:
        """List the images of some prompts that exist, as the data of the run; returns their number."""
        records = scan_jsonl(file) if (file := self.folder / IMAGES / GENERATED).is_file() else ()
        made = {str(IMAGES / line["file_name"]): line[MADE] for _, line in records if isinstance(line, dict)}
        lines = []
        for line in self._lines(prompts):
            facts = {key: value for key, value in made.get(line["image"], {}).items() if key in ("seconds", "cost")}
            lines.append(json_bytes({**line, **({MADE: facts} if facts else {})}) + b"\n")
        write_atomic(self.folder / LIST, b"".join(lines))
        return len(lines)

    def stand_ins(self, folder: Path, prompts: Sequence[str]) -> Path:
        """Write substitutes for the images of some prompts, and list them as the data of a run, to estimate its price."""
        lines = []
        for number, (generator, prompt, sample) in enumerate(product(self.generators, prompts, range(self.samples))):
            colour = (number % 256, number // 256 % 256, 128)  # no two are the same image
            Image.new("RGB", (1024, 1024), colour).save(folder / f"{number}.png")
            lines.append(self._line(generator, prompt, sample, f"{number}.png"))
        write_atomic(folder / LIST, b"".join(json_bytes(line) + b"\n" for line in lines))
        return folder / LIST

    def _lines(self, prompts: Sequence[str]) -> Iterator[Json]:
        for generator in self.generators:
            for prompt in prompts:
                for sample, image in enumerate(self._images(generator, prompt)):
                    yield self._line(generator, prompt, sample, str(image))

    def _line(self, generator: Generator, prompt: str, sample: int, image: str) -> Json:
        """Describe an image in a list."""
        whose = {"prompt": self.prompts[prompt], "prompt_id": prompt, "generator": generator.name}
        row = self._meta.get(prompt, {})
        further = {key: row[key] for key in row.keys() - set(source_columns(row))}
        return {**further, "image": image, **whose, "sample": sample, **source_field(self.sources.get(prompt, ()))}

    def image_roots(self) -> list[str]:
        """List the folders outside of the benchmark's own in which images lie: of generators that exist, and of sources."""
        folders = [str(generator.folder) for generator in self.generators if generator.folder is not None]
        return folders + sorted(
            {os.path.abspath(source.parent) for sources in self.sources.values() for source in sources}
        )

    def _images(self, generator: Generator, prompt: str) -> list[Path]:
        """List the images of a prompt by a generator that exist, as paths from the benchmark's folder."""
        if generator.folder is not None:
            return [image.resolve() for image in self._there[generator.name].get(prompt, ())]
        places = [image.place for image in self.images_to_make(generator, [prompt])]
        return [place.relative_to(self.folder) for place in places if place.exists()]

    def _existing(self, generator: Generator) -> dict[str, list[Path]]:
        """Find the images of a folder by their prompts, as `judge` reads them."""
        assert generator.folder is not None
        ids = {text: prompt for prompt, text in reversed(self.prompts.items())}
        images: dict[str, list[Path]] = {}
        for file, text in sorted(prompts_of_one(generator.folder, self._prompt_file).items()):
            images.setdefault(ids[text], []).append(file)
        return images


def rounds(count: int, affordable: Callable[[int], int], begun: int = 0, *, growth: float = DOUBLING) -> Iterator[int]:
    """Yield how many of the prompts each round covers in all: 4, 8, 16, ...; fewer if the money left pays for fewer.

    Args:
        count: Number of prompts.
        affordable: Returns, given the number of finished prompts, how many further ones the money left is likely to pay for.
        begun: Prompts that an earlier session has come to: the first round covers them.
        growth: Prompts of a round, as a share of those before.
    """
    done = min(begun, count)
    if done:
        yield done
    while done < count:
        step = min(max(FIRST, int(growth * done)), count - done, affordable(done) if done else count)
        if step <= 0:
            return
        done += step
        yield done


def _file_name(prompt: str, sample: int, samples: int) -> str:
    """Name the file of an image after its prompt: short, and safe on every file system."""
    bare = prompt.translate(_UNSAFE)
    if bare != prompt or len(bare) > 100 or bare.startswith("."):
        bare = f"{bare.strip('.')[:60]}-{hashlib.sha256(prompt.encode()).hexdigest()[:8]}"
    return f"{bare}_{sample}.png" if samples > 1 else f"{bare}.png"
