"""How text becomes a vector. An embedder is one class and one line in `registry.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from titjudge.core.types import Embedding, Failure


class Embedder(Protocol):
    """One embedding model. Built as `Embedder(model, settings)` with `settings: ProviderSettings`.

    Attributes: `name` (`provider/model`), `identity` (everything that can change a vector: model, revision or content
    hash of a folder, dtype, pooling, maximum length, library version; part of the cache key), `max_tokens`, `local`.
    """

    name: str
    identity: Mapping[str, Any]
    max_tokens: int
    local: bool

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """One unit vector for each text, in order; no instruction prefix is ever added."""
        ...

    def classify(self, error: Exception) -> Failure: ...

    async def aclose(self) -> None: ...
