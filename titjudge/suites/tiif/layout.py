"""Names, sizes and arithmetic of TIIF-Bench: 39 types, nine dimensions, Basic, Advanced, Overall.

Source: TIIF-Bench paper, Table 1; summary_results.py and summary_dimension_results.py (@3aae750).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from titjudge.core.files import read_yaml
from titjudge.core.numbers import mean

_LAYOUT = read_yaml(Path(__file__).with_suffix(".yaml"), "a layout")
DIMENSIONS: Mapping[str, Sequence[str]] = _LAYOUT["dimensions"]
SECTIONS: Sequence[tuple[str, str, Sequence[str]]] = [
    (title, key, [kind for name in names for kind in DIMENSIONS[name]]) for title, key, names in _LAYOUT["sections"]
]
"""Sections of the official summary by dimension: title, key of the data read from it, and types."""
BASIC, ADVANCED = (next(kinds for _, key, kinds in SECTIONS if key == name) for name in ("basic", "advanced"))
TYPES = tuple(sorted(kind for kinds in DIMENSIONS.values() for kind in kinds))
LENGTHS = ("short", "long")
NUMBER = re.compile(r"0|[1-9][0-9]*")
"""How the number of a prompt is written in file names."""
MOVED = ("real_world", "style")  # testmini is a sample of these two, and the first lines of all others


SIZES = {
    name: {kind: counts.get(kind, counts[dimension]) for dimension, kinds in DIMENSIONS.items() for kind in kinds}
    for name, counts in _LAYOUT["prompts"].items()
}
"""Prompts of each type in the two sets."""


@dataclass(slots=True)
class TypeCounts:
    """Counts of one generator, type and length; `image_sum` is the sum of the accuracies (fractions) of the images."""

    files: int = 0
    questions: int = 0
    correct: float = 0
    image_sum: float = 0.0

    def add(self, correct: float, questions: int) -> None:
        self.files += 1
        self.questions += questions
        self.correct += correct
        self.image_sum += correct / questions

    def accuracy(self, per_image: bool = False) -> float | None:
        """Return percent: over questions (official), or the mean over images (paper, 3.3); None if nothing was answered."""
        if not self.files:
            return None
        return 100 * self.image_sum / self.files if per_image else 100 * self.correct / self.questions


def roll_up(types: Mapping[str, float | None]) -> dict[str, object]:
    """Compute overall, basic, advanced and the nine dimensions from type accuracies, in the unit of `types`.

    Dimension: mean of its types. Basic: mean of 12 types. Advanced: mean of 26 types (not of five dimensions).
    Overall: mean of the nine dimensions. Whatever is missing is left out of its mean.
    """
    dimensions = {name: mean(types.get(kind) for kind in kinds) for name, kinds in DIMENSIONS.items()}
    return {
        "overall": mean(dimensions.values()),
        "basic": mean(types.get(kind) for kind in BASIC),
        "advanced": mean(types.get(kind) for kind in ADVANCED),
        "dimensions": dimensions,
        "types": {kind: types.get(kind) for kind in TYPES},
    }


def which_set(counts: Iterable[tuple[str, int]]) -> str:
    """Infer the set from files by type: `full` if there are more than testmini has prompts of the type."""
    return "full" if any(count > SIZES["testmini"].get(kind, 0) for kind, count in counts) else "testmini"
