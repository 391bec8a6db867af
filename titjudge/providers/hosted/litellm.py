"""The long tail of hosted models through litellm: Anthropic, Azure, Bedrock, OpenRouter, Mistral, Ollama, ...

litellm takes seconds to import and would fetch a price list then: it is imported at the first request, in a thread, with
its bundled list. Its retries and its silent dropping of parameters are off; the vendors' tables list the omitted
parameters. Names are litellm's: `litellm/anthropic/claude-sonnet-4-5`, `litellm/azure/DEPLOYMENT`, ...
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from copy import deepcopy
from dataclasses import replace
from typing import Any

import orjson

from titjudge.core.errors import ConfigError
from titjudge.core.redaction import environment_secrets, one_line, register_secret
from titjudge.core.serialization import without_surrogates
from titjudge.core.types import (
    Failure,
    FailureKind,
    ImageFile,
    Json,
    Message,
    ProviderSettings,
    Reply,
    Request,
    ToolCall,
    Usage,
    Values,
)
from titjudge.providers import vendors
from titjudge.providers.hosted import error_bodies, http, litellm_client, request_options, tool_calls
from titjudge.providers.hosted.base import ANY_REQUEST, AskedFor, Remote, image_base64
from titjudge.providers.hosted.failures import (
    TIMEOUTS,
    ProviderFailure,
    classify,
    connection_error,
    kind_of_status,
    retry_after,
)
from titjudge.providers.hosted.http import Endpoint
from titjudge.providers.hosted.openai import chat_messages, chat_reply, first_choice, response_format
from titjudge.providers.token_counts import fitted

logger = logging.getLogger(__name__)

_KINDS = {  # litellm's exceptions by name, most special first; the status decides about others
    "ContentPolicyViolationError": FailureKind.REFUSED,
    "AuthenticationError": FailureKind.FATAL,
    "PaymentRequiredError": FailureKind.FATAL,
    "LiteLLMUnknownProvider": FailureKind.FATAL,
    "BudgetExceededError": FailureKind.FATAL,
    "UnsupportedParamsError": FailureKind.FATAL,
    "APIConnectionError": FailureKind.RETRY,
    "APIError": FailureKind.RETRY,
}


# From these words on an error message contains nothing of use.
_HOPELESS = re.compile(r"\bis not (set|supported)\b")  # litellm's words for a missing key, or what a vendor cannot do
_OWN_WORDS = re.compile(r"This looks like a bug in LiteLLM|Traceback \(most recent call last\)")


class _Failed(Exception):
    """A call that failed, classified at the place that knows what had been sent."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


