"""What a server says in an error is found through the wrappers of gateways."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.types import Failure, FailureKind, Status
from titjudge.providers import ProviderSettings
from titjudge.providers.hosted import error_bodies, http
from titjudge.providers.hosted.base import AskedFor
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.openai import OpenAI

TEMPERATURE = "Unsupported value: 'temperature' does not support 0 with this model."
INNER = {"error": {"message": TEMPERATURE, "param": "temperature", "code": "unsupported_value"}}
RAW = json.dumps(INNER)


def router(raw: Any) -> dict[str, Any]:
    """OpenRouter's wrapper."""
    return {
        "error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "Acme"}}
    }


WRAPPED: list[Any] = [
    INNER,
    router(RAW),
    router(INNER),
    router(json.dumps(router(RAW))),
    {"error": RAW},
    {"error": TEMPERATURE},
    {"detail": TEMPERATURE},
    {"detail": INNER},
    {"message": RAW},
    {"message": TEMPERATURE},
    {"errors": [{"message": TEMPERATURE}]},
    {"success": False, "errors": [{"code": 5006, "message": RAW}]},
    [INNER],
    [{"error": [{"message": TEMPERATURE}]}],
    {"error": {"message": f"litellm.BadRequestError: OpenAIException - {RAW}. Received Model Group=x"}},
    {"error": {"message": f"litellm.BadRequestError: AnthropicException - {RAW.encode()!r}"}},
    {"error": {"message": f"Error code: 400 - {INNER!r}"}},
    {"error": {"type": "upstream_error", "message": "upstream said no", "cause": INNER}},
    {"type": "error", "error": {"type": "invalid_request_error", "message": TEMPERATURE}},
    {"statusCode": 400, "body": RAW},
]


@pytest.mark.parametrize("body", WRAPPED)
def test_a_refused_parameter_is_found_in_every_wrapper(body: Any) -> None:
    error = error_bodies.read(orjson.dumps(body))
    assert error.refused == "temperature"
    assert "does not support 0" in error.text
    provider = OpenAI(ProviderSettings("m", base_url="http://127.0.0.1:9/v1"))
    failure = provider.read_error(http.Answer(400, {}, orjson.dumps(body)), AskedFor({"temperature"})).failure
    assert failure.kind is FailureKind.RETRY
    assert "temperature" in provider.refused


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ({"error": {"message": "Not allowed here.", "param": "seed", "code": None}}, "seed"),
        ({"error": {"message": "no", "param": "body.top_p"}}, "top_p"),
        ({"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 1}]}, "seed"),
        ({"error": {"message": "temperature must be at most 2", "param": "temperature"}}, ""),
        ({"error": {"message": "max_tokens is too large", "param": "max_tokens", "code": "invalid_value"}}, ""),
        ({"error": {"message": "Not allowed here.", "param": "messages"}}, ""),
        ({"error": {"message": f"Your prompt '{RAW}' was blocked"}}, ""),
    ],
)  # fmt: skip
def test_the_field_param_counts_unless_the_value_alone_is_wrong(body: Any, refused: str) -> None:
    assert error_bodies.read(orjson.dumps(body)).refused == refused


SCHEMAS = [
    (
        400,
        "Invalid schema for response_format 'Rating': In context=('properties', 'score'), 'maximum' is not permitted.",
    ),
    (400, 'JSON schema conversion failed:\nUnrecognized schema: {"maximum":100}'),
    (400, "For 'number' type, properties maximum, minimum are not supported"),
    (400, "The specified schema produces a constraint that has too many states for serving."),
    (
        400,
        "Invalid JSON payload received. Unknown name \"responseJsonSchema\" at 'generation_config': Cannot find field.",
    ),
    (400, "This response_format type is unavailable now"),
    (404, "No endpoints found that support structured outputs"),
    (422, "extra fields: additionalProperties"),
    (500, "failed to parse grammar"),
    (501, "guided decoding is off"),
    (400, "no"),  # the field `param` says it
]


