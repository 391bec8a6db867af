"""Count the tokens of images and texts without any tokenizer, exactly where a provider publishes its rule.

`RULES` is the one table: a pattern over model names, a rule, and where the rule is published. What is booked is always the
usage in the answer; these numbers are for the price before a run and for what is reserved under a cap.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import orjson

from titjudge.core import registry
from titjudge.core.types import Request
from titjudge.providers.model_families import bare, vendor

Rule = Callable[[int, int, str], int]

_OPENAI = "OpenAI, 'Images and vision', calculating costs (platform.openai.com/docs/guides/images-vision)"
_GOOGLE = "Google, 'Image understanding' and 'Media resolution' (ai.google.dev/gemini-api/docs)"
_CLAUDE = "Anthropic, 'Images and vision', image costs (platform.claude.com/docs/en/build-with-claude/vision)"
_QWEN = "Qwen2-VL paper, section 2.1 (arXiv 2409.12191), and smart_resize of its image processor"
_QWEN3 = "Qwen3-VL report, section 2 (arXiv 2511.21631): patches of 16 merged two by two"


def tiles(base: int, tile: int) -> Rule:
    """Make the rule of OpenAI's tiles: fit in 2048 x 2048, shortest side to 768, then `base` + `tile` for each 512-pixel square."""

    def rule(width: int, height: int, detail: str) -> int:
        if detail == "low":
            return base
        scale = min(1.0, 2048 / max(width, height))
        width_, height_ = width * scale, height * scale
        scale = min(1.0, 768 / min(width_, height_))
        return base + tile * _grid(width_ * scale, height_ * scale, 512)

    return rule


def patches(multiplier: float, cap: int = 1536, original: int | None = None) -> Rule:
    """Make the rule of OpenAI's patches: 32-pixel squares, at most `cap` of them (`original` at that detail), times a multiplier."""

    def rule(width: int, height: int, detail: str) -> int:
        limit = original if original and detail == "original" else cap
        count = _grid(width, height, 32)
        if count > limit:
            shrink = math.sqrt(limit * 32 * 32 / (width * height))
            across, down = width * shrink / 32, height * shrink / 32
            shrink *= min(max(1, math.floor(across)) / across, max(1, math.floor(down)) / down)
            count = min(_grid(width * shrink, height * shrink, 32), limit)
        return math.ceil(count * multiplier)

    return rule


