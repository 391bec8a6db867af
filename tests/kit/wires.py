"""What a request in the OpenAI, Gemini or Anthropic wire format says, and what the three answer."""

import base64
import hashlib
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from titjudge.testing.scripted import Scripted as ScriptedText

REFUSAL = "I'm sorry, I can't help with that."
HTML = b"<!doctype html><html><head><title>502</title></head><body><h1>Bad Gateway</h1></body></html>"


class Extras(Protocol):
    """Tokens that every usage reports beside those of the texts.

    Attributes:
        cached_tokens: Of the prompt, those read from a cache.
        reasoning_tokens: Those thought.
    """

    cached_tokens: int
    reasoning_tokens: int


@dataclass(frozen=True)
class Scripted(ScriptedText):
    """One answer of the server.

    Further kinds: content_filter, azure_filter, blocked (the prompt), thought (the limit went into thinking), hang, quota,
    no_schema (400: response_format is not supported), no_tools (400: no tool use).

    Attributes:
        body: The whole body instead: bytes, str or JSON.
        usage: Entries of the wire's own usage.
        latency: Seconds until it comes.
        together: It waits until the server has had so many requests in flight at once (at most 60 s).
        calls: Tools that the model calls, each (name, arguments): a dict, or text as a model may garble it.
        tops: The likeliest first tokens with their log probabilities: as many as are asked for are told.
    """

    body: Any = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    latency: float = 0.0
    together: int = 0
    calls: Sequence[tuple[str, Any]] = ()
    tops: Sequence[tuple[str, float]] = ()

    def ends_with(self, usual: str) -> str | None:
        """Return the word for why the answer ends, where the wire's own would be `usual`."""
        return usual if self.finish_reason == "" else self.finish_reason


@dataclass(frozen=True)
class Seen:
    """One request as it came.

    Attributes:
        api: openai, embeddings, models, gemini, anthropic or unknown.
        method: GET or POST.
        path: The path with its query.
        headers: By lower-case names.
        raw: The bytes of the body.
        body: The body as JSON; None where it is none.
        model: The model that is asked for.
        text: All texts of the prompt, line by line.
        images: SHA-256 of the bytes of each image, in order.
        schema: The JSON schema that is asked for.
        nth: Which of the requests with the same path and body it is, from 1.
        digest: A hash of path and body.
    """

    api: str
    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Any
    model: str
    text: str
    images: tuple[str, ...]
    schema: Mapping[str, Any] | None
    nth: int
    digest: bytes = b""


def read(method: str, path: str, headers: Mapping[str, str], raw: bytes) -> Seen:
    """Read a request, in whichever of the wire formats it is."""
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        body = None
    bare = path.partition("?")[0]
    match = re.search(r"/models/([^/]+):generateContent$", bare)
    api = "gemini" if match else "unknown"
    for end, name in (
        ("/chat/completions", "openai"),
        ("/embeddings", "embeddings"),
        ("/models", "models"),
        ("/messages", "anthropic"),
    ):
        api = name if bare.endswith(end) else api
    data = body if isinstance(body, dict) else {}
    texts, images = _texts_and_images(data)
    model = match.group(1) if match else str(data.get("model", ""))
    content = raw if body is None else json.dumps(body, sort_keys=True).encode()
    digest = hashlib.sha256(bare.encode() + content).digest()
    shas = tuple(
        hashlib.sha256(base64.b64decode(encoded, "-_" if set("-_") & set(encoded) else None)).hexdigest()
        for encoded in images
    )
    return Seen(api, method, path, headers, raw, body, model, "\n".join(texts), shas, _schema_in(data), 0, digest)


def _texts_and_images(node: Any) -> tuple[list[str], list[str]]:
    """Collect all prompt texts and all base64 images below a node, in order."""
    texts: list[str] = []
    images: list[str] = []
    if isinstance(node, list):
        for child in node:
            for into, parts in zip((texts, images), _texts_and_images(child), strict=True):
                into.extend(parts)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in ("text", "content", "system", "input", "output") and isinstance(value, str):
                texts.append(value)
            elif key == "url" and isinstance(value, str) and value.startswith("data:"):
                images.append(value.partition(",")[2])
            elif key == "data" and isinstance(value, str):
                images.append(value)
            elif key not in ("generationConfig", "response_format", "tools"):
                for into, parts in zip((texts, images), _texts_and_images(value), strict=True):
                    into.extend(parts)
    return texts, images


