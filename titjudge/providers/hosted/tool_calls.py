"""Write and read tools, calls and their results: OpenAI's chat form (litellm's, too) and Gemini's parts.

Sources: "Function calling" (platform.openai.com/docs/guides/function-calling), "Function calling" and "Thought signatures"
(ai.google.dev/gemini-api/docs).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from titjudge.core.errors import ConfigError, must_be
from titjudge.core.structured_output import json_object
from titjudge.core.types import Json, Message, ProviderSettings, Tool, ToolCall, Values
from titjudge.providers.json_schema import gemini as gemini_schema
from titjudge.providers.json_schema import name_of, strict

_ABOUT_TOOLS = re.compile(r"\btools?\b|tool_choice|function.?call", re.IGNORECASE)


def tools_option(settings: ProviderSettings) -> bool | None:
    """Read the option `tools` of a role: True or False; None when it is not set.

    Raises:
        ConfigError: It is neither.
    """
    option = settings.options.get("tools")
    if option is None or isinstance(option, bool):
        return option
    raise ConfigError(must_be(f"the option tools of {settings.model}", "true or false", option))


def unknown_here(status: int, message: str) -> bool:
    """Return True if an error means that this model or server calls no tools (vLLM, Ollama, OpenRouter, OpenAI's reasoning)."""
    if status == 500:
        return "jinja" in message.lower()  # llama.cpp
    return status in (400, 404, 422, 501) and _ABOUT_TOOLS.search(message) is not None


# ---------------------------------------------------------------------- OpenAI's chat form


def openai_tools(tools: Sequence[Tool]) -> list[Json]:
    """Write the `tools` of a chat completion, strict wherever the schema allows it."""
    offered = []
    for tool in tools:
        schema, is_strict = strict(tool.parameters)
        function = {"name": tool.name, "description": tool.description, "parameters": schema, "strict": is_strict}
        offered.append({"type": "function", "function": function})
    return offered


def openai_turns(message: Message, turn: Json) -> list[Json]:
    """Write a turn with its calls; or its results, and then the turn itself if it also has text or images."""
    if message.calls:
        return [{**turn, "content": turn["content"] or None, "tool_calls": [_openai_call(c) for c in message.calls]}]
    results = [{"role": "tool", "tool_call_id": result.call.id, "content": result.text} for result in message.results]
    return [*results, turn] if message.parts else results or [turn]


def _openai_call(call: ToolCall) -> Json:
    """Write a call as the model made it; arguments that are not an object become `{}`, an impossible name a possible one."""
    arguments = "{}" if json_object(call.arguments) is None else call.arguments
    return {"id": call.id, "type": "function", "function": {"name": name_of(call.name), "arguments": arguments}}


def openai_calls(records: Any) -> tuple[ToolCall, ...]:
    """Read the calls of an answer's `tool_calls`; each has an id, and no two the same."""
    calls: list[ToolCall] = []
    idents: set[str] = set()
    for number, record in enumerate(records or ()):
        function = (record.get("function") or record.get("custom") or {}) if isinstance(record, Mapping) else {}
        arguments = function.get("arguments", function.get("input"))
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
        ident = str(record.get("id") or f"call_{number}") if isinstance(record, Mapping) else f"call_{number}"
        ident = f"{ident}_{number}" if ident in idents else ident
        idents.add(ident)
        calls.append(ToolCall(str(function.get("name") or ""), arguments, ident))
    return tuple(calls)


# ---------------------------------------------------------------------- Gemini's parts


def gemini_tools(tools: Sequence[Tool]) -> list[Json]:
    """Write the `tools` of generateContent."""
    declarations = []
    for tool in tools:
        schema = gemini_schema(tool.parameters)
        declarations.append({"name": tool.name, "description": tool.description, "parametersJsonSchema": schema})
    return [{"functionDeclarations": declarations}]


def gemini_parts(message: Message) -> tuple[list[Json], list[Json]]:
    """Write results, which go before the text of a turn, and calls, which go after it with their thought signatures."""
    results = []
    for result in message.results:
        response = {"name": name_of(result.call.name), "response": {"output": result.text}}
        results.append({"functionResponse": {"id": result.call.id, **response} if result.call.id else response})
    calls = []
    for call in message.calls:
        function: Json = {"name": name_of(call.name), "args": json_object(call.arguments) or {}}
        part: Json = {"functionCall": {"id": call.id, **function} if call.id else function}
        calls.append({**part, "thoughtSignature": call.signature} if call.signature else part)
    return results, calls


def gemini_calls(parts: Sequence[Values]) -> tuple[ToolCall, ...]:
    """Read the calls among the parts of an answer."""
    calls = []
    for part in parts:
        call = part.get("functionCall")
        if isinstance(call, Mapping):
            arguments = json.dumps(call.get("args") or {}, ensure_ascii=False)
            name, ident, signature = (
                str(field or "") for field in (call.get("name"), call.get("id"), part.get("thoughtSignature"))
            )
            calls.append(ToolCall(name, arguments, ident, signature))
    return tuple(calls)
