"""The reward server as an ASGI application: token, routes, missing rewards, and counters for Prometheus."""

from __future__ import annotations

import asyncio
import base64
import binascii
import bisect
import contextlib
import hmac
import itertools
import logging
import math
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import orjson

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
from titjudge.core.errors import TitjudgeError
from titjudge.core.files import read_yaml
from titjudge.core.types import Score, Status
from titjudge.runs.api.image_scorer import entry_sources
from titjudge.web.http_guard import App, Guard, Receive, Scope, Send, json_response

MAX_BODY = 256 * 2**20
_LONG = 2**18  # bytes; a longer body is parsed in a thread
_HEALTH = ("/health", "/ping", "/healthz", "/{metric}/health", "/{metric}/ping")
_OPEN = re.compile(r"/([^/]+/)?(health|ping)|/healthz|/livez")  # paths whose GET needs no token
_FINAL = frozenset({Status.BAD_INPUT, Status.REFUSED, Status.TRUNCATED, Status.UNPARSED, Status.MISSING})
_BUCKETS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)  # seconds of a request
_HELP = read_yaml(Path(__file__).with_name("metrics.yaml"), "a description of metrics")
_log = logging.getLogger("titjudge.apps.rewards")
T = TypeVar("T")


class Judging(Protocol):
    """What judges the images; implemented by `titjudge.apps.rewards.rewards.Rewards`."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the metrics; the first one is used if a request names none."""

    @property
    def see_sources(self) -> Collection[str]:
        """The metrics that look at the images that an edit was made from."""

    async def start(self) -> None: ...
    async def close(self) -> None: ...

    async def scores(self, batch: Batch) -> list[dict[str, Score]]:
        """Score every pair of a batch by the metrics that the batch names for it; returns each pair's by metric."""

    def counters(self) -> dict[str, float]:
        """Return the counters of requests and cost, by their Prometheus names."""

    @property
    def trouble(self) -> str:
        """Why the server can no longer judge; empty while it can."""

    @property
    def capped(self) -> str:
        """Which cap is reached, so that only known answers are given; empty while none is."""


def build_app(
    judging: Judging,
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
        missing: What to answer for a judgement that failed: an error for the whole request, no number in its place, or the
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
    def __init__(self, judging: Judging, missing: Missing, ignore_inputs: bool, max_body: int) -> None:
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
        """Write the durations of requests: how many took at most so many seconds."""
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
                f"there are input images, which {blind} does not look at: `serve --ignore-inputs` judges the image by its "
                "prompt alone"
            )
        scores = await self._judging.scores(batch)
        rewards = self._rewards(batch, scores, tells_errors=format.tells_errors)
        return await _in_thread(len(body), format.write, batch, rewards)

    def _blind(self, batch: Batch) -> str:
        """Find a metric that the batch names for an edit and that reads no source images; empty where there is none."""
        edits = (metrics for pair, metrics in zip(batch.pairs, batch.metrics, strict=True) if entry_sources(pair))
        return next((name for metrics in edits for name in metrics if name not in self._judging.see_sources), "")

    async def _body(self, request: Any) -> bytes:
        """Read the body of a request, up to the size limit.

        Raises:
            BadRequest: It is too large, or compressed.
        """
        if (coding := request.headers.get("content-encoding", "identity")) != "identity":
            raise BadRequest(f"the body is compressed ({coding}): send it as it is, images are compressed already", 415)
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
            raise BadRequest(f"the body is larger than {self._max_body >> 20} MiB: send fewer images", 413)
        return bytes(body)

    def _rewards(
        self, batch: Batch, scores: Sequence[Mapping[str, Score]], *, tells_errors: bool
    ) -> list[dict[str, Reward]]:
        """Turn scores into rewards, and missing scores into what the policy says.

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
            text = f"{len(missing_scores)} of {len(batch.pairs)} images have no {first.metric}: {first.status}: {first.reason}"
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
    return f"there is no metric {name} here; there is {', '.join(names)}"


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
