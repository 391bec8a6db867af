"""The words by which models and servers say why an answer ends, and what is made of each.

| meaning  | what is made of the answer                                                                          |
| -------- | --------------------------------------------------------------------------------------------------- |
| WHOLE    | It is an answer.                                                                                    |
| CUT      | The token limit: truncated; kept, and not paid again.                                               |
| FILTERED | Refused; kept, and not paid again.                                                                  |
| BROKEN   | The server broke off, which may pass: requested again, three times in all; then kept as unparsed.   |
| UNKNOWN  | A word in no list: unparsed; kept, and not paid again, as asking again may bring the same word.     |

A server that gives no reason at all (no such key, an empty text) is believed: some know none. `null` is another matter: in
OpenAI's wire format it is the word for an answer that goes on, as in all chunks of a stream but the last, so that in a whole
answer it says that the end never came. It is UNKNOWN. Google says the same of a missing `finishReason` ("If empty, the
model has not stopped generating tokens", ai.google.dev/api/generate-content).
"""

from __future__ import annotations

from enum import StrEnum

UNFINISHED = "unfinished"  # flag of a reply that ended otherwise than by its end or its token limit


class Ending(StrEnum):
    """What a finish reason means; see the module."""

    WHOLE = "whole"
    CUT = "cut"
    FILTERED = "filtered"
    BROKEN = "broken"
    UNKNOWN = "unknown"


_WORDS: dict[Ending, tuple[str, ...]] = {
    Ending.WHOLE: (
        *("", "stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "completed"),
        *("tool_calls", "tool_call", "tool_use", "function_call"),
    ),
    Ending.CUT: ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"),
    Ending.FILTERED: (
        *("content_filter", "content_filtered", "refusal", "sensitive", "error_toxic", "guardrail_intervened"),
        *("safety", "prohibited_content", "recitation", "blocklist", "spii"),
        *("image_safety", "image_prohibited_content", "image_recitation"),
    ),
    Ending.BROKEN: (
        *("abort", "aborted", "cancel", "cancelled", "canceled", "error", "failed", "timeout", "interrupted"),
        *("network_error", "insufficient_system_resource", "service_unavailable", "server_error", "internal_error"),
        *("other", "language", "malformed_response", "malformed_function_call", "unexpected_tool_call"),
        *("too_many_tool_calls", "missing_thought_signature", "no_image", "image_other"),
    ),
}
_ENDINGS = {word: ending for ending, words in _WORDS.items() for word in words}


def ending(finish: object) -> Ending:
    """Find what a finish reason means, whatever its case; None is the `null` of a server, and no text is no known word."""
    return Ending.UNKNOWN if finish is None else _ENDINGS.get(str(finish).strip().lower(), Ending.UNKNOWN)


def why_unfinished(finish: object) -> str:
    """Say in one line why an answer that is BROKEN or UNKNOWN is none."""
    if finish is None:
        return "the answer is not finished (finish reason: null)"
    if ending(finish) is Ending.BROKEN:
        return f"the server broke the answer off (finish reason: {finish})"
    return f"the answer ended for a reason that is not known as an end ({finish})"
