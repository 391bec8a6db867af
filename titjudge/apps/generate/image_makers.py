"""Make an image of a prompt by a command of the user or a pipeline of diffusers."""

from __future__ import annotations

import importlib
import inspect
import io
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from titjudge.core.errors import ConfigError, DataError, MissingExtra, UserError, nearest
from titjudge.core.files import load_yaml
from titjudge.core.redaction import environment_secrets, one_line, redact
from titjudge.core.types import Json, Values
from titjudge.data.image_decoding import as_png, open_image
from titjudge.data.images import read
from titjudge.providers.learned.subprocess import run
from titjudge.suites.patterns import sources_of

_FIELD = re.compile(r"\{(\w+)\}")
_LOADING = ("revision", "variant", "dtype", "device")  # options for loading a pipeline; the others are for its call
_SOURCE = re.compile(r"source(_[0-9]+)?")
_MOST = 2**24  # bytes that a command may print


class Maker(Protocol):
    """Makes images one by one."""

    settings: Values
    """What its images are made with, for the list of images."""
    name: str
    """Default name of the generator."""
    makes_edits: bool
    """Whether it takes the source images of an edit."""

    def make(self, fields: Values) -> bytes:
        """Make an image file.

        Args:
            fields: The line of the image: prompt, seed, sample, prompt_id, ...

        Raises:
            DataError: No image came of it; says why.
        """
        ...


class CommandMaker:
    """Runs a command for each image, without a shell: a prompt is one argument, whatever it contains.

    Args:
        command: Words with {prompt}, {out} (the file to write), {seed} and any other field of the line; of edits also {source},
            or {source_1}, {source_2}, ... where an edit has several.
        timeout: Seconds for one image.

    Raises:
        ConfigError: The command cannot be parsed, {prompt} or {out} is missing, or there is no such program.
    """

    def __init__(self, command: str, timeout: float) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"--command cannot be read: {str(error).lower()}") from error
        fields = {name for word in self._words for name in _FIELD.findall(word)}
        self._sources = {name for name in fields if _SOURCE.fullmatch(name)}
        self.makes_edits = bool(self._sources)
        for needed in ("prompt", "out"):
            if needed not in fields:
                raise ConfigError(
                    f"--command needs {{{needed}}}, as in 'prog --prompt={{prompt}} --out={{out}} --seed={{seed}}'"
                )
        if shutil.which(self._words[0]) is None:
            raise ConfigError(f"--command: there is no program '{self._words[0]}'")
        self._timeout = timeout
        self.name = Path(self._words[0]).stem
        self.settings = {"command": redact(command, environment_secrets())}

    def make(self, fields: Values) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / f"image{Path(str(fields['image'])).suffix}"
            if "{prompt}" in self._words and str(fields["prompt"]).startswith("-"):
                raise DataError("the prompt begins with - and would be an option: write --prompt={prompt} in --command")
            values = {**fields, **self._named_sources(fields), "out": out}
            words = [self._filled(word, values) for word in self._words]
            ended = run(words, b"", timeout=self._timeout, limit=_MOST, environment=os.environ)
            if ended.late:
                raise DataError(f"the command took more than {self._timeout:g} s")
            if ended.overflow:
                raise DataError("the command printed more than 16 MiB")
            if ended.code:
                last_words = one_line(ended.last_words, environment_secrets())
                raise DataError(f"the command ended with {ended.code}{f': {last_words}' if last_words else ''}")
            if not out.is_file():
                raise DataError("the command ended well and wrote no {out}")
            return out.read_bytes()

    def _named_sources(self, fields: Values) -> dict[str, Path]:
        """Name the sources of an edit as the command does.

        Raises:
            DataError: The command takes other sources than the line has: none, fewer or more.
        """
        sources = sources_of(fields)
        named = {f"source_{number}": source for number, source in enumerate(sources, 1)}
        if len(sources) == 1 and self._sources != {"source_1"}:
            named = {"source": sources[0]}
        if self._sources != named.keys():
            placeholders = ", ".join(f"{{{name}}}" for name in named) or "it has none"
            raise DataError(f"--command must name the sources of the line: {placeholders}")
        return named

    @staticmethod
    def _filled(word: str, fields: Values) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1] not in fields:
                raise ConfigError(f"--command: the lines have no {{{match[1]}}}.{nearest(match[1], fields)}")
            text = str(fields[match[1]])
            if "\0" in text:
                raise DataError(f"the {match[1]} holds a null character")
            return text

        return _FIELD.sub(value, word)  # in one pass: braces in a prompt are no field


