"""Retirements of hosted models: when they end, which model answers in their place, and whether another model answered.

A vendor may route requests for a retired model to its successor, at the successor's rates: the reply then names a
different model. Such a reply is priced by the model that gave it, and never cached under the requested name. The table is
`retirements.toml`.

The current day, on which retirements and prices of models depend: the machine's, or the day in TITJUDGE_TODAY.

The environment variable (YYYY-MM-DD) shows what a command will do on a later day.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from titjudge.core import registry
from titjudge.core.errors import ConfigError, must_be
from titjudge.core.types import Note

TODAY = "TITJUDGE_TODAY"
NOTICE = timedelta(days=90)  # before its retirement, a model stops being a default: new accounts may not have it


def now() -> datetime:
    """Return the current time in UTC.

    Raises:
        ConfigError: The variable is not a day.
    """
    day = os.environ.get(TODAY)
    if not day:
        return datetime.now(UTC)
    try:
        return datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
    except ValueError:
        raise ConfigError(must_be(TODAY, "a date such as 2026-12-01", day)) from None


def today() -> date:
    """Return the current day in UTC; raises as `now`."""
    return now().date()


OTHER_MODEL = "other-model"  # flag of a reply: another model answered than was requested
_NAMED = re.compile(r"(chatgpt|gpt|gemini|claude)-|o[1-9]\b")  # names of models, as opposed to aliases and deployments
_SNAPSHOT = re.compile(r"(?:[-@:](?:\d{2,8}|v\d+(?::\d+)?|latest|preview|exp))*")


@dataclass(frozen=True, slots=True)
class Retirement:
    """The end of a model.

    Attributes:
        on: The day from which on it answers no more.
        routed: Whether its requests go to the successor then; if not, they fail.
        successor: The model that takes its place.
        source: The page with this information.
    """

    provider: str
    model: str
    on: date
    source: str
    routed: bool = False
    successor: str = ""

    @property
    def past(self) -> bool:
        """Whether the model has retired."""
        return self.on <= today()

    @property
    def ends(self) -> str:
        """The end of the model with its day, in words."""
        verb = ("retires", "retired")[self.past] if self.routed else ("is", "was")[self.past] + " shut down"
        return f"{verb} on {self.on}"

    def line(self, label: str) -> str:
        """Write when the model ends and what follows, in a line; `label` is the user's name of the model."""
        if self.routed:
            then = f"; {'now' if self.past else 'then'} {self.successor} answers, at its price"
        else:
            then = ": requests fail" * self.past + f"; successor: {self.successor}" * bool(self.successor)
        return f"{label} {self.ends}{then}"


@lru_cache(maxsize=1)
def table() -> tuple[Retirement, ...]:
    """Read the announced retirements."""
    import tomllib

    data = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return tuple(Retirement(**row | {"source": data["sources"][row["source"]]}) for row in data["models"])


@lru_cache(maxsize=256)  # called several times for each request
def retirement_of(provider: str, model: str) -> Retirement | None:
    """Return the retirement of a provider's model, or None; with litellm, of models that the vendor itself serves."""
    vendor, name = registry.listed(provider, model)
    name = name.removeprefix("models/").lower()
    return next((entry for entry in table() if (entry.provider, entry.model) == (vendor, name)), None)


def listed_default(provider: str) -> str:
    """Return the default model that the class of a provider names; empty if there is none."""
    return getattr(registry.provider_class(provider), "default_model", "")


def default_model(provider: str) -> str:
    """Return the default model of a provider: its successor if it retires within `NOTICE`; empty if there is none."""
    model = listed_default(provider)
    while (
        (retired := retirement_of(provider, model)) is not None and retired.successor and retired.on - today() <= NOTICE
    ):
        model = retired.successor
    return model


def stands_in(provider: str, model: str) -> str:
    """Return the model that answers instead of a retired one today, or an empty string."""
    retired = retirement_of(provider, model)
    return retired.successor if retired is not None and retired.routed and retired.past else ""


@lru_cache(maxsize=1024)
def same_model(asked: str, answered: str) -> bool:
    """Return True if the model that answered is, or may be, the one that was requested.

    Snapshots (`gpt-4o` answers as `gpt-4o-2024-08-06`), prefixes (`models/`, a vendor's) and fingerprints (`@fp_1`) do
    not make another model; names of deployments and aliases do not show it, and are accepted.
    """
    requested, replied = _bare(asked), _bare(answered)
    if not (_NAMED.match(requested) and _NAMED.match(replied)) or requested.endswith("-latest"):
        return True
    short, long = sorted((requested, replied), key=len)
    return long.startswith(short) and _SNAPSHOT.fullmatch(long[len(short) :]) is not None


def notices(models: Iterable[tuple[str, str]]) -> list[Note]:
    """Return a line for each retirement that concerns models, given as (provider, model); no model is the default one."""
    lines = list[Note]()
    for provider, named in dict.fromkeys(models):
        model = named or default_model(provider)
        lines += [] if named else replaced_default(provider)
        if (retired := retirement_of(provider, model)) is not None:
            lines.append(Note("model_retires", retired.line(f"{provider}/{model}")))
    return lines


def replaced_default(provider: str) -> list[Note]:
    """Return a line if another model has become the default of a provider; none if not."""
    model, retired = default_model(provider), retirement_of(provider, listed_default(provider))
    if retired is None or retired.model == model:
        return []
    line = f"{model} is the default model of {provider}, because {retired.model} {retired.ends}"
    return [Note("default_model_replaced", line)]


def _bare(name: str) -> str:
    """Strip the prefixes of a model's name: `models/gemini-2.5-pro`, `bedrock/eu.anthropic.claude-3`."""
    name = name.rsplit("/", 1)[-1].lower().partition("@")[0]
    match = re.search(r"(?:claude|gemini)-.*", name)
    return match[0] if match else name


def same_name(asked: str, answered: str) -> str:
    """Return the name of the model that answered, with the prefix of the requested one (litellm's have one)."""
    prefix = asked.rpartition("/")[0]
    name = answered.rsplit("/", 1)[-1].partition("@")[0]
    return f"{prefix}/{name}" if prefix else name
