"""What several metrics do: insist on an image, wait for several answers, know a dry run's stand-ins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

from titjudge.core.dry_run import STAND_IN
from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import PromptRead
from titjudge.core.types import Ask, Item, Reply, Status

T = TypeVar("T")


def image_of(item: Item) -> Path:
    """Return the image of an item.

    Raises:
        Unanswered: it has none; the item's score then says so.
    """
    if item.image is None:
        raise Unanswered(Status.BAD_INPUT, "this metric needs an image")
    return item.image


async def gather_answers(*questions: Awaitable[T]) -> list[T | Unanswered]:
    """Ask several questions at once and return the answers in order, an `Unanswered` where there is none.

    Anything else that goes wrong is raised, once all have ended: what is under way is paid for and belongs in the cache.
    """
    answers: list[T | Unanswered] = []
    for result in await asyncio.gather(*questions, return_exceptions=True):
        if isinstance(result, BaseException) and not isinstance(result, Unanswered):
            raise result
        answers.append(result)
    return answers


def is_stand_in(ask: Ask, reply: Reply) -> bool:
    """Tell whether a dry run made this reply up. One that it found in the cache is real."""
    return ask.dry_run is not None and reply.model_version == STAND_IN


def prompt_read(used: int, total: int) -> tuple[PromptRead, str]:
    """Tell how many tokens of the prompt a model read of how many, and in words where it did not read them all."""
    read = PromptRead(prompt_tokens_used=used, prompt_tokens=total, cut=used < total)
    return read, f"only {used} of {total} tokens of the prompt were read" if read["cut"] else ""
