"""Scores as they come, or all of them: what `Judge.ascore_many` returns."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator
from types import TracebackType
from typing import Any

from titjudge.runs.judged_scores import JudgedScore, Scores


class ScoreStream(Coroutine[Any, Any, Scores], AsyncIterator[JudgedScore]):
    """`await` it for all scores in order, or iterate over it with `async for` for each as it comes; either, once."""

    def __init__(self, scores: AsyncGenerator[JudgedScore, None]) -> None:
        self._scores = scores
        self._all: Coroutine[Any, Any, Scores] | None = None

    def __aiter__(self) -> ScoreStream:
        return self

    async def __anext__(self) -> JudgedScore:
        return await anext(self._scores)

    async def aclose(self) -> None:
        """Ask nothing more; what was asked is awaited and kept."""
        await self._scores.aclose()

    def __await__(self) -> Generator[Any, Any, Scores]:
        return self._collect().__await__()

    async def _collect(self) -> Scores:
        try:
            found = [score async for score in self._scores]
        finally:
            await self._scores.aclose()
        return Scores(tuple(sorted(found, key=lambda score: score.number)))  # stable: metrics keep their order

    # As a coroutine, for `asyncio.run(judge.ascore_many(...))` and `asyncio.create_task`.

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
