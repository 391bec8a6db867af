"""OpenAI's chat completions, and every server that speaks them (vLLM, SGLang, llama.cpp, Azure, OpenRouter, ...).

Wire format: "Create chat completion", platform.openai.com/docs/api-reference/chat. Requests do not go through the SDK
(which takes ten times the CPU) unless the option `client` says so; a contract test holds the bodies equal to the SDK's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import orjson

from titjudge.core.redaction import redact
from titjudge.core.types import FailureKind, ImageFile, Message, Reply, Request, Status, ToolCall, Usage
from titjudge.providers import finish_reasons
from titjudge.providers.finish_reasons import UNFINISHED, Ending
from titjudge.providers.hosted import http, request_options, tool_calls
from titjudge.providers.hosted.base import Hosted, Remote, image_base64, parsed, unreadable
from titjudge.providers.hosted.failures import LONGEST_WAIT, ProviderFailure, kind_of_status, may_be_billed, retry_after
from titjudge.providers.hosted.first_tokens import openai_first_token
from titjudge.providers.hosted.usage import NO_USAGE, openai_usage, unread
from titjudge.providers.image_size import fitted
from titjudge.providers.json_schema import add_instruction, name_of, strict

_NO_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "account_deactivated")
_FILTERED = (  # OpenAI and Azure, Alibaba, xAI
    *("content_filter", "content_policy_violation", "responsibleaipolicyviolation", "moderation_blocked"),
    *("data_inspection_failed", "safety_check_failed"),
)
_REFUSED_PARAMETER = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})  # codes


class OpenAI(Hosted):
    """One model behind `/chat/completions`.

    `base_url` (or OPENAI_BASE_URL) may hold several comma-separated addresses; `structured` auto asks for JSON-schema
    answers natively and, once a server has said that it knows none, in words from then on (flag `schema-in-prompt`).
    The option `tools` (true, false) says whether the model calls tools natively, where the table cannot know; `client: sdk`
    sends through OpenAI's SDK.
    Parameters: `max_tokens`, `detail` (of images: low, high, auto), `reasoning_effort`, and any other the server knows;
    the option `body` holds what only the server knows: `service_tier`, OpenRouter's `provider`, vLLM's `chat_template_kwargs`.
    """

    name = "openai"
    version = 1
    default_base = "https://api.openai.com/v1"
    base_env = "OPENAI_BASE_URL"
    key_envs: tuple[str, ...] = ("OPENAI_API_KEY",)
    default_model = "gpt-4o"
    batch_service = "titjudge.providers.batch.openai:OpenAIBatches"
    schema = tools = probabilities = True
    no_schema_words = ("response_format", "json_schema", "structured output", "guided", "grammar")

    @property
    def path(self) -> str:
        return "/chat/completions"

    async def body(self, request: Request, *, in_prompt: bool = False) -> dict[str, Any]:
        request = fitted(request)
        params = self.family.sent(request)
        detail, extra = params.pop("detail", None), params.pop("body", {})
        messages = await chat_messages(request, detail, in_prompt=in_prompt)
        out: dict[str, Any] = {"model": self.model, "messages": messages}
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
        return self.family.tools and self._at_openai

    @property
    def _at_openai(self) -> bool:
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

    def read_reply(self, answer: http.Answer, flag: str, *, tools: bool = False, endpoint: str = "") -> Reply:
        usage: Usage | None = None
        try:
            data = parsed(answer.body)
            usage = openai_usage(data.get("usage"), answer.headers)
            choices = data.get("choices")
            error = data.get("error") or (choices and choices[0].get("error"))
            if error and not (choices and choices[0].get("finish_reason") == "content_filter"):
                raise self._error_of(_status_in(error), error, answer.headers, usage, answered=True)
            called = tool_calls.openai_calls((choices[0].get("message") or {}).get("tool_calls")) if tools else ()
            return chat_reply(self, data, choices[0], usage, flag, called, endpoint)
        except ProviderFailure:
            raise
        except Exception:  # whatever a server may write: it came with a status of success, so it may be billed
            raise self.unusable(unreadable(answer.body), usage) from None

    def read_error(
        self,
        answer: http.Answer,
        *,
        schema: bool = False,
        tools: bool = False,
        sent: Collection[str] | None = None,
    ) -> ProviderFailure:
        try:
            data = parsed(answer.body)
            error = data.get("error", data)
        except (ValueError, AttributeError):
            error = answer.body[:2000].decode("utf-8", "replace") or "no text"
        codes = set(_codes_in(error))
        named = str(error.get("param") or "") if codes & _REFUSED_PARAMETER else ""
        unsupported = None
        if codes.isdisjoint(_FILTERED):
            unsupported = self.unsupported(
                answer.status, _text_in(error), schema=schema, tools=tools, sent=sent, named=named
            )
        return unsupported or self._error_of(answer.status, error, answer.headers)

    def _error_of(
        self,
        status: int,
        error: Any,
        headers: Mapping[str, str],
        usage: Usage | None = None,
        *,
        answered: bool = False,
    ) -> ProviderFailure:
        """Make the failure of an error by its status and codes; `answered`: it came with a status of success."""
        message, codes = _text_in(error), _codes_in(error)
        kind = kind_of_status(status)
        if any(code in _NO_QUOTA for code in codes):
            kind = FailureKind.FATAL
        elif is_filtered(status, error):
            kind = FailureKind.REFUSED
        elif (status == 404 and "model_not_found" in codes) or (
            status == 400
            and ({"model_not_found", "unsupported_parameter"} & set(codes) or "invalid model" in message.lower())
        ):
            kind = FailureKind.FATAL
        wait = None
        if kind.may_pass:
            wait = retry_after(headers)
            wait = _wait_in(message) if wait is None else wait
        text = f"HTTP {status} from {self.base_url}: {message}{self._key_at_fault(status, message)}"
        if answered:
            return self.unusable(text, usage, kind, wait)
        return self.failure(kind, text, wait=wait, maybe_billed=may_be_billed(status))


def chat_reply(
    provider: Remote,
    data: Mapping[str, Any],
    choice: Mapping[str, Any],
    usage: Usage | None,
    flag: str,
    called: tuple[ToolCall, ...],
    endpoint: str,
) -> Reply:
    """Make the reply of a choice of a chat completion `data`.

    Raises:
        ProviderFailure: It holds no answer.
    """
    message, finish = choice.get("message") or {}, choice.get("finish_reason", "")
    end = finish_reasons.ending(finish)
    refusal = message.get("refusal") or (message.get("provider_specific_fields") or {}).get("refusal")
    text = text_of(message.get("content"))
    first, unfinished = None, ""
    if refusal:
        status, reason = Status.REFUSED, f"the model declined: {refusal}"
    elif end is Ending.FILTERED:
        status, reason = Status.REFUSED, "the content filter stopped the answer"
    else:
        status, reason = Status.OK, ""
        first = openai_first_token(choice)
        if end is Ending.CUT:
            status, reason = Status.TRUNCATED, "the answer reached its token limit"
        elif end in (Ending.BROKEN, Ending.UNKNOWN):
            status, reason, unfinished = Status.TRUNCATED, finish_reasons.why_unfinished(finish), UNFINISHED
            if first is None and end is Ending.BROKEN:
                raise provider.unusable(reason, usage)
        elif not (called or text.strip()):
            status, reason = Status.TRUNCATED, f"the answer holds no text (finish: {finish or 'none'})"
            if first is None:
                raise provider.unusable(reason, usage, empty=bool(finish))
    return Reply(
        text,
        status,
        reason,
        usage or Usage(),
        redact(str(finish or "")),
        model_version=redact("@".join(filter(None, (data.get("model"), data.get("system_fingerprint"))))),
        endpoint=endpoint,
        flags=tuple(filter(None, (flag, NO_USAGE if unread(usage) else "", unfinished))),
        tool_calls=called,
        first_token=first,
    )


async def data_url(image: ImageFile) -> orjson.Fragment:
    """Write an image as a JSON string, without a copy of its base64."""
    return orjson.Fragment(b'"data:%s;base64,%s"' % (image.media_type.encode(), await image_base64(image)))


async def chat_messages(
    request: Request,
    detail: str | None,
    *,
    in_prompt: bool,
    url_of: Callable[[ImageFile], Awaitable[Any]] = data_url,
    turns_of: Callable[[Message, dict[str, Any]], list[dict[str, Any]]] = tool_calls.openai_turns,
) -> list[dict[str, Any]]:
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
) -> dict[str, Any]:
    """Write a turn in chat form: a plain string when it holds only text, else its parts in their order."""
    if all(isinstance(part, str) for part in message.parts):
        return {"role": message.role, "content": message.text}
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, str):
            content.append({"type": "text", "text": part})
            continue
        url = await url_of(part)
        image: dict[str, Any] = {"url": url} if detail is None else {"url": url, "detail": detail}
        content.append({"type": "image_url", "image_url": image})
    return {"role": message.role, "content": content}


def response_format(request: Request) -> dict[str, Any]:
    """Make the `response_format` of a request with a schema."""
    schema, is_strict = strict(request.schema or {})
    return {
        "type": "json_schema",
        "json_schema": {"name": name_of(request.schema_name), "schema": schema, "strict": is_strict},
    }


def text_of(content: Any) -> str:
    """Read the text of a message whose content is a string, a list of parts, or null."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    return "".join(part.get("text", "") for part in content if part.get("type", "text") == "text")


