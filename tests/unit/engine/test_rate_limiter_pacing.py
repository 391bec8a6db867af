"""Token buckets, and the headers that fill them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titjudge.engine.rate_limiter import HeaderLimit, RateLimiter, TokenBucket, read_limits, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0), ("6m0s", 360.0), ("12ms", 0.012), ("1h2m3.5s", 3723.5), ("0.25", 0.25), ("20", 20.0), ("1d", 86400.0),
        ("", None), (None, None), ("soon", None), ("5 s x", None), ("-1", None), ("nan", None), ("1s!", None),
        ("2026-11-20T10:00:00Z", None), ("1795000000", None),
    ],
)  # fmt: skip
def test_spans_of_time(text: str | None, seconds: float | None) -> None:
    assert seconds_of(text) == (None if seconds is None else pytest.approx(seconds))


def test_headers_of_openai() -> None:
    headers = {
        "X-RateLimit-Limit-Requests": "3000", "x-ratelimit-remaining-requests": "2999", "x-ratelimit-reset-requests": "20ms",
        "x-ratelimit-limit-tokens": "200000", "x-ratelimit-remaining-tokens": "150000", "x-ratelimit-reset-tokens": "15s",
        "content-type": "application/json",
    }  # fmt: skip
    assert read_limits(headers) == {
        "requests": HeaderLimit(3000, 2999, 0.02),
        "tokens": HeaderLimit(200_000, 150_000, 15),
    }


def test_headers_of_others() -> None:
    anthropic = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-11-20T10:00:00Z",
    }
    assert read_limits(anthropic) == {"requests": HeaderLimit(50, 49)}  # by a clock we do not know
    there = {**anthropic, "Date": "Fri, 20 Nov 2026 09:59:30 GMT"}
    assert read_limits(there) == {"requests": HeaderLimit(50, 49, 30.0)}
    for reset in ("2026-11-20T10:00:00", "soon", "2099-01-01T00:00:00Z"):  # no zone, no time, no span
        assert read_limits({**there, "anthropic-ratelimit-requests-reset": reset}) == {"requests": HeaderLimit(50, 49)}
    past = {**there, "anthropic-ratelimit-requests-reset": "2026-11-20T09:00:00Z"}
    assert read_limits(past) == {"requests": HeaderLimit(50, 49, 0.0)}
    ietf = {"RateLimit-Limit": "100, 100;w=60", "RateLimit-Remaining": "7", "RateLimit-Reset": "30"}
    assert read_limits(ietf) == {"requests": HeaderLimit(100, 7, 30)}


@pytest.mark.parametrize("value", ["", "many", "-1", "nan", "inf", "0"])
def test_headers_that_make_no_sense_are_left_out(value: str) -> None:
    assert read_limits({"x-ratelimit-limit-requests": value, "x-ratelimit-remaining-requests": "3"}) == {}
    assert read_limits({"x-ratelimit-limit-requests": "60"}) == {}


def test_a_daily_limit_is_recognised_by_its_reset() -> None:
    daily, minute = TokenBucket(now=0.0), TokenBucket(now=0.0)
    daily.observe(HeaderLimit(14_400, 14_370, 179.56), 0, 0.0)
    minute.observe(HeaderLimit(3000, 0, 60), 0, 0.0)
    assert daily.rate == pytest.approx(14_400 / 86_400, rel=0.01)
    assert minute.rate == 50


def test_more_than_the_bucket_holds_goes_when_it_is_full() -> None:
    pacer = TokenBucket.explicit(600, 0.0, tokens=True)  # 10 a second, 10 at most
    assert pacer.delay(500, 0.0) == 0.0
    pacer.take(500, 0.0)
    assert pacer.delay(1, 0.0) == pytest.approx(49.1)
    pacer.give_back(400)
    assert pacer.delay(1, 0.0) == pytest.approx(9.1)


def test_headers_hold_up_nobody_for_longer_than_a_minute() -> None:
    pacer = TokenBucket(now=0.0)
    pacer.observe(HeaderLimit(10, 0, 86_400), 0, 0.0)
    assert pacer.delay(1, 0.0) == 60.0
    pacer.take(1, 60.0)
    assert pacer.delay(1, 60.0) == 60.0


def test_a_little_is_left_in_a_servers_bucket_for_requests_that_overtake_each_other() -> None:
    pacer = TokenBucket(now=0.0)
    pacer.observe(HeaderLimit(3000, 3, 5.0), 0, 0.0)
    assert pacer.delay(1, 0.0) == pytest.approx(0.06)
    small = TokenBucket(now=0.0)
    small.observe(HeaderLimit(60, 1, 1.0), 0, 0.0)
    assert small.delay(1, 0.0) == pytest.approx(0.1)


def test_what_is_on_its_way_is_taken_off_only_where_it_may_be_uncounted() -> None:
    pacer = TokenBucket(now=0.0)
    pacer.observe(HeaderLimit(600, 100, None), 30, 0.0)
    assert pacer._level == 70
    pacer.observe(HeaderLimit(600, 100, None), 0, 0.0)
    assert pacer._level == 100
    pacer.observe(HeaderLimit(600, 5, None), 0, 0.0)  # somebody else uses the account, too
    assert pacer._level == pytest.approx(5.999)


@settings(max_examples=100, deadline=None)
@given(st.floats(1, 6000), st.lists(st.tuples(st.floats(0, 20), st.integers(1, 30)), min_size=1, max_size=80))
def test_an_explicit_limit_is_never_passed_beyond_its_burst(rpm: float, bursts: list[tuple[float, int]]) -> None:
    pacer, now, sent = TokenBucket.explicit(rpm, 0.0), 0.0, []
    for gap, wanted in bursts:
        now += gap
        for _ in range(wanted):
            now += pacer.delay(1, now)
            pacer.take(1, now)
            sent.append(now)
    burst = max(1.0, rpm / 60)
    first = 0
    for last, moment in enumerate(sent):
        while sent[first] <= moment - 60:
            first += 1
        assert last - first + 1 <= rpm + burst + 1e-6


@pytest.mark.parametrize(("every", "free_after"), [(0.1, 3), (60.0, 1)])
def test_what_one_answer_said_is_forgotten_when_the_next_ones_say_nothing(every: float, free_after: int) -> None:
    now = 0.0
    limiter = RateLimiter(8, now=lambda: now)
    odd = {"x-ratelimit-limit-requests": "1", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1d"}
    limiter.observe_headers(odd)
    for _ in range(free_after):
        assert limiter._delay(1) > 0
        now += every
        limiter.observe_headers({"content-type": "application/json"})
    assert limiter._delay(1) <= 0
    for _ in range(5):  # and what every other answer says stays
        limiter.observe_headers(odd)
        limiter.observe_headers({})
    assert limiter._delay(1) > 0
