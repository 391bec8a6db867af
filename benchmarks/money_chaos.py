"""Random schedules of faults, kills and full disks against the promises on money, judged by the bill of the server.

    python -m benchmarks.money_chaos --schedules 1000          # hours; prints a table by mode and provider
    python -m benchmarks.money_chaos --first 17 --schedules 1   # seed 17 again

A schedule is one command (`judge`, `sweep`, `probe`, ...) against the loopback server of `money_server`: sessions of it are
killed (-9, SIGTERM, Ctrl-C once or twice), meet a full disk or a damaged file, then the same command runs to its end, mostly
with a server that is well again, and once more. What must hold: the bill keeps to the cap; the ledger never says less than the
bill; no question that was answered well is paid again (but for what was on its way at a kill); a complete run asks for nothing;
a score has a stored answer behind it; no traceback, no key in any file; `verify` holds.

Two commands ask again by design. `judge --canary` asks its frozen questions anew each time it is given, so how much a complete run
asks is not judged there. `yes-no` asks an image's question up to `yes_no.TRIES` times until the answer can be read, and these repeats
are not counted as paid again; any repeat beyond them is.
"""

from __future__ import annotations

import argparse
import atexit
import base64
import contextlib
import gc
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from PIL import Image

from benchmarks.money_server import FATAL, FAULTS, JOB_FAULTS

ROOT = Path(__file__).resolve().parents[1]
KEYS = {
    "OPENAI_API_KEY": "sk-MONEYCHAOS0123456789abcdef",
    "GEMINI_API_KEY": "AIzaMONEYCHAOS0123456789abcdefghijklm",
    "ANTHROPIC_API_KEY": "sk-ant-MONEYCHAOS0123456789",
    "TITJUDGE_TOKEN": "moneychaostoken",
}
MODELS = {
    "openai": ("openai/gpt-4o", "openai/gpt-4.1", "openai/gpt-4o-mini"),
    "gemini": ("gemini/gemini-2.0-flash",) * 3,
    "litellm/openai": ("litellm/openai/gpt-4o", "litellm/openai/gpt-4.1", "litellm/openai/gpt-4o-mini"),
    "litellm/anthropic": ("litellm/anthropic/claude-3-5-sonnet-20241022",) * 3,
}
PROVIDERS = {"openai": 5, "gemini": 4, "litellm/openai": 2, "litellm/anthropic": 1}
MODES = {
    "plain": 6, "tit": 3, "samples": 2, "panel": 3, "questions": 3, "pairwise": 2, "agent": 2, "batch": 8, "settle": 1, "sweep": 3,
    "shards": 2, "probe": 2, "canary": 1, "serve": 2, "prompts facets": 1, "prompts make": 1,
}  # fmt: skip
BY_DESIGN = {"samples", "probe", "canary", "settle", "prompts make"}  # they ask the same question several times
RUNS = {"judge", "probe", "prompts facets", "prompts make"}
LONGEST = 120.0  # seconds for one command


@dataclass(frozen=True)
class Round:
    """One session before the last: how it ends, after how many seconds, under which limit on files (bytes)."""

    how: str
    after: float = 0.0
    file_limit: int = 0


@dataclass
class Schedule:
    """What happens, all of it drawn from the seed."""

    seed: int
    mode: str
    provider: str
    cap: float | None
    weather: dict[str, Any]
    rounds: list[Round]
    damage: bool
    heal: bool
    concurrency: int
    metric: str = ""

    @classmethod
    def drawn(cls, seed: int, modes: Sequence[str] = ()) -> Self:
        """Draw a schedule."""
        draw = random.Random(seed)
        mode = draw.choice(list(modes)) if modes else draw.choices(list(MODES), list(MODES.values()))[0]
        provider = draw.choices(list(PROVIDERS), list(PROVIDERS.values()))[0]
        if mode == "batch" or (mode == "agent" and provider == "litellm/anthropic"):
            provider = draw.choice(["openai", "gemini"])
        metric = draw.choice({
            "tit": ["tit"], "questions": ["dsg", "yes-no", "graph-alignment"], "pairwise": ["pairwise", "pairwise-text"],
            "agent": ["tit-agent"], "batch": ["tit-llm", "lmm-score"], "probe": ["lmm-score", "tit-llm"],
        }.get(mode, ["tit-llm", "lmm-score", "self-eval"] if mode == "plain" else ["tit-llm"]))  # fmt: skip
        return cls(
            seed, mode, provider, metric=metric,
            cap=draw.choice([None, 3.0, 6.0, 12.0, 30.0, 60.0]),
            weather=_weather(draw, mode),
            rounds=[_round(draw) for _ in range(draw.choice([0, 1, 1, 2, 2, 3]))],
            damage=draw.random() < 0.1,
            heal=draw.random() < 0.7,
            concurrency=draw.choice([1, 4, 16]),
        )  # fmt: skip


