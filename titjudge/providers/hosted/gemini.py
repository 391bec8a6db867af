"""Google's Gemini API: `models.generateContent`, ai.google.dev/api/generate-content.

Requests do not go through the SDK (which takes ten times the CPU) unless that is asked for, or they go to Vertex AI, whose
credentials only the SDK knows; a contract test checks that the bodies are equal to the SDK's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from titjudge.core.errors import ConfigError
from titjudge.core.redaction import redact
from titjudge.core.serialization import json_bytes
from titjudge.core.types import FailureKind, Json, Message, ProviderSettings, Reply, Request, Usage, Values
from titjudge.providers.base import Ending, ending
from titjudge.providers.hosted import error_bodies, http, request_options, tool_calls
from titjudge.providers.hosted.base import AskedFor, Hosted, image_base64
from titjudge.providers.hosted.error_bodies import ServerError
from titjudge.providers.hosted.failures import LONGEST_WAIT, ProviderFailure, kind_of_status
from titjudge.providers.json_schema import gemini as gemini_schema
from titjudge.providers.json_schema import instruction
from titjudge.providers.token_counts import fitted
from titjudge.providers.usage import NO_USAGE, gemini_first_token, gemini_usage, unread

_GARBLED = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"})
_CONFIG = {
    "max_tokens": "maxOutputTokens",
    "top_p": "topP",
    "top_k": "topK",
    "stop": "stopSequences",
    "media_resolution": "mediaResolution",
    "top_logprobs": "logprobs",
    "logprobs": "responseLogprobs",
}
_MOST_BYTES = 20_000_000  # of a request with its images inline; ai.google.dev/gemini-api/docs/image-understanding
_NAME = re.compile(r"[A-Za-z0-9:._-]+")  # of a project or a location
_THINKING = {"thinking_budget": "thinkingBudget", "thinking_level": "thinkingLevel"}


class Gemini(Hosted):
    """One model behind `:generateContent`.

    `base_url` or GOOGLE_GEMINI_BASE_URL; the key from `api_key_env`, GEMINI_API_KEY or GOOGLE_API_KEY.
    Parameters: `temperature`, `max_tokens` (thinking included, as Google counts), `top_p`, `top_k`, `seed`, `stop`,
    `thinking_budget` (tokens; 0 is off if the model allows it), `thinking_level`, `media_resolution`,
    `safety_settings`. The option `client: sdk` sends through Google's SDK; `body` has settings that only the server knows:
    `safetySettings`, `labels`, `generationConfig: {topK: 1}`.

    With the option `vertexai: true`, or GOOGLE_GENAI_USE_VERTEXAI, requests go to Vertex AI, through the SDK, with
    application-default credentials: `project` or GOOGLE_CLOUD_PROJECT, `location` or GOOGLE_CLOUD_LOCATION (global). Without a
    project they go there with the API key (express mode), over titjudge's HTTP.
    """

    name = "gemini"
    version = 1
    default_base = "https://generativelanguage.googleapis.com"
    base_env = "GOOGLE_GEMINI_BASE_URL"
    key_envs = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    default_model = "gemini-2.5-pro"
    batch_service = "titjudge.providers.batch.gemini:GeminiBatches"
    pasted = re.compile(r"/models/[^/?]+:\w+/?(?=\?|$)")
    schema = tools = probabilities = True
    option_names = Hosted.option_names | {"vertexai", "project", "location"}

    async def _post(self, path: str, body: bytes, content_type: str = "") -> tuple[http.Answer, http.Endpoint]:
        if len(body) > _MOST_BYTES:
            raise self.failure(
                FailureKind.REJECTED,
                f"the request has {len(body) / 1e6:.1f} MB with its images, more than {_MOST_BYTES // 10**6}. Set max_side for this "
                "model, or save a smaller image",
            )
        return await super()._post(path, body, content_type)

    @property
    def path(self) -> str:
        versioned = re.search(r"/v\d\w*$", self.endpoints.all[0].identity)
        model = self.model.removeprefix("models/")
        where = model if model.startswith("tunedModels/") else f"models/{model}"
        # /v1beta, although google-genai 3 has /v1 by default: models and fields appear in it first, and files and batches are
        # requested there, too. A base_url that ends in /v1 chooses /v1.
        return f"{'' if versioned or self.express else '/v1beta'}/{where}:generateContent"

    async def body(self, request: Request, *, in_prompt: bool = False) -> Json:
        request = fitted(request)
        params = self.family.sent(request)
        safety, extra = params.pop("safety_settings", None), params.pop("body", {})
        system = [message.text for message in request.messages if message.role == "system"]
        contents = [await content_of(message) for message in request.messages if message.role != "system"]
        words = instruction(request.schema) if request.schema is not None and in_prompt else ""
        if words:
            _add_text(contents, words, first=False)
        if system and not self.family.system:
            _add_text(contents, "\n".join(system), first=True)
            system = []
        out: Json = {"contents": contents}
        if system:
            out["systemInstruction"] = {"parts": [{"text": text} for text in system], "role": "user"}
        config = _config_of(params)
        if request.schema is not None and not in_prompt:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = gemini_schema(request.schema)
        if request.tools:
            out["tools"] = tool_calls.gemini_tools(request.tools)
        if safety:
            out["safetySettings"] = safety
        if config:
            out["generationConfig"] = config
        return request_options.merged(out, extra)

    def __init__(self, settings: ProviderSettings, transport: http.Transport | None = None) -> None:
        options = settings.options
        vertex = options.get("vertexai", os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", ""))
        self.vertex = str(vertex).strip().lower() in ("true", "1")
        self.project = str(options.get("project") or os.environ.get("GOOGLE_CLOUD_PROJECT") or "")
        self.location = str(options.get("location") or os.environ.get("GOOGLE_CLOUD_LOCATION") or "global")
        self.express = (
            self.vertex
            and not self.project
            and any(
                os.environ.get(name) for name in ((settings.api_key_env,) if settings.api_key_env else self.key_envs)
            )
        )
        self.vertex = self.vertex and not self.express
        self.batch_service = "" if self.vertex else type(self).batch_service
        if self.vertex and not (_NAME.fullmatch(self.project) and _NAME.fullmatch(self.location)):
            raise ConfigError(
                "Vertex AI requires a project and a location. Set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, or the options "
                "project and location. For express mode, set GOOGLE_API_KEY"
            )
        super().__init__(settings, transport)

    @classmethod
    def setup(cls) -> list[tuple[str, str, str]]:
        rows = super().setup()
        if os.environ.get("GOOGLE_GENAI_USE_VERTEXAI"):
            try:
                provider = cls(ProviderSettings(cls.name))
                where = provider.base_url if provider.vertex else "off: gemini/ goes to the Gemini API"
                rows.append(("vertex ai", "ok", where))
            except ConfigError as error:
                rows.append(("vertex ai", "failed", str(error)))
        return rows

    def _address(self) -> str:
        if self.express:
            return f"{self._vertex_home('global')}/v1beta1/publishers/google"
        if not self.vertex:
            return super()._address()
        return f"{self._vertex_home(self.location)}/projects/{self.project}/locations/{self.location}"

    def _vertex_home(self, location: str) -> str:
        """Return the address of Vertex AI in a location, as the SDK forms it."""
        base_url = self.settings.base_url or os.environ.get("GOOGLE_VERTEX_BASE_URL")
        region = "" if location == "global" else f"{location}-"
        several = location in ("us", "eu")
        host = f"aiplatform.{location}.rep.googleapis.com" if several else f"{region}aiplatform.googleapis.com"
        return (base_url or f"https://{host}").rstrip("/")

    def headers_for(self, endpoint: http.Endpoint) -> dict[str, str]:
        """Make the headers that authorise a request; none for Vertex AI, because the SDK makes them."""
        return {} if self.vertex else super().headers_for(endpoint)

    def _through_sdk(self) -> bool:
        return super()._through_sdk() or self.vertex

    def _sdk(self) -> http.Transport:
        from titjudge.providers.hosted import sdk

        if self.vertex:
            return sdk.VertexSdk(self.model, self._vertex_home(self.location), self.project, self.location)
        return sdk.GeminiSdk(self.model)

    def authorisation(self, endpoint: http.Endpoint, key: str) -> dict[str, str]:
        headers = {"x-goog-api-key": key} if key else {}
        return {**headers, "Authorization": endpoint.credentials} if endpoint.credentials else headers

    # ------------------------------------------------------------------ answers

    def read_reply(self, answer: http.Answer, asked: AskedFor, endpoint: str = "") -> Reply:
        usage: Usage | None = None
        try:
            data = answer.json()
            usage = None if isinstance(data, list) else gemini_usage(data.get("usageMetadata"), answer.headers)
            if error_bodies.holds_error(data) and (isinstance(data, list) or not data.get("candidates")):
                raise self.error_in(answer, usage)
            blocked = (data.get("promptFeedback") or {}).get("blockReason") or ""
            candidates = data.get("candidates") or [{}]
            candidate = next((one for one in candidates if one.get("index") == 0), candidates[0])
            parts = (candidate.get("content") or {}).get("parts") or []
            text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
            finish, detail = str(candidate.get("finishReason") or ""), candidate.get("finishMessage") or ""
            called = tool_calls.gemini_calls(parts) if asked.tools else ()
            # A malformed call is still a reply: the metric explains the mistake to the model.
            in_calls = bool(called) or (asked.tools and finish in _GARBLED)
            end = ending(finish or None)
            refusal = f"the prompt was blocked: {blocked}" if blocked not in ("", "BLOCK_REASON_UNSPECIFIED") else ""
            if end is Ending.FILTERED:
                refusal = refusal or f"the answer was blocked: {finish} {detail}".strip()
            missing = detail
            if any(part.get("functionCall") for part in parts) and not text:
                missing = "the answer is in functionCall, and has no text: turn tool calls off"
            elif not text.strip() and usage and usage.thinking:
                missing = "all of it went into thinking"
            thought = "".join(part.get("text") or "" for part in parts) or (json_bytes(parts).decode() if parts else "")
            reply = Reply(
                text or thought,
                finish_reason=redact(finish or blocked),
                model_version=redact("".join(filter(None, [data.get("modelVersion")]))),
                endpoint=endpoint,
                flags=asked.flags(NO_USAGE if unread(usage) else ""),
                tool_calls=called,
                first_token=gemini_first_token(candidate),
            )
            reply = self.concluded(
                reply,
                "tool_calls" if in_calls and end is not Ending.CUT else finish or None,
                usage,
                refusal=refusal,
                missing=missing,
                answered=in_calls or bool(text.strip()),
                empty=not parts,
            )
            return replace(reply, text=text)
        except ProviderFailure:
            raise
        except Exception:  # whatever a server may write: it came with a status of success, so it may be billed
            raise self.unreadable(answer.body, usage, endpoint) from None

    def _own_words(self, status: int, error: ServerError) -> tuple[FailureKind, float | None]:
        kind = error.kind(status)
        if kind not in (FailureKind.REFUSED, FailureKind.FATAL):
            kind = _kind(status, error.text, error.details)
        return kind, _delay(error.details)


async def content_of(message: Message) -> Json:
    """Write a message as Gemini's API has it, for `orjson.dumps`; images are read from the memory of those sent last.

    Raises:
        DataError: An image is gone or has changed.
    """
    parts: list[Json] = []
    for part in message.parts:
        if isinstance(part, str):
            parts.append({"text": part})
        else:
            data = orjson.Fragment(b'"%s"' % await image_base64(part))
            parts.append({"inlineData": {"data": data, "mimeType": part.media_type}})
    if message.calls or message.results:
        results, calls = tool_calls.gemini_parts(message)
        parts = [*results, *parts, *calls]
    return {"parts": parts, "role": "model" if message.role == "assistant" else "user"}


def _add_text(contents: list[Json], text: str, *, first: bool) -> None:
    turns = [turn for turn in contents if turn["role"] == "user"]
    if not turns:
        contents.insert(0, {"parts": [{"text": text}], "role": "user"})
    elif first:
        turns[0]["parts"].insert(0, {"text": text})
    else:
        turns[-1]["parts"].append({"text": text})


def _config_of(params: Values) -> Json:
    """Rename the parameters of a request as `generationConfig` has them."""
    config: Json = {}
    for name, value in params.items():
        if name in _THINKING:
            config.setdefault("thinkingConfig", {})[_THINKING[name]] = value
        elif name == "stop":
            config[_CONFIG[name]] = [value] if isinstance(value, str) else value
        elif name == "media_resolution":
            level = str(value).upper()
            config[_CONFIG[name]] = level if level.startswith("MEDIA_") else f"MEDIA_RESOLUTION_{level}"
        else:
            config[_CONFIG.get(name, name)] = value
    return config


def _kind(status: int, message: str, details: Sequence[Values]) -> FailureKind:
    """Classify an error by its status, its message, and the reasons in its details."""
    reasons = {str(detail.get("reason", "")) for detail in details}
    lower = message.lower()
    if status == 400 and (
        "API_KEY_INVALID" in reasons
        or "api key not valid" in lower
        or "api key expired" in lower
        or "location is not supported" in lower
    ):
        return FailureKind.FATAL
    if status == 429 and _used_up(lower, details):
        return FailureKind.FATAL
    return kind_of_status(status)


def _used_up(message: str, details: Sequence[Values]) -> bool:
    """Return True if a 429 means that no request will pass today: a daily quota, or a quota of zero.

    Google words short and long limits alike; the name of the violated quota differs, and a short limit names a delay.
    """
    violations = [entry for detail in details for entry in detail.get("violations") or [] if isinstance(entry, Mapping)]
    if any("PerDay" in str(entry.get("quotaId", "")) or entry.get("quotaValue") == "0" for entry in violations):
        return True
    return "exceeded your current quota" in message and not details


def _delay(details: Sequence[Values]) -> float | None:
    """Read the seconds of a `RetryInfo` (`"retryDelay": "34.5s"`)."""
    for detail in details:
        delay = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(detail.get("retryDelay", "")))
        if delay:
            return min(float(delay.group(1)), LONGEST_WAIT)
    return None
