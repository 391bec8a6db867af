"""Helpers of all recipes: ask for a draft, check it by code, and ask again with the problems found."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict

from titjudge.core.errors import Unanswered
from titjudge.core.types import Ask, Item, Status, Values

DRAFTS = 3
IN_ENGLISH = "in English"
_COMMON = frozenset("the a an of and with in on is to".split())
_LONG_ENOUGH = 50  # words of a text from which its commonest words show its language
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")

M = TypeVar("M", bound="Draft")
Checked = dict[str, list[str]]  # the problems that each check found, by the check's name
Check = Callable[[Any], Sequence[str] | Awaitable[Sequence[str]]]


class Draft(BaseModel):
    """Base of the structured answers of a recipe; an answer may repeat an object of the question, such as the draft itself."""

    repeats_question: ClassVar[bool] = True

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


async def drafted(ask: Ask, template: str, schema: type[M], check: Check, planned: Values, **variables: Any) -> M:
    """Ask for a draft until one passes its check, at most three times, each time with the problems of the one before.

    Args:
        ask: Asks the models.
        template: The prompt template; `problems` is one of its variables.
        schema: The structured answer.
        check: Returns the problems of a draft.
        planned: Fields of the draft in a dry run, which pass the check and are as long as usual.
        variables: Further variables of the template.

    Raises:
        Unanswered: No draft passed; the reason names the problems of the last one.
    """
    problems: Sequence[str] = ()
    for attempt in range(DRAFTS):
        reply = await ask(
            template,
            role="judge",
            schema=schema,
            sample=attempt,
            problems=bullets(problems),
            planned=planned,
            **variables,
        )
        draft: M = reply.data
        checked = check(draft)
        problems = checked if isinstance(checked, Sequence) else await checked
        if not problems:
            return draft
    raise Unanswered(Status.UNPARSED, f"all {DRAFTS} drafts failed the checks: {'; '.join(problems)}", reply)


def filler(item: Item, count: int) -> str:
    """Write `count` words that are different for each item, and pass for English: a text of a dry run."""
    return " ".join([*words(item.id), *["the", "drawing"] * count][:count])


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
    """Check that a prompt is in English: by its letters, and in a long one by the share of the commonest words."""
    letters = [character for character in text if character.isalpha()]
    in_text = words(text)
    foreign = sum(not character.isascii() for character in letters) > 0.1 * len(letters)
    unusual = len(in_text) >= _LONG_ENOUGH and sum(word in _COMMON for word in in_text) < 0.1 * len(in_text)
    return ["it is not in English"] if foreign or unusual else []


def keeps(text: str, phrase: str) -> bool:
    """Return True if a text has every word of a phrase, in any inflection and order."""
    return _stems(text).issuperset(_stems(phrase))


def kept_share(text: str, block: str) -> float:
    """Compute the share of a block's longer words that a text has, in any inflection."""
    stems = {_stem(word) for word in words(block) if len(word) > 4}
    return len(stems & _stems(text)) / len(stems) if stems else 1.0


def _stems(text: str) -> set[str]:
    return set(map(_stem, words(text)))


def _stem(word: str) -> str:
    """Strip the commonest English inflections."""
    for ending in ("ing", "ies", "ied", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3:
        word = word.rstrip("ey")
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word  # running, run
