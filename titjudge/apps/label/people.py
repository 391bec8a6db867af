"""Who answers: the names of annotators, numbered or given."""

from __future__ import annotations

import re
from collections.abc import Sequence

from titjudge.apps.label.questions import is_expert
from titjudge.core.errors import UserError

MAX_ANNOTATORS = 1000
_NAME = re.compile(r"\w[\w .@+-]{0,39}")


def annotators_of(text: str) -> int | list[str]:
    """Read `--annotators`: a number, or names with commas between them."""
    return int(text) if text.strip().isdecimal() else [name.strip() for name in text.split(",")]


def names_of(people: int | Sequence[str], role: str) -> list[str]:
    """Name the people who answer, with two digits where only their number is given (`annotator-01`).

    Raises:
        UserError: There are too few or too many, two have the same name, or a name cannot be one.
    """
    names = [f"{role}-{number:02d}" for number in range(1, people + 1)] if isinstance(people, int) else list(people)
    if not 1 <= len(names) <= MAX_ANNOTATORS:
        raise UserError(f"the number of {role}s is between 1 and {MAX_ANNOTATORS}, not {len(names)}")
    for name in names if not isinstance(people, int) else ():
        if not _NAME.fullmatch(name) or is_expert(name):
            raise UserError(
                f"{name!r} cannot be the name of an annotator: letters, digits, spaces and . @ + - _, at most 40, and not "
                "'expert-' at its beginning"
            )
    if len({name.casefold() for name in names}) < len(names):
        raise UserError("two annotators have the same name: each needs one of their own")
    return names
