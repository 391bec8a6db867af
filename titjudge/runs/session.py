"""From a configuration to a finished run: what the command line and the Python API both drive."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from titjudge.core.config import RunConfig
from titjudge.core.errors import FatalProviderError, TitjudgeError, UserError
from titjudge.core.paths import cache_folder
from titjudge.core.prompts import PromptLibrary
from titjudge.core.retirements import OTHER_MODEL
from titjudge.core.run_records import Manifest
from titjudge.core.serialization import reply_from, reply_record
from titjudge.core.types import DryRun, InvalidItem, Item, Pair, Status, Table
from titjudge.engine.budget import Budget
from titjudge.engine.cache import AnswerCache
from titjudge.engine.forecast import Forecast, Planner, forecast
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import Panel
from titjudge.metrics import Metric, everywhere
from titjudge.runs.fingerprints import Pins
from titjudge.runs.identity import default_folder
from titjudge.runs.journal import told
from titjudge.runs.loop import Progress, RunLoop, prepared
from titjudge.runs.manifest import mixed, provenance
from titjudge.runs.resolve import complete, left_out, load_metrics, load_suite
from titjudge.runs.results import summarize
from titjudge.runs.run_folder import RunFolder
from titjudge.runs.run_input import Reading
from titjudge.runs.score_digests import compares

if TYPE_CHECKING:
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
class Outcome:
    """A finished, or well interrupted, run."""

    status: str
    folder: Path
    results: dict[str, Any]
    tables: list[Table]
    failures: list[tuple[str, str, str]] = field(default_factory=list)  # item, status, reason
    warnings: list[str] = field(default_factory=list)
    report: Path | None = None
    reason: str = ""  # why a cap ended the run
    mixed: list[str] = field(default_factory=list)  # models that answered in place of those asked
    uncertain: float = 0.0  # USD that requests without an answer may have cost beside what was spent

    @property
    def covered(self) -> tuple[str, int, int] | None:
        """The metric that scored the smallest share of the images: its name, how many it scored, and of how many."""
        found = [
            (name, each["scored"], each["images"])
            for name, each in self.results["metrics"].items()
            if " [" not in name and each["images"]
        ]
        return min(found, key=lambda each: each[1] / each[2], default=None)


class Session:
    """The parts of one run, put together.

    Raises:
        UserError: something in the configuration cannot be had (folder, price, prompt, cache).
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = complete(config)
        self.metrics = load_metrics(self.config)
        self.suite = load_suite(self.config)
        self.reading = Reading(self.config, self.suite)
        self.library = PromptLibrary(self.config.prompts)
        self.cache = AnswerCache(cache_folder(self.config.cache))
        self.warnings = left_out(config, self.config)
        self.canary: Any = None
        self._before = Manifest()
        self._pins: dict[str, Any] = {}
        self._ended = ("", 0.0)
        self._models: list[str] = []  # what is to be said of the models in use

    def items(self) -> Iterator[Item | InvalidItem]:
        return (item for item, _ in self.listed())

    def listed(self) -> Iterator[tuple[Item | InvalidItem, int | None]]:
        return self.reading.listed()

    def pairs(self) -> list[Pair]:
        from titjudge.suites.folder import known_prompts, read_pairs

        if self.config.pairs is not None:
            return read_pairs(self.config.pairs, known_prompts(self.config.data) if self.config.data else None)
        assert self.config.data is not None
        pairs: list[Pair] = self.suite.pairs(self.config.data)
        return pairs

    def budget(self, spent: dict[str, Any]) -> Budget:
        limits = self.config.limits
        budget = Budget(limits.max_cost, limits.max_requests, limits.max_tokens)
        in_jobs = spent["in_jobs"] if limits.batch else {}  # without --batch it is asked, and paid, beside the jobs
        uncertain = max(0.0, spent["uncertain"] - sum(cost for cost, _ in in_jobs.values()))
        tokens = spent["uncertain_tokens"] - sum(count for _, count in in_jobs.values())
        budget.resume(
            spent["spent"], spent["requests"] - len(in_jobs), spent["tokens"], uncertain, tokens, in_jobs=in_jobs
        )
        return budget

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
                *self.reading.notes(self.metrics.values()),
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
        self.reading.check()
        folder.open(self.config)
        try:
            status = asyncio.run(
                self._run(folder, watcher or Silent())
            )  # what asking took is free when counting begins
            kept = _within(pairs, folder) if self.config.limit else pairs
            outcome = finish(
                folder,
                self.suite,
                kept,
                self.metrics,
                status=status,
                extra_warnings=[
                    *self.cache.notes(),
                    *self.warnings,
                    *self._models,
                    *self.reading.notes(self.metrics.values(), pairs, kept),
                    *_drift(folder.manifest()),
                    *folder.manifest().mixed,
                    *(self.canary.lines() if self.canary else ()),
                ],
                report=self.config.report,
            )
            outcome.reason, outcome.uncertain = self._ended
            outcome.mixed = folder.manifest().mixed
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

    async def _run(self, folder: RunFolder, watcher: Watcher) -> str:
        self._before = folder.manifest()
        limits = self.config.limits
        batches = self._batches(folder, watcher)
        roles = Roles(self.config, batches=batches)
        self._check_unchanged(folder, roles)
        done = folder.scored(self.items(), self.metrics)
        total = folder.list_items(self.listed())
        if len(done) < total * len(self.metrics):
            self.restore(folder)
        roles.check_prices(role for metric in self.metrics.values() for role in metric.roles)
        budget = self.budget(folder.money())
        engine = Engine(
            roles, self.library, self.cache, budget, protocol=self.config.protocol, journal=folder.journal,
            lenient=self.config.lenient, known=folder.known_keys(), failed=self.config.failed,
        )  # fmt: skip
        capped = any(cap is not None for cap in (limits.max_cost, limits.max_requests, limits.max_tokens))
        planner = Planner(self.config, self.library, self.cache, DryRun.WORST) if capped else None
        loop = RunLoop(
            engine, self.metrics, panel=Panel.of(self.config), planner=planner, done=done, on_score=folder.add_score,
            in_flight=max(1, min(total, 50_000)) if batches else max(64, 2 * limits.concurrency),
        )  # fmt: skip
        loop.progress.total = total
        started = time.time()
        watch = asyncio.create_task(self._watch(loop, engine, folder, watcher, started))
        fatal: FatalProviderError | None = None
        try:
            with _signals(loop, watcher):
                if self.config.canary:
                    await loop.before(self._ask_canaries(engine, folder.journal))
                status = await loop.run(self._work(folder, loop, done))
        except FatalProviderError as error:
            fatal, status = error, f"failed: {error}"
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            watcher.show(loop.progress, engine)
            watcher.close()
            await engine.aclose()
            if planner is not None:
                await planner.aclose()
        self._ended, self._models = (budget.reason, budget.uncertain), roles.notes()
        self._manifest(folder, engine, loop, status, started)
        if fatal is not None:
            raise fatal
        return status

    def _work(self, folder: RunFolder, loop: RunLoop, done: set[tuple[str, str]]) -> Iterator[Item | InvalidItem]:
        """What is to be judged, in order."""
        return folder.items()

    async def _plan_canaries(self) -> tuple[list[Expected], str]:
        from titjudge.probes.canary_run import plan_before

        return await plan_before(self.config, self.metrics, self.library, self.cache)

    def _live_jobs(self) -> int:
        """How many batch jobs this run has waiting."""
        place = (self.config.out or default_folder(self.config)) / "batches"
        if not self.config.limits.batch or not place.is_dir():
            return 0
        from titjudge.providers.batch.provider import live_jobs

        return live_jobs(place)

    async def _ask_canaries(self, engine: Engine, journal: Any) -> None:
        """Ask the frozen questions before the run: has a model changed since they were frozen?"""
        from titjudge.probes.canary_run import ask_before

        self.canary = await ask_before(self.config, engine, self.metrics, self.cache, journal)

    def _batches(self, folder: RunFolder, watcher: Watcher) -> Batches | None:
        """Where the batch jobs of this run are kept, when it is asked through batch jobs."""
        limits, place = self.config.limits, folder.path / "batches"
        if not limits.batch and not place.is_dir():
            return None
        from titjudge.providers.batch.provider import Batches, BatchTiming, live_jobs

        if limits.batch:
            return Batches(place, say=watcher.say, pace=BatchTiming(limits.batch_poll, limits.batch_idle))
        if live := live_jobs(place):
            watcher.say(
                f"{live} batch jobs of this run are live: --batch collects them, without it they are paid again"
            )
        return None

    def restore(self, folder: RunFolder) -> None:
        """Answers that are in the run's own journal and not in the cache (a kill or a full disk kept them out, or the cache
        has gone) are put back: they are paid."""
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

    def _check_unchanged(self, folder: RunFolder, roles: Roles) -> None:
        """Prompts and metrics of a run that goes on, and what answers in it, must be those it began with."""
        before = self._before
        pins = Pins(roles, (role for metric in self.metrics.values() for role in metric.roles))
        pins.check(folder, together=any(map(compares, self.metrics.values())))
        self._pins = pins.record(before)
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

    async def _watch(self, loop: RunLoop, engine: Engine, folder: RunFolder, watcher: Watcher, started: float) -> None:
        written = 0.0
        while True:
            watcher.show(loop.progress, engine)
            if time.monotonic() - written > _MANIFEST:
                self._manifest(folder, engine, loop, "running", started)
                written = time.monotonic()
            await asyncio.sleep(_WATCH)

    def _manifest(self, folder: RunFolder, engine: Engine, loop: RunLoop, status: str, started: float) -> None:
        progress, complete = loop.progress, status != "running"
        manifest = provenance(
            self.config, engine, self.metrics, self._before,
            suite={"name": self.suite.name, "version": self.suite.VERSION, "deviations": list(self.suite.DEVIATIONS)},
            status=status,
            started=started,
            updated=time.time(),
            progress={name: getattr(progress, name) for name in ("total", "done", "scored", "failed")},
            spent=round(engine.budget.spent, 6),
            list_cost=round(folder.money()["list_cost"] if complete else engine.budget.list_cost, 6),
            uncertain=round(engine.budget.uncertain, 6),
            **self._pins,
        )  # fmt: skip
        if lines := mixed(manifest.roles):
            manifest = manifest.with_(mixed=lines)
        if self.canary is not None and self.canary.report is not None:
            manifest = manifest.with_(canary=self.canary.report.to_json())
        folder.write_manifest(manifest, sync=complete)


