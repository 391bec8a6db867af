"""How a model is called. A provider is one class with the four methods below and one line in `registry.py`; it is made
with one argument, the `ProviderSettings` of a role. `fake.py` is a short one.

A provider never retries, never caches, never counts money: it sends one request, returns what came, and says of an
exception what kind of failure it is. Everything else is the engine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from titjudge.core.types import Failure, ProviderSettings, Reply, Request, Usage

__all__ = ["Capabilities", "Provider", "ProviderSettings"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model of a provider can do; the engine omits what it cannot.

    `images`: reads pictures. `schema`: has native JSON-schema answers. `omit`: parameters the model rejects (they are
    left out of the request and of its cache key). `local`: runs in this process, costs nothing, needs no limiter.
    `in_flight`: how many requests it can use at once (None: as many as the engine likes). `cache`: its answers are worth
    keeping (a recorded answer is on disk already). `thinking`: tokens a model may think before it answers, on top of
    `max_tokens`, when no `thinking_budget` is given. `tools`: calls tools natively.
    """

    images: bool = True
    schema: bool = True
    omit: frozenset[str] = frozenset()
    local: bool = False
    in_flight: int | None = None
    cache: bool = True
    thinking: int = 0
    tools: bool = False


class Provider(Protocol):
    """One model behind one address.

    Attributes: `name` (registry name), `version` (raise it when the adapter changes what is sent), `base_url` (identity
    of the endpoint without credentials, part of the cache key), `account` (what shares a rate limit).
    """

    name: str
    version: int
    base_url: str
    account: str
    capabilities: Capabilities

    async def complete(self, request: Request) -> Reply:
        """Send one request once. Returns a Reply with status OK, TRUNCATED or REFUSED; raises anything else."""
        ...

    def classify(self, error: Exception) -> Failure:
        """What kind of failure an exception from `complete` is."""
        ...

    def usage_bound(self, request: Request) -> Usage:
        """Tokens this request can cost at most (input as estimated, output as capped)."""
        ...

    async def aclose(self) -> None: ...
