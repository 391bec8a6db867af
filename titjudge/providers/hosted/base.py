"""The common parts of hosted providers: the key, the addresses, one request over the network, and images as base64."""

from __future__ import annotations

import logging
import os
import re
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import orjson

from titjudge.core.errors import ConfigError, must_be
from titjudge.core.patterns import lazy_pattern
from titjudge.core.redaction import one_line, redact, register_secret
from titjudge.core.types import (
    EMPTY,
    NO_ANSWER,
    Failure,
    FailureKind,
    ImageFile,
    Json,
    ProviderSettings,
    Reply,
    Request,
    Status,
    Usage,
    Values,
)
from titjudge.data.images import loaded
from titjudge.providers import token_counts, vendors
from titjudge.providers.base import (
    SAMPLING_PARAMETERS,
    UNFINISHED,
    Ending,
    Headers,
    Provider,
    check_options,
    ending,
    why_unfinished,
)
from titjudge.providers.failure_hints import lasts, with_hint
from titjudge.providers.hosted import error_bodies, http, request_options, tool_calls
from titjudge.providers.hosted.error_bodies import ServerError
from titjudge.providers.hosted.failures import (
    LONGEST_WAIT,
    TIMEOUTS,
    ProviderFailure,
    classify,
    may_be_billed,
    retry_after,
)
from titjudge.providers.json_schema import IN_PROMPT
from titjudge.providers.token_counts import fitted

logger = logging.getLogger(__name__)

_ABOUT_SCHEMAS = lazy_pattern(
    r"schema|response[_ ]?format|response_?mime_?type|structured[_ ]output|output_(?:config|format)|\bguided|grammar|too many states"
    r"|\b(?:propert(?:y|ies)|keywords?)\b[^.]{0,80}\b(?:not |un)(?:supported|permitted|allowed|recognized)"
    r"|additionalProperties|\b(?:any|one|all)Of\b|\b(?:min|max)(?:Items|Length)\b|\$(?:ref|defs)",
    re.IGNORECASE,
)
_QUOTED = lazy_pattern(r"""(["'`])[^"'`]*\s[^"'`]*\1""")  # several words: they may be the prompt's
_LIMIT_NAMES = frozenset({"max_tokens", "max_completion_tokens"})
_PICTURES = 24 * 2**20  # bytes of base64 kept: the images in flight
_PIECE = 3 * 2**18  # bytes; a multiple of three
_KEPT = 20_000  # bytes of an answer in no known form


def _base64(raw: bytes) -> bytes:
    """Base64 in pieces: Python's own function keeps all other threads waiting for as long as it works."""
    return b"".join(b64encode(raw[start : start + _PIECE]) for start in range(0, len(raw), _PIECE))


