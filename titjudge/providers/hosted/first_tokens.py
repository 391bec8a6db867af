"""What servers say of the first token of an answer: `logprobs` of chat completions, `logprobsResult` of Gemini."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from titjudge.core.answer_probabilities import FirstToken


def openai_first_token(choice: Mapping[str, Any]) -> FirstToken | None:
    """Read it from a choice of a chat completion; None where there is none, or it begins a thought.

    Raises:
        Exception: it is malformed.
    """
    content = (choice.get("logprobs") or {}).get("content") or []
    message = choice.get("message") or {}
    if not content or (not message.get("content") and (message.get("reasoning_content") or message.get("reasoning"))):
        return None
    first = content[0]
    return FirstToken.of([_pair(each, "logprob") for each in first.get("top_logprobs") or []], _pair(first, "logprob"))


def gemini_first_token(candidate: Mapping[str, Any]) -> FirstToken | None:
    """Read it from a candidate of Gemini; None where there is none.

    Raises:
        Exception: it is malformed.
    """
    result = candidate.get("logprobsResult") or {}
    top, chosen = result.get("topCandidates") or [{}], result.get("chosenCandidates") or []
    return FirstToken.of(
        [_pair(each, "logProbability") for each in top[0].get("candidates") or []],
        _pair(chosen[0], "logProbability") if chosen else None,
    )


def _pair(token: Mapping[str, Any], name: str) -> tuple[str, float]:
    return str(token.get("token", "")), float(token[name])
