"""Progress of a run on standard error: one live line on a terminal, a new line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from titjudge.cli.terminal import printable, say

if TYPE_CHECKING:
    from titjudge.engine.pipeline import Engine
    from titjudge.runs.loop import Progress

PLAIN_INTERVAL = 10.0  # seconds between plain lines
_MIN_ASKED = 20  # requests after which the total cost can be estimated
_MAX_ERROR = 100  # characters of the last error


def watcher(cap: float | None) -> Any:
    """Choose how to show progress; `cap` is the cap in USD."""
    return Live(cap) if sys.stderr.isatty() else Plain(cap)


def line(progress: Progress, engine: Engine, cap: float | None) -> str:
    """Format items done, requests, failures, rate, cost and time left."""
    seconds = max(1e-9, time.monotonic() - progress.started)
    judged = progress.done - progress.resumed - progress.bad  # in this session
    rate = judged / seconds
    total = progress.total
    tallies = [role.tally for role in engine.roles.open()]
    asked, spent = sum(tally.asked for tally in tallies), engine.budget.spent
    parts = [f"{progress.done}/{total if total is not None else '?'} items"]
    parts.append(f"{asked} asked, {sum(tally.cached for tally in tallies)} cached")
    if progress.failed or progress.bad:
        parts.append(f"{progress.failed + progress.bad} without a score")
    if errors := sum(tally.errors for tally in tallies):
        last = next((tally.trouble for tally in tallies if tally.trouble), "")
        parts.append(f"{errors} errors met" + (f" ({last[:_MAX_ERROR]})" if last else ""))
    parts.append(f"{rate:.1f} items/s")
    if spent or cap is not None:
        parts.append(f"${spent:.3f}" + (f" of ${cap:.2f}" if cap is not None else " spent"))
    in_flight = progress.begun - judged
    if total and progress.done < total and asked >= _MIN_ASKED and judged >= max(1, in_flight) and spent:
        cost = sum(tally.spent for tally in tallies) / (judged + in_flight / 2)  # those are half paid on average
        parts.append(f"about ${spent + cost * (total - progress.done - in_flight / 2):.2f} in all")
    if total and rate > 0 and progress.done < total:
        parts.append(f"{duration((total - progress.done) / rate)} left")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Format a duration as M:SS, or H:MM:SS."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minutes}:{second:02}"


class Plain:
    """Prints a line every ten seconds, and at the first error."""

    def __init__(self, cap: float | None) -> None:
        self._cap, self._last, self._shown = cap, time.monotonic(), (-1, 0)

    def show(self, progress: Progress, engine: Engine) -> None:
        now = progress.done, sum(role.tally.errors for role in engine.roles.open())
        first_error = now[1] > 0 == self._shown[1]
        if now != self._shown and (first_error or time.monotonic() - self._last >= PLAIN_INTERVAL):
            self._last, self._shown = time.monotonic(), now
            self.say(line(progress, engine, self._cap))

    def say(self, text: str) -> None:
        say(text, err=True)

    def close(self) -> None:
        return None


class Live:
    """Shows a progress bar with the same line."""

    def __init__(self, cap: float | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self._cap = cap
        self._bar = Bar(
            BarColumn(bar_width=24), TextColumn("{task.description}"), console=Console(stderr=True), transient=True
        )
        self._task = self._bar.add_task("starting", total=None)
        self._bar.start()

    def show(self, progress: Progress, engine: Engine) -> None:
        from rich.markup import escape

        text = escape(line(progress, engine, self._cap))
        self._bar.update(self._task, completed=progress.done, total=progress.total, description=text)

    def say(self, text: str) -> None:
        self._bar.console.print(printable(text), markup=False, highlight=False)

    def close(self) -> None:
        self._bar.stop()
