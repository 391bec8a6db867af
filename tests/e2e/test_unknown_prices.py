"""Where nobody knows a price, no output says $0: not the terminal, results.json, the manifest, the report or the list of runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from builders import described_images
from commands import cli

from tests.kit import Scripted, Server
from titjudge.core.words import spending
from titjudge.report.model import load
from titjudge.report.provenance import failures
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.web.view.runs import Runs

GOOD = json.dumps({"reason": "r", "score": 50})
CHAT = {"index": 0, "message": {"role": "assistant", "content": GOOD}, "finish_reason": "stop"}
DOORS = ["openai/house-model", "litellm/openai/house-model"]


def answer(**usage: Any) -> Scripted:
    said = {"prompt_tokens": 400, "completion_tokens": 20, "total_tokens": 420, **usage}
    return Scripted(body={"id": "x", "object": "chat.completion", "created": 1, "model": "house-model", "choices": [CHAT], "usage": said})  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return described_images(tmp_path / "data", 3)


def judge(data: Path, model: str, url: str, *more: str) -> str:
    arguments = ["judge", "--data", "data", "--metric", "lmm-score", "--captioner", model, "--out", "runs/one", *more]
    base = ["--base-url", url] if url else []
    return cli(data.parent, *arguments, *base, OPENAI_API_KEY="sk-test-0123456789")


def state(data: Path) -> tuple[Any, Any]:
    (run,) = Runs(data.parent / "runs").states()
    return run.spent, run.unpriced


@pytest.mark.parametrize("model", DOORS)
def test_an_unknown_price_is_called_unknown_everywhere(data: Path, model: str) -> None:
    with Server(lambda seen: answer()) as server:
        for _ in range(2):  # the second time nothing is asked, and the ledger remembers
            said = judge(data, model, server.openai)
            assert "spent unknown (list price of all answers used: unknown" in said
            assert "--price" in said or "unknown" in said
            assert "$0" not in said
    folder = data.parent / "runs" / "one"
    for name in ("results.json", "manifest.json"):
        record = json.loads((folder / name).read_text("utf-8"))
        assert (record["spent"], record["list_cost"], record["unpriced"]) == (None, None, 3)
    assert state(data) == (None, 3)
    cli(data.parent, "report", "runs/one", "--format", "markdown", "--out", "one.md")
    assert "spent unknown, list price unknown" in (data.parent / "one.md").read_text("utf-8")
    cli(data.parent, "verify", "runs/one")


def test_the_report_says_it_for_the_run_and_for_each_role(data: Path) -> None:
    with Server(lambda seen: answer()) as server:
        judge(data, "openai/house-model", server.openai)
    *_, cost = failures(load([RunFolder(data.parent / "runs" / "one")])).tables
    table = json.dumps([cost.plain_rows, cost.notes])
    assert table.count("unknown") == 3  # the role, the run, and the list price in the note
    assert "$0" not in table


def test_a_price_that_the_server_tells_is_known(data: Path) -> None:
    with Server(lambda seen: answer(cost=0.0421)) as server:
        said = judge(data, "openai/house-model", server.openai)
    assert "spent $0.1263 (list price of all answers used: $0.1263)" in said
    assert "unknown" not in said
    assert state(data) == (0.1263, 0)


def test_a_sum_that_holds_a_part_only_says_so(data: Path) -> None:
    costs = [{"cost": 0.04}, {}, {}]
    with Server(lambda seen: answer(**costs[int(seen.text.partition("thing ")[2][0])])) as server:
        said = judge(data, "openai/house-model", server.openai)
    assert "spent at least $0.0400 (list price of all answers used: at least $0.0400)" in said
    assert "2 requests are not in the total" in said
    assert state(data) == (0.04, 2)


def test_two_roles_of_one_model_have_one_note(data: Path) -> None:
    with Server(lambda seen: answer()) as server:
        said = judge(
            data,
            "openai/house-model",
            server.openai,
            "--metric",
            "tit-llm",
            "--judge",
            "openai/house-model",
            "--min-coverage",
            "0",
        )
    assert said.count("requests are not in the total") == 1
    assert f"its {state(data)[1]} requests" in " ".join(said.split())


def test_a_model_of_this_machine_and_a_price_of_zero_cost_nothing(data: Path) -> None:
    assert "spent $0.0000" in judge(data, "fake", "")
    with Server(lambda seen: answer()) as server:
        more = ("--price", "house-model=0,0", "--out", "runs/two")
        assert "spent $0.0000" in judge(data, "openai/house-model", server.openai, *more)


def test_words_of_sums() -> None:
    assert [spending(value, unpriced) for value, unpriced in ((None, 0), (0.5, 0), (0.5, 3), (None, 3), (0.0, 3))] == [
        *("–", "$0.5000", "at least $0.5000", "unknown", "unknown")
    ]
