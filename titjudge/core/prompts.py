"""Prompt templates: one Markdown file each, with front matter, rendered in a sandbox.

    ---
    version: 1
    source: TIT-Score paper, A.4.1
    vars: [prompt, description]
    ---
    Jinja body

Optional front matter: `system` (text of the system turn), `images: first|last` (the position of images in the user turn;
default first; `{{ image }}` and `{{ image2 }}` in the body place them inline), `output_tokens: [p10, p50, p90]` (expected
length of the answer, for price estimates). Exactly one newline at the end of the file is not part of the
prompt. Variables are data: a value that looks like a template is not rendered, and one with a tag of the template
(`<prompt>` ... `</prompt>`) can neither open nor close it, as its `<` becomes `‹`.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from titjudge.core.errors import ConfigError, first_fault, must_be, nearest, unknown
from titjudge.core.files import load_yaml, read_text
from titjudge.core.paths import bundled_root
from titjudge.core.types import ImageFile, Json, Message, Part, Values
from titjudge.core.words import is_texts

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_NAME = re.compile(r"[a-z0-9_\-]+(/[a-z0-9_\-.]+)+")
_KNOWN = set("version source vars system images output_tokens".split())
_MARK = f"\u2060picture:{secrets.token_hex(8)}:"  # random, so that no prompt can contain it


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template.

    Attributes:
        images: The position of the images in the user turn: first or last.
        output_tokens: Expected tokens of an answer: 10th, 50th and 90th percentile.
        sha256: Hash of the whole file, as manifests record it.
        fence: Matches its tags in variables.
    """

    name: str
    version: str
    source: str
    variables: frozenset[str]
    system: Template | None
    body: Template
    images: str
    output_tokens: tuple[int, int, int] | None
    sha256: str
    fence: re.Pattern[str] | None = None

    def messages(self, variables: Values, images: Sequence[ImageFile] = ()) -> tuple[Message, ...]:
        """Render the conversation to send.

        Raises:
            ConfigError: A variable is missing or unknown, or the template fails.
        """
        given = variables.keys()
        if self.variables != given:
            raise ConfigError(
                f"prompt template {self.name}: variables without a value: {sorted(self.variables - given)}; not declared: {sorted(given - self.variables)}. Correct vars in its front matter"
            )
        marks = {"image" if i == 0 else f"image{i + 1}": f"{_MARK}{i}\u2060" for i in range(max(1, len(images)))}
        shown = {name: self._fenced(value) for name, value in variables.items()} if self.fence else variables
        try:
            text = self.body.render(**shown, **marks)
            system = self.system.render(**shown) if self.system else ""
        except Exception as error:  # a template is code of the user's: {{ prompt + 1 }} is a TypeError
            raise ConfigError(
                f"prompt template {self.name} fails: {type(error).__name__}: {error}. Correct the template"
            ) from error
        parts = _place(text, images, self.images)
        turns = [Message("system", (system,))] if system else []
        return (*turns, Message("user", parts))

    def _fenced(self, value: Any) -> Any:
        """Escape a variable, so that no text in it opens or closes a tag of the template."""
        if isinstance(value, str):
            return self.fence.sub("‹", value) if self.fence else value
        if isinstance(value, Mapping):
            return {self._fenced(key): self._fenced(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self._fenced(entry) for entry in value]
        return value


def _place(text: str, images: Sequence[ImageFile], where: str) -> tuple[Part, ...]:
    """Put the images where the prompt marks them, otherwise before or after its text."""
    if _MARK in text and not images:
        raise ConfigError(
            "the prompt template shows an image, but the request has none. Remove `{{ image }}` from the template"
        )
    if _MARK in text:
        pieces = re.split(f"{_MARK}(\\d+)\u2060", text)
        parts: list[Part] = []
        for i, piece in enumerate(pieces):
            if i % 2:
                parts.append(images[int(piece)])
            elif piece:
                parts.append(piece)
        return tuple(parts)
    return (*images, text) if where == "first" else (text, *images)


class PromptLibrary:
    """Find prompts by name: first in the overlay folder, then among the bundled ones."""

    def __init__(self, overlay: Path | None = None) -> None:
        self.roots = template_folders(overlay)
        self._loaded: dict[str, Prompt] = {}

    def names(self) -> list[str]:
        """List all prompts, as `suite/name`."""
        return prompt_names(self.roots)

    def get(self, name: str) -> Prompt:
        """Load a prompt.

        Raises:
            ConfigError: There is no such prompt, or its file is malformed.
        """
        if name not in self._loaded:
            self._loaded[name] = read_prompt(name, self.roots)
        return self._loaded[name]

    def sha256(self, name: str) -> str:
        """Hash the file of a prompt, which is not parsed.

        Raises:
            ConfigError: There is no such prompt.
        """
        return _sha256(_read(name, self.roots)[1])

    @property
    def used(self) -> dict[str, str]:
        """Name and SHA-256 of every prompt loaded so far."""
        return {name: prompt.sha256 for name, prompt in sorted(self._loaded.items())}


def template_folders(overlay: Path | None = None) -> list[Path]:
    """List the folders of templates, in the order in which they are looked through.

    Raises:
        ConfigError: There is no such folder.
    """
    if overlay is not None and not overlay.is_dir():
        raise ConfigError(f"--set prompts={overlay}: no such folder. Give a folder of prompt templates")
    return [*([overlay] if overlay else []), bundled_root()]


def prompt_names(folders: Sequence[Path]) -> list[str]:
    """List all prompts in folders, as `suite/name`."""
    return sorted(
        {path.relative_to(root).with_suffix("").as_posix() for root in folders for path in root.rglob("*.md")}
    )


def read_prompt(name: str, folders: Sequence[Path]) -> Prompt:
    """Read a prompt from the first folder that has it.

    Raises:
        ConfigError: There is no such prompt, or its file is malformed.
    """
    return _parsed(name, *_read(name, folders))


def _read(name: str, folders: Sequence[Path]) -> tuple[Path, str]:
    """Read the file of a prompt; returns its path, too."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise ConfigError(f"a prompt template must have a name such as suite/name, not '{name}'")
    path = next((root / f"{name}.md" for root in folders if (root / f"{name}.md").is_file()), None)
    if path is None:
        raise ConfigError(
            f"unknown prompt template '{name}'.{nearest(name, prompt_names(folders))} "
            f"Add {name}.md to the folder of --set prompts=DIR"
        )
    return path, read_text(path).replace("\r\n", "\n")


def _sha256(raw: str) -> str:
    return hashlib.sha256(raw.encode()).hexdigest()


@lru_cache(maxsize=256)  # compiling a template takes milliseconds, and every `Judge` has a separate library
def _parsed(name: str, path: Path, raw: str) -> Prompt:
    """Parse a prompt file: front matter and template.

    Raises:
        ConfigError: It has no front matter, an unknown key, or a template that does not compile; names the file.
    """
    match = re.match(r"---\n(.*?)\n---\n(.*)\Z", raw, re.DOTALL)
    if match is None:
        raise ConfigError(f"{path}: no front matter. Begin with keys between two lines of ---")
    front = _front_matter(match[1], path)
    for key in front:
        if key not in _KNOWN:
            raise ConfigError(f"{path}: front matter: {unknown('key', key, _KNOWN)}")
    above = match[1].count("\n") + 3
    body = _compiled(match[2].removesuffix("\n"), path, above)
    system = _compiled(front["system"].removesuffix("\n"), path) if front.get("system") else None
    lengths = front.get("output_tokens")
    return Prompt(
        name=name,
        version=str(front.get("version", "")),
        source=str(front.get("source", "")),
        variables=frozenset(front.get("vars") or ()),
        system=system,
        body=body,
        images=front.get("images") or "first",
        output_tokens=(lengths[0], lengths[1], lengths[2]) if lengths else None,
        sha256=_sha256(raw),
        fence=tags_of(raw),
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Make the sandbox that templates run in."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)


_TEMPLATE_FAULTS = {
    "end of template": "{% if %} or {% for %} without its end. Add {% endif %} or {% endfor %}",
    "filter|test named": "a filter or a test that Jinja does not have. Remove it",
    "": "{{, {% or {# without its end, or with wrong words inside. Correct this line, or write {{ '{{' }} for the brackets",
}


def _compiled(text: str, path: Path, above: int = 0) -> Template:
    """Compile a template, which starts behind `above` lines of its file."""
    from jinja2 import TemplateSyntaxError

    try:
        template = _environment().from_string(text)
        template.globals = dict(template.globals)  # Jinja copies them at each rendering, slowly from its ChainMap
        return template
    except TemplateSyntaxError as error:
        where = f"{path}:{error.lineno + above}" if above else path
        raise ConfigError(f"{where}: not a template: {first_fault(error, _TEMPLATE_FAULTS)}") from error


def tags_of(template: str) -> re.Pattern[str] | None:
    """Return the pattern of the start of any tag that the template closes; None when it closes none."""
    names = sorted(set(re.findall(r"</([A-Za-z_][\w\-]*)>", template)))
    return re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(names)})\b)", re.IGNORECASE) if names else None


def _front_matter(text: str, path: Path) -> Json:
    """Parse the front matter of a prompt, and check the forms of its values."""
    front = load_yaml(text, f"{path}: the front matter: ") or {}
    if not isinstance(front, dict):
        raise ConfigError(f"{path}: {must_be('the front matter', 'a mapping of keys', front)}")
    shapes: dict[str, tuple[Any, str]] = {
        "vars": (is_texts, "a list of names"),
        "system": (lambda value: isinstance(value, str), "a text"),
        "images": (lambda value: value in ("first", "last"), "first or last"),
        "output_tokens": (_three_numbers, "three whole numbers: [p10, p50, p90]"),
    }
    for key, (fits, what) in shapes.items():
        if front.get(key) is not None and not fits(front[key]):
            raise ConfigError(f"{path}: {must_be(f'{key!r}', what, front[key])}")
    return front


def _three_numbers(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) == 3 and all(isinstance(number, int) and number > 0 for number in value)
    )
