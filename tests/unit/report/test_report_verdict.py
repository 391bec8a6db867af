"""The first lines of a report: the verdict, and the prompts that show it with both images."""

from pathlib import Path

import numpy as np
import pytest
from report_runs import PROMPT, picture, score, write_run

from titjudge.core.run_records import Results
from titjudge.core.types import Item
from titjudge.report.generators import generators
from titjudge.report.html import render
from titjudge.report.model import Report, load
from titjudge.report.overview import overview
from titjudge.report.sections import Opening
from titjudge.report.verdict import verdict_of
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.outcome import verdict_on
from titjudge.web.view.runs import Runs

LEVEL = {"step_1000": 40.0, "step_2000": 60.0}
METRIC = {"tit-llm": {"version": "1", "range": [0, 100], "higher_is_better": True}}


def judged(folder: Path, *names: str, named: bool = True, **manifest: object) -> RunFolder:
    """A run of these generators over twelve prompts, of which `step_2000` loses the last."""
    rng = np.random.default_rng(7)
    items, scores = [], []
    for name in names:
        for prompt in range(12):
            image = picture(folder / "img" / f"{name}{prompt}.png", (9 * prompt, 90, 40))
            item = Item(f"{name}/{prompt}.png", f"{PROMPT} {prompt}", image, name if named else "", f"p{prompt}")
            value = LEVEL[name] + float(rng.normal(0, 5)) - (50 if prompt == 11 and name == "step_2000" else 0)
            items.append(item)
            scores.append(score(item, "tit-llm", value, reason=f"<b>said</b> of {name} {prompt}"))
    results = {"schema_version": 1, "metrics": {"tit-llm": {"mean": 50.0, "images": len(items), "scored": len(items)}}}
    return write_run(folder, items, scores, results=results, **({"metrics": METRIC} | manifest))


def opening(report: Report) -> Opening:
    return next(block for block in overview(report).blocks if isinstance(block, Opening))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return judged(tmp_path / "run", "step_1000", "step_2000")


def test_a_run_without_a_verdict_gets_the_verdict_that_it_would_have_recorded(run: RunFolder) -> None:
    found = verdict_of(load([run]))
    assert found.generators == verdict_on(run, run.results()).generators
    first = opening(load([run]))
    assert first.headline == "step_2000 beats step_1000."
    assert first.numbers.startswith("By ")


def test_a_killed_run_has_the_verdict_of_its_scores_in_report_and_view(tmp_path: Path) -> None:
    whole = judged(tmp_path / "whole", "step_1000", "step_2000")
    killed = judged(tmp_path / "runs" / "killed", "step_1000", "step_2000", status="running")
    (killed.path / "results.json").unlink()
    found, first = verdict_of(load([killed])), opening(load([killed]))
    assert found.generators == verdict_on(whole, whole.results()).generators
    assert first.headline == "So far: step_2000 beats step_1000."
    assert "incomplete" in first.sentences[-1]
    (state,) = Runs(tmp_path / "runs", RunFolder).states()
    assert (state.status, state.brief, state.coverage) == ("stopped", first.headline, 1.0)
    assert state.verdict[1:] == first.sentences
    assert state.ranks == {"step_1000": "2", "step_2000": "1"}


def test_of_several_runs_the_incomplete_are_named(tmp_path: Path) -> None:
    runs = [
        judged(tmp_path / name, name, status=status)
        for name, status in (("step_1000", "incomplete: budget"), ("step_2000", "complete"))
    ]
    said = opening(load(runs))
    assert said.headline.startswith("So far")
    assert "step_1000" in said.sentences[-1]


def test_a_recorded_verdict_is_read_and_not_computed_again(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = verdict_on(run, run.results())
    run.results().joined(Results(verdict=recorded)).write(run.path / "results.json")
    monkeypatch.setattr("titjudge.report.verdict.verdict", None)
    assert verdict_of(load([run])) == recorded


def test_the_prompts_won_and_lost_most_stand_side_by_side(run: RunFolder) -> None:
    report = load([run])
    won, lost = opening(report).examples
    assert won.title == "What step_2000 won most against step_1000"
    assert len(won.duels) == 3
    assert [duel.prompt for duel in lost.duels] == [f"{PROMPT} 11"]
    first, second = lost.duels[0].sides
    assert (first.generator, second.generator, lost.duels[0].ahead) == ("step_2000", "step_1000", 1)
    assert first.reason == "<b>said</b> of step_2000 11"
    assert first.image is not None
    assert report.entries[first.image].id == "step_2000/11.png"


def test_what_a_judge_said_never_becomes_markup(run: RunFolder) -> None:
    page = render(load([run])).decode()
    assert "&lt;b&gt;said&lt;/b&gt; of step_2000 11" in page
    assert "<b>said" not in page


def test_a_run_for_each_checkpoint_gives_one_verdict_and_the_tables_of_both(tmp_path: Path) -> None:
    runs = [judged(tmp_path / name, name, named=False) for name in LEVEL]
    report = load(runs)
    first = opening(report)
    assert first.headline == "step_2000 beats step_1000."
    assert [note for note in first.notes if "is not known" in note] == list(first.notes)
    won = first.examples[0].duels[0]
    assert all(side.image is not None for side in won.sides)
    section = generators(report)
    assert section is not None
    assert [part.title for part in section.parts if not part.folded] == ["tit-llm"]
    rows = section.tables[0].rows
    record = verdict_of(report).generators
    assert record is not None
    assert [row[0] for row in rows] == ["step_2000", "step_1000"]
    assert rows[1][5].value == pytest.approx(-(record.difference or 0.0))
    assert "Runs compared" not in {table.title for table in overview(report).tables}


def test_runs_by_two_judges_keep_their_own_verdicts(tmp_path: Path) -> None:
    runs = [
        judged(tmp_path / name, "step_1000", "step_2000", protocol=protocol)
        for name, protocol in (("one", "strict"), ("two", "paper"))
    ]
    first = opening(load(runs))
    assert first.headline == "The judges of one and two agree: both find step_2000 better."
    said = first.sentences
    assert said[0].startswith("one: step_2000 beats step_1000")
    assert said[1].startswith("two: step_2000 beats step_1000")
    assert said[2].startswith("The generators of these runs are not compared with each other: the protocol differs")


def test_a_baseline_takes_the_place_of_the_runner_up(run: RunFolder) -> None:
    report = load([run])
    report.baseline = "step_1000"
    assert opening(report).headline == "step_2000 beats step_1000."
