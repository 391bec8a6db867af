"""The expected requests of tit-agent on one item, for dry runs and budget reservations: with filler in place of texts.

What an orchestrator will ask cannot be known in advance. A dry run expects the description and one further look;
anything beyond that is reserved from the budget when it is asked. With native tools every round sends the conversation
so far again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Any

from titjudge.core.errors import Unanswered
from titjudge.core.types import Item, Message, ToolCall
from titjudge.metrics.agent.claims import expected_claims
from titjudge.metrics.agent.crops import Crops
from titjudge.metrics.agent.looks import CostTrackingAsk, DryRunReached, ImageInspector, LookRequest, Observation
from titjudge.metrics.agent.loop import consult
from titjudge.metrics.agent.state import AgentState, Evidence
from titjudge.metrics.agent.tool_calls import SETTLE, conversation_so_far

EXPECTED_LOOKS = 2  # of which the first is the description
EXPECTED_ROUNDS = 2
_DESCRIPTION = "word " * 380
_OBSERVATION = "word " * 40
_QUESTION = "word " * 10
_VERDICTS = "word " * 120


async def plan(item: Item, ask: CostTrackingAsk, state: AgentState) -> None:
    """Ask the questions that are to be expected from `state` on; the replies are not read.

    Where the expected cost of the item reaches its bound, one last round is expected and no further look.
    """
    inspector = ImageInspector(item, ask, Crops())
    if not state.claims.claims:
        state.claims = expected_claims(item.prompt)
    max_looks, max_cost = state.bounds.looks, state.bounds.cost
    looks = min(EXPECTED_LOOKS, max_looks)
    if not state.evidence:
        await _asked(inspector.look(LookRequest("describe")))
        _observe(state, LookRequest("describe"), f"{item.id} {_DESCRIPTION}")  # so that no two items ask the same
    first, seen = state.counts["rounds"] or 1, len(state.evidence)
    rounds = max(first, EXPECTED_ROUNDS)
    for number in range(first, rounds + 1):
        paid = max_cost is not None and ask.cost >= max_cost
        last = number == rounds or paid
        if number > first:
            state.notes = [f"{number} {_QUESTION}"]  # so that no two rounds ask the same
            _answer_round(state, seen)
            seen = len(state.evidence)
        await _asked(consult(state, ask, 0 if last else max(0, max_looks - len(state.evidence))))
        if paid:
            break
        share = 0 if last else -(-(looks - 1) // (EXPECTED_ROUNDS - 1))
        for _ in range(max(0, min(share, looks - len(state.evidence)))):
            request = LookRequest("ask", f"{len(state.evidence)} {_QUESTION.strip()}")
            await _asked(inspector.look(request))
            _observe(state, request, _OBSERVATION)


async def _asked(question: Awaitable[Any]) -> None:
    """Wait until a question is counted; where answers are recorded, it may have none."""
    with contextlib.suppress(DryRunReached, Unanswered):
        await question


def _answer_round(state: AgentState, seen: int) -> None:
    """Add an expected answer of the orchestrator to the conversation; `seen` is the number of evidence before it."""
    conversation = state.conversation
    if conversation is None:
        return
    turns = conversation_so_far(state, conversation, 1)
    call = ToolCall(SETTLE, '{"verdicts": "' + _VERDICTS + '"}', f"call_{len(turns)}")
    conversation.turns, conversation.calls = [*turns, Message("assistant", (), (call,))], (call,)
    conversation.outcomes = ["\n".join(evidence.shown for evidence in state.evidence[seen:])]


def _observe(state: AgentState, request: LookRequest, text: str) -> None:
    state.evidence.append(Evidence(len(state.evidence) + 1, request, Observation(text.strip())))
