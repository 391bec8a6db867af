"""The cost of a generated image: by the tokens that a service reports, or by the image; never litellm's own sum of a request.

The rates come from the price list that litellm bundles, and from the vendors' pages. Nothing here asks the network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, UserError, must_be
from titjudge.core.files import read_yaml
from titjudge.core.numbers import finite
from titjudge.core.types import Json, Usage, Values
from titjudge.engine.prices import MILLION, Price
from titjudge.providers.hosted import litellm_client

FLAG_FORM = "MODEL=USD for each image, for example openai/gpt-image-2=0.05"
_ROUNDED = 1.1  # the list rounds to a tenth of a cent, which is a tenth of the cheapest image
_KNOWN = read_yaml(Path(__file__).with_name("image_prices.yaml"), "prices of images")
_LEFT_OPEN = ("", "auto")  # settings that the service chooses: the most expensive counts


@dataclass(frozen=True, slots=True)
class ImagePrice(Price):
    """Rates of a model that makes images, in USD per million tokens or for each image (`per_request`).

    Attributes:
        text: Of output that is not an image: words and thinking; None: as `output`.
        most_output: Maximum output tokens of one image.
    """

    text: float | None = None
    most_output: int = 0

    def cost(self, usage: Usage) -> float:
        """USD of one request, whose output is an image but for what was thought."""
        words = 0 if self.text is None else min(usage.thinking, usage.output)
        cheaper = words * (self.output - (self.text or 0.0)) / MILLION
        return Price.cost(self, usage) - cheaper


@dataclass(frozen=True, slots=True)
class _SizedRow:
    """USD of an image of one quality and size; `model` is what the list calls it (`fal_ai/openai/gpt-image-2.5/flare/text-to-image`)."""

    model: str
    quality: str
    size: str
    price: float

    @property
    def sides(self) -> tuple[int, int]:
        """Its shorter and its longer side in pixels."""
        shorter, longer = sorted(map(int, self.size.split("x")))
        return shorter, longer

    @property
    def resold(self) -> set[str]:
        """The names that the maker of the model may call it, as `gpt-image-2.5-flare`; none for an edit, which costs more."""
        *_, task = parts = self.model.split("/")
        named = parts[:-1] if task == "text-to-image" else parts
        return set() if task == "edit" else {"-".join(named[first:]) for first in range(len(named))}


def parse_image_price(text: str) -> tuple[str, float]:
    """Read MODEL=USD.

    Raises:
        UserError: The text has another form, or the amount is negative or not finite.
    """
    model, equals, number = text.rpartition("=")
    amount = finite(number)
    if not equals or not model.strip() or amount is None or amount < 0:
        raise UserError(must_be("--image-price", FLAG_FORM, text))
    return model.strip(), amount


def image_price(
    vendor: str, model: str, options: Values, user_prices: Mapping[str, float], *, listed: bool = True
) -> ImagePrice | None:
    """Find the price of an image; None if it is not known.

    Args:
        vendor: litellm's name of the vendor (`openai`, `gemini`), or empty if the model's name begins with it.
        model: The model's name there.
        options: Settings of the image: `size` and `quality` choose among the rows of the list.
        user_prices: USD for each image as the user gives them, by `provider/model` or `model`; they win over the list.
        listed: Whether the vendor's list is valid at the address of the model.
    """
    full = f"{vendor}/{model}" if vendor else model
    for name in (full, f"litellm/{full}", model):
        if name in user_prices:
            return ImagePrice(0.0, 0.0, per_request=user_prices[name], source="given by --image-price")
    if not listed or is_hurried(options):
        return None
    vendor, _, bare = full.rpartition("/") if vendor else full.partition("/")
    names = [name for name in (full, model, bare) if _is_of(name, full, vendor)]
    row = next((_rows()[name] for name in names if name in _rows()), None)
    documented = next((usd for pattern, usd in _KNOWN["documented"].items() if fnmatchcase(full, pattern)), None)
    by_setting = _by_setting([*names, *(other for name, other in _KNOWN["same_as"].items() if name in names)], options)
    if row is not None and row.get("output_cost_per_image_token"):
        return _by_token(row, by_setting)
    listed_price = None if row is None else row.get("output_cost_per_image") or row.get("input_cost_per_image")
    amount = by_setting if by_setting is not None else listed_price or documented
    if by_setting is not None and listed_price and str(options.get("quality") or "").lower() in _LEFT_OPEN:
        amount = max(amount or 0.0, listed_price)
    multiple = times(vendor, options, sized=by_setting is not None)
    if not amount or multiple is None:
        return None
    source = "litellm's price list" if amount != documented else "the vendor's price list"
    return ImagePrice(0.0, 0.0, per_request=amount * multiple, source=source)


def _is_of(name: str, full: str, vendor: str) -> bool:
    """Return True if a name in the list means a model: some models are listed without their vendor."""
    return name == full or _rows().get(name, {}).get("litellm_provider", vendor) == vendor


def _by_token(row: Values, dearest: float | None) -> ImagePrice:
    """Make the price of a model that bills tokens; `dearest` is the USD of the most expensive image of its settings, if known."""
    output = float(row["output_cost_per_image_token"])
    most = math.ceil(dearest * _ROUNDED / output) if dearest else _most_output(row)
    return ImagePrice(
        float(row.get("input_cost_per_token") or 0.0) * MILLION,
        output * MILLION,
        image=_million(row.get("input_cost_per_image_token")),
        source="litellm's price list",
        text=_million(row.get("output_cost_per_token")),
        most_output=most,
    )


def _most_output(row: Values) -> int:
    """Bound the output tokens of an image of which no price by size is listed.

    Google's largest image has 2,520 tokens, and the rest is for thinking (ai.google.dev, Gemini API pricing); OpenAI's
    most expensive has about 13,400 (a 3840 x 2160 image of gpt-image-2 in high quality at 0.401 USD).
    """
    return 4_096 if "text" in (row.get("supported_output_modalities") or ()) else 16_384


def _million(rate: float | None) -> float | None:
    return None if rate is None else rate * MILLION


def _by_setting(names: Collection[str], options: Values) -> float | None:
    """Find the highest price of an image of the quality and size in the settings (`low/1024-x-1024/MODEL`).

    A transposed size costs the same; a size that is not listed costs as much as the next larger area, and beyond the largest
    it is in proportion to the area. None if no row has this quality, or the size cannot be read.
    """
    quality, size = str(options.get("quality") or "").lower(), str(options.get("size") or "").lower()
    rows = [row for row in _sized_rows(names) if quality in _LEFT_OPEN or row.quality == quality]
    wanted = pixels(options)
    if not rows or (size in _LEFT_OPEN and wanted is None):
        return max((row.price for row in rows), default=None)
    if wanted is None:
        return None
    return max(
        _next_larger([row for row in rows if row.quality == each], wanted) for each in {row.quality for row in rows}
    )


def _next_larger(rows: Sequence[_SizedRow], wanted: tuple[int, int]) -> float:
    """Return the price of a size by the rows of one quality."""
    by_size = {row.sides: row.price for row in rows}
    width, height = sorted(wanted)
    if (width, height) in by_size:
        return by_size[width, height]
    larger = [(w * h, price) for (w, h), price in by_size.items() if w * h >= width * height]
    if larger:
        least = min(larger)[0]
        return max(price for area, price in larger if area == least)
    largest, price = max((w * h, price) for (w, h), price in by_size.items())
    return price * width * height / largest


def _sized_rows(names: Collection[str]) -> list[_SizedRow]:
    """Find the rows by size of a model: under its names, otherwise under the names of a service that resells it."""
    same = [row for row in _all_sized_rows() if row.model in names]
    return same or [row for row in _all_sized_rows() if _undated(names) & row.resold]


def _undated(names: Iterable[str]) -> set[str]:
    return {re.sub(r"-\d{4}-\d{2}-\d{2}$", "", name) for name in names}


@cache
def _all_sized_rows() -> list[_SizedRow]:
    """Read the rows whose name contains a size, such as `low/1024-x-1024/gpt-image-1`."""
    rows = [_SizedRow(*row) for row in _KNOWN["sized"]]
    for name, row in _rows().items():
        parts = name.split("/")
        place = next((number for number, part in enumerate(parts) if "-x-" in part), 0)
        amount = row.get("output_cost_per_image") or row.get("input_cost_per_image")  # OpenAI's rows have it as input
        if not amount or not parts[place + 1 :] or not re.fullmatch(r"\d+-x-\d+", parts[place]):
            continue
        quality = parts[place - 1] if place else ""
        model = "/".join((*parts[: max(place - 1, 0)], *parts[place + 1 :]))
        rows.append(_SizedRow(model, quality, parts[place].replace("-x-", "x"), float(amount)))
    return rows


@cache
def _rows() -> Mapping[str, Values]:
    """Read the rows of litellm's bundled list that are about images."""
    rows: Mapping[str, Values] = litellm_client.load().model_cost
    return {name: row for name, row in rows.items() if row.get("mode") in ("image_generation", "image_edit")}


