"""The reward server: a judge with a run folder for every reward, and an ASGI application with token, routes and counters."""

from __future__ import annotations

import asyncio
import base64
import binascii
import bisect
import contextlib
import gc
import hashlib
import hmac
import itertools
import logging
import math
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import orjson

from titjudge.apps.rewards import PORT
from titjudge.apps.rewards.formats import (
    FLOW_FACTORY,
    OWN,
    PICKLED,
    UNIRL,
    BadRequest,
    Batch,
    Missing,
    Reward,
    WireFormat,
    group_mean,
)
from titjudge.core.config import RunConfig
from titjudge.core.errors import CacheWriteError, ConfigError, TitjudgeError, UserError
from titjudge.core.files import Appender, read_yaml
from titjudge.core.serialization import item_record, with_checksum
from titjudge.core.types import Item, Score, Status
from titjudge.providers.base import Model
from titjudge.runs.api.image_scorer import Entry, ImageScorer, entry_sources
from titjudge.runs.api.images_in_memory import HeldImages, check
from titjudge.runs.api.judged_scores import JudgedScore
from titjudge.runs.folder.identity import default_folder
from titjudge.runs.open_run import open_folder
from titjudge.runs.resolve import ResolvedMetrics, lacks, resolve_metrics
from titjudge.web.http_guard import App, Guard, Receive, Scope, Send, address, is_loopback, json_response, listen, run

