"""What a provider must bring, and what it gets by default."""

import asyncio
from typing import Any

import pytest

from titjudge.core import registry
from titjudge.core.types import Failure, FailureKind, Message, Reply, Request, Usage
from titjudge.providers import (
    Capabilities,
    Embedder,
    Provider,
    WrappedProvider,
)

REQUEST = Request("mine", "m", (Message("user", ("What is it?",)),))


class Least(Provider):
    """As little as a provider may be."""

    async def complete(self, request: Request) -> Reply:
        return Reply("a cube", model_version="m")


class Observed(Provider):
    """A provider that costs money and passes on the headers of its answers."""

    name, version, base_url, account, model = "mine", 3, "http://127.0.0.1:9", "mine", "m"

    async def complete(self, request: Request) -> Reply:
        if self.on_headers is not None:
            self.on_headers({"x-ratelimit-limit-requests": "600"})
        return Reply("a cube", usage=Usage(4, 2), model_version=self.model)

    def classify(self, error: Exception) -> Failure:
        return Failure(FailureKind.FATAL, "its own words")

    def usage_bound(self, request: Request) -> Usage:
        return Usage(10, 5)


def test_the_least_provider_has_all_that_the_engine_asks_for() -> None:
    provider = Least()
    assert (provider.version, provider.base_url, provider.model, provider.account) == (1, "", "", "")
    assert (provider.is_batch, provider.is_free, provider.direct, provider.on_headers) == (False, False, False, None)
    assert provider.classify(ValueError("odd")) == Failure(FailureKind.REJECTED, "odd", maybe_billed=True)
    provider.ready()
    provider.leave()
    asyncio.run(provider.aclose())


def test_a_provider_that_costs_money_must_bound_it_and_one_of_this_process_need_not() -> None:
    provider = Least()
    with pytest.raises(NotImplementedError, match=r"Least has no method usage_bound"):
        provider.usage_bound(REQUEST)
    provider.capabilities = Capabilities(direct=True)
    assert provider.usage_bound(REQUEST) == Usage()


def test_a_provider_without_complete_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="complete"):
        type("Nothing", (Provider,), {})()


def test_a_wrapped_provider_is_its_own_in_everything_that_it_does_not_override() -> None:
    real = Observed()
    wrapped = WrappedProvider(real)
    assert (wrapped.name, wrapped.version, wrapped.base_url, wrapped.account, wrapped.model) == (
        *(real.name, real.version, real.base_url, real.account),
        "m",
    )
    seen: list[Any] = []
    wrapped.on_headers = seen.append
    assert asyncio.run(wrapped.complete(REQUEST)).text == "a cube"
    assert seen
    assert wrapped.classify(ValueError()).message == "its own words"
    assert wrapped.usage_bound(REQUEST) == Usage(10, 5)


def test_what_is_built_in_subclasses_the_protocol() -> None:
    import importlib

    for kind, base in (("providers", Provider), ("embedders", Embedder)):
        for target in registry.TABLES[kind].values():
            module, _, attribute = target.partition(":")
            made = getattr(importlib.import_module(module), attribute)
            assert not isinstance(made, type) or issubclass(made, base), target
