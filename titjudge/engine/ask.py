"""`ask` as a metric sees it: the one way to put a question to a model.

Repeated requests have sample numbers, with a range for each purpose. The number is part of a reply's cache key (`titjudge.core.serialization`): the same question with another number is asked again.
So that no two requests share a reply by accident, the numbers are assigned here:

    the k-th judgement of a run (`samples`)      100 k + attempt; for the judge only, other roles are asked once
    the k-th repetition of a probe               100 k + attempt; for all roles
    the k-th round of canaries                   1,000,000 + 1,000 k + attempt; for all roles

A probe's repetitions thus share the judge's replies with a run that has as many samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from titjudge.core.answer_probabilities import Choices, probabilities, tokens_by_choice
from titjudge.core.errors import ConfigError, DataError, Unanswered
from titjudge.core.types import Cause, Embedding, ImageFile, Item, Json, Message, Planned, Reply, Status, Tool, Values
from titjudge.engine.budget import Reservation
from titjudge.engine.pipeline import Engine, ReplyRules
from titjudge.engine.roles import ProviderRole


class Purpose(StrEnum):
    """Why a question is asked again."""

    JUDGEMENT = "judgement"
    PROBE = "probe"
    CANARY = "canary"


_FIRST_AND_STEP = {Purpose.JUDGEMENT: (0, 100), Purpose.PROBE: (0, 100), Purpose.CANARY: (1_000_000, 1_000)}


@dataclass(frozen=True, slots=True)
class Sample:
    """One repetition of a request.

    Attributes:
        repeat: Number of the repetition of the whole judgement, from 0.
        attempt: Number of the attempt of the metric within it, from 0 (the `sample` that a metric passes to `ask`).
        purpose: Why it is repeated.
    """

    repeat: int = 0
    attempt: int = 0
    purpose: Purpose = Purpose.JUDGEMENT

    @property
    def number(self) -> int:
        """The sample number of the request.

        Raises:
            ValueError: It would be in the range of another repetition or purpose.
        """
        first, step = _FIRST_AND_STEP[self.purpose]
        if self.repeat and self.attempt >= step:
            raise ValueError(f"a repeated judgement has sample numbers for {step} attempts, not {self.attempt + 1}")
        number = first + step * self.repeat + self.attempt
        if self.repeat and self.purpose is not Purpose.CANARY and number >= _FIRST_AND_STEP[Purpose.CANARY][0]:
            raise ValueError(f"there are sample numbers for 10,000 repetitions, not {self.repeat + 1:,}")
        return number

    def repeats(self, role: str) -> bool:
        """Return True if the requests to a role are repeated: in a run those to the judge, in probes and canaries all."""
        return role == "judge" or self.purpose is not Purpose.JUDGEMENT


ONCE = Sample()


def problem_of(error: DataError, item: Item) -> str:
    """Return the fault of a file of an item, with its path below the data folder unless it is the item's image."""
    place, image = str(error.path or ""), str(item.image)
    root = image.removesuffix(item.id)
    if root in ("", image) or not place.startswith(root):
        return str(error)
    return error.message if place == image else f"{place.removeprefix(root)}: {error.message}"


