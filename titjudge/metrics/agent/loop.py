"""The loop of tit-agent: an orchestrator settles claims by evidence and requests further looks, within bounds.

It answers by native tool calls if the judge's provider has them (`tool_calls`), otherwise by one JSON object per round.
Only verdicts and looks that validate have an effect. The loop ends for one of seven reasons:

    covered       no claim is open
    little left   no macro claim is open, the others weigh less than 5% of all, and a judge that sees the image or has an inventory
                  of it asks for no look: the claims that it leaves open are hardest to see
    too dear      what the open claims may change is worth less (`point_worth`) than a look has cost so far
    looks         all looks are used (the orchestrator sees the result of the last ones in one more round)
    budget        the item's questions have cost `max_cost` (one last round settles what the evidence decides)
    no progress   two rounds in a row with neither a look nor a new verdict
    rounds        `max_looks + 3` rounds

Before it ends as covered, with little left or as too expensive, and with the last look, verdicts that rest on the first
look alone are looked at once more (`verify`).

Which verdicts are looked at once more before the work on an image ends.

A first look is one casual look at the whole image. Most claims are true, so a misreading is likeliest at a claim that it
contradicts, and one wrong verdict costs an image its place among its siblings. So contradicted claims are looked at
again, and those settled by a line of an inventory that its reader was not sure of, if they concern few places: an image
that is wrong in many is wrong whatever a second look shows. The same number of met claims, drawn by a hash, are looked at
with them; otherwise a second look could only raise scores. The last look at an image is kept for them.

A judge that sees the image, or has an inventory of it, can take a claim to be true because it is likely. So claims that are
easily misread (`Claim.risk`) are looked at again though they are met: those of four places, which are one look, the worst first. A
judge that sees the image is told so at once, and settles them when it sees their places enlarged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from titjudge.core.errors import Unanswered
from titjudge.core.grouping import grouped
from titjudge.core.score_parts import RoundRow
from titjudge.core.types import Ask, Json
from titjudge.metrics._shared import gather_answers
from titjudge.metrics.agent.claims import MAX_CLAIMS, Claim, contradicts, group_of, shortened, weights
from titjudge.metrics.agent.looks import (
    ENDS_ITEM,
    MOST_JOINED,
    WHOLE,
    CostTrackingAsk,
    ImageInspector,
    Look,
    LookRequest,
    Observation,
    Refused,
    check_request,
)
from titjudge.metrics.agent.state import (
    MOST_PLACES,
    VERDICTS,
    AgentState,
    AgentTurn,
    ClaimVerdict,
    Conversation,
    Evidence,
    Picture,
    SeeingTurn,
    SeenVerdict,
    SettledClaim,
    Verification,
)
from titjudge.metrics.agent.tool_calls import TOOLS, as_calls, conversation_so_far, parse_turn, record_outcomes


def verifying(state: AgentState, left: int, *, progress: bool) -> bool:
    """Return True if verdicts are still to be verified before the work ends; chooses them when first asked.

    Args:
        state: The state; nothing open in it is worth a look.
        left: Looks that are left.
        progress: Whether the last answer settled a claim or asked for a look.
    """
    if state.verification is None:
        _begin(state, _chosen(state))
        progress = True
    return bool(left and progress and state.unverified)


def keep_last_look(state: AgentState, left: int) -> None:
    """Keep the last look for what is doubtful: claims that are still open may share it, as they are about other parts."""
    if left == 1 and state.settled and state.verification is None and (chosen := _chosen(state)):
        _begin(state, chosen)


def _begin(state: AgentState, claims: Sequence[Claim]) -> None:
    state.verification = Verification(tuple(claim.number for claim in claims), len(state.evidence))


def _chosen(state: AgentState) -> list[Claim]:
    """Choose doubtful claims, none if too many places are doubtful, and met claims at other places.

    On parts of the image, twice as many places can be doubtful, because four of them share a look. The met ones are as many as the doubtful ones, or those of `MOST_JOINED` places that are easily misread, with all claims about the places.
    """
    at_first = [claim for claim in state.checkable if _settled_at_first(state, claim)]
    doubtful = [claim for claim in at_first if _is_doubtful(state.settled[claim.number])]
    places = {claim.place for claim in doubtful}
    if len(places) > MOST_PLACES * (1 + state.on_parts):
        doubtful, places = [], set()
    held = [c for c in at_first if state.settled[c.number].verdict == "met" and c.place not in places]
    chosen = doubtful + (
        [c for c in held if c in risky] if (risky := state.risky) else state.by_risk(held)[: len(places)]
    )
    if not state.is_worth_a_look(doubtful or chosen):
        return []
    places = {claim.place for claim in chosen}
    return [claim for claim in at_first if claim.place in places] if state.on_parts else chosen


def _is_doubtful(settled: SettledClaim) -> bool:
    """Return True if a verdict is one that a second look may well change."""
    unsure = settled.item is not None and not settled.item.sure
    return settled.verdict == "not_met" or (settled.verdict == "met" and unsure)


def _settled_at_first(state: AgentState, claim: Claim) -> bool:
    """Return True if the verdict on a claim rests on the first look, or another description of the whole image."""
    settled = state.settled.get(claim.number)
    if settled is None:
        return False
    request = state.evidence[settled.evidence - 1].request
    return settled.evidence == 1 or (request.tool == "describe" and request.box is None)


SPARE_ROUNDS = 3  # rounds beyond one for each look
SEEN_WORDS = 6  # that a judge that sees the image writes of a thing
MAX_SEEN = 200  # characters of the text on a claim by a judge that sees the image
IDLE = 2  # rounds without progress that end the loop
LITTLE_PERCENT = 5  # of the claims' weight
EXPECTED_LOOKS = 2  # at an image, the description included: the number that a dry run prices
DECODING = {"temperature": 0, "max_tokens": 6144}
_NOT_TAKEN = "what is still open weighs too little for a look"


async def consult(state: AgentState, ask: Ask, looks_left: int) -> tuple[AgentTurn, str]:
    """Ask the orchestrator once and return its turn and the protocol: tools, json or sight (it is shown the image and its parts).

    Raises:
        Unanswered: There is no answer; under the JSON protocol also if none validates after the repair turn.
    """
    sight = state.first_look == "sight"
    planned = expected_turn(state, looks_left)
    if not sight and ask.has_tools("judge"):
        try:
            return await _converse(state, ask, looks_left, planned), "tools"
        except Unanswered:
            if ask.has_tools("judge"):
                raise
            state.conversation = None  # this request has shown that the server has no tools
    reply = await ask(
        "agent/see" if sight else "agent/orchestrate",
        role="judge",
        # the image comes first: a provider that keeps the beginning of a prompt reads it once
        images=[picture.file for picture in state.pictures_shown] if sight else (),
        schema=SeeingTurn if sight else AgentTurn,
        params=DECODING,
        planned=_expected_sight(state, looks_left) if sight else planned.model_dump(),
        verify=state.to_verify if looks_left else "",
        **state.variables(looks_left),
    )
    state.notes = []
    turn: AgentTurn = reply.data
    return turn, "sight" if sight else "json"


async def _converse(state: AgentState, ask: Ask, looks_left: int, planned: AgentTurn) -> AgentTurn:
    conversation = state.conversation = state.conversation or Conversation(state.variables(looks_left))
    turns = conversation_so_far(state, conversation, looks_left)
    reply = await ask(
        "agent/investigate",
        role="judge",
        tools=TOOLS,
        turns=turns,
        params=DECODING,
        planned=as_calls(planned),
        **conversation.opening,
    )
    return parse_turn(state, conversation, turns, reply)


def expected_turn(state: AgentState, looks_left: int) -> AgentTurn:
    """Make up the next turn for a dry run: one look beside the description, then a verdict on all open claims.

    The questions of a judge cannot be known; anything beyond this is taken from the budget when it is asked.
    """
    claims = sorted({claim.number for claim in (*state.open, *state.unverified)})
    if looks_left and len(state.evidence) < EXPECTED_LOOKS:
        return AgentTurn(settle=[], looks=[Look(tool="ask", question=f"{len(state.evidence)}{' word' * 10}")])
    met = [ClaimVerdict(claims=claims, verdict="met", evidence=state.evidence[-1].id)] if claims else []
    return AgentTurn(settle=met, looks=[])


def _expected_sight(state: AgentState, looks_left: int) -> Json:
    """Make up the next turn of a judge that sees the image: it settles at once all that is not verified, and looks at places of it."""
    first = looks_left and len(state.evidence) < EXPECTED_LOOKS
    claims = list(grouped(state.open or state.unverified, lambda claim: claim.place).values())
    if first and not state.risky:
        claims = claims[:-1]  # what is left is looked at
    return {
        "settle": [
            f"{', '.join(str(claim.number) for claim in about)} | {'word ' * SEEN_WORDS}| met | {state.evidence[-1].id}"
            for about in claims
        ],
        "looks": [[0, 0, 0.2, 0.2 + n / 10] for n in range(max(1, len(state.risky)))] if first else [],
    }


async def investigate(state: AgentState, inspector: ImageInspector, ask: CostTrackingAsk) -> None:
    """Look and settle until one of the seven ends, which `state.stopped` names. The first look is `state.first_look`.

    Raises:
        Unanswered: The orchestrator gave no answer, or a look ended in an outage or on an image that cannot be used.
    """
    first = LookRequest("inventory" if state.first_look == "inventory" else "describe")
    if state.first_look == "sight":
        await _show(state, inspector)
    else:
        await _carry_out(state, inspector, [[first]], state.begin_round(""))
    max_looks, max_cost, idle = state.bounds.looks, state.bounds.cost, 0
    while not state.stopped:
        state.counts["rounds"] += 1
        paid = max_cost is not None and ask.cost >= max_cost
        last = paid or state.counts["rounds"] >= max_looks + SPARE_ROUNDS
        left = 0 if last else max_looks - state.counts["looks"]
        keep_last_look(state, left)
        turn, protocol = await consult(state, ask, left)
        state.look_price = ask.cost / max(1, state.counts["looks"])
        entry = state.begin_round(turn.thought, protocol)
        settled = _settle(state, turn.settle, entry)
        end = _end(state, wants_looks=bool(turn.looks))
        if protocol == "sight" and state.verification is None:
            _begin(state, _chosen(state))  # its looks are under way: the next answer verifies by them
        begins = bool(end) and state.verification is None
        if end and not verifying(state, left, progress=bool(settled or turn.looks)):
            state.stopped = end
        if begins and not state.stopped:  # requested before the verdicts to verify were known
            outcomes: list[LookRequest | str] = [_NOT_TAKEN] * len(turn.looks)
            groups: list[list[LookRequest]] = []
        else:
            outcomes, groups = ([], []) if state.stopped else _check_requests(state, turn.looks, left)
        await _carry_out(state, inspector, groups, entry)
        entry["refused"] = list(state.notes)
        idle = 0 if settled or groups else idle + 1
        if idle and not state.stopped:
            state.note("idle_rounds", "nothing new was settled and no look was taken; claims are still open")
        if not state.stopped and not left:
            state.stopped = "looks" if state.counts["looks"] >= max_looks else "budget" if paid else "rounds"
        if not state.stopped and idle >= IDLE:
            state.stopped = end or "no progress"
        record_outcomes(state, outcomes, settled)


def _end(state: AgentState, *, wants_looks: bool) -> str:
    """Return why no further look is worth its price: `covered`, `little left` or `too dear`; empty if a look is worth it."""
    if not state.open:
        return "covered"
    if _little_left(state) and (state.first_look == "description" or not wants_looks):
        return "little left"
    return "" if state.is_worth_a_look(state.open) else "too dear"


def _little_left(state: AgentState) -> bool:
    """Return True if the open claims weigh too little for another look."""
    weight = weights(state.claims.claims)
    macro = any(group_of(claim) == "macro" for claim in state.open)
    return not macro and sum(weight[claim.number] for claim in state.open) < LITTLE_PERCENT


def _settle(state: AgentState, verdicts: list[ClaimVerdict], entry: RoundRow) -> int:
    """Accept the verdicts that rest on evidence and return how many are new."""
    known = {claim.number: claim.text for claim in state.claims.claims}
    proposed: dict[int, set[str]] = {}
    for given in verdicts:
        for claim in given.claims[:MAX_CLAIMS]:
            proposed.setdefault(claim, set()).add(_verdict(given))
    contradictory = {claim for claim, answers in proposed.items() if len(answers) > 1}
    for claim in sorted(contradictory & known.keys()):
        state.note("contradictory", f"claim {claim}: two verdicts in one answer; it stays as it was")
    new = 0
    for given in verdicts:
        verdict, evidence = _verdict(given), _evidence(state, given.evidence)
        seen = given.seen if isinstance(given, SeenVerdict) else None
        line = "; ".join(known.get(claim, "") for claim in given.claims)
        for claim in given.claims[:MAX_CLAIMS]:
            if claim not in known:
                state.note("unknown_claims", f"there is no claim {claim}")
            elif verdict not in VERDICTS:
                state.note("unknown_verdicts", f"claim {claim}: a verdict is {', '.join(VERDICTS)}")
            elif claim in contradictory:
                continue
            elif evidence is None:
                name = shortened(given.evidence, 20)
                state.note("unsupported", f"claim {claim}: '{name}' is not evidence that can decide a claim")
            elif seen == "":
                state.note("unsupported", f"claim {claim}: 'seen' is empty")
            elif seen and verdict == "met" and claim not in state.doubted and contradicts(known[claim], seen, line):
                state.doubted.add(claim)
                state.note("contradictory", f"claim {claim} is not met by what you saw: {seen}. Settle it again")
            else:
                new += _settle_claim(state, claim, verdict, evidence, given, entry)
    return new


def _verdict(given: ClaimVerdict) -> str:
    return given.verdict.lower().replace(" ", "_").replace("-", "_")


def _evidence(state: AgentState, name: str) -> Evidence | None:
    """Find the evidence of an id such as `E2` or `E2.14`; None if there is none, or it cannot settle a claim."""
    digits = name.strip().strip("[]()").upper().removeprefix("E").partition(".")[0]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 6) or not 1 <= int(digits) <= len(state.evidence):
        return None
    evidence = state.evidence[int(digits) - 1]
    return evidence if evidence.usable else None


def _settle_claim(
    state: AgentState, claim: int, verdict: str, evidence: Evidence, given: ClaimVerdict, entry: RoundRow
) -> bool:
    """Settle a claim, or revise its verdict if the evidence is newer; return whether anything changed."""
    old = state.settled.get(claim)
    confirmed = old is not None and old.verdict == verdict
    verified = _is_verified(state, claim, evidence)
    if confirmed and not verified:
        return False
    if old is not None and evidence.number <= old.evidence:
        state.note("unsupported", f"claim {claim} is settled by E{old.evidence}: only newer evidence changes that")
        return False
    before = () if old is None else (*old.before, (old.verdict, old.evidence))
    state.counts["revised"] += old is not None and not confirmed
    state.counts["verified"] += verified
    state.verified |= {claim} if verified else set()
    line = given.evidence.partition(".")[2].rstrip(" ])")
    item = evidence.item(int(line)) if line.isascii() and line.isdigit() and len(line) < 6 else None
    seen = shortened(given.seen, MAX_SEEN) if isinstance(given, SeenVerdict) else ""
    state.settled[claim] = SettledClaim(verdict, evidence.number, before, item, seen)
    entry["settled"].append({"claim": claim, "verdict": verdict, "evidence": evidence.id})
    return True


def _is_verified(state: AgentState, claim: int, evidence: Evidence) -> bool:
    """Return True if this evidence verifies the verdict on a claim that is to be verified: any part enlarged since the verdict."""
    wanted = state.verification
    if wanted is None or all(unverified.number != claim for unverified in state.unverified):
        return False
    enlarged = evidence.request.box is not None and evidence.number > state.settled[claim].evidence
    return enlarged or evidence.number > wanted.since


def _check_requests(
    state: AgentState, looks: list[Look], left: int
) -> tuple[list[LookRequest | str], list[list[LookRequest]]]:
    """Return for each look its request, or why it is refused (unknown tool, bad box, repetition, more than are left), and groups.

    Questions about the whole image, or about the same part of it, are one look, which costs by its image. The looks of a
    group, at several parts of the image, are carried out in one request, and count as one.
    """
    done = {key: evidence.id for evidence in state.evidence for key in evidence.request.keys}
    most = min(state.parallel, left)
    outcomes: list[LookRequest | str] = []
    groups: list[list[LookRequest]] = []
    for look in looks:
        request = check_request(look, enlarge=state.first_look == "sight")
        if isinstance(request, Refused):
            outcomes.append(state.note(request.count, request.note))
            continue
        (key,) = request.keys
        together = next((taken for group in groups for taken in group if taken.takes(request)), None)
        group = next((group for group in groups if _has_room(group, request)), None)
        if key in done:
            outcomes.append(state.note("repeats_refused", f"{request.shown} was done before: {done[key]}"))
        elif together is None and group is None and len(groups) >= most:
            note = f"{request.shown}: no more than {most} looks could be taken"
            outcomes.append(state.note("looks_over_limit", note))
        else:
            done[key] = "in the same answer"
            if together is not None:
                together.add(request)
            elif group is not None:
                group.append(request)
            else:
                groups.append([request])
            outcomes.append(together or request)
    return outcomes, groups


def _has_room(group: list[LookRequest], request: LookRequest) -> bool:
    return request.joins and group[0].joins and len(group) < MOST_JOINED


async def _show(state: AgentState, inspector: ImageInspector) -> None:
    """Show the judge the image and its enlarged parts: the first piece of evidence.

    Raises:
        Unanswered: The image cannot be used.
    """
    files, parts = await inspector.show()
    state.pictures = [Picture(file, 1, what) for file, what in zip(files, ["the whole image", *parts], strict=True)]
    said = "; ".join(picture.what for picture in state.pictures)
    state.counts["looks"] += 1
    _record(state, LookRequest("see"), Observation(said))
    state.begin_round("")["looks"].append("E1")


async def _enlarge(
    state: AgentState, inspector: ImageInspector, groups: list[list[LookRequest]]
) -> list[list[Observation]]:
    """Add the parts that a judge wants to see to the pictures that it is shown.

    Raises:
        Unanswered: The image cannot be used.
    """
    boxes = [request.box or WHOLE for group in groups for request in group]
    files = await inspector.pictures(boxes)
    if files:
        state.pictures[0] = replace(state.pictures[0], file=await inspector.overview())
    said = [inspector.part(box) for box in boxes]
    state.pictures += map(Picture, files, count(len(state.evidence) + 1), said)
    what = iter(said)
    return [[Observation(next(what)) for _ in group] for group in groups]


async def _carry_out(
    state: AgentState, inspector: ImageInspector, groups: list[list[LookRequest]], entry: RoundRow
) -> None:
    """Carry out all looks at once; each adds a piece of evidence, a failed one too.

    Raises:
        Unanswered: A look ended in an outage, or on an image that cannot be used: the item then has no score.
    """
    state.counts["looks"] += len(groups)
    if state.first_look == "sight":
        results: list[list[Observation] | Unanswered] = [*await _enlarge(state, inspector, groups)]
    else:
        results = await gather_answers(*map(inspector.look_together, groups))
    for group, result in zip(groups, results, strict=True):
        for place, request in enumerate(group):
            _record(state, request, result if isinstance(result, Unanswered) else result[place])
            entry["looks"].append(state.evidence[-1].id)
        if isinstance(result, Unanswered):
            state.counts["failed_looks"] += 1
            state.failures.append(result)
    for result in results:
        if isinstance(result, Unanswered) and result.status in ENDS_ITEM:
            raise result


def _record(state: AgentState, request: LookRequest, result: Observation | Unanswered) -> None:
    """Add the result of a look to the evidence."""
    state.counts["boxes_clamped"] += request.clamped
    state.counts["cut_questions"] += request.cut
    number = len(state.evidence) + 1
    if isinstance(result, Unanswered):
        state.evidence.append(Evidence(number, request, failed=str(result.status)))
    else:
        state.counts["cut_answers"] += result.cut
        state.evidence.append(Evidence(number, request, result))
