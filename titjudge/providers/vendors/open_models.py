"""Open models, on servers that speak OpenAI's language, and every model of which nothing is known.

A model without a row is assumed to accept everything; its server rejects what it does not take.
"""

from __future__ import annotations

import math

from titjudge.providers.vendors.base import ON_REASONING, Family, ImageRule, Rule, Vendor, grid

_OMIT = frozenset({"thinking_budget", "thinking_level", "media_resolution"})
_THINKERS = r".*(thinking|reasoning|reasoner)|qwq|qvq|.*\br1\b"  # models that always think, by their names
_QWEN = "Qwen2-VL paper, section 2.1 (arXiv 2409.12191), and smart_resize of its image processor"
_QWEN3 = "Qwen3-VL report, section 2 (arXiv 2511.21631): patches of 16 merged two by two"


def qwen(unit: int, least: int, most: int) -> Rule:
    """Make the rule of Qwen-VL: sides rounded to multiples of `unit` pixels, between `least` and `most` tokens, and two markers."""

    def rule(width: int, height: int, detail: str) -> int:
        across, down = max(1, round(width / unit)), max(1, round(height / unit))
        area = width * height
        if across * down > most:
            shrink = math.sqrt(area / (most * unit * unit))
            across, down = max(1, math.floor(width / shrink / unit)), max(1, math.floor(height / shrink / unit))
        elif across * down < least:
            grow = math.sqrt(least * unit * unit / area)
            across, down = math.ceil(width * grow / unit), math.ceil(height * grow / unit)
        return across * down + 2

    return rule


def unknown(width: int, height: int, detail: str) -> int:
    """Count for a model without a published rule: the largest count of the other rules.

    16-pixel patches of the image within 1024 x 1024 (Pixtral), 28-pixel patches of all of it (Qwen-VL), and the 3,328
    of thirteen 448-pixel tiles (InternVL).
    """
    scale = min(1.0, 1024 / max(width, height))
    return max(grid(width * scale, height * scale, 16), grid(width, height, 28), 3_328)


OPEN_MODELS = Vendor(
    name="",
    model_names="",
    families=(
        Family("compatible, thinking", _THINKERS, _OMIT, tools=False, **ON_REASONING),
        Family("compatible", "", _OMIT, tools=False),
    ),
    image_rules=(
        ImageRule(r".*qwen-?3.*-?vl|.*qwen-?3\.\d", qwen(32, 64, 16_384), _QWEN3),
        ImageRule(r".*qwen.*vl|qvq", qwen(28, 4, 16_384), _QWEN),
        ImageRule(r"", unknown, "none published; conservative"),
    ),
)
