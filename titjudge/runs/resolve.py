"""A configuration made whole: the bundled example, what lies beside the data, and the metrics that can run."""

from __future__ import annotations

import importlib.util
import inspect
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core import registry
from titjudge.core.config import RoleConfig, RunConfig
from titjudge.core.errors import ConfigError, nearest
from titjudge.core.paths import example_folder
from titjudge.metrics import Metric
from titjudge.suites.image_tree import ImageTree, split_pattern


def resolve(config: RunConfig) -> RunConfig:
    """Fill in the defaults of a configuration from the data.

    Raises:
        ConfigError: no data, or a metric lacks a model.
    """
    config = with_tree(config)
    changes: dict[str, Any] = {}
    data = config.data
    if registry.is_suite_file(config.suite):
        changes["suite"] = os.path.abspath(config.suite)
        templates = Path(changes["suite"]).parent / "prompts"
        if config.prompts is None and templates.is_dir():
            changes["prompts"] = templates
    if data is None:
        data = example_folder()
        if data is None or config.suite not in ("folder", "known-answer"):
            raise ConfigError("nothing to judge: give --data DIR")
        changes["data"] = data
    if not data.exists():
        raise ConfigError(f"{data}: no such file or folder")
    recorded = data / "descriptions.jsonl"
    captioner, judge = config.captioner, config.judge
    if captioner is None and recorded.is_file():
        captioner = RoleConfig(model="recorded")
        if judge is None and config.suite == "known-answer" and (data / "answers.jsonl").is_file():
            judge = RoleConfig(model="recorded")
    beside = recorded if data.is_dir() else data.with_name("descriptions.jsonl")
    seats = {"captioner": _replaying(captioner, beside), "judge": _replaying(judge, beside)}
    changes |= {name: seat for name, seat in seats.items() if seat != getattr(config, name)}
    if any(seat.provider == "recorded" for seat in config.panel):
        changes["panel"] = [_replaying(seat, beside) for seat in config.panel]
    if (
        config.prompts is None
        and "prompts" not in changes
        and (recorded_with := _recorded_templates(config.model_copy(update=changes), data)) is not None
    ):
        changes["prompts"] = recorded_with
    if not config.metrics:
        chosen = config.model_copy(update=changes)
        changes["metrics"] = _affordable(registry.load("suites", config.suite).metrics, chosen)
    done = config.model_copy(update=changes)
    metrics = load_metrics(done)
    if config.metric_options:  # as they were read: "8" on the command line and 8 in a file are the same run
        options = {name: dict(metric.options) for name, metric in metrics.items() if metric.options}
        done = done.model_copy(update={"metric_options": options})
    if lacking := lacking_role(done, metrics):
        next(iter(load_suite(done).load(data)), None)  # data that are none are the first thing to say
        raise ConfigError(f"{lacking[1]}{_hint(lacking[0], data)}")
    return done


def lacking_role(config: RunConfig, metrics: Mapping[str, Metric]) -> tuple[str, str] | None:
    """Find a role that a metric asks and no model plays, and what to say of it."""
    for name, metric in metrics.items():
        for role in metric.roles:
            if role != "embedder" and config.role(role) is None:
                example = f"--{role} PROVIDER/MODEL, for example --{role} openai/gpt-4o"
                return role, f"the metric {name} needs a {role}: {example}"
    return None


def with_tree(config: RunConfig) -> RunConfig:
    """Take the data folder from the pattern of the images, where that is what says it.

    Raises:
        ConfigError: a pattern without prompts, or prompts without a pattern.
    """
    bundled = getattr(registry.load("suites", config.suite), "PROMPTS", None)
    if bundled is not None and not config.prompt_file:
        where = {"prompt_file": str(bundled)} if config.images else {"data": config.data or bundled.parent}
        config = config.model_copy(update=where)
    if bool(config.images) != bool(config.prompt_file):
        raise ConfigError("--images PATTERN and --prompt-file FILE go together")
    changes: dict[str, Any] = {}
    if config.prompt_file:  # a worker elsewhere must find it
        changes["prompt_file"] = os.path.abspath(config.prompt_file)
    if config.data is None and config.images:
        changes["data"], changes["images"] = split_pattern(config.images)
    return config.model_copy(update=changes)


def _replaying(role: RoleConfig | None, file: Path) -> RoleConfig | None:
    """Give a `recorded` role the files of the data folder, unless it names its own."""
    if role is None or role.provider != "recorded" or "file" in role.options:
        return role
    return role.model_copy(update={"options": {**role.options, "file": str(file)}})


