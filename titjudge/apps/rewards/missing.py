"""What takes the place of a missing reward."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

Missing = Literal["error", "skip", "group-mean"]
"""An error, no number, or the mean of the other rewards of the same prompt."""


def group_mean(prompt: str, prompts: Iterable[str], values: Iterable[float | None]) -> float | None:
    """Compute the mean of the finite values of a prompt; None where it has none."""
    of_prompt = [value for other, value in zip(prompts, values, strict=True) if other == prompt]
    finite = [value for value in of_prompt if value is not None and math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else None
