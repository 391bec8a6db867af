"""The data types that all packages share: frozen dataclasses without behaviour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from titjudge.core.answer_probabilities import Choices, FirstToken, Probability
from titjudge.core.tables import Note as Note
from titjudge.core.tables import Table as Table

Json = dict[str, Any]
"""A JSON object."""
Values = Mapping[str, Any]
"""Values by name, which are only read: the meta of an item, the row of a table, parameters."""


class Status(StrEnum):
    """The outcome of a question or a score. Only `OK` has a number (and `TRUNCATED` under the official protocol)."""

    OK = "ok"
    TRUNCATED = "truncated"  # the answer hit its token limit
    REFUSED = "refused"  # by a content filter or by the model itself
    UNPARSED = "unparsed"  # the answer does not show what was asked
    FAILED = "failed"  # there is no answer: outage, timeout, rejected request
    BAD_INPUT = "bad_input"  # the image or the prompt cannot be used
    MISSING = "missing"  # a recorded answer is not on file
    BUDGET = "budget"  # not asked, as the cap was reached


class Cause(StrEnum):
    """Why the request of a failed score got no answer; of several causes of one score the first is stored."""

    CROWDED = "crowded"  # rate limits, an overloaded server, no answer in time
    UNANSWERED = "unanswered"  # an outage, a broken connection
    REJECTED = "rejected"  # the server or the model cannot work on this request


@dataclass(frozen=True, slots=True)
class Item:
    """One image with the prompt it was made from; of an edit, the result with its instruction.

    Attributes:
        id: Name in scores and pairs: the path inside the data folder, if there is one.
        prompt: The prompt; of an edit, the instruction.
        image: The image file; None if there is only a description, in `meta["description"]`.
        generator: The model or checkpoint that made the image; empty if unknown.
        prompt_id: The id of the prompt, which is the unit of all statistics.
        meta: Further columns of the data, such as `category`.
        sample: Number or seed of the image for its prompt and generator; 0 if the data have none.
        same_prompt: All images of the prompt, this one included; set during a run if a metric compares images.
        sources: Of an edit, the images that it was made from, in the order in which the instruction speaks of them.
    """

    id: str
    prompt: str
    image: Path | None
    generator: str = ""
    prompt_id: str = ""
    meta: Values = field(default_factory=dict)
    sample: int = 0
    same_prompt: tuple[Item, ...] = field(default=(), compare=False, repr=False)
    sources: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class InvalidItem:
    """An input that cannot be judged.

    Attributes:
        id: The path or name of the input.
        reason: The reason, as printed in the report.
        counts: False for an image that is listed twice, and for a line of a prompt file.
    """

    id: str
    reason: str
    generator: str = ""
    prompt_id: str = ""
    counts: bool = True

    @property
    def is_image(self) -> bool:
        """Return True for an image, except one listed twice or a line of a prompt file."""
        return self.counts and bool(self.generator or self.prompt_id)


def prompt_of(item: Item | InvalidItem) -> str:
    """Return the id of the item's prompt, or the item's id if it has none."""
    return item.prompt_id or item.id


Items = Iterator[Item | InvalidItem]


PEOPLE, CONSTRUCTION = "people", "construction"  # whose preferences pairs are


PREFERENCES = {"a": 1, "tie": 0, "b": -1}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two images of one prompt and which of them people prefer.

    Attributes:
        prompt_id: Id of the prompt.
        a: Id of one image.
        b: Id of the other.
        preference: `a`, `b` or `tie`.
        source: The origin of the preference, if known; CONSTRUCTION if it follows from how the images were made.
        both_bad: Whether the tie is one of two bad images.
        ranks: The ranks that people gave to `a` and `b` among the images of the prompt (1 is best), if the
            preference comes from them.
        family: Name of the family of the prompt (`stats.scores.families`); empty if it has none.
        annotator: The only person who made the choice, if known.
    """

    prompt_id: str
    a: str
    b: str
    preference: str
    source: str = ""
    both_bad: bool = False
    ranks: tuple[float, float] | None = field(default=None, compare=False)
    family: str = field(default="", compare=False)
    annotator: str = field(default="", compare=False)

    @property
    def unit(self) -> str:
        """The unit of statistics: the family of the prompt, or the prompt."""
        return self.family or self.prompt_id

    @property
    def choice(self) -> str:
        """The preference as it is in files: `a`, `b`, `tie` or `both_bad`."""
        return "both_bad" if self.both_bad else self.preference


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image as it is sent.

    Attributes:
        sha256: Hash of the bytes that are sent.
        load: Reads these bytes.
    """

    sha256: str
    media_type: str
    width: int
    height: int
    path: Path
    load: Callable[[], bytes] = field(compare=False, repr=False)


Part = str | ImageFile


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call.

    Attributes:
        name: Its name.
        description: Its purpose, in words for the model.
        parameters: JSON schema (an object) of its arguments.
    """

    name: str
    description: str
    parameters: Values


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool.

    Attributes:
        arguments: JSON, which may be malformed.
        id: Empty if the provider gives none.
        signature: An opaque text that the provider requires back with the call (Gemini's thought signature, Anthropic's
            thinking).
    """

    name: str
    arguments: str
    id: str = ""
    signature: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to a tool call, as text for the model."""

    call: ToolCall
    text: str


