"""A run over Ray survives the death of a worker: its shard goes on in its folder, and nothing but what was on its way is
asked again. In a process of its own: Ray opens sockets and starts threads."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from servers import Seen, Server

from titjudge.runs.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]
IMAGES = 40
DRIVER = """
import json, sys
from titjudge.runs.ray_cluster import Cluster
from titjudge.core.config import load_config
outcome = Cluster(load_config(None, json.loads(sys.argv[1])), workers=2, say=lambda line: print(line, flush=True)).run()
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
    (data / "prompts.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    (data / "images.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    return data


def good(seen: Seen) -> str:
    if seen.images:
        return f"A description of {seen.images[0]}."
    return json.dumps({"missing": [], "contradicted": [], "reason": "because", "score": seen.digest[0] / 4})


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
    assert any("its worker died; a new one goes on" in line for line in lines), lines
    assert lines[-1] == "status complete"
    # A worker of two requests at a time: two on their way, and two whose answers came with the next already sent.
    assert asked <= 2 * IMAGES + 4
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["metrics"]["tit-llm"]["coverage"] == 1
    assert results["items"] == IMAGES
    assert RunFolder(tmp_path / "run").used()["max_requests"] >= asked  # the one that died with its worker, too
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert [each["shard"] for each in manifest["merged"]] == ["1/2", "2/2"]
    from titjudge.runs.verify import verify

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
    from titjudge.runs.ray_cluster import gpus_each

    assert gpus_each(nodes, workers) == each


@pytest.mark.parametrize(("limits", "workers"), [({"rpm": 5}, 8), ({"tpm": 1}, 2)])
def test_workers_together_keep_to_the_limits_of_the_account(
    limits: dict[str, int], workers: int, tmp_path: Path
) -> None:
    from titjudge.core.config import load_config
    from titjudge.core.errors import ConfigError
    from titjudge.runs.ray_cluster import Cluster, _Shard

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
    from titjudge.core.config import load_config
    from titjudge.runs.ray_cluster import Cluster

    assert Cluster(load_config(None, {**settings, "out": tmp_path / "run"}))._is_local is local


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from titjudge.core.config import load_config
    from titjudge.core.errors import ConfigError, MissingExtra, UserError
    from titjudge.runs.ray_cluster import Cluster

    monkeypatch.setitem(sys.modules, "ray", None)
    settings = {"out": tmp_path / "run", "limit": 2}
    with pytest.raises(MissingExtra, match=r"--engine ray needs ray: pip install 'titjudge\[ray\]'"):
        Cluster(load_config(None, settings)).run()
    with pytest.raises(ConfigError, match="two ways to divide"):
        Cluster(load_config(None, {**settings, "shard": "1/2"}))
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run" / "manifest.json").write_text("{}")
    with pytest.raises(UserError, match="run of one machine"):
        Cluster(load_config(None, settings))


@pytest.mark.parametrize(("slow", "starts"), [(0, True), (2, True), (3, False)])
def test_ray_that_a_busy_machine_starts_too_slowly_is_started_again(slow: int, starts: bool) -> None:
    from titjudge.core.errors import UserError
    from titjudge.runs.ray_cluster import _begin

    class Ray:
        begun = ended = 0

        def init(self, **options: Any) -> None:
            self.begun += 1
            if self.begun <= slow:
                raise Exception("The current node timed out during startup. This could happen because ...")

        def shutdown(self) -> None:
            self.ended += 1

    ray = Ray()
    with contextlib.nullcontext() if starts else pytest.raises(UserError, match="three times 30 seconds"):
        _begin(ray, {})
    assert (ray.begun, ray.ended) == (min(slow + 1, 3), slow)