@pytest.mark.parametrize(("status", "message"), SCHEMAS)
@pytest.mark.parametrize("make", [OpenAI, Gemini])
def test_a_refused_schema_is_asked_for_in_words_once(make: Any, status: int, message: str) -> None:
    param = "response_format.json_schema" if message == "no" else None
    for body in (
        {"error": {"message": message, "param": param}},
        router(json.dumps({"error": {"message": message, "param": param}})),
    ):
        provider = make(ProviderSettings("gemini-2.5-pro", base_url="http://127.0.0.1:9/v1"))
        answer = http.Answer(status, {}, orjson.dumps(body))
        first = provider.read_error(answer, AskedFor(schema=True)).failure
        assert (first.kind, first.retry_after, provider.native_schema) == (FailureKind.RETRY, 0.0, False)
        again = provider.read_error(answer).failure
        assert again.retry_after is None or status == 500


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens",
        "Your prompt 'a schema of the heart' was blocked",
        "The image is larger than the maximum",
        "property 'seed' is unsupported",
    ],
)
def test_other_errors_leave_the_schema_alone(message: str) -> None:
    provider = OpenAI(ProviderSettings("m", base_url="http://127.0.0.1:9/v1"))
    body = orjson.dumps({"error": {"message": message}})
    provider.read_error(http.Answer(400, {}, body), AskedFor({"seed"}, schema=True))
    assert provider.native_schema


@pytest.mark.parametrize(
    "body",
    [
        router(json.dumps({"error": {"code": "content_filter", "message": "x"}})),
        router("The response was filtered due to the prompt triggering the content management policy"),
        {"error": "Your request was rejected as a result of our safety system."},
        {"error": {"message": "flagged", "metadata": {"flagged_input": "a"}}},
        {"errors": [{"code": "data_inspection_failed", "message": "x"}]},
    ],
)
def test_filters_are_found_in_wrappers(body: Any) -> None:
    assert error_bodies.read(orjson.dumps(body)).kind(400) is FailureKind.REFUSED


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (
            400,
            {
                "error": {
                    "message": "litellm.ContentPolicyViolationError: AzureException - The response was filtered. Received Model Group=x"
                }
            },
        ),
        (
            400,
            {"error": {"message": "{'error': 'Violated guardrail policy', 'bedrock_guardrail_response': 'blocked'}"}},
        ),
        (446, {"error": {"message": "The guardrail checks of the config failed.", "type": "hooks_failed"}}),
        (422, {"error": {"message": "The prompt may contain NSFW content."}}),
        (400, {"error": {"code": "1301", "message": "系统检测到输入或生成内容可能包含不安全或敏感内容"}}),
    ],
)
def test_filters_of_gateways_are_found(status: int, body: Any) -> None:
    assert error_bodies.read(orjson.dumps(body)).kind(status) is FailureKind.REFUSED


def test_a_quoted_prompt_is_no_filter() -> None:
    error = error_bodies.read(b'{"error": {"message": "cannot read \'moderation of a forum\'"}}')
    assert error.kind(400) is FailureKind.REJECTED


def in_an_answer(body: Any, make: Any = OpenAI) -> Failure:
    """What becomes of a body that came with HTTP 200."""
    provider = make(ProviderSettings("gemini-2.5-pro", base_url="http://127.0.0.1:9/v1"))
    try:
        provider.read_reply(http.Answer(200, {}, orjson.dumps(body)), AskedFor())
    except Exception as error:
        return provider.classify(error)  # type: ignore[no-any-return]
    raise AssertionError("it is an answer")


@pytest.mark.parametrize("make", [OpenAI, Gemini])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"code": 429, "message": "slow"}}, FailureKind.RATE_LIMIT),
        ({"error": {"code": "429", "message": "slow"}}, FailureKind.RATE_LIMIT),
        ({"error": {"type": "rate_limit_error", "message": "slow"}}, FailureKind.RATE_LIMIT),
        ({"error": "Too many requests"}, FailureKind.RATE_LIMIT),
        ({"error": "the model is overloaded"}, FailureKind.LATER),
        ({"code": 401, "msg": "invalid token"}, FailureKind.FATAL),
        ({"detail": "Not authenticated"}, FailureKind.FATAL),
        ({"error": {"type": "invalid_request_error", "message": "bad image"}}, FailureKind.REJECTED),
        ({"success": False, "errors": [{"code": 400, "message": "bad image"}], "result": None}, FailureKind.REJECTED),
        ([{"error": {"code": 400, "message": "bad image", "status": "INVALID_ARGUMENT"}}], FailureKind.REJECTED),
        ({"error": {"code": "content_filter", "type": "invalid_request_error", "message": "x"}}, FailureKind.REFUSED),
        ({"error": "oops", "choices": []}, FailureKind.RETRY),
        ({"error": "oops", "choices": None}, FailureKind.RETRY),
    ],
)
def test_an_error_with_http_200_counts_as_one_with_its_own_status(make: Any, body: Any, kind: FailureKind) -> None:
    failure = in_an_answer(body, make)
    assert failure.kind is kind
    in_doubt = kind in (FailureKind.RETRY, FailureKind.LATER)  # a 5xx
    assert (failure.maybe_billed, failure.answered, failure.reply) == (in_doubt, in_doubt, None)


