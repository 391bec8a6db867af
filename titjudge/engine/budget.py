"""The cap: room is held for the worst case of a request before it is sent, and the truth replaces it afterwards.

    budget.reserve ──> Reservation (an item: what all its calls are likely to cost)
                           └── draw ──> Hold (one request) ── settle, mark_uncertain or release

At every moment `spent + uncertain + reserved <= cap`, as long as no answer costs more than its worst case; one that does
is recorded all the same, and `notes` say by how much.

Who waits, and for what:

- `reserve` waits in a line, first come first served, while anything outstanding could still make room. Who stands in the
  line holds nothing, so nobody waits for them.
- A `draw` beyond its reservation goes before that line: its holder must get on to give the reservation back. It waits
  for requests that are on their way. Where none is, and others keep what it needs (they may be waiting, too), it ends
  as `BudgetHeld`: the item gives back what it holds, reserves again with `again`, before those that have not begun,
  and finds its answers up to then in the cache. So there is no deadlock, and no money that nobody may use.
- When nothing can make room, `exhausted` is set and the whole line gets `BudgetExhausted`. Nothing new is admitted from
  then on, not even a smaller item that would still fit: which items are judged depends on their order, not on their
  price. What has begun drains; its draws go on.

One event loop, no threads. Money is counted in whole picodollars, so that sums are exact.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

from titjudge.core.errors import BudgetExhausted, BudgetHeld

JOB = "job:"  # how the ledger's entries of batch jobs begin
_PICO = 10**12
_GRACE = 0.05  # seconds for holders between two requests to go on, before an item that needs more steps back


def job_entry(key: str) -> str:
    """Name the ledger's entry of a request that goes into a batch job: the same in every session."""
    return f"{JOB}{key.rpartition(':')[2][:32]}"


@dataclass(frozen=True, slots=True)
class Bill:
    """What a request cost, or costs at most.

    Attributes:
        cost: USD.
        tokens: Input plus output.
        unpriced: Nobody knows how many USD.
    """

    cost: float = 0.0
    tokens: int = 0
    unpriced: bool = False


@dataclass(frozen=True, slots=True)
class Spending:
    """What a run has spent, and may have spent, over all its sessions; amounts are USD.

    Attributes:
        spent: Billed.
        list_cost: List price of all answers used, those from a cache included.
        unlisted: Answers without a list price.
        requests: Requests sent, those without an answer included.
        tokens: Tokens billed, input and output.
        uncertain: What requests without an answer may have cost: the worst case where no bill came.
        uncertain_tokens: Their tokens, likewise.
        unpriced: Requests whose price nobody knows.
        overrun: By how much answers cost more than the worst case of their requests.
        in_jobs: Amount and tokens of those uncertain requests that batch jobs hold, by entry of the ledger.
    """

    spent: float = 0.0
    list_cost: float = 0.0
    unlisted: int = 0
    requests: int = 0
    tokens: int = 0
    uncertain: float = 0.0
    uncertain_tokens: int = 0
    unpriced: int = 0
    overrun: float = 0.0
    in_jobs: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    def against_caps(self) -> dict[str, float]:
        """Sum what counts against each cap (`max_cost`, `max_requests`, `max_tokens`), billed or uncertain."""
        return {
            "max_cost": self.spent + self.uncertain,
            "max_requests": self.requests,
            "max_tokens": self.tokens + self.uncertain_tokens,
        }


UNSPENT = Spending()


