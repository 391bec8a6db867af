"""tit-agent, the agentic judge: an orchestrator looks at the image until the claims of a long prompt are settled.

`scale` turns verdicts into a score. Claims that cannot be seen (looked for, and the image cannot show it either way) and
claims that stay open do not enter; `lower` and `upper` bound the effect of the open ones. If less than 60% of the claims'
weight is decided, there is no score. `titjudge.core.score_parts.AgentParts` describes what a score keeps.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field

from titjudge.core import item_meta
from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import AgentParts, Bounds, ClaimRow
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.core.words import percentage, words_of
from titjudge.metrics import metric, ocr
from titjudge.metrics._shared import image_of
from titjudge.metrics.agent.claims import (
    SHARES,
    Claim,
    adherence_score,
    group_of,
    score_bounds,
    shortened,
    smallest_share,
    split,
    weights,
)
from titjudge.metrics.agent.looks import MANY_CLAIMS, ONE_LOOK, Box, CostTrackingAsk, Crops, ImageInspector
from titjudge.metrics.agent.loop import investigate
from titjudge.metrics.agent.places import ROLE, locate
from titjudge.metrics.agent.state import COUNTS, VERDICTS, AgentState, FirstLook, LookBounds, SettledClaim

MAX_LOOKS, MOST_LOOKS = 8, 64  # at one image, the description included
DECIDED_PERCENT = 60
"""Least share of the claims' weight that must be decided (met or not met) for an item to have a score."""

FirstLookOption = Annotated[
    Literal["auto", "description", "inventory", "sight"],
    Field(
        description="description; inventory with places, of the image and its enlarged parts; sight: the judge sees the image "
        "itself; auto: inventory of large images with many claims"
    ),
]

_VERDICTS = (*VERDICTS, "open")
_SAME = 0.05  # points that the bounds of a score may differ and still be one number


@metric(
    "tit-agent",
    roles=("captioner", "judge"),
    optional_roles=(ROLE,),
    range=(0, 100),
    version="12",
    source="titjudge; macro and micro level of adherence as in the TIT-Score paper, A.11; weights ours",
)
async def tit_agent(
    item: Item,
    ask: Ask,
    *,
    max_looks: Annotated[
        int, Field(ge=1, le=MOST_LOOKS, description=f"looks at one image, 1 to {MOST_LOOKS}, the description included")
    ] = MAX_LOOKS,
    max_cost: Annotated[
        float | None,
        Field(ge=0, allow_inf_nan=False, description="USD for one image; once spent, no further look is taken"),
    ] = None,
    point_worth: Annotated[
        float | None,
        Field(
            gt=0, allow_inf_nan=False, description="USD per point of the score; a more expensive request is not sent"
        ),
    ] = None,
    first_look: FirstLookOption = "auto",
) -> Score:
    """Share of the prompt's claims that an image meets, decided by a judge that looks again at uncertain places.

    The judge decomposes the prompt into claims (one request, the same for all images of a prompt) and then has the
    captioner look at the image: description, questions, zooms, counts, text. It calls tools natively if its provider has
    them, otherwise it answers in JSON. If a detector is configured, it proposes places of the things that claims are
    about: no evidence, and no look.

    The score is 100 x core x adherence. Adherence is half the met share of the core (macro) claims, four tenths the share
    of details, at most one tenth the share of style; core is the met share of macro claims, and at most 0.95 for each
    clear error (a wrong claim about a core subject). `parts` has the claim table, the evidence, the transcript, and
    counts of looks and of everything refused. An item with less than 60% of the weight decided is unparsed. An item whose
    judge gives no usable answer, or whose looks end in an outage, has no score, and keeps its `parts` as far as they are
    known.

    Args:
        item: The item; its `meta["max_looks"]` overrides `max_looks`.
        ask: Asks the models.
        max_looks: Maximum number of looks at one image, 1 to 64, the description included.
        max_cost: USD by list price; once an item's questions have cost as much, no further look is taken.
        point_worth: USD that a point of the score is worth: no look is taken if the open or doubtful claims weigh less
            than a look has cost so far.
        first_look: The first look of the judge. "description": the description of the TIT metrics, paid once with them.
            "inventory": things and their places, listed by the captioner from the image and its enlarged parts in one
            request. "sight": the judge sees the image and its parts itself, and no captioner is asked. "auto": an
            inventory if the image has more than 1.6 million pixels and the prompt makes at least 25 claims, otherwise a
            description.

    Raises:
        ConfigError: `max_cost` or `point_worth` is given, and a model's price is unknown.
    """
    looks = _max_looks(item_meta.MAX_LOOKS.get(item, max_looks))
    if looks is None:
        given = shortened(repr(item_meta.MAX_LOOKS.get(item)), 40)
        return Score.none(Status.BAD_INPUT, f"max_looks is a whole number from 1 to {MOST_LOOKS}, not {given}")
    image_of(item)
    if not words_of(item.prompt):
        return Score.none(Status.BAD_INPUT, "the prompt is empty")
    priced = max_cost is not None or point_worth is not None
    state = AgentState(LookBounds(looks, max_cost, point_worth), prompt=item.prompt)
    return await judged(item, CostTrackingAsk(ask, priced=priced), state, first_look)


