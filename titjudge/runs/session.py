"""Run an evaluation from its configuration to its report, for the command line and the Python API."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from titjudge.core.config import RunConfig
from titjudge.core.errors import DataError
from titjudge.core.paths import cache_folder, example_folder
from titjudge.core.signals import interrupts_call
from titjudge.core.types import InvalidItem, Item, Note, Pair
from titjudge.core.words import truncated
from titjudge.engine.budget import Spending
from titjudge.engine.cache import AnswerCache, open_cache
from titjudge.engine.forecast import Forecast, Planner, forecast
from titjudge.engine.pipeline import Engine
from titjudge.engine.scoring import Panel
from titjudge.metrics import Metric
from titjudge.runs.folder.manifest import changed_versions
from titjudge.runs.folder.run_folder import RunFolder, caps, compares_images
from titjudge.runs.loop import Progress, RunLoop, prepared
from titjudge.runs.open_run import OpenRun, open_folder, open_planner
from titjudge.runs.resolve import ResolvedMetrics, resolve
from titjudge.runs.run_input import RunInput

if TYPE_CHECKING:
    from titjudge.core.run_records import Results
    from titjudge.probes.canary import CanaryReport
    from titjudge.providers.dry_run import Expected
    from titjudge.runs.outcome import Outcome

_MODELS = ("captioner", "judge")


@dataclass(frozen=True, slots=True)
class _Setup:
    """The metrics that ask canaries, the folder of known answers, and the models.

    Attributes:
        metrics: The metrics that ask canaries, by name.
        data: The folder of known answers.
        config: Names the models.
    """

    metrics: dict[str, Metric]
    data: Path
    config: RunConfig


def _setup(run: ResolvedMetrics) -> _Setup | str:
    """Select the metrics that ask a model that can have changed (a recording cannot); or return why there are none.

    A recorded captioner replays the descriptions of the bundled example, so that the judge is asked.
    """
    config, metrics = run.config, run.metrics
    recorded = {name for name in _MODELS if (role := config.role(name)) is not None and role.provider == "recorded"}
    usable = {
        name: metric for name, metric in metrics.items() if metric.scope == "item" and _changeable(metric, recorded)
    }
    data = example_folder()
    if data is None:
        return "the bundled example, whose images they show, is not there"
    if not usable:
        return f"no metric of this run asks a model that can have changed ({', '.join(metrics)})"
    if "captioner" in recorded and config.data != data:
        assert config.captioner is not None
        captioner = config.captioner.model_copy(update={"options": {"file": str(data / "descriptions.jsonl")}})
        config = config.model_copy(update={"captioner": captioner})
    return _Setup(usable, data, config)


async def ask_before(run: OpenRun) -> list[Note]:
    """Ask the canaries of a run, put their report into its manifest, and return the results, one line each.

    Raises:
        DataError: The file of canaries is damaged.
        FatalProviderError: As the engine raises it.
    """
    from titjudge.probes.canary import ask_canaries, canary_file

    setup = _setup(run.run)
    if isinstance(setup, str):
        return [Note("canaries_not_asked", f"canaries: none was asked: {setup}")]
    file = canary_file(cache_folder(run.config.cache), run.engine, setup.metrics)
    if setup.config is run.run.config:
        report = await ask_canaries(run.engine, setup.metrics, setup.data, file)
    else:
        async with run.other_models(setup.config) as engine:
            report = await ask_canaries(engine, setup.metrics, setup.data, file)
    run.canary = report.to_json()
    return _lines(report)


def _lines(report: CanaryReport) -> list[Note]:
    if report.state == "same":
        line = f"canaries: {report.asked} asked again, {len(report.flips)} have another answer: no drift"
        return [Note("no_drift", line)]
    return report.lines()


async def plan_before(run: ResolvedMetrics, cache: AnswerCache) -> tuple[list[Expected], Note]:
    """Return the expected requests of a run's canaries, and a line on them for the dry run."""
    from titjudge.probes.canary import canary_file, plan_canaries

    setup = _setup(run)
    if isinstance(setup, str):
        return [], Note("canaries_not_expected", f"canaries: none would be asked: {setup}")
    async with open_planner(setup.config, cache) as planner:
        file = canary_file(cache_folder(run.config.cache), planner.engine, setup.metrics)
        rounds = await plan_canaries(planner.engine, setup.metrics, setup.data, file)
        requests = planner.estimates.take_all()
    often = f"{rounds} times, as they are frozen" if rounds > 1 else "once, to compare"
    line = f"canaries: {len(requests)} of the requests, each question asked {often}"
    return requests, Note("canaries_expected", line)


