"""Ask a hosted model for images, many at once: with the ledger, the caps, the retries and the rate limits of judging."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from titjudge.apps.generate.image_models import ImageModel, ImageRequest, MadeImage, image_model
from titjudge.apps.generate.image_prices import ImagePrice, exact_size, image_price, parse_image_price
from titjudge.core.config import Limits, RoleConfig
from titjudge.core.errors import (
    BudgetExhausted,
    CacheWriteError,
    ConfigError,
    DataError,
    FatalProviderError,
    Unanswered,
)
from titjudge.core.files import load_yaml
from titjudge.core.types import Failure, FailureKind, Status, Usage, Values
from titjudge.engine import retry
from titjudge.engine.budget import Bill
from titjudge.engine.prices import at_vendor
from titjudge.engine.rate_limiter import RateLimiter
from titjudge.engine.roles import Role
from titjudge.engine.sender import Interrupted
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.usage import unread
from titjudge.runs.open_run import open_sender

Keep = Callable[[ImageRequest, MadeImage, Bill], None]
Leave = Callable[[ImageRequest, Status, str], None]
_UNUSABLE = 2  # paid answers without a usable image, after which an image is not asked for again
_SENT = 256  # tokens of a request beyond those of its prompt, at most


class ImageRole(Role[ImageModel, ImageRequest, MadeImage]):
    """A model that makes images. Each image is written to its file before its bill is, so that nothing paid is lost."""

    keep: Keep

    def bound(self, question: ImageRequest) -> Usage:
        most = self.price.most_output if isinstance(self.price, ImagePrice) else 0
        source_tokens = len(question.sources) * self.provider.source_tokens
        return Usage(input=len(question.prompt.encode()) + _SENT + source_tokens, output=most, image=source_tokens)

    async def ask(self, question: ImageRequest, bound: Usage) -> tuple[MadeImage, Bill]:
        """Send a question once.

        Raises:
            ProviderFailure: The image was made and cannot be written; other exceptions are the model's.
            Unanswered: A source cannot be read; nothing was sent.
        """
        try:
            image = await self.provider.make(question)
        except DataError as error:
            raise Unanswered(Status.BAD_INPUT, str(error)) from error
        bill = self.bill(image.usage, bound)
        if unread(image.usage):  # billed by the image, and each in the answer may be
            bill = replace(bill, cost=bill.cost * (1 + image.others))
        try:
            self.keep(question, image, bill)
        except Exception as error:
            kind, reason = FailureKind.REJECTED, f"the image cannot be kept: {error}"
            if isinstance(error, OSError):
                kind, reason = (
                    FailureKind.FATAL,
                    f"{error.filename or question.name} cannot be written: {error.strerror}",
                )
            raise ProviderFailure(Failure(kind, reason, usage=image.usage, answered=True)) from error
        return image, bill

    def item_of(self, question: ImageRequest) -> str:
        return question.name


@dataclass(slots=True)
class MakingOutcome:
    """What came of asking a hosted model for images.

    Attributes:
        spent: USD billed for this generator in this folder, earlier sessions included.
        uncertain: USD that requests without an answer may have cost besides.
        unpriced: Requests whose price is not known.
        ended: Why it ended before everything was asked for; empty where everything was.
        budget: Whether a cap ended it.
    """

    spent: float = 0.0
    uncertain: float = 0.0
    unpriced: int = 0
    ended: str = ""
    budget: bool = False


class HostedMaker:
    """Makes images by a hosted model.

    Args:
        model: `openai/MODEL`, `gemini/MODEL` or `litellm/VENDOR/MODEL`, with address and key as for a judge.
        limits: Caps, requests in flight, time for one image.
        options: Settings of the images: size, quality, ...
        prices: USD for each image as the user gives them, by model.

    Attributes:
        name: Default name of the generator.
        settings: What its images are made with, for the list of images.
        price: Price of an image; None where it is not known.
        size: Width and height that its images should have, where the options say them.

    Raises:
        ConfigError: There is no such model here, its settings are not for it, or a cap is set and its price is not known.
    """

    def __init__(self, model: RoleConfig, limits: Limits, options: Values, prices: Mapping[str, float]) -> None:
        self._config, self._limits = model, limits
        self._model = image_model(model.provider, model.settings(limits.timeout), options)
        listed = model.provider == "litellm" or at_vendor(model.provider, self._model.base_url)
        self.price = image_price(self._model.vendor_in_list, self._model.model, options, prices, listed=listed)
        if self.price is None and limits.max_cost is not None:
            raise ConfigError(
                f"the price of an image by {model.model} is not known{' with these options' if options else ''}, so a cap cannot "
                f"hold: add --price {model.model}=USD"
            )
        self.name = self._model.model.rpartition("/")[2]
        self.settings = {"model": model.model, "options": dict(options)}
        self.size = exact_size(options)
        if not listed:
            self.settings["base_url"] = self._model.base_url
        limiter = RateLimiter(
            limits.concurrency, rpm=limits.rpm, longest_pause=limits.patience, account=self._model.account
        )
        self._model.on_headers = limiter.observe_headers
        self._role = ImageRole("generator", model, self._model, self.price, limiter)

    @property
    def makes_edits(self) -> bool:
        """Whether it takes the source images of an edit."""
        return self._model.source_tokens > 0

    def most(self, requests: Iterable[ImageRequest]) -> float | None:
        """Compute the USD that images cost at most; None where the price is not known."""
        if self.price is None:
            return None
        return sum(self._role.worst(self._role.bound(request)) for request in requests)

    def make_all(
        self, requests: Sequence[ImageRequest], ledger: Path, keep: Keep, leave: Leave, notify: Callable[[str], None]
    ) -> MakingOutcome:
        """Ask for images until all were asked for, a cap is reached, or nothing more can be had.

        The first Ctrl-C sends nothing new and waits for what is on its way, the second ends at once.

        Args:
            requests: The images.
            ledger: Folder of the ledger: what it says was spent counts against the caps.
            keep: Puts an image in its place, whole; called before its bill is written.
            leave: Called with an image that did not come, and why: REFUSED by moderation, UNPARSED if it is paid, else FAILED.
            notify: Called with a line for the user.

        Raises:
            ConfigError: There is no key.
            UserError: Another process is writing the ledger.
            KeyboardInterrupt: After Ctrl-C, when what was on its way is in its place.
        """
        self._model.ready()
        return asyncio.run(_Asking(self._model, self._role, keep, leave, notify).run(requests, ledger, self._limits))


class _Asking:
    """The workers of one session, which take their requests from one iterator."""

    def __init__(
        self, model: ImageModel, role: ImageRole, keep: Keep, leave: Leave, notify: Callable[[str], None]
    ) -> None:
        self._model, self._role, self._leave, self._notify = model, role, leave, notify
        role.keep = keep
        self._outcome = MakingOutcome()
        self._workers: list[asyncio.Task[None]] = []

    async def run(self, requests: Sequence[ImageRequest], ledger: Path, limits: Limits) -> MakingOutcome:
        """Ask for all images, and return what came of it."""
        policy = retry.Policy(limits.attempts, limits.patience, unusable=_UNUSABLE)
        with open_sender(ledger, limits, self._stop, policy) as sender:
            self._sender = sender
            todo = iter(requests)
            self._workers = [
                asyncio.create_task(self._work(todo)) for _ in range(min(limits.concurrency, len(requests)))
            ]
            try:
                await self._finished()
            except asyncio.CancelledError:
                self._notify("stopping: waiting for the images already asked for (once more to stop at once)")
                self._stop()
                await self._finished()
                raise
            finally:
                await self._model.aclose()
            used = sender.budget.used()
        return replace(self._outcome, spent=used.spent, uncertain=used.uncertain, unpriced=used.unpriced)

    async def _finished(self) -> None:
        """Wait for the workers, and raise an exception that one of them did not handle."""
        if self._workers:
            await asyncio.wait(self._workers)
        for worker in self._workers:
            if not worker.cancelled():
                worker.result()

    def _stop(self) -> None:
        """Send nothing more; workers that wait for an answer still get it."""
        self._sender.stop(self._workers)

    async def _work(self, todo: Iterator[ImageRequest]) -> None:
        """Ask for one image after the other until none is left, or nothing more can be had."""
        for request in todo:
            try:
                await self._sender.send(self._role, request, None)
            except Unanswered as error:
                cause = error.__cause__
                paid = isinstance(cause, Exception) and self._model.classify(cause).answered
                missing = Status.UNPARSED if paid else Status.FAILED
                try:
                    self._leave(request, error.status if error.status is Status.REFUSED else missing, error.reason)
                except OSError as disk:
                    self._outcome.ended = f"{disk.filename} cannot be written: {disk.strerror}"
                    return self._stop()
            except BudgetExhausted:
                self._outcome.budget, self._outcome.ended = True, self._sender.budget.reason
                return
            except (FatalProviderError, CacheWriteError) as error:
                self._outcome.ended = self._outcome.ended or str(error)
                return
            except Interrupted:
                return


def hosted_maker(
    model: str, options: Mapping[str, str], timeout: float, prices: Iterable[str], keys: Values
) -> HostedMaker:
    """Make a hosted maker of what the command line says.

    Args:
        model: `provider/model`.
        options: Settings of the images, as text.
        timeout: Seconds for one image.
        prices: MODEL=USD, each the price of an image.
        keys: `base_url` and `api_key_env` of the model, and limits (`max_cost`, `concurrency`, `rpm`); None for the default.

    Raises:
        UserError: One of them cannot be read, or is not for this model.
    """
    given_keys = {name: value for name, value in keys.items() if value is not None}
    place = {name: given_keys.pop(name) for name in ("base_url", "api_key_env") if name in given_keys}
    try:
        role, limits = RoleConfig(model=model, **place), Limits(timeout=timeout, **given_keys)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"--{str(first['loc'][-1]).replace('_', '-')}: {first['msg']}") from error
    settings = {name: load_yaml(text) for name, text in options.items()}
    return HostedMaker(role, limits, settings, dict(map(parse_image_price, prices)))
