"""Judges retire: which hosted models are announced to end, what answers in their place, and who really answered.

A vendor may route requests for a retired model to its successor, at the successor's rates: the answer then names another
model than was asked for. Such an answer is priced as the model that gave it and never kept under the asked name. The
table is `retirements.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path

from titjudge.core import clock

DEFAULT_MODELS = {"openai": "gpt-4o", "gemini": "gemini-2.5-pro"}
OTHER_MODEL = "other-model"  # flag: another model answered than was asked for
_NAMED = re.compile(r"(chatgpt|gpt|gemini|claude)-|o[1-9]\b")  # names that say which model it is; an alias says nothing
_SNAPSHOT = re.compile(r"(?:[-@:](?:\d{2,8}|v\d+(?::\d+)?|latest|preview|exp))*")


@dataclass(frozen=True, slots=True)
class Retirement:
    """`on`: the first day without the model. `routed`: `successor` answers from then on; else requests fail."""

    provider: str
    model: str
    on: date
    routed: bool
    successor: str
    source: str

    def line(self, label: str) -> str:
        """Say what happens when, and what follows, for the model that somebody calls `label`."""
        past = self.on <= clock.today()
        if self.routed:
            verb = "retired" if past else "retires"
            then = f"its requests are {'' if past else 'then '}answered by {self.successor}, at its rates"
        else:
            verb = "was shut down" if past else "is shut down"
            then = "its requests fail" + ("" if past else " from then on")
            then += f"; the vendor names {self.successor} as its successor" if self.successor else ""
        return f"{label} {verb} on {self.on}: {then} ({self.source})"


@lru_cache(maxsize=1)
def table() -> tuple[Retirement, ...]:
    """Read the announced retirements."""
    import yaml

    data = yaml.safe_load(Path(__file__).with_name("retirements.yaml").read_text(encoding="utf-8"))
    return tuple(
        Retirement(
            each["provider"],
            each["model"],
            each["date"],
            each["then"] == "routed",
            each.get("successor", ""),
            data["sources"][each["source"]],
        )
        for each in data["models"]
    )


@lru_cache(maxsize=256)  # asked several times a request
def of(provider: str, model: str) -> Retirement | None:
    """Find the retirement of a model as a provider calls it, or None. Of litellm's, those asked at the vendor itself."""
    if provider == "litellm":
        provider, _, model = model.rpartition("/")
        provider = provider or "openai"
    name = model.removeprefix("models/").lower()
    return next((each for each in table() if (each.provider, each.model) == (provider, name)), None)


def default_model(provider: str) -> str:
    """Choose the model of a provider that is named alone: from the day it retires, its successor; empty without one."""
    model = DEFAULT_MODELS.get(provider, "")
    while (gone := of(provider, model)) is not None and gone.successor and gone.on <= clock.today():
        model = gone.successor
    return model


def stands_in(provider: str, model: str) -> str:
    """Name the model that answers in place of a retired one today, or an empty string."""
    gone = of(provider, model)
    return gone.successor if gone is not None and gone.routed and gone.on <= clock.today() else ""


@lru_cache(maxsize=1024)
def same_model(asked: str, answered: str) -> bool:
    """Tell whether the model that answered is the one that was asked for, or may be.

    Snapshots (`gpt-4o` answers as `gpt-4o-2024-08-06`), prefixes (`models/`, a vendor's) and fingerprints (`@fp_1`) are
    no other model; names that do not say which model it is (deployments, aliases) are taken as they are.
    """
    mine, theirs = _bare(asked), _bare(answered)
    if not (_NAMED.match(mine) and _NAMED.match(theirs)) or mine.endswith("-latest"):
        return True
    short, long = sorted((mine, theirs), key=len)
    return long.startswith(short) and _SNAPSHOT.fullmatch(long[len(short) :]) is not None


def notices(models: Iterable[tuple[str, str]]) -> list[str]:
    """One line for each of some models, as (provider, model), whose retirement is announced."""
    found = [(of(provider, model), f"{provider}/{model}") for provider, model in dict.fromkeys(models)]
    return [gone.line(label) for gone, label in found if gone is not None]


def _bare(name: str) -> str:
    """Find a model's own name: `models/gemini-2.5-pro` and `bedrock/eu.anthropic.claude-3` without what stands before."""
    name = name.rsplit("/", 1)[-1].lower().partition("@")[0]
    found = re.search(r"(?:claude|gemini)-.*", name)
    return found.group(0) if found else name


def same_name(asked: str, answered: str) -> str:
    """Write the name of the model that answered in the form in which it was asked for (litellm's names have a prefix)."""
    prefix = asked.rpartition("/")[0]
    name = answered.rsplit("/", 1)[-1].partition("@")[0]
    return f"{prefix}/{name}" if prefix else name
