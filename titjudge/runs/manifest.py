"""What manifest.json says of a run: who answered by which prompts and metrics, and how far it has come."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import titjudge
from titjudge.core.config import RunConfig
from titjudge.core.retirements import same_model
from titjudge.core.run_records import SCHEMA_VERSION, Manifest, RoleRecord
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import RoleStats
from titjudge.metrics import Metric
from titjudge.runs.identity import identity


def provenance(
    config: RunConfig, engine: Engine, metrics: Mapping[str, Metric], before: Manifest | None = None, **more: Any
) -> Manifest:
    """Describe a run: models, versions, endpoints, prompts, metric versions, software.

    Args:
        config: the configuration of this session.
        engine: what asked and counted.
        metrics: the metrics by name.
        before: the manifest of the run's earlier sessions; what it says of who answered is kept and added to.
        more: further keys of the manifest.
    """
    before = before or Manifest()
    sessions = {role.name: _role(role.label, role.provider.base_url, role.tally) for role in engine.roles.open()}
    embedder = engine.roles.embedded
    if embedder.asked or embedder.cached:
        sessions["embedder"] = _role(engine.roles.embedder().name, "", embedder)
    roles = {name: role.to_json() for name, role in before.roles.items()}
    for name, session in sessions.items():
        whole = before.roles.get(name, RoleRecord()).plus(session)
        roles[name] = whole.with_(cached=session.cached).to_json()
    return Manifest.model_validate(
        {
            "schema_version": SCHEMA_VERSION,
            "titjudge": titjudge.__version__,
            "identity": identity(config),
            "limits": config.limits.model_dump(),
            "protocol": config.protocol,
            "metrics": {name: _metric(metric) for name, metric in metrics.items()},
            "prompts": {**before.prompts, **engine.library.used},
            "roles": roles,
            **more,
        }
    )


def _role(label: str, base_url: str, stats: RoleStats) -> RoleRecord:
    """Record what a role did in this session."""
    usage = stats.usage
    return RoleRecord.model_validate(
        {
            "model": label,
            "base_url": base_url,
            "answered": [
                {"version": version, "endpoint": endpoint, "answers": count}
                for (version, endpoint), count in stats.versions.items()
            ],
            "asked": stats.asked,
            "cached": stats.cached,
            "errors": stats.errors,
            "unusable": stats.unusable,
            "spent": stats.spent,
            "seconds": stats.seconds,
            "tokens": {"input": usage.input, "output": usage.output, "thinking": usage.thinking},
        }
    )


def _metric(metric: Metric) -> dict[str, Any]:
    record: dict[str, Any] = {
        "version": metric.version,
        "range": [end if math.isfinite(end) else None for end in metric.range],  # JSON knows no infinity
        "source": metric.source,
        "higher_is_better": metric.higher_is_better,
    }
    return record | ({"options": dict(metric.options)} if metric.options else {})


def mixed(roles: Mapping[str, RoleRecord]) -> list[str]:
    """Say for which roles another model answered, too; a line each."""
    lines = []
    for role in roles.values():
        asked = role.model.partition("/")[2]
        answers = {each.version: each.answers for each in role.answered if each.version}
        others = {version: count for version, count in answers.items() if not same_model(asked, version)}
        if others:
            names = ", ".join(sorted({version.partition("@")[0] for version in others}))
            lines.append(
                f"mixed run: {sum(others.values()):,} of {sum(answers.values()):,} answers to {role.model} came from {names}; "
                "they are not kept for other runs, and scores of the two models are not comparable"
            )
    return lines


def changed_versions(manifest: Manifest) -> list[str]:
    """Name the models that changed their version while they were being asked; a line each."""
    lines = []
    for role in manifest.roles.values():
        versions = sorted({each.version for each in role.answered if each.version})
        if len(versions) > 1:
            lines.append(f"{role.model} answered as {len(versions)} model versions in this run: {', '.join(versions)}")
    return lines
