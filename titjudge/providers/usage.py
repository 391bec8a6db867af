"""Read the usage that an answer reports: tokens, and USD if the server gives it; None if it reports nothing plausible.

A count is a finite number of at least 0, or the text of one. A missing usage is never taken for zero: a request whose usage
is unknown is booked at the most it may have cost. Of two readings the higher one counts.

Read the log probabilities of the first token: `logprobs` of chat completions, `logprobsResult` of Gemini.

None if they are missing or malformed, which matters only to a request that asks for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from titjudge.core.answer_probabilities import FirstToken
from titjudge.core.numbers import finite
from titjudge.core.types import Usage, Values
from titjudge.providers.base import Headers

NO_USAGE = "usage-missing"  # flag of a reply: the server did not report what it billed
ODD_USAGE = "usage-odd"  # flag: the server reports more than the request can have used
MOST_TOKENS = 10_000_000  # no model reads and writes more in one request: the largest contexts announced have as many
MOST_COST = 10_000.0  # USD; as many tokens at the highest rates of price lists cost less
_COST_HEADER = "x-litellm-response-cost"  # of LiteLLM's proxy; docs.litellm.ai/docs/proxy/response_headers


def token_count(value: Any) -> int | None:
    """Read a number of tokens; None if it is missing, negative, a boolean or not finite."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if math.isfinite(value) and value >= 0 else None


def openai_usage(usage: Any, headers: Headers | None = None) -> Usage | None:
    """Read usage in OpenAI's form, and its cost in `headers` (of the answer, in lower case).

    Thinking is part of the completion (OpenAI), beside it (xAI), or only in the total. The total minus the input is
    output, and more thinking than completion comes on top of it. If only the total is reported, it counts as output,
    which costs more.
    """
    cost = billed_cost(usage, headers or {})
    unknown = None if cost is None else Usage(cost=cost)
    if not isinstance(usage, Mapping):
        return unknown
    sent, out = token_count(usage.get("prompt_tokens")), token_count(usage.get("completion_tokens"))
    total = token_count(usage.get("total_tokens"))
    if sent is None and out is None and usage.get("prompt_tokens") is usage.get("completion_tokens") is None:
        sent, out = 0, total
    if sent is None or out is None:
        return unknown
    details_in, details_out = _part(usage, "prompt_tokens_details"), _part(usage, "completion_tokens_details")
    thinking = token_count(details_out.get("reasoning_tokens")) or 0
    out = max(out + thinking if thinking > out else out, (total or 0) - sent)
    cached = token_count(details_in.get("cached_tokens")) or token_count(usage.get("prompt_cache_hit_tokens")) or 0
    return _nonzero(Usage(sent, out, cached, thinking, token_count(details_in.get("image_tokens")) or 0, cost))


def billed_cost(usage: Any, headers: Headers) -> float | None:
    """Read the USD that a server reports as billed: `usage.cost` (OpenRouter, Perplexity) or a header; the higher of both.

    With a key of the user, OpenRouter's `cost` is its fee, and the vendor's bill comes on top (openrouter.ai/docs, Usage
    Accounting). A header of 0 means that the proxy knows no price.
    """
    amounts = [_dollars(headers.get(_COST_HEADER)) or None]
    if isinstance(usage, Mapping):
        cost, details = usage.get("cost"), _part(usage, "cost_details")
        fee = _dollars(cost.get("total_cost") if isinstance(cost, Mapping) else cost)
        upstream = _dollars(details.get("upstream_inference_cost")) if usage.get("is_byok") is True else None
        amounts.append(fee if upstream is None else (fee or 0.0) + upstream)
    return max((amount for amount in amounts if amount is not None), default=None)


def _dollars(value: Any) -> float | None:
    """Read an amount: a number, or the text of one, that is finite and not negative."""
    amount = finite(value)
    return amount if amount is not None and amount >= 0 else None


def gemini_usage(usage: Any, headers: Headers | None = None) -> Usage | None:
    """Read usage in Google's form, and the cost in `headers`: thinking is output, text read by tools is input.

    Google leaves out counts of 0, so an answer without `candidatesTokenCount` counts only if the total is there. The rest
    of the total is output.
    """
    cost = billed_cost(None, headers or {})
    unknown = None if cost is None else Usage(cost=cost)
    if not isinstance(usage, Mapping):
        return unknown
    names = ("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    if any(usage.get(name) is not None and token_count(usage[name]) is None for name in names):
        return unknown
    sent, tools, out, thinking = (token_count(usage.get(name)) for name in names)
    total = token_count(usage.get("totalTokenCount"))
    read = (sent or 0) + (tools or 0)
    written = (out or 0) + (thinking or 0)
    if total is None and (sent is None or out is None):
        return unknown
    written = max(written, (total or 0) - read)
    details = usage.get("promptTokensDetails")
    entries = [entry for entry in details if isinstance(entry, Mapping)] if isinstance(details, list) else []
    image = sum(token_count(entry.get("tokenCount")) or 0 for entry in entries if entry.get("modality") == "IMAGE")
    cached = token_count(usage.get("cachedContentTokenCount")) or 0
    return _nonzero(Usage(read, written, cached, thinking or 0, image, cost=cost))


def believed(usage: Usage, bound: Usage) -> tuple[Usage, bool]:
    """Return the usage to book for a reported one, and whether the reported one exceeds what its request can have used.

    It is booked as reported even above the bound, as a server may ignore a limit or add a prompt. Only if it reports more
    than any model can use, which is a fault in its counting, the bound is booked instead; a cost that no request can have
    is left out.
    """
    total, most = usage.input + usage.output, bound.input + bound.output
    absurd = (usage.cost or 0.0) > MOST_COST
    booked, cost = bound if total > max(most, MOST_TOKENS) else usage, None if absurd else usage.cost
    return booked if booked.cost == cost else replace(booked, cost=cost), absurd or total > most


def unread(usage: Usage | None) -> bool:
    """Whether a server did not report the tokens that it billed; it may have reported their cost."""
    return usage is None or not (usage.input or usage.output)


def _part(usage: Values, name: str) -> Values:
    part = usage.get(name)
    return part if isinstance(part, Mapping) else {}


def _nonzero(usage: Usage) -> Usage | None:
    """Return None for a usage of all zeros: every request has tokens, so the server did not report it."""
    return usage if usage.input or usage.output or usage.cost else None


_MALFORMED = (AttributeError, LookupError, TypeError, ValueError)


def openai_first_token(choice: Values) -> FirstToken | None:
    """Read them from a choice of a chat completion; None if the answer begins with a thought."""
    message = choice.get("message") or {}
    if not message.get("content") and (message.get("reasoning_content") or message.get("reasoning")):
        return None
    if not choice.get("logprobs"):
        return None
    with suppress(*_MALFORMED):
        first = choice["logprobs"]["content"][0]
        top = [_pair(token, "logprob") for token in first.get("top_logprobs") or []]
        return FirstToken.from_top(top, _pair(first, "logprob"))
    return None


def gemini_first_token(candidate: Values) -> FirstToken | None:
    """Read them from a candidate of Gemini."""
    with suppress(*_MALFORMED):
        result = candidate["logprobsResult"]
        top = [_pair(token, "logProbability") for token in result["topCandidates"][0]["candidates"]]
        chosen = result.get("chosenCandidates")
        return FirstToken.from_top(top, _pair(chosen[0], "logProbability") if chosen else None)
    return None


def _pair(token: Values, name: str) -> tuple[str, float]:
    return str(token["token"]), float(token[name])
