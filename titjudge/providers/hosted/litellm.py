"""The long tail of hosted models through litellm: Anthropic, Azure, Bedrock, OpenRouter, Mistral, Ollama, ...

litellm takes seconds to import and would fetch a price list then: it is imported at the first request, in a thread,
with its bundled list. Its retries and its silent dropping of parameters are off; the table in `models.py` says what is
left out. Names are litellm's: `litellm/anthropic/claude-sonnet-4-5`, `litellm/azure/DEPLOYMENT`, ...
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import orjson

from titjudge.core.errors import ConfigError
from titjudge.core.redaction import environment_secrets, one_line, register_secret
from titjudge.core.serialization import without_surrogates
from titjudge.core.types import Failure, FailureKind, ImageFile, Message, Reply, Request, Status, ToolCall, Usage
from titjudge.providers import Capabilities, Provider, ProviderSettings, model_families, token_counts
from titjudge.providers.hosted import litellm_client, tool_calls
from titjudge.providers.hosted.base import encoded
from titjudge.providers.hosted.failures import (
    ProviderFailure,
    classify,
    connection_error,
    gave_up,
    kind_of_status,
    retry_after,
)
from titjudge.providers.hosted.first_tokens import openai_first_token
from titjudge.providers.hosted.http import Endpoint
from titjudge.providers.hosted.openai import IN_PROMPT, message_of, response_format, status_of, text_of
from titjudge.providers.hosted.usage import NO_USAGE, openai_usage
from titjudge.providers.image_size import fitted
from titjudge.providers.json_schema import add_instruction

logger = logging.getLogger(__name__)

_KINDS = {  # litellm's exceptions by name, most special first; the rest goes by status
    "ContentPolicyViolationError": FailureKind.REFUSED,
    "AuthenticationError": FailureKind.FATAL,
    "PermissionDeniedError": FailureKind.BARRED,
    "NotFoundError": FailureKind.BARRED,
    "PaymentRequiredError": FailureKind.FATAL,
    "LiteLLMUnknownProvider": FailureKind.FATAL,
    "BudgetExceededError": FailureKind.FATAL,
    "UnsupportedParamsError": FailureKind.FATAL,
    "RateLimitError": FailureKind.RATE_LIMIT,
    "Timeout": FailureKind.RETRY,
    "APIConnectionError": FailureKind.RETRY,
    "APIResponseValidationError": FailureKind.RETRY,
    "APIError": FailureKind.RETRY,
}
_NO_SCHEMAS = ("response_format", "json_schema", "output_config", "output_format", "structured output")


class _Failed(Exception):
    """A call that failed, classified where it was known what had been sent."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


