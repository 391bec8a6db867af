"""The reward server under load: a training loop, and rewards that are in the cache.

    python -m benchmarks.serve [--steps 200] [--images 64] [--in-flight 128] [--latency 1]
    python -m benchmarks.serve --against-bare [--rounds 3] [--latency 1]

Starts a loopback model (OpenAI's wire format, one request an image) and `cli.py serve` as processes of their own. The training
loop sends each step as one pickle of JPEGs, as flow_grpo does, and keeps as many steps under way as fill `--in-flight`.
"ideal" is images x latency / in flight. Then the images of a step are asked for again one by one, 64 at a time.

With `--against-bare` each round sends the same 64 requests of 8 images of 512 x 512 pixels, PNG and JPEG, to `serve` and to a bare
aiohttp server, which unpickles, asks the model for each image and answers: no checks, no cache, no ledger. The figure is the ratio of
their processor times; the other programs of the machine disturb both alike.
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


BARE = """
import asyncio, base64, json, pickle, sys
from aiohttp import web, ClientSession, TCPConnector
async def judge(app, image, prompt):
    url = "data:image/png;base64," + base64.b64encode(image).decode()
    text = "Rate how well the image fits the prompt, from 0 to 100.\\n<prompt>\\n%s\\n</prompt>\\nAnswer as JSON with reason and score." % prompt
    content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
    body = {"model": "gpt-4o", "max_tokens": 512, "temperature": 0, "messages": [{"role": "user", "content": content}]}
    async with app["gate"], app["session"].post(sys.argv[1], json=body, headers={"authorization": "Bearer x"}) as answer:
        return float(json.loads((await answer.json())["choices"][0]["message"]["content"])["score"])
async def score(request):
    data = pickle.loads(await request.read())
    pairs = zip(data["images"], data["prompts"])
    values = await asyncio.gather(*(judge(request.app, image, prompt) for image, prompt in pairs))
    return web.Response(body=pickle.dumps({"outputs": values, "scores": values}))
async def main():
    app = web.Application(client_max_size=2**30)
    app["gate"], app["session"] = asyncio.Semaphore(int(sys.argv[2])), ClientSession(connector=TCPConnector(limit=0))
    app.router.add_post("/", score)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print("http://127.0.0.1:%d/" % site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()
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


def photos(number: int, count: int, format: str) -> list[bytes]:
    """Files of `count` noisy gradients of 512 x 512 pixels, other ones for each number: PNG of 465 KB, or JPEG of 28."""
    import numpy as np

    random_numbers = np.random.default_rng(number)
    gradient = np.add.outer(np.arange(512), np.arange(512))[..., None] * np.array([0.2, 0.15, 0.1])
    files = []
    for _ in range(count):
        noise = random_numbers.normal(0, 3, (512, 512, 3)) + random_numbers.integers(0, 60, 3)
        out = io.BytesIO()
        options = {"compress_level": 1} if format == "PNG" else {"quality": 90}
        Image.fromarray((gradient + noise).clip(0, 255).astype(np.uint8)).save(out, format, **options)
        files.append(out.getvalue())
    return files


async def requests(url: str, bodies: list[bytes]) -> None:
    """Send requests at once."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(600)
    ) as session:

        async def one(body: bytes) -> None:
            async with session.post(url, data=body) as answer:
                rewards = pickle.loads(await answer.read())  # noqa: S301 - of our own server
                assert rewards.get("outputs") == [50.0] * 8, rewards

        await asyncio.gather(*map(one, bodies))


def against_bare(folder: Path, port: int, rounds: int, in_flight: int) -> None:
    server, url = serve(folder, port, in_flight)
    bare = subprocess.Popen(
        [sys.executable, "-c", BARE, f"http://127.0.0.1:{port}/v1/chat/completions", str(in_flight)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert bare.stdout is not None
    places = {"bare": (bare, bare.stdout.readline().strip()), "serve": (server, url)}
    try:
        for format in ("PNG", "JPEG"):
            for number in range(-1, rounds):  # the first warms up
                used: dict[str, float] = {}
                count = 64 if number >= 0 else 4
                bodies = [
                    pickle.dumps(
                        {"images": photos(hash((number, each)) % 2**32, 8, format), "prompts": [f"{format} {each}"] * 8}
                    )
                    for each in range(count)
                ]
                for name, (process, address) in places.items():
                    begun = cpu(process)
                    asyncio.run(requests(address, bodies))
                    used[name] = 1000 * (cpu(process) - begun) / (8 * count)
                if number >= 0:
                    size = sum(map(len, bodies)) / 2**20
                    print(
                        f"{format} 512 x 512, 64 requests of 8 ({size:.0f} MiB): CPU an image serve {used['serve']:.2f} ms, "
                        f"bare aiohttp {used['bare']:.2f} ms, ratio {used['serve'] / used['bare']:.2f}",
                        flush=True,
                    )
    finally:
        bare.kill()
        server.send_signal(signal.SIGINT)
        server.wait(60)


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
    parser.add_argument("--against-bare", action="store_true", help="the ratio of processor time to a bare server's")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = subprocess.Popen(
            [sys.executable, "-c", MODEL, str(given.latency)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert model.stdin is not None
        assert model.stdout is not None
        port = int(model.stdout.readline())
        if given.against_bare:
            try:
                against_bare(folder, port, given.rounds, given.in_flight)
            finally:
                model.kill()
                model.wait(10)
            return
        server, url = serve(folder, port, given.in_flight)
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
