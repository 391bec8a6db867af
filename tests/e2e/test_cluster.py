"""A run over Ray survives the death of a worker: its shard goes on in its folder, and nothing but what was on its way is
asked again. In a process of its own: Ray opens sockets and starts threads."""

import contextlib
import importlib.util
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from answers import good
from builders import write_lines
from PIL import Image

from tests.kit import Server
from titjudge.runs.folder.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]
IMAGES = 40
DRIVER = """
import json, sys
from titjudge.apps.ray.cluster import Cluster
from titjudge.core.config import load_config
outcome = Cluster(load_config(None, {**json.loads(sys.argv[1]), "workers": 2}), say=lambda line: print(line, flush=True)).run()
print("status", outcome.status, flush=True)
"""

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: titjudge[ray]")


def data_folder(folder: Path) -> Path:
    data = folder / "data"
    data.mkdir()
    items = []
    for i in range(IMAGES):
        Image.new("RGB", (16, 16), (i, 30, 90)).save(data / f"{i}.png")
        items.append({"image": f"{i}.png", "prompt_id": f"p{i % 4}", "generator": f"g{i % 3}"})
    prompts = [{"prompt_id": f"p{p}", "prompt": f"Scene {p}."} for p in range(4)]
    write_lines(data / "prompts.jsonl", *prompts)
    write_lines(data / "images.jsonl", *items)
    return data


@pytest.mark.slow(first=True)
@needs_ray
def test_a_worker_dies_and_its_shard_is_finished_by_another(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "data": str(data_folder(tmp_path)),
        "captioner": "openai/gpt-4o",
        "judge": "openai/gpt-4o",
        "metrics": ["tit-llm"],
        "out": str(tmp_path / "run"),
        "limits": {"concurrency": 4},
    }
    with Server(good) as server:
        server.answers_left = 2 * IMAGES // 3  # the rest when a worker has died, however long that takes
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OPENAI_API_KEY": "sk-test-0123456789",
            "OPENAI_BASE_URL": server.openai,
        }
        with subprocess.Popen(
            [sys.executable, "-c", DRIVER, json.dumps(settings)],
            cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            errors: list[str] = []
            assert process.stderr is not None
            drain = threading.Thread(target=lambda stream=process.stderr: errors.extend(stream), daemon=True)
            drain.start()
            lines = watch(process, server)
            assert process.wait(60) == 0, "".join(lines + errors)
            drain.join(10)
        asked = server.count()
    assert any("its worker died; a new one continues" in line for line in lines), lines
    assert lines[-1] == "status complete"
    # A worker of two requests at a time: two on their way, and two whose answers came with the next already sent.
    assert asked <= 2 * IMAGES + 4
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["metrics"]["tit-llm"]["coverage"] == 1
    assert results["items"] == IMAGES
    assert RunFolder(tmp_path / "run").used()["max_requests"] >= asked  # the one that died with its worker, too
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert [each["shard"] for each in manifest["merged"]] == ["1/2", "2/2"]
    from titjudge.runs.check.verify import verify

    found = verify(tmp_path / "run")
    assert found.holds, found.problems


def watch(process: subprocess.Popen[str], server: Server) -> list[str]:
    """The driver's lines; kills the first worker that names itself when a third of the answers is out."""
    victim: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.02):
            if victim and server.answers_left <= 0:
                os.kill(victim[0], signal.SIGKILL)
                server.answers_left = math.inf
                return

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.strip())
        if found := re.search(r"process (\d+)", line):
            victim.append(int(found[1]))
    over.set()
    killer.join(5)
    return lines


@pytest.mark.parametrize(
    ("nodes", "workers", "each"),
    [
        ([8], 8, 1),
        ([8], 2, 4),
        ([4, 4], 1, 4),
        ([4, 4], 3, 2),
        ([3, 1], 2, 1),
        ([1, 1], 4, 0),
        ([0, 0], 2, 0),
        ([], 1, 0),
    ],
)
def test_every_worker_gets_gpus_of_one_machine(nodes: list[int], workers: int, each: int) -> None:
    """A worker that asked for more than a machine has would wait for ever."""
    from titjudge.apps.ray.cluster import gpus_each

    assert gpus_each(nodes, workers) == each


