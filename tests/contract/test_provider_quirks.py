"""What only one provider does: fallbacks, failover, error shapes, keys and addresses."""

import asyncio
import gc
import json
import logging
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Scripted, Seen, Server
from titjudge.core.errors import ConfigError
from titjudge.core.structured_output import schema_of
from titjudge.core.types import Failure, FailureKind, ImageFile, Message, Reply, Request, Status
from titjudge.providers import ProviderSettings
from titjudge.providers.hosted import http, litellm_client
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.litellm import LiteLLM
from titjudge.providers.hosted.openai import OpenAI
from titjudge.testing.provider_spec import KEY, PICTURE, SampleVerdict, on_a_loop

pytestmark = pytest.mark.slow  # many in all, each of them short


def ask(text: str = "Describe it.", *, schema: bool = False, **params: Any) -> Request:
    return Request(
        "", "m", (Message("user", (text,)),), params, schema_of(SampleVerdict) if schema else None, "Verdict"
    )


def complete(provider: Any, request: Request | None = None) -> Reply:
    return on_a_loop(provider, lambda: provider.complete(request or ask()))  # type: ignore[no-any-return]


def failure(provider: Any, request: Request | None = None) -> Failure:
    with pytest.raises(Exception) as caught:
        complete(provider, request)
    return provider.classify(caught.value)  # type: ignore[no-any-return]


def openai(server: Server, model: str = "local-model", **settings: Any) -> OpenAI:
    return OpenAI(ProviderSettings(model, **{"base_url": server.openai, "timeout": 60.0, **settings}))


def gemini(server: Server, model: str = "gemini-2.5-pro", **settings: Any) -> Gemini:
    return Gemini(ProviderSettings(model, **{"base_url": server.url, "timeout": 60.0, **settings}))


# ---------------------------------------------------------------------- structured answers


@pytest.mark.parametrize("make", [openai, pytest.param(None, id="litellm")])
def test_a_server_without_schemas_is_asked_in_words_from_then_on(
    server: Server, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handler(seen: Seen) -> Scripted | str:
        return Scripted.fault("no_schema") if seen.schema else '{"missing": [], "score": 5, "reason": null}'

    server.handler = handler
    settings = ProviderSettings("openai/local", base_url=server.openai, api_key_env="SOME_API_KEY")
    monkeypatch.setenv("SOME_API_KEY", KEY)
    provider = make(server) if make else LiteLLM(settings)
    first = failure(provider, ask(schema=True))
    assert (first.kind, first.retry_after) == (FailureKind.RETRY, 0.0)
    assert server.count() == 1
    for _ in range(2):
        assert complete(provider, ask(schema=True)).flags == ("schema-in-prompt",)
    assert [bool(each.schema) for each in server.requests] == [True, False, False]


def test_native_never_falls_back(server: Server) -> None:
    server.script(Scripted.fault("no_schema"))
    assert failure(openai(server, structured="native"), ask(schema=True)).kind is FailureKind.REJECTED


def test_words_go_to_the_end_of_the_last_user_turn(server: Server) -> None:
    schema = schema_of(SampleVerdict)
    for parts in ((PICTURE, "Judge it."), ("Judge it.", PICTURE), ("Judge it.",)):
        request = Request("", "m", (Message("user", parts),), {}, schema, "Verdict")
        complete(openai(server, structured="prompt"), request)
        assert server.last.text.startswith("Judge it.\n")
        assert server.last.text.endswith(json.dumps(schema))


def test_gemma_takes_neither_a_system_turn_nor_a_schema(server: Server) -> None:
    request = Request(
        "", "m", (Message("system", ("Be brief.",)), Message("user", (PICTURE, "Look."))), {}, schema_of(SampleVerdict)
    )
    server.script('{"missing": [], "score": 5, "reason": null}')
    reply = complete(gemini(server, "gemma-3-27b-it"), request)
    assert "systemInstruction" not in server.last.body
    assert server.last.text.startswith("Be brief.\nLook.\n")
    assert reply.flags == ("schema-in-prompt",)


# ---------------------------------------------------------------------- answers


def openai_answer(content: Any = "text", finish: Any = "stop", **more: Any) -> Scripted:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}
    return Scripted(body={"model": "m", "choices": [choice], **more})


