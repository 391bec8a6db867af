"""Names, sizes and arithmetic of TIIF-Bench: 39 types, nine dimensions, Basic, Advanced, Overall.

Source: TIIF-Bench paper, Table 1; summary_results.py and summary_dimension_results.py (@3aae750).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from titjudge.core.numbers import mean

DIMENSIONS: dict[str, tuple[str, ...]] = {
    "attribute": ("shape+color", "color+texture", "texture+color", "shape+texture"),
    "relation": ("2d_spatial_relation", "3d_spatial_relation", "action+2d", "action+3d"),
    "reasoning": ("numeracy", "negation", "differentiation", "comparison"),
    "attribute+relation": (
        *("action+color", "action+texture", "color+2d", "color+3d"),
        *("shape+2d", "shape+3d", "texture+2d", "texture+3d"),
    ),
    "attribute+reasoning": tuple(
        f"{skill}+{look}"
        for skill in ("numeracy", "comparison", "differentiation", "negation")
        for look in ("color", "texture")
    ),
    "relation+reasoning": tuple(
        f"{skill}+{space}"
        for skill in ("numeracy", "comparison", "differentiation", "negation")
        for space in ("2d", "3d")
    ),
    "style": ("style",),
    "text": ("text",),
    "real_world": ("real_world",),
}
BASIC = tuple(kind for name in ("attribute", "relation", "reasoning") for kind in DIMENSIONS[name])
ADVANCED = tuple(
    kind
    for name in ("attribute+relation", "attribute+reasoning", "relation+reasoning", "text", "style")
    for kind in DIMENSIONS[name]
)
TYPES = tuple(sorted(kind for kinds in DIMENSIONS.values() for kind in kinds))
LENGTHS = ("short", "long")
NUMBER = re.compile(r"0|[1-9][0-9]*")
"""How the number of a prompt is written in file names."""
MOVED = ("real_world", "style")  # testmini is a sample of these two, and the first lines of all others


def _sizes(per_dimension: Mapping[str, int], special: Mapping[str, int]) -> dict[str, int]:
    return {kind: special.get(kind, per_dimension[name]) for name, kinds in DIMENSIONS.items() for kind in kinds}


# Prompts of each type in the two sets (data/test_prompts, data/testmini_prompts): 2,538 and 277 in all.
_FULL = {"attribute": 50, "relation": 75, "reasoning": 75, "attribute+relation": 33}
_FULL |= {"attribute+reasoning": 40, "relation+reasoning": 40, "style": 300, "text": 300, "real_world": 100}
_MINI = {"attribute": 5, "relation": 8, "reasoning": 8, "attribute+relation": 4}
_MINI |= {"attribute+reasoning": 4, "relation+reasoning": 4, "style": 30, "text": 30, "real_world": 25}
SIZES: dict[str, dict[str, int]] = {
    "full": _sizes(_FULL, {"shape+color": 100, "shape+texture": 100, "action+color": 50, "action+texture": 50}),
    "testmini": _sizes(_MINI, {"shape+color": 10, "shape+texture": 10, "action+color": 5, "action+texture": 5}),
}


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
        """Return percent: over questions (official), or the mean over images (paper, 3.3); None where nothing was answered."""
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
    """Infer the set from files by type: `full` where there are more than testmini has prompts of the type."""
    return "full" if any(count > SIZES["testmini"].get(kind, 0) for kind, count in counts) else "testmini"