class _Amount(NamedTuple):
    """Picodollars, tokens, requests."""

    cost: int = 0
    tokens: int = 0
    requests: int = 0

    @classmethod
    def from_usd(cls, cost: float, tokens: int, requests: int) -> _Amount:
        if not (0 <= cost < float("inf") and tokens >= 0 and requests >= 0):
            raise ValueError(f"not an amount: {cost} USD, {tokens} tokens, {requests} requests")
        return cls(round(cost * _PICO), tokens, requests)

    def __add__(self, other: _Amount) -> _Amount:  # type: ignore[override]
        return _Amount(self.cost + other.cost, self.tokens + other.tokens, self.requests + other.requests)

    def __sub__(self, other: _Amount) -> _Amount:
        return _Amount(self.cost - other.cost, self.tokens - other.tokens, self.requests - other.requests)

    def up_to(self, limit: _Amount) -> _Amount:
        """Take the smaller of both, dimension by dimension."""
        return _Amount(min(self.cost, limit.cost), min(self.tokens, limit.tokens), min(self.requests, limit.requests))


_NOTHING = _Amount()


@dataclass(slots=True, eq=False)
class _Wait:
    """A caller that waits for room.

    Attributes:
        want: The room that it needs.
        parent: The reservation that its room comes from first.
        taken: What that has given it already.
        granted: Is done when the budget gives the rest.
    """

    want: _Amount
    parent: Reservation | None = None
    taken: _Amount = _NOTHING
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def top_up(self) -> _Amount:
        """Compute what is still missing, after taking what the reservation can give."""
        if self.parent is not None:
            self.taken += self.parent._take(self.want - self.taken)
        return self.want - self.taken


