"""The result of `Judge.ascore_many`: scores as they come, or all of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator
from contextlib import aclosing
from types import TracebackType
from typing import Any

from titjudge.runs.api.judged_scores import JudgedScore, Scores


class ScoreStream(Coroutine[Any, Any, Scores], AsyncIterator[JudgedScore]):
    """Scores to `await`, all of them in order, or to iterate over with `async for`, each as it comes; only once."""

    def __init__(self, scores: AsyncGenerator[JudgedScore, None]) -> None:
        self._scores = scores
        self._all: Coroutine[Any, Any, Scores] | None = None

    def __aiter__(self) -> ScoreStream:
        return self

    async def __anext__(self) -> JudgedScore:
        return await anext(self._scores)

    async def aclose(self) -> None:
        """Ask nothing more; the answers in flight are awaited and kept."""
        await self._scores.aclose()

    def __await__(self) -> Generator[Any, Any, Scores]:
        return self._collect().__await__()

    def _collect(self) -> Coroutine[Any, Any, Scores]:
        return collected(self._scores)

    # The methods of a coroutine, for `asyncio.run(judge.ascore_many(...))` and `asyncio.create_task`.

    def send(self, value: Any) -> Any:
        self._all = self._all or self._collect()
        return self._all.send(value)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> Any:
        self._all = self._all or self._collect()
        return self._all.throw(kind if isinstance(kind, BaseException) else value or kind)  # type: ignore[call-overload]

    def close(self) -> None:
        if self._all is not None:
            self._all.close()


async def collected(stream: AsyncGenerator[JudgedScore, None]) -> Scores:
    """Return all scores in the order of their images."""
    async with aclosing(stream):
        scores = [score async for score in stream]
    return Scores(tuple(sorted(scores, key=lambda score: score.number)))  # stable: metrics keep their order
