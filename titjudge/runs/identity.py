"""What makes two runs the same run: the part of a configuration that decides what the scores mean."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.config import RunConfig
from titjudge.core.retirements import DEFAULT_MODELS, default_model
from titjudge.providers.hosted.http import Endpoint

_ADDED = ("metrics", "metric_options", "captioner", "judge")  # what a run may get more of


def identity(config: RunConfig) -> dict[str, Any]:
    """Extract the part of a configuration that decides what the scores mean; the rest may change between resumptions."""
    record: dict[str, Any] = config.model_dump(
        mode="json",
        exclude={
            "limits",
            "prices",
            "cache",
            "out",
            "limit",
            "limit_seed",
            "pairs",
            "report",
            "canary",
            "retry_failed",
            "image_root",
            "per_prompt",
        },
    )
    if config.data is not None:
        record["data"] = str(config.data.resolve())
    for name in ("engine", "ray_address", "workers"):
        del record[name]
    if config.shard is None:
        del record["shard"]  # a whole run has the identity it had before there were shards
    for name in ("columns", "images", "prompt_file", "grid"):
        if not record[name]:
            del record[name]  # likewise
    if not config.metric_options:
        del record["metric_options"]  # likewise
    for role in (record["captioner"], record["judge"], record["embedder"], *record["panel"]):
        for name in ("omit", "max_side", "squash", "top_logprobs"):
            if role and not role[name]:
                del role[name]  # likewise
        if role:
            role["options"].pop("client", None)  # the same is sent either way
        if role and role["base_url"]:
            role["base_url"] = without_credentials(role["base_url"])
        if role and default_model(role["model"]) != DEFAULT_MODELS.get(role["model"], ""):
            role["model"] += f"/{default_model(role['model'])}"  # the default of a provider has become another model
    return record


def without_credentials(addresses: str) -> str:
    """Strip from comma-separated addresses what may be secret in them: user, password, query."""
    return ",".join(Endpoint(url.strip()).identity for url in addresses.split(","))


def default_folder(config: RunConfig) -> Path:
    """Name the run folder, `runs/<data>-<hash>`: the same command finds the same folder again, and so resumes."""
    digest = hashlib.sha256(orjson.dumps(identity(config), option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]
    name = config.data.resolve().stem if config.data else config.suite
    return Path("runs") / f"{name}-{digest}"


def differing(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    """List the keys in which two identities differ."""
    return sorted(key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key))


def extends(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> bool:
    """Tell whether `mine` is the run `theirs` with more metrics, and perhaps a model that only they need.

    Every score that the run has already then keeps its meaning.
    """
    before, now = theirs.get("metrics") or [], mine.get("metrics") or []
    options = mine.get("metric_options") or {}
    return (
        set(differing(theirs, mine)) <= set(_ADDED)
        and set(before) < set(now)
        and all(options.get(name) == given for name, given in (theirs.get("metric_options") or {}).items())
        and not any(name in before and name not in (theirs.get("metric_options") or {}) for name in options)
        and all(theirs.get(role) in (None, mine.get(role)) for role in ("captioner", "judge"))
    )


def other_run(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """Say that a folder holds another run than the one that is asked for, and what to do."""
    changed, kept = differing(theirs, mine), "what was answered comes from the cache and is not paid again"
    if changed == ["metrics"]:
        has, wants = (", ".join(each.get("metrics", ())) for each in (theirs, mine))
        return (
            f"holds a run of {has}, and metrics can only be added: give {wants} another --out ({kept}), or name the "
            "others as well"
        )
    return f"holds a run with another {', '.join(changed)}: choose another --out ({kept})"