class Budget:
    """The caps of one run.

    Args:
        max_cost: USD; None: no cap. Likewise `max_requests` and `max_tokens` (input plus output).

    Attributes:
        exhausted: A cap was reached; nothing new is admitted.
        unpriced: Requests whose price nobody knows; their cost is in no sum.
    """

    def __init__(
        self, max_cost: float | None = None, max_requests: int | None = None, max_tokens: int | None = None
    ) -> None:
        self.max_cost, self.max_requests, self.max_tokens = max_cost, max_requests, max_tokens
        self.exhausted = False
        self._refused = _NOTHING  # what there was no room for
        self._caps = (None if max_cost is None else round(max_cost * _PICO), max_tokens, max_requests)
        self._spent = self._uncertain = self._held = _NOTHING
        self._cached = self._overrun = 0
        self.unpriced = 0
        self._in_jobs: dict[str, _Amount] = {}  # part of what is uncertain: batch jobs hold it, and nobody waits
        self._in_flight = 0  # draws granted and not settled
        self._queue: deque[_Wait] = deque()
        self._again: deque[_Wait] = deque()
        self._draws: deque[_Wait] = deque()
        self._grace: asyncio.TimerHandle | None = None

    # -- numbers ---------------------------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        """USD billed to this run, its earlier sessions included."""
        return self._spent.cost / _PICO

    @property
    def list_cost(self) -> float:
        """USD the answers would have cost without a cache: what was spent, and the price of the cached ones."""
        return (self._spent.cost + self._cached) / _PICO

    @property
    def reserved(self) -> float:
        """USD set aside for the worst case of what is under way."""
        return self._held.cost / _PICO

    @property
    def uncertain(self) -> float:
        """USD that requests without an answer may have cost, at most; counts against the cap, not in `spent`."""
        return self._uncertain.cost / _PICO

    @property
    def requests(self) -> int:
        """Requests sent, those without an answer included."""
        return self._spent.requests + self._uncertain.requests

    @property
    def tokens(self) -> int:
        """Tokens billed, input and output."""
        return self._spent.tokens

    def notes(self) -> list[str]:
        """Say by how much the cap could not hold: answers cost more than the worst case of their requests."""
        if not self._overrun:
            return []
        return [
            f"answers cost ${self._overrun / _PICO:.4f} more than their requests allowed: a server counts more tokens than it was "
            "asked for at most, or bills more than its list price, and the cap cannot hold against that"
        ]

    def resume(self, earlier: Spending, *, jobs: bool = True) -> None:
        """Count what earlier sessions of this run have used, and may have used.

        What their batch jobs hold counts until the same question is asked again (`draw_in_job`), for ever if it is not, and
        without `jobs`, where the question is paid once more.
        """
        in_jobs = earlier.in_jobs if jobs else {}
        self._in_jobs = {entry: _Amount.from_usd(cost, tokens, 1) for entry, (cost, tokens) in in_jobs.items()}
        held = sum(self._in_jobs.values(), _NOTHING)
        self._spent += _Amount.from_usd(earlier.spent, earlier.tokens, earlier.requests - held.requests)
        self._overrun += _Amount.from_usd(earlier.overrun, 0, 0).cost
        self.unpriced += earlier.unpriced
        uncertain = _Amount.from_usd(earlier.uncertain, earlier.uncertain_tokens, 0)
        self._uncertain += uncertain._replace(cost=max(uncertain.cost, held.cost), requests=held.requests)

    def used(self) -> Spending:
        """Sum what was spent, and may have been spent, up to now."""
        return Spending(
            spent=self.spent, list_cost=self.list_cost, unlisted=self.unpriced, requests=self.requests, tokens=self.tokens,
            uncertain=self.uncertain, uncertain_tokens=self._uncertain.tokens, unpriced=self.unpriced,
            overrun=self._overrun / _PICO,
            in_jobs={entry: (amount.cost / _PICO, amount.tokens) for entry, amount in self._in_jobs.items()},
        )  # fmt: skip

    def note_cached(self, cost: float) -> None:
        """Count the list price of an answer from the cache: in `list_cost` only."""
        self._cached += _Amount.from_usd(cost, 0, 0).cost

    # -- admission -------------------------------------------------------------------------------------------------

    async def reserve(self, cost: float, tokens: int, requests: int = 1, *, again: bool = False) -> Reservation:
        """Room for an item. Waits while there may yet be some; `again` for one that has begun and stepped back.

        Not for somebody who holds a reservation already (it would wait for itself): draw from that one.

        Raises:
            BudgetExhausted: There is no room, and nothing outstanding can make any.
        """
        want = await self._enter(_Amount.from_usd(cost, tokens, requests), self._again if again else self._queue)
        return Reservation(self, want)

    async def draw(self, cost: float, tokens: int, requests: int = 1) -> Hold:
        """Room for one request that belongs to no reservation.

        Raises:
            BudgetExhausted: There is no room, and no request on its way can make any.
        """
        want = await self._enter(_Amount.from_usd(cost, tokens, requests), self._draws)
        return Hold(self, None, want)

    def check_room(self, worst: Bill) -> None:
        """Check that there is still room for a request that holds some: answers may have cost more than was held for them.

        Raises:
            BudgetExhausted: There is none.
        """
        want = _Amount.from_usd(worst.cost, worst.tokens, 1)
        if not self._fits(want, _NOTHING):
            self._exhaust(want)
            raise BudgetExhausted(self.reason)

    def in_job(self, entry: str) -> bool:
        """Whether a question counts already, because a batch job of an earlier session holds it."""
        return entry in self._in_jobs

    def draw_in_job(self, entry: str) -> Hold | None:
        """Take over the room that is kept for a question in a batch job (`Hold.leave_in_job`); None where there is none."""
        amount = self._in_jobs.pop(entry, None)
        if amount is None:
            return None
        self._uncertain -= amount
        self._held += amount
        return Hold(self, None, amount)

    async def _enter(self, want: _Amount, queue: deque[_Wait]) -> _Amount:
        if self.exhausted and queue is not self._again:
            raise BudgetExhausted(self.reason)
        if self._caps == (None, None, None):
            self._held += want
        else:
            await self._wait(_Wait(want), queue)
        return want

    async def _wait(self, wait: _Wait, queue: deque[_Wait]) -> None:
        """Until all of `wait.want` is held."""
        queue.append(wait)
        self._admit()
        try:
            await wait.granted
        except asyncio.CancelledError:
            granted = wait.granted.done() and not wait.granted.cancelled() and wait.granted.exception() is None
            self._return(wait.want if granted else wait.taken, wait.parent)
            self._admit()
            raise

    def _admit(self) -> None:
        """Grant what fits, refuse what never will. Runs after every change."""
        while wait := _head(self._draws):
            missing = wait.top_up()
            if self._fits(missing, self._held):
                self._grant(self._draws.popleft(), missing)
            elif self._may_yet(wait):
                return
            else:
                self._refuse(wait)
        self._stop_grace()
        for line in (self._again, self._queue):
            while wait := _head(line):
                if self._fits(wait.want, self._held):
                    self._grant(line.popleft(), wait.want)
                elif self._fits(wait.want, _NOTHING):  # once what is held comes back
                    return
                else:
                    self._exhaust(wait.want)
                    if line is self._again:
                        line.popleft().granted.set_exception(BudgetExhausted(self.reason))

    def _fits(self, want: _Amount, held: _Amount) -> bool:
        total = self._spent + self._uncertain + held + want
        return all(cap is None or part <= cap for part, cap in zip(total, self._caps, strict=True))

    def _may_yet(self, wait: _Wait) -> bool:
        """Whether a draw may go on waiting: for requests on their way, or a moment for holders that are between two."""
        if not self._fits(wait.want, _NOTHING):
            return False
        if self._in_flight:
            self._stop_grace()
            return True
        rest = wait.parent._rest if wait.parent is not None else _NOTHING
        if self._held == wait.taken + rest:
            return False  # nobody else holds anything
        if self._grace is None:
            self._grace = asyncio.get_running_loop().call_later(_GRACE, self._grace_over, wait)
        return True

    def _grace_over(self, wait: _Wait) -> None:
        self._grace = None
        if self._in_flight:  # a draw that was granted at the same time: its end admits what it can
            return
        if not wait.granted.done():
            self._refuse(wait)
        self._admit()

    def _stop_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def _grant(self, wait: _Wait, missing: _Amount) -> None:
        self._held += missing
        wait.granted.set_result(None)

    def _refuse(self, wait: _Wait) -> None:
        """Say why a draw cannot be had: for now, or because the budget is exhausted; others may fit once its holder lets go."""
        self._draws.remove(wait)
        if wait.parent is not None and self._fits(wait.want, _NOTHING):
            held = BudgetHeld(
                "what is left of the cap is held by other items", wait.want.cost / _PICO, wait.want.tokens
            )
            wait.granted.set_exception(held)
        else:
            self._exhaust(wait.want)
            wait.granted.set_exception(BudgetExhausted(self.reason))
        self._return(wait.taken, wait.parent)
        wait.taken = _NOTHING
        self._stop_grace()

    def _exhaust(self, want: _Amount) -> None:
        if not self.exhausted:
            self.exhausted, self._refused = True, want
        while self._queue:
            wait = self._queue.popleft()
            if not wait.granted.done():
                wait.granted.set_exception(BudgetExhausted(self.reason))

    @property
    def reason(self) -> str:
        """One line that says that a cap was reached, with the sums of this moment; empty before."""
        if not self.exhausted:
            return ""
        want, used = self._refused, self._spent + self._uncertain
        unsure = f" and ${self.uncertain:.4f} possibly billed" if self._uncertain.cost else ""
        if self.max_cost is not None and used.cost + want.cost > (self._caps[0] or 0):
            return f"${self.max_cost:g} cap reached: ${self.spent:.4f} spent{unsure}, the next may cost ${want.cost / _PICO:.4f}"
        if self.max_tokens is not None and used.tokens + want.tokens > self.max_tokens:
            return f"cap of {self.max_tokens} tokens reached: {used.tokens} used, the next may need {want.tokens}"
        if self.max_requests is not None and used.requests + want.requests > self.max_requests:
            return (
                f"cap of {self.max_requests} requests reached: {used.requests} sent, the next may need {want.requests}"
            )
        return "the cap is reached: what is left is held by items that wait for it, too"

    # -- called by reservations and draws ----------------------------------------------------------------------------

    def _return(self, amount: _Amount, parent: Reservation | None) -> None:
        """Give what was held and not used back to where it came from: a repeated request may need it."""
        if parent is not None and parent._open:
            parent._rest += amount
        else:
            self._held -= amount

    def _bill(self, held: _Amount, actual: _Amount) -> _Amount:
        """Book `actual` against `held`; returns what is left of it, still held."""
        used = actual.up_to(held)
        self._spent += actual
        self._held -= used
        if held.cost:  # else nobody knew the price, and no cap was in force
            self._overrun += actual.cost - used.cost
        return held - used


