"""Runs of the agentic judge with native tools, its options from the command line, batch jobs and verification."""

import asyncio
import contextlib
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from agent_answers import split
from batch_server import BatchServer
from PIL import Image

from tests.kit import Scripted, Seen, Server
from tests.kit.wires import openai_answer, read
from titjudge.cli.commands import run_command
from titjudge.core import registry
from titjudge.core.config import RoleConfig, RunConfig, load_config
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import score_item
from titjudge.metrics.agent.metric import tit_agent
from titjudge.providers.batch.provider import Batches, BatchTiming
from titjudge.runs.check.verify import verify
from titjudge.runs.folder.identity import default_folder
from titjudge.runs.offline.batch import export, import_answers
from titjudge.runs.resolve import resolve
from titjudge.runs.session import Session

PROMPT = "A blue bowl holds three oranges on a wooden table."
CLAIMS = [
    ("There is a bowl", "entity", "macro", "A blue bowl"),
    ("The bowl is blue", "attribute", "micro", "blue"),
    ("The bowl holds three oranges", "attribute", "micro", "three oranges"),
]


NOTHING = SimpleNamespace(cached_tokens=0, reasoning_tokens=0)


def tools_in(seen: Seen) -> bool:
    return "read_text" in json.dumps(seen.body.get("tools") or [])


def handler(seen: Seen) -> Scripted | str:
    """Both roles; the orchestrator asks one question a round, zooms once, and settles all when it has looked three times."""
    if seen.images:
        return f"A bowl ({seen.digest.hex()[:6]})."
    if "Take the prompt below apart" in seen.text:
        return split(CLAIMS)
    looked = len(set(re.findall(r"\bE(\d+) \w+\(", seen.text)))
    done = looked >= 3 or "No look is left" in seen.text
    verdicts = [{"claim": n, "verdict": "met", "evidence": f"E{looked}"} for n in (1, 2, 3)] if done else []
    looks: list[tuple[str, Any]] = [] if done else [
        ("ask", {"question": f"what is number {looked}?"}) if looked == 1 else ("zoom", {"question": "what?", "box": [0, 0, 0.5, 0.5]})
    ]  # fmt: skip
    if tools_in(seen):
        return Scripted("", calls=[*([("settle", {"verdicts": verdicts})] if verdicts else []), *looks])
    listed = [{"tool": tool, **given} for tool, given in looks]
    return json.dumps({"thought": "", "settle": verdicts, "looks": listed})


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(2):
        Image.new("RGB", (200, 200), (number * 90, 1, 2)).save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text(PROMPT)
    monkeypatch.setenv("TITJUDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.chdir(tmp_path)
    return folder


@dataclass(frozen=True)
class Result:
    exit_code: int
    output: str


def shell(*arguments: str) -> Result:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run_command("titjudge", list(arguments))
    return Result(code, said.getvalue())


def command(folder: Path, server: Server, *more: str, tools: bool = True) -> list[str]:
    role = {"model": "openai/gpt-4o", "base_url": server.openai, "options": {"tools": tools}}
    (folder / "run.yaml").write_text(json.dumps({"captioner": role, "judge": role, "report": False}))
    return [
        "judge",
        "--data",
        str(folder / "data"),
        "--config",
        str(folder / "run.yaml"),
        "--metric",
        "tit-agent",
        *more,
    ]


def scores(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "scores.jsonl").read_bytes().splitlines()
    return {record["item"]: record for record in map(orjson.loads, lines)}


@pytest.mark.parametrize("tools", [True, False])
def test_a_run_with_few_looks_is_another_run_and_verifies(
    tmp_path: Path, data: Path, tools: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(handler) as server:
        given = command(
            tmp_path, server, "--set", "tit-agent.max_looks=2", "--set", "tit-agent.max_cost=5", tools=tools
        )
        done = shell(*given, "--out", "run")
        assert done.exit_code == 0, done.output
        assert any(map(tools_in, server.requests)) is tools
        asked = server.count()
        assert shell(*given, "--out", "run").exit_code == 0
        assert server.count() == asked
        other = shell(*command(tmp_path, server, "--set", "tit-agent.max_looks=3", tools=tools), "--out", "run")
        assert other.exit_code == 2
        assert "another metric_options" in other.output
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["identity"]["metric_options"] == {"tit-agent": {"max_looks": 2, "max_cost": 5.0}}
    assert manifest["metrics"]["tit-agent"]["options"] == {"max_looks": 2, "max_cost": 5.0}
    for record in scores(tmp_path / "run").values():
        assert (record["value"], record["parts"]["max_looks"], record["parts"]["stopped"]) == (100, 2, "covered")
        assert record["parts"]["protocol"] == ("tools" if tools else "json")
        assert record["parts"]["counts"]["looks"] == 2
    monkeypatch.delenv("OPENAI_API_KEY")
    found = verify(tmp_path / "run")
    assert found.holds, found.problems


def test_looks_change_what_a_dry_run_expects(tmp_path: Path, data: Path) -> None:
    with Server(handler) as server:
        requests = []
        for looks in ("1", "2", "8"):
            assert (
                shell(
                    *command(tmp_path, server, "--set", f"tit-agent.max_looks={looks}"),
                    "--dry-run",
                    "--json",
                    "out.json",
                ).exit_code
                == 0
            )
            requests.append(json.loads(Path("out.json").read_text())["roles"]["captioner"]["requests"])
        assert server.count() == 0
    assert requests[0] < requests[1] == requests[2]  # one look beside the description is expected


def test_the_same_options_are_the_same_run_wherever_they_are_given(tmp_path: Path, data: Path) -> None:
    base = {"data": data, "captioner": "openai/gpt-4o", "judge": "openai/gpt-4o", "metrics": ["tit-agent"]}

    def folder(**more: Any) -> str:
        return default_folder(resolve(load_config(None, base | more)).config).name

    typed, filed = ({"metric_options": {"tit-agent": {"max_looks": value}}} for value in ("12", 12))
    assert folder(**typed) == folder(**filed) != folder()
    assert folder() == folder(metric_options={})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--set", "tit-agent.max_look=3"], "unknown option 'max_look' of tit-agent. Did you mean 'max_looks'? Known: max_looks (default 8), max_cost"),
        (["--set", "tit-agent.max_looks=many"], "the option tit-agent.max_looks must be a valid integer"),
        (["--set", "tit-agent.max_looks=65"], "the option tit-agent.max_looks must be less than or equal to 64"),
        (["--set", "tit-agent.max_cost=-1"], "the option tit-agent.max_cost"),
        (["--set", "max_looks=3"], "--set max_looks: unknown key"),
        (["--set", "tit-agent.max_looks"], "must be KEY=VALUE"),
        (["--set", "tit-agnt.max_looks=3"], "--set tit-agnt.max_looks: unknown key. Did you mean 'tit-agent'?"),
        (["--set", "tit.max_looks=3"], "options are given for tit, but the metrics are tit-agent"),
        (["--metric", "tit-llm", "--set", "tit-llm.top=3"], "unknown option 'top' of tit-llm. Known: none"),
    ],
)  # fmt: skip
def test_options_that_are_none_are_named(tmp_path: Path, data: Path, given: list[str], message: str) -> None:
    with Server(handler) as server:
        done = shell(*command(tmp_path, server, *given))
        assert server.count() == 0
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_options_of_the_python_interface(tmp_path: Path, data: Path) -> None:
    from titjudge import Judge

    role = {"model": "openai/gpt-4o", "options": {"tools": True}}
    with Server(handler) as server:
        role["base_url"] = server.openai
        with Judge("tit-agent", captioner=role, judge=role, metric_options={"tit-agent": {"max_looks": 2}}) as judge:
            score = judge.score(data / "0.png", PROMPT)
    assert (score.value, score.parts["max_looks"], score.parts["protocol"]) == (100, 2, "tools")


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize("model", ["openai/gpt-4o", "gemini/gemini-2.5-pro"])
def test_batch_jobs_carry_tools(tmp_path: Path, data: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "test-key-0123456789")
    with BatchServer(handler) as server:
        address = server.openai if model.startswith("openai") else server.url
        role = RoleConfig(model=model, base_url=address, options={"tools": True})
        config = RunConfig(data=data, captioner=role, judge=role)
        batches = Batches(tmp_path / "batches", pace=BatchTiming(poll=0.02, idle=0.05, settle=0.0))

        async def run() -> Any:
            def make(which: RoleConfig) -> Any:
                return batches.wrap(registry.load("providers", which.provider)(which.settings(60)))

            cache = AnswerCache(tmp_path / "cache")
            engine = Engine(Roles(config, make=make), PromptLibrary(None), cache)
            try:
                return await asyncio.wait_for(
                    score_item(engine, Item("0", PROMPT, data / "0.png"), "tit-agent", tit_agent), 30
                )
            finally:
                await engine.aclose()
                cache.close()

        score = asyncio.run(run())
        lines = [tools_in(line) for line in server.lines]
    assert (score.value, score.parts["protocol"], score.parts["counts"]["looks"]) == (100, "tools", 3)
    assert lines.count(True) == 3
    assert lines.count(False) == 1 + 3


