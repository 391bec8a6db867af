"""Pairwise judging: two images of one prompt, always in both orders.

An image's score is the mean of its comparisons with the other images of its prompt. Each comparison is asked in both
orders; if the two answers contradict each other the judge followed the order, and the comparison is a tie. Both
images of a comparison use the same two answers, which are asked and paid once.

With `duels=0.1` a random tenth of the comparisons of each prompt is asked, in both orders. An image is then compared
with few others, strong or weak ones by chance: rank generators by the Bradley-Terry strengths over all comparisons (a
table of results.json), not by their mean scores.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import Duel, Duels
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._shared import gather_answers
from titjudge.metrics.tit import describe

POINTS = {"first": 1.0, "tie": 0.5, "second": 0.0}
Share = Annotated[float, Field(gt=0, le=1, description="share of the comparisons of a prompt that is drawn and asked")]
Seed = Annotated[int, Field(description="random seed of the draw, with `duels` below 1")]


class Preference(BaseModel):
    """What the judge answers."""

    model_config = ConfigDict(extra="ignore")

    reason: str
    better: Literal["first", "second", "tie"]


async def _both_orders(item: Item, other: Item, ask: Ask, *, by_image: bool) -> Duel:
    """Compare `item` with `other` in both orders: points of `item`, 0 to 1, and whether the order decided."""
    forward, back = await asyncio.gather(
        _once(item, other, ask, by_image=by_image), _once(other, item, ask, by_image=by_image)
    )
    first, second = POINTS[forward.better], 1 - POINTS[back.better]
    return Duel(
        other=other.id,
        points=(first + second) / 2,
        order_decided={first, second} == {0.0, 1.0},
        shown_first=first,
        shown_second=second,
        reason=forward.reason,
    )


async def _once(first: Item, second: Item, ask: Ask, *, by_image: bool) -> Preference:
    """Ask which of two items is better, by their images or by their descriptions."""
    if by_image:
        images = [image for image in (first.image, second.image) if isinstance(image, Path)]
        reply = await ask("pairwise/images", role="judge", images=images, schema=Preference, prompt=first.prompt)
    else:
        first_description, second_description = await asyncio.gather(describe(first, ask), describe(second, ask))
        reply = await ask(
            "pairwise/descriptions",
            role="judge",
            schema=Preference,
            prompt=first.prompt,
            first=first_description.text,
            second=second_description.text,
        )
    preference: Preference = reply.data
    return preference


def drawn(ids: Iterable[str], share: float, seed: int) -> set[frozenset[str]]:
    """Draw a share of all pairs at random: each pair with the same probability, each image in at least one pair.

    The images are put on a circle in random order. Pairs of neighbours are drawn first (every second one, then the ones
    in between), then pairs at distance two, and so on.
    """
    circle = sorted(ids, key=lambda id_: hashlib.sha256(f"{seed}\x00{id_}".encode(errors="replace")).digest())
    count = len(circle)
    target = max((count + 1) // 2, round(share * count * (count - 1) / 2))
    pairs: set[frozenset[str]] = set()
    for distance in range(1, count // 2 + 1):
        for index in (*range(0, count, 2), *range(1, count, 2)):
            if len(pairs) < target:
                pairs.add(frozenset((circle[index], circle[(index + distance) % count])))
    return pairs


async def _score(item: Item, ask: Ask, *, by_image: bool, share: float, seed: int) -> Score:
    """Compare an image with the others of its prompt, and score it by the mean of these comparisons.

    Args:
        item: The image.
        ask: Asks the models; `ask.siblings` are the other images.
        by_image: Whether the judge sees the images; if not, it reads their descriptions.
        share: Share of all comparisons of the prompt that is drawn.
        seed: Of the draw.

    Raises:
        Unanswered: No comparison has an answer.
    """
    if not ask.siblings:
        return Score.none(Status.BAD_INPUT, "there is no other image of this prompt to compare with")
    if item.image is None and by_image:
        return Score.none(Status.BAD_INPUT, "this metric needs images")
    others = ask.siblings
    if share < 1:
        pairs = drawn((item.id, *(other.id for other in others)), share, seed)
        others = [other for other in others if frozenset((item.id, other.id)) in pairs]
    answers = await gather_answers(*(_both_orders(item, other, ask, by_image=by_image) for other in others))
    failures = [answer for answer in answers if isinstance(answer, Unanswered)]
    duels = [answer for answer in answers if not isinstance(answer, Unanswered)]
    if not duels:
        raise failures[0]
    parts = Duels(
        duels=duels,
        unanswered=len(failures),
        order_effect=sum(duel["order_decided"] for duel in duels) / len(duels),
        first_advantage=sum(duel["shown_first"] - duel["shown_second"] for duel in duels) / len(duels),
    )
    if share < 1:
        parts["against"] = {duel["other"]: duel["points"] for duel in duels}
    return Score.of(sum(duel["points"] for duel in duels) / len(duels), **parts)


@metric("pairwise", roles=("judge",), range=(0, 1), source="titjudge", scope="prompt")
async def pairwise(item: Item, ask: Ask, *, duels: Share = 1.0, seed: Seed = 0) -> Score:
    """Mean of the comparisons with the other images of the prompt, two images at a time, in both orders."""
    return await _score(item, ask, by_image=True, share=duels, seed=seed)


@metric("pairwise-text", roles=("captioner", "judge"), range=(0, 1), source="titjudge", scope="prompt")
async def pairwise_text(item: Item, ask: Ask, *, duels: Share = 1.0, seed: Seed = 0) -> Score:
    """Compare descriptions instead of images: the judge reads two descriptions with the prompt, in both orders."""
    return await _score(item, ask, by_image=False, share=duels, seed=seed)
