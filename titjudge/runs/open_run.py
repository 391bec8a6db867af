"""Open a run. Nowhere else are prompts, cache, models, budget and engine put together, or the manifest of a run written.

open_folder(run)          its folder: lock and identity; one in which nothing was asked leaves no trace
OpenRun(run, folder)      prompts, metrics and models as the run began with, the costs and answers of earlier sessions,
                          the manifest while it goes on, and how it ended
open_engine(config)       models without a run: for single questions, and for a walk with substitutes
open_planner(config, ...) the questions of a run, and its price
open_sender(folder, ...)  the budget and the ledger of work that is not a run
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from titjudge.core.config import Limits, RoleConfig, RunConfig
from titjudge.core.errors import BudgetExhausted, TitjudgeError, UserError
from titjudge.core.files import Appender
from titjudge.core.numbers import known_sum
from titjudge.core.prompts import PromptLibrary
from titjudge.core.serialization import embedding_from, embedding_record, reply_from, reply_record, with_checksum
from titjudge.core.types import InvalidItem, Item, Json, Status
from titjudge.engine import retry
from titjudge.engine.budget import UNSPENT, Budget, Spending
from titjudge.engine.cache import AnswerCache, open_cache
from titjudge.engine.forecast import Estimates, Planner, ReadOnlyCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.sender import Sender
from titjudge.providers.retirements import OTHER_MODEL
from titjudge.runs.folder.manifest import Pins, make_manifest, mixed
from titjudge.runs.folder.run_folder import FolderLock, RunFolder, compares_images
from titjudge.runs.loop import Progress
from titjudge.runs.resolve import ResolvedMetrics, ResolvedRun

if TYPE_CHECKING:
    from titjudge.core.run_records import Manifest
    from titjudge.providers import Embedder, Provider
    from titjudge.providers.batch.provider import Batches

COMPLETE, INTERRUPTED, BUDGET = "complete", "incomplete: interrupted", "incomplete: budget"
_PROGRESS = tuple("total done resumed scored failed answers expected waits".split())  # of the manifest
_MANIFEST_INTERVAL = 3.0  # seconds between two manifests while a run is going on
_ANSWERED = frozenset({Status.OK, Status.REFUSED, Status.TRUNCATED, Status.UNPARSED})


@contextlib.contextmanager
def open_folder(run: ResolvedMetrics, path: Path | None = None) -> Iterator[RunFolder]:
    """Open the folder of a run, to begin the run or go on with it.

    Args:
        run: The run.
        path: The folder, if it is not the run's folder.

    Raises:
        UserError: It belongs to another run, or another process is writing it.
    """
    folder = RunFolder(path or run.folder)
    folder.open(run.config)
    try:
        yield folder
    except TitjudgeError as error:
        if folder.in_place and (folder.path / "manifest.json").is_file() and folder.manifest().status == "running":
            folder.set_status(f"failed: {error}")  # the status of an earlier session that ended stays
        if isinstance(error, UserError):
            folder.discard()
        raise
    finally:
        folder.close()


@contextlib.asynccontextmanager
async def open_engine(
    config: RunConfig,
    cache: AnswerCache | None = None,
    *,
    asks: Iterable[str] = (),
    make: Callable[[RoleConfig], Provider] | None = None,
    embedder: Callable[[RoleConfig], Embedder] | None = None,
    recorded: Iterable[str] = (),
    kind: Callable[..., Engine] = Engine,
    **options: Any,
) -> AsyncIterator[Engine]:
    """Open models without a run.

    Args:
        config: Names models, templates and limits.
        cache: Keeps the answers; None keeps none.
        asks: The roles whose answers are paid: their prices must be known, and the caps apply.
        make: Makes substitutes for providers.
        embedder: Makes a substitute for the embedder.
        recorded: Roles whose recordings are read at once, if they are `recorded`.
        kind: Makes the engine.
        **options: Further arguments of it.

    Raises:
        ConfigError: A cap on a model without a known price, or a folder of templates is missing.
    """
    roles = Roles(config, make=make, embedder=embedder)
    roles.check_recordings(recorded)
    roles.check_prices(asks)
    budget = Budget.for_run(config.limits) if asks else None
    async with contextlib.aclosing(kind(roles, PromptLibrary(config.prompts), cache, budget, **options)) as engine:
        yield engine


def open_planner(
    config: RunConfig, cache: AnswerCache | None, library: PromptLibrary | None = None, *, per_item: bool = False
) -> Planner:
    """Open estimating substitutes for the models of a configuration, to find its requests; nothing is sent or kept.

    Args:
        config: Names models, templates and limits.
        cache: Questions with an answer in it are left out.
        library: The templates, if they are open already.
        per_item: As in `titjudge.engine.forecast.Estimates`.
    """
    library = library or PromptLibrary(config.prompts)
    estimates = Estimates(library, config.settings_of, per_item=per_item)
    roles = Roles(config, make=estimates.provider, embedder=estimates.embedder)
    view: Any = None if cache is None else ReadOnlyCache(cache)
    return Planner(Engine(roles, library, view, dry_run=True, failed=config.failed), estimates)


@contextlib.contextmanager
def open_sender(
    folders: Mapping[str, Path], limits: Limits, on_fatal: Callable[[], None], policy: retry.Policy
) -> Iterator[Sender]:
    """Open the sender for requests of work that is not a run, with a folder for the ledger of each role.

    Args:
        folders: Each contains `billing.jsonl`, by role; the costs in all of them count against the caps.
        limits: The caps.
        on_fatal: Called once no request will be answered any more, or the ledger cannot be written.
        policy: How long to go on after failures.

    Raises:
        UserError: Another process is writing there, or it is not a writable folder.
    """
    budget = Budget.for_run(limits)
    with contextlib.ExitStack() as opened:
        ledgers = {}
        for role, folder in folders.items():
            lock = opened.enter_context(contextlib.closing(FolderLock(folder)))
            ledgers[role] = lock, opened.enter_context(contextlib.closing(Appender(folder / "billing.jsonl")))
            budget.resume(RunFolder(folder).money(), jobs=limits.batch)

        def journal(kind: str, record: Json) -> None:
            lock, bills = ledgers[record["role"]]
            if kind == "sent":
                lock.check()
            bills.add(with_checksum(record))

        yield Sender(budget, journal, on_fatal, policy)


class OpenRun:
    """A session of a run: its models over the folder, and the manifest of it.

    As a context manager it writes the manifest every three seconds, and at the end, whatever that is, awaits the answers in
    flight and writes how the run ended. Ctrl-C and errors have their status; otherwise the end is `status`.

    Args:
        run: The run.
        folder: Its open folder; without one it has no ledger and no manifest (the Python API).
        kind: Its kind in the manifest: `judge`, `probe`, `serve` or `python`.
        models: The configuration of its models, if it asks more models than the run's (the rivals of a probe).
        items: The items to judge, each with its position among all shards; None if they come bit by bit.
        spent: The amount that already counts against the caps, without a folder.
        sends_jobs: Whether it may send batch jobs, if its limits ask for them.
        say: Called with lines on the run's batch jobs.

    Attributes:
        engine: Asks the models.
        progress: Counts for the manifest.
        status: How it will have ended.
        done: Item and metric of the scores that are still valid.
        money: Sums of the ledger, once it has ended; None without a folder.
        canary: The record of its canaries for the manifest.

    Raises:
        UserError: A prompt, a metric or a model has changed since the run began, a recording is damaged, a cap on a model
            without a known price, or the cache cannot be used.
    """

    def __init__(
        self,
        run: ResolvedMetrics,
        folder: RunFolder | None = None,
        *,
        kind: str = "judge",
        models: RunConfig | None = None,
        items: Iterable[tuple[Item | InvalidItem, int | None]] | None = None,
        spent: Spending = UNSPENT,
        sends_jobs: bool = False,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        from titjudge.core.run_records import Manifest

        self.run, self.kind, self._folder = run, kind, folder
        self.config = models or run.config
        if not sends_jobs and self.config.limits.batch:  # requests outside jobs are not billed at the price of jobs
            limits = self.config.limits.model_copy(update={"batch": False})
            self.config = self.config.model_copy(update={"limits": limits})
        self.before = folder.manifest() if folder else Manifest()
        self.progress, self.status = Progress(), COMPLETE
        self.done: set[tuple[str, str]] = set()
        self.money: Spending | None = None
        self.canary: Json | None = None
        self._started = time.time()
        self._keeping: asyncio.Task[None] | None = None
        with contextlib.ExitStack() as stack:
            self.cache = stack.enter_context(open_cache(self.config.cache))
            self.library = PromptLibrary(self.config.prompts)
            roles = self._roles(self._batches(say) if folder and sends_jobs else None)
            self.engine = self._engine(roles, items, spent)
            self._stack = stack.pop_all()

    def _roles(self, batches: Batches | None) -> Roles:
        """Make the models, and check that they and the templates are the ones that the run began with."""
        folder = self._folder
        roles = Roles(self.config, batches=batches)
        roles.check_recordings(self.run.roles)
        pins = Pins(roles, self.run.models)
        if folder is not None:
            pins.check(folder, together=any(map(compares_images, self.run.metrics.values())))
            self._check_unchanged(folder)
        self._pins = pins.record(self.before)
        return roles

    @property
    def folder(self) -> RunFolder:
        """The folder of the run."""
        assert self._folder is not None, "this run has no folder"
        return self._folder

    def _check_unchanged(self, folder: RunFolder) -> None:
        """Check that templates and metrics are the ones that the run began with.

        Raises:
            UserError: One has changed.
        """
        changed = [f"prompt {name}" for name, was in self.before.prompts.items() if self.library.sha256(name) != was]
        versions = {name: metric.version for name, metric in self.run.metrics.items()}
        changed += [
            f"metric {name}"
            for name, was in self.before.metrics.items()
            if versions.get(name, was.version) != was.version
        ]
        if changed:
            raise UserError(f"{folder.path}: the {changed[0]} has changed since this run began. Choose another --out")

    def _engine(
        self, roles: Roles, items: Iterable[tuple[Item | InvalidItem, int | None]] | None, spent: Spending
    ) -> Engine:
        folder, metrics = self._folder, self.run.metrics
        if folder is not None:
            if items is not None:
                self.progress.total, self.done = folder.list_items(items, metrics)
            if self.progress.total is None or len(self.done) < self.progress.total * len(metrics):
                self._restore(folder)
            spent = folder.money()
        roles.check_prices(self.run.roles)
        budget = Budget.for_run(self.config.limits, spent)
        return Engine(
            roles,
            self.library,
            self.cache,
            budget,
            journal=None if folder is None else folder.journal,
            known=None if folder is None else folder.known_keys(),
            failed=self.config.failed,
            embeds="embedder" in self.run.roles,
        )

    def _batches(self, say: Callable[[str], None]) -> Batches | None:
        """Open the batch jobs of this run; None if requests are sent one by one."""
        limits, place = self.config.limits, self.folder.path / "batches"
        if not limits.batch and not place.is_dir():
            return None
        from titjudge.providers.batch.provider import Batches, BatchTiming, live_jobs

        if limits.batch:
            pace = BatchTiming(limits.batch_poll, limits.batch_idle)
            return Batches(place, say=say, pace=pace, again=self.config.failed == "again")
        if live := live_jobs(place):
            say(f"{live} batch jobs of this run are live: --batch collects them, without it they are paid again")
        return None

    def _restore(self, folder: RunFolder) -> None:
        """Put the paid answers of the run's journal into the cache, if a kill, a full disk or a lost cache left gaps."""
        for record in folder.replies():
            if record["provider"] == "recorded" or record["status"] not in _ANSWERED or OTHER_MODEL in record["flags"]:
                continue
            cached = self.cache.get(record["key"])
            if cached is None or (cached["status"] != Status.OK and record["status"] == Status.OK):
                self.cache.set(record["key"], reply_record(reply_from(record)))
        for record in folder.vectors():
            if self.cache.get(record["key"]) is None:
                self.cache.set(record["key"], embedding_record(embedding_from(record)))

    @contextlib.asynccontextmanager
    async def other_models(self, config: RunConfig) -> AsyncIterator[Engine]:
        """Open an engine for other models, which shares the rest with the run: it stops when the run stops."""
        engine = Engine(Roles(config), self.library, self.cache, self.engine.budget)
        engine.sender = self.engine.sender
        async with contextlib.aclosing(engine):
            yield engine

    # -- the manifest ----------------------------------------------------------------------------------------------

    def keep_manifest(self) -> None:
        """Begin to write the manifest every three seconds; a second call does nothing."""
        if self._folder is not None and self._keeping is None:
            self._keeping = asyncio.create_task(self._keep_manifest())

    async def _keep_manifest(self) -> None:
        while True:
            self._write_manifest("running")
            await asyncio.sleep(_MANIFEST_INTERVAL)

    def _write_manifest(self, status: str) -> None:
        """Write the manifest. A full disk is reported when a score cannot be written."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                self._folder.write_manifest(self._manifest(status), sync=status != "running")

    def _manifest(self, status: str) -> Manifest:
        budget, money = self.engine.budget, self.money
        list_cost = (money.list_cost, money.unlisted) if money else (budget.list_cost, budget.unpriced)
        more: Json = dict(self._pins)
        if isinstance(self.run, ResolvedRun):
            suite = self.run.suite
            more["suite"] = {"name": suite.name, "version": suite.VERSION, "deviations": list(suite.DEVIATIONS)}
        if self.canary is not None:
            more["canary"] = self.canary
        manifest = make_manifest(
            self.run.config,
            self.engine,
            self.run.metrics,
            self.before,
            kind=self.kind,
            status=status,
            started=self._started,
            updated=time.time(),
            progress={name: getattr(self.progress, name) for name in _PROGRESS},
            spent=known_sum(budget.spent, budget.unpriced),
            unpriced=budget.unpriced,
            list_cost=known_sum(*list_cost),
            uncertain=round(budget.uncertain, 6),
            **more,
        )
        lines = mixed(manifest.roles)
        return manifest.with_(mixed=lines) if lines else manifest

    # -- the end ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self.keep_manifest()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.status = _ended_by(error)
        await self.aclose()

    async def aclose(self) -> None:
        """Await the answers in flight, let go of everything, and write how the run ended."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        try:
            with self._stack:
                await self.engine.aclose()
            self.status = self._trouble() if self.status == COMPLETE else self.status
        except BaseException as error:
            self.status = _ended_by(error)
            raise
        finally:
            self.money = self._folder.money() if self._folder else None
            self._write_manifest(self.status)

    def _trouble(self) -> str:
        """Return the status of a run that was not interrupted: the failure, the cap, or that it is complete."""
        sender, budget = self.engine.sender, self.engine.budget
        if failed := sender.fatal or sender.disk:
            return f"failed: {failed}"
        return BUDGET if budget.exhausted else COMPLETE


def _ended_by(error: BaseException) -> str:
    """Return the status of a run that an exception ended."""
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BudgetExhausted):
        return BUDGET
    return f"failed: {error}" if isinstance(error, TitjudgeError) else "failed"
