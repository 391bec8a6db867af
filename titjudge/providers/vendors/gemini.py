"""Google's models: the parameters and abilities of each family, and the costs of images and batch jobs.

Rows follow its documentation ("Thinking", "Gemini models", "What's new in Gemini 3.6 Flash and 3.5 Flash-Lite"), as known in
November 2026; none was tried against a live service.
"""

from __future__ import annotations

from datetime import date

from titjudge.providers.vendors.base import LOCAL_ONLY, ON_REASONING, BatchDiscount, Family, ImageRule, Vendor, grid

_SOURCE = "Google, 'Image understanding' and 'Media resolution' (ai.google.dev/gemini-api/docs)"
_OMIT = LOCAL_ONLY - {"top_k"} | set("detail reasoning_effort frequency_penalty presence_penalty logit_bias".split())
_NO_THINKING = _OMIT | {"thinking_budget", "thinking_level"}
_BY_BUDGET = _OMIT | {"thinking_level"}
_OWN_SAMPLING = _OMIT | {"temperature", "top_p", "top_k"}  # ignored, and an error in later models


def gemini_tiles(width: int, height: int, detail: str) -> int:
    """Count for Gemini to 2.5: 258 for sides of at most 384, otherwise for each tile of min(sides)/1.5 (256 to 768) pixels."""
    if max(width, height) <= 384:
        return 258
    unit = min(768, max(256, min(width, height) * 2 // 3))
    return 258 * grid(width, height, unit)


def gemini_budget(width: int, height: int, detail: str) -> int:
    """Count for Gemini from 3: a fixed number for each media resolution, whatever the size."""
    return {"low": 280, "medium": 560, "ultra_high": 2240}.get(detail.removeprefix("media_resolution_"), 1120)


GEMINI = Vendor(
    name="gemini",
    model_names=r"gemini|gemma",
    families=(
        Family("gemma", r"gemma", _NO_THINKING, max_output=8_192, schema=False, system=False, tools=False),
        Family("gemini-2.0", r"gemini-(1|2\.0)", _NO_THINKING, max_output=8_192),
        Family("gemini-2.5-flash-lite", r"gemini-2\.5-flash-lite", _BY_BUDGET, thinks=True, max_output=65_536),
        Family("gemini-2.5", r"gemini-2\.5", _BY_BUDGET, thinks=True, thinking=8_192, max_output=65_536),
        Family("gemini-3", r"gemini-3(-|\.[0-4](?!\d)|\.5(?!-flash-lite)(?!\d))", _OMIT, **ON_REASONING),
        Family(
            "gemini-3.5-flash-lite, 3.6 and later",
            r"gemini-([3-9]|flash(-lite)?-latest)",
            _OWN_SAMPLING,
            **ON_REASONING,
        ),
        Family("gemini, unknown", r"", _OMIT, **ON_REASONING),
    ),
    image_rules=(
        ImageRule(r"gemini-(1|2)|gemma", gemini_tiles, _SOURCE, margin=258),
        ImageRule(r"", gemini_budget, _SOURCE),
    ),
    batch_discounts=(
        BatchDiscount(
            0.5,
            date(2025, 7, 7),
            "https://developers.googleblog.com/scale-your-ai-workloads-batch-mode-gemini-api",
        ),
    ),
)
