"""The contract of hosted providers on a loopback server that speaks the wire formats of OpenAI, Gemini and Anthropic."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from tests.kit.server import Server
from tests.kit.wires import Scripted
from titjudge.core.types import FailureKind, Status
from titjudge.providers import ProviderSettings
from titjudge.testing import provider_spec as spec
from titjudge.testing.provider_spec import (
    KEY,
    PICTURE,
    SampleVerdict,
    ask,
    failure_of,
    on_a_loop,
    reply_of,
)


@dataclass(frozen=True)
class ProviderCase:
    """A provider as the contract makes it.

    Attributes:
        name: Its name in the names of tests.
        make: Its class.
        model: A model of it.
        api: The wire format that it speaks.
        path: What follows the server's address in its `base_url`; `/v1` for OpenAI's format.
        options: Options of the role.
        endpoint: What follows its `base_url` in the endpoint of a reply.
        address: A `base_url` without a server behind it, where it has none of its own.
        tells_quota: Whether its failures say that a quota is used up.
        tells_thinking: Whether its usage says how many tokens were thought.
        tells_headers: Whether it gets the headers of answers.
    """

    name: str
    make: Callable[[ProviderSettings], Any]
    model: str
    api: Literal["openai", "gemini", "anthropic"]
    path: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    endpoint: str = ""
    address: str = ""
    tells_quota: bool = True
    tells_thinking: bool = True
    tells_headers: bool = True

    def base(self, server: Server) -> str:
        """Return the `base_url` of a server."""
        usual = "/v1" if self.api == "openai" else ""
        return server.url + (usual if self.path is None else self.path)

    def provider(self, server: Server, **settings: Any) -> Any:
        """Make the provider for a server; `settings` are the settings of the role."""
        settings = {"base_url": self.base(server), "api_key_env": "SPEC_API_KEY", "timeout": 60.0, **settings}
        settings["options"] = {**self.options, **settings.get("options", {})}
        return self.make(ProviderSettings(self.model, **settings))


class ProviderSpec(spec.ProviderSpec):
    """The contract, and what it asks of the three wire formats."""

    @pytest.fixture
    def server(self) -> Iterator[Server]:
        """Run a loopback server."""
        with Server() as running:
            yield running

    def test_text_answer_with_usage_version_and_endpoint(self, case: ProviderCase, server: Server) -> None:
        """The reply to a text has its usage, the version of the model, and the endpoint."""
        server.script("a red apple 🍎")
        reply = reply_of(case.provider(server), ask(case, "What is it? ☃"))
        assert (reply.text, reply.status, reply.reason) == ("a red apple 🍎", Status.OK, "")
        assert reply.usage.input > 0
        assert reply.usage.output == len(reply.text) // 4
        assert reply.model_version.startswith(case.model.rpartition("/")[2]) or case.model in reply.model_version
        assert reply.endpoint == case.base(server) + case.endpoint
        assert reply.list_cost is None
        assert "What is it? ☃" in server.last.text
        assert server.count() == 1

    def test_image_goes_out_whole_and_before_the_text(self, case: ProviderCase, server: Server) -> None:
        """An image is sent as it is, in the order of the parts."""
        reply_of(case.provider(server), ask(case, PICTURE, "Describe it.", system="Be brief."))
        request = server.last
        assert request.images == (PICTURE.sha256,)
        assert b"image/webp" in request.raw
        wire = json.dumps(request.body)
        assert wire.index("image/webp") < wire.index("Describe it.")
        assert "Be brief." in wire

    def test_structured_answer_is_asked_for_natively(self, case: ProviderCase, server: Server) -> None:
        """A schema is sent where the model takes one, else written into the prompt."""
        provider = case.provider(server)
        reply = reply_of(provider, ask(case, "Judge it.", schema=SampleVerdict))
        if not provider.schema:
            assert reply.flags == ("schema-in-prompt",)
            return
        assert server.last.schema is not None
        assert "score" in server.last.schema["properties"]
        assert SampleVerdict.model_validate_json(reply.text)
        assert reply.flags == ()

    def test_structured_prompt_asks_in_words(self, case: ProviderCase, server: Server) -> None:
        """With `structured=prompt` a schema is written into the prompt."""
        reply = reply_of(
            case.provider(server, structured="prompt"), ask(case, PICTURE, "Judge it.", schema=SampleVerdict)
        )
        assert server.last.schema is None
        assert '"maximum": 100' in server.last.text
        assert SampleVerdict.model_validate_json(reply.text)
        assert reply.flags == ("schema-in-prompt",)

    def test_cached_and_thinking_tokens(self, case: ProviderCase) -> None:
        """Tokens read from a cache and tokens thought are counted."""
        if not case.tells_thinking:
            pytest.skip("thinking is reported within the output")
        with Server(cached_tokens=5, reasoning_tokens=40) as server:
            server.script("twelve chars")
            usage = reply_of(case.provider(server), ask(case)).usage
        assert (usage.cached_input, usage.thinking, usage.output) == (5, 40, 43)

    def test_limit_of_the_context_is_truncated(self, case: ProviderCase, server: Server) -> None:
        """An answer that filled the model's context was cut, too."""
        server.script(Scripted("half an ans", finish_reason="model_context_window_exceeded"))
        assert reply_of(case.provider(server), ask(case)).status is Status.TRUNCATED

    def test_limit_eaten_by_thinking_is_truncated(self, case: ProviderCase, server: Server) -> None:
        """A limit that went into thinking is a cut answer, not an empty one."""
        server.script(Scripted(kind="thought"))
        reply = reply_of(case.provider(server), ask(case))
        assert (reply.status, reply.text) == (Status.TRUNCATED, "")

    @pytest.mark.parametrize("kind", ["refusal", "content_filter", "blocked"])
    def test_refusals_are_replies_with_what_they_cost(self, case: ProviderCase, server: Server, kind: str) -> None:
        """A refusal is a reply with a reason and a cost, not a failure."""
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
            (Scripted.fault("malformed"), FailureKind.UNUSABLE),
            (Scripted.fault("html"), FailureKind.RETRY),
            (Scripted.fault("empty"), FailureKind.UNUSABLE),
            (Scripted(status=200, body="<html>please log in</html>"), FailureKind.UNUSABLE),
            (Scripted.fault(400), FailureKind.REJECTED),
            (Scripted.fault(413), FailureKind.REJECTED),
            (Scripted.fault(422), FailureKind.REJECTED),
            (Scripted.fault(403), FailureKind.BARRED),
            (Scripted.fault("bad_key"), FailureKind.FATAL),
            (Scripted.fault("no_model"), FailureKind.FATAL),
        ],
        ids=lambda value: value.kind or str(value.status) if isinstance(value, Scripted) else str(value),
    )
    def test_failures_by_kind_after_one_request(
        self, case: ProviderCase, server: Server, fault: Scripted, kind: FailureKind
    ) -> None:
        """A failure is of its kind after a single request, in one line without the key."""
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

    def test_no_quota_is_fatal_where_the_provider_says_so(self, case: ProviderCase, server: Server) -> None:
        """An exhausted quota ends the run, where it can be told from a rate limit."""
        server.script(Scripted.fault("quota"))
        failure = failure_of(case.provider(server), ask(case))
        assert failure.kind is (FailureKind.FATAL if case.tells_quota else FailureKind.RATE_LIMIT)

    def test_hanging_server_times_out(self, case: ProviderCase, server: Server) -> None:
        """A server that says nothing is given up after `timeout`."""
        server.script(Scripted(kind="hang"))
        failure = failure_of(case.provider(server, timeout=0.05), ask(case))
        assert failure.kind is FailureKind.RETRY

    def test_answer_after_a_failure_on_the_same_provider(self, case: ProviderCase, server: Server) -> None:
        """After a failure the next request to the same provider succeeds."""
        server.script(Scripted.fault("drop_before"), "well again")
        provider = case.provider(server)

        async def two_requests() -> str:
            with pytest.raises(Exception):  # noqa: B017
                await provider.complete(ask(case))
            return (await provider.complete(ask(case))).text  # type: ignore[no-any-return]

        assert on_a_loop(provider, two_requests) == "well again"

    def test_missing_key_names_the_variable(self, case: ProviderCase, monkeypatch: pytest.MonkeyPatch) -> None:
        """A missing key ends the run, and names its variable."""
        provider = case.make(ProviderSettings(case.model, case.address, api_key_env="NOT_SET_API_KEY"))
        with pytest.raises(Exception, match="NOT_SET_API_KEY") as caught:
            reply_of(provider, ask(case))
        assert provider.classify(caught.value).kind is FailureKind.FATAL

    def test_headers_of_each_answer_are_handed_over(self, case: ProviderCase, server: Server) -> None:
        """The limiter sees the headers of each answer."""
        if not case.tells_headers:
            pytest.skip("it gets no headers")
        names = ("x-ratelimit-remaining-requests", "anthropic-ratelimit-requests-remaining")
        server.script(Scripted("fine", headers=dict.fromkeys(names, "17")))
        provider = case.provider(server)
        answers: list[dict[str, str]] = []
        provider.on_headers = lambda headers: answers.append({name.lower(): value for name, value in headers.items()})
        reply_of(provider, ask(case))
        assert [answer.get("x-ratelimit-remaining-requests") for answer in answers] == ["17"]

    def test_omitted_parameters_are_not_sent(self, case: ProviderCase, server: Server) -> None:
        """What the model does not take is left out, and its limit has its own name."""
        provider = case.provider(server)
        reply_of(provider, ask(case, max_tokens=50, temperature=0.5, top_p=0.9))
        names = {name for part in (server.last.body, server.last.body.get("generationConfig", {})) for name in part}
        assert not names & provider.capabilities.omit
        assert ("temperature" in names) is ("temperature" not in provider.capabilities.omit)
        assert 50 in [
            server.last.body.get(name, server.last.body.get("generationConfig", {}).get(name))
            for name in ("max_tokens", "max_completion_tokens", "maxOutputTokens", "max_output_tokens")
        ]

    def test_many_at_once_get_their_own_answers(self, case: ProviderCase, server: Server) -> None:
        """Each of many requests at once gets its own answer, and opens one connection at most."""
        provider = case.provider(server)

        async def many() -> list[list[str]]:
            waves = []
            for _ in range(3):
                requests = (provider.complete(ask(case, f"number {number}")) for number in range(8))
                waves.append([reply.text for reply in await asyncio.gather(*requests)])
            return waves

        waves = on_a_loop(provider, many)
        assert server.count() == 24
        assert waves == [waves[0]] * 3
        assert len(set(waves[0])) == 8
        assert len(server.connections) <= 24
