"""Split web addresses that users, servers and replies name."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def url_parts(address: str) -> SplitResult:
    """Split an address as `urlsplit` does; one that it refuses, or with a port that is no port, has no parts at all.

    Callers so refuse it like any other text that is no address: it has neither scheme nor host name.
    """
    try:
        parts = urlsplit(address.strip())
        usable = parts.port != 0  # which raises for most others that are no port
    except ValueError:
        usable = False
    return parts if usable else SplitResult("", "", "", "", "")
