"""Training data of the recorded example: conversations, preferences, and splits in which no prompt stands twice."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines
from commands import cli
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from report_runs import write_run

from tests.kit import Server
from titjudge.apps.training.files import sft_lines, split
from titjudge.core.errors import DataError
from titjudge.core.files import write_atomic
from titjudge.core.types import Item, Score
from titjudge.suites.folder import Folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    cli(
        folder,
        "judge",
        "--suite",
        "known-answer",
        "--metric",
        "tit",
        "--metric",
        "tit-llm",
        "--out",
        "run",
        "--no-report",
    )
    return folder


def test_conversations_of_what_was_asked_and_answered(run: Path) -> None:
    cli(run, "export", "sft", "run", "--metric", "tit-llm", "-o", "swift.jsonl")
    made = read_lines(run / "swift.jsonl")
    assert len(made) == 2 * 24
    described = next(line for line in made if line["provenance"]["template"] == "tit/describe")
    asked, answered = described["messages"]
    assert asked["content"].startswith("<image>\nPlease provide a detailed")
    assert answered["role"] == "assistant"
    assert len(answered["content"].split()) > 200
    assert all(Path(image).is_file() for image in described["images"])
    assert described["provenance"]["model"] == "recorded"
    compared = next(line for line in made if line["provenance"]["template"] == "tit/compare")
    assert [turn["role"] for turn in compared["messages"]] == ["system", "user", "assistant"]
    assert compared["images"] == []
    assert 0 <= compared["score"] <= 100


def test_forms_of_the_trainers(run: Path) -> None:
    only = ("export", "sft", "run", "--metric", "tit", "--template", "tit/describe")
    cli(run, *only, "--framework", "trl", "-o", "trl.jsonl")
    content = read_lines(run / "trl.jsonl")[0]["messages"][0]["content"]
    assert [part["type"] for part in content] == ["image", "text"]
    cli(run, *only, "--framework", "llama-factory", "-o", "lf.json")
    assert len(json.loads((run / "lf.json").read_text())) == 24
    about = json.loads((run / "dataset_info.json").read_text())["lf"]
    assert (about["file_name"], about["columns"]["images"]) == ("lf.json", "images")
    cli(run, "export", "split", "lf.json", "--val", "0.5", "--test", "0", "--out", "parts")
    parts = {name: json.loads((run / "parts" / f"{name}.json").read_text()) for name in ("train", "val", "test")}
    assert sorted(map(json.dumps, parts["train"] + parts["val"])) == sorted(
        json.dumps(line) for line in json.loads((run / "lf.json").read_text())
    )
    assert not {line["prompt_id"] for line in parts["train"]} & {line["prompt_id"] for line in parts["val"]}
    about = json.loads((run / "parts" / "dataset_info.json").read_text())
    assert {name: each["file_name"] for name, each in about.items()} == {name: f"{name}.json" for name in parts}
    (run / "bad.json").write_text('[{"prompt": "a"}, 3]')
    assert "bad.json:2: the line must be a JSON object, not 3" in cli(
        run, "export", "split", "bad.json", "--out", "parts", code=2
    )


def test_preferences_have_the_better_image_first_and_keep_what_judges_agree_on(run: Path) -> None:
    cli(run, "export", "preferences", "run", "--metric", "tit", "--difference", "0.02", "-o", "all.jsonl")
    made = read_lines(run / "all.jsonl")
    assert all(line["chosen_score"] - line["rejected_score"] == pytest.approx(line["margin"]) for line in made)
    assert min(line["margin"] for line in made) >= 0.02
    pairs = Path(__file__).resolve().parents[3] / "examples/known_answer/pairs.jsonl"
    told = cli(
        run, "export", "preferences", "run", "--metric", "tit", "--difference", "0.02", "--agree", "tit-llm",
        "--pairs", str(pairs), "-o", "trusted.jsonl",
    )  # fmt: skip
    trusted = read_lines(run / "trusted.jsonl")
    assert "another metric disagrees" in told
    assert 0 < len(trusted) < len(made)
    ordered = {
        (row["image_a"], row["image_b"]) if row["preference"] == "a" else (row["image_b"], row["image_a"])
        for row in read_lines(pairs)
    }
    root = str(pairs.parent.resolve()) + "/"
    assert {(each["chosen"].removeprefix(root), each["rejected"].removeprefix(root)) for each in trusted} <= ordered


def test_marks_of_people_become_rows_in_the_form_of_a_pillar(run: Path) -> None:
    image = sorted(str(line["id"]) for line in read_lines(run / "run" / "items.jsonl"))[0]
    write_atomic(
        run / "elements.csv",
        "image,element,value,votes,of\n"
        f"{image},Quality / Detail / Noise,1,2,3\n{image},Quality / Realism / Physical Logic,n/a,3,3\n"
        f"{image},quality / detail / edge clarity,2,3,3\n{image},Aesthetics / Composition / Composition,0,3,3\n"
        f"{image},Quality / None / Such,0,3,3\n",
    )
    cli(run, "export", "sft", "run", "--human", "elements.csv", "-o", "people.jsonl")
    quality, aesthetics = read_lines(run / "people.jsonl")
    system, asked, answered = quality["messages"]
    assert system["content"].startswith("You are an expert evaluator")
    assert "# Evaluation Dimension\nQuality\n" in asked["content"]
    assert asked["content"].count("<image>") == 1
    assert json.loads(answered["content"]) == {
        "Realism": {"Physical Logic": {"score": "N/A"}},
        "Detail": {"Noise": {"score": 1}, "Edge Clarity": {"score": 2}},
    }
    assert (quality["score"], aesthetics["score"]) == (80, 0)
    assert quality["majority"] == {"Physical Logic": ["3", "3"], "Noise": ["2", "3"], "Edge Clarity": ["3", "3"]}
    assert Path(quality["images"][0]).is_file()


def test_marks_on_images_whose_facets_are_unknown_are_named_and_left_out(tmp_path: Path) -> None:
    """The prompt of one image names a facet that the rubric does not have."""
    noise = {"Quality": [["Detail", "Noise"]]}
    for name in ("good.png", "bad.png"):
        Image.new("RGB", (16, 16)).save(tmp_path / name)
    items = [
        Item(name, "a cat", tmp_path / name, "g", name, {"facets": facets})
        for name, facets in (("good.png", noise), ("bad.png", {"Quality": [["Detail", "Charm"]]}))
    ]
    write_run(tmp_path / "run", items, [Score(item.id, "tit", 0.5, prompt_id=item.prompt_id) for item in items])
    rows = [f"{item.id},Quality / Detail / {facet},1" for item, facet in zip(items, ("Noise", "Charm"), strict=True)]
    (tmp_path / "marks.csv").write_text("\n".join(["image,element,value", *rows]) + "\n")
    told = cli(tmp_path, "export", "sft", "run", "--human", "marks.csv", "-o", "people.jsonl")
    assert "bad.png: the rubric has no facet 'Quality / Detail / Charm'" in told
    (line,) = read_lines(tmp_path / "people.jsonl")
    assert json.loads(line["messages"][-1]["content"]) == {"Detail": {"Noise": {"score": 1}}}
    assert line["majority"] == {"Noise": [None, None]}  # the file has no column of votes
    (tmp_path / "marks.csv").write_text("\n".join(["image,element,value", rows[1]]) + "\n")
    told = cli(tmp_path, "export", "sft", "run", "--human", "marks.csv", "-o", "none.jsonl", code=2)
    assert "no mark is of an image of run" in told
    assert "of the rubric (bad.png: the rubric has no facet" in told
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["sft", "run", "--human", "two.jsonl", "-o", "x"], "two.jsonl"),
        (["sft", "run", "--human", "none.csv", "-o", "x"], "none.csv: no mark is of an image of run"),
        (["sft", "run", "--human", "none.csv", "--metric", "tit", "-o", "x"], "cannot be combined with --metric"),
        (["sft", "run", "-o", "x"], "several metrics"),
        (["sft", "run", "--metric", "viescore", "-o", "x"], "unknown metric 'viescore'"),
        (["sft", "run", "--metric", "tit", "--template", "a/b", "-o", "x"], "no answer of tit to a/b is stored"),
        (["sft", "none", "-o", "x"], "none"),
        (["preferences", "run", "--metric", "tit", "--difference", "2", "-o", "x.jsonl"], "no pair is left"),
        (
            ["preferences", "run", "--metric", "tit", "-o", "x.csv"],
            "--out must be a file that ends in .jsonl, .json or",
        ),
        (["split", "none.jsonl", "--out", "parts"], "none.jsonl"),
        (["split", "bad.jsonl", "--out", "parts"], "bad.jsonl:2: the row has neither prompt_id nor prompt, only x"),
        (["split", "train.jsonl", "--out", "."], "train.jsonl is an input of this command"),
        (["preferences", "run", "--pairs", "two.jsonl", "-o", "./two.jsonl"], "two.jsonl is an input of this command"),
        (["split", "two.jsonl", "--out", "parts"], "2 prompts are too few for 3 parts"),
        (
            ["split", "two.jsonl", "--val", "0.9", "--test", "0.9", "--out", "parts"],
            "not train -0.8, val 0.9, test 0.9",
        ),
    ],
)
def test_errors_are_one_line(run: Path, arguments: list[str], reason: str) -> None:
    (run / "train.jsonl").write_text('{"prompt": "a"}\n')
    (run / "bad.jsonl").write_text('{"prompt": "a"}\n{"x": 1}\n')
    (run / "none.csv").write_text("image,element,value\na.png,Is it red?,yes\n")
    (run / "two.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    assert reason in cli(run, "export", *arguments, code=2)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=60), st.integers(0, 5))
def test_no_prompt_stands_in_two_parts(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("split")
    table = [{"prompt_id": f"p{one}", "prompt": f"text {two}"} for one, two in rows]
    table += [{"prompt_id": f"more{n}", "prompt": f"own {n}"} for n in range(3)]
    write_atomic(folder / "t.jsonl", "".join(json.dumps(row) + "\n" for row in table))
    counts = split(folder / "t.jsonl", {"train": 0.6, "val": 0.2, "test": 0.2}, seed, folder)
    assert sum(counts.values()) == len(table)
    assert all(counts.values())
    where: dict[str, set[str]] = defaultdict(set)
    for part in counts:
        for line in read_lines(folder / f"{part}.jsonl"):
            where[line["prompt_id"]].add(part)
            where[line["prompt"]].add(part)
    assert all(len(parts) == 1 for parts in where.values())


def test_each_interval_of_words_is_split_by_the_shares(tmp_path: Path) -> None:
    table = [
        {"prompt_id": f"{words}/{n}", "prompt": f"{n} " + "word " * (words - 1)}
        for words in (35, 60, 80, 100, 130)
        for n in range(20)
    ]
    table += [
        {"prompt_id": "short", "prompt": "brief", "pair": "130/0"},
        {"prompt_id": "130/0", "prompt": "again", "pair": "130/0"},
    ]
    write_atomic(tmp_path / "t.jsonl", "".join(json.dumps(row) + "\n" for row in table))
    split(tmp_path / "t.jsonl", {"train": 0.8, "val": 0.1, "test": 0.1}, 3, tmp_path / "parts", even_words=True)
    for part, share in (("train", 16), ("val", 2), ("test", 2)):
        prompts = {line["prompt_id"].partition("/")[0]: 0 for line in table}
        for name in {line["prompt_id"] for line in read_lines(tmp_path / "parts" / f"{part}.jsonl")}:
            prompts[name.partition("/")[0]] += 1
        assert all(abs(prompts[interval] - share) <= 1 for interval in ("35", "60", "80", "100", "130"))


def test_even_words_need_the_text_of_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"prompt_id": "a"}\n')
    assert "t.jsonl:1: 'prompt' must be text, not None" in cli(
        tmp_path, "export", "split", "t.jsonl", "--even-words", "--out", "parts", code=2
    )


def test_the_chain_of_thought_of_longt2ibench_is_what_is_learnt(tmp_path: Path) -> None:
    answer = """<level> all entity:
 cat,mat

