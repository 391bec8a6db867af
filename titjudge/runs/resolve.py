"""Complete a configuration: the bundled example, the files beside the data, and the metrics that can run."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core import registry
from titjudge.core.config import RoleConfig, RunConfig
from titjudge.core.errors import ConfigError
from titjudge.core.paths import example_folder
from titjudge.metrics import Metric
from titjudge.suites.base import Suite, SuiteInputs
from titjudge.suites.image_tree import split_pattern
from titjudge.suites.loading import open_suite, suite_class


def resolve(config: RunConfig) -> RunConfig:
    """Fill in the defaults of a configuration from the data.

    Raises:
        ConfigError: there are no data, or a metric lacks a model.
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
    changes |= {"captioner": _replaying(captioner, beside), "judge": _replaying(judge, beside)}
    changes["panel"] = [_replaying(role, beside) for role in config.panel]
    done = config.model_copy(update=changes)
    if done.prompts is None:
        done = done.model_copy(update={"prompts": _recorded_templates(done, data)})
    if not config.metrics:
        names = _runnable(suite_class(config.suite).metrics, done)
        done = done.model_copy(update={"metrics": names})
    metrics = load_metrics(done)
    if config.metric_options:  # parsed: "8" on the command line and 8 in a file are the same run
        options = {name: dict(metric.options) for name, metric in metrics.items() if metric.options}
        done = done.model_copy(update={"metric_options": options})
    if lacking := lacking_role(done, metrics):
        next(iter(load_suite(done).load(data)), None)  # malformed data are reported first
        raise ConfigError(f"{lacking[1]}{_hint(lacking[0], data)}")
    return done


def lacking_role(config: RunConfig, metrics: Mapping[str, Metric]) -> tuple[str, str] | None:
    """Return a role that a metric asks and that has no model, with the message for the user; None where there is none."""
    for name, metric in metrics.items():
        for role in metric.roles:
            if role != "embedder" and config.role(role) is None:
                example = f"--{role} PROVIDER/MODEL, for example --{role} openai/gpt-4o"
                return role, f"the metric {name} needs a {role}: {example}"
    return None


def with_tree(config: RunConfig) -> RunConfig:
    """Take the data folder from the pattern of the images (`--images`), where there is one.

    Raises:
        ConfigError: a pattern without prompts, or prompts without a pattern.
    """
    bundled = suite_class(config.suite).PROMPTS
    if bundled is not None and not config.prompt_file:
        where = {"prompt_file": str(bundled)} if config.images else {"data": config.data or bundled.parent}
        config = config.model_copy(update=where)
    if bool(config.images) != bool(config.prompt_file):
        example = f"--images '{config.data or 'out'}/{{generator}}/{{prompt_id}}.png' --prompt-file {config.prompt_file or 'prompts.txt'}"
        raise ConfigError(f"--images PATTERN and --prompt-file FILE go together, as in {example}")
    changes: dict[str, Any] = {}
    if config.prompt_file:  # absolute, for workers with another working directory
        changes["prompt_file"] = os.path.abspath(config.prompt_file)
    if config.data is None and config.images:
        changes["data"], changes["images"] = split_pattern(config.images)
    return config.model_copy(update=changes)


def _replaying(role: RoleConfig | None, file: Path) -> RoleConfig | None:
    """Give a `recorded` role the file of the data folder, unless it names its own."""
    if role is None or role.provider != "recorded" or "file" in role.options:
        return role
    return role.model_copy(update={"options": {**role.options, "file": str(file)}})


def _recorded_templates(config: RunConfig, data: Path) -> Path | None:
    """Find the prompt templates beside recorded answers, where all models are `recorded`."""
    roles = [role for role in (config.captioner, config.judge, *config.panel) if role is not None]
    folder = (data if data.is_dir() else data.parent).resolve() / "prompts"
    if roles and all(role.provider == "recorded" for role in roles) and any(folder.glob("*/*.md")):
        return folder
    return None


def _hint(role: str, data: Path) -> str:
    if role == "captioner":
        return " (or put a descriptions.jsonl into the data folder)"
    return f" (or --{role} recorded: there are recorded answers)" if (data / "answers.jsonl").is_file() else ""


def _runnable(names: Sequence[str], config: RunConfig) -> list[str]:
    """List the suite's metrics whose models are configured and whose packages are installed.

    Where no metric that asks a model has one, all are listed, so that the error names the missing role. Metrics without their
    package are listed where nothing else remains.
    """
    metrics = {name: load_metric(name, config.suite) for name in names}
    configured = [name for name, metric in metrics.items() if all(map(config.role, metric.roles))]
    if not any(metrics[name].roles for name in configured):
        return list(names)
    return [name for name in configured if _installed(metrics[name])] or configured


def _installed(metric: Metric) -> bool:
    return not metric.package or importlib.util.find_spec(metric.package) is not None


def left_out(config: RunConfig, done: RunConfig) -> list[str]:
    """List the suite's metrics that a run without --metric leaves out for lack of a model or a package, one line each.

    The suite `folder` has no metrics of its own: there the configured models decide, and only packages can be missing.
    """
    names = [] if config.metrics else suite_class(config.suite).metrics
    lines = []
    for metric in (load_metric(name, config.suite) for name in names if name not in done.metrics):
        roles = [role for role in metric.roles if done.role(role) is None]
        what = f"its package is not installed: pip install 'titjudge[{metric.extra}]'"
        if roles:
            what = f"it needs a {' and a '.join(roles)}: {' '.join(f'--{role} PROVIDER/MODEL' for role in roles)}"
        if config.suite != "folder" or not _installed(metric):
            lines.append(f"{metric.name} is left out, {what}")
    return lines


def load_metric(name: str, suite: str) -> Metric:
    """Load a metric, or for a suite of prompts a task, by its registered name."""
    metric: Metric = registry.load(registry.metric_kind(suite), name)
    return metric


def asked_roles(metrics: Mapping[str, Metric]) -> list[str]:
    """List the roles that metrics ask, each once."""
    return list(dict.fromkeys(role for metric in metrics.values() for role in metric.roles))


def load_metrics(config: RunConfig) -> dict[str, Metric]:
    """Load the metrics with their options.

    Raises:
        ConfigError: an unknown option, a value that does not fit, or options for a metric that the run does not have.
    """
    for name in config.metric_options:
        if name not in config.metrics:
            what = f"there are options for {name}, which is no metric of this run ({', '.join(config.metrics)})"
            raise ConfigError(f"{what}: add --metric {name}")
    return {
        name: load_metric(name, config.suite).configured(config.metric_options.get(name, {})) for name in config.metrics
    }


def load_suite(config: RunConfig) -> Suite:
    """Load the suite with its options.

    Raises:
        ConfigError: an unknown option, an --image-root that is no folder, or a flag that the suite does not use.
    """
    for root in config.image_root:
        if not root.is_dir():
            raise ConfigError(f"--image-root {root}: no such folder")
    images, prompt_file = (config.images, config.prompt_file) if config.images and config.prompt_file else ("", "")
    columns = {str(role): names for role, names in config.columns.items()}
    inputs = SuiteInputs(config.protocol, tuple(config.image_root), columns, images, prompt_file)
    return open_suite(config.suite, inputs, config.suite_options)
