"""The nouns of titjudge: plain frozen records without behaviour beyond their own bookkeeping."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from titjudge.core.answer_probabilities import Choices, FirstToken, Probability
from titjudge.core.dry_run import DryRun


class Status(StrEnum):
    """How one question, or one score, ended. Only `OK` carries a number (and `TRUNCATED` under the official protocol).

    `TRUNCATED`: the answer hit its token limit. `REFUSED`: a content filter or the model itself declined. `UNPARSED`: an answer
    came, and it does not say what was asked. `FAILED`: no answer came (outage, timeout, rejected request). `BAD_INPUT`: the
    image or prompt cannot be used. `MISSING`: a recorded answer was asked for and is not on file. `BUDGET`: not asked, as the
    cap was reached.
    """

    OK = "ok"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    UNPARSED = "unparsed"
    FAILED = "failed"
    BAD_INPUT = "bad_input"
    MISSING = "missing"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Item:
    """One image with the prompt it was made from.

    Attributes:
        id: Its name in scores and pairs; the path inside the data folder, where there is one.
        image: The image file; None where there is only a description, in `meta["description"]`.
        prompt_id: The id of the prompt: the unit of all statistics.
        meta: Further keys of its line in the data, such as `category`.
        sample: Which of several images of its prompt by its generator, by number or seed; 0 where the data do not say.
        same_prompt: All images of the prompt, this one among them: a run fills it in where a metric compares images, and no
            file holds it.
    """

    id: str
    prompt: str
    image: Path | None
    generator: str = ""
    prompt_id: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    sample: int = 0
    same_prompt: tuple[Item, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class InvalidItem:
    """An input that cannot be judged: named with its `reason` in the report, never scored."""

    id: str
    reason: str
    generator: str = ""
    prompt_id: str = ""

    @property
    def is_image(self) -> bool:
        """Tell whether it is an image of its own: not one listed again, nor a line of prompts."""
        if self.id.endswith(" (again)") or re.fullmatch(r"prompts\.jsonl:\d+", self.id):
            return False
        return bool(self.generator or self.prompt_id)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two images of one prompt and which of them people prefer.

    Attributes:
        a: Id of one image.
        b: Id of the other.
        preference: `a`, `b` or `tie`.
        source: Who says so, where that is known.
        both_bad: The tie is one of two images that people find bad, both.
    """

    prompt_id: str
    a: str
    b: str
    preference: str
    source: str = ""
    both_bad: bool = False

    @property
    def choice(self) -> str:
        """The preference as files have it: `a`, `b`, `tie` or `both_bad`."""
        return "both_bad" if self.both_bad else self.preference


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image as it is sent: identified by the SHA-256 of exactly those bytes, which `load` reads when needed."""

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

    Attributes:
        arguments: JSON text, which may be malformed.
        id: Empty where the provider gives none.
        signature: A text that the provider wants back with the call, unread (Gemini's thought signature, Anthropic's
            thinking).
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
    """One turn of a conversation.

    Attributes:
        role: system, user or assistant.
        parts: Texts and images, in order.
        calls: Calls of tools in an assistant's turn, after its text.
        results: What these calls brought, in the user's turn that follows, before its text.
    """

    role: str
    parts: tuple[Part, ...]
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def text(self) -> str:
        """Its texts, a line each."""
        return "\n".join(part for part in self.parts if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class Request:
    """One question to one model: everything that can change the answer, and nothing else but `role` and `item_id`.

    Attributes:
        params: Sampling parameters that are really sent (`max_tokens`, `temperature`, ...).
        schema: JSON schema of a structured answer.
        adapter_version: `Provider.version`.
        sample: Number of this answer among repeated ones, from 0.
        attempt: Number of repair turns before it.
        template: Name of the prompt template.
        tools: What the model may call instead of, or besides, answering in words.
        choices: Tokens whose probability as the first of the answer is wanted.
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
    choices: tuple[str, ...] = ()

    @property
    def images(self) -> list[ImageFile]:
        """The images of all its messages, in order."""
        return [part for message in self.messages for part in message.parts if isinstance(part, ImageFile)]


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """What a provider is built from: one model of one role.

    Attributes:
        model: The model's name at the provider.
        base_url: Its address; several, comma-separated, share the load.
        api_key_env: Environment variable with the key, which is read when the first request is sent and kept nowhere else.
        timeout: Seconds one request may take.
        structured: Answers in JSON by the server's schema mode (native), by words in the prompt (prompt), or as it can (auto).
        options: Settings of this provider (dtype, device_map, revision, ...).
    """

    model: str
    base_url: str = ""
    api_key_env: str = ""
    timeout: float = 120.0
    structured: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer, as the provider bills them.

    Attributes:
        input: Of the request; `cached_input`, those read from the provider's cache, and those of images included.
        output: Of the answer; `thinking` included.
        image: Of images, where the provider says so.
    """

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
    """What one model answered.

    Attributes:
        reason: Why, where it is not OK; `finish_reason` is the provider's word for why the model stopped.
        model_version: The model that answered, as the provider says it.
        list_cost: List price in USD; None when unknown. What was `cached`, kept from before, costs nothing now.
        key: The key of the answer in cache and recordings.
        flags: What is odd about it.
        data: The validated object of a structured answer.
        tool_calls: What the model wants to call, where the request offered tools.
        first_token: What the model says of the first token, where that was asked for.
        probabilities: How likely each choice is, where `ask` was given choices.
    """

    text: str
    status: Status = Status.OK
    reason: str = ""
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = ""
    model_version: str = ""
    endpoint: str = ""
    list_cost: float | None = None
    seconds: float = 0.0
    cached: bool = False
    key: str = ""
    flags: tuple[str, ...] = ()
    data: Any = None
    tool_calls: tuple[ToolCall, ...] = ()
    first_token: FirstToken | None = None
    probabilities: Mapping[str, Probability] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Embedding:
    """What an embedder makes of a text.

    Attributes:
        vector: NumPy array of float32, shape (dim,), of length 1.
        tokens_used: Tokens that the model read.
        tokens_total: Tokens of the text.
        tokens_billed: Tokens that the provider bills; None where it does not say.
    """

    vector: Any
    tokens_used: int
    tokens_total: int
    tokens_billed: int | None = None

    @property
    def cut(self) -> bool:
        """Whether the model read less than the whole text."""
        return self.tokens_used < self.tokens_total


class FailureKind(StrEnum):
    """What a provider says of an exception; `engine/retry.py` alone decides what follows.

    `RETRY`: 408, 409, 5xx, connection, timeout, an answer that is not JSON. `RATE_LIMIT`: 429, retried, and the concurrency goes
    down. `REFUSED`: a content filter answered with an error. `REJECTED`: 400, 413, 422, this request will never pass.
    `BARRED`: 403, 404, 405, no request will pass; or, where others do, this one will not. `FATAL`: 401, no such model, no
    quota, no request will pass.
    """

    RETRY = "retry"
    RATE_LIMIT = "rate_limit"
    REFUSED = "refused"
    REJECTED = "rejected"
    BARRED = "barred"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class Failure:
    """A classified exception.

    Attributes:
        retry_after: Seconds that the server wants us to wait.
        usage: What a failed request billed, where the provider says so.
        maybe_billed: The request was sent and nobody said what it cost: it may have been billed.
        not_sent: There was no connection.
        outage: There was a connection before, and the server is likely to come back.
        answered: An answer came with a status of success and cannot be used: asking again is likely to be billed again.
    """

    kind: FailureKind
    message: str
    retry_after: float | None = None
    usage: Usage | None = None
    maybe_billed: bool = False
    not_sent: bool = False
    outage: bool = False
    answered: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """One metric's number for one item, or the reason why there is none.

    Attributes:
        value: In the metric's range; None exactly when nothing was measured.
        status: How it ended.
        reason: Why: the judge's words, or what went wrong.
        parts: Numbers and lists behind the value (JSON types only).
        replies: Keys of the answers it was computed from.
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
        """Make a score as a metric returns it, `parts` behind it; the run adds item, metric and replies."""
        return cls("", "", float(value), status, reason, parts)

    @classmethod
    def none(cls, status: Status, reason: str, **parts: Any) -> Score:
        """Make a score without a value, with the reason in one line, and what is known nevertheless in `parts`."""
        return cls("", "", None, status, reason, parts)


