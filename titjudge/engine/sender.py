"""Send one paid request: reserve in the budget -> a slot -> the ledger -> send (retry) -> the bill -> the ledger.

Descriptions, judgements and vectors all go this way; a `Role` sends the request and computes the cost of an answer. A
request is written into the ledger with its worst case before it is sent, and settled afterwards. So whatever stops the
process in between, the next one finds what may have been billed.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from titjudge.core.errors import CacheWriteError, FatalProviderError, TitjudgeError, Unanswered
from titjudge.core.redaction import CODE_FAULTS, code_fault
from titjudge.core.types import NO_ANSWER, Failure, FailureKind, Json, Reply, Status, Usage
from titjudge.engine import retry
from titjudge.engine.budget import Bill, Budget, Hold, Reservation
from titjudge.engine.rate_limiter import PLACE, RateLimiter
from titjudge.engine.roles import A, M, Q, Role
from titjudge.providers.base import Sending, watched_sending

logger = logging.getLogger(__name__)

Journal = Callable[[str, Json], None]
_MAX_SILENT = 64  # requests without any reply after which a server that never answered counts as out of reach
_MAX_UNREACHABLE = 10.0  # seconds of refused connections, and nothing else, after which it counts so as well
_MAX_BARRED = 8  # different items in a row that an address bars, or puts off, before it counts as out of reach for all
_MAX_ALIKE = 8  # different items that failed alike, and no answer yet, before the same is expected of all
GRACE = 30.0  # seconds in which prompts that are begun get their answers after the first Ctrl-C
STOPPING = (
    f"stopping: finishing begun prompts; after {GRACE:g} s only sent requests are awaited (once more to stop at once)"
)
_TICK = 0.25  # seconds between two looks whether any of these answers can still be asked for
_SILENCE = 10.0  # seconds of failures alone after which a warning is printed
_LONGEST_PAUSE = 60.0  # seconds between attempts to recover from fatal failures
_MAX_ALIKE_LATER = 32  # in a row, if there were answers before
_SURE, _MAX_PASSING = 3, 128  # times that each of them must meet a fault that might pass, or all together
_VARIES = re.compile(
    r"""https?://\S+|(["'`]).*?\1|\S*\d\S*"""
)  # of the text of an error: addresses, quotations, numbers


def classified(role: Role[Any, Any, Any], error: Exception) -> Failure:
    """Classify an error of a provider, and count it; a fault in code gets its file and line, and its traceback is logged."""
    failure: Failure = role.provider.classify(error)
    if isinstance(error, CODE_FAULTS):
        failure = replace(failure, message=code_fault(error))
        logger.warning("%(role)s: %(fault)s", {"role": role.label, "fault": failure.message}, exc_info=error)
    role.tally.errors += 1
    role.tally.trouble = failure.message
    return failure


class Interrupted(TitjudgeError):
    """The run is ending; this question was not sent."""


@dataclass(slots=True)
class _Reach:
    """Whether an address can be reached. The failures are those since it last answered well, or since the start.

    Attributes:
        answered: Whether it has answered well.
        since: When the first failure came, on the monotonic clock.
        silent: Number of requests without any reply.
        put_off: Items in a row that met a fault that may pass.
        faults: Number of failures in all.
        barred: Items in a row that it refused as it would refuse all (`FailureKind.BARRED`).
    """

    answered: bool = False
    since: float | None = None
    silent: int = 0
    put_off: set[str] = field(default_factory=set)
    faults: int = 0
    barred: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Alike:
    """The failures of a role since its last good answer.

    Attributes:
        answered: Whether the role has had a good answer.
        refused: How often each item was refused, by the common part of the refusals.
        unusable: Why the paid answer of an item cannot be used, by item.
        put_off: Items that met an outage, or another fault that may pass.
    """

    answered: bool = False
    put_off: set[str] = field(default_factory=set)
    refused: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    unusable: dict[str, str] = field(default_factory=dict)