@pytest.mark.parametrize(("limits", "workers"), [({"rpm": 5}, 8), ({"tpm": 1}, 2)])
def test_workers_together_keep_to_the_limits_of_the_account(
    limits: dict[str, int], workers: int, tmp_path: Path
) -> None:
    from titjudge.apps.ray.cluster import Cluster, _Shard
    from titjudge.core.config import load_config
    from titjudge.core.errors import ConfigError

    cluster = Cluster(load_config(None, {"metrics": ["lmm-score"], "captioner": "fake/m", "limits": limits}))
    ((name, value),) = limits.items()
    with pytest.raises(ConfigError, match=f"{name} {value} cannot be divided among {workers} workers"):
        cluster._check_divisible(workers)
    cluster._check_divisible(value)
    shards = [_Shard(k, value, tmp_path / str(k)) for k in range(1, value + 1)]
    settings = [cluster._settings(shard, {})["limits"] for shard in shards]
    assert sum(each[name] for each in settings) == value
    assert {each["concurrency"] for each in settings} == {32 // value}
    (one,) = {cluster._settings(_Shard(k, 64, tmp_path), {})["limits"]["concurrency"] for k in (1, 64)}
    assert one == 1


@pytest.mark.parametrize(
    ("settings", "local"),
    [
        ({"metrics": ["pickscore"]}, True),
        ({"metrics": ["tit"], "captioner": "local/x/y"}, True),
        ({"metrics": ["tit"], "captioner": "openai/gpt-4o"}, False),
        ({"metrics": ["tit"], "captioner": "openai/gpt-4o", "embedder": "sentence-transformers/a/b"}, True),
        ({"metrics": ["lmm-score"], "captioner": "openai/gpt-4o", "embedder": "sentence-transformers/a/b"}, False),
    ],
)
def test_learned_metrics_and_embedders_get_gpus_too(settings: dict[str, Any], local: bool, tmp_path: Path) -> None:
    """Ray hides the GPUs from a worker that asks for none."""
    from titjudge.apps.ray.cluster import Cluster
    from titjudge.core.config import load_config

    assert Cluster(load_config(None, {**settings, "out": tmp_path / "run"}))._is_local is local


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from titjudge.apps.ray.cluster import Cluster
    from titjudge.core.config import load_config
    from titjudge.core.errors import ConfigError, MissingExtra, UserError

    monkeypatch.setitem(sys.modules, "ray", None)
    settings = {"out": tmp_path / "run", "limit": 2}
    with pytest.raises(MissingExtra, match=r"--set engine=ray needs ray: pip install 'titjudge\[ray\]'"):
        Cluster(load_config(None, settings)).run()
    with pytest.raises(ConfigError, match="--shard cannot be combined with --set engine=ray"):
        Cluster(load_config(None, {**settings, "shard": "1/2"}))
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run" / "manifest.json").write_text("{}")
    with pytest.raises(UserError, match="is a run without --set engine=ray"):
        Cluster(load_config(None, settings))


@pytest.mark.parametrize(("slow", "starts"), [(0, True), (2, True), (3, False)])
def test_ray_that_a_busy_machine_starts_too_slowly_is_started_again(slow: int, starts: bool) -> None:
    from titjudge.apps.ray.cluster import _begin
    from titjudge.core.errors import UserError

    class Ray:
        begun = ended = 0
        exceptions = types.SimpleNamespace(AuthenticationError=RuntimeError)

        def init(self, **options: Any) -> None:
            self.begun += 1
            if self.begun <= slow:
                raise Exception("The current node timed out during startup. This could happen because ...")

        def shutdown(self) -> None:
            self.ended += 1

    ray = Ray()
    with contextlib.nullcontext() if starts else pytest.raises(UserError, match="3 attempts of 30 s"):
        _begin(ray, {})
    assert (ray.begun, ray.ended) == (min(slow + 1, 3), slow)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "127.0.0.1:99999"])
