"""tit-agent-pairs: tit-agent, and then two images of a prompt side by side where its verdicts on them differ.

Some errors are seen only beside an image without them. So the places of the claims that one image meets and the other does not are
shown together, in both orders. A verdict changes only if both orders agree, and all comparisons of the image in which they do. Two
images that differ in more than `MOST_PLACES` places are not compared: which is better does not depend on one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.grouping import grouped
from titjudge.core.structured_output import Whole
from titjudge.core.types import Ask, Item, Score
from titjudge.metrics import metric
from titjudge.metrics._shared import all_answers, image_of
from titjudge.metrics.agent.claims import Claim, numbered, shortened
from titjudge.metrics.agent.looks import CostTrackingAsk, Crops, ImageInspector, LookRequest, Observation
from titjudge.metrics.agent.loop import DECODING, MAX_SEEN
from titjudge.metrics.agent.metric import MAX_LOOKS, MOST_LOOKS, FirstLookOption, judged, scored
from titjudge.metrics.agent.places import ROLE
from titjudge.metrics.agent.state import MOST_PLACES, AgentState, Evidence, LookBounds, SettledClaim

_DECIDED = {"met", "not_met"}
Verdict = Literal["met", "not_met", "cannot_be_seen"]


class ComparedClaims(BaseModel):
    """What is seen at one place of both images, and the verdicts that follow from it."""

    model_config = ConfigDict(extra="ignore")

    claims: list[Whole]
    first_seen: str
    second_seen: str
    first: Verdict
    second: Verdict


class PairOfImages(BaseModel):
    """An answer about two images."""

    model_config = ConfigDict(extra="ignore")

    places: list[ComparedClaims]


@metric(
    "tit-agent-pairs",
    roles=("captioner", "judge"),
    optional_roles=(ROLE,),
    range=(0, 100),
    scope="prompt",
    source="titjudge; tit-agent, with both images of a pair side by side",
)
async def tit_agent_pairs(
    item: Item,
    ask: Ask,
    *,
    max_looks: Annotated[
        int, Field(ge=1, le=MOST_LOOKS, description="looks at one image, as for tit-agent; comparisons are added")
    ] = MAX_LOOKS,
    first_look: FirstLookOption = "auto",
) -> Score:
    """Score of tit-agent after the images of a prompt were compared where its verdicts on them differ.

    A dry run counts a comparison of any two images, in both orders: an upper bound.

    Args:
        item: The item.
        ask: Asks the models; `ask.siblings` are the other images of the prompt.
        max_looks: Most looks at one image before the comparisons, 1 to 64.
        first_look: What the judge begins with, as for `tit-agent`.

    Raises:
        Unanswered: The item has no image, or a comparison has no usable answer.
    """
    image_of(item)

    async def alone(each: Item) -> tuple[Item, AgentState, Score]:
        state = AgentState(LookBounds(max_looks), prompt=each.prompt)
        return each, state, await judged(each, CostTrackingAsk(ask), state, first_look)

    (_, state, score), *others = await asyncio.gather(*map(alone, (item, *ask.siblings)))
    if score.value is None:
        return score
    compared = await all_answers(
        *(
            _both_orders(ask, (item, state), (each, other), claims)
            for each, other, judgement in others
            if judgement.value is not None
            and (claims := _first(state.checkable) if ask.dry_run else differing(state, other))
        )
    )
    proposed: dict[int, set[tuple[str, str]]] = {}
    for found in compared:
        for number, verdict in found.items():
            proposed.setdefault(number, set()).add(verdict)
    for number, verdicts in proposed.items():
        if len({verdict for verdict, _ in verdicts}) == 1:
            _settle(state, number, *min(verdicts))
    return scored(item, state)


def differing(one: AgentState, other: AgentState) -> list[Claim]:
    """List the claims that one image meets and the other does not; none where they are about more places than are compared."""
    mine, theirs = ({number: s.verdict for number, s in state.verdicts.items()} for state in (one, other))
    claims = [c for c in one.checkable if {mine.get(c.number), theirs.get(c.number)} == _DECIDED]
    return claims if len({claim.place for claim in claims}) <= MOST_PLACES else []


def _first(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims about as many places as can be compared: what a dry run expects of any two images."""
    places = list(grouped(claims, lambda claim: claim.place).values())
    return [claim for place in places[:MOST_PLACES] for claim in place]


async def _both_orders(
    ask: Ask, mine: tuple[Item, AgentState], theirs: tuple[Item, AgentState], claims: Sequence[Claim]
) -> Mapping[int, tuple[str, str]]:
    """Return the verdicts on the first image on which both orders agree, each with what was seen.

    Raises:
        Unanswered: There is no usable answer.
    """
    places = list(grouped(claims, lambda claim: claim.place).values())
    with Crops() as crops:
        own, other = [await _pictures(*one, places, ask, crops) for one in (mine, theirs)]
        prompt = numbered(mine[0].prompt, claims)
        forward, back = await all_answers(_ask(ask, own, other, places, prompt), _ask(ask, other, own, places, prompt))
    swapped = {number: place.second for place in back.places for number in place.claims}
    return {
        number: (place.first, place.first_seen)
        for place in forward.places
        for number in place.claims
        if place.first == swapped.get(number) and any(claim.number == number for claim in claims)
    }


async def _pictures(
    item: Item, state: AgentState, places: Sequence[Sequence[Claim]], ask: Ask, crops: Crops
) -> list[Path]:
    """Return a picture for each place: the part where a claim about it was settled, else the whole image."""
    inspector, files = ImageInspector(item, CostTrackingAsk(ask), crops), []
    for claims in places:
        boxes = [box for claim in claims if (box := state.box_of(claim.number))]
        files += await inspector.pictures(boxes[:1]) or [inspector.image]
    return files


async def _ask(
    ask: Ask, first: Sequence[Path], second: Sequence[Path], places: Sequence[Sequence[Claim]], prompt: str
) -> PairOfImages:
    pictures = list(dict.fromkeys(file for pair in zip(first, second, strict=True) for file in pair))
    reply = await ask(
        "agent/pair",
        role="judge",
        images=pictures,
        schema=PairOfImages,
        params=DECODING,
        prompt=prompt,
        places=[
            (pictures.index(one) + 1, pictures.index(two) + 1, ", ".join(str(claim.number) for claim in of_place))
            for one, two, of_place in zip(first, second, places, strict=True)
        ],
    )
    comparison: PairOfImages = reply.data
    return comparison


def _settle(state: AgentState, number: int, verdict: str, seen: str) -> None:
    """Settle a claim by what was seen side by side."""
    old = state.verdicts[number]
    if verdict == old.verdict:
        return
    said = shortened(seen, MAX_SEEN)
    state.evidence.append(Evidence(len(state.evidence) + 1, LookRequest("compare"), Observation(said)))
    before = (*old.before, (old.verdict, old.evidence))
    state.settled[number] = SettledClaim(verdict, len(state.evidence), before, seen=said)
    state.counts["revised"] += 1
