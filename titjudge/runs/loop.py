"""The loop of a run: score every item by every metric, many at a time, and stop without losing answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from titjudge.core.errors import BudgetHeld, CacheWriteError, FatalProviderError
from titjudge.core.grouping import grouped
from titjudge.core.types import InvalidItem, Item, Score
from titjudge.engine.forecast import Planner
from titjudge.engine.pipeline import BudgetExhausted, Engine, Interrupted
from titjudge.engine.rate_limiter import PLACE, PromptTurn
from titjudge.engine.scoring import Panel
from titjudge.metrics import Metric
from titjudge.runs.folder.run_folder import compares_images, digest_of


def prepared(items: Iterable[Item | InvalidItem], metrics: Mapping[str, Metric]) -> Iterable[Item | InvalidItem]:
    """Add to each item the images of its prompt, if a metric compares images; otherwise return the items unchanged."""
    if not any(map(compares_images, metrics.values())):
        return items
    listed = list(items)
    by_prompt = grouped((item for item in listed if isinstance(item, Item)), lambda item: item.prompt_id)
    return [
        replace(item, same_prompt=tuple(by_prompt[item.prompt_id])) if isinstance(item, Item) else item
        for item in listed
    ]


_ENOUGH = 5  # judged items after which their answers predict the others better than a plan


@dataclass(slots=True)
class Progress:
    """Counts of a run in progress.

    Attributes:
        total: Items; None while they are being counted.
        begun: Items of this session that are judged or under way: neither bad nor resumed.
        done: Items that nothing is left to do for.
        resumed: Of those, the ones that earlier sessions have judged.
        scored: Scores with a value.
        failed: Scores without one.
        bad: Items that cannot be judged.
        answers: Questions of this session, by item, that are answered, by a model or the cache, or will not be.
        answers_of_judged: Of those, the ones about items that are judged.
        by_metric: Scores with a value in this session, by metric.
        waits: Reasons why questions and texts wait, one line each (`Engine.waits`).
        planned: Questions that an item is likely to ask; None if unknown.
        started: When the session began, by `time.monotonic`.
    """

    total: int | None = None
    begun: int = 0
    done: int = 0
    resumed: int = 0
    scored: int = 0
    failed: int = 0
    bad: int = 0
    answers: int = 0
    answers_of_judged: int = 0
    by_metric: dict[str, int] = field(default_factory=dict)
    waits: list[str] = field(default_factory=list)
    planned: float | None = None
    started: float = field(default_factory=time.monotonic)
    status: str = "running"

    def count(self, score: Score) -> None:
        """Count a score of an item that is done with it."""
        self.done += 1
        self.scored += score.value is not None
        self.failed += score.value is None

    @property
    def judged(self) -> int:
        """Items that were judged in this session."""
        return self.done - self.resumed - self.bad

    @property
    def expected(self) -> int | None:
        """Answers that this session is likely to get in all; None if unknown."""
        per_item = self.answers_of_judged / self.judged if self.judged >= _ENOUGH else self.planned
        if self.total is None or per_item is None:
            return None
        others = max(round(per_item * (self.total - self.done)), self.answers - self.answers_of_judged)
        return self.answers_of_judged + others


async def score_reserved(
    engine: Engine,
    panel: Panel,
    planner: Planner | None,
    item: Item,
    todo: Mapping[str, Metric],
    held: BudgetHeld | None = None,
) -> tuple[dict[str, list[Score] | BaseException], BudgetHeld | None]:
    """Score one item by each metric within what the planner reserves for it.

    Args:
        engine: Sends the questions.
        panel: The judges.
        planner: Reserves a part of the cap; None reserves nothing.
        item: The item to judge.
        todo: The metrics.
        held: Why the results of the last call have no score for some metrics.

    Returns:
        The scores or the error of each metric, without metrics that do not fit under the cap because of other items, and
        why: call again for them.
    """
    reservation = None
    try:
        if planner is not None:
            with suppress(BudgetExhausted):  # answers from the cache cost nothing
                reservation = await planner.reserve(item, todo, engine.budget, held)
        results = await asyncio.gather(
            *(panel.score(engine, item, name, metric, reservation) for name, metric in todo.items()),
            return_exceptions=True,
        )
    finally:
        if reservation is not None:
            reservation.release()
    waiting = [result for result in results if isinstance(result, BudgetHeld)]
    named = {name: result for name, result in zip(todo, results, strict=True) if not isinstance(result, BudgetHeld)}
    return named, max(waiting, key=lambda error: error.cost, default=None)


class RunLoop:
    """Scores every item by every metric, `in_flight` items at a time.

    Args:
        planner: Estimates what an item may cost before it starts; needed if there is a cap.
        done: (item id, metric) pairs that have their score already.
        on_score: Called with each score as it comes, and the digest of the judged input (`titjudge.runs.folder.run_folder`).
    """

    def __init__(
        self,
        engine: Engine,
        metrics: Mapping[str, Metric],
        *,
        panel: Panel | None = None,
        planner: Planner | None = None,
        done: set[tuple[str, str]] | None = None,
        on_score: Callable[[Score, str], None],
        in_flight: int = 64,
        progress: Progress | None = None,
    ) -> None:
        self.engine, self.metrics, self.planner = engine, metrics, planner
        self.panel = panel or Panel()
        self.progress = progress or Progress()
        self.progress.by_metric |= dict.fromkeys(metrics, 0)
        self._done = done or set()
        self._answered: dict[str, set[str]] = {}  # keys of questions, by item under way
        engine.on_answer = self._count_answer
        self._on_score = on_score
        self._in_flight = in_flight
        self._ahead: Callable[[], int] | None = None
        self._judging, self._judged = 0, asyncio.Event()  # items under way; whether one has ended since
        self._places, self._place = count(), ("", PromptTurn(0))  # of the last prompt
        self._tasks: list[asyncio.Task[None]] = []
        self._reason = ""
        self._ended = "complete"

    def until(self, decided: Callable[[Score], bool], ahead: Callable[[], int], in_flight: int) -> None:
        """End the run as soon as `decided` is true of a score.

        Args:
            decided: Tells whether the question of the run has its answer.
            ahead: Counts the items begun that cannot be used yet, as an earlier one is not judged; while these are twice
                as many as may be in flight, none is begun.
            in_flight: The most items that are worked on at a time.
        """
        self._in_flight, self._ahead = min(self._in_flight, in_flight), ahead
        store = self._on_score

        def on_score(score: Score, digest: str) -> None:
            store(score, digest)
            if decided(score):
                self.settle()

        self._on_score = on_score

    def _count_answer(self, item: str, key: str) -> None:
        keys = self._answered.setdefault(item, set())
        self.progress.answers += key not in keys
        keys.add(key)

    def settle(self) -> None:
        """Ask nothing more, as the question of the run has its answer; the status becomes `settled`."""
        self._reason, self._ended = "", "settled"
        self.engine.stop()

    async def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Await work that comes before or after the items and is stopped like them.

        Raises:
            FatalProviderError: As `run`.
        """
        self._tasks = [asyncio.create_task(work)]
        try:
            await self._tasks[0]
        except (Interrupted, asyncio.CancelledError):
            if not self.engine.sender.stopping:
                raise

    async def run(self, items: Iterable[Item | InvalidItem]) -> str:
        """Judge all items; returns the status: complete, settled, or `incomplete: ` budget, interrupted, disk.

        Raises:
            FatalProviderError: A key, a quota or a model name is wrong; answers up to then are kept.
        """
        source = iter(prepared(items, self.metrics))
        workers = min(self._in_flight, self.progress.total or self._in_flight)
        self._tasks = [asyncio.create_task(self._worker(source)) for _ in range(workers)]
        try:
            for task in asyncio.as_completed(self._tasks):
                await task
        except BaseException:
            self.close("interrupted")
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            raise
        if (fatal := self.engine.sender.fatal) is not None:
            if any(role.tally.asked for role in self.engine.roles.open()):
                fatal = FatalProviderError(f"{fatal}. All answers so far are kept: to continue, run the command again")
            raise fatal
        if (disk := self.engine.sender.disk or self.engine.flush()) is not None:
            self.close(f"disk ({disk})")
        if self._reason == "interrupted" and self.progress.done == self.progress.total:
            self._reason = ""  # the last answers came after Ctrl-C
        self.progress.status = f"incomplete: {self._reason}" if self._reason else self._ended
        return self.progress.status

    def _goes_on(self) -> bool:
        """Whether a further item may begin: after Ctrl-C, while the last prompt is begun.

        After the cap, only if answers came from the cache, as more may be there.
        """
        sender = self.engine.sender
        if sender.stopping and not (sender.finishing and self._place[1].begun):
            return False
        return self._reason != "budget" or any(role.tally.cached for role in self.engine.roles.open())

    def close(self, reason: str) -> None:
        """Start no new item. After `budget`, items that the cache may answer still begin; otherwise no new question is sent."""
        self._reason = self._reason or reason
        if reason != "budget":
            self.engine.stop()

    def finish(self) -> str:
        """Begin no further prompt, and score images of begun prompts for some time; returns a line for the user."""
        self._reason = self._reason or "interrupted"
        return self.engine.finish()

    def kill(self) -> None:
        """Cancel everything at once."""
        self.engine.killed = True
        for task in self._tasks:
            task.cancel()

    async def _worker(self, source: Iterator[Item | InvalidItem]) -> None:
        while self._goes_on():
            if self._ahead is not None and self._judging and self._ahead() >= 2 * self._in_flight:
                self._judged.clear()
                await self._judged.wait()
                continue
            item = next(source, None)
            if item is None:
                return
            if isinstance(item, InvalidItem):
                self.progress.bad += 1
                self.progress.done += 1
                continue
            applying = {name: metric for name, metric in self.metrics.items() if metric.applies(item)}
            todo = {name: metric for name, metric in applying.items() if (item.id, name) not in self._done}
            self.progress.resumed += bool(applying) and not todo
            self.progress.done += not todo
            if todo:
                self.progress.begun += 1
                if self._place[0] != item.prompt_id:
                    self._place = (item.prompt_id, PromptTurn(next(self._places)))
                PLACE.set(self._place[1])
                self._judging += 1
                try:
                    await self._judge(item, todo)
                finally:
                    self._judging -= 1
                    self._judged.set()
            else:
                await asyncio.sleep(0)

    async def _judge(self, item: Item, todo: Mapping[str, Metric]) -> None:
        # Before anything is asked, as the image may change meanwhile. All metrics of one scope share a digest.
        by_scope = {compares_images(metric): metric for metric in todo.values()}
        of_scope = {scope: digest_of(item, metric) for scope, metric in by_scope.items()}
        digests = {name: of_scope[compares_images(metric)] for name, metric in todo.items()}
        held: BudgetHeld | None = None
        judged = True
        while todo:
            planner = None if self._reason == "budget" else self.planner
            results, held = await score_reserved(self.engine, self.panel, planner, item, todo, held)
            for name, result in results.items():  # in the order of the metrics: tables follow it
                self._store(result, digests[name])
                judged &= isinstance(result, list)
            todo = {name: metric for name, metric in todo.items() if name not in results}
        answers = len(self._answered.pop(item.id, ()))
        if judged:
            self.progress.done += 1
            self.progress.answers_of_judged += answers
        else:
            self.progress.begun -= 1

    def _store(self, result: list[Score] | BaseException, digest: str) -> None:
        """Store the scores of an item by one metric, or end the run for the error that came instead."""
        if isinstance(result, list):
            try:
                for score in result:
                    self._on_score(score, digest)
            except OSError as error:  # its answers are kept: the next session computes the score again for nothing
                self.close(f"disk (the run folder cannot be written: {error.strerror})")
                return
            self.progress.scored += result[0].value is not None
            self.progress.by_metric[result[0].metric] += result[0].value is not None
            self.progress.failed += result[0].value is None
        elif isinstance(result, BudgetExhausted):
            self.close("budget")
        elif isinstance(result, CacheWriteError):
            self.close(f"disk ({result})")
        elif not isinstance(result, FatalProviderError | Interrupted):  # after these nothing more is sent
            raise result