def finish(
    folder: RunFolder,
    suite: Any,
    pairs: Sequence[Pair],
    metrics: dict[str, Metric],
    *,
    status: str,
    extra_warnings: Sequence[str] = (),
    report: bool = True,
) -> Outcome:
    """Tables, results.json and report of what a run folder holds."""
    slim, money = not suite.AGGREGATES, folder.money()
    scores = list(folder.scores(slim=slim).values())
    items = list(folder.items(slim=slim and all(metric.applies is everywhere for metric in metrics.values())))
    extra_warnings = [*extra_warnings, *told(folder.damage)]
    results, tables = summarize(
        items, scores, suite, pairs, metrics, status=status, money=money, extra_warnings=extra_warnings
    )
    before = (folder.path / "results.json").read_bytes() if (folder.path / "results.json").is_file() else b""
    same = folder.write("results.json", results).read_bytes() == before
    failures = [(each["item"], each["status"], each["reason"]) for each in results["failures"]]
    outcome = Outcome(status, folder.path, results, tables, failures, results["warnings"])
    if report:
        outcome.report = folder.path / "report.html"
        if not (same and outcome.report.is_file()):  # a run that found nothing new keeps its page
            from titjudge.report import write_report

            write_report([folder], outcome.report)
    return outcome


def _drift(manifest: Manifest) -> list[str]:
    """A model that changed its version while it was being asked."""
    lines = []
    for role in manifest.roles.values():
        versions = sorted({each.version for each in role.answered if each.version})
        if len(versions) > 1:
            lines.append(f"{role.model} answered as {len(versions)} model versions in this run: {', '.join(versions)}")
    return lines


def _within(pairs: Sequence[Pair], folder: RunFolder) -> list[Pair]:
    """The pairs whose images are among the items: with --limit the others are left out on purpose."""
    known = {item.id for item in folder.items(slim=True)}
    return [pair for pair in pairs if pair.a in known and pair.b in known]


@contextlib.contextmanager
def _signals(loop: RunLoop, watcher: Watcher) -> Iterator[None]:
    """Ctrl-C or SIGTERM once: ask nothing new, await and keep what was asked. Twice: stop at once."""
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
