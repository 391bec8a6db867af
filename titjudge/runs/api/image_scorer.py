"""Score images against prompts in one event loop: models, cache, budget and images of a `Judge` or a reward server."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import AsyncGenerator, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from titjudge.core.errors import BudgetExhausted
from titjudge.core.grouping import random_place
from titjudge.core.redaction import one_line
from titjudge.core.serialization import without_surrogates
from titjudge.core.types import Item, Score, Status
from titjudge.core.words import truncated
from titjudge.engine.budget import UNSPENT, Spending
from titjudge.engine.forecast import Planner
from titjudge.engine.pipeline import Engine
from titjudge.engine.rate_limiter import PLACE, PromptTurn
from titjudge.engine.scoring import Panel
from titjudge.metrics import Metric
from titjudge.providers.retirements import replaced_default
from titjudge.runs.api.images_in_memory import ImageInTable, ImagesInMemory, Placed
from titjudge.runs.api.judged_scores import JudgedScore
from titjudge.runs.folder.run_folder import RunFolder, caps, compares_images
from titjudge.runs.loop import prepared, score_reserved
from titjudge.runs.open_run import OpenRun, open_planner
from titjudge.runs.resolve import ResolvedMetrics
from titjudge.runs.run_input import UnfitPrompts

T = TypeVar("T")
Entry = tuple[Any, str] | tuple[Any, str, Sequence[Any]]
"""An image with its prompt; of an edit, the result with its instruction and the images it was made from."""
_SMALL = 2**19  # bytes of an image that are hashed and kept about as fast as a thread is started


def entry_sources(entry: Entry) -> Sequence[Any]:
    """Return the images that the image of an entry was made from; none if it is not an edit."""
    return entry[2] if len(entry) == 3 else ()


class ImageScorer:
    """Scores images in memory or files, many at a time, inside one event loop.

    Args:
        run: Its metrics and models.
        folder: An open run folder for the ledger and the answers.
        spent: The amount that already counts against the caps, without a folder (`Budget.used`).
        memory: Keeps images in memory while they are judged; without it in files, which a notebook shows.
        kind: The kind of the run in the manifest of the folder.
    """

    def __init__(
        self,
        run: ResolvedMetrics,
        folder: RunFolder | None = None,
        spent: Spending = UNSPENT,
        memory: ImagesInMemory | None = None,
        kind: str = "python",
    ) -> None:
        self.resolved, self.config, self.metrics, self.folder = run, run.config, run.metrics, folder
        self._spent, self._kind = spent, kind
        self._panel = Panel.from_config(run.config)
        self._memory = memory or ImagesInMemory()
        self._unfit, self._warned = UnfitPrompts(), False
        self._cached_cost = 0.0
        self._left_out: set[str] = set()  # lines about parameters that are not sent, as was warned of
        self._run: OpenRun | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def open(self) -> OpenRun:
        """Open models, cache and budget before the first score needs them.

        Raises:
            ConfigError: A cap on a model without a known price.
        """
        if self._run is None:
            self._run = OpenRun(self.resolved, self.folder, kind=self._kind, spent=self._spent)
            # Not a run, so a wrong key does not end it: later questions may be answered.
            self._run.engine.sender.recovers = True
            self._warn_of_defaults()
        return self._run

    def _warn_of_defaults(self) -> None:
        """Warn that a provider's default model is no longer the one that it was."""
        roles = [role for name in self.resolved.models if (role := self.config.role(name)) and not role.named]
        for line in dict.fromkeys(line for role in roles for line in replaced_default(role.provider)):
            warnings.warn(line, stacklevel=2)

    def spent(self) -> Spending:
        """Return the certain and uncertain spending until now."""
        return self._spent if self._run is None else self._run.engine.budget.used()

    @property
    def cached_cost(self) -> float:
        """USD that the answers from the cache would have cost."""
        return self._cached_cost + (0.0 if self._run is None else _cached_cost(self._run.engine))

    def counts(self) -> dict[str, Any]:
        """Count answers and money, for a progress bar."""
        if self._run is None:
            return {}
        answers = sum(tally.asked + tally.cached for tally in self._run.engine.roles.tallies())
        spent = self._run.engine.budget.spent
        return {"answers": answers, **({"spent": f"${spent:.2f}"} if spent else {})}

    async def aclose(self) -> None:
        """Close connections and the cache, and delete copies of images. Answers in flight are awaited and kept."""
        await _cancel(self._tasks)  # of a stream that was left early
        self._memory.close()
        run, self._run = self._run, None
        if run is not None:
            try:
                await run.aclose()
            finally:
                self._spent = run.engine.budget.used()
                self._cached_cost += _cached_cost(run.engine)

    async def stream(
        self, pairs: Sequence[Entry], names: Iterable[str] | None = None
    ) -> AsyncGenerator[JudgedScore, None]:
        """Yield the scores of (image, prompt[, sources]) pairs, as they come; `names` are some of the metrics, None all."""
        run, metrics = self.open(), {name: self.metrics[name] for name in (self.metrics if names is None else names)}
        engine = run.engine
        run.keep_manifest()
        self._warn(pairs)
        gate = asyncio.Semaphore(max(64, 2 * self.config.limits.concurrency))
        in_groups = any(map(compares_images, metrics.values()))  # images are compared: all are placed first
        all_placed: list[tuple[Placed, ...]] = []
        items: dict[int, Item] = {}

        async def place(image: Any) -> Placed:
            quick = isinstance(image, str | os.PathLike) or (isinstance(image, bytes) and len(image) <= _SMALL)
            async with gate:
                return self._memory.place(image) if quick else await asyncio.to_thread(self._place, image)

        async def place_all(pair: Entry) -> tuple[Placed, ...]:
            if not (sources := entry_sources(pair)):
                return (await place(pair[0]),)
            return tuple(await asyncio.gather(place(pair[0]), *map(place, sources)))

        async def judged(number: int) -> list[JudgedScore]:
            prompt = pairs[number][1]
            placed, *sources = all_placed[number] if in_groups else await place_all(pairs[number])
            if refusal := _swapped(pairs[number]) or _refusal(placed, *sources):
                group = _prompt_id(without_surrogates(prompt), *sources)
                refused = [
                    Score(placed.name, name, None, Status.BAD_INPUT, refusal, prompt_id=group) for name in metrics
                ]
                return [JudgedScore.judged(score, number, prompt, None, None) for score in refused]
            item = items[number] if in_groups else _item(prompt, placed, *sources)
            try:
                async with gate:
                    PLACE.set(PromptTurn(places[number]))
                    scores = await self._measured(engine, planner, item, metrics)
                for image in (placed, *sources):
                    if image.path in self._memory:  # a temporary file, whose path means nothing to the user
                        scores = [_without_path(score, image.path) for score in scores]
                path = placed.path if self._memory.shows else None
                return [JudgedScore.judged(score, number, prompt, path, placed.thumbnail) for score in scores]
            finally:
                for image in (placed, *sources):
                    for deleted in self._memory.release(image.path):
                        engine.images.forget(deleted)

        if in_groups:
            all_placed = list(await asyncio.gather(*map(place_all, pairs)))
            single = {n: _item(pairs[n][1], *files) for n, files in enumerate(all_placed) if not _refusal(*files)}
            grouped = [item for item in prepared(single.values(), metrics) if isinstance(item, Item)]
            items = dict(zip(single, grouped, strict=True))
        finished: asyncio.Queue[asyncio.Task[list[JudgedScore]]] = asyncio.Queue()
        by_prompt = sorted(range(len(pairs)), key=lambda number: random_place(pairs[number][1]))
        places = {number: place for place, number in enumerate(by_prompt)}
        capped = caps(self.config.limits)
        planner = open_planner(self.config, run.cache, run.library, per_item=True) if capped else None
        tasks = [asyncio.create_task(judged(number)) for number in by_prompt]
        self._tasks.update(tasks)
        for task in tasks:
            task.add_done_callback(finished.put_nowait)
            task.add_done_callback(self._tasks.discard)
        try:
            for _ in tasks:
                for score in (await finished.get()).result():
                    yield score
            self._warn_of_left_out(engine)
        finally:
            unfinished = any(not task.done() for task in tasks)
            await _cancel(tasks)  # also looks at what else has failed, which asyncio complains about otherwise
            if planner is not None:
                await planner.aclose()
            if unfinished:
                await engine.land()

    def _place(self, image: Any) -> Placed:
        """Place an image; a table cell without one gets a refusal, and no error, so that the other rows are judged."""
        if not isinstance(image, ImageInTable):
            return self._memory.place(image)
        try:
            return self._memory.place(image.load())
        except Exception as error:  # whatever decodes the cells of a data set may raise anything
            return Placed("", Path(), refusal=one_line(str(error)) or type(error).__name__)

    def _warn(self, pairs: Iterable[Entry]) -> None:
        """Warn once that the embedder does not know the script of a prompt."""
        if self._warned or "embedder" not in self.resolved.roles:
            return
        for pair in pairs:
            self._unfit.look(Item("", pair[1], Path(), prompt_id=pair[1]))
        for note in self._unfit.notes(self.config, self.metrics.values()):
            warnings.warn(note, stacklevel=2)
            self._warned = True

    def _warn_of_left_out(self, engine: Engine) -> None:
        """Warn once of each parameter that the configuration asks for, and that is not sent."""
        for note in engine.roles.left_out("official"):  # the protocol's temperature was not chosen by the user
            if note not in self._left_out:
                self._left_out.add(note)
                warnings.warn(note, stacklevel=2)

    async def _measured(
        self, engine: Engine, planner: Planner | None, item: Item, metrics: Mapping[str, Metric]
    ) -> list[Score]:
        """Score an item by each metric; under a cap within what is reserved for the item."""
        without = Score(item.id, "", None, Status.BAD_INPUT, "the prompt is empty", prompt_id=item.prompt_id)
        if not item.prompt.strip():
            return [replace(without, metric=name) for name in metrics]
        if planner is None:
            return await _all([self._only(engine, item, name) for name in metrics])
        found: dict[str, list[Score] | BaseException] = {}
        held = None
        while todo := {name: metric for name, metric in metrics.items() if name not in found}:
            results, held = await score_reserved(engine, self._panel, planner, item, todo, held)
            found |= results
        scores = []
        for name in metrics:
            result = found[name]
            if isinstance(result, BudgetExhausted):
                scores.append(replace(without, metric=name, status=Status.BUDGET, reason=str(result)))
            elif isinstance(result, BaseException):
                raise result
            else:
                scores.append(result[0])
        return scores

    async def _only(self, engine: Engine, item: Item, name: str) -> Score:
        return (await self._panel.score(engine, item, name, self.metrics[name]))[0]


