"""Run over many machines with Ray: every actor judges a shard of the prompts, and the driver merges the run folders.

    judge --set engine=ray --set ray_address=auto --set workers=8 --out /shared/runs/first

An actor is a whole run over every n-th prompt, with separate models and the cache of its machine. It writes
`OUT/shards/K-of-N`, so that the death of an actor loses only requests in flight: a new one resumes the same folder.
OUT must be on a file system that all machines share; titjudge, the data and the keys must be on each of them. The cache must
not: a worker whose cache lies on a network file system is refused.

Ray Data's `map_batches` over a pool of actors does not do (tried with Ray 2.60): it calls an actor off the main thread,
where SIGTERM cannot be handled, and kills all actors at once on Ctrl-C or when a task fails, so that paid answers are lost.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from titjudge.core import registry
from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, FatalProviderError, MissingExtra, UserError, must_be, not_combined
from titjudge.core.run_records import ProgressRecord, stopped_by
from titjudge.core.signals import terminated_like_ctrl_c
from titjudge.core.types import Json, Values
from titjudge.engine.cache import open_cache
from titjudge.engine.sender import STOPPING
from titjudge.runs.check.merge import merge
from titjudge.runs.folder.run_folder import RunFolder, caps
from titjudge.runs.outcome import Outcome
from titjudge.runs.resolve import resolve
from titjudge.runs.session import Session

DEATHS = 3  # of a shard's worker, without a new score in between, before the shard is given up
_RATES = ("rpm", "tpm")  # of the account: every worker gets an equal part
_POLL_INTERVAL = 0.5  # seconds
_PROGRESS_INTERVAL = 10.0  # seconds between two lines


_SHARED_CACHE = (
    "the cache {} lies on a network file system ({}), where SQLite loses data once workers of several machines write to it: give "
    "--set cache=DIR: a folder that each machine has for itself (/tmp/titjudge-cache, say)"
)


class Worker:
    """The actor that judges a shard on a machine of the cluster."""

    def where(self) -> Json:
        """Return process and node, for people and for stopping it."""
        import ray

        return {"pid": os.getpid(), "node": ray.get_runtime_context().get_node_id()}

    def judge(self, settings: Values, folder: str) -> dict[str, str]:
        """Judge a shard; returns `{"status": ...}`, or `{"fatal"|"error": reason}` if trying again is of no use."""
        if os.path.isdir(folder):
            os.chdir(folder)
        try:
            session = Session(RunConfig.model_validate(settings))
            with open_cache(session.config.cache) as cache:
                if cache.network:
                    return {"error": _SHARED_CACHE.format(cache.folder, cache.network)}
            return {"status": session.run().status}
        except FatalProviderError as error:
            return {"fatal": str(error)}
        except UserError as error:
            return {"error": str(error)}


def _interrupt(pid: int) -> None:
    """Stop a worker; it awaits and keeps the answers in flight."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


@dataclass(slots=True)
class _Shard:
    """A part of a run on one worker.

    Attributes:
        where: The pending result of `Worker.where`.
        place: That result.
    """

    number: int
    count: int
    path: Path
    status: str = ""
    deaths: int = 0
    scored: int = 0
    actor: Any = None
    where: Any = None
    place: Json = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.path)

    def progress(self) -> ProgressRecord:
        """Read the progress of the shard; all zeros before there is a manifest."""
        with contextlib.suppress(UserError):
            return self.folder.manifest().progress or ProgressRecord()
        return ProgressRecord()