class DiffusersMaker:
    """Runs a pipeline of diffusers in this process.

    Args:
        repo: Its repository, or a folder.
        options: Values by name, as text: revision, variant, dtype and device for loading it, the others for its call.

    Raises:
        MissingExtra: diffusers is not installed.
        UserError: The pipeline cannot be loaded, or does not take an option.
    """

    def __init__(self, repo: str, options: Mapping[str, str]) -> None:
        try:
            diffusers = importlib.import_module("diffusers")
        except ImportError as error:
            raise MissingExtra("diffusers", "diffusers", "--model diffusers/REPO") from error
        import torch

        device = options.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
        dtype = options.get("dtype") or ("float32" if device == "cpu" else "bfloat16")
        if not isinstance(getattr(torch, dtype, None), torch.dtype):
            raise ConfigError(f"--option dtype={dtype}: a type of torch, such as bfloat16")
        loading = {name: options[name] for name in ("revision", "variant") if name in options}
        try:
            pipeline = diffusers.DiffusionPipeline.from_pretrained(
                repo, dtype=getattr(torch, dtype), use_safetensors=True, **loading
            )
            self._pipeline = pipeline.to(device)
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(f"diffusers/{repo} cannot be loaded: {one_line(str(error))}") from error
        self._pipeline.set_progress_bar_config(disable=True)
        parameters = inspect.signature(self._pipeline.__call__).parameters
        self._options: Json = {}
        for name, text in options.items():
            if name in _LOADING:
                continue
            if name not in parameters or name in ("prompt", "generator"):
                raise ConfigError(f"--option {name}: the pipeline does not take it.{nearest(name, parameters)}")
            self._options[name] = load_yaml(text)
        self._torch, self.makes_edits = torch, "image" in parameters
        self.name = Path(repo).name
        self.settings: Values = {
            "model": f"diffusers/{repo}",
            **loading,
            "dtype": dtype,
            "device": device,
            "diffusers": diffusers.__version__,
            "torch": torch.__version__,
            "options": self._options,
        }

    def make(self, fields: Values) -> bytes:
        noise = self._torch.Generator("cpu").manual_seed(int(fields["seed"]))  # the same on every device
        sources = self._opened(fields)
        try:
            output = self._pipeline(prompt=fields["prompt"], generator=noise, **sources, **self._options)
        except (RuntimeError, ValueError, TypeError) as error:
            raise DataError(f"the pipeline failed: {one_line(str(error))}") from error
        if any(getattr(output, "nsfw_content_detected", None) or ()):
            raise DataError("the pipeline's safety checker blackened the image")
        out = io.BytesIO()
        output.images[0].save(out, "PNG")
        return out.getvalue()

    def _opened(self, fields: Values) -> Json:
        """Open the sources of an edit as the pipeline takes them: an upright RGB image, or a list of several.

        Raises:
            DataError: One cannot be read.
        """
        images = [_opened(source) for source in sources_of(fields)]
        return {"image": images[0] if len(images) == 1 else images} if images else {}


def _opened(source: Path) -> Any:
    """Open a source image as a pipeline of diffusers takes it."""
    with open_image(as_png(read(source), source), source) as image:
        return image.convert("RGB")