class LiteLLM(Remote):
    """One model behind litellm.

    Settings and flags as for `titjudge.providers.hosted.openai.OpenAI`; `base_url` is its `api_base`; without `api_key_env`
    litellm looks for each vendor's own variable (ANTHROPIC_API_KEY, ...).
    """

    name = "litellm"
    schema = tools = probabilities = True

    def __init__(self, settings: ProviderSettings) -> None:
        if "/" not in settings.model and not settings.base_url:
            raise ConfigError(
                f"litellm/{settings.model} has no provider. Write it first, for example litellm/anthropic/MODEL"
            )
        if "," in settings.base_url:
            raise ConfigError("litellm can use only one base_url. Use an openai/ model for several")
        super().__init__(settings)
        self.native_schema = settings.structured != "prompt"
        self.base_url = Endpoint(settings.base_url).identity if settings.base_url else ""
        self.endpoint = self.base_url or settings.model.partition("/")[0]
        self.account = f"{self.name}|{self.endpoint}|{settings.api_key_env}|{settings.model}"
        self._litellm: Any = None

    @classmethod
    def listed(cls, model: str) -> tuple[str, str]:
        """Take the vendor from the model's name; litellm takes OpenAI's models without a prefix."""
        vendor, slash, name = model.partition("/")
        return (vendor, name) if slash else ("openai", model)

    def _family(self) -> vendors.Family:
        return vendors.family(vendors.vendor_of(self.model), self.model)

    async def complete(self, request: Request) -> Reply:
        """Send one request once.

        Raises:
            ConfigError: There is no key.
            Exception: There is no answer; see `classify`.
        """
        litellm, asked = self._litellm or await self._load(), self.asked(request)
        arguments = await self._arguments(request, asked.in_prompt)
        try:
            with litellm_client.traced(self) as trace:
                answer = await litellm.acompletion(**arguments)
        except Exception as error:
            raise self.failed(error, trace, asked) from error
        hidden = getattr(answer, "_hidden_params", {})
        self._pass_on(getattr(answer, "_response_headers", None) or hidden.get("additional_headers"))
        logger.debug("%(model)s answered HTTP %(status)d", {"model": self.model, "status": trace.status})
        return self._reply(answer, asked, trace)

    @property
    def address(self) -> str:
        """The address, also one that litellm itself takes from the environment (OPENAI_API_BASE, ANTHROPIC_BASE_URL, ...)."""
        vendor = self.model.partition("/")[0].upper()
        address = next(filter(None, (os.environ.get(f"{vendor}_{name}") for name in ("API_BASE", "BASE_URL"))), "")
        return self.base_url or (Endpoint(address).identity if address else "")

    def classify(self, error: Exception) -> Failure:
        """Classify an exception; one of `complete` is classified already, as only its call knows what was sent."""
        return error.failure if isinstance(error, _Failed) else classify(error)

    def failed(self, error: Exception, trace: litellm_client.CallTrace, asked: AskedFor = ANY_REQUEST) -> Exception:
        """Make the exception for a call that failed, classified by the known facts about it; learns as `unsupported` does."""
        own = error_bodies.read(str(error).encode("utf-8", "replace"))  # if nothing was sent, or not by this transport
        vendors_own = error_bodies.read(trace.body) if trace.status >= 400 and trace.body.strip() else own
        status = trace.status or getattr(error, "status_code", 0)
        for words in (vendors_own, own):
            if not trace.accepted and (found := self.unsupported(status, words, asked)):
                return found
        if trace.status >= 400 and not trace.accepted:
            self._pass_on(trace.headers)
            kind = _kind_by_name(error)
            kind = kind if kind in (FailureKind.REFUSED, FailureKind.FATAL) else None
            return self.failure_of(self.endpoint, trace.status, vendors_own, trace.headers, kind=kind)
        if trace.is_success:
            return self._unread(trace)
        return _Failed(self._failure_of(error, trace))

    def _unread(self, trace: litellm_client.CallTrace) -> ProviderFailure:
        """Make the failure of an answer with a status of success that litellm cannot read, or that is an error."""
        data = trace.data()
        usage = trace.usage(data.get("usage"))
        if not data.get("choices") and error_bodies.holds_error(data):
            error = error_bodies.read(trace.body)
            return self.failure_of(
                self.endpoint, error.status, error, trace.headers, usage, answered=error.status >= 500
            )
        return self.unreadable(trace.body, usage, self.endpoint)

    def _failure_of(self, error: Exception, trace: litellm_client.CallTrace) -> Failure:
        """Classify by the events on the network, then by the name of litellm's exception and its HTTP status."""
        connection_failure = connection_error(error, self.base_url or self.model)
        failure = self._named(error) if connection_failure is None else classify(connection_failure)
        if trace.accepted:  # litellm could not fetch what the answer points to
            return replace(failure, kind=FailureKind.RETRY, maybe_billed=True, answered=True, not_sent=False)
        if connection_failure is not None:
            return failure
        if not trace.sent and _HOPELESS.search(failure.message):
            return replace(failure, kind=FailureKind.FATAL)
        if trace.sent and not trace.status:
            return replace(failure, kind=FailureKind.RETRY, maybe_billed=True, answered=trace.answered)
        return failure

    def _named(self, error: Exception) -> Failure:
        """Classify by litellm's exception and the status that it has."""
        kind = _kind_by_name(error)
        status = getattr(error, "status_code", None)
        text = _OWN_WORDS.split(str(error))[0]
        if kind in (None, FailureKind.RETRY) and isinstance(status, int) and status >= 400:
            kind = kind_of_status(status)
        if kind is FailureKind.REJECTED and ("JSONDecodeError" in text or "Expecting value" in text):
            kind = FailureKind.RETRY
        if kind is FailureKind.RATE_LIMIT and "insufficient_quota" in f"{text} {getattr(error, 'body', '')}":
            kind = FailureKind.FATAL
        response = getattr(error, "response", None)
        headers = _lowered(getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None))
        self._pass_on(headers)
        line, slow = one_line(text, self._secrets()), status in TIMEOUTS
        return Failure(kind or FailureKind.REJECTED, line, retry_after(headers), slow=slow)

    def _schema_text(self, schema: Values) -> str:
        return str(schema)  # not compact

    def _secrets(self) -> list[str]:
        return environment_secrets()  # litellm reads the variables of its many vendors by itself

    async def aclose(self) -> None:
        """Close the connections litellm keeps for this process."""
        await http.shared.leave(self)
        if self._litellm is None:
            return
        from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

        await close_litellm_async_clients()
        self._litellm.in_memory_llm_clients_cache.flush_cache()

    async def _load(self) -> Any:
        self._litellm = await asyncio.to_thread(litellm_client.load)
        for secret in self._secrets():  # litellm takes its keys from the environment itself
            register_secret(secret)
        return self._litellm

    async def _arguments(self, request: Request, in_prompt: bool) -> Json:
        """Write a request as arguments of `litellm.acompletion`."""
        request = fitted(request)
        params = self.family.sent(request)
        if self.limit_renamed and "max_tokens" in params:
            params[self.family.limit_name] = params.pop("max_tokens")
        detail, budget = params.pop("detail", None), params.pop("thinking_budget", None)
        extra = params.pop("body", {})
        messages = await chat_messages(request, detail, in_prompt=in_prompt, url_of=_data_url, turns_of=_turns)
        out: Json = {**self._call_arguments(), "messages": messages, **params, "drop_params": False}
        if budget:
            out["thinking"] = {"type": "enabled", "budget_tokens": budget}
        if request.schema is not None and not in_prompt:
            out["response_format"] = deepcopy(response_format(request))  # litellm changes what it is given
        if request.tools:
            out["tools"] = deepcopy(tool_calls.openai_tools(request.tools))
            out["_skip_mcp_handler"] = True  # litellm would import its MCP gateway, which needs a separate package
        if extra:
            request_options.check_foreign(extra, self._litellm.types.utils.all_litellm_params)
            out["allowed_openai_params"] = list(extra)
        return request_options.merged(out, deepcopy(extra))

    def _call_arguments(self) -> Json:
        """Return the arguments of every call: model, server and key; litellm repeats nothing and keeps nothing.

        Raises:
            ConfigError: The key is missing.
        """
        optional = {"api_base": self.settings.base_url, "api_key": self._key()}
        return {
            "model": self.model,
            "timeout": self.settings.timeout,
            "num_retries": 0,
            "max_retries": 0,
            "caching": False,
            **{name: value for name, value in optional.items() if value},
        }

    def _key(self) -> str | None:
        name = self.settings.api_key_env
        if not name:
            return None
        if not os.environ.get(name):
            raise ConfigError(f"{self.model} requires an API key. Set the environment variable {name}")
        key = os.environ[name].strip()
        register_secret(key)
        return key

    def _reply(self, answer: Any, asked: AskedFor, trace: litellm_client.CallTrace) -> Reply:
        usage: Usage | None = None
        try:
            data = without_surrogates(answer.model_dump(warnings=False))
            usage = trace.usage(data.get("usage"))
            if not data.get("choices"):
                raise self._unread(trace)
            choice = {**first_choice(data["choices"]), **trace.finish()}
            called = _calls(choice.get("message") or {}) if asked.tools else ()
            return chat_reply(self, data, choice, usage, asked, called, self.endpoint)
        except ProviderFailure:
            raise
        except Exception:  # whatever a server may write: it came with a status of success, so it may be billed
            raise self.unreadable(trace.body, usage, self.endpoint) from None

    def _pass_on(self, headers: Any) -> None:
        if self.on_headers is not None and headers:
            self.on_headers(_lowered(headers))