def _cached_cost(engine: Engine) -> float:
    return engine.budget.list_cost - engine.budget.spent


def _without_path(score: Score, path: Path) -> Score:
    """Take the path of an image out of the reason of its score."""
    prefix = f"{path}: "
    return replace(score, reason=score.reason.replace(prefix, "")) if prefix in score.reason else score


def _item(prompt: str, placed: Placed, *sources: Placed) -> Item:
    prompt, places = without_surrogates(prompt), tuple(source.path for source in sources)
    return Item(placed.name, prompt, placed.path, prompt_id=_prompt_id(prompt, *sources), sources=places)


def _prompt_id(prompt: str, *sources: Placed) -> str:
    """Name a prompt; the same instruction for other sources counts as another prompt."""
    return " <- ".join((prompt, *(source.name for source in sources)))


def _swapped(pair: Entry) -> str:
    """Return why a pair is refused whose prompt is the path of a file, and whose image is not; empty for any other."""
    image, prompt = pair[:2]
    swapped = isinstance(image, str) and not os.path.isfile(image) and os.path.isfile(prompt)
    return (
        f"the image {truncated(image, 40)!r} is not a file, but the prompt is: exchange image and prompt"
        if swapped
        else ""
    )


def _refusal(*images: Placed) -> str:
    """Return the reason why the first unusable image cannot be used; empty if all can."""
    return next((image.refusal for image in images if image.refusal), "")


async def _all(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await coroutines at the same time. A single one gets no separate task, which would cost time."""
    return [await work[0]] if len(work) == 1 else list(await asyncio.gather(*work))


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
