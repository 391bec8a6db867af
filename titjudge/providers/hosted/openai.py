"""OpenAI's chat completions, and every server that speaks them (vLLM, SGLang, llama.cpp, Azure, OpenRouter, ...).

Wire format: "Create chat completion", platform.openai.com/docs/api-reference/chat. Requests do not go through the SDK
(which takes ten times the CPU) unless that is asked for; a contract test holds the bodies equal to the SDK's.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from titjudge.core.serialization import without_surrogates
from titjudge.core.types import FailureKind, ImageFile, Message, Reply, Request, Status, Usage
from titjudge.providers.hosted import http, tool_calls
from titjudge.providers.hosted.base import Hosted, encoded, parsed, unreadable
from titjudge.providers.hosted.failures import LONGEST_WAIT, ProviderFailure, gave_up, kind_of_status, retry_after
from titjudge.providers.hosted.first_tokens import openai_first_token
from titjudge.providers.hosted.usage import NO_USAGE, openai_usage
from titjudge.providers.image_size import fitted
from titjudge.providers.json_schema import add_instruction, name_of, strict

logger = logging.getLogger(__name__)

IN_PROMPT = "schema-in-prompt"  # flag: the schema was asked for in words

_NO_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "account_deactivated")
_FILTERED = (  # OpenAI and Azure, Alibaba, xAI
    *("content_filter", "content_policy_violation", "responsibleaipolicyviolation", "moderation_blocked"),
    *("data_inspection_failed", "safety_check_failed"),
)
_OWN_HOSTS = ("api.openai.com", ".azure.com")
_NO_SCHEMAS = ("response_format", "json_schema", "structured output", "guided", "grammar")


class OpenAI(Hosted):
    """One model behind `/chat/completions`.

    `base_url` (or OPENAI_BASE_URL) may hold several comma-separated addresses; `structured` auto asks for JSON-schema
    answers natively and, once a server has said that it knows none, in words from then on (flag `schema-in-prompt`).
    The option `tools` (true, false) says whether the model calls tools natively, where the table cannot know; `client: sdk`
    sends through OpenAI's SDK.
    Parameters: `max_tokens`, `detail` (of images: low, high, auto), `reasoning_effort`, and any other the server knows.
    """

    name = "openai"
    version = 1
    default_base = "https://api.openai.com/v1"
    base_env = "OPENAI_BASE_URL"
    key_envs = ("OPENAI_API_KEY",)

    async def complete(self, request: Request) -> Reply:
        """Send one request once.

        Raises:
            ConfigError: no key. ProviderFailure, TransportError: anything else that is not an answer; see `classify`.
        """
        in_prompt = request.schema is not None and not self.native_schema
        body = orjson.dumps(await self.body(request, in_prompt=in_prompt))
        answer, endpoint = await self._post("/chat/completions", body)
        tools = bool(request.tools)
        if not 200 <= answer.status < 300:
            raise self.read_error(answer, native=request.schema is not None and not in_prompt, tools=tools)
        return self.read_reply(answer, IN_PROMPT if in_prompt else "", tools=tools, endpoint=endpoint.identity)

    async def body(self, request: Request, *, in_prompt: bool = False) -> dict[str, Any]:
        """Make what is sent, for `orjson.dumps` (images are `orjson.Fragment`s)."""
        request = fitted(request)
        params = self.family.sent(request)
        detail = params.pop("detail", None)
        messages = [await message_of(each, detail) for each in request.messages]
        if request.tools:
            pairs = zip(request.messages, messages, strict=True)
            messages = [turn for each, made in pairs for turn in tool_calls.openai_turns(each, made)]
        if request.schema is not None and in_prompt:
            add_instruction(messages, request.schema)
        out: dict[str, Any] = {"model": self.model, "messages": messages}
        if "max_tokens" in params:
            out[self.family.limit_name] = params.pop("max_tokens")
        out.update(params)
        if request.schema is not None and not in_prompt:
            out["response_format"] = response_format(request)
        if request.tools:
            out["tools"] = tool_calls.openai_tools(request.tools)
        return out

    def _calls_tools(self) -> bool:
        """At OpenAI and Azure by the table; of any other server nobody knows, and the option `tools` says so."""
        return self.family.tools and all(each.host.endswith(_OWN_HOSTS) for each in self.endpoints.all)

    def _sdk(self) -> http.Transport:
        from titjudge.providers.hosted.sdk import OpenAISdk

        return OpenAISdk(self.model)

    def _authorisation(self, endpoint: http.Endpoint, key: str) -> dict[str, str]:
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
        """Read an answer with a status of success.

        Raises:
            ProviderFailure: It holds no answer, or cannot be read.
        """
        usage: Usage | None = None
        try:
            data = parsed(answer.body)
            usage = openai_usage(data.get("usage"))
            choices = data.get("choices")
            error = data.get("error") or (choices and choices[0].get("error"))
            if error and not (choices and choices[0].get("finish_reason") == "content_filter"):
                raise self._error_of(_status_in(error), error, answer.headers, usage, answered=True)
            choice = choices[0]
            message = choice.get("message") or {}
            text, refusal = text_of(message.get("content")), message.get("refusal")
            finish = choice.get("finish_reason") or ""
            called = tool_calls.openai_calls(message.get("tool_calls")) if tools else ()
            status, reason = status_of(text, refusal, finish, called=bool(called))
            first = openai_first_token(choice) if status is not Status.REFUSED else None
            if status is Status.FAILED and first is None:
                raise self.unusable(reason, usage)
            return Reply(
                without_surrogates(text),
                Status.TRUNCATED if status is Status.FAILED else status,
                reason,
                usage or Usage(),
                finish,
                model_version="@".join(filter(None, (data.get("model"), data.get("system_fingerprint")))),
                endpoint=endpoint,
                flags=tuple(each for each in (flag, NO_USAGE if usage is None else "") if each),
                tool_calls=called,
                first_token=first,
            )
        except ProviderFailure:
            raise
        except Exception:  # whatever a server may write: it came with a status of success, so it may be billed
            raise self.unusable(unreadable(answer.body), usage) from None

    def read_error(self, answer: http.Answer, *, native: bool = False, tools: bool = False) -> ProviderFailure:
        """Make the failure behind an error status; learns from it when the server knows no JSON schemas or no tools."""
        try:
            data = parsed(answer.body)
            error = data.get("error", data)
        except (ValueError, AttributeError):
            error = answer.body[:2000].decode("utf-8", "replace") or "no text"
        if native and answer.status in (400, 422, 501) and self._knows_no_schemas(_text_in(error)):
            self.native_schema = False
            logger.info("%(address)s takes no JSON schemas: they are asked for in words", {"address": self.base_url})
            return self.failure(
                FailureKind.RETRY, f"no JSON-schema answers here, asking in words: {_text_in(error)}", wait=0.0
            )
        if tools and self._learns_no_tools(answer.status, _text_in(error)):
            return self.failure(FailureKind.REJECTED, f"no tools are called here: {_text_in(error)}")
        return self._error_of(answer.status, error, answer.headers)

    def _knows_no_schemas(self, message: str) -> bool:
        if self.settings.structured != "auto" or "invalid schema" in message.lower():
            return False
        return any(word in message.lower() for word in _NO_SCHEMAS)

    def _error_of(
        self,
        status: int,
        error: Any,
        headers: Mapping[str, str],
        usage: Usage | None = None,
        *,
        answered: bool = False,
    ) -> ProviderFailure:
        message, codes = _text_in(error), _codes_in(error)
        kind = kind_of_status(status)
        if any(code in _NO_QUOTA for code in codes):
            kind = FailureKind.FATAL
        elif status in (400, 403, 422) and (any(code in _FILTERED for code in codes) or _moderated(error)):
            kind = FailureKind.REFUSED
        elif (status == 404 and "model_not_found" in codes) or (
            status == 400
            and ({"model_not_found", "unsupported_parameter"} & set(codes) or "invalid model" in message.lower())
        ):
            kind = FailureKind.FATAL
        wait = None
        if kind in (FailureKind.RETRY, FailureKind.RATE_LIMIT):
            wait = retry_after(headers)
            wait = _wait_in(message) if wait is None else wait
        said = f"HTTP {status} from {self.base_url}: {message}{self._key_at_fault(status, message)}"
        if answered:
            return self.unusable(said, usage, kind, wait)
        return self.failure(kind, said, wait=wait, maybe_billed=gave_up(status))


def status_of(text: str, refusal: str | None, finish: str, *, called: bool) -> tuple[Status, str]:
    """Say what an answer in chat form is, and why; FAILED: of no use."""
    if refusal:
        return Status.REFUSED, f"the model declined: {without_surrogates(refusal)}"
    if finish in ("content_filter", "refusal"):
        return Status.REFUSED, "the content filter stopped the answer"
    if finish == "length":
        return Status.TRUNCATED, "the answer reached its token limit"
    if not (called or text.strip()):
        return Status.FAILED, f"the answer holds no text (finish: {finish or 'none'})"
    return Status.OK, ""


async def data_url(image: ImageFile) -> orjson.Fragment:
    """Write an image as a JSON text, without a copy of its base64 as a string."""
    return orjson.Fragment(b'"data:%s;base64,%s"' % (image.media_type.encode(), await encoded.get(image)))


async def message_of(
    message: Message, detail: str | None = None, url_of: Callable[[ImageFile], Awaitable[Any]] = data_url
) -> dict[str, Any]:
    """One turn in chat form: a plain string when it holds only text, else its parts in their order."""
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
    """`response_format` for a request with a schema."""
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
    """Every code an error carries, its inner errors included (Azure nests them), in lower case."""
    found: list[str] = []
    while isinstance(error, Mapping):
        found += [str(error[key]).lower() for key in ("code", "type") if error.get(key)]
        error = error.get("innererror") or error.get("inner_error")
    return found


def _moderated(error: Any) -> bool:
    """OpenRouter answers 403 with the reasons when a moderation service flags the input."""
    metadata = error.get("metadata") if isinstance(error, Mapping) else None
    return isinstance(metadata, Mapping) and bool(metadata.get("reasons") or metadata.get("flagged_input"))


def _wait_in(message: str) -> float | None:
    """Seconds of "Please try again in 1m2.5s" or "in 450ms", which OpenAI writes even where a gateway drops the header."""
    found = re.search(r"try again in (?:(\d+)m)?(\d+(?:\.\d+)?)(ms|s)\b", message)
    if not found:
        return None
    seconds = float(found[2]) / (1000 if found[3] == "ms" else 1)
    return min(60 * int(found[1] or 0) + seconds, LONGEST_WAIT)


def _status_in(error: Any) -> int:
    """Find the status of an error that came in an answer with status 200 (OpenRouter): its numeric code, else 502."""
    code = error.get("code") if isinstance(error, Mapping) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 502
