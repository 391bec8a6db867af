"""The OpenAPI description of the JSON routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from titjudge.core.types import Json, Values

_TEXT = {"type": "string"}


def description(metrics: Sequence[str]) -> Json:
    """Make the description for a server with these metrics."""
    name = {"type": "string", "enum": list(metrics)}
    image = {"type": "string", "description": "An image file (PNG, JPEG, WebP, ...) as base64."}
    sources = {
        **_list(image),
        "description": "Of an edit, the images it was made from, in the order of the instruction.",
    }
    sample = {**_object({"prompt": _TEXT, "image": image}, sources=sources), "additionalProperties": False}
    request = {**_object({"samples": _list(sample)}, metrics=_list(name)), "additionalProperties": False}
    reward = _object({"value": {"type": ["number", "null"]}, "status": _TEXT, "reason": _TEXT})
    rewards = _object({"results": _list({"type": "object", "additionalProperties": reward})})
    health = _object({"status": {"enum": ["ok", "capped", "failed"]}}, reason=_TEXT, rewards={"type": "object"})
    failures = {
        "400": "The request cannot be used.",
        "401": "The token is missing or wrong.",
        "404": "There is no such metric.",
        "413": "The body is too large.",
        "415": "The body is compressed.",
        "503": "Nothing can be judged any more: a wrong key, an empty quota, a full disk.",
    }
    post = {
        "summary": "Judge images against their prompts.",
        "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
        "responses": {
            "200": _answer(
                "One object for each sample, in order; where there is no value, status and reason say why.", rewards
            ),
            **{code: _answer(text, _object({"error": _TEXT})) for code, text in failures.items()},
        },
    }
    health_responses = {"200": _answer("It judges.", health), "503": _answer("It does not.", health)}
    schemes = {name: {"type": "http", "scheme": name} for name in ("bearer", "basic")}
    return {
        "openapi": "3.1.0",
        "info": {"title": "titjudge serve", "version": "1"},
        "components": {"securitySchemes": schemes},
        "security": [{"bearer": []}, {"basic": []}],
        "paths": {
            "/v1/rewards": {"post": post},
            "/health": {"get": {"security": [], "responses": health_responses}},
            "/rewards": {"get": {"responses": {"200": _answer("The metrics.", _object({}, rewards=_list(name)))}}},
        },
    }


def _object(required: Values, **optional: Any) -> Json:
    """Describe an object with these properties."""
    described = {"type": "object", "properties": {**required, **optional}}
    return {**described, "required": list(required)} if required else described


def _list(items: Any) -> Json:
    return {"type": "array", "items": items}


def _answer(text: str, schema: Any) -> Json:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
