"""Small readings of a run's manifest and results, where anything may be absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from titjudge.report.model import Loaded


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def strings(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def identity(run: Loaded) -> Mapping[str, Any]:
    """The configuration that decides what the scores mean."""
    return mapping(run.manifest.get("identity"))


def metric(run: Loaded, name: str) -> Mapping[str, Any]:
    """What results.json says of a metric."""
    return mapping(mapping(run.results.get("metrics")).get(name))


def either(run: Loaded, key: str) -> Any:
    """A value of the results, else of the manifest."""
    found = run.results.get(key)
    return run.manifest.get(key) if found is None else found


def deviations(run: Loaded) -> list[str]:
    """Where the suite departs from its source."""
    return strings(run.manifest.get("deviations") or mapping(run.manifest.get("suite")).get("deviations"))
