"""Rows of equal things of which some are in the other of two states, by a rule: the states as a string of 0 and 1, and the words."""

from __future__ import annotations

from random import Random

RULES = ("all", "none", "every second", "only", "more")
_ORDINALS = tuple(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth".split()
)


def length_of(rule: str, across: int) -> int:
    """Return how many things three rows of `across` have: an odd number where one state has one more than the other."""
    return 3 * across if rule != "more" else 3 * across - (across + 1) % 2


def bits_of(rng: Random, rule: str, number: int) -> str:
    """Draw the states that a rule asks for: a digit of each thing, 1 for the other state."""
    if rule in ("all", "none"):
        return "0" * number
    if rule == "every second":
        return "".join(str(k % 2) for k in range(number))
    if rule == "only":
        k = rng.randrange(number)
        return "0" * k + "1" + "0" * (number - k - 1)
    bits = list("1" * (number // 2 + 1) + "0" * (number // 2))
    rng.shuffle(bits)
    return "".join(bits)


def words_of(rule: str, bits: str, one: str, other: str) -> str:
    """Say which things are in which state; `one` and `other` are what is said of a thing in its first and its other state."""
    if rule == "all":
        return f"each of the {len(bits)} {one}"
    if rule == "none":
        return f"none of the {len(bits)} {other}"
    if rule == "every second":
        return f"counted row by row from the top left, every second one {other}, and each of the others {one}"
    if rule == "only":
        return f"only the {ordinal(bits.index('1'))}, counted row by row from the top left, {other}; each of the others {one}"
    return f"there is exactly one more that {other} than that {one}"


def ordinal(k: int) -> str:
    """Return the word for the place of a thing that has `k` before it: "first" for 0."""
    return _ORDINALS[k] if k < len(_ORDINALS) else f"{k + 1}th"


def flipped(bits: str, k: int) -> str:
    """Return the states with that of one thing changed."""
    return bits[:k] + str(1 - int(bits[k])) + bits[k + 1 :]
