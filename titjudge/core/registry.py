"""The registry: names to code, imported on first use. Built-ins are in a table, everything else has entry points.

A package, and `titjudge.apps` like any other, adds a provider, embedder, metric, learned metric, task, suite, aggregation, sink or
runner with, for example,

    [project.entry-points."titjudge.metrics"]
    my-metric = "my_package.metric:my_metric"
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from titjudge.core.entry_points import announced
from titjudge.core.errors import ConfigError, TitjudgeError, unknown

_PACKAGE = Path(__file__).parents[1]
_YAML_SUITE = "titjudge.suites.question_suite:suite_of"
_LEARNED = "titjudge.metrics.learned:learned_metric"
_METRIC = r'^@metric\(\s*"(?P<name>[^"]+)".*?^async def (?P<attribute>\w+)'
_SUITE = r'^class (?P<attribute>\w+)\((?:Suite|Folder)\):.*?^    name = "(?P<name>[^"]+)"'
_AGGREGATION = r"^(?P<name>(?P<attribute>[A-Z0-9_]+)) = Aggregation\("


def _declared(folder: str, pattern: str) -> dict[str, str]:
    """Find what the files of a folder declare, by their text: importing them would make every command start later."""
    found = {}
    for file in sorted((_PACKAGE / folder).rglob("*.py")):
        module = str(file)[len(str(_PACKAGE.parent)) + 1 : -len(".py")].replace(os.sep, ".")
        for match in re.finditer(pattern, file.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            found[match["name"].lower().replace("_", "-")] = f"{module}:{match['attribute']}"
    return found


def _learned() -> list[str]:
    """List the learned metrics that run in this process or by the user's command: rows of the table without another `status`.

    Only their names are read, by their indentation: parsing the YAML would make every command start later.
    """
    table = (_PACKAGE / "data" / "learned_metrics.yaml").read_text(encoding="utf-8").partition("\nmetrics:\n")[2]
    rows = re.findall(r"^  ([\w.-]+):.*\n((?:(?:   .*)?\n)*)", table, re.MULTILINE)
    return [name for name, row in rows if "\n    status: by the models" not in f"\n{row}"]


TABLES: dict[str, dict[str, str]] = {
    "providers": {
        "openai": "titjudge.providers.hosted.openai:OpenAI",
        "gemini": "titjudge.providers.hosted.gemini:Gemini",
        "azure": "titjudge.providers.hosted.azure:Azure",
        "litellm": "titjudge.providers.hosted.litellm:LiteLLM",
        "local": "titjudge.providers.local.huggingface:Local",
        "scorer": "titjudge.providers.learned.provider:Scorer",
        "external": "titjudge.providers.learned.external:External",
        "vllm": "titjudge.providers.local.vllm:VLLM",
        "zero-shot-object-detection": "titjudge.providers.local.zero_shot_detection:ZeroShotDetection",
        "recorded": "titjudge.providers.recorded:Recorded",
        "fake": "titjudge.providers.fake:Fake",
    },
    "embedders": {
        "default": "titjudge.providers.local.sentence_transformers:default",
        "sentence-transformers": "titjudge.providers.local.sentence_transformers:SentenceTransformers",
        "openai": "titjudge.providers.hosted.embeddings:OpenAIEmbedder",
        "gemini": "titjudge.providers.hosted.embeddings:GeminiEmbedder",
    },
    "metrics": _declared("metrics", _METRIC) | {name: f"{_LEARNED}({name})" for name in _learned()},
    "tasks": {},  # the writer of prompts; it reads no image and does not judge
    "suites": {
        **_declared("suites", _SUITE),
        **{file.stem: f"{_YAML_SUITE}({file})" for file in sorted((_PACKAGE / "suites").glob("*.yaml"))},
    },
    "aggregations": _declared("suites", _AGGREGATION),  # what `suites aggregate` computes from official files
    "sinks": {},
    "learned_metrics": {},  # rows in addition to titjudge/data/learned_metrics.yaml
    "runners": {},  # objects that run a configuration outside this process
}
_ATTRIBUTES = {
    "metrics": tuple("name roles range needs summary scope sources".split()),
    "suites": ("name", "VERSION", "metrics", "DEVIATIONS"),
}
"""Attributes of an object of another package, by kind; without it an `AttributeError` would end the command."""
DECIDES = "tit-llm"  # the metric that is looked at first where a run has several
BESIDE = frozenset({"preservation", "preservation-l1", "preservation-ssim"})
"""Metrics shown in addition to the success of an edit: an edit that was not made has the best values, so they never decide."""
VENDOR_NAMES = {"google": "gemini"}  # name of a vendor in genai-prices -> name here


def _known(kind: str) -> dict[str, str]:
    """Return the `module:attribute` of every name of a kind; each row of a learned metric is a metric, too."""
    learned = names("learned_metrics") if kind == "metrics" else ()
    return {**announced(kind), **{name: f"{_LEARNED}({name})" for name in learned}, **TABLES[kind]}


def overridden(kind: str, own: Iterable[str] = ()) -> dict[str, str]:
    """Return the entry points of other packages that have a name of titjudge, which takes precedence: name -> `module:attribute`.

    Args:
        kind: A kind of `TABLES`, or commands.
        own: The names of titjudge; without it, the names of the kind's table.
    """
    # A row of a learned metric is a metric of its name.
    taken = {*own} or {*TABLES["metrics" if kind == "learned_metrics" else kind]}
    return {name: target for name, target in announced(kind).items() if name in taken}


def metric_kind(suite: str) -> str:
    """Return the purpose of runs over a suite, as the suite declares it: `metrics` or `tasks`."""
    return "tasks" if load("suites", suite).TASKS else "metrics"


def is_suite_file(name: str) -> bool:
    """Return True if a YAML file has the name of a suite."""
    return name.endswith((".yaml", ".yml"))


def names(kind: str) -> list[str]:
    """List the names of a kind (`providers`, `embedders`, `metrics`, `suites`, `sinks`) without importing code."""
    return sorted(_known(kind))


def check(kind: str, name: str) -> str:
    """Return the target of a name, without importing it: `module:attribute`, or for titjudge's own `module:function(argument)`.

    Raises:
        ConfigError: There is no such name; the message suggests the nearest one.
    """
    target = _known(kind).get(name)
    if target is None and kind == "suites" and is_suite_file(name):
        return f"{_YAML_SUITE}({name})"
    if target is None:
        singular = kind.removesuffix("s")
        more = f"; all others through litellm, as litellm/{name}/MODEL" if kind == "providers" else ""
        raise ConfigError(f"{unknown(singular, name, names(kind))}{more}")
    return target


def provider_class(name: str) -> Any:
    """Import the class of a provider, which describes all its models; None if none can be loaded."""
    try:
        return load("providers", name) if name in _known("providers") else None
    except ConfigError:
        return None


def default_model(provider: str) -> str:
    """Return a provider's default model, from the day of its retirement on its successor; empty if there is none."""
    model: str = importlib.import_module("titjudge.providers.retirements").default_model(provider)
    return model


