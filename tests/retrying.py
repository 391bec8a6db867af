"""The retry loop around anything that sends, as the sender writes it."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from titjudge.core.errors import TitjudgeError
from titjudge.core.types import Failure
from titjudge.engine import retry

T = TypeVar("T")


async def call(send: Callable[[], Awaitable[T]], *, on_failure: Callable[[Failure, int], None], **options: Any) -> T:
    """Send until there is an answer or no point; exceptions of `send` carry their `failure`."""
    async for attempt in retry.retrying(**options):
        with attempt:
            try:
                answer = await send()
            except TitjudgeError:
                raise
            except Exception as error:
                failure: Failure = error.failure  # type: ignore[attr-defined]
                on_failure(failure, attempt.retry_state.attempt_number)
                if failure.kind.may_pass:
                    raise retry.AttemptFailed(failure) from error
                raise retry.terminal_error(failure) from error
    return answer
