"""The protocol of models. A provider answers requests, an embedder makes vectors; both are a `Model`.

Everything that can have a default has one, so a new provider is a subclass with `complete`, and `usage_bound` if it costs
money. It never retries, never caches, never counts money: it sends one request, returns the reply, and classifies
exceptions. Everything else is the engine's.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from titjudge.core.errors import ConfigError, unknown
from titjudge.core.types import Embedding, Failure, FailureKind, Reply, Request, Usage, Values

UNFINISHED = "unfinished"  # flag of a reply that ended otherwise than by its end or its token limit


class Ending(StrEnum):
    """Finish reasons of models and servers, and the effect of each.

    | meaning  | what is made of the answer                                                                          |
    | -------- | --------------------------------------------------------------------------------------------------- |
    | WHOLE    | It is an answer.                                                                                    |
    | CUT      | The token limit: truncated; kept, and not paid again.                                               |
    | FILTERED | Refused; kept, and not paid again.                                                                  |
    | BROKEN   | The server broke off, which may pass: requested again, three times in all; then kept as unparsed.   |
    | UNKNOWN  | A word in no list: unparsed; kept, and not paid again, as asking again may bring the same word.     |

    A server that gives no reason at all (no such key, an empty text) is believed: some know none. `null` is another
    matter: in OpenAI's wire format it is the word for an answer that goes on, as in all chunks of a stream but the last,
    so in a whole answer it means that the end never came. It is UNKNOWN. Google gives a missing `finishReason` the same
    meaning ("If empty, the model has not stopped generating tokens", ai.google.dev/api/generate-content).
    """

    WHOLE = "whole"
    CUT = "cut"
    FILTERED = "filtered"
    BROKEN = "broken"
    UNKNOWN = "unknown"


_WORDS: dict[Ending, tuple[str, ...]] = {
    Ending.WHOLE: (
        *("", "stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "completed"),
        *("tool_calls", "tool_call", "tool_use", "function_call"),
    ),
    Ending.CUT: tuple("length max_tokens max_output_tokens model_length model_context_window_exceeded".split()),
    Ending.FILTERED: (
        *"content_filter content_filtered refusal sensitive error_toxic guardrail_intervened".split(),
        *"safety prohibited_content recitation blocklist spii".split(),
        *("image_safety", "image_prohibited_content", "image_recitation"),
    ),
    Ending.BROKEN: (
        *"abort aborted cancel cancelled canceled error failed timeout interrupted".split(),
        *"network_error insufficient_system_resource service_unavailable server_error internal_error".split(),
        *"other language malformed_response malformed_function_call unexpected_tool_call".split(),
        *("too_many_tool_calls", "missing_thought_signature", "no_image", "image_other"),
    ),
}
_ENDINGS = {word: ending for ending, words in _WORDS.items() for word in words}


def ending(finish: object) -> Ending:
    """Return the meaning of a finish reason, in any case; None is the `null` of a server."""
    return Ending.UNKNOWN if finish is None else _ENDINGS.get(str(finish).strip().lower(), Ending.UNKNOWN)


def why_unfinished(finish: object) -> str:
    """Return the reason, in one line, why a BROKEN or UNKNOWN answer is not accepted."""
    if finish is None:
        return "the answer is not finished (finish reason: null)"
    if ending(finish) is Ending.BROKEN:
        return f"the server broke the answer off (finish reason: {finish})"
    return f"the answer ended for a reason that is not known as an end ({finish})"


SAMPLING_PARAMETERS = frozenset(
    (
        "max_tokens temperature top_p top_k min_p seed stop detail frequency_penalty presence_penalty "
        "repetition_penalty logit_bias logprobs top_logprobs thinking_budget thinking_level reasoning_effort "
        "media_resolution max_side squash"
    ).split()
)
"""Every parameter of metrics and configurations; parameters that a model rejects are in `Capabilities.omit`."""

Headers = Mapping[str, str]
"""Headers of HTTP by name, in any case."""
OnHeaders = Callable[[Headers], None]


@dataclass(slots=True)
class Sending:
    """Whether a request has gone out: from then on it may be billed, whatever exception ends it."""

    begun: bool = False


_sending: ContextVar[Sending | None] = ContextVar("sending", default=None)


@contextmanager
def watched_sending() -> Iterator[Sending]:
    """Watch whether the request that is made in the block goes out; a block around this one then knows it, too."""
    outer, sending = _sending.get(), Sending()
    token = _sending.set(sending)
    try:
        yield sending
    finally:
        _sending.reset(token)
        if outer is not None:
            outer.begun |= sending.begun


def note_sending() -> None:
    """Note that the running request goes out. A provider that sends requests itself calls it just before."""
    sending = _sending.get()
    if sending is not None:
        sending.begun = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Abilities of a model; the engine omits unsupported parts of a request.

    Attributes:
        images: The model reads images.
        schema: It has native JSON-schema answers.
        omit: Parameters that it rejects; they are left out of the request and of its cache key.
        omit_thinking: Other parameters, which it rejects if it thinks.
        direct: The engine calls it at once, without a price, a rate limit or a retry: a model in this process, or a substitute.
        in_flight: How many requests it can use at once (None: as many as the engine likes).
        cache: Its answers are worth keeping (a recorded answer is on disk already).
        thinking: Tokens it may think before it answers, on top of `max_tokens`, when no `thinking_budget` is given.
        thinking_asked: The same, for a model that thinks only if a `reasoning_effort` is given.
        tools: It calls tools natively.
        probabilities: It reports how likely the first token of its answer is (`Request.choices`, `Reply.first_token`).
    """

    images: bool = True
    schema: bool = True
    omit: frozenset[str] = frozenset()
    direct: bool = False
    in_flight: int | None = None
    cache: bool = True
    thinking: int = 0
    tools: bool = False
    probabilities: bool = False
    omit_thinking: frozenset[str] = frozenset()
    thinking_asked: int = 0

    def left_out(self, params: Values) -> frozenset[str]:
        """Return the names of the parameters that the engine removes from a request with these parameters."""
        return self.omit | self.omit_thinking if _asked_to_think(params, self.omit) else self.omit

    def thinking_room(self, params: Values) -> int:
        """Return the number of tokens to reserve for thinking, in addition to the answer."""
        budget = params.get("thinking_budget") if "thinking_budget" not in self.omit else None
        if budget is not None and budget >= 0:
            return int(budget)
        return max(self.thinking, self.thinking_asked) if _asked_to_think(params, self.omit) else self.thinking


