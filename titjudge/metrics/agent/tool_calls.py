"""The protocol of native tool calls: the tools, how calls become a turn, and the results of calls.

The conversation is the template `agent/investigate`, then the orchestrator's calls and their results in turn.
Everything else, bounds included, is as in the JSON protocol: a call is a look or a verdict.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import ValidationError

from titjudge.core.structured_output import after_thinking, first_problem, json_object
from titjudge.core.types import Message, Reply, Tool, ToolCall, ToolResult, Values
from titjudge.metrics.agent.claims import fenced, shortened
from titjudge.metrics.agent.looks import Look, LookRequest
from titjudge.metrics.agent.state import VERDICTS, AgentState, AgentTurn, ClaimVerdict, Conversation

SETTLE = "settle"
MOST_CALLS = 24  # of one answer; further ones are dropped and counted
NO_LOOK_LEFT = "No look is left: settle now what the evidence decides. Everything else stays open."
_LONGEST_TEXT = 1000  # characters of an answer's text that stay in the conversation
_NO_TEXT = "(nothing was said)"


def _tool(name: str, description: str, **properties: Values) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return Tool(name, description, schema)


_QUESTION = {"type": "string", "description": "open questions"}
_BOX = {
    "type": "array",
    "items": {"type": "number"},
    "description": "[left, top, right, bottom], fractions of width and height from the top left",
}
_PART = {**_BOX, "description": "as of zoom; empty for the whole image"}
_VERDICT = {
    "type": "object",
    "properties": {
        "claims": {"type": "array", "items": {"type": "integer"}},
        "verdict": {"type": "string", "enum": list(VERDICTS)},
        "evidence": {"type": "string", "description": "such as E2"},
    },
    "required": ["claims", "verdict", "evidence"],
    "additionalProperties": False,
}
TOOLS = (
    _tool("ask", "Ask about the whole image.", question=_QUESTION),
    _tool("zoom", "Ask about one part of the image, enlarged.", question=_QUESTION, box=_BOX),
    _tool("describe", "Have one part of the image described, enlarged.", box=_BOX),
    _tool(
        "count",
        "Have things counted in the image, or a part.",
        box=_PART,
        thing={"type": "string", "description": "what is counted"},
    ),
    _tool("read_text", "Have all words read in the image, or a part.", box=_PART),
    _tool(SETTLE, "Settle claims by evidence.", verdicts={"type": "array", "items": _VERDICT}),
)


def conversation_so_far(state: AgentState, conversation: Conversation, looks_left: int) -> list[Message]:
    """Return the messages after the template: answers, the results of their calls, and at the end the open claims."""
    if not conversation.turns:
        return []
    still_open = _open_claims(state, conversation, looks_left)
    if not conversation.calls:
        return [*conversation.turns, Message("user", (still_open,))]
    outcomes = [*conversation.outcomes[:-1], f"{conversation.outcomes[-1]}\n\n{still_open}"]
    results = tuple(ToolResult(call, text) for call, text in zip(conversation.calls, outcomes, strict=True))
    return [*conversation.turns, Message("user", (), (), results)]


def _open_claims(state: AgentState, conversation: Conversation, looks_left: int) -> str:
    lines = [
        f"Open claims: {', '.join(str(claim.number) for claim in state.open) or 'none'}",
        f"Looks left: {looks_left}",
    ]
    if state.to_verify and looks_left:
        lines.append(state.to_verify)
    if notes := [note for note in state.notes if not any(note in outcomes for outcomes in conversation.outcomes)]:
        lines += ["What was not accepted:", *(f"- {fenced(note)}" for note in notes)]
    return "\n".join(lines if looks_left else [*lines, NO_LOOK_LEFT])


def parse_turn(state: AgentState, conversation: Conversation, turns: Sequence[Message], reply: Reply) -> AgentTurn:
    """Parse an answer's calls as a turn and append it to the conversation; calls that do not validate are noted."""
    state.notes = []
    calls = reply.tool_calls[:MOST_CALLS]
    if over := len(reply.tool_calls) - len(calls):
        state.note("calls_over_limit", f"only the first {MOST_CALLS} calls of an answer are read")
        state.counts["calls_over_limit"] += over - 1
    text = after_thinking(reply.text).strip()
    shown = (shortened(text, _LONGEST_TEXT),) if text else ()
    if not calls:
        state.note("no_calls", "no tool was called")
        shown = shown or (_NO_TEXT,)
    conversation.turns = [*turns, Message("assistant", shown, calls)]
    conversation.calls = calls
    turn = AgentTurn(thought=text, settle=[], looks=[])
    conversation.places = [_add_call(state, turn, call) for call in calls]
    return turn


def _add_call(state: AgentState, turn: AgentTurn, call: ToolCall) -> int | str | None:
    """Add a call to the turn; return its index among the looks, None for verdicts, or why it is invalid."""
    name = call.name.strip().lower()
    arguments = json_object(call.arguments or "{}")
    if arguments is None:
        return state.note("bad_arguments", f"{shortened(call.name, 40)}: the arguments are not a JSON object")
    if name == SETTLE:
        return _add_verdicts(state, turn, arguments)
    try:
        question = arguments.get("question", arguments.get("thing"))
        turn.looks.append(Look.model_validate({"tool": call.name, "question": question, "box": arguments.get("box")}))
    except ValidationError as error:
        return state.note("bad_arguments", f"{shortened(call.name, 40)}: {first_problem(error, 'the arguments')}")
    return len(turn.looks) - 1


def _add_verdicts(state: AgentState, turn: AgentTurn, arguments: Values) -> str | None:
    given = arguments.get("verdicts", [arguments] if {"claim", "claims"} & arguments.keys() else None)
    if not isinstance(given, list):
        return state.note("bad_arguments", f"{SETTLE}: verdicts is a list of claims, verdict and evidence")
    for verdict in given:
        try:
            turn.settle.append(ClaimVerdict.model_validate(verdict))
        except ValidationError as error:
            state.note("bad_arguments", f"{SETTLE}: {first_problem(error, 'the arguments')}")
    return None


def as_calls(turn: AgentTurn) -> tuple[ToolCall, ...]:
    """Write a turn as the tool calls that would make it."""
    looks = [
        ToolCall(look.tool, json.dumps({"question": look.question}), f"look_{n}") for n, look in enumerate(turn.looks)
    ]
    verdicts = json.dumps({"verdicts": [verdict.model_dump() for verdict in turn.settle]})
    return (*looks, *([ToolCall(SETTLE, verdicts, "settle")] if turn.settle else []))


def record_outcomes(state: AgentState, outcomes: Sequence[LookRequest | str], settled: int) -> None:
    """Record the result of each call of the last answer in the conversation.

    Args:
        state: The state, with the evidence of the looks that were carried out.
        outcomes: For each look its request, or why it was refused.
        settled: Number of new verdicts.
    """
    if state.conversation is None or state.stopped:
        return
    evidence = {id(evidence.request): evidence.shown for evidence in state.evidence}
    looks = []
    for outcome in outcomes:
        if isinstance(outcome, str):
            looks.append(f"refused: {fenced(outcome)}")
        else:  # a second look with the same request was asked in it
            looks.append(evidence.pop(id(outcome), "asked together with the look above"))
    verdicts = f"{settled} new verdicts"
    state.conversation.outcomes = [
        verdicts if place is None else looks[place] if isinstance(place, int) else fenced(place)
        for place in state.conversation.places
    ]