def _kind_by_name(error: Exception) -> FailureKind | None:
    return next((_KINDS[cls.__name__] for cls in type(error).__mro__ if cls.__name__ in _KINDS), None)


def _lowered(headers: Any) -> dict[str, str]:
    """Write header names in lower case, without the prefix that litellm adds to the provider's headers."""
    return {str(name).lower().removeprefix("llm_provider-"): str(value) for name, value in dict(headers or {}).items()}


async def _data_url(image: ImageFile) -> str:
    return f"data:{image.media_type};base64,{(await image_base64(image)).decode()}"


def _turns(message: Message, turn: Json) -> list[Json]:
    """Write a turn as for OpenAI; the thinking before a call goes back with it, as Anthropic demands."""
    turns = tool_calls.openai_turns(message, turn)
    if message.calls and message.calls[0].signature:
        turns[0]["thinking_blocks"] = orjson.loads(message.calls[0].signature)
    return turns


def _calls(message: Values) -> tuple[ToolCall, ...]:
    """Read the calls of an answer.

    Gemini's signatures are part of the ids that litellm gives; Anthropic's thinking is sent with the first call.
    """
    calls = tool_calls.openai_calls(message.get("tool_calls"))
    blocks = message.get("thinking_blocks")
    if calls and blocks:
        return (replace(calls[0], signature=orjson.dumps(blocks).decode()), *calls[1:])
    return calls
