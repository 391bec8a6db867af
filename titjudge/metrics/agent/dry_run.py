"""What an item of the agentic judge will ask, for dry runs and reservations: the same questions with filler in them.

What an orchestrator will want to know cannot be foreseen. A plan uses about half of the looks, several at once; what an
item asks beyond it is drawn from the budget. With native tools every round sends the conversation up to then again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable

from titjudge.core.errors import Unanswered
from titjudge.core.types import Ask, Item, Message, Reply, ToolCall
from titjudge.metrics.agent.claims import sketched
from titjudge.metrics.agent.looks import DECODING as LOOK_DECODING
from titjudge.metrics.agent.looks import LookRequest, Observation
from titjudge.metrics.agent.loop import DECODING
from titjudge.metrics.agent.state import AgentState, AgentTurn, Conversation, Evidence
from titjudge.metrics.agent.tool_calls import SETTLE, TOOLS, conversation_so_far
from titjudge.metrics.tit import describe

EXPECTED_LOOKS = 5  # of which the first is the description, the others come in two answers
EXPECTED_ROUNDS = 3
_EXPECTED_REPORT = 200  # characters
_EXPECTED_QUESTION = 60
_EXPECTED_ANSWER = 2000  # characters of an answer's calls
_DESCRIPTION = "word " * 380


async def plan(
    item: Item,
    ask: Ask,
    case: AgentState,
    max_looks: int,
    *,
    max_cost: float | None = None,
    paid: float = 0.0,
) -> None:
    """Ask what is still to be asked after the point that `case` has reached. Answers do not matter.

    `ask` is one that an estimating provider stands behind. Where the expected price of the item, `paid` (USD) so far,
    reaches `max_cost`, one last answer is planned and no further look.
    """
    assert item.image is not None
    if not case.claims.claims:
        case.claims = sketched(item.prompt)
    looks = min(EXPECTED_LOOKS, max_looks)
    question = "word " * (_EXPECTED_QUESTION // 5 - 2)
    report = "word " * (_EXPECTED_REPORT // 5)
    if not case.evidence:
        paid += await _stub(describe(item, ask))
        _found(case, LookRequest("describe"), f"{item.id} {_DESCRIPTION}")  # no item asks what another one asks
    first, seen = case.counts["rounds"] or 1, len(case.evidence)
    rounds = max(first, EXPECTED_ROUNDS)
    for number in range(first, rounds + 1):
        over = max_cost is not None and paid >= max_cost
        last = number == rounds or over
        if number > first:
            case.notes = [f"{number} {question}"]  # no round asks what another one asked
            _answered(case, _EXPECTED_ANSWER, seen)
            seen = len(case.evidence)
        paid += await _stub(_consult(case, ask, 0 if last else max(0, max_looks - len(case.evidence))))
        if over:
            break
        share = 0 if last else -(-(looks - 1) // (EXPECTED_ROUNDS - 1))
        for _ in range(max(0, min(share, looks - len(case.evidence)))):
            order = LookRequest("ask", f"{len(case.evidence)} {question.strip()}")
            paid += await _stub(_look(item, ask, order))
            _found(case, order, report)


async def _stub(question: Awaitable[Reply]) -> float:
    """The list price of a question whose answer does not matter; one that nothing can answer (a recorded captioner), or
    whose price is unknown, costs nothing."""
    with contextlib.suppress(Unanswered):
        return (await question).list_cost or 0.0
    return 0.0


async def _consult(case: AgentState, ask: Ask, left: int) -> Reply:
    if ask.has_tools("judge"):
        talk = case.talk = case.talk or Conversation(case.variables(left))
        turns = conversation_so_far(case, talk, left)
        return await ask("agent/investigate", role="judge", tools=TOOLS, turns=turns, params=DECODING, **talk.opening)
    return await ask("agent/orchestrate", role="judge", schema=AgentTurn, params=DECODING, **case.variables(left))


def _answered(case: AgentState, length: int, seen: int) -> None:
    """The conversation with a filler for the last answer; the evidence from number `seen` on is what it brought."""
    if case.talk is None:
        return
    turns = conversation_so_far(case, case.talk, 1)
    call = ToolCall(SETTLE, '{"verdicts": "' + "word " * (length // 5) + '"}', f"call_{len(turns)}")
    case.talk.turns, case.talk.calls = [*turns, Message("assistant", (), (call,))], (call,)
    case.talk.told = ["\n".join(evidence.shown for evidence in case.evidence[seen:])]


async def _look(item: Item, ask: Ask, order: LookRequest) -> Reply:
    assert item.image is not None
    return await ask(
        "agent/ask",
        role="captioner",
        images=[item.image],
        params=LOOK_DECODING,
        accept_truncated=True,
        question=order.question,
    )


def _found(case: AgentState, order: LookRequest, text: str) -> None:
    case.evidence.append(Evidence(len(case.evidence) + 1, order, Observation(text.strip())))
