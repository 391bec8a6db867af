"""`prompts facets`: prompts mapped to the checklist's facets by a judge, and the checklist that reads them."""

import json
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines, write_lines
from commands import cli
from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge.apps.prompt_sets.make import prompt_lines
from titjudge.core.serialization import item_record, score_record
from titjudge.core.types import Item, Score

PROMPTS = {"p1": "A red cube on a wooden table, lit from the left.", "p2": "A sign that says OPEN above a blue door."}
CHOSEN = {
    "p1": [
        "Alignment / Attributes / Color",
        "Aesthetics / Lighting / Lighting & Atmosphere",
        "Alignment / Layout / 3D Space",
    ],
    "p2": [
        "Creative Generation / Text Rendering / Text Accuracy",
        "Alignment / Attributes / Color",
        "Alignment / Scene / Real-world Scene",
    ],
}


def answer(names: list[str]) -> str:
    return json.dumps({"facets": [{"facet": name, "note": "as it says"} for name in names]})


def mapped(seen: Seen) -> str | None:
    text = json.dumps(seen.body, ensure_ascii=False)
    return next((answer(CHOSEN[name]) for name, prompt in PROMPTS.items() if prompt in text), None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    Image.new("RGB", (8, 8), "red").save(folder / "a.png")
    rows = [json.dumps({"prompt_id": name, "prompt": text}) for name, text in PROMPTS.items()]
    (folder / "prompts.jsonl").write_text("\n".join(rows))
    (folder / "images.jsonl").write_text(json.dumps({"image": "a.png", "prompt_id": "p1", "generator": "g"}))
    return folder


def facets(folder: Path, server: Server, *more: str, code: int = 0) -> str:
    judge = ("--judge", "openai/gpt-4o", "--base-url", server.openai)
    return cli(folder, "prompts", "facets", "mine", *judge, *more, code=code, OPENAI_API_KEY="sk-test")


def test_facets_are_found_once_and_the_checklist_asks_about_their_pillars_alone(data: Path, tmp_path: Path) -> None:
    with Server(mapped) as server:
        told = facets(tmp_path, server)
        assert "2 prompts in mine/facets.jsonl" in told
        assert server.count() == 2
        facets(tmp_path, server)
        assert server.count() == 2
    first, second = read_lines(data / "facets.jsonl")
    assert first["prompt"] == PROMPTS["p1"]
    assert first["facets"] == {
        "Aesthetics": [["Lighting", "Lighting & Atmosphere"]],
        "Alignment": [["Attributes", "Color"], ["Layout", "3D Space"]],
    }
    assert second["facets"]["Creative Generation"] == [["Text Rendering", "Text Accuracy"]]
    assert first["notes"]["Alignment / Attributes / Color"] == "as it says"
    assert first["provenance"]["models"] == {"judge": "openai/gpt-4o"}
    assert list(first["provenance"]["templates"]) == ["facets/map"]

    marks = {
        "Alignment": {
            "Attributes": {"Color": {"score": 2}, "Size": {"score": 0}},
            "Layout": {"3D Space": {"score": 1}},
        },
        "Aesthetics": {"Lighting": {"Lighting & Atmosphere": {"score": "N/A"}}},
    }
    with Server(
        lambda seen: next(json.dumps(of) for name, of in marks.items() if f"Dimension\n{name}" in seen.text)
    ) as server:
        judged(tmp_path, server)
        assert server.count() == 2
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["metrics"]["checklist"]["mean"] == (100 + 60) / 2  # Size is no facet of the prompt; N/A drops out


def judged(folder: Path, server: Server, code: int = 0) -> str:
    judge = ("--judge", "openai/gpt-4o", "--base-url", server.openai, "--no-report", "--json", "out.json")
    judge = (*judge, "--min-coverage", "0")  # most criteria have no answer
    return cli(folder, "judge", "--data", "mine", "--metric", "checklist", *judge, code=code, OPENAI_API_KEY="sk-test")


def test_without_facets_all_five_pillars_are_judged_and_not_applicable_drops_out(data: Path, tmp_path: Path) -> None:
    quality = json.dumps({"Detail": {"Noise": {"score": 1}, "Charm": {"score": 0}}})
    nothing = json.dumps({"Attributes": {"Color": {"score": "N/A"}}})
    with Server(lambda seen: quality if "Dimension\nQuality" in seen.text else nothing) as server:
        judged(tmp_path, server)
        assert server.count() == 5
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["metrics"]["checklist"]["mean"] == 60  # Charm is not in the rubric: it is named, and does not count


def test_people_may_score_each_pillar(data: Path, tmp_path: Path) -> None:
    listed = []
    for number in range(6):
        Image.new("RGB", (8, 8), (40 * number, 0, 0)).save(data / f"{number}.png")
        listed.append(
            json.dumps(
                {
                    "image": f"{number}.png",
                    "prompt_id": "p1",
                    "generator": f"g{number}",
                    "kind": ("even", "odd")[number % 2],
                }
            )
        )
    (data / "images.jsonl").write_text("\n".join(listed))
    marks = iter([0, 0, 1, 1, 2, 2])
    told: dict[str, str] = {}

    def mark(seen: Seen) -> str:
        image = seen.images[0]
        if "Dimension\nQuality" in seen.text and image not in told:
            told[image] = json.dumps({"Detail": {"Noise": {"score": next(marks)}}})
        return told[image] if "Dimension\nQuality" in seen.text else json.dumps({})

    with Server(mark) as server:
        judged(tmp_path, server)
    run = next((tmp_path / "runs").iterdir())
    scores = read_lines(run / "scores.jsonl")
    rows = ["image,quality,score,annotators"] + [  # as `label export` writes ratings
        f"{score['item']},{'' if n == 0 else score['parts']['level1']['Quality'] + n},{score['value']},3"
        for n, score in enumerate(scores)
    ]
    (tmp_path / "people.csv").write_text("\n".join(rows))
    out = cli(tmp_path, "judges", "agreement", str(run), "--human", "people.csv", "--json", "c.json")
    found = json.loads((tmp_path / "c.json").read_text())["human_scores"]["checklist"]
    assert "Quality" in out
    assert found["srcc"] == pytest.approx(1)
    assert found["parts"]["Quality"]["n"] == 5
    assert found["parts"]["Quality"]["srcc"] > 0.8
    assert found["parts"]["Quality"]["generators"]["n"] == 5
    assert found["parts"]["Quality"]["generators"]["srcc"] > 0.8
    assert "Rank correlation of generators with people" in out
    by = cli(tmp_path, "judges", "agreement", str(run), "--human", "people.csv", "--by", "kind", "--json", "c.json")
    assert "odd" in by
    assert "even" in by
    found = json.loads((tmp_path / "c.json").read_text())["human_scores"]["checklist"]
    assert found["generators_by"]["odd"]["n"] == 3
    assert "--by: unknown column 'theme'" in cli(
        tmp_path, "judges", "agreement", str(run), "--human", "people.csv", "--by", "theme", code=2
    )
    (tmp_path / "people.csv").write_text("image,beauty\n0.png,3\n")
    assert "Add it; or a column for" in cli(tmp_path, "judges", "agreement", str(run), "--human", "people.csv", code=2)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ([*CHOSEN["p1"], "Alignment / Charm / Wit"], "the answer"),
        (CHOSEN["p1"][:2], "the answer"),
        ([CHOSEN["p1"][0]] * 3, "names 1 facets, fewer than 3"),
    ],
)
def test_what_the_rubric_does_not_have_and_too_few_are_no_answer(
    data: Path, tmp_path: Path, names: list[str], reason: str
) -> None:
    with Server(lambda seen: answer(names)) as server:
        told = facets(tmp_path, server, code=1)
    assert reason in told
    assert read_lines(data / "facets.jsonl") == []


