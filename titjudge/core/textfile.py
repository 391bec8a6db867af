"""Text that people wrote: UTF-8, with or without a byte order mark. UTF-16, which Windows tools like to write, is named."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, DataError

UTF16 = "this is UTF-16 text: save the file as UTF-8"
_DEEPEST = 50
_MOST_VALUES = 100_000
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


def load_yaml(text: str) -> Any:
    """What a YAML text says: plain values only, every key once, of a size and depth that people write.

    Raises:
        ValueError: it is not YAML, or not of that kind; on one line.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value in seen:
                        raise ValueError(f"the key '{key.value[:80]}' stands twice (line {key.start_mark.line + 1})")
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        loader = Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _measure(node, {}, 0)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _measure(node: Any, sizes: dict[int, int], depth: int) -> int:
    """How many values there are in a node of YAML, each alias counted with all that it stands for."""
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} deep, or holds itself")
    if id(node) not in sizes:
        pairs = node.value if isinstance(node.value, list) else ()
        children = [each for pair in pairs for each in (pair if isinstance(pair, tuple) else (pair,))]
        sizes[id(node)] = 1 + sum(_measure(child, sizes, depth + 1) for child in children)
        if sizes[id(node)] > _MOST_VALUES:
            raise ValueError(f"its aliases stand for more than {_MOST_VALUES:,} values")
    return sizes[id(node)]


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """The keys of a YAML file; `what` names it in messages (`a configuration`). An empty file has none.

    Raises:
        ConfigError: it cannot be read, is not UTF-8, not YAML, or no mapping.
    """
    try:
        content = load_yaml(read_text(path))
    except DataError as error:
        raise ConfigError(str(error)) from error
    except ValueError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise ConfigError(f"{path}: {what} is a mapping of keys")
    return content or {}
