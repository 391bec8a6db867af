"""The vendors of models that titjudge knows: parameters, thinking, image tokens and batch discounts of their models.

The rows are in `vendors.toml`. Sizes are pixels, limits are tokens, discounts are factors from 0 to 1.

A provider of another package declares on its class the types of its models (`families`, `image_rules`), or their vendor
(`vendor`).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from titjudge.core import registry
from titjudge.core.answer_probabilities import TOP
from titjudge.core.types import Json, Request, Values
from titjudge.providers.base import Capabilities

Rule = Callable[[int, int, str], int]
"""From width and height in pixels and the detail that is asked for, the tokens of an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family(Capabilities):
    """Accepted parameters and abilities of the models that a pattern matches.

    Attributes:
        pattern: Regular expression that the beginning of a model's name matches.
        limit_name: What `max_tokens` is called in a request.
        thinks: Hidden tokens are billed as output.
        max_output: Bounds the tokens of an answer for which no `max_tokens` is set.
        system: It takes a system turn.
        tools: It calls tools in chat completions (OpenAI's from 5.2 on, which reason, do so on another address only).
    """

    name: str
    pattern: str
    limit_name: str = "max_tokens"
    thinks: bool = False
    max_output: int = 16_384
    system: bool = True
    schema: bool = True
    tools: bool = True

    def sent(self, request: Request) -> Json:
        """Return the parameters that are sent: the request's, without those the family rejects."""
        logprobs = {"logprobs": True, "top_logprobs": TOP} if request.choices else {}
        params = {**logprobs, **request.params}
        left_out = self.left_out(params)
        return {name: value for name, value in params.items() if name not in left_out and value is not None}


@dataclass(frozen=True, slots=True)
class ImageRule:
    """How many tokens an image has for the models that a pattern matches.

    Attributes:
        pattern: Regular expression that the beginning of a model's name matches.
        rule: Returns the tokens of an image from width and height in pixels, and `detail`.
        margin: Tokens that are added for a bound, if more than the published number was seen billed.
    """

    pattern: str
    rule: Rule
    margin: int = 0


@dataclass(frozen=True, slots=True)
class BatchDiscount:
    """The cost of a vendor's batch jobs relative to its list price, from a date on.

    Attributes:
        factor: Of the list price, 0 to 1.
        since: The first day.
        source: The announcement.
    """

    factor: float
    since: date
    source: str


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor; its key in `VENDORS` is as `Provider.vendor` and genai-prices call it.

    Attributes:
        model_names: Regular expression that the beginning of its models' names matches.
        families: The parameters its models accept; the first row that matches counts.
        image_rules: How many tokens an image has for them; the first row that matches counts.
        batch_discounts: The cost of batch jobs; the newest one that is in force counts.
    """

    model_names: str
    families: tuple[Family, ...]
    image_rules: tuple[ImageRule, ...]
    batch_discounts: tuple[BatchDiscount, ...] = ()


def grid(width: float, height: float, unit: int) -> int:
    """Count the squares of `unit` pixels that cover an area of these pixels."""
    return math.ceil(round(width / unit, 6)) * math.ceil(round(height / unit, 6))


def tiles(base: int, tile: int, width: int, height: int, detail: str) -> int:
    """Count OpenAI's tiles: fit in 2048 x 2048, shortest side to 768, then `base` + `tile` for each 512-pixel square."""
    if detail == "low":
        return base
    scale = min(1.0, 2048 / max(width, height))
    width_, height_ = width * scale, height * scale
    scale = min(1.0, 768 / min(width_, height_))
    return base + tile * grid(width_ * scale, height_ * scale, 512)


def patches(multiplier: float, cap: int, original: int, width: int, height: int, detail: str) -> int:
    """Count OpenAI's patches: 32-pixel squares, at most `cap` of them (`original` at that detail), times a multiplier."""
    limit = original if detail == "original" else cap
    count = grid(width, height, 32)
    if count > limit:
        shrink = math.sqrt(limit * 32 * 32 / (width * height))
        across, down = width * shrink / 32, height * shrink / 32
        shrink *= min(max(1, math.floor(across)) / across, max(1, math.floor(down)) / down)
        count = min(grid(width * shrink, height * shrink, 32), limit)
    return math.ceil(count * multiplier)


