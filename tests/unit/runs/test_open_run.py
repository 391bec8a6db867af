import ast
import asyncio
import errno
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import image_file, read_lines, write_lines
from known_answers import first_prompt

import titjudge
from tests.kit import Scripted, Seen, Server
from titjudge.apps.prompt_sets.audit import audit_prompts
from titjudge.apps.rewards.server import Rewards
from titjudge.core.config import RunConfig, load_config
from titjudge.core.errors import CacheWriteError, ConfigError, FatalProviderError, UserError
from titjudge.core.files import Appender
from titjudge.core.serialization import with_checksum
from titjudge.providers.retirements import OTHER_MODEL
from titjudge.report.card_record import CardRecord as Card
from titjudge.runs import Judge, RunFolder, Session
from titjudge.runs.open_run import OpenRun
from titjudge.runs.probe_run import run_probe
from titjudge.runs.resolve import resolve

PACKAGE = Path(titjudge.__file__).parent
PARTS = {"Engine", "Roles", "AnswerCache", "Planner", "Budget", "make_manifest", "PromptLibrary"}
ELSEWHERE = {
    ("engine/cache.py", "AnswerCache"),  # `open_cache`
    ("engine/pipeline.py", "Budget"),  # of an engine without caps
    ("runs/check/verify.py", "PromptLibrary"),  # compares the templates with those of a run that is over
    ("cli/catalog.py", "PromptLibrary"),  # lists templates and opens no run
    ("apps/training/files.py", "PromptLibrary"),  # asks people's questions again, and opens no run
    ("report/site.py", "PromptLibrary"),  # shows the templates of runs that are over
}
TEMPLATE = "lmm_score/rate"
PRICE = {"gpt-4o": {"input": 1.0, "output": 10.0}}
USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
COST = 0.002  # USD of an answer


def test_the_parts_of_a_run_are_put_together_in_one_file() -> None:
    made = set()
    for file in PACKAGE.rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call):
                maker = (
                    call.func.value if isinstance(call.func, ast.Attribute) else call.func
                )  # Budget.for_run(...), too
                if isinstance(maker, ast.Name) and maker.id in PARTS:
                    made.add((file.relative_to(PACKAGE).as_posix(), maker.id))
    assert {(file, part) for file, part in made if file != "runs/open_run.py"} == ELSEWHERE


def rated(seen: Seen) -> Scripted:
    return Scripted(json.dumps({"score": 70, "reason": "because"}), usage=USAGE)


@pytest.fixture
def server(serve_openai: Callable[..., Server]) -> Server:
    return serve_openai(rated)


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """A folder with a template of its own."""
    target = tmp_path / "templates" / f"{TEMPLATE}.md"
    target.parent.mkdir(parents=True)
    shutil.copy(Path(titjudge.__file__).parents[1] / "prompts" / f"{TEMPLATE}.md", target)
    return tmp_path / "templates"


def changed(templates: Path) -> None:
    with (templates / f"{TEMPLATE}.md").open("a") as file:
        file.write("Be strict.\n")


def config(tmp_path: Path, **more: Any) -> RunConfig:
    given = {"metrics": ["lmm-score"], "captioner": "openai/gpt-4o", "prices": PRICE, "out": tmp_path / "run"}
    return load_config(None, {**given, "cache": tmp_path / "cache", "report": False, **more})


