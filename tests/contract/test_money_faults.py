"""Whatever goes wrong, the ledger holds what the provider may have billed, and the cap holds against the provider's bill.

One table of faults for every provider. The loopback server bills every request that a provider might bill; the run's
`spent + uncertain` is never less than that, and the server's bill is never more than the cap.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer
from test_provider_spec import google_credentials

from tests.kit import Scripted, Seen, Server
from tests.kit.wires import ANSWERS, HTML, dump, embeddings, read, text_for
from titjudge.core.config import load_config
from titjudge.core.errors import BudgetExhausted, FatalProviderError, Unanswered
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Message, Request, Usage
from titjudge.engine import retry
from titjudge.engine.budget import Budget
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.providers.batch.provider import Batches, BatchTiming

pytestmark = pytest.mark.slow  # many in all, each of them short

RATE = 1000.0  # USD per million tokens
QUESTIONS = [f"question {number}: what is in the picture?" for number in range(3)]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting between attempts, and keys that no provider knows."""
    monkeypatch.setattr(retry, "Policy", partial(retry.Policy, base=0.001, limited=2))
    google_credentials(monkeypatch)
    for name in ("OPENAI", "GEMINI", "ANTHROPIC", "AZURE_OPENAI"):
        monkeypatch.setenv(f"{name}_API_KEY", "key-of-nobody")


# ---------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Fault:
    """`made`: what the server does in place of a good answer (its body); `billed`: whether it may bill that."""

    name: str
    made: Callable[[Any, Wire], Scripted]
    billed: bool = True


@dataclass(frozen=True)
class Wire:
    """How a provider writes what the faults garble: the keys of `usage` and the place of the text."""

    model: str
    usage: str
    counts: tuple[str, ...]  # input, output and total, as far as the provider says them
    text: tuple[Any, ...]

    def put(self, body: Any, value: Any) -> Any:
        made = at = deepcopy(body)
        for step in self.text[:-1]:
            at = at[step]
        at[self.text[-1]] = value
        return made

    def counted(self, body: Any, *values: Any) -> Any:
        """The body with a usage of these counts; None leaves one out."""
        said = {name: value for name, value in zip(self.counts, values, strict=False) if value is not None}
        return {**body, self.usage: said}

    def without_usage(self, body: Any) -> Any:
        return {key: value for key, value in body.items() if key != self.usage}


def body(make: Callable[[Any, Wire], Any]) -> Callable[[Any, Wire], Scripted]:
    return lambda good, wire: Scripted(body=make(good, wire))


def raw(text: bytes | str, status: int = 200, **headers: str) -> Callable[[Any, Wire], Scripted]:
    return lambda good, wire: Scripted(body=text, status=status, headers=headers)


def fault(kind: str | int) -> Callable[[Any, Wire], Scripted]:
    return lambda good, wire: Scripted.fault(kind)