def _asked_to_think(params: Values, omit: Collection[str]) -> bool:
    budget, effort = params.get("thinking_budget"), params.get("reasoning_effort")
    by_effort = effort not in (None, "none") and "reasoning_effort" not in omit
    return by_effort if budget is None or "thinking_budget" in omit else budget != 0


def check_options(what: str, options: Iterable[str], known: Iterable[str], hint: str = "") -> None:
    """Refuse unknown options; the message contains `what` (their owner) and `hint` (a remedy).

    Raises:
        ConfigError: There is one.
    """
    strange = sorted(set(options) - set(known))
    if strange:
        raise ConfigError(f"{unknown(what, strange[0], sorted(known))}{hint}")


class Model:
    """Common base of providers and embedders. Only the engine calls it.

    Attributes:
        name: The registry name (an embedder's also names the model: `provider/model`).
        model: The model's name at the provider.
        base_url: Identity of the endpoint without credentials, or of the weights that answer; part of the
            key of an answer in the cache.
        listed_as: The vendor's name of the model, if `model` is a name that the user chose (a deployment); otherwise empty.
        account: Models of one account share a rate limit.
        uses_device: Its models run in this process, on a GPU if there is one.
        is_batch: An answer may take a day: there is no rate limit, and a later session may collect it.
        on_headers: Set by the engine if it reads rate limits from headers. A provider calls it with the headers of every
            answer, whatever its status.
    """

    name: str = ""
    model: str = ""
    listed_as: str = ""
    account: str = ""
    uses_device: bool = False
    is_batch: bool = False
    on_headers: OnHeaders | None = None

    @cached_property
    def base_url(self) -> str:
        """The address that requests go to; a subclass may set it, or compute it when it is first needed."""
        return ""

    @property
    def address(self) -> str:
        """The address that must be the same when a run is resumed: `base_url`, or one from the environment."""
        return self.base_url

    @property
    def direct(self) -> bool:
        """True if the engine calls it at once, without a price, a rate limit or a retry."""
        return False

    @property
    def is_free(self) -> bool:
        """True if answers cost nothing; False for a substitute of a model with a price."""
        return self.direct

    def classify(self, error: Exception) -> Failure:
        """Classify an exception of `complete` or `embed`; by default as a final failure that may be billed."""
        return Failure(FailureKind.REJECTED, str(error) or type(error).__name__, maybe_billed=True)

    def ready(self) -> None:
        """Check now for what the first request will need.

        Raises:
            UserError: A key or the weights are missing.
        """
        return None

    def renewed(self) -> bool:
        """Return True if the environment has a new key; the next request then uses it."""
        return False

    def load(self) -> None:
        """Load now what the first request would load.

        Raises:
            UserError: It cannot be loaded.
        """
        return None

    def leave(self) -> None:
        """Stop waiting at once; answers that come later are for another session."""
        return None

    async def aclose(self) -> None:
        """Release connections and memory."""
        return None


