"""What to do about images that got no score, by cause: the same lines in the terminal, in `view` and in the report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from titjudge.core.run_records import FailureRecord
from titjudge.core.types import Status


class Cause(StrEnum):
    """Why scores are missing, in words that follow their number."""

    UNANSWERED = "without an answer (an outage or a broken connection)"
    CROWDED = "held up by rate limits, an overloaded server or timeouts"
    REJECTED = "rejected by the server"
    TRUNCATED = "cut off at the token limit"
    REFUSED = "refused by the model or its content filter"
    UNPARSED = "not readable"
    BAD_INPUT = "for images or prompts that cannot be used"
    MISSING = "without a recorded answer"
    BUDGET = "not asked, as the cap was reached"


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about the failures of one cause.

    Attributes:
        cause: The cause.
        count: Number of scores that are missing for it; an image counts once for each metric.
        remedy: What to do, in one line.
    """

    cause: Cause
    count: int
    remedy: str

    def __str__(self) -> str:
        return f"{self.count:,} {self.cause}: {self.remedy}"


# The words are those of `engine.retry` and of the providers' timeouts.
_CROWDED = re.compile(
    r"still (rate limited|overloaded) after|the server asks to wait|no answer from \S+ within|Timeout|timed out"
)
_REJECTED = re.compile(r"^(\d+ of \d+ questions without an answer; \d+: )?HTTP 4\d\d")
_CAUSES = {
    Status.TRUNCATED: Cause.TRUNCATED,
    Status.REFUSED: Cause.REFUSED,
    Status.UNPARSED: Cause.UNPARSED,
    Status.BAD_INPUT: Cause.BAD_INPUT,
    Status.MISSING: Cause.MISSING,
    Status.BUDGET: Cause.BUDGET,
}


def cause_of(failure: FailureRecord) -> Cause:
    """Tell why a score is missing, by its status and, where there was no answer, the words of its reason."""
    if cause := _CAUSES.get(Status(failure.status) if failure.status in [*Status] else Status.FAILED):
        return cause
    if _CROWDED.search(failure.reason):
        return Cause.CROWDED
    return Cause.REJECTED if _REJECTED.match(failure.reason) else Cause.UNANSWERED


def advice(failures: Iterable[FailureRecord], limits: Mapping[str, Any] | None = None) -> list[Advice]:
    """Say what to do about the failures of a run, the commonest cause first.

    Args:
        failures: `Results.failures`.
        limits: `Manifest.limits`, or those of a configuration; the advice on concurrency is half of theirs.
    """
    counts = Counter(map(cause_of, failures))
    concurrency = int((limits or {}).get("concurrency") or 32)
    return [Advice(cause, count, remedy(cause, concurrency)) for cause, count in counts.most_common()]


def remedy(cause: Cause, concurrency: int = 32) -> str:
    """Say what to do about scores that are missing for a cause, in one line; `concurrency` is that of the run."""
    return _REMEDIES[cause].format(slower=max(1, concurrency // 2))


_REMEDIES = {
    Cause.UNANSWERED: "the same command again asks them again",
    Cause.CROWDED: "the same command again with a lower --concurrency, such as {slower}",
    Cause.REJECTED: "look at the reasons; once the cause is mended, the same command asks them again",
    Cause.TRUNCATED: "a larger max_tokens for this model in a file for --config (`captioner: {{model: ..., max_tokens: "
    "16384}}`, or `judge:`); this is a new run, which asks that model anew",
    Cause.REFUSED: "the same command with --retry-failed asks once more; another model may answer what this one never will",
    Cause.UNPARSED: "the same command with --retry-failed asks once more; --lenient repairs malformed JSON",
    Cause.BAD_INPUT: "mend or remove them, then the same command again",
    Cause.MISSING: "`batch export` writes what is open, `batch record` records the answers; then the same command again",
    Cause.BUDGET: "the same command with a higher cap (--max-cost)",
}