MEGAPIXEL = 1024 * 1024
_THINGS = (
    "(image|img|pic|picture|output|sample|result|generation|candidate|variation|variant|prediction|copie|copy|repeat)s?"
)
_COUNTS = re.compile(
    rf"n|num|number|niter|iterations|takes|.*count|num.*(images|imgs|outputs|samples|results)|quantity|amount|bestof|copies|repeat|.*batch.*|sequentialimage.*|(n|nb|nr|num|number|of|max|total|sample|generated)+({_THINGS}|count)+(per.*)?"
    rf"|{_THINGS[:-2]}(s|s?(count|num|number|per.*))"
)
"""Names of settings for the number of images, in lower case without `_` and `-`. One image is asked for at a time."""

_ONE = (1, "1", None, False, "disabled", "none", "off")


_SIZES, _SPEEDS, _USUAL = (frozenset(_KNOWN[name]) for name in ("sizes", "speeds", "usual"))
_PRICED = _SIZES | _SPEEDS | {"quality"}


def check_counts(options: Values) -> None:
    """Refuse settings that make more than one image, also inside of other settings: the others would be paid and thrown away.

    Raises:
        ConfigError: There is one, or a setting that changes the price has two values.
    """
    found: Json = {}
    for name, value in _flattened(options):
        plain = _plain(name)
        if _COUNTS.fullmatch(plain) and not _is_source(value) and (value is True or value not in _ONE):
            raise ConfigError(must_be(f"--option {name}", "1 (titjudge requests one image at a time)", value))
        if plain in _PRICED and str(found.setdefault(plain, value)) != str(value):
            raise ConfigError(f"--option {name} has two values, {found[plain]!r:.40} and {value!r:.40}. Remove one")


