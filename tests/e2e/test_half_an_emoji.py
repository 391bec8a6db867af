"""Half an emoji (a lone surrogate, as a JSON escape) in any text that a server writes: the run ends as ever, and pays once."""

import json
import pickle
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
from batch_server import BatchServer
from builders import described_images
from PIL import Image
from serving import serving

from tests.kit import Scripted, Seen, Server
from titjudge.core.config import load_config
from titjudge.core.serialization import checksum, json_bytes, without_surrogates
from titjudge.providers.batch import provider
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.outcome import Outcome
from titjudge.runs.session import Session

pytestmark = [
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
    pytest.mark.usefixtures("quick_retries", "keys_of_nobody"),
]
HALF = "half \ud83d"
VERDICT = json.dumps({"reason": "r", "score": 50})
HALF_VERDICT = json.dumps({"reason": HALF, "score": 50})  # the escape is inside the JSON text
USAGE = {"prompt_tokens": 400, "completion_tokens": 9, "total_tokens": 409}
CALL = {"id": HALF, "type": "function", "function": {"name": HALF, "arguments": HALF}}


def chat(**more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": VERDICT}, "finish_reason": "stop"}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": USAGE,
        **more,
    }


def choice(message: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    made = chat()
    made["choices"][0].update(deepcopy(more))
    made["choices"][0]["message"].update(message or {})
    return made


def gemini(candidate: dict[str, Any] | None = None, text: str = VERDICT, **more: Any) -> dict[str, Any]:
    first = {"content": {"parts": [{"text": text}]}, "finishReason": "STOP", **(candidate or {})}
    usage = {"promptTokenCount": 400, "candidatesTokenCount": 9, "totalTokenCount": 409}
    return {"candidates": [first], "usageMetadata": usage, "modelVersion": "m", **more}


CHAT: dict[str, Any] = {
    "content": choice({"content": f"x {HALF}"}),
    "reason in the verdict": choice({"content": HALF_VERDICT}),
    "refusal": choice({"content": None, "refusal": HALF}),
    "finish reason": choice(finish_reason=HALF),
    "model": chat(model=f"m {HALF}"),
    "fingerprint": chat(system_fingerprint=HALF),
    "tool call": choice({"content": None, "tool_calls": [CALL]}),
    "unknown form": {"hello": HALF},
    "an error inside": {"error": {"message": HALF, "code": 400}},
}
GEMINI: dict[str, Any] = {
    "text": gemini(text=f"x {HALF}"),
    "reason in the verdict": gemini(text=HALF_VERDICT),
    "model version": gemini(modelVersion=HALF),
    "finish reason": gemini({"finishReason": HALF}),
    "finish message": gemini({"finishReason": "SAFETY", "finishMessage": HALF}),
    "block reason": gemini(promptFeedback={"blockReason": HALF}),
}
ERRORS: dict[str, Any] = {
    "error message": {"error": {"message": HALF, "code": 400, "status": "INVALID"}},
    "error type": {"error": {"message": "m", "type": HALF, "code": HALF, "status": HALF}},
}
WIRES: dict[str, dict[str, Any]] = {
    "openai/gpt-4o": CHAT,
    "gemini/gemini-2.5-pro": GEMINI,
    "litellm/openai/gpt-4o": CHAT,
}
LIVE = [(model, field, 200) for model, fields in WIRES.items() for field in fields]
LIVE += [(model, field, 400) for model in WIRES for field in ERRORS]
BATCH = [(model, field) for model in ("openai/gpt-4o", "gemini/gemini-2.5-pro") for field in WIRES[model]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return described_images(tmp_path / "data", 2)


def judged(data: Path, server: Server, model: str, **more: Any) -> Outcome:
    role = {"model": model, "base_url": server.url if model.startswith("gemini") else server.openai}
    prices = {model.partition("/")[2]: {"input": 10, "output": 10}}
    settings = {"data": data, "metrics": ["lmm-score"], "captioner": role, "prices": prices, "out": data.parent / "run"}
    return Session(load_config(None, {"cache": data.parent / "cache", **settings, **more})).run()


def check(data: Path, run: Callable[[], Outcome], paid: Callable[[], int], field: str) -> None:
    """The run ends with a result; repeated, it pays nothing again for what it has an answer to."""
    first = run()
    assert first.status == "complete"
    before = paid()
    assert run().status == "complete"
    folder = RunFolder(data.parent / "run")
    assert len(folder.scores()) == 2
    assert (folder.path / "report.html").is_file()
    assert json.loads((folder.path / "results.json").read_text("utf-8"))["items"] == 2
    scores = list(folder.scores().values())
    assert [score.value for score in scores] == [50.0] * 2 or field not in GOOD
    assert paid() == before or field in NOT_KEPT


GOOD = ("model", "fingerprint", "model version", "reason in the verdict")


NOT_KEPT = ("unknown form", "an error inside", "tool call", *ERRORS)


@pytest.mark.parametrize(("model", "field", "status"), LIVE)
def test_a_run_ends_and_pays_once(data: Path, model: str, field: str, status: int) -> None:
    body = json.dumps((WIRES[model] if status == 200 else ERRORS)[field]).encode()  # keeps the escape
    with Server(lambda seen: Scripted(status=status, body=body)) as server:
        check(data, lambda: judged(data, server, model), server.count, field)


class JobsOf(BatchServer):
    """Answers every line of a job by one body, written as Python writes JSON: with the escape."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body

    def _worked(self, line: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
        self.good[line.get("custom_id") or line["key"]] += 1
        if "key" in line:
            return True, {"key": line["key"], "response": self.body}
        return True, {
            "custom_id": line["custom_id"],
            "response": {"status_code": 200, "body": self.body},
            "error": None,
        }


@pytest.mark.parametrize(("model", "field"), BATCH)
def test_a_batch_job_ends_and_is_paid_once(data: Path, model: str, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    timing = provider.BatchTiming(poll=0.01, idle=0.02, settle=0.0)
    monkeypatch.setattr(provider, "BatchTiming", lambda *given: timing)
    with JobsOf(WIRES[model][field]) as server:
        run = partial(judged, data, server, model, limits={"batch": True})
        check(data, run, server.paid, field)


@pytest.mark.parametrize("model", ["openai/text-embedding-3-small", "gemini/gemini-embedding-001"])
@pytest.mark.parametrize("status", [200, 400])
def test_an_embedder_that_answers_so_fails_its_texts_alone(data: Path, model: str, status: int) -> None:
    def answer(seen: Seen) -> Scripted | str:
        if seen.api == "openai":
            return "a description"
        return Scripted(status=status, body=json.dumps({"error": {"message": HALF, "code": status}}).encode())

    with Server(answer) as server:
        base = server.url if model.startswith("gemini") else server.openai
        embedder = {"model": model, "base_url": base}
        run = partial(judged, data, server, "openai/gpt-4o", metrics=["tit"], embedder=embedder)
        assert run().status == run().status == "complete"
    assert {str(score.status) for score in RunFolder(data.parent / "run").scores().values()} == {"failed"}


@pytest.mark.parametrize("key", ["prompts", "meta_datas"])
def test_a_prompt_of_a_pickle_is_judged(tmp_path: Path, key: str) -> None:
    picture = tmp_path / "0.png"
    Image.new("RGB", (16, 16), (1, 30, 90)).save(picture)
    prompt: Any = HALF if key == "prompts" else {"prompt": HALF}
    body = pickle.dumps({"images": [picture.read_bytes()], key: [prompt]}, protocol=4)
    with Server(lambda seen: VERDICT) as server, serving(server.openai, tmp_path) as address:
        answer = requests.post(f"{address}/lmm-score", data=body, timeout=60)
        assert answer.status_code == 200
        assert pickle.loads(answer.content)["scores"] == [50.0]  # noqa: S301
        assert "half ?" in server.last.text


def test_what_is_written_has_question_marks_in_their_place() -> None:
    record = {HALF: [HALF, ("a", {"b": HALF}), 1, None, "ä 🐈"]}
    clean = {"half ?": ["half ?", ["a", {"b": "half ?"}], 1, None, "ä 🐈"]}
    assert without_surrogates(record) == json.loads(json_bytes(record)) == clean
    assert checksum({"a": HALF}) == checksum({"a": "half ?"})
    with pytest.raises(TypeError):
        json_bytes({"a": object()})