def test_a_cap_leaves_the_facets_that_were_there_and_a_higher_one_replaces_them(data: Path, tmp_path: Path) -> None:
    (data / "facets.jsonl").write_text("")
    with Server(mapped) as server:
        told = facets(tmp_path, server, "--set", "max_requests=1", "--concurrency", "1", code=3)
        assert "facets 1 prompts in mine/facets.part.jsonl is incomplete" in told
        assert (data / "facets.jsonl").read_text() == ""
        facets(tmp_path, server)
    assert len(read_lines(data / "facets.jsonl")) == 2
    assert not (data / "facets.part.jsonl").exists()


def test_a_list_of_prompts_says_where_its_facets_go(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    (tmp_path / "list.csv").write_text("nr,text\n1,A red cube\n2,\n")
    with Server(lambda seen: answer(CHOSEN["p1"])) as server:
        judge = ("--judge", "openai/gpt-4o", "--base-url", server.openai)
        key = {"OPENAI_API_KEY": "sk-test"}
        told = cli(tmp_path, "prompts", "facets", "list.csv", *judge, code=2, **key)
        assert "Add --out FILE" in told
        told = cli(tmp_path, "prompts", "facets", "list.csv", *judge, "-o", "list.csv", code=2, **key)
        assert "list.csv is an input of this command" in told
        assert "none.csv: no such file" in cli(tmp_path, "prompts", "facets", "none.csv", *judge, code=2, **key)
        told = cli(tmp_path, "prompts", "facets", "list.csv:nr,text", *judge, "-o", "f.jsonl", **key)
    assert "list.csv:3: bad_input: 'text' must be a prompt" in told
    assert [(line["prompt_id"], line["prompt"]) for line in read_lines(tmp_path / "f.jsonl")] == [("1", "A red cube")]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"Charm": [["a", "b"]]}, "the rubric has no pillar 'Charm'"),
        ({"Quality": [["Detail", "Wit"]]}, "the rubric has no facet 'Quality / Detail / Wit'"),
        ({"Quality": []}, "the item has no facets to judge"),
        (["Quality"], "its facets must be an object"),
    ],
)
def test_facets_that_the_rubric_does_not_have_are_named(data: Path, tmp_path: Path, given: Any, reason: str) -> None:
    (data / "facets.jsonl").write_text(json.dumps({"prompt": PROMPTS["p1"], "facets": given}))
    with Server(Scripted) as server:
        assert reason in judged(tmp_path, server, code=1)
        assert server.count() == 0


@pytest.mark.parametrize(
    ("value", "parts"),
    [(1, {"lines": [{"prompt": "x"}]}), (1, {"prompt": "x"}), (5, {"prompt": "x"})],
    ids=["lines", "one line as parts", "a count as value"],
)
def test_lines_of_runs_before_there_were_tasks_are_read(tmp_path: Path, value: float, parts: dict[str, Any]) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"metrics": {"six-block": {"version": "1"}}}))
    write_lines(tmp_path / "items.jsonl", item_record(Item("a", "a fox", None, prompt_id="a")))
    write_lines(tmp_path / "scores.jsonl", score_record(Score("a", "six-block", value, parts=parts)))
    (line,) = prompt_lines(tmp_path, "six-block")
    assert (line["prompt_id"], line["prompt"], line["provenance"]["metric"]) == ("a", "x", "six-block 1")