def _recorded_templates(config: RunConfig, data: Path) -> Path | None:
    """Find the templates that lie beside recorded answers: those the answers were given to, where all of them are recorded."""
    seats = [seat for seat in (config.captioner, config.judge, *config.panel) if seat is not None]
    folder = (data if data.is_dir() else data.parent).resolve() / "prompts"
    if seats and all(seat.provider == "recorded" for seat in seats) and any(folder.glob("*/*.md")):
        return folder
    return None


def _hint(role: str, data: Path) -> str:
    if role == "captioner":
        return " (or put a descriptions.jsonl into the data folder)"
    return f" (or --{role} recorded: there are recorded answers)" if (data / "answers.jsonl").is_file() else ""


def _affordable(names: Sequence[str], config: RunConfig) -> list[str]:
    """List the suite's metrics whose models are there; all of them when none is, so that the error names what is missing.

    What lacks an optional package is left out too (`left_out` says so), unless nothing else remains. A metric that asks no
    model runs beside others, and is not what remains of a suite that was given none.
    """
    have = [name for name in names if all(config.role(role) for role in load_metric(name, config.suite).roles)]
    if not any(load_metric(name, config.suite).roles for name in have):
        return list(names)
    runs = [name for name in have if _installed(load_metric(name, config.suite))]
    return runs or have or list(names)


def _installed(metric: Metric) -> bool:
    return not metric.package or importlib.util.find_spec(metric.package) is not None


def left_out(config: RunConfig, done: RunConfig) -> list[str]:
    """List what a run that names no metric does without, for lack of a model or a package, one line each.

    A plain folder has no metrics of its own: there the models that are given choose them, and nothing is missed.
    """
    names = [] if config.metrics else registry.load("suites", config.suite).metrics
    absent = [load_metric(name, config.suite) for name in names if name not in done.metrics]
    missed = [metric for metric in absent if config.suite != "folder" or not _installed(metric)]
    return [f"{metric.name} is left out, {_lacking(metric, done)}" for metric in missed]


def _lacking(metric: Metric, config: RunConfig) -> str:
    """Say what a metric lacks to be run with a configuration."""
    roles = [role for role in metric.roles if config.role(role) is None]
    if roles:
        return f"it needs a {' and a '.join(roles)}: {' '.join(f'--{role} PROVIDER/MODEL' for role in roles)}"
    return f"its package is not installed: pip install 'titjudge[{metric.extra}]'"


def load_metric(name: str, suite: str) -> Metric:
    """Load a metric, or a task over prompts, as it was registered."""
    metric: Metric = registry.load(registry.metric_kind(suite), name)
    return metric


def asked_roles(metrics: Mapping[str, Metric]) -> list[str]:
    """List the roles that metrics ask, each once."""
    return list(dict.fromkeys(role for metric in metrics.values() for role in metric.roles))


def load_metrics(config: RunConfig) -> dict[str, Metric]:
    """Load the metrics with their options.

    Raises:
        ConfigError: an option that a metric does not have, a value that does not fit, or options of a metric that is not
        among those of the run.
    """
    for name in config.metric_options:
        if name not in config.metrics:
            listed = ", ".join(config.metrics)
            raise ConfigError(
                f"there are options for {name}, which is no metric of this run ({listed}): add --metric {name}"
            )
    return {
        name: load_metric(name, config.suite).configured(config.metric_options.get(name, {})) for name in config.metrics
    }


def load_suite(config: RunConfig) -> Any:
    """Load the suite with its options.

    Raises:
        ConfigError: an option the suite does not know; the nearest is suggested. An --image-root that is no folder, and what the suite has no use for.
    """
    suite = registry.load("suites", config.suite)
    known = [name for name in inspect.signature(suite).parameters if name != "self"]
    for name in config.suite_options:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"the suite {config.suite} has no option '{name}': {has}.{nearest(name, known)}")
    made = suite(**config.suite_options)
    if hasattr(made, "protocol"):
        made.protocol = config.protocol
    for root in config.image_root:
        if not root.is_dir():
            raise ConfigError(f"--image-root {root}: no such folder")
    if config.image_root:
        if not hasattr(made, "image_roots"):
            raise ConfigError(f"the suite {config.suite} reads no images from elsewhere: leave out --image-root")
        made.image_roots = tuple(config.image_root)
    if config.images and config.prompt_file:
        if not hasattr(made, "tree"):
            raise ConfigError(f"the suite {config.suite} has a layout of its own: leave out --images")
        made.tree = ImageTree(config.images, config.prompt_file)
    if config.columns:
        if not hasattr(made, "columns"):
            raise ConfigError(f"the columns that the suite {config.suite} reads are fixed: leave out --columns")
        made.columns = config.columns
    return made
