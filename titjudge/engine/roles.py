"""Which model plays which role: built from the configuration, once, when first asked."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from titjudge.core.config import RoleConfig, RunConfig, flag_of
from titjudge.core.errors import ConfigError, DataError, Unanswered
from titjudge.core.serialization import request_key
from titjudge.core.types import Embedding, Json, Note, Reply, Request, Status, Usage, Values
from titjudge.engine import prices
from titjudge.engine.budget import Bill, job_entry
from titjudge.engine.rate_limiter import RateLimiter
from titjudge.providers import (
    Embedder,
    Model,
    Provider,
    ProviderSettings,
    make_embedder,
    make_provider,
    retirements,
    token_counts,
)
from titjudge.providers.token_counts import fitted
from titjudge.providers.usage import MOST_COST, MOST_TOKENS, ODD_USAGE, believed, unread

if TYPE_CHECKING:
    from titjudge.providers.batch.provider import Batches

SAMPLING = frozenset("temperature top_p top_k min_p seed".split())
_UNLIMITED = 1_000_000  # requests in flight
M = TypeVar("M", bound=Model)
Q = TypeVar("Q")  # the provider or embedder
A = TypeVar("A")  # what comes


@dataclass(slots=True)
class RoleStats:
    """Counts of a role's requests and answers in this run.

    Attributes:
        asked: Requests that were answered.
        cached: Answers that came from the cache.
        errors: Requests that failed.
        unusable: Answers that could not be used: refused, cut off, unreadable.
        usage: Tokens of all answers.
        spent: USD.
        unpriced: Requests whose price is not known.
        blind: Answers to requests with images that report fewer tokens of input than text and images have.
        absurd: Answers that reported more tokens or USD than any request can use.
        seconds: Sum of the times that answers took.
        versions: Answers by model version and endpoint.
        trouble: The last failure; empty once an answer has come.
    """

    asked: int = 0
    cached: int = 0
    errors: int = 0
    unusable: int = 0
    usage: Usage = field(default_factory=Usage)
    spent: float = 0.0
    unpriced: int = 0
    blind: int = 0
    absurd: int = 0
    seconds: float = 0.0
    versions: dict[tuple[str, str], int] = field(default_factory=dict)
    trouble: str = ""

    def add(self, reply: Reply) -> None:
        self.asked += 1
        self.usage += reply.usage
        self.spent += reply.list_cost or 0.0
        self.seconds += reply.seconds
        version = (reply.model_version, reply.endpoint)
        self.versions[version] = self.versions.get(version, 0) + 1


@dataclass(slots=True)
class Role(Generic[M, Q, A]):
    """A model in a role.

    Attributes:
        name: Captioner, judge, embedder, or a fixed `provider/model`.
        config: Its settings from the user.
        provider: The model that answers.
        price: List price; None if it is not known.
        limiter: The rate limiter of its account.
        tally: Its counts in this run.
        priced_as: Finds the price if another model answers.
        model: Its name at the provider; kept when the day comes on which another model would be the default.
        label: `provider/model`, for people.
    """

    name: str
    config: RoleConfig
    provider: M
    price: prices.Price | None
    limiter: RateLimiter
    tally: RoleStats = field(default_factory=RoleStats)
    priced_as: Callable[[str], prices.Price | None] = lambda model: None
    model: str = field(init=False)
    label: str = field(init=False)

    def __post_init__(self) -> None:
        self.model, self.label = self.config.model_name, self.config.label

    @property
    def address(self) -> str:
        """The address whose requests fail and recover together, by which the sender counts failures."""
        return self.provider.base_url or self.label

    def price_of(self, usage: Usage) -> float | None:
        """List price in USD; None when the model's price is unknown."""
        return None if self.price is None else self.price.cost(usage)

    def cost(self, usage: Usage) -> float:
        return self.price_of(usage) or 0.0

    def worst(self, usage: Usage) -> float:
        """Return the maximum cost of a usage, in USD.

        Once a model has retired, its vendor may answer by another one: then the higher of both prices counts.
        """
        successor = retirements.stands_in(self.config.provider, self.model)
        price = self.priced_as(successor) if successor else None
        return max(self.cost(usage), price.cost(usage) if price is not None else 0.0)

    def bill(self, usage: Usage, bound: Usage, *, price: Callable[[Usage], float | None] | None = None) -> Bill:
        """Make the bill of a reported usage: the higher of its list price and the amount that the server reports as billed.

        Args:
            usage: As reported; without tokens in it, `bound` is booked.
            bound: The maximum usage of the request.
            price: The list price of a usage, if another model than this role's
                answered.
        """
        booked, _ = believed(usage, bound)
        self.tally.absurd += booked != usage
        used = replace(bound, cost=booked.cost) if unread(booked) else booked
        amounts = ((price or self.price_of)(used), used.cost)
        known_amounts = [amount for amount in amounts if amount is not None]
        self.tally.unpriced += not known_amounts
        return Bill(max(known_amounts, default=0.0), used.input + used.output, unpriced=not known_amounts)

    @abstractmethod
    def bound(self, question: Q) -> Usage:
        """Compute an upper bound of the tokens of one request."""

    @abstractmethod
    async def ask(self, question: Q, bound: Usage) -> tuple[A, Bill]:
        """Send a question once, and return the answer and its cost."""

    def job_entry(self, question: Q) -> str:
        """Return the id of a batch question's entry in the ledger; empty if requests end with the process."""
        return ""

    def in_job(self, question: Q) -> bool:
        """Return True if a batch job at the provider contains a question and may yet answer and bill it."""
        return False

    def item_of(self, question: Q) -> str:
        """Return the id of the item that a question is about; empty if it is about none."""
        return ""

    def unsent(self, protocol: str) -> list[str]:
        """List the parameters that were asked for and are not sent, as the model does not take them."""
        return []