def gemini_tiles(width: int, height: int, detail: str) -> int:
    """Count for Gemini to 2.5: 258 for sides of at most 384, otherwise for each tile of min(sides)/1.5 (256 to 768) pixels."""
    if max(width, height) <= 384:
        return 258
    unit = min(768, max(256, min(width, height) * 2 // 3))
    return 258 * grid(width, height, unit)


def gemini_budget(width: int, height: int, detail: str) -> int:
    """Count for Gemini from 3: a fixed number for each media resolution, whatever the size."""
    return {"low": 280, "medium": 560, "ultra_high": 2240}.get(detail.removeprefix("media_resolution_"), 1120)


def claude(longest: int, most: int, width: int, height: int, detail: str) -> int:
    """Count for Claude: shrunk to `longest` pixels a side and `most` tokens; the larger of w*h/750 and 28-pixel patches."""
    scale = min(1.0, longest / max(width, height))
    width_, height_ = width * scale, height * scale
    return min(most, max(math.ceil(width_ * height_ / 750), grid(width_, height_, 28)))


def qwen(unit: int, least: int, most: int, width: int, height: int, detail: str) -> int:
    """Count for Qwen-VL: sides rounded to multiples of `unit` pixels, between `least` and `most` tokens, and two markers."""
    across, down = max(1, round(width / unit)), max(1, round(height / unit))
    area = width * height
    if across * down > most:
        shrink = math.sqrt(area / (most * unit * unit))
        across, down = max(1, math.floor(width / shrink / unit)), max(1, math.floor(height / shrink / unit))
    elif across * down < least:
        grow = math.sqrt(least * unit * unit / area)
        across, down = math.ceil(width * grow / unit), math.ceil(height * grow / unit)
    return across * down + 2


def unknown(width: int, height: int, detail: str) -> int:
    """Count for a model without a published rule: the largest count of the other rules.

    16-pixel patches of the image within 1024 x 1024 (Pixtral), 28-pixel patches of all of it (Qwen-VL), and the 3,328
    of thirteen 448-pixel tiles (InternVL).
    """
    scale = min(1.0, 1024 / max(width, height))
    return max(grid(width * scale, height * scale, 16), grid(width, height, 28), 3_328)


def _read() -> dict[str, Vendor]:
    """Read `vendors.toml`."""
    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    groups, kinds = content.pop("parameters"), content.pop("kinds")

    def names(words: str) -> frozenset[str]:
        return frozenset().union(*(names(groups[word[1:]]) if word[0] == "@" else {word} for word in words.split()))

    def family_of(row: Values) -> Family:
        values: Json = {**kinds.get(row.get("like"), {}), **row}
        values.pop("like", None)
        values |= {name: names(words) for name, words in values.items() if name.startswith("omit")}
        return Family(**values)

    def rule_of(pattern: str, rule: str, arguments: Any = (), margin: int = 0) -> ImageRule:
        return ImageRule(pattern, partial(globals()[rule], *arguments), margin)

    return {
        name: Vendor(
            table.get("model_names", ""),
            tuple(map(family_of, table["families"])),
            tuple(rule_of(**row) for row in table["image_rules"]),
            tuple(BatchDiscount(**row) for row in table.get("batch_discounts", ())),
        )
        for name, table in content.items()
    }


VENDORS = _read()
OPEN_MODELS = VENDORS.pop("open")


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
    return next((vendor for vendor, row in VENDORS.items() if re.match(row.model_names, name)), "")


def bare(model: str) -> str:
    """Return the model's own name, without prefixes as of `models/gemini-2.5-pro` and `bedrock/eu.anthropic.claude-3`."""
    name = model.rsplit("/", 1)[-1].lower()
    match = re.search(r"(claude|gemini)-.*", name)
    return match.group(0) if match else name
