"""Rewords titjudge: every sentence in its functions and constants is written in capitals, as a better wording would differ."""

import contextlib
import gc
import importlib
import pkgutil
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from titjudge.cli.commands import Command
from titjudge.core.tables import Table
from titjudge.core.types import Note

PACKAGES = tuple(
    f"titjudge.{name}."
    for name in ("stats", "report", "runs", "cli", "core", "engine", "web", "probes", "suites", "data")
)
KEPT = (  # what matplotlib, models and editors of YAML read, and the words that models say
    *("titjudge.report.plots", "titjudge.report.drawing", "titjudge.report.generators", "titjudge.report.people"),
    *("titjudge.core.refusals", "titjudge.core.structured_output", "titjudge.core.prompts", "titjudge.core.config"),
)
_SENTENCE = re.compile(r"[A-Za-z]{2,}[:,;]? [A-Za-z]{2,}")
_NO_WORDS = re.compile(r"%\(|<.*>|SELECT|CREATE|INSERT|DELETE|UPDATE|PRAGMA")


def reworded(text: str) -> str:
    """The text in other words; what is no sentence stays as it is."""
    if not _SENTENCE.search(text) or _NO_WORDS.search(text):
        return text
    return re.sub(r"(?<![{%\w])[a-z]{2,}(?![\w}])", lambda word: word[0].upper(), text)


def _changed(value: Any) -> Any:
    if isinstance(value, Note):
        return Note(value.id, reworded(value))
    if type(value) is str:  # a member of an enumeration is an id
        return reworded(value)
    if type(value) in (tuple, frozenset):
        return type(value)(map(_changed, value))
    if isinstance(value, types.CodeType):
        return value.replace(co_consts=tuple(map(_changed, value.co_consts)))
    return value


def _is_reworded(module: str | None) -> bool:
    return f"{module}.".startswith(PACKAGES) and not f"{module}.".startswith(KEPT)


def _places() -> Iterator[tuple[Any, Any, Callable[[Any], None]]]:
    """Code of functions, texts and tuples of modules, and values of their dictionaries: each with what sets it."""
    gc.unfreeze()  # a command has hidden what it imported
    for made in gc.get_objects():
        if type(made) is types.FunctionType and _is_reworded(made.__module__):
            yield made, made.__code__, lambda code, made=made: setattr(made, "__code__", code)
    for module in [each for name, each in sys.modules.items() if name.startswith("titjudge.")]:
        for name, value in list(vars(module).items()):
            if name.startswith("__"):
                continue
            if isinstance(value, str | tuple):
                yield module, value, lambda new, module=module, name=name: setattr(module, name, new)
            elif type(value) is dict and _is_reworded(module.__name__):
                for key, part in list(value.items()):
                    yield value, part, lambda new, value=value, key=key: value.__setitem__(key, new)


def _in_capitals(made: Callable[..., None]) -> Callable[..., None]:
    """Make tables with titles, columns and notes in capitals; keys, ids and values stay."""

    def init(table: Table, *args: Any, **named: Any) -> None:
        made(table, *args, **named)
        for name in ("title", "columns", "notes", "explanation", "empty"):
            old = getattr(table, name)
            object.__setattr__(table, name, old.upper() if isinstance(old, str) else tuple(map(str.upper, old)))

    return init


@contextlib.contextmanager
def other_words() -> Iterator[int]:
    """Reword titjudge, and take it back at the end; the number is that of the places."""
    for package in PACKAGES:
        name = package.rstrip(".")
        for found in pkgutil.walk_packages(importlib.import_module(name).__path__, package):
            importlib.import_module(found.name)
    undo: list[Callable[[], None]] = []
    made = Table.__init__
    Table.__init__ = _in_capitals(made)  # type: ignore[method-assign]
    undo.append(lambda: setattr(Table, "__init__", made))
    for _, before, put in list(_places()):
        if (after := _changed(before)) != before:
            put(after)
            undo.append(lambda put=put, before=before: put(before))
    try:
        yield len(undo)
    finally:
        for take_back in reversed(undo):
            take_back()
        for made in gc.get_objects():
            if issubclass(type(made), Command):
                made._help_all.clear()  # options that were made meanwhile
