"""The loop of the agentic judge: an orchestrator settles claims by evidence and sends for more, within bounds.

It answers by native tool calls where the judge's provider has them (`agent_calls`), else by one JSON object a round. Only
what validates acts. The loop ends for six reasons, and no text can name a seventh:

    covered       no claim is open
    little left   three quarters of the looks are used, and open claims weigh less than 5% of all: a look more is not worth it
    looks         all looks are used up (the orchestrator sees what the last ones brought, and is not asked again)
    budget        the item's questions have cost what they may (one last answer settles what the evidence decides)
    no progress   two answers in a row brought neither a look nor a verdict
    rounds        `max_looks + 3` answers
"""

from __future__ import annotations

from typing import Any

from titjudge.core.errors import Unanswered
from titjudge.core.types import Ask, Status
from titjudge.metrics.agent.claims import shortened
from titjudge.metrics.agent.looks import CostTrackingAsk, ImageInspector, Look, LookRequest, Refused, ordered, together
from titjudge.metrics.agent.state import (
    PARALLEL,
    VERDICTS,
    AgentState,
    AgentTurn,
    ClaimVerdict,
    Conversation,
    Evidence,
    SettledClaim,
)
from titjudge.metrics.agent.tool_calls import TOOLS, conversation_so_far, parse_turn, record_outcomes

SPARE_ROUNDS = 3  # answers beyond one for each look
IDLE = 2  # answers without progress that end the loop
LATE_PERCENT, LITTLE_PERCENT = 75, 5  # of the looks; of the claims' weight
DECODING = {"temperature": 0, "max_tokens": 6144}
_ENDS_RUN = (Status.FAILED, Status.BAD_INPUT)  # of a look: an outage is not an answer, and the item has no score


async def consult(case: AgentState, ask: Ask, looks_left: int) -> tuple[AgentTurn, str]:
    """One question to the orchestrator; its turn, and the protocol: tools or json.

    Raises:
        Unanswered: there is no answer; under the JSON protocol also no schema-valid one after the repair turn.
    """
    if ask.has_tools("judge"):
        try:
            return await _converse(case, ask, looks_left), "tools"
        except Unanswered:
            if ask.has_tools("judge"):
                raise
            case.talk = None  # the server has just said that it knows no tools
    reply = await ask(
        "agent/orchestrate", role="judge", schema=AgentTurn, params=DECODING, **case.variables(looks_left)
    )
    case.notes = []
    turn: AgentTurn = reply.data
    return turn, "json"


async def _converse(case: AgentState, ask: Ask, looks_left: int) -> AgentTurn:
    talk = case.talk or Conversation(case.variables(looks_left))
    turns = conversation_so_far(case, talk, looks_left)
    reply = await ask("agent/investigate", role="judge", tools=TOOLS, turns=turns, params=DECODING, **talk.opening)
    return parse_turn(case, talk, turns, reply)


async def investigate(
    case: AgentState, eyes: ImageInspector, ask: CostTrackingAsk, max_looks: int, max_cost: float | None = None
) -> None:
    """Look and settle until one of the six ends; `case.stopped` says which. The first look is a description.

    Raises:
        Unanswered: the orchestrator has no answer, or a look ended in an outage or on an image that cannot be used.
    """
    await _carry_out(case, eyes, [LookRequest("describe")], case.begin(""))
    most, idle = max_looks + SPARE_ROUNDS, 0
    while not case.stopped:
        case.counts["rounds"] += 1
        paid = max_cost is not None and ask.cost >= max_cost
        left = 0 if paid or case.counts["rounds"] >= most else max_looks - case.counts["looks"]
        turn, protocol = await consult(case, ask, left)
        entry = case.begin(turn.thought, protocol)
        settled = _settle(case, turn.settle, entry)
        if not case.open:
            case.stopped = "covered"
        elif _little_left(case, max_looks):
            case.stopped = "little left"
        outcomes = [] if case.stopped else _admit(case, turn.looks, left)
        orders = [each for each in outcomes if isinstance(each, LookRequest)]
        await _carry_out(case, eyes, orders, entry)
        entry["refused"] = list(case.notes)
        idle = 0 if settled or orders else idle + 1
        if idle:
            case.note("idle_rounds", "nothing new was settled and no look was taken; claims are still open")
        if not case.stopped and not left:
            case.stopped = "looks" if case.counts["looks"] >= max_looks else "budget" if paid else "rounds"
        if not case.stopped and idle >= IDLE:
            case.stopped = "no progress"
        record_outcomes(case, outcomes, settled)


