"""Remove secrets from everything that is printed, stored or logged, and take addresses apart."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from titjudge.core.patterns import lazy_pattern
from titjudge.core.serialization import without_surrogates
from titjudge.core.words import in_one_line, truncated


def url_parts(address: str) -> SplitResult:
    """Split an address as `urlsplit` does; one that it refuses, or with an invalid port, has no parts at all.

    Callers so refuse it like any other text that is not an address: it has neither scheme nor host name.
    """
    try:
        parts = urlsplit(address.strip())
        usable = parts.port != 0  # which raises for most other invalid ports
    except ValueError:
        usable = False
    return parts if usable else SplitResult("", "", "", "", "")


_LONGEST_MESSAGE = 400  # characters
_SHORTEST_SECRET = 4  # characters; shorter ones occur in ordinary words
_SHORTEST_VALUE = 8  # characters of a key or environment variable that is taken for a secret

_PATTERNS = [
    (lazy_pattern(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=*-]{4,}"), r"\1 [key]"),
    (lazy_pattern(r"(?:\b|(?<=\\[a-z]))(?:sk|pk|rk|gsk|xai|hf|r8|key)[-_][A-Za-z0-9_*.\-]{4,}"), "[key]"),
    (lazy_pattern(r"(?:\b|(?<=\\[a-z]))AIza[A-Za-z0-9_*\-]{4,}"), "[key]"),
    (lazy_pattern(r"(?i)([?&](?:key|api[-_]?key|access_token|token|sig)=)[^&\s\"'<>]+"), r"\1[key]"),
    (
        lazy_pattern(
            r"(?i)((?:x-goog-api-key|x-api-key|api[-_]?key|authorization)[\"']?\s*[:=]\s*[\"']?)(?!\[key\])[^\s\"',}]{6,}"
        ),
        r"\1[key]",
    ),
    (lazy_pattern(r"(https?://)[^\s/@\"']+@"), r"\1"),
]
_NAMES = lazy_pattern(r"(?i)key|token|secret|password|credential")

_registered: set[str] = set()


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace the given and the registered secrets, and everything that looks like a key, by `[key]`."""
    for secret in sorted({*secrets, *_registered}, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[key]")
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def without_secrets(raw: bytes) -> bytes:
    """Replace the registered secrets in what a server sent, which may repeat the headers of its request, by `[key]`."""
    for secret in sorted(_registered, key=len, reverse=True):
        for spelling in {secret, secret.replace("/", "\\/")}:  # as JSON may write it
            raw = raw.replace(spelling.encode(errors="surrogateescape"), b"[key]")
    return raw


def one_line(text: str, secrets: Iterable[str] = ()) -> str:
    """Make a message printable: redacted, on one line, without markup, truncated."""
    plain = re.sub(r"(?is)<(script|style).*?</\1>|<[a-z/!][^>]*>", " ", without_surrogates(text))
    return truncated(in_one_line(redact(plain, secrets)), _LONGEST_MESSAGE)


def register_secret(secret: str) -> None:
    """Register a key that is in use, so that `redact` removes it whatever it looks like."""
    if len(secret) >= _SHORTEST_VALUE:
        _registered.add(secret)


def environment_secrets() -> list[str]:
    """Return the values of environment variables with names like a key's."""
    named = (value.strip() for name, value in os.environ.items() if _NAMES.search(name))
    return [value for value in named if len(value) >= _SHORTEST_VALUE]


class RedactingFilter(logging.Filter):
    """Remove every secret from a log record: its message, its fields and its traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        secrets = environment_secrets()
        message = redact(record.getMessage(), secrets)
        if isinstance(record.args, Mapping):
            record.__dict__["fields"] = {
                str(name): redact(value, secrets) if isinstance(value, str) else value
                for name, value in record.args.items()
            }
        record.msg, record.args = message, ()
        if record.exc_info:
            record.exc_text = redact(logging.Formatter().formatException(record.exc_info), secrets)
        return True


CODE_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError)


def code_fault(error: Exception) -> str:
    """Write an error in the code of a metric or a provider with its place: `KeyError: 'role' (my_package/prov.py:27)`.

    The place is in the code that titjudge called: of a plug-in rather than of a library that it calls. No key is in it.
    """
    import traceback

    frames = list(traceback.extract_tb(error.__traceback__))
    others = [frame for frame in frames if not Path(frame.filename).is_relative_to(Path(__file__).parents[1])]
    if others:
        frames = [frame for frame in others if Path(frame.filename).parent == Path(others[0].filename).parent]
    place = "/".join(Path(frames[-1].filename).parts[-2:]) + f":{frames[-1].lineno}" if frames else "unknown place"
    return f"{type(error).__name__}: {one_line(str(error))} ({place})"
