"""Run an evaluation from its configuration to its report, for the command line and the Python API."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from titjudge.core.config import RunConfig
from titjudge.core.errors import FatalProviderError, TitjudgeError, UserError
from titjudge.core.numbers import known_sum
from titjudge.core.paths import cache_folder
from titjudge.core.prompts import PromptLibrary
from titjudge.core.retirements import OTHER_MODEL
from titjudge.core.run_records import Manifest, Results
from titjudge.core.serialization import reply_from, reply_record
from titjudge.core.signals import terminated_like_ctrl_c
from titjudge.core.types import InvalidItem, Item, Pair, Status
from titjudge.engine.cache import AnswerCache
from titjudge.engine.forecast import Forecast, Planner, forecast
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import Panel
from titjudge.runs.folder.fingerprints import Pins
from titjudge.runs.folder.identity import default_folder
from titjudge.runs.folder.manifest import changed_versions, mixed, provenance
from titjudge.runs.folder.run_folder import RunFolder, caps, resumed_budget
from titjudge.runs.folder.score_digests import compares_images
from titjudge.runs.loop import Progress, RunLoop, prepared
from titjudge.runs.outcome import Outcome, finish
from titjudge.runs.resolve import asked_roles, left_out, load_metrics, load_suite, resolve
from titjudge.runs.run_input import RunInput
from titjudge.stats.scores.per_prompt import PerPrompt

if TYPE_CHECKING:
    from titjudge.probes.canary_run import CanaryOutcome
    from titjudge.providers.batch.provider import Batches

_PROGRESS_INTERVAL = 0.2  # seconds between two updates of the progress
_MANIFEST_INTERVAL = 3.0  # seconds between two manifests while a run is going on
_ANSWERED = frozenset({Status.OK, Status.REFUSED, Status.TRUNCATED, Status.UNPARSED})


class Watcher:
    """Shows the progress of a run. This one shows nothing."""

    def show(self, progress: Progress, engine: Engine) -> None: ...

    def say(self, line: str) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class RunContext:
    """State that the steps of a running evaluation share."""

    folder: RunFolder
    watcher: Watcher
    before: Manifest  # of the run's earlier sessions
    pins: dict[str, Any]  # the models behind the roles, as the manifest records them
    engine: Engine
    loop: RunLoop
    done: set[tuple[str, str]]  # item and metric of the scores that are still valid
    started: float
    canaries: CanaryOutcome | None = None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How the requests of a run ended."""

    status: str
    reason: str  # why a cap ended it; else empty
    uncertain: float  # USD that requests without an answer may have cost
    money: dict[str, Any]  # sums of the ledger (`RunFolder.money`)
    notes: list[str]  # warnings about models and money
    canaries: list[str]  # warnings about canaries


