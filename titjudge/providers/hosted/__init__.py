"""Models behind an HTTP API: the base class of their providers, and helpers for requests and answers.

A subclass of `Hosted` writes `body`, `read_reply` and `authorisation`, and sets `path`. It inherits the handling of keys,
addresses, connections and size limits. `concluded` and `kind_of_status` classify what a server returns, `token_count` and
`parsed` read it. A request without an answer raises `ProviderFailure`, with the kind of failure that the engine acts on.
"""

from __future__ import annotations

from titjudge.providers.hosted.base import ANY_REQUEST, AskedFor, Hosted, image_base64, parsed, unreadable
from titjudge.providers.hosted.failures import ProviderFailure, kind_of_status, may_be_billed, retry_after
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
    "kind_of_status",
    "may_be_billed",
    "merged",
    "parsed",
    "retry_after",
    "token_count",
    "unreadable",
]
