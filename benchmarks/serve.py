"""The reward server under load: a training loop, and rewards that are in the cache.

    python -m benchmarks.serve [--steps 200] [--images 64] [--in-flight 128] [--latency 1]

Starts a loopback model (OpenAI's wire format, one request an image) and `cli.py serve` as processes of their own. The training
loop sends each step as one pickle of JPEGs, as flow_grpo does, and keeps as many steps under way as fill `--in-flight`.
"ideal" is images x latency / in flight. Then the images of a step are asked for again one by one, 64 at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
TOKEN = "benchmark-token"
MODEL = """
import asyncio, json, sys
latency = float(sys.argv[1])
content = json.dumps({"reason": "because", "score": 50})
body = json.dumps({"id": "x", "object": "chat.completion", "model": "gpt-4o", "created": 0,
    "usage": {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920},
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}]}).encode()
answer = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body
state = {"now": 0, "most": 0, "all": 0}
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            length = next(int(line[15:]) for line in head.split(b"\\r\\n") if line.lower().startswith(b"content-length:"))
            await reader.readexactly(length)
            state["now"] += 1
            state["all"] += 1
            state["most"] = max(state["most"], state["now"])
            await asyncio.sleep(latency)
            state["now"] -= 1
            writer.write(answer)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**22, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(json.dumps(state), flush=True)
asyncio.run(main())
"""


def jpeg(number: int) -> bytes:
    """A JPEG of noise of about 40 KB, another one for each number."""
    out = io.BytesIO()
    Image.frombytes("L", (190, 190), random.Random(number).randbytes(190 * 190)).save(out, "JPEG", quality=90)
    return out.getvalue()


def step(number: int, images: int) -> bytes:
    files = [jpeg(number * images + each) for each in range(images)]
    return pickle.dumps({"images": files, "prompts": [f"prompt {number} {each // 8}" for each in range(images)]})


async def train(url: str, steps: int, images: int, under_way: int) -> float:
    """Run the training loop; returns its seconds."""
    bodies = [step(number, images) for number in range(steps)]
    waiting = iter(bodies)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(600)) as session:

        async def rank() -> None:
            for body in waiting:
                async with session.post(url, data=body) as answer:
                    rewards = pickle.loads(await answer.read())  # noqa: S301 - of our own server
                    assert rewards.get("outputs") == [50.0] * images, rewards

        started = time.perf_counter()
        await asyncio.gather(*(rank() for _ in range(under_way)))
        return time.perf_counter() - started


async def cached(url: str, images: int, rounds: int, in_flight: int) -> list[float]:
    """Ask for rewards that are known, one image a request; returns the seconds a reward of each round."""
    bodies = [
        pickle.dumps({"images": [jpeg(each)], "prompts": [f"prompt 0 {each // 8}"], "metadata": {}})
        for each in range(images)
    ]
    found = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=in_flight)) as session:

        async def one(body: bytes) -> None:
            async with session.post(url, data=body) as answer:
                assert answer.status == 200
                await answer.read()

        for _ in range(rounds):
            started = time.perf_counter()
            await asyncio.gather(*(one(body) for body in bodies))
            found.append((time.perf_counter() - started) / len(bodies))
    return found


def serve(folder: Path, port: int, in_flight: int) -> tuple[subprocess.Popen[str], str]:
    environment = {
        **os.environ, "TITJUDGE_TOKEN": TOKEN, "OPENAI_API_KEY": "sk-loopback", "TITJUDGE_CACHE": str(folder / "cache"),
    }  # fmt: skip
    command = [
        sys.executable, str(ROOT / "cli.py"), "serve", "--metric", "lmm-score", "--captioner", "openai/gpt-4o",
        "--base-url", f"http://127.0.0.1:{port}/v1", "--concurrency", str(in_flight), "--price", "gpt-4o=2.5,10",
        "--max-cost", "1000", "--out", str(folder / "run"), "--port", "0",
    ]  # fmt: skip
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1]


def cpu(process: subprocess.Popen[str]) -> float:
    """Seconds of processor time of a process up to now."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--in-flight", type=int, default=128)
    parser.add_argument("--latency", type=float, default=1.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = subprocess.Popen(
            [sys.executable, "-c", MODEL, str(given.latency)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert model.stdin is not None
        assert model.stdout is not None
        server, url = serve(folder, int(model.stdout.readline()), given.in_flight)
        try:
            under_way = 1 + -(-given.in_flight // given.images)  # one step more than fills it: the next is at the door
            begun = cpu(server)
            wall = asyncio.run(train(url, given.steps, given.images, under_way))
            ideal = given.steps * given.images * given.latency / given.in_flight
            trained = cpu(server)
            again = asyncio.run(cached(url, 64, 32, 64))
            known = cpu(server)
            model.stdin.write("\n")
            model.stdin.flush()
            state: dict[str, Any] = json.loads(model.stdout.readline())
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
            model.kill()
            model.wait(10)
    print(f"{given.steps} steps x {given.images} images, {given.latency} s a judgement")
    print(f"  in flight at the model: {state['most']}; requests: {state['all']}")
    print(
        f"  wall {wall:.1f} s / ideal {ideal:.1f} s = {wall / ideal:.2f}; CPU a judgement {1000 * (trained - begun) / state['all']:.2f} ms"
    )
    print(
        f"a cached reward, 64 in flight: {1000 * min(again):.2f} ms (worst round {1000 * max(again):.2f} ms); CPU {1000 * (known - trained) / (64 * 32):.2f} ms"
    )


if __name__ == "__main__":
    main()
