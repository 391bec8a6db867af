"""The JSON schema of run.yaml, with which editors complete and check it."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from titjudge.core import registry
from titjudge.core.config import RunConfig

NULL = {"type": "null"}


class WithoutTitles(GenerateJsonSchema):
    """Leave out titles, which only repeat the key."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def config_schema() -> dict[str, Any]:
    """Make the JSON schema (draft 2020-12) of run.yaml, as `load_config` reads it.

    Names of metrics and suites are suggested and not required, as other packages add some.
    """
    schema = RunConfig.model_json_schema(schema_generator=WithoutTitles)
    keys = schema["properties"]
    judge = keys["judge"]["anyOf"]
    judge.append({"type": "array", "items": {"anyOf": [kind for kind in judge if kind != NULL]}, "minItems": 1})
    keys["suite"]["anyOf"] = _known("suites")
    del keys["suite"]["type"]
    keys["metrics"]["items"] = {"anyOf": _known("metrics")}
    for name, key in keys.items():  # a key with nothing behind it counts as left out
        if NULL not in key.get("anyOf", ()):
            about = {word: key.pop(word) for word in ("description", "default") if word in key}
            keys[name] = about | {"anyOf": [*key["anyOf"], NULL] if "anyOf" in key else [key, NULL]}
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "run.yaml of titjudge"}


def _known(kind: str) -> list[dict[str, Any]]:
    return [{"enum": sorted(registry.TABLES[kind])}, {"type": "string"}]
