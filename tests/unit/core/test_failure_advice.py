"""Advice after failures: by cause, with the option that helps."""

import asyncio

import pytest

from titjudge.core.errors import Unanswered
from titjudge.core.failure_advice import WORDS, advice
from titjudge.core.run_records import FailureRecord
from titjudge.core.types import Cause, Failure, FailureKind, Status
from titjudge.engine.retry import AttemptFailed, Policy, retrying, terminal_error
from titjudge.providers.failure_hints import with_hint
from titjudge.providers.hosted.failures import classify
from titjudge.providers.hosted.http import Dropped, TimedOut, Unreachable


def failed(status: str, cause: str = "", item: str = "a.png") -> FailureRecord:
    return FailureRecord(item=item, status=status, cause=cause)


def given_up(failure: Failure) -> Unanswered:
    """Let the retry loop give up on a failure."""

    async def ask() -> None:
        async def no_wait(seconds: float) -> None:
            """Take no time."""

        async for attempt in retrying(Policy(attempts=2, patience=1.0), sleep=no_wait, jitter=lambda: 1.0):
            with attempt:
                raise AttemptFailed(failure)

    with pytest.raises(Unanswered) as raised:
        asyncio.run(ask())
    return raised.value


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (Failure(FailureKind.RATE_LIMIT, "HTTP 429: slow down"), Cause.CROWDED),
        (Failure(FailureKind.LATER, "HTTP 503: busy"), Cause.CROWDED),
        (Failure(FailureKind.RATE_LIMIT, "HTTP 429: later", retry_after=90.0), Cause.CROWDED),
        (Failure(FailureKind.RETRY, "HTTP 500: later", retry_after=90.0), Cause.CROWDED),
        (Failure(FailureKind.LATER, "HTTP 200: overloaded", answered=True), Cause.CROWDED),
        (classify(TimedOut("too slow")), Cause.CROWDED),
        (classify(Dropped("the connection broke")), Cause.UNANSWERED),
        (classify(Unreachable("no connection")), Cause.UNANSWERED),
        (Failure(FailureKind.RETRY, "HTTP 500: fault"), Cause.UNANSWERED),
        (Failure(FailureKind.LATER, "cannot connect", not_sent=True), Cause.UNANSWERED),
    ],
)
def test_the_retry_loop_hands_on_the_cause(failure: Failure, cause: Cause) -> None:
    assert given_up(failure).cause is cause


def test_a_request_that_the_server_rejects_is_no_outage() -> None:
    error = terminal_error(Failure(FailureKind.REJECTED, "HTTP 400: image too large"))
    assert isinstance(error, Unanswered)
    assert error.cause is Cause.REJECTED


@pytest.mark.parametrize("status", [*Cause, *(status for status in Status if status is not Status.OK)])
def test_every_cause_has_a_remedy(status: str) -> None:
    (line,) = advice([failed(status)], {})
    assert line.remedy
    assert str(line) == f"1 {WORDS[line.cause][0]}: {line.remedy}"
    assert "{" not in line.remedy.replace("{model:", "")


def test_the_commonest_cause_comes_first_with_its_count() -> None:
    refused = [failed("refused", item=item) for item in ("a.png", "b.png", "a.png")]  # a.png by two metrics
    lines = advice([failed("failed", "crowded"), *refused], {})
    assert [(line.cause, line.count) for line in lines] == [(Status.REFUSED, 2), (Cause.CROWDED, 1)]
    assert "--retry-failed" in lines[0].remedy


def test_the_advice_on_concurrency_is_half_of_what_it_was() -> None:
    crowded = [failed("failed", "crowded")]
    assert "--concurrency, such as 4" in advice(crowded, {"concurrency": 8})[0].remedy
    assert "--concurrency, such as 16" in advice(crowded, {})[0].remedy
    assert "--concurrency, such as 1" in advice(crowded, {"concurrency": 1})[0].remedy


def test_a_status_of_a_later_version_counts_as_no_answer() -> None:
    assert advice([failed("postponed")], {})[0].cause is Cause.UNANSWERED


@pytest.mark.parametrize(
    ("message", "fix"),
    [
        ("HTTP 400 from http://a/v1: Failed to load image or audio file", "PNG"),
        ("HTTP 400 from http://a/v1: unsupported image format: image/webp", "PNG"),
        ("HTTP 400 from http://a/v1: You uploaded an unsupported image. Invalid image data", "PNG"),
        ("HTTP 400 from http://a/v1: messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 7340032 bytes > 5242880 bytes", "max_side"),
        ("HTTP 413 from http://a/v1: no text", "max_side"),
        ("HTTP 400 from http://a/v1: System role not supported", "system"),
        ("HTTP 400 from http://a/v1: Developer instruction is not enabled for models/gemma-3-27b-it", "system"),
        ("HTTP 400 from http://a/v1: Conversation roles must alternate user/assistant/user/assistant/...", "system"),
        ("HTTP 400 from http://a/v1: Budget 0 is invalid. This model only works in thinking mode.", "thinking_budget"),
        ("HTTP 400 from http://a/v1: The thinking budget 0 is invalid. Please choose a value between 128 and 32768.", "thinking_budget"),
        ("HTTP 400 from http://a/v1: max_tokens is too large: 2048. This model supports at most 1024 completion tokens", "lower max_tokens"),
        ("HTTP 400 from http://a/v1: max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens", "lower max_tokens"),
        ("HTTP 400 from http://a/v1: This model's maximum context length is 4096 tokens. However, you requested 5000", "context"),
        ("HTTP 400 from http://a/v1: the request exceeds the available context size", "context"),
        ("HTTP 400 from http://a/v1: prompt is too long: 210000 tokens > 200000 maximum", "context"),
        ("HTTP 404 from http://a/v1: No endpoints found that support image input", "reads images"),
        ("HTTP 500 from http://a/v1: image input is not supported - hint: if this is unexpected, provide the mmproj", "--mmproj"),
        ("HTTP 400 from http://a/v1: unknown variant `image_url`, expected `text`", "reads images"),
        ("HTTP 400 from http://a/v1: llama-3 is not a multimodal model", "reads images"),
        ("HTTP 400 from http://a/v1: This model does not support images", "reads images"),
        ("HTTP 400 from http://a/v1: The model `gpt-4o` has been decommissioned", "gpt-6-luna"),
        ("HTTP 404 from http://a/v1: The model `gpt-4o` does not exist or you do not have access to it", "gpt-6-luna"),
        ("HTTP 404 from http://a:8000/chat/completions: Not Found", "/v1"),
    ],
)  # fmt: skip
def test_the_known_fix_stands_behind_the_words_of_the_vendor(message: str, fix: str) -> None:
    _, status, _, place, *_ = message.split()
    said = with_hint(message, "gpt-4o", int(status), place.rstrip(":"))
    assert said.startswith(message)
    assert fix in said.removeprefix(message)


@pytest.mark.parametrize(
    "message",
    [
        "HTTP 400 from http://a/v1: something else",
        "HTTP 401 from http://a/v1: Incorrect API key provided",
        "HTTP 404 from http://a/v1/chat/completions: Not Found",
        "HTTP 403 from http://a/v1: Country, region, or territory not supported",
        "the image has changed since it was read",
    ],
)
def test_no_fix_is_made_up(message: str) -> None:
    assert with_hint(message, "gpt-4o") == message