def _head(queue: deque[_Wait]) -> _Wait | None:
    """Find the first in a queue who is still waiting."""
    while queue and queue[0].granted.done():
        queue.popleft()
    return queue[0] if queue else None


class Reservation:
    """Room for all calls of one item. Leaving its `with` block, or `release`, gives back what is left."""

    __slots__ = ("_budget", "_open", "_rest")

    def __init__(self, budget: Budget, amount: _Amount) -> None:
        self._budget, self._rest, self._open = budget, amount, True

    async def draw(self, cost: float, tokens: int, requests: int = 1) -> Hold:
        """Room for one request: out of this reservation as far as it goes, the rest from the budget.

        After `release`, and after the budget is exhausted, too: a request under way may have to be repeated.

        Raises:
            BudgetExhausted: The budget cannot make up what the reservation lacks; BudgetHeld: not while others hold it.
        """
        wait = _Wait(_Amount.from_usd(cost, tokens, requests), self)
        if wait.top_up() != _NOTHING:
            await self._budget._wait(wait, self._budget._draws)
        return Hold(self._budget, self, wait.want)

    def settle(self, cost: float, tokens: int, requests: int = 1) -> None:
        """Book what was billed in all, for an item that made no draws; then `release`. A second call does nothing."""
        if self._open:
            self._rest = self._budget._bill(self._rest, _Amount.from_usd(cost, tokens, requests))
            self.release()

    def release(self) -> None:
        """Give back what is left; draws under way keep theirs. A second call does nothing."""
        if self._open:
            self._open = False
            rest, self._rest = self._rest, _NOTHING
            self._budget._return(rest, None)
            self._budget._admit()

    def _take(self, wish: _Amount) -> _Amount:
        taken = wish.up_to(self._rest)
        self._rest -= taken
        return taken

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Hold:
    """Room for one request. Ends by the first of `settle`, `mark_uncertain`, `leave_in_job` and `release`.

    Later calls do nothing. What it does not use goes back to where it came from. Leaving its `with` block releases it.
    """

    __slots__ = ("_amount", "_budget", "_open", "_parent")

    def __init__(self, budget: Budget, parent: Reservation | None, amount: _Amount) -> None:
        self._budget, self._parent, self._amount, self._open = budget, parent, amount, True
        budget._in_flight += 1

    def settle(self, cost: float, tokens: int, requests: int = 1) -> None:
        """Book what an answered request, well or badly, was billed: USD, input plus output tokens."""
        if self._open:
            self._close(self._budget._bill(self._amount, _Amount.from_usd(cost, tokens, requests)))

    def mark_uncertain(self) -> None:
        """Mark a request that was sent and got no answer: it may have been billed, so its worst case stays out of reach."""
        if self._open:
            self._budget._uncertain += self._amount
            self._budget._held -= self._amount
            self._close(_NOTHING)

    def leave_in_job(self, entry: str) -> None:
        """Mark a request that a batch job holds: it is uncertain until the same question is asked again (`draw_in_job`)."""
        if self._open:
            in_jobs = self._budget._in_jobs
            in_jobs[entry] = in_jobs.get(entry, _NOTHING) + self._amount
            self.mark_uncertain()

    def release(self) -> None:
        """Let go what was held for a request that was not sent."""
        if self._open:
            self._close(self._amount)

    def _close(self, amount: _Amount) -> None:
        self._open = False
        self._budget._in_flight -= 1
        self._budget._return(amount, self._parent)
        self._budget._admit()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
