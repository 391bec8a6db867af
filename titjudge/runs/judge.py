"""The Python API: `Judge(...).score(image, prompt)` and its many and async forms."""

from __future__ import annotations

import asyncio
import contextlib
import os
import warnings
import weakref
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from titjudge.core.config import Limits, RunConfig, load_config
from titjudge.core.errors import BudgetExhausted, UserError
from titjudge.core.paths import cache_folder
from titjudge.core.prompts import PromptLibrary
from titjudge.core.redaction import one_line
from titjudge.core.types import Item, Score, Status
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import Panel
from titjudge.metrics import Metric
from titjudge.runs.image_tables import Cell, ImageTable, filled, score_columns
from titjudge.runs.images_in_memory import ImagesInMemory, Placed, check, images_of, is_array
from titjudge.runs.judged_scores import JudgedScore, Scores
from titjudge.runs.loop import prepared
from titjudge.runs.prompt_languages import Foreign
from titjudge.runs.run_folder import RunFolder, resumed_budget
from titjudge.runs.score_digests import compares_images
from titjudge.runs.score_stream import ScoreStream

_SMALL = 2**18  # bytes of an image that are written faster than a thread is started
_RUNNING = (
    "an event loop is running here, as in every notebook: `async with Judge(...) as judge: "
    "score = await judge.ascore(image, prompt)`, or `await judge.ascore_many(pairs)`"
)


