"""What all recipes do: ask, check by code, and ask again with what was wrong."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from titjudge.core.dry_run import DryRun
from titjudge.core.errors import Unanswered
from titjudge.core.types import Ask, Item, Status
from titjudge.metrics._shared import is_stand_in

DRAFTS = 3
IN_ENGLISH = "in English"
_COMMON = frozenset({"the", "a", "an", "of", "and", "with", "in", "on", "is", "to"})
_TELLING = 50  # words from which on the commonest ones tell a language
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")

M = TypeVar("M", bound="Draft")
Checked = dict[str, list[str]]  # checks by code: their names, and what each sees is wrong
Check = Callable[[Any], Sequence[str] | Awaitable[Sequence[str]]]


class Draft(BaseModel):
    """Base of what a language model answers to a recipe."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


async def drafted(
    ask: Ask, template: str, schema: type[M], check: Check, expected: Mapping[str, Any], **variables: Any
) -> M:
    """Ask for a draft until it passes a check, at most three times, each time with the problems of the one before.

    Args:
        ask: Of the metric.
        template: The prompt; it declares `problems` beside the variables.
        schema: What is answered.
        check: Names the problems of a draft.
        expected: What stands in the place of a draft in a dry run, so that what follows from it is priced.
        variables: Of the template.

    Raises:
        Unanswered: none passed; the reason names what was wrong with the last.
    """
    problems: Sequence[str] = ()
    for attempt in range(DRAFTS):
        reply = await ask(
            template, role="judge", schema=schema, sample=attempt, problems=bullets(problems), **variables
        )
        draft: M = reply.data
        if is_stand_in(ask, reply):
            if ask.dry_run is DryRun.WORST and attempt < DRAFTS - 1:
                continue  # room is kept for all drafts
            return draft.model_copy(update=dict(expected))
        found = check(draft)
        problems = found if isinstance(found, Sequence) else await found
        if not problems:
            return draft
    raise Unanswered(Status.UNPARSED, f"{DRAFTS} drafts failed their checks: {'; '.join(problems)}", reply)


def filler(item: Item, count: int) -> str:
    """Write a text of about so many words that no other item has, for dry runs."""
    there = len(item.prompt.split())
    return " ".join([item.prompt] * max(1, round(count / there)))


def flat(checked: Checked) -> list[str]:
    """List the problems of all checks."""
    return [problem for problems in checked.values() for problem in problems]


def bullets(lines: Iterable[str]) -> str:
    """Write lines as a list."""
    return "\n".join(f"- {line}" for line in lines)


def numbered(lines: Iterable[str]) -> str:
    """Write lines as a numbered list, from 1."""
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def words(text: str) -> list[str]:
    """Split a text into its words, in lower case."""
    return [word.lower() for word in _WORD.findall(text)]


def not_english(text: str) -> list[str]:
    """Say that a prompt is not in English: by its letters, and in a long one by the share of the commonest words."""
    letters = [character for character in text if character.isalpha()]
    there = words(text)
    foreign = sum(not character.isascii() for character in letters) > 0.1 * len(letters)
    unlike = len(there) >= _TELLING and sum(word in _COMMON for word in there) < 0.1 * len(there)
    return ["it is not in English"] if foreign or unlike else []


def keeps(text: str, phrase: str) -> bool:
    """Tell whether a text has every word of a phrase, in any form of the word and any order."""
    there = {_stem(word) for word in words(text)}
    return all(_stem(word) in there for word in words(phrase))


def kept_share(text: str, block: str) -> float:
    """Compute the share of a block's longer words that a text has."""
    there = {_stem(word) for word in words(text)}
    wanted = {_stem(word) for word in words(block) if len(word) > 4}
    return sum(word in there for word in wanted) / len(wanted) if wanted else 1.0


def _stem(word: str) -> str:
    for ending in ("ing", "ies", "ied", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3:
        word = word.rstrip("ey")
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word  # running, run
