"""Checks that no package of titjudge grows beyond its ceiling: `python .ci/size.py`.

The unit is Python tokens without comments, docstrings, line breaks and indentation, so that neither long lines nor fewer comments
gain anything. The ceilings are in `size.toml`. They may only go down: `--lower` writes today's sizes where these are lower.
A commit that raises a ceiling names the code that it replaces.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CEILINGS = Path(__file__).with_name("size.toml")
LAYOUT = {
    tokenize.COMMENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.INDENT, tokenize.NEWLINE, tokenize.NL,
}  # fmt: skip


def docstring_lines(tree: ast.Module) -> set[int]:
    """The lines of all docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def tokens(source: str) -> int:
    """Count the tokens of a Python file."""
    documented = docstring_lines(ast.parse(source))
    read = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(token.type not in LAYOUT and token.start[0] not in documented for token in read)


def sizes(package: Path) -> dict[str, int]:
    """Tokens of each package in a folder; `.` is for the files in the folder itself."""
    found: Counter[str] = Counter()
    for file in package.rglob("*.py"):
        parts = file.relative_to(package).parts
        found[parts[0] if len(parts) > 1 else "."] += tokens(file.read_text(encoding="utf-8"))
    return dict(sorted(found.items()))


def main(arguments: list[str] | None = None) -> int:
    """Print package, tokens and ceiling; return 1 if a package is above its ceiling or has none."""
    parser = argparse.ArgumentParser(description="Check the size of each package against its ceiling.")
    parser.add_argument("--lower", action="store_true", help="lower the ceilings to today's sizes")
    options = parser.parse_args(arguments)
    ceilings: dict[str, int] = tomllib.loads(CEILINGS.read_text(encoding="utf-8"))["tokens"]
    found = sizes(ROOT / "titjudge")
    above = [name for name, size in found.items() if size > ceilings.get(name, 0)]
    for name, size in found.items():
        print(f"{name:10} {size:8,} of {ceilings.get(name, 0):8,}{'  above its ceiling' if name in above else ''}")
    print(f"{'all':10} {sum(found.values()):8,} of {sum(ceilings.values()):8,}")
    if options.lower:
        lowered = {name: min(size, ceilings.get(name, size)) for name, size in found.items()}
        lines = [f'"{name}" = {size}' for name, size in lowered.items()]
        head = CEILINGS.read_text(encoding="utf-8").partition("[tokens]")[0]
        CEILINGS.write_text(f"{head}[tokens]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    if above:
        print(f"Too large: {', '.join(above)}. Remove code there, or say in the commit what the new code replaces.")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
