"""Count the tokens of images and texts without any tokenizer, exactly where a provider publishes its rule.

The booked usage is always the usage in the answer. These numbers are for the price before a run and for the amount
reserved under a cap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import orjson

from titjudge.core.types import ImageFile, Request
from titjudge.data.images import scaled
from titjudge.providers.vendors import image_rule


def fitted(request: Request) -> Request:
    """Scale the images of a request by its `squash` and `max_side`, and take both out of its parameters."""
    squash, side = int(request.params.get("squash") or 0), int(request.params.get("max_side") or 0)
    if not (squash or side):
        return request
    params = {name: value for name, value in request.params.items() if name not in ("squash", "max_side")}
    messages = []
    for message in request.messages:
        parts = tuple(part if isinstance(part, str) else _fitted(part, squash, side) for part in message.parts)
        messages.append(replace(message, parts=parts))
    return replace(request, params=params, messages=tuple(messages))


def _fitted(image: ImageFile, squash: int, side: int) -> ImageFile:
    width, height = image.width, image.height
    squashed = bool(squash) and max(width, height) > squash
    if squashed:
        width = height = squash
    if side and (longest := max(width, height)) > side:
        width, height = (max(1, round(side_length * side / longest)) for side_length in (width, height))
    if (width, height) == (image.width, image.height):
        return image
    jpeg = image.media_type == "image/jpeg" and not squashed  # squashed pixels are sent as they are, without loss
    media_type = "image/jpeg" if jpeg else "image/png"
    key = f"{image.sha256} {'squashed' if squashed else 'fitted'} {width} {height}"  # of the cache of encoded images

    def load() -> bytes:
        return scaled(image.load(), image.path, (width, height), jpeg=not squashed)

    return ImageFile(key, media_type, width, height, image.path, load)


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
    than a byte, so this is true for any text, with no vocabulary to download; plain English takes about a quarter.
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_PIECES = re.compile(r"(?<![A-Za-z])[A-Za-z]{1,7}|[A-Za-z]{1,5}|\d{1,3}|[^\sA-Za-z\d]")


def text_tokens_estimate(text: str) -> int:
    """Estimate the tokens of a text: for prices before a run, not for a cap.

    One token for a word of up to seven ASCII letters and one more for each five beyond, one for three digits, one for
    any other sign, two for a sign beyond U+FFFF: 2 to 10% above cl100k_base and o200k_base on English prose.
    """
    beyond = 0 if text.isascii() else sum(char > "\uffff" for char in text)
    return len(_PIECES.findall(text)) + beyond


_SMALL_IMAGE = 64  # tokens; few models read an image with less


def input_least(request: Request, provider: str, model: str) -> int:
    """Return a number of tokens that a request with images hardly falls below: a token for each word, and the images.

    A server that reports less has most likely not shown the images to the model.
    """
    tokens, rule = 0, image_rule(provider, model).rule
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, str):
                tokens += len(part.split())
            else:
                tokens += min(_SMALL_IMAGE, rule(max(1, part.width), max(1, part.height), "low"))
    return tokens


_PER_MESSAGE, _PER_REQUEST = 8, 16  # role markers and the start of the answer, generously
_PER_TOOLS = 1000  # a provider's instructions to its model about calling tools (Anthropic: up to some 800)


def tools_text(request: Request) -> str:
    """Write everything that tools add to a request as one text: tools, calls with ids and signatures, results."""
    texts = [f"{tool.name} {tool.description} {orjson.dumps(tool.parameters).decode()}" for tool in request.tools]
    for message in request.messages:
        texts += [f"{call.name} {call.arguments} {call.id} {call.signature}" for call in message.calls]
        texts += [f"{result.call.name} {result.call.id} {result.text}" for result in message.results]
    return "\n".join(texts)


def input_bound(
    request: Request, provider: str, model: str, params: Mapping[str, object], extra: str = ""
) -> tuple[int, int]:
    """Bound the tokens that a request sends, as (all input, the images in it); `extra` is text that a provider adds."""
    detail = str(params.get("detail") or params.get("media_resolution") or "").lower()
    text, images, rule = 0, 0, image_rule(provider, model)
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, str):
                text += text_tokens_bound(part)
            else:
                images += rule.rule(max(1, part.width), max(1, part.height), detail) + rule.margin
    if request.tools:
        text += _PER_TOOLS + text_tokens_bound(tools_text(request))
    overhead = _PER_REQUEST + _PER_MESSAGE * len(request.messages)
    if params.get("body"):
        text += text_tokens_bound(orjson.dumps(params["body"]).decode())
    return text + text_tokens_bound(extra) + images + overhead, images
