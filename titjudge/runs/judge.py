"""The Python API: `Judge(...).score(image, prompt)` and its many and async forms."""

from __future__ import annotations

import asyncio
import contextlib
import os
import warnings
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from titjudge.core.config import Limits, RunConfig, load_config
from titjudge.core.errors import BudgetExhausted, UserError
from titjudge.core.paths import cache_folder
from titjudge.core.prompts import PromptLibrary
from titjudge.core.serialization import score_record
from titjudge.core.types import Item, Score, Status
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import Panel
from titjudge.runs.images_in_memory import ImagesInMemory
from titjudge.runs.loop import prepared
from titjudge.runs.prompt_languages import Foreign

_RUNNING = (
    "an event loop is running here, as in every notebook: `async with Judge(...) as judge: "
    "score = await judge.ascore(image, prompt)`, or `await judge.ascore_many(pairs)`"
)


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of several images; a list in all but `to_records` and `to_pandas`."""

    scores: tuple[Score, ...]

    def __iter__(self) -> Any:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, index: int) -> Score:
        return self.scores[index]

    def to_records(self) -> list[dict[str, Any]]:
        """Give one plain dict a score: item, metric, value, status, reason, parts, ..."""
        return [score_record(score) for score in self.scores]

    def to_pandas(self) -> Any:
        """Make a pandas DataFrame with one row a score.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            from titjudge.core.errors import MissingExtra

            raise MissingExtra("pandas", "pandas", "to_pandas()") from None
        return pandas.DataFrame(self.to_records())


