"""The costs of the answers behind the scores of a run: requests, looks, tokens and list price, by metric and by image.

Unpaid answers (recorded ones, or from a local model) are priced as if a hosted model had given them: their
tokens are estimated from the texts that were sent and answered, and from the sizes of the images.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from math import fsum
from pathlib import Path
from typing import Any

from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.errors import ConfigError, TitjudgeError
from titjudge.core.numbers import known_sum
from titjudge.core.registry import listed
from titjudge.core.tables import Table, plain
from titjudge.core.types import Item, Json, Note, Usage, Values
from titjudge.data.images import ImageFiles
from titjudge.engine.prices import UserPrices, price_of
from titjudge.providers.token_counts import image_tokens, text_tokens_estimate
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.stats.verdict.judged_runs import whole_frame

COSTS = Declaration(
    "costs",
    "answers behind the scores, and their cost",
    Population.ANSWERS,
    Unit.IMAGE,
    order="order of the metrics",
    counts="images",
)

_USUAL_SIZE = 1024, 1024  # of an image that is not at hand


@dataclass(frozen=True, slots=True)
class AnswerCost:
    """The cost of one answer, or of all answers behind one score.

    Attributes:
        requests: Questions that were answered; one that several scores use counts for each of them.
        looks: Those of them that show an image.
        input, output: Tokens.
        cost: USD at list price; None if no price is known.
        estimated: Questions whose tokens are estimated.
    """

    requests: int
    looks: int
    input: int
    output: int
    cost: float | None
    estimated: int


@dataclass(frozen=True, slots=True)
class MetricCost:
    """The cost of the scores of a metric.

    Attributes:
        images: By image, in the order of the scores.
    """

    metric: str
    images: Mapping[str, AnswerCost]

    def mean(self, name: str) -> float | None:
        """Average a number over the images; None if it is unknown for one of them."""
        values = [getattr(cost, name) for cost in self.images.values()]
        return None if None in values else fsum(values) / len(values)

    def row(self) -> tuple[Any, ...]:
        """Return the cells of the metric: means of an image, and USD for 1,000 images."""
        price = self.mean("cost")
        counts = (plain(self.mean(name), digits=2) for name in ("requests", "looks"))
        tokens = (plain(self.mean(name), digits=0) for name in ("input", "output"))
        return self.metric, len(self.images), *counts, *tokens, None if price is None else plain(1000 * price, digits=2)

    def to_json(self) -> Json:
        names = [field.name for field in fields(AnswerCost)]
        images = {id: {name: getattr(cost, name) for name in names} for id, cost in self.images.items()}
        return {"metric": self.metric, "means": {name: self.mean(name) for name in names}, "images": images}


class Pricing:
    """Prices answers: as they were billed, or as another model would bill them.

    Args:
        priced_as: `provider/model` that every answer is priced as; empty to take what each has cost.
        prices: The user's prices.

    Raises:
        ConfigError: The model has no price.
    """

    def __init__(self, priced_as: str = "", prices: UserPrices | None = None) -> None:
        self.name, self._prices = priced_as, prices
        self._provider, _, self._model = priced_as.partition("/")
        self._price = price_of(self._provider, self._model, prices) if priced_as else None
        if priced_as and self._price is None:
            raise ConfigError(f"the price of {priced_as} is unknown. Add --price {priced_as}=INPUT,OUTPUT")

    def cost(self, reply: Values, sizes: Mapping[str, tuple[int, int]]) -> AnswerCost:
        """Price an answer; `sizes` are the sizes of the images by the hash of their bytes."""
        texts, images = _texts_and_images(reply["messages"])
        used = Usage(*reply["usage"])
        estimated = self._price is not None and not (used.input and used.output)
        if estimated:
            used = self._estimate(texts, [sizes.get(image, _USUAL_SIZE) for image in images], str(reply["text"]))
        cost = list_price(reply, self._prices) if self._price is None else self._price.cost(used)
        return AnswerCost(1, bool(images), used.input, used.output, cost, estimated)

    def _estimate(self, texts: Iterable[str], sizes: Iterable[tuple[int, int]], answer: str) -> Usage:
        provider, model = listed(self._provider, self._model)
        tokens = sum(image_tokens(provider, model, *size) for size in sizes)
        return Usage(sum(map(text_tokens_estimate, texts)) + tokens, text_tokens_estimate(answer), image=tokens)


def list_price(reply: Values, prices: UserPrices | None) -> float | None:
    """Return the list price of a stored answer in USD: the stored one, otherwise by the user's prices; None if neither is known."""
    stored = reply.get("list_cost")
    if stored is not None:
        return float(stored)
    price = price_of(str(reply.get("provider", "")), str(reply.get("model", "")), prices or {})
    return None if price is None else price.cost(Usage(*reply["usage"]))