def test_a_dead_address_is_refused_at_once_with_one_line(address: str) -> None:
    from titjudge.apps.ray.cluster import _begin
    from titjudge.core.errors import UserError

    with pytest.raises(
        UserError, match=rf"^no Ray cluster answers at '{re.escape(address)}' \(.+\)\. Start one with [^\n]+$"
    ):
        _begin(None, {"address": address})


def test_a_worker_does_not_write_to_a_cache_on_a_network_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from titjudge.apps.ray.cluster import Cluster, Worker, _Shard
    from titjudge.core.config import load_config

    monkeypatch.setattr("titjudge.engine.cache._file_system", lambda folder: "nfs4")
    cluster = Cluster(load_config(None, {"out": tmp_path / "run", "cache": tmp_path / "cache", "limit": 2}))
    settings = cluster._settings(_Shard(1, 2, tmp_path / "1-of-2"), {})
    refusal = Worker().judge(settings, str(tmp_path / "nowhere"))["error"]
    assert "lies on a network file system (nfs4)" in refusal
    assert "--set cache=DIR: a folder that each machine has for itself" in refusal
    assert not (tmp_path / "1-of-2").exists()


JOIN = """
import os, sys
from pathlib import Path
from titjudge.core.config import load_config
from titjudge.core.errors import UserError
from titjudge.apps.ray.cluster import Cluster, _connected
cluster = Cluster(load_config(None, {"out": Path(sys.argv[2]), "ray_address": sys.argv[1]}))
try:
    with _connected(cluster._ray, sys.argv[1], 2):
        print("joined", cluster._ray.get(cluster._ray.remote(lambda: 3).remote()))
except UserError as error:
    print(error)
"""


@pytest.fixture
def head(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A cluster that wants a token, as `ray start --head` begins one: its address and the token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = tmp_path / "home"
    (home / ".ray").mkdir(parents=True)
    token = "0123456789abcdef" * 4
    (home / ".ray" / "auth_token").write_text(token)
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus", "2"]
    ray += ["--port", str(port), "--include-dashboard", "false", "--temp-dir", tempfile.mkdtemp(prefix="ray")]
    env = {**os.environ, "HOME": str(home), "RAY_USAGE_STATS_ENABLED": "0"}
    with (
        (tmp_path / "ray.log").open("w") as log,
        subprocess.Popen(ray, env=env, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        try:
            deadline = time.monotonic() + 60
            while "Ray runtime started" not in (tmp_path / "ray.log").read_text():
                assert process.poll() is None, (tmp_path / "ray.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            yield f"127.0.0.1:{port}", token
        finally:
            process.terminate()
            shutil.rmtree(ray[-1], ignore_errors=True)


@pytest.mark.slow
@needs_ray
def test_a_cluster_that_wants_a_token_is_joined_by_its_address(tmp_path: Path, head: tuple[str, str]) -> None:
    address, token = head
    (tmp_path / "nobody").mkdir()

    def join(**variables: str) -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        env |= {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path / "nobody"), **variables}
        joining = [sys.executable, "-c", JOIN, address, str(tmp_path / "run")]
        return subprocess.run(joining, env=env, capture_output=True, text=True, timeout=120).stdout.strip()

    assert join(HOME=str(tmp_path / "home")) == "joined 3"
    assert join(RAY_AUTH_TOKEN=token) == "joined 3"
    copy = "copy the token of its head node (`ray get-auth-token`) to ~/.ray/auth_token, or into RAY_AUTH_TOKEN"
    listening = f"'{address}' is not a Ray cluster, or"
    assert join() == f"{listening} wants a token, and there is none here: {copy}"
    assert join(RAY_AUTH_TOKEN="another") == f"{listening} has a different token from RAY_AUTH_TOKEN: {copy}"
    assert join(RAY_AUTH_MODE="token") == f"RAY_AUTH_MODE is 'token', but this machine has no token: {copy}"