def test_a_list_of_parts_is_joined_without_the_thinking(server: Server) -> None:
    server.script(
        openai_answer(
            [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a "}, {"type": "text", "text": "b"}]
        )
    )
    reply = complete(openai(server))
    assert (reply.text, reply.flags) == ("a b", ("usage-missing",))


def test_reasoning_beside_the_completion_is_counted(server: Server) -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 45,
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    server.script(openai_answer(usage=usage))
    assert complete(openai(server)).usage.output == 35


def test_half_an_emoji_at_the_cut_does_not_lose_a_paid_answer(server: Server) -> None:
    choice = '{"message":{"content":"a cat \\ud83d"},"finish_reason":"length"}'
    server.script(Scripted(body=f'{{"model":"m","choices":[{choice}],"usage":{{"prompt_tokens":3}}}}'))
    reply = complete(openai(server))
    assert (reply.text, reply.status) == ("a cat ?", Status.TRUNCATED)


@pytest.mark.parametrize(
    "body", [{}, {"choices": []}, {"choices": None}, [], "null", "3", {"choices": [{"message": None}]}, ""]
)
def test_answers_of_no_known_shape_are_kept(server: Server, body: Any) -> None:
    server.script(Scripted(body=body))
    failed = failure(openai(server))
    assert failed.kind is FailureKind.UNUSABLE
    assert failed.reply is not None
    assert failed.reply.status is Status.UNPARSED
    assert failed.reply.text or body in ("", {"choices": [{"message": None}]})


def test_empty_answers_report_what_they_billed(server: Server) -> None:
    server.script(Scripted(kind="empty"))
    failed = failure(openai(server))
    assert failed.kind is FailureKind.UNUSABLE
    assert failed.usage is not None
    assert failed.usage.input > 0


def test_an_error_inside_an_answer_with_status_200(server: Server) -> None:
    server.script(
        Scripted(body={"error": {"code": 429, "message": "slow down"}}), Scripted(body={"error": {"message": "oops"}})
    )
    assert failure(openai(server)).kind is FailureKind.RATE_LIMIT
    assert failure(openai(server)).kind is FailureKind.RETRY


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (429, {"code": "insufficient_quota", "message": "You exceeded your current quota"}, FailureKind.FATAL),
        (429, {"type": "insufficient_quota", "message": "x"}, FailureKind.FATAL),
        (429, {"code": "rate_limit_exceeded", "message": "x"}, FailureKind.RATE_LIMIT),
        (402, {"message": "Insufficient Balance"}, FailureKind.FATAL),
        (403, {"message": "flagged", "metadata": {"reasons": ["violence"]}}, FailureKind.REFUSED),
        (400, {"code": "content_policy_violation", "message": "x"}, FailureKind.REFUSED),
        (400, {"code": "unsupported_parameter", "message": "'temperature' is not supported"}, FailureKind.FATAL),
        (400, {"code": "model_not_found", "message": "x"}, FailureKind.FATAL),
        (400, {"code": "context_length_exceeded", "message": "x"}, FailureKind.REJECTED),
        (302, {"message": "moved"}, FailureKind.FATAL),
    ],
)
def test_openai_errors_by_code(server: Server, status: int, error: Any, kind: FailureKind) -> None:
    server.script(Scripted(status=status, body={"error": error}))
    assert failure(openai(server)).kind is kind


@pytest.mark.parametrize(
    ("says", "header", "wait"),
    [("1.5s", None, 1.5), ("450ms", None, 0.45), ("1m2s", None, 62.0), ("9s", "3", 3.0), ("a while", None, None)],
)
def test_openai_says_how_long_to_wait_in_words_too(
    server: Server, says: str, header: str | None, wait: float | None
) -> None:
    body = {"error": {"message": f"Rate limit reached. Please try again in {says}."}}
    server.script(Scripted(status=429, headers={"Retry-After": header} if header else {}, body=body))
    assert failure(openai(server)).retry_after == wait


