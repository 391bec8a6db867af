"""The caps of a run.

Before a request is sent, its worst-case cost is reserved. When the answer comes, its actual cost replaces the reserved amount.

    budget.reserve ──> Reservation (an item: the likely cost of all its calls)
                           └── draw ──> Hold (one request) ── settle, mark_uncertain or release

At every moment `spent + uncertain + reserved <= cap`, as long as no answer costs more than its worst case. An answer that
does is booked in full all the same, and `notes` gives the amount by which the cap was passed.

What waits, and for what:

- `reserve` waits in a queue, first come, first served, as long as requests or items under way may still release an amount.
  An item in the queue has nothing reserved, so no other item waits for it.
- A `draw` that needs more than its reservation has goes before that queue, because its item must finish to give its
  reservation back. It waits for requests that are on their way. If there are none, and other items have reserved the rest
  (they may be waiting themselves), it ends as `BudgetHeld`: the item releases its reservation, reserves once more with
  `again`, which goes before items that have not begun, and finds the answers it already has in the cache. So there is no
  deadlock, and no part of the cap stays unusable.
- When nothing under way can release any amount, `exhausted` is set and the whole queue gets `BudgetExhausted`. Nothing new is
  admitted from then on, not even a cheaper item that would fit: which items are judged depends on their order, not on
  their price. Items that have begun go on, and so do their draws.

One event loop, no threads. Money is counted in whole picodollars, so that sums are exact.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from titjudge.core.config import Limits
from titjudge.core.errors import BudgetExhausted, BudgetHeld
from titjudge.core.types import Note

JOB = "job:"  # how the ledger's entries of batch jobs begin
_PICO = 10**12
_GRACE = 0.05  # seconds that an item waits for others that are between two requests, before it releases its reservation


def job_entry(key: str) -> str:
    """Return the id of a batch request's entry in the ledger; it is the same in every session."""
    return f"{JOB}{key.rpartition(':')[2][:32]}"


@dataclass(frozen=True, slots=True)
class Bill:
    """The cost of a request, or an upper bound of it.

    Attributes:
        cost: USD.
        tokens: Input plus output.
        unpriced: The price is not known; `cost` is 0.
    """

    cost: float = 0.0
    tokens: int = 0
    unpriced: bool = False