class ProviderRole(Role[Provider, Request, Reply]):
    """A provider in a role."""

    def bound(self, question: Request) -> Usage:
        return self.provider.usage_bound(question)

    async def ask(self, question: Request, bound: Usage) -> tuple[Reply, Bill]:
        """Send a question once.

        Raises:
            Unanswered: Its image has changed or is gone. Other exceptions are the provider's.
        """
        started = time.monotonic()
        try:
            reply = await self.provider.complete(question)
        except DataError as error:
            raise Unanswered(Status.BAD_INPUT, str(error)) from error
        usage, odd = believed(reply.usage, bound)
        flags = (*reply.flags, ODD_USAGE) if odd else reply.flags
        self.tally.blind += self.is_blind(question, reply.usage)
        price = self.price
        if price is None and reply.model_version:  # the name may be a deployment's: price the model that answered
            other = self.priced_as(retirements.same_name(self.model, reply.model_version))
            price = None if other is None or other.elsewhere else other
        is_other = not retirements.same_model(self.model, reply.model_version)
        if is_other:
            flags = (*flags, retirements.OTHER_MODEL)
            price = self.priced_as(retirements.same_name(self.model, reply.model_version))
        bill = self.bill(reply.usage, bound, price=lambda used: None if price is None else price.cost(used))
        cost = None if bill.unpriced else bill.cost
        # The price of the other model is not known: the worst case is booked.
        if bill.unpriced and is_other and self.price is not None:
            self.tally.unpriced -= 1
            bill = Bill(self.worst(bound), bound.input + bound.output)
        return replace(reply, usage=usage, flags=flags, list_cost=cost, seconds=time.monotonic() - started), bill

    def is_blind(self, question: Request, usage: Usage) -> bool:
        """Whether a reported usage is too low for the images of a request, which the model has then hardly seen."""
        if not question.images or unread(usage):
            return False
        return usage.input < token_counts.input_least(fitted(question), self.provider.name, self.model)

    def job_entry(self, question: Request) -> str:
        return job_entry(request_key(question)) if self.provider.is_batch else ""

    def in_job(self, question: Request) -> bool:
        return self.provider.in_job(question)

    def item_of(self, question: Request) -> str:
        return question.item_id

    def unsent(self, protocol: str) -> list[str]:
        """List the parameters that were asked for and are not sent; the strict protocol always asks for a temperature."""
        parameters = ({"temperature": 0} if protocol == "strict" else {}) | self.config.sampling
        return sorted((self.provider.capabilities.left_out(parameters) & set(parameters)) - set(self.config.omit))

    def sampling(self, params: Values, protocol: str) -> Json:
        """Collect the parameters to send: the configuration before the metric's, those before the defaults.

        `max_tokens` limits the answer; tokens for thinking are added.
        """
        capabilities = self.provider.capabilities
        sent: Json = {"max_tokens": 2048}
        if protocol == "strict":
            sent["temperature"] = 0
        sent |= dict(params) | self.config.sampling
        if self.provider.extra_body:
            sent["body"] = dict(self.provider.extra_body)
        sent = {name: value for name, value in sent.items() if name not in self.config.omit}
        if "max_tokens" in sent:
            sent["max_tokens"] += capabilities.thinking_room(sent)
        left_out = capabilities.left_out(sent)
        return {name: value for name, value in sent.items() if name not in left_out}


class EmbedderRole(Role[Embedder, str, Embedding]):
    """An embedder in its role: it is asked for the vector of one text."""

    def bound(self, question: str) -> Usage:
        return Usage(input=len(question.encode()))  # no token is shorter than a byte

    async def ask(self, question: str, bound: Usage) -> tuple[Embedding, Bill]:
        (vector,) = await self.provider.embed([question])
        bill = self.bill(Usage(input=vector.tokens_billed or 0, cost=vector.cost), bound)
        self.tally.spent += bill.cost
        return vector, bill