def test_azure_content_filter_is_a_refusal(server: Server) -> None:
    server.script(Scripted.fault("azure_filter"))
    assert failure(openai(server)).kind is FailureKind.REFUSED


QUOTA = "You exceeded your current quota"


def quota(**violation: Any) -> list[Any]:
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    return [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}, delay]


@pytest.mark.parametrize(
    ("status", "error", "kind", "wait"),
    [
        (429, {"message": QUOTA, "details": quota(quotaId="RequestsPerMinute-x")}, FailureKind.RATE_LIMIT, 34.5),
        (429, {"message": QUOTA, "details": quota(quotaId="RequestsPerDayPerModel")}, FailureKind.FATAL, None),
        (429, {"message": QUOTA}, FailureKind.FATAL, None),
        (429, {"message": "Resource has been exhausted (e.g. check quota)."}, FailureKind.RATE_LIMIT, None),
        (400, {"message": "API key not valid. Please pass a valid API key."}, FailureKind.FATAL, None),
        (400, {"message": "bad", "details": [{"reason": "API_KEY_INVALID"}]}, FailureKind.FATAL, None),
        (400, {"message": "User location is not supported for the API use."}, FailureKind.FATAL, None),
        (400, {"message": "Unable to process input image."}, FailureKind.REJECTED, None),
        (503, {"message": "The model is overloaded."}, FailureKind.LATER, None),
    ],
)  # fmt: skip
def test_gemini_errors(server: Server, status: int, error: Any, kind: FailureKind, wait: float | None) -> None:
    server.script(Scripted(status=status, body={"error": error}))
    failed = failure(gemini(server))
    assert (failed.kind, failed.retry_after) == (kind, wait)


def test_gemini_leaves_thoughts_out_and_counts_them() -> None:
    with Server(reasoning_tokens=40) as server:
        server.script("the answer")
        reply = complete(gemini(server))
    assert reply.text == "the answer"
    assert (reply.usage.thinking, reply.usage.output) == (40, 42)