def _is_source(value: Any) -> bool:
    """Return True if a value in the request is an image, or a list of images."""
    given = value if isinstance(value, list) and value else [value]
    return all(isinstance(entry, str) and re.match(r"https?:|data:|gs:|s3:", entry) for entry in given)


def is_hurried(options: Values) -> bool:
    """Return True if a setting asks for an unusual speed, which has another price."""
    return any(_plain(name) in _SPEEDS and str(value).lower() not in _USUAL for name, value in _flattened(options))


def pixels(options: Values) -> tuple[int, int] | None:
    """Return width and height of an image if its settings give them, otherwise None."""
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
    if text in _KNOWN["named"]:
        width, height = _KNOWN["named"][text]
        return width, height
    match = re.fullmatch(r"(\d{1,6})\s*[x*:×]\s*(\d{1,6})", text)
    return (int(match[1]), int(match[2])) if match else None


def exact_size(options: Values) -> tuple[int, int] | None:
    """Return width and height if the settings ask for exactly these pixels, and not only for as many."""
    return None if any("megapixels" in _plain(name) for name, _ in _flattened(options)) else pixels(options)


def times(vendor: str, options: Values, *, sized: bool = False) -> int | None:
    """Return by how much the price of an image of one megapixel is to be multiplied; None if that is not known.

    Args:
        vendor: litellm's name of the vendor.
        options: Settings of the image.
        sized: The price already is for this quality and size.
    """
    named = {_plain(name): value for name, value in _flattened(options)}
    free = {*_KNOWN["free"][""], *_KNOWN["free"].get(vendor, ()), *(("quality",) if sized else ())}
    for name, value in named.items():
        if name not in free | _SIZES and not _COUNTS.fullmatch(name) and str(value).lower() not in _USUAL:
            return None
    if vendor in _KNOWN["flat"] or not any(str(named.get(name) or "").lower() not in _USUAL for name in _SIZES):
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
