"""Complete a configuration: the bundled example, the files beside the data, and the metrics that can run."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from titjudge.core import registry
from titjudge.core.config import RoleConfig, RunConfig, flag_of, with_roles
from titjudge.core.errors import ConfigError
from titjudge.core.types import Note
from titjudge.metrics import Metric
from titjudge.runs.folder.identity import default_folder
from titjudge.suites.base import Suite
from titjudge.suites.loading import open_suite, with_data


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
        """The roles that the metrics ask, each once; optional ones only if they are configured."""
        metrics = self.metrics.values()
        optional = (role for metric in metrics for role in metric.optional_roles if self.config.role(role) is not None)
        return list(dict.fromkeys([*(role for metric in metrics for role in metric.roles), *optional]))

    @property
    def models(self) -> list[str]:
        """The roles with, for `judge`, its whole panel."""
        return sorted({*self.roles, *(self.config.judge_roles if "judge" in self.roles else ())})

    @property
    def folder(self) -> Path:
        """The run folder: as configured, otherwise named after data and models."""
        return self.config.out or default_folder(self.config)


@dataclass(frozen=True, slots=True)
class ResolvedRun(ResolvedMetrics):
    """A run over data.

    Attributes:
        suite: Reads the data.
        left_out: The suite's metrics that the run leaves out because a model or a package is missing, one line each.
    """

    suite: Suite
    left_out: list[Note] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A metric that a run may have.

    Attributes:
        metric: The metric, without options.
        lacking: The roles that it asks, but without a model.
    """

    metric: Metric
    lacking: list[str]


def resolve(config: RunConfig) -> ResolvedRun:
    """Fill in the defaults of a configuration from the data, and load its suite and metrics.

    Raises:
        ConfigError: There are no data, or a metric has no model.
    """
    config = with_data(config)
    suite = open_suite(config)
    config = _with_served_models(_with_recordings(config))
    candidates = _candidates(config.metrics or suite.metrics, config)
    left_out: list[Note] = []
    if not config.metrics:
        config = config.model_copy(update={"metrics": _runnable(candidates)})
        left_out = _left_out(candidates, config)
    metrics = _configured(candidates, config)
    if config.metric_options:  # parsed: "8" on the command line and 8 in a file are the same run
        options = {name: dict(metric.options) for name, metric in metrics.items() if metric.options}
        config = config.model_copy(update={"metric_options": options})
    for name in metrics:
        for role in candidates[name].lacking:
            assert config.data is not None
            next(iter(suite.load(config.data)), None)  # malformed data are reported first
            raise ConfigError(f"{lacks(name, role)}{_hint(role, config.data)}")
    return ResolvedRun(config, metrics, suite, left_out)


def stored_run(config: RunConfig) -> ResolvedRun:
    """Load suite and metrics of a configuration that is complete, as stored in a run folder.

    Raises:
        ConfigError: Its suite or a metric is missing here.
    """
    return ResolvedRun(config, load_metrics(config), open_suite(config))


def resolve_metrics(config: RunConfig) -> ResolvedMetrics:
    """Load the metrics of a configuration for images that come one by one; the keys that name data are ignored.

    Raises:
        ConfigError: A metric is missing, or an option is unknown.
    """
    config = _with_served_models(config)
    return ResolvedMetrics(config, load_metrics(config))


def load_metrics(config: RunConfig) -> dict[str, Metric]:
    """Load the metrics with their options.

    Raises:
        ConfigError: An unknown option, a value that does not fit, or options for a metric that the run does not have.
    """
    return _configured(_candidates(config.metrics, config), config)


def lacks(metric: str, role: str) -> str:
    """Write for the command line that a metric has no model for a role."""
    return f"the metric {metric} needs a {role}. Give {flag_of(role)}PROVIDER/MODEL, such as {flag_of(role)}openai/gpt-6-luna, or --provider openai"


def _with_recordings(config: RunConfig) -> RunConfig:
    """Let recorded answers next to the data answer if no model is configured, with the templates beside them."""
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
    changes["detector"] = _replaying(config.detector, beside)
    config = config.model_copy(update=changes)
    if config.prompts is None:
        config = config.model_copy(update={"prompts": _recorded_templates(config, data)})
    return config


