"""The registry: names to code, imported on first use. Built-ins are in a table, everything else has entry points.

A package, and `titjudge.apps` like any other, adds a provider, embedder, metric, learned metric, task, suite, aggregation, sink or
runner with, for example,

    [project.entry-points."titjudge.metrics"]
    my-metric = "my_package.metric:my_metric"
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from titjudge.core.entry_points import announced
from titjudge.core.errors import ConfigError, TitjudgeError, nearest

_SUITES = Path(__file__).parents[1] / "suites"
_YAML_SUITE = "titjudge.suites.question_suite:suite_of"
_LEARNED = "titjudge.metrics.learned:learned_metric"
_LEARNED_TABLE = Path(__file__).parents[1] / "data" / "learned_metrics.yaml"


def _own_learned() -> list[str]:
    """List the learned metrics that run in this process: rows of the table without a `status`.

    Only their names are read, by their indentation: parsing the YAML would make every command start later.
    """
    rows = _LEARNED_TABLE.read_text(encoding="utf-8").partition("\nmetrics:\n")[2]
    rows_by_name = re.findall(r"^  ([\w.-]+):.*\n((?:(?:   .*)?\n)*)", rows, re.MULTILINE)
    return [name for name, row in rows_by_name if "\n    status:" not in f"\n{row}"]


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
    "metrics": {
        "tit": "titjudge.metrics.tit:tit",
        "tit-llm": "titjudge.metrics.tit:tit_llm",
        "self-eval": "titjudge.metrics.tit:self_eval",
        "lmm-score": "titjudge.metrics.lmm_score:lmm_score",
        "lmm-critique": "titjudge.metrics.lmm_score:lmm_critique",
        **{
            name: f"titjudge.metrics.answer_probability:{name.replace('-', '_')}"
            for name in ("vqascore", "lmm-score-expected", "q-eval")
        },
        "tit-agent": "titjudge.metrics.agent.metric:tit_agent",
        "pairwise": "titjudge.metrics.pairwise:pairwise",
        "pairwise-text": "titjudge.metrics.pairwise:pairwise_text",
        "yes-no": "titjudge.metrics.yes_no:yes_no",
        "text-rendering": "titjudge.metrics.text_rendering:text_rendering",
        "text-rendering-vlm": "titjudge.metrics.text_rendering:text_rendering_vlm",
        **{name: f"{_LEARNED}({name})" for name in _own_learned()},
        "lmm4lmm": "titjudge.metrics.external:lmm4lmm",
        "visionreward": "titjudge.metrics.external:visionreward",
        "dsg": "titjudge.metrics.dsg:dsg",
        "tifa": "titjudge.metrics.tifa:tifa",
        "viescore": "titjudge.metrics.viescore:viescore",
        "viescore-edit": "titjudge.metrics.viescore_edit:viescore_edit",
        "editscore": "titjudge.metrics.editscore:editscore",
        "imgedit": "titjudge.metrics.imgedit:imgedit",
        "imgedit-uge": "titjudge.metrics.imgedit:imgedit_uge",
        **{
            name: f"titjudge.metrics.preservation:{name.replace('-', '_')}"
            for name in ("preservation", "preservation-l1", "preservation-ssim")
        },
        "kris": "titjudge.metrics.kris:kris",
        "rise": "titjudge.metrics.rise:rise",
        "edit-diff": "titjudge.metrics.edit_diff:edit_diff",
        "unifiedreward": "titjudge.metrics.unifiedreward:unifiedreward",
        "unifiedreward-2": "titjudge.metrics.unifiedreward:unifiedreward_2",
        "checklist": "titjudge.metrics.checklist:checklist",
        "graph-alignment": "titjudge.metrics.graph_alignment:graph_alignment",
        "questions": "titjudge.metrics.questions:questions",
        "soft-tifa": "titjudge.metrics.soft_tifa:soft_tifa",
        "text-reading": "titjudge.metrics.text_reading:text_reading",
    },
    "tasks": {},  # what writes prompts; it reads no image and does not judge
    "suites": {
        "folder": "titjudge.suites.folder:Folder",
        "prompts": "titjudge.suites.prompts:Prompts",
        "starter": "titjudge.suites.starter:Starter",
        "tiif": "titjudge.suites.tiif.suite:Tiif",
        "known-answer": "titjudge.suites.known_answer.suite:KnownAnswer",
        "lpg-bench": "titjudge.suites.lpg_bench:LpgBench",
        "longt2ibench": "titjudge.suites.longt2ibench.suite:LongT2IBench",
        "qwen-image-bench": "titjudge.suites.qwen_image_bench.suite:QwenImageBench",
        "oneig-bench": "titjudge.suites.oneig_bench:OneIGBench",
        **{file.stem: f"{_YAML_SUITE}({file})" for file in sorted(_SUITES.glob("*.yaml"))},
    },
    "aggregations": {
        "geneval": "titjudge.suites.geneval_results:GENEVAL",
        "longt2ibench": "titjudge.suites.longt2ibench.aggregation:LONGT2IBENCH",
        "qwen-image-bench": "titjudge.suites.qwen_image_bench.aggregation:QWEN_IMAGE_BENCH",
        "tiif": "titjudge.suites.tiif.aggregation:TIIF",
        "tiif-text": "titjudge.suites.tiif.aggregation:TIIF_TEXT",
    },  # what `aggregate` computes from official files
    "sinks": {},
    "learned_metrics": {},  # rows beside those of titjudge/data/learned_metrics.yaml
    "runners": {},  # what runs a configuration elsewhere than in this process
}
_ATTRIBUTES = {
    "metrics": ("name", "roles", "range", "needs", "summary", "scope", "sources"),
    "suites": ("name", "VERSION", "metrics", "DEVIATIONS"),
}
"""What an object of another package must have to be one of a kind; without it an `AttributeError` would end the command."""
DECIDES = "tit-llm"  # the metric that is looked at first where a run has several
BESIDE = frozenset({"preservation", "preservation-l1", "preservation-ssim"})
"""Metrics that stand beside the success of an edit: an edit that was not made has the best values, so they never decide."""
VENDOR_NAMES = {"google": "gemini"}  # what genai-prices calls a vendor, to what it is called here


def _known(kind: str) -> dict[str, str]:
    """Return the `module:attribute` of every name of a kind; each row of a learned metric is a metric, too."""
    learned = names("learned_metrics") if kind == "metrics" else ()
    return {**announced(kind), **{name: f"{_LEARNED}({name})" for name in learned}, **TABLES[kind]}


def overridden(kind: str, own: Iterable[str] = ()) -> dict[str, str]:
    """Return the entry points of other packages that have a name of titjudge's own, which goes first: name -> `module:attribute`.

    Args:
        kind: A kind of `TABLES`, or commands.
        own: The names of titjudge's own; those of the table of the kind without it.
    """
    # A row of a learned metric is a metric of its name.
    taken = {*own} or {*TABLES["metrics" if kind == "learned_metrics" else kind]}
    return {name: target for name, target in announced(kind).items() if name in taken}


def metric_kind(suite: str) -> str:
    """Return what a run over a suite does, as the suite says: `metrics` or `tasks`."""
    return "tasks" if load("suites", suite).TASKS else "metrics"


def is_suite_file(name: str) -> bool:
    """Tell whether the name of a suite is that of a YAML file."""
    return name.endswith((".yaml", ".yml"))


def names(kind: str) -> list[str]:
    """List the names of a kind (`providers`, `embedders`, `metrics`, `suites`, `sinks`) without importing code."""
    return sorted(_known(kind))


def check(kind: str, name: str) -> str:
    """Return the target of a name, without importing it: `module:attribute`, or `module:function(argument)` of our own.

    Raises:
        ConfigError: There is no such name; the message suggests the nearest one.
    """
    target = _known(kind).get(name)
    if target is None and kind == "suites" and is_suite_file(name):
        return f"{_YAML_SUITE}({name})"
    if target is None:
        singular = kind.removesuffix("s")
        more = f"; all others through litellm, as litellm/{name}/MODEL" if kind == "providers" else ""
        raise ConfigError(
            f"unknown {singular} '{name}'.{nearest(name, names(kind))} Known: {', '.join(names(kind))}{more}"
        )
    return target


def provider_class(name: str) -> Any:
    """Import the class of a provider, which tells of it what holds for all its models; None where there is none that loads."""
    try:
        return load("providers", name)
    except ConfigError:
        return None


def needs_model(provider: str) -> bool:
    """Tell whether a role must name a model of the provider."""
    return bool(getattr(provider_class(provider), "needs_model", True))


def uses_device(name: str) -> bool:
    """Tell whether the models of a provider, or of an embedder, run in this process on the machine's own device."""
    kinds = [kind for kind in ("providers", "embedders") if name in names(kind)]
    return any(getattr(load(kind, name), "uses_device", False) for kind in kinds)