class Judge:
    """Score images against prompts.

    An image is a path, a PIL image, the bytes of an image file, or a NumPy array or torch tensor: height x width x 3 or
    3 x height x width, floats from 0 to 1 or integers from 0 to 255. Several judges (`judge=[...]` or
    `panel=[...]`) and `samples=N` give one score from their votes. A score that a cap prevents has the status `budget`.

    Answers are cached on disk: the same question is never paid twice. Use it as a context manager (`with`, or `async with`
    where an event loop runs), or call `close`.

    Args:
        metric: Name of a metric (`tit`, `tit-llm`, `lmm-score`, ...; see `python cli.py metrics`), or several in a list.
        captioner: The vision-language model: `provider/model`, or a dict as in run.yaml.
        judge: The language model that compares texts, in the same form; a list makes a panel.
        embedder: The embedding model, in the same form.
        protocol: `strict` or `official`.
        **settings: Any further key of run.yaml, for example `prices={...}`, `cache="DIR"`, and the keys of its `limits`, for
            example `max_cost=5`.

    Raises:
        ConfigError: An unknown name or key; from the first score also a cap on a model without a known price.
    """

    def __init__(
        self,
        metric: str | Sequence[str] = "tit",
        *,
        captioner: str | dict[str, Any] | None = None,
        judge: str | dict[str, Any] | list[Any] | None = None,
        embedder: str | dict[str, Any] | None = None,
        protocol: str = "strict",
        **settings: Any,
    ) -> None:
        limits = {key: settings.pop(key) for key in list(settings) if key in Limits.model_fields}
        given = {"captioner": captioner, "judge": judge, "embedder": embedder, "protocol": protocol, **settings}
        if limits:
            given["limits"] = {**(given.get("limits") or {}), **limits}
        self._prepare(load_config(None, {**given, "metrics": _names(metric)}))

    @classmethod
    def from_config(
        cls, config: RunConfig, metric: str | Sequence[str] | None = None, *, folder: RunFolder | None = None
    ) -> Judge:
        """Make a judge from a run.yaml: `Judge.from_config(load_config(Path("run.yaml")))`.

        Args:
            config: The models, limits and other keys; the keys that name data are ignored.
            metric: One metric or several, in place of those of the configuration.
            folder: An open run folder, for the ledger and the answers: what earlier sessions have spent counts against
                the cap. Scores are not written to it.

        Raises:
            ConfigError: There is no metric of that name.
        """
        if metric is not None:
            names = _names(metric)
            options = {name: given for name, given in config.metric_options.items() if name in names}
            config = config.model_copy(update={"metrics": names, "metric_options": options})
        judge = cls.__new__(cls)
        judge._prepare(config, folder)
        return judge

    def _prepare(self, config: RunConfig, folder: RunFolder | None = None) -> None:
        from titjudge.runs.resolve import load_metrics

        self._config, self._metrics, self._folder = config, load_metrics(config), folder
        self._panel = Panel.of(self._config)
        self._memory = ImagesInMemory()
        self._foreign, self._warned = Foreign(), False
        self._runner: asyncio.Runner | None = None
        self._engine: Engine | None = None
        self._cache: AnswerCache | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def open(self) -> Engine:
        """Open models, cache and budget before the first score needs them, and return the engine.

        Raises:
            ConfigError: A cap on a model without a known price.
        """
        if self._engine is None:
            from titjudge.runs.resolve import asked_roles

            folder, roles = self._folder, Roles(self._config)
            roles.check_prices(asked_roles(self._metrics))
            self._cache = AnswerCache(cache_folder(self._config.cache))
            self._engine = Engine(
                roles, PromptLibrary(self._config.prompts), self._cache,
                resumed_budget(self._config.limits, folder.money() if folder else {}),
                journal=folder.journal if folder else None, known=folder.known_keys() if folder else None,
            )  # fmt: skip
        return self._engine

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics by name, in the order in which an image's scores come."""
        return self._metrics

    def __deepcopy__(self, memo: dict[int, Any]) -> Judge:
        """Return the judge itself: a copy would have a cap of its own."""
        return self

    async def ascore(self, image: Any, prompt: str) -> JudgedScore:
        """Score one image; see `score`."""
        if len(self._metrics) != 1:
            names = ", ".join(self._metrics)
            raise UserError(
                f"this Judge has the metrics {names}: `score_many([(image, prompt)])` gives a score of each"
            )
        return (await self.ascore_many([(image, prompt)]))[0]

    def ascore_many(
        self, images: Any, prompts: str | Iterable[str] | None = None, *, metrics: Sequence[str] | None = None
    ) -> ScoreStream:
        """Score many images at once; arguments as in `score_many`.

        `scores = await judge.ascore_many(pairs)` gives all of them in order. `async for score in judge.ascore_many(pairs)`
        gives each as it comes; its `number` is the position of its pair. When the loop is left early nothing more is asked;
        answers in flight are awaited and kept, at the latest by `aclose` of the judge. `metrics` names some of the judge's
        metrics; without it, all score.
        """
        pairs = _pairs(images) if prompts is None else _paired(images, prompts)
        return ScoreStream(self._stream(pairs, list(self._metrics) if metrics is None else metrics))

    async def _stream(
        self, pairs: Sequence[tuple[Any, str]], names: Sequence[str]
    ) -> AsyncGenerator[JudgedScore, None]:
        engine, metrics = self.open(), {name: self._metrics[name] for name in names}
        self._warn(pairs)
        gate = asyncio.Semaphore(max(64, 2 * self._config.limits.concurrency))
        in_groups = any(map(compares_images, metrics.values()))  # images are compared: all are placed first
        all_placed: list[Placed] = []
        items: dict[int, Item] = {}

        async def place(image: Any) -> Placed:
            quick = isinstance(image, str | os.PathLike) or (isinstance(image, bytes) and len(image) <= _SMALL)
            async with gate:
                return self._memory.place(image) if quick else await asyncio.to_thread(self._place, image)

        async def judged(number: int) -> list[JudgedScore]:
            image, prompt = pairs[number]
            placed = all_placed[number] if in_groups else await place(image)
            if placed.refusal:
                refused = [Score(placed.name, name, None, Status.BAD_INPUT, placed.refusal) for name in metrics]
                return [JudgedScore.judged(score, number, prompt, None, None) for score in refused]
            item = items[number] if in_groups else _item(placed, prompt)
            try:
                async with gate:
                    scores = await asyncio.gather(*(self._measure(engine, item, name) for name in metrics))
                if placed.path in self._memory:  # a temporary file, whose path means nothing to the user
                    scores = [replace(score, reason=score.reason.replace(f"{placed.path}: ", "")) for score in scores]
                return [JudgedScore.judged(score, number, prompt, placed.path, placed.thumbnail) for score in scores]
            finally:
                for deleted in self._memory.release(placed.path):
                    engine.images.forget(deleted)

        if in_groups:
            all_placed = list(await asyncio.gather(*(place(image) for image, _ in pairs)))
            single = {n: _item(placed, pairs[n][1]) for n, placed in enumerate(all_placed) if not placed.refusal}
            grouped = [item for item in prepared(single.values(), metrics) if isinstance(item, Item)]
            items = dict(zip(single, grouped, strict=True))
        finished: asyncio.Queue[asyncio.Task[list[JudgedScore]]] = asyncio.Queue()
        tasks = [asyncio.create_task(judged(number)) for number in range(len(pairs))]
        self._tasks.update(tasks)
        for task in tasks:
            task.add_done_callback(finished.put_nowait)
            task.add_done_callback(self._tasks.discard)
        try:
            for _ in tasks:
                for score in (await finished.get()).result():
                    yield score
        finally:
            unfinished = any(not task.done() for task in tasks)
            await _cancel(tasks)  # also looks at what else has failed, which asyncio complains about otherwise
            if unfinished:
                await engine.land()

    def _place(self, image: Any) -> Placed:
        """Place an image. A cell of a table that holds none is refused, so that the other rows are judged."""
        if not isinstance(image, Cell):
            return self._memory.place(image)
        try:
            return self._memory.place(image.load())
        except Exception as error:  # whatever decodes the cells of a data set may raise anything
            return Placed("", Path(), refusal=one_line(str(error)) or type(error).__name__)

    def _warn(self, pairs: Iterable[tuple[Any, str]]) -> None:
        """Warn once that the embedder does not know the script of a prompt."""
        if self._warned:
            return
        for _, prompt in pairs:
            self._foreign.look(Item("", prompt, Path(), prompt_id=prompt))
        for note in self._foreign.notes(self._config, self._metrics.values()):
            warnings.warn(note, stacklevel=2)
            self._warned = True

    async def _measure(self, engine: Engine, item: Item, name: str) -> Score:
        if not item.prompt.strip():
            return Score(item.id, name, None, Status.BAD_INPUT, "the prompt is empty")
        try:
            return (await self._panel.score(engine, item, name, self._metrics[name]))[0]
        except BudgetExhausted as error:
            return Score(item.id, name, None, Status.BUDGET, str(error))

    def score(self, image: Any, prompt: str) -> JudgedScore:
        """Score one image. Where there is no score `value` is None, and `status` and `reason` say why.

        Raises:
            TypeError: it is no image.
            UserError: called where an event loop runs (use `await judge.ascore(...)` there), or there are several metrics.
            FatalProviderError: a wrong key, no quota, no such model.
        """
        return self._sync(self.ascore(image, prompt))  # type: ignore[no-any-return]

    def score_many(self, images: Any, prompts: str | Iterable[str] | None = None) -> Scores:
        """Score many images, many at a time, and return the scores in order; with several metrics each image has several.

        A metric that compares images (`pairwise`) compares those of the same prompt. Ctrl-C asks nothing more and awaits
        the answers in flight; the same call goes on from there.

        Args:
            images: (image, prompt) pairs; or, with `prompts`, images in a list, or an array or tensor of four dimensions.
            prompts: One for each image, or one for all.

        Raises:
            TypeError: One of them is no image, no prompt, or no pair; the message says which.
            ValueError: There are not as many prompts as images, or an array is no image.
        """
        return self._sync(self.ascore_many(images, prompts))  # type: ignore[no-any-return]

    def judge_table(self, table: Any, image: str = "image", prompt: str = "prompt", *, prefix: str = "") -> Any:
        """Score every row of a pandas.DataFrame or datasets.Dataset, and give it back with three columns a metric.

        They are `METRIC` (NaN where there is no score), `METRIC_status` and `METRIC_reason`. A row whose image or prompt
        cannot be used has the status bad_input; the others go on. The images of a data set are read one by one.

        Args:
            table: The table; it is not changed.
            image: Its column with images: what `score` takes, or `{bytes, path}`. Paths count from the working directory.
            prompt: Its column with prompts.
            prefix: Goes before the names of the new columns.

        Raises:
            TypeError: It is no such table.
            UserError: A column is missing, or one of the new columns is there already.
        """
        return self._sync(self.ajudge_table(table, image, prompt, prefix=prefix))

    async def ajudge_table(self, table: Any, image: str = "image", prompt: str = "prompt", *, prefix: str = "") -> Any:
        """Score every row of a table as `judge_table` does, inside a running event loop."""
        source, columns = ImageTable(table, image, prompt), score_columns(self._metrics, prefix)
        source.check_free(name for names in columns.values() for name in names)
        scores = await ScoreStream(self._stream(source.pairs(), list(self._metrics)))
        made: dict[str, Any] = {}
        for position, names in enumerate(columns.values()):
            made.update(filled(names, scores.scores[position :: len(columns)]))
        return source.with_columns(made)

    def _sync(self, work: Any) -> Any:
        """Run a coroutine where no event loop runs."""
        if _in_event_loop():
            work.close()
            raise UserError(_RUNNING)
        if self._runner is None:
            self._runner = asyncio.Runner()
        try:
            return self._runner.run(work)
        finally:
            if self._finalizer is None and self._engine is not None:
                self._finalizer = weakref.finalize(self, _finish, self._runner, self._engine, self._cache)

    async def aclose(self) -> None:
        """Close connections and the cache, and delete copies of images. Answers in flight are awaited and kept."""
        await _cancel(self._tasks)  # of a stream that was left early
        self._memory.close()
        if self._engine is not None:
            await self._engine.aclose()
            self._engine = None
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    def close(self) -> None:
        """Close as `aclose` does, where no event loop runs.

        Raises:
            UserError: an event loop is running here, and there is something to close.
        """
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        if self._runner is not None:
            self._runner.run(self.aclose())
            self._runner.close()
            self._runner = None
        elif self._engine is not None:
            if _in_event_loop():
                raise UserError(_RUNNING)
            asyncio.run(self.aclose())

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


