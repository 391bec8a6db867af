"""Models and their calls: `Provider` answers requests, `Embedder` makes vectors; both are a `Model`.

A provider is a subclass of `Provider` and one line in `core/registry.py`, or an entry point of another package. It needs
`complete` (send one request once), and `usage_bound` if it costs money. Tokens are counted as the provider bills them, costs
are USD, times are seconds. `fake.py` is a short example:

    >>> make_provider("fake", ProviderSettings("any")).name
    'fake'
"""

from __future__ import annotations

from titjudge.core import registry
from titjudge.core.types import ProviderSettings
from titjudge.providers.base import (
    SAMPLING_PARAMETERS,
    Capabilities,
    Embedder,
    Model,
    Provider,
    WrappedProvider,
)

__all__ = [
    "SAMPLING_PARAMETERS",
    "Capabilities",
    "Embedder",
    "Model",
    "Provider",
    "ProviderSettings",
    "WrappedProvider",
    "make_embedder",
    "make_provider",
]


def make_provider(name: str, settings: ProviderSettings) -> Provider:
    """Make the provider of a registry name, built in or of an entry point.

    Raises:
        UserError: There is no such provider, or the settings do not suit it.
    """
    provider: Provider = registry.load("providers", name)(settings)
    return provider


def make_embedder(name: str, model: str, settings: ProviderSettings) -> Embedder:
    """Make the embedder of a registry name, built in or of an entry point.

    Raises:
        UserError: There is no such embedder, or the settings do not suit it.
    """
    embedder: Embedder = registry.load("embedders", name)(model, settings)
    return embedder