def test_offline_batches_carry_tools_and_bring_calls_back(tmp_path: Path, data: Path) -> None:
    """Export, answer what is in the file, import, and again, until nothing is left to ask."""
    role = {"model": "openai/gpt-4o", "base_url": "http://127.0.0.1:9/v1", "options": {"tools": True}}
    config = load_config(
        None, {"data": data, "captioner": role, "judge": role, "metrics": ["tit-agent"], "report": False}
    )
    offered: list[bool] = []
    for number in range(9):
        exported = export(Session(config), tmp_path / f"ask-{number}.jsonl")
        if not exported.requests:
            break
        answers = []
        for line in map(orjson.loads, (tmp_path / f"ask-{number}.jsonl").read_bytes().splitlines()):
            seen = read("POST", line["url"], {}, orjson.dumps(line["body"]))
            offered.append(tools_in(seen))
            said = handler(seen)
            scripted = said if isinstance(said, Scripted) else Scripted(said)
            body = openai_answer(seen, scripted.text or "", scripted, NOTHING)
            answers.append({"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}})
        (tmp_path / "answers.jsonl").write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in answers))
        assert import_answers(Session(config), tmp_path / "answers.jsonl").imported == len(answers)
    outcome = Session(config).run()
    assert [record["value"] for record in scores(outcome.folder).values()] == [100, 100]
    assert offered.count(True) == 2 * 3


def test_an_imported_call_answers_no_question_without_tools(tmp_path: Path, data: Path) -> None:
    role = {"model": "openai/gpt-4o", "base_url": "http://127.0.0.1:9/v1"}
    config = load_config(None, {"data": data, "captioner": role, "judge": role, "metrics": ["tit-llm"]})
    export(Session(config), tmp_path / "ask.jsonl")
    line = orjson.loads((tmp_path / "ask.jsonl").read_bytes().splitlines()[0])
    seen = read("POST", line["url"], {}, orjson.dumps(line["body"]))
    body = openai_answer(seen, "", Scripted("", calls=[("ask", {"question": "?"})]), NOTHING)
    record = {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": body}}
    (tmp_path / "answers.jsonl").write_bytes(orjson.dumps(record))
    found = import_answers(Session(config), tmp_path / "answers.jsonl")
    assert (found.imported, len(found.unusable)) == (0, 1)
