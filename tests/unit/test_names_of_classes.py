"""A class has a name of its own in the package, so that a search for the name finds one thing."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "titjudge"


def test_names_of_classes_are_unique() -> None:
    files_by_class: dict[str, list[str]] = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ClassDef):
                files_by_class[node.name].append(file.relative_to(PACKAGE).as_posix())
    assert "Item" in files_by_class
    assert {name: files for name, files in files_by_class.items() if len(files) > 1} == {}
