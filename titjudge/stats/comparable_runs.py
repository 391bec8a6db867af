"""Whether the scores of several runs can be compared: models that have changed, other models, protocols or versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from titjudge.core import registry
from titjudge.core.errors import ConfigError
from titjudge.core.run_records import Manifest


def drift_between(manifests: Mapping[str, Manifest]) -> list[str]:
    """List the reasons why runs are not comparable, from their manifests by name; empty when they are.

    The reasons are canaries that drifted, and a model of a role that answered as different versions.
    """
    reasons = []
    answered: dict[tuple[str, str], dict[str, set[str]]] = {}
    for name, manifest in manifests.items():
        canary = manifest.canary
        if canary is not None and canary.state == "drift":
            reasons.append(f"{name}: its canaries drifted ({len(canary.flips)} of {canary.asked} flipped)")
        for role, record in manifest.roles.items():
            versions = models_of(answered_as.version for answered_as in record.answered if answered_as.version)
            if versions:
                answered.setdefault((role, record.model), {})[name] = versions
    for (role, model), runs in answered.items():
        if len(set(map(frozenset, runs.values()))) > 1:
            shown = "; ".join(f"{name}: {', '.join(sorted(versions))}" for name, versions in runs.items())
            reasons.append(f"{role} {model} answered as different versions ({shown})")
    return reasons


def models_of(versions: Iterable[str]) -> set[str]:
    """Return the model versions without the fingerprints of the backends that ran them (`version@fingerprint`)."""
    return {version.partition("@")[0] for version in versions}


def judged_differently(manifests: Mapping[str, Manifest], metric: str) -> list[str]:
    """Return the reasons why the scores of runs are not on one scale: another model in a role, protocol or version of the metric."""
    name = registry.base_metric(metric)
    facts: dict[str, Iterable[Any]] = {
        "the protocol": [manifest.protocol or None for manifest in manifests.values()],
        f"the version of {metric}": [
            record.version for manifest in manifests.values() if (record := manifest.metrics.get(name))
        ],
    }
    roles, optional = _roles(name, manifests)
    for role in roles:
        facts[f"the {role}"] = [manifest.roles[role].model for manifest in manifests.values() if role in manifest.roles]
    for role in optional:
        facts[f"the {role}"] = [
            manifest.roles[role].model if role in manifest.roles else "none"
            for manifest in manifests.values()
            if name in manifest.metrics
        ]
    reasons = []
    for what, values in facts.items():
        different = dict.fromkeys(str(value) for value in values if value is not None)
        if len(different) > 1:
            reasons.append(f"{what} differs ({', '.join(different)})")
    return reasons


def _roles(metric: str, manifests: Mapping[str, Manifest]) -> tuple[Iterable[str], Iterable[str]]:
    """Return the roles that a metric asks, and its optional ones; the roles of all runs if its package is not installed."""
    try:
        loaded = registry.load("metrics", metric)
    except ConfigError:
        return dict.fromkeys(role for manifest in manifests.values() for role in manifest.roles), ()
    return loaded.roles, loaded.optional_roles
