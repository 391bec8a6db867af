"""The nouns of titjudge: plain frozen records without behaviour beyond their own bookkeeping."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol


class Status(StrEnum):
    """How one question, or one score, ended. Only `OK` carries a number (and `TRUNCATED` under the official protocol)."""

    OK = "ok"
    TRUNCATED = "truncated"  # the answer hit its token limit
    REFUSED = "refused"  # a content filter or the model itself declined
    UNPARSED = "unparsed"  # an answer came, and it does not say what was asked
    FAILED = "failed"  # no answer came: outage, timeout, rejected request
    BAD_INPUT = "bad_input"  # the image or prompt cannot be used
    MISSING = "missing"  # a recorded answer was asked for and is not on file
    BUDGET = "budget"  # not asked: the cap was reached


@dataclass(frozen=True, slots=True)
class Item:
    """One image with the prompt it was made from.

    `group` is the id of the prompt: the cluster of all statistics. `image` may be None for text-only items
    (a description is then given in `meta["description"]`). `same_prompt` are all images of the prompt, this one among
    them: a run fills it in where a metric compares images, and no file holds it.
    """

    id: str
    prompt: str
    image: Path | None
    generator: str = ""
    prompt_id: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    same_prompt: tuple[Item, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class InvalidItem:
    """An input that cannot be judged: named in the report, never scored."""

    id: str
    reason: str
    generator: str = ""
    prompt_id: str = ""

    @property
    def is_image(self) -> bool:
        """Whether it is an image of its own: not one listed again, nor a line of prompts."""
        if self.id.endswith(" (again)") or re.fullmatch(r"prompts\.jsonl:\d+", self.id):
            return False
        return bool(self.generator or self.prompt_id)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two images of one prompt and which of them people prefer: "a", "b" or "tie"."""

    prompt_id: str
    a: str
    b: str
    preference: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image as it is sent: identified by the SHA-256 of exactly those bytes, which are read when needed."""

    sha256: str
    media_type: str
    width: int
    height: int
    path: Path
    load: Callable[[], bytes] = field(compare=False, repr=False)


Part = str | ImageFile


@dataclass(frozen=True, slots=True)
class Tool:
    """Something a model may call; `parameters` is the JSON schema (an object) of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as a model made it.

    `arguments` is JSON text and may be malformed; `id` is empty where the provider gives none; `signature` is a text that
    the provider wants back with the call, unread (Gemini's thought signature, Anthropic's thinking).
    """

    name: str
    arguments: str
    id: str = ""
    signature: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call brought, in words."""

    call: ToolCall
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; `role` is system, user or assistant.

    `calls` are those of an assistant's turn, after its text; `results` are a user's turn that answers them, before its text.
    """

    role: str
    parts: tuple[Part, ...]
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(part for part in self.parts if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class Request:
    """One question to one model: everything that can change the answer, and nothing else but `role` and `item_id`.

    `params` are the sampling parameters that are really sent (`max_tokens`, `temperature`, ...); `schema` is a JSON
    schema for a structured answer; `sample` numbers repeated answers, `attempt` numbers repair turns; `tools` are what the
    model may call instead of, or besides, answering in words.
    """

    provider: str
    model: str
    messages: tuple[Message, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    schema_name: str = ""
    base_url: str = ""
    adapter_version: int = 1
    sample: int = 0
    attempt: int = 0
    template: str = ""
    role: str = ""
    item_id: str = ""
    tools: tuple[Tool, ...] = ()

    @property
    def pictures(self) -> list[ImageFile]:
        return [part for message in self.messages for part in message.parts if isinstance(part, ImageFile)]


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """What a provider is built from: one model of one role.

    `base_url` may hold several comma-separated addresses; `api_key_env` names the environment variable with the key
    (the key itself is read when the first request is sent and kept nowhere else); `timeout` in seconds; `structured` is
    auto, native or prompt; `options` are provider-specific settings (dtype, device_map, revision, ...).
    """

    model: str
    base_url: str = ""
    api_key_env: str = ""
    timeout: float = 120.0
    structured: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer, as the provider bills them. `output` includes `thinking`; `input` includes `cached_input`."""

    input: int = 0
    output: int = 0
    cached_input: int = 0
    thinking: int = 0
    image: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached_input + other.cached_input,
            self.thinking + other.thinking,
            self.image + other.image,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """What one model answered. `list_cost` is the list price in USD, None when the price is unknown;
    `cached` answers cost nothing now. `data` is the validated object of a structured answer; `tool_calls` are there only
    where the request offered tools."""

    text: str
    status: Status = Status.OK
    reason: str = ""
    usage: Usage = field(default_factory=Usage)
    finish: str = ""
    model_version: str = ""
    endpoint: str = ""
    list_cost: float | None = None
    seconds: float = 0.0
    cached: bool = False
    key: str = ""
    flags: tuple[str, ...] = ()
    data: Any = None
    tool_calls: tuple[ToolCall, ...] = ()

    def with_(self, **changes: Any) -> Reply:
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Embedding:
    """A unit vector, with the tokens the model read and the tokens there were (`used < total`: the text was cut), and
    those the provider says it bills (None: it does not say)."""

    vector: Any  # numpy array, shape (dim,), float32, L2-normalised
    tokens_used: int
    tokens_total: int
    tokens_billed: int | None = None

    @property
    def cut(self) -> bool:
        return self.tokens_used < self.tokens_total


