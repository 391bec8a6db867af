"""`compare generators` through the command line: tables and runs, gates and exit codes, files and errors."""

import json
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from builders import png
from PIL import Image
from report_runs import PROMPT, score, write_run

from titjudge.cli.commands import run_command
from titjudge.core.types import Item


def cli(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    """Output and errors of `python cli.py compare generators ...`; an error is one line."""
    found = run_command("python cli.py", ["compare", "generators", *map(str, arguments)])
    told = capsys.readouterr()
    assert found == code, told.out + told.err
    if code == 2:
        assert told.err.startswith("titjudge: "), told.err
        assert len(told.err.strip().splitlines()) == 1, told.err
    return told.out + told.err


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    """A table of 80 prompts: `good` above `base`, `bad` below, `like` as good as it; two themes."""
    rng = np.random.default_rng(5)
    lines = ["prompt_id,generator,score,theme"]
    for k in range(80):
        level = rng.random()
        for name, shift, noise in (("base", 0, 0), ("good", 0.1, 0.2), ("bad", -0.1, 0.2), ("like", 0, 0.3)):
            lines.append(
                f"p{k},{name},{level + shift + noise * (rng.random() - 0.5):.4f},{'food' if k % 2 else 'city'}"
            )
    file = tmp_path / "scores.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_every_pair_of_a_table(scores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    said = cli(capsys, scores, "--by", "theme", "--json", out)
    found = json.loads(out.read_text())
    assert "Differences by theme" in said
    assert len(found["pairs"]) == 6
    first = found["pairs"][0]
    assert {"a", "b", "difference", "interval", "p", "p_adjusted", "wins", "same", "losses", "prompts", "detectable",
            "by"} <= set(first)  # fmt: skip
    assert (first["a"], first["b"], first["prompts"]) == ("good", "base", 80)
    assert 0 < first["interval"][0] < first["difference"] < first["interval"][1]
    assert first["wins"] + first["same"] + first["losses"] == 80
    assert set(first["by"]["theme"]) == {"city", "food"}
    assert first["by"]["theme"]["city"]["prompts"] == 40


def test_gates_and_their_exit_codes(scores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate = (scores, "--baseline", "base", "--fail-if-worse")
    said = cli(capsys, *gate, "0.01", code=1)
    assert "bad is worse than base by more than 0.01" in said
    assert "good is better than base, and so not worse than base" in said
    rows = scores.read_text().splitlines()
    kept = tmp_path / "kept.csv"
    kept.write_text("\n".join(row for row in rows if ",bad," not in row) + "\n")
    gate = (kept, "--baseline", "base", "--fail-if-worse")
    assert "cannot tell with 80 prompts whether like is worse" in cli(capsys, *gate, "0.001")
    out = tmp_path / "out.json"
    cli(capsys, *gate, "0.001", "--strict", "--json", out, code=1)
    assert json.loads(out.read_text())["gate"]["outcome"] == "cannot tell"
    assert "not worse" in cli(capsys, *gate, "0.2", "--strict")


def table_of(file: Path, rows: Iterable[tuple[str, str, object]]) -> Path:
    file.write_text("\n".join(["prompt_id,generator,score", *(",".join(map(str, row)) for row in rows)]) + "\n")
    return file


def test_a_gate_cannot_tell_where_the_candidate_lacks_the_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`A` has no score on most prompts on which it does badly."""
    rng, rows = np.random.default_rng(4), []
    for k in range(200):
        level = rng.normal(60, 20)
        a, b = (float(np.clip(round(level + rng.normal(0, 10)), 0, 100)) for _ in "ab")
        rows += [(f"p{k}", "A", "" if a < 60 and rng.random() < 0.7 else a), (f"p{k}", "B", b)]
    file, out = table_of(tmp_path / "s.csv", rows), tmp_path / "out.json"
    lost = sum(score == "" for _, _, score in rows)
    gate = (file, "--range", "0,100", "--baseline", "B", "--fail-if-worse", "5", "--json", out)
    said = cli(capsys, *gate, "--junit", tmp_path / "j.xml", "--comment", tmp_path / "c.md")
    told = f"A lacks a score on {lost} prompts where B has one, and B on 0 where A has one, and what is left out may decide"
    for text in (said, (tmp_path / "j.xml").read_text(), (tmp_path / "c.md").read_text()):
        assert "cannot tell whether A is worse than B by more than 5" in text
        assert told in text
    assert f"A {lost} (no score)" in said
    found = json.loads(out.read_text())
    assert found["declared"][1]["excluded"] == {"no_score": {"A": lost}}
    assert found["gate"]["outcome"] == "cannot tell"
    assert found["gate"]["reasons"]["A"] in told
    assert any("left out" in note for note in found["notes"])
    cli(capsys, *gate, "--strict", code=1)
    as_many = [(p, g, "" if int(p[1:]) % 9 == (g == "A") else score or 60) for p, g, score in rows]
    assert "A is better than B, and so not worse than B" in cli(
        capsys, table_of(tmp_path / "even.csv", as_many), *gate[1:], "--strict"
    )


def test_not_worse_holds_for_collapses_that_have_not_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A point better wherever it was seen: with 60 prompts one in 17 may still be blank."""
    rows = [(f"p{k}", name, 90 + k % 5 + (name == "new")) for k in range(60) for name in ("new", "base")]
    file = table_of(tmp_path / "s.csv", rows)
    gate = (file, "--baseline", "base", "--fail-if-worse", "1")
    said = cli(capsys, *gate, "--range", "0,100")
    assert "cannot tell with 60 prompts whether new is worse than base by more than 1" in said
    needed = int(said.split("about ")[1].split()[0].replace(",", ""))
    assert 150 < needed < 220  # (99 / 101)^183 = .025
    enough = [(f"{k}{p}", name, score) for k in range(5) for p, name, score in rows]
    said = cli(capsys, table_of(file, enough), *gate[1:], "--range", "0,100", "--strict")
    assert "new is not worse than base by more than 1" in said
    assert "whatever its scores look like" in said
    assert "the ends of the scale are unknown" in cli(capsys, *gate)
    assert "must be from 0 to 50" in cli(capsys, *gate, "--range", "0,50", code=2)
    for wrong in ("100,0", "0", "0,inf", "a,b"):
        assert "the lower first" in cli(capsys, *gate, "--range", wrong, code=2)


def test_the_best_of_many_equals_is_not_called_better(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """40 tables of 12 equal generators, each against the best of its table: 5% and two standard errors of them."""
    rng, out, false, missed = np.random.default_rng(4), tmp_path / "out.json", 0, 0
    for _ in range(40):
        scores = np.clip(np.round(rng.normal(60, 30, (50, 1)) + rng.normal(0, 25, (50, 12))), 0, 100)
        rows = [(f"p{p}", f"g{g}", scores[p, g]) for p in range(50) for g in range(12)]
        best = f"g{scores.mean(axis=0).argmax()}"
        said = cli(
            capsys,
            table_of(tmp_path / "s.csv", rows),
            "--range",
            "0,100",
            "--baseline",
            best,
            "--json",
            out,
        )
        assert "p best" in said
        found = json.loads(out.read_text())
        assert found["adjustment"] == "best"
        false += any(pair["p_adjusted"] < 0.05 for pair in found["pairs"])
        missed += any(pair["interval"][1] < 0 for pair in found["pairs"])
    assert max(false, missed) <= 40 * 0.05 + 2 * (40 * 0.05 * 0.95) ** 0.5


def test_files_for_a_pull_request_and_a_paper(scores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chart, picture = tmp_path / "chart.svg", tmp_path / "chart.png"
    cli(capsys, scores, "--baseline", "base", "--plot", chart, "--out", tmp_path / "v.md")
    assert "like - base" in "".join(ElementTree.parse(chart).getroot().itertext())
    before = chart.read_bytes()
    cli(capsys, scores, "--baseline", "base", "--plot", chart, "--out", tmp_path / "v.tex")
    assert chart.read_bytes() == before
    cli(capsys, scores, "--baseline", "base", "--plot", picture, "--out", tmp_path / "v.csv")
    with Image.open(picture) as drawn:
        assert drawn.size[0] > 500
    assert "| good | base |" in (tmp_path / "v.md").read_text()
    assert r"\toprule" in (tmp_path / "v.tex").read_text()
    assert "\na,b,a - b,low,high," in (tmp_path / "v.csv").read_text()


def test_errors_are_one_line(scores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Did you mean 'base'" in cli(capsys, scores, "--baseline", "basis", code=2)
    assert "--baseline" in cli(capsys, scores, "--fail-if-worse", "0.1", code=2)
    assert "Give one table, or run folders" in cli(capsys, tmp_path, scores, code=2)
    assert "Give run folders, or one table of scores" in cli(capsys, code=2)
    assert "not a run folder" in cli(capsys, tmp_path, code=2)
    assert "must be a file that ends in .svg or .png" in cli(capsys, scores, "--plot", tmp_path / "x.pdf", code=2)
    assert "must be a file that ends in .md, .tex, .csv" in cli(capsys, scores, "--out", tmp_path / "x.doc", code=2)
    scores.write_text("prompt_id,generator,score\np,a,1\np,b,2\n")
    assert f"{scores}: 'b' and 'a' have 1 prompt" in cli(capsys, scores, code=2)
    scores.write_text("prompt_id,generator,score\np,a,1\np,b,two\n")
    assert f"{scores}:3: 'score' must be a number, not 'two'" in cli(capsys, scores, code=2)


def judged(folder: Path, shift: float, *, model: str = "fake/judge", seeds: int = 2, generator: str = "") -> Path:
    """A run over 30 prompts of two types with some images each; scores by tit-llm in [0, 100]."""
    rng = np.random.default_rng(len(folder.name))
    items = [
        Item(
            f"{k}-{seed}.png",
            PROMPT if k % 2 else "a red cup",
            None,
            generator,
            f"p{k}",
            {"type": f"t{k % 3}", "asked": ["?"], "generator": "g"},
        )
        for k in range(30)
        for seed in range(seeds)
    ]
    scores = [
        score(item, "tit-llm", round(50 + shift + 3 * rng.normal(), 2),
              claims=[{"claim": "a cup", "kind": "entity", "met": bool(rng.random() < 0.5), "position": 0.1}])
        for item in items
    ]  # fmt: skip
    write_run(folder, items, scores, roles={"judge": {"model": model, "answered": []}})
    return folder


def test_two_runs_of_two_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = judged(tmp_path / "step-1", 0), judged(tmp_path / "step-20", 5)
    out = tmp_path / "out.json"
    cli(capsys, first, second, "--by", "type,prompt_length", "--by", "element", "--json", out)
    (pair,) = json.loads(out.read_text())["pairs"]
    assert (pair["a"], pair["b"], pair["prompts"]) == ("step-20", "step-1", 30)
    assert 3 < pair["difference"] < 8
    assert {name: len(values) for name, values in pair["by"].items()} == {"type": 3, "prompt_length": 2, "element": 1}
    spread = json.loads(out.read_text())["generators"][0]["spread between seeds"]
    assert 2 < spread < 4
    assert "no 'typ'" in cli(capsys, first, second, "--by", "typ", code=2).replace("prompts have ", "")
    for no_category in ("asked", "generator"):
        assert cli(capsys, first, second, "--by", no_category, code=2).strip().endswith(", facet, type")


def test_another_judge_is_no_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = judged(tmp_path / "a", 0), judged(tmp_path / "b", 0, model="fake/other")
    assert "the judge differs (fake/judge, fake/other)" in cli(capsys, first, second, code=2)
    assert "compared although the judge differs" in cli(capsys, first, second, "--allow-drift")


def command(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    """Output and errors of `python cli.py ...`."""
    found = run_command("python cli.py", [*map(str, arguments)])
    told = capsys.readouterr()
    assert found == code, told.out + told.err
    return told.out + told.err


def two_generators(folder: Path, *, prompts: int, texts: int) -> Path:
    """A run of two generators; prompts share the texts in turn."""
    rng = np.random.default_rng(8)
    items = [
        Item(f"{name}{k}", f"{PROMPT} {k % texts}", None, name, f"p{k}") for k in range(prompts) for name in ("a", "b")
    ]
    scores = [score(item, "tit-llm", round(50 + 8 * rng.normal() + 4 * (item.generator == "a"), 2)) for item in items]
    write_run(folder, items, scores)
    return folder


def test_one_difference_has_one_p_in_every_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = two_generators(tmp_path / "run", prompts=38, texts=38), tmp_path / "out.json"
    cli(capsys, run, "--json", out)
    (pair,) = json.loads(out.read_text())["pairs"]
    assert "p BH" in command(capsys, "judges", "agreement", run, "--json", out)
    (difference,) = json.loads(out.read_text())["differences"]
    assert 0.001 < pair["p"] == difference["p_value"] < 0.5
    assert pair["interval"] == pytest.approx(difference["interval"])
    rows = [f"{name}{k}" for k in range(38) for name in ("a", "b")]
    lines = dict(zip(rows, (run / "scores.jsonl").read_text().splitlines(), strict=True))
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(rows)
        table = tmp_path / "shuffled.csv"
        values = {row: json.loads(lines[row])["value"] for row in rows}
        table.write_text(
            "\n".join(["prompt_id,generator,score", *(f"{r[1:]},{r[0]},{values[r]}" for r in order)]) + "\n"
        )
        assert "p Holm" in cli(capsys, table, "--json", out)
        assert json.loads(out.read_text())["pairs"][0]["p"] == pair["p"]


def test_prompts_are_told_apart_by_their_id_not_by_their_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = two_generators(tmp_path / "run", prompts=12, texts=6), tmp_path / "out.json"
    command(capsys, "judges", "agreement", run, "--json", out)
    (difference,) = json.loads(out.read_text())["differences"]
    cli(capsys, run, "--json", out)
    (pair,) = json.loads(out.read_text())["pairs"]
    assert difference["prompts"] == pair["prompts"] == 12
    assert difference["p_value"] == pair["p"]


def test_a_replay_has_one_entry_a_pair_and_order(
    scores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    options = ("compare", "early-stopping", scores, "--orders", "3", "--json", out)
    said = command(capsys, *options, "--pair", "good,bad", "--pair", "base,good,bad", "--out", tmp_path / "s.md",
                   "--plot", tmp_path / "s.svg")  # fmt: skip
    drawn = "".join(ElementTree.parse(tmp_path / "s.svg").getroot().itertext())
    assert "good, bad" in drawn
    assert "base, good, bad" in drawn
    assert "Racing for the best" in said
    found = json.loads(out.read_text())
    assert [set(each) for each in found["pairs"]] == [{"a", "b", "verdict", "used", "of", "interval"}] * 3
    assert {each["verdict"] for each in found["pairs"]} == {"good"}
    assert len(found["races"]) == 3
    assert "intervals are asymptotic; --range LOW,HIGH names them" in said
    said = command(capsys, *options, "--pair", "all", "--range", "-1,2")
    assert "asymptotic" not in said
    assert len(json.loads(out.read_text())["pairs"]) == 6 * 3
    some = table_of(
        tmp_path / "some.csv",
        [(f"p{p}", g, p % 7 + (g == "b") * p % 3) for p in range(20) for g in ("ab" if p < 12 else "bc")],
    )
    for name in ("early-stopping", "plan"):
        rest = ("--difference", "1") if name == "plan" else ()
        said = command(capsys, "compare", name, some, "--pair", "all", *rest, "--json", out)
        assert "not compared, because they share fewer than two prompts or families: " in said
        assert len(json.loads(out.read_text())["plans" if rest else "pairs"]) == 2
    assert "unknown generator 'goood'" in command(capsys, *options, "--pair", "goood,bad", code=2)
    assert "must be two or more different generators" in command(capsys, *options, "--pair", "good,good", code=2)


def test_a_plan_from_a_pilot(scores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, chart = tmp_path / "out.json", tmp_path / "power.svg"
    options = ("compare", "plan", scores, "--difference", "0.02", "--json", out)
    said = command(capsys, *options, "--pair", "good,base", "--image-cost", "0.01", "--plot", chart)
    assert "cheapest: " in said
    (plan,) = json.loads(out.read_text())["plans"]
    assert plan["range"][0] < plan["prompts"] < plan["range"][1]
    assert plan["dollars"][1] == pytest.approx(0.02 * plan["prompts"])
    assert "USD" in "".join(ElementTree.parse(chart).getroot().itertext())
    command(capsys, *options, "--pair", "all")
    assert len(json.loads(out.read_text())["plans"]) == 6
    beyond = (*options, "--pair", "good,base", "--range", "-1,2", "--difference", "4")
    assert "--difference must be at most 3, the length of the scale of" in command(capsys, *beyond, code=2)
    assert "Choose two with --pair" in command(capsys, *options, code=2)
    assert "cannot be planned" in command(capsys, *options, "--pair", "good,bad", "--images-per-prompt", "2", code=2)


def test_a_run_as_a_pilot_knows_its_seeds_and_its_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = judged(tmp_path / "step-1", 0), judged(tmp_path / "step-20", 5)
    out = tmp_path / "out.json"
    each = [word for count in "124" for word in ("--images-per-prompt", count)]
    command(capsys, "compare", "plan", first, second, "--difference", "1", *each, "--json", out)
    found = json.loads(out.read_text())["plans"]
    assert [each["seeds"] for each in found] == [1, 2, 4]
    assert found[0]["prompts"] > found[1]["prompts"] > found[2]["prompts"]


def test_replays_and_plans_count_the_images_of_a_prompt_by_the_given_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both images of `sure` are half right; of `lucky`, one is right on most prompts."""
    rng, lines = np.random.default_rng(7), ["prompt_id,generator,seed,score"]
    for k in range(200):
        lines += [f"p{k},sure,{seed},{0.6 + 0.1 * rng.random():.3f}" for seed in (0, 1)]
        lines += [f"p{k},lucky,0,{int(rng.random() < 0.9)}", f"p{k},lucky,1,0"]
    (tmp_path / "scores.csv").write_text("\n".join(lines) + "\n")
    of = (tmp_path / "scores.csv", "--pair", "sure,lucky", "--json", tmp_path / "out.json")
    won = {}
    for rule in ("mean", "any:1"):
        command(capsys, "compare", "early-stopping", *of, "--per-prompt", rule)
        won[rule] = json.loads((tmp_path / "out.json").read_text())["pairs"][0]["verdict"]
    assert won == {"mean": "sure", "any:1": "lucky"}
    plan = ("compare", "plan", *of, "--difference", "0.1")
    command(capsys, *plan)
    assert {each["seeds"] for each in json.loads((tmp_path / "out.json").read_text())["plans"]} == {1, 2, 4}
    command(capsys, *plan, "--per-prompt", "any:1")
    assert [each["seeds"] for each in json.loads((tmp_path / "out.json").read_text())["plans"]] == [2]
    assert "cannot be planned" in command(capsys, *plan, "--per-prompt", "any:1", "--images-per-prompt", "4", code=2)


def test_an_old_board_on_a_new_judges_scale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(6)
    for name, first, shift in (("old", 0, 0.0), ("new", 1, 0.1)):
        lines = [f"p{k},g{g},{shift + 0.1 * g + 0.05 * rng.normal():.4f}" for g in range(first, 7) for k in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["prompt_id,generator,score", *lines]) + "\n")
    old, new, out = tmp_path / "old.csv", tmp_path / "new.csv", tmp_path / "out.json"
    said = command(
        capsys, "compare", "bridge", old, new, "--json", out, "--plot", tmp_path / "b.svg", "--out", tmp_path / "b.md"
    )
    assert "carried over" in said
    found = {each["generator"]: each for each in json.loads(out.read_text())["generators"]}
    assert found["g0"]["carried"]
    assert found["g0"]["score"] == pytest.approx(0.1, abs=0.03)
    assert "judged by both" in "".join(ElementTree.parse(tmp_path / "b.svg").getroot().itertext())
    assert "0 anchors (none) are too few" in command(
        capsys, "compare", "bridge", old, judged(tmp_path / "run", 0), code=2
    )


def test_generators_with_identical_files_are_named_by_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    for number in range(4):
        for generator, shade in (("new", 90), ("old", 10), ("old-copy", 10)):
            png(data / generator / f"{number}.png", (shade, 40 * number, 0))
    (data / "prompts.txt").write_text("".join(f"a cat number {number}\n" for number in range(4)))
    arguments = ["judge", "--data", data, "--provider", "fake", "--metric", "tit-llm", "--out", run]
    commands = [arguments, ["judges", "agreement", run], ["compare", "generators", run]]
    told = "old and old-copy have identical image files on 4 of their 4 common prompts."
    for command in commands:
        assert run_command("python cli.py", [*map(str, command)]) == 0
        output = " ".join("".join(capsys.readouterr()).split())
        assert output.count("identical image files") == output.count(told) == 1, output
    assert told in (run / "report.html").read_text(encoding="utf-8")


def test_a_report_of_two_runs_names_generators_with_identical_files(tmp_path: Path) -> None:
    runs = [tmp_path / "old", tmp_path / "old-copy"]
    for run in runs:
        for number in range(4):
            png(tmp_path / f"data-{run.name}" / run.name / f"{number}.png", (10, 40 * number, 0))
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("".join(f"a cat number {number}\n" for number in range(4)))
    layout = ["--images", "{generator}/{prompt_id}.png", "--prompt-file", f"{prompts}:0"]
    for run in runs:
        arguments = ["--data", f"{tmp_path}/data-{run.name}", *layout, "--provider", "fake", "--metric", "tit-llm"]
        assert run_command("python cli.py", ["judge", *arguments, "--out", str(run)]) == 0
    page = tmp_path / "report.html"
    assert run_command("python cli.py", ["report", *map(str, runs), "--out", str(page)]) == 0
    told = "old and old-copy have identical image files on 4 of their 4 common prompts."
    assert page.read_text(encoding="utf-8").count(told) == 1
