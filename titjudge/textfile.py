"""Text that people wrote: UTF-8, with or without a byte order mark. UTF-16, which Windows tools like to write, is named."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

from titjudge.errors import ConfigError, DataError

UTF16 = "this is UTF-16 text: save the file as UTF-8"
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def is_utf16(head: bytes) -> bool:
    """Whether a file that begins so is UTF-16: it has the byte order mark, or a zero in every other byte."""
    return head.startswith(_MARKS) or (len(head) >= 4 and (not any(head[1:4:2]) or not any(head[0:4:2])))


def check_regular(path: Path) -> None:
    """Refuse what may never end, or never begin, when it is read.

    Raises:
        DataError: a pipe, a device or a socket.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError("a pipe or a device, not a file", path)


def read_text(path: Path) -> str:
    """A whole text file, without its byte order mark.

    Raises:
        DataError: it cannot be read, or is not UTF-8.
    """
    check_regular(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(error.strerror or str(error), path) from error
    if is_utf16(raw):
        raise DataError(UTF16, path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text ({error.reason} at byte {error.start})", path) from error


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """The keys of a YAML file; `what` names it in messages (`a configuration`). An empty file has none.

    Raises:
        ConfigError: it cannot be read, is not UTF-8, not YAML, or no mapping.
    """
    import yaml

    try:
        content = yaml.safe_load(read_text(path))
    except DataError as error:
        raise ConfigError(str(error)) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if content is not None and not isinstance(content, dict):
        raise ConfigError(f"{path}: {what} is a mapping of keys")
    return content or {}