def _names(metric: str | Sequence[str]) -> list[str]:
    return [metric] if isinstance(metric, str) else list(metric)


def _item(placed: Placed, prompt: str) -> Item:
    return Item(placed.name, prompt, placed.path, prompt_id=prompt)


def _paired(images: Any, prompts: str | Iterable[str]) -> list[tuple[Any, str]]:
    """Pair images with their prompts.

    Raises:
        TypeError, ValueError: There are not as many prompts as images, or one is no image.
    """
    listed = images_of(images)
    texts = [prompts] * len(listed) if isinstance(prompts, str) else list(prompts)
    if len(texts) != len(listed):
        raise ValueError(f"there are {len(listed)} images and {len(texts)} prompts")
    return _pairs(zip(listed, texts, strict=True))


def _pairs(pairs: Iterable[Any]) -> list[tuple[Any, str]]:
    """Check all pairs before anything is asked.

    Raises:
        TypeError, ValueError: one is no (image, prompt) pair; names its number.
    """
    if is_array(pairs):
        raise TypeError("a batch of images needs its prompts: score_many(images, prompts)")
    checked = list(pairs)
    for number, pair in enumerate(checked):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            shown = repr(pair) if isinstance(pair, str) else type(pair).__name__
            raise TypeError(f"score_many takes (image, prompt) pairs; number {number} is {shown}")
        if not isinstance(pair[1], str):
            raise TypeError(f"a prompt is a str; that of number {number} is {type(pair[1]).__name__}")
        try:
            check(pair[0])
        except (TypeError, ValueError) as error:
            raise type(error)(f"number {number}: {error}" if len(checked) > 1 else str(error)) from None
    return checked


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _finish(runner: asyncio.Runner, engine: Engine, cache: AnswerCache | None) -> None:
    """Close what is left open of a Judge that is garbage."""
    with contextlib.suppress(Exception):
        runner.run(engine.aclose())
        runner.close()
    if cache is not None:
        cache.close()
