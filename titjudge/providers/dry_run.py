"""Substitutes for models that send nothing and count the requests, for dry runs and reservations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from titjudge.core.answer_probabilities import FirstToken
from titjudge.core.serialization import request_key
from titjudge.core.structured_output import smallest
from titjudge.core.types import Embedding, Reply, Request, ToolCall, Usage
from titjudge.providers import token_counts
from titjudge.providers.base import Embedder, Provider, WrappedProvider
from titjudge.providers.token_counts import fitted


def made_up_reply(request: Request, usual: str) -> Reply:
    """Make up a reply: the answer that the metric plans with, otherwise the smallest of the schema, otherwise `usual`.

    All choices are equally likely to be its first token.
    """
    text, calls = _answer(request, usual)
    likely = math.log(1 / len(request.choices)) if request.choices else 0.0
    first = FirstToken(tuple((token, likely) for token in request.choices)) if request.choices else None
    return Reply(text, finish_reason="stop", tool_calls=calls, first_token=first)


def _answer(request: Request, usual: str) -> tuple[str, tuple[ToolCall, ...]]:
    planned = request.planned
    if isinstance(planned, str):
        return planned, ()
    if isinstance(planned, tuple):
        return usual, planned
    if request.schema is None:
        return usual, ()
    return smallest(request.schema, planned), ()


Lengths = tuple[int, int, int]  # output tokens at p10, p50, p90
BLANK_VECTOR = "AAAAAA=="  # one zero, as vectors are kept
_MODEL = "estimate"
_WORDS_PER_TOKEN = 0.75
_THINKING = (0.05, 0.15, 0.40)  # share of the allowance, if a model thinks and nothing better is known


@dataclass(frozen=True, slots=True)
class Expected:
    """One request as it would be sent.

    Attributes:
        low, middle, high: Usages at p10, p50 and p90.
        bound: The usage in the worst case.
        structured: The answer must fit a schema, so that there may be a repair turn.
        saved: Image tokens that scaling saves.
    """

    key: str
    item_id: str
    role: str
    template: str
    low: Usage
    middle: Usage
    high: Usage
    bound: Usage
    structured: bool = False
    saved: int = 0


class EstimateProvider(WrappedProvider):
    """Replace another provider in a dry run.

    Args:
        real: The provider that would be asked; nothing is sent to it.
        lengths: Expected output tokens of a template, or None when nothing is known.
        sink: Gets one Expected for each request.
    """

    def __init__(
        self, real: Provider, lengths: Callable[[str], Lengths | None], sink: Callable[[Expected], None]
    ) -> None:
        super().__init__(real)
        self._lengths, self._sink = lengths, sink
        self.capabilities = replace(real.capabilities, direct=True)

    async def complete(self, request: Request) -> Reply:
        if self.is_free:
            if self.name == "recorded":
                return await self.real.complete(request)
            bound = low = middle = high = Usage()
            words, saved = 300, 0
        else:
            bound = self.real.usage_bound(request)
            low, middle, high = self._expect(fitted(request), bound)
            saved = self._image_tokens(request) - middle.image
            words = int((middle.output - middle.thinking) * _WORDS_PER_TOKEN)
        key, structured = request_key(request), request.schema is not None
        self._sink(
            Expected(key, request.item_id, request.role, request.template, low, middle, high, bound, structured, saved)
        )
        reply = made_up_reply(request, f"{key} " + "words " * words)
        return replace(reply, usage=middle, model_version=_MODEL, endpoint=_MODEL)

    def _expect(self, request: Request, bound: Usage) -> tuple[Usage, Usage, Usage]:
        """Estimate the usage at p10, p50 and p90."""
        most = int(request.params.get("max_tokens", bound.output) or bound.output)
        allowance = self.capabilities.thinking
        budget = request.params.get("thinking_budget")
        thought = allowance if budget is None or budget < 0 else int(budget)
        answer = max(1, most - (thought if allowance else 0))
        lengths: Sequence[float] = self._lengths(request.template) or (0.05 * answer, 0.2 * answer, 0.6 * answer)
        images = self._image_tokens(request)
        text = sum(token_counts.text_tokens_estimate(message.text) for message in request.messages)
        if request.schema:
            text += token_counts.text_tokens_estimate(str(request.schema))
        if request.tools:
            text += token_counts.text_tokens_estimate(token_counts.tools_text(request))
        out = []
        for length, share in zip(lengths, _THINKING, strict=True):
            thinking = int(thought * share)
            out.append(Usage(text + images, min(int(length), answer) + thinking, thinking=thinking, image=images))
        return out[0], out[1], out[2]

    def _image_tokens(self, request: Request) -> int:
        model, detail = self.listed_as or request.model, str(request.params.get("detail", ""))
        return sum(token_counts.image_tokens(self.name, model, p.width, p.height, detail) for p in request.images)


class _Zeros:
    """A vector of zeros. It loads NumPy, which takes as long as the rest of a small plan, only for more than a cosine."""

    def astype(self, kind: str) -> _Zeros:
        return self

    def __matmul__(self, other: _Zeros) -> float:
        return 0.0

    def __array__(self, *kind: Any, **copy: Any) -> Any:
        import numpy as np

        return np.zeros(1, *kind)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # NumPy would read the memory of an array that is gone
            raise AttributeError(name)
        return getattr(self.__array__("float32"), name)

    def __len__(self) -> int:
        return 1

    def __getitem__(self, place: Any) -> Any:
        return self.__array__("float32")[place]


class EstimateEmbedder(Embedder):
    """Replace an embedder: its name and identity, so that the cache is consulted; vectors of zeros, no model."""

    def __init__(self, real: Embedder, sink: Callable[[int], None]) -> None:
        self.name, self.identity = real.name, real.identity
        self.max_tokens, self.base_url = real.max_tokens, real.base_url
        self._free = real.is_free
        self._sink = sink
        self._seen: set[int] = set()

    @property
    def is_free(self) -> bool:
        return self._free

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        out = []
        for text in texts:
            count = token_counts.text_tokens_estimate(text)
            if hash(text) not in self._seen:
                self._seen.add(hash(text))
                self._sink(count)
            out.append(Embedding(_Zeros(), count, count))
        return out
