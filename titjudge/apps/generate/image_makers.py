"""Make an image of a prompt by a command of the user or a pipeline of diffusers."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import io
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

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
    MissingExtra,
    Unanswered,
    UserError,
    must_be,
    rule_of,
    unknown,
)
from titjudge.core.files import load_yaml
from titjudge.core.redaction import environment_secrets, one_line, redact
from titjudge.core.signals import interrupts_call
from titjudge.core.types import Failure, FailureKind, Json, Status, Usage, Values
from titjudge.data.image_decoding import as_png, open_image
from titjudge.data.images import read
from titjudge.engine import retry
from titjudge.engine.budget import Bill
from titjudge.engine.prices import at_vendor
from titjudge.engine.rate_limiter import PLACE, PromptTurn, RateLimiter
from titjudge.engine.roles import Role
from titjudge.engine.sender import Interrupted
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.learned.subprocess import run
from titjudge.providers.usage import unread
from titjudge.runs.open_run import open_sender
from titjudge.suites.patterns import sources_of

Keep = Callable[[ImageRequest, MadeImage, Bill], None]
Leave = Callable[[ImageRequest, Status, str], None]
_UNUSABLE = 2  # paid answers without a usable image, after which an image is not asked for again
_SENT = 256  # maximum tokens of a request in addition to its prompt


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
        started = time.monotonic()
        try:
            image = await self.provider.make(question)
        except DataError as error:
            raise Unanswered(Status.BAD_INPUT, str(error)) from error
        image = replace(image, seconds=round(time.monotonic() - started, 3))
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
    """The result of requests for images to a hosted model.

    Attributes:
        spent: USD billed for this generator in this folder, earlier sessions included.
        uncertain: USD that requests without an answer may have cost besides.
        unpriced: Requests whose price is not known.
        ended: Why it ended before everything was asked for; empty if everything was.
        budget: Whether a cap ended it.
        interrupted: Whether Ctrl-C ended it.
    """

    spent: float = 0.0
    uncertain: float = 0.0
    unpriced: int = 0
    ended: str = ""
    budget: bool = False
    interrupted: bool = False


class HostedMaker:
    """Makes images by a hosted model.

    Args:
        model: `openai/MODEL`, `gemini/MODEL` or `litellm/VENDOR/MODEL`, with address and key as for a judge.
        limits: Caps, requests in flight, time for one image.
        options: Settings of the images: size, quality, ...
        prices: USD for each image as the user gives them, by model.

    Attributes:
        name: Default name of the generator.
        settings: The settings of its images, for the list of images.
        price: Price of an image; None if it is not known.
        size: Width and height that its images should have, if the options give them.
        limits: Its limits.
        role: Sends its requests.

    Raises:
        ConfigError: There is no such model here, its settings are not for it, or a cap is set and its price is not known.
    """

    def __init__(self, model: RoleConfig, limits: Limits, options: Values, prices: Mapping[str, float]) -> None:
        self.limits = limits
        self._model = image_model(model.provider, model.settings(limits.timeout), options)
        listed = model.provider == "litellm" or at_vendor(model.provider, self._model.base_url)
        self.price = image_price(self._model.vendor_in_list, self._model.model, options, prices, listed=listed)
        if self.price is None and limits.max_cost is not None:
            raise ConfigError(
                f"no price is known for images by {model.model}{' with these options' if options else ''}, and a cap requires a "
                f"price. Add --image-price {model.model}=USD"
            )
        self.name = self._model.model.rpartition("/")[2]
        self.settings = {"model": model.model, "options": dict(options)}
        self.size = exact_size(options)
        if not listed:
            self.settings["base_url"] = self._model.base_url
        limiter = RateLimiter(
            limits.concurrency, rpm=limits.rpm, longest_pause=limits.patience, account=self._model.account
        )
        self.role = ImageRole("generator", model, self._model, self.price, limiter)

    @property
    def makes_edits(self) -> bool:
        """Whether it takes the source images of an edit."""
        return self._model.source_tokens > 0

    def most(self, requests: Iterable[ImageRequest]) -> float | None:
        """Compute an upper bound of the USD for images; None if the price is not known."""
        if self.price is None:
            return None
        return sum(self.role.worst(self.role.bound(request)) for request in requests)


class PlacedRequest(NamedTuple):
    """An image that a hosted model is to make.

    Attributes:
        role: The model.
        request: The image.
        turn: The place of its prompt; None if prompts need not be whole.
    """

    role: ImageRole
    request: ImageRequest
    turn: PromptTurn | None = None


def make_all(
    images: Sequence[PlacedRequest],
    ledgers: Mapping[Path, HostedMaker],
    keep: Keep,
    leave: Leave,
    notify: Callable[[str], None],
) -> MakingOutcome:
    """Ask for images until all were asked for, a cap is reached, or no more images are available.

    The first Ctrl-C finishes the prompts that are begun, and sends nothing else; the second ends at once.

    Args:
        images: The images, in order.
        ledgers: The models, by the folders of their ledgers: the costs in all of them count against the caps, which are
            the first model's.
        keep: Puts an image in its place, whole; called before its bill is written.
        leave: Called with an image that did not come, and why: REFUSED by moderation, UNPARSED if it is paid,
            otherwise FAILED.
        notify: Called with a line for the user.

    Raises:
        ConfigError: There is no key.
        UserError: Another process is writing a ledger.
        KeyboardInterrupt: After the second Ctrl-C.
    """
    limiters: dict[str, RateLimiter] = {}
    for ledger, maker in ledgers.items():
        role = maker.role
        role.provider.ready()
        role.name, role.keep = ledger.name, keep
        role.limiter = limiters.setdefault(role.provider.account, role.limiter)
        role.provider.on_headers = role.limiter.observe_headers
    limits = next(iter(ledgers.values())).limits
    return asyncio.run(_Asking([*limiters.values()], leave, notify).run(images, ledgers, limits))


class _Asking:
    """The workers of one session, which take their requests from one iterator."""

    def __init__(self, limiters: Sequence[RateLimiter], leave: Leave, notify: Callable[[str], None]) -> None:
        self._limiters, self._leave, self._notify = limiters, leave, notify
        self._outcome = MakingOutcome()
        self._workers: list[asyncio.Task[None]] = []

    async def run(
        self, images: Sequence[PlacedRequest], ledgers: Mapping[Path, HostedMaker], limits: Limits
    ) -> MakingOutcome:
        """Ask for all images, and return what came of it."""
        policy = retry.Policy(limits.attempts, limits.patience, unusable=_UNUSABLE)
        with open_sender({ledger.name: ledger for ledger in ledgers}, limits, self._stop, policy) as sender:
            self._sender = sender
            todo = iter(images)
            workers = min(limits.concurrency * len(self._limiters), len(images))
            self._workers = [asyncio.create_task(self._work(todo)) for _ in range(workers)]
            self._by_prompt = any(wanted.turn for wanted in images)
            try:
                with interrupts_call(self._interrupt, asyncio.get_running_loop()):
                    ends = await asyncio.gather(*self._workers, return_exceptions=True)
            finally:
                for maker in ledgers.values():
                    await maker.role.provider.aclose()
            for error in ends:
                if isinstance(error, Exception):  # and no cancellation
                    raise error
            used = sender.budget.used()
        return replace(self._outcome, spent=used.spent, uncertain=used.uncertain, unpriced=used.unpriced)

    def _interrupt(self) -> None:
        """Handle Ctrl-C: the first waits for what is sent, and finishes begun prompts; the second stops at once."""
        if self._outcome.interrupted:
            raise KeyboardInterrupt
        self._outcome.interrupted = True
        if self._by_prompt:
            self._notify(self._sender.finish(self._limiters))
        else:
            self._stop()
            self._notify("stopping: waiting for the images already asked for (once more to stop at once)")

    def _stop(self) -> None:
        """Send nothing more; workers that wait for an answer still get it."""
        self._sender.stop(self._workers)

    async def _work(self, todo: Iterator[PlacedRequest]) -> None:
        """Ask for one image after the other until none is left, or no more images are available."""
        for role, request, turn in todo:
            PLACE.set(turn)
            try:
                await self._sender.send(role, request, None)
            except Unanswered as error:
                cause = error.__cause__
                paid = isinstance(cause, Exception) and role.provider.classify(cause).answered
                missing = Status.UNPARSED if paid else Status.FAILED
                try:
                    self._leave(request, error.status if error.status is Status.REFUSED else missing, error.reason)
                except OSError as disk:
                    self._outcome.ended = f"{disk.filename} cannot be written: {disk.strerror}"
                    return self._stop()
            except BudgetExhausted:
                self._outcome.budget, self._outcome.ended = True, self._sender.budget.reason
                if turn is not None:
                    self._sender.stop((), finishing=True)
                return
            except (FatalProviderError, CacheWriteError) as error:
                self._outcome.ended = self._outcome.ended or str(error)
                return
            except Interrupted:
                return


def hosted_maker(
    model: str, options: Mapping[str, str], timeout: float, prices: Iterable[str], keys: Values
) -> HostedMaker:
    """Make a hosted maker from the arguments of the command line.

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
    place = {name: given_keys.pop(name, None) for name in ("base_url", "api_key_env")}
    try:
        role, limits = RoleConfig(model=model, **place), Limits(timeout=timeout, **given_keys)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"--{str(first['loc'][-1]).replace('_', '-')}: {rule_of(first)}") from error
    settings = {name: load_yaml(text, f"--option {name}: ") for name, text in options.items()}
    return HostedMaker(role, limits, settings, dict(map(parse_image_price, prices)))


