"""The Python API: `Judge(...).score(image, prompt)` and its many and async forms."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any

from titjudge.core.config import Limits, RunConfig, load_config
from titjudge.core.errors import ConfigError, UserError, must_be
from titjudge.core.numbers import known_sum
from titjudge.core.types import Json
from titjudge.engine.budget import UNSPENT, Spending
from titjudge.engine.pipeline import Engine
from titjudge.metrics import Metric
from titjudge.runs.api.image_scorer import Entry, ImageScorer
from titjudge.runs.api.images_in_memory import ImageTable, check, filled, images_of, is_array, score_columns
from titjudge.runs.api.judged_scores import JudgedScore, Scores, ScoreStream, collected
from titjudge.runs.api.loop_thread import LoopThread
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.resolve import resolve_metrics

_INTERVAL = 0.5  # seconds between two looks at what was answered
_FORMAT = "{desc} {percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} scores, {elapsed}{postfix}"


class ProgressBar:
    """Counts scores, and beside them answers, missing scores and money. As a context manager it goes away at the end.

    Args:
        total: The number of scores to come.
        beside: Returns the names and values that are shown next to the bar.
        visible: Whether to show it; None shows it only in a terminal or a notebook.
    """

    def __init__(self, total: int, beside: Callable[[], Json], visible: bool | None = None) -> None:
        self._beside, self._missing = beside, 0
        self._bar: Any = None
        if (watched() if visible is None else visible) and total:
            from tqdm.auto import tqdm

            always = {"disable": False} if visible else {}  # otherwise TQDM_DISABLE of the environment counts
            self._bar = tqdm(total=total, desc="judging", leave=False, bar_format=_FORMAT, **always)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    async def over(self, scores: AsyncGenerator[JudgedScore, None]) -> AsyncGenerator[JudgedScore, None]:
        """Yield scores as they come, and count them."""
        if self._bar is None:
            async for score in scores:
                yield score
            return
        looking = asyncio.create_task(self._look())
        try:
            async for score in scores:
                self._missing += score.value is None
                self._bar.update()
                yield score
        finally:
            looking.cancel()
            await scores.aclose()

    async def _look(self) -> None:
        while True:
            missing = {"without a score": self._missing} if self._missing else {}
            with contextlib.suppress(Exception):  # a closed notebook must not end the judging
                self._bar.set_postfix({**self._beside(), **missing})
            await asyncio.sleep(_INTERVAL)


def watched() -> bool:
    """Return True if a person sees what is written to standard error: in a terminal, or in a notebook."""
    shell = sys.modules.get("IPython")
    kernel = getattr(shell.get_ipython(), "kernel", None) if shell is not None else None
    return kernel is not None or bool(getattr(sys.stderr, "isatty", lambda: False)())


_lock = threading.Lock()


class Judge:
    """Score images against prompts.

        with Judge("tit-llm", provider="gemini", max_cost=5) as judge:  # at most 5 USD
            score = judge.score("image.png", "a red cube on a blue ball")

    An image is a path, a PIL image, the bytes of an image file, or a NumPy array or torch tensor: height x width x 3 or
    3 x height x width, floats from 0 to 1 or integers from 0 to 255. Several judges (`judge=[...]` or
    `panel=[...]`) and `samples=N` give one score from their votes. A score that a cap prevents has the status `budget`.

    Answers are cached on disk: the same question is never paid twice. Use it as a context manager (`with` or `async with`),
    or call `close`.

    It judges in a separate thread. You can call every method from any thread, and while an event loop runs, as in a
    notebook: methods with an `a` at the front (`ascore`) do not block the loop, the others do. After a fork it opens
    everything again; a pickle of it contains its configuration. Such a copy knows earlier costs, and has separate caps.

    Args:
        metric: Name of a metric (`tit`, `tit-llm`, `lmm-score`, ...; see `python cli.py metrics`), or several in a list.
        provider: Captioner and judge if these are not given, with its default model: `openai`, `gemini`, ...
        captioner: The vision-language model: `provider/model`, or a dict as in run.yaml.
        judge: The language model that compares texts, in the same form; a list makes a panel.
        embedder: The embedding model, in the same form.
        protocol: `strict` or `official`.
        **settings: Any other key of run.yaml, for example `prices={...}`, `cache="DIR"`, and the keys of its `limits`, for
            example `max_cost=5`.

    Raises:
        ConfigError: An unknown name or key, or a metric without its model; from the first score also a cap on a model
            without a known price.
    """

    def __init__(
        self,
        metric: str | Sequence[str] = "tit",
        *,
        provider: str | None = None,
        captioner: str | Json | None = None,
        judge: str | Json | list[Any] | None = None,
        embedder: str | Json | None = None,
        protocol: str = "strict",
        **settings: Any,
    ) -> None:
        limits = {key: settings.pop(key) for key in list(settings) if key in Limits.model_fields}
        models = {"provider": provider, "captioner": captioner, "judge": judge, "embedder": embedder}
        keys = {**models, "protocol": protocol, **settings}
        if limits:
            keys["limits"] = {**(keys.get("limits") or {}), **limits}
        self._prepare(load_config(None, {**keys, "metrics": _names(metric)}))
        for name, judging in self.metrics.items():
            for role in self._scorer.config.without_model(judging.roles):
                raise ConfigError(
                    f'the metric {name} requires a {role}. Add {role}="PROVIDER/MODEL", or provider="openai"'
                )

    @classmethod
    def from_config(
        cls, config: RunConfig, metric: str | Sequence[str] | None = None, *, folder: RunFolder | None = None
    ) -> Judge:
        """Make a judge from a run.yaml: `Judge.from_config(load_config(Path("run.yaml")))`.

        Args:
            config: The models, limits and other keys; the keys that name data are ignored.
            metric: One metric or several, instead of the metrics of the configuration.
            folder: An open run folder, for the ledger, the answers and the manifest: the costs of earlier sessions count
                against the cap, and prompts and models must be the same. Scores are not written to it.

        Raises:
            ConfigError: There is no metric of that name.
        """
        if metric is not None:
            names = _names(metric)
            options = {name: values for name, values in config.metric_options.items() if name in names}
            config = config.model_copy(update={"metrics": names, "metric_options": options})
        judge = cls.__new__(cls)
        judge._prepare(config, folder)
        return judge

    def _prepare(self, config: RunConfig, folder: RunFolder | None = None, spent: Spending = UNSPENT) -> None:
        self._scorer, self._process = ImageScorer(resolve_metrics(config), folder, spent), os.getpid()
        self._thread: LoopThread | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None

    def open(self) -> Engine:
        """Open models, cache and budget before the first score needs them, and return the engine.

        The engine lives in the judge's own thread.

        Raises:
            ConfigError: A cap on a model without a known price.
        """

        async def opened() -> Engine:
            return self._scorer.open().engine

        return self._running().call(opened())

    def _running(self) -> LoopThread:
        """Return the thread that judges in this process; start it if there is none.

        After a fork everything is opened again: threads and connections stay with the parent process.

        Raises:
            UserError: The parent process writes a run folder with this judge.
        """
        while True:
            with _lock:
                if self._process != os.getpid():
                    parents = self._scorer
                    if parents.folder is not None:
                        raise UserError(_one_process(parents.folder, "and this is a fork of it"))
                    self._prepare(parents.config, spent=parents.spent())
                thread = self._thread
                if thread is None:
                    self._thread = thread = LoopThread(self._scorer.aclose)
                    self._finalizer = weakref.finalize(self, thread.end)
                    self._finalizer.atexit = False  # the threads see to that
                if not thread.closed:
                    return thread
            self.close()  # another caller has begun to: wait for it

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics by name, in the order in which an image's scores come."""
        return self._scorer.metrics

    @property
    def spent(self) -> float | None:
        """USD billed up to now, including earlier sessions of a run folder, or the original of a copy.

        None if no price is known; requests without a known price are not included.
        """
        used = self._scorer.spent()
        return known_sum(used.spent, used.unpriced)

    @property
    def list_cost(self) -> float | None:
        """USD that the answers used up to now cost at list price, those from the cache as well; None as for `spent`."""
        spent = self.spent
        return None if spent is None else round(spent + self._scorer.cached_cost, 6)

    def __copy__(self) -> Judge:
        """Return the judge itself: a copy would have a separate cap."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Judge:
        """Return the judge itself, as `__copy__`."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the configuration and the costs for another process (spawn, Ray), which opens everything again.

        Raises:
            UserError: The judge writes a run folder, which one process does.
        """
        if self._scorer.folder is not None:
            raise UserError(_one_process(self._scorer.folder, "and this Judge would be pickled for another"))
        return _again, (type(self), self._scorer.config, self._scorer.spent())

    async def ascore(self, image: Any, prompt: str, *, sources: Sequence[Any] = ()) -> JudgedScore:
        """Score one image; see `score`."""
        self._check_single()
        return (await self.ascore_many([(image, prompt, sources)]))[0]

    def _check_single(self) -> None:
        if len(self.metrics) != 1:
            names = ", ".join(self.metrics)
            raise UserError(
                f"this Judge has several metrics: {names}. Call `score_many([(image, prompt)])` for all scores"
            )

    def ascore_many(
        self, images: Any, prompts: str | Iterable[str] | None = None, *, metrics: Sequence[str] | None = None
    ) -> ScoreStream:
        """Score many images at once; arguments as in `score_many`.

        `scores = await judge.ascore_many(pairs)` gives all of them in order. `async for score in judge.ascore_many(pairs)`
        gives each as it comes; its `number` is the position of its pair. When the loop is left early nothing more is asked;
        answers in flight are awaited and kept, at the latest by `aclose` of the judge. `metrics` names some of the judge's
        metrics; without it, all score.
        """
        return self._streamed(_paired(images, prompts), metrics)

    def _streamed(self, pairs: Sequence[Entry], metrics: Sequence[str] | None = None) -> ScoreStream:
        return ScoreStream(self._running().stream(self._scorer.stream(pairs, metrics)))

    def _scored(self, pairs: Sequence[Entry], progress: bool | None = False) -> Scores:
        thread = self._running()
        with ProgressBar(len(pairs) * len(self.metrics), self._scorer.counts, progress) as bar:
            return thread.call(collected(bar.over(self._scorer.stream(pairs))))

    def score(self, image: Any, prompt: str, *, sources: Sequence[Any] = ()) -> JudgedScore:
        """Score one image. Without a score, `value` is None, and `status` and `reason` explain it.

        Args:
            image: The image; of an edit, the result.
            prompt: Its prompt; of an edit, the instruction.
            sources: Of an edit, the images that it was made from, in the order in which the instruction speaks of them.

        Raises:
            TypeError: `image` is not an image.
            UserError: There are several metrics, or another thread has closed the judge.
            FatalProviderError: A wrong key, no quota, no such model.
        """
        self._check_single()
        return self._scored(_pairs([(image, prompt, sources)]))[0]

    def score_many(
        self, images: Any, prompts: str | Iterable[str] | None = None, *, progress: bool | None = None
    ) -> Scores:
        """Score many images, many at a time, and return the scores in order; with several metrics each image has several.

        A metric that compares images (`pairwise`) compares images of one prompt. Ctrl-C sends no more requests and awaits
        the answers in flight; repeat the call to continue.

        Args:
            images: (image, prompt) pairs, or (result, instruction, sources) of edits; or, with `prompts`, images in a list, or
                an array or tensor of four dimensions.
            prompts: One for each image, or one for all.
            progress: Whether to show a bar; without it, in a terminal and in a notebook.

        Raises:
            TypeError: One of them is not an image, a prompt or a pair; the message gives its position.
            ValueError: There are not as many prompts as images, or an array is not an image.
        """
        return self._scored(_paired(images, prompts), progress)

    def judge_table(
        self,
        table: Any,
        image: str = "image",
        prompt: str = "prompt",
        *,
        sources: str | Sequence[str] = (),
        prefix: str = "",
        progress: bool | None = None,
    ) -> Any:
        """Score every row of a pandas.DataFrame or datasets.Dataset, and return it with three columns per metric.

        They are `METRIC` (NaN without a score), `METRIC_status` and `METRIC_reason`. A row whose image or prompt
        cannot be used has the status bad_input; the others go on. The images of a data set are read one by one.

        Args:
            table: The table; it is not changed.
            image: Its column with images: what `score` takes, or `{bytes, path}`. Paths count from the working directory.
            prompt: Its column with prompts; of edits, with instructions.
            sources: Of edits, the column with the images that they were made from, or several in the order of the
                instruction, one image a cell.
            prefix: Goes before the names of the new columns.
            progress: As for `score_many`.

        Raises:
            TypeError: It is no such table.
            UserError: A column is missing, or one of the new columns is there already.
        """
        rows, columns = self._rows(table, image, prompt, sources, prefix)
        return _with_scores(rows, columns, self._scored(rows.entries(), progress))

    async def ajudge_table(
        self,
        table: Any,
        image: str = "image",
        prompt: str = "prompt",
        *,
        sources: str | Sequence[str] = (),
        prefix: str = "",
    ) -> Any:
        """Score every row of a table as `judge_table` does, without blocking the event loop that runs."""
        rows, columns = self._rows(table, image, prompt, sources, prefix)
        return _with_scores(rows, columns, await self._streamed(rows.entries()))

    def _rows(
        self, table: Any, image: str, prompt: str, sources: str | Sequence[str], prefix: str
    ) -> tuple[ImageTable, list[list[str]]]:
        """Check a table, and name its new columns."""
        rows = ImageTable(table, image, prompt, [sources] if isinstance(sources, str) else list(sources))
        columns = list(score_columns(self.metrics, prefix).values())
        rows.check_free(name for names in columns for name in names)
        return rows, columns

    async def aclose(self) -> None:
        """Close as `close` does, without blocking the event loop that runs."""
        if thread := self._own_thread():
            try:
                await thread.aclose()
            finally:
                self._forget(thread)

    def close(self) -> None:
        """Close connections and the cache, and delete copies of images. Answers in flight are awaited and kept.

        Any thread may close it. Calls of other threads end with a UserError.
        """
        if thread := self._own_thread():
            try:
                thread.close()
            finally:
                self._forget(thread)

    def _own_thread(self) -> LoopThread | None:
        return self._thread if self._process == os.getpid() else None

    def _forget(self, thread: LoopThread) -> None:
        with _lock:
            if self._thread is thread and thread.over:
                self._thread = None
                if self._finalizer is not None:
                    self._finalizer.detach()

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


def _paired(images: Any, prompts: str | Iterable[str] | None) -> list[Entry]:
    """Pair images with their prompts; without `prompts` the images are pairs already.

    Raises:
        TypeError, ValueError: There are not as many prompts as images, or one is not an image.
    """
    if prompts is None:
        return _pairs(images)
    listed = images_of(images)
    texts = [prompts] * len(listed) if isinstance(prompts, str) else list(prompts)
    if len(texts) != len(listed):
        raise ValueError(f"{len(listed)} images do not fit {len(texts)} prompts. Give one prompt per image")
    return _pairs(zip(listed, texts, strict=True))


def _pairs(pairs: Iterable[Any]) -> list[Entry]:
    """Check all pairs before anything is asked.

    Raises:
        TypeError, ValueError: One is no (image, prompt[, sources]) pair; names its number.
    """
    if is_array(pairs):
        raise TypeError("a batch of images requires its prompts. Call score_many(images, prompts)")
    checked = list(pairs)
    for number, pair in enumerate(checked):
        if not isinstance(pair, tuple | list) or len(pair) not in (2, 3):
            raise TypeError(must_be(f"item {number}", "an (image, prompt) pair", pair))
        if not isinstance(pair[1], str):
            raise TypeError(must_be(f"prompt {number}", "a str", pair[1]))
        if not isinstance(sources := pair[2] if len(pair) == 3 else (), tuple | list):
            raise TypeError(must_be(f"the sources of item {number}", "a list of images", sources))
        try:
            for image in (pair[0], *sources):
                check(image)
        except (TypeError, ValueError) as error:
            raise type(error)(f"number {number}: {error}" if len(checked) > 1 else str(error)) from None
    return checked


def _with_scores(source: ImageTable, columns: Sequence[Sequence[str]], scores: Scores) -> Any:
    """Add the columns of each metric to a table."""
    made: Json = {}
    for position, names in enumerate(columns):
        made.update(filled(names, scores.scores[position :: len(columns)]))
    return source.with_columns(made)


def _again(kind: type[Judge], config: RunConfig, spent: Spending) -> Judge:
    """Make the judge that a pickle describes."""
    judge = kind.__new__(kind)
    judge._prepare(config, spent=spent)
    return judge


def _one_process(folder: RunFolder, why: str) -> str:
    return f"{folder.path}: one process writes a run folder, {why}: make a separate Judge there"


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have had it


os.register_at_fork(after_in_child=_after_fork)