@pytest.mark.parametrize("finish", ["OTHER", "LANGUAGE", "MALFORMED_FUNCTION_CALL"])
def test_gemini_unexplained_endings_are_no_answers(server: Server, finish: str) -> None:
    candidate = {"content": {"parts": [{"text": "half"}]}, "finishReason": finish}
    server.script(
        Scripted(body={"candidates": [candidate], "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}})
    )
    failed = failure(gemini(server))
    assert failed.kind is FailureKind.RETRY
    assert failed.usage is not None


def test_gemini_reports_image_tokens(server: Server) -> None:
    reply = complete(gemini(server), Request("", "m", (Message("user", (PICTURE, "x")),)))
    assert reply.usage.image == 765
    assert reply.model_version == "gemini-2.5-pro-001"


# ---------------------------------------------------------------------- addresses and keys


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_dead_address_makes_way_for_a_live_one(server: Server) -> None:
    dead = f"http://127.0.0.1:{closed_port()}/v1"
    provider = openai(server, base_url=f"{dead},{server.openai}")

    async def several() -> set[str]:
        return {(await provider.complete(ask())).endpoint for _ in range(4)}

    assert on_a_loop(provider, several) == {server.openai}
    assert server.count() == 4
    assert provider.endpoints.all[0].aside_until > 0


def test_load_is_shared_between_addresses(server: Server) -> None:
    with Server(latency=0.01) as other:
        provider = openai(server, base_url=f"{server.openai},{other.openai}")

        async def many() -> None:
            await asyncio.gather(*(provider.complete(ask(str(each))) for each in range(20)))

        on_a_loop(provider, many)
        assert server.count() == other.count() == 10


def test_no_address_at_all_is_retried(server: Server) -> None:
    provider = openai(server, base_url=f"http://127.0.0.1:{closed_port()}/v1")
    failed = failure(provider)
    assert failed.kind is FailureKind.RETRY
    assert "cannot connect" in failed.message


@pytest.mark.parametrize(("make", "names"), [(OpenAI, "OPENAI_API_KEY"), (Gemini, "GEMINI_API_KEY or GOOGLE_API_KEY")])
def test_public_hosts_need_a_key_before_anything_is_sent(make: Any, names: str) -> None:
    provider = make(ProviderSettings("m"))
    with pytest.raises(ConfigError, match=names):
        provider.ready()


def test_keys_go_in_headers_only(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "\n")
    complete(gemini(server))
    assert server.last.headers["x-goog-api-key"] == KEY
    complete(openai(server))
    assert server.last.headers["authorization"] == f"Bearer {KEY}"
    assert not any(KEY in seen.path or KEY.encode() in seen.raw for seen in server.requests)


def test_a_key_no_header_can_hold_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-one\nsk-two")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        complete(openai(server))
    assert "sk-one" not in str(caught.value)


def test_base_urls_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.openai + "/")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    assert OpenAI(ProviderSettings("m")).base_url == server.openai
    complete(Gemini(ProviderSettings("models/gemini-2.5-pro")))
    assert server.last.path == "/v1beta/models/gemini-2.5-pro:generateContent"
    complete(Gemini(ProviderSettings("gemini-2.5-pro", base_url=f"{server.url}/v1")))
    assert server.last.path == "/v1/models/gemini-2.5-pro:generateContent"


def test_text_that_is_not_unicode_is_rejected_not_fatal(server: Server) -> None:
    assert failure(openai(server), ask("half an emoji \ud83d")).kind is FailureKind.REJECTED
    assert server.count() == 0


def test_a_body_of_several_megabytes_arrives_whole(server: Server) -> None:
    big = ImageFile("f" * 64, "image/png", 4000, 4000, Path("big.png"), lambda: bytes(3_000_000))
    complete(openai(server), Request("", "m", (Message("user", (big, "x")),)))
    assert len(server.last.raw) > 4_000_000


# ---------------------------------------------------------------------- sessions


def test_one_session_a_loop_closed_by_the_last_user(server: Server) -> None:
    transport = http.Transport()
    settings = ProviderSettings("m", base_url=server.openai)
    first, second = OpenAI(settings, transport), OpenAI(settings, transport)

    async def work() -> None:
        await asyncio.gather(first.complete(ask("1")), second.complete(ask("2")))
        session = transport.session()
        await first.aclose()
        assert not session.closed
        await second.complete(ask("3"))
        await second.aclose()
        assert session.closed
        await first.complete(ask("4"))  # opens a new one
        await first.aclose()

    asyncio.run(work())
    asyncio.run(work())
    gc.collect()
    assert server.count() == 8


def test_litellm_is_imported_only_when_it_is_asked() -> None:
    code = (
        "import sys; from titjudge.providers.hosted.litellm import LiteLLM; from titjudge.providers import ProviderSettings;"
        "LiteLLM(ProviderSettings('anthropic/claude-sonnet-4-5'));"
        "print([name for name in ('litellm', 'openai', 'google.genai', 'torch') if name in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "gpt-4o"])
def test_litellm_wants_the_provider_in_the_name(model: str) -> None:
    with pytest.raises(ConfigError, match=r"has no provider\. Write it first"):
        LiteLLM(ProviderSettings(model))


def test_gemini_is_sent_no_more_than_it_takes(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("titjudge.providers.hosted.gemini._MOST_BYTES", 10)
    failed = failure(gemini(server))
    assert failed.kind is FailureKind.REJECTED
    assert "save a smaller image" in failed.message
    assert server.count() == 0


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"content": "a"}}], "usage": [1], "model": 5},
    ],
)
def test_litellm_prints_nothing_of_an_answer_that_it_cannot_read(
    server: Server, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-nobody")
    litellm_client.load()
    printed: list[logging.LogRecord] = []
    log = logging.getLogger("LiteLLM")
    listener = logging.Handler()
    monkeypatch.setattr(listener, "emit", printed.append)
    log.addHandler(listener)
    try:
        server.script(Scripted(body=body))
        found = failure(LiteLLM(ProviderSettings("openai/m", base_url=server.openai)))
        assert (found.kind, found.answered) == (FailureKind.UNUSABLE, True)
        assert "Traceback" not in found.message
        assert not printed
        log.error("of a program beside us")
    finally:
        log.removeHandler(listener)
    assert [record.getMessage() for record in printed] == ["of a program beside us"]