entity_score:
  align: [cat]
  misalign: [mat]

attribute_score:
  align: [[black]cat]
  misalign: []

relation_score:
  align: []
  misalign: [cat[on]mat]"""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"prompt_id": "p", "prompt": "A black cat on a mat."}))
    (tmp_path / "images.jsonl").write_text(json.dumps({"image": "a.png", "prompt_id": "p", "generator": "g"}))
    with Server(lambda seen: answer) as server:
        judge = ("--judge", "openai/gpt-4o", "--base-url", server.openai, "--protocol", "official", "--out", "run")
        told = cli(tmp_path, "judge", "--data", ".", "--metric", "graph-alignment", *judge, OPENAI_API_KEY="sk-x")
    cli(tmp_path, "export", "sft", "run", "--framework", "trl", "-o", "cot.jsonl")
    (line,) = read_lines(tmp_path / "cot.jsonl")
    assert line["messages"][-1]["content"][0]["text"] == answer, told
    assert line["provenance"]["template"] == "longt2ibench/ha_cot"
    assert 0 < line["score"] < 1


@pytest.mark.parametrize("tag", ["<image>", "<Video>", "<audio>"])
def test_a_text_that_a_trainer_takes_for_an_image_leaves_its_line_out(
    tmp_path: Path, tag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, prompt in enumerate((f"a sign that says {tag}", "a sign")):
        Image.new("RGB", (32, 32), (number, 9, 9)).save(tmp_path / f"{number}.png")
        (tmp_path / f"{number}.txt").write_text(prompt)
    judge = ("judge", "--data", ".", "--captioner", "fake/c", "--metric", "lmm-score", "--out", "run", "--no-report")
    cli(tmp_path, *judge)
    for form in ("ms-swift", "llama-factory"):
        found, left_out = sft_lines(tmp_path / "run", None, form)
        assert [line["item"] for line in found] == ["1.png"]
        assert left_out == [f"0.png: {tag} occurs in a text, and {form} would look for a file"]
    found, left_out = sft_lines(tmp_path / "run", None, "trl")
    assert ([line["item"] for line in found], left_out) == (["0.png", "1.png"], [])


def test_where_every_line_is_left_out_it_is_said_why(tmp_path: Path) -> None:
    Image.new("RGB", (32, 32)).save(tmp_path / "0.png")
    (tmp_path / "0.txt").write_text("a sign that says <image>")
    judge = ("judge", "--data", ".", "--captioner", "fake/c", "--metric", "lmm-score", "--out", "run", "--no-report")
    cli(tmp_path, *judge)
    with pytest.raises(DataError, match=r"none of 1 answers can be used: 0\.png: <image> occurs in a text"):
        sft_lines(tmp_path / "run", None, "ms-swift")


def test_preferences_go_out_as_trainers_read_them_and_come_back(run: Path) -> None:
    tables: Any = pytest.importorskip("pyarrow.parquet")
    for name in ("p.jsonl", "p.json", "p.parquet"):
        cli(run, "export", "preferences", "run", "--metric", "tit", "-o", name)
    lines = read_lines(run / "p.jsonl")
    assert lines
    paths = json.loads((run / "p.json").read_text())
    assert [(row["prompt"], row["path1"], row["path2"]) for row in paths] == [
        (line["prompt"], line["chosen"], line["rejected"]) for line in lines
    ]
    for line, row in zip(lines, tables.read_table(run / "p.parquet").to_pylist(), strict=True):
        better = 0 if row["label_0"] == 1 else 1
        assert row["label_0"] + row["label_1"] == 1
        assert (row["caption"], row[f"model_{better}"]) == (line["prompt"], line["chosen_generator"])
        assert row[f"jpg_{better}"] == Path(line["chosen"]).read_bytes()
        assert row[f"jpg_{1 - better}"] == Path(line["rejected"]).read_bytes()
    pairs = Folder().pairs(run / "p.parquet")
    assert [pair.prompt_id for pair in pairs] == [line["prompt_id"] for line in lines]