class Judge:
    """Score images against prompts.

    An image is a path, a PIL image, the bytes of an image file, or a NumPy array. Several judges (`judge=[...]` or
    `panel=[...]`) and `samples=N` give one score from their votes. What a cap leaves unasked has the status `budget`.

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
    def from_config(cls, config: RunConfig, metric: str | Sequence[str] | None = None) -> Judge:
        """Make a judge from a run.yaml: `Judge.from_config(load_config(Path("run.yaml")))`.

        Args:
            config: The models, limits and other keys; what says which data to judge is not used.
            metric: One metric or several, in place of those of the configuration.

        Raises:
            ConfigError: There is no metric of that name.
        """
        if metric is not None:
            names = _names(metric)
            options = {name: given for name, given in config.metric_options.items() if name in names}
            config = config.model_copy(update={"metrics": names, "metric_options": options})
        judge = cls.__new__(cls)
        judge._prepare(config)
        return judge

    def _prepare(self, config: RunConfig) -> None:
        from titjudge.runs.resolve import load_metrics

        self._config, self._metrics = config, load_metrics(config)
        self._panel = Panel.of(self._config)
        self._memory = ImagesInMemory()
        self._foreign, self._warned = Foreign(), False
        self._runner: asyncio.Runner | None = None
        self._engine: Engine | None = None
        self._cache: AnswerCache | None = None
        self._unclosed: weakref.finalize[Any, Any] | None = None

    def _open(self) -> Engine:
        if self._engine is None:
            from titjudge.engine.budget import Budget

            limits = self._config.limits
            roles = Roles(self._config)
            roles.check_prices(role for metric in self._metrics.values() for role in metric.roles)
            self._cache = AnswerCache(cache_folder(self._config.cache))
            self._engine = Engine(
                roles, PromptLibrary(self._config.prompts), self._cache,
                Budget(limits.max_cost, limits.max_requests, limits.max_tokens),
            )  # fmt: skip
        return self._engine

    async def _measure(self, engine: Engine, item: Item, name: str) -> Score:
        if not item.prompt.strip():
            return Score(item.id, name, None, Status.BAD_INPUT, "the prompt is empty")
        try:
            return (await self._panel.score(engine, item, name, self._metrics[name]))[0]
        except BudgetExhausted as error:
            return Score(item.id, name, None, Status.BUDGET, str(error))

    async def ascore(self, image: Any, prompt: str) -> Score:
        """Score one image; see `score`."""
        self._check_single()
        return (await self.ascore_many([(image, prompt)]))[0]

    async def ascore_many(self, pairs: Iterable[tuple[Any, str]]) -> Scores:
        """Score many (image, prompt) pairs at once; see `score_many`."""
        checked = _pairs(pairs)
        engine = self._open()
        gate = asyncio.Semaphore(max(64, 2 * self._config.limits.concurrency))

        async def place(image: Any, prompt: str) -> Item:
            in_memory = not isinstance(image, str | os.PathLike)
            async with gate:
                name, path = (
                    await asyncio.to_thread(self._memory.place, image) if in_memory else self._memory.place(image)
                )
            return Item(name, prompt, path, prompt_id=prompt)

        async def one(item: Item, name: str) -> Score:
            async with gate:
                return await self._measure(engine, item, name)

        items = await asyncio.gather(*(place(image, prompt) for image, prompt in checked))
        if not self._warned:
            for item in items:
                self._foreign.look(item)
            for note in self._foreign.notes(self._config, self._metrics.values()):
                warnings.warn(note, stacklevel=2)
                self._warned = True
        ready = [item for item in prepared(items, self._metrics) if isinstance(item, Item)]
        return Scores(tuple(await asyncio.gather(*(one(item, name) for item in ready for name in self._metrics))))

    def score(self, image: Any, prompt: str) -> Score:
        """Score one image. `value` is None, with a `status` and a `reason`, when there is none.

        Raises:
            TypeError: it is no image; the message says what is.
            UserError: called inside a running event loop (use `await judge.ascore(...)` there), or there are several metrics.
            FatalProviderError: a wrong key, no quota, no such model.
        """
        return self._sync(self.ascore(image, prompt))  # type: ignore[no-any-return]

    def score_many(self, pairs: Iterable[tuple[Any, str]]) -> Scores:
        """Score (image, prompt) pairs, in order, many at a time; with several metrics one of each for each pair.

        A metric that compares images (`pairwise`) compares those of the same prompt.
        """
        return self._sync(self.ascore_many(pairs))  # type: ignore[no-any-return]

    def _check_single(self) -> None:
        if len(self._metrics) != 1:
            names = ", ".join(self._metrics)
            raise UserError(
                f"this Judge has the metrics {names}: `score_many([(image, prompt)])` gives a score of each"
            )

    def _sync(self, work: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if self._runner is None:
                self._runner = asyncio.Runner()
            try:
                return self._runner.run(work)
            finally:
                if self._unclosed is None and self._engine is not None:
                    self._unclosed = weakref.finalize(self, _finish, self._runner, self._engine, self._cache)
        work.close()
        raise UserError(_RUNNING)

    async def aclose(self) -> None:
        """Close connections and the cache, and forget images given in memory."""
        self._memory.close()
        if self._engine is not None:
            await self._engine.aclose()
            self._engine = None
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    def close(self) -> None:
        """Do what `aclose` does, where no event loop runs.

        Raises:
            UserError: an event loop is running here, and there is something to close.
        """
        if self._unclosed is not None:
            self._unclosed.detach()
            self._unclosed = None
        if self._runner is not None:
            self._runner.run(self.aclose())
            self._runner.close()
            self._runner = None
        elif self._engine is not None:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                asyncio.run(self.aclose())
            else:
                raise UserError(_RUNNING)

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _names(metric: str | Sequence[str]) -> list[str]:
    return [metric] if isinstance(metric, str) else list(metric)


def _pairs(pairs: Iterable[Any]) -> list[tuple[Any, str]]:
    """Check all pairs before anything is asked.

    Raises:
        TypeError: one is no (image, prompt); names which.
    """
    found = list(pairs)
    for number, pair in enumerate(found):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            shown = repr(pair) if isinstance(pair, str) else type(pair).__name__
            raise TypeError(f"score_many takes (image, prompt) pairs; number {number} is {shown}")
        if not isinstance(pair[1], str):
            raise TypeError(f"a prompt is a str; that of number {number} is {type(pair[1]).__name__}")
    return found


def _finish(runner: asyncio.Runner, engine: Engine, cache: AnswerCache | None) -> None:
    """Close a Judge that nobody closed."""
    with contextlib.suppress(Exception):
        runner.run(engine.aclose())
        runner.close()
    if cache is not None:
        cache.close()