def _text_in(error: Any) -> str:
    if isinstance(error, Mapping):
        for key in ("message", "detail", "error", "msg"):
            if error.get(key):
                return str(error[key])
    return str(error)


def _codes_in(error: Any) -> list[str]:
    """List the codes of an error and of its inner errors (Azure nests them), in lower case."""
    codes: list[str] = []
    while isinstance(error, Mapping):
        codes += [str(error[key]).lower() for key in ("code", "type") if error.get(key)]
        error = error.get("innererror") or error.get("inner_error")
    return codes


def is_filtered(status: int, error: Any) -> bool:
    """Whether an error says that a content filter refused the request."""
    return status in (400, 403, 422) and (any(code in _FILTERED for code in _codes_in(error)) or _moderated(error))


def _moderated(error: Any) -> bool:
    """Whether a moderation service flagged the input (OpenRouter answers 403 with its reasons)."""
    metadata = error.get("metadata") if isinstance(error, Mapping) else None
    return isinstance(metadata, Mapping) and bool(metadata.get("reasons") or metadata.get("flagged_input"))


def _wait_in(message: str) -> float | None:
    """Read the seconds of "Please try again in 1m2.5s" or "in 450ms"; OpenAI writes it even where a gateway drops the header."""
    match = re.search(r"try again in (?:(\d+)m)?(\d+(?:\.\d+)?)(ms|s)\b", message)
    if not match:
        return None
    seconds = float(match[2]) / (1000 if match[3] == "ms" else 1)
    return min(60 * int(match[1] or 0) + seconds, LONGEST_WAIT)


def _status_in(error: Any) -> int:
    """Find the status of an error that came in an answer with status 200 (OpenRouter): its numeric code, else 502."""
    code = error.get("code") if isinstance(error, Mapping) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 502