class LiteLLM(Provider):
    """One model behind litellm.

    Settings and flags as for `titjudge.providers.hosted.openai.OpenAI`; `base_url` is its
    `api_base`; without `api_key_env` litellm looks for each provider's own variable (ANTHROPIC_API_KEY, ...).
    """

    name = "litellm"

    def __init__(self, settings: ProviderSettings) -> None:
        if "/" not in settings.model and not settings.base_url:
            raise ConfigError(f"'{settings.model}': litellm wants the provider first, as in litellm/anthropic/MODEL")
        if "," in settings.base_url:
            raise ConfigError("litellm takes one base_url; for several use an openai/ model")
        self.settings = settings
        self.model = settings.model
        self.family = model_families.family(self.name, settings.model)
        self.base_url = Endpoint(settings.base_url).identity if settings.base_url else ""
        self.account = (
            f"{self.name}|{self.base_url or settings.model.partition('/')[0]}|{settings.api_key_env}|{settings.model}"
        )
        asked = tool_calls.wanted(settings)
        self.capabilities: Capabilities = self.family.capabilities(tools=self.family.tools if asked is None else asked)
        self.native_schema = settings.structured != "prompt"
        self._litellm: Any = None

    async def complete(self, request: Request) -> Reply:
        """Send one request once.

        Raises:
            ConfigError: no key. Anything else that is not an answer is for `classify`.
        """
        litellm = self._litellm or await self._load()
        in_prompt = request.schema is not None and not self.native_schema
        arguments = await self._arguments(request, in_prompt)
        try:
            with litellm_client.traced() as trace:
                answer = await litellm.acompletion(**arguments)
        except Exception as error:
            if request.schema is not None and not in_prompt and self._knows_no_schemas(error):
                self.native_schema = False
                message = one_line(f"no JSON-schema answers here, asking in words: {error}", environment_secrets())
                logger.info("%(model)s takes no JSON schemas: they are asked for in words", {"model": self.model})
                raise ProviderFailure(FailureKind.RETRY, message, retry_after=0.0) from None
            if request.tools and self._learns_no_tools(error):
                message = one_line(f"no tools are called here: {error}", environment_secrets())
                raise ProviderFailure(FailureKind.REJECTED, message) from None
            raise _Failed(self._failure_of(error, trace)) from error
        hidden = getattr(answer, "_hidden_params", {})
        self._pass_on(getattr(answer, "_response_headers", None) or hidden.get("additional_headers"))
        logger.debug("%(model)s answered HTTP %(status)d", {"model": self.model, "status": trace.status})
        reply = _reply(answer, IN_PROMPT if in_prompt else "", tools=bool(request.tools), counted=not trace.uncounted)
        endpoint = self.base_url or self.model.partition("/")[0]
        return replace(reply, endpoint=endpoint)

    def classify(self, error: Exception) -> Failure:
        return error.failure if isinstance(error, _Failed) else classify(error)

    def _failure_of(self, error: Exception, trace: litellm_client.Trace) -> Failure:
        """By what happened on the wire, then by the name of litellm's exception and its HTTP status."""
        known = connection_error(error, self.base_url or self.model)
        if known is not None:
            return classify(known)
        failure = self._named(error)
        if 200 <= trace.status < 300:  # litellm could not read it
            return replace(failure, kind=FailureKind.RETRY, maybe_billed=True, answered=True)
        if trace.sent and not trace.status:
            return replace(failure, kind=FailureKind.RETRY, maybe_billed=True)
        return replace(failure, maybe_billed=gave_up(trace.status))

    def _named(self, error: Exception) -> Failure:
        names = [each.__name__ for each in type(error).__mro__]
        kind = next((_KINDS[name] for name in names if name in _KINDS), None)
        status = getattr(error, "status_code", None)
        text = str(error).partition("This looks like a bug in LiteLLM")[0]
        if kind in (None, FailureKind.RETRY) and isinstance(status, int) and status >= 400:
            kind = kind_of_status(status)
        if kind is FailureKind.REJECTED and ("JSONDecodeError" in text or "Expecting value" in text):
            kind = FailureKind.RETRY
        if kind is FailureKind.RATE_LIMIT and "insufficient_quota" in f"{text} {getattr(error, 'body', '')}":
            kind = FailureKind.FATAL
        headers = _lowered(
            getattr(error, "litellm_response_headers", None)
            or getattr(getattr(error, "response", None), "headers", None)
        )
        self._pass_on(headers)
        message = one_line(text, environment_secrets())  # litellm reads the variables of its many vendors by itself
        return Failure(kind or FailureKind.REJECTED, message, retry_after(headers))

    def usage_bound(self, request: Request) -> Usage:
        """At most what a request can use, in tokens: every byte of text counts as one."""
        request = fitted(request)
        params = self.family.sent(request)
        total, images = token_counts.input_bound(request, self.name, self.model, params, str(request.schema or ""))
        return Usage(input=total, output=int(params.get("max_tokens") or self.family.max_output), image=images)

    async def aclose(self) -> None:
        """Close the connections litellm keeps for this process."""
        if self._litellm is None:
            return
        from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

        await close_litellm_async_clients()
        self._litellm.in_memory_llm_clients_cache.flush_cache()

    async def _load(self) -> Any:
        self._litellm = await asyncio.to_thread(litellm_client.load)
        return self._litellm

    async def _arguments(self, request: Request, in_prompt: bool) -> dict[str, Any]:
        request = fitted(request)
        params = self.family.sent(request)
        detail, budget = params.pop("detail", None), params.pop("thinking_budget", None)
        messages = [await message_of(each, detail, _data_url) for each in request.messages]
        if request.tools:
            pairs = zip(request.messages, messages, strict=True)
            messages = [turn for each, made in pairs for turn in _turns(each, made)]
        if request.schema is not None and in_prompt:
            add_instruction(messages, request.schema)
        out: dict[str, Any] = {"model": self.model, "messages": messages, "timeout": self.settings.timeout, **params}
        out.update(num_retries=0, max_retries=0, drop_params=False, caching=False)
        if budget:
            out["thinking"] = {"type": "enabled", "budget_tokens": budget}
        if request.schema is not None and not in_prompt:
            out["response_format"] = deepcopy(response_format(request))  # litellm changes what it is given
        if request.tools:
            out["tools"] = deepcopy(tool_calls.openai_tools(request.tools))
            out["_skip_mcp_handler"] = True  # litellm would import its MCP gateway, which needs a package of its own
        if self.settings.base_url:
            out["api_base"] = self.settings.base_url
        if key := self._key():
            out["api_key"] = key
        return out

    def _key(self) -> str | None:
        name = self.settings.api_key_env
        if not name:
            return None
        if not os.environ.get(name):
            raise ConfigError(f"no API key for {self.model}: set the environment variable {name}")
        key = os.environ[name].strip()
        register_secret(key)
        return key

    def _knows_no_schemas(self, error: Exception) -> bool:
        if self.settings.structured != "auto" or getattr(error, "status_code", 0) not in (400, 422):
            return False
        return any(word in str(error).lower() for word in _NO_SCHEMAS)

    def _learns_no_tools(self, error: Exception) -> bool:
        """Whether an exception says that no tools are called here; from then on none are offered."""
        status = getattr(error, "status_code", 0)
        if self.settings.options.get("tools") is not None or not tool_calls.unknown_here(status, str(error)):
            return False
        self.capabilities = replace(self.capabilities, tools=False)
        return True

    def _pass_on(self, headers: Any) -> None:
        if self.on_headers is not None and headers:
            self.on_headers(_lowered(headers))