def _weather(draw: random.Random, mode: str) -> dict[str, Any]:
    kinds = draw.sample(sorted(set(FAULTS) - FATAL), draw.choice([0, 1, 2, 4, 8, 20]))
    share = draw.choice([0.1, 0.3, 0.6, 0.9]) / max(1, len(kinds))
    faults = {kind: min(share, 0.1) if kind == "late" else share for kind in kinds}
    if draw.random() < 0.08:
        faults[draw.choice(sorted(FATAL))] = 0.03
    weather = {"seed": draw.randrange(10**9), "faults": faults, "latency": draw.choice([0.0, 0.02, 0.1, 0.3])}
    if mode == "batch":
        jobs = draw.sample(sorted(JOB_FAULTS), draw.choice([0, 1, 2, 3]))
        weather["job_faults"] = {kind: 0.25 / len(jobs) for kind in jobs}
        weather |= {"missing": draw.choice([0.0, 0.0, 0.3, 0.7]), "ended": draw.choice([0.0, 0.0, 0.3])}
    return weather


def _round(draw: random.Random) -> Round:
    how = draw.choice(["kill", "kill", "term", "ctrl-c", "ctrl-c twice", "disk", "end"])
    return Round(how, draw.uniform(0.3, 2.5), draw.choice([3_000, 8_000, 20_000, 60_000]) if how == "disk" else 0)


