"""Paths of titjudge's own files: bundled prompts, the bundled example, the schema of run.yaml, the cache."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from titjudge.core.errors import DataError

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parent


def distinct_paths(given: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the paths of runs or files that are read together.

    Raises:
        DataError: Two lead to the same place, so that its scores would count twice.
    """
    first = dict[str, Path]()
    for path in map(Path, given):
        before = first.setdefault(os.path.realpath(path), path)
        if before is not path:
            raise DataError(f"it is given twice{f', also as {before}' if before != path else ''}. Give it once", path)
    return list(first.values())


def bundled_root() -> Path:
    """Return the folder of the bundled prompts: inside the wheel, or at the top of a checkout."""
    inside = _PACKAGE / "_prompts"
    return inside if inside.is_dir() else _CHECKOUT / "prompts"


def example_folder() -> Path | None:
    """Return the bundled example, inside the wheel or in a checkout; None if it is missing."""
    places = (_PACKAGE / "_example", _CHECKOUT / "examples" / "known_answer")
    return next((place for place in places if (place / "images.jsonl").is_file()), None)


def starter_file() -> Path:
    """Find the prompts of the suite `starter`: inside the wheel, or in a checkout."""
    inside = _PACKAGE / "_starter"
    return (inside if inside.is_dir() else _CHECKOUT / "examples" / "starter") / "prompts.jsonl"


def pages() -> dict[str, Path]:
    """Return the pages of the documentation by name, inside the wheel or in a checkout."""
    inside = _PACKAGE / "_docs"
    root = inside if inside.is_dir() else _CHECKOUT / "docs"
    return {path.stem: path for path in sorted(root.glob("*/*.md")) if path.parent.name != "measurements"}


def cache_folder(named: Path | None = None) -> Path:
    """Return the answer cache: `named`, otherwise $TITJUDGE_CACHE, otherwise `cache/` of a checkout or the user's cache."""
    if named is not None:
        return named
    if variable := os.environ.get("TITJUDGE_CACHE"):
        return Path(variable)
    if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "cache").is_dir():
        return _CHECKOUT / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "titjudge"


def run_schema() -> Path:
    """Return the JSON schema of run.yaml, which `docs/generate.py` writes: inside the wheel, or in a checkout."""
    inside = _PACKAGE / "_schemas"
    return (inside if inside.is_dir() else _CHECKOUT / "docs" / "schemas") / "run.schema.json"