class _Encoded:
    """The base64 of the images sent last, so that one shown to several judges is encoded once."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    async def get(self, image: ImageFile) -> bytes:
        """Base64 of the image's bytes.

        Raises:
            DataError: The file is gone or has changed.
        """
        cached = self._kept.get(image.sha256)
        if cached is not None:
            self._kept.move_to_end(image.sha256)
            return cached
        encoded = await loaded(image, _base64)
        if image.sha256 not in self._kept:
            self._kept[image.sha256] = encoded
            self._held += len(encoded)
        while self._held > self._most and len(self._kept) > 1:
            self._held -= len(self._kept.popitem(last=False)[1])
        return encoded


_encoded = _Encoded(_PICTURES)


async def image_base64(image: ImageFile) -> bytes:
    """Read an image as base64; the last images are kept in memory.

    Raises:
        DataError: The file is gone or has changed.
    """
    return await _encoded.get(image)


class AskedFor(NamedTuple):
    """The parts of a request that a server may refuse.

    Attributes:
        params: The names of its parameters; all names if they are not known any more.
        schema: It has a JSON schema outside its prompt.
        tools: It has tools.
        in_prompt: Its schema is asked for in words.
        left_out: Its parameters that are not sent, as the server refuses them.
    """

    params: Collection[str] = SAMPLING_PARAMETERS
    schema: bool = False
    tools: bool = False
    in_prompt: bool = False
    left_out: Sequence[str] = ()

    def flags(self, *further: str) -> tuple[str, ...]:
        """Return the flags of its reply: a schema in its prompt, parameters that were left out, and `further` flags, if not empty."""
        without = (f"without-{name}" for name in self.left_out)
        return tuple(filter(None, (IN_PROMPT if self.in_prompt else "", *further, *without)))


ANY_REQUEST = AskedFor()
"""A request of which nothing is known any more."""


class Remote(Provider):
    """A model behind a network. The accepted parameters are known from its family, and learned from errors of its server.

    Raises:
        ConfigError: The option `tools` is not a truth value.
    """

    option_names: frozenset[str] = frozenset({"body", "tools"})
    """The options that a role may have."""
    schema: bool = False
    """Whether it sends JSON schemas natively; if not, the prompt asks for them in words."""
    tools: bool = False
    """Whether it offers tools natively and reads their calls; if not, the prompt asks for an agent's tools in words."""
    probabilities: bool = False
    """Whether it asks for and reads how likely the first token of an answer is."""
    families: tuple[vendors.Family, ...] = ()
    """The families of its models, if `vendor` is not known here; the first row that matches counts."""
    image_rules: tuple[vendors.ImageRule, ...] = ()
    """How many tokens an image has for them, if the vendor's rules do not count."""

    def __init__(self, settings: ProviderSettings) -> None:
        self.settings = settings
        hint = ". Put parameters that only the server knows into body" if "body" in self.option_names else ""
        check_options(f"option of {self.name} models", settings.options, self.option_names, hint)
        self._extra_body = request_options.checked(settings.options.get("body"))
        self._refused: frozenset[str] = frozenset()
        self.limit_renamed = False  # whether the server has asked for the other name of `max_tokens`
        self.model = settings.model
        family = self._family()
        omit = family.omit if self.probabilities else family.omit | {"logprobs", "top_logprobs"}
        self.family = replace(
            family, omit=omit, schema=self.schema and family.schema, tools=self.tools and family.tools
        )
        self.native_schema = settings.structured != "prompt" and (self.family.schema or settings.structured == "native")
        tools = tool_calls.tools_option(settings)
        self.capabilities = replace(
            self.family,
            tools=self._calls_tools() if tools is None else tools,
            probabilities="top_logprobs" not in omit,
        )

    def asked(self, request: Request) -> AskedFor:
        """Note the parts of a request before it is sent: answers to others may change what the provider knows meanwhile."""
        in_prompt = request.schema is not None and not self.native_schema
        return AskedFor(
            self.family.sent(request).keys(),
            request.schema is not None and not in_prompt,
            bool(request.tools),
            in_prompt,
            sorted(self._refused & set(request.params)),
        )

    @property
    def extra_body(self) -> Values:
        return self._extra_body

    @property
    def refused(self) -> frozenset[str]:
        return self._refused

    def classify(self, error: Exception) -> Failure:
        return classify(error)

    def usage_bound(self, request: Request) -> Usage:
        """Bound the tokens of a request; every byte of text counts as a token."""
        request = fitted(request)
        params = self.family.sent(request)
        schema = self._schema_text(request.schema) if request.schema else ""
        total, images = token_counts.input_bound(request, self.name, self.listed_as or self.model, params, schema)
        output = int(params.get("max_tokens") or self.family.max_output)
        return Usage(input=total, output=output, thinking=output if self.family.thinks else 0, image=images)

    def _schema_text(self, schema: Values) -> str:
        """Write a schema about as it is sent, for the bound of its tokens."""
        return orjson.dumps(schema).decode()

    def _family(self) -> vendors.Family:
        return vendors.family(self.vendor or self.name, self.model, self.families)

    def _calls_tools(self) -> bool:
        """Return True if the model calls tools, if the option `tools` does not decide it."""
        return self.family.tools

    def _secrets(self) -> list[str]:
        """List the secrets that are removed from messages."""
        raise NotImplementedError

    def unsupported(self, status: int, error: ServerError, asked: AskedFor) -> ProviderFailure | None:
        """Read from an error what the server does not support (JSON schemas, tools, a parameter), and stop sending it.

        The question, and with it the key of its answer in the cache, stays the same.

        Args:
            status: HTTP status of the error.
            error: The error.
            asked: The parts of the request.
        """
        if error.filtered(status) or error_bodies.PASSING in error.codes:
            return None
        message, refused = error.text, error.refused if status in (400, 422) else ""
        if refused and (failure := self._refusal(refused, message, asked)) is not None:
            return failure
        of_schemas = _ABOUT_SCHEMAS.search(f"{error.param} {_QUOTED.sub(' ', message)}") is not None
        if asked.schema and self.settings.structured == "auto" and status in (400, 404, 422, 500, 501) and of_schemas:
            self.native_schema = False
            self._log_unsupported("%(model)s takes no JSON schemas at %(address)s: they are asked for in words")
            return self.failure(FailureKind.RETRY, f"no JSON-schema answers here, asking in words: {message}", wait=0.0)
        if asked.tools and self.settings.options.get("tools") is None and tool_calls.unknown_here(status, message):
            self.capabilities = replace(self.capabilities, tools=False)
            self._log_unsupported("%(model)s calls no tools at %(address)s")
            return self.failure(FailureKind.REJECTED, f"no tools are called here: {message}")
        return None

    def _refusal(self, name: str, message: str, asked: AskedFor) -> ProviderFailure | None:
        """Leave out a parameter that the server refuses from now on, or send it by its other name."""
        if name in _LIMIT_NAMES:
            # The server takes neither name, or was not sent this one.
            if self.limit_renamed == (self.family.limit_name == name):
                return None
            if not self.limit_renamed:
                (other,) = _LIMIT_NAMES - {name}
                self.family, self.limit_renamed = replace(self.family, limit_name=other), True
                self._log_unsupported(f"%(model)s accepts {other} instead of {name} at %(address)s")
            return self.failure(
                FailureKind.RETRY, f"{name} has another name here, asking with that: {message}", wait=0.0
            )
        if name not in asked.params:
            return None
        if name not in error_bodies.MAY_BE_LEFT_OUT:  # without it the question, or its price, would be another
            hint = "" if name in ("logprobs", "top_logprobs") else f" (omit: [{name}] in the role leaves it out)"
            return self.failure(FailureKind.BARRED, f"{message}{hint}")
        if name not in self._refused:
            self._refused |= {name}
            self.family = replace(self.family, omit=self.family.omit | {name})
            self._log_unsupported(f"%(model)s refuses {name} at %(address)s: it is left out")
        return self.failure(FailureKind.RETRY, f"{name} is refused here, asking without it: {message}", wait=0.0)

    def failure_of(
        self,
        place: str,
        status: int,
        error: ServerError,
        headers: Headers,
        usage: Usage | None = None,
        *,
        answered: bool = False,
        kind: FailureKind | None = None,
        wait: float | None = None,
    ) -> ProviderFailure:
        """Make the failure of an error.

        Args:
            place: The address that answered.
            status: HTTP status; of an error in an answer with a status of success, the one that it stands for.
            error: The error, as read.
            headers: Those of the answer.
            usage: The billed usage that the error reports.
            answered: It came with a status of success and may be billed.
            kind: Its kind, if the vendor's words are more precise than the codes.
            wait: Seconds that the vendor's own fields ask to wait.
        """
        kind = kind or error.kind(status)
        given = (wait, retry_after(headers), error.wait)
        wait = next((seconds for seconds in given if seconds is not None), None) if kind.may_pass else None
        if (
            kind is FailureKind.RATE_LIMIT
            and (wait is None or wait >= LONGEST_WAIT)
            and error_bodies.LONG_TERM.search(error.text)
        ):
            kind = FailureKind.FATAL
        if status == 500 and kind is FailureKind.RETRY and lasts(error.text):
            kind = FailureKind.REJECTED
        text = f"HTTP {status} from {place}: {error.text}{self.key_at_fault(status, error.text)}"
        if error_bodies.PASSING in error.codes:
            return self.unusable(text, usage, FailureKind.RETRY, wait, reply=Reply(error.generated))
        if answered or usage is not None:
            return self.unusable(text, usage, kind, wait)
        return self.failure(kind, text, wait=wait, status=status, place=place)

    def key_at_fault(self, status: int, message: str) -> str:
        """Return the name of the variable with the key, if an error means that the key is refused; empty for other errors."""
        return ""

    def _log_unsupported(self, text: str) -> None:
        logger.info(text, {"model": self.model, "address": self.base_url})

    def failure(
        self,
        kind: FailureKind,
        message: str,
        *,
        wait: float | None = None,
        status: int = 0,
        place: str = "",
    ) -> ProviderFailure:
        """Make a classified failure with a message without keys, and with the fix if it is known.

        Args:
            kind: Its kind.
            message: The problem.
            wait: Seconds that the server asks to wait.
            status: HTTP status of the answer; 0 if there is none.
            place: The address that answered with it.
        """
        line = self._line(message, kind, status, place)
        return ProviderFailure(Failure(kind, line, wait, maybe_billed=may_be_billed(status), slow=status in TIMEOUTS))

    def _line(self, message: str, kind: FailureKind, status: int = 0, place: str = "") -> str:
        """Write a message in one line without keys; a refusal gets the fix, if it is known."""
        line = one_line(message, self._secrets())
        final = kind in (FailureKind.REJECTED, FailureKind.BARRED, FailureKind.FATAL)
        return with_hint(line, self.settings.model, status, place) if final else line

    def unusable(
        self,
        message: str,
        usage: Usage | None = None,
        kind: FailureKind = FailureKind.UNUSABLE,
        wait: float | None = None,
        *,
        empty: bool = False,
        reply: Reply | None = None,
    ) -> ProviderFailure:
        """Make the failure of an unusable answer with a status of success, which may have been billed all the same.

        Args:
            message: Why it cannot be used.
            usage: The billed usage that it reports.
            kind: UNUSABLE: it is kept; RETRY: the server broke it off, and it is requested again first.
            wait: Seconds that the server asks to wait.
            empty: The model ended its answer without a word.
            reply: What came, with its text; it is kept with the status `unparsed`.
        """
        reason = self._line(message, kind)
        if reply is not None or kind is FailureKind.UNUSABLE:
            reply = reply or Reply("")
            flags = (*reply.flags, NO_ANSWER, *((EMPTY,) if empty else ()))
            text = redact(reply.text, self._secrets())
            reply = replace(
                reply, text=text, status=Status.UNPARSED, reason=reason, usage=usage or Usage(), flags=flags
            )
        billed = usage is None
        return ProviderFailure(Failure(kind, reason, wait, usage, maybe_billed=billed, answered=True, reply=reply))

    def concluded(
        self,
        reply: Reply,
        finish: object,
        usage: Usage | None,
        *,
        answered: bool,
        refusal: str = "",
        missing: str = "",
        empty: bool = True,
    ) -> Reply:
        """Give a reply its status by the end of its answer (`Ending`).

        Args:
            reply: The reply, with text, calls and probabilities.
            finish: The finish reason; None if there is none.
            usage: The billed usage that it reports.
            answered: It has text or calls.
            refusal: The reason of a refusal; empty if only `finish` can show one.
            missing: Why it has no text; empty if that is not known.
            empty: Without text, an answer with a known end is the model's empty answer.

        Raises:
            ProviderFailure: It contains no answer.
        """
        end, status, reason = ending(finish), Status.OK, ""
        more = missing and f": {missing}"
        why: FailureKind | None = None
        if refusal or end is Ending.FILTERED:
            status, reason = Status.REFUSED, refusal or "the content filter stopped the answer"
            reply = replace(reply, first_token=None)
        elif end is Ending.CUT:
            status, reason = Status.TRUNCATED, f"the answer reached its token limit{more}"
        elif end is Ending.BROKEN or (end is Ending.UNKNOWN and (answered or reply.first_token)):
            status, reason = Status.TRUNCATED, f"{why_unfinished(finish)}{more}"
            why = FailureKind.RETRY if end is Ending.BROKEN else None
            reply = replace(reply, flags=(*reply.flags, UNFINISHED))
        elif not answered:
            status, reason = Status.TRUNCATED, missing or f"the answer has no text (finish: {finish or 'none'})"
            why = FailureKind.UNUSABLE
        reply = replace(reply, status=status, reason=reason, usage=usage or Usage())
        if why is not None and reply.first_token is None:
            raise self.unusable(reason, usage, why, empty=empty and bool(finish) and end is Ending.WHOLE, reply=reply)
        return reply

    def unreadable(self, body: bytes, usage: Usage | None = None, endpoint: str = "") -> ProviderFailure:
        """Make the failure of an answer in no known form; its text is kept."""
        text = body[:_KEPT].decode("utf-8", "replace")
        return self.unusable(http.unreadable(body), usage, reply=Reply(text, endpoint=endpoint))


