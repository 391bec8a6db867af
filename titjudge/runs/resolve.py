"""Complete a configuration: the bundled example, the files beside the data, and the metrics that can run."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from titjudge.core import registry
from titjudge.core.config import RoleConfig, RunConfig
from titjudge.core.errors import ConfigError, nearest
from titjudge.core.paths import example_folder
from titjudge.metrics import Metric
from titjudge.runs.folder.identity import default_folder
from titjudge.suites.base import Suite, SuiteInputs
from titjudge.suites.loading import open_suite, suite_class
from titjudge.suites.patterns import split_pattern


@dataclass(frozen=True, slots=True)
class ResolvedMetrics:
    """Metrics of which everything is known before a model is opened.

    Attributes:
        config: The configuration, complete.
        metrics: Its metrics by name, with their options.
    """

    config: RunConfig
    metrics: dict[str, Metric]

    @property
    def roles(self) -> list[str]:
        """The roles that the metrics ask, each once."""
        return list(dict.fromkeys(role for metric in self.metrics.values() for role in metric.roles))

    @property
    def models(self) -> list[str]:
        """The roles with, for `judge`, its whole panel."""
        return sorted({*self.roles, *(self.config.judge_roles if "judge" in self.roles else ())})

    @property
    def folder(self) -> Path:
        """The run folder: as configured, else one that is named after data and models."""
        return self.config.out or default_folder(self.config)


@dataclass(frozen=True, slots=True)
class ResolvedRun(ResolvedMetrics):
    """A run over data.

    Attributes:
        suite: Reads the data.
        left_out: The suite's metrics that the run leaves out for lack of a model or a package, a line each.
    """

    suite: Suite
    left_out: list[str] = field(default_factory=list)


def resolve(config: RunConfig) -> ResolvedRun:
    """Fill in the defaults of a configuration from the data, and load its suite and metrics.

    Raises:
        ConfigError: there are no data, or a metric lacks a model.
    """
    asked, config = config.metrics, _with_recordings(_with_data(with_tree(config)))
    suite = load_suite(config)
    listed = _loaded(asked or suite.metrics, config)
    if not asked:
        config = config.model_copy(update={"metrics": _runnable(listed, config)})
    metrics = _configured(listed, config)
    if config.metric_options:  # parsed: "8" on the command line and 8 in a file are the same run
        options = {name: dict(metric.options) for name, metric in metrics.items() if metric.options}
        config = config.model_copy(update={"metric_options": options})
    if lacking := lacking_role(config, metrics):
        assert config.data is not None
        next(iter(suite.load(config.data)), None)  # malformed data are reported first
        raise ConfigError(f"{lacks(*lacking)}{_hint(lacking[1], config.data)}")
    return ResolvedRun(config, metrics, suite, [] if asked else _left_out(listed, config))


def stored_run(config: RunConfig) -> ResolvedRun:
    """Load suite and metrics of a configuration that is complete, as a run folder holds it.

    Raises:
        ConfigError: its suite or a metric is missing here.
    """
    return ResolvedRun(config, load_metrics(config), load_suite(config))


def resolve_metrics(config: RunConfig) -> ResolvedMetrics:
    """Load the metrics of a configuration for images that come one by one; the keys that name data are ignored.

    Raises:
        ConfigError: a metric is missing, or an option is unknown.
    """
    return ResolvedMetrics(config, load_metrics(config))


def _with_data(config: RunConfig) -> RunConfig:
    """Name the data, and the templates beside a suite that is a file.

    Raises:
        ConfigError: there are none.
    """
    changes: dict[str, Any] = {}
    if registry.is_suite_file(config.suite):
        changes["suite"] = os.path.abspath(config.suite)
        templates = Path(changes["suite"]).parent / "prompts"
        if config.prompts is None and templates.is_dir():
            changes["prompts"] = templates
    if config.data is None:
        changes["data"] = example_folder()
        if changes["data"] is None or config.suite not in ("folder", "known-answer"):
            raise ConfigError("nothing to judge: give --data DIR")
    config = config.model_copy(update=changes)
    if config.data is not None and not config.data.exists():
        raise ConfigError(f"{config.data}: no such file or folder{_neighbour(config.data)}")
    return config


def _neighbour(missing: Path) -> str:
    """Name what lies beside a path that is not there and is called much the same."""
    with contextlib.suppress(OSError):
        hint = nearest(missing.name, (beside.name for beside in missing.parent.iterdir()))
        return f".{hint}" if hint else ""
    return ""


def _with_recordings(config: RunConfig) -> RunConfig:
    """Let recorded answers beside the data answer where no model is named, with the templates beside them."""
    assert config.data is not None
    data, captioner, judge = config.data, config.captioner, config.judge
    recorded = data / "descriptions.jsonl"
    if captioner is None and recorded.is_file():
        captioner = RoleConfig(model="recorded")
        if judge is None and config.suite == "known-answer" and (data / "answers.jsonl").is_file():
            judge = RoleConfig(model="recorded")
    beside = recorded if data.is_dir() else data.with_name("descriptions.jsonl")
    changes: dict[str, Any] = {"captioner": _replaying(captioner, beside), "judge": _replaying(judge, beside)}
    changes["panel"] = [_replaying(role, beside) for role in config.panel]
    config = config.model_copy(update=changes)
    if config.prompts is None:
        config = config.model_copy(update={"prompts": _recorded_templates(config, data)})
    return config


def lacking_role(config: RunConfig, metrics: Mapping[str, Metric]) -> tuple[str, str] | None:
    """Return the name of a metric and a role that it asks and that has no model; None where there is none."""
    for name, metric in metrics.items():
        for role in metric.roles:
            if role != "embedder" and config.role(role) is None:
                return name, role
    return None


def lacks(metric: str, role: str) -> str:
    """Say on the command line that a metric has no model for a role."""
    return f"the metric {metric} needs a {role}: --{role} PROVIDER/MODEL, for example --{role} openai/gpt-4o, or --provider openai"


def with_tree(config: RunConfig) -> RunConfig:
    """Take the data folder from the pattern of the images (`--images`), where there is one.

    Raises:
        ConfigError: a pattern without prompts, or prompts without a pattern.
    """
    bundled = suite_class(config.suite).PROMPTS
    if bundled is not None and not config.prompt_file:
        where = {"prompt_file": str(bundled)} if config.images else {"data": config.data or bundled.parent}
        config = config.model_copy(update=where)
    if (config.images and not config.prompt_file) or (config.prompt_file and not (config.images or config.data)):
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


def _runnable(metrics: Mapping[str, Metric], config: RunConfig) -> list[str]:
    """List the suite's metrics whose models are configured and whose packages are installed.

    Where no metric that asks a model has one, all are listed, so that the error names the missing role. Metrics without their
    package are listed where nothing else remains.
    """
    configured = [name for name, metric in metrics.items() if all(map(config.role, metric.roles))]
    if not any(metrics[name].roles for name in configured):
        return list(metrics)
    return [name for name in configured if _installed(metrics[name])] or configured


def _installed(metric: Metric) -> bool:
    return not metric.package or importlib.util.find_spec(metric.package) is not None


def _left_out(metrics: Mapping[str, Metric], config: RunConfig) -> list[str]:
    """List the suite's metrics that a run without --metric leaves out for lack of a model or a package, one line each.

    The suite `folder` has no metrics of its own: there the configured models decide, and only packages can be missing.
    """
    lines = []
    for metric in (metric for name, metric in metrics.items() if name not in config.metrics):
        roles = [role for role in metric.roles if config.role(role) is None]
        what = f"its package is not installed: pip install 'titjudge[{metric.extra}]'"
        if roles:
            what = f"it needs a {' and a '.join(roles)}: {' '.join(f'--{role} PROVIDER/MODEL' for role in roles)}"
        if config.suite != "folder" or not _installed(metric):
            lines.append(f"{metric.name} is left out, {what}")
    return lines


def _loaded(names: Iterable[str], config: RunConfig) -> dict[str, Metric]:
    """Load metrics, or for a suite of prompts tasks, by their registered names."""
    kind = registry.metric_kind(config.suite)
    return {name: registry.load(kind, name) for name in names}


def load_metrics(config: RunConfig) -> dict[str, Metric]:
    """Load the metrics with their options.

    Raises:
        ConfigError: an unknown option, a value that does not fit, or options for a metric that the run does not have.
    """
    return _configured(_loaded(config.metrics, config), config)


def _configured(metrics: Mapping[str, Metric], config: RunConfig) -> dict[str, Metric]:
    """Give the metrics of a run their options."""
    for name in config.metric_options:
        if name not in config.metrics:
            what = f"there are options for {name}, which is no metric of this run ({', '.join(config.metrics)})"
            raise ConfigError(f"{what}: add --metric {name}")
    return {name: metrics[name].configured(config.metric_options.get(name, {})) for name in config.metrics}


def load_suite(config: RunConfig) -> Suite:
    """Load the suite with its options.

    Raises:
        ConfigError: an unknown option, an --image-root that is no folder, or a flag that the suite does not use.
    """
    for root in config.image_root:
        if not root.is_dir():
            raise ConfigError(f"--image-root {root}: no such folder")
    images, prompt_file = config.images or "", config.prompt_file or ""
    columns = {str(role): names for role, names in config.columns.items()}
    inputs = SuiteInputs(config.protocol, tuple(config.image_root), columns, images, prompt_file, tuple(config.sources))
    return open_suite(config.suite, inputs, config.suite_options)
