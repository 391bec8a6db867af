"""Patterns of image paths with fields in braces, such as `{generator}/{prompt_id}_{sample}.png`; `{{` and `}}` are braces of a name."""

from __future__ import annotations

import re
from pathlib import Path

from titjudge.core.errors import ConfigError, nearest

NUMBERS = ("sample", "seed", "index")
"""Fields that are whole numbers: which of several images of a prompt it is."""
_FIELD = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")  # a field, or an escaped brace
_KNOWN = ("generator", "prompt_id", "suffix", *NUMBERS)
_SYNONYM = "model"
_LIKE = {"generator": ("generator", "model", "gen"), "prompt_id": ("prompt_id",)}
"""Words that a field of this meaning may have been meant by, where a slip is near to one of them."""


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
        raise ConfigError(f"--suite-option {option}={pattern}: {folder} is no folder")
    return folder, rest


def checked_pattern(pattern: str) -> str:
    """Return a pattern with `{generator}` where it says `{model}`.

    Raises:
        ConfigError: It lacks `{prompt_id}`, has a brace that begins no field, or a field that looks like a slip.
    """
    option = f"--images '{pattern}'"
    if re.search(r"[{}]", _FIELD.sub("", pattern)):
        raise ConfigError(
            f"{option}: a field is a name in braces, such as {{generator}}. Write {{{{ for a brace of a name"
        )
    if "generator" not in fields_of(pattern):
        pattern = _FIELD.sub(lambda match: "{generator}" if match[1] == _SYNONYM else match[0], pattern)
    for meant, words in _LIKE.items():
        for field in () if meant in fields_of(pattern) else fields_of(pattern):
            if field not in _KNOWN and nearest(field, words):
                raise ConfigError(f"{option}: {{{field}}} means nothing here. Did you mean {{{meant}}}?")
    if "prompt_id" not in fields_of(pattern):
        raise ConfigError(f"{option}: the pattern needs {{prompt_id}}")
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
