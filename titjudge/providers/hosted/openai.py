"""OpenAI's chat completions, and every server that speaks them (vLLM, SGLang, llama.cpp, Azure, OpenRouter, ...).

Wire format: "Create chat completion", platform.openai.com/docs/api-reference/chat. Requests do not go through the SDK
(which takes ten times the CPU) unless the option `client` asks for it; a contract test checks that the bodies are equal
to the SDK's.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from titjudge.core.redaction import redact
from titjudge.core.serialization import json_bytes
from titjudge.core.types import ImageFile, Json, Message, Reply, Request, ToolCall, Usage, Values
from titjudge.providers.hosted import error_bodies, http, request_options, tool_calls
from titjudge.providers.hosted.base import AskedFor, Hosted, Remote, image_base64
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.json_schema import add_instruction, name_of, strict
from titjudge.providers.token_counts import fitted
from titjudge.providers.usage import NO_USAGE, openai_first_token, openai_usage, unread


class OpenAI(Hosted):
    """One model behind `/chat/completions`.

    `base_url` (or OPENAI_BASE_URL) may contain several comma-separated addresses; `structured` auto asks for JSON-schema
    answers natively. Once a server has reported that it does not support them, the prompt asks in words (flag
    `schema-in-prompt`). The option `tools` (true, false) sets whether the model calls tools natively, if the table does
    not know it; `client: sdk` sends through OpenAI's SDK.
    Parameters: `max_tokens`, `detail` (of images: low, high, auto), `reasoning_effort`, and any other the server knows;
    the option `body` has settings that only the server knows: `service_tier`, OpenRouter's `provider`, vLLM's
    `chat_template_kwargs`.
    """

    name = "openai"
    version = 1
    default_base = "https://api.openai.com/v1"
    base_env = "OPENAI_BASE_URL"
    key_envs: tuple[str, ...] = ("OPENAI_API_KEY",)
    default_model = "gpt-4o"
    batch_service = "titjudge.providers.batch.openai:OpenAIBatches"
    schema = tools = probabilities = True

    @property
    def path(self) -> str:
        return "/chat/completions"

    async def body(self, request: Request, *, in_prompt: bool = False) -> Json:
        request = fitted(request)
        params = self.family.sent(request)
        detail, extra = params.pop("detail", None), params.pop("body", {})
        messages = await chat_messages(request, detail, in_prompt=in_prompt)
        out: Json = {"model": self.model, "messages": messages}
        if "max_tokens" in params:
            out[self.family.limit_name] = params.pop("max_tokens")
        out.update(params)
        if request.schema is not None and not in_prompt:
            out["response_format"] = response_format(request)
        if request.tools:
            out["tools"] = tool_calls.openai_tools(request.tools)
        return request_options.merged(out, extra)

    def _calls_tools(self) -> bool:
        """Whether the model calls tools: by the table at OpenAI and Azure, no at other servers, of which nothing is known."""
        return self.family.tools and self.at_openai

    @property
    def at_openai(self) -> bool:
        """Whether all addresses are OpenAI's or Azure's own, which serve OpenAI's models alone."""
        return all(endpoint.host.endswith(("api.openai.com", ".azure.com")) for endpoint in self.endpoints.all)

    def _sdk(self) -> http.Transport:
        from titjudge.providers.hosted.sdk import OpenAISdk

        return OpenAISdk(self.model)

    def authorisation(self, endpoint: http.Endpoint, key: str) -> dict[str, str]:
        headers = {"Authorization": endpoint.credentials or f"Bearer {key}"} if endpoint.credentials or key else {}
        if key and endpoint.host.endswith(".azure.com"):
            headers["api-key"] = key
        if endpoint.host == "api.openai.com":
            for header, variable in (("OpenAI-Organization", "OPENAI_ORG_ID"), ("OpenAI-Project", "OPENAI_PROJECT_ID")):
                if value := os.environ.get(variable):
                    headers[header] = value
        return headers

    # ------------------------------------------------------------------ answers

    def read_reply(self, answer: http.Answer, asked: AskedFor, endpoint: str = "") -> Reply:
        usage: Usage | None = None
        try:
            data = answer.json()
            usage = None if isinstance(data, list) else openai_usage(data.get("usage"), answer.headers)
            choices = None if isinstance(data, list) else data.get("choices")
            if not choices and error_bodies.holds_error(data):
                raise self.error_in(answer, usage)
            choice = first_choice(choices)
            broken = data.get("error") or choice.get("error")
            if error_bodies.says_failure(broken) and choice.get("finish_reason") != "content_filter":
                error = error_bodies.read(json_bytes({"error": broken}))
                raise self.error_of(error.status, error, answer.headers, usage, answered=True)
            called = tool_calls.openai_calls((choice.get("message") or {}).get("tool_calls")) if asked.tools else ()
            return chat_reply(self, data, choice, usage, asked, called, endpoint)
        except ProviderFailure:
            raise
        except Exception:  # whatever a server may write: it came with a status of success, so it may be billed
            raise self.unreadable(answer.body, usage, endpoint) from None


