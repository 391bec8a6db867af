"""A provider for tests, yours and ours: answers from a function or a list, keeps what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from titjudge.core.structured_output import smallest
from titjudge.core.types import Failure, FailureKind, ProviderSettings, Reply, Request, Usage
from titjudge.providers.base import Capabilities, Provider, check_options

Answer = str | Reply | Exception


class Fake(Provider):
    """Answers without any model.

    Args:
        settings: As for other providers; may be None. With the option `remember: false` no requests are kept.
        answers: A function from Request to text, Reply or Exception; or an iterable of those, used in order; without
            it a structured request gets the smallest valid instance of its schema and any other a fixed sentence. A
            Reply may hold `tool_calls` or a `first_token`, where `capabilities` has `tools` or `probabilities`.
        latency: Seconds each answer takes.

    `requests` lists every request it was sent.

    >>> import asyncio
    >>> from titjudge import Request
    >>> asyncio.run(Fake(answers=["a red apple"]).complete(Request("fake", "m", ()))).text
    'a red apple'
    """

    name = "fake"
    account = "fake"
    needs_model = False

    def __init__(
        self,
        settings: ProviderSettings | None = None,
        answers: Callable[[Request], Answer] | Iterable[Answer] | None = None,
        latency: float = 0.0,
        capabilities: Capabilities = Capabilities(local=True),
    ) -> None:
        check_options("option of the fake provider", settings.options if settings else (), ("remember",))
        self.capabilities = capabilities
        self.latency = latency
        self.requests: list[Request] = []
        self._remember = settings is None or settings.options.get("remember", True)
        self._function = answers if callable(answers) else None
        self._queue = iter(answers) if answers is not None and not callable(answers) else None

    async def complete(self, request: Request) -> Reply:
        if self._remember:
            self.requests.append(request)
        await asyncio.sleep(self.latency)
        if self._function is not None:
            answer = self._function(request)
        elif self._queue is not None:
            answer = next(self._queue, RuntimeError("the fake provider has no answer left"))
        else:
            answer = smallest(request.schema) if request.schema else "A picture of something."
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Reply):
            return answer
        return Reply(
            answer, usage=Usage(input=10, output=5), finish_reason="stop", model_version="fake-1", endpoint="fake"
        )

    def classify(self, error: Exception) -> Failure:
        return Failure(FailureKind.RETRY if isinstance(error, ConnectionError) else FailureKind.REJECTED, str(error))

    def usage_bound(self, request: Request) -> Usage:
        return Usage(input=10, output=int(request.params.get("max_tokens", 5)))
