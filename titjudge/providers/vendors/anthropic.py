"""Anthropic's models: the parameters and abilities of each family, and the costs of images and batch jobs.

Rows follow its documentation ("Models overview", "Migration guide"), as known in
November 2026; none was tried against a live service.
"""

from __future__ import annotations

import math
from datetime import date
from typing import Any

from titjudge.providers.vendors.base import LOCAL_ONLY, BatchDiscount, Family, ImageRule, Rule, Vendor, grid

_SOURCE = "Anthropic, 'Images and vision', image costs (platform.claude.com/docs/en/build-with-claude/vision)"
_OMIT = LOCAL_ONLY - {"top_k"} | set(
    (
        "seed detail logprobs top_logprobs logit_bias frequency_penalty presence_penalty thinking_level "
        "media_resolution"
    ).split()
)
_FIXED_SAMPLING = _OMIT | {"temperature", "top_p", "top_k"}
# "Building with extended thinking" of Anthropic: no temperature but 1, no top_k; thinking counts as output.
_ON_REQUEST: dict[str, Any] = {"thinking_asked": 8_192, "omit_thinking": frozenset({"temperature", "top_k"})}


def claude(longest: int, most: int) -> Rule:
    """Make the rule of Claude: shrunk to `longest` pixels a side and `most` tokens; the larger of w*h/750 and 28-pixel patches."""

    def rule(width: int, height: int, detail: str) -> int:
        scale = min(1.0, longest / max(width, height))
        width_, height_ = width * scale, height * scale
        return min(most, max(math.ceil(width_ * height_ / 750), grid(width_, height_, 28)))

    return rule


ANTHROPIC = Vendor(
    name="anthropic",
    model_names=r"claude",
    families=(
        Family("claude-3", r"claude-3", _OMIT, max_output=8_192, **_ON_REQUEST),
        Family("claude-4", r"claude-(opus|sonnet|haiku)-4(-[0-6])?(?!-[7-9])", _OMIT, max_output=64_000, **_ON_REQUEST),
        Family("claude-4.7 and later", r"claude", _FIXED_SAMPLING, max_output=128_000, **_ON_REQUEST),
    ),
    image_rules=(
        ImageRule(r"claude-(3|(opus|sonnet|haiku)-4(-[0-6])?(?!-[7-9])|2)", claude(1568, 1600), _SOURCE),
        ImageRule(r"", claude(2576, 4784), _SOURCE),
    ),
    batch_discounts=(BatchDiscount(0.5, date(2024, 10, 8), "https://www.anthropic.com/news/message-batches-api"),),
)
