"""How much of the source an edit left as it was, computed from the pixels alone: no model is asked.

It does not show whether the edit was made: an image that was not edited at all preserves everything, and a right edit of the
background or the style preserves little. It is a number to read beside the success of the edit, for generators that have
made the same edits, and is never averaged with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import Field

from titjudge.core import item_meta
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.data.image_changes import THRESHOLD, EditPixels, measured
from titjudge.metrics import metric
from titjudge.metrics._shared import image_of, sources_of

Threshold = Annotated[
    int,
    Field(ge=0, lt=255, description="levels of 255 that a colour may differ by in a pixel that counts as unchanged"),
]
_SOURCE = "computed from the pixels, as in MagicBrush (L1) and PIE-Bench (outside the mask); "


async def _measured(item: Item, measure: Callable[[EditPixels], float]) -> Score:
    """Measure an edit with one source, outside its mask, if any (`meta["mask"]`)."""
    result, sources = image_of(item), sources_of(item)
    if len(sources) > 1:
        reason = f"it has {len(sources)} sources, and it is unknown which of them should stay unchanged"
        return Score.none(Status.BAD_INPUT, reason)
    named = item_meta.MASK.checked(item)
    mask = Path(named) if named and isinstance(named, str) else (named or None)
    value, pixels = await asyncio.to_thread(measured, sources[0], result, mask, measure)
    reason = "the result was scaled to the size of its source" if pixels.resized else ""
    return Score.of(value, reason=reason, outside=float(pixels.outside.mean()), resized=pixels.resized)


@metric("preservation", roles=(), range=(0, 1), version="2", source=_SOURCE + "threshold ours", sources="required")
async def preservation(item: Item, ask: Ask, *, threshold: Threshold = THRESHOLD) -> Score:
    """Share of the source's pixels that an edit left as they were; a large right edit preserves little.

    Parts: outside (share of the image outside the mask, 1 without one), resized.

    Raises:
        DataError: The images cannot be compared.
    """
    return await _measured(item, lambda pixels: pixels.kept(threshold))


@metric(
    "preservation-l1",
    roles=(),
    range=(0, 1),
    version="2",  # 1 compared the colours that transparency hides
    source=_SOURCE + "lower is closer",
    higher_is_better=False,
    sources="required",
)
async def preservation_l1(item: Item, ask: Ask) -> Score:
    """Mean absolute difference of the colours of an edit and its source; a large right edit differs much.

    Parts: as `preservation`.

    Raises:
        DataError: The images cannot be compared.
    """
    return await _measured(item, EditPixels.l1)


@metric(
    "preservation-ssim",
    roles=(),
    range=(-1, 1),
    version="2",  # as above
    source="SSIM, Wang et al. 2004, of the luminance, unscaled",
    sources="required",
)
async def preservation_ssim(item: Item, ask: Ask) -> Score:
    """Structural similarity of an edit and its source; a large right edit is unlike it.

    Parts: as `preservation`.

    Raises:
        DataError: The images cannot be compared.
    """
    return await _measured(item, EditPixels.ssim)
