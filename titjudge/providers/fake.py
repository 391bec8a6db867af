"""A provider for tests, yours and ours: answers from a function or a list, keeps what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from titjudge.core.types import Failure, FailureKind, ProviderSettings, Reply, Request, Usage
from titjudge.providers.base import Capabilities, Provider, check_options
from titjudge.providers.dry_run import made_up_reply

Answer = str | Reply | Exception


class Fake(Provider):
    """Answers without any model.

    Args:
        settings: As for other providers; may be None. With the option `remember: false` no requests are kept.
        answers: A function from Request to text, Reply or Exception; or an iterable of those, used in order; without it a
            request gets the answer that its metric can read (the best one of a question's rule, the smallest valid
            instance of a schema, each choice as likely as the others), and any other a fixed sentence. A Reply may have
            `tool_calls` or a `first_token`, if `capabilities` has `tools` or `probabilities`.
        latency: Seconds each answer takes.
        capabilities: Its abilities; by default it runs in this process and, without `answers`, has probabilities.

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
        capabilities: Capabilities | None = None,
    ) -> None:
        check_options("option of the fake provider", settings.options if settings else (), ("remember",))
        self.capabilities = capabilities or Capabilities(direct=True, probabilities=answers is None)
        self.latency = latency
        self.requests: list[Request] = []
        self._remember = settings is None or settings.options.get("remember", True)
        self._answer = _function_of(answers)

    async def complete(self, request: Request) -> Reply:
        if self._remember:
            self.requests.append(request)
        await asyncio.sleep(self.latency)
        answer = self._answer(request)
        if isinstance(answer, Exception):
            raise answer
        return _from_fake(Reply(answer, finish_reason="stop")) if isinstance(answer, str) else answer

    def classify(self, error: Exception) -> Failure:
        return Failure(FailureKind.RETRY if isinstance(error, ConnectionError) else FailureKind.REJECTED, str(error))

    def usage_bound(self, request: Request) -> Usage:
        return Usage(input=10, output=int(request.params.get("max_tokens", 5)))


def _function_of(answers: Callable[[Request], Answer] | Iterable[Answer] | None) -> Callable[[Request], Answer]:
    """Make a function that returns the answers of a Fake."""
    if answers is None:
        return lambda request: _from_fake(made_up_reply(request, "A picture of something."))
    if callable(answers):
        return answers
    queue = iter(answers)
    return lambda request: next(queue, RuntimeError("the fake provider has no answer left"))


def _from_fake(reply: Reply) -> Reply:
    """Complete a reply like a server: with its usage, model and address."""
    return replace(reply, usage=Usage(input=10, output=5), model_version="fake-1", endpoint="fake")