def test_an_error_beside_usage_or_half_an_answer_may_be_billed() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1}
    paid = in_an_answer({"error": {"message": "oops"}, "usage": usage})
    assert paid.usage is not None
    half = {"choices": [{"index": 0, "message": {"content": "half"}, "error": {"code": 502, "message": "broke off"}}]}
    assert (in_an_answer(half).kind, in_an_answer(half).maybe_billed) == (FailureKind.RETRY, True)


def test_groqs_failed_json_is_repeated_and_its_text_kept() -> None:
    body = {
        "error": {
            "message": "Failed to validate JSON",
            "code": "json_validate_failed",
            "failed_generation": "70 of 100",
        }
    }
    provider = OpenAI(ProviderSettings("m", base_url="http://127.0.0.1:9/v1"))
    failure = provider.read_error(http.Answer(400, {}, orjson.dumps(body)), AskedFor(schema=True)).failure
    assert (failure.kind, failure.answered, provider.native_schema) == (FailureKind.RETRY, True, True)
    assert failure.reply is not None
    assert (failure.reply.text, failure.reply.status) == ("70 of 100", Status.UNPARSED)


@pytest.mark.parametrize(
    ("message", "headers", "kind"),
    [
        ("Rate limit reached on requests per day (RPD): Limit 200", {}, FailureKind.FATAL),
        ("Rate limit exceeded: free-models-per-day", {}, FailureKind.FATAL),
        ("You have used your daily quota", {}, FailureKind.FATAL),
        ("Rate limit reached on requests per day (RPD). Please try again in 7m12s.", {}, FailureKind.RATE_LIMIT),
        ("Rate limit reached on tokens per day (TPD)", {"retry-after": "30"}, FailureKind.RATE_LIMIT),
        ("Rate limit reached on requests per minute (RPM)", {}, FailureKind.RATE_LIMIT),
    ],
)
def test_a_quota_of_a_day_without_a_time_is_not_waited_for(
    message: str, headers: dict[str, str], kind: FailureKind
) -> None:
    provider = OpenAI(ProviderSettings("m", base_url="http://127.0.0.1:9/v1"))
    body = orjson.dumps({"error": {"message": message, "code": "rate_limit_exceeded"}})
    assert provider.read_error(http.Answer(429, headers, body)).failure.kind is kind


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from([RAW, "b'{", "[[[[", '{"error": 1']),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "detail", "errors", "metadata", "raw", "loc", "msg", "param"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_JSON)
def test_any_body_can_be_read(body: Any) -> None:
    raw = json.dumps(body).encode()
    error = error_bodies.read(raw)
    assert error.text
    assert 400 <= error.status < 600
    assert isinstance(error.refused, str)
    error_bodies.holds_error(body)


def test_a_body_wrapped_very_often_can_be_read() -> None:
    body = RAW
    for _ in range(12):
        body = json.dumps({"error": {"message": body}})
    assert error_bodies.read(body.encode()).text
    assert error_bodies.read(b"[" * 100_000).text
    assert error_bodies.read(b"").text