_FIELD = re.compile(r"\{(\w+)\}")
_LOADING = ("revision", "variant", "dtype", "device")  # options for loading a pipeline; the others are for its call
_SOURCE = re.compile(r"source(_[0-9]+)?")
_MOST = 2**24  # bytes that a command may print


class Maker(Protocol):
    """Makes images one by one."""

    settings: Values
    """The settings of its images, for the list of images."""
    name: str
    """Default name of the generator."""
    makes_edits: bool
    """Whether it takes the source images of an edit."""

    def make(self, fields: Values) -> bytes:
        """Make an image file.

        Args:
            fields: The line of the image: prompt, seed, sample, prompt_id, ...

        Raises:
            DataError: No image was made; the message gives the reason.
        """
        ...


class CommandMaker:
    """Runs a command for each image, without a shell: a prompt is one argument, whatever it contains.

    Args:
        command: Words with {prompt}, {out} (the file to write), {seed} and any other field of the line; of edits also {source},
            or {source_1}, {source_2}, ... if an edit has several.
        timeout: Seconds for one image.

    Raises:
        ConfigError: The command cannot be parsed, {prompt} or {out} is missing, or there is no such program.
    """

    def __init__(self, command: str, timeout: float) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"--command '{command}': {str(error).lower()}. Correct its quotes") from error
        fields = {name for word in self._words for name in _FIELD.findall(word)}
        self._sources = {name for name in fields if _SOURCE.fullmatch(name)}
        self.makes_edits = bool(self._sources)
        for needed in ("prompt", "out"):
            if needed not in fields:
                raise ConfigError(
                    f"--command must contain {{{needed}}}, for example 'prog --prompt={{prompt}} --out={{out}} --seed={{seed}}'"
                )
        if shutil.which(self._words[0]) is None:
            raise ConfigError(f"--command: program '{self._words[0]}' not found. Install it, or give its path")
        self._timeout = timeout
        self.name = Path(self._words[0]).stem
        self.settings = {"command": redact(command, environment_secrets())}

    def make(self, fields: Values) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / f"image{Path(str(fields['image'])).suffix}"
            if "{prompt}" in self._words and str(fields["prompt"]).startswith("-"):
                raise DataError(
                    "the prompt begins with -, so the program would read an option. Write --prompt={prompt} in --command"
                )
            values = {**fields, **self._named_sources(fields), "out": out}
            words = [self._filled(word, values) for word in self._words]
            ended = run(words, b"", timeout=self._timeout, limit=_MOST, environment=os.environ)
            if ended.late:
                raise DataError(f"the command took more than {self._timeout:g} s. Increase --timeout")
            if ended.overflow:
                raise DataError(
                    "the command printed more than 16 MiB. Write the image to {out}, not to standard output"
                )
            if ended.code:
                last_words = one_line(ended.last_words, environment_secrets())
                raise DataError(
                    f"the command failed with exit code {ended.code}{f': {last_words}' if last_words else ''}. Correct --command"
                )
            if not out.is_file():
                raise DataError("the command succeeded, but wrote no {out}. Write the image to this path")
            return out.read_bytes()

    def _named_sources(self, fields: Values) -> dict[str, Path]:
        """Name the sources of an edit as the command does.

        Raises:
            DataError: The command takes other sources than the line has: none, fewer or more.
        """
        sources = sources_of(fields)
        named = {f"source_{number}": source for number, source in enumerate(sources, 1)}
        if len(sources) == 1 and self._sources != {"source_1"}:
            named = {"source": sources[0]}
        if self._sources != named.keys():
            placeholders = ", ".join(f"{{{name}}}" for name in named) or "none"
            raise DataError(f"--command must contain the sources of this line and no others: {placeholders}")
        return named

    @staticmethod
    def _filled(word: str, fields: Values) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1] not in fields:
                raise ConfigError(f"--command: {unknown('field', match[1], fields)}")
            text = str(fields[match[1]])
            if "\0" in text:
                raise DataError(f"the {match[1]} contains a null character. Remove it")
            return text

        return _FIELD.sub(value, word)  # in one pass: braces in a prompt are not a field


