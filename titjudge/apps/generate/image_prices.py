"""What a generated image costs: by the tokens that a service reports, or by the image; never litellm's own sum of a request.

The rates are those of the price list that litellm bundles. Nothing here asks the network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from titjudge.core.errors import UserError
from titjudge.core.numbers import finite
from titjudge.core.types import Usage
from titjudge.engine.prices import MILLION, Price
from titjudge.providers.hosted import litellm_client

FLAG_FORM = "MODEL=USD for each image, for example openai/gpt-image-2=0.05"
_ROUNDED = 1.1  # the list rounds to a tenth of a cent, which is a tenth of the cheapest image
_LEFT_OPEN = ("", "auto")  # settings that the service chooses: the dearest counts


@dataclass(frozen=True, slots=True)
class ImagePrice(Price):
    """Rates of a model that makes images, in USD per million tokens or for each image (`per_request`).

    Attributes:
        text: Of output that is no image: words and thinking; None: that of output.
        most_output: Output tokens that one image can cost at most.
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
        raise UserError(f"--price {text!r}: expected {FLAG_FORM}")
    return model.strip(), amount


def image_price(
    vendor: str, model: str, options: Mapping[str, Any], user_prices: Mapping[str, float], *, listed: bool = True
) -> ImagePrice | None:
    """Find the price of an image; None where it is not known.

    Args:
        vendor: litellm's name of the vendor (`openai`, `gemini`), or empty where the model's name begins with it.
        model: The model's name there.
        options: Settings of the image: `size` and `quality` choose among the rows of the list.
        user_prices: USD for each image as the user gives them, by `provider/model` or `model`; they win over the list.
        listed: Whether the vendor's own list holds where the model is asked.
    """
    full = f"{vendor}/{model}" if vendor else model
    for name in (full, f"litellm/{full}", model):
        if name in user_prices:
            return ImagePrice(0.0, 0.0, per_request=user_prices[name], source="given by --price")
    names = (full, model, full.removeprefix("openai/"))  # the list has OpenAI's models without their vendor
    row = next((_rows()[name] for name in names if name in _rows()), None) if listed else None
    if row is None:
        return None
    dearest = max(_by_setting(names, options), default=None)
    output = row.get("output_cost_per_image_token")
    if output:
        return _by_token(row, dearest)
    amount = dearest if dearest is not None else row.get("output_cost_per_image")
    return None if not amount else ImagePrice(0.0, 0.0, per_request=amount, source="litellm's price list")


def _by_token(row: Mapping[str, Any], dearest: float | None) -> ImagePrice:
    """Make the price of a model that bills tokens; `dearest` is the USD of the dearest image of its settings, where known."""
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


def _most_output(row: Mapping[str, Any]) -> int:
    """Bound the output tokens of an image of which no price by size is listed.

    Google's largest image has 2,520 tokens, and the rest is for thinking (ai.google.dev, Gemini API pricing); OpenAI's dearest has
    about 13,400 (a 3840 x 2160 image of gpt-image-2 in high quality at 0.401 USD).
    """
    return 4_096 if "text" in (row.get("supported_output_modalities") or ()) else 16_384


def _million(rate: float | None) -> float | None:
    return None if rate is None else rate * MILLION


def _by_setting(names: Collection[str], options: Mapping[str, Any]) -> Iterable[float]:
    """List the prices of an image for each quality and size that the settings leave open (`low/1024-x-1024/MODEL`)."""
    quality, size = (str(options.get(name) or "").lower() for name in ("quality", "size"))
    for row in _sized_rows(names):
        if (quality in _LEFT_OPEN or row.quality == quality) and (size in _LEFT_OPEN or row.size == size):
            yield row.price


def _sized_rows(names: Collection[str]) -> list[_SizedRow]:
    """Find the rows by size of a model: under its own names, else under those of a service that resells it."""
    same = [row for row in _all_sized_rows() if row.model in names]
    return same or [row for row in _all_sized_rows() if _undated(names) & row.resold]


def _undated(names: Iterable[str]) -> set[str]:
    return {re.sub(r"-\d{4}-\d{2}-\d{2}$", "", name) for name in names}


@cache
def _all_sized_rows() -> list[_SizedRow]:
    """Read the rows whose name holds a size, such as `low/1024-x-1024/gpt-image-1`."""
    rows = []
    for name, row in _rows().items():
        parts = name.split("/")
        place = next((number for number, part in enumerate(parts) if "-x-" in part), 0)
        amount = row.get("output_cost_per_image") or row.get("input_cost_per_image")  # OpenAI's rows have it as input
        if not amount or not parts[place + 1 :] or "-x-" not in parts[place]:
            continue
        quality = parts[place - 1] if place else ""
        model = "/".join((*parts[: max(place - 1, 0)], *parts[place + 1 :]))
        rows.append(_SizedRow(model, quality, parts[place].replace("-x-", "x"), float(amount)))
    return rows


@cache
def _rows() -> Mapping[str, Mapping[str, Any]]:
    """Read the rows of litellm's bundled list that are about images."""
    rows: Mapping[str, Mapping[str, Any]] = litellm_client.load().model_cost
    return {name: row for name, row in rows.items() if row.get("mode") in ("image_generation", "image_edit")}
