"""The lines that titjudge and a scorer of yours exchange, for the scripts beside this file. Python 3.9, no packages.

In, one JSON object a line: {"id", "prompt", "image"}. Out, one a line: {"id", "score"} and, if you like, "reason", "parts"
(numbers by name), "tokens_used" and "tokens_total". A score of null with a reason says that there is none.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

Row = dict[str, Any]


def rows(stream: IO[str]) -> list[Row]:
    """The pictures to score."""
    return [json.loads(line) for line in stream if line.strip()]


def line(row: Row, score: float | None, reason: str = "", **more: Any) -> str:
    """One answer; a number that is not finite is none."""
    if score is not None and not math.isfinite(score):
        score, reason = None, f"the scorer computed {score}"
    return json.dumps({"id": row["id"], "score": score, "reason": reason, **more}) + "\n"


@contextlib.contextmanager
def answers() -> Iterator[IO[str]]:
    """Where answers are written; whatever else this process prints goes to the error output meanwhile."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(kept), "w", encoding="utf-8") as out:
            yield out
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def serve(score: Callable[[Row], Row]) -> None:
    """Answer every line with what `score` makes of it: {"score", ...}. An exception is the reason of that line alone."""
    with answers() as out:
        for row in rows(sys.stdin):
            try:
                found = score(row)
                out.write(line(row, **found))
            except Exception as error:
                out.write(line(row, None, f"{type(error).__name__}: {error}"[:400]))
            out.flush()