@pytest.mark.parametrize(
    ("address", "sent"),
    [
        ("http://127.0.0.1:9/v1/chat/completions", "http://127.0.0.1:9/v1/chat/completions"),
        ("http://127.0.0.1:9/v1/chat/completions/", "http://127.0.0.1:9/v1/chat/completions"),
        ("http://127.0.0.1:9/v1/chat/completions?key=abcdefgh", "http://127.0.0.1:9/v1/chat/completions?key=abcdefgh"),
        ("http://127.0.0.1:9/v1/responses", "http://127.0.0.1:9/v1/chat/completions"),
        ("http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1/chat/completions"),
    ],
)
def test_an_endpoint_that_was_pasted_whole_is_cut_back(address: str, sent: str) -> None:
    provider = OpenAI(ProviderSettings("m", base_url=address))
    assert provider.endpoints.all[0].url(provider.path) == sent
    pasted = Gemini(ProviderSettings("m", base_url="http://127.0.0.1:9/v1beta/models/x:generateContent?alt=json"))
    assert pasted.endpoints.all[0].url(pasted.path) == "http://127.0.0.1:9/v1beta/models/m:generateContent?alt=json"


def test_what_was_not_found_is_shown_with_its_path_and_a_hint_at_v1() -> None:
    provider = OpenAI(ProviderSettings("m", base_url="http://127.0.0.1:9"))
    message = provider.read_error(http.Answer(404, {}, b'{"detail": "Not Found"}')).failure.message
    assert "http://127.0.0.1:9/chat/completions" in message
    assert "/v1" in message


def test_quotation_marks_around_a_key_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", '"sk-abcd1234efgh5678"')
    provider = OpenAI(ProviderSettings("m", base_url="http://127.0.0.1:9/v1"))
    provider.ready()
    message = provider.read_error(http.Answer(401, {}, b'{"error": {"message": "Incorrect API key"}}')).failure.message
    assert "quotation marks" in message
    assert "abcd1234" not in message


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (
            400,
            {
                "error": {
                    "message": "Budget has been exceeded! Current cost: 10.2, Max budget: 10.0",
                    "type": "budget_exceeded",
                }
            },
        ),
        (429, {"error": {"message": "ExceededBudget: User=x over budget. Spend=12, Budget=10"}}),
        (400, {"type": "error", "error": {"message": "Your credit balance is too low to access this API."}}),
        (400, {"error": {"message": "You have reached your specified API usage limits."}}),
        (403, {"error": "Your team has used all available credits or reached its monthly spending limit."}),
        (429, {"error": {"message": "Your account is suspended due to insufficient balance, please recharge"}}),
        (429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}),
        (400, {"error": {"code": "Arrearage", "message": "Access denied, please keep your account in good standing."}}),
        (403, {"statusCode": 403, "message": "Out of call volume quota. It is replenished in 18:21:43."}),
        (403, {"error": {"message": "This API method requires billing to be enabled."}}),
        (429, {"message": "Requests rate limit exceeded: monthly quota"}),
        (429, {"__type": "ThrottlingException", "Message": "Too many tokens per day, please wait."}),
        (429, {"error": {"message": "Rate limit reached on requests per day (RPD). Please try again in 1h12m24.5s."}}),
    ],
)
@pytest.mark.parametrize("make", [OpenAI, Gemini])
def test_money_that_is_spent_ends_the_run_at_once(make: Any, status: int, body: Any) -> None:
    provider = make(ProviderSettings("m", base_url="http://127.0.0.1:9/v1"))
    failure = provider.read_error(http.Answer(status, {}, orjson.dumps(body))).failure
    assert failure.kind is FailureKind.FATAL
    assert "thinking_budget" not in failure.message
    assert "max_side" not in failure.message


@pytest.mark.parametrize(
    ("message", "wait"),
    [
        (
            "Rate limit reached: Limit 3, Used 3. Please try again in 20s. Add a payment method at https://a.example/billing.",
            20.0,
        ),
        ("Rate limit is exceeded. Try again in 33 seconds.", 33.0),
        ("Please retry after 1m2.5s", 62.5),
        ("Too many requests, retry in 450 ms", 0.45),
        ("Usage limit per minute reached", None),
        ("The prompt 'my balance is insufficient' came too soon", None),
    ],
)
def test_a_limit_that_passes_is_waited_for(message: str, wait: float | None) -> None:
    provider = OpenAI(ProviderSettings("m", base_url="http://127.0.0.1:9/v1"))
    failure = provider.read_error(http.Answer(429, {}, orjson.dumps({"error": {"message": message}}))).failure
    assert (failure.kind, failure.retry_after) == (FailureKind.RATE_LIMIT, wait)