_SCHEMA_TOOL = "json_tool_call"  # litellm's name for the tool that stands for a schema


def _schema_in(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Find the JSON schema that a request asks for, wherever its wire format has it; None for none."""
    config = data.get("generationConfig") or {}
    tools = data.get("tools") or [{}]
    output = data.get("output_format") or (data.get("output_config") or {}).get("format") or {}
    form = data.get("response_format")  # of images it is a word
    named = ((form if isinstance(form, dict) else {}).get("json_schema") or {}).get("schema")
    return (
        named
        or config.get("responseJsonSchema")
        or config.get("responseSchema")
        or config.get("response_json_schema")  # litellm writes snake_case, which the API reads as well
        or config.get("response_schema")
        or output.get("schema")
        or next((tool.get("input_schema") for tool in tools if tool.get("name") == _SCHEMA_TOOL), None)
    )


_WORDS = "a red small lamp tall tower quiet boat round blue glass window near tree under bright bridge".split()


def text_for(request: Seen) -> str:
    """Return the usual answer: the same request always gets the same text."""
    schema = request.schema or _schema_in_words(request.text)
    if schema is not None:
        return json.dumps(instance(schema, request.digest))
    return "I see " + " ".join(_WORDS[byte % len(_WORDS)] for byte in request.digest) + "."


def _schema_in_words(text: str) -> Mapping[str, Any] | None:
    """Find the JSON schema of an object at the beginning of a line of a prompt, the last where there are several; None for none."""
    for start in reversed([match.start() for match in re.finditer(r"^\{", text, re.MULTILINE)]):
        try:
            schema, _ = json.JSONDecoder().raw_decode(text, start)
        except ValueError:
            continue
        if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
            return schema  # type: ignore[no-any-return]
    return None


def instance(node: Mapping[str, Any], digest: bytes) -> Any:
    """Make a JSON value that validates against a schema of the kind pydantic makes, chosen by `digest`."""
    digest = hashlib.sha256(digest).digest()
    for key in ("anyOf", "oneOf"):
        if key in node:
            return instance(node[key][0], digest)
    if "const" in node or "enum" in node:
        return node["const"] if "const" in node else node["enum"][digest[0] % len(node["enum"])]
    kind = str(node.get("type", "object" if "properties" in node else "string")).lower()
    if kind == "object":
        return {name: instance(child, digest + name.encode()) for name, child in node.get("properties", {}).items()}
    if kind == "array":
        count = max(int(node.get("minItems", 0)), min(int(node.get("maxItems", 3)), digest[0] % 3))
        return [instance(node.get("items", {}), digest + bytes([index])) for index in range(count)]
    if kind in ("integer", "number"):
        low = node.get("minimum", node.get("exclusiveMinimum", 0))
        high = node.get("maximum", node.get("exclusiveMaximum", low + 10))
        value = low + (high - low) * (1 + digest[0]) / 257
        return math.ceil(value) if kind == "integer" else round(value, 1)
    if kind == "boolean":
        return bool(digest[0] & 1)
    return None if kind == "null" else " ".join(_WORDS[byte % len(_WORDS)] for byte in digest[:4])


def _tokens(request: Seen) -> tuple[int, int]:
    return len(request.text) // 4 + 765 * len(request.images) + 7, 765 * len(request.images)


def openai_answer(request: Seen, text: str, scripted: Scripted, server: Extras) -> Any:
    """Make a chat completion with a text, or what the script says instead."""
    finish = {"length": "length", "thought": "length", "content_filter": "content_filter", "blocked": "content_filter"}
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if scripted.kind == "refusal":
        message.update(content=None, refusal=REFUSAL)
    elif scripted.kind in ("empty", "content_filter", "blocked", "thought"):
        message["content"] = ""
    elif scripted.calls:
        message["content"] = scripted.text
        message["tool_calls"] = [
            {
                "id": ident,
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
                },
            }
            for ident, (name, arguments) in _numbered(request, scripted)
        ]
    sent, _ = _tokens(request)
    out = len(text) // 4 + server.reasoning_tokens
    usage = {
        "prompt_tokens": sent,
        "completion_tokens": out,
        "total_tokens": sent + out,
        "prompt_tokens_details": {"cached_tokens": server.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": server.reasoning_tokens},
        **scripted.usage,
    }
    ended = finish.get(scripted.kind, "tool_calls" if scripted.calls else "stop")
    logprobs = None
    if scripted.tops and request.body.get("logprobs"):
        tokens = [{"token": token, "logprob": logprob, "bytes": None} for token, logprob in scripted.tops]
        logprobs = {"content": [{**tokens[0], "top_logprobs": tokens[: request.body.get("top_logprobs", 0)]}]}
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": scripted.ends_with(ended)}
    out_ = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": request.model, "choices": [choice]}
    return {**out_, "usage": usage, "system_fingerprint": "fp_1"}


def gemini_answer(request: Seen, text: str, scripted: Scripted, server: Extras) -> Any:
    """Make an answer of generateContent with a text, or what the script says instead."""
    finish = {
        "length": "MAX_TOKENS",
        "thought": "MAX_TOKENS",
        "refusal": "SAFETY",
        "content_filter": "PROHIBITED_CONTENT",
    }
    sent, image = _tokens(request)
    out = len(text) // 4
    usage = {
        "promptTokenCount": sent,
        "candidatesTokenCount": out,
        "thoughtsTokenCount": server.reasoning_tokens,
        "cachedContentTokenCount": server.cached_tokens,
        "totalTokenCount": sent + out + server.reasoning_tokens,
        "promptTokensDetails": [
            {"modality": "TEXT", "tokenCount": sent - image},
            {"modality": "IMAGE", "tokenCount": image},
        ],
        **scripted.usage,
    }
    answer: dict[str, Any] = {"usageMetadata": usage, "modelVersion": f"{request.model}-001", "responseId": "r1"}
    if scripted.kind == "blocked":
        return {**answer, "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    content: dict[str, Any] = {"role": "model"}
    if scripted.kind not in ("refusal", "content_filter", "empty", "thought"):
        thought = [{"text": "Let me look at it.", "thought": True}] if server.reasoning_tokens else []
        text_parts = [{"text": text}] if scripted.text is not None or not scripted.calls else []
        garbled = any(isinstance(arguments, str) for _, arguments in scripted.calls)
        calls: list[dict[str, Any]] = (
            []
            if garbled
            else [
                {"functionCall": {"id": ident, "name": name, "args": arguments}}
                for ident, (name, arguments) in _numbered(request, scripted)
            ]
        )
        if calls:
            calls[0]["thoughtSignature"] = signature(request)
        content["parts"] = [*thought, *text_parts, *calls]
        if garbled:
            content.pop("parts")
            finish[""] = "MALFORMED_FUNCTION_CALL"
    ended = scripted.ends_with(finish.get(scripted.kind, "STOP"))
    candidate: dict[str, Any] = {"index": 0, "content": content, "finishReason": ended}
    config = request.body.get("generationConfig", {})
    if scripted.tops and config.get("responseLogprobs"):
        tokens = [{"token": token, "logProbability": logprob} for token, logprob in scripted.tops]
        candidate["logprobsResult"] = {
            "topCandidates": [{"candidates": tokens[: config.get("logprobs", 0)]}],
            "chosenCandidates": tokens[:1],
        }
    return {**answer, "candidates": [candidate]}


def _numbered(request: Seen, scripted: Scripted) -> list[tuple[str, tuple[str, Any]]]:
    """List the calls with ids that no other question's answer has."""
    digest = hashlib.sha256(request.text.encode()).hexdigest()[:8]
    return [(f"call_{digest}_{number}", call) for number, call in enumerate(scripted.calls)]


def signature(request: Seen) -> str:
    """Return the thought signature that Gemini puts on the first call of its answer to a question."""
    return base64.b64encode(b"thought " + hashlib.sha256(request.text.encode()).digest()[:6]).decode()


def anthropic_answer(request: Seen, text: str, scripted: Scripted, server: Extras) -> Any:
    """Make an answer of Anthropic's Messages with a text, or what the script says instead."""
    stop = {"length": "max_tokens", "thought": "max_tokens"}
    stop |= dict.fromkeys(("refusal", "content_filter", "blocked"), "refusal")
    sent, _ = _tokens(request)
    empty = scripted.kind in ("empty", "thought", "refusal", "content_filter", "blocked")
    content: list[Any] = [] if empty else [{"type": "text", "text": text}]
    tools = [tool for tool in request.body.get("tools") or () if tool["name"] == _SCHEMA_TOOL]
    if scripted.calls:
        text_parts = [{"type": "text", "text": scripted.text}] if scripted.text else []
        thinking = (
            [{"type": "thinking", "thinking": "Let me look.", "signature": "sig"}]
            if request.body.get("thinking")
            else []
        )
        content = [*thinking, *text_parts] + [
            {"type": "tool_use", "id": ident, "name": name, "input": arguments}
            for ident, (name, arguments) in _numbered(request, scripted)
        ]
    elif tools and content:
        content = [{"type": "tool_use", "id": "toolu_1", "name": tools[0]["name"], "input": json.loads(text)}]
    cached = server.cached_tokens
    usage = {"input_tokens": sent - cached, "output_tokens": len(text) // 4, "cache_read_input_tokens": cached}
    answer = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.model, "content": content}
    reason = scripted.ends_with(stop.get(scripted.kind, "tool_use" if tools or scripted.calls else "end_turn"))
    return {**answer, "stop_reason": reason, "stop_sequence": None, "usage": {**usage, **scripted.usage}}


ANSWERS = {"openai": openai_answer, "gemini": gemini_answer, "anthropic": anthropic_answer}

_INVALID, _NO_QUOTA = (
    "invalid_request_error",
    "You exceeded your current quota, please check your plan and billing details.",
)
_CODES = {  # status or kind -> OpenAI's type and code, Google's status, Anthropic's type, message
    "400": (_INVALID, None, "INVALID_ARGUMENT", _INVALID, "Invalid image."),
    "401": (
        _INVALID,
        "invalid_api_key",
        "UNAUTHENTICATED",
        "authentication_error",
        "Incorrect API key: sk-abcd1234efgh.",
    ),
    "404": (_INVALID, "model_not_found", "NOT_FOUND", "not_found_error", "The model does not exist."),
    "429": ("requests", "rate_limit_exceeded", "RESOURCE_EXHAUSTED", "rate_limit_error", "Rate limit reached."),
    "quota": ("insufficient_quota", "insufficient_quota", "RESOURCE_EXHAUSTED", "rate_limit_error", _NO_QUOTA),
    "no_schema": (_INVALID, None, "INVALID_ARGUMENT", _INVALID, "response_format json_schema is not supported"),
    "no_tools": (_INVALID, None, "INVALID_ARGUMENT", _INVALID, "this model does not support tools"),
}


def error(request: Seen, status: int, scripted: Scripted) -> Any:
    """Make an error body as the provider of the request words it."""
    default = ("server_error", None, "INTERNAL", "api_error", "The server had an error.")
    key = {"bad_key": "401", "no_model": "404"}.get(
        scripted.kind, scripted.kind if scripted.kind in _CODES else str(status)
    )
    type_, code, google, anthropic, message = _CODES.get(key, default)
    if request.api == "anthropic":
        return {"type": "error", "error": {"type": anthropic, "message": message}}
    if request.api == "gemini":
        if scripted.kind == "bad_key":
            google, message = "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."
        details = []
        if status == 429 and "Retry-After" in scripted.headers:
            delay = {
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": f"{scripted.headers['Retry-After']}s",
            }
            details = [delay]
        return {"error": {"code": status, "message": message, "status": google, "details": details}}
    if scripted.kind == "azure_filter":
        inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"violence": {"filtered": True}}}
        message = "The response was filtered due to the prompt triggering content management policy."
        return {
            "error": {
                "message": message,
                "type": None,
                "param": "prompt",
                "code": "content_filter",
                "status": 400,
                "innererror": inner,
            }
        }
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def embeddings(request: Seen) -> Any:
    """Make unit vectors that depend on model and text alone."""
    inputs = request.body["input"]
    texts = [inputs] if isinstance(inputs, str) else inputs
    size = int(request.body.get("dimensions") or 8)
    data = []
    for index, text in enumerate(texts):
        random = b"".join(
            hashlib.sha256(f"{request.model}|{text}|{index}".encode()).digest() for index in range(-(-size // 32))
        )
        vector = [byte - 127.5 for byte in random[:size]]
        length = math.sqrt(sum(component * component for component in vector))
        vector = [component / length for component in vector]
        packed = base64.b64encode(struct.pack(f"<{size}f", *vector)).decode()
        value = packed if request.body.get("encoding_format") == "base64" else vector
        data.append({"object": "embedding", "index": index, "embedding": value})
    count = sum(len(str(text)) // 4 + 1 for text in texts)
    usage = {"prompt_tokens": count, "total_tokens": count}
    return {"object": "list", "data": data, "model": request.model, "usage": usage}


def models() -> Any:
    names = ("gpt-4o", "gemini-2.5-pro")
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": 1, "owned_by": "test"} for name in names],
    }


def dump(value: Any) -> bytes:
    return json.dumps(value).encode()