class BoundAsk:
    """Ask on behalf of one item.

    Args:
        engine: Sends the questions.
        item: The item to judge.
        reservation: The part of the budget that is reserved for the item.
        alias: Roles whose place another role takes, by name.
        sample: Which repetition of the judgement this is.

    Attributes:
        keys: Of the answers that were used, in order.
        causes: Why questions have no answer.
    """

    def __init__(
        self,
        engine: Engine,
        item: Item,
        reservation: Reservation | None = None,
        alias: Mapping[str, str] | None = None,
        sample: Sample = ONCE,
    ) -> None:
        self._engine, self._item, self._reservation = engine, item, reservation
        self._alias, self._sample = alias or {}, sample
        self.protocol, self.dry_run = engine.protocol, engine.dry_run
        self.siblings: Sequence[Item] = tuple(other for other in item.same_prompt if other.id != item.id)
        self.keys: list[str] = []
        self.causes: list[Cause | None] = []
        self._opened: set[Path] = set()

    def done(self) -> None:
        """Forget the images that were opened: they are read again when they are asked for again."""
        for path in self._opened:
            self._engine.images.forget(path)

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
        """Ask one question; the arguments are as in `titjudge.core.types.Ask`.

        Raises:
            Unanswered: Refused, truncated, unparsed, failed, or the image cannot be used; no probabilities came.
            ConfigError: The model cannot be asked this way, or the choices cannot be distinguished.
        """
        engine, provider_role = self._engine, self._role(role)
        image_files = await self._open(images)
        if images and not provider_role.provider.capabilities.images:
            raise ConfigError(f"{provider_role.label} cannot read images. Choose another model for {role}")
        if tools and not provider_role.provider.capabilities.tools:
            raise ConfigError(f"{provider_role.label} cannot call tools. Choose another model for {role}")
        prompt = engine.library.get(template)
        if "choices" in prompt.variables:
            variables, choices = {**variables, "choices": choices}, ()
        tokens = self._tokens(choices, provider_role) if choices else {}
        repeated = self._sample if self._sample.repeats(role) else ONCE
        request = engine.request(
            provider_role,
            prompt.messages(variables, image_files),
            template=template,
            item_id=self._item.id,
            schema=schema,
            params={**(_one_token(provider_role) if tokens else {}), **(params or {})},
            choices=tuple(token for spellings in tokens.values() for token in spellings),
            sample=Sample(repeated.repeat, sample, repeated.purpose).number,
            planned=planned,
        )
        if tools:
            request = replace(request, tools=tuple(tools), messages=(*request.messages, *turns))
        try:
            reading = ReplyRules(schema, accept_truncated, accept_empty, describes)
            reply = await engine.answer(provider_role, request, reading, self._reservation)
        except Unanswered as failure:
            self.causes.append(failure.cause)
            if failure.reply is not None:
                self.keys.append(failure.reply.key)
            raise
        self.keys.append(reply.key)
        return self._with_probabilities(reply, tokens)

    def _role(self, name: str) -> ProviderRole:
        return self._engine.roles[self._alias.get(name, name)]

    async def _open(self, paths: Sequence[Path]) -> list[ImageFile]:
        """Open images, and remember which, for `done`.

        Raises:
            Unanswered: One cannot be used.
        """
        self._opened.update(paths)
        try:
            return [await self._engine.images.open(path) for path in paths]
        except DataError as error:
            raise Unanswered(Status.BAD_INPUT, problem_of(error, self._item)) from error

    @staticmethod
    def _tokens(choices: Choices, role: ProviderRole) -> dict[str, tuple[str, ...]]:
        """List the tokens of each choice."""
        try:
            tokens = tokens_by_choice(choices)
        except ValueError as error:
            raise ConfigError(f"choices: {error}. Correct the choices of the metric") from error
        if tokens and not role.provider.capabilities.probabilities:
            raise Unanswered(Status.FAILED, f"{role.label} returns no probabilities of answers. Choose another model")
        return tokens

    @staticmethod
    def _with_probabilities(reply: Reply, tokens: Mapping[str, Sequence[str]]) -> Reply:
        if reply.first_token is None or not tokens:
            return reply
        try:
            return replace(reply, probabilities=probabilities(reply.first_token, tokens))
        except ValueError as error:
            raise Unanswered(Status.UNPARSED, str(error), reply) from error

    def has_tools(self, role: str) -> bool:
        """Whether the model of a role calls tools natively. It may turn out in the middle of a run that it does not."""
        return self._role(role).provider.capabilities.tools

    def has_role(self, role: str) -> bool:
        """Whether a model is configured for a role."""
        return self._engine.roles.config.role(self._alias.get(role, role)) is not None

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed texts as unit vectors, in order."""
        pairs = await self._engine.embed(texts, self._reservation)
        self.keys.extend(key for key, _ in pairs)
        return [vector for _, vector in pairs]


def _one_token(role: ProviderRole) -> Json:
    """Return the parameters of an answer of one token; at temperature 0 a server returns the model's own probabilities."""
    most = role.config.top_logprobs
    return {"max_tokens": 1, "temperature": 0, **({"top_logprobs": most} if most else {})}
