"""Tokens that only a total shows, or far beyond the limit, and costs that a server tells: the ledger holds the server's bill, and says so."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer
from builders import described_images

from tests.kit import Scripted, Seen, Server
from tests.kit.wires import embeddings
from titjudge.core.config import load_config
from titjudge.core.types import Usage
from titjudge.providers.batch import provider as batch
from titjudge.providers.usage import MOST_TOKENS, believed, billed_cost, gemini_usage, openai_usage
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.outcome import Outcome
from titjudge.runs.session import Session

pytestmark = [
    pytest.mark.usefixtures("quick_retries", "keys_of_nobody"),
    pytest.mark.slow,  # many in all, each of them short
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]
RATE = 10.0  # USD per million tokens
TEXT = json.dumps({"reason": "r", "score": 50})


@dataclass(frozen=True)
class Case:
    """What a server says of an answer with so many tokens of input and output: OpenAI's `usage`, Google's, headers."""

    bill: float  # USD
    openai: dict[str, Any]
    google: dict[str, Any] | None = None
    headers: tuple[tuple[str, str], ...] = ()
    is_over: bool = True  # the bill is more than the request allowed


def counts(sent: Any, out: Any, total: Any, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": sent, "completion_tokens": out, "total_tokens": total, **more}


def google(sent: Any, out: Any, total: Any, **more: Any) -> dict[str, Any]:
    return {"promptTokenCount": sent, "candidatesTokenCount": out, "totalTokenCount": total, **more}


FEW = counts(400, 20, 420)
CASES = {
    "thinking in the total alone": Case(0.084, counts(400, 20, 8400), google(400, 20, 8400)),
    "thinking beside the completion, an odd total": Case(
        0.084,
        counts(400, 20, 8420, completion_tokens_details={"reasoning_tokens": 7980}),
        google(400, 20, 8420, thoughtsTokenCount=7980),
    ),
    "thinking beside the completion, no total": Case(
        0.084, {**counts(400, 20, None), "completion_tokens_details": {"reasoning_tokens": 7980}}
    ),
    "a hundred times the limit": Case(0.604, counts(400, 60_000, 60_400), google(400, 60_000, 60_400)),
    "three times the limit": Case(0.094, counts(400, 9000, 9400), google(400, 9000, 9400)),
    "a dearer cost": Case(0.5, {**FEW, "cost": 0.5}),
    "a dearer cost, as text": Case(0.5, {**FEW, "cost": "0.5"}),
    "a dearer cost in parts": Case(0.5, {**FEW, "cost": {"request_cost": 0.4, "total_cost": 0.5}}),
    "a fee on a key of one's own": Case(
        0.5, {**FEW, "cost": 0.1, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.4}}
    ),
    "a dearer cost in a header": Case(0.5, FEW, google(400, 20, 420), (("x-litellm-response-cost", "0.5"),)),
    "a cost without tokens": Case(0.5, {"cost": 0.5}),
    "a cheaper cost": Case(0.0042, {**FEW, "cost": 0.0001}, is_over=False),
    "costs that are none": Case(0.0042, {**FEW, "cost": -5, "is_byok": True, "cost_details": []}, is_over=False),
    "the text of no number": Case(0.0042, {**FEW, "cost": "NaN"}, None, (("x-litellm-response-cost", "inf"),), False),
}
MODELS = ["openai/judge-1", "gemini/gemini-2.5-pro", "litellm/openai/judge-1"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return described_images(tmp_path / "data", 12)


def body_of(case: Case, wire: str, text: str = TEXT) -> dict[str, Any]:
    if wire == "gemini":
        candidate = {"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}
        return {"candidates": [candidate], "usageMetadata": case.google, "modelVersion": "gemini-2.5-pro"}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "judge-1", "choices": [choice], "usage": case.openai}  # fmt: skip


def judged(data: Path, server: Server, model: str, **more: Any) -> Outcome:
    role = {"model": model, "base_url": server.url if model.startswith("gemini") else server.openai, "max_tokens": 100}
    prices = {model.partition("/")[2]: {"input": RATE, "output": RATE}}
    limits = {"max_cost": 1.0, "concurrency": 2, **more.pop("limits", {})}
    settings = {
        "data": data,
        "metrics": ["lmm-score"],
        "captioner": role,
        "prices": prices,
        "limits": limits,
        "report": False,
    }
    return Session(
        load_config(None, {"cache": data.parent / "cache", "out": data.parent / "run", **settings, **more})
    ).run()


def check(data: Path, run: Callable[[], Outcome], case: Case, answers: Callable[[], int]) -> None:
    """The ledger holds the bill; an overrun is said by the run, by the same command again, and in results.json."""
    first = run()
    money = RunFolder(data.parent / "run").money()
    assert answers() > 0
    assert money.spent + money.uncertain >= answers() * case.bill - 1e-9
    assert (money.overrun > 0) is case.is_over or "candidates" in str(case.google)  # Gemini has room for thinking
    if not money.overrun:
        assert money.spent == pytest.approx(answers() * case.bill, rel=0.01)
        return
    for outcome in (first, run()):
        notes = [note for note in outcome.warnings if note.id == "cap_passed"]
        assert len(notes) == 1
        assert notes[0] in json.loads((data.parent / "run" / "results.json").read_text("utf-8"))["warnings"]
    replies = list(RunFolder(data.parent / "run").replies())
    assert {"usage-odd" in reply["flags"] or reply["usage"][5:] == [case.bill] for reply in replies} == {True}


LIVE = [(model, name) for model in MODELS for name, case in CASES.items() if case.google or "gemini" not in model]


@pytest.mark.parametrize(("model", "name"), LIVE)
def test_the_ledger_holds_what_the_server_bills(data: Path, model: str, name: str) -> None:
    case = CASES[name]
    body = body_of(case, model.partition("/")[0])
    with Server(lambda seen: Scripted(body=body, headers=dict(case.headers))) as server:
        check(data, lambda: judged(data, server, model), case, server.count)


@pytest.mark.parametrize(("model", "name"), [(m, n) for m, n in LIVE if not CASES[n].headers and "litellm" not in m])
def test_the_ledger_holds_what_a_batch_job_bills(
    data: Path, model: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = batch.BatchTiming(poll=0.01, idle=0.02, settle=0.0)
    monkeypatch.setattr(batch, "BatchTiming", lambda *given: timing)
    case = CASES[name]

    class Jobs(BatchServer):
        def _worked(self, line: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
            self.good[line.get("custom_id") or line["key"]] += 1
            body = body_of(case, model.partition("/")[0])
            if "key" in line:
                return True, {"key": line["key"], "response": body}
            return True, {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}, "error": None}

    with Jobs() as server:
        run = partial(judged, data, server, model, limits={"batch": True})
        check(data, run, case, server.paid)


@pytest.mark.parametrize("usage", [counts(1, None, 9000), {"total_tokens": 9000}, {"prompt_tokens": 4, "cost": 0.09}])
def test_the_ledger_holds_what_an_embedder_bills(data: Path, usage: dict[str, Any]) -> None:
    def answer(seen: Seen) -> Scripted:
        if seen.api == "openai":
            return Scripted(body=body_of(Case(0.0, FEW), "openai", "a description"))
        return Scripted(body={**embeddings(seen), "usage": usage})

    with Server(answer) as server:
        embedder = {"model": "openai/vectors", "base_url": server.openai}
        prices = {"judge-1": {"input": RATE, "output": RATE}, "vectors": {"input": RATE, "output": 0}}
        outcome = judged(data, server, "openai/judge-1", metrics=["tit"], embedder=embedder, prices=prices)
        bill = 0.09 * server.count("embeddings") + 0.0042 * server.count("openai")
    assert RunFolder(data.parent / "run").money().spent >= bill - 1e-9
    assert any(note.id == "cap_passed" for note in outcome.warnings)


def test_a_bill_of_a_server_whose_price_nobody_knows_exceeds_nothing(data: Path) -> None:
    case = CASES["a dearer cost"]
    with Server(lambda seen: Scripted(body=body_of(case, "openai"))) as server:
        outcome = judged(data, server, "openai/judge-1", prices={}, limits={"max_cost": None})
        bill = server.count() * case.bill
    money = RunFolder(data.parent / "run").money()
    assert (money.spent, money.overrun) == (pytest.approx(bill), 0)
    assert not any(note.id == "cap_passed" for note in outcome.warnings)


def test_an_answer_that_cannot_be_used_is_booked_at_what_the_server_bills(data: Path) -> None:
    case = Case(0.604, counts(400, 60_000, 60_400))
    with Server(lambda seen: Scripted(body=body_of(case, "openai", ""))) as server:
        outcome = judged(data, server, "openai/judge-1")
        bill = server.count() * case.bill
    assert RunFolder(data.parent / "run").money().spent == pytest.approx(bill)
    assert any(note.id == "cap_passed" for note in outcome.warnings)


def test_no_more_is_sent_once_answers_have_cost_more_than_was_held(data: Path) -> None:
    case = CASES["a hundred times the limit"]
    with Server(lambda seen: Scripted(body=body_of(case, "openai"))) as server:
        judged(data, server, "openai/judge-1", limits={"max_cost": 0.5, "concurrency": 2})
        assert server.count() <= 3  # one more than were out when the first answer came; ten had room before


@pytest.mark.parametrize("usage", [counts(400, 10**15, 10**15), {**FEW, "cost": 1e300}])
def test_what_no_request_can_cost_is_booked_at_the_most_it_may_and_said(data: Path, usage: dict[str, Any]) -> None:
    with Server(lambda seen: Scripted(body=body_of(Case(0.0, usage), "openai"))) as server:
        outcome = judged(data, server, "openai/judge-1", limits={"max_cost": 5.0})
    assert outcome.status == "complete"
    assert 0 < RunFolder(data.parent / "run").money().spent < 5.0
    assert any("12 answers what no request can use" in note for note in outcome.warnings)


def test_of_two_readings_the_dearer_one_holds() -> None:
    bound = Usage(1000, 100)
    assert openai_usage(counts(10, 5, 45)) == Usage(10, 35)
    assert openai_usage(counts(10, 50, 60, completion_tokens_details={"reasoning_tokens": 30})) == Usage(10, 50, 0, 30)
    assert openai_usage(counts(10, 50, 3)) == Usage(10, 50)
    assert gemini_usage(google(10, 5, 45)) == Usage(10, 35)
    assert believed(Usage(400, MOST_TOKENS - 400), bound) == (Usage(400, MOST_TOKENS - 400), True)
    assert believed(Usage(400, MOST_TOKENS), bound) == (bound, True)
    assert believed(Usage(400, 90, cost=3.0), bound) == (Usage(400, 90, cost=3.0), False)
    assert billed_cost({"cost": True}, {}) is None
    assert billed_cost({"cost": 0}, {}) == 0.0
    assert billed_cost([], {"x-litellm-response-cost": "0.0"}) is None  # a proxy that knows no price
    assert billed_cost({"cost": 0.1}, {"x-litellm-response-cost": "0.3"}) == 0.3
