"""Remedies for images without a score, by cause: the same lines in the terminal, in `view` and in the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from titjudge.core.types import Cause, Status, Values

if TYPE_CHECKING:
    from titjudge.core.run_records import FailureRecord


@dataclass(frozen=True, slots=True)
class Advice:
    """The remedy for the failures of one cause.

    Attributes:
        cause: Its `Cause`, or its status if that is the cause.
        count: Number of images that have no score by one or several metrics for it.
        remedy: The action to take, in one line.
    """

    cause: Cause | Status
    count: int
    remedy: str

    def __str__(self) -> str:
        return f"{self.count:,} {WORDS[self.cause][0]}: {self.remedy}"


def advice(failures: Iterable[FailureRecord], limits: Values) -> list[Advice]:
    """Return advice on the failures of a run, the commonest cause first.

    Args:
        failures: `Results.failures`.
        limits: `Manifest.limits`, or the limits of a configuration; the advice is half of their concurrency.
    """
    causes = {str(cause): cause for cause in WORDS}
    images = dict.fromkeys((failure.cause or failure.status, failure.item) for failure in failures)
    counts = Counter(causes.get(name, Cause.UNANSWERED) for name, _ in images).most_common()
    return [Advice(cause, count, remedy(cause, limits.get("concurrency", 32))) for cause, count in counts]


def remedy(cause: Cause | Status, concurrency: int = 32) -> str:
    """Return advice on missing scores with one cause, in one line; `concurrency`: the limit of the run."""
    return WORDS[cause][1].format(slower=concurrency // 2 or 1)


WORDS: dict[Cause | Status, tuple[str, str]] = {
    Cause.CROWDED: (
        "delayed by rate limits, an overloaded server or timeouts",
        "run the command again with a lower --concurrency, such as {slower}",
    ),
    Cause.UNANSWERED: (
        "without an answer (an outage or a broken connection)",
        "run the command again to repeat these requests",
    ),
    Cause.REJECTED: (
        "rejected by the server or the model, or failed in code",
        "read the reasons; after you correct the cause, run the command again",
    ),
    Status.TRUNCATED: (
        "cut off at the token limit",
        "a larger max_tokens for this model in a file for --config (`captioner: {{model: ..., max_tokens: 16384}}`, "
        "or `judge:`); this starts a new run, which repeats the requests to this model",
    ),
    Status.REFUSED: (
        "refused by the model or its content filter",
        "run the command again with --retry-failed, or use another model for these images",
    ),
    Status.UNPARSED: (
        "not readable",
        "read the reasons; run the command again with --retry-failed; --set lenient=yes repairs malformed JSON",
    ),
    Status.BAD_INPUT: (
        "with an image or prompt that cannot be used",
        "correct or remove them, then run the command again",
    ),
    Status.MISSING: (
        "without a recorded answer",
        "write the open requests with `answers export`, record answers with `answers record`, then run the command again",
    ),
    Status.BUDGET: (
        "not requested, because the cap was reached",
        "run the command again with a higher cap (--max-cost)",
    ),
}
"""Each cause in words that follow the number of images, and the action to take."""