def first_prompt_in(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    if not data.is_dir():
        first_prompt(data)
    return data


def probed(tmp_path: Path, **more: Any) -> Card:
    data = first_prompt_in(tmp_path)
    return run_probe(config(tmp_path, data=data, **more), repeats=2, edits=2)[0]


def judged(tmp_path: Path, **more: Any) -> None:
    data = tmp_path / "data"
    if not data.is_dir():
        first_prompt(data)
    Session(config(tmp_path, data=data, **more)).run()


def rewarded(tmp_path: Path, **more: Any) -> None:
    Rewards(config(tmp_path, **more))


def scored(tmp_path: Path, **more: Any) -> None:
    """By the Python API, in a run folder."""
    settings = config(tmp_path, **more)
    folder = RunFolder(tmp_path / "run")
    folder.open(settings)
    try:
        with Judge.from_config(settings, folder=folder) as judge:
            assert judge.score(image_file(1), "a red cube").value == 70
    finally:
        folder.close()


def ledger(tmp_path: Path) -> float:
    lines = map(json.loads, (tmp_path / "run" / "billing.jsonl").read_text().splitlines())
    return sum(line.get("cost", 0.0) for line in lines)


def test_a_probe_keeps_money_progress_suite_and_models_of_all_its_sessions(tmp_path: Path, server: Server) -> None:
    capped = probed(tmp_path, limits={"max_cost": 20 * COST})
    first = RunFolder(tmp_path / "run").manifest()
    assert "cap reached" in capped.notes[0]
    assert first.status == capped.notes[0]
    assert first.spent == pytest.approx(ledger(tmp_path))
    probed(tmp_path)
    manifest = RunFolder(tmp_path / "run").manifest()
    assert manifest.status == "complete"
    assert manifest.spent == pytest.approx(ledger(tmp_path)) == pytest.approx(server.count() * COST)
    assert manifest.spent > first.spent
    assert manifest.list_cost == pytest.approx(manifest.spent)
    assert manifest.roles["captioner"].asked == server.count()
    assert manifest.progress is not None
    assert manifest.progress.done == manifest.progress.scored > 0
    assert (manifest.kind, manifest.suite.name) == ("probe", "folder")
    assert manifest.pins["captioner"] == server.openai
    assert not manifest.uncertain


@pytest.mark.parametrize("begin", [judged, probed, rewarded, scored])
def test_a_changed_template_refuses_to_go_on(tmp_path: Path, server: Server, templates: Path, begin: Any) -> None:
    (scored if begin is rewarded else begin)(tmp_path, prompts=templates)
    asked = server.count()
    changed(templates)
    with pytest.raises(
        UserError, match=f"the prompt {TEMPLATE} has changed since this run began. Choose another --out"
    ):
        begin(tmp_path, prompts=templates)
    assert server.count() == asked


def test_an_interrupted_probe_says_so_and_its_answers_are_not_paid_twice(tmp_path: Path, server: Server) -> None:
    def interrupting(seen: Seen) -> Scripted:
        if server.count() == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return rated(seen)

    server.handler = interrupting
    with pytest.raises(KeyboardInterrupt):
        probed(tmp_path, limits={"concurrency": 4})
    manifest = RunFolder(tmp_path / "run").manifest()
    assert manifest.status == "incomplete: interrupted"
    assert manifest.spent == pytest.approx(server.count() * COST)
    server.handler = rated
    probed(tmp_path)
    alone = tmp_path / "alone"
    asked = server.count()
    probed(alone)
    assert server.count() - asked == asked


def test_a_failed_probe_says_why(tmp_path: Path, server: Server) -> None:
    server.handler = lambda seen: Scripted.fault(401)
    with pytest.raises(FatalProviderError):
        probed(tmp_path)
    assert RunFolder(tmp_path / "run").manifest().status.startswith("failed: ")


def test_a_price_that_nobody_knows_leaves_no_folder_of_a_probe(tmp_path: Path, server: Server) -> None:
    with pytest.raises(ConfigError, match="the price of openai/gpt-unheard-of"):
        probed(tmp_path, captioner="openai/gpt-unheard-of", limits={"max_cost": 1})
    assert not (tmp_path / "run").exists()


def test_answers_in_a_folder_of_the_python_api_are_used_when_the_cache_has_gone(tmp_path: Path, server: Server) -> None:
    scored(tmp_path)
    shutil.rmtree(tmp_path / "cache")
    scored(tmp_path)
    assert server.count() == 1
    manifest = RunFolder(tmp_path / "run").manifest()
    assert (manifest.kind, manifest.status, manifest.spent) == ("python", "complete", pytest.approx(COST))


@pytest.mark.parametrize(
    ("changes", "asked"),
    [({}, 1), ({"provider": "recorded"}, 2), ({"status": "failed"}, 2), ({"flags": [OTHER_MODEL]}, 2)],
    ids=["paid", "recorded", "failed", "of another model"],
)
def test_only_paid_answers_of_the_model_go_from_the_folder_into_the_cache(
    tmp_path: Path, server: Server, changes: dict[str, Any], asked: int
) -> None:
    scored(tmp_path)
    shutil.rmtree(tmp_path / "cache")
    replies = tmp_path / "run" / "replies.jsonl"
    write_lines(replies, *(with_checksum({**line, **changes}) for line in read_lines(replies)))
    scored(tmp_path)
    assert server.count() == asked


def test_a_metric_of_another_version_refuses_to_go_on(tmp_path: Path, server: Server) -> None:
    judged(tmp_path)
    folder = RunFolder(tmp_path / "run")
    manifest = folder.manifest()
    older = manifest.metrics["lmm-score"].model_copy(update={"version": "0"})
    folder.write_manifest(manifest.with_(metrics={"lmm-score": older}))
    asked = server.count()
    with pytest.raises(UserError, match="the metric lmm-score has changed since this run began"):
        judged(tmp_path)
    assert server.count() == asked


def test_a_run_whose_folder_takes_no_more_lines_is_not_complete(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(appender: Appender, record: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(appender.path))

    monkeypatch.setattr(Appender, "add", full)
    with pytest.raises(CacheWriteError):
        scored(tmp_path)
    assert RunFolder(tmp_path / "run").manifest().status.startswith("failed: the run folder")
    assert server.count() == 0


def test_what_is_sent_at_once_has_its_price_and_not_that_of_batch_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the vendor's own address; at others there is no discount. Nothing is asked."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    with Judge.from_config(config(tmp_path, limits={"batch": True})) as judge:
        price = judge.open().roles["captioner"].price
        assert (price.input, price.output) == tuple(PRICE["gpt-4o"].values())


def test_a_card_of_several_sessions_is_that_of_one(tmp_path: Path, server: Server) -> None:
    """A probe that its cap stopped and that goes on, one that is over, and one whose answers another run has paid."""
    whole = probed(tmp_path, out=tmp_path / "whole", cache=tmp_path / "other")
    assert whole.price_per_1000 is not None
    first = probed(tmp_path, limits={"max_cost": 20.5 * COST, "concurrency": 1})
    assert first.price_per_1000 == pytest.approx(whole.price_per_1000, rel=0.5)
    cards = [probed(tmp_path), probed(tmp_path), probed(tmp_path, out=tmp_path / "cached")]
    spent = RunFolder(tmp_path / "run").money().spent
    for card in cards:
        assert card.price_per_1000 == pytest.approx(whole.price_per_1000) == pytest.approx(spent / card.scores * 1000)
        assert (card.seconds_per_1000 or 0) > 0
        assert card.versions == whole.versions
        assert card.versions["captioner"]


def test_whether_jobs_are_sent_does_not_hang_on_who_prints(tmp_path: Path) -> None:
    run = resolve(config(tmp_path, data=first_prompt_in(tmp_path), limits={"batch": True}))
    for sends_jobs in (True, False):
        opened = OpenRun(run, sends_jobs=sends_jobs, say=print)
        asyncio.run(opened.aclose())
        assert opened.config.limits.batch is sends_jobs


def test_prompts_are_not_embedded_under_a_cap_at_a_price_that_nobody_knows(tmp_path: Path, server: Server) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("a red cube\na blue ball\n")
    embedder = {"model": "openai/text-embedding-unheard-of"}
    with pytest.raises(ConfigError, match="a cap requires a price"):
        audit_prompts(config(tmp_path, embedder=embedder, limits={"max_cost": 1}), prompts)
    assert server.count() == 0
