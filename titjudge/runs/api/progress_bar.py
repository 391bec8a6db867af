"""A progress bar for the Python API: a line in a terminal, a widget in a notebook, nothing elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from typing import Any

from titjudge.runs.api.judged_scores import JudgedScore

_INTERVAL = 0.5  # seconds between two looks at what was answered
_FORMAT = "{desc} {percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} scores, {elapsed}{postfix}"


class ProgressBar:
    """Counts scores, and beside them answers, missing scores and money. As a context manager it goes away at the end.

    Args:
        total: The number of scores to come.
        beside: Returns what stands beside the bar: names and values.
        visible: Whether to show it; None shows it where a person watches, in a terminal or a notebook.
    """

    def __init__(self, total: int, beside: Callable[[], dict[str, Any]], visible: bool | None = None) -> None:
        self._beside, self._missing = beside, 0
        self._bar: Any = None
        if (watched() if visible is None else visible) and total:
            from tqdm.auto import tqdm

            always = {"disable": False} if visible else {}  # else TQDM_DISABLE of the environment counts
            self._bar = tqdm(total=total, desc="judging", leave=False, bar_format=_FORMAT, **always)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    async def over(self, scores: AsyncGenerator[JudgedScore, None]) -> AsyncGenerator[JudgedScore, None]:
        """Yield scores as they come, and count them."""
        if self._bar is None:
            async for score in scores:
                yield score
            return
        looking = asyncio.create_task(self._look())
        try:
            async for score in scores:
                self._missing += score.value is None
                self._bar.update()
                yield score
        finally:
            looking.cancel()
            await scores.aclose()

    async def _look(self) -> None:
        while True:
            missing = {"without a score": self._missing} if self._missing else {}
            with contextlib.suppress(Exception):  # a closed notebook must not end the judging
                self._bar.set_postfix({**self._beside(), **missing})
            await asyncio.sleep(_INTERVAL)


def watched() -> bool:
    """Tell whether a person sees what is written to standard error: in a terminal, or in a notebook."""
    shell = sys.modules.get("IPython")
    kernel = getattr(shell.get_ipython(), "kernel", None) if shell is not None else None
    return kernel is not None or bool(getattr(sys.stderr, "isatty", lambda: False)())
