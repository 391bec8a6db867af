"""Make the manifest of a run: models, endpoints, prompts, metrics and progress."""

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
from titjudge.runs.folder.identity import identity


def make_manifest(
    config: RunConfig, engine: Engine, metrics: Mapping[str, Metric], before: Manifest | None = None, **more: Any
) -> Manifest:
    """Describe a run: models, versions, endpoints, prompts, metric versions, software.

    Args:
        config: The configuration of this session.
        engine: The engine, which has counted the answers of this session.
        metrics: The metrics by name.
        before: The manifest of the run's earlier sessions; its roles and prompts are kept and added to.
        more: Further keys of the manifest.
    """
    before = before or Manifest()
    sessions = {
        role.name: _role(role.label, role.provider.base_url, role.tally).with_(
            not_sent=sorted({*role.unsent(config.protocol), *role.provider.refused})
        )
        for role in engine.roles.open()
    }
    embedder = engine.roles.embedded
    if embedder.asked or embedder.cached:
        sessions["embedder"] = _role(engine.roles.embedder().name, "", embedder)
    roles = {name: role.to_json() for name, role in before.roles.items()}
    for name, session in sessions.items():
        total = before.roles.get(name, RoleRecord()).plus(session)
        roles[name] = total.with_(cached=session.cached).to_json()
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
    """Return the counts of a role in this session."""
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
            **({"trouble": stats.trouble} if stats.trouble else {}),
            "unusable": stats.unusable,
            "spent": stats.spent,
            "unpriced": stats.unpriced,
            "seconds": stats.seconds,
            "tokens": {"input": usage.input, "output": usage.output, "thinking": usage.thinking},
        }
    )


def _metric(metric: Metric) -> dict[str, Any]:
    record: dict[str, Any] = {
        "version": metric.version,
        "range": [end if math.isfinite(end) else None for end in metric.range],  # JSON has no infinity
        "source": metric.source,
        "higher_is_better": metric.higher_is_better,
    }
    return record | ({"options": dict(metric.options)} if metric.options else {})


def mixed(roles: Mapping[str, RoleRecord]) -> list[str]:
    """List warnings for the roles in which another model answered too, a line each."""
    lines = []
    for role in roles.values():
        model = role.model.partition("/")[2]
        answers = {record.version: record.answers for record in role.answered if record.version}
        others = {version: count for version, count in answers.items() if not same_model(model, version)}
        if others:
            names = ", ".join(sorted({version.partition("@")[0] for version in others}))
            lines.append(
                f"mixed run: {sum(others.values()):,} of {sum(answers.values()):,} answers to {role.model} came from {names}; "
                "they are not kept for other runs, and scores of the two models are not comparable"
            )
    return lines


def changed_versions(manifest: Manifest) -> list[str]:
    """List warnings for the models that changed their version during the run, a line each."""
    lines = []
    for role in manifest.roles.values():
        versions = sorted({record.version for record in role.answered if record.version})
        if len(versions) > 1:
            lines.append(f"{role.model} answered as {len(versions)} model versions in this run: {', '.join(versions)}")
    return lines