class Roles:
    """The models of a run, by role name.

    Args:
        config: Names the models.
        make: Builds a provider for a role's configuration (replaced by dry runs and tests).
    """

    def __init__(
        self,
        config: RunConfig,
        make: Callable[[RoleConfig], Provider] | None = None,
        embedder: Callable[[RoleConfig], Embedder] | None = None,
        batches: Batches | None = None,
    ) -> None:
        self.config = config
        self._batches = batches
        self._make = make or self._provider
        self._make_embedder = embedder or self._made_embedder
        self._roles: dict[str, ProviderRole] = {}
        self._here: list[tuple[str, ProviderSettings, Provider]] = []
        self._limiters: dict[str, RateLimiter] = {}
        self._embedder: Embedder | None = None
        self._embedder_role: EmbedderRole | None = None
        self.embedded = RoleStats()

    def __getitem__(self, name: str) -> ProviderRole:
        if name not in self._roles:
            config = self.config.role(name)
            if config is None:
                raise ConfigError(
                    f"this metric requires a {name}. Add {flag_of(name)}PROVIDER/MODEL, for example {flag_of(name)}openai/gpt-6-luna"
                )
            provider = self.new_provider(config)
            if self._batches is not None:
                provider = self._batches.wrap(provider)
            self._roles[name] = self._role(name, config, provider)
        return self._roles[name]

    def _role(self, name: str, config: RoleConfig, provider: Provider) -> ProviderRole:
        @cache
        def priced_as(model: str) -> prices.Price | None:
            return self._price(config, provider, name=model)

        price, limiter = self._price(config, provider), self._limiter(provider)
        return ProviderRole(name, config, provider, price, limiter, priced_as=priced_as)

    def _price(self, config: RoleConfig, model: Model, *, name: str = "") -> prices.Price | None:
        """Find the list price of a provider's or an embedder's model; an estimating substitute decides itself what is free."""
        embedding = isinstance(model, Embedder)
        user = {model_name: price.model_dump() for model_name, price in self.config.prices.items()}
        names = (name,) if name else tuple(dict.fromkeys((config.model_name, model.listed_as or config.model_name)))
        listed = (
            prices.price_of(
                config.provider, named, user, base_url=model.base_url, free=model.is_free, embedding=embedding
            )
            for named in names
        )
        price = next((price for price in listed if price is not None), None)
        if price is None or embedding or not self.config.limits.batch:
            return price
        return prices.batch_price(config.provider, price, base_url=model.base_url)

    def _limiter(self, model: Model) -> RateLimiter:
        """Return the limiter of a model's account: roles that share a key share its limits. Batch jobs are not limited."""
        if model.is_batch:
            return RateLimiter(_UNLIMITED)
        account = model.account or model.name
        if account not in self._limiters:
            limits = self.config.limits
            self._limiters[account] = RateLimiter(
                limits.concurrency, rpm=limits.rpm, tpm=limits.tpm, longest_pause=limits.patience, account=account
            )
        limiter = self._limiters[account]
        model.on_headers = limiter.observe_headers
        return limiter

    def _provider(self, config: RoleConfig) -> Provider:
        """Make the provider of a role; roles with the same local model share one, so that its weights are loaded once."""
        settings = self.config.settings_of(config)
        for name, held_settings, provider in self._here:
            if (name, held_settings) == (config.provider, settings):
                return provider
        new_provider = make_provider(config.provider, settings)
        if new_provider.direct:
            self._here.append((config.provider, settings, new_provider))
        return new_provider

    def _made_embedder(self, config: RoleConfig) -> Embedder:
        return make_embedder(config.provider, config.model_name, self.config.settings_of(config))

    def embedder(self) -> Embedder:
        if self._embedder is None:
            self._embedder = self._make_embedder(self.config.embedder)
        return self._embedder

    def embedder_role(self) -> EmbedderRole:
        """Price and limiter of a hosted embedder."""
        if self._embedder_role is None:
            config, embedder = self.config.embedder, self.embedder()
            price, limiter = self._price(config, embedder), self._limiter(embedder)
            self._embedder_role = EmbedderRole("embedder", config, embedder, price, limiter, self.embedded)
        return self._embedder_role

    def check_prices(self, names: Iterable[str]) -> None:
        """Check, if a cap is set, that the price of every model of these roles is known; of the judge also its panel's.

        Raises:
            ConfigError: A price is unknown; names the flag that gives it.
        """
        if self.config.limits.max_cost is None:
            return
        for name in self.with_panel(names):
            role: Role[Any, Any, Any] = self.embedder_role() if name == "embedder" else self[name]
            if not _is_known(role.price):
                where = f" at {role.provider.base_url}" if role.price is not None else ""
                free = "; 0,0 if the server costs nothing" if role.config.base_url else ""
                raise ConfigError(
                    f"the price of {role.label}{where} is unknown, and a cap requires a price. Add {_its_price(role.model)}{free}"
                )
            successor = retirements.stands_in(role.config.provider, role.model)
            if successor and not _is_known(role.priced_as(successor)):
                raise ConfigError(
                    f"{role.label} has retired and is replaced by {successor}. Its price is unknown, and a cap requires a price. Add {_its_price(successor)}"
                )

    def notes(self) -> list[Note]:
        """List what a user should know of the models in use: prices that are guesses, parameters that are not sent."""
        lines = []
        roles = [role for role in (*self.open(), self._embedder_role) if role is not None]
        for role in roles:
            if role.price is not None and role.price.elsewhere:
                line = (
                    f"The price of {role.label} at {role.provider.base_url} is not known: amounts use the vendor's "
                    f"list price. Set the price with --price {role.model}=IN,OUT"
                )
                lines.append(Note("price_of_vendor", line))
            if role.tally.unpriced:
                where = f" at {role.provider.base_url}" if role.provider.base_url else ""
                unpriced = sum(
                    other.tally.unpriced
                    for other in roles
                    if (other.label, other.address) == (role.label, role.address)
                )
                line = (
                    f"No price is known for {role.label}{where}, and the server reports no cost: its "
                    f"{unpriced} requests are not in the total. Set a price with --price {role.model}=IN,OUT (USD per million tokens)"
                )
                lines.append(Note("price_unknown", line))
            if role.tally.blind:
                line = (
                    f"{role.label} reports too few input tokens for text and image in {role.tally.blind} answers: the images may "
                    "not reach the model (`doctor --ask` shows it one)"
                )
                lines.append(Note("images_may_not_arrive", line))
            if role.tally.absurd:
                line = (
                    f"{role.label} reports in {role.tally.absurd} answers what no request can use (more than {MOST_TOKENS:,} "
                    f"tokens, or ${MOST_COST:,.0f}): the most that their requests allow is booked, look at the provider's own bill"
                )
                lines.append(Note("tokens_absurd", line))
        return list(dict.fromkeys([*lines, *self.left_out(self.config.protocol)]))

    def left_out(self, protocol: str) -> list[Note]:
        """Write which requested parameters are not sent to the models in use, one line each; as for `unsent`."""
        lines = []
        for role in self.open():
            unsent = role.unsent(protocol)
            if sampling := [name for name in unsent if name in SAMPLING]:
                line = f"{role.label} does not support {', '.join(sampling)}: not sent, so the vendor's default applies"
                lines.append(Note("sampling_not_sent", line))
            others = (name for name in unsent if name not in SAMPLING)
            lines += (Note("parameter_not_sent", f"{role.label} does not support {name}: not sent") for name in others)
            for name in sorted(role.provider.refused):
                line = (
                    f"{role.label} at {role.address} refused {name}: not sent since, so the vendor's default applies. "
                    f"To never send it, set omit: [{name}] for this role"
                )
                lines.append(Note("parameter_refused", line))
        return list(dict.fromkeys(lines))

    def check_recordings(self, names: Iterable[str]) -> None:
        """Read the files of recorded answers now, so that a damaged one is reported once and not for every item.

        Raises:
            DataError: A file is missing or malformed.
        """
        for name in self.with_panel(names):
            config = self.config.role(name)
            if config is not None and config.provider == "recorded":
                self._make(config)

    def new_provider(self, config: RoleConfig) -> Provider:
        """Make the provider of a role's configuration, without adding the role to the roles in use."""
        return self._make(config)

    def with_panel(self, names: Iterable[str]) -> list[str]:
        """List role names, each once; if the judge is among them, with its whole panel."""
        role_names = set(names)
        return sorted(role_names.union(self.config.judge_roles) if "judge" in role_names else role_names)

    def open(self) -> list[ProviderRole]:
        """List the roles in use so far."""
        return list(self._roles.values())

    def tallies(self) -> list[RoleStats]:
        """List the statistics of the roles in use, the embedder's included."""
        return [*(role.tally for role in self.open()), self.embedded]

    async def aclose(self) -> None:
        for provider in {id(role.provider): role.provider for role in self._roles.values()}.values():
            await provider.aclose()
        if self._embedder is not None:
            await self._embedder.aclose()


def _its_price(model: str) -> str:
    """Write how to give the price of a model, on the command line and in Python."""
    in_python = f'prices={{"{model}": {{"input": IN, "output": OUT}}}}'
    return f"--price {model}=IN,OUT, in Python {in_python} (USD per million tokens)"


def _is_known(price: prices.Price | None) -> bool:
    """Whether a cap can rely on a price."""
    return price is not None and not price.elsewhere