class _Protection:
    """Keep the running task in `protected` inside a `with` block; a class, as a generator costs more and this runs often."""

    __slots__ = ("_protected",)

    def __init__(self, protected: set[asyncio.Task[Any]]) -> None:
        self._protected = protected

    def __enter__(self) -> None:
        if task := asyncio.current_task():
            self._protected.add(task)

    def __exit__(self, *_: object) -> None:
        if task := asyncio.current_task():
            self._protected.discard(task)


class Sender:
    """Sends the paid requests of one run.

    Args:
        budget: The caps.
        journal: Writes a line into the run folder; None writes nothing.
        on_fatal: Called once `fatal` or `disk` is set.
        policy: How often and how long a request is repeated.

    Attributes:
        stopping: Nothing new is sent.
        finishing: While `stopping`, prompts that are begun (`PromptTurn.begun`) still get their answers.
        fatal: The failure after which nothing more is sent; None if there was none.
        disk: Why the run folder cannot be written; None while it can. Nothing more is sent then.
        recovers: After `fatal`, a later question is sent again: at once with another key, otherwise after a pause.
        well_known: An earlier session had good answers, so that an address that refuses an item works for others.
        not_dropped: Context in which the running task is not cancelled when the run ends: it has sent or paid something.
    """

    def __init__(
        self,
        budget: Budget,
        journal: Journal | None,
        on_fatal: Callable[[], None],
        policy: retry.Policy = retry.DEFAULT,
    ) -> None:
        self.budget, self._journal, self._on_fatal, self._policy = budget, journal, on_fatal, policy
        self.stopping = self.finishing = self.recovers = False
        self.fatal: FatalProviderError | None = None
        self._ended_by: Role[Any, Any, Any] | None = None
        self._next_try = 0.0  # by `time.monotonic`
        self._fatal_in_a_row = 0  # since the last answer
        self.disk: CacheWriteError | None = None
        self._turnstile = asyncio.Lock()
        self._protected: set[asyncio.Task[Any]] = set()
        self.not_dropped = _Protection(self._protected)
        self._resting: dict[int, float] = {}  # when each question that waits is asked again, by `time.monotonic`
        self.well_known = False
        self._reach: defaultdict[str, _Reach] = defaultdict(_Reach)
        self._alike: defaultdict[str, _Alike] = defaultdict(_Alike)
        self._session, self._numbers = os.urandom(4).hex(), itertools.count(1)

    @property
    def journals(self) -> bool:
        """Whether answers are written into the run folder, and it can be written."""
        return self._journal is not None and self.disk is None

    def is_sending(self, task: asyncio.Task[Any]) -> bool:
        """Whether a task has sent a request, or paid for an answer, that would be lost if the task were cancelled."""
        return task in self._protected

    def protect(self, task: asyncio.Task[Any]) -> None:
        """Let a task go on when the run ends: it works on this machine with answers that are paid."""
        self._protected.add(task)
        task.add_done_callback(self._protected.discard)

    def stop(self, tasks: Iterable[asyncio.Task[Any]], *, finishing: bool = False) -> None:
        """Send nothing more, and cancel tasks of the run that have neither sent nor paid anything."""
        self.stopping, self.finishing = True, finishing
        for task in tasks:
            if not self.is_sending(task):
                task.cancel()

    def finish(self, limiters: Iterable[RateLimiter]) -> str:
        """Begin no further prompt, and let those that are begun go on for `GRACE` seconds; returns a line for the user."""
        if self.out:
            self._on_fatal()
            return "stopping: only sent requests are awaited (once more to stop at once)"
        self.stop((), finishing=True)
        self._stop_in_time(time.monotonic() + GRACE, list(limiters))
        return STOPPING

    def _stop_in_time(self, until: float, limiters: Sequence[RateLimiter]) -> None:
        """Send nothing more from `until` on, and already when no request that waits can be sent before."""
        left = until - time.monotonic()
        late = [at > until for at in self._resting.values()]
        late += [limiter.delay > left for limiter in limiters if limiter.waiting]
        if left <= 0 or (late and all(late) and not any(limiter.in_flight for limiter in limiters)):
            self._on_fatal()
        elif self.finishing:
            asyncio.get_running_loop().call_later(_TICK, self._stop_in_time, until, limiters)

    def check(self) -> None:
        """Check that the run goes on.

        Raises:
            Interrupted, FatalProviderError, CacheWriteError: It is ending.
        """
        if self.disk is not None:
            raise self.disk
        turn = PLACE.get()
        if self.stopping and not (self.finishing and turn and turn.begun) and not self._recovered():
            raise self.fatal or Interrupted("the run is ending")

    @property
    def out(self) -> bool:
        """Whether a model that answered before answers none of the requests that are repeated."""
        return bool(self._resting) and any(len(alike.put_off) >= _MAX_ALIKE for alike in self._alike.values())

    def _may_go(self) -> bool:
        """Whether a request may be sent now: no prompt is begun that cannot be finished."""
        self.check()
        turn = PLACE.get()
        return not self.out or not turn or turn.begun

    def _recovered(self) -> bool:
        """Whether questions are sent again after a fatal failure, which is then forgotten."""
        role = self._ended_by
        if role is None or not self.recovers or not (role.provider.renewed() or time.monotonic() >= self._next_try):
            return False
        self.stopping, self.fatal, self._ended_by = False, None, None
        self._reach.clear()
        self._alike.clear()
        return True

    async def send(self, role: Role[M, Q, A], question: Q, reservation: Reservation | None) -> A:
        """Send a question until it is answered or repeating it has no point.

        Args:
            role: The model that is asked.
            question: The question to send.
            reservation: Pays for the requests; None uses the budget.

        Raises:
            Unanswered: There is no answer.
            Interrupted, BudgetExhausted, FatalProviderError: The run is ending.
        """
        bound = role.bound(question)
        try:
            self._check_answers(role)
            try:  # nearly always answered; tenacity costs 0.25 ms of CPU for each attempt
                return await self._attempt(role, question, bound, reservation)
            except retry.AttemptFailed as error:
                first = error
            async for attempt in retry.retrying(self._policy, sleep=self._rest):
                with attempt:
                    if attempt.retry_state.attempt_number == 1:
                        raise first
                    answer = await self._attempt(role, question, bound, reservation)
        except FatalProviderError as error:
            self._end(role, error)
            raise
        except Unanswered as error:
            if error.status is Status.UNPARSED:
                try:
                    self._check_answers(role)
                except FatalProviderError as fatal:
                    with self.not_dropped:  # this answer is paid, and is kept
                        self._end(role, fatal)
            names = {"role": role.name, "item": role.item_of(question), "reason": error.reason}
            logger.info("%(role)s of %(item)s: no answer (%(reason)s)", names)
            raise
        return answer

    async def _rest(self, seconds: float) -> None:
        """Wait before the next attempt at a question."""
        number = next(self._numbers)
        self._resting[number] = time.monotonic() + seconds
        try:
            await asyncio.sleep(seconds)
        finally:
            del self._resting[number]

    def waits(self) -> list[str]:
        """Write how many requests wait for their next attempt, and which servers do not answer."""
        now, patience = time.monotonic(), self._policy.patience
        lines = []
        if left := [max(0.0, at - now) for at in self._resting.values()]:
            lines.append(f"{len(left)} to be asked again in at most {max(left):.0f} s")
        silent = max((now - reach.since for reach in self._reach.values() if reach.since is not None), default=0.0)
        if silent >= _SILENCE:
            lines.append(f"no answer for {silent:.0f} s, of {patience:g} s allowed")
        return lines

    def _end(self, role: Role[Any, Any, Any], error: FatalProviderError) -> None:
        """Send nothing more."""
        if self.fatal is None:
            self.fatal, self._ended_by = error, role
            pause = min(_LONGEST_PAUSE, 2.0**self._fatal_in_a_row - 1)
            self._next_try, self._fatal_in_a_row = time.monotonic() + pause, self._fatal_in_a_row + 1
            logger.error("%(role)s: nothing more is sent: %(failure)s", {"role": role.label, "failure": str(error)})
            self._on_fatal()

    async def _attempt(self, role: Role[M, Q, A], question: Q, bound: Usage, reservation: Reservation | None) -> A:
        """Send once.

        Raises:
            AttemptFailed: There is no answer, and another attempt may get one.
            Unanswered, FatalProviderError: There is none, and no point in another attempt.
        """
        self.check()
        worst, job = Bill(role.worst(bound), bound.input + bound.output), role.job_entry(question)
        kept = self.budget.draw_in_job(job) if job else None
        hold = kept or await (reservation or self.budget).draw(worst.cost, worst.tokens)
        slot, entry, sending = role.limiter.slot(worst.tokens, self._may_go), "", Sending()
        try:
            async with slot:
                if kept is None:
                    self.budget.check_room(worst)
                entry = self._announce(role.name, worst, job)
                if turn := PLACE.get():
                    turn.begun = True
                with self.not_dropped, watched_sending() as sending:
                    answer, bill = await role.ask(question, bound)
                slot.used(bill.tokens)
                hold.settle(
                    bill.cost, bill.tokens
                )  # before the slot is free: a bill above the cap stops the waiting requests
            self._fatal_in_a_row = 0
            self._reach[role.address], self._alike[role.name] = _Reach(answered=True), _Alike(answered=True)
            role.tally.trouble = ""
            if role.limiter.waiting:
                await self._yield_to_waiters()
            # No `await` from here until the answer is in the journal: a kill in between would lose an answer booked as paid.
            with self.not_dropped:  # a bill that cannot be written stops the run, but this answer is kept
                self._write(role.name, entry, bill)
        except asyncio.CancelledError:
            if entry:  # sent, and its answer is not waited for: its ledger entry stays open
                hold.mark_uncertain()
            raise
        except TitjudgeError as error:
            # If the files of a batch job cannot be written, it is not known whether the job has the question.
            if entry and (role.in_job(question) or (job and isinstance(error, CacheWriteError))):
                hold.leave_in_job(entry)
            elif entry and sending.begun:
                self._mark_uncertain(hold, role, entry, worst)
            elif entry:  # the provider did not send it after all
                self._write(role.name, entry, Bill(), requests=0)
            raise
        except Exception as error:
            failure = classified(role, error)
            if role.in_job(question):  # it is billed when the job ends, so its ledger entry stays open
                hold.leave_in_job(entry)
            else:
                self._book(hold, role, entry, failure, bound, worst)
            role.limiter.failed(failure, slot)
            if failure.kind.may_pass:
                self.check()  # when the run is ending, a request is not repeated
            failure = self._in_reach(role, role.item_of(question), failure)
            if failure.kind.may_pass:
                raise retry.AttemptFailed(failure) from error
            raise retry.terminal_error(failure) from error
        finally:
            hold.release()
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "%(role)s %(label)s answered: %(tokens)d tokens, $%(cost).6f, %(in_flight)d in flight",
                {
                    "role": role.name,
                    "label": role.label,
                    "item": role.item_of(question),
                    "tokens": bill.tokens,
                    "cost": bill.cost,
                    "in_flight": role.limiter.in_flight,
                },
            )
        return answer

    async def _yield_to_waiters(self) -> None:
        """Let a waiting request go out before this answer is worked on.

        Answers to requests that went out together come back together. If all were parsed and scored before the next request
        is sent, the server would be idle for that time.
        """
        # The answer is paid, so even a cancelled task goes on to write it down.
        with self.not_dropped, suppress(asyncio.CancelledError):
            async with self._turnstile:
                await asyncio.sleep(0)

    def _in_reach(self, role: Role[Any, Any, Any], item: str, failure: Failure) -> Failure:
        """Reclassify a failure by the outcome of other requests to the same address.

        It becomes fatal if the address answers no request, or bars all of them, and `LATER` (wait and repeat) if the address
        has answered before and cannot be reached now.
        """
        reach, now = self._reach[role.address], time.monotonic()
        if why := self._same_for_all(role, item, failure):
            return _fatal(failure, why)
        if failure.kind is FailureKind.BARRED:
            return self._barred(role, reach, item, failure)
        if failure.kind is FailureKind.FATAL:
            return failure
        reach.since, patience = reach.since or now, self._policy.patience
        if failure.kind.may_pass:
            reach.put_off.add(item)
        if failure.kind is FailureKind.RATE_LIMIT:
            asked = failure.retry_after or 0.0
            if len(reach.put_off) < _MAX_BARRED or max(asked, now - reach.since) <= patience:
                return failure
            why = f"asks to wait {asked:.0f} s" if asked > patience else _silent(patience)
            return _fatal(failure, f"{role.label}: {why}")
        if reach.answered:
            if failure.kind.may_pass:
                self._alike[role.name].put_off.add(item)
            is_gone = failure.not_sent or len(reach.put_off) >= _MAX_BARRED
            if is_gone and now - reach.since > patience:
                return _fatal(failure, f"{role.label}: {_silent(patience)}")
            return replace(failure, kind=FailureKind.LATER) if failure.not_sent else failure
        reach.faults += 1
        reach.silent += failure.not_sent or (failure.maybe_billed and not failure.answered)
        for_good = f"{role.label}: {reach.faults} requests and no answer yet"
        if failure.not_sent and reach.silent == reach.faults and now - reach.since > _MAX_UNREACHABLE:
            return _fatal(failure, f"{for_good} in {now - reach.since:.0f} s")
        if reach.silent >= max(_MAX_SILENT, 3 * role.limiter.concurrency):
            return _fatal(failure, for_good)
        if reach.faults >= _MAX_SILENT and now - reach.since > patience:
            return _fatal(failure, f"{for_good}: {_silent(patience)}")
        return failure

    def note_kept(self, role: Role[Any, Any, Any], item: str, reply: Reply) -> None:
        """Take note of an answer of an earlier session: a good one, or a reply without a usable answer."""
        if reply.status is Status.OK:
            self._alike[role.name] = _Alike(answered=True)
        elif NO_ANSWER in reply.flags:
            self._alike[role.name].unusable[item] = reply.reason

    def _check_answers(self, role: Role[Any, Any, Any]) -> None:
        """Check that not all paid answers of the model are unusable.

        Raises:
            FatalProviderError: The limit of different items with an unusable answer is reached.
        """
        unusable = self._alike[role.name].unusable
        if len(unusable) >= (_MAX_ALIKE_LATER if self._was_answered(role) else _MAX_ALIKE):
            last = list(unusable.values())[-1]
            raise FatalProviderError(
                f"{role.label}: the answers for {len(unusable)} items in a row cannot be used: {last}. "
                "Correct the cause, then run the command again with --retry-failed"
            )

    def _was_answered(self, role: Role[Any, Any, Any]) -> bool:
        return self._alike[role.name].answered or self.well_known

    def _same_for_all(self, role: Role[Any, Any, Any], item: str, failure: Failure) -> str:
        """Return the reason why all items must fail; empty if they need not.

        Many different items had the same refusal, or each of them several times the same fault of the server, and none had an
        answer.
        """
        silent = failure.not_sent or (failure.maybe_billed and not failure.answered)
        passing = failure.kind is FailureKind.RETRY and not silent
        alike = self._alike[role.name]
        if failure.kind is FailureKind.UNUSABLE:
            alike.unusable[item] = failure.message
        if role.provider.is_batch or self._was_answered(role) or not (passing or failure.kind is FailureKind.REJECTED):
            return ""
        met = alike.refused[_VARIES.sub("", failure.message)[:120]]
        met[item] += 1
        sure = sum(times >= _SURE for times in met.values()) if passing and met.total() < _MAX_PASSING else len(met)
        if sure < _MAX_ALIKE:
            return ""
        return f"{role.label}: the same failure for {len(met)} different items, and no answer yet"

    def _barred(self, role: Role[Any, Any, Any], reach: _Reach, item: str, failure: Failure) -> Failure:
        """Decide whether an item that was barred fails alone, or all would.

        It fails alone if the address has answered others. Until that is known it is repeated, as long as other requests are
        on their way. After `_MAX_BARRED` different items in a row the failure is fatal.
        """
        reach.barred.add(item)
        if len(reach.barred) >= _MAX_BARRED:
            return _fatal(failure, f"{role.label}: {len(reach.barred)} different items in a row")
        if reach.answered or self.well_known:
            return replace(failure, kind=FailureKind.REJECTED)
        if role.limiter.in_flight:
            return replace(failure, kind=FailureKind.RETRY)
        return failure

    def _announce(self, name: str, worst: Bill, job: str) -> str:
        """Write into the ledger that a request is about to be sent, with its worst case; returns the id of the entry.

        Raises:
            CacheWriteError: It cannot be written, so the request must not be sent.
        """
        entry = job or f"{self._session}-{next(self._numbers)}"
        if not self.write("sent", {"id": entry, "role": name, "worst": worst.cost, "tokens": worst.tokens}):
            assert self.disk is not None
            raise self.disk
        return entry

    def _book(
        self, hold: Hold, role: Role[Any, Any, Any], entry: str, failure: Failure, bound: Usage, worst: Bill
    ) -> None:
        """Book the cost of a failed attempt: the reported usage, the worst case if it may be billed, otherwise nothing."""
        if failure.usage is not None and failure.usage != Usage():
            self._bill(hold, role.name, entry, role.bill(failure.usage, bound))
        elif failure.maybe_billed or failure.answered:  # it was sent, and no usage was reported
            self._mark_uncertain(hold, role, entry, worst)
        else:
            self._bill(hold, role.name, entry, Bill())

    def _mark_uncertain(self, hold: Hold, role: Role[Any, Any, Any], entry: str, worst: Bill) -> None:
        """Book a request that was sent, and of which no bill came, at its worst case."""
        hold.mark_uncertain()
        unpriced = Bill(unpriced=role.price is None)
        self._write(role.name, entry, unpriced, uncertain=worst.cost, uncertain_tokens=worst.tokens)

    def _bill(self, hold: Hold, name: str, entry: str, bill: Bill) -> None:
        """Book the bill of a request in the budget and the ledger, without an `await` in between."""
        hold.settle(bill.cost, bill.tokens)
        self._write(name, entry, bill)

    def _write(self, name: str, entry: str, bill: Bill, uncertain: float = 0.0, **counts: int) -> None:
        """Write the line that settles an entry of the ledger."""
        counts |= {"unpriced": 1} if bill.unpriced else {}
        self.budget.unpriced += bill.unpriced
        line = {"id": entry, "role": name, "cost": bill.cost, "tokens": bill.tokens, "uncertain": uncertain, **counts}
        self.write("bill", line)

    def write(self, kind: str, record: Json) -> bool:
        """Write a line into the run's journal; returns whether it could be written.

        If it cannot, nothing new is sent. Answers that are paid are still returned, as the cache may be able to keep them.
        """
        if self._journal is None:
            return True
        try:
            self._journal(kind, record)
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            if self.disk is None:
                self.disk = CacheWriteError(f"the run folder{where} cannot be written: {error.strerror}")
                self._on_fatal()
            return False
        return True


def _silent(seconds: float) -> str:
    return f"no answer for {f'{seconds / 60:g} minutes' if seconds > 60 else f'{seconds:g} seconds'}"


def _fatal(failure: Failure, why: str) -> Failure:
    return replace(failure, kind=FailureKind.FATAL, message=f"{why}: {failure.message}")