Planned = str | Values | tuple[ToolCall, ...]
"""An answer as a dry run makes it up: a text, fields of a structured answer, or tool calls."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    Attributes:
        role: system, user or assistant.
        parts: Texts and images, in order.
        calls: Tool calls of an assistant's turn, after its text.
        results: Their results, in the user's turn that follows, before its text.
    """

    role: str
    parts: tuple[Part, ...]
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def text(self) -> str:
        """Its texts, joined by newlines."""
        return "\n".join(part for part in self.parts if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a model: everything that can change the answer, and in addition `role`, `item_id` and `planned`.

    Attributes:
        provider: Registry name of the provider.
        model: The model's name at the provider.
        messages: The turns of the conversation, in order.
        params: Sampling parameters as they are sent (`max_tokens`, `temperature`, ...).
        schema: JSON schema of a structured answer; None for text.
        base_url: Identity of the address (`Model.base_url`).
        adapter_version: `Provider.version`.
        sample: Number of this answer among repeated ones, from 0.
        attempt: Number of repair turns before it.
        template: Name of the prompt template.
        role: The role that answers, such as `captioner`; not in the key of the answer.
        item_id: The item that the question is about; not in the key of the answer.
        tools: Tools that the model may call.
        choices: Tokens for which the probability at the start of the answer is requested.
        planned: The answer that a dry run assumes.
    """

    provider: str
    model: str
    messages: tuple[Message, ...]
    params: Values = field(default_factory=dict)
    schema: Values | None = None
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
    planned: Planned | None = field(default=None, compare=False, repr=False)

    @property
    def images(self) -> list[ImageFile]:
        """The images of all its messages, in order."""
        return [part for message in self.messages for part in message.parts if isinstance(part, ImageFile)]


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The settings of a provider for the model of one role.

    Attributes:
        model: The model's name at the provider.
        base_url: Its address; several, comma-separated, share the load.
        api_key_env: Environment variable of the key, which is read when the first request is sent and never stored.
        timeout: Longest time for a request, in seconds.
        structured: JSON by the server's schema mode (native), by words in the prompt (prompt), or whichever works
            (auto).
        options: Settings of this provider (dtype, device_map, revision, ...).
        prompts: Folder of the user's prompt templates, for a provider that uses templates itself.
    """

    model: str
    base_url: str = ""
    api_key_env: str = ""
    timeout: float = 120.0
    structured: str = "auto"
    options: Values = field(default_factory=dict)
    prompts: Path | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer, as the provider bills them.

    Attributes:
        input: Tokens of the request, with `cached_input` (read from the provider's cache) and image tokens.
        output: Tokens of the answer, with `thinking`.
        cached_input: Part of `input` that came from the provider's cache.
        thinking: Part of `output` that was hidden thinking.
        image: Part of `input` for images, if the provider reports it.
        cost: USD billed according to the server; None if it reports none.
    """

    input: int = 0
    output: int = 0
    cached_input: int = 0
    thinking: int = 0
    image: int = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached_input + other.cached_input,
            self.thinking + other.thinking,
            self.image + other.image,
            None if self.cost is None and other.cost is None else (self.cost or 0.0) + (other.cost or 0.0),
        )


EMPTY = "empty"  # flag of a reply that ended without a word
NO_ANSWER = "no-answer"  # flag of an UNPARSED reply whose text is kept to be looked at, and never read as an answer


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a model to a request.

    Attributes:
        text: The answer.
        status: The outcome; only `OK` and `TRUNCATED` have an answer.
        reason: Why the status is not OK.
        usage: Tokens that the provider bills.
        finish_reason: The provider's word for why the model stopped.
        model_version: The model that answered, as the provider reports it.
        endpoint: The address that answered, without credentials.
        list_cost: List price in USD; None if unknown.
        seconds: Duration of the request.
        cached: Whether it comes from the cache, and so costs nothing now.
        key: Its key in cache and recordings.
        flags: Unusual properties (`unwrapped`, `json-repaired`, ...).
        data: The validated object of a structured answer.
        tool_calls: The tool calls, if the request offered tools.
        first_token: Probabilities of the first token, if the request has `choices`.
        probabilities: Probability of each choice, 0 to 1, if `ask` was given choices.
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
    """The embedding of a text.

    Attributes:
        vector: NumPy array of float32, shape (dim,), with Euclidean norm 1.
        tokens_used: Tokens that the model read.
        tokens_total: Tokens of the text.
        tokens_billed: Tokens that the provider bills; None if it does not report them.
        cost: USD billed according to the server; None if it reports none.
    """

    vector: Any
    tokens_used: int
    tokens_total: int
    tokens_billed: int | None = None
    cost: float | None = None

    @property
    def cut(self) -> bool:
        """Return True if the text was truncated."""
        return self.tokens_used < self.tokens_total


class FailureKind(StrEnum):
    """A provider's classification of an exception; `engine/retry.py` decides what follows."""

    RETRY = "retry"  # 408, 409, 500, 502, 504, connection, timeout, an answer that the server broke off
    RATE_LIMIT = "rate_limit"  # 429: retried, with a lower concurrency
    LATER = "later"  # 503, 529: the server is overloaded or away; retried, with the patience and the pace of a 429
    UNUSABLE = "unusable"  # an answer with a status of success that contains no reply: kept, and not paid again
    REFUSED = "refused"  # a content filter answered with an error
    REJECTED = "rejected"  # 400, 413, 422: this request will never succeed
    BARRED = "barred"  # 403, 404, 405: no request will succeed, or, if others do, this one will not
    FATAL = "fatal"  # 401, no such model, no quota: no request will succeed

    @property
    def may_pass(self) -> bool:
        """True if the same request may succeed later."""
        return self in (FailureKind.RETRY, FailureKind.RATE_LIMIT, FailureKind.LATER)


@dataclass(frozen=True, slots=True)
class Failure:
    """A classified exception.

    Attributes:
        kind: The kind of failure, on which the engine acts.
        message: The reason in one line, without keys.
        retry_after: Seconds to wait, as requested by the server.
        usage: Tokens that were billed for the failed request, if the provider reports them.
        maybe_billed: The request was sent and its cost is unknown: it may have been billed.
        not_sent: There was no connection.
        slow: No complete answer came in the time allowed.
        answered: The server answered with a status of success, but unusably: a retry is likely to be billed again.
        reply: The incomplete answer, which is kept if no attempt brings more.
    """

    kind: FailureKind
    message: str
    retry_after: float | None = None
    usage: Usage | None = None
    maybe_billed: bool = False
    not_sent: bool = False
    answered: bool = False
    reply: Reply | None = None
    slow: bool = False

    @property
    def cause(self) -> Cause:
        """Why there is no answer if no further attempt brings one."""
        if not self.kind.may_pass:
            return Cause.REJECTED
        is_crowded = self.slow or self.retry_after or (self.kind is not FailureKind.RETRY and not self.not_sent)
        return Cause.CROWDED if is_crowded else Cause.UNANSWERED


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a metric for an item, or the reason why there is none.

    >>> Score.of(80, reason="all objects are present").value, Score.none(Status.REFUSED, "content filter").value
    (80.0, None)

    Attributes:
        item_id: The id of the item.
        metric: Name of the metric.
        value: In the metric's range; None if there is no score.
        status: The outcome.
        reason: The judge's reason, or the problem.
        parts: Numbers and lists behind the value (JSON types only).
        replies: Keys of the replies it was computed from.
        generator: The generator of the image.
        prompt_id: The id of the prompt.
        cause: The cause of the failure, if the status is `failed`; the engine adds it.
    """

    item_id: str
    metric: str
    value: float | None
    status: Status = Status.OK
    reason: str = ""
    parts: Values = field(default_factory=dict)
    replies: tuple[str, ...] = ()
    generator: str = ""
    prompt_id: str = ""
    cause: Cause | None = None

    @classmethod
    def of(cls, value: float, *, reason: str = "", status: Status = Status.OK, **parts: Any) -> Score:
        """Make a score with a value, as a metric returns it; the engine adds item, metric and replies.

        Args:
            value: A number in the range of the metric.
            reason: The judge's reason, for people.
            status: `OK`, or `TRUNCATED` under the official protocol.
            **parts: Numbers and lists behind the value (JSON types only).
        """
        return cls("", "", float(value), status, reason, parts)

    @classmethod
    def none(cls, status: Status, reason: str, **parts: Any) -> Score:
        """Make a score without a value, as a metric returns it.

        Args:
            status: Why there is no value.
            reason: The reason in one line.
            **parts: Numbers and lists that are known all the same (JSON types only).
        """
        return cls("", "", None, status, reason, parts)


class Ask(Protocol):
    """The interface by which a metric asks models; `titjudge.engine.ask.BoundAsk` implements it.

    Attributes:
        protocol: official (as published) or strict.
        siblings: The other images of the item's prompt, for metrics with `scope="prompt"`; otherwise empty.
        dry_run: Whether answers are made up to count requests.
    """

    protocol: str
    siblings: Sequence[Item]
    dry_run: bool

    async def __call__(
        self,
        template: str,
        *,
        role: str,
        images: Sequence[Path] = (),
        schema: type[Any] | None = None,
        accept_truncated: bool = False,
        accept_empty: bool = False,
        describes: bool = False,
        sample: int = 0,
        params: Values | None = None,
        tools: Sequence[Tool] = (),
        turns: Sequence[Message] = (),
        choices: Choices = (),
        planned: Planned | None = None,
        **variables: Any,
    ) -> Reply:
        """Ask one question of a role.

        Args:
            template: Name of the prompt template, such as `tit/describe`.
            role: captioner, judge, or `provider/model`.
            images: Image files, in the order in which they are shown.
            schema: A pydantic model; the reply's `data` is an instance of it.
            accept_truncated: Whether to return an answer that hit its token limit (the official TIT protocol does).
            accept_empty: Whether to return an answer without a word, with an empty text; otherwise it is kept as `unparsed`.
            describes: Whether the answer must describe an image; an answer that refuses or sees no image is then refused.
            sample: Number of this answer among repeated ones, from 0 (see `titjudge.engine.ask`).
            params: Sampling parameters of the protocol; the configuration of the role has priority.
            tools: Tools that the model may call; only if `has_tools` is True.
            turns: The conversation after the question.
            choices: Answers of one token, such as ("yes", "no"); the reply's `probabilities` has the probability of each, all
                its spellings together (case, with a blank before it or without). A mapping names the tokens of each
                itself: {"Yes": ["Yes"]}. A template that declares a variable of this name gets it as that.
            planned: The answer that a dry run assumes: a text, fields of the structured answer (the others are the
                smallest that validate), or tool calls. A run ignores it. It is for metrics whose next question depends
                on the answer; without it a dry run takes the smallest answer that validates.
            **variables: Values of the template's variables.

        Raises:
            Unanswered: There is no usable answer; a metric need not catch it: it becomes a score without a value.
        """
        ...

    def has_tools(self, role: str) -> bool:
        """Return True if the model of a role supports native tool calls."""
        ...

    def has_role(self, role: str) -> bool:
        """Return True if a model is configured for a role: for one that the metric can do without."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed texts with the model of the role `embedder`, in order."""
        ...