class DiffusersMaker:
    """Runs a pipeline of diffusers in this process.

    Args:
        repo: Its repository, or a folder.
        options: Values by name, as text: revision, variant, dtype and device for loading it, the others for its call.

    Raises:
        MissingExtra: diffusers is not installed.
        UserError: The pipeline cannot be loaded, or does not take an option.
    """

    def __init__(self, repo: str, options: Mapping[str, str]) -> None:
        try:
            diffusers = importlib.import_module("diffusers")
        except ImportError as error:
            raise MissingExtra("diffusers", "diffusers", "--model diffusers/REPO") from error
        import torch

        device = options.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
        dtype = options.get("dtype") or ("float32" if device == "cpu" else "bfloat16")
        if not isinstance(getattr(torch, dtype, None), torch.dtype):
            raise ConfigError(must_be("--option dtype", "a torch type, such as bfloat16", dtype))
        loading = {name: options[name] for name in ("revision", "variant") if name in options}
        try:
            pipeline = diffusers.DiffusionPipeline.from_pretrained(
                repo, dtype=getattr(torch, dtype), use_safetensors=True, **loading
            )
            self._pipeline = pipeline.to(device)
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(
                f"--model diffusers/{repo} cannot be loaded: {one_line(str(error))}. Check the name, and the --option values"
            ) from error
        self._pipeline.set_progress_bar_config(disable=True)
        parameters = inspect.signature(self._pipeline.__call__).parameters
        self._options: Json = {}
        for name, text in options.items():
            if name in _LOADING:
                continue
            if name not in parameters or name in ("prompt", "generator"):
                raise ConfigError(f"--option: {unknown('parameter of the pipeline', name, parameters)}")
            self._options[name] = load_yaml(text, f"--option {name}: ")
        self._torch, self.makes_edits = torch, "image" in parameters
        self.name = Path(repo).name
        self.settings: Values = {
            "model": f"diffusers/{repo}",
            **loading,
            "dtype": dtype,
            "device": device,
            "diffusers": diffusers.__version__,
            "torch": torch.__version__,
            "options": self._options,
        }

    def make(self, fields: Values) -> bytes:
        noise = self._torch.Generator("cpu").manual_seed(int(fields["seed"]))  # the same on every device
        sources = self._opened(fields)
        try:
            output = self._pipeline(prompt=fields["prompt"], generator=noise, **sources, **self._options)
        except (RuntimeError, ValueError, TypeError) as error:
            raise DataError(
                f"the pipeline failed: {one_line(str(error))}. Correct the --option values, or the prompt"
            ) from error
        if any(getattr(output, "nsfw_content_detected", None) or ()):
            raise DataError("the safety checker of the pipeline blacked out the image. Change the prompt")
        out = io.BytesIO()
        output.images[0].save(out, "PNG")
        return out.getvalue()

    def _opened(self, fields: Values) -> Json:
        """Open the sources of an edit as the pipeline takes them: an upright RGB image, or a list of several.

        Raises:
            DataError: One cannot be read.
        """
        images = [_opened(source) for source in sources_of(fields)]
        return {"image": images[0] if len(images) == 1 else images} if images else {}


def _opened(source: Path) -> Any:
    """Open a source image as a pipeline of diffusers takes it."""
    with open_image(as_png(read(source), source), source) as image:
        return image.convert("RGB")
