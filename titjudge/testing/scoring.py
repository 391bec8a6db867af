"""Score one item by a metric, with scripted answers instead of models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from titjudge.core.config import load_config
from titjudge.core.types import Item, Json, Reply, Request, Score
from titjudge.engine.cache import open_cache
from titjudge.engine.scoring import score_item
from titjudge.metrics import Metric
from titjudge.providers import Capabilities, Embedder, Provider
from titjudge.providers.fake import Fake
from titjudge.runs.open_run import open_engine

Answer = str | Reply | Exception
Answers = Callable[[Request], Answer] | Iterable[Answer] | None


class Scored(NamedTuple):
    """A score, and how it came about.

    Attributes:
        score: The score, with its status, reason and parts.
        requests: The requests to the model, in order.
    """

    score: Score
    requests: list[Request]


def score_one(
    metric: Metric,
    item: Item,
    answers: Answers | Provider = None,
    *,
    embedder: Embedder | None = None,
    capabilities: Capabilities | None = None,
    cache: Path | None = None,
    **config: Any,
) -> Scored:
    """Score an item as a run does: with the prompt templates, the schema checks and repeated questions of a run.

    Args:
        metric: The metric.
        item: The item to score; the other images of its prompt are `item.same_prompt`.
        answers: The answers of every role: texts, Replies or exceptions, in order, or a function of the Request; by default
            something that the metric can read. Only the fake provider keeps its requests.
        embedder: Makes the vectors; without it no metric may ask for any.
        capabilities: Abilities of the model, such as `Capabilities(tools=True)`.
        cache: A folder in which answers are kept from one call to the next.
        **config: Keys of run.yaml, such as `protocol` or `prompts`.

    Returns:
        The score and the requests. A question without a usable answer makes a score without a value.

    Raises:
        ConfigError: A key of the configuration is unknown, or the model cannot be asked this way.
    """
    model = answers if isinstance(answers, Provider) else Fake(None, answers, capabilities=capabilities)
    config = {"captioner": "fake/captioner", "judge": "fake/judge", **config}
    score = asyncio.run(_score(metric, item, model, embedder, cache, config))
    return Scored(score, model.requests if isinstance(model, Fake) else [])


async def _score(
    metric: Metric, item: Item, model: Provider, embedder: Embedder | None, cache: Path | None, config: Json
) -> Score:
    run = load_config(None, config)
    make_embedder = None if embedder is None else lambda _: embedder
    with open_cache(cache) if cache else nullcontext() as kept:
        async with open_engine(run, kept, make=lambda _: model, embedder=make_embedder) as engine:
            return await score_item(engine, item, metric.name, metric)
