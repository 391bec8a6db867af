"""The generators of a benchmark: hosted models, pipelines on this machine, and folders of images that exist."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from titjudge.apps.generate.hosted_maker import HostedMaker, hosted_maker
from titjudge.apps.generate.image_makers import DiffusersMaker, Maker
from titjudge.core.errors import ConfigError, nearest
from titjudge.suites.base import check_generator

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
        """Make what makes its images; None where they exist.

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
        texts: What the command line says.
        options: Settings by `NAME.KEY`, or by `KEY` for all models.

    Raises:
        ConfigError: Fewer than two generators, a name twice, or a setting for a generator that is not there.
    """
    generators = [_read(text, options) for text in texts]
    names = [generator.name for generator in generators]
    if len(generators) < 2 or len(set(names)) < len(names):
        raise ConfigError(
            "--generator: two or more, each with a name of its own: --generator NAME=PROVIDER/MODEL or NAME=FOLDER"
        )
    for key in options:
        name, dot, _ = key.rpartition(".")  # a name may have dots
        if dot and name not in names:
            raise ConfigError(f"--option {key}: no generator is called '{name}'.{nearest(name, names)}")
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
        raise ConfigError(f"--generator {text}: neither a folder nor PROVIDER/MODEL, as in openai/gpt-image-2")
    own_options = {key.removeprefix(f"{name}."): value for key, value in options.items() if key.startswith(f"{name}.")}
    return Generator(name, what, options={key: value for key, value in options.items() if "." not in key} | own_options)
