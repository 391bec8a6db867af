"""Micro-batching: calls that arrive together run together, in one worker thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def halve_on_failure(
    batch: list[T],
    run: Callable[[list[T]], Sequence[R | Exception]],
    *,
    may_halve: Callable[[Exception], bool] = lambda error: True,
) -> list[R | Exception]:
    """Run a batch; where it fails as a whole, run its halves, down to the one element that fails.

    Args:
        batch: The elements.
        run: Returns one result or exception for each element.
        may_halve: Whether smaller batches may pass after this exception; otherwise all elements get it.
    """
    try:
        return list(run(batch))
    except Exception as error:
        if len(batch) == 1 or not may_halve(error):
            return [error] * len(batch)
    middle = len(batch) // 2
    halves = (batch[:middle], batch[middle:])
    return [result for half in halves for result in halve_on_failure(half, run, may_halve=may_halve)]


class MicroBatcher(Generic[T, R]):
    """Collects `submit` calls and hands them to `run` as one list.

    Args:
        run: Returns one result or exception for each element of a list; called in a thread, one call at a time.
        max_batch: The longest list handed over.
        idle: Seconds without a new call after which a list is handed over. While `run` works, calls collect.
    """

    def __init__(
        self, run: Callable[[list[T]], Sequence[R | Exception]], max_batch: int = 1024, idle: float = 0.005
    ) -> None:
        self._run, self._max, self._idle = run, max_batch, idle
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._worker: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="titjudge-batch")

    async def submit(self, element: T) -> R:
        """Run one element, in a batch with others, and return its result."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((element, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        """Hand over one list after the other until no call waits."""
        while self._waiting:
            last_count = -1
            while len(self._waiting) != last_count and len(self._waiting) < self._max:
                last_count = len(self._waiting)
                await asyncio.sleep(self._idle)
            batch, self._waiting = self._waiting[: self._max], self._waiting[self._max :]
            batch = [(element, future) for element, future in batch if not future.done()]
            if not batch:
                continue
            try:
                results = await asyncio.get_running_loop().run_in_executor(
                    self._threads, self._run, [element for element, _ in batch]
                )
            except Exception as error:
                results = [error] * len(batch)
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def close(self) -> None:
        """Start no further batch."""
        self._threads.shutdown(wait=False, cancel_futures=True)
