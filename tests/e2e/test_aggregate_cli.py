"""Official tables from answers that exist already, through the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from builders import write_lines
from commands import cli


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def answer(kind: str, length: str, questions: int, right: int) -> dict[str, Any]:
    preds = ["yes"] * right + ["no"] * (questions - right)
    return {
        "attribute": kind, "desc": f"{length}_description", "jsonl_file": "f", "line_idx": 0, "questions": [f"q{i}" for i in range(questions)],
        "gt_answers": ["yes"] * questions, "model_pred": preds, "model_output": "\n".join(preds),
    }  # fmt: skip


def test_tiif_answers_to_every_official_file(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    for kind, right in (("color+3d", 3), ("style", 1)):
        for length in ("short", "long"):
            folder = tmp_path / "answers" / "mine" / kind / length
            folder.mkdir(parents=True)
            (folder / "0.json").write_text(json.dumps(answer(kind, length, 4, right)))
    arguments = ("--json", "out.json", "--official-files", ".")
    out = cli(tmp_path, "suites", "aggregate", "tiif", "answers", *arguments)
    short = read(tmp_path / "out.json")["generators"]["mine"]["short"]
    assert (short["types"]["color+3d"], short["types"]["style"]) == (75, 25)
    assert (short["questions"], short["correct"]) == (8, 4)
    assert (tmp_path / "result_summary.xlsx").stat().st_size > 0
    assert "mine" in (tmp_path / "summary.txt").read_text()
    assert "mine" in out
    for file, overall in (("result_summary.xlsx", 50.0), ("summary.txt", 50.0)):  # what others published, read again
        said = cli(tmp_path, "suites", "aggregate", "tiif", file, "--json", "again.json")
        assert "official summary" in said
        again = read(tmp_path / "again.json")["generators"]["mine"]["short"]
        assert (again["overall"], again["dimensions"]["style"]) == (overall, 25.0)
    assert "one folder of answers or one official summary" in cli(
        tmp_path, "suites", "aggregate", "tiif", "summary.txt", "answers", code=2
    )


def test_answers_of_others_become_scores_to_compare_with(tmp_path: Path) -> None:
    from titjudge.runs.study.human_files import read_human_scores

    folder = tmp_path / "answers" / "mine" / "style" / "short"
    folder.mkdir(parents=True)
    (folder / "3.json").write_text(json.dumps(answer("style", "short", 4, 1) | {"line_idx": 3}))
    cli(tmp_path, "suites", "aggregate", "tiif", "answers", "--official-files", "official")
    assert read_human_scores(tmp_path / "official/scores.csv").means == {"score": {"mine/style/short/3": 0.25}}


def test_the_shared_responses_of_qwen_image_bench(tmp_path: Path, shared: Path) -> None:
    place = shared / "qwen_image_bench"
    arguments = (str(place / "responses.jsonl"), str(place / "bench_metadata.json"))
    cli(
        tmp_path,
        "suites",
        "aggregate",
        "qwen-image-bench",
        *arguments,
        "--json",
        "out.json",
        "--official-files",
        "official",
    )
    assert len(read(tmp_path / "out.json")["cases"]) == 72
    assert set(read(tmp_path / "official/scores_detail.json")) == set(read(tmp_path / "out.json")["models"])


def test_ranks_with_a_reference(tmp_path: Path) -> None:
    (tmp_path / "ranks.csv").write_text("generator,human,tit,clip\na,1,1,3\nb,2,3,2\nc,3,2,1\nd,4,4,4\n")
    cli(tmp_path, "judges", "ranks", "ranks.csv", "human", "--json", "out.json")
    columns = read(tmp_path / "out.json")["columns"]
    assert columns["tit"]["srcc"] == pytest.approx(0.8)
    assert columns["clip"]["srcc"] == pytest.approx(0.2)
    assert "human" in cli(tmp_path, "judges", "ranks", "ranks.csv", "humans", code=2)


def test_votes_to_pairs(tmp_path: Path) -> None:
    lines = [f"p,a.png,b.png,{i},{'a' if i < 12 else 'b'}" for i in range(15)]
    (tmp_path / "votes.csv").write_text("\n".join(["prompt_id,image_a,image_b,annotator,preference", *lines]) + "\n")
    cli(tmp_path, "label", "convert", "votes.csv", "--out", "pairs.jsonl")
    assert read(tmp_path / "pairs.jsonl")["preference"] == "a"


def test_what_is_missing_is_one_line(tmp_path: Path) -> None:
    assert "SOURCE" in cli(tmp_path, "suites", "aggregate", "tiif", code=2)
    assert "none" in cli(tmp_path, "suites", "aggregate", "tiif", "none", code=2)


def write_run(run: Path, items: list[Any], scores: list[Any]) -> None:
    from titjudge.core.serialization import item_record, score_record

    run.mkdir()
    (run / "manifest.json").write_text("{}")
    write_lines(run / "items.jsonl", *(item_record(each) for each in items))
    write_lines(run / "scores.jsonl", *(score_record(each) for each in scores))


def test_a_run_of_longt2ibench_becomes_the_official_files(tmp_path: Path) -> None:
    from titjudge.core.types import Item, Score

    said = {"entity": [[["cat"], True], [["mat"], False]], "attribute": [], "relation": []}
    items = [
        Item(f"{i}.png", f"cat {i}", tmp_path / f"{i}.png", "", "", {"index": i, "align_ratio": i / 3})
        for i in range(3)
    ]
    scores = [Score(item.id, "graph-alignment", i / 9, parts={"alignment": said}) for i, item in enumerate(items)]
    write_run(tmp_path / "run", items, scores)
    official = ("--official-files", "official")
    cli(tmp_path, "suites", "aggregate", "longt2ibench", "run", *official, "--json", "run.json")
    cli(tmp_path, "suites", "aggregate", "longt2ibench", "official/prediction_results.json", "--json", "back.json")
    cli(tmp_path, "suites", "aggregate", "longt2ibench", "official/generation_results.json")
    assert read(tmp_path / "back.json")["correlation"] == read(tmp_path / "run.json")["correlation"]
    assert read(tmp_path / "back.json")["correlation"]["overall"]["srcc"] == pytest.approx(1)
    predictions = "official/prediction_results.json"
    assert "requires a run" in cli(tmp_path, "suites", "aggregate", "longt2ibench", predictions, *official, code=2)
    assert "prediction_results alone" in cli(
        tmp_path, "suites", "aggregate", "longt2ibench", predictions, "s.json", code=2
    )


def test_a_run_of_qwen_image_bench_becomes_the_official_files(tmp_path: Path) -> None:
    """The files of the official scripts, which `suites aggregate` reads again to the same numbers."""
    pytest.importorskip("openpyxl")
    from titjudge.core.types import Item, Score
    from titjudge.suites.qwen_image_bench.suite import QwenImageBench

    answers = {"1": 0, "2": 2}
    items, scores = [], []
    for name, mark in answers.items():
        said = json.dumps({"Detail": {"Noise": {"score": mark}}})
        value = {0: 0.0, 2: 100.0}[mark]
        meta = {"ID": name, "facets": {"Quality": [["Detail", "Noise"]]}}
        items.append(Item(f"g/{name}", "a cat", tmp_path / f"{name}.png", "g", name, meta))
        parts = {
            "level1": {"Quality": value}, "level2": {"Quality": {"Detail": value}},
            "level3": {"Quality": {"Detail": {"Noise": value}}}, "outputs": {"Quality": said},
        }  # fmt: skip
        scores.append(Score(f"g/{name}", "checklist", value, parts=parts, generator="g", prompt_id=name))
    write_run(tmp_path / "run", items, scores)
    metadata = tmp_path / "m.jsonl"
    write_lines(metadata, *({"ID": n, "dims_en": "Quality / Detail / Noise"} for n in answers))
    official = ("--official-files", "out")
    cli(tmp_path, "suites", "aggregate", "qwen-image-bench", "run", *official, "--json", "run.json")
    files = ["g_bench_scores.json", "g_bench_scores.xlsx", "g_judged.jsonl", "scores_detail.json", "scores_result.xlsx"]
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == files
    assert read(tmp_path / "out/g_bench_scores.json")["total"] == 50.0
    again = ("out/g_judged.jsonl", "m.jsonl", "--json", "again.json", "--official-files", "again")
    cli(tmp_path, "suites", "aggregate", "qwen-image-bench", *again)
    assert read(tmp_path / "again.json")["models"] == read(tmp_path / "run.json")["models"]
    assert QwenImageBench().summary(items, scores)[0] == read(tmp_path / "run.json")["models"]
    assert sorted(each.name for each in (tmp_path / "again").iterdir()) == files[3:]
    assert "the answers of the judge and bench_metadata.json" in cli(
        tmp_path, "suites", "aggregate", "qwen-image-bench", again[0], code=2
    )
