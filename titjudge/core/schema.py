"""JSON schemas of structured answers: from a pydantic model, and the smallest instance of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_KNOWN: dict[Any, dict[str, Any]] = {}


def schema_of(model: Any) -> dict[str, Any]:
    """The JSON schema of a pydantic model, with `$ref`s resolved (some servers know none); the same object each time."""
    if model not in _KNOWN:
        schema = model.model_json_schema()
        _KNOWN[model] = _inline(schema, schema.pop("$defs", {}))
    return _KNOWN[model]


def _inline(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inline(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inline(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {key: _inline(value, definitions) for key, value in node.items()}


def stub(schema: Mapping[str, Any]) -> str:
    """The smallest JSON text that validates against a schema of the kind pydantic makes."""
    return json.dumps(_instance(schema), ensure_ascii=False)


def _instance(node: Mapping[str, Any]) -> Any:
    if "const" in node:
        return node["const"]
    if "enum" in node:
        return node["enum"][0]
    if "anyOf" in node:
        return _instance(node["anyOf"][0])
    kind = node.get("type", "object")
    if kind == "object":
        return {name: _instance(child) for name, child in node.get("properties", {}).items()}
    if kind == "array":
        return [_instance(node.get("items", {"type": "string"}))] * int(node.get("minItems", 0))
    if kind in ("integer", "number"):
        low = node.get("minimum", node.get("exclusiveMinimum", 0))
        return low + 1 if "exclusiveMinimum" in node else low
    if kind == "boolean":
        return False
    return "x" * int(node.get("minLength", 1)) if kind == "string" else None
