"""The loop of a run: every item through every metric, many at a time, and well stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from titjudge.core.errors import BudgetHeld, CacheWriteError, FatalProviderError
from titjudge.core.types import InvalidItem, Item, Score
from titjudge.engine.pipeline import BudgetExhausted, Engine, Interrupted
from titjudge.engine.scoring import Panel
from titjudge.metrics import Metric
from titjudge.runs.score_digests import compares, mark


def prepared(items: Iterable[Item | InvalidItem], metrics: Mapping[str, Metric]) -> Iterable[Item | InvalidItem]:
    """Give the items as the metrics need them: with the other images of their prompt, for those that compare images."""
    if not any(map(compares, metrics.values())):
        return items
    listed = list(items)
    by_prompt: dict[str, list[Item]] = {}
    for item in listed:
        if isinstance(item, Item):
            by_prompt.setdefault(item.prompt_id, []).append(item)
    return [
        replace(item, same_prompt=tuple(by_prompt[item.prompt_id])) if isinstance(item, Item) else item
        for item in listed
    ]


@dataclass(slots=True)
class Progress:
    """Where a run stands. `total` is None while the items are still being counted."""

    total: int | None = None
    done: int = 0
    resumed: int = 0
    scored: int = 0
    failed: int = 0
    bad: int = 0
    started: float = field(default_factory=time.monotonic)
    status: str = "running"


class RunLoop:
    """Puts every item through every metric, many at a time, and stops well.

    Args:
        engine: where questions go. planner: a dry-run engine that prices an item before it starts, when there is a cap.
        done: (item id, metric) pairs that have their score already.
        on_score: called with each score as it comes, and the mark of what was judged (`titjudge.runs.score_digests`).
    """

    def __init__(
        self,
        engine: Engine,
        metrics: Mapping[str, Metric],
        *,
        panel: Panel | None = None,
        planner: Any = None,
        done: set[tuple[str, str]] | None = None,
        on_score: Callable[[Score, str], None],
        in_flight: int = 64,
    ) -> None:
        self.engine, self.metrics, self.planner = engine, metrics, planner
        self.panel = panel or Panel()
        self.progress = Progress()
        self._done = done or set()
        self._on_score = on_score
        self._in_flight = in_flight
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []
        self._reason = ""
        self._ended = "complete"

    def until(self, decided: Callable[[Score], bool], in_flight: int) -> None:
        """End the run when `decided` says so of a score that has come, with at most so many items under way then."""
        self._in_flight = min(self._in_flight, in_flight)
        keep = self._on_score

        def on_score(score: Score, of: str) -> None:
            keep(score, of)
            if decided(score):
                self.settle()

        self._on_score = on_score

    def settle(self) -> None:
        """Ask nothing more: what was to be found out is known, and the status is `settled`."""
        self._closed, self._reason, self._ended = True, "", "settled"
        self.engine.stop()

    async def before(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that belongs to the run before its items, and ends with it.

        Raises:
            FatalProviderError: as `run`.
        """
        self._tasks = [asyncio.create_task(work)]
        try:
            await self._tasks[0]
        except (Interrupted, asyncio.CancelledError):
            if not self._closed:
                raise

    async def run(self, items: Iterable[Item | InvalidItem]) -> str:
        """Judge all items; returns the status: complete, settled, or `incomplete: ` budget, interrupted, disk.

        Raises:
            FatalProviderError: a key, a quota or a model name is wrong. What was answered before is kept.
        """
        source = iter(prepared(items, self.metrics))
        self._tasks = [asyncio.create_task(self._worker(source)) for _ in range(self._in_flight)]
        try:
            for task in asyncio.as_completed(self._tasks):
                await task
        except BaseException:
            self.close("interrupted")
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            raise
        if self.engine.fatal is not None:
            raise self.engine.fatal
        if self.engine.sender.disk is not None:
            self.close(f"disk ({self.engine.sender.disk})")
        self.progress.status = f"incomplete: {self._reason}" if self._reason else self._ended
        return self.progress.status

    def close(self, reason: str) -> None:
        """Take no new item. With `interrupted`, send no new question either."""
        self._closed = True
        self._reason = self._reason or reason
        if reason != "budget":
            self.engine.stop()

    def kill(self) -> None:
        self.engine.killed = True
        for task in self._tasks:
            task.cancel()

    async def _worker(self, source: Iterator[Item | InvalidItem]) -> None:
        while not self._closed and not self.engine.stopping:
            item = next(source, None)
            if item is None:
                return
            if isinstance(item, InvalidItem):
                self.progress.bad += 1
                self.progress.done += 1
                continue
            mine = {name: metric for name, metric in self.metrics.items() if metric.applies(item)}
            todo = {name: metric for name, metric in mine.items() if (item.id, name) not in self._done}
            self.progress.resumed += bool(mine) and not todo
            self.progress.done += not todo
            if todo:
                await self._judge(item, todo)
            else:
                await asyncio.sleep(0)

    async def _judge(self, item: Item, todo: Mapping[str, Metric]) -> None:
        # Before: an image may change meanwhile. Metrics differ only in whether they compare images.
        of = {compares(metric): mark(item, metric) for metric in {compares(m): m for m in todo.values()}.values()}
        marks = {name: of[compares(metric)] for name, metric in todo.items()}
        held: BudgetHeld | None = None
        while todo:
            results = await self._measured(item, todo, held)
            waits = {name: result for name, result in results.items() if isinstance(result, BudgetHeld)}
            for name, result in results.items():  # in the order of the metrics: tables follow it
                if name not in waits:
                    self._take(result, marks[name])
            todo = {name: todo[name] for name in waits}
            held = max(waits.values(), key=lambda each: each.cost, default=None)
        self.progress.done += 1

    async def _measured(
        self, item: Item, todo: Mapping[str, Metric], held: BudgetHeld | None
    ) -> dict[str, list[Score] | BaseException]:
        """Score one item by each metric, or say why there is no score; `held` when it has stepped back for lack of room before."""
        reservation = None
        try:
            if self.planner is not None:
                reservation = await self.planner.reserve(item, todo, self.engine.budget, held)
            results = await asyncio.gather(
                *(self.panel.score(self.engine, item, name, metric, reservation) for name, metric in todo.items()),
                return_exceptions=True,
            )
            return dict(zip(todo, results, strict=True))
        except BudgetExhausted as error:
            return dict.fromkeys(todo, error)
        finally:
            if reservation is not None:
                reservation.release()

    def _take(self, result: list[Score] | BaseException, of: str) -> None:
        if isinstance(result, list):
            try:
                for score in result:
                    self._on_score(score, of)
            except OSError as error:  # its answers are kept: the score comes again for nothing
                self.close(f"disk (the run folder cannot be written: {error.strerror})")
                return
            self.progress.scored += result[0].value is not None
            self.progress.failed += result[0].value is None
        elif isinstance(result, BudgetExhausted):
            self.close("budget")
        elif isinstance(result, CacheWriteError):
            self.close(f"disk ({result})")
        elif isinstance(result, FatalProviderError):
            self._closed = True
        elif isinstance(result, Interrupted):
            pass
        else:
            raise result
