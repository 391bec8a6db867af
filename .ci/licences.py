"""Checks the licences of everything that titjudge needs to run, as installed here: `python .ci/licences.py`.

The requirements are followed from titjudge's own, without extras. Licences are read from the metadata of the installed
distributions: the SPDX expression, else the classifiers, else the free text. Permissive ones and those whose copyleft
ends at the file or the library (MPL, LGPL) pass; GPL, AGPL and what cannot be told do not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageMetadata, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FREE = re.compile(
    r"\b(MIT|MIT-0|MIT-CMU|HPND|BSD|0BSD|Apache|ISC|PSF|Python|Python Software Foundation|Zlib|zlib|Unlicense|CC0"
    r"|Public Domain|BlueOak|Unicode|Boost|BSL-1\.0|MPL|Mozilla Public License|LGPL|Lesser General Public)\b",
    re.IGNORECASE,
)
BOUND = re.compile(r"\b(A?GPL|(?<!Lesser )General Public License|SSPL|Proprietary)", re.IGNORECASE)
LONGEST = 200  # characters of a licence's name; what is longer is its text, whose first line is its name


def needed(root: str, requirements: Callable[[str], list[str] | None]) -> Iterator[tuple[str, list[str] | None]]:
    """`root` and what it requires here, each once, with its own requirements; None for what is not installed."""
    waiting, seen = [(canonicalize_name(root), frozenset[str]())], set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found = requirements(name)
        yield name, found
        for line in found or []:
            each = Requirement(line)
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras or {""}):
                waiting.append((canonicalize_name(each.name), frozenset(each.extras)))


def licence(metadata: PackageMetadata) -> str:
    """The name of a distribution's licence, "" where its metadata tells none."""
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [each for each in metadata.get_all("Classifier") or [] if each.startswith("License ::")]
    named = [each.rpartition(" :: ")[2] for each in classifiers if each.count("::") > 1]
    text = str(metadata.get("License") or "").strip().splitlines()
    return " AND ".join(named) or (text[0].strip()[:LONGEST] if text else "")


def allowed(name: str) -> bool:
    """Whether a licence may come along: one alternative of "A OR B" must be free, and every part of "A AND B"."""
    alternatives = [name] if re.search(r"\bAND\b", name) else re.split(r"\s+OR\s+", name)
    return any(
        all(FREE.search(part) and not BOUND.search(part) for part in re.split(r"\bAND\b", each))
        for each in alternatives
    )


def main(root: str = "titjudge") -> int:
    def requirements(name: str) -> list[str] | None:
        try:
            return distribution(name).requires or []
        except PackageNotFoundError:
            return None

    found: dict[str, str] = {}
    missing = set()
    for name, requires in needed(root, requirements):
        if requires is None:
            missing.add(name)
        else:
            found[name] = licence(distribution(name).metadata)
    refused = {name: what for name, what in found.items() if not allowed(what)}
    for name, what in sorted(refused.items()):
        print(f"{name}: {what or 'no licence in its metadata'}", file=sys.stderr)
    for name in sorted(missing):
        print(f"{name}: required, and not installed here", file=sys.stderr)
    print(f"licences of {len(found)} packages: {len(refused) or 'none'} that may not come along")
    return 1 if refused or missing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
