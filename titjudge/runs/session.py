"""From a configuration to a finished run: what the command line and the Python API both drive."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from titjudge.core.config import RunConfig
from titjudge.core.dry_run import DryRun
from titjudge.core.errors import FatalProviderError, TitjudgeError, UserError
from titjudge.core.paths import cache_folder
from titjudge.core.prompts import PromptLibrary
from titjudge.core.retirements import OTHER_MODEL
from titjudge.core.run_records import Manifest
from titjudge.core.serialization import reply_from, reply_record
from titjudge.core.types import InvalidItem, Item, Pair, Status
from titjudge.engine.cache import AnswerCache
from titjudge.engine.forecast import Forecast, Planner, forecast
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import Panel
from titjudge.runs.fingerprints import Pins
from titjudge.runs.identity import default_folder
from titjudge.runs.loop import Progress, RunLoop, prepared
from titjudge.runs.manifest import changed_versions, mixed, provenance
from titjudge.runs.outcome import Outcome, finish
from titjudge.runs.resolve import left_out, load_metrics, load_suite, resolve
from titjudge.runs.run_folder import RunFolder, resumed_budget
from titjudge.runs.run_input import RunInput
from titjudge.runs.score_digests import compares
from titjudge.stats.per_prompt import PerPrompt

if TYPE_CHECKING:
    from titjudge.probes.canary_run import Asked
    from titjudge.providers.batch.provider import Batches
    from titjudge.providers.dry_run import Expected

_WATCH = 0.2  # seconds between looks at the progress
_ANSWERS = frozenset({Status.OK, Status.REFUSED, Status.TRUNCATED, Status.UNPARSED})
_MANIFEST = 3.0  # seconds between manifests while a run is going on


class Watcher(Protocol):
    """Something that shows progress."""

    def show(self, progress: Progress, engine: Engine) -> None: ...

    def say(self, line: str) -> None: ...

    def close(self) -> None: ...


class Silent:
    def show(self, progress: Progress, engine: Engine) -> None:
        return None

    def say(self, line: str) -> None:
        return None

    def close(self) -> None:
        return None


@dataclass(slots=True)
class RunContext:
    """A run that is going on: what its steps share."""

    folder: RunFolder
    watcher: Watcher
    before: Manifest  # of the run's earlier sessions
    pins: dict[str, Any]  # what answers here, as the manifest keeps it
    engine: Engine
    planner: Planner | None
    loop: RunLoop
    done: set[tuple[str, str]]  # item and metric of the scores that hold
    started: float
    canaries: Asked | None = None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How asking ended: why a cap ended it, USD that may have been spent besides, and notes on models, money and canaries.

    `money` has the sums of the ledger (`RunFolder.money`).
    """

    status: str
    reason: str
    uncertain: float
    money: dict[str, Any]
    notes: list[str]
    canaries: list[str]


