"""Official code in checkouts beside the project: found, and run in part.

TITJUDGE_OFFICIAL names a folder with checkouts of the repositories, each under its own name; what is not there is skipped.
Nothing of this code is part of the project: it is read from the checkout, and only the functions that tests name are run.
"""

import ast
import os
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from titjudge.core.prompts import PromptLibrary


def official(path: str) -> Path:
    """A file of the checkouts; skips where it is not there."""
    told = os.environ.get("TITJUDGE_OFFICIAL", "")
    if not told:
        pytest.skip("TITJUDGE_OFFICIAL names no folder of official checkouts (see the head of this file)")
    file = Path(told).expanduser() / path
    if not file.is_file():
        pytest.skip(f"{file} is not there: fetch {path.partition('/')[0]}")
    return file


def functions(file: Path, *names: str, **given: Any) -> dict[str, Any]:
    """The functions of these names in a file, without running the rest of it (its imports above all)."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kept = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    made: dict[str, Any] = dict(given)
    exec(compile(ast.Module(body=[*kept], type_ignores=[]), str(file), "exec"), made)  # the person's own checkout
    return made


def module(file: Path, name: str) -> Any:
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def strings(file: Path) -> list[str]:
    """Every text in a Python file; the places of an f-string are `{}`."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = (each.value if isinstance(each, ast.Constant) else "{}" for each in node.values)
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


def template(name: str) -> str:
    """One of our prompts as text, `{}` where a variable stands."""
    library = PromptLibrary()
    file = next(root / f"{name}.md" for root in library.roots if (root / f"{name}.md").is_file())
    return re.sub(r"\{\{.*?\}\}", "{}", file.read_text(encoding="utf-8").split("---\n", 2)[2]).strip()
