"""Hosted runs against a loopback server: wall time over the ideal, CPU a request, faults, limits, cap, kill, cache.

    python -m benchmarks.hosted --server path/to/mockserver.py [--samples 500] [--only clean32,cap] [--against CHECKOUT]

The server is any program that prints its port as the first line, speaks the OpenAI wire format and tells `/_stats`. Each
sample is two requests: a 40 KB JPEG is described, the description is judged. "ideal" is requests x latency / in flight.
The plain asyncio + openai SDK loop runs in the same process tree, against the same server, as the reference. With `--against`
another checkout takes turns with this one, and only ratios to it are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PRICE = ("--price", "gpt-4o=2.5,10")  # under a cap an address that is not the vendor's needs one
LATENCY = 0.2


def make_data(folder: Path, samples: int, kilobytes: int = 40) -> Path:
    """A data folder of different JPEGs of the wanted size, one prompt each."""
    import io

    from PIL import Image

    folder.mkdir(parents=True)
    with (folder / "data.jsonl").open("w") as listing:
        for i in range(samples):
            rnd = random.Random(i)
            image = Image.frombytes("L", (190, 190), rnd.randbytes(190 * 190))
            out = io.BytesIO()
            image.save(out, "JPEG", quality=60)
            pad = max(0, kilobytes * 1000 - out.tell() - 4)
            raw = out.getvalue()
            comment = b"\xff\xfe" + (pad + 2).to_bytes(2, "big") + rnd.randbytes(pad)
            (folder / f"{i}.jpg").write_bytes(raw[:2] + comment + raw[2:])
            listing.write(
                json.dumps(
                    {"image": f"{i}.jpg", "prompt": f"Sample {i}: a lamp left of a red car.", "prompt_id": str(i)}
                )
                + "\n"
            )
    return folder / "data.jsonl"


class Server:
    """The loopback server as a child process."""

    def __init__(self, program: Path, *options: str) -> None:
        command = [
            sys.executable,
            str(program),
            "--port",
            "0",
            "--parent",
            str(os.getpid()),
            "--max-seconds",
            "900",
            *options,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().split()[-1])

    def ask(self, path: str, body: bytes | None = None) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", data=body, timeout=10) as answer:
            return json.loads(answer.read())

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("/_stats")
        return found

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)


class Run:
    """One `cli.py judge` as a child, with its wall time and CPU."""

    def __init__(
        self, server: Server, data: Path, folder: Path, *options: str, cache: Path | None = None, wait: bool = True,
        root: Path = ROOT,
    ) -> None:  # fmt: skip
        self.folder = folder
        environment = {
            **os.environ,
            "OPENAI_BASE_URL": f"http://127.0.0.1:{server.port}/v1",
            "OPENAI_API_KEY": "sk-loopback",
            "TITJUDGE_CACHE": str(cache or folder / "cache"),
            "PYTHONPATH": str(root),
        }
        command = [
            sys.executable, str(root / "cli.py"), "judge", "--data", str(data), "--provider", "openai/gpt-4o", "--metric", "tit-llm",
            "--out", str(folder / "run"), "--json", str(folder / "out.json"), "--no-report", *options,
        ]  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        started = time.perf_counter()
        if not wait:
            self.process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            return
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            self.process = subprocess.Popen(command, env=environment, stdout=out, stderr=err, text=True)
            _, status, usage = os.wait4(self.process.pid, 0)  # of this child alone: the server and the SDK are others
            self.wall = time.perf_counter() - started
            self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu, self.peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
            out.seek(0)
            err.seek(0)
            self.out, self.err = out.read(), err.read()

    @property
    def results(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "out.json").read_text())
        return found


def sdk_loop(server: Server, data: Path, in_flight: int) -> tuple[float, float]:
    """The reference: asyncio, one openai client, a semaphore. Returns wall and CPU seconds of the requests."""
    code = f"""
