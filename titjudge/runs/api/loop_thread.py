"""An event loop in a separate thread, for work from any thread, inside an event loop or outside.

A fork waits until these threads are idle, so that the child inherits no lock of them; the child has none of the threads,
and starts new ones. At the end of the process each thread closes what it works with.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

from titjudge.core.errors import UserError

T = TypeVar("T")
_PAUSE = 5.0  # seconds that a fork waits for a thread to be idle
_END: Final = object()
_running: set[LoopThread] = set()
_paused: list[threading.Event] = []
_inherited: list[Any] = []  # of the parent process: closing its sockets here would disturb the parent's event loop
CLOSED = "the judge was closed before this was judged. Make another Judge"


class _Job(Generic[T]):
    """Work in the thread of a `LoopThread`."""

    def __init__(self) -> None:
        self.outcome: Future[T] = Future()
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False

    def begin(self, work: Coroutine[Any, Any, T], tasks: set[asyncio.Task[Any]]) -> None:
        self._task = asyncio.get_running_loop().create_task(work)
        tasks.add(self._task)
        self._task.add_done_callback(tasks.discard)
        self._task.add_done_callback(self._finish)
        if self._cancelled:
            self._task.cancel()

    def cancel(self) -> None:
        """End the work; called in its thread."""
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.set_exception(UserError(CLOSED))
        elif error := task.exception():
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


class LoopThread:
    """Runs coroutines in the event loop of a daemon thread, which starts at once.

    Args:
        at_end: The last action of the thread, in its event loop.
    """

    def __init__(self, at_end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._at_end = at_end
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lock = threading.Lock()
        self._asked_to_end = asyncio.Event()
        self._closed = False
        self._over: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="titjudge", daemon=True)
        _running.add(self)
        _close_with_the_process()
        self._thread.start()

    @property
    def closed(self) -> bool:
        """Whether it takes no more work."""
        return self._closed

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._over.done()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result. Ctrl-C cancels it and waits for its end; a second one does not wait.

        Raises:
            UserError: It was called in the thread itself, which would wait for itself, or the thread was closed.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise UserError("a metric cannot wait for a judge. Use `await judge.ascore(...)` of another Judge")
        job = self._start(work)
        try:
            return job.outcome.result()
        except BaseException:
            if not job.outcome.done():
                self._soon(job.cancel)
                concurrent.futures.wait([job.outcome])
            raise

    async def stream(self, values: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Iterate over `values` in the thread, and yield them in the event loop that runs here.

        When this generator is closed early, `values` is cancelled in the thread, which keeps the answers on their way.
        """
        here, arrived = asyncio.get_running_loop(), asyncio.Queue[Any]()

        def hand_over(value: Any) -> None:
            with contextlib.suppress(RuntimeError):  # the other event loop is closed
                here.call_soon_threadsafe(arrived.put_nowait, value)

        async def pump() -> None:
            async with contextlib.aclosing(values):
                async for value in values:
                    hand_over(value)

        job = self._start(pump())
        job.outcome.add_done_callback(lambda _: hand_over(_END))
        try:
            while (value := await arrived.get()) is not _END:
                yield value
            job.outcome.result()
        finally:
            if not job.outcome.done():
                self._soon(job.cancel)

    def end(self) -> None:
        """Take no more work, cancel what goes on, run `at_end`, and end the thread; does not wait for that."""
        self._soon(self._asked_to_end.set)

    def close(self) -> None:
        """End the thread as `end` does and, outside of it, wait until it has ended; raises what `at_end` has raised."""
        self.end()
        if threading.current_thread() is not self._thread:
            self._over.result()
            self._thread.join()

    async def aclose(self) -> None:
        """Do as `close` without blocking the event loop that runs here."""
        self.end()
        if threading.current_thread() is not self._thread:
            await asyncio.wrap_future(self._over)

    def _start(self, work: Coroutine[Any, Any, T]) -> _Job[T]:
        job = _Job[T]()
        with self._lock:
            if not self._closed:
                self._loop.call_soon_threadsafe(job.begin, work, self._tasks)
                return job
        work.close()
        raise UserError(CLOSED)

    def _soon(self, callback: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the thread has ended
            self._loop.call_soon_threadsafe(callback)

    # -- in the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        executor = ThreadPoolExecutor(thread_name_prefix="titjudge-work")
        self._loop.set_default_executor(executor)
        try:
            self._loop.run_until_complete(self._asked_to_end.wait())
        finally:
            failed: BaseException | None = None
            try:
                self._loop.run_until_complete(self._leave())
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            except BaseException as error:  # for `close`
                failed = error
            executor.shutdown(cancel_futures=True)
            self._loop.close()
            _running.discard(self)
            if failed is None:
                self._over.set_result(None)
            else:
                self._over.set_exception(failed)

    async def _leave(self) -> None:
        with self._lock:
            self._closed = True
        await asyncio.sleep(0)  # earlier work begins, to be cancelled
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._at_end()

    # -- in a fork -------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Hold the thread between two steps of its event loop, until the fork that is going on is over."""
        if threading.current_thread() is self._thread:
            return
        stands, over = threading.Event(), threading.Event()

        def stand() -> None:
            stands.set()
            over.wait()

        _paused.append(over)
        self._soon(stand)
        stands.wait(_PAUSE if self._thread.is_alive() else 0)


def _before_fork() -> None:
    for thread in tuple(_running):
        thread.pause()


def _after_in_parent() -> None:
    while _paused:
        _paused.pop().set()


def _after_in_child() -> None:
    _inherited.extend(_running)
    _running.clear()
    _paused.clear()


def _close_with_the_process() -> None:
    """Close the threads at the end of a child of `multiprocessing`, too, which does not run the functions of `atexit`."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _close_all, exitpriority=10)


@atexit.register
def _close_all() -> None:
    for thread in tuple(_running):
        with contextlib.suppress(Exception):  # no caller is left to get the exception
            thread.close()


os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
