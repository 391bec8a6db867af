"""The Python API: `Judge(...).score(image, prompt)` and its many and async forms."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from titjudge.cache import AnswerCache
from titjudge.config import load_config
from titjudge.engine import Engine
from titjudge.errors import BudgetExhausted, UserError
from titjudge.panel import Panel
from titjudge.paths import cache_folder
from titjudge.prompts import PromptLibrary
from titjudge.records import score_record
from titjudge.roles import Roles
from titjudge.types import Item, Score, Status


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
        """One plain dict a score: item, metric, value, status, reason, parts, ..."""
        return [score_record(score) for score in self.scores]

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row a score.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            from titjudge.errors import MissingExtra

            raise MissingExtra("pandas", "pandas", "to_pandas()") from None
        return pandas.DataFrame(self.to_records())


class Judge:
    """Scores images against prompts.

    Args:
        metric: name of a metric (`tit`, `tit-llm`, `lmm-score`, ...; see `python cli.py metrics`).
        captioner, judge, embedder: `provider/model`, or a dict as in run.yaml.
        protocol: strict or official.
        **settings: any further key of run.yaml, for example `limits={"max_cost": 5}`, `prices={...}`, `cache="DIR"`.

    Raises:
        ConfigError: an unknown name or key; from the first score also a cap on a model without a known price.

    Several judges (`judge=[...]` or `panel=[...]`) and `samples=N` give one score from their votes. What a cap leaves
    unasked has the status `budget`.

    Answers are cached on disk: the same question is never paid twice. Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        metric: str = "tit",
        *,
        captioner: str | dict[str, Any] | None = None,
        judge: str | dict[str, Any] | list[Any] | None = None,
        embedder: str | dict[str, Any] | None = None,
        protocol: str = "strict",
        **settings: Any,
    ) -> None:
        from titjudge.defaults import load_metrics

        given = {"captioner": captioner, "judge": judge, "embedder": embedder, "protocol": protocol, **settings}
        self._config = load_config(None, {**given, "metrics": [metric]})
        self._name = metric
        self._metric = load_metrics(self._config)[metric]
        self._panel = Panel.of(self._config)
        self._runner: asyncio.Runner | None = None
        self._engine: Engine | None = None
        self._cache: AnswerCache | None = None

    def _open(self) -> Engine:
        if self._engine is None:
            from titjudge.budget import Budget

            limits = self._config.limits
            roles = Roles(self._config)
            roles.check_prices(self._metric.roles)
            self._cache = AnswerCache(cache_folder(self._config.cache))
            self._engine = Engine(
                roles, PromptLibrary(self._config.prompts), self._cache,
                Budget(limits.max_cost, limits.max_requests, limits.max_tokens),
                protocol=self._config.protocol, lenient=self._config.lenient, failed=self._config.failed,
            )  # fmt: skip
        return self._engine

    async def _measure(self, engine: Engine, image: Path | str, prompt: str) -> Score:
        item = Item(str(image), prompt, Path(image))
        if not prompt.strip():
            return Score(item.id, self._name, None, Status.BAD_INPUT, "the prompt is empty")
        try:
            return (await self._panel.measure(engine, item, self._name, self._metric))[0]
        except BudgetExhausted as error:
            return Score(item.id, self._name, None, Status.BUDGET, str(error))

    async def ascore(self, image: Path | str, prompt: str) -> Score:
        """Score one image; see `score`."""
        return await self._measure(self._open(), image, prompt)

    async def ascore_many(self, pairs: Iterable[tuple[Path | str, str]]) -> Scores:
        """Score many (image, prompt) pairs at once; see `score_many`."""
        engine = self._open()
        gate = asyncio.Semaphore(max(64, 2 * self._config.limits.concurrency))

        async def one(image: Path | str, prompt: str) -> Score:
            async with gate:
                return await self._measure(engine, image, prompt)

        return Scores(tuple(await asyncio.gather(*(one(image, prompt) for image, prompt in pairs))))

    def score(self, image: Path | str, prompt: str) -> Score:
        """The score of one image. `value` is None, with a `status` and a `reason`, when there is none.

        Raises:
            UserError: called inside a running event loop (use `await judge.ascore(...)` there).
            FatalProviderError: a wrong key, no quota, no such model.
        """
        return self._sync(self.ascore(image, prompt))  # type: ignore[no-any-return]

    def score_many(self, pairs: Sequence[tuple[Path | str, str]]) -> Scores:
        """Scores of (image, prompt) pairs, in order, many at a time."""
        return self._sync(self.ascore_many(pairs))  # type: ignore[no-any-return]

    def _sync(self, work: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if self._runner is None:
                self._runner = asyncio.Runner()
            return self._runner.run(work)
        work.close()
        raise UserError(
            "an event loop is running here: use `await judge.ascore(...)` or `await judge.ascore_many(...)`"
        )

    async def aclose(self) -> None:
        if self._engine is not None:
            await self._engine.aclose()
            self._engine = None
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    def close(self) -> None:
        """Close connections and the cache."""
        if self._runner is not None:
            self._runner.run(self.aclose())
            self._runner.close()
            self._runner = None
        elif self._engine is not None:
            asyncio.run(self.aclose())

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
