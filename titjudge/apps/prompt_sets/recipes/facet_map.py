"""Map a prompt to the facets of the Qwen-Image-Bench rubric that it tests (paper, 3.2, Eq. 4): command `prompts facets`."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import facet_name
from titjudge.core.types import Ask, Item, Json, Status
from titjudge.metrics import task
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
    """Write the facets, one per line, each with its criterion."""
    return "\n".join(f"- {name}: {rubric()[pillar][sub][facet]}" for name, (pillar, sub, facet) in FACETS.items())


def by_pillar(names: Container[str]) -> dict[str, list[list[str]]]:
    """Group facets by pillar, as [sub-capability, facet], in the order of the rubric."""
    groups: dict[str, list[list[str]]] = {}
    for name, (pillar, sub, facet) in FACETS.items():
        if name in names:
            groups.setdefault(pillar, []).append([sub, facet])
    return groups


async def mapped(ask: Ask, prompt: str, expected: Sequence[str] = ()) -> dict[str, str]:
    """Have the judge name the facets that a prompt tests, each with a note on the part of the prompt that does.

    A dry run plans the `expected` facets, and some more if they are fewer than three.

    Raises:
        Unanswered: The answer names fewer than three facets.
    """
    names = list(dict.fromkeys([*expected, *FACETS]))[: max(FEWEST, len(expected))]
    planned = {"facets": [{"facet": name} for name in names]}
    reply = await ask("facets/map", role="judge", schema=FacetMap, planned=planned, prompt=prompt, facets=closed_list())
    notes = {str(named.facet): named.note for named in reply.data.facets}
    if len(notes) < FEWEST:
        raise Unanswered(Status.UNPARSED, f"the answer names {len(notes)} facets, fewer than {FEWEST}", reply)
    return notes


@task(
    "facet-map",
    roles=("judge",),
    source="Qwen-Image-Bench paper, 3.2, Eq. 4; template ours",
)
async def facet_map(item: Item, ask: Ask) -> list[Json]:
    """Name the rubric facets that a prompt tests; no image is read.

    An answer with a name that is not in the rubric, or with fewer than three facets, is invalid.
    """
    notes = await mapped(ask, item.prompt)
    return [{"facets": by_pillar(notes), "notes": notes}]
