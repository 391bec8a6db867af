"""The common parts of models of this machine: loaded at the first request, asked in batches, failing alike.

A model is loaded at its first use: once, and one model after the other in a process.

transformers changes some of its classes while it loads a model (it stops weights from being tied, for example) and
changes them back: if two models load at the same time, in two threads, the change can stay, and models loaded later are
wrong.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from titjudge.core.errors import ConfigError, DataError, Unanswered, UserError
from titjudge.core.types import (
    EMPTY,
    Failure,
    FailureKind,
    ImageFile,
    Json,
    ProviderSettings,
    Reply,
    Request,
    Status,
    Usage,
)
from titjudge.data import image_decoding
from titjudge.data.image_decoding import eight_bits, open_image
from titjudge.providers.base import UNFINISHED, Capabilities, Ending, Model, Provider, ending, why_unfinished
from titjudge.providers.local import hub
from titjudge.providers.token_counts import fitted, input_bound
from titjudge.providers.vendors import thinking_room

T = TypeVar("T")
R = TypeVar("R")


def halve_on_failure(
    batch: list[T],
    run: Callable[[list[T]], Sequence[R | Exception]],
    *,
    may_halve: Callable[[Exception], bool] = lambda error: True,
) -> list[R | Exception]:
    """Run a batch; if it fails as a whole, run its halves, down to the one element that fails.

    Args:
        batch: The elements.
        run: Returns one result or exception for each element.
        may_halve: Whether smaller batches may pass after this exception; otherwise all elements get it.
    """
    try:
        return list(run(batch))
    except Exception as error:
        if len(batch) == 1 or not may_halve(error):
            return [error] * len(batch)
    middle = len(batch) // 2
    halves = (batch[:middle], batch[middle:])
    return [result for half in halves for result in halve_on_failure(half, run, may_halve=may_halve)]


class MicroBatcher(Generic[T, R]):
    """Collects `submit` calls and hands them to `run` as one list.

    Args:
        run: Returns one result or exception for each element of a list; called in a thread, one call at a time.
        max_batch: The longest list handed over.
        idle: Seconds without a new call after which a list is handed over. While `run` works, calls collect.
    """

    def __init__(
        self, run: Callable[[list[T]], Sequence[R | Exception]], max_batch: int = 1024, idle: float = 0.005
    ) -> None:
        self._run, self._max, self._idle = run, max_batch, idle
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._worker: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="titjudge-batch")

    async def submit(self, element: T) -> R:
        """Run one element, in a batch with others, and return its result."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((element, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        """Hand over one list after the other until no call waits."""
        while self._waiting:
            last_count = -1
            while len(self._waiting) != last_count and len(self._waiting) < self._max:
                last_count = len(self._waiting)
                await asyncio.sleep(self._idle)
            batch, self._waiting = self._waiting[: self._max], self._waiting[self._max :]
            batch = [(element, future) for element, future in batch if not future.done()]
            if not batch:
                continue
            try:
                results = await asyncio.get_running_loop().run_in_executor(
                    self._threads, self._run, [element for element, _ in batch]
                )
            except Exception as error:
                results = [error] * len(batch)
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def close(self) -> None:
        """Start no further batch."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def decoded(image: ImageFile, *, on_white: bool) -> Any:
    """Decode an image to a PIL image in RGB.

    Args:
        image: The image.
        on_white: Lay what is transparent on white, as `ImageFiles` does with files; otherwise transparency is dropped, as the
            published code of the learned metrics does.

    Raises:
        Unanswered: The file is gone, has changed, or cannot be decoded.
    """
    try:
        with open_image(image.load(), image.path) as opened:
            return rgb(opened, on_white=on_white)
    except (DataError, OSError, ValueError) as error:
        raise Unanswered(Status.BAD_INPUT, str(error)) from error


def rgb(image: Any, *, on_white: bool) -> Any:
    """Convert a PIL image of any mode to RGB. 16 bits a pixel become 8 (PIL's own conversion would turn them white)."""
    image = eight_bits(image)
    plain = (image_decoding.on_white(image) if on_white else image).convert("RGB")
    plain.info.pop("transparency", None)  # otherwise some processors lay the picture on white after all
    return plain


M = TypeVar("M")
_one_at_a_time = threading.Lock()


