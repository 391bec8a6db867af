"""Read the tokens that an answer reports as billed; None where it reports no plausible numbers.

A count is a finite number of at least 0, or the text of one. A missing usage is never taken for zero: a request whose usage
is unknown is booked at the most it may have cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from titjudge.core.types import Reply, Usage

NO_USAGE = "usage-missing"  # flag: the server did not report what it billed
ODD_USAGE = "usage-odd"  # flag: the server reports more than the request can have used
BEYOND_BELIEF = 10  # times the bound of a request; a usage above that is not plausible


def count(value: Any) -> int | None:
    """Read a count of tokens; None where it is missing, negative, a boolean, or no finite number."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if math.isfinite(value) and value >= 0 else None


def openai_usage(usage: Any) -> Usage | None:
    """Read usage in OpenAI's form. Where only the total is reported, it counts as output, which costs more.

    xAI counts reasoning beside the completion rather than in it; the total shows which.
    """
    if not isinstance(usage, Mapping):
        return None
    sent, out, total = (count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens"))
    if sent is None and out is None and usage.get("prompt_tokens") is usage.get("completion_tokens") is None:
        sent, out = 0, total
    if sent is None or out is None:
        return None
    details_in, details_out = _part(usage, "prompt_tokens_details"), _part(usage, "completion_tokens_details")
    thinking = count(details_out.get("reasoning_tokens")) or 0
    if thinking and total == sent + out + thinking:
        out += thinking
    cached = count(details_in.get("cached_tokens")) or count(usage.get("prompt_cache_hit_tokens")) or 0
    return _nonzero(Usage(sent, out, cached, thinking, count(details_in.get("image_tokens")) or 0))


def gemini_usage(usage: Any) -> Usage | None:
    """Read usage in Google's form: thinking is output, text read by tools is input.

    Google leaves out counts of 0, so an answer without `candidatesTokenCount` counts only if the total is there.
    """
    if not isinstance(usage, Mapping):
        return None
    names = ("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    if any(usage.get(name) is not None and count(usage[name]) is None for name in names):
        return None
    sent, tools, out, thinking = (count(usage.get(name)) for name in names)
    total = count(usage.get("totalTokenCount"))
    read = (sent or 0) + (tools or 0)
    written = (out or 0) + (thinking or 0)
    if sent is None or out is None:
        if total is None:
            return None
        written = max(written, total - read)
    details = usage.get("promptTokensDetails")
    images = [each for each in details if isinstance(each, Mapping)] if isinstance(details, list) else []
    return _nonzero(
        Usage(
            input=read,
            output=written,
            cached_input=count(usage.get("cachedContentTokenCount")) or 0,
            thinking=thinking or 0,
            image=sum(count(each.get("tokenCount")) or 0 for each in images if each.get("modality") == "IMAGE"),
        )
    )


def believed(usage: Usage, bound: Usage) -> tuple[Usage, bool]:
    """Decide what to book of a reported usage, and whether it is more than its request can have used.

    A little above the bound is booked as reported (a server may add a prompt of its own); of what is far above it, the bound
    is booked.
    """
    total, most = usage.input + usage.output, bound.input + bound.output
    return (bound if total > BEYOND_BELIEF * most else usage), total > most


def billed(reply: Reply, bound: Usage) -> Reply:
    """Return the reply with the usage that is booked for it."""
    if NO_USAGE in reply.flags:
        return reply
    usage, odd = believed(reply.usage, bound)
    return replace(reply, usage=usage, flags=(*reply.flags, ODD_USAGE)) if odd else reply


def _part(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = usage.get(name)
    return part if isinstance(part, Mapping) else {}


def _nonzero(usage: Usage) -> Usage | None:
    """Take a usage of all zeros for a missing one: no request is without tokens."""
    return usage if usage.input or usage.output else None