def _changeable(metric: Metric, recorded: set[str]) -> bool:
    """Return True if a metric asks a live model, and no recorded judge, which has no answer to a new question."""
    models = set(metric.roles) & set(_MODELS)
    return bool(models - recorded) and "judge" not in models & recorded


_PLANNED = 8  # items whose questions are counted before the run
_PROGRESS_INTERVAL = 0.2  # seconds between two updates of the progress


class Watcher:
    """Shows the progress of a run. This one shows nothing."""

    def show(self, progress: Progress, engine: Engine) -> None: ...

    def say(self, line: str) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How the requests of a run ended.

    Attributes:
        status: As in the manifest.
        reason: Why a cap ended it; otherwise empty.
        uncertain: USD that requests without an answer may have cost.
        money: Sums of the ledger.
        notes: Warnings about the cache, models, money and canaries.
    """

    status: str
    reason: str
    uncertain: float
    money: Spending | None
    notes: list[Note]


class Session:
    """One session of a run: the parts of a configuration, ready to be judged.

    Attributes:
        resolved: Configuration, metrics and suite.
        warnings: Warnings about the run.
        ends_in: Seconds after which nothing more is asked, if Ctrl-C was pressed before the run; None if it was not.
        interrupted: Whether Ctrl-C was pressed in the last run.

    Raises:
        UserError: Something that the configuration names is missing (folder, prompt, metric, model).
    """

    def __init__(self, config: RunConfig) -> None:
        self.resolved = resolve(config)
        self.config, self.metrics, self.suite = self.resolved.config, self.resolved.metrics, self.resolved.suite
        if self.config.per_prompt != "mean":
            from titjudge.stats.scores.per_prompt import PerPrompt

            for metric in self.metrics.values():
                PerPrompt.parse(self.config.per_prompt).of_metric(metric.range, metric.higher_is_better, metric.name)
        self.input = RunInput(self.config, self.suite)
        self.warnings = list(self.resolved.left_out)
        self.ends_in: float | None = None
        self.interrupted = False

    def items(self) -> Iterator[Item | InvalidItem]:
        """Read the items of this run, invalid ones included."""
        return (item for item, _ in self.listed())

    def listed(self) -> Iterator[tuple[Item | InvalidItem, int | None]]:
        """Read the items of this run, each with its position in all shards (None if there is one shard)."""
        return self.input.listed()

    def pairs(self) -> list[Pair]:
        """Read the human pairs from the file of the configuration, otherwise from the data."""
        from titjudge.suites.base import Notes
        from titjudge.suites.folder import known_images
        from titjudge.suites.pair_files import read_pairs

        if self.config.pairs is not None:
            images = known_images(self.config.data) if self.config.data else None
            valid = (item for item in self.items() if isinstance(item, Item))
            notes = Notes()
            pairs = read_pairs(self.config.pairs, images, lambda: valid, notes)
            self.warnings += (note for note in notes if note not in self.warnings)
            listed = (item for item, _ in self.input.listed())
            if not (self.config.limit or self.config.shard or pairs_among(pairs, listed)):
                first = truncated(pairs[0].a, 80)
                raise DataError(
                    f"none of its pairs has both images in the data, such as {first}. Correct the paths",
                    self.config.pairs,
                )
            return pairs
        assert self.config.data is not None
        return list(self.suite.pairs(self.config.data))

    def dry_run(self) -> Forecast:
        """Estimate the price of the run without sending anything."""
        return asyncio.run(self._dry_run())

    async def _dry_run(self) -> Forecast:

        self.input.check_sources(self.metrics.values())
        with open_cache(self.config.cache) as cache:
            async with open_planner(self.config, cache) as planner:
                planner.roles.check_recordings(self.resolved.roles)
                canaries, note = await plan_before(self.resolved, cache) if self.config.canary else ([], None)
                result = await forecast(planner, prepared(self.items(), self.metrics), self.metrics, canaries)
                notes = [
                    self.input.summary,
                    *self.input.data_notes(self.metrics.values()),
                    note,
                    *planner.roles.notes(),
                    self._live_jobs(),
                ]
        result.notes = [note for note in notes if note]
        return result

    def _live_jobs(self) -> Note | None:
        """Write how many batch jobs of this run have not been collected."""
        place = self.resolved.folder / "batches"
        if not self.config.limits.batch or not place.is_dir():
            return None
        from titjudge.providers.batch.provider import live_jobs

        live = live_jobs(place)
        line = f"{live} batch jobs of this run are live: their requests are counted, and not sent again"
        return Note("jobs_live", line) if live else None

    def run(self, watcher: Watcher | None = None) -> Outcome:
        """Judge every item, write the run folder and compare with the human pairs.

        Raises:
            FatalProviderError: A key, a quota or a model name is wrong; answers up to then are kept.
        """
        pairs = self.pairs()  # malformed pairs fail before anything is paid
        self.input.check()
        self.input.check_sources(self.metrics.values())
        watcher = watcher or Watcher()
        with open_folder(self.resolved) as folder, contextlib.closing(watcher):
            end = asyncio.run(self._run(folder, watcher))  # its memory is free before tables are made
            folder.check_in_place()
            return self._finish(folder, pairs, end)

    def _finish(self, folder: RunFolder, pairs: list[Pair], end: RunEnd) -> Outcome:
        """Make the tables and the report."""
        from titjudge.runs.outcome import finish

        # With --limit pairs of other images are left out on purpose.
        kept = pairs_among(pairs, folder.items(slim=True)) if self.config.limit else pairs
        manifest = folder.manifest()
        notes = [*end.notes, *self.input.data_notes(self.metrics.values(), pairs, kept)]
        outcome = finish(
            folder, self.suite, kept, self.metrics,
            status=end.status, extra_warnings=[*notes, *changed_versions(manifest), *manifest.mixed],
            report=self.config.report, per_prompt=self.config.per_prompt, findings=self._findings, money=end.money,
        )  # fmt: skip
        outcome.reason, outcome.uncertain, outcome.mixed = end.reason, end.uncertain, manifest.mixed
        return outcome

    async def _run(self, folder: RunFolder, watcher: Watcher) -> RunEnd:
        notes: list[Note] = []
        async with OpenRun(self.resolved, folder, items=self.listed(), sends_jobs=True, say=watcher.say) as run:
            for note in filter(None, (self.input.summary, *self.input.embedder_notes(self.metrics.values()))):
                watcher.say(note)
            loop = self._loop(run)
            async with (
                _shown_progress(run, watcher),
                loop.planner or contextlib.nullcontext(),
                self._stoppable(loop, watcher),
            ):
                if self.config.canary:
                    await loop.aside(self._ask_canaries(run, notes))
                if line := await self._reach(run, loop.planner):
                    watcher.say(line)
                run.progress.planned = await self._planned(run)
                run.status = await loop.run(self._items_to_judge(run, loop))
        budget = run.engine.budget
        notes = [*run.cache.notes(), *self.warnings, *run.engine.roles.notes(), *budget.notes(), *notes]
        return RunEnd(run.status, budget.reason, budget.uncertain, run.money, notes)

    @contextlib.asynccontextmanager
    async def _stoppable(self, loop: RunLoop, watcher: Watcher) -> AsyncIterator[None]:
        """Handle Ctrl-C until no answer is on its way: the first finishes the prompts that are begun, the second stops at once."""
        running, self.interrupted = asyncio.get_running_loop(), False
        if self.ends_in:
            running.call_later(self.ends_in, loop.close, "interrupted")
        elif self.ends_in is not None:
            loop.close("interrupted")

        def handle() -> None:
            if self.interrupted or self.ends_in is not None:
                return loop.kill()
            self.interrupted = True
            watcher.say(loop.finish())

        with interrupts_call(handle, running):
            try:
                yield
            finally:
                await loop.aside(loop.engine.land())

    def _loop(self, run: OpenRun) -> RunLoop:
        limits, total = self.config.limits, run.progress.total or 0
        planner = open_planner(self.config, run.cache, run.library, per_item=True) if caps(limits) else None
        return RunLoop(
            run.engine,
            self.metrics,
            panel=Panel.from_config(self.config),
            planner=planner,
            done=run.done,
            on_score=run.folder.add_score,
            progress=run.progress,
            in_flight=max(1, min(total, 50_000)) if limits.batch else max(64, 2 * limits.concurrency),
        )

    async def _reach(self, run: OpenRun, planner: Planner | None) -> str:
        """Write how many items the cap pays for if it may not pay for all; otherwise return nothing."""
        budget, metrics = run.engine.budget, self._alone()
        if budget.max_cost is None or planner is None or not metrics:
            return ""
        remaining = max(0.0, budget.max_cost - budget.spent - budget.uncertain)
        reach = await planner.reach(_open_items(run, metrics), metrics, remaining)
        waiting = (run.progress.total or 0) - len({item for item, _ in run.done})
        return "" if reach is None else reach.line(waiting)

    def _alone(self) -> dict[str, Metric]:
        """Return the metrics that judge each image alone."""
        return {name: metric for name, metric in self.metrics.items() if not compares_images(metric)}

    async def _planned(self, run: OpenRun) -> float | None:
        """Estimate from the first items how many questions each asks, for the progress; None if that is not known."""
        metrics = self._alone()
        async with open_planner(self.config, None, run.library, per_item=True) as planner:
            counts = [len(await planner.expect(item, metrics)) for item in islice(_open_items(run, metrics), _PLANNED)]
        return fmean(counts) if any(counts) else None

    def _items_to_judge(self, run: OpenRun, loop: RunLoop) -> Iterator[Item | InvalidItem]:
        """Yield the items to judge, in order."""
        return run.folder.shuffled()

    def _findings(self, results: Results) -> Results:
        """Return further keys of results.json that this kind of run adds to `results`."""
        from titjudge.core.run_records import Results

        return Results()

    async def _ask_canaries(self, run: OpenRun, notes: list[Note]) -> None:
        """Ask the frozen canary questions before the run, to find out whether a model has changed since."""
        notes += await ask_before(run)


def _open_items(run: OpenRun, metrics: Iterable[str]) -> Iterator[Item]:
    """Yield the items that a metric has not scored yet."""
    for item in run.folder.items():
        if isinstance(item, Item) and any((item.id, name) not in run.done for name in metrics):
            yield item


@contextlib.asynccontextmanager
async def _shown_progress(run: OpenRun, watcher: Watcher) -> AsyncIterator[None]:
    """Show the progress of a run."""

    async def show() -> None:
        while True:
            run.progress.waits = run.engine.waits()
            watcher.show(run.progress, run.engine)
            await asyncio.sleep(_PROGRESS_INTERVAL)

    showing = asyncio.create_task(show())
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
        run.progress.waits = ["computing tables and report"]
        watcher.show(run.progress, run.engine)


def pairs_among(pairs: Iterable[Pair], items: Iterable[Item | InvalidItem]) -> list[Pair]:
    """Keep the pairs whose two images are among the items, which are not read if there are no pairs."""
    ids = {item.id for item in items} if pairs else ()
    return [pair for pair in pairs if pair.a in ids and pair.b in ids]