class LoadOnce(Generic[M]):
    """A model that the first call loads; one that could not be loaded is not tried again."""

    def __init__(self, load: Callable[[], M]) -> None:
        self._load = load
        self._broken: UserError | None = None
        self.model: M | None = None

    def __call__(self) -> M:
        """Return the model.

        Raises:
            UserError: It cannot be loaded.
        """
        if self.model is not None:
            return self.model
        with _one_at_a_time:
            if self._broken is not None:
                raise self._broken
            if self.model is None:  # another thread may have loaded it meanwhile
                try:
                    self.model = self._load()
                except UserError as error:
                    self._broken = error
                    raise
            return self.model

    def drop(self) -> None:
        """Forget the model."""
        self.model = None


def _after_fork() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()  # another thread may have had it


os.register_at_fork(after_in_child=_after_fork)


Outcomes = list[Reply | Exception]
"""A reply, or the reason why there is none, for each request of a batch."""
_DEFAULT_MAX_TOKENS = 512  # of an answer


def not_a_number(dtype: str) -> str:
    """Return advice on a model of this floating-point type that computes values that are not numbers."""
    if dtype in ("float32", "float64"):
        return "the weights may be damaged: download them again, or choose another checkpoint"
    return "set the option dtype: float32"


class RowError(Exception):
    """One request cannot be answered; the others of its batch can."""


class LocalModel(Model, Generic[M, T, R]):
    """A model of this machine, `M` when loaded, that computes an `R` for each `T`.

    It is loaded at the first call, in the thread that computes; calls that come together are computed together.

    Args:
        max_batch: Maximum number of elements that `_run` is given at once.
    """

    uses_device = True

    def __init__(self, max_batch: int = 1024) -> None:
        self._loaded = LoadOnce(self._load)
        self._batcher: MicroBatcher[T, R] = MicroBatcher(self._run, max_batch)

    def _load(self) -> M:
        raise NotImplementedError

    def _run(self, batch: list[T]) -> Sequence[R | Exception]:
        """Compute a result or an exception for each element of a batch."""
        raise NotImplementedError

    def load(self) -> None:
        self._loaded()

    def classify(self, error: Exception) -> Failure:
        fatal = isinstance(error, UserError | MemoryError)
        return Failure(FailureKind.FATAL if fatal else FailureKind.REJECTED, hub.message_of(error))

    async def aclose(self) -> None:
        self._batcher.close()
        self._loaded.drop()


class LocalProvider(LocalModel[M, Request, Reply], Provider):
    """A provider of a model of this machine, which is a folder or on the hub.

    A subclass has a name, loads the model (`_load`) and answers a batch (`_run`).

    Args:
        settings: `model` is a name on the hub or a folder; `options` may have `revision` and `trust_remote_code`.
        max_batch: Maximum number of requests that `_run` is given at once.

    Raises:
        ConfigError: There is no model name.
    """

    def __init__(self, settings: ProviderSettings, *, max_batch: int) -> None:
        if not settings.model:
            raise ConfigError(f"'{self.name}' has no model. Write {self.name}/MODEL, a name on the hub or a folder")
        super().__init__(max_batch)
        self.settings = settings
        self.model = settings.model
        self.account = f"{self.name}|{settings.model}"
        self._options = dict(settings.options)
        self._revision = str(self._options.get("revision", ""))

    # -- what can be known without loading -----------------------------------------------------------------------------

    @cached_property
    def _folder(self) -> tuple[Path, str]:
        """Find the folder of the small files and their commit; see `hub.folder_of`.

        Raises:
            UserError: There is no such model, or it needs remote code.
        """
        folder, commit = hub.folder_of(self.model, self._revision)
        if hub.has_remote_code(folder) and not self._options.get("trust_remote_code"):
            config = hub.read_json(folder, "config.json")
            if not _in_transformers(str(config.get("model_type", ""))):
                raise hub.untrusted(self.model)
        return folder, commit

    @cached_property
    def _weights(self) -> str:
        """The identity of the weights: the commit on the hub, or the hash of the folder's content."""
        pinned = hub.identity_of(self.model, self._revision)
        return pinned.get("revision") or pinned["content"]

    def ready(self) -> None:
        """Find the model now rather than at the first request.

        Raises:
            UserError: There is none, or it needs remote code.
        """
        _ = self._folder

    # -- answering -----------------------------------------------------------------------------------------------------

    async def complete(self, request: Request) -> Reply:
        """Answer one request, together with others that arrive at the same time.

        Raises:
            UserError: The model cannot be loaded.
            Unanswered: An image cannot be read.
            RowError: The request cannot be answered.
        """
        return await self._batcher.submit(fitted(request))