@dataclass(frozen=True, slots=True)
class Table:
    """A result as people read it: cells are str, int, float or None, which is shown as a dash."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()


class Ask(Protocol):
    """Put questions to models: what a metric is given besides its item. See `titjudge.engine.ask.BoundAsk`.

    Attributes:
        protocol: official (as published) or strict.
        dry_run: Why nothing is sent; None in a run.
        siblings: The other images of the item's prompt, for metrics with `scope="prompt"`; else empty.
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
        choices: Choices = (),
        **variables: Any,
    ) -> Reply:
        """Ask one question of a role.

        Args:
            template: Name of the prompt template, such as `tit/describe`; `variables` fill it in.
            role: captioner, judge, or `provider/model`; `params` go before its own.
            images: Files to show.
            schema: A pydantic model; the reply's `data` is one of it.
            accept_truncated: Return an answer that hit its token limit.
            sample: Number of this answer among repeated ones.
            params: Sampling parameters.
            tools: What the model may call.
            turns: The conversation after the question.
            choices: Answers of one token; the reply's `probabilities` says how likely each is.
            **variables: Values of the template's variables.

        Raises:
            Unanswered: There is no usable answer; a metric lets it pass, and it becomes a score without a value.
        """
        ...

    def has_tools(self, role: str) -> bool:
        """Say whether the model of a role calls tools natively."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed texts by the role `embedder`, in order."""
        ...