def answer_costs(run: RunFolder, pricing: Pricing) -> list[MetricCost]:
    """Compute what the answers behind the scores of a run took, by metric in the order of the run.

    A score whose answers are not in the folder is left out.
    """
    frame = whole_frame(run)
    sizes = asyncio.run(_sizes(frame.items(str(run.path)))) if pricing.name else {}
    # a repair turn is part of the answer that it repaired
    answers = {reply["key"]: pricing.cost(reply, sizes) for reply in run.replies() if not reply["attempt"]}
    metrics: dict[str, dict[str, AnswerCost]] = {}
    for name in frame.metrics:
        for _, item, score in frame.rows(name):
            if costs := [answers[key] for key in score.replies if key in answers]:
                metrics.setdefault(name, {})[item.id] = _together(costs)
    return [MetricCost(metric, images) for metric, images in metrics.items()]


def costs_table(costs: Iterable[MetricCost], pricing: Pricing) -> Table:
    """Tabulate what an image took by each metric."""
    costs = list(costs)
    columns = ("metric", "images", "requests", "looks", "tokens in", "tokens out", "USD per 1,000")
    estimated = sum(cost.estimated for metric in costs for cost in metric.images.values())
    means = (
        "Means of an image. Requests: questions to models, also if answered from a cache or a file; looks: requests that show "
        "an image. Requests shared by several metrics count for each of them. Embeddings are not counted."
    )
    prices = f"Prices are list prices of {pricing.name or 'the models that answered'}."
    notes = [Note("about_answer_costs", means), Note("list_prices", prices)]
    if estimated:
        notes.append(Note("tokens_estimated", f"The tokens of {estimated:,} answers are estimated."))
    if any(not cost.input and not cost.output for metric in costs for cost in metric.images.values()):
        line = "Recorded answers have no tokens: --priced-as openai/gpt-6-luna estimates them."
        notes.append(Note("answers_without_tokens", line))
    return Table("What the answers cost", columns, tuple(metric.row() for metric in costs), tuple(notes), declared=COSTS,
                 keys=("metric", "images", "requests", "looks", "input", "output", "price"))  # fmt: skip


def _texts_and_images(messages: Iterable[Any]) -> tuple[list[str], list[str]]:
    """Return the texts and the hashes of the images of stored messages."""
    parts = [part for _, *turn in messages for part in turn]
    texts = [part for part in parts if isinstance(part, str)]
    return texts, [str(part["image"]) for part in parts if isinstance(part, Mapping) and "image" in part]


def _together(costs: list[AnswerCost]) -> AnswerCost:
    def total(name: str) -> int:
        return sum(getattr(cost, name) for cost in costs)

    price = known_sum(fsum(cost.cost or 0.0 for cost in costs), sum(cost.cost is None for cost in costs))
    return AnswerCost(total("requests"), total("looks"), total("input"), total("output"), price, total("estimated"))


async def _sizes(items: Iterable[Item]) -> dict[str, tuple[int, int]]:
    """Return the sizes of the images that are still there, by the hash of their bytes."""
    files, paths = ImageFiles(decode=False), set[Path]()
    for item in items:
        paths.update(path for path in (item.image, *item.sources) if path is not None)
    sizes = {}
    for path in sorted(paths):
        try:
            image = await files.open(path)
        except (OSError, TitjudgeError):
            continue
        sizes[image.sha256] = (image.width, image.height)
        files.forget(path)
    return sizes
