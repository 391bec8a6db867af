"""A reward server in this process, for tests that ask it over loopback."""

import asyncio
import base64
import contextlib
import hashlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn

from tests.kit import Scripted, Seen, Server
from titjudge import Judge
from titjudge.apps.rewards.server import Rewards, build_app
from titjudge.core.config import load_config
from titjudge.web.http_guard import listen

TOKEN = "a-token-for-tests"


@contextlib.contextmanager
def serving(
    judge_url: str, folder: Path, *, token: str = TOKEN, metrics: Any = ("lmm-score",), **more: Any
) -> Iterator[str]:
    """Serve rewards of a model at `judge_url`; gives the address with the token. `more`: options, and keys of run.yaml."""
    options = {key: more.pop(key) for key in ("missing", "ignore_inputs", "max_body") if key in more}
    patience = more.pop("patience", 5)
    given = {
        "metrics": list(metrics), "captioner": {"model": "openai/gpt-4o"}, "base_url": judge_url or None,
        "prices": {"gpt-4o": {"input": 2.5, "output": 10}}, "out": folder / "run", "cache": folder / "cache", **more,
    }  # fmt: skip
    rewards = Rewards(load_config(None, given))
    sock = listen("127.0.0.1", 0)
    app = build_app(rewards, token=token, **options)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=patience))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([sock])), daemon=True)
    thread.start()
    try:
        yield f"http://{f'serve:{token}@' if token else ''}127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


def rating(seen: Seen) -> Scripted | str:
    """What the model of the tests answers: a score made from image and prompt, or a refusal where the prompt says so."""
    prompt = re.search(r"<prompt>\n(.*)\n</prompt>", seen.text, re.DOTALL)
    assert prompt is not None
    if "refuse" in prompt[1]:
        return Scripted.fault("refusal")
    return f'{{"reason": "because", "score": {score_of(seen.images[0], prompt[1])}}}'


@contextlib.contextmanager
def rating_judge(folder: Path) -> Iterator[Judge]:
    """A judge that asks a model which answers by `rating`, with a cache in `folder`; needs an OPENAI_API_KEY."""
    prices = {"gpt-4o": {"input": 2.5, "output": 10}}
    with (
        Server(rating) as server,
        Judge("lmm-score", captioner="openai/gpt-4o", base_url=server.openai, cache=folder, prices=prices) as judge,
    ):
        yield judge


def score_of(image: str, prompt: str) -> float:
    return int(hashlib.sha256(f"{image} {prompt}".encode()).hexdigest()[:3], 16) % 1000 / 10


def expected(image: bytes, prompt: str) -> float:
    return score_of(hashlib.sha256(image).hexdigest(), prompt)


def text_of(image: bytes) -> str:
    return base64.b64encode(image).decode()