MAX_BODY = 256 * 2**20
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
                raise BadRequest(f"image {number}: {error}. Send an image file, an array or a PIL image") from error
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
        """Yield metrics with their part of a pair: metrics that do not look at the sources of an edit get none."""
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
            raise CacheWriteError(
                f"the run folder cannot be written: {error.strerror}. Free space on the disk, then start `serve` again"
            ) from error
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
        token: The token that a request must have; empty if any process on this machine may send requests.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one, None the usual one if it is free.
        missing: How a failed judgement is answered (`titjudge.apps.rewards.server.build_app`).
        ignore_inputs: Judge edited images by their prompt alone.
        max_body: The largest request body, in bytes.
        ready: Called with the address and the run folder once the server listens.
        loading: Called with the name of each local model before it is loaded.

    Raises:
        UserError: A metric or model is missing, or the folder or address cannot be used.
    """
    if not token and not is_loopback(host):
        raise UserError(f"--no-token requires a loopback address, not {host}. Remove it, or add --host 127.0.0.1")
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
    gc.freeze()  # exempt live objects from garbage collection: scanning them took a sixth of the CPU time
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
                f"{metric.name} requires {' and '.join(metric.needs)} with each prompt, which no training framework sends. "
                "Choose a metric that needs only prompt and image"
            )


def _folder(config: RunConfig) -> Path:
    usual = default_folder(config)
    return usual.with_name(f"serve-{usual.name.rpartition('-')[2]}")


_LONG = 2**18  # bytes; a longer body is parsed in a thread
_HEALTH = ("/health", "/ping", "/healthz", "/{metric}/health", "/{metric}/ping")
_OPEN = re.compile(r"/([^/]+/)?(health|ping)|/healthz|/livez")  # paths whose GET needs no token
_FINAL = frozenset({Status.BAD_INPUT, Status.REFUSED, Status.TRUNCATED, Status.UNPARSED, Status.MISSING})
_BUCKETS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)  # seconds of a request
_HELP = read_yaml(Path(__file__).with_name("metrics.yaml"), "a description of metrics")
_log = logging.getLogger("titjudge.apps.rewards")
T = TypeVar("T")


def build_app(
    judging: Rewards,
    *,
    token: str = "",
    host: str = "127.0.0.1",
    missing: Missing = "error",
    ignore_inputs: bool = False,
    max_body: int = MAX_BODY,
) -> App:
    """Make the server as an ASGI application.

    Args:
        judging: Scores the images.
        token: The token of every request, as `Authorization: Bearer TOKEN` or as the password in its URL; without a token
            only requests to a loopback address are answered.
        host: The address it listens on.
        missing: The answer for a judgement that failed: an error for the whole request, no number in its place, or the
            mean of the other rewards of its prompt in the same request.
        ignore_inputs: Judge edited images by their prompt alone, instead of refusing them.
        max_body: The largest request body, in bytes.
    """
    from starlette.applications import Starlette
    from starlette.routing import Route

    server = _Server(judging, missing, ignore_inputs, max_body)

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        await judging.start()
        try:
            yield
        finally:
            await judging.close()

    app = Starlette(
        lifespan=lifespan,
        routes=[
            *(Route(path, server.health) for path in _HEALTH),
            Route("/livez", server.alive),
            Route("/rewards", server.rewards),
            Route("/metrics", server.metrics),
            Route("/openapi.json", server.openapi),
            *(
                Route(path, server.endpoint(format), methods=["POST"])
                for path, format in (
                    ("/v1/rewards", OWN),
                    ("/score", UNIRL),
                    ("/compute", FLOW_FACTORY),
                    ("/{metric}/compute", FLOW_FACTORY),
                    ("/", PICKLED),
                    ("/{metric}", PICKLED),
                )
            ),
        ],
    )
    return _TokenGuard(app, token, host)


class _TokenGuard:
    """Accepts requests with the token; without one, requests from this machine (`Guard`)."""

    def __init__(self, app: App, token: str, host: str) -> None:
        self._app, self._token = app, token.encode()
        self._guarded: App = app if token else Guard(app, host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import PlainTextResponse

        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._token and not self._is_open(scope) and not self._has_token(dict(scope["headers"])):
            text = "the token is missing or wrong: Authorization: Bearer TOKEN, or http://serve:TOKEN@host:port"
            refusal = PlainTextResponse(text, 401, headers={"www-authenticate": 'Basic realm="titjudge"'})
            await refusal(scope, receive, send)
        else:
            await self._guarded(scope, receive, send)

    @staticmethod
    def _is_open(scope: Scope) -> bool:
        return scope["method"] in ("GET", "HEAD") and _OPEN.fullmatch(scope["path"]) is not None

    def _has_token(self, headers: Mapping[bytes, bytes]) -> bool:
        kind, _, credentials = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"basic":
            try:
                credentials = base64.b64decode(credentials, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        return hmac.compare_digest(credentials.strip(), self._token)


class _Server:
    def __init__(self, judging: Rewards, missing: Missing, ignore_inputs: bool, max_body: int) -> None:
        self._judging, self._missing = judging, missing
        self._ignore_inputs, self._max_body = ignore_inputs, max_body
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._seconds, self._within = 0.0, [0] * (len(_BUCKETS) + 1)  # requests by their bucket
        self._in_flight = 0

    # -- state of the server -----------------------------------------------------------------------------------------

    async def health(self, request: Any) -> Any:
        names, trouble, capped = self._judging.names, self._judging.trouble, self._judging.capped
        metric = request.path_params.get("metric", names[0])
        if metric not in names:
            return json_response({"status": "unknown", "reason": _no_metric(metric, names)}, 404)
        status = "failed" if trouble else "capped" if capped else "ok"
        reason = {} if status == "ok" else {"reason": trouble or capped}
        ready = {name: ["ready" if status == "ok" else status] for name in names}
        return json_response({"status": status, **reason, "rewards": ready}, 200 if status == "ok" else 503)

    async def alive(self, request: Any) -> Any:
        return json_response({"status": "alive"})

    async def rewards(self, request: Any) -> Any:
        return json_response({"rewards": list(self._judging.names)})

    async def openapi(self, request: Any) -> Any:
        described = orjson.dumps(read_yaml(Path(__file__).with_name("openapi.yaml"), "a description"))
        return json_response(orjson.loads(described.replace(b'["METRIC"]', orjson.dumps(list(self._judging.names)))))

    async def metrics(self, request: Any) -> Any:
        from starlette.responses import PlainTextResponse

        samples: dict[str, list[str]] = {}
        for (name, labels), count in sorted(self._counts.items()):
            samples.setdefault(name, []).append(f"titjudge_{name}{_labels(labels)} {count}")
        samples["request_seconds"] = self._histogram()
        for name, value in {"in_flight": self._in_flight, **self._judging.counters()}.items():
            samples[name] = [f"titjudge_{name} {value:g}"]
        lines = [line for name, of_name in samples.items() for line in (*_head(name), *of_name)]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    def _histogram(self) -> list[str]:
        """Write the durations of requests as a histogram: the number of requests up to each bound in seconds."""
        ends = (*map("{:g}".format, _BUCKETS), "+Inf")
        counts = itertools.accumulate(self._within)
        lines = [
            f'titjudge_request_seconds_bucket{{le="{end}"}} {count}' for end, count in zip(ends, counts, strict=True)
        ]
        total = sum(self._within)
        return [
            *lines,
            f"titjudge_request_seconds_sum {self._seconds:.6f}",
            f"titjudge_request_seconds_count {total}",
        ]

    def _count(self, name: str, amount: int = 1, **labels: str) -> None:
        self._counts[name, tuple(labels.items())] += amount

    # -- rewards -----------------------------------------------------------------------------------------------------

    def endpoint(self, format: WireFormat) -> Any:
        """Make the function of a route that answers in this wire format."""
        from starlette.responses import Response

        async def answer(request: Any) -> Any:
            started = time.perf_counter()
            self._in_flight += 1
            try:
                content, status = await self._answer(request, format), 200
            except BadRequest as error:
                _log.warning("%s %s: %s", request.method, request.url.path, error)
                content, status = format.error(str(error)), error.status
            except TitjudgeError as error:  # a wrong key, quota or model name: nothing can be judged
                _log.error("%s %s: %s", request.method, request.url.path, error)
                content, status = format.error(str(error)), 503
            except asyncio.CancelledError:  # the server shuts down; answers under way are still stored
                content, status = format.error("the server is ending: its next start has what was asked"), 503
            finally:
                self._in_flight -= 1
                seconds = time.perf_counter() - started
                self._seconds += seconds
                self._within[bisect.bisect_left(_BUCKETS, seconds)] += 1
            self._count("requests_total", format=type(format).__name__.lower(), code=str(status))
            return Response(content, status, media_type=format.media_type)

        return answer

    async def _answer(self, request: Any, format: WireFormat) -> bytes:
        """Read the body of a request, score its images, and write the answer.

        Raises:
            BadRequest: It cannot be answered.
        """
        names = self._judging.names
        metric = request.path_params.get("metric", names[0])
        body = await self._body(request)
        batch = await _in_thread(len(body), format.read, body, metric)
        if unknown := sorted({name for metrics in batch.metrics for name in metrics} - set(names)):
            raise BadRequest(_no_metric(unknown[0], names), 404)
        if not self._ignore_inputs and (blind := self._blind(batch)):
            raise BadRequest(
                f"the request has input images, which {blind} does not use. Start `serve --set ignore_sources=yes` to judge without them"
            )
        scores = await self._judging.scores(batch)
        rewards = self._rewards(batch, scores, tells_errors=format.tells_errors)
        return await _in_thread(len(body), format.write, batch, rewards)

    def _blind(self, batch: Batch) -> str:
        """Find a metric that the batch names for an edit and that reads no source images; empty if there is none."""
        edits = (metrics for pair, metrics in zip(batch.pairs, batch.metrics, strict=True) if entry_sources(pair))
        return next((name for metrics in edits for name in metrics if name not in self._judging.see_sources), "")

    async def _body(self, request: Any) -> bytes:
        """Read the body of a request, up to the size limit.

        Raises:
            BadRequest: It is too large, or compressed.
        """
        if (coding := request.headers.get("content-encoding", "identity")) != "identity":
            raise BadRequest(f"the body is compressed ({coding}). Send it without compression", 415)
        body, size = bytearray(), int(request.headers.get("content-length", 0))
        most = 4 * self._max_body  # a client that still sends reads no answer: a body below this is read to its end
        if size <= most:
            size = 0
            async for part in request.stream():
                size += len(part)
                if size > most:
                    break
                if size <= self._max_body:
                    body += part
        if size > self._max_body:
            raise BadRequest(f"the body is larger than {self._max_body >> 20} MiB. Send fewer images per request", 413)
        return bytes(body)

    def _rewards(
        self, batch: Batch, scores: Sequence[Mapping[str, Score]], *, tells_errors: bool
    ) -> list[dict[str, Reward]]:
        """Turn scores into rewards, and missing scores into the policy's replacement.

        Raises:
            BadRequest: A score is missing, and the policy is to fail.
        """
        rewards: list[dict[str, Reward]] = []
        missing_scores: list[Score] = []
        for metrics, by_metric in zip(batch.metrics, scores, strict=True):
            rewards.append({})
            for name in metrics:
                score = by_metric[name]
                self._count("rewards_total", metric=name, status=str(score.status))
                value = score.value
                if value is None or not math.isfinite(value):
                    value = self._mean(scores, score) if self._missing == "group-mean" else None
                    self._count("rewards_missing_total", metric=name, policy=self._missing)
                    _log.warning("no %s (%s): %s", name, score.status, score.reason)
                    missing_scores += [score] if value is None else []
                rewards[-1][name] = Reward(value, str(score.status), score.reason)
        if missing_scores and self._missing != "skip" and not tells_errors:
            first = missing_scores[0]
            text = f"{len(missing_scores)} of {len(batch.pairs)} images have no {first.metric}: {first.status}: {first.reason}. Send the request again later"
            raise BadRequest(text, _code(missing_scores))
        return rewards

    @staticmethod
    def _mean(scores: Sequence[Mapping[str, Score]], missing: Score) -> float | None:
        """Compute the mean reward of the other images of a prompt, of an edit with the same sources; None if none has one."""
        group = [score for by_metric in scores if (score := by_metric.get(missing.metric)) is not None]
        return group_mean(missing.prompt_id, (score.prompt_id for score in group), [score.value for score in group])


def _code(missing_scores: Sequence[Score]) -> int:
    """Choose the HTTP status for failed judgements; never 500, after which flow_grpo's client retries a thousand times."""
    statuses = {score.status for score in missing_scores}
    return 402 if Status.BUDGET in statuses else 422 if statuses <= _FINAL else 503


def _no_metric(name: str, names: Sequence[str]) -> str:
    return f"there is no metric {name} here. Choose from: {', '.join(names)}"


def _head(name: str) -> tuple[str, str]:
    """Write the lines that Prometheus's text format has before the samples of a metric: HELP and TYPE."""
    kind = "histogram" if name == "request_seconds" else "counter" if name.endswith("_total") else "gauge"
    return f"# HELP titjudge_{name} {_HELP[name]}", f"# TYPE titjudge_{name} {kind}"


async def _in_thread(size: int, work: Callable[..., T], *arguments: Any) -> T:
    """Call `work`, in a thread if the body is long."""
    return await asyncio.to_thread(work, *arguments) if size > _LONG else work(*arguments)


def _labels(labels: Sequence[tuple[str, str]]) -> str:
    escaped = (f'{key}="{value.translate(_ESCAPED)}"' for key, value in labels)
    return f"{{{','.join(escaped)}}}" if labels else ""


_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