@dataclass(frozen=True, slots=True)
class Spending:
    """The known and the possible costs of a run over all its sessions, in USD.

    Attributes:
        spent: The amount billed.
        list_cost: List price of all answers used, those from a cache included.
        unlisted: Answers without a list price.
        requests: Requests sent, those without an answer included.
        tokens: Tokens billed, input and output.
        uncertain: The possible cost of requests without an answer: the worst case if no bill came.
        uncertain_tokens: Their tokens, likewise.
        unpriced: Requests whose price is not known.
        overrun: By how much answers cost more than the worst case of their requests.
        in_jobs: Amount and tokens of those uncertain requests that are in batch jobs, by the id of their ledger entry.
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
        """Return the amounts that count against each cap (`max_cost`, `max_requests`, `max_tokens`): billed and uncertain amounts."""
        return {
            "max_cost": self.spent + self.uncertain,
            "max_requests": self.requests,
            "max_tokens": self.tokens + self.uncertain_tokens,
        }


UNSPENT = Spending()


class _Amount(NamedTuple):
    """An amount in each of the three units that have a cap: picodollars, tokens, requests."""

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
        """Return the smaller of both amounts, unit by unit."""
        return _Amount(min(self.cost, limit.cost), min(self.tokens, limit.tokens), min(self.requests, limit.requests))


_NOTHING = _Amount()


@dataclass(slots=True, eq=False)
class _Wait:
    """A caller that waits for a part of the budget.

    Attributes:
        want: The whole amount it needs.
        parent: Its reservation, which is used up before the budget gives anything.
        taken: The amount already taken from that reservation.
        granted: Done when the budget has set the rest aside; an exception if it will not.
    """

    want: _Amount
    parent: Reservation | None = None
    taken: _Amount = _NOTHING
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def top_up(self) -> _Amount:
        """Take what the reservation has, and return what is missing still."""
        if self.parent is not None:
            self.taken += self.parent._take(self.want - self.taken)
        return self.want - self.taken


class Budget:
    """The caps of one run, and the amounts that count against them.

    Args:
        max_cost: USD; None: no cap.
        max_requests: Requests sent; None: no cap.
        max_tokens: Input plus output tokens; None: no cap.

    Attributes:
        exhausted: A cap was reached; nothing new is admitted.
        unpriced: Requests whose price is not known; their cost is in no sum.
    """

    def __init__(
        self, max_cost: float | None = None, max_requests: int | None = None, max_tokens: int | None = None
    ) -> None:
        self.max_cost, self.max_requests, self.max_tokens = max_cost, max_requests, max_tokens
        self.exhausted = False
        self._refused = _NOTHING  # the amount that did not fit when a cap was reached
        self._caps = (None if max_cost is None else round(max_cost * _PICO), max_tokens, max_requests)
        self._spent = self._uncertain = self._held = _NOTHING
        self._cached = self._overrun = 0
        self.unpriced = 0
        self._in_jobs: dict[str, _Amount] = {}  # the part of `_uncertain` that batch jobs of earlier sessions may bill
        self._in_flight = 0  # draws granted and not settled
        self._queue: deque[_Wait] = deque()  # items that have not begun
        self._again: deque[_Wait] = deque()  # items that released their reservation and reserve once more
        self._draws: deque[_Wait] = deque()  # requests of items that have begun
        self._grace: asyncio.TimerHandle | None = None

    @classmethod
    def for_run(cls, limits: Limits, earlier: Spending = UNSPENT) -> Budget:
        """Make the budget of a run with these limits, after what its earlier sessions have spent."""
        budget = cls(limits.max_cost, limits.max_requests, limits.max_tokens)
        budget.resume(earlier, jobs=limits.batch)
        return budget

    # -- numbers ---------------------------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        """USD billed to this run, its earlier sessions included."""
        return self._spent.cost / _PICO

    @property
    def list_cost(self) -> float:
        """USD the answers would have cost without a cache: the amount spent, plus the list price of cached answers."""
        return (self._spent.cost + self._cached) / _PICO

    @property
    def reserved(self) -> float:
        """USD set aside for requests and items under way, at their worst case."""
        return self._held.cost / _PICO

    @property
    def uncertain(self) -> float:
        """Upper bound, in USD, of the cost of requests without an answer; counts against the cap and is not in `spent`."""
        return self._uncertain.cost / _PICO

    @property
    def requests(self) -> int:
        """Requests sent, those without an answer included."""
        return self._spent.requests + self._uncertain.requests

    @property
    def tokens(self) -> int:
        """Tokens billed, input and output."""
        return self._spent.tokens

    def notes(self) -> list[Note]:
        """Return a line with the amount by which answers cost more than the worst case of their requests; empty if none did."""
        if not self._overrun:
            return []
        line = (
            f"answers cost ${self._overrun / _PICO:.4f} more than their requests allowed. The server counts more tokens than the maximum "
            "in the request, or bills more than its list price. titjudge cannot prevent this"
        )
        return [Note("cap_passed", line)]

    def resume(self, earlier: Spending, *, jobs: bool = True) -> None:
        """Add what earlier sessions of this run spent, and may have spent.

        The worst case of a request in one of their batch jobs counts until its question is asked again, which takes it over
        (`draw_in_job`). It counts for good if the question is not asked again, and also with `jobs` False: then this
        session sends no batch jobs, so the question is sent and paid once more.
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
        """Return the certain and uncertain spending until now."""
        return Spending(
            spent=self.spent,
            list_cost=self.list_cost,
            unlisted=self.unpriced,
            requests=self.requests,
            tokens=self.tokens,
            uncertain=self.uncertain,
            uncertain_tokens=self._uncertain.tokens,
            unpriced=self.unpriced,
            overrun=self._overrun / _PICO,
            in_jobs={entry: (amount.cost / _PICO, amount.tokens) for entry, amount in self._in_jobs.items()},
        )

    def note_cached(self, cost: float) -> None:
        """Add the list price of an answer from the cache; it counts in `list_cost` only."""
        self._cached += _Amount.from_usd(cost, 0, 0).cost

    # -- admission -------------------------------------------------------------------------------------------------

    async def reserve(self, cost: float, tokens: int, requests: int = 1, *, again: bool = False) -> Reservation:
        """Reserve an amount for an item, and wait as long as items and requests under way may release some.

        An item that has a reservation draws from that one: reserving a second would wait for itself.

        Args:
            cost: USD.
            tokens: Input plus output.
            requests: Number of requests.
            again: The item has begun before, and released its reservation (`BudgetHeld`): it goes before items that have
                not begun.

        Raises:
            BudgetExhausted: The cap is reached, and nothing under way can release an amount.
        """
        want = await self._enter(_Amount.from_usd(cost, tokens, requests), self._again if again else self._queue)
        return Reservation(self, want)

    async def draw(self, cost: float, tokens: int, requests: int = 1) -> Hold:
        """Reserve an amount for one request without a reservation of an item.

        Raises:
            BudgetExhausted: The cap is reached, and no request on its way can release an amount.
        """
        want = await self._enter(_Amount.from_usd(cost, tokens, requests), self._draws)
        return Hold(self, None, want)

    def check_room(self, worst: Bill) -> None:
        """Check once more, just before it is sent, that a request with a reserved amount fits under the cap.

        While it waited for a slot, answers may have cost more than was set aside for them.

        Raises:
            BudgetExhausted: It does not fit.
        """
        want = _Amount.from_usd(worst.cost, worst.tokens, 1)
        if not self._fits(want, _NOTHING):
            self._exhaust(want)
            raise BudgetExhausted(self.reason)

    def in_job(self, entry: str) -> bool:
        """Whether a question is in a batch job of an earlier session, so that its worst case counts already."""
        return entry in self._in_jobs

    def draw_in_job(self, entry: str) -> Hold | None:
        """Take over the amount that `Hold.leave_in_job` kept for a question in a batch job; None if there is none."""
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
        """Wait until all of `wait.want` is set aside."""
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
        """Grant the waiting calls that fit, in order, and refuse calls that never will. Runs after every change."""
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
                elif self._fits(wait.want, _NOTHING):  # it will fit when the reserved amounts are released
                    return
                else:
                    self._exhaust(wait.want)
                    if line is self._again:
                        line.popleft().granted.set_exception(BudgetExhausted(self.reason))

    def _fits(self, want: _Amount, held: _Amount) -> bool:
        if self._caps == (None, None, None):
            return True
        total = self._spent + self._uncertain + held + want
        return all(cap is None or part <= cap for part, cap in zip(total, self._caps, strict=True))

    def _may_yet(self, wait: _Wait) -> bool:
        """Whether a draw may go on waiting: for requests on their way, or `_GRACE` for items that are between two requests."""
        if not self._fits(wait.want, _NOTHING):
            return False
        if self._in_flight:
            self._stop_grace()
            return True
        rest = wait.parent._rest if wait.parent is not None else _NOTHING
        if self._held == wait.taken + rest:
            return False  # no other item has a reservation
        if self._grace is None:
            self._grace = asyncio.get_running_loop().call_later(_GRACE, self._grace_over, wait)
        return True

    def _grace_over(self, wait: _Wait) -> None:
        self._grace = None
        if self._in_flight:  # a draw was granted at the same moment; when it ends, `_admit` runs again
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
        """End a draw as `BudgetHeld` if other items have reserved the amount, otherwise as `BudgetExhausted`; release it."""
        self._draws.remove(wait)
        if wait.parent is not None and self._fits(wait.want, _NOTHING):
            held = BudgetHeld(
                "the rest of the cap is reserved by other items", wait.want.cost / _PICO, wait.want.tokens
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
        """One line that names the cap that was reached, with the current sums; empty before that."""
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
        return "the cap is reached: the rest is reserved by items that also wait for it"

    # -- called by reservations and draws ----------------------------------------------------------------------------

    def _return(self, amount: _Amount, parent: Reservation | None) -> None:
        """Return an unused amount to the reservation it came from, which may repeat the request, or otherwise to the budget."""
        if parent is not None and parent._open:
            parent._rest += amount
        else:
            self._held -= amount

    def _bill(self, held: _Amount, actual: _Amount) -> _Amount:
        """Book `actual` as spent against the reserved amount `held`, and return the rest, which stays reserved."""
        used = actual.up_to(held)
        self._spent += actual
        self._held -= used
        if held.cost:  # without a known price nothing was set aside, and no cap on cost was in force
            self._overrun += actual.cost - used.cost
        return held - used


def _head(queue: deque[_Wait]) -> _Wait | None:
    """Return the first in a queue that still waits; drops those before it that were cancelled."""
    while queue and queue[0].granted.done():
        queue.popleft()
    return queue[0] if queue else None


class _Room:
    """Room in a budget that is given back at the end of a `with` block."""

    __slots__ = ()

    def release(self) -> None:
        """Give back what is not used."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


class Reservation(_Room):
    """Room for all calls of one item. `release`, or leaving its `with` block, gives back what is left."""

    __slots__ = ("_budget", "_open", "_rest")

    def __init__(self, budget: Budget, amount: _Amount) -> None:
        self._budget, self._rest, self._open = budget, amount, True

    async def draw(self, cost: float, tokens: int, requests: int = 1) -> Hold:
        """Reserve an amount for one request: from this reservation as far as it suffices, the rest from the budget.

        It also works after `release` and on an exhausted budget, because a request under way may have to be repeated.

        Raises:
            BudgetExhausted: The budget cannot cover the rest.
            BudgetHeld: It could, but other items have reserved the rest now.
        """
        wait = _Wait(_Amount.from_usd(cost, tokens, requests), self)
        if wait.top_up() != _NOTHING:
            await self._budget._wait(wait, self._budget._draws)
        return Hold(self._budget, self, wait.want)

    def settle(self, cost: float, tokens: int, requests: int = 1) -> None:
        """Book the billed amount of all requests of an item that made no draws, and release the rest.

        A second call does nothing.
        """
        if self._open:
            self._rest = self._budget._bill(self._rest, _Amount.from_usd(cost, tokens, requests))
            self.release()

    def release(self) -> None:
        """Release the rest; requests under way keep their reserved amounts. A second call does nothing."""
        if self._open:
            self._open = False
            rest, self._rest = self._rest, _NOTHING
            self._budget._return(rest, None)
            self._budget._admit()

    def _take(self, want: _Amount) -> _Amount:
        taken = want.up_to(self._rest)
        self._rest -= taken
        return taken


class Hold(_Room):
    """The amount reserved for one request. The first call of `settle`, `mark_uncertain`, `leave_in_job` or `release` ends it.

    Later calls do nothing. The unused part goes back to the reservation or budget it came from.
    """

    __slots__ = ("_amount", "_budget", "_open", "_parent")

    def __init__(self, budget: Budget, parent: Reservation | None, amount: _Amount) -> None:
        self._budget, self._parent, self._amount, self._open = budget, parent, amount, True
        budget._in_flight += 1

    def settle(self, cost: float, tokens: int, requests: int = 1) -> None:
        """Book what an answered request was billed (USD, input plus output tokens), whether the answer is usable or not."""
        if self._open:
            self._close(self._budget._bill(self._amount, _Amount.from_usd(cost, tokens, requests)))

    def mark_uncertain(self) -> None:
        """Keep the worst case of a request that was sent and got no answer: the server may have billed it."""
        if self._open:
            self._budget._uncertain += self._amount
            self._budget._held -= self._amount
            self._close(_NOTHING)

    def leave_in_job(self, entry: str) -> None:
        """Keep the worst case of a request in a batch job until its question is asked again (`Budget.draw_in_job`)."""
        if self._open:
            in_jobs = self._budget._in_jobs
            in_jobs[entry] = in_jobs.get(entry, _NOTHING) + self._amount
            self.mark_uncertain()

    def release(self) -> None:
        """Release the amount of a request that was not sent."""
        if self._open:
            self._close(self._amount)

    def _close(self, amount: _Amount) -> None:
        self._open = False
        self._budget._in_flight -= 1
        self._budget._return(amount, self._parent)
        self._budget._admit()
