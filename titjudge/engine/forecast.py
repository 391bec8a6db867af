"""Estimate the requests and the cost of a run: run the metrics with estimating providers and a read-only cache."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Self

from titjudge.core.config import RoleConfig
from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.errors import BudgetHeld
from titjudge.core.grouping import Refused, listed
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import InvalidItem, Item, Json, Note, ProviderSettings, Status, Table, Usage
from titjudge.engine.budget import Budget, Reservation, job_entry
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import EmbedderRole, ProviderRole
from titjudge.engine.scoring import Panel
from titjudge.metrics import Metric
from titjudge.providers import Embedder, Provider, make_embedder, make_provider
from titjudge.providers.dry_run import BLANK_VECTOR, EstimateEmbedder, EstimateProvider, Expected, Lengths

FORECAST = Declaration("forecast", "requests and cost to expect", Population.ITEMS, Unit.REQUEST)

Costs = tuple[float, ...]
"""USD at p10, p50 and p90 of the expected lengths of answers."""
_SAMPLED = 8  # items from which the reach of a cap is estimated


@dataclass(frozen=True, slots=True)
class CapReach:
    """The number of items that the rest of a cap pays for. Amounts are USD.

    Attributes:
        money: The amount that is left.
        worst, likely: Of an item, if all answers are as long as they may be, and if they have their usual length.
        reserved: At most set aside for an item before it is asked.
        role: The role whose answers leave the largest unused part of the reserved amount.
        thinks: That model thinks before it answers.
    """

    money: float
    worst: float
    likely: float
    reserved: float
    role: str
    thinks: bool

    @property
    def sure(self) -> int:
        """Items that are paid for whatever their answers."""
        return int(self.money / self.worst)

    @property
    def expected(self) -> int:
        """Items that are paid for if answers have their usual length; the last needs its whole reservation."""
        if self.money < self.reserved:
            return 0
        return int((self.money - self.reserved) / self.likely) + 1 if self.likely else self.sure

    def line(self, items: int) -> str:
        """Write how many of the items the cap pays for; empty if it pays for all."""
        if self.sure >= items:
            return ""
        less = f"a smaller max_tokens{' or thinking_budget' if self.thinks else ''} of the {self.role} in run.yaml"
        if not self.expected:
            return (
                f"the cap leaves ${self.money:.4f}, and ${self.reserved:.4f} is set aside for an image before it is asked (likely "
                f"cost: ${self.likely:.4f}): nothing is asked. Raise --max-cost by ${self.reserved * 1.02 - self.money:.4f}, or set {less}"
            )
        return (
            f"the cap leaves ${self.money:.4f}: enough for {self.sure:,} of {items:,} images at worst (${self.worst:.4f} each), likely for "
            f"{min(self.expected, items):,} (${self.likely:.4f} each); {less} carries it further"
        )


class Estimates:
    """Estimating substitutes for the models of a plan, which record their requests.

    Args:
        library: The templates, with the usual lengths of answers.
        settings_of: Returns the settings for the provider of a role's model.
        per_item: Whether a question that several items ask counts for each of them, as when budget is reserved for one
            item, and not for the first alone, as in the price of a run.

    Attributes:
        embeddings: Texts that would be embedded.
        embedding_tokens: Their tokens.
    """

    def __init__(
        self, library: PromptLibrary, settings_of: Callable[[RoleConfig], ProviderSettings], *, per_item: bool = False
    ) -> None:
        self.embeddings = self.embedding_tokens = 0
        self.per_item = per_item
        self._library, self._settings_of = library, settings_of
        self._requests: dict[str, dict[str, Expected]] = defaultdict(dict)  # by item, by key
        self._counted_keys: set[str] = set()

    def provider(self, config: RoleConfig) -> Provider:
        """Make the estimating substitute for the provider of a role."""
        return EstimateProvider(make_provider(config.provider, self._settings_of(config)), self._lengths, self._note)

    def embedder(self, config: RoleConfig) -> Embedder:
        """Make the estimating substitute for the embedder."""
        real = make_embedder(config.provider, config.model_name, self._settings_of(config))
        return EstimateEmbedder(real, self._count_embedding)

    def take(self, item: str) -> list[Expected]:
        """Take what was asked about an item and not taken yet."""
        return list(self._requests.pop(item, {}).values())

    def take_all(self) -> list[Expected]:
        """Take all that was asked and not taken yet."""
        return [request for item in list(self._requests) for request in self.take(item)]

    def _note(self, request: Expected) -> None:
        """Keep a request once: an item's metrics share answers, and a dry run's items do, too."""
        if not self.per_item:
            if request.key in self._counted_keys:
                return
            self._counted_keys.add(request.key)
        self._requests[request.item_id][request.key] = request

    def _count_embedding(self, tokens: int) -> None:
        self.embeddings += 1
        self.embedding_tokens += tokens

    def _lengths(self, template: str) -> Lengths | None:
        return self._library.get(template).output_tokens


class Planner:
    """Prices items before they are asked.

    Args:
        engine: Sends questions to the substitutes, with a read-only cache.
        estimates: The substitutes for the models.

    Attributes:
        refused: Of a dry run: items that no metric could use.
    """

    def __init__(self, engine: Engine, estimates: Estimates) -> None:
        self.engine, self.estimates, self.roles = engine, estimates, engine.roles
        self.refused: list[Refused] = []
        self._panel = Panel.from_config(engine.roles.config)

    def role(self, name: str) -> ProviderRole | EmbedderRole:
        return self.roles.embedder_role() if name == "embedder" else self.roles[name]

    async def expect(self, item: Item, metrics: Mapping[str, Metric]) -> list[Expected]:
        """List the requests that an item would send now, without cached answers."""
        scored = await asyncio.gather(
            *(
                self._panel.score(self.engine, item, name, metric)
                for name, metric in metrics.items()
                if metric.applies(item)
            )
        )
        scores = [score for of_metric in scored for score in of_metric]
        requests = self.estimates.take(item.id)
        # Without a request it has failed before it asked anything.
        hopeless = (Status.BAD_INPUT,) if requests else (Status.BAD_INPUT, Status.FAILED)
        if not self.estimates.per_item and scores and all(score.status in hopeless for score in scores):
            self.refused.append((item.id, scores[0].reason))
        return requests

    async def reserve(
        self, item: Item, metrics: Mapping[str, Metric], budget: Budget, held: BudgetHeld | None = None
    ) -> Reservation:
        """Reserve the likely cost of an item's questions in the budget.

        That is the p90 of its answers' lengths, and at least the worst case of its most expensive request: a description
        is wasted if its judgement cannot be paid. Costs beyond it are drawn from the budget with each question; amounts
        in a batch job of an earlier session are already counted. `held` is the reason why the item released its
        reservation before, if it did.

        Raises:
            BudgetExhausted: The cap is reached, and nothing outstanding will release an amount.
        """
        requests = [
            request for request in await self.expect(item, metrics) if not budget.in_job(job_entry(request.key))
        ]
        likely = [self._amount(request.role, request.high) for request in requests]
        most = [self._amount(request.role, request.bound) for request in requests]
        if held is not None:
            most.append((held.cost, held.tokens))
        cost, tokens = (
            max(sum(amount[i] for amount in likely), max((amount[i] for amount in most), default=0)) for i in (0, 1)
        )
        return await budget.reserve(cost, int(tokens), len(requests), again=held is not None)

    async def reach(self, items: Iterable[Item], metrics: Mapping[str, Metric], money: float) -> CapReach | None:
        """Estimate from the first items how many such items the money left under a cap pays for; None if they are free."""
        worst = middle = most_reserved = 0.0
        # By role, USD reserved but not used by answers of a likely length.
        slack: dict[str, float] = defaultdict(float)
        count = 0
        for item in islice(items, _SAMPLED):
            requests = await self.expect(item, metrics)
            bounds = [self._amount(request.role, request.bound)[0] for request in requests]
            likely = sum(self._amount(request.role, request.high)[0] for request in requests)
            worst += sum(bounds)
            middle += sum(self._amount(request.role, request.middle)[0] for request in requests)
            most_reserved = max(most_reserved, likely, max(bounds, default=0.0))
            for request, bound in zip(requests, bounds, strict=True):
                slack[request.role] += bound - self._amount(request.role, request.middle)[0]
            count += 1
        if not worst:
            return None
        role = self.roles[max(slack, key=lambda name: slack[name])]
        thinks = role.provider.capabilities.thinking > 0
        return CapReach(money, worst / count, middle / count, most_reserved, role.name, thinks)

    def _amount(self, role: str, usage: Usage) -> tuple[float, int]:
        return self.roles[role].worst(usage), usage.input + usage.output

    async def aclose(self) -> None:
        await self.engine.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class ReadOnlyCache:
    """A cache as a plan sees it: nothing is written, and vectors are blank, as from the estimating embedder."""

    def __init__(self, cache: AnswerCache) -> None:
        self._cache = cache

    def get(self, key: str) -> Json | None:
        answer = self._cache.get(key)
        return {**answer, "vector": BLANK_VECTOR} if answer is not None and "vector" in answer else answer

    async def put(self, key: str, value: Json) -> None:
        raise AssertionError("a plan writes nothing")


@dataclass(slots=True)
class RoleForecast:
    """The requests that a role would get.

    Attributes:
        requests: How many requests.
        low: Their tokens at p10.
        middle: Their tokens at p50.
        high: Their tokens at p90.
    """

    requests: int = 0
    low: Usage = field(default_factory=Usage)
    middle: Usage = field(default_factory=Usage)
    high: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class Forecast:
    """The result of a dry run.

    Attributes:
        items: Items that can be judged.
        refused: Items that cannot, with the reason.
        roles: The requests for each role, by its name.
        labels: The model of each role.
        costs: List prices of each role in USD at p10, p50 and p90; None if a price is unknown.
        cached: Answers that the cache has, by role.
        embeddings: Texts that would be embedded.
        repairs: How many of the requests get a repair turn if no answer can be read, and its price at p50; not in the rest.
        notes: Lines on the data: what `--limit` drew, ...
        saved: Image tokens that scaling images down saves, and their price.
    """

    items: int
    refused: list[Refused]
    roles: dict[str, RoleForecast]
    labels: dict[str, str]
    costs: dict[str, Costs | None]
    cached: dict[str, int]
    embeddings: int
    repairs: tuple[int, float | None] = (0, None)
    notes: list[Note] = field(default_factory=list)
    saved: tuple[int, float | None] = (0, None)

    def lines(self, examples: int = 3) -> list[str]:
        """Write which part of the data can be judged, and why the rest cannot."""
        lines = list[str](self.notes)
        if not self.refused:
            return [*lines, f"{self.items:,} items found, all of them usable"]
        lines.append(
            f"{self.items + len(self.refused):,} items found: {self.items:,} usable, {len(self.refused):,} refused"
        )
        lines += [f"  {line}" for line in listed(self.refused, examples)]
        if not self.items:
            lines.append("nothing can be judged: there is nothing to ask, and nothing to pay")
        return lines

    @property
    def total(self) -> Costs | None:
        costs = [cost for cost in self.costs.values() if cost is not None]
        return tuple(map(sum, zip((0.0,) * 3, *costs, strict=True))) if len(costs) == len(self.costs) else None

    def to_json(self) -> Json:
        """Return the record that `--dry-run --json` writes."""
        total = self.total
        return {
            "dry_run": True,
            "items": self.items,
            "bad_items": len(self.refused),
            "refused": [{"item": item, "reason": reason} for item, reason in self.refused],
            "embeddings": self.embeddings,
            "notes": list(self.notes),
            "roles": {
                name: {
                    "model": self.labels[name],
                    "requests": role.requests,
                    "cached": self.cached.get(name, 0),
                    "tokens": {
                        "text": role.middle.input - role.middle.image,
                        "image": role.middle.image,
                        "output": [u.output - u.thinking for u in (role.low, role.middle, role.high)],
                        "thinking": [u.thinking for u in (role.low, role.middle, role.high)],
                    },
                    "list_cost": self.costs[name],
                }
                for name, role in self.roles.items()
            },
            "list_cost": total,
            "saved_by_max_side": {"image_tokens": self.saved[0], "list_cost": self.saved[1]},
            "repair_turns_at_most": {"requests": self.repairs[0], "list_cost": self.repairs[1]},
        }

    def table(self) -> Table:
        """Make the table that a dry run prints: a row for each role and one for all."""
        rows: list[tuple[Any, ...]] = []
        for name, role in self.roles.items():
            usage = role.middle
            tokens = (usage.input - usage.image, usage.image, usage.output - usage.thinking, usage.thinking)
            cached, cost = self.cached.get(name, 0), _dollars(self.costs[name])
            rows.append((name, self.labels[name], role.requests, cached, *tokens, cost))
        requests = sum(role.requests for role in self.roles.values())
        rows.append(("all", "", requests, sum(self.cached.values()), None, None, None, None, _dollars(self.total)))
        line = (
            "list price in USD at p10 / p50 / p90 of the expected answer lengths; requests in the cache are not counted"
        )
        notes = [Note("about_forecast", line)]
        more, saved = ("" if cost is None else f", ${cost:.4f}" for _, cost in (self.repairs, self.saved))
        if self.repairs[0]:
            line = f"an unreadable answer is requested once more: at most {self.repairs[0]} repair turns{more}, in addition"
            notes.append(Note("repair_turns", line))
        if self.saved[0] > 0:
            line = f"images scaled to max_side or squash save {self.saved[0]:,} image tokens{saved}, taken off already"
            notes.append(Note("tokens_saved", line))
        if self.total is None:
            line = "a price is unknown: give it with --price MODEL=IN,OUT (USD per million tokens)"
            notes.append(Note("forecast_without_price", line))
        columns = (
            "role",
            "model",
            "requests",
            "cached",
            "text tokens",
            "image tokens",
            "output tokens",
            "thinking",
            "list price",
        )
        declared = FORECAST.over(self.items)
        return Table("Dry run: requests and cost", columns, tuple(rows), tuple(notes), declared=declared)


def _dollars(cost: Costs | None) -> str | None:
    return None if cost is None else " / ".join(f"{value:.2f}" if value >= 0.1 else f"{value:.4f}" for value in cost)


class ForecastSum:
    """Adds up the requests that a planner expects."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._roles: dict[str, RoleForecast] = defaultdict(RoleForecast)
        self._repairs, self._repair_cost = 0, 0.0
        self._saved, self._saved_cost = 0, 0.0

    def add(self, requests: Iterable[Expected]) -> None:
        """Add requests, except free ones, to the sums of their roles."""
        for request in requests:
            provider_role = self._planner.role(request.role)
            if provider_role.provider.is_free:
                continue
            role = self._roles[request.role]
            role.requests += 1
            role.low += request.low
            role.middle += request.middle
            role.high += request.high
            usage, cost = request.middle, provider_role.cost
            unscaled = replace(usage, input=usage.input + request.saved, image=usage.image + request.saved)
            self._saved += request.saved
            self._saved_cost += cost(unscaled) - cost(usage)
            if request.structured:
                self._repairs += 1
                self._repair_cost += cost(Usage(usage.input + usage.output, usage.output))

    def forecast(self, items: int) -> Forecast:
        """Price the added requests, for `items` items that can be judged."""
        planner, roles = self._planner, self._roles
        if planner.estimates.embeddings and not planner.roles.embedder().is_free:
            tokens = Usage(input=planner.estimates.embedding_tokens)
            roles["embedder"] = RoleForecast(planner.estimates.embeddings, tokens, tokens, tokens)
        costs: dict[str, Costs | None] = {}
        for name, role in roles.items():
            asked = planner.role(name)
            costs[name] = None if asked.price is None else tuple(map(asked.worst, (role.low, role.middle, role.high)))
        unpriced = None in costs.values()
        return Forecast(
            items,
            planner.refused,
            dict(roles),
            {name: planner.role(name).label for name in roles},
            costs,
            {role.name: role.tally.cached for role in planner.roles.open() if role.tally.cached},
            planner.estimates.embeddings,
            (self._repairs, None if unpriced else self._repair_cost),
            saved=(self._saved, None if unpriced else self._saved_cost),
        )


async def forecast(
    planner: Planner,
    items: Iterable[Item | InvalidItem],
    metrics: Mapping[str, Metric],
    further: Iterable[Expected] = (),
) -> Forecast:
    """Walk every item through every metric without sending anything; `further` are requests of no item."""
    total = ForecastSum(planner)
    total.add(further)
    judged = invalid = 0
    for item in items:
        if isinstance(item, InvalidItem):
            planner.refused.append((item.id, item.reason))
            invalid += 1
            continue
        judged += 1
        total.add(await planner.expect(item, metrics))
    return total.forecast(judged - (len(planner.refused) - invalid))
