"""`compare people`, `compare cascade` and `compare forgetting` on small stored runs, through the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from report_runs import PROMPT, reply, score, write_run

from titjudge.cli.dispatch import run_command
from titjudge.core.types import Item, Score, Status
from titjudge.runs.folder.run_folder import RunFolder

QUALITY = {"model_a": 0.0, "model_b": 0.6, "model_c": 1.4}
BIAS = {"model_a": 3.0, "model_b": 0.0, "model_c": 0.0}  # what the judge adds: it favours a


def cli(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    """Output and errors of `python cli.py compare ...`."""
    found = run_command("python cli.py", ["compare", *map(str, arguments)])
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
    assert "2 of 360 pairs lack a score of the judge: counted as its ties" in told


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
    assert "2 human pairs are left out" in cli(capsys, "people", run.path, "--pairs", other, "--json", after)
    assert json.loads(before.read_text())["generators"] == json.loads(after.read_text())["generators"]


def test_the_metric_that_is_taken_of_several_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, pairs = judged_run(tmp_path, **{"tit": 0.5, "tit-llm": 2.0})
    assert "by tit-llm; --metric takes another: tit" in cli(capsys, "people", run.path, "--pairs", pairs)
    assert "Did you mean 'tit-llm'?" in cli(capsys, "people", run.path, "--pairs", pairs, "--metric", "titllm", code=2)
    told = cli(capsys, "people", run.path, "--pairs", pairs, "--metric", "tit-llm", "--level", "0.9")
    assert "90% intervals" in told


def test_what_people_cannot_be_asked_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, pairs = judged_run(tmp_path, prompts=6, labelled=10)
    assert "no human pairs: give some with --pairs" in cli(capsys, "people", run.path, code=2)
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


# -- cascade -------------------------------------------------------------------------------------------------------------


def swept(folder: Path, *, small: float | None = 0.001, pairs: bool = True, prompts: int = 60) -> Path:
    """A sweep of one captioner and two judges: both read the same description, which is most of the price."""
    rng = np.random.default_rng(3)
    items = [Item(f"{p}/{k}.png", PROMPT, None, f"g{k}", f"p{p}") for p in range(prompts) for k in (0, 1)]
    quality = {item.id: rng.normal() for item in items}
    human = [
        {"prompt_id": f"p{p}", "a": f"{p}/0.png", "b": f"{p}/1.png",
         "preference": "a" if quality[f"{p}/0.png"] > quality[f"{p}/1.png"] else "b"}
        for p in range(prompts)
    ]  # fmt: skip
    rows = []
    for number, (model, noise, price) in enumerate((("small", 0.9, small), ("large", 0.1, 0.02)), 1):
        name = f"{number:02d}-{model}"
        scores, replies = [], []
        for item in items:
            keys = [f"caption {item.id}", f"{model} {item.id}"]
            scores.append(score(item, "tit-llm", round(quality[item.id] + noise * rng.normal(), 3), replies=keys))
            replies += [
                reply(keys[0], "a bowl", item=item.id, role="captioner", model="eye", list_cost=0.03),
                reply(keys[1], "80", item=item.id, model=model, list_cost=price, usage=[1000, 100, 0, 0, 0]),
            ]
        write_run(folder / name, items, scores, replies=replies, results={"pairs": human if pairs else []})
        rows.append({"metric": "tit-llm", "captioner": "x/eye", "embedder": "", "judge": f"x/{model}", "run": name})
    (folder / "sweep.json").write_text(json.dumps({"status": "complete", "rows": rows}))
    return folder


def test_the_cascade_asks_the_small_judge_first_and_pays_the_description_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = swept(tmp_path / "sweep")
    told = cli(capsys, "cascade", folder, "--tolerance", "0.02", "--json", tmp_path / "out.json")
    found = json.loads((tmp_path / "out.json").read_text())
    best = found["recommended"]
    assert best["judges"] == ["tit-llm (x/small)", "tit-llm (x/large)"]
    assert best["price"] == pytest.approx(2 * (0.031 + 0.02 * best["asked"][1]))
    single = {each["judges"][0]: each["price"] for each in found["singles"]}
    assert single == {"tit-llm (x/small)": pytest.approx(0.062), "tit-llm (x/large)": pytest.approx(0.1)}
    assert found["cross_validated"]["interval"] is not None
    assert "Frontier of accuracy and price" in told
    assert "recommended: tit-llm (x/small) if its margin is at least" in told
    dear = json.loads(_json(capsys, folder, "--max-price", "62.5"))
    assert dear["recommended"]["judges"] == ["tit-llm (x/small)"]


def _json(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> str:
    assert run_command("python cli.py", ["compare", "cascade", str(folder), *more, "--json", "-"]) == 0
    return capsys.readouterr().out  # nothing but the JSON


def test_a_price_that_was_not_stored_can_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = swept(tmp_path / "sweep", small=None)
    told = cli(capsys, "cascade", folder)
    assert "left out: tit-llm (x/small): the price of small is unknown" in told
    assert "only one judge" in told
    found = json.loads(_json(capsys, folder, "--price", "small=1,10"))
    assert found["left_out"] == {}
    assert found["singles"][0]["price"] == pytest.approx(2 * (0.03 + 0.002))


def test_a_sweep_without_pairs_takes_them_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = swept(tmp_path / "sweep", pairs=False)
    assert "no human pairs to mark the judges on" in cli(capsys, "cascade", folder, code=2)
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"prompt_id": "p0", "image_a": "0/0.png", "image_b": "0/1.png", "preference": "a"}\n')
    assert "recommended: nothing: by these pairs (1)" in cli(capsys, "cascade", folder, "--pairs", file)


def test_what_is_no_sweep_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "not the folder of a sweep" in cli(capsys, "cascade", tmp_path, code=2)
    (tmp_path / "sweep.json").write_text("{")
    assert "damaged" in cli(capsys, "cascade", tmp_path, code=2)
    (tmp_path / "sweep.json").write_text('{"rows": [1]}')
    assert "damaged: a row" in cli(capsys, "cascade", tmp_path, code=2)
    (tmp_path / "sweep.json").write_text('{"rows": []}')
    assert "no finished row" in cli(capsys, "cascade", tmp_path, code=2)
    folder = swept(tmp_path / "sweep")
    assert "cheapest costs" in cli(capsys, "cascade", folder, "--max-price", "0.1", code=2)
    assert "expected MODEL=IN,OUT" in cli(capsys, "cascade", folder, "--price", "small", code=2)


# -- forgetting ----------------------------------------------------------------------------------------------------------


def claim_rows(rng: np.random.Generator, stops: float, count: int = 12) -> list[dict[str, Any]]:
    places = np.sort(rng.random(count))
    return [
        {"number": k + 1, "claim": f"claim {k}", "kind": "entity" if k % 2 else "attribute", "level": "macro", "weight": 3,
         "span": [int(at * len(PROMPT)), int(at * len(PROMPT)) + 8], "quote": "", "position": float(at),
         "verdict": "met" if rng.random() < (0.9 if at < stops else 0.1) else "not_met", "evidence": "E1", "before": []}
        for k, at in enumerate(places)
    ]  # fmt: skip


def claims_run(folder: Path, more: Sequence[Score] = ()) -> RunFolder:
    rng = np.random.default_rng(0)
    items = [Item(f"{g}{p}", PROMPT, None, f"model_{g}", f"p{p}") for p in range(25) for g in ("a", "b")]
    stops = {"model_a": 0.6, "model_b": 1.0}
    scores = [
        score(item, "tit-agent", 50.0, claims=claim_rows(rng, stops[item.generator]), prompt_words=40) for item in items
    ]
    return write_run(folder, items, [*scores, *more])


def test_the_forgetting_curve_as_tables_json_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = claims_run(tmp_path / "run")
    plot, out = tmp_path / "curve.svg", tmp_path / "curve.json"
    told = cli(capsys, "forgetting", run.path, "--plot", plot, "--json", out, "--bins", "5")
    assert "Where generators stop reading" in told
    found = json.loads(out.read_text())
    steps = {step["generator"]: step["position"] for step in found["steps"]}
    assert steps["model_a"] == pytest.approx(0.6, abs=0.05)
    assert steps["model_b"] is None
    assert {rate["label"] for rate in found["places"]} == {"0-20%", "20-40%", "40-60%", "60-80%", "80-100%"}
    assert (found["metric"], found["claims"]) == ("tit-agent", 600)
    assert "notes" not in found
    ElementTree.fromstring(plot.read_text())
    assert "model_a" in plot.read_text()
    cli(capsys, "forgetting", run.path, "--plot", tmp_path / "curve.PNG")
    with Image.open(tmp_path / "curve.PNG") as image:
        assert image.width > 600


def test_a_metric_with_claims_is_taken_and_of_several_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    item = Item("a0", PROMPT, None, "model_a", "p0")
    plain = [score(item, "tit", 0.5)]
    assert cli(capsys, "forgetting", claims_run(tmp_path / "one", plain).path)
    graph = score(item, "graph-alignment", 0.5, alignment={"entity": [[["bowl"], True], [["mug"], False]]})
    run = claims_run(tmp_path / "two", [graph]).path
    assert "by graph-alignment; --metric takes another: tit-agent" in cli(capsys, "forgetting", run)
    assert "no step can be looked for" in cli(capsys, "forgetting", run, "--metric", "graph-alignment")


def test_what_has_no_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    item = Item("a0", PROMPT, None, "model_a", "p0")
    run = write_run(tmp_path / "run", [item], [score(item, "tit", 0.5)])
    assert "no claims with a place" in cli(capsys, "forgetting", run.path, code=2)
    assert "the scores of tit hold no claims" in cli(capsys, "forgetting", run.path, "--metric", "tit", code=2)
    assert "has no metric 'agent'" in cli(capsys, "forgetting", run.path, "--metric", "agent", code=2)
    assert ".svg or .png" in cli(capsys, "forgetting", run.path, "--plot", tmp_path / "x.pdf", code=2)
    failed = score(item, "tit-agent", None, Status.UNPARSED, claims=[{"claim": "x", "position": 7}])
    broken = write_run(tmp_path / "broken", [item], [failed])
    assert "claim 'x'" in cli(capsys, "forgetting", broken.path, code=2)


@pytest.mark.parametrize("name", ["people", "cascade", "forgetting"])
def test_help_has_an_example_and_the_group_lists_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"python cli.py compare {name}" in cli(capsys, name, "--help")
    assert f"  {name} " in cli(capsys, "--help")


def test_the_human_ceiling_stands_beside_the_accuracies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, pairs = judged_run(tmp_path, prompts=6, labelled=12)
    lines = ["prompt_id,image_a,image_b,annotator,preference"]
    lines += [
        f"p{p},model_a/{p}.png,model_b/{p}.png,n{who},{'a' if who else 'b'}" for p in range(6) for who in range(4)
    ]
    votes, out = tmp_path / "votes.csv", tmp_path / "out.json"
    votes.write_text("\n".join(lines) + "\n")
    said = cli(capsys, run.path, "--pairs", pairs, "--votes", votes, "--json", out)
    assert "human ceiling: one person prefers what most of the others prefer in 75.0%" in said
    found = json.loads(out.read_text())["human_ceiling"]
    assert (found["accuracy"], found["votes"], found["annotators"]) == (0.75, 24, 4)