def _max_looks(given: Any) -> int | None:
    """Validate a whole number from 1 to 64, also as a string (a CSV has only strings); None when it is not one."""
    if isinstance(given, str) and given.strip().isascii() and given.strip().isdigit() and len(given.strip()) < 4:
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST_LOOKS:
        return None
    return given


async def judged(item: Item, ask: CostTrackingAsk, state: AgentState, first_look: FirstLook | Literal["auto"]) -> Score:
    """Judge an image alone, and leave what was found in `state`."""
    state.claims = await split(item.prompt, ask)
    claims, unfounded = len(state.claims.claims), len(state.claims.unfounded)
    if unfounded >= max(1, claims):
        reason = f"{unfounded} of {claims + unfounded} claims quote words that are not in the prompt"
        return Score.none(Status.UNPARSED, reason, **_parts(item, state))
    try:
        with Crops() as crops:
            inspector = ImageInspector(item, ask, crops)
            inspector.smallest = smallest_share(state.claims.claims)
            state.first_look = await _first_look(first_look, claims, inspector)
            state.places = await locate(state.claims.claims, inspector.image, ask)
            if state.places is not None and state.places.proposed:
                inspector.smallest = state.places.smallest
            await investigate(state, inspector, ask)
    except Unanswered as failure:
        state.stopped = f"no answer: {failure.status}"
        return Score.none(failure.status, failure.reason, **_parts(item, state))
    return scored(item, state)


async def _first_look(wanted: FirstLook | Literal["auto"], claims: int, inspector: ImageInspector) -> FirstLook:
    """Choose what the judge begins with.

    Raises:
        Unanswered: The image cannot be used.
    """
    if wanted != "auto":
        return wanted
    await inspector.parts()
    large = inspector.size[0] * inspector.size[1] > ONE_LOOK
    return "inventory" if claims >= MANY_CLAIMS and large else "description"


def scored(item: Item, state: AgentState) -> Score:
    """Make the score from the verdicts of a state."""
    parts = _parts(item, state)
    decided = parts["weight"]["met"] + parts["weight"]["not_met"]
    verdicts = {number: settled.verdict for number, settled in state.verdicts.items()}
    value = adherence_score(state.claims.claims, verdicts)
    if value is None or decided < DECIDED_PERCENT - 1e-9:
        reason = f"only {decided:.0f}% of the claims' weight is met or not met, {DECIDED_PERCENT}% are needed ({state.stopped})"
        blind = state.failures if not any(evidence.usable for evidence in state.evidence) else []
        if blind:
            reason = f"no look brought anything: {blind[0].reason}"
        return Score.none(blind[0].status if blind else Status.UNPARSED, reason, **parts)
    reason = _summary(parts, len(state.unverified))
    low, high = score_bounds(state.claims.claims, verdicts) or (value, value)
    if high - low < _SAME:
        return Score.of(value, reason=reason, **parts)
    bounds = Bounds(lower=low, upper=high)
    return Score.of(value, reason=f"{reason}; {low:.1f} to {high:.1f}, depending on the open claims", **parts, **bounds)