def _lowered(headers: Any) -> dict[str, str]:
    """Headers by lower-case name, without the prefix litellm gives those of the provider."""
    return {str(name).lower().removeprefix("llm_provider-"): str(value) for name, value in dict(headers or {}).items()}


async def _data_url(image: ImageFile) -> str:
    return f"data:{image.media_type};base64,{(await encoded.get(image)).decode()}"


def _turns(message: Message, turn: dict[str, Any]) -> list[dict[str, Any]]:
    """As OpenAI's; the thinking before a call goes back with it, as Anthropic demands."""
    turns = tool_calls.openai_turns(message, turn)
    if message.calls and message.calls[0].signature:
        turns[0]["thinking_blocks"] = orjson.loads(message.calls[0].signature)
    return turns


def _calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """Read the calls of an answer.

    Gemini's signatures stand in the ids that litellm gives; Anthropic's thinking goes with the first call.
    """
    made = tool_calls.openai_calls(message.get("tool_calls"))
    blocks = message.get("thinking_blocks")
    if made and blocks:
        return (replace(made[0], signature=orjson.dumps(blocks).decode()), *made[1:])
    return made


def _reply(answer: Any, flag: str, *, tools: bool = False, counted: bool = True) -> Reply:
    usage: Usage | None = None
    try:
        data = answer.model_dump()
        usage = openai_usage(data.get("usage")) if counted else None
        return _read(data, usage, flag, tools=tools)
    except ProviderFailure:
        raise
    except Exception as error:  # whatever a server may write: it came with a status of success, so it may be billed
        raise _unusable(one_line(f"the answer has an unexpected form: {error}"), usage) from None


def _unusable(message: str, usage: Usage | None) -> ProviderFailure:
    return ProviderFailure(FailureKind.RETRY, message, usage=usage, maybe_billed=usage is None, answered=True)


def _read(data: Mapping[str, Any], usage: Usage | None, flag: str, *, tools: bool) -> Reply:
    choice = (data.get("choices") or [{}])[0]
    message, finish = choice.get("message") or {}, choice.get("finish_reason") or ""
    special = message.get("provider_specific_fields") or {}
    refusal = message.get("refusal") or special.get("refusal")
    text = without_surrogates(text_of(message.get("content")))
    called = _calls(message) if tools else ()
    status, reason = status_of(text, refusal, finish, called=bool(called))
    first = openai_first_token(choice) if status is not Status.REFUSED else None
    if status is Status.FAILED:
        if first is None:
            raise _unusable(reason, usage)
        status = Status.TRUNCATED
    version = "@".join(filter(None, (data.get("model"), data.get("system_fingerprint"))))
    flags = tuple(each for each in (flag, NO_USAGE if usage is None else "") if each)
    return Reply(
        text,
        status,
        reason,
        usage or Usage(),
        finish,
        model_version=version,
        flags=flags,
        tool_calls=called,
        first_token=first,
    )