def gemini_tiles(width: int, height: int, detail: str) -> int:
    """Count for Gemini to 2.5: 258 for sides of at most 384, else for each tile of min(sides)/1.5 (256 to 768) pixels."""
    if max(width, height) <= 384:
        return 258
    unit = min(768, max(256, min(width, height) * 2 // 3))
    return 258 * _grid(width, height, unit)


def gemini_budget(width: int, height: int, detail: str) -> int:
    """Count for Gemini from 3: a fixed number for each media resolution, whatever the size."""
    return {"low": 280, "medium": 560, "ultra_high": 2240}.get(detail.removeprefix("media_resolution_"), 1120)


def claude(longest: int, most: int) -> Rule:
    """Make the rule of Claude: shrunk to `longest` pixels a side and `most` tokens; the larger of w*h/750 and 28-pixel patches."""

    def rule(width: int, height: int, detail: str) -> int:
        scale = min(1.0, longest / max(width, height))
        width_, height_ = width * scale, height * scale
        return min(most, max(math.ceil(width_ * height_ / 750), _grid(width_, height_, 28)))

    return rule


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
    """Count for a model without a published rule: the largest of what others take.

    16-pixel patches of the image within 1024 x 1024 (Pixtral), 28-pixel patches of all of it (Qwen-VL), and the 3,328
    of thirteen 448-pixel tiles (InternVL).
    """
    scale = min(1.0, 1024 / max(width, height))
    return max(_grid(width * scale, height * scale, 16), _grid(width, height, 28), 3_328)


def _grid(width: float, height: float, unit: int) -> int:
    return math.ceil(round(width / unit, 6)) * math.ceil(round(height / unit, 6))


@dataclass(frozen=True, slots=True)
class ImageRule:
    """One row: models of `vendor` (any when empty) whose name matches `pattern`, and where the rule is published.

    `margin` is added for a bound where more than the published number was seen billed.
    """

    vendor: str
    pattern: str
    rule: Rule
    source: str
    margin: int = 0


# The first row that matches counts. Rows marked conservative are above what was seen billed.
RULES: tuple[ImageRule, ...] = (
    ImageRule("openai", r"gpt-4o-mini", tiles(2833, 5667), _OPENAI),
    ImageRule("openai", r"(chat)?gpt-4o|gpt-4\.5|gpt-4-|gpt-4\.1$|gpt-4\.1-\d", tiles(85, 170), _OPENAI),
    ImageRule("openai", r"(gpt-4\.1|gpt-5(\.\d+)?)-mini", patches(1.62), _OPENAI),
    ImageRule("openai", r"(gpt-4\.1|gpt-5(\.\d+)?)-nano", patches(2.46), _OPENAI),
    ImageRule("openai", r"o4-mini", patches(1.72), _OPENAI),
    ImageRule("openai", r"o[1-9]\b", tiles(75, 150), _OPENAI),
    ImageRule("openai", r"gpt-5$|gpt-5-|gpt-5\.1", tiles(70, 140), _OPENAI),
    ImageRule(
        "openai", r"gpt-5\.[23]", patches(1.2), _OPENAI + "; multiplier as billed, community.openai.com/t/1372291"
    ),
    ImageRule("openai", r"gpt-5\.4", patches(1.2, 2500, 10_000), _OPENAI + "; conservative"),
    ImageRule("openai", r"gpt-[5-9]", patches(1.2, 10_000, 10_000), _OPENAI + "; conservative"),
    ImageRule("gemini", r"gemini-(1|2)|gemma", gemini_tiles, _GOOGLE, margin=258),
    ImageRule("gemini", r"", gemini_budget, _GOOGLE),
    ImageRule("anthropic", r"claude-(3|(opus|sonnet|haiku)-4(-[0-6])?(?!-[7-9])|2)", claude(1568, 1600), _CLAUDE),
    ImageRule("anthropic", r"", claude(2576, 4784), _CLAUDE),
    ImageRule("", r".*qwen-?3.*-?vl|.*qwen-?3\.\d", qwen(32, 64, 16_384), _QWEN3),
    ImageRule("", r".*qwen.*vl|qvq", qwen(28, 4, 16_384), _QWEN),
    ImageRule("", r"", unknown, "none published; conservative"),
)


@lru_cache(maxsize=256)
def image_rule(provider: str, model: str) -> ImageRule:
    """Find the row for a model: of those that the provider's class has (`image_rules`), else of `RULES`."""
    maker, name = registry.vendor(provider), bare(model)
    maker = maker if maker in ("gemini", "anthropic") else vendor(model)
    rows: tuple[ImageRule, ...] = (*getattr(registry.provider_class(provider), "image_rules", ()), *RULES)
    return next(row for row in rows if row.vendor in ("", maker) and re.match(row.pattern, name))


def image_tokens(provider: str, model: str, width: int, height: int, detail: str = "") -> int:
    """Count the tokens of one image of `width` x `height` pixels, as its provider counts input.

    `detail` is OpenAI's low, high or original, or Gemini's media resolution; empty means the provider's default.

    >>> image_tokens("openai", "gpt-4o", 1024, 1024), image_tokens("gemini", "gemini-2.5-pro", 1024, 1024)
    (765, 1032)
    """
    return image_rule(provider, model).rule(max(1, width), max(1, height), detail.lower())


def text_tokens_bound(text: str) -> int:
    """Bound the tokens of a text by a number that no tokenizer exceeds: its bytes in UTF-8.

    Byte-level BPE (GPT, Qwen, Llama 3) and SentencePiece with byte fallback (Gemini, Llama 2) make no token of less
    than a byte, so this holds for any text, with no vocabulary to download; plain English takes about a quarter.
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_PIECES = re.compile(r"[A-Za-z]+|\d+|[^\sA-Za-z\d]")


def text_tokens_estimate(text: str) -> int:
    """Estimate the tokens of a text: for prices before a run, not for a cap.

    One token for a word of up to seven ASCII letters and one more for each five beyond, one for three digits, one for
    any other sign, two for a sign beyond U+FFFF: 2 to 10% above cl100k_base and o200k_base on English prose.
    """
    count = 0
    for piece in _PIECES.findall(text):
        first = piece[0]
        if first.isascii():
            count += (
                -(-len(piece) // 3) if first.isdigit() else 1 + max(0, len(piece) - 3) // 5 if first.isalpha() else 1
            )
        else:
            count += 2 if ord(first) > 0xFFFF else 1
    return count


_PER_MESSAGE, _PER_REQUEST = 8, 16  # role markers and the start of the answer, generously
_PER_TOOLS = 1000  # what a provider tells its model about calling tools (Anthropic: up to some 800)


def tools_text(request: Request) -> str:
    """Write everything that tools add to a request as one text: tools, calls with ids and signatures, results."""
    texts = [f"{tool.name} {tool.description} {orjson.dumps(tool.parameters).decode()}" for tool in request.tools]
    for message in request.messages:
        texts += [f"{call.name} {call.arguments} {call.id} {call.signature}" for call in message.calls]
        texts += [f"{each.call.name} {each.call.id} {each.text}" for each in message.results]
    return "\n".join(texts)


def input_bound(
    request: Request, provider: str, model: str, params: Mapping[str, object], extra: str = ""
) -> tuple[int, int]:
    """Bound the tokens that a request sends, as (all input, the images in it); `extra` is text that a provider adds."""
    detail = str(params.get("detail") or params.get("media_resolution") or "").lower()
    text = sum(
        text_tokens_bound(part) for message in request.messages for part in message.parts if isinstance(part, str)
    )
    rule = image_rule(provider, model)
    images = sum(rule.rule(max(1, each.width), max(1, each.height), detail) + rule.margin for each in request.images)
    if request.tools:
        text += _PER_TOOLS + text_tokens_bound(tools_text(request))
    overhead = _PER_REQUEST + _PER_MESSAGE * len(request.messages)
    if params.get("body"):
        text += text_tokens_bound(orjson.dumps(params["body"]).decode())
    return text + text_tokens_bound(extra) + images + overhead, images
