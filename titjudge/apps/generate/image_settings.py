"""Settings of an image that change its price: how many images are made, how large, how fast.

One table, by vendor. Settings that make more than one image are refused. Sizes are priced by their area. A setting that is not in
the table may change the price of an image, so the price counts as unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from titjudge.core.errors import ConfigError
from titjudge.core.numbers import finite
from titjudge.core.types import Json, Values

MEGAPIXEL = 1024 * 1024
_THINGS = (
    "(image|img|pic|picture|output|sample|result|generation|candidate|variation|variant|prediction|copie|copy|repeat)s?"
)
_COUNTS = re.compile(
    rf"n|num|number|niter|iterations|takes|.*count|num.*(images|imgs|outputs|samples|results)|quantity|amount|bestof|copies|repeat|.*batch.*|sequentialimage.*|(n|nb|nr|num|number|of|max|total|sample|generated)+({_THINGS}|count)+(per.*)?"
    rf"|{_THINGS[:-2]}(s|s?(count|num|number|per.*))"
)
"""Names of settings that say how many images are made, in lower case without `_` and `-`. One image is asked for at a time."""

_ONE = (1, "1", None, False, "disabled", "none", "off")
_SPEEDS = frozenset({"servicetier", "speed", "renderingspeed", "priority"})

_FREE = {
    "": (
        "aspectratio negativeprompt guidance guidancescale cfgscale strength imagepromptstrength outputformat outputcompression "
        "outputmimetype format background moderation user inputfidelity safetytolerance safetysettings safetysetting "
        "safetyfilterlevel enablesafetychecker safetychecker persongeneration language includeraireason addwatermark watermark "
        "enhanceprompt promptupsampling promptextend magicprompt syncmode raw stylepreset extrabody parameters"
    ),
    "fal_ai": "numinferencesteps",  # billed by the output (docs.fal.ai, model APIs, pricing)
    "gemini": "sampleimagesize",  # an Imagen image of 1K and of 2K cost the same (ai.google.dev, Gemini API, pricing)
    "vertex_ai": "sampleimagesize",
    "black_forest_labs": "steps",
}
"""Settings that leave the price of an image as it is, by litellm's name of the vendor; those of "" are of all."""

_FLAT = frozenset({"black_forest_labs", "dashscope", "gemini", "recraft", "stability", "vertex_ai"})
"""Vendors whose models in the price list cost the same in every size that they make."""

_SIZES = frozenset("size imagesize width height megapixels outputmegapixels resolution".split())
_PRICED = _SIZES | _SPEEDS | {"quality"}
_NAMED = {  # of `image_size` at fal.ai (docs.fal.ai)
    "square_hd": (1024, 1024),
    "square": (512, 512),
    "portrait_4_3": (768, 1024),
    "portrait_16_9": (576, 1024),
    "landscape_4_3": (1024, 768),
    "landscape_16_9": (1024, 576),
}
_USUAL = frozenset(
    {"", "none", "false", "auto", "default", "standard", "regular", "normal", "flex", "1k"}
)  # values by which nothing is changed


def check_counts(options: Values) -> None:
    """Refuse settings that make more than one image, also inside of other settings: the others would be paid and thrown away.

    Raises:
        ConfigError: There is one, or a setting that changes the price has two values.
    """
    found: Json = {}
    for name, value in _flattened(options):
        plain = _plain(name)
        if _COUNTS.fullmatch(plain) and not _is_source(value) and (value is True or value not in _ONE):
            raise ConfigError(
                f"--option {name}: titjudge asks for one image at a time, so it must be 1, not {value!r:.40}"
            )
        if plain in _PRICED and str(found.setdefault(plain, value)) != str(value):
            raise ConfigError(
                f"--option {name}: it has two values, {found[plain]!r:.40} and {value!r:.40}. Remove one."
            )


def _is_source(value: Any) -> bool:
    """Whether a value is an image, or a list of images, that the request holds."""
    given = value if isinstance(value, list) and value else [value]
    return all(isinstance(entry, str) and re.match(r"https?:|data:|gs:|s3:", entry) for entry in given)


def is_hurried(options: Values) -> bool:
    """Whether a setting asks for another speed than the usual one, which has another price."""
    return any(_plain(name) in _SPEEDS and str(value).lower() not in _USUAL for name, value in _flattened(options))


def pixels(options: Values) -> tuple[int, int] | None:
    """Return width and height of an image where its settings say them, else None."""
    found: Json = {_plain(name): value for name, value in _flattened(options)}
    width, height = finite(found.get("width")), finite(found.get("height"))
    if width and height:
        return round(width), round(height)
    area = finite(
        str(found.get("megapixels") or found.get("outputmegapixels") or "").lower().removesuffix("mp").strip()
    )
    if area:
        return MEGAPIXEL, math.ceil(area)
    text = str(found.get("size") or found.get("imagesize") or found.get("resolution") or "").strip().lower()
    if text in _NAMED:
        return _NAMED[text]
    match = re.fullmatch(r"(\d{1,6})\s*[x*:×]\s*(\d{1,6})", text)
    return (int(match[1]), int(match[2])) if match else None


def exact_size(options: Values) -> tuple[int, int] | None:
    """Return width and height where the settings ask for these very pixels, and not only for as many."""
    return None if any("megapixels" in _plain(name) for name, _ in _flattened(options)) else pixels(options)


def times(vendor: str, options: Values, *, sized: bool = False) -> int | None:
    """Return by how much the price of an image of one megapixel is to be multiplied; None if that is not known.

    Args:
        vendor: litellm's name of the vendor.
        options: Settings of the image.
        sized: The price holds for this quality and size already.
    """
    named = {_plain(name): value for name, value in _flattened(options)}
    free = {*_FREE[""].split(), *_FREE.get(vendor, "").split(), *(("quality",) if sized else ())}
    for name, value in named.items():
        if name not in free | _SIZES and not _COUNTS.fullmatch(name) and str(value).lower() not in _USUAL:
            return None
    if vendor in _FLAT or not any(str(named.get(name) or "").lower() not in _USUAL for name in _SIZES):
        return 1
    size = pixels(options)
    return None if size is None else 1 if sized else max(1, math.ceil(size[0] * size[1] / MEGAPIXEL))


def _flattened(options: Values) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each setting, those inside of other settings included."""
    for name, value in options.items():
        inner = [entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, Mapping)]
        yield from (pair for entry in inner for pair in _flattened(entry))
        if not inner:
            yield str(name), value


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
