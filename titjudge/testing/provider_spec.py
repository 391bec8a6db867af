"""The contract of hosted providers as tests, for pytest.

A provider sends one request for each `complete`, invents no answer, names failures rightly, and has no key in any message.
Nothing is sent: the answers of a test take the place of the network.

    class TestMessages(ProviderSpec):
        provider = ProviderCase("messages", Messages, "claude-sonnet-4-5", answer=answer)
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, Field

from titjudge.core.structured_output import schema_of
from titjudge.core.types import Failure, FailureKind, ImageFile, Message, Reply, Request, Status, Usage
from titjudge.providers import ProviderSettings
from titjudge.providers.base import UNFINISHED
from titjudge.providers.hosted.http import Answer, Dropped, Transport
from titjudge.testing.scripted import Scripted

KEY = "sk-abcd1234efgh5678"
PIXELS = b"\xff\xd8\xff\xe0 not really a photograph, but bytes all the same \x00\x01\x02"
PICTURE = ImageFile(hashlib.sha256(PIXELS).hexdigest(), "image/webp", 640, 480, Path("photo.webp"), lambda: PIXELS)
VERDICT = '{"missing": [], "score": 50, "reason": null}'


class SampleVerdict(BaseModel):
    """What a judge says."""

    missing: list[str]
    score: float = Field(ge=0, le=100)
    reason: str | None = None


_FAULTS: dict[FailureKind, tuple[str | int, ...]] = {
    FailureKind.RETRY: (500, 502, 408, 409, "drop_before", "drop_after", "html"),
    FailureKind.LATER: (503, 529),
    FailureKind.RATE_LIMIT: (429,),
    FailureKind.UNUSABLE: ("malformed", "empty", "page"),
    FailureKind.REJECTED: (400, 413, 422),
    FailureKind.BARRED: (403,),
    FailureKind.FATAL: ("bad_key", "no_model"),
}


class Wire(Transport):
    """Answers instead of the network, and keeps the requests.

    Args:
        answer: The body of an answer of the API, as JSON, from its text and why it ends: stop, length, refusal, another word or None.
    """

    url = "http://127.0.0.1"

    def __init__(self, answer: Callable[[str, str | None], Any]) -> None:
        super().__init__()
        self.answer, self.requests, self._queue = answer, list[SimpleNamespace](), deque[Scripted | str]()

    def script(self, *answers: Scripted | str) -> None:
        """Add answers for the next requests, in order."""
        self._queue.extend(answers)

    def count(self) -> int:
        """Count the requests."""
        return len(self.requests)

    async def post_json(self, url: str, *, headers: Mapping[str, str], body: bytes, timeout: float) -> Answer:
        """Keep a request, and give the next answer."""
        self.requests.append(SimpleNamespace(raw=body))
        told = self._queue.popleft() if self._queue else hashlib.sha256(body).hexdigest()
        told = Scripted(told) if isinstance(told, str) else told
        if told.kind.startswith("drop"):
            raise Dropped("the connection broke")
        usual = told.kind if told.kind in ("length", "refusal") else "stop"
        whole = self.answer(told.text or "", usual if told.finish_reason == "" else told.finish_reason)
        if told.status >= 400:
            whole = {"error": {"message": f"{KEY} is not a key,\nor something else is wrong"}}
        raw = b"<html>Bad Gateway</html>" if told.kind in ("html", "page") else json.dumps(whole).encode()
        headers = {name.lower(): value for name, value in told.headers.items()}
        return Answer(told.status, headers, raw[: len(raw) // 2] if told.kind == "malformed" else raw)


@dataclass(frozen=True)
class ProviderCase:
    """A provider as the contract makes it.

    Attributes:
        name: Its name in the names of tests.
        make: Its class, a subclass of `Hosted`.
        model: A model of it.
        answer: The body of an answer of its API, see `Wire`.
    """

    name: str
    make: Callable[..., Any]
    model: str
    answer: Callable[[str, str | None], Any]

    def provider(self, server: Any, **settings: Any) -> Any:
        """Make the provider for a server; `settings` are the settings of the role."""
        settings = {"base_url": server.url, "api_key_env": "SPEC_API_KEY", **settings}
        return self.make(ProviderSettings(self.model, **settings), server)


def ask(
    case: ProviderCase, *parts: Any, system: str = "", schema: type[BaseModel] | None = None, **params: Any
) -> Request:
    """Make a request of these parts."""
    turns = [Message("system", (system,))] if system else []
    params = params or {"max_tokens": 300, "temperature": 0}
    json_schema = schema_of(schema) if schema else None
    messages = (*turns, Message("user", parts or ("Describe it.",)))
    return Request(case.name, case.model, messages, params, json_schema, schema.__name__ if schema else "")


def on_a_loop(provider: Any, work: Callable[[], Awaitable[Any]]) -> Any:
    """Await something, and close the provider on the same loop."""

    async def main() -> Any:
        try:
            return await work()
        finally:
            await provider.aclose()

    return asyncio.run(main())


def reply_of(provider: Any, request: Request) -> Reply:
    """Return the answer of a provider."""
    return on_a_loop(provider, lambda: provider.complete(request))  # type: ignore[no-any-return]


def failure_of(provider: Any, request: Request) -> Failure:
    """Return how a provider fails."""
    with pytest.raises(Exception) as caught:
        reply_of(provider, request)
    return provider.classify(caught.value)  # type: ignore[no-any-return]


class ProviderSpec:
    """The contract; a subclass in a test file names the provider."""

    provider: ProviderCase

    @pytest.fixture
    def case(self, monkeypatch: pytest.MonkeyPatch) -> ProviderCase:
        """Return the provider, with its key in the environment."""
        monkeypatch.setenv("SPEC_API_KEY", KEY)
        return self.provider

    @pytest.fixture
    def server(self) -> Any:
        """Return a substitute for the server."""
        return Wire(self.provider.answer)

    def test_text_answer_with_usage_version_and_endpoint(self, case: ProviderCase, server: Any) -> None:
        """The reply to a text has its usage and the endpoint."""
        server.script("a red apple 🍎")
        reply = reply_of(case.provider(server), ask(case, "What is it? ☃"))
        assert (reply.text, reply.status, reply.reason) == ("a red apple 🍎", Status.OK, "")
        assert min(reply.usage.input, reply.usage.output) > 0
        assert reply.model_version
        assert reply.endpoint.startswith(server.url)
        assert reply.list_cost is None
        assert "What is it? ☃" in str(json.loads(server.requests[-1].raw))
        assert server.count() == 1

    def test_image_goes_out_whole_and_before_the_text(self, case: ProviderCase, server: Any) -> None:
        """An image is sent as it is, in the order of the parts."""
        reply_of(case.provider(server), ask(case, PICTURE, "Describe it.", system="Be brief."))
        wire = server.requests[-1].raw.decode()
        assert "image/webp" in wire
        assert base64.b64encode(PIXELS).decode() in wire
        assert wire.index("image/webp") < wire.index("Describe it.")
        assert "Be brief." in wire

    def test_structured_prompt_asks_in_words(self, case: ProviderCase, server: Any) -> None:
        """With `structured=prompt` a schema is written into the prompt."""
        server.script(VERDICT)
        request = ask(case, PICTURE, "Judge it.", schema=SampleVerdict)
        reply = reply_of(case.provider(server, structured="prompt"), request)
        assert '\\"maximum\\": 100' in server.requests[-1].raw.decode()
        assert SampleVerdict.model_validate_json(reply.text)
        assert reply.flags == ("schema-in-prompt",)

    def test_output_is_truncated(self, case: ProviderCase, server: Any) -> None:
        """An answer that was cut is marked, and kept."""
        server.script(Scripted("half an ans", kind="length"))
        reply = reply_of(case.provider(server), ask(case))
        assert (reply.status, reply.text) == (Status.TRUNCATED, "half an ans")

    @pytest.mark.parametrize("finish", ["error", "pause_turn", "a word of another year", None])
    def test_answer_that_was_broken_off_is_none(self, case: ProviderCase, server: Any, finish: str | None) -> None:
        """Whatever text it has: it is asked for again, or kept as TRUNCATED with the flag UNFINISHED, and never OK."""
        server.script(Scripted("half an ans", finish_reason=finish))
        provider = case.provider(server)
        try:
            reply = reply_of(provider, ask(case))
        except Exception as error:
            failure = provider.classify(error)
            assert (failure.kind, failure.answered) == (FailureKind.RETRY, True), failure
        else:
            assert reply.status is Status.TRUNCATED, reply
            assert UNFINISHED in reply.flags
            assert str("null" if finish is None else finish) in reply.reason
        assert server.count() == 1

    def test_refusals_are_replies_with_what_they_cost(self, case: ProviderCase, server: Any) -> None:
        """A refusal is a reply with a reason and a cost, not a failure."""
        server.script(Scripted(kind="refusal"))
        reply = reply_of(case.provider(server), ask(case))
        assert reply.status is Status.REFUSED
        assert reply.reason
        assert reply.usage.input > 0
        assert server.count() == 1

    @pytest.mark.parametrize(("fault", "kind"), [(fault, kind) for kind, faults in _FAULTS.items() for fault in faults])
    def test_failures_by_kind_after_one_request(
        self, case: ProviderCase, server: Any, fault: str | int, kind: FailureKind
    ) -> None:
        """A failure is of its kind after a single request, in one line without the key."""
        server.script(Scripted.fault(fault))
        failure = failure_of(case.provider(server), ask(case))
        about_one_request = fault == "no_model" and failure.kind is FailureKind.BARRED  # a 404 without OpenAI's code
        assert failure.kind is kind or about_one_request, failure
        assert server.count() == 1
        assert KEY[:16] not in failure.message
        assert "\n" not in failure.message

    def test_retry_after_is_passed_on_in_seconds(self, case: ProviderCase, server: Any) -> None:
        """How long to wait is handed on."""
        server.script(Scripted.fault(429, retry_after=7))
        assert failure_of(case.provider(server), ask(case)).retry_after == 7.0

    def test_missing_key_names_the_variable(self, case: ProviderCase, server: Any) -> None:
        """A missing key ends the run, and names its variable."""
        provider = case.provider(server, base_url="", api_key_env="NOT_SET_API_KEY")
        failure = failure_of(provider, ask(case))
        assert (failure.kind, "NOT_SET_API_KEY" in failure.message) == (FailureKind.FATAL, True)

    def test_usage_bound_holds(self, case: ProviderCase, server: Any) -> None:
        """The bound of a request covers its text, its image and its limit."""
        provider = case.provider(server)
        request = ask(case, PICTURE, "Describe it, please. " * 20, schema=SampleVerdict, max_tokens=64)
        bound = provider.usage_bound(request)
        assert isinstance(bound, Usage)
        assert bound.output == 64
        assert bound.input > len(request.messages[0].text) + bound.image > bound.image > 0