import asyncio, base64, json, resource, time
from pathlib import Path
from openai import AsyncOpenAI
data = Path({str(data)!r})
async def main():
    client = AsyncOpenAI(base_url="http://127.0.0.1:{server.port}/v1", api_key="x", max_retries=0)
    gate = asyncio.Semaphore({in_flight})
    async def one(record):
        async with gate:
            url = "data:image/jpeg;base64," + base64.b64encode((data.parent / record["image"]).read_bytes()).decode()
            content = [{{"type": "image_url", "image_url": {{"url": url}}}}, {{"type": "text", "text": "Describe."}}]
            first = await client.chat.completions.create(model="gpt-4o", max_tokens=512, messages=[{{"role": "user", "content": content}}])
            text = record["prompt"] + first.choices[0].message.content
            await client.chat.completions.create(model="gpt-4o", max_tokens=512, messages=[{{"role": "user", "content": text + " JSON"}}])
    records = [json.loads(line) for line in data.open()]
    await one(records[0])
    t, c = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.gather(*(one(record) for record in records[1:]))
    d = resource.getrusage(resource.RUSAGE_SELF)
    print(time.perf_counter() - t, d.ru_utime + d.ru_stime - c.ru_utime - c.ru_stime)
asyncio.run(main())
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600).stdout
    wall, cpu = out.split()
    return float(wall), float(cpu)


def idle_cpu(server: Server, data: Path, folder: Path) -> float:
    """CPU seconds of a run that asks for one sample: start-up, imports, tables, report."""
    return Run(server, data, folder, "--limit", "1").cpu


def clean(program: Path, data: Path, samples: int, in_flight: int, work: Path) -> None:
    with Server(program, "--latency", str(LATENCY)) as server:
        base = idle_cpu(server, data, work / f"idle{in_flight}")
        server.ask("/_reset", b"")
        run = Run(server, data, work / f"clean{in_flight}", "--concurrency", str(in_flight))
        stats = server.stats()
        ideal = 2 * samples * LATENCY / in_flight
        server.ask("/_reset", b"")
        wall, cpu = sdk_loop(server, data, in_flight)
        print(
            f"clean {in_flight}: wall / ideal {stats['span_s'] / ideal:.3f} (SDK loop {wall / ideal:.3f}); "
            f"CPU a request {max(0.0, run.cpu - base) / (2 * samples) * 1000:.2f} ms (SDK loop {cpu / (2 * samples) * 1000:.2f} ms); "
            f"peak memory {run.peak:.0f} MB; coverage {run.results['metrics']['tit-llm']['coverage']}; asked {stats['ok']}, wasted {stats['wasted']}"
        )
        server.ask("/_reset", b"")
        cache = work / f"clean{in_flight}" / "cache"
        first = Run(server, data, work / f"one{in_flight}", "--limit", "1", cache=cache)
        again = Run(server, data, work / f"again{in_flight}", "--concurrency", str(in_flight), cache=cache)
        print(
            f"cached second run: {server.stats()['ok']} requests, {again.wall - first.wall:.2f} s beyond a run of one cached sample"
        )


def against(program: Path, data: Path, samples: int, work: Path, other: Path, pairs: int = 5) -> None:
    """Print what a run costs here against another checkout, and the same command again: medians of pairs in turn."""
    found: dict[str, list[list[float]]] = {}
    with Server(program, "--latency", str(LATENCY)) as server:
        for pair in range(pairs + 1):
            both = []
            for root in (ROOT, other):
                server.ask("/_reset", b"")
                folder = work / f"{root.name}-{pair}"
                run = Run(server, data, folder, "--concurrency", "128", root=root)
                outside = run.wall - server.stats()["span_s"]
                again = Run(server, data, folder, "--concurrency", "128", root=root)
                if run.code or again.code:
                    sys.exit(f"{root}: {run.err or again.err}")
                both.append({"CPU": run.cpu, "wall outside of the requests": outside, "peak memory": run.peak})
                both[-1] |= {"CPU of the same command again": again.cpu}
            for name in both[0] if pair else ():  # the first pair writes the bytecode files
                found.setdefault(name, []).append([both[0][name], both[1][name]])
    for name, values in found.items():
        ours, theirs = (statistics.median(column) for column in zip(*values, strict=True))
        ratio = statistics.median(a / b for a, b in values)
        print(f"{name}, {2 * samples} answers: {ratio:.2f} x ({ours:.2f} against {theirs:.2f}; {pairs} pairs)")


def faults(program: Path, data: Path, samples: int, work: Path) -> None:
    options = ("--fault", "429=0.05", "--fault", "500=0.02", "--fault", "reset=0.005", "--seed", "1")
    with Server(program, "--latency", str(LATENCY), *options) as server:
        run = Run(server, data, work / "faults")
        stats = server.stats()
        ideal = 2 * samples * LATENCY / 32
        lost = samples - round(run.results["metrics"]["tit-llm"]["coverage"] * samples)
        print(
            f"faults (5% 429, 2% 500, 0.5% reset): lost {lost}, wall / ideal {stats['span_s'] / ideal:.2f}, "
            f"early retries {stats['early_retries']}, wasted {stats['wasted']}"
        )


