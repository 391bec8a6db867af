"""What to do about images that got no score, by cause: the same lines in the terminal, in `view` and in the report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from titjudge.core import retirements
from titjudge.core.run_records import FailureRecord
from titjudge.core.types import Status

_HINTS = tuple((re.compile(pattern, re.IGNORECASE), hint) for pattern, hint in (
    (r"webp", "save the images as PNG or JPEG"),
    (r"(?:unsupported|invalid|unknown|not a valid|un(?:able|recognized)|failed|cannot|could not|can't)\b.{0,40}\b(?:image|media)\b.{0,20}"
     r"\b(?:format|type|data|file)|(?:decode|load|identify|process)\b.{0,30}\bimage",
     "save the images as PNG or JPEG"),
    (r"image.{0,20}input.{0,40}not (?:supported|enabled|available)|(?:not|n't) support\w* (?:any )?(?:image|vision|multimodal)|support image input"
     r"|not a (?:multimodal|vision)|at most 0 image|image_url.{0,60}(?:expected|not |unsupported|unknown)|unknown variant .?image_url"
     r"|(?:image|vision)\w*(?: inputs?| content)? (?:is|are) not (?:supported|allowed)|mmproj",
     "choose a model that reads images; llama.cpp also needs --mmproj"),
    (r"system.{0,40}(?:not (?:supported|allowed|enabled)|unsupported)|(?:support|allow)\w* .{0,20}system (?:role|message|prompt)"
     r"|developer instruction|roles must alternate|only user and assistant roles",
     "write the prompt templates without a system turn, or choose another model"),
    (r"budget.{0,10}\b(?<![.\d])0\b(?!\.)|thinking.{0,40}(?:budget|required|mandatory|cannot be (?:disabled|turned off))|only works in thinking mode",
     "this model always thinks: set thinking_budget above 0, or remove it"),
    (r"context.{0,20}(?:length|window|size)|maximum (?:context|model length)|(?:prompt|input) is too long|too many (?:input |prompt )?tokens(?! per)|tokens.{0,20}exceed.{0,40}context",
     "set max_side, lower max_tokens, or give the server a longer context (vLLM --max-model-len, llama.cpp -c, Ollama num_ctx)"),
    (r"max_?(?:completion_|output_?)?tokens.{0,60}(?:too (?:large|high|big)|exceed|at most|less than|maximum|range|<=)|(?:maximum|supports? at most).{0,40}"
     r"(?:output|completion) tokens",
     "lower max_tokens of this model in a file for --config"),
    (r"(?:image|photo|file|payload|request|body)\b.{0,60}\b(?:too large|exceeds?|larger than|over the limit)|\bHTTP 413\b",
     "set max_side of this model, for example max_side: 1024, or save the images as JPEG"),
))  # fmt: skip
_RETIRED = re.compile(
    r"decommissioned|deprecated|retired|sunset|shut ?down|end[- ]of[- ]life|discontinued|no longer (?:available|supported|served|exists?)"
    r"|model.{0,60}(?:does not exist|not found|not exist|unavailable|is not available)|unknown model|invalid model",
    re.IGNORECASE,
)
_NO_PATH = re.compile(r"^HTTP 40[45] from (\S+?):? ")


def with_hint(message: str, model: str = "") -> str:
    """Append the known fix to the line of an error of a server; the line itself if none is known.

    >>> with_hint("HTTP 400 from http://a/v1: unsupported image format: webp")
    'HTTP 400 from http://a/v1: unsupported image format: webp (save the images as PNG or JPEG)'
    """
    hint = _hint(message)
    if not hint and _RETIRED.search(message):
        names = {entry.model: entry.successor for entry in retirements.table() if entry.successor}
        successor = names.get(model.rpartition("/")[2].lower(), "")
        hint = f"choose another model{f', such as its successor {successor}' if successor else ''}"
    elif not hint and (place := _NO_PATH.match(message)) and not re.search(r"/v\d", place[1]):
        hint = "is base_url complete? Most servers need /v1 at its end"
    return f"{message} ({hint})" if hint else message


def lasts(message: str) -> bool:
    """Whether an error has a cause that asking again does not remove."""
    return bool(_hint(message))


def _hint(message: str) -> str:
    return next((hint for pattern, hint in _HINTS if pattern.search(message)), "")


class Cause(StrEnum):
    """Why scores are missing, in words that follow their number."""

    UNANSWERED = "without an answer (an outage or a broken connection)"
    CROWDED = "held up by rate limits, an overloaded server or timeouts"
    REJECTED = "rejected by the server or the model"
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
_GIVEN_UP = re.compile(r"no answer after \d+ attempts|still out of reach after")
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
    is_rejected = failure.status == Status.FAILED and failure.reason and not _GIVEN_UP.search(failure.reason)
    return Cause.REJECTED if is_rejected else Cause.UNANSWERED


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
    Cause.UNPARSED: "look at the reasons; the same command with --retry-failed asks once more; --lenient repairs malformed JSON",
    Cause.BAD_INPUT: "mend or remove them, then the same command again",
    Cause.MISSING: "`batch export` writes what is open, `batch record` records the answers; then the same command again",
    Cause.BUDGET: "the same command with a higher cap (--max-cost)",
}
