"""Progress of a run: one live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from titjudge.cli.terminal import printable, say
from titjudge.engine.pipeline import Engine
from titjudge.runs.loop import Progress

_OBSERVED = 20  # answers after which the cost of the rest is told from those that came
_TROUBLE = 100  # characters of the last error
_PLAIN = 10.0  # seconds between plain lines


def watcher(cap: float | None) -> Any:
    return Live(cap) if sys.stderr.isatty() else Plain(cap)


def line(progress: Progress, engine: Engine, cap: float | None) -> str:
    """done, cached, failed, rate, spent of cap, time left."""
    seconds = max(1e-9, time.monotonic() - progress.started)
    fresh = progress.done - progress.resumed
    rate = fresh / seconds
    total = progress.total
    parts = [f"{progress.done}/{total if total is not None else '?'} items"]
    asked = sum(role.tally.asked for role in engine.roles.open())
    cached = sum(role.tally.cached for role in engine.roles.open())
    parts.append(f"{asked} asked, {cached} cached")
    if progress.failed or progress.bad:
        parts.append(f"{progress.failed + progress.bad} without a score")
    retries = sum(role.tally.errors for role in engine.roles.open())
    if retries:
        trouble = next((role.tally.trouble for role in engine.roles.open() if role.tally.trouble), "")
        parts.append(f"{retries} errors met" + (f" ({trouble[:_TROUBLE]})" if trouble else ""))
    parts.append(f"{rate:.1f} items/s")
    if engine.budget.spent or cap is not None:
        parts.append(f"${engine.budget.spent:.3f}" + (f" of ${cap:.2f}" if cap is not None else " spent"))
    if total and asked >= _OBSERVED and 0 < fresh < total - progress.resumed and engine.budget.spent:
        spent = sum(role.tally.spent for role in engine.roles.open())
        parts.append(f"about ${engine.budget.spent + spent / fresh * (total - progress.done):.2f} in all")
    if total and rate > 0 and progress.done < total:
        parts.append(f"{_duration((total - progress.done) / rate)} left")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    whole = int(seconds)
    return (
        f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"
        if whole >= 3600
        else f"{whole // 60}:{whole % 60:02}"
    )


class Plain:
    """Lines on standard error."""

    def __init__(self, cap: float | None) -> None:
        self._cap, self._last, self._shown = cap, time.monotonic(), (-1, 0)

    def show(self, progress: Progress, engine: Engine) -> None:
        now = progress.done, sum(role.tally.errors for role in engine.roles.open())
        first = now[1] > 0 == self._shown[1]  # what goes wrong is said at once
        if now != self._shown and (first or time.monotonic() - self._last >= _PLAIN):
            self._last, self._shown = time.monotonic(), now
            self.say(line(progress, engine, self._cap))

    def say(self, text: str) -> None:
        say(text, err=True)

    def close(self) -> None:
        return None


class Live:
    """A progress bar with the same facts."""

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