class Session:
    """The parts of one run, put together.

    Raises:
        UserError: something in the configuration cannot be had (folder, price, prompt, cache).
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = resolve(config)
        self.metrics = load_metrics(self.config)
        for metric in self.metrics.values():
            PerPrompt.parse(self.config.per_prompt).of_metric(metric.range, metric.higher_is_better, metric.name)
        self.suite = load_suite(self.config)
        self.input = RunInput(self.config, self.suite)
        self.library = PromptLibrary(self.config.prompts)
        self.cache = AnswerCache(cache_folder(self.config.cache))
        self.warnings = left_out(config, self.config)

    def items(self) -> Iterator[Item | InvalidItem]:
        """Read the items of this run; what cannot be judged is among them."""
        return (item for item, _ in self.listed())

    def listed(self) -> Iterator[tuple[Item | InvalidItem, int | None]]:
        """Yield what is to be judged; for a shard with its place among all items."""
        return self.input.listed()

    def pairs(self) -> list[Pair]:
        """Read the human pairs, of the data or of the configuration's own file."""
        from titjudge.suites.folder import known_prompts, read_pairs

        if self.config.pairs is not None:
            prompts = known_prompts(self.config.data) if self.config.data else None
            return read_pairs(
                self.config.pairs, prompts, lambda: (item for item in self.items() if isinstance(item, Item))
            )
        assert self.config.data is not None
        pairs: list[Pair] = self.suite.pairs(self.config.data)
        return pairs

    def dry_run(self) -> Forecast:
        """Price the run without sending anything."""
        self._check_recordings()
        return asyncio.run(self._dry_run())

    def _check_recordings(self) -> None:
        Roles(self.config).check_recordings(role for metric in self.metrics.values() for role in metric.roles)

    async def _dry_run(self) -> Forecast:
        planner = Planner(self.config, self.library, self.cache, DryRun.EXPECTED)
        try:
            canaries, said = await self._plan_canaries() if self.config.canary else ([], "")
            found = await forecast(planner, prepared(self.items(), self.metrics), self.metrics, canaries)
            live = self._live_jobs()
            found.notes = [
                *self.input.notes(self.metrics.values()),
                *([said] if said else []),
                *planner.roles.notes(),
                *(
                    [f"{live} batch jobs of this run are live: what is in them is counted, and not sent again"]
                    if live
                    else []
                ),
            ]
            return found
        finally:
            await planner.aclose()
            self.cache.close()

    def run(self, watcher: Watcher | None = None) -> Outcome:
        """Judge everything, write the run folder, compare with people.

        Raises:
            FatalProviderError: a key, a quota or a model name is wrong; answers up to then are kept.
        """
        folder = RunFolder(self.config.out or default_folder(self.config))
        pairs = self.pairs()  # what is wrong with them is said before anything is paid
        self._check_recordings()
        self.input.check()
        folder.open(self.config)
        try:
            end = asyncio.run(self._run(folder, watcher or Silent()))  # what asking took is free when counting begins
            kept = _within(pairs, folder) if self.config.limit else pairs
            manifest = folder.manifest()
            warnings = [
                *self.cache.notes(),
                *self.warnings,
                *end.notes,
                *self.input.notes(self.metrics.values(), pairs, kept),
                *changed_versions(manifest),
                *manifest.mixed,
                *end.canaries,
            ]
            outcome = finish(
                folder, self.suite, kept, self.metrics,
                status=end.status, extra_warnings=warnings, report=self.config.report, per_prompt=self.config.per_prompt,
                findings=self._findings, money=end.money,
            )  # fmt: skip
            outcome.reason, outcome.uncertain, outcome.mixed = end.reason, end.uncertain, manifest.mixed
            return outcome
        except TitjudgeError as error:
            if isinstance(error, UserError):
                folder.discard()
            begun = (folder.path / "manifest.json").is_file()
            if begun and folder.manifest().status == "running":  # a bad second try leaves what the first one did
                folder.mark(f"failed: {error}")
            raise
        finally:
            folder.close()
            self.cache.close()

    async def _run(self, folder: RunFolder, watcher: Watcher) -> RunEnd:
        run = self._prepare(folder, watcher)
        status, fatal = "", None
        watch = asyncio.create_task(self._watch(run))
        try:
            with _signals(run.loop, watcher):
                if self.config.canary:
                    await run.loop.before(self._ask_canaries(run))
                status = await run.loop.run(self._work(folder, run.loop, run.done))
        except FatalProviderError as error:
            fatal, status = error, f"failed: {error}"
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            watcher.show(run.loop.progress, run.engine)
            watcher.close()
            await run.engine.aclose()
            if run.planner is not None:
                await run.planner.aclose()
        money = folder.money()
        self._write_manifest(run, status, money["list_cost"])
        if fatal is not None:
            raise fatal
        budget, canaries = run.engine.budget, run.canaries.lines() if run.canaries else []
        notes = [*run.engine.roles.notes(), *budget.notes()]
        return RunEnd(status, budget.reason, budget.uncertain, money, notes, canaries)

    def _prepare(self, folder: RunFolder, watcher: Watcher) -> RunContext:
        """Put together what asks, after a look at what earlier sessions of the run have left.

        Raises:
            UserError: a prompt, a metric or what answers is not what it was, or a price is missing.
        """
        config, limits, before = self.config, self.config.limits, folder.manifest()
        batches = self._batches(folder, watcher)
        roles = Roles(config, batches=batches)
        pins = self._check_unchanged(folder, before, roles)
        total, done = folder.list_items(self.listed(), self.metrics)
        if len(done) < total * len(self.metrics):
            self.restore(folder)
        roles.check_prices(role for metric in self.metrics.values() for role in metric.roles)
        engine = Engine(
            roles, self.library, self.cache, resumed_budget(limits, folder.money()),
            journal=folder.journal, known=folder.known_keys(), failed=config.failed,
        )  # fmt: skip
        capped = any(cap is not None for cap in (limits.max_cost, limits.max_requests, limits.max_tokens))
        planner = Planner(config, self.library, self.cache, DryRun.WORST) if capped else None
        loop = RunLoop(
            engine, self.metrics, panel=Panel.of(config), planner=planner, done=done, on_score=folder.add_score,
            in_flight=max(1, min(total, 50_000)) if batches else max(64, 2 * limits.concurrency),
        )  # fmt: skip
        loop.progress.total = total
        return RunContext(folder, watcher, before, pins, engine, planner, loop, done, time.time())

    def _work(self, folder: RunFolder, loop: RunLoop, done: set[tuple[str, str]]) -> Iterator[Item | InvalidItem]:
        """Yield what is to be judged, in order."""
        return folder.items()

    def _findings(self, results: dict[str, Any]) -> dict[str, Any]:
        """Give what this kind of run has found besides `results`, for results.json."""
        return {}

    async def _plan_canaries(self) -> tuple[list[Expected], str]:
        from titjudge.probes.canary_run import plan_before

        return await plan_before(self.config, self.metrics, self.library, self.cache)

    def _live_jobs(self) -> int:
        """Count the batch jobs that this run has waiting."""
        place = (self.config.out or default_folder(self.config)) / "batches"
        if not self.config.limits.batch or not place.is_dir():
            return 0
        from titjudge.providers.batch.provider import live_jobs

        return live_jobs(place)

    async def _ask_canaries(self, run: RunContext) -> None:
        """Ask the frozen questions before the run: has a model changed since they were frozen?"""
        from titjudge.probes.canary_run import ask_before

        run.canaries = await ask_before(self.config, run.engine, self.metrics, self.cache, run.folder.journal)

    def _batches(self, folder: RunFolder, watcher: Watcher) -> Batches | None:
        """Open the batch jobs of this run, when it is asked through batch jobs."""
        limits, place = self.config.limits, folder.path / "batches"
        if not limits.batch and not place.is_dir():
            return None
        from titjudge.providers.batch.provider import Batches, BatchTiming, live_jobs

        if limits.batch:
            pace = BatchTiming(limits.batch_poll, limits.batch_idle)
            return Batches(place, say=watcher.say, pace=pace, again=self.config.failed == "again")
        if live := live_jobs(place):
            watcher.say(
                f"{live} batch jobs of this run are live: --batch collects them, without it they are paid again"
            )
        return None

    def restore(self, folder: RunFolder) -> None:
        """Put answers of the run's own journal back into the cache: they are paid.

        A kill or a full disk kept them out of it, or the cache has gone.
        """
        for record in folder.replies():
            if record["provider"] == "recorded" or record["status"] not in _ANSWERS:
                continue
            if OTHER_MODEL in record["flags"]:
                continue
            kept = self.cache.get(record["key"])
            if kept is None or (kept["status"] != Status.OK and record["status"] == Status.OK):
                self.cache.set(record["key"], reply_record(reply_from(record)))
        for record in folder.vectors():
            if self.cache.get(record["key"]) is None:
                self.cache.set(record["key"], {name: record[name] for name in ("vector", "used", "total")})

    def _check_unchanged(self, folder: RunFolder, before: Manifest, roles: Roles) -> dict[str, Any]:
        """Check that prompts, metrics and what answers are those the run began with; returns the pins for its manifest.

        Raises:
            UserError: one is not.
        """
        pins = Pins(roles, (role for metric in self.metrics.values() for role in metric.roles))
        pins.check(folder, together=any(map(compares, self.metrics.values())))
        for name, digest in before.prompts.items():
            if self.library.get(name).sha256 != digest:
                raise UserError(
                    f"{folder.path}: the prompt {name} has changed since this run began: choose another --out"
                )
        for name, record in before.metrics.items():
            if name in self.metrics and self.metrics[name].version != record.version:
                raise UserError(
                    f"{folder.path}: the metric {name} has changed since this run began: choose another --out"
                )
        return pins.record(before)

    async def _watch(self, run: RunContext) -> None:
        written = 0.0
        while True:
            run.watcher.show(run.loop.progress, run.engine)
            if time.monotonic() - written > _MANIFEST:
                self._write_manifest(run, "running", run.engine.budget.list_cost)
                written = time.monotonic()
            await asyncio.sleep(_WATCH)

    def _write_manifest(self, run: RunContext, status: str, list_cost: float) -> None:
        progress, budget = run.loop.progress, run.engine.budget
        manifest = provenance(
            self.config, run.engine, self.metrics, run.before,
            suite={"name": self.suite.name, "version": self.suite.VERSION, "deviations": list(self.suite.DEVIATIONS)},
            status=status,
            started=run.started,
            updated=time.time(),
            progress={name: getattr(progress, name) for name in ("total", "done", "scored", "failed")},
            spent=round(budget.spent, 6),
            list_cost=round(list_cost, 6),
            uncertain=round(budget.uncertain, 6),
            **run.pins,
        )  # fmt: skip
        if lines := mixed(manifest.roles):
            manifest = manifest.with_(mixed=lines)
        if run.canaries is not None and run.canaries.report is not None:
            manifest = manifest.with_(canary=run.canaries.report.to_json())
        run.folder.write_manifest(manifest, sync=status != "running")


def _within(pairs: Sequence[Pair], folder: RunFolder) -> list[Pair]:
    """Keep the pairs whose images are among the items: with --limit the others are left out on purpose."""
    known = {item.id for item in folder.items(slim=True)}
    return [pair for pair in pairs if pair.a in known and pair.b in known]


@contextlib.contextmanager
def _signals(loop: RunLoop, watcher: Watcher) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM. Once: ask nothing new, await and keep what was asked. Twice: stop at once."""
    running = asyncio.get_running_loop()
    pressed = 0

    def handle() -> None:
        nonlocal pressed
        pressed += 1
        if pressed == 1:
            watcher.say("stopping: waiting for the answers already asked for (once more to stop at once)")
            loop.close("interrupted")
        else:
            loop.kill()

    installed: list[Callable[[], object]] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            running.add_signal_handler(number, handle)
            installed.append(lambda number=number: running.remove_signal_handler(number))  # type: ignore[misc]
    try:
        yield
    finally:
        for remove in installed:
            remove()