class Cluster:
    """Runs a configuration on Ray.

    Args:
        config: as for a run on one machine. Caps and limits apply to all workers together. Without a `ray_address` a
            cluster is started here, for the time of the run. Without `workers` there is one for each GPU if models run
            locally, otherwise one for each machine. If there are fewer workers than GPUs, each gets several. A resumed
            run keeps its number.
        say: called with lines for people.

    Raises:
        MissingExtra: Ray is not installed. ConfigError: the configuration is a shard already.
        UserError: no cluster at that address, or the run folder has something else.
    """

    def __init__(self, config: RunConfig, *, say: Callable[[str], None] = print) -> None:
        if config.shard is not None:
            raise ConfigError(not_combined("--shard", "--set engine=ray"))
        self.resolved = resolve(config)
        self.config = self.resolved.config
        self.out = self.resolved.folder.resolve()
        manifest = self.out / "manifest.json"
        if manifest.is_file() and RunFolder(self.out).manifest().merged is None:
            raise UserError(f"{self.out} is a run without --set engine=ray. Choose another --out")
        self._address, self._workers, self._say = config.ray_address, config.workers, say
        self._said_at = time.monotonic()

    @cached_property
    def _ray(self) -> Any:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
        if self._joins:
            _set_joining()
        try:
            import ray
        except ImportError:
            raise MissingExtra("ray", "ray", "--set engine=ray") from None
        return ray

    @property
    def _joins(self) -> bool:
        """Whether the run joins a cluster, and does not start one for itself."""
        return self._address is not None or bool(os.environ.get("RAY_ADDRESS"))

    def run(self, watcher: Any = None) -> Outcome:
        """Judge everything and merge the shards; the progress is printed, and not shown by a watcher.

        Raises:
            FatalProviderError: a key, a quota or a model name is wrong. UserError: a worker cannot begin.
        """
        with _connected(self._ray, self._address, self._workers):
            shards = self._shards()
            try:
                self._rounds(shards)
            finally:
                for shard in shards:
                    if shard.actor is not None:
                        self._ray.kill(shard.actor)
        parts = [shard.path for shard in shards if (shard.path / "manifest.json").is_file()]
        if not parts:
            raise UserError(
                f"{self.out / 'shards'} has no shard. Choose an --out that all machines of the cluster share"
            )
        return merge(parts, self.out, report=self.config.report)

    def _shards(self) -> list[_Shard]:
        """List the shards of this run; a resumed run has those it began with."""
        home = self.out / "shards"
        earlier_counts = sorted({path.name.partition("-of-")[2] for path in home.glob("*-of-*")})
        resumed = bool(earlier_counts) and earlier_counts[0].isdecimal()
        count = int(earlier_counts[0]) if resumed else self._workers or self._default_workers()
        self._check_divisible(count)
        if earlier_counts and self._workers not in (None, count):
            self._say(f"this run began with {count} workers and goes on with as many")
        home.mkdir(parents=True, exist_ok=True)
        return [_Shard(k, count, home / f"{k}-of-{count}") for k in range(1, count + 1)]

    def _default_workers(self) -> int:
        gpus = sum(_gpus(self._ray))
        count = gpus if gpus and self._is_local else max(1, sum(node["Alive"] for node in self._ray.nodes()))
        rates: list[int] = [value for name in _RATES if (value := getattr(self.config.limits, name)) is not None]
        return min([count, *rates])

    def _check_divisible(self, count: int) -> None:
        """Check that every worker gets at least one of the account's requests and tokens a minute.

        Raises:
            ConfigError: there are too many workers.
        """
        for name in _RATES:
            value = getattr(self.config.limits, name)
            if value is not None and value < count:
                raise ConfigError(
                    f"limits: {name} {value} cannot be divided among {count} workers. Increase it, or add --set workers={value}"
                )

    @property
    def _is_local(self) -> bool:
        """Whether a worker loads models: in a role, as a learned metric, or as the embedder of a metric that embeds."""
        names = self.resolved.roles
        tools = (getattr(self.config, name) for name in ("embedder", "detector") if name in names)
        roles = (self.config.captioner, self.config.judge, *self.config.panel, *tools)
        providers = [role.provider for role in roles if role is not None]
        return any(map(registry.uses_device, [*providers, *(name.partition("/")[0] for name in names)]))

    # -- money ---------------------------------------------------------------------------------------------------------

    def _rounds(self, shards: list[_Shard]) -> None:
        """Judge the unfinished shards; under a cap in rounds, in each of which they get equal parts of the rest of it.

        A round in which nothing was spent is followed by one for half as many shards, as a part may be too small for any
        item. The last round is for one.
        """
        capped = caps(self.config.limits)
        workers = len(shards)
        while True:
            used = {shard.number: shard.folder.used() for shard in shards}
            todo = [shard for shard in shards if shard.status != "complete"][:workers]
            limits: dict[int, Json] = {shard.number: {} for shard in todo}
            for name, cap in capped.items():
                rest = max(0, cap - sum(of_shard[name] for of_shard in used.values()))
                share = rest / len(todo) if name == "max_cost" else rest // len(todo)
                for shard in todo:
                    limits[shard.number][name] = used[shard.number][name] + share
            self._judge(todo, limits)
            ends = [stopped_by(shard.status) for shard in shards]
            if not capped or "interrupted" in ends or "budget" not in ends:
                return
            if all(shard.folder.used() == used[shard.number] for shard in todo):
                if len(todo) == 1:
                    return
                workers = (len(todo) + 1) // 2

    def _settings(self, shard: _Shard, limits: Values) -> Json:
        """Make the configuration of a shard: its rates and concurrency are an equal part of the account's."""
        whole = self.config.limits
        parts = {name: value // shard.count for name in _RATES if (value := getattr(whole, name)) is not None}
        parts["concurrency"] = max(1, whole.concurrency // shard.count)
        assert self.config.data is not None
        update = {
            "shard": shard.name,
            "out": shard.path,
            "data": self.config.data.resolve(),
            "image_root": [root.resolve() for root in self.config.image_root],
            "limits": whole.model_copy(update={**parts, **limits}),
        }
        settings: Json = self.config.model_copy(update=update).model_dump(mode="json")
        return settings

    # -- actors --------------------------------------------------------------------------------------------------------

    def _judge(self, shards: list[_Shard], limits: Mapping[int, Values]) -> None:
        """Judge every shard by an actor, and by a new one when that dies.

        Raises:
            FatalProviderError, UserError: a worker met an error that trying again does not solve. The others are stopped,
                and keep the answers in flight.
        """
        running = {self._start(shard, limits[shard.number]): shard for shard in shards}
        try:
            interrupted = False
            while running:
                try:
                    ready, _ = self._ray.wait(list(running), num_returns=1, timeout=_POLL_INTERVAL)
                except KeyboardInterrupt:
                    if interrupted:
                        raise
                    interrupted = True
                    self._say(STOPPING)
                    _stop(self._ray, list(running.values()))
                    continue
                self._say_progress(shards)
                for task in ready:
                    shard = running.pop(task)
                    if self._must_restart(task, shard, interrupted):
                        running[self._start(shard, limits[shard.number])] = shard
        except (FatalProviderError, UserError):
            _stop(self._ray, list(running.values()))
            if running:
                self._ray.wait(list(running), num_returns=len(running), timeout=self.config.limits.timeout)
            raise

    def _start(self, shard: _Shard, limits: Values) -> Any:
        if shard.actor is None:
            gpus = gpus_each(_gpus(self._ray), shard.count) if self._is_local else 0
            actor_class = self._ray.remote(Worker).options(num_cpus=1, num_gpus=gpus, max_restarts=0)
            shard.actor = actor_class.remote()
            shard.place, shard.where = {}, shard.actor.where.remote()
        return shard.actor.judge.remote(self._settings(shard, limits), os.getcwd())

    def _must_restart(self, task: Any, shard: _Shard, interrupted: bool) -> bool:
        """Take the result of an actor, and return True if it died and a new one must judge the shard."""
        try:
            result = self._ray.get(task)
        except self._ray.exceptions.RayActorError:
            shard.actor = None
            scored = len(shard.folder.scores(slim=True))
            shard.deaths = 1 if scored > shard.scored else shard.deaths + 1
            shard.scored = scored
            if interrupted or shard.deaths > DEATHS:
                shard.status = "incomplete: interrupted"
                self._say(f"shard {shard.name}: its worker died")
                return False
            self._say(f"shard {shard.name}: its worker died; a new one continues")
            return True
        if "fatal" in result:
            raise FatalProviderError(result["fatal"])
        if "error" in result:
            raise UserError(f"shard {shard.name} failed: {result['error']}. Correct this, then run the command again")
        shard.status = result["status"]
        return False

    def _say_progress(self, shards: list[_Shard]) -> None:
        """Print the machines of new actors, and every 10 seconds how many items are done."""
        for shard in shards:
            if not shard.place and shard.where is not None and self._ray.wait([shard.where], timeout=0)[0]:
                with contextlib.suppress(self._ray.exceptions.RayActorError):
                    shard.place = self._ray.get(shard.where)
                    self._say(f"shard {shard.name}: process {shard.place['pid']} on node {shard.place['node'][:8]}")
                shard.where = None
        if time.monotonic() - self._said_at < _PROGRESS_INTERVAL:
            return
        self._said_at = time.monotonic()
        progress = [shard.progress() for shard in shards]
        done, total = sum(record.done for record in progress), sum(record.total or 0 for record in progress)
        if total:
            self._say(f"{done}/{total} items in {len(shards)} shards")


def gpus_each(nodes: Sequence[int], workers: int) -> int:
    """Find the most GPUs that every worker can have on one machine; 0 if there are fewer GPUs than workers.

    Args:
        nodes: GPUs of each machine.
        workers: number of workers.
    """
    sizes = range(max(nodes, default=0), 0, -1)
    return next((size for size in sizes if sum(count // size for count in nodes) >= workers), 0)


def _gpus(ray: Any) -> list[int]:
    return [int(node["Resources"].get("GPU", 0)) for node in ray.nodes() if node["Alive"]]


def _stop(ray: Any, shards: list[_Shard]) -> None:
    """Stop the workers, each from its machine."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    this_node = ray.get_runtime_context().get_node_id()
    sent = []
    for shard in shards:
        if shard.place.get("node") == this_node:
            _interrupt(shard.place["pid"])
        elif shard.place:
            on_its_node = NodeAffinitySchedulingStrategy(shard.place["node"], soft=False)
            task = ray.remote(_interrupt).options(num_cpus=0, scheduling_strategy=on_its_node)
            sent.append(task.remote(shard.place["pid"]))
    if sent:
        ray.wait(sent, num_returns=len(sent), timeout=10)


_TOKEN_FILE = Path("~/.ray/auth_token")  # where `ray get-auth-token --generate` puts it
_COPY = f"copy the token of its head node (`ray get-auth-token`) to {_TOKEN_FILE}, or into RAY_AUTH_TOKEN"
# Ray reads them when it is imported. Without them it tries a dead address for some minutes.
_JOINING = {"RAY_py_gcs_connect_timeout_s": "8", "RAY_NUM_REDIS_GET_RETRIES": "1"}


def _token() -> str:
    """Return the place of a cluster's token, in the order of Ray; empty if there is none."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return "RAY_AUTH_TOKEN"
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or _TOKEN_FILE.expanduser())
    return str(file) if file.is_file() else ""


def _set_joining() -> None:
    """Set how Ray joins a cluster: with the token if there is one, as Ray itself does for the address `auto` only."""
    for name, value in _JOINING.items():
        os.environ.setdefault(name, value)
    if _token():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def _check_reachable(address: str) -> None:
    """Check that something listens at IP:PORT; other addresses are left to Ray.

    Raises:
        UserError: nothing does.
    """
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(f"no Ray cluster answers at '{address}' ({why}). Start one with `ray start --head`") from error


def _refusal(address: str) -> str:
    """Return in one line why a cluster refuses this machine, and the remedy."""
    if address == "auto":
        return "no Ray cluster at 'auto': start one with `ray start --head`, or give its IP:PORT"
    token = _token()
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "token":
        why = f"has a different token from {token}"
    else:
        why = "wants a token, and " + ("RAY_AUTH_MODE disables tokens" if token else "there is none here")
    return f"'{address}' is not a Ray cluster, or {why}: {_COPY}"


def _begin(ray: Any, options: Json) -> None:
    """Start a cluster or join one. Ray gives up after 30 seconds, which a busy machine may need: it is tried three times.

    Raises:
        UserError: there is none, or it does not let this machine in; the message gives the reason.
    """
    address = options.get("address") or os.environ.get("RAY_ADDRESS") or "auto"
    _check_reachable(address)
    for tries in (1, 2, 3):
        try:
            ray.init(**options)
            return
        except ConnectionError as error:
            raise UserError(_refusal(address)) from error
        except ray.exceptions.AuthenticationError as error:
            raise UserError(f"RAY_AUTH_MODE is 'token', but this machine has no token: {_COPY}") from error
        except ValueError as error:
            raise UserError(must_be("--set ray_address", "IP:PORT or auto", address)) from error
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            ray.shutdown()
            if tries == 3:
                raise UserError(
                    "Ray did not start in 3 attempts of 30 s. End other programs on this machine, and try again"
                ) from error


@contextlib.contextmanager
def _connected(ray: Any, address: str | None, workers: int | None) -> Iterator[None]:
    """Connect to a cluster; one that was started here ends with the run. SIGTERM is handled like Ctrl-C."""
    mine = not ray.is_initialized()
    options: Json = {"logging_level": "ERROR", "log_to_driver": False}
    if mine and address is None and not os.environ.get("RAY_ADDRESS"):
        cpus = max(workers or 1, os.cpu_count() or 1)
        options |= {"num_cpus": cpus, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    elif address is not None:
        options["address"] = address
    try:
        with terminated_like_ctrl_c():
            if mine:
                _begin(ray, options)
            yield
    finally:
        if mine:
            ray.shutdown()
