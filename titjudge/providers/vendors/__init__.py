"""The vendors of models that titjudge knows: parameters, thinking, image tokens and batch discounts of their models.

Each vendor is a file and a line in `VENDORS`. Sizes are pixels, limits are tokens, discounts are factors from 0 to 1.

A provider of another package declares on its class the types of its models (`families`, `image_rules`), or their vendor
(`vendor`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from titjudge.core import registry
from titjudge.providers.vendors.anthropic import ANTHROPIC
from titjudge.providers.vendors.base import BatchDiscount, Family, ImageRule, Vendor
from titjudge.providers.vendors.gemini import GEMINI
from titjudge.providers.vendors.open_models import OPEN_MODELS
from titjudge.providers.vendors.openai import OPENAI

VENDORS: dict[str, Vendor] = {vendor.name: vendor for vendor in (OPENAI, GEMINI, ANTHROPIC)}


@lru_cache(maxsize=256)
def family(vendor: str, model: str, first: tuple[Family, ...] = ()) -> Family:
    """Find the row of parameters that a model accepts: the provider's (`first`), its vendor's, or the open models'.

    >>> family("openai", "o4-mini").limit_name
    'max_completion_tokens'
    """
    name, vendor_row = bare(model), VENDORS.get(registry.VENDOR_NAMES.get(vendor, vendor))
    rows = (*first, *(vendor_row.families if vendor_row else ()), *OPEN_MODELS.families)
    return next(row for row in rows if re.match(row.pattern, name))


@lru_cache(maxsize=256)
def image_rule(provider: str, model: str) -> ImageRule:
    """Find the row that counts a model's images: the provider class's, its vendor's, or the one for its name.

    A server that speaks OpenAI's language may serve any vendor's models.
    """
    name, vendors = bare(model), (VENDORS.get(registry.vendor(provider)), VENDORS.get(vendor_of(model)))
    image_rules = [row for vendor in (*vendors, OPEN_MODELS) if vendor for row in vendor.image_rules]
    rows: tuple[ImageRule, ...] = (*getattr(registry.provider_class(provider), "image_rules", ()), *image_rules)
    return next(row for row in rows if re.match(row.pattern, name))


def thinking_room(model: str) -> int:
    """Return how many tokens an open model thinks before it answers, if its name shows that it does; otherwise 0.

    >>> thinking_room("Qwen/Qwen3-VL-8B-Thinking"), thinking_room("Qwen/Qwen3-VL-8B-Instruct")
    (8192, 0)
    """
    return family("", model).thinking


def vendor_of(model: str) -> str:
    """Return the vendor of a model by its name: openai, gemini, anthropic, or "" if the name does not show it."""
    name = bare(model)
    return next((vendor.name for vendor in VENDORS.values() if re.match(vendor.model_names, name)), "")


def bare(model: str) -> str:
    """Return the model's own name, without prefixes as of `models/gemini-2.5-pro` and `bedrock/eu.anthropic.claude-3`."""
    name = model.rsplit("/", 1)[-1].lower()
    match = re.search(r"(claude|gemini)-.*", name)
    return match.group(0) if match else name


__all__ = [
    "VENDORS", "BatchDiscount", "Family", "ImageRule", "Vendor", "bare", "family", "image_rule", "thinking_room", "vendor_of",
]  # fmt: skip
