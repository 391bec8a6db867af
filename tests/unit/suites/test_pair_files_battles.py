"""Votes of arenas as pairs, and both bad as an outcome of its own, from the page to the tables."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines
from commands import cli
from labelling_data import begin_store
from PIL import Image

from titjudge.apps.label.forms import export_labels
from titjudge.apps.label.questions import Question
from titjudge.core.errors import DataError
from titjudge.core.types import Item, Pair
from titjudge.runs import RunFolder
from titjudge.runs.study.human_files import pair_records
from titjudge.stats.people.votes import Rule, Vote, aggregate_votes, decide
from titjudge.suites.folder import Folder
from titjudge.suites.pair_files import read_pairs, read_votes

WINNERS = ("model_a", "model_b", "tie", "tie (bothbad)")


def items() -> list[Item]:
    return [
        Item(f"{model}/{prompt}.png", f"text of {prompt}", None, model, prompt)
        for prompt in ("p1", "p2") for model in ("new", "old")
    ]  # fmt: skip


def table(file: Path, *rows: dict[str, Any]) -> Path:
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return file


def battle(winner: str, **more: Any) -> dict[str, Any]:
    return {"prompt_id": "p1", "model_a": "new", "model_b": "old", "winner": winner, **more}


def test_battles_become_pairs(tmp_path: Path) -> None:
    file = table(tmp_path / "b.jsonl", *map(battle, WINNERS), battle("model_a", model_b="new"))
    pairs = read_pairs(file, items=items)
    assert [(p.preference, p.both_bad, p.choice) for p in pairs] == [
        ("a", False, "a"), ("b", False, "b"), ("tie", False, "tie"), ("tie", True, "both_bad"),
    ]  # fmt: skip
    assert {(p.prompt_id, p.a, p.b) for p in pairs} == {("p1", "new/p1.png", "old/p1.png")}


def test_a_battle_of_a_model_that_is_not_here_is_a_pair_without_a_score(tmp_path: Path) -> None:
    """Votes of a whole arena come with models and prompts that one has no images of."""
    rows = [battle("model_a"), battle("model_b", model_b="other"), battle("tie", prompt_id="elsewhere")]
    pairs = read_pairs(table(tmp_path / "b.jsonl", *rows), items=items)
    assert [(p.prompt_id, p.a, p.b) for p in pairs] == [
        ("p1", "new/p1.png", "old/p1.png"),
        ("p1", "new/p1.png", "'p1' by 'other'"),
        ("elsewhere", "'elsewhere' by 'new'", "'elsewhere' by 'old'"),
    ]


@pytest.mark.parametrize("column", ["prompt_id", "question_id", "prompt"])
def test_the_prompt_is_an_id_or_a_text(tmp_path: Path, column: str) -> None:
    row = {column: "text of p2" if column == "prompt" else "p2", "model_a": "old", "model_b": "new", "winner": "tie"}
    (pair,) = read_pairs(table(tmp_path / "b.jsonl", row), items=items)
    assert (pair.prompt_id, pair.a, pair.b) == ("p2", "old/p2.png", "new/p2.png")


def test_a_csv_with_its_own_images_needs_no_data(tmp_path: Path) -> None:
    file = tmp_path / "b.csv"
    file.write_text("prompt_id,model_a,model_b,winner,image_a,image_b,judge\np,x,y,Tie (BothBad),1.png,2.png,ann\n")
    assert read_pairs(file) == [Pair("p", "1.png", "2.png", "tie", "ann", True)]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (battle("up"), "b.jsonl:1: the winner must be model_a, model_b, tie or 'tie (bothbad)', not 'up'"),
        (
            battle("tie", model_a="nobody"),
            "b.jsonl:1: there is no image of 'p1' by 'nobody', nor both images of any other battle. Correct the names",
        ),
        (
            {**battle("tie"), "prompt_id": ""},
            "b.jsonl:1: the battle has no prompt. Add one of prompt_id, question_id, prompt",
        ),
        (
            battle("tie", prompt_id="twice"),
            "b.jsonl:1: there are 2 images of 'twice' by 'new'. Add image_a and image_b",
        ),
    ],
)
def test_a_bad_battle_is_named(tmp_path: Path, row: dict[str, Any], told: str) -> None:
    doubled = [Item(f"{n}.png", "t", None, "new", "twice") for n in range(2)]
    with pytest.raises(DataError) as error:
        read_pairs(table(tmp_path / "b.jsonl", row), items=lambda: [*items(), *doubled])
    assert str(error.value).endswith(told)


def test_battles_without_images_and_data_are_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="these battles require image_a and image_b"):
        read_pairs(table(tmp_path / "b.jsonl", battle("tie")))


def test_both_bad_is_decided_as_any_other_choice_and_turns_with_nothing() -> None:
    assert decide(Counter(both_bad=10, a=5), Counter()) == (Rule.CONSENSUS, "both_bad")
    assert decide(Counter(both_bad=8, a=7), Counter()) == (Rule.NEEDS_EXPERTS, None)
    assert decide(Counter(both_bad=8, a=7), Counter(both_bad=2, tie=1)) == (Rule.EXPERTS, "both_bad")
    votes = [Vote("p", "x", "y", f"n{n}", "both_bad") for n in range(2)] + [Vote("p", "y", "x", "n3", "both_bad")]
    votes += [Vote("p", "x", "z", f"n{n}", "tie") for n in range(3)]
    found = aggregate_votes(votes, annotators=3)
    assert [(o.preference, o.votes_bad, o.votes_tie) for o in found.outcomes] == [("both_bad", 3, 0), ("tie", 0, 3)]
    assert found.agreement.alpha == pytest.approx(1.0)  # a tie of two good images is another thing
    assert found.to_json()["both_bad"] == 1
    assert found.pairs[0] == Pair("p", "x", "y", "tie", "votes: consensus", True)
    assert [row["preference"] for row in pair_records(found.pairs)] == ["both_bad", "tie"]


def test_votes_and_pairs_of_a_file_may_say_both_bad(tmp_path: Path) -> None:
    rows = [
        {"prompt_id": "p", "image_a": "x", "image_b": "y", "annotator": word, "preference": word}
        for word in ("Both_Bad", "bothbad", "right")
    ]
    assert [vote.choice for vote in read_votes(table(tmp_path / "v.jsonl", *rows))] == ["both_bad", "both_bad", "b"]
    (pair,) = read_pairs(table(tmp_path / "p.jsonl", rows[0]))
    assert pair.both_bad


def test_votes_go_out_as_battles_and_come_back_as_they_were(tmp_path: Path) -> None:
    store = begin_store(tmp_path / "v.db", "wxyz", annotators=1)
    for (left, right), answer in {"xw": "left", "yx": "both_bad", "zy": "both_bad"}.items():
        store.add("ann", Question("pair", "p", (left, right)), answer)
    assert [vote.text for vote in store.answers()] == ["left", "both_bad", "both_bad"]
    store.close()
    export = export_labels(tmp_path / "v.db", tmp_path / "out")
    result, tables = export.result, export.tables
    assert result["annotator_details"][0]["both_bad_share"] == pytest.approx(2 / 3)
    assert ("both bad", 3) in tables[0].rows  # x and z follow: each of them was called bad
    decided = {(p.a, p.b): p.choice for p in read_pairs(tmp_path / "out" / "pairs.jsonl")}
    assert (decided["x", "z"], decided["w", "x"], decided["w", "z"]) == ("both_bad", "b", "b")
    battles = read_lines(tmp_path / "out" / "battles.jsonl")
    assert [each["winner"] for each in battles] == ["model_a", "tie (bothbad)", "tie (bothbad)"]
    assert (battles[0]["model_a"], battles[0]["judge"]) == ("gen-x", "ann")
    back = read_pairs(tmp_path / "out" / "battles.jsonl")
    assert [(p.a, p.b, p.choice) for p in back] == [("x", "w", "a"), ("y", "x", "both_bad"), ("z", "y", "both_bad")]


def test_a_run_takes_battles_and_keeps_what_is_bad(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    rows = []
    for prompt in ("p1", "p2"):
        for model, colour in (("new", 9), ("old", 99)):
            Image.new("RGB", (8, 8), (colour, 0, 0)).save(data / f"{model}-{prompt}.png")
            rows.append({"image": f"{model}-{prompt}.png", "prompt": f"text of {prompt}", "prompt_id": prompt,
                         "generator": model})  # fmt: skip
    table(data / "data.jsonl", *rows)
    table(tmp_path / "battles.jsonl", battle("model_a"), battle("tie (bothbad)", prompt_id="p2"))
    arguments = ("--metric", "lmm-score", "--captioner", "fake/any", "--pairs", "battles.jsonl", "--out", "run")
    told = cli(tmp_path, "judge", "--data", "data/data.jsonl", *arguments)
    assert "people find both images bad in 1 of 2 pairs: they count as ties" in told
    table(data / "images.jsonl", *rows)
    table(data / "prompts.jsonl", *rows[::2])
    table(data / "pairs.jsonl", battle("model_b"))
    (pair,) = Folder().pairs(data)
    assert (pair.a, pair.choice) == ("new-p1.png", "b")
    assert [pair.choice for pair in RunFolder(tmp_path / "run").results().human_pairs] == ["a", "both_bad"]
    cli(tmp_path, "verify", "run")
    told = cli(tmp_path, "judges", "agreement", "run", "--pairs", "battles.jsonl")
    assert "people find both images bad in 1 of 2 pairs" in told