class FailureKind(StrEnum):
    """What a provider says of an exception; `retry.py` alone decides what follows."""

    RETRY = "retry"  # 408, 409, 5xx, connection, timeout, an answer that is not JSON
    RATE_LIMIT = "rate_limit"  # 429: retried, and the concurrency goes down
    REFUSED = "refused"  # a content filter answered with an error
    REJECTED = "rejected"  # 400, 413, 422: this request will never pass
    BARRED = "barred"  # 403, 404, 405: no request will pass; or, where others do, this one will not
    FATAL = "fatal"  # 401, no such model, no quota: no request will pass


@dataclass(frozen=True, slots=True)
class Failure:
    """A classified exception; `retry_after` in seconds; `usage` when a failed call reports what it billed; `lost` when
    the request was sent and nobody said what it cost, so that it may have been billed; `unsent` when there was no
    connection; `outage` when there was one before, and the server is likely to come back; `answered` when an answer came
    with a status of success and cannot be used: asking again is likely to be billed again."""

    kind: FailureKind
    message: str
    retry_after: float | None = None
    usage: Usage | None = None
    lost: bool = False
    unsent: bool = False
    outage: bool = False
    answered: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """One metric's number for one item, or the reason why there is none.

    `value` is None exactly when nothing was measured; `parts` are the numbers and lists behind it (JSON types only);
    `replies` are the keys of the answers it was computed from.
    """

    item_id: str
    metric: str
    value: float | None
    status: Status = Status.OK
    reason: str = ""
    parts: Mapping[str, Any] = field(default_factory=dict)
    replies: tuple[str, ...] = ()
    generator: str = ""
    prompt_id: str = ""

    @classmethod
    def of(cls, value: float, *, reason: str = "", status: Status = Status.OK, **parts: Any) -> Score:
        """A score as a metric returns it; the runner adds item, metric and replies."""
        return cls("", "", float(value), status, reason, parts)

    @classmethod
    def none(cls, status: Status, reason: str, **parts: Any) -> Score:
        """No number, and why."""
        return cls("", "", None, status, reason, parts)


@dataclass(frozen=True, slots=True)
class Table:
    """A result as people read it: cells are str, int, float or None (None is shown as a dash)."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()


STAND_IN = "estimate"  # the `model_version` of a reply that a dry run made up


class DryRun(StrEnum):
    """Why metrics are walked through without sending anything; what they get are stand-ins, or replies from the cache."""

    EXPECTED = "expected"  # to say what a run is likely to cost: what several items ask is asked once
    WORST = "worst"  # to reserve room for one item under a cap, as if no other item asked the same


class Ask(Protocol):
    """Put questions to models: what a metric is given besides its item. See `titjudge.engine.ask.BoundAsk`.

    Attributes:
        protocol: official (as published) or strict.
        dry_run: why nothing is sent; None in a run.
        siblings: the other images of the item's prompt, for metrics with `scope="prompt"`; else empty.
    """

    protocol: str
    dry_run: DryRun | None
    siblings: Sequence[Item]

    async def __call__(
        self,
        template: str,
        *,
        role: str,
        images: Sequence[Path] = (),
        schema: type[Any] | None = None,
        accept_truncated: bool = False,
        sample: int = 0,
        params: Mapping[str, Any] | None = None,
        tools: Sequence[Tool] = (),
        turns: Sequence[Message] = (),
        **variables: Any,
    ) -> Reply: ...

    def has_tools(self, role: str) -> bool: ...

    async def embed(self, texts: Sequence[str]) -> list[Embedding]: ...


class Suite(Protocol):
    """A data set with its metrics and its official aggregation. Inherit from it for the defaults."""

    name: str
    metrics: tuple[str, ...]
    """Run without `--metric`."""
    VERSION: str = "1"
    DEVIATIONS: tuple[str, ...] = ()
    """Where results differ from those of the official code, for people."""
    AGGREGATES: bool = True
    """False where `aggregate` returns nothing: items and scores then need not be held in memory whole."""
    MARKS_JUDGE: frozenset[str] = frozenset()
    """Metrics whose scores, on these data, mark the judge and say nothing of which image is better."""

    def load(self, folder: Path) -> Iterable[Item | InvalidItem]:
        """Read the items; what cannot be judged comes as a BadItem that says why."""
        ...

    def pairs(self, folder: Path) -> list[Pair]:
        """Read the preferences of people; none where the data have none."""
        return []

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Compute the official tables."""
        return []
