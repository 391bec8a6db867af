"""TIT for edits: source and result are described without the instruction, and a language model compares the descriptions.

The captioner describes each image by itself, so that no model that sees an image knows what it should show. The description of
a source is paid for once, however many generators have edited it: the cache of answers knows its image again.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._shared import all_answers, image_of, sources_of
from titjudge.metrics.tit import describe_image

Outcome = Literal["done", "elsewhere", "not_done"]


class Change(BaseModel):
    """A change that the instruction asks for."""

    model_config = ConfigDict(extra="ignore")

    change: str
    outcome: Outcome


class EditComparison(BaseModel):
    """Answer to `edit_diff/compare`."""

    model_config = ConfigDict(extra="ignore")

    differences: list[str]
    changes: list[Change] = Field(min_length=1)
    extra: list[str]
    reason: str


def agreement(done: int, elsewhere: int, not_done: int, extra: int) -> float:
    """Compute the Jaccard index, 0 to 1, of the requested changes and the actual changes.

    done / (done + not done + extra + 2 * elsewhere): a change made elsewhere is one that is missing and one too many.
    """
    return done / (done + not_done + extra + 2 * elsewhere)


@metric(
    "edit-diff",
    roles=("captioner", "judge"),
    range=(0, 1),
    source="titjudge; the description follows the TIT-Score paper, A.4.1",
    sources="required",
)
async def edit_diff(item: Item, ask: Ask) -> Score:
    """TIT for edits: descriptions before and after, made blind, are compared with the instruction by a language model."""
    descriptions = await all_answers(*(describe_image(image, ask) for image in (*sources_of(item), image_of(item))))
    *before, after = (description.text.strip() for description in descriptions)
    reply = await ask(
        "edit_diff/compare", role="judge", schema=EditComparison, prompt=item.prompt, sources=before, result=after
    )
    comparison: EditComparison = reply.data
    outcomes = [change.outcome for change in comparison.changes]
    counts = {name: outcomes.count(name) for name in ("done", "elsewhere", "not_done")}
    cut = any(description.status is Status.TRUNCATED for description in descriptions)
    return Score.of(
        agreement(**counts, extra=len(comparison.extra)),
        reason=comparison.reason,
        status=Status.TRUNCATED if cut else Status.OK,
        **counts,
        extra=comparison.extra,
        changes=[change.model_dump() for change in comparison.changes],
        differences=comparison.differences,
        description_before=before,
        description=after,
    )
