"""One spec that every hosted provider passes, against a loopback server: one request for each `complete`, no invented
answer, failures named rightly, no key in any message."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from google.oauth2.credentials import Credentials
from pydantic import BaseModel, Field
from servers import Scripted, Server

from titjudge.core import registry
from titjudge.core.structured_output import schema_of
from titjudge.core.types import Failure, FailureKind, ImageFile, Message, Reply, Request, Status, Usage
from titjudge.providers import ProviderSettings
from titjudge.providers.hosted.azure import Azure
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.litellm import LiteLLM
from titjudge.providers.hosted.openai import OpenAI

pytestmark = pytest.mark.slow  # many in all, each of them short

KEY = "sk-abcd1234efgh5678"
PIXELS = b"\xff\xd8\xff\xe0 not really a photograph, but bytes all the same \x00\x01\x02"
PICTURE = ImageFile(hashlib.sha256(PIXELS).hexdigest(), "image/webp", 640, 480, Path("photo.webp"), lambda: PIXELS)


class Verdict(BaseModel):
    """What a judge says."""

    missing: list[str]
    score: float = Field(ge=0, le=100)
    reason: str | None = None


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[ProviderSettings], Any]
    model: str
    api: str
    base: Callable[[Server], str]
    options: dict[str, Any] = field(default_factory=dict)

    def provider(self, server: Server, **settings: Any) -> Any:
        settings = {"base_url": self.base(server), "api_key_env": "SPEC_API_KEY", "timeout": 60.0, **settings}
        settings["options"] = {**self.options, **settings.get("options", {})}
        return self.make(ProviderSettings(self.model, **settings))


def _example() -> Any:
    """The hosted provider of docs/extending.md, as a module of its own."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
    code = page.partition("# my_package/messages.py\n")[2].partition("```")[0]
    module = sys.modules["extending_messages"] = ModuleType("extending_messages")
    exec(compile(code, "docs/extending.md", "exec"), module.__dict__)
    return module.Messages


Messages = _example()
VERTEX = {"vertexai": True, "project": "my-project", "location": "here"}
CASES = [
    Case("openai", OpenAI, "gpt-4o", "openai", lambda server: server.openai),
    Case("openai-compatible", OpenAI, "Qwen/Qwen2.5-VL-7B-Instruct", "openai", lambda server: server.openai),
    Case("openai-reasoning", OpenAI, "o4-mini", "openai", lambda server: server.openai),
    Case("gemini", Gemini, "gemini-2.5-pro", "gemini", lambda server: server.url),
    Case("openai-sdk", OpenAI, "gpt-4o", "openai", lambda server: server.openai, {"client": "sdk"}),
    Case("gemini-sdk", Gemini, "gemini-2.5-pro", "gemini", lambda server: server.url, {"client": "sdk"}),
    Case("azure", Azure, "gpt-4o", "openai", lambda server: server.url),
    Case("vertex", Gemini, "gemini-2.5-pro", "gemini", lambda server: server.url, VERTEX),
    Case("litellm-openai", LiteLLM, "openai/gpt-4o", "openai", lambda server: server.openai),
    Case("litellm-gemini", LiteLLM, "gemini/gemini-2.5-pro", "gemini", lambda server: f"{server.url}/v1beta"),
    Case("messages", Messages, "claude-sonnet-4-5", "anthropic", lambda server: server.url),
    Case("litellm-anthropic", LiteLLM, "anthropic/claude-sonnet-4-5", "anthropic", lambda server: server.url),
]


# litellm's own types make pydantic warn, and it lets go of sockets late.
_OF_LITELLM = pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning")


def google_credentials(monkeypatch: pytest.MonkeyPatch, token: str = KEY) -> None:
    """Application-default credentials with a token that is good already."""
    monkeypatch.setattr("google.auth.default", lambda scopes=(): (Credentials(token), "another-project"))


def _param(case: Case) -> Any:
    return pytest.param(case, id=case.name, marks=[_OF_LITELLM] if case.make is LiteLLM else [])


@pytest.fixture(params=[_param(case) for case in CASES])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setenv("SPEC_API_KEY", KEY)
    monkeypatch.setitem(registry.TABLES["providers"], "messages", "extending_messages:Messages")
    google_credentials(monkeypatch)
    return request.param  # type: ignore[no-any-return]


def ask(case: Case, *parts: Any, system: str = "", schema: type[BaseModel] | None = None, **params: Any) -> Request:
    turns = [Message("system", (system,))] if system else []
    params = params or {"max_tokens": 300, "temperature": 0}
    given = schema_of(schema) if schema else None
    messages = (*turns, Message("user", parts or ("Describe it.",)))
    return Request(case.name, case.model, messages, params, given, schema.__name__ if schema else "")


