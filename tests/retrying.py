"""The retry loop around anything that sends, as the sender writes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from titjudge.core.errors import TitjudgeError
from titjudge.core.types import Failure
from titjudge.engine import retry

T = TypeVar("T")


async def call(send: Callable[[], Awaitable[T]], *, on_failure: Callable[[Failure, int], None], **options: Any) -> T:
    """Send until there is an answer or no point; exceptions of `send` carry their `failure`."""
    state, number = retry.RetryState(**options), 0
    try:
        async for attempt in state.attempts():
            with attempt:
                number += 1
                try:
                    answer = await send()
                except TitjudgeError:
                    raise
                except Exception as error:
                    on_failure(error.failure, number)  # type: ignore[attr-defined]
                    raise retry.AttemptFailed(error.failure) from error  # type: ignore[attr-defined]
    except retry.AttemptFailed as error:
        raise state.terminal_error(error.failure) from error.__cause__
    return answer
