"""An orchestrator that calls tools natively: what it is offered, how its calls become a turn, and what each call is told.

The conversation is the template `agent/investigate`, then answers with calls and their results in turn. Everything else,
bounds included, is that of the JSON protocol: a call is a look or a settlement like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from titjudge.core.structured_output import after_thinking, json_object
from titjudge.core.types import Message, Reply, Tool, ToolCall, ToolResult
from titjudge.metrics.agent.claims import fenced, shortened
from titjudge.metrics.agent.looks import Look, LookRequest
from titjudge.metrics.agent.state import VERDICTS, AgentState, AgentTurn, ClaimVerdict, Conversation

SETTLE = "settle"
MOST_CALLS = 24  # of one answer that are read; further ones are dropped and counted
NO_LOOK_LEFT = "No look is left: settle now what the evidence decides. Everything else stays open."
_SAID = 1000  # characters of an answer's text that stay in the conversation
_SILENT = "(nothing was said)"


def _tool(name: str, description: str, **properties: Mapping[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return Tool(name, description, schema)


_QUESTION = {"type": "string", "description": "an open question that what is seen can answer"}
_BOX = {
    "type": "array",
    "items": {"type": "number"},
    "description": "[left, top, right, bottom] in fractions of width and height, 0 to 1, origin at the top left",
}
_VERDICT = {
    "type": "object",
    "properties": {
        "claim": {"type": "integer", "description": "number of the claim"},
        "verdict": {"type": "string", "enum": list(VERDICTS)},
        "evidence": {"type": "string", "description": "id of the one piece of evidence that decides it, such as E2"},
    },
    "required": ["claim", "verdict", "evidence"],
    "additionalProperties": False,
}
TOOLS = (
    _tool("ask", "Ask a question about the whole image.", question=_QUESTION),
    _tool("zoom", "Ask a question about one part of the image, enlarged.", question=_QUESTION, box=_BOX),
    _tool("describe", "Have one part of the image described, enlarged.", box=_BOX),
    _tool("count", "Have things counted in the image.", thing={"type": "string", "description": "what is counted"}),
    _tool("read_text", "Have all words read that stand in the image."),
    _tool("compare", "What the description misses or contradicts in the prompt: where to look. It settles nothing."),
    _tool(SETTLE, "Settle claims by evidence.", verdicts={"type": "array", "items": _VERDICT}),
)


def conversation_so_far(case: AgentState, talk: Conversation, looks_left: int) -> list[Message]:
    """The conversation after the template: with the results of the last answer's calls, and how things stand."""
    if not talk.turns:
        return []
    state = _state(case, talk, looks_left)
    if not talk.calls:
        return [*talk.turns, Message("user", (state,))]
    told = [*talk.told[:-1], f"{talk.told[-1]}\n\n{state}"]
    results = tuple(ToolResult(call, text) for call, text in zip(talk.calls, told, strict=True))
    return [*talk.turns, Message("user", (), (), results)]


def _state(case: AgentState, talk: Conversation, looks_left: int) -> str:
    lines = [
        f"Open claims: {', '.join(str(claim.number) for claim in case.open) or 'none'}",
        f"Looks left: {looks_left}",
    ]
    if notes := [note for note in case.notes if not any(note in told for told in talk.told)]:
        lines += ["What was not accepted:", *(f"- {fenced(note)}" for note in notes)]
    return "\n".join(lines if looks_left else [*lines, NO_LOOK_LEFT])


def parse_turn(case: AgentState, talk: Conversation, turns: Sequence[Message], reply: Reply) -> AgentTurn:
    """The turn that an answer's calls come to; the answer joins the conversation. What cannot be read is noted."""
    case.talk, case.notes = talk, []
    calls = reply.tool_calls[:MOST_CALLS]
    if over := len(reply.tool_calls) - len(calls):
        case.note("calls_over_limit", f"only the first {MOST_CALLS} calls of an answer are read")
        case.counts["calls_over_limit"] += over - 1
    said = after_thinking(reply.text).strip()
    if not calls:
        case.note("no_calls", "no tool was called")
    talk.turns = [*turns, Message("assistant", _said(said, calls), calls)]
    talk.calls = calls
    turn = AgentTurn(thought=said, settle=[], looks=[])
    talk.places = [_read(case, turn, call) for call in calls]
    return turn


def _said(text: str, calls: Sequence[ToolCall]) -> tuple[str, ...]:
    if text:
        return (shortened(text, _SAID),)
    return () if calls else (_SILENT,)


def _read(case: AgentState, turn: AgentTurn, call: ToolCall) -> int | str | None:
    """Add a call to the turn: its number among the looks, None for a settlement, or why it cannot be read."""
    name = call.name.strip().lower()
    arguments = json_object(call.arguments or "{}")
    if arguments is None:
        return case.note("bad_arguments", f"{shortened(call.name, 40)}: the arguments are not a JSON object")
    if name == SETTLE:
        return _settled(case, turn, arguments)
    try:
        question = arguments.get("question", arguments.get("thing"))
        turn.looks.append(Look.model_validate({"tool": call.name, "question": question, "box": arguments.get("box")}))
    except ValidationError as error:
        return case.note("bad_arguments", f"{shortened(call.name, 40)}: {_first(error)}")
    return len(turn.looks) - 1


def _settled(case: AgentState, turn: AgentTurn, arguments: Mapping[str, Any]) -> str | None:
    given = arguments.get("verdicts", [arguments] if "claim" in arguments else None)
    if not isinstance(given, list):
        return case.note("bad_arguments", f"{SETTLE}: verdicts is a list of claim, verdict and evidence")
    for each in given:
        try:
            turn.settle.append(ClaimVerdict.model_validate(each))
        except ValidationError as error:
            case.note("bad_arguments", f"{SETTLE}: {_first(error)}")
    return None


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc'])) or 'the arguments'}: {problem['msg']}"


def record_outcomes(case: AgentState, outcomes: Sequence[LookRequest | str], settled: int) -> None:
    """Note what each call of the last answer brought: the evidence of a look, why it was refused, or how many verdicts
    are new. `outcomes` are those of the looks; the looks carried out are the last of `case.evidence`."""
    if case.talk is None:
        return
    carried = sum(isinstance(each, LookRequest) for each in outcomes)
    found = iter(case.evidence[len(case.evidence) - carried :])
    looks = [next(found).shown if isinstance(each, LookRequest) else f"refused: {fenced(each)}" for each in outcomes]
    news = f"{settled} new verdicts"
    case.talk.told = [
        news if place is None else looks[place] if isinstance(place, int) else fenced(place)
        for place in case.talk.places
    ]
