"""The cost of an answer: the bundled price list of genai-prices, a user's own table on top, and the batch discounts.

A price that is not known is None, never 0: under a cap such a model does not start. Nothing here asks the network.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, timedelta
from typing import Any

from titjudge.core import registry
from titjudge.core.errors import ConfigError, UserError, must_be, unknown
from titjudge.core.redaction import url_parts
from titjudge.core.types import Json, Usage, Values
from titjudge.providers import retirements
from titjudge.providers.vendors import VENDORS

MILLION = 1_000_000
FLAG_FORM = "MODEL=IN,OUT or MODEL=IN,OUT,CACHED in USD per million tokens, for example gpt-4o=2.5,10,1.25"


@dataclass(frozen=True, slots=True)
class PriceTier:
    """Rates of a long request, in USD per million tokens; they apply to all of its tokens.

    Attributes:
        above: Requests with more input tokens than these have them.
        input: Of input.
        output: Of output, thinking included.
        cached_input: Of input that comes from the provider's cache; None: as `input`.
        image: Of image tokens in the
            input; None: as `input`.
    """

    above: int
    input: float
    output: float
    cached_input: float | None = None
    image: float | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """Rates of a model, in USD per million tokens.

    Attributes:
        input: Of input.
        output: Of output, thinking included.
        cached_input: Of input that comes from the provider's cache; None: as `input`.
        image: Of image tokens in the
            input; None: as `input`.
        per_request: USD for each request besides its tokens.
        tiers: Other rates of long requests.
        source: The origin of the numbers.
        elsewhere: It is the vendor's list price, and the request goes to another address, which may bill another one.
    """

    input: float
    output: float
    cached_input: float | None = None
    image: float | None = None
    per_request: float = 0.0
    tiers: tuple[PriceTier, ...] = ()
    source: str = ""
    elsewhere: bool = False

    def cost(self, usage: Usage) -> float:
        """Return the USD of one request; thinking is billed as output, whose count includes it."""
        rate = self._rates_for(usage.input)
        cached = min(usage.cached_input, usage.input)
        image = min(usage.image, usage.input - cached) if rate.image is not None else 0
        total = (usage.input - cached - image) * rate.input + usage.output * rate.output
        total += cached * (rate.input if rate.cached_input is None else rate.cached_input)
        total += image * (rate.image or 0.0)
        return total / MILLION + self.per_request

    def _rates_for(self, input_tokens: int) -> Price | PriceTier:
        reached = [tier for tier in self.tiers if input_tokens > tier.above]
        return max(reached, key=lambda tier: tier.above) if reached else self


FREE = Price(0.0, 0.0, source="declared free")


def at_vendor(provider: str, base_url: str) -> bool:
    """Return True if a provider uses its vendor's usual address, for which the vendor's price list is valid."""
    hosts = {url_parts(address).hostname for address in base_url.split(",") if address.strip()}
    return hosts <= {url_parts(getattr(registry.provider_class(provider), "default_base", "")).hostname}


def batch_price(provider: str, price: Price, on: date | None = None, *, base_url: str = "") -> Price:
    """Find the price of a batch job on a day (default today): never too low.

    Without a discount on file, and at any address but the vendor's own, it is the list price.
    Cached input keeps its list rate unless the discounted input is cheaper: Google's two discounts do not stack
    (docs.cloud.google.com, batch prediction), and if they do (OpenAI, Anthropic) this is the upper bound.
    """
    day = on or retirements.today()
    vendor = VENDORS.get(registry.vendor(provider))
    discounts = [line for line in vendor.batch_discounts if line.since <= day] if vendor else []
    if not discounts or not at_vendor(provider, base_url):
        return price
    line = max(discounts, key=lambda line: line.since)
    return replace(
        price,
        **_discounted(price, line.factor),
        tiers=tuple(replace(tier, **_discounted(tier, line.factor)) for tier in price.tiers),
        source=f"{price.source}; batch x {line.factor} since {line.since} ({line.source})",
    )


def _discounted(rate: Price | PriceTier, factor: float) -> Json:
    cheaper: Json = {"input": rate.input * factor, "output": rate.output * factor}
    if rate.cached_input is not None:
        cheaper["cached_input"] = min(rate.cached_input, cheaper["input"])
    if rate.image is not None:
        cheaper["image"] = rate.image * factor
    return cheaper


UserPrices = Mapping[str, "Price | Values"]


def price_of(
    provider: str,
    model: str,
    user: UserPrices | None = None,
    *,
    base_url: str = "",
    free: bool = False,
    embedding: bool = False,
    when: datetime | None = None,
) -> Price | None:
    """Find the list price of a model; None when it is not known.

    Args:
        provider: Our name of it (`openai`, `gemini`, `litellm`, ...), whose class may name another as its vendor; a
            litellm model contains it (`anthropic/x`).
        model: The name the model is asked by.
        user: The user's table, by `provider/model` or `model`; it wins over the bundled list.
        base_url: A known address (OpenRouter, Azure, ...) names the provider better than `provider` does; at an unknown
            one the vendor's list price is given (`elsewhere`), and only the user knows the bill there.
        free: The provider declares that it costs nothing (local, recorded, fake).
        embedding: A model without an output price is fine; for any other, that price is unknown.
        when: Default now; prices that depend on the hour are taken at their highest.

    Raises:
        ConfigError: The user's table has an entry that is not a price.
    """
    for name in _names(provider, model):
        for key, entry in (user or {}).items():
            if key.strip().lower() == name:
                return _from_user(key, entry)
    return FREE if free else _bundled(provider, model, base_url, embedding, when or retirements.now())


def _names(provider: str, model: str) -> list[str]:
    """List what a user may have called a model, the most precise name first."""
    names = [f"{provider}/{model}", model]
    if registry.listed(provider, model)[1] != model:  # it carries its vendor's name
        names.append(model.rpartition("/")[2])
    return [name.lower() for name in names]


def parse_price_flag(text: str) -> tuple[str, dict[str, float]]:
    """`MODEL=IN,OUT[,CACHED]` as (model, an entry of the user's table).

    Raises:
        UserError: The text is not of that form, or a number is negative or not finite.
    """
    model, equals, numbers = text.rpartition("=")
    parts = numbers.split(",")
    if not equals or not model.strip() or len(parts) not in (2, 3):
        raise UserError(must_be("--price", FLAG_FORM, text))
    try:
        rates = [_rate(part) for part in parts]
    except ValueError:
        raise UserError(must_be("--price", FLAG_FORM, text)) from None
    return model.strip(), dict(zip(("input", "output", "cached_input"), rates, strict=False))


def _rate(value: Any) -> float:
    """Read a rate in USD per million tokens: finite and not negative."""
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number")
    try:
        rate = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a number") from None
    if not math.isfinite(rate) or rate < 0:
        raise ValueError(f"{value!r} is not a price (finite, 0 or more)")
    return rate


def _from_user(name: str, entry: Price | Values) -> Price:
    """Read an entry of the user's table.

    Raises:
        ConfigError: It is not a price.
    """
    if isinstance(entry, Price):
        return entry
    if not isinstance(entry, Mapping):
        raise ConfigError(must_be(f"prices: {name}", "input and output in USD per million tokens", entry))
    rate_names = [field.name for field in fields(Price) if field.name not in ("tiers", "source", "elsewhere")]
    for key in entry:
        if key not in rate_names:
            raise ConfigError(f"prices: {name}: {unknown('key', str(key), rate_names)}")
    missing = [key for key in ("input", "output") if entry.get(key) is None]
    if missing:
        raise ConfigError(f"prices: {name}: add {' and '.join(missing)} in USD per million tokens")
    try:
        rates: Json = {key: _rate(value) for key, value in entry.items() if value is not None}
    except ValueError as error:
        raise ConfigError(f"prices: {name}: {error}. Correct the price") from None
    return Price(source="user table", **rates)


def _bundled(provider: str, model: str, base_url: str, embedding: bool, when: datetime) -> Price | None:
    """Look up the list price in genai-prices; None if it has no rates of the model."""
    from importlib.metadata import version

    listing = _find(provider, model, base_url)
    if listing is None:
        return None
    vendor, info, elsewhere = listing
    rates = _Rates(info, when)
    bare = rates.missing("input_mtok") or (rates.missing("output_mtok") and not embedding)
    if bare:
        return None
    return Price(
        **rates.rates_for(0),
        per_request=rates.flat("requests_kcount") / 1000,
        tiers=tuple(PriceTier(above, **rates.rates_for(above + 1)) for above in rates.starts()),
        source=f"genai-prices {version('genai-prices')}: {vendor}/{info.id}",
        elsewhere=elsewhere,
    )


def _find(provider: str, model: str, base_url: str) -> tuple[str, Any, bool] | None:
    """Look up the vendor's id, genai-prices' model record, and whether the address is one that genai-prices does not know."""
    from genai_prices.data_snapshot import find_provider_by_id, get_snapshot

    snapshot = get_snapshot()
    vendor, model = registry.listed(provider, model.removeprefix("models/"))
    addresses = [] if at_vendor(provider, base_url) else [address for address in base_url.split(",") if address.strip()]
    vendors_listed = {_listed_at(snapshot.providers, address) for address in addresses}
    if len(vendors_listed) == 1 and (listed := vendors_listed.pop()):
        with contextlib.suppress(LookupError):
            record, info = snapshot.find_provider_model(model, None, listed, None)
            return record.id, info, False
    if not find_provider_by_id(snapshot.providers, vendor):
        return None
    try:
        record, info = snapshot.find_provider_model(model, None, vendor, None)
    except LookupError:
        return None
    return record.id, info, bool(addresses)


def _listed_at(providers: Iterable[Any], address: str) -> str:
    """Find the provider that genai-prices lists for an address, or an empty string.

    Its patterns are matched from the left and without an end, so that they match unrelated addresses that begin like a
    vendor's, or have one in their path: here the whole host must fit, and no other host may.
    """
    parts = url_parts(address)
    if not parts.hostname or parts.port not in (None, 443):
        return ""
    home, path = f"{parts.scheme}://{parts.hostname}", parts.path.rstrip("/")
    for provider in providers:
        fits = re.match(provider.api_pattern, home + path)
        strangers = (f"{parts.scheme}://{host}{path}" for host in ("host", "host.invalid"))
        if (
            fits
            and fits.end() >= len(home)
            and not any(re.match(provider.api_pattern, stranger) for stranger in strangers)
        ):
            return str(provider.id)
    return ""


class _Rates:
    """One genai-prices record read at a moment: the highest of the day if prices depend on the hour."""

    def __init__(self, info: Any, when: datetime) -> None:
        from genai_prices.types import TimeOfDateConstraint

        prices = info.prices if isinstance(info.prices, list) else []
        hourly = any(isinstance(price.constraint, TimeOfDateConstraint) for price in prices)
        midnight = when.replace(hour=0, minute=0, second=0, microsecond=0)
        moments = [midnight + timedelta(minutes=30 * step) for step in range(48)] if hourly else [when]
        self._records = [info.get_prices(moment) for moment in moments]

    def _values(self, key: str) -> list[Any]:
        return [value for record in self._records if (value := getattr(record, key, None)) is not None]

    def missing(self, key: str) -> bool:
        return not self._values(key)

    def starts(self) -> list[int]:
        keys = ("input_mtok", "output_mtok", "cache_read_mtok", "input_image_mtok")
        starts = {tier.start for key in keys for value in self._values(key) for tier in getattr(value, "tiers", ())}
        return sorted(starts)

    def flat(self, key: str, tokens: int = 0) -> float:
        """Find the highest rate of a key for a request of this number of input tokens; 0 if the key has none."""
        rates = [0.0]
        for value in self._values(key):
            reached = [tier.price for tier in getattr(value, "tiers", ()) if tokens > tier.start]
            rates.append(float(reached[-1] if reached else getattr(value, "base", value)))
        return max(rates)

    def rates_for(self, tokens: int) -> Json:
        def known(key: str) -> float | None:
            return None if self.missing(key) else self.flat(key, tokens)

        return {
            "input": self.flat("input_mtok", tokens),
            "output": max(self.flat("output_mtok", tokens), self.flat("output_reasoning_mtok", tokens)),
            "cached_input": known("cache_read_mtok"),
            "image": known("input_image_mtok"),
        }
