"""Which verdicts are looked at once more before the work on an image ends.

A description is one casual look at the whole image. Most claims hold, so that a claim which it contradicts is where a misreading
is likeliest, and one wrong verdict costs an image its place among its siblings. So contradicted claims are looked at again, if
they concern few places: an image that is wrong in many is wrong whatever a second look says. As many claims that hold, drawn by a
hash, are looked at with them; else a second look could only raise scores.
"""

from __future__ import annotations

import hashlib

from titjudge.metrics.agent.claims import Claim
from titjudge.metrics.agent.scale import weights
from titjudge.metrics.agent.state import AgentState, Verification

MOST_PLACES = 4  # contradicted things beyond which nothing is verified


def verifying(state: AgentState, left: int, *, progress: bool) -> bool:
    """Tell whether verdicts are still to be verified before the work ends; chooses them when first asked.

    Args:
        state: The state; nothing open in it is worth a look.
        left: Looks that are left.
        progress: Whether the last answer settled a claim or asked for a look.
    """
    if state.verification is None:
        state.verification = Verification(tuple(claim.number for claim in _chosen(state)), len(state.evidence))
        progress = True
    return bool(left and progress and state.unverified)


def _chosen(state: AgentState) -> list[Claim]:
    """Choose contradicted claims and, of other places, as many that hold; nothing where too many places are contradicted."""
    weight = weights(state.claims.claims)
    described = [claim for claim in state.claims.claims if weight[claim.number] and _described(state, claim)]
    contradicted = [claim for claim in described if state.settled[claim.number].verdict == "not_met"]
    places = {_place(claim) for claim in contradicted}
    if not 0 < len(places) <= MOST_PLACES:
        return []
    held = [c for c in described if state.settled[c.number].verdict == "met" and _place(c) not in places]
    return contradicted + sorted(held, key=lambda claim: _draw(state, claim))[: len(places)]


def _described(state: AgentState, claim: Claim) -> bool:
    """Tell whether the verdict on a claim rests on the description of the whole image."""
    settled = state.settled.get(claim.number)
    if settled is None:
        return False
    request = state.evidence[settled.evidence - 1].request
    return request.tool == "describe" and request.box is None


def _place(claim: Claim) -> str:
    """Name the thing that a claim is about, which is where one looks."""
    return claim.things[0] if claim.things else claim.text


def _draw(state: AgentState, claim: Claim) -> bytes:
    """Draw a number for a claim: the same whenever it is judged, another for each image."""
    return hashlib.sha256(f"{state.evidence[0].observation.text}\n{claim.text}".encode("utf-8", "replace")).digest()