HUGE = 10**15
FAULTS = [
    Fault("a good answer", body(lambda good, wire: good)),
    Fault("no usage", body(lambda good, wire: wire.without_usage(good))),
    Fault("usage null", body(lambda good, wire: {**good, wire.usage: None})),
    Fault("usage a list", body(lambda good, wire: {**good, wire.usage: [1, 2]})),
    Fault("counts null", body(lambda good, wire: {**good, wire.usage: dict.fromkeys(wire.counts)})),
    Fault("counts of zero", body(lambda good, wire: wire.counted(good, 0, 0, 0))),
    Fault("counts negative", body(lambda good, wire: wire.counted(good, -5, -5, -10))),
    Fault("counts true", body(lambda good, wire: wire.counted(good, True, True, True))),
    Fault("counts in words", body(lambda good, wire: wire.counted(good, "many", "some", "all"))),
    Fault("counts infinite", body(lambda good, wire: wire.counted(good, float("inf"), float("inf"), float("inf")))),
    Fault("counts absurd", body(lambda good, wire: wire.counted(good, HUGE, HUGE, 2 * HUGE))),
    Fault("empty text, no usage", body(lambda good, wire: wire.without_usage(wire.put(good, "")))),
    Fault("text null, no usage", body(lambda good, wire: wire.without_usage(wire.put(good, None)))),
    Fault("text a number, no usage", body(lambda good, wire: wire.without_usage(wire.put(good, 7)))),
    Fault("model a number", body(lambda good, wire: {**good, "model": 123, "modelVersion": 123})),
    Fault("an error inside", body(lambda good, wire: {"error": {"code": 502, "message": "upstream"}})),
    Fault("half of the body", lambda good, wire: Scripted(body=json.dumps(good)[: len(json.dumps(good)) // 2])),
    Fault("HTML", raw(HTML)),
    Fault("an empty body", raw(b"")),
    Fault("204", raw(b"", 204)),
    Fault("not UTF-8", raw(b'{"choices": "\xff\xfe"}')),
    Fault("a stream of events", raw(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: [DONE]\n\n')),
    Fault("a thousand brackets deep", raw(b"[" * 100_000)),
    Fault("a list", raw(b"[]")),
    Fault("null", raw(b"null")),
    Fault("packed beyond measure", raw(gzip.compress(b" " * (33 * 2**20), 1), **{"Content-Encoding": "gzip"})),
    Fault("packed badly", raw(b"\x1f\x8b\x08 no gzip", **{"Content-Encoding": "gzip"})),
    *(Fault(str(status), fault(status)) for status in (408, 502, 504, 520, 524)),
    Fault("reset before the answer", fault("drop_before")),
    Fault("reset inside the answer", fault("drop_after")),
    Fault("no answer in time", fault("hang")),
    *(Fault(str(status), fault(status), billed=False) for status in (400, 500, 503)),
    Fault("429", lambda good, wire: Scripted.fault(429, retry_after=0), billed=False),
]

OPENAI = Wire("", "usage", ("prompt_tokens", "completion_tokens", "total_tokens"), ("choices", 0, "message", "content"))
COUNTS = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")
GEMINI = Wire("", "usageMetadata", COUNTS, ("candidates", 0, "content", "parts", 0, "text"))
CLAUDE = Wire("", "usage", ("input_tokens", "output_tokens"), ("content", 0, "text"))
VECTOR = Wire("", "usage", ("prompt_tokens", "total_tokens"), ("data", 0, "embedding"))
VALUES = Wire("", "usageMetadata", ("promptTokenCount", "totalTokenCount"), ("embedding", "values"))
CHATS = {
    "openai/gpt-4o": OPENAI,
    "gemini/gemini-2.5-pro": GEMINI,
    "openai/gpt-4o by the SDK": OPENAI,
    "gemini/gemini-2.5-pro by the SDK": GEMINI,
    "gemini/gemini-2.5-pro at Vertex AI": GEMINI,
    "azure/gpt-4o": OPENAI,
    "litellm/openai/m": OPENAI,
    "litellm/anthropic/claude-sonnet-4-5": CLAUDE,
    "litellm/gemini/gemini-2.5-pro": GEMINI,
}
OPTIONS = {"SDK": {"client": "sdk"}, "AI": {"vertexai": True, "project": "p", "location": "here"}}
EMBEDDERS = {"openai/text-embedding-3-small": VECTOR, "gemini/gemini-embedding-001": VALUES}


# ---------------------------------------------------------------------- the server and its bill


class Biller:
    """Answers every request by one fault, and keeps the bill."""

    cached_tokens = reasoning_tokens = 0

    def __init__(self, wire: Wire, fault: Fault) -> None:
        self.wire, self.fault = wire, fault
        self.tokens = 0

    def __call__(self, seen: Seen) -> Scripted:
        good = self.good(seen)
        if self.fault.billed:
            sent, out = _tokens(seen)
            self.tokens += sent + out
        return self.fault.made(good, self.wire)

    def good(self, seen: Seen) -> Any:
        if seen.api == "embeddings":
            return embeddings(seen)
        if seen.path.partition("?")[0].endswith(":embedContent"):
            count = len(seen.text) // 4 + 1
            return {"embedding": {"values": [0.6, 0.8]}, "usageMetadata": {"promptTokenCount": count}}
        return ANSWERS[seen.api](seen, text_for(seen), Scripted(), self)

    @property
    def bill(self) -> float:
        return self.tokens * RATE / 1e6


def _tokens(seen: Seen) -> tuple[int, int]:
    if seen.api == "embeddings" or seen.path.partition("?")[0].endswith(":embedContent"):
        return len(seen.body.get("input", seen.text)) // 4 + 1, 0
    return len(seen.text) // 4 + 7, len(text_for(seen)) // 4


class BatchBiller(BatchServer):
    """Works on every line of a job by one fault, and keeps the bill."""

    biller: Biller

    def _worked(self, line: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
        key = line.get("custom_id") or line["key"]
        path = line.get("url", "/v1beta/models/gemini-2.5-pro:generateContent")
        made = self.biller(read("POST", path, {}, dump(line.get("body") or line["request"]))).body
        if "key" in line:
            return True, {"key": key, "response": made}
        return True, {"custom_id": key, "response": {"status_code": 200, "body": made}, "error": None}


async def run(
    name: str, fault: Fault, server: Server, *, embedding: bool = False, batches: Batches | None = None
) -> tuple[str, Engine]:
    """Three questions under a cap of about two; returns what is wrong with the books, and the engine, still open."""
    wire = (EMBEDDERS if embedding else CHATS)[name]
    biller = Biller(wire, fault)
    if isinstance(server, BatchBiller):
        server.biller = biller
    else:
        server.handler = biller
    model, _, way = name.partition(" ")
    bare = wire in (GEMINI, CLAUDE, VALUES) or model.startswith("azure/")
    made = {
        "model": model,
        "base_url": server.url if bare else server.openai,
        "options": OPTIONS.get(way.rpartition(" ")[2], {}),
    }
    config = load_config(
        None,
        {
            "captioner": made,
            "embedder": made if embedding else "default",
            "prices": {model.partition("/")[2]: {"input": RATE, "output": RATE}},
            "limits": {"timeout": 0.25 if fault.name == "no answer in time" else 60.0},
        },
    )
    roles = Roles(config, batches=batches)
    role = roles.embedder_role() if embedding else roles["captioner"]
    engine = Engine(roles, PromptLibrary())

    def request(text: str) -> Request:
        turn = Message("user", (text,))
        return engine.request(role, (turn,), template="t", item_id="i", schema=None, params={"max_tokens": 60})

    first = QUESTIONS[0]
    worst = role.cost(Usage(input=len(first)) if embedding else role.provider.usage_bound(request(first)))
    cap = 2.2 * worst
    engine.sender.budget = budget = Budget(cap)
    asked = [engine.embed([each]) if embedding else engine.answer(role, request(each)) for each in QUESTIONS]
    for found in await asyncio.gather(*asked, return_exceptions=True):
        expected = isinstance(found, Unanswered | BudgetExhausted | FatalProviderError)
        assert expected or not isinstance(found, BaseException), found
    ledger = budget.spent + budget.uncertain
    good = fault.name == "a good answer"
    wrong = ledger < biller.bill - 1e-9 or biller.bill > cap or ledger > cap + 1e-9
    wrong |= (not fault.billed and ledger > 0) or (good and not (budget.spent and not budget.uncertain))
    line = f"{fault.name}: server ${biller.bill:.4f}, spent ${budget.spent:.4f}, uncertain ${budget.uncertain:.4f}, cap ${cap:.4f}"
    return line if wrong else "", engine


def check(name: str, faults: list[Fault], *, embedding: bool = False) -> None:
    async def work(server: Server) -> list[str]:
        done = [await run(name, fault, server, embedding=embedding) for fault in faults]
        for _, engine in done:
            await engine.aclose()
        return [wrong for wrong, _ in done if wrong]

    with Server() as server:
        wrong = asyncio.run(work(server))
    assert not wrong, "\n".join([name, *wrong])


SLOW = {name: pytest.mark.slow for name in CHATS if name.startswith("litellm/")}  # its import alone takes seconds


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in CHATS])
def test_no_fault_of_a_chat_model_is_booked_below_its_bill(name: str) -> None:
    check(name, FAULTS)


@pytest.mark.parametrize("name", EMBEDDERS)
def test_no_fault_of_an_embedder_is_booked_below_its_bill(name: str) -> None:
    check(name, FAULTS, embedding=True)


FIRST = ["a good answer", "no usage", "usage null", "usage a list", "an error inside", "model a number"]
IN_JOBS = [each for each in FAULTS if each.name in FIRST or each.name.startswith(("counts", "text", "empty text"))]


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize("name", ["openai/gpt-4o", "gemini/gemini-2.5-pro"])
def test_no_fault_of_a_batch_job_is_booked_below_its_bill(name: str, tmp_path: Path) -> None:
    async def work(server: Server) -> list[str]:
        wrong = []
        for number, fault in enumerate(IN_JOBS):
            batches = Batches(tmp_path / str(number), pace=BatchTiming(poll=0.01, idle=0.02, settle=0.0))
            line, engine = await run(name, fault, server, batches=batches)
            await engine.aclose()
            wrong += [line] if line else []
        return wrong

    assert len(IN_JOBS) > 12
    with BatchBiller() as server:
        wrong = asyncio.run(work(server))
    assert not wrong, "\n".join([name, *wrong])
