"""A run that was killed: all commands state that it is incomplete, and list the images without a score."""

import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import cli
from report_runs import score, write_run

import titjudge
from titjudge.core.types import InvalidItem, Item
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.stats.verdict.judged_runs import joined_table, stored_run
from titjudge.stats.verdict.verdict import verdict
from titjudge.web.view.runs import Runs

METRIC = {"tit-llm": {"version": "1", "range": [0, 100], "higher_is_better": True}}
PROMPTS = 12
OLD = {"status": "incomplete: budget", "metrics": {"tit-llm": {"mean": 1.0, "images": 24, "scored": 2}}}


def killed(folder: Path, results: dict[str, Any] | None = None) -> Path:
    """Two generators, twelve prompts: no score of the first two, of B on the third; one image of A cannot be used."""
    items = [Item(f"{name}{n}.png", f"prompt {n}", None, name, f"p{n}") for n in range(PROMPTS) for name in "AB"]
    scores = [
        score(item, "tit-llm", 50.0 + n + 5 * (item.generator == "B"))
        for n in range(2, PROMPTS)
        for item in items[2 * n : 2 * n + 2]
        if item.id != "B2.png"
    ]
    items[-2] = InvalidItem("A11.png", "not an image", "A", "p11")
    scores = [one for one in scores if one.item_id != "A11.png"]
    manifest = {"status": "running", "metrics": METRIC, "updated": time.time() - 60, "spent": 0.5, "list_cost": 0.5}
    return write_run(folder, items, scores, results=results, **manifest).path


@pytest.mark.parametrize("results", [None, OLD])
def test_every_command_reports_a_killed_run_and_its_missing_scores(
    tmp_path: Path, results: dict[str, Any] | None
) -> None:
    run = killed(tmp_path / "run", results)
    said = cli(tmp_path, "compare", "generators", "run", "--json", "out.json")
    assert "run: the run is incomplete" in said
    (board, differences, *_) = orjson.loads((tmp_path / "out.json").read_bytes())["declared"]
    assert board["excluded_ids"] == {
        "no_score_of_any": {"": ["p0", "p1"]},
        "no_score_estimated": {"A": ["p11"], "B": ["p2"]},
    }
    assert differences["excluded"] == {"no_score_of_any": {"": 2}, "no_score": {"A": 1, "B": 1}}
    assert differences["size"] == PROMPTS - 4
    said = cli(tmp_path, "judges", "agreement", "run", "--json", "out.json")
    assert "run: the run is incomplete" in said
    found = orjson.loads((tmp_path / "out.json").read_bytes())
    assert (found["metrics"]["tit-llm"]["scored"], found["metrics"]["tit-llm"]["images"]) == (18, 24)
    assert found["spent"] == 0.5
    assert found["populations"]["leaderboard"]["excluded"]["no_score_of_any"] == {"": ["p0", "p1"]}
    (state,) = Runs(tmp_path, RunFolder).states()
    assert (state.status, state.scored, state.coverage) == ("stopped", 18, 18 / 24)
    assert "The run is incomplete" in "".join(state.verdict)
    judged = stored_run(RunFolder(run), "run")
    assert judged.covered == ("tit-llm", 18, 24)
    record = verdict([judged]).generators
    assert record is not None
    assert (record.prompts, dict(record.set_aside)) == (8, {})
    assert titjudge.frame(run)["value"].isna().sum() == 6


def test_absent_rows_empty_cells_and_unusable_images_are_missing_alike(tmp_path: Path) -> None:
    """The same scores, missing in another way, are unequally missing to the same degree."""
    items = [Item(f"{name}{n}.png", "", None, name, f"p{n}") for n in range(PROMPTS) for name in "AB"]
    lost = {f"B{n}.png" for n in range(9)}
    full = [score(item, "tit-llm", None if item.id in lost else 50.0) for item in items]
    broken = [InvalidItem(item.id, "no image", "B", item.prompt_id) if item.id in lost else item for item in items]
    absent = [one for one in full if one.item_id not in lost]
    said = set()
    for number, (listed, scores) in enumerate([(items, full), (items, absent), (broken, absent)]):
        run = write_run(tmp_path / str(number), listed, scores, metrics=METRIC)
        table = joined_table([stored_run(run, "run")], "tit-llm")
        assert table is not None
        said.add((table.unequally_missing(0, 1), table.lost.sum(), table.missing, len(table.prompts)))
    assert said == {(next(iter(said))[0], 9, 9, PROMPTS)}
    assert next(iter(said))[0].startswith("B lacks a score on 9 prompts")
