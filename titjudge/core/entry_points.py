"""Read the entry points of installed packages. Only to import `importlib.metadata` takes as long as to import click."""

from __future__ import annotations

import contextlib
import functools
import os
import sys


@functools.cache
def announced(kind: str) -> dict[str, str]:
    """Return the entry points of `titjudge.KIND` as `importlib.metadata` finds them: name -> `module:attribute`."""
    own = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    archives = [path for path in sys.path if path.endswith(".egg") or os.path.isfile(path)]
    if len(own) > 1 or archives:
        from importlib.metadata import entry_points

        return {point.name: point.value for point in entry_points(group=f"titjudge.{kind}")}
    found = dict[str, str]()
    for text in _files():
        section = ""
        for line in map(str.strip, text.splitlines()):
            name, equals, value = map(str.strip, line.partition("="))
            if line.startswith("[") and line.endswith("]"):
                section = line.strip("[]")
            elif section == f"titjudge.{kind}" and equals and not line.startswith("#"):
                found[name] = value
    return found


@functools.cache
def _files() -> list[str]:
    """Read the `entry_points.txt` of every installed package; of a package installed twice the first one counts."""
    files = dict[str, str]()
    for folder in filter(os.path.isdir, (path or "." for path in sys.path)):
        for name in os.listdir(folder):
            if name.lower().endswith((".dist-info", ".egg-info")):
                package = name.rpartition(".")[0].partition("-")[0].lower().replace(".", "_")
                files.setdefault(package, os.path.join(folder, name, "entry_points.txt"))
    texts = []
    for file in files.values():
        with contextlib.suppress(OSError), open(file, encoding="utf-8") as opened:
            if "[titjudge." in (text := opened.read()):
                texts.append(text)
    return texts