def _with_served_models(config: RunConfig) -> RunConfig:
    """Name the model of each role that names only the address of its server: the one that the server has.

    Raises:
        ConfigError: The server does not answer, or has several models.
    """
    unnamed = {
        name: role
        for name, role in config.roles.items()
        if role.model == "openai" and (role.base_url or os.environ.get("OPENAI_BASE_URL"))
    }
    if not unnamed:
        return config
    from titjudge.providers.hosted.served_models import served_model

    flags = ["--provider "] if len(unnamed) > 1 else [flag_of(name) for name in unnamed]
    models: dict[tuple[str | None, str | None], str] = {}  # by address and key: a server is asked once
    for role in unnamed.values():
        if (place := (role.base_url, role.api_key_env)) not in models:
            models[place] = served_model(config.settings_of(role), flags)
    found = {name: models[role.base_url, role.api_key_env] for name, role in unnamed.items()}
    return with_roles(config, {name: {"model": f"openai/{model}"} for name, model in found.items() if model})


def _replaying(role: RoleConfig | None, file: Path) -> RoleConfig | None:
    """Give a `recorded` role the file of the data folder, unless it has one."""
    if role is None or role.provider != "recorded" or "file" in role.options:
        return role
    return role.model_copy(update={"options": {**role.options, "file": str(file)}})


def _recorded_templates(config: RunConfig, data: Path) -> Path | None:
    """Find the prompt templates beside recorded answers, if all models are `recorded`."""
    roles = [role for role in (config.captioner, config.judge, *config.panel, config.detector) if role is not None]
    folder = (data if data.is_dir() else data.parent).resolve() / "prompts"
    if roles and all(role.provider == "recorded" for role in roles) and any(folder.glob("*/*.md")):
        return folder
    return None


def _hint(role: str, data: Path) -> str:
    if role == "captioner":
        return " (or put a descriptions.jsonl into the data folder)"
    return f" (or --{role} recorded: there are recorded answers)" if (data / "answers.jsonl").is_file() else ""


def _candidates(names: Iterable[str], config: RunConfig) -> dict[str, _Candidate]:
    """Load metrics, or for a suite of prompts tasks, by their registered names."""
    kind, candidates = registry.metric_kind(config.suite), {}
    for name in names:
        metric = registry.load(kind, name)
        candidates[name] = _Candidate(metric, config.without_model(metric.roles))
    return candidates


def _runnable(candidates: Mapping[str, _Candidate]) -> list[str]:
    """List the suite's metrics whose models are configured and whose packages are installed.

    If no metric that asks a model has one, all are listed, so that the error names the missing role. Metrics without their
    package are listed if nothing else remains.
    """
    configured = {name: candidate for name, candidate in candidates.items() if not candidate.lacking}
    if not any(candidate.metric.roles for candidate in configured.values()):
        return list(candidates)
    return [name for name, candidate in configured.items() if _installed(candidate.metric)] or list(configured)


def _installed(metric: Metric) -> bool:
    return not metric.package or importlib.util.find_spec(metric.package) is not None


def _left_out(candidates: Mapping[str, _Candidate], config: RunConfig) -> list[Note]:
    """List the suite's metrics that a run without --metric leaves out because a model or a package is missing, one line each.

    The suite `folder` has no fixed metrics: there the configured models decide, and only packages can be missing.
    """
    lines = []
    for name, candidate in candidates.items():
        if name in config.metrics or (config.suite == "folder" and _installed(candidate.metric)):
            continue
        what = f"its package is not installed: pip install 'titjudge[{candidate.metric.extra}]'"
        if roles := candidate.lacking:
            what = f"it needs a {' and a '.join(roles)}: {' '.join(f'{flag_of(role)}PROVIDER/MODEL' for role in roles)}"
        lines.append(Note("metric_left_out", f"{candidate.metric.name} is left out, {what}"))
    return lines


def _configured(candidates: Mapping[str, _Candidate], config: RunConfig) -> dict[str, Metric]:
    """Give the metrics of a run their options."""
    for name in config.metric_options:
        if name not in config.metrics:
            what = f"options are given for {name}, but the metrics are {', '.join(config.metrics)}"
            raise ConfigError(f"{what}. Add --metric {name}")
    return {name: candidates[name].metric.configured(config.metric_options.get(name, {})) for name in config.metrics}
