"""Serve a judge over HTTP, with a run folder for its ledger, its answers and every reward."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from titjudge.apps.rewards import PORT
from titjudge.apps.rewards.formats import BadRequest, Batch, Missing
from titjudge.apps.rewards.server import MAX_BODY, build_app
from titjudge.core.config import RunConfig
from titjudge.core.errors import CacheWriteError, ConfigError, TitjudgeError, UserError
from titjudge.core.files import Appender
from titjudge.core.serialization import item_record, with_checksum
from titjudge.core.types import Item, Score
from titjudge.providers.base import Model
from titjudge.runs.api.image_scorer import Entry, ImageScorer, entry_sources
from titjudge.runs.api.images_in_memory import HeldImages, check
from titjudge.runs.api.judged_scores import JudgedScore
from titjudge.runs.folder.identity import default_folder
from titjudge.runs.open_run import open_folder
from titjudge.runs.resolve import ResolvedMetrics, lacks, resolve_metrics
from titjudge.web.http_guard import address, is_loopback, listen, run

# Thresholds of `gc.set_threshold`: requests that wait for an answer are many objects and no garbage.
_COLLECTED = (20_000, 10, 10)


class Rewards:
    """Judges the batches of a reward server, and writes each reward to a run folder.

    A reward becomes an item of the run, named by its image and prompt, with a score. One that comes again is not written
    again. Images are not kept.

    Args:
        config: Models, metrics and limits, as for a run.
        loading: Called with the name of each local model before it is loaded.

    Raises:
        UserError: A metric or model is missing, or the folder cannot be used.
    """

    def __init__(self, config: RunConfig, loading: Callable[[str], None] | None = None) -> None:
        run = resolve_metrics(config)
        _check(run)
        with contextlib.ExitStack() as stack:
            self._folder = stack.enter_context(open_folder(run, config.out or _folder(config)))
            self._scorer = ImageScorer(run, self._folder, memory=HeldImages(), kind="serve")
            self._run = self._scorer.open()
            self._check_ready(loading)
            self._items = Appender(self._folder.path / "items.jsonl")
            stack.callback(self._items.close)
            self._stack = stack.pop_all()
        self.names = tuple(run.metrics)
        self.see_sources = frozenset(name for name, metric in run.metrics.items() if metric.sources != "ignored")
        self._item_ids = {item.id for item in self._folder.items(slim=True)}
        scores = self._folder.scores(slim=True).items()
        self._scored = {key: score.value for key, score in scores if score.value is not None}  # as last written
        self._update_progress()

    def _check_ready(self, loading: Callable[[str], None] | None) -> None:
        """Check keys and load models now, so that the first reward of a training run neither fails nor waits.

        Raises:
            UserError: A key or a model is missing.
        """
        roles, config = self._run.engine.roles, self._run.config
        names = self._run.run.models
        models: list[Model] = [roles.embedder()] if "embedder" in names else []
        models += [roles.new_provider(role) for name in names if name != "embedder" and (role := config.role(name))]
        for model in models:
            model.ready()
        for model in dict.fromkeys(models):
            if loading is not None and type(model).load is not Model.load:
                loading(f"{model.name}/{model.model}" if model.model else model.name)
            model.load()

    @property
    def folder(self) -> Path:
        return self._folder.path

    @property
    def trouble(self) -> str:
        sender = self._run.engine.sender
        return str(sender.fatal or sender.disk or "")

    @property
    def capped(self) -> str:
        return self._run.engine.budget.reason

    def counters(self) -> dict[str, float]:
        budget, roles, limits = self._run.engine.budget, self._run.engine.roles.open(), self._run.config.limits
        return {
            "spent_usd": budget.spent,
            "uncertain_usd": budget.uncertain,
            "list_cost_usd": budget.list_cost,
            **({} if limits.max_cost is None else {"cap_usd": limits.max_cost}),
            "model_requests_total": budget.requests,
            "unpriced_requests_total": budget.unpriced,
            "model_answers_total": sum(role.tally.asked for role in roles),
            "cached_answers_total": sum(role.tally.cached for role in roles),
            "model_errors_total": sum(role.tally.errors for role in roles),
        }

    async def start(self) -> None:
        self._run.keep_manifest()

    async def close(self) -> None:
        """Await the answers in flight, and close everything."""
        with self._stack:
            await self._scorer.aclose()

    async def scores(self, batch: Batch) -> list[dict[str, Score]]:
        """Score every pair of a batch by the metrics that it names.

        Raises:
            BadRequest: One of its images is none.
            FatalProviderError, CacheWriteError: Nothing can be judged any more.
        """
        for number, pair in enumerate(batch.pairs):
            try:
                for image in (pair[0], *entry_sources(pair)):
                    check(image)
            except (TypeError, ValueError) as error:
                raise BadRequest(f"image {number}: {error}") from error
        scores: list[dict[str, Score]] = [{} for _ in batch.pairs]
        by_metrics: dict[tuple[str, ...], dict[int, Entry]] = {}  # pairs by their numbers
        for number, (pair, names) in enumerate(zip(batch.pairs, batch.metrics, strict=True)):
            for some, entry in self._entries(pair, tuple(dict.fromkeys(names))):
                by_metrics.setdefault(some, {})[number] = entry

        async def score_by(names: tuple[str, ...], pairs: dict[int, Entry]) -> None:
            numbers = list(pairs)
            async for score in self._scorer.stream(list(pairs.values()), names):
                scores[numbers[score.number]][score.metric] = score
                self._store(score)

        await asyncio.gather(*(score_by(names, pairs) for names, pairs in by_metrics.items()))
        return scores

    def _entries(self, pair: Entry, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Entry]]:
        """Yield metrics with what they get of a pair: those that do not look at the sources of an edit get none."""
        blind = tuple(name for name in names if name not in self.see_sources)
        if not entry_sources(pair) or not blind:
            yield names, pair
            return
        yield blind, pair[:2]
        if seeing := tuple(name for name in names if name in self.see_sources):
            yield seeing, pair

    def _store(self, score: JudgedScore) -> None:
        """Write a score to the run folder, unless the last one there is the same.

        A metric that compares images gives an image another score in another group: that is another line.
        """
        prompt_key = score.prompt_id or score.prompt  # of an edit with its sources
        digest = hashlib.sha256(prompt_key.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        item = f"{score.item_id[:24]}-{digest}"  # picture-0123456789abcdef-0123456789abcdef
        has_value = score.value is not None and math.isfinite(score.value)
        self._run.progress.failed += not has_value
        self._update_progress()
        written = self._scored.get((item, score.metric))
        if written is not None and (not has_value or score.value == written):
            return
        try:
            if item not in self._item_ids:
                record = item_record(Item(item, score.prompt, None, prompt_id=digest, meta={"image": score.item_id}))
                self._items.add(with_checksum(record))
                self._item_ids.add(item)
            self._folder.add_score(replace(score, item_id=item, prompt_id=digest))
        except OSError as error:
            raise CacheWriteError(f"the run folder cannot be written: {error.strerror}") from error
        if score.value is not None and has_value:
            self._scored[item, score.metric] = score.value
            self._update_progress()

    def _update_progress(self) -> None:
        """Set the counts of the manifest: rewards with a value count once, however often they are asked for."""
        progress = self._run.progress
        progress.scored = len(self._scored)
        progress.total = progress.done = progress.scored + progress.failed


def serve_rewards(
    config: RunConfig,
    *,
    token: str,
    host: str = "127.0.0.1",
    port: int | None = None,
    missing: Missing = "error",
    ignore_inputs: bool = False,
    max_body: int = MAX_BODY,
    ready: Callable[[str, Path], None] | None = None,
    loading: Callable[[str], None] | None = None,
) -> None:
    """Serve rewards until Ctrl-C.

    Args:
        config: Models, metrics and limits, as for a run; the keys that name data are ignored.
        token: What a request must carry; empty where anybody on this machine may ask.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one, None the usual one where it is free.
        missing: How a failed judgement is answered (`titjudge.apps.rewards.server.build_app`).
        ignore_inputs: Judge edited images by their prompt alone.
        max_body: The largest request body, in bytes.
        ready: Called with the address and the run folder once the server listens.
        loading: Called with the name of each local model before it is loaded.

    Raises:
        UserError: A metric or model is missing, or the folder or address cannot be used.
    """
    if not token and not is_loopback(host):
        raise UserError(f"--no-token goes with a loopback address only, and {host} is none")
    sock = listen(host, port, PORT)  # before a run folder is made
    try:
        rewards = Rewards(config, loading)
    except TitjudgeError:
        sock.close()
        raise
    if ready is not None:
        ready(address(host, sock), rewards.folder)
    app = build_app(rewards, token=token, host=host, missing=missing, ignore_inputs=ignore_inputs, max_body=max_body)
    gc.collect()
    gc.freeze()  # what is there now stays: looking through it again and again cost a sixth of the processor time
    gc.set_threshold(*_COLLECTED)
    run(app, sock, lifespan="on")


def _check(run: ResolvedMetrics) -> None:
    """Check that every metric has its models, and looks at prompt and image alone.

    Raises:
        ConfigError: One does not.
    """
    for name, metric in run.metrics.items():
        for role in run.config.without_model(metric.roles):
            raise ConfigError(lacks(name, role))
        if metric.needs:
            raise ConfigError(
                f"{metric.name} needs {' and '.join(metric.needs)} with each prompt, which no training framework sends: "
                "`serve` takes the metrics that look at prompt and image alone"
            )


def _folder(config: RunConfig) -> Path:
    usual = default_folder(config)
    return usual.with_name(f"serve-{usual.name.rpartition('-')[2]}")
