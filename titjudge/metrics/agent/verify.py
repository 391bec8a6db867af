"""Which verdicts are looked at once more before the work on an image ends.

A first look is one casual look at the whole image. Most claims hold, so that a claim which it contradicts is where a misreading
is likeliest, and one wrong verdict costs an image its place among its siblings. So contradicted claims are looked at again, and
those settled by a line of an inventory that its reader was not sure of, if they concern few places: an image that is wrong in many
is wrong whatever a second look says. As many claims that hold, drawn by a hash, are looked at with them; else a second look could
only raise scores. The last look at an image is kept for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from titjudge.metrics.agent.claims import Claim
from titjudge.metrics.agent.scale import weights
from titjudge.metrics.agent.state import AgentState, SettledClaim, Verification

MOST_PLACES = 4  # doubtful things beyond which nothing is verified


def verifying(state: AgentState, left: int, *, progress: bool) -> bool:
    """Tell whether verdicts are still to be verified before the work ends; chooses them when first asked.

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
    """Choose doubtful claims and, of other places, as many that hold; nothing where too many places are doubtful."""
    weight = weights(state.claims.claims)
    at_first = [claim for claim in state.claims.claims if weight[claim.number] and _settled_at_first(state, claim)]
    doubtful = [claim for claim in at_first if _is_doubtful(state.settled[claim.number])]
    places = {_place(claim) for claim in doubtful}
    if not 0 < len(places) <= MOST_PLACES or not state.is_worth_a_look(doubtful):
        return []
    held = [c for c in at_first if state.settled[c.number].verdict == "met" and _place(c) not in places]
    return doubtful + sorted(held, key=lambda claim: _draw(state, claim))[: len(places)]


def _is_doubtful(settled: SettledClaim) -> bool:
    """Tell whether a verdict is one that a second look may well change."""
    unsure = settled.item is not None and not settled.item.sure
    return settled.verdict == "not_met" or (settled.verdict == "met" and unsure)


def _settled_at_first(state: AgentState, claim: Claim) -> bool:
    """Tell whether the verdict on a claim rests on the first look, or another description of the whole image."""
    settled = state.settled.get(claim.number)
    if settled is None:
        return False
    request = state.evidence[settled.evidence - 1].request
    return settled.evidence == 1 or (request.tool == "describe" and request.box is None)


def _place(claim: Claim) -> str:
    """Name the thing that a claim is about, which is where one looks."""
    return claim.things[0] if claim.things else claim.text


def _draw(state: AgentState, claim: Claim) -> bytes:
    """Draw a number for a claim: the same whenever it is judged, another for each image."""
    return hashlib.sha256(f"{state.evidence[0].observation.text}\n{claim.text}".encode("utf-8", "replace")).digest()
