"""Structured output: the JSON schema to ask for, and the JSON object in an answer.

Nothing is guessed: an answer that does not validate gives None.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError

from titjudge.core.serialization import without_surrogates

M = TypeVar("M", bound=BaseModel)

_LONGEST = 200_000  # characters; of a longer answer only the end is parsed
_MOST_BRACES = 2_000
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def after_thinking(text: str) -> str:
    """Return the text after the last `</think>`, all of it when there is none; nothing where a thought has no end."""
    return "" if ends_in_thinking(text) else text.rpartition("</think>")[2]


def ends_in_thinking(text: str) -> bool:
    """Whether a text ends inside a thought that begins with `<think>`: whatever it holds is no answer."""
    return text.rpartition("</think>")[2].lstrip().startswith("<think>")


def json_object(text: str) -> dict[str, Any] | None:
    """Parse a text that is a JSON object; None when it is not."""
    try:
        value = without_surrogates(json.loads(text))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def objects(text: str) -> list[dict[str, Any]]:
    """Return the complete top-level JSON objects in a text, in order; code fences and prose are skipped."""
    return [value for value, _ in _spans(text)]


def _spans(text: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each complete top-level object with its text."""
    text = text[-_LONGEST:]
    decoder = json.JSONDecoder()
    start = text.find("{")
    for _ in range(_MOST_BRACES):
        if start < 0:
            return
        try:
            value, end = decoder.raw_decode(text, start)
            value = without_surrogates(value)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        yield value, text[start:end]
        start = text.find("{", end)


def validated(
    text: str, schema: type[M], *, lenient: bool = False, question: str = ""
) -> tuple[M | None, tuple[str, ...]]:
    """Return the last object in `text` that validates as `schema`, with flags that say how it was obtained.

    It is the last one, because a judge may quote the text it judges (which may hold a score) before it answers. An
    object that occurs verbatim in the text of the `question` is skipped, because it may be quoted after the
    answer. An object that validates under the only key of another (`{"answer": {...}}`) is accepted and flagged
    `unwrapped`. With `lenient`, an answer without any complete object is repaired with json-repair and flagged
    `json-repaired`.
    """
    answer = after_thinking(text)
    for candidate, raw in reversed(list(_spans(answer))):
        if raw in question:
            continue
        try:
            return schema.model_validate(candidate), ()
        except ValidationError:
            inner = _wrapped(candidate)
        if inner is not None and inner not in objects(question):
            with contextlib.suppress(ValidationError):
                return schema.model_validate(inner), ("unwrapped",)
    if lenient and "{" in answer:
        import json_repair

        repaired = json_repair.loads(answer[answer.index("{") :][-_LONGEST:])
        try:
            return schema.model_validate(without_surrogates(repaired)), ("json-repaired",)
        except ValidationError:
            pass
    return None, ()


def _wrapped(candidate: dict[str, Any]) -> dict[str, Any] | None:
    """Return the object under the only key of another."""
    (value,) = candidate.values() if len(candidate) == 1 else (None,)
    return value if isinstance(value, dict) else None


def plain_number(value: Any) -> Any:
    """Accept a JSON number, also as a string, but not `true` or `"1_0"`, which Python would read as 1 and 10.

    Raises:
        ValueError: It is not a number.
    """
    if isinstance(value, bool) or (isinstance(value, str) and not _NUMBER.fullmatch(value.strip())):
        raise ValueError("this is not a number")
    return value


Number = Annotated[float, BeforeValidator(plain_number)]
Whole = Annotated[int, BeforeValidator(plain_number)]


def problem(text: str, schema: type[BaseModel]) -> str:
    """Return in one line why `text` did not validate, for the repair turn and the report."""
    candidates = objects(after_thinking(text))
    if not candidates:
        return "the answer holds no complete JSON object"
    try:
        schema.model_validate(candidates[-1])
    except ValidationError as error:
        return f"field {first_problem(error)}"
    return "no object in the answer validates"


def first_problem(error: ValidationError, whole: str = "(top)") -> str:
    """Return in one line the first invalid field and why; `whole` is the name of the object itself."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"


_KNOWN: dict[Any, dict[str, Any]] = {}


def schema_of(model: Any) -> dict[str, Any]:
    """Return the JSON schema of a pydantic model, with `$ref`s resolved as some servers lack them; cached by model."""
    if model not in _KNOWN:
        schema = model.model_json_schema()
        _KNOWN[model] = _inline(schema, schema.pop("$defs", {}))
    return _KNOWN[model]


def _inline(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inline(child, definitions) for child in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inline(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {key: _inline(value, definitions) for key, value in node.items()}


def smallest(schema: Mapping[str, Any], fields: Mapping[str, Any] | None = None) -> str:
    """Write the smallest JSON that validates against a pydantic model's schema, with these fields in place of its own."""
    return json.dumps({**_instance(schema), **(fields or {})}, ensure_ascii=False)


def _instance(node: Mapping[str, Any]) -> Any:
    """Make the smallest value that a JSON schema allows."""
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
