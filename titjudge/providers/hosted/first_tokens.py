"""Read the log probabilities of the first token: `logprobs` of chat completions, `logprobsResult` of Gemini.

None where they are missing or malformed, which matters only to a request that asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from titjudge.core.answer_probabilities import FirstToken

_MALFORMED = (AttributeError, LookupError, TypeError, ValueError)


def openai_first_token(choice: Mapping[str, Any]) -> FirstToken | None:
    """Read them from a choice of a chat completion; None where the answer begins with a thought."""
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


def gemini_first_token(candidate: Mapping[str, Any]) -> FirstToken | None:
    """Read them from a candidate of Gemini."""
    with suppress(*_MALFORMED):
        result = candidate["logprobsResult"]
        top = [_pair(token, "logProbability") for token in result["topCandidates"][0]["candidates"]]
        chosen = result.get("chosenCandidates")
        return FirstToken.from_top(top, _pair(chosen[0], "logProbability") if chosen else None)
    return None


def _pair(token: Mapping[str, Any], name: str) -> tuple[str, float]:
    return str(token["token"]), float(token[name])
