"""JSON schemas as requests carry them: OpenAI's strict form, Gemini's subset, and words in a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from titjudge.core.types import Json, Values

IN_PROMPT = "schema-in-prompt"  # flag of a reply: the schema was asked for in words

# Keywords that strict mode does not support ("Structured model outputs", supported schemas, platform.openai.com/docs);
# pydantic still checks them on the answer.
_UNSUPPORTED = frozenset(
    (
        "default examples minLength maxLength uniqueItems contains minContains maxContains prefixItems "
        "unevaluatedItems patternProperties propertyNames minProperties maxProperties unevaluatedProperties "
        "dependentRequired dependentSchemas if then else not discriminator deprecated readOnly writeOnly $schema $id"
    ).split()
)
_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())
# What `responseJsonSchema` reads (GenerationConfig, ai.google.dev/api/generate-content).
_GEMINI = frozenset(
    (
        "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems "
        "minimum maximum anyOf oneOf properties additionalProperties required propertyOrdering"
    ).split()
)
_MAPS = ("properties", "$defs", "definitions")


def strict(schema: Values) -> tuple[Json, bool]:
    """Rewrite a pydantic JSON schema in OpenAI's strict form, and return whether it can be strict at all.

    Every object is closed and requires all its properties. A schema with free-form objects (`dict[str, ...]`) cannot be
    strict: it comes back as it is, with False. Callers share the result and must not change it.
    """
    return _strict_form(orjson.dumps(schema))


@lru_cache(maxsize=256)
def _strict_form(raw: bytes) -> tuple[Json, bool]:
    schema = orjson.loads(raw)
    return (schema, False) if _free_form(schema) else (_strict(schema), True)


def _strict(node: Any) -> Any:
    """Rewrite a node of a schema in strict form."""
    if isinstance(node, list):
        return [_strict(entry) for entry in node]
    if not isinstance(node, Mapping):
        return node
    if len(node.get("allOf", ())) == 1:
        node = {**{key: value for key, value in node.items() if key != "allOf"}, **node["allOf"][0]}
    out: Json = {}
    for key, value in node.items():
        if key in _UNSUPPORTED or (key == "format" and value not in _FORMATS):
            continue
        if key in _MAPS:
            out[key] = {name: _strict(child) for name, child in value.items()}
        elif key in ("enum", "const", "required"):
            out[key] = value
        else:
            out["anyOf" if key == "oneOf" else key] = _strict(value)
    if "properties" in out or out.get("type") == "object":
        out.setdefault("properties", {})
        out["additionalProperties"] = False
        out["required"] = list(out["properties"])
    return out


def _free_form(node: Any) -> bool:
    """Whether a node of a schema, or one below it, is an object whose properties are not named."""
    if isinstance(node, list):
        return any(_free_form(entry) for entry in node)
    if not isinstance(node, Mapping):
        return False
    extra = node.get("additionalProperties", False)
    if extra is not False and node.get("type") == "object" and not node.get("properties"):
        return True
    children = [child for key in _MAPS for child in node.get(key, {}).values()]
    children += [value for key, value in node.items() if key in ("items", "anyOf", "oneOf", "allOf")]
    return any(_free_form(child) for child in children)


def gemini(schema: Any) -> Any:
    """Rewrite a pydantic JSON schema with only the keywords Gemini's `responseJsonSchema` reads; `const` becomes an `enum`."""
    if isinstance(schema, list):
        return [gemini(entry) for entry in schema]
    if not isinstance(schema, Mapping):
        return schema
    out: Json = {}
    for key, value in schema.items():
        if key == "const":
            out["enum"] = [value]
        elif key in _MAPS:
            out[key] = {name: gemini(child) for name, child in value.items()}
        elif key in _GEMINI:
            out[key] = value if key in ("enum", "required") else gemini(value)
    return out


def instruction(schema: Values) -> str:
    """Write what is appended to a prompt when the server has no structured answers."""
    text = json.dumps(schema, ensure_ascii=False)
    return f"Answer with one JSON object that validates against this JSON schema, and with nothing else:\n{text}"


def add_instruction(messages: list[Json], schema: Values) -> None:
    """Append `instruction` to the last user turn of a chat; a turn is a text or a list of parts."""
    text = instruction(schema)
    turn = next((message for message in reversed(messages) if message["role"] == "user"), None)
    if turn is None:
        messages.append({"role": "user", "content": text})
    elif isinstance(turn["content"], str):
        turn["content"] = f"{turn['content']}\n\n{text}"
    elif turn["content"] and turn["content"][-1]["type"] == "text":
        turn["content"][-1] = {"type": "text", "text": f"{turn['content'][-1]['text']}\n\n{text}"}
    else:
        turn["content"].append({"type": "text", "text": text})


def name_of(name: str) -> str:
    """Make a schema name as OpenAI takes it: letters, digits, `_` and `-`, at most 64."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:64].strip("_") or "answer"
