"""A public class has a name of its own in the package, so that a search for the name finds one thing."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "titjudge"
SHARED = {"Session"}  # of a run and of a hosted generator: to be given up when the generator's is renamed


def files_by_class() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(file.read_bytes()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(file.relative_to(PACKAGE).as_posix())
    return found


def test_names_of_public_classes_are_unique() -> None:
    shared = {name: files for name, files in files_by_class().items() if len(files) > 1 and not name.startswith("_")}
    assert "Item" in files_by_class()
    assert {name: files for name, files in shared.items() if name not in SHARED} == {}
    assert set(shared) == SHARED
