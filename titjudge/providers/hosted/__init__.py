"""Models behind an HTTP API: the base class of their providers, and helpers for requests and answers.

A subclass of `Hosted` writes `body`, `read_reply` and `authorisation`, and sets `path`. It inherits the handling of keys,
addresses, connections, size limits and errors. `concluded` gives a reply its status, `token_count` reads usage. A request without an answer raises `ProviderFailure`, with the kind of failure that the engine acts on.
"""

from __future__ import annotations

from titjudge.providers.hosted.base import ANY_REQUEST, AskedFor, Hosted, image_base64
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.hosted.http import Answer, Endpoint
from titjudge.providers.hosted.request_options import merged
from titjudge.providers.json_schema import add_instruction
from titjudge.providers.token_counts import fitted
from titjudge.providers.usage import NO_USAGE, token_count

__all__ = [
    "ANY_REQUEST",
    "NO_USAGE",
    "Answer",
    "AskedFor",
    "Endpoint",
    "Hosted",
    "ProviderFailure",
    "add_instruction",
    "fitted",
    "image_base64",
    "merged",
    "token_count",
]
