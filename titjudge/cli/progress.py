"""Progress of a run on standard error: one live line on a terminal, a new line now and then elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from titjudge.cli.terminal import printable, say

if TYPE_CHECKING:
    from titjudge.engine.pipeline import Engine
    from titjudge.runs.loop import Progress

PLAIN_INTERVAL = 10.0  # seconds between plain lines
_STILL_INTERVAL = 60.0  # the same, while nothing changes
_MIN_ASKED = 20  # requests after which the total cost can be estimated
_MAX_ERROR = 100  # characters of the last error
_MIN_ANSWERS, _MIN_SECONDS = 20, 5.0  # after which the time left can be estimated
_MOST_KEPT = 60  # seconds whose counts tell how fast it goes now
_MARGIN = 1.1  # by which the time left may be shorter or longer than the two paces say


def watcher(cap: float | None) -> Any:
    """Choose how to show progress; `cap` is the cap in USD."""
    return Live(cap) if sys.stderr.isatty() else Plain(cap)


def lines(progress: Progress, engine: Engine, cap: float | None, remaining: str = "") -> list[str]:
    """Format answers, items and failures; cost, pace and time left (`TimeLeft`); scores by metric; waits; errors: a line each."""
    total, expected, judged = progress.total, progress.expected, progress.judged
    tallies = [role.tally for role in engine.roles.open()]
    answered, cached, spent = sum(t.asked for t in tallies), sum(t.cached for t in tallies), engine.budget.spent
    parts = [f"{progress.answers}{f'/{expected}' if expected else ''} answers{f' ({cached} cached)' if cached else ''}"]
    parts.append(f"{progress.done}/{total if total is not None else '?'} items")
    if progress.failed or progress.bad:
        parts.append(f"{progress.failed + progress.bad} without a score")
    money = []
    if spent or cap is not None:
        money.append(f"${spent:.3f}" + (f" of ${cap:.2f}" if cap is not None else " spent"))
    in_flight = progress.begun - judged
    if total and progress.done < total and answered >= _MIN_ASKED and judged >= max(1, in_flight) and spent:
        cost = sum(tally.spent for tally in tallies) / (judged + in_flight / 2)  # those are half paid on average
        money.append(f"about ${spent + cost * (total - progress.done - in_flight / 2):.2f} in all")
    said = [", ".join(parts), *filter(None, [", ".join(filter(None, [*money, remaining]))])]
    if len(progress.by_metric) > 1:
        said.append("scored: " + ", ".join(f"{name} {count}" for name, count in progress.by_metric.items()))
    said += progress.waits
    if errors := sum(tally.errors for tally in tallies):
        last = next((tally.trouble for tally in tallies if tally.trouble), "")
        said.append(f"{errors} errors met" + (f", the last: {last[:_MAX_ERROR]}" if last else ""))
    return said


class TimeLeft:
    """Estimates from the pace of the whole session and of its last minute when a run will end."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque()  # a second apart

    def __call__(self, progress: Progress, now: float) -> str:
        """Return the pace of the last minute, and the time left as a range; empty as long as there are too few answers to tell."""
        done, all_ = _work(progress)
        if not self._counts or now - self._counts[-1][0] >= 1:
            self._counts.append((now, done))
            while len(self._counts) > _MOST_KEPT:
                self._counts.popleft()
        seconds = now - progress.started
        if all_ is None or done >= all_ or done < min(_MIN_ANSWERS, all_ / 2) or seconds < _MIN_SECONDS:
            return ""
        (since, before) = self._counts[0]
        paces = [done / seconds, (done - before) / (now - since) if now > since else 0.0]
        if min(paces) <= 0:
            return ""  # it stands still
        rest = all_ - done
        unit = "answers" if progress.expected else "items"
        left = span(rest / max(paces) / _MARGIN, rest / min(paces) * _MARGIN)
        return f"{paces[1] * 60:,.0f} {unit}/min, {left} left"


def _work(progress: Progress) -> tuple[int, int | None]:
    """Return how much is done of how much: answers, or items where no answers are known to come."""
    if expected := progress.expected:
        return progress.answers, expected
    return progress.judged, None if progress.total is None else progress.total - progress.resumed - progress.bad


def span(low: float, high: float) -> str:
    """Format a span of seconds in the unit that fits it, as `4 to 6 min`.

    >>> span(10, 50), span(25, 100), span(230, 340), span(5000, 9000)
    ('less than 1 min', 'up to 2 min', '3 to 6 min', '1 to 3 h')
    """
    unit, seconds = ("h", 3600) if high > 90 * 60 else ("min", 60)
    first, last = math.floor(low / seconds), math.ceil(high / seconds)
    if last <= 1:
        return f"less than 1 {unit}"
    return f"{first} to {last} {unit}" if first else f"up to {last} {unit}"


def duration(seconds: float) -> str:
    """Format a duration as M:SS, or H:MM:SS."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minutes}:{second:02}"


class Plain:
    """Prints a line every ten seconds, at the first error, and every minute while something waits and nothing changes."""

    def __init__(self, cap: float | None) -> None:
        self._cap, self._last, self._printed, self._time_left = cap, time.monotonic(), (-1, -1, 0, False), TimeLeft()

    def show(self, progress: Progress, engine: Engine) -> None:
        errors = sum(role.tally.errors for role in engine.roles.open())
        now = progress.done, progress.answers, errors, bool(progress.waits)
        remaining = self._time_left(progress, time.monotonic())
        first_error = now[2] > 0 == self._printed[2]
        interval = PLAIN_INTERVAL if now != self._printed else _STILL_INTERVAL if progress.waits else math.inf
        if first_error or time.monotonic() - self._last >= interval:
            self._last, self._printed = time.monotonic(), now
            self.say("; ".join(lines(progress, engine, self._cap, remaining)))

    def say(self, text: str) -> None:
        say(text, err=True)

    def close(self) -> None:
        return None


class Live:
    """Shows a progress bar of answers, and beside it the line that `Plain` prints."""

    def __init__(self, cap: float | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        self._cap, self._time_left = cap, TimeLeft()
        self._bar = Bar(
            BarColumn(bar_width=24),
            TextColumn("{task.description}", table_column=Column()),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None)
        self._bar.start()

    def show(self, progress: Progress, engine: Engine) -> None:
        from rich.markup import escape

        text = escape("\n".join(lines(progress, engine, self._cap, self._time_left(progress, time.monotonic()))))
        done, all_ = _work(progress)
        self._bar.update(self._task, completed=done, total=all_, description=text)

    def say(self, text: str) -> None:
        self._bar.console.print(printable(text), markup=False, highlight=False)

    def close(self) -> None:
        self._bar.stop()