def _summary(parts: AgentParts, unverified: int) -> str:
    number = parts["number"]
    decided = number["met"] + number["not_met"]
    text = f"{number['met']} of {decided} claims met ({percentage(number['met'] / decided)})"
    if number["cannot_be_seen"]:
        text += f", {number['cannot_be_seen']} cannot be seen"
    if number["open"]:
        text += f", {number['open']} open"
    if unverified:  # no look was left, the judge declined, or no answer is on file
        text += f", {unverified} chosen for a second look had none"
    return f"{text}; {parts['counts']['looks']} looks; stopped: {parts['stopped']}"


def _parts(item: Item, state: AgentState) -> AgentParts:
    claims, settled = state.claims.claims, state.verdicts
    weight = weights(claims)
    rows = [
        _row(claim, weight[claim.number], settled.get(claim.number), item.prompt, state.box_of(claim.number))
        for claim in claims
    ]
    groups = {
        group: [row for claim, row in zip(claims, rows, strict=True) if group_of(claim) == group] for group in SHARES
    }
    parts = AgentParts(
        claims=rows,
        number={verdict: sum(row["verdict"] == verdict for row in rows) for verdict in _VERDICTS},
        weight={
            verdict: math.fsum(row["weight"] for row in rows if row["verdict"] == verdict) for verdict in _VERDICTS
        },
        levels={group: _met_share(of_group) for group, of_group in groups.items()},
        unfounded=list(state.claims.unfounded),
        repeated=state.claims.repeated,
        claims_over=state.claims.over,
        prompt_words=len(words_of(item.prompt)),
        prompt_covered=round(state.claims.covered, 4),
        evidence=[evidence.to_json() for evidence in state.evidence],
        transcript=state.transcript,
        counts={name: state.counts[name] for name in COUNTS},
        max_looks=state.bounds.looks,
        stopped=state.stopped,
        protocol=state.transcript[-1]["protocol"] if state.transcript else "",
        ocr=ocr.engine_version(),
        max_cost=state.bounds.cost,
    )
    if state.places is not None:
        parts["places"] = state.places.to_json()
    return parts


def _row(claim: Claim, weight: float, settled: SettledClaim | None, prompt: str, box: Box | None) -> ClaimRow:
    row = ClaimRow(
        number=claim.number,
        claim=claim.text,
        thing=claim.things[0] if claim.things else "",
        kind=claim.kind,
        level=claim.level,
        weight=weight,
        span=[claim.start, claim.end],
        quote=prompt[claim.start : claim.end],
        position=round(claim.start / len(prompt), 6),
        verdict=settled.verdict if settled else "open",
        evidence=f"E{settled.evidence}" if settled else None,
        before=[[verdict, f"E{number}"] for verdict, number in settled.before] if settled else [],
    )
    if settled:
        _add_what_was_seen(row, settled, box)
    return row


def _add_what_was_seen(row: ClaimRow, settled: SettledClaim, box: Box | None) -> None:
    """Add to a claim the place of its decision, and the observation there, as far as known."""
    if box is not None:
        row["place"] = list(box)
    if settled.item is not None:
        row["seen"], row["sure"] = settled.item.text, settled.item.sure
    elif settled.seen:
        row["seen"] = settled.seen


def _met_share(rows: list[ClaimRow]) -> float | None:
    """Return the share of met claims among decided ones; None if none is decided."""
    decided = [row["verdict"] == "met" for row in rows if row["verdict"] in ("met", "not_met")]
    return sum(decided) / len(decided) if decided else None
