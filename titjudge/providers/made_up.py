"""Make up answers for stand-ins of models: what the metric expects, else the smallest that the request allows."""

from __future__ import annotations

import math

from titjudge.core.answer_probabilities import FirstToken
from titjudge.core.structured_output import smallest
from titjudge.core.types import Reply, Request, ToolCall


def made_up_reply(request: Request, usual: str) -> Reply:
    """Make up a reply: the answer that the metric plans with, else the smallest of the schema, else `usual`.

    All choices are equally likely to be its first token.
    """
    text, calls = _answer(request, usual)
    likely = math.log(1 / len(request.choices)) if request.choices else 0.0
    first = FirstToken(tuple((token, likely) for token in request.choices)) if request.choices else None
    return Reply(text, finish_reason="stop", tool_calls=calls, first_token=first)


def _answer(request: Request, usual: str) -> tuple[str, tuple[ToolCall, ...]]:
    planned = request.planned
    if isinstance(planned, str):
        return planned, ()
    if isinstance(planned, tuple):
        return usual, planned
    if request.schema is None:
        return usual, ()
    return smallest(request.schema, planned), ()