class Provider(Model, ABC):
    """One model behind one address, made with one argument: the `ProviderSettings` of a role.

    Attributes:
        version: Raise it when the provider changes what is sent: answers cached under the old one are not used again.
        capabilities: Abilities of the model. During a run, it may turn out that it calls no tools.
        vendor: The vendor of its models (`openai`, `gemini`, `anthropic`, any of genai-prices), which decides their prices,
            parameters, image tokens and retirements; empty: the vendor with the provider's name.
        default_model: The model of a role that gives only the provider.
        default_base: Its usual address; the vendor's price list is valid only there.
        base_env: The environment variable that names another address.
        key_envs: Environment variables, one of which must contain the key.
        batch_service: `module:class` of its service of batch jobs; empty if there is none.
        needs_model: A role must give a model. If False, the provider's name is enough.

    `titjudge.providers.fake` and docs/extend/provider.md have short examples.
    """

    version: int = 1
    vendor: str = ""
    default_model: str = ""
    default_base: str = ""
    base_env: str = ""
    key_envs: tuple[str, ...] = ()
    batch_service: str = ""
    needs_model: bool = True

    @classmethod
    def listed(cls, model: str) -> tuple[str, str]:
        """Return the vendor of a model and its name there, as in the lists of prices and retirements."""
        return cls.vendor or cls.name, model

    @classmethod
    def setup(cls) -> list[tuple[str, str, str]]:
        """List rows for `doctor` without a request, as (name, state, facts): whether one of its keys is set."""
        if not cls.key_envs:
            return []
        present = next((name for name in cls.key_envs if os.environ.get(name)), "")
        facts = f"{present} is set" if present else f"set {' or '.join(cls.key_envs)}"
        if os.environ.get(cls.base_env):  # not shown: it may contain a password
            facts += f"; requests go to the address in {cls.base_env}"
        return [(cls.name, "ok" if present else "no key", facts)]

    @property
    def extra_body(self) -> Values:
        """Settings of the user for the body of each request; part of the key of an answer."""
        return {}

    @property
    def refused(self) -> frozenset[str]:
        """Parameters that the server has refused and that are no longer sent; not part of the key of an answer."""
        return frozenset()

    @cached_property
    def capabilities(self) -> Capabilities:
        """Abilities of the model; a subclass may set it, or find it out when it is first needed."""
        return Capabilities()

    @property
    def direct(self) -> bool:
        return self.capabilities.direct

    @abstractmethod
    async def complete(self, request: Request) -> Reply:
        """Send one request once.

        Returns:
            A Reply with status OK, TRUNCATED or REFUSED; the engine sets `seconds`, `list_cost` and `key`.

        Raises:
            Exception: There is no answer; `classify` returns the kind.
        """

    def usage_bound(self, request: Request) -> Usage:
        """Return an upper bound of the tokens of a request and its answer; a cap on money relies on it.

        Raises:
            NotImplementedError: A subclass that costs money does not define it.
        """
        if self.direct:
            return Usage()
        raise NotImplementedError(
            f"{type(self).__name__} has no method usage_bound, which returns the maximum cost of a request"
        )

    def in_job(self, request: Request) -> bool:
        """Return True if a batch job at the provider contains a request that may still be answered and billed."""
        return False


class Embedder(Model, ABC):
    """One embedding model, made as `Embedder(model, settings)` with `settings: ProviderSettings`.

    Attributes:
        identity: Everything that can change a vector: model, revision or content hash of a folder, dtype, pooling,
            maximum length, library version; part of the key of a vector in the cache.
        max_tokens: Maximum number of tokens of a text that the model reads.
        local: It runs in this process and costs nothing.
        version: Raised if the vectors change; `identity` may contain it.
        clip: Its vectors are CLIP text embeddings, which the counts of unique prompts of TIIF-Bench require.
    """

    local: bool = True
    version: int = 1

    @property
    def direct(self) -> bool:
        return self.local

    @cached_property
    def clip(self) -> bool:
        """Whether the vectors are CLIP text embeddings."""
        return False

    @cached_property
    def max_tokens(self) -> int:
        """How many tokens of a text the model reads."""
        return 0

    @cached_property
    def identity(self) -> Values:
        """Everything that can change a vector."""
        return {"name": self.name}

    @abstractmethod
    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed each text, in order, as a vector with norm 1 and shape (dim,); no instruction prefix is added.

        Raises:
            Exception: There is no vector; `classify` returns the kind.
        """


class WrappedProvider(Provider):
    """Replace another provider under its identity; a subclass overrides the differences.

    Args:
        real: The provider that answers everything that the subclass does not override.
    """

    def __init__(self, real: Provider) -> None:
        self.real = real
        self.name, self.model, self.version = real.name, real.model, real.version
        self.base_url, self.account, self.listed_as = real.base_url, real.account, real.listed_as
        self.capabilities = real.capabilities

    @property
    def is_free(self) -> bool:
        return self.real.is_free

    @property
    def extra_body(self) -> Values:
        return self.real.extra_body

    @property
    def refused(self) -> frozenset[str]:
        return self.real.refused

    @property
    def on_headers(self) -> OnHeaders | None:
        """The engine's observer of headers; the real provider calls it."""
        return self.real.on_headers

    @on_headers.setter
    def on_headers(self, observer: OnHeaders | None) -> None:
        self.real.on_headers = observer

    async def complete(self, request: Request) -> Reply:
        return await self.real.complete(request)

    def classify(self, error: Exception) -> Failure:
        return self.real.classify(error)

    def usage_bound(self, request: Request) -> Usage:
        return self.real.usage_bound(request)

    def ready(self) -> None:
        self.real.ready()

    def renewed(self) -> bool:
        return self.real.renewed()

    def load(self) -> None:
        self.real.load()

    def leave(self) -> None:
        self.real.leave()

    async def aclose(self) -> None:
        await self.real.aclose()
