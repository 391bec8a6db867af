"""Advice after failures: by cause, with the option that helps."""

from __future__ import annotations

import asyncio

import pytest

from titjudge.core.errors import Unanswered
from titjudge.core.failure_advice import Cause, advice, cause_of
from titjudge.core.run_records import FailureRecord
from titjudge.core.types import Failure, FailureKind, Status
from titjudge.engine.retry import AttemptFailed, Policy, retrying, terminal_error


def failed(status: str, reason: str = "") -> FailureRecord:
    return FailureRecord(item="a.png", status=status, reason=reason)


def given_up(failure: Failure) -> FailureRecord:
    """Let the retry loop give up on a failure, and record what it says."""

    async def ask() -> None:
        async def no_wait(seconds: float) -> None:
            """Take no time."""

        async for attempt in retrying(Policy(attempts=2, patience=1.0), sleep=no_wait, jitter=lambda: 1.0):
            with attempt:
                raise AttemptFailed(failure)

    with pytest.raises(Unanswered) as raised:
        asyncio.run(ask())
    return failed(raised.value.status, raised.value.reason)


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (Failure(FailureKind.RATE_LIMIT, "HTTP 429: slow down"), Cause.CROWDED),
        (Failure(FailureKind.LATER, "HTTP 503: busy"), Cause.CROWDED),
        (Failure(FailureKind.RATE_LIMIT, "HTTP 429: later", retry_after=90.0), Cause.CROWDED),
        (Failure(FailureKind.RETRY, "no answer from api.example.com within 120 s"), Cause.CROWDED),
        (Failure(FailureKind.RETRY, "HTTP 500: fault"), Cause.UNANSWERED),
        (Failure(FailureKind.LATER, "cannot connect", not_sent=True), Cause.UNANSWERED),
    ],
)
def test_the_words_of_the_retry_loop_tell_the_cause(failure: Failure, cause: Cause) -> None:
    assert cause_of(given_up(failure)) is cause


def test_a_request_that_the_server_rejects_is_no_outage() -> None:
    error = terminal_error(Failure(FailureKind.REJECTED, "HTTP 400: image too large"))
    assert isinstance(error, Unanswered)
    assert cause_of(failed(error.status, error.reason)) is Cause.REJECTED
    among = f"1 of 3 questions without an answer; 2: {error.reason}"
    assert cause_of(failed(error.status, among)) is Cause.REJECTED


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_every_status_without_a_score_has_a_remedy(status: Status) -> None:
    (line,) = advice([failed(status)])
    assert line.remedy
    assert str(line) == f"1 {line.cause}: {line.remedy}"
    assert "{" not in line.remedy.replace("{model:", "")


def test_the_commonest_cause_comes_first_with_its_count() -> None:
    lines = advice([failed("refused"), failed("failed", "still rate limited after 9 attempts"), failed("refused")])
    assert [(line.cause, line.count) for line in lines] == [(Cause.REFUSED, 2), (Cause.CROWDED, 1)]
    assert "--retry-failed" in lines[0].remedy


def test_the_advice_on_concurrency_is_half_of_what_it_was() -> None:
    crowded = [failed("failed", "still overloaded after 9 attempts")]
    assert "--concurrency, such as 4" in advice(crowded, {"concurrency": 8})[0].remedy
    assert "--concurrency, such as 16" in advice(crowded)[0].remedy
    assert "--concurrency, such as 1" in advice(crowded, {"concurrency": 1})[0].remedy


def test_a_status_of_a_later_version_counts_as_no_answer() -> None:
    assert cause_of(failed("postponed")) is Cause.UNANSWERED