class LocalChatModel(LocalProvider[M]):
    """A language model of this machine, whichever library generates."""

    omitted: ClassVar[frozenset[str]]
    """Parameters that the library does not take."""

    @cached_property
    def _reads_images(self) -> bool:
        config = hub.read_json(self._folder[0], "config.json")
        return any(name in config for name in ("vision_config", "vision_tower", "mm_vision_tower", "perceiver_config"))

    @cached_property
    def capabilities(self) -> Capabilities:
        """Abilities of the model, by its configuration.

        Raises:
            UserError: There is no such model, or it needs remote code.
        """
        return Capabilities(
            images=self._reads_images,
            schema=self._constrains,
            omit=self.omitted | self._without_effect,
            direct=True,
            probabilities=True,
            thinking=thinking_room(self.model),
        )

    @property
    def _constrains(self) -> bool:
        """Whether answers are constrained to the schema of a request."""
        return False

    @cached_property
    def _without_effect(self) -> frozenset[str]:
        """`chat_template_kwargs` if it changes nothing: an option settles thinking, or no template asks for it.

        The engine then leaves it out, so that it is not recorded as sent.
        """
        template = str(self._options.get("chat_template") or "") or _templates(self._folder[0])
        settled = "enable_thinking" in self._options or "enable_thinking" not in template
        return frozenset({"chat_template_kwargs"}) if settled else frozenset()

    @property
    def _thinking(self) -> Json:
        """The argument of the chat template that the option `enable_thinking` sets; it goes before a metric's."""
        name = "enable_thinking"
        return {name: bool(self._options[name])} if name in self._options else {}

    def usage_bound(self, request: Request) -> Usage:
        request = fitted(request)
        total, images = input_bound(request, self.name, self.model, request.params)
        return Usage(input=total, output=max_tokens(request), image=images)


def max_tokens(request: Request) -> int:
    """Bound the length of an answer to a request, in tokens."""
    return int(request.params.get("max_tokens") or _DEFAULT_MAX_TOKENS)


def split_thought(text: str, opened: bool = False) -> tuple[str, str]:
    """Split a generated text into (thought, answer); `opened`: the prompt itself began the thought."""
    before, closed, after = text.rpartition("</think>")
    if closed:
        return before.strip().removeprefix("<think>").strip(), after.strip()
    if opened or text.lstrip().startswith("<think>"):
        return text.strip().removeprefix("<think>").strip(), ""
    return "", text.strip()


def make_reply(
    thought: str, answer: str, usage: Usage, finish: str, flags: tuple[str, ...] = (), **fields: Any
) -> Reply:
    """Make the reply of a generated answer; a thought becomes a flag, `finish` "length" a cut answer, no answer a refusal."""
    status, reason = Status.OK, ""
    if ending(finish) in (Ending.BROKEN, Ending.UNKNOWN):
        status, reason, flags = Status.TRUNCATED, why_unfinished(finish), (*flags, UNFINISHED)
    elif finish == "length":
        cause = "all of it went into thinking" if thought and not answer else f"{usage.output} tokens"
        status, reason = Status.TRUNCATED, f"the answer reached its token limit ({cause})"
    elif not answer:
        status, reason = Status.REFUSED, "the model ended its answer without a word"
        flags = (*flags, EMPTY)
    if thought:
        flags = (*flags, f"thought: {thought}")
    return Reply(answer, status, reason, usage, finish, flags=flags, **fields)


def _templates(folder: Path) -> str:
    """Read the chat templates in a model's small files, one after the other."""
    files = [*folder.glob("*.jinja"), *folder.glob("additional_chat_templates/*.jinja")]
    templates = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    for name in ("chat_template.json", "tokenizer_config.json", "processor_config.json"):
        content = hub.read_json(folder, name).get("chat_template") or ""
        templates += (
            [str(entry.get("template", "")) for entry in content] if isinstance(content, list) else [str(content)]
        )
    return "\n".join(templates)


def _in_transformers(model_type: str) -> bool:
    """Whether transformers has this architecture itself (the folder's own code is then not needed, nor run)."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return model_type in CONFIG_MAPPING_NAMES
