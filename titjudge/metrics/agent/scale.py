"""The scale of tit-agent, 0 to 100: what a claim weighs, and what a wrong one costs.

The TIT-Score paper (A.11) has annotators check core subjects, setting and key relations first, and details only when
these are right. It gives no numbers; these are ours:

    adherence   half the met share of macro claims, four tenths that of details, one tenth that of style
    core        the met share of macro claims, and no more than .95 for each clear error
    score       100 x core x adherence

A clear error is a claim about a core subject that is not met (the subject itself or an attribute of it), or an
exclusion that is violated ("no people"). Where a thing is absent or replaced by another, no claim about it is met.
Claims that hold for nearly any image ("generic") weigh nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from titjudge.metrics.agent.claims import Claim

SHARES = {"macro": 50.0, "micro": 40.0, "style": 10.0}
"""Percent of the adherence, by group of claims. The share of an empty group goes to the others; style keeps a tenth."""

CLEAR_ERROR = 0.95  # factor of each clear error


def group_of(claim: Claim) -> str:
    """Return the group of a claim: macro, micro, style, or generic, which weighs nothing."""
    return "style" if claim.kind == "style" and claim.level != "generic" else claim.level


def weights(claims: Collection[Claim]) -> dict[int, float]:
    """Return the weight of each claim, by its number: 100 in all, the same for all claims of a group."""
    sizes = Counter(map(group_of, claims))
    shares = _shares(sizes.keys())
    return {claim.number: shares.get(group, 0.0) / sizes[group] for claim in claims for group in [group_of(claim)]}


def _shares(groups: Collection[str]) -> dict[str, float]:
    """Divide 100 among the groups that are not empty."""
    present = {group: share for group, share in SHARES.items() if group in groups}
    content = sum(share for group, share in present.items() if group != "style")
    style = present.get("style", 0.0) if content else 100.0
    return {
        group: style if group == "style" else share * (100.0 - present.get("style", 0.0)) / content
        for group, share in present.items()
    }


def absent_things(claims: Collection[Claim], verdicts: Mapping[int, str]) -> dict[str, int]:
    """Return the things that are not in the image, each with the number of the claim that introduces it.

    Args:
        claims: The claims of the prompt.
        verdicts: Verdicts by the number of the claim.
    """
    absent: dict[str, int] = {}
    present: set[str] = set()
    for claim in claims:
        if verdicts.get(claim.number) == "not_met":
            absent.setdefault(claim.introduces, claim.number)
        else:
            present.add(claim.introduces)
    return {thing: number for thing, number in absent.items() if thing and thing not in present}


def adherence_score(claims: Collection[Claim], verdicts: Mapping[int, str]) -> float | None:
    """Score the verdicts, 0 to 100; None where no claim with a weight is decided.

    Args:
        claims: The claims of the prompt.
        verdicts: Verdicts by the number of the claim, those that follow from absent things included.
    """
    met: dict[str, list[bool]] = {}
    for claim in claims:
        if (verdict := verdicts.get(claim.number)) in ("met", "not_met"):
            met.setdefault(group_of(claim), []).append(verdict == "met")
    errors = sum(verdicts.get(claim.number) == "not_met" for claim in clear_claims(claims))
    held = {group: sum(marks) / len(marks) for group, marks in met.items()}
    shares = _shares(held.keys())
    if not shares:
        return None
    adherence = sum(share * held[group] for group, share in shares.items())
    leading = next(held[group] for group in SHARES if group in held)
    return min(leading, CLEAR_ERROR**errors) * adherence


def score_bounds(claims: Collection[Claim], verdicts: Mapping[int, str]) -> tuple[float, float] | None:
    """Bound the score by what the open claims may turn out to be: all not met, or all met; None where nothing is open.

    A claim that cannot be seen is not open, nor is one that holds for nearly any image ("no people"): nobody looks for it, and it
    counts only where a report happens to show it violated.

    Args: as `adherence_score`.
    """
    open_claims = [claim.number for claim in claims if claim.number not in verdicts and claim.level != "generic"]
    if not open_claims:
        return None
    low, high = (
        adherence_score(claims, {**verdicts, **dict.fromkeys(open_claims, verdict)}) for verdict in ("not_met", "met")
    )
    return None if low is None or high is None else (low, high)


def clear_claims(claims: Collection[Claim]) -> list[Claim]:
    """List the claims that are a clear error when they are not met: those about a core subject, and exclusions."""
    core = {claim.introduces for claim in claims if claim.level == "macro"} - {""}
    return [
        claim
        for claim in claims
        if claim.level in ("macro", "generic") or (claim.kind != "style" and set(claim.things[:1]) & core)
    ]
