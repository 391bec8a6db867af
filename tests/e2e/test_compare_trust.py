"""`judges people` on small stored runs, through the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from report_runs import PROMPT, score, write_run

from titjudge.cli.commands import run_command
from titjudge.core.types import Item
from titjudge.runs.folder.run_folder import RunFolder

QUALITY = {"model_a": 0.0, "model_b": 0.6, "model_c": 1.4}
BIAS = {"model_a": 3.0, "model_b": 0.0, "model_c": 0.0}  # what the judge adds: it favours a


def cli(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    """Output and errors of `python cli.py judges ...`."""
    found = run_command("python cli.py", ["judges", *map(str, arguments)])
    told = capsys.readouterr()
    assert found == code, told.out + told.err
    if code:
        assert told.err.startswith("titjudge: ") or "Error: " in told.err
        assert len(told.err.strip().splitlines()) == 1 or "Usage:" in told.err
    return told.out + told.err


def judged_run(folder: Path, prompts: int = 120, labelled: int = 150, **metrics: float) -> tuple[RunFolder, Path]:
    """A run whose judges see quality through noise and are partial to model_a, and a file of random human pairs."""
    rng = np.random.default_rng(7)
    items = [Item(f"{g}/{p}.png", PROMPT, None, g, f"p{p}") for p in range(prompts) for g in QUALITY]
    quality = {item.id: QUALITY[item.generator] + rng.normal() for item in items}
    scores = [
        score(item, name, round(float(quality[item.id] + BIAS[item.generator] + noise * rng.normal()), 3))
        for name, noise in (metrics or {"tit": 0.5}).items()
        for item in items
    ]
    couples = [
        (f"p{p}", f"{x}/{p}.png", f"{y}/{p}.png") for p in range(prompts) for x in QUALITY for y in QUALITY if x < y
    ]
    file = folder / "human_pairs.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    with file.open("w") as out:
        for k in rng.permutation(len(couples))[:labelled]:
            group, a, b = couples[k]
            said = "a" if quality[a] > quality[b] else "b"
            out.write(json.dumps({"prompt_id": group, "image_a": a, "image_b": b, "preference": said}) + "\n")
    return write_run(folder / "run", items, scores), file


# -- people --------------------------------------------------------------------------------------------------------------


def test_people_rank_the_generators_where_the_judge_alone_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, pairs = judged_run(tmp_path)
    told = cli(capsys, "people", run.path, "--pairs", pairs, "--json", tmp_path / "board.json",
               "--plot", tmp_path / "board.svg", "--out", tmp_path / "board.csv")  # fmt: skip
    assert "people with the help of the judge" in (tmp_path / "board.svg").read_text()
    assert (tmp_path / "board.csv").read_text().count("\n") > 5
    found = json.loads((tmp_path / "board.json").read_text())
    assert [each["generator"] for each in found["generators"]] == ["model_c", "model_b", "model_a"]
    last = found["generators"][-1]
    assert last["naive"] > 0.6  # the judge's favourite
    assert last["naive_interval"][0] > last["interval"][1]  # and its interval is nowhere near people's
    assert last["people_interval"][0] <= last["value"] <= last["people_interval"][1]
    assert (found["metric"], found["labelled"], found["unlabelled"]) == ("tit", 150, 210)
    assert len(found["couples"]) == 3
    assert {"separated", "more_labels", "reason"} <= set(found["gaps"][0])
    for title in ("Leaderboard for people", "Generators in pairs", "What more labels would buy", "judge alone"):
        assert title in told


def test_without_a_score_a_pair_is_a_tie_everywhere_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, pairs = judged_run(tmp_path)
    lost = run.scores()["model_a/0.png", "tit"]
    with (run.path / "scores.jsonl").open("a") as file:
        record = {
            "item": lost.item_id,
            "metric": "tit",
            "value": None,
            "status": "refused",
            "reason": "no",
            "parts": {},
        }
        file.write(json.dumps({**record, "replies": [], "generator": "model_a", "prompt_id": "p0"}) + "\n")
    told = cli(capsys, "people", run.path, "--pairs", pairs)
    assert "2 of 360 pairs have no score of the judge: counted as its ties" in told


def test_pairs_of_other_images_are_left_out_and_ids_of_prompts_need_not_match(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, pairs = judged_run(tmp_path)
    lines = [json.loads(line) | {"prompt_id": "another name"} for line in pairs.read_text().splitlines()]
    lines.append({"prompt_id": "x", "image_a": "gone.png", "image_b": "model_a/0.png", "preference": "a"})
    lines.append({"prompt_id": "x", "image_a": "model_b/1.png", "image_b": "model_a/0.png", "preference": "a"})
    other = tmp_path / "other.csv"
    other.write_text("\n".join([",".join(lines[0]), *(",".join(line.values()) for line in lines)]) + "\n")
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    cli(capsys, "people", run.path, "--pairs", pairs, "--json", before)
    assert "excluded: 2 (not two images of one prompt" in cli(
        capsys, "people", run.path, "--pairs", other, "--json", after
    )
    assert json.loads(before.read_text())["generators"] == json.loads(after.read_text())["generators"]


def test_the_metric_that_is_taken_of_several_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, pairs = judged_run(tmp_path, **{"tit": 0.5, "tit-llm": 2.0})
    assert "by tit-llm; choose another with --metric: tit" in cli(capsys, "people", run.path, "--pairs", pairs)
    assert "Did you mean 'tit-llm'?" in cli(capsys, "people", run.path, "--pairs", pairs, "--metric", "titllm", code=2)
    told = cli(capsys, "people", run.path, "--pairs", pairs, "--metric", "tit-llm", "--level", "0.9")
    assert "90% intervals" in told


def test_what_people_cannot_be_asked_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, pairs = judged_run(tmp_path, prompts=6, labelled=10)
    assert "the data have no human pairs. Give them with --pairs" in cli(capsys, "people", run.path, code=2)
    assert "not a run folder" in cli(capsys, "people", tmp_path, "--pairs", pairs, code=2)
    strange = tmp_path / "strange.jsonl"
    strange.write_text('{"prompt_id": "p", "image_a": "x.png", "image_b": "y.png", "preference": "a"}\n')
    told = cli(capsys, "people", run.path, "--pairs", strange, code=2)
    assert "a pair names 'x.png', the run 'model_a/0.png'" in told
    strange.write_text('{"prompt_id": "p", "image_a": "x.png", "image_b": "y.png", "preference": "up"}\n')
    assert "strange.jsonl:1: the preference must be a, b, tie or both_bad" in cli(
        capsys, "people", run.path, "--pairs", strange, code=2
    )
    one = write_run(
        tmp_path / "one", [Item("a", "p", None, "g", "p")], [score(Item("a", "p", None, "g", "p"), "tit", 1.0)]
    )
    assert "fewer than two generators" in cli(capsys, "people", one.path, "--pairs", pairs, code=2)
    assert "0.5<=x<=0.9999" in cli(capsys, "people", run.path, "--pairs", pairs, "--level", "95", code=2)


def test_help_has_an_example_and_the_group_lists_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "python cli.py judges people" in cli(capsys, "people", "--help")
    assert "  people " in cli(capsys, "--help")


def test_the_human_ceiling_stands_beside_the_accuracies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, pairs = judged_run(tmp_path, prompts=6, labelled=12)
    lines = ["prompt_id,image_a,image_b,annotator,preference"]
    lines += [
        f"p{p},model_a/{p}.png,model_b/{p}.png,n{who},{'a' if who else 'b'}" for p in range(6) for who in range(4)
    ]
    votes, out = tmp_path / "votes.csv", tmp_path / "out.json"
    votes.write_text("\n".join(lines) + "\n")
    said = cli(capsys, "agreement", run.path, "--pairs", pairs, "--single-votes", votes, "--json", out)
    assert "human ceiling: one person prefers what most of the others prefer in 75.0%" in said
    found = json.loads(out.read_text())["human_ceiling"]
    assert (found["accuracy"], found["votes"], found["annotators"]) == (0.75, 24, 4)