def run(provider: Any, work: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        try:
            return await work()
        finally:
            await provider.aclose()

    return asyncio.run(main())


def reply_of(provider: Any, request: Request) -> Reply:
    return run(provider, lambda: provider.complete(request))  # type: ignore[no-any-return]


def failure_of(provider: Any, request: Request) -> Failure:
    with pytest.raises(Exception) as caught:
        reply_of(provider, request)
    return provider.classify(caught.value)  # type: ignore[no-any-return]


def test_text_answer_with_usage_version_and_endpoint(case: Case, server: Server) -> None:
    server.script("a red apple 🍎")
    reply = reply_of(case.provider(server), ask(case, "What is it? ☃"))
    assert (reply.text, reply.status, reply.reason) == ("a red apple 🍎", Status.OK, "")
    assert reply.usage.input > 0
    assert reply.usage.output == len(reply.text) // 4
    assert reply.model_version.startswith(case.model.rpartition("/")[2]) or case.model in reply.model_version
    assert reply.endpoint == case.base(server) + (
        "/projects/my-project/locations/here" if case.name == "vertex" else ""
    )
    assert reply.list_cost is None
    assert "What is it? ☃" in server.last.text
    assert server.count() == 1


def test_image_goes_out_whole_and_before_the_text(case: Case, server: Server) -> None:
    reply_of(case.provider(server), ask(case, PICTURE, "Describe it.", system="Be brief."))
    seen = server.last
    assert seen.images == (PICTURE.sha256,)
    assert b"image/webp" in seen.raw
    wire = json.dumps(seen.body)
    assert wire.index("image/webp") < wire.index("Describe it.")
    assert "Be brief." in wire


def test_structured_answer_is_asked_for_natively(case: Case, server: Server) -> None:
    provider = case.provider(server)
    reply = reply_of(provider, ask(case, "Judge it.", schema=Verdict))
    if not provider.schema:
        assert reply.flags == ("schema-in-prompt",)
        return
    assert server.last.schema is not None
    assert "score" in server.last.schema["properties"]
    assert Verdict.model_validate_json(reply.text)
    assert reply.flags == ()


def test_structured_prompt_asks_in_words(case: Case, server: Server) -> None:
    server.script('{"missing": [], "score": 3, "reason": null}')
    reply = reply_of(case.provider(server, structured="prompt"), ask(case, PICTURE, "Judge it.", schema=Verdict))
    assert server.last.schema is None
    assert '"maximum": 100' in server.last.text
    assert reply.flags == ("schema-in-prompt",)


def test_cached_and_thinking_tokens(case: Case) -> None:
    if case.api == "anthropic":
        pytest.skip("Anthropic reports thinking within the output")
    with Server(cached_tokens=5, reasoning_tokens=40) as server:
        server.script("twelve chars")
        usage = reply_of(case.provider(server), ask(case)).usage
    assert (usage.cached_input, usage.thinking, usage.output) == (5, 40, 43)


def test_output_is_truncated(case: Case, server: Server) -> None:
    server.script(Scripted("half an ans", kind="length"))
    reply = reply_of(case.provider(server), ask(case))
    assert (reply.status, reply.text) == (Status.TRUNCATED, "half an ans")


def test_limit_eaten_by_thinking_is_truncated(case: Case, server: Server) -> None:
    server.script(Scripted(kind="thought"))
    reply = reply_of(case.provider(server), ask(case))
    assert (reply.status, reply.text) == (Status.TRUNCATED, "")


@pytest.mark.parametrize("kind", ["refusal", "content_filter", "blocked"])
def test_refusals_are_replies_with_what_they_cost(case: Case, server: Server, kind: str) -> None:
    server.script(Scripted(kind=kind))
    reply = reply_of(case.provider(server), ask(case))
    assert reply.status is Status.REFUSED
    assert reply.reason
    assert reply.usage.input > 0
    assert server.count() == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Scripted.fault(500), FailureKind.RETRY),
        (Scripted.fault(502), FailureKind.RETRY),
        (Scripted.fault(503), FailureKind.LATER),
        (Scripted.fault(529), FailureKind.LATER),
        (Scripted(status=503, body=b""), FailureKind.LATER),
        (Scripted.fault(408), FailureKind.RETRY),
        (Scripted.fault(409), FailureKind.RETRY),
        (Scripted.fault(429), FailureKind.RATE_LIMIT),
        (Scripted.fault("drop_before"), FailureKind.RETRY),
        (Scripted.fault("drop_after"), FailureKind.RETRY),
        (Scripted.fault("malformed"), FailureKind.RETRY),
        (Scripted.fault("html"), FailureKind.RETRY),
        (Scripted.fault("empty"), FailureKind.RETRY),
        (Scripted(status=200, body="<html>please log in</html>"), FailureKind.RETRY),
        (Scripted.fault(400), FailureKind.REJECTED),
        (Scripted.fault(413), FailureKind.REJECTED),
        (Scripted.fault(422), FailureKind.REJECTED),
        (Scripted.fault(403), FailureKind.BARRED),
        (Scripted.fault("bad_key"), FailureKind.FATAL),
        (Scripted.fault("no_model"), FailureKind.FATAL),
    ],
    ids=lambda value: value.kind or str(value.status) if isinstance(value, Scripted) else str(value),
)
def test_failures_by_kind_after_one_request(case: Case, server: Server, fault: Scripted, kind: FailureKind) -> None:
    server.script(fault)
    failure = failure_of(case.provider(server), ask(case))
    if (
        fault.kind == "no_model" and failure.kind is not kind
    ):  # a 404 without OpenAI's code may be about this request alone
        kind = FailureKind.BARRED
    assert failure.kind is kind, failure
    assert server.count() == 1
    assert KEY not in failure.message
    assert "\n" not in failure.message
    assert "sk-abcd1234efgh" not in failure.message


