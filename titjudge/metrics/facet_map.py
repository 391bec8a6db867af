"""Which facets of the Qwen-Image-Bench rubric a prompt puts to the test (paper, 3.2, Eq. 4); the command `facets` runs it."""

from __future__ import annotations

from collections.abc import Container
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import facet_name
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._shared import is_stand_in
from titjudge.metrics.checklist import rubric

FACETS = {
    facet_name(pillar, sub, facet): (pillar, sub, facet)
    for pillar, subs in rubric().items()
    for sub, facets in subs.items()
    for facet in facets
}
"""Facets by their names, `pillar / sub-capability / facet`."""
FEWEST = 3  # facets of a prompt (paper, 3.2)


class Named(BaseModel):
    """One facet of the closed list, and what of the prompt it is about."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    facet: Literal[tuple(FACETS)]  # type: ignore[valid-type]
    note: str = ""


class FacetMap(BaseModel):
    """What the judge answers to `facets/map`."""

    facets: list[Named] = Field(min_length=FEWEST, max_length=len(FACETS))


def closed_list() -> str:
    """Write the facets a line each, with the question that each asks of an image."""
    return "\n".join(f"- {name}: {rubric()[pillar][sub][facet]}" for name, (pillar, sub, facet) in FACETS.items())


def by_pillar(names: Container[str]) -> dict[str, list[list[str]]]:
    """Sort facets by pillar, as (sub-capability, facet), in the order of the rubric."""
    found: dict[str, list[list[str]]] = {}
    for name, (pillar, sub, facet) in FACETS.items():
        if name in names:
            found.setdefault(pillar, []).append([sub, facet])
    return found


async def mapped(ask: Ask, prompt: str) -> dict[str, str]:
    """Name the facets that a prompt puts to the test, each with what of the prompt it is about.

    Raises:
        Unanswered: The answer names fewer than three.
    """
    reply = await ask("facets/map", role="judge", schema=FacetMap, prompt=prompt, facets=closed_list())
    notes = {str(each.facet): each.note for each in reply.data.facets}
    if len(notes) < FEWEST and not is_stand_in(ask, reply):
        raise Unanswered(Status.UNPARSED, f"the answer names {len(notes)} facets, fewer than {FEWEST}", reply)
    return notes


@metric(
    "facet-map",
    roles=("judge",),
    range=(FEWEST, len(FACETS)),
    source="Qwen-Image-Bench paper, 3.2, Eq. 4; template ours",
)
async def facet_map(item: Item, ask: Ask) -> Score:
    """Count the rubric facets that a prompt puts to the test, and name them in `parts`. No image is looked at.

    A name that is not in the closed list, and fewer than three facets, are no answer.
    """
    notes = await mapped(ask, item.prompt)
    return Score.of(len(notes), facets=by_pillar(notes), notes=notes)