def first_choice(choices: Any) -> Values:
    """Return the choice with index 0, at any position; otherwise the first.

    Raises:
        LookupError, TypeError, AttributeError: There is none.
    """
    return next((choice for choice in choices if choice.get("index") == 0), choices[0])


def chat_reply(
    provider: Remote,
    data: Values,
    choice: Values,
    usage: Usage | None,
    asked: AskedFor,
    called: tuple[ToolCall, ...],
    endpoint: str,
) -> Reply:
    """Make the reply of a choice of a chat completion `data`.

    Raises:
        ProviderFailure: It contains no answer.
    """
    message, finish = choice.get("message") or {}, choice.get("finish_reason", "")
    declined = (
        message.get("refusal")
        or (message.get("provider_specific_fields") or {}).get("refusal")
        or _refusal_in(message.get("content"))
    )
    text, elsewhere, where = text_of(message.get("content")), "", ""
    if not text.strip():
        elsewhere, where = _text_elsewhere(message or choice)
    reply = Reply(
        text or elsewhere,
        finish_reason=redact(str(finish or "")),
        model_version=redact("@".join(filter(None, (data.get("model"), data.get("system_fingerprint"))))),
        endpoint=endpoint,
        flags=asked.flags(NO_USAGE if unread(usage) else ""),
        tool_calls=called,
        first_token=openai_first_token(choice),
    )
    reply = provider.concluded(
        reply,
        finish,
        usage,
        refusal=f"the model declined: {declined}" if declined else "",
        missing=where,
        answered=bool(called or text.strip()),
        empty=not where,
    )
    return replace(reply, text=text)


def _text_elsewhere(message: Values) -> tuple[str, str]:
    """Find the text of a message without `content` in other places, and return it with its place."""
    for name in ("reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks"):
        if message.get(name):
            what = f"the answer is in {name}, and content is empty: turn thinking off, or raise max_tokens"
            return _as_text(message[name]), what
    for name in ("tool_calls", "function_call"):
        if message.get(name):
            return _as_text(message[name]), f"the answer is in {name}, and content is empty: turn tool calls off"
    content = message.get("content")
    if content and not isinstance(content, str):
        return _as_text(content), f"content must be a text, not {type(content).__name__}"
    for name in ("text", "output_text", "audio", "parsed", "delta"):
        if message.get(name):
            return _as_text(message[name]), f"the answer is in {name}, and content is empty"
    return "", ""


def _refusal_in(content: Any) -> str:
    """Read the refusal of a content of parts that has no text."""
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    said = "" if any(part.get("text") for part in parts) else next((part.get("refusal") for part in parts), "")
    return said if isinstance(said, str) else ""


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json_bytes(value).decode()


async def data_url(image: ImageFile) -> orjson.Fragment:
    """Write an image as a JSON string, without a copy of its base64."""
    return orjson.Fragment(b'"data:%s;base64,%s"' % (image.media_type.encode(), await image_base64(image)))


async def chat_messages(
    request: Request,
    detail: str | None,
    *,
    in_prompt: bool,
    url_of: Callable[[ImageFile], Awaitable[Any]] = data_url,
    turns_of: Callable[[Message, Json], list[Json]] = tool_calls.openai_turns,
) -> list[Json]:
    """Write the messages of a request in chat form.

    Args:
        request: The request.
        detail: The `detail` of its images; None for none.
        in_prompt: Append the request's schema in words.
        url_of: Writes an image as a data URL.
        turns_of: Writes a turn with tool calls or results, from the message and its turn without them.
    """
    messages = [await message_of(message, detail, url_of) for message in request.messages]
    if request.tools:
        pairs = zip(request.messages, messages, strict=True)
        messages = [turn for message, base_turn in pairs for turn in turns_of(message, base_turn)]
    if request.schema is not None and in_prompt:
        add_instruction(messages, request.schema)
    return messages


async def message_of(
    message: Message, detail: str | None = None, url_of: Callable[[ImageFile], Awaitable[Any]] = data_url
) -> Json:
    """Write a turn in chat form: a plain string if it is only text, otherwise its parts in order."""
    if all(isinstance(part, str) for part in message.parts):
        return {"role": message.role, "content": message.text}
    content: list[Json] = []
    for part in message.parts:
        if isinstance(part, str):
            content.append({"type": "text", "text": part})
            continue
        url = await url_of(part)
        image: Json = {"url": url} if detail is None else {"url": url, "detail": detail}
        content.append({"type": "image_url", "image_url": image})
    return {"role": message.role, "content": content}


def response_format(request: Request) -> Json:
    """Make the `response_format` of a request with a schema."""
    schema, is_strict = strict(request.schema or {})
    return {
        "type": "json_schema",
        "json_schema": {"name": name_of(request.schema_name), "schema": schema, "strict": is_strict},
    }


def text_of(content: Any) -> str:
    """Read the text of a message whose content is a string or a list of parts; "" if it has none."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) and all(isinstance(part, Mapping) for part in content) else []
    texts = [part.get("text") for part in parts if part.get("type", "text") == "text"]
    return "".join(texts) if all(isinstance(text, str) for text in texts) else ""
