"""The identity of a run: the part of its configuration that decides what the scores mean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from titjudge.core.config import RunConfig
from titjudge.core.errors import DataError, rule_of
from titjudge.core.types import Json, Values
from titjudge.providers.retirements import default_model, listed_default

PROMPTS, SUITE = "prompts", "suite.yaml"  # of a published run, in its folder
_EXTENSIBLE = ("metrics", "metric_options", "captioner", "judge")  # keys to which a resumed run may add
_UNRELATED = (  # keys that do not change what the scores mean
    "limits prices cache out limit limit_seed pairs report canary retry_failed image_root per_prompt "
    "engine ray_address workers"
)
_OPTIONAL = tuple("shard columns images prompt_file grid metric_options ignore_sources sources detector".split())
_OPTIONAL_OF_ROLES = tuple("omit max_side squash thinking_level top_logprobs".split())


def identity(config: RunConfig) -> Json:
    """Extract the keys of a configuration that decide what the scores mean; the others may change when a run is resumed.

    Optional keys are omitted if they are not set, so that a run keeps its identity when a key is added.
    """
    record: Json = config.model_dump(mode="json", exclude=set(_UNRELATED.split()))
    if config.data is not None:
        record["data"] = str(config.data.resolve())
    _drop_unset(record, _OPTIONAL)
    named = (record["captioner"], record["judge"], record["embedder"], record.get("detector"), *record["panel"])
    for role in filter(None, named):
        _drop_unset(role, _OPTIONAL_OF_ROLES)
        role["options"].pop("client", None)  # every client sends the same requests
        if role["base_url"]:
            role["base_url"] = without_credentials(role["base_url"])
        if default_model(role["model"]) != listed_default(role["model"]):
            role["model"] += f"/{default_model(role['model'])}"  # the default of a provider has become another model
    return record


def _drop_unset(record: Json, names: Iterable[str]) -> None:
    for name in names:
        if not record[name]:
            del record[name]


def begun_with(identity: Values) -> Json:
    """Return the identity of a run with the models that it began with, if a provider's default is another one today."""
    roles = {name: _with_first_default(identity[name]) for name in ("captioner", "judge") if name in identity}
    panel = {"panel": list(map(_with_first_default, identity["panel"]))} if "panel" in identity else {}
    return {**identity, **roles, **panel}


def _with_first_default(role: Any) -> Any:
    provider = role.get("model", "") if isinstance(role, Mapping) else ""
    if not isinstance(role, Mapping) or default_model(provider) == listed_default(provider):
        return role
    return {**role, "model": f"{provider}/{listed_default(provider)}"}


def config_of(identity: Values, path: Path) -> RunConfig:
    """Read the configuration of a run from its identity, with the models that it began with.

    Raises:
        DataError: This version cannot read it.
    """
    try:
        return RunConfig.model_validate(begun_with(_beside(identity, path)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(
            f"its configuration cannot be read ({where}: {rule_of(first)}). Choose another run", path / "manifest.json"
        ) from error


def _beside(identity: Values, path: Path) -> Values:
    """Find the templates and the suite of a published run in its folder (`published_copy`)."""
    keys = [key for key in ("prompts", "suite") if identity.get(key) in (PROMPTS, SUITE)]
    copies = {key: str(path / str(identity[key])) for key in keys}
    return {**identity, **{key: name for key, name in copies.items() if Path(name).exists()}}


def without_credentials(addresses: str) -> str:
    """Strip from comma-separated addresses the parts that may be secret: user, password, query."""
    from titjudge.providers.hosted.http import Endpoint

    return ",".join(Endpoint(url.strip()).identity for url in addresses.split(","))


def default_folder(config: RunConfig) -> Path:
    """Name the run folder, `runs/<data>-<hash>`: repeating a command finds the same folder again, and resumes."""
    digest = hashlib.sha256(orjson.dumps(identity(config), option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]
    name = config.data.resolve().stem if config.data else config.suite
    return Path("runs") / f"{name}-{digest}"


def differing(theirs: Values, mine: Values) -> list[str]:
    """List the keys in which two identities differ."""
    return sorted(key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key))


def extends(theirs: Values, mine: Values) -> bool:
    """Return True if `mine` is the run `theirs` with more metrics, and perhaps a role that only those need.

    Every score that the run has already keeps its meaning then.
    """
    before, now = theirs.get("metrics") or [], mine.get("metrics") or []
    options = mine.get("metric_options") or {}
    return (
        set(differing(theirs, mine)) <= set(_EXTENSIBLE)
        and set(before) < set(now)
        and all(options.get(name) == values for name, values in (theirs.get("metric_options") or {}).items())
        and not any(name in before and name not in (theirs.get("metric_options") or {}) for name in options)
        and all(theirs.get(role) in (None, mine.get(role)) for role in ("captioner", "judge"))
    )


def other_run(theirs: Values, mine: Values) -> str:
    """Write how the run in a folder differs from the requested one, and the remedy."""
    changed, kept = differing(theirs, mine), "what was answered comes from the cache and is not paid again"
    if changed == ["metrics"]:
        has, wants = (", ".join(record.get("metrics", ())) for record in (theirs, mine))
        return (
            f"is a run of {has}, and metrics can only be added: give {wants} another --out ({kept}), or name the "
            "others as well"
        )
    others = ", ".join(f"{key}{_its_model(theirs, mine, key)}" for key in changed)
    return f"is a run with another {others}: choose another --out ({kept})"


def _its_model(theirs: Values, mine: Values, key: str) -> str:
    """Return the model of a role of the run in a folder, if it is not the requested one."""
    before, now = (record.get(key) for record in (theirs, mine))
    both = isinstance(before, Mapping) and isinstance(now, Mapping) and before.get("model") != now.get("model")
    return f" ({before['model']}, not {now['model']})" if both else ""  # type: ignore[index]
