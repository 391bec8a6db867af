"""Cache keys of answers: hashes of everything that can change an answer, and of nothing else."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import orjson

from titjudge.core.serialization import json_bytes
from titjudge.core.types import Request


def request_key(request: Request) -> str:
    """Hash (SHA-256) everything that can change the answer; never a credential, a timeout or a concurrency."""
    content = {
        "provider": request.provider,
        "adapter": request.adapter_version,
        "model": request.model,
        "base_url": request.base_url,
        "params": dict(request.params),
        "schema": request.schema,
        "sample": request.sample,
        "attempt": request.attempt,
        "messages": [
            [
                message.role,
                *(part if isinstance(part, str) else ["image", part.sha256, part.media_type] for part in message.parts),
            ]
            for message in request.messages
        ],
    }
    if request.tools:  # left out where empty, so that keys from before there were tools stay valid
        content["tools"] = tool_content(request)
    if request.choices:  # likewise
        content["choices"] = request.choices
    return content_key("ask", content)


def tool_content(request: Request) -> list[Any]:
    """Return the tools of a request for its key: those offered, and the calls and results of each turn."""
    offered = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    return [offered, [[message.calls, message.results] for message in request.messages]]


def content_key(kind: str, content: Any) -> str:
    """Make a stable key for JSON content, in the namespace `kind`."""
    return f"{kind}:" + hashlib.sha256(json_bytes(content, orjson.OPT_SORT_KEYS)).hexdigest()


def short_digest(content: bytes) -> bytes:
    """Return 16 bytes that stand for a key or a record where millions of them are kept in memory."""
    return hashlib.blake2b(content, digest_size=16).digest()


def is_key(text: str) -> bool:
    """Whether a text has the form of the keys that `content_key` makes."""
    return re.fullmatch(r"[a-z]+:[0-9a-f]{64}", text) is not None
