"""OpenAI's models: the parameters and abilities of each family, and the costs of images and batch jobs.

Rows follow its documentation ("Reasoning models", "Images and vision"), as known in
November 2026; none was tried against a live service.
"""

from __future__ import annotations

import math
from datetime import date
from typing import Any

from titjudge.providers.vendors.base import LOCAL_ONLY, BatchDiscount, Family, ImageRule, Rule, Vendor, grid

_SOURCE = "OpenAI, 'Images and vision', calculating costs (platform.openai.com/docs/guides/images-vision)"
_SAMPLING = set("temperature top_p frequency_penalty presence_penalty logprobs top_logprobs logit_bias".split())
_OMIT = LOCAL_ONLY | {"thinking_budget", "thinking_level", "media_resolution"}
_REASONS: dict[str, Any] = {
    "omit": _OMIT | _SAMPLING | {"stop"},
    "limit_name": "max_completion_tokens",
    "thinks": True,
    "thinking": 8_192,
}


def tiles(base: int, tile: int) -> Rule:
    """Make the rule of OpenAI's tiles: fit in 2048 x 2048, shortest side to 768, then `base` + `tile` for each 512-pixel square."""

    def rule(width: int, height: int, detail: str) -> int:
        if detail == "low":
            return base
        scale = min(1.0, 2048 / max(width, height))
        width_, height_ = width * scale, height * scale
        scale = min(1.0, 768 / min(width_, height_))
        return base + tile * grid(width_ * scale, height_ * scale, 512)

    return rule


def patches(multiplier: float, cap: int = 1536, original: int | None = None) -> Rule:
    """Make the rule of OpenAI's patches: 32-pixel squares, at most `cap` of them (`original` at that detail), times a multiplier."""

    def rule(width: int, height: int, detail: str) -> int:
        limit = original if original and detail == "original" else cap
        count = grid(width, height, 32)
        if count > limit:
            shrink = math.sqrt(limit * 32 * 32 / (width * height))
            across, down = width * shrink / 32, height * shrink / 32
            shrink *= min(max(1, math.floor(across)) / across, max(1, math.floor(down)) / down)
            count = min(grid(width * shrink, height * shrink, 32), limit)
        return math.ceil(count * multiplier)

    return rule


OPENAI = Vendor(
    name="openai",
    model_names=r"(chat)?gpt-\d|o[1-9]\b",
    families=(
        Family("gpt-5-chat", r"gpt-5(\.\d+)?-chat", _OMIT, tools=False),
        Family("o1, first", r"o1-mini|o1-preview", max_output=100_000, images=False, tools=False, **_REASONS),
        Family("o-series, text only", r"o3-mini", max_output=100_000, images=False, **_REASONS),
        Family("o-series", r"o[1-9]\b", max_output=100_000, **_REASONS),
        Family("gpt-5", r"gpt-5(\.1)?(?!\.)", max_output=128_000, **_REASONS),
        Family("gpt-5.2 and later", r"(gpt|chatgpt)-[5-9]", max_output=128_000, tools=False, **_REASONS),
        Family("gpt-4.1", r"gpt-4\.1", _OMIT, max_output=32_768),
        Family("gpt-4o", r"(chat)?gpt-4o|gpt-4\.5", _OMIT),
        Family("gpt-4-turbo", r"gpt-4-(turbo|vision)", _OMIT, max_output=4_096, schema=False),
        Family("gpt-4, text only", r"gpt-(4|3\.5)\b", _OMIT, max_output=8_192, images=False, schema=False),
    ),
    image_rules=(
        ImageRule(r"gpt-4o-mini", tiles(2833, 5667), _SOURCE),
        ImageRule(r"(chat)?gpt-4o|gpt-4\.5|gpt-4-|gpt-4\.1$|gpt-4\.1-\d", tiles(85, 170), _SOURCE),
        ImageRule(r"(gpt-4\.1|gpt-5(\.\d+)?)-mini", patches(1.62), _SOURCE),
        ImageRule(r"(gpt-4\.1|gpt-5(\.\d+)?)-nano", patches(2.46), _SOURCE),
        ImageRule(r"o4-mini", patches(1.72), _SOURCE),
        ImageRule(r"o[1-9]\b", tiles(75, 150), _SOURCE),
        ImageRule(r"gpt-5$|gpt-5-|gpt-5\.1", tiles(70, 140), _SOURCE),
        ImageRule(r"gpt-5\.[23]", patches(1.2), _SOURCE + "; multiplier as billed, community.openai.com/t/1372291"),
        ImageRule(r"gpt-5\.4", patches(1.2, 2500, 10_000), _SOURCE + "; conservative"),
        ImageRule(r"gpt-[5-9]", patches(1.2, 10_000, 10_000), _SOURCE + "; conservative"),
    ),
    batch_discounts=(BatchDiscount(0.5, date(2024, 4, 15), "https://platform.openai.com/docs/guides/batch"),),
)