class Hosted(Remote):
    """A provider that sends JSON to one or several addresses. Subclasses write requests and read answers.

    Raises:
        ConfigError: A base_url is not a web address; from `complete` also: the key is missing or unusable.
    """

    option_names = Remote.option_names | {"client"}
    pasted = re.compile(r"/(?:(?:chat/)?completions|responses|embeddings|images/(?:generations|edits))/?(?=\?|$)")
    """The end of an address that is an endpoint's, and not its base."""

    def __init__(self, settings: ProviderSettings, transport: http.Transport | None = None) -> None:
        super().__init__(settings)
        self.base_url = self.endpoints.identity
        self.account = f"{self.name}|{self.base_url}|{self._key_env()}|{settings.model}"
        self._transport = transport or (self._sdk() if self._through_sdk() else http.shared)
        self._headers: dict[str, dict[str, str]] = {}
        self.key = ""

    @cached_property
    def endpoints(self) -> http.Endpoints:
        """The addresses of the server."""
        return http.Endpoints(self._address())

    async def complete(self, request: Request) -> Reply:
        """Send one request once.

        Raises:
            ConfigError: There is no key.
            ProviderFailure, TransportError: There is no answer; see `classify`.
        """
        asked = self.asked(request)
        body = orjson.dumps(await self.body(request, in_prompt=asked.in_prompt))
        answer, endpoint = await self._post(self.path, body)
        if not answer.is_success:
            raise self.read_error(answer, asked)
        return self.read_reply(answer, asked, endpoint.identity)

    @property
    def path(self) -> str:
        """The path that requests go to, below an address."""
        raise NotImplementedError

    async def body(self, request: Request, *, in_prompt: bool = False) -> Json:
        """Write a request for `orjson.dumps` (images are `orjson.Fragment`s); with `in_prompt` its schema is in the prompt."""
        raise NotImplementedError

    def read_reply(self, answer: http.Answer, asked: AskedFor, endpoint: str = "") -> Reply:
        """Read an answer with a status of success.

        Raises:
            ProviderFailure: It has no reply, or cannot be read.
        """
        raise NotImplementedError

    def read_error(self, answer: http.Answer, asked: AskedFor = ANY_REQUEST) -> ProviderFailure:
        """Make the failure of an error status; learns from it what the server does not support (see `unsupported`)."""
        error = error_bodies.read(answer.body)
        return self.unsupported(answer.status, error, asked) or self.error_of(answer.status, error, answer.headers)

    def error_in(self, answer: http.Answer, usage: Usage | None = None) -> ProviderFailure:
        """Make the failure of an answer with a status of success that is an error."""
        error = error_bodies.read(answer.body)
        return self.error_of(error.status, error, answer.headers, usage, answered=error.status >= 500)

    def error_of(
        self,
        status: int,
        error: ServerError,
        headers: Headers,
        usage: Usage | None = None,
        *,
        answered: bool = False,
    ) -> ProviderFailure:
        """Make the failure of an error by its status and codes; `answered`: it came beside a part of an answer."""
        place = f"{self.base_url}{self.path}" if status in (404, 405) else self.base_url
        kind, wait = self._own_words(status, error)
        return self.failure_of(place, status, error, headers, usage, answered=answered, kind=kind, wait=wait)

    def _own_words(self, status: int, error: ServerError) -> tuple[FailureKind, float | None]:
        """Read the kind of an error, and the seconds that it asks to wait, from the vendor's own fields."""
        return error.kind(status), None

    def _secrets(self) -> list[str]:
        return [self.key]

    def ready(self) -> None:
        """Look for the key now rather than at the first request.

        Raises:
            ConfigError: There is none, and an address needs one.
        """
        for endpoint in self.endpoints.all:
            self.headers_for(endpoint)

    def renewed(self) -> bool:
        if os.environ.get(self._key_env(), "").strip() == self.key:
            return False
        self.key = ""  # the next request reads it
        self._headers.clear()
        return True

    async def aclose(self) -> None:
        await self._transport.leave(self)

    def _address(self) -> str:
        """Return the addresses as configured; an endpoint that was pasted whole (`.../v1/chat/completions`) is cut back."""
        addresses = self.settings.base_url or os.environ.get(self.base_env) or self.default_base
        return ",".join(self.pasted.sub("", address.strip()) for address in addresses.split(","))

    async def _post(self, path: str, body: bytes, content_type: str = "") -> tuple[http.Answer, http.Endpoint]:
        """Send a body once, as JSON unless `content_type` is set; another address is tried only if nothing was sent."""
        self._transport.join(self)
        missing: http.Unreachable | None = None
        for endpoint in self.endpoints.order():
            headers = self._headers.get(endpoint.identity) or self.headers_for(endpoint)
            if content_type:
                headers = {**headers, "Content-Type": content_type}
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
        """Make the headers that authorise a request to an address; the key is read from the environment.

        Raises:
            ConfigError: There is no key, and the address needs one, or it cannot be one.
        """
        if not self.key:
            self.key = os.environ.get(self._key_env(), "").strip()
            register_secret(self.key)
        key_needed = self.key_envs or self.settings.api_key_env
        if key_needed and not self.key and not endpoint.private and not endpoint.credentials:
            names = self.settings.api_key_env or " or ".join(self.key_envs)
            raise ConfigError(f"{endpoint.host} requires an API key. Set the environment variable {names}")
        if not (self.key.isascii() and self.key.isprintable()) or " " in self.key:
            raise ConfigError(
                f"the API key in {self._key_env()} contains a space, a line break or another character that no key has. Set it again"
            )
        headers = self._headers[endpoint.identity] = self.authorisation(endpoint, self.key)
        return headers

    def authorisation(self, endpoint: http.Endpoint, key: str) -> dict[str, str]:
        """Make the headers that carry the key to an address; the key may be empty if the address is private."""
        raise NotImplementedError

    def _through_sdk(self) -> bool:
        """Whether requests go through the vendor's SDK, by the option `client`."""
        client = self.settings.options.get("client", "http")
        if client not in ("http", "sdk"):
            raise ConfigError(must_be("options: client", "http (the default) or sdk (by the vendor)", client))
        return bool(client == "sdk")

    def _sdk(self) -> http.Transport:
        """Make what sends through the vendor's SDK."""
        raise NotImplementedError

    def _key_env(self) -> str:
        """Return the name of the environment variable with the key."""
        if self.settings.api_key_env:
            return self.settings.api_key_env
        return next((name for name in self.key_envs if os.environ.get(name)), next(iter(self.key_envs), ""))

    def key_at_fault(self, status: int, message: str) -> str:
        if not (status == 401 or (self.key and "api key" in message.lower())):
            return ""
        if not self.key:
            return f" (no key was sent: set {self._key_env()})" if self._key_env() else ""
        quoted = ", which is in quotation marks: remove them" if self.key[0] in "\"'" else ""
        return f" (the key in {self._key_env()}{quoted})"