def vendor(provider: str) -> str:
    """Return the vendor whose models a provider serves, as its class says; else the provider's own name."""
    name = getattr(provider_class(provider), "vendor", "") or provider
    return VENDOR_NAMES.get(name, name)


def listed(provider: str, model: str) -> tuple[str, str]:
    """Return the vendor of a provider's model and its name there, as the provider's class says; else both as they are."""
    known = getattr(provider_class(provider), "listed", None)
    vendor, name = known(model) if known is not None else (provider, model)
    return VENDOR_NAMES.get(vendor, vendor), name


def base_metric(name: str) -> str:
    """Return the metric in a name of scores: `pairwise` for `pairwise [openai/gpt-4o]`, one judge's part of a panel."""
    return name.partition(" [")[0]


def first_metric(names: Iterable[str]) -> str:
    """Return the metric that decides where several do: `tit-llm` where it is there, else the first that is not in `BESIDE`.

    Args:
        names: Names of scores in the order of the run, one at least; one judge's part of a panel comes after all others.
    """
    listed = sorted(names, key=lambda name: (base_metric(name) != name, name in BESIDE, name != DECIDES))
    return listed[0]


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
        singular = kind.removesuffix("s")
        cause = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"the {singular} '{name}' of an entry point ({module}:{target}) does not load: {cause}"
        ) from error
