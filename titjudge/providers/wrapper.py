"""A provider in the place of another, and adapters for classes of user packages that do not subclass `Provider`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from titjudge.core.types import Embedding, Failure, Reply, Request, Usage
from titjudge.providers.base import Embedder, OnHeaders, Provider


class WrappedProvider(Provider):
    """Stands in another provider's place with its identity; a subclass overrides what it does differently.

    Args:
        real: The provider that everything else is left to.
    """

    def __init__(self, real: Provider) -> None:
        self.real = real
        self.name, self.model, self.version = real.name, real.model, real.version
        self.base_url, self.account, self.listed_as = real.base_url, real.account, real.listed_as
        self.capabilities = real.capabilities

    @property
    def is_free(self) -> bool:
        return self.real.is_free

    @property
    def extra_body(self) -> Mapping[str, Any]:
        return getattr(self.real, "extra_body", {})

    @property
    def refused(self) -> frozenset[str]:
        return getattr(self.real, "refused", frozenset())

    @property
    def on_headers(self) -> OnHeaders | None:
        """The engine's observer of headers; the real provider calls it."""
        return self.real.on_headers

    @on_headers.setter
    def on_headers(self, observer: OnHeaders | None) -> None:
        self.real.on_headers = observer

    async def complete(self, request: Request) -> Reply:
        return await self.real.complete(request)

    def classify(self, error: Exception) -> Failure:
        return self.real.classify(error)

    def usage_bound(self, request: Request) -> Usage:
        return self.real.usage_bound(request)

    def ready(self) -> None:
        self.real.ready()

    def load(self) -> None:
        self.real.load()

    def leave(self) -> None:
        self.real.leave()

    async def aclose(self) -> None:
        await self.real.aclose()


class _DuckProvider(WrappedProvider):
    """Adapts an object with a provider's five attributes and four methods whose class does not subclass `Provider`."""

    real: Any

    def __init__(self, real: Any) -> None:
        self.real = real
        self.name, self.version, self.base_url, self.account = real.name, real.version, real.base_url, real.account
        self.model = str(getattr(real, "model", ""))
        self.capabilities = real.capabilities

    @property
    def is_free(self) -> bool:
        return self.direct

    async def complete(self, request: Request) -> Reply:
        try:
            reply: Reply = await self.real.complete(request)
        finally:
            self.capabilities = self.real.capabilities  # it may have learned that the model calls no tools
        return reply

    def ready(self) -> None:
        return None

    def load(self) -> None:
        return None

    def leave(self) -> None:
        return None


class _DuckEmbedder(Embedder):
    """Adapts an object with an embedder's attributes and methods whose class does not subclass `Embedder`."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.name, self.identity, self.max_tokens = real.name, real.identity, real.max_tokens
        self.local = bool(real.local)
        self.base_url = self.account = str(getattr(real, "base_url", ""))

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        vectors: list[Embedding] = await self.real.embed(texts)
        return vectors

    def classify(self, error: Exception) -> Failure:
        failure: Failure = self.real.classify(error)
        return failure

    async def aclose(self) -> None:
        await self.real.aclose()


def adapted_provider(provider: Any) -> Provider:
    """Return a provider as it is, or an adapter where it does not subclass `Provider`."""
    return provider if isinstance(provider, Provider) else _DuckProvider(provider)


def adapted_embedder(embedder: Any) -> Embedder:
    """Return an embedder as it is, or an adapter where it does not subclass `Embedder`."""
    return embedder if isinstance(embedder, Embedder) else _DuckEmbedder(embedder)
