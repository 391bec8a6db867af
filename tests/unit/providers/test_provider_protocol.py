"""What a provider must bring, what it gets by default, and providers of packages that know the four methods alone."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from titjudge.core import registry
from titjudge.core.config import load_config
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Embedding, Failure, FailureKind, Message, Reply, Request, Usage
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.providers import (
    Capabilities,
    Embedder,
    Provider,
    ProviderSettings,
    WrappedProvider,
    make_embedder,
    make_provider,
)

REQUEST = Request("mine", "m", (Message("user", ("What is it?",)),))


class Least(Provider):
    """As little as a provider may be."""

    async def complete(self, request: Request) -> Reply:
        return Reply("a cube", model_version="m")


class FourMethods:
    """A provider of a package that subclasses nothing."""

    name, version, base_url, account = "mine", 3, "http://127.0.0.1:9", "mine"
    on_headers: Any = None

    def __init__(self, settings: ProviderSettings) -> None:
        self.model = settings.model
        self.capabilities = Capabilities(tools=True)
        self.closed = False

    async def complete(self, request: Request) -> Reply:
        self.capabilities = Capabilities(tools=False)
        if self.on_headers is not None:
            self.on_headers({"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": "599"})
        return Reply("a cube", usage=Usage(4, 2), model_version=self.model)

    def classify(self, error: Exception) -> Failure:
        return Failure(FailureKind.FATAL, "its own words")

    def usage_bound(self, request: Request) -> Usage:
        return Usage(10, 5)

    async def aclose(self) -> None:
        self.closed = True


class ThreeMethods:
    """An embedder of a package that subclasses nothing."""

    name, max_tokens, local = "mine/e", 7, True

    def __init__(self, model: str, settings: ProviderSettings) -> None:
        self.identity = {"model": model}
        self.closed = False

    async def embed(self, texts: Any) -> list[Embedding]:
        return [Embedding([1.0], len(text), len(text)) for text in texts]

    def classify(self, error: Exception) -> Failure:
        return Failure(FailureKind.FATAL, "its own words")

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"providers": f"{__name__}:FourMethods", "embedders": f"{__name__}:ThreeMethods"}
    monkeypatch.setattr(registry, "announced", lambda kind: {"mine": points[kind]} if kind in points else {})


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
    real: Any = FourMethods(ProviderSettings("m"))
    wrapped = WrappedProvider(make_provider("mine", ProviderSettings("m")))
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


def test_a_provider_with_the_four_methods_alone_answers_in_a_run(tmp_path: Path) -> None:
    config = load_config(None, {"captioner": "mine/m", "prices": {"m": {"input": 1.0, "output": 1.0}}})
    roles = Roles(config)
    engine = Engine(roles, PromptLibrary(tmp_path))

    async def work() -> Reply:
        role = roles["captioner"]
        request = engine.request(role, REQUEST.messages, template="t", item_id="i", schema=None, params={})
        reply = await engine.answer(role, request)
        await engine.aclose()
        return reply

    reply = asyncio.run(work())
    assert (reply.text, reply.list_cost, reply.usage) == ("a cube", 6e-6, Usage(4, 2))
    provider: Any = roles["captioner"].provider
    assert (provider.real.closed, provider.capabilities.tools) == (True, False)
    assert roles["captioner"].limiter._from_headers  # the limits that its headers told


def test_an_embedder_with_the_three_methods_alone_makes_vectors() -> None:
    embedder = make_embedder("mine", "e", ProviderSettings("e"))
    assert isinstance(embedder, Embedder)
    assert (embedder.name, embedder.max_tokens, embedder.direct, embedder.is_free) == ("mine/e", 7, True, True)
    assert dict(embedder.identity) == {"model": "e"}
    assert asyncio.run(embedder.embed(["ab"]))[0].tokens_total == 2
    assert embedder.classify(ValueError()).message == "its own words"
    asyncio.run(embedder.aclose())
    real: Any = embedder
    assert real.real.closed


def test_what_is_built_in_subclasses_the_protocol() -> None:
    import importlib

    for kind, base in (("providers", Provider), ("embedders", Embedder)):
        for target in registry.TABLES[kind].values():
            module, _, attribute = target.partition(":")
            made = getattr(importlib.import_module(module), attribute)
            assert not isinstance(made, type) or issubclass(made, base), target
