"""What the hosted adapters share: the key, the addresses, one request over the wire, and images as base64."""

from __future__ import annotations

import logging
import os
from base64 import b64encode
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import orjson

from titjudge.core.errors import ConfigError
from titjudge.core.images import loaded
from titjudge.core.redaction import one_line, register_secret
from titjudge.core.types import Failure, FailureKind, ImageFile, ProviderSettings, Request, Usage
from titjudge.providers import model_families, token_counts
from titjudge.providers.base import Provider
from titjudge.providers.hosted import http, tool_calls
from titjudge.providers.hosted.failures import ProviderFailure, classify
from titjudge.providers.image_size import fitted

logger = logging.getLogger(__name__)

_PICTURES = 64 * 2**20  # bytes of base64 kept
_PIECE = 3 * 2**18  # bytes; a multiple of three


def _base64(raw: bytes) -> bytes:
    """Base64 in pieces: Python's own function keeps all other threads waiting for as long as it works."""
    return b"".join(b64encode(raw[at : at + _PIECE]) for at in range(0, len(raw), _PIECE))


class _Encoded:
    """The base64 of the images sent last, so that one shown to several judges is encoded once."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    async def get(self, image: ImageFile) -> bytes:
        """Base64 of the image's bytes.

        Raises:
            DataError: the file is gone or has changed.
        """
        found = self._kept.get(image.sha256)
        if found is not None:
            self._kept.move_to_end(image.sha256)
            return found
        encoded = await loaded(image, _base64)
        if image.sha256 not in self._kept:
            self._kept[image.sha256] = encoded
            self._held += len(encoded)
        while self._held > self._most and len(self._kept) > 1:
            self._held -= len(self._kept.popitem(last=False)[1])
        return encoded


encoded = _Encoded(_PICTURES)


class Hosted(Provider):
    """A provider that sends JSON to one or several addresses. Subclasses say what is sent and read what comes.

    Raises:
        ConfigError: a base_url that is not a web address; from `complete` also a missing or unusable key.
    """

    default_base = ""
    base_env = ""
    key_envs: tuple[str, ...] = ()

    def __init__(self, settings: ProviderSettings, transport: http.Transport | None = None) -> None:
        self.settings = settings
        self.model = settings.model
        self.family = self._family()
        self.endpoints = http.Endpoints(self._address())
        self.base_url = self.endpoints.identity
        self.account = f"{self.name}|{self.base_url}|{self._key_env()}|{settings.model}"
        self.native_schema = settings.structured != "prompt" and (self.family.schema or settings.structured == "native")
        asked = tool_calls.wanted(settings)
        self.capabilities = self.family.capabilities(tools=self._calls_tools() if asked is None else asked)
        self._transport = transport or (self._sdk() if self._through_sdk() else http.shared)
        self._headers: dict[str, dict[str, str]] = {}
        self.key = ""

    def ready(self) -> None:
        """Look for the key now rather than at the first request.

        Raises:
            ConfigError: there is none, and an address needs one.
        """
        for endpoint in self.endpoints.all:
            self.headers_for(endpoint)

    def classify(self, error: Exception) -> Failure:
        return classify(error)

    def usage_bound(self, request: Request) -> Usage:
        """At most what a request can use, in tokens: every byte of text counts as one."""
        request = fitted(request)
        params = self.family.sent(request)
        extra = orjson.dumps(request.schema).decode() if request.schema else ""
        total, images = token_counts.input_bound(request, self.name, self.listed_as or self.model, params, extra)
        output = int(params.get("max_tokens") or self.family.max_output)
        return Usage(input=total, output=output, thinking=output if self.family.thinks else 0, image=images)

    async def aclose(self) -> None:
        await self._transport.leave(self)

    def _family(self) -> model_families.Family:
        return model_families.family(self.name, self.model)

    def _address(self) -> str:
        return self.settings.base_url or os.environ.get(self.base_env) or self.default_base

    def _calls_tools(self) -> bool:
        return self.family.tools

    def _learns_no_tools(self, status: int, message: str) -> bool:
        """Whether an error says that no tools are called here; from then on none are offered."""
        if self.settings.options.get("tools") is not None or not tool_calls.unknown_here(status, message):
            return False
        self.capabilities = replace(self.capabilities, tools=False)
        logger.info("%(model)s calls no tools at %(address)s", {"model": self.model, "address": self.base_url})
        return True

    async def _post(self, path: str, body: bytes) -> tuple[http.Answer, http.Endpoint]:
        """Send once; only an address that cannot be reached at all (nothing sent) makes way for the next."""
        self._transport.join(self)
        missing: http.Unreachable | None = None
        for endpoint in self.endpoints.order():
            headers = self._headers.get(endpoint.identity) or self.headers_for(endpoint)
            try:
                with endpoint.used():
                    answer = await self._transport.post_json(
                        endpoint.url(path), headers=headers, body=body, timeout=self.settings.timeout
                    )
            except http.Unreachable as error:
                missing = error
                logger.info("%(reason)s", {"address": endpoint.identity, "reason": one_line(str(error))})
                continue
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug(
                    "%(address)s%(path)s answered HTTP %(status)d; %(sent)d bytes sent, %(received)d received",
                    {
                        "address": endpoint.identity,
                        "path": path,
                        "status": answer.status,
                        "sent": len(body),
                        "received": len(answer.body),
                    },
                )
            if self.on_headers is not None:
                self.on_headers(answer.headers)
            return answer, endpoint
        raise missing or http.Unreachable("no address to send to")

    def headers_for(self, endpoint: http.Endpoint) -> dict[str, str]:
        """Make the headers that authorise a request to an address; reads `key` from the environment.

        Raises:
            ConfigError: There is no key, and the address needs one, or it cannot be one.
        """
        if not self.key:
            self.key = os.environ.get(self._key_env(), "").strip()
            register_secret(self.key)
        if not self.key and not endpoint.private and not endpoint.credentials:
            names = self.settings.api_key_env or " or ".join(self.key_envs)
            raise ConfigError(f"no API key for {endpoint.host}: set the environment variable {names}")
        if not (self.key.isascii() and self.key.isprintable()) or " " in self.key:
            raise ConfigError(f"the API key in {self._key_env()} holds characters no key has (a space, a line break?)")
        headers = self._headers[endpoint.identity] = self._authorisation(endpoint, self.key)
        return headers

    def _authorisation(self, endpoint: http.Endpoint, key: str) -> dict[str, str]:
        raise NotImplementedError

    def _through_sdk(self) -> bool:
        client = self.settings.options.get("client", "http")
        if client not in ("http", "sdk"):
            raise ConfigError(f"options: client is http (our own, the default) or sdk (the vendor's), not '{client}'")
        return bool(client == "sdk")

    def _sdk(self) -> http.Transport:
        """Make what sends through the vendor's SDK."""
        raise NotImplementedError

    def _key_env(self) -> str:
        if self.settings.api_key_env:
            return self.settings.api_key_env
        return next((name for name in self.key_envs if os.environ.get(name)), self.key_envs[0])

    def _key_at_fault(self, status: int, message: str) -> str:
        """Which variable holds the key that a server does not take; nothing for other errors."""
        if not self.key or not (status == 401 or "api key" in message.lower()):
            return ""
        return f" (the key in {self._key_env()})"

    def read_error(self, answer: http.Answer, *, tools: bool = False) -> ProviderFailure:
        """Make the failure behind an answer with an error status."""
        raise NotImplementedError

    def failure(
        self, kind: FailureKind, message: str, *, wait: float | None = None, maybe_billed: bool = False
    ) -> ProviderFailure:
        """Make a classified failure whose message holds no key."""
        return ProviderFailure(kind, one_line(message, [self.key]), retry_after=wait, maybe_billed=maybe_billed)

    def unusable(
        self,
        message: str,
        usage: Usage | None = None,
        kind: FailureKind = FailureKind.RETRY,
        wait: float | None = None,
    ) -> ProviderFailure:
        """Make the failure behind an answer with a status of success. It may have been billed, whatever is wrong with it."""
        return ProviderFailure(
            kind,
            one_line(message, [self.key]),
            retry_after=wait,
            usage=usage,
            maybe_billed=usage is None,
            answered=True,
        )


def parsed(body: bytes) -> Any:
    """Read the JSON of an answer; also what orjson is too strict for (half an emoji at the end of a cut answer, NaN).

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        import json

        return json.loads(body)


def unreadable(body: bytes) -> str:
    """Say what is wrong with an answer that is not in the form it should have."""
    if not body.strip():
        return "the answer is empty"
    try:
        parsed(body)
    except (ValueError, RecursionError):
        what = "is not JSON"
    else:
        what = "has an unexpected form"
    return f"the answer {what}: {body[:200].decode('utf-8', 'replace')}"
