"""The verdict on a run folder: recorded with the results, and the same when it is computed again."""

from pathlib import Path

import pytest
from report_runs import PROMPT, score, write_run

from titjudge.core.registry import load
from titjudge.core.run_records import Results
from titjudge.core.types import Item
from titjudge.metrics import Metric
from titjudge.runs import outcome
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.outcome import finish


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    items = [
        Item(f"{name}{prompt}.png", PROMPT, None, name, f"p{prompt}", {"theme": f"theme {prompt % 2}"})
        for prompt in range(12)
        for name in ("old", "new")
    ]
    values = [40.0 + (25 if item.generator == "new" else 0) + int(item.prompt_id[1:]) % 5 for item in items]
    scores = [score(item, "tit-llm", value, reason="as asked") for item, value in zip(items, values, strict=True)]
    return write_run(tmp_path / "run", items, scores, metrics={"tit-llm": {"version": "1", "range": [0, 100]}})


def finished(folder: RunFolder) -> Results:
    metric: Metric = load("metrics", "tit-llm")
    return finish(folder, load("suites", "folder")(), (), {"tit-llm": metric}, status="complete", report=False).results


def test_the_verdict_stands_in_the_results_and_is_the_same_again(folder: RunFolder) -> None:
    results = finished(folder)
    stored = folder.results().verdict
    assert stored is not None
    assert stored.generators is not None
    assert (stored.generators.first, stored.generators.better, stored.generators.prompts) == ("new", True, 12)
    assert stored.generators.won[0].first.reason == "as asked"
    assert outcome.verdict_on(folder, results).to_json() == stored.to_json()


def test_a_folder_that_is_renamed_keeps_its_verdict(folder: RunFolder) -> None:
    results = finished(folder)
    moved = RunFolder(folder.path.rename(folder.path.parent / "another name"))
    assert outcome.verdict_on(moved, results) == results.verdict


def test_a_long_run_has_the_same_verdict_without_categories(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = finished(folder).verdict
    monkeypatch.setattr(outcome, "MOST_WITH_TEXTS", 10)
    slim = outcome.verdict_on(folder, folder.results())
    assert whole is not None
    assert whole.generators is not None
    assert slim.generators is not None
    assert (slim.generators.difference, slim.generators.p) == (whole.generators.difference, whole.generators.p)
    assert slim.generators.won[0].first.item == whole.generators.won[0].first.item
    assert slim.generators.won[0].first.reason == "as asked"