def _little_left(case: AgentState, max_looks: int) -> bool:
    late = 100 * case.counts["looks"] >= LATE_PERCENT * max_looks
    return late and 100 * sum(claim.weight for claim in case.open) < LITTLE_PERCENT * case.claims.weight


def _settle(case: AgentState, given: list[ClaimVerdict], entry: dict[str, Any]) -> int:
    """Take over the verdicts that stand on evidence; returns how many are new."""
    known = {claim.number for claim in case.claims.claims}
    proposed: dict[int, set[str]] = {}
    for each in given:
        proposed.setdefault(each.claim, set()).add(_verdict(each))
    taken, torn = 0, {claim for claim, verdicts in proposed.items() if len(verdicts) > 1}
    for claim in sorted(torn & known):
        case.note("contradictory", f"claim {claim}: two verdicts in one answer; it stays as it was")
    for each in given:
        verdict, evidence = _verdict(each), _evidence(case, each.evidence)
        if each.claim not in known:
            case.note("unknown_claims", f"there is no claim {each.claim}")
        elif verdict not in VERDICTS:
            case.note("unknown_verdicts", f"claim {each.claim}: a verdict is {', '.join(VERDICTS)}")
        elif each.claim in torn:
            continue
        elif evidence is None:
            name = shortened(each.evidence, 20)
            case.note("unsupported", f"claim {each.claim}: '{name}' is no evidence that can settle a claim")
        else:
            taken += _rule(case, each.claim, verdict, evidence, entry)
    return taken


def _verdict(settlement: ClaimVerdict) -> str:
    return settlement.verdict.lower().replace(" ", "_").replace("-", "_")


def _evidence(case: AgentState, name: str) -> Evidence | None:
    """The evidence of that id, if it can settle anything."""
    digits = name.strip().strip("[]()").upper().removeprefix("E")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 6) or not 1 <= int(digits) <= len(case.evidence):
        return None
    found = case.evidence[int(digits) - 1]
    return found if found.usable else None


def _rule(case: AgentState, claim: int, verdict: str, evidence: Evidence, entry: dict[str, Any]) -> bool:
    """Settle a claim, or change its verdict where the evidence is newer. Saying the same again changes nothing."""
    old = case.rulings.get(claim)
    if old is not None and old.verdict == verdict:
        return False
    if old is not None and evidence.number <= old.evidence:
        case.note("unsupported", f"claim {claim} is settled by E{old.evidence}: only newer evidence changes that")
        return False
    before = () if old is None else (*old.before, (old.verdict, old.evidence))
    case.counts["revised"] += old is not None
    case.rulings[claim] = SettledClaim(verdict, evidence.number, before)
    entry["settled"].append({"claim": claim, "verdict": verdict, "evidence": evidence.id})
    return True


def _admit(case: AgentState, looks: list[Look], left: int) -> list[LookRequest | str]:
    """For each look the order to carry out now, or why it is refused: known tools, good boxes, nothing twice, no more
    than are left."""
    done = {evidence.order.key: evidence.id for evidence in case.evidence}
    most, taken = min(PARALLEL, left), 0
    outcomes: list[LookRequest | str] = []
    for look in looks:
        order = ordered(look)
        if isinstance(order, Refused):
            outcomes.append(case.note(order.count, order.note))
        elif order.key in done:
            outcomes.append(case.note("repeats_refused", f"{order.shown} was done before: {done[order.key]}"))
        elif taken >= most:
            note = f"{order.shown}: no more than {most} looks could be taken"
            outcomes.append(case.note("looks_over_limit", note))
        else:
            done[order.key] = "in the same answer"
            taken += 1
            outcomes.append(order)
    return outcomes


async def _carry_out(case: AgentState, eyes: ImageInspector, orders: list[LookRequest], entry: dict[str, Any]) -> None:
    """All looks at once; each leaves evidence, also of having brought nothing.

    Raises:
        Unanswered: an outage, or an image that cannot be used: after that no number would mean what it says.
    """
    case.counts["looks"] += len(orders)
    found = await together(*(eyes.look(order) for order in orders))
    for order, result in zip(orders, found, strict=True):
        case.counts["boxes_clamped"] += order.clamped
        case.counts["cut_questions"] += order.cut
        number = len(case.evidence) + 1
        if isinstance(result, Unanswered):
            case.counts["failed_looks"] += 1
            case.failures.append(result)
            case.evidence.append(Evidence(number, order, failed=str(result.status)))
        else:
            case.counts["cut_answers"] += result.cut
            case.evidence.append(Evidence(number, order, result))
        entry["looks"].append(case.evidence[-1].id)
    for result in found:
        if isinstance(result, Unanswered) and result.status in _ENDS_RUN:
            raise result
