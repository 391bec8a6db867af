"""The OpenAPI description of the JSON routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_TEXT = {"type": "string"}
_IMAGE = {"type": "string", "description": "An image file (PNG, JPEG, WebP, ...) as base64."}
_ERROR = {"type": "object", "required": ["error"], "properties": {"error": _TEXT}}


def description(metrics: Sequence[str]) -> dict[str, Any]:
    """Make the description for a server with these metrics."""
    name = {"type": "string", "enum": list(metrics)}
    sample = {"type": "object", "required": ["prompt", "image"], "properties": {"prompt": _TEXT, "image": _IMAGE}}
    asked = {
        "type": "object",
        "required": ["samples"],
        "properties": {"samples": {"type": "array", "items": sample}, "metrics": {"type": "array", "items": name}},
    }
    reward = {
        "type": "object",
        "required": ["value", "status", "reason"],
        "properties": {"value": {"type": ["number", "null"]}, "status": _TEXT, "reason": _TEXT},
    }
    by_metric = {"type": "object", "additionalProperties": reward}
    answered = {"type": "object", "required": ["results"], "properties": {"results": _list(by_metric)}}
    post = {
        "summary": "Judge images against their prompts.",
        "requestBody": {"required": True, "content": {"application/json": {"schema": asked}}},
        "responses": {
            "200": _answer("One object for each sample, in order.", answered),
            **{
                code: _answer(text, _ERROR)
                for code, text in (
                    ("400", "The request cannot be used."),
                    ("401", "The token is missing or wrong."),
                    ("402", "The cap on money, requests or tokens is reached."),
                    ("404", "There is no such metric."),
                    ("413", "The body is too large."),
                    ("422", "An image or an answer cannot be used."),
                    ("503", "A judgement failed; the same request may be answered later."),
                )
            },
        },
    }
    health = {"type": "object", "required": ["status"], "properties": {"status": {"enum": ["ok", "failed"]}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "titjudge serve", "version": "1"},
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            }
        },
        "security": [{"bearer": []}, {"basic": []}],
        "paths": {
            "/v1/rewards": {"post": post},
            "/health": {
                "get": {
                    "security": [],
                    "responses": {"200": _answer("It judges.", health), "503": _answer("It does not.", health)},
                }
            },
            "/rewards": {
                "get": {
                    "responses": {
                        "200": _answer("The metrics.", {"type": "object", "properties": {"rewards": _list(name)}})
                    }
                }
            },
        },
    }


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _answer(text: str, schema: Any) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
