"""Who answers: the names of annotators, numbered, given, or typed by themselves."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from titjudge.apps.label.questions import is_expert
from titjudge.core.errors import DataError, UserError

MAX_ANNOTATORS = 1000
_LONGEST = 40  # characters of a name
_NAME = re.compile(r"\w[\w .@+-]*")


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
        _check_name(name)
    if len({folded(name) for name in names}) < len(names):
        raise UserError("two annotators have the same name: each needs one of their own")
    return names


def name_of(typed: str) -> str:
    """Read a typed name; spaces at its ends are removed, and several in a row become one.

    Raises:
        DataError: It cannot be a name; says why.
    """
    name = unicodedata.normalize("NFC", " ".join(typed.split()))
    if not name:
        raise DataError("type your name")
    if len(name) > _LONGEST:
        raise DataError(f"this name has {len(name):,} characters, and {_LONGEST} are the most: take a shorter one")
    _check_name(name)
    return name


def folded(name: str) -> str:
    """Write a name so that all spellings which people take for the same one are equal: `Anna` and `anna`."""
    return unicodedata.normalize("NFKC", name).casefold()


def _check_name(name: str) -> None:
    """Refuse what cannot be a name; accents and vowel signs belong to the letter before them."""
    letters = "".join(sign for sign in name if not unicodedata.category(sign).startswith("M"))
    if (
        not _NAME.fullmatch(letters)
        or not name.startswith(letters[0])
        or len(name) > _LONGEST
        or is_expert(folded(name))
    ):
        raise DataError(
            f"{name!r} cannot be the name of an annotator: letters, digits, spaces and . @ + - _, at most {_LONGEST}, the first "
            "a letter or a digit, and not 'expert-' at its beginning"
        )