def test_no_quota_is_fatal_where_the_provider_says_so(case: Case, server: Server) -> None:
    server.script(Scripted.fault("quota"))
    failure = failure_of(case.provider(server), ask(case))
    vague = case.api == "anthropic" or case.name == "litellm-gemini"
    expected = FailureKind.RATE_LIMIT if vague else FailureKind.FATAL
    assert failure.kind is expected


def test_retry_after_is_passed_on_in_seconds(case: Case, server: Server) -> None:
    server.script(Scripted.fault(429, retry_after=7))
    assert failure_of(case.provider(server), ask(case)).retry_after == 7.0


def test_hanging_server_times_out(case: Case, server: Server) -> None:
    server.script(Scripted(kind="hang"))
    failure = failure_of(case.provider(server, timeout=0.05), ask(case))
    assert failure.kind is FailureKind.RETRY


def test_answer_after_a_failure_on_the_same_provider(case: Case, server: Server) -> None:
    server.script(Scripted.fault("drop_before"), "well again")
    provider = case.provider(server)

    async def both() -> str:
        with pytest.raises(Exception):  # noqa: B017
            await provider.complete(ask(case))
        return (await provider.complete(ask(case))).text  # type: ignore[no-any-return]

    assert run(provider, both) == "well again"


def test_missing_key_names_the_variable(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "https://mine.openai.azure.com" if case.make is Azure else ""  # Azure has none in common
    provider = case.make(ProviderSettings(case.model, address, api_key_env="NOT_SET_API_KEY"))
    with pytest.raises(Exception, match="NOT_SET_API_KEY") as caught:
        reply_of(provider, ask(case))
    assert provider.classify(caught.value).kind is FailureKind.FATAL


def test_headers_of_each_answer_are_handed_over(case: Case, server: Server) -> None:
    if case.name == "litellm-gemini":
        pytest.skip("litellm keeps no headers of Gemini")
    names = ("x-ratelimit-remaining-requests", "anthropic-ratelimit-requests-remaining")
    server.script(Scripted("fine", headers=dict.fromkeys(names, "17")))
    provider = case.provider(server)
    seen: list[dict[str, str]] = []
    provider.on_headers = lambda headers: seen.append({name.lower(): value for name, value in headers.items()})
    reply_of(provider, ask(case))
    assert [each.get("x-ratelimit-remaining-requests") for each in seen] == ["17"]


def test_usage_bound_holds(case: Case, server: Server) -> None:
    provider = case.provider(server)
    request = ask(case, PICTURE, "Describe it, please. " * 20, schema=Verdict, max_tokens=64)
    bound = provider.usage_bound(request)
    assert isinstance(bound, Usage)
    assert bound.output == 64
    assert bound.input > len(request.messages[0].text) + bound.image > bound.image > 0


def test_omitted_parameters_are_not_sent(case: Case, server: Server) -> None:
    provider = case.provider(server)
    reply_of(provider, ask(case, max_tokens=50, temperature=0.5, top_p=0.9))
    names = {each for part in (server.last.body, server.last.body.get("generationConfig", {})) for each in part}
    assert not names & provider.capabilities.omit
    assert ("temperature" in names) is ("temperature" not in provider.capabilities.omit)
    assert 50 in [
        server.last.body.get(name, server.last.body.get("generationConfig", {}).get(name))
        for name in ("max_tokens", "max_completion_tokens", "maxOutputTokens", "max_output_tokens")
    ]


def test_many_at_once_share_connections(case: Case, server: Server) -> None:
    provider = case.provider(server)

    async def many() -> int:
        for _ in range(3):
            await asyncio.gather(*(provider.complete(ask(case, f"number {each}")) for each in range(8)))
        return server.connections

    connections = run(provider, many)
    assert server.count() == 24
    assert connections <= 8


def test_registered(case: Case) -> None:
    assert registry.load("providers", case.make.name) is case.make  # type: ignore[attr-defined]