def limited(program: Path, data: Path, samples: int, work: Path) -> None:
    with Server(program, "--latency", str(LATENCY), "--rpm", "3000") as server:
        run = Run(server, data, work / "limited", "--concurrency", "128")
        stats = server.stats()
        lost = samples - round(run.results["metrics"]["tit-llm"]["coverage"] * samples)
        own = 2 * samples / 50
        print(
            f"3,000 a minute, 128 in flight: lost {lost}, wall / the limit's own time {stats['span_s'] / own:.3f}, "
            f"early retries {stats['early_retries']}, kinds {stats['kinds']}"
        )


def capped(program: Path, data: Path, samples: int, work: Path) -> None:
    with Server(program, "--latency", str(LATENCY)) as server:
        whole = Run(server, data, work / "whole", "--concurrency", "128", *PRICE).results["spent"]
        server.ask("/_reset", b"")
        cap = 0.3 * whole
        run = Run(server, data, work / "capped", "--concurrency", "128", *PRICE, "--max-cost", str(cap))
        stats = server.stats()
        scored = round(run.results["metrics"]["tit-llm"]["coverage"] * samples)
        affordable = cap / (whole / samples)
        print(
            f"cap of 30%: exit {run.code}, billed / cap {stats['cost_usd'] / cap:.3f}, spent / cap {run.results['spent'] / cap:.3f}, "
            f"samples scored / affordable {scored / affordable:.2f}"
        )


def killed(program: Path, data: Path, samples: int, work: Path) -> None:
    with Server(program, "--latency", str(LATENCY)) as server:
        run = Run(server, data, work / "killed", wait=False)
        while server.stats()["ok"] < samples:
            time.sleep(0.05)
        run.process.send_signal(signal.SIGKILL)
        run.process.wait()
        at_kill = server.stats()["ok"]
        Run(server, data, work / "killed")
        stats = server.stats()
        print(
            f"kill -9 at {at_kill} of {2 * samples}: {stats['wasted']} paid twice (at most the 32 in flight were not delivered)"
        )


def interrupted(program: Path, data: Path, samples: int, work: Path) -> None:
    with Server(program, "--latency", str(LATENCY)) as server:
        run = Run(server, data, work / "interrupted", wait=False)
        while server.stats()["ok"] < samples:
            time.sleep(0.05)
        started = time.perf_counter()
        run.process.send_signal(signal.SIGINT)
        while server.stats()["ok"] < server.stats().get("requests", 0):
            time.sleep(0.01)
        run.process.communicate(timeout=60)
        ended = time.perf_counter() - started
        Run(server, data, work / "interrupted")
        print(
            f"Ctrl-C: process ended after {ended:.2f} s, {server.stats()['wasted']} answers paid twice after the same command again"
        )


def wrong_key(program: Path, data: Path, samples: int, work: Path) -> None:
    for kind in ("401", "quota"):
        with Server(program, "--latency", str(LATENCY), "--fault", f"{kind}=1") as server:
            run = Run(server, data, work / f"key-{kind}", "--concurrency", "128")
            print(
                f"{kind}: exit {run.code} after {run.wall:.1f} s, {sum(server.stats()['kinds'].values())} requests; {run.err.strip().splitlines()[-1][:100]}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, default=ROOT.parent / "shared" / "peerbench" / "mockserver.py")
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--only", default="")
    parser.add_argument("--against", type=Path, help="another checkout of titjudge")
    given = parser.parse_args()
    if not given.server.is_file():
        sys.exit(f"{given.server}: no such server program; name one with --server")
    cases = {
        "clean32": lambda *a: clean(a[0], a[1], a[2], 32, a[3]),
        "clean128": lambda *a: clean(a[0], a[1], a[2], 128, a[3]),
        "faults": faults,
        "limited": limited,
        "cap": capped,
        "kill": killed,
        "interrupt": interrupted,
        "key": wrong_key,
    }
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        data = make_data(work / "data", given.samples)
        if given.against:
            return against(given.server, data, given.samples, work, given.against.resolve())
        for name, case in cases.items():
            if not given.only or name in given.only.split(","):
                case(given.server, data, given.samples, work)


if __name__ == "__main__":
    main()