@dataclass
class Report:
    """What came of a schedule."""

    schedule: Schedule
    billed: float = 0.0
    booked: float = 0.0
    requests: int = 0
    kills: int = 0
    scored: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    ends: list[Any] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Make the line of a record."""
        schedule = self.schedule
        named = {"seed": schedule.seed, "mode": schedule.mode, "provider": schedule.provider, "cap": schedule.cap}
        return named | {key: value for key, value in vars(self).items() if key != "schedule"}


class Bank:
    """The billing server, in a process of its own."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.money_server"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self._read()['port']}"
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def tell(self, **order: Any) -> dict[str, Any]:
        """Send an order and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._read()


class Player:
    """Plays one schedule below `folder`."""

    def __init__(self, schedule: Schedule, bank: Bank, folder: Path) -> None:
        self.schedule, self.bank, self.folder = schedule, bank, folder
        self.report = Report(schedule)
        self.log = folder / "log"
        self.log.touch()
        self.draw = random.Random(schedule.seed + 1)
        self.port = 20_000 + self.draw.randrange(30_000) % 12_000  # below the ports that connections of other tests get
        self.data = _data(folder / "data", 4 if schedule.mode == "agent" else 8)
        self.commands = self._commands()

    # -- what is run -----------------------------------------------------------------------------------------------

    def _role(self, number: int, **more: Any) -> dict[str, Any]:
        provider = self.schedule.provider
        base = self.bank.url + ("/v1" if provider in ("openai", "litellm/openai") else "")
        model = MODELS[provider][number]
        if self.schedule.mode == "batch" and provider == "gemini":  # the server's batches know this one
            model, more = "gemini/gemini-2.5-pro", {"thinking_budget": 128, **more}
        return {"model": model, "base_url": base, "max_tokens": 60, **more}

    def _config(self) -> dict[str, Any]:
        schedule, place = self.schedule, self.folder
        limits = {"concurrency": schedule.concurrency, "timeout": 0.8, "patience": 5.0}
        if schedule.mode == "batch":
            limits |= {"batch": True, "batch_poll": 0.05, "batch_idle": 0.05, "timeout": 5.0}
        if schedule.cap is not None:
            limits["max_cost"] = schedule.cap
        names = {name.partition("/")[2] for models in MODELS.values() for name in models}
        names |= {"text-embedding-3-small", "gemini-2.5-pro"}
        names |= {name.partition("/")[2] for name in names}
        judge = self._role(1, max_tokens=200)
        return {
            "data": str(self.data), "metrics": [schedule.metric], "captioner": self._role(0), "judge": judge, "limits": limits,
            "cache": str(place / "cache"), "out": str(place / "run"), "report": False,
            "prices": {name: {"input": 1000, "output": 1000} for name in names if name},
        }  # fmt: skip

    def _commands(self) -> list[list[str]]:
        config, mode = self._config(), self.schedule.mode
        if mode == "tit":
            config["embedder"] = {"model": "openai/text-embedding-3-small", "base_url": self.bank.url + "/v1"}
            del config["judge"]
        elif mode == "samples":
            config["samples"] = 3
        elif mode == "panel":
            config["judge"] = [self._role(0, max_tokens=200), self._role(1, max_tokens=200, temperature=1)]
        elif mode == "agent":
            config["metric_options"] = {"tit-agent": {"max_looks": 2}}
        elif mode == "sweep":
            captioner, judge = config.pop("captioner"), config.pop("judge")
            del config["out"]
            config |= {
                "captioners": [captioner, {**captioner, "temperature": 1}],
                "judges": [judge, {**judge, "top_p": 0.9}],
            }
        if mode == "shards":
            return [
                [
                    "judge",
                    "--config",
                    self._file(f"{n}.yaml", {**config, "out": f"{config['out']}{n}", "shard": f"{n}/2"}),
                ]
                for n in (1, 2)
            ]
        if mode == "serve":
            del config["data"], config["report"]
            words = [
                "--captioner",
                config["captioner"]["model"],
                "--judge",
                config["judge"]["model"],
                "--out",
                config["out"],
            ]
            words += [
                "--base-url",
                config["captioner"]["base_url"],
                "--set",
                f"cache={config['cache']}",
                "--set",
                "timeout=0.8",
            ]
            words += ["--metric", self.schedule.metric, "--port", str(self.port), *self._cap(config)]
            return [["serve", *words]]
        file = self._file("run.yaml", config)
        if mode == "sweep":
            return [["sweep", file, "--out", str(self.folder / "sweep")]]
        if mode == "probe":
            known = self._file("probe.yaml", {key: value for key, value in config.items() if key != "data"})
            return [["probe", "--config", known, "--errors", "2", "--repeats", "2"]]
        if mode in ("prompts facets", "prompts make"):
            words = [
                "--judge",
                config["judge"]["model"],
                "--base-url",
                config["judge"]["base_url"],
                "--set",
                "timeout=0.8",
            ]
            words += [
                "--set",
                f"cache={config['cache']}",
                "--set",
                f"out={config['out']}",
                "-o",
                str(self.folder / "made.jsonl"),
            ]
            what = [str(self.data)] if mode == "prompts facets" else ["--recipe", "tiif", "--number", "4"]
            return [[*mode.split(), *what, *words, *self._cap(config)]]
        more = {"settle": ["--settle", "a,b"], "canary": ["--canary"]}
        return [["judge", "--config", file, *more.get(mode, [])]]

    def _cap(self, config: dict[str, Any]) -> list[str]:
        words = [] if self.schedule.cap is None else ["--max-cost", str(self.schedule.cap)]
        for name in config["prices"]:
            words += ["--price", f"{name}=1000,1000"]
        return words

    def _file(self, name: str, config: dict[str, Any]) -> str:
        (self.folder / name).write_text(json.dumps(config))
        return str(self.folder / name)

    # -- playing ---------------------------------------------------------------------------------------------------

    def play(self) -> Report:
        """Play all sessions, and judge what they leave."""
        started, schedule, report = time.monotonic(), self.schedule, self.report
        self.bank.tell(reset=schedule.weather)
        for step in schedule.rounds:
            self._session(step)
        if schedule.damage:
            self._damage()
        if schedule.heal:
            self.bank.tell(heal=True)
        codes = self._session(Round("end"))
        account = self.bank.tell(bill=True)
        if schedule.heal and codes == [0] * len(codes) and schedule.mode != "serve":
            self._session(Round("end"))
            if (after := self.bank.tell(bill=True))["requests"] > account["requests"] and schedule.mode not in (
                "batch",
                "canary",
            ):
                more = after["requests"] - account["requests"]
                report.problems.append(f"a complete run asked {more} questions more")
            account = after
        report.billed, report.requests, report.fired = account["billed"], account["requests"], account["fired"]
        self._judge_money(account)
        self._judge_scores()
        self._judge_secrets()
        if schedule.heal and not schedule.damage and codes == [0]:
            self._verify()
        report.seconds = round(time.monotonic() - started, 1)
        return report

    def _session(self, step: Round) -> list[Any]:
        processes = [self._fork(words, step.file_limit) for words in self.commands]
        answering = self._ask_rewards() if self.schedule.mode == "serve" else []
        if step.how in ("kill", "term", "ctrl-c", "ctrl-c twice"):
            time.sleep(step.after)
            number = {"kill": signal.SIGKILL, "term": signal.SIGTERM}.get(step.how, signal.SIGINT)
            for _ in range(2 if step.how.endswith("twice") else 1):
                self._signal(processes, number)
                time.sleep(0.1)
            self.report.kills += 1
        elif step.how == "disk":
            self.report.kills += 1
        if answering:
            for thread in answering:
                thread.join(30)
            self._signal(processes, signal.SIGTERM)
        codes = [self._wait(pid) for pid in processes]
        self.report.ends.append((step.how, codes))
        text = self.log.read_text(errors="replace")
        if "Traceback (most recent call last)" in text:
            last = text[text.rindex("Traceback (most recent") :].strip().splitlines()
            self.report.problems.append(f"traceback after {step.how}: {last[-1][:200]}")
        refused = {*FATAL, "400", "413"} & set(self.schedule.weather["faults"]) or self.schedule.weather.get(
            "job_faults"
        )
        if 2 in codes and step.how != "disk" and not refused and not self.schedule.damage:
            self.report.problems.append(f"refused after {step.how}: {_said(text)}")
        self.log.write_text("")
        return codes

    def _signal(self, processes: Sequence[int], number: int) -> None:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _fork(self, words: Sequence[str], file_limit: int) -> int:
        """Run a command in a fork of this process, which has imported everything already."""
        pid = os.fork()
        if pid:
            return pid
        code = 99
        try:
            atexit._clear()  # what this process does at its end is not the command's to do
            os.chdir(self.folder)
            log = os.open(self.log, os.O_WRONLY | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            signal.signal(signal.SIGINT, signal.default_int_handler)
            random.seed()
            if file_limit:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
            from titjudge.cli import main

            sys.argv = ["titjudge", *words]
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)

    def _wait(self, pid: int) -> int | str:
        deadline = time.monotonic() + LONGEST
        while time.monotonic() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.report.problems.append(f"still running after {LONGEST:g} s: {self.log.read_text(errors='replace')[-200:]}")
        return "hung"

    def _ask_rewards(self) -> list[threading.Thread]:
        """Ask the reward server for every image at once."""
        lines = [json.loads(line) for line in (self.data / "images.jsonl").read_text().splitlines()]

        def ask(line: dict[str, Any]) -> None:
            picture = base64.b64encode((self.data / line["image"]).read_bytes()).decode()
            prompt = f"scene {line['prompt_id']} with a red cube on a blue ball"
            body = {"samples": [{"prompt": prompt, "image": picture}], "metrics": [self.schedule.metric]}
            headers = {"content-type": "application/json", "authorization": f"Bearer {KEYS['TITJUDGE_TOKEN']}"}
            url = f"http://127.0.0.1:{self.port}/v1/rewards"
            for _ in range(60):
                try:
                    urllib.request.urlopen(
                        urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=20
                    ).read()
                except urllib.error.HTTPError:
                    return
                except OSError:  # not up yet, or killed
                    time.sleep(0.1)
                else:
                    return

        threads = [threading.Thread(target=ask, args=(line,), daemon=True) for line in lines]
        for thread in threads:
            thread.start()
        return threads

    def _damage(self) -> None:
        """Change some bytes of one file of the run, or cut it off."""
        files = [
            file for file in self.folder.glob("run*/*.jsonl") if file.stat().st_size and file.name != "billing.jsonl"
        ]
        if not files:
            return
        file = self.draw.choice(sorted(files))
        content = bytearray(file.read_bytes())
        place = self.draw.randrange(len(content))
        if self.draw.random() < 0.5:
            content = content[:place]
        else:
            content[place : place + 4] = bytes(self.draw.randrange(256) for _ in range(4))
        file.write_bytes(content)

    # -- judging ---------------------------------------------------------------------------------------------------

    def _judge_money(self, account: dict[str, Any]) -> None:
        from titjudge.runs.folder.run_folder import RunFolder

        report, schedule = self.report, self.schedule
        folders = {file.parent for file in self.folder.rglob("billing.jsonl")}
        report.booked = sum(RunFolder(folder).used()["max_cost"] for folder in folders)
        if report.booked < report.billed - 1e-6:
            report.problems.append(f"the ledger says {report.booked:.4f}, the bill {report.billed:.4f}")
        caps = 2 if schedule.mode == "shards" else 1
        if schedule.cap is not None and report.billed > caps * schedule.cap + 1e-6:
            report.problems.append(f"the bill of {report.billed:.4f} passes the cap of {caps} x {schedule.cap:g}")
        on_its_way = (
            2 * schedule.concurrency * report.kills * len(self.commands) * (8 if schedule.mode == "batch" else 1)
        )
        again = account["again"]
        if schedule.metric == "yes-no":
            from titjudge.metrics.yes_no import TRIES

            again -= (TRIES - 1) * len((self.data / "images.jsonl").read_text().splitlines())
        if schedule.mode not in BY_DESIGN and not schedule.damage and again > on_its_way:
            report.problems.append(f"{again} questions were paid again, {on_its_way} were on their way at kills")

    def _judge_scores(self) -> None:
        from titjudge.runs.folder.run_folder import RunFolder

        for file in self.folder.rglob("scores.jsonl"):
            folder = RunFolder(file.parent)
            stored = set(folder.known_keys())
            for place, score in folder.scores().items():
                if score.value is None:
                    continue
                self.report.scored += 1
                if score.status != "ok" or not score.replies:
                    self.report.problems.append(
                        f"{place}: a score with status {score.status} and {len(score.replies)} answers"
                    )
                if not self.schedule.damage and not set(score.replies) <= stored:
                    self.report.problems.append(f"{place}: a score without its answer")

    def _judge_secrets(self) -> None:
        for file in filter(Path.is_file, self.folder.rglob("*")):
            content = file.read_bytes()
            if any(key.encode() in content for key in KEYS.values()):
                self.report.problems.append(f"a key stands in {file.relative_to(self.folder)}")

    def _verify(self) -> None:
        if self.commands[0][0] != "judge" or self.schedule.mode in ("shards", "settle"):
            return
        code = self._wait(self._fork(["verify", str(self.folder / "run")], 0))
        if code != 0:
            said = self.log.read_text(errors="replace").strip()[-300:]
            self.report.problems.append(f"verify ends with {code}: {said}")


def _data(folder: Path, images: int) -> Path:
    folder.mkdir()
    pictures, prompts = [], {}
    for number in range(images):
        generator, prompt = "ab"[number % 2], number // 2
        (folder / generator).mkdir(exist_ok=True)
        draw = random.Random(number)
        picture = Image.new("RGB", (24, 24))
        picture.putdata([tuple(draw.randrange(256) for _ in range(3)) for _ in range(24 * 24)])
        picture.save(folder / generator / f"{prompt}.png")
        pictures.append({"image": f"{generator}/{prompt}.png", "generator": generator, "prompt_id": f"p{prompt}"})
        prompts[prompt] = {
            "prompt_id": f"p{prompt}", "prompt": f"scene number {prompt} with a red cube {prompt} on a blue ball",
            "questions": ["Is there a cube?", f"Is there a ball {prompt}?"], "gold_answers": ["yes", "no"],
        }  # fmt: skip
    for name, lines in (("images", pictures), ("prompts", list(prompts.values()))):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def _said(log: str) -> str:
    """Take from the output of a command the line on its error."""
    lines = [line for line in log.splitlines() if line.startswith("titjudge: ")]
    return (lines or log.strip().splitlines() or [""])[-1][:300]


def _prepare(providers: Sequence[str]) -> None:
    """Import what commands import, once, and let repetitions follow quickly: forks inherit both."""
    os.environ.update(KEYS, NO_COLOR="1", HF_HUB_OFFLINE="1", LITELLM_LOCAL_MODEL_COST_MAP="True")
    from titjudge.engine import retry
    from titjudge.providers.batch.queue import BatchTiming

    import_all = (
        "cli.commands",
        "cli.judge",
        "cli.sweep",
        "apps.rewards.command",
        "cli.probe",
        "cli.merge",
        "runs.session",
        "runs.study.sweep",
    )
    for name in (
        *import_all,
        "runs.check.verify",
        "apps.rewards.server",
        "providers.hosted.sdk",
        "providers.batch.provider",
    ):
        __import__(f"titjudge.{name}")
    import aiohttp  # noqa: F401

    from titjudge.providers.batch import provider

    timing = provider.BatchTiming  # a result that stays incomplete is given up well within the time of a schedule
    provider.BatchTiming = lambda *given: replace(timing(*given), gone=2.0)  # type: ignore[misc, assignment]
    import openai  # noqa: F401
    from google import genai  # noqa: F401

    if any(provider.startswith("litellm") for provider in providers):
        from titjudge.providers.hosted import litellm_client

        litellm_client.load()
    defaults = retry.Policy.__init__.__defaults__ or ()
    retry.Policy.__init__.__defaults__ = tuple(0.01 if value == 0.5 else value for value in defaults)
    defaults = BatchTiming.__init__.__defaults__ or ()  # a job whose answers have lines missing is given up at once
    BatchTiming.__init__.__defaults__ = tuple(0.0 if value == 300.0 else value for value in defaults)
    gc.freeze()


def run(seeds: Sequence[int], modes: Sequence[str] = (), *, minutes: float = 1e9, say: Any = None) -> list[Report]:
    """Play the schedules of some seeds, one after the other, until the time is over.

    Args:
        seeds: One for each schedule.
        modes: Of these modes only.
        minutes: No schedule begins later.
        say: Called with each report.
    """
    schedules = [Schedule.drawn(seed, modes) for seed in seeds]
    _prepare([schedule.provider for schedule in schedules])
    reports, end = [], time.monotonic() + minutes * 60
    with Bank() as bank, tempfile.TemporaryDirectory(prefix="money-") as place:
        for schedule in schedules:
            if time.monotonic() > end:
                break
            folder = Path(place) / str(schedule.seed)
            folder.mkdir()
            try:
                report = Player(schedule, bank, folder).play()
            except Exception as error:
                report = Report(schedule, problems=[f"the player failed: {type(error).__name__}: {error}"])
            reports.append(report)
            shutil.rmtree(folder, ignore_errors=True)
            if say is not None:
                say(report)
    return reports


def table(reports: Sequence[Report]) -> str:
    """Count schedules, and problems where there are any, by mode and provider."""
    counts: Counter[tuple[str, str]] = Counter()
    bad: Counter[tuple[str, str]] = Counter()
    for report in reports:
        place = report.schedule.mode, report.schedule.provider
        counts[place] += 1
        bad[place] += bool(report.problems)
    lines = ["| | " + " | ".join(PROVIDERS) + " |", "|---" * (len(PROVIDERS) + 1) + "|"]
    for mode in MODES:
        cells = [f"{counts[mode, p]}" + (f" ({bad[mode, p]} bad)" if bad[mode, p] else "") for p in PROVIDERS]
        lines.append(f"| {mode} | " + " | ".join(cells) + " |")
    capped = [report.billed / report.schedule.cap for report in reports if report.schedule.cap]
    sums = {name: sum(getattr(report, name) for report in reports) for name in ("requests", "kills", "scored")}
    fired = sum((Counter(report.fired) for report in reports), Counter[str]())
    lines.append(
        f"\n{len(reports)} schedules, {sum(map(bool, (report.problems for report in reports)))} with a problem; "
        f"{sums['requests']:,} requests, {sum(fired.values()):,} faults of {len(fired)} kinds, {sums['kills']:,} kills and full disks, "
        f"{sums['scored']:,} scores; highest bill over cap {max(capped, default=0):.3f}"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1, help="the first seed; the others follow")
    parser.add_argument("--modes", default="", help="of these modes only, separated by commas")
    parser.add_argument("--minutes", type=float, default=600, help="begin no schedule later")
    parser.add_argument("--record", type=Path, help="write a JSON line for each schedule")
    options = parser.parse_args()

    def say(report: Report) -> None:
        if options.record is not None:
            with options.record.open("a") as file:
                file.write(json.dumps(report.to_json()) + "\n")
        for problem in report.problems:
            print(
                f"seed {report.schedule.seed} ({report.schedule.mode}, {report.schedule.provider}): {problem}",
                flush=True,
            )

    seeds = range(options.first, options.first + options.schedules)
    reports = run(seeds, [mode for mode in options.modes.split(",") if mode], minutes=options.minutes, say=say)
    print(table(reports))
    sys.exit(any(report.problems for report in reports))


if __name__ == "__main__":
    main()
