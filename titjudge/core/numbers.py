"""Read numbers from untrusted files and answers, and write them for people."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable
from typing import Any, TypeGuard


def finite(value: Any) -> float | None:
    """Return a finite number, also from a string; None for anything else, `true` included."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_sample(value: Any) -> int:
    """Return the number or seed of a sample, also from a text or from 7.0; 0 for anything except a whole number from 0 on.

    It has at most 18 digits, as more do not fit into 64 bits.
    """
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 and not isinstance(value, bool) else 0


def missing_code(numbers: Collection[float]) -> float | None:
    """Return the lowest of some ratings if it may stand for none: 0 below 1 to 10, or one negative number such as -1 below 0 to 5."""
    low = min(numbers, default=0.0)
    rest = {number for number in numbers if number > low}
    if len(rest) < 3 or not float(low).is_integer():
        return None
    likert = low == 0 and min(rest) >= 1 and max(rest) <= 10 and all(float(number).is_integer() for number in rest)
    return low if likert or (low < 0 <= min(rest) and not 1 < max(rest) < 4) else None


def mean(values: Iterable[float | None]) -> float | None:
    """Compute the mean of the values that are not None, summed in order as official scripts do; None without any."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def is_number(value: Any) -> TypeGuard[int | float]:
    """Return True if a value is a finite JSON number: not `true`, not a string."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def known_sum(value: float, unpriced: int) -> float | None:
    """Round a sum of USD to millionths; None if it consists only of requests without a known price (`unpriced` of them)."""
    return None if unpriced and not value else round(value, 6)


def sum_words(value: float | None, unpriced: int, text: str) -> str:
    """Return the `text` of a sum of USD, or report it as unknown or partial; see `known_sum`."""
    if value is None or (unpriced and not value):
        return "unknown"
    return f"at least {text}" if unpriced else text


def uncertain_words(amount: float) -> str:
    """Return the end of a sentence on costs: the possible cost of requests without an answer, in USD; empty if there is none."""
    return f"; requests that got no answer may have cost up to ${amount:.4f} more" if amount else ""


def several(count: int, noun: str) -> str:
    """Write a number with its noun: `1 image`, `2,000 images`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