def needs_model(provider: str) -> bool:
    """Return True if a role must name a model of the provider."""
    return bool(getattr(provider_class(provider), "needs_model", True))


def uses_device(name: str) -> bool:
    """Return True if the models of a provider, or of an embedder, run in this process on the machine's own device."""
    kinds = [kind for kind in ("providers", "embedders") if name in names(kind)]
    return any(getattr(load(kind, name), "uses_device", False) for kind in kinds)


def vendor(provider: str) -> str:
    """Return the vendor whose models a provider serves, from its class; otherwise the provider's name."""
    name = getattr(provider_class(provider), "vendor", "") or provider
    return VENDOR_NAMES.get(name, name)


def listed(provider: str, model: str) -> tuple[str, str]:
    """Return the vendor of a provider's model and its name there, from the provider's class; otherwise both unchanged."""
    known = getattr(provider_class(provider), "listed", None)
    vendor, name = known(model) if known is not None else (provider, model)
    return VENDOR_NAMES.get(vendor, vendor), name


def base_metric(name: str) -> str:
    """Return the metric in a name of scores: `pairwise` for `pairwise [openai/gpt-6-luna]`, one judge's part of a panel."""
    return name.partition(" [")[0]


def first_metric(names: Iterable[str], unscored: Collection[str] = ()) -> str:
    """Return the metric that decides if there are several: `tit-llm` if present, otherwise the first that is not in `BESIDE`.

    Args:
        names: Names of scores in the order of the run, at least one; one judge's part of a panel comes after all others.
            The name of a run may follow, as in `tit-llm (first)`.
        unscored: Names without any score, which come after all others.
    """

    def place(name: str) -> tuple[bool, bool, bool, bool]:
        metric = name.partition(" (")[0]
        return name in unscored, base_metric(name) != name, metric in BESIDE, metric != DECIDES

    return min(names, key=place)


def metric_of(name: str) -> Any:
    """Import the metric in a name of scores (`base_metric`).

    Raises:
        ConfigError: There is no such metric.
    """
    return load("metrics", base_metric(name))


def load(kind: str, name: str) -> Any:
    """Import the object of a name.

    Raises:
        ConfigError: There is no such name (the message suggests the nearest one), or another package's object does not
            load.
    """
    module, _, target = check(kind, name).partition(":")
    attribute, called, argument = target.partition("(")
    try:
        loaded = getattr(importlib.import_module(module), attribute)
        loaded = loaded(argument.removesuffix(")")) if called else loaded
        for needed in _ATTRIBUTES.get(kind, ()) if name not in TABLES[kind] else ():
            getattr(loaded, needed)
        return loaded
    except TitjudgeError:
        raise
    except Exception as error:
        if name in TABLES[kind] or (kind == "suites" and is_suite_file(name)):
            raise
        raise ConfigError(
            f"the {kind.removesuffix('s')} '{name}' of an entry point ({module}:{target}) cannot be loaded: {type(error).__name__}: {error}. Correct or uninstall its package"
        ) from error
