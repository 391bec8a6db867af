"""Whole runs that are killed at any moment: the ledger never says less than the server billed, and the cap holds.

A request is billed when it reaches the server, whoever reads the answer.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import commands
import pytest
from answers import verdict
from known_answers import first_prompt
from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge.core.types import Status
from titjudge.runs.folder.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]
ITEMS = 24
KEY = "sk-test-0123456789"
PRICE = (100 * 2.5 + 20 * 10) / 1e6  # USD: 100 tokens in, 20 out
GOOD = verdict(7)


class Bank:
    """Bills every request that comes in."""

    def __init__(self, latency: float = 0.2) -> None:
        self.requests, self.billed, self.latency = 0, 0.0, latency
        self._lock = threading.Lock()

    def __call__(self, seen: Seen) -> Scripted:
        vectors = seen.api == "embeddings"
        with self._lock:
            self.requests += 1
            self.billed += (len(seen.body["input"][0]) // 4 + 1) * 2.5e-6 if vectors else PRICE
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        if vectors:
            return Scripted(latency=self.latency)
        return Scripted(f"A thing {seen.digest.hex()[:8]}." if seen.images else GOOD, usage=usage, latency=self.latency)


def used(folder: Path) -> float:
    """What all run folders below say was billed, or may have been."""
    return sum(RunFolder(file.parent).used()["max_cost"] for file in folder.rglob("billing.jsonl"))


def data_folder(folder: Path) -> Path:
    data = folder / "data"
    data.mkdir()
    for number in range(ITEMS):
        Image.new("RGB", (16, 16), (number, 30, 90)).save(data / f"{number}.png")
        (data / f"{number}.txt").write_text(f"A scene with {number} red cubes on a table.")
    return data


def configured(folder: Path, server: Server, **more: Any) -> Path:
    role = {"model": "openai/gpt-4o", "base_url": server.openai, "max_tokens": 200}
    content = {
        "data": str(data_folder(folder)),
        "captioner": role,
        "judge": role,
        "metrics": ["tit-llm"],
        "prices": {"gpt-4o": {"input": 2.5, "output": 10}, "text-embedding-3-small": {"input": 2.5, "output": 10}},
        "cache": str(folder / "cache"),
        "out": str(folder / "out"),
        "report": False,
        **more,
    }
    file = folder / "run.yaml"
    file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    return file


def start(folder: Path, *arguments: str) -> commands.Started:
    return commands.start(folder, *arguments, OPENAI_API_KEY=KEY)


def killed(process: commands.Started, bank: Bank, requests: int, how: str) -> str:
    """Let so many further requests come in, then end the process; return what it printed."""
    until = bank.requests + requests
    while process.poll() is None and bank.requests < until:
        time.sleep(0.002)
    for _ in range(2 if how == "SIGINT" else 1):
        if process.poll() is None:
            process.send_signal(signal.Signals[how])
            time.sleep(0.1)
    return "".join(process.communicate(timeout=60))


RUNS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "judge": (["judge", "--config", "run.yaml"], {}),
    "canary": (["judge", "--config", "run.yaml", "--canary"], {}),
    "sweep": (
        ["sweep", "run.yaml"],
        {"judge": None, "judges": [{"model": "openai/gpt-4o"}, {"model": "openai/gpt-4o", "temperature": 1}]},
    ),
    "embeddings": (
        ["judge", "--config", "run.yaml"],
        {"metrics": ["tit"], "embedder": {"model": "openai/text-embedding-3-small"}, "judge": None},
    ),
    "probe": (["probe", "--config", "run.yaml", "--errors", "2", "--repeats", "2"], {"data": "known"}),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "how"), [*((name, "SIGKILL") for name in RUNS), ("judge", "SIGINT"), ("canary", "SIGINT")]
)
def test_no_kill_makes_the_ledger_say_less_than_was_billed(tmp_path: Path, name: str, how: str) -> None:
    command, changes = RUNS[name]
    bank = Bank()
    with Server(bank) as server:
        address = {"base_url": server.openai}
        for key, seats in (("embedder", changes.get("embedder")), ("judges", changes.get("judges"))):
            if seats is not None:
                placed = [{**seat, **address} for seat in seats] if isinstance(seats, list) else {**seats, **address}
                changes = {**changes, key: placed}
        if name == "probe":
            first_prompt(tmp_path / "known")
        configured(tmp_path, server, limits={"max_cost": 1.0, "concurrency": 8}, **changes)
        for requests in (5, 30):
            printed = killed(start(tmp_path, *command), bank, requests, how)
            assert "Traceback" not in printed
            assert bank.requests > 0
            assert used(tmp_path / "out") >= bank.billed - 1e-9


@pytest.mark.slow
def test_a_job_restarted_in_a_loop_keeps_to_its_cap_and_is_finished_by_a_larger_one(tmp_path: Path) -> None:
    cap = 0.1
    bank = Bank()
    with Server(bank) as server:
        configured(tmp_path, server, limits={"max_cost": cap, "concurrency": 8})
        rounds = 0
        while rounds < 12:
            rounds += 1
            process = start(tmp_path, "judge", "--config", "run.yaml")
            before = bank.requests
            killed(process, bank, 4, "SIGKILL")
            assert used(tmp_path / "out") >= bank.billed - 1e-9
            assert bank.billed <= cap
            if bank.requests == before:
                break
        assert 1 < rounds < 12
        process = start(tmp_path, "judge", "--config", "run.yaml", "--max-cost", "1")
        said = "".join(process.communicate(timeout=120))
        assert process.returncode == 0, said
    scores = RunFolder(tmp_path / "out").scores()
    assert [score.status for score in scores.values()] == [Status.OK] * ITEMS
    assert used(tmp_path / "out") >= bank.billed - 1e-9


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_was_paid(tmp_path: Path) -> None:
    bank = Bank()
    with Server(bank) as server:
        configured(tmp_path, server, limits={"concurrency": 8})
        process = start(tmp_path, "judge", "--config", "run.yaml")
        while bank.requests < 12:
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        process = start(tmp_path, "judge", "--config", "run.yaml")
        said = "".join(process.communicate(timeout=120))
        assert process.returncode == 0, said
    assert bank.requests == 2 * ITEMS
    money = RunFolder(tmp_path / "out").money()
    assert (money.requests, money.uncertain) == (2 * ITEMS, 0.0)
    assert money.spent == pytest.approx(bank.billed)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RUNS if name != "embeddings"])
def test_sigterm_ends_a_command_as_ctrl_c_does(tmp_path: Path, name: str) -> None:
    command, changes = RUNS[name]
    bank = Bank(latency=0.5)
    with Server(bank) as server:
        if "judges" in changes:
            seats = [{**seat, "base_url": server.openai} for seat in changes["judges"]]
            changes = {**changes, "judges": seats}
        if name == "probe":
            first_prompt(tmp_path / "known")
        configured(tmp_path, server, limits={"concurrency": 8}, **changes)
        process = start(tmp_path, *command)
        while process.poll() is None and bank.requests < 12:
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
        said = "".join(process.communicate(timeout=60))
    assert process.returncode == 130, said
    assert "run the command again" in said
    assert used(tmp_path / "out") == pytest.approx(bank.billed)  # every answer on its way was awaited


@pytest.mark.slow
@pytest.mark.parametrize("ignored", ["", "trap '' INT; "])
def test_sigterm_ends_a_command_without_a_run_folder_as_well(tmp_path: Path, ignored: str) -> None:
    """Also where the shell has Ctrl-C ignored, as it does for what it starts in the background."""
    data, bank = data_folder(tmp_path), Bank(latency=0.5)
    images = sorted(map(str, data.glob("*.png")))
    with Server(bank) as server:
        words = ["score", "--prompt", "a cube", "--metric", "tit-llm", "--judge", "openai/gpt-4o"]
        words += [
            "--captioner",
            "openai/gpt-4o",
            "--concurrency",
            "8",
            "--base-url",
            server.openai,
            "--set",
            f"cache={tmp_path / 'cache'}",
            *images,
        ]
        start_it = f'{ignored}exec "$0" -m titjudge "$@"'
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": KEY}
        process = subprocess.Popen(
            ["bash", "-c", start_it, sys.executable, *words], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )  # fmt: skip
        while process.poll() is None and bank.requests < 12:
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in said) == (130, False), said
        bank.latency = 0.0
        commands.cli(tmp_path, *words, OPENAI_API_KEY=KEY)
    assert bank.requests == 2 * ITEMS


@pytest.mark.slow
def test_a_killed_probe_asked_again_pays_for_nothing_twice(tmp_path: Path) -> None:
    bank = Bank()
    first_prompt(tmp_path / "known")
    command = RUNS["probe"][0]
    with Server(bank) as server:
        configured(tmp_path, server, data="known", limits={"concurrency": 4})
        killed(start(tmp_path, *command), bank, 30, "SIGKILL")
        bank.latency = 0.0
        commands.cli(tmp_path, *command, OPENAI_API_KEY=KEY)
        asked = bank.requests
        known = {line["key"] for line in RunFolder(tmp_path / "out").replies()}
        assert asked <= len(known) + 8  # what was out at the kill, and what had come in at that moment
        assert used(tmp_path / "out") >= bank.billed - 1e-9
        commands.cli(tmp_path, *command, OPENAI_API_KEY=KEY)
        assert bank.requests == asked


@pytest.mark.slow
def test_two_judges_are_probed_under_one_cap(tmp_path: Path) -> None:
    cap = 0.05
    bank = Bank(latency=0.0)
    first_prompt(tmp_path / "known")
    with Server(bank) as server:
        role = {"model": "openai/gpt-4o", "base_url": server.openai, "max_tokens": 200}
        configured(tmp_path, server, data="known", panel=[{**role, "temperature": 1}])
        for _ in range(2):
            commands.cli(tmp_path, *RUNS["probe"][0], "--max-cost", str(cap), code=3, OPENAI_API_KEY=KEY)
            assert 0.5 * cap < bank.billed <= used(tmp_path / "out") + 1e-9 <= cap