class Session:
    """One session of a run: suite, metrics, cache and input of a configuration.

    Raises:
        UserError: something that the configuration names is missing (folder, price, prompt, cache).
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
        """Read the items of this run, invalid ones included."""
        return (item for item, _ in self.listed())

    def listed(self) -> Iterator[tuple[Item | InvalidItem, int | None]]:
        """Read the items of this run, each with its position among those of all shards (None where there is one shard)."""
        return self.input.listed()

    def pairs(self) -> list[Pair]:
        """Read the human pairs from the configuration's own file, else from the data."""
        from titjudge.suites.folder import known_images, read_pairs

        if self.config.pairs is not None:
            images = known_images(self.config.data) if self.config.data else None
            valid = (item for item in self.items() if isinstance(item, Item))
            return read_pairs(self.config.pairs, images, lambda: valid)
        assert self.config.data is not None
        pairs: list[Pair] = self.suite.pairs(self.config.data)
        return pairs

    def dry_run(self) -> Forecast:
        """Estimate the price of the run without sending anything."""
        self._check_recordings()
        return asyncio.run(self._dry_run())

    def _check_recordings(self) -> None:
        Roles(self.config).check_recordings(asked_roles(self.metrics))

    async def _dry_run(self) -> Forecast:
        from titjudge.probes.canary_run import plan_before

        planner = Planner(self.config, self.library, self.cache)
        parts = (self.config, self.metrics, self.library, self.cache)
        try:
            canaries, canary_note = await plan_before(*parts) if self.config.canary else ([], "")
            result = await forecast(planner, prepared(self.items(), self.metrics), self.metrics, canaries)
            notes = [*self.input.notes(self.metrics.values()), canary_note, *planner.roles.notes()]
            if live := self._live_jobs():
                notes.append(f"{live} batch jobs of this run are live: what is in them is counted, and not sent again")
            result.notes = [note for note in notes if note]
            return result
        finally:
            await planner.aclose()
            self.cache.close()

    def run(self, watcher: Watcher | None = None) -> Outcome:
        """Judge every item, write the run folder and compare with the human pairs.

        Raises:
            FatalProviderError: a key, a quota or a model name is wrong; answers up to then are kept.
        """
        folder = RunFolder(self.config.out or default_folder(self.config))
        pairs = self.pairs()  # malformed pairs fail before anything is paid
        self._check_recordings()
        self.input.check()
        folder.open(self.config)
        try:
            end = asyncio.run(self._run(folder, watcher or Watcher()))  # its memory is free before tables are made
            # with --limit pairs of other images are left out on purpose
            kept = pairs_among(pairs, folder.items(slim=True)) if self.config.limit else pairs
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
            if (folder.path / "manifest.json").is_file() and folder.manifest().status == "running":
                folder.set_status(f"failed: {error}")  # the status of an earlier session that ended stays
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
                if line := await self._reach(run):
                    watcher.say(line)
                status = await run.loop.run(self._items_to_judge(run))
        except FatalProviderError as error:
            fatal, status = error, f"failed: {error}"
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            watcher.show(run.loop.progress, run.engine)
            watcher.close()
            await run.engine.aclose()
            if run.loop.planner is not None:
                await run.loop.planner.aclose()
        money = folder.money()
        self._write_manifest(run, status, known_sum(money["list_cost"], money["unlisted"]))
        if fatal is not None:
            raise fatal
        budget, canaries = run.engine.budget, run.canaries.lines() if run.canaries else []
        notes = [*run.engine.roles.notes(), *budget.notes()]
        return RunEnd(status, budget.reason, budget.uncertain, money, notes, canaries)

    def _prepare(self, folder: RunFolder, watcher: Watcher) -> RunContext:
        """Make engine, planner and loop, resuming from what earlier sessions left in the folder.

        Raises:
            UserError: a prompt, a metric or a model has changed since the run began, or a price is missing.
        """
        config, limits, before = self.config, self.config.limits, folder.manifest()
        batches = self._batches(folder, watcher)
        roles = Roles(config, batches=batches)
        pins = self._check_unchanged(folder, before, roles)
        total, done = folder.list_items(self.listed(), self.metrics)
        if len(done) < total * len(self.metrics):
            self.restore(folder)
        roles.check_prices(asked_roles(self.metrics))
        engine = self.engine(roles, folder)
        planner = Planner(config, self.library, self.cache, per_item=True) if caps(limits) else None
        loop = RunLoop(
            engine, self.metrics, panel=Panel.of(config), planner=planner, done=done, on_score=folder.add_score,
            in_flight=max(1, min(total, 50_000)) if batches else max(64, 2 * limits.concurrency),
        )  # fmt: skip
        loop.progress.total = total
        return RunContext(folder, watcher, before, pins, engine, loop, done, time.time())

    def engine(self, roles: Roles, folder: RunFolder) -> Engine:
        """Make an engine that writes to an open run folder and goes on with the budget of its earlier sessions."""
        return Engine(
            roles, self.library, self.cache, resumed_budget(self.config.limits, folder.money()),
            journal=folder.journal, known=folder.known_keys(), failed=self.config.failed,
        )  # fmt: skip

    async def _reach(self, run: RunContext) -> str:
        """Say how far the cap carries where it may not carry to the end; else return nothing."""
        budget, planner = run.engine.budget, run.loop.planner
        if budget.max_cost is None or planner is None:
            return ""
        of_item = [name for name, metric in self.metrics.items() if not compares_images(metric)]
        metrics = {name: self.metrics[name] for name in of_item}
        open_items = (
            item for item in run.folder.items()
            if isinstance(item, Item) and any((item.id, name) not in run.done for name in of_item)
        )  # fmt: skip
        left = max(0.0, budget.max_cost - budget.spent - budget.uncertain)
        reach = await planner.reach(open_items, metrics, left) if metrics else None
        waiting = (run.loop.progress.total or 0) - len({item for item, _ in run.done})
        return "" if reach is None else reach.line(waiting)

    def _items_to_judge(self, run: RunContext) -> Iterator[Item | InvalidItem]:
        """Yield the items to judge, in order."""
        return run.folder.items()

    def _findings(self, results: Results) -> Results:
        """Return further keys of results.json that this kind of run adds to `results`."""
        return Results()

    def _live_jobs(self) -> int:
        """Count the batch jobs of this run that have not been collected."""
        place = (self.config.out or default_folder(self.config)) / "batches"
        if not self.config.limits.batch or not place.is_dir():
            return 0
        from titjudge.providers.batch.provider import live_jobs

        return live_jobs(place)

    async def _ask_canaries(self, run: RunContext) -> None:
        """Ask the frozen canary questions before the run, to find out whether a model has changed since."""
        from titjudge.probes.canary_run import ask_before

        run.canaries = await ask_before(self.config, run.engine, self.metrics, self.cache, run.folder.journal)

    def _batches(self, folder: RunFolder, watcher: Watcher) -> Batches | None:
        """Open the batch jobs of this run; None where requests are sent one by one."""
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
        """Put the paid answers of the run's journal into the cache, where a kill, a full disk or a lost cache left gaps."""
        for record in folder.replies():
            if record["provider"] == "recorded" or record["status"] not in _ANSWERED or OTHER_MODEL in record["flags"]:
                continue
            cached = self.cache.get(record["key"])
            if cached is None or (cached["status"] != Status.OK and record["status"] == Status.OK):
                self.cache.set(record["key"], reply_record(reply_from(record)))
        for record in folder.vectors():
            if self.cache.get(record["key"]) is None:
                self.cache.set(record["key"], {name: record[name] for name in ("vector", "used", "total")})

    def _check_unchanged(self, folder: RunFolder, before: Manifest, roles: Roles) -> dict[str, Any]:
        """Check that prompts, metrics and models are those the run began with; returns the pins for its manifest.

        Raises:
            UserError: one has changed.
        """
        pins = Pins(roles, asked_roles(self.metrics))
        pins.check(folder, together=any(map(compares_images, self.metrics.values())))
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
            if time.monotonic() - written > _MANIFEST_INTERVAL:
                self._write_manifest(run, "running", known_sum(run.engine.budget.list_cost, run.engine.budget.unpriced))
                written = time.monotonic()
            await asyncio.sleep(_PROGRESS_INTERVAL)

    def _write_manifest(self, run: RunContext, status: str, list_cost: float | None) -> None:
        progress, budget = run.loop.progress, run.engine.budget
        manifest = provenance(
            self.config, run.engine, self.metrics, run.before,
            suite={"name": self.suite.name, "version": self.suite.VERSION, "deviations": list(self.suite.DEVIATIONS)},
            status=status,
            started=run.started,
            updated=time.time(),
            progress={name: getattr(progress, name) for name in ("total", "done", "scored", "failed")},
            spent=known_sum(budget.spent, budget.unpriced),
            unpriced=budget.unpriced,
            list_cost=list_cost,
            uncertain=round(budget.uncertain, 6),
            **run.pins,
        )  # fmt: skip
        if lines := mixed(manifest.roles):
            manifest = manifest.with_(mixed=lines)
        if run.canaries is not None and run.canaries.report is not None:
            manifest = manifest.with_(canary=run.canaries.report.to_json())
        run.folder.write_manifest(manifest, sync=status != "running")


def pairs_among(pairs: Iterable[Pair], items: Iterable[Item | InvalidItem]) -> list[Pair]:
    """Keep the pairs whose two images are among the items."""
    ids = {item.id for item in items}
    return [pair for pair in pairs if pair.a in ids and pair.b in ids]


@contextlib.contextmanager
def _signals(loop: RunLoop, watcher: Watcher) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM: the first sends nothing new and awaits what was sent, the second stops at once."""
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

    with terminated_like_ctrl_c():
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            running.add_signal_handler(signal.SIGINT, handle)
        try:
            yield
        finally:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                running.remove_signal_handler(signal.SIGINT)
