"""Hosted embedding models: any OpenAI-compatible `/embeddings`, and Gemini's `:embedContent`.

One text per request: usage is then known for each text. No instruction, and no task type unless the option sets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from titjudge.core.errors import ConfigError
from titjudge.core.types import Embedding, FailureKind, Json, ProviderSettings, Usage, Values
from titjudge.providers.base import Embedder
from titjudge.providers.hosted import http
from titjudge.providers.hosted.base import Hosted
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.http import unreadable
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.token_counts import text_tokens_estimate
from titjudge.providers.usage import billed_cost, token_count

OPTIONS = frozenset({"dimensions", "max_length", "task_type"})
# tokens; ai.google.dev, Embeddings
GEMINI_LIMITS = (("gemini-embedding-001", 2048), ("text-embedding-", 2048), ("", 8192))


def _unit(values: Sequence[float]) -> Any:
    """Scale `values` to a float32 unit vector, shape (dim,).

    Raises:
        ValueError: It has no direction.
    """
    import numpy as np

    vector = np.asarray(values, dtype=np.float64)
    norm = float(np.linalg.norm(vector)) if vector.ndim == 1 else 0.0
    if not (0 < norm < float("inf")):
        raise ValueError("a vector without direction")
    return (vector / norm).astype(np.float32)


def _usage(billed: int | None, cost: float | None = None) -> Usage | None:
    return None if billed is None and cost is None else Usage(input=billed or 0, cost=cost)


class HostedEmbedder(Hosted, Embedder):
    """An embedding model behind a network, asked for one text a request."""

    local = False
    version = 1
    option_names = OPTIONS
    default_limit = 8191
    """Tokens that the model reads, without the option `max_length`."""
    further: tuple[str, ...] = ()
    """Further options that change a vector."""

    def __init__(self, model: str, settings: ProviderSettings, transport: http.Transport | None = None) -> None:
        api = self.name
        if not model:
            raise ConfigError(f"'{api}' has no model. Write {api}/MODEL")
        super().__init__(settings, transport)
        self.name = f"{api}/{model}"
        self.max_tokens = int(settings.options.get("max_length", self.default_limit))
        self.identity = {
            "api": api,
            "model": self.model,
            "base_url": self.base_url,
            "dimensions": settings.options.get("dimensions", 0),
            **{name: settings.options.get(name, "") for name in self.further},
            "adapter": self.version,
        }

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed each text as a unit vector, in order.

        Raises:
            ConfigError: There is no key.
            ProviderFailure, TransportError: There is no vector; see `classify`.
        """
        return list(await asyncio.gather(*(self._embed_one(text) for text in texts)))

    async def _embed_one(self, text: str) -> Embedding:
        raise NotImplementedError


class OpenAIEmbedder(HostedEmbedder, OpenAI):
    """One model behind `/embeddings`: OpenAI, vLLM, TEI, llama.cpp, Ollama and others that speak the same.

    `options`: `dimensions` (sent), `max_length` (tokens that the model reads; 8191 at OpenAI). OpenAI rejects a longer text
    (it becomes a failed score). A server that cuts silently reports at most its limit: a text whose reported tokens reach
    `max_length`, and whose estimate is longer, counts as cut.
    """

    async def _embed_one(self, text: str) -> Embedding:
        body: Json = {"model": self.model, "input": text, "encoding_format": "float"}
        if self.settings.options.get("dimensions"):
            body["dimensions"] = int(self.settings.options["dimensions"])
        answer, _ = await self._post("/embeddings", orjson.dumps(body))
        if not answer.is_success:
            raise self.read_error(answer)
        billed = cost = None
        try:
            data = answer.json()
            usage = data.get("usage") or {}
            cost = billed_cost(usage, answer.headers)
            billed = max(token_count(usage.get(name)) or 0 for name in ("prompt_tokens", "total_tokens")) or None
            vector = _unit(data["data"][0]["embedding"])
        except Exception:  # it came with a status of success, so it may be billed
            raise self.unusable(
                f"the answer has no vector: {unreadable(answer.body)}", _usage(billed, cost), FailureKind.RETRY
            ) from None
        estimate = text_tokens_estimate(text)
        used = billed or estimate
        return Embedding(vector, used, max(used, estimate) if used >= self.max_tokens else used, billed, cost)


class GeminiEmbedder(HostedEmbedder, Gemini):
    """One model behind `:embedContent`. Google cuts long texts without saying so: their tokens are counted first.

    `options`: `dimensions` (outputDimensionality), `task_type` (none is sent by default), `max_length` (tokens).
    """

    further = ("task_type",)

    def __init__(self, model: str, settings: ProviderSettings, transport: http.Transport | None = None) -> None:
        bare = model.removeprefix("models/")
        self.default_limit = next(limit for start, limit in GEMINI_LIMITS if bare.startswith(start))
        super().__init__(model, settings, transport)
        if self.vertex or self.express:
            raise ConfigError(
                "Vertex AI can be used for chat models only. Choose another embedder, or unset GOOGLE_GENAI_USE_VERTEXAI"
            )

    async def _embed_one(self, text: str) -> Embedding:
        content = {"parts": [{"text": text}]}
        total, billed = text_tokens_estimate(text), 0
        if len(text.encode("utf-8", "replace")) > self.max_tokens:  # a token has at least one byte: shorter texts fit
            counted = await self._ask("countTokens", {"contents": [{**content, "role": "user"}]})
            total = token_count(counted.get("totalTokens")) or 0
            billed = total
            if not total:
                raise self.failure(FailureKind.REJECTED, "the server does not report the number of tokens")
        body: Json = {"model": f"models/{self.model.removeprefix('models/')}", "content": content}
        options = self.settings.options
        if options.get("task_type"):
            body["taskType"] = str(options["task_type"])
        if options.get("dimensions"):
            body["outputDimensionality"] = int(options["dimensions"])
        data = await self._ask("embedContent", body)
        try:
            usage = data.get("usageMetadata") or {}
            reported = max(token_count(usage.get(name)) or 0 for name in ("promptTokenCount", "totalTokenCount"))
            total, billed = max(total, reported), reported or billed
            vector = _unit(data["embedding"]["values"])
        except Exception:  # it came with a status of success, so it may be billed
            raise self.unusable("the answer has no vector", _usage(billed or None), FailureKind.RETRY) from None
        return Embedding(vector, min(total, self.max_tokens), total, billed or None)

    async def _ask(self, verb: str, body: Values) -> Json:
        """Call a method of the model, such as `embedContent`, and return its answer.

        Raises:
            ProviderFailure, TransportError: There is none.
        """
        path = self.path.rpartition(":")[0]
        answer, _ = await self._post(f"{path}:{verb}", orjson.dumps(body))
        if not answer.is_success:
            raise self.read_error(answer)
        try:
            data = answer.json()
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise self.unusable(unreadable(answer.body), kind=FailureKind.RETRY)
        return data


__all__ = ["GeminiEmbedder", "OpenAIEmbedder"]
