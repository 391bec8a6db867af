"""Agreement by element: published confusion tables, brute-force kappa, and the command over real runs."""

import json
from pathlib import Path

import pytest
from builders import read_lines
from commands import cli
from hypothesis import given
from hypothesis import strategies as st
from report_runs import write_run

from titjudge.core.types import Item, Score
from titjudge.stats.people.element_agreement import ElementLabels, element_agreement


def table(tp: int, fp: int, fn: int, tn: int) -> list[ElementLabels]:
    cells = [("yes", "yes", tp), ("yes", "no", fp), ("no", "yes", fn), ("no", "no", tn)]
    marks = [ElementLabels("", "q", judge, people) for judge, people, count in cells for _ in range(count)]
    return [ElementLabels(f"p{number % 20}", "q", mark.judge, mark.people) for number, mark in enumerate(marks)]


@pytest.mark.parametrize(
    ("counts", "accuracy"),
    [((91, 0, 1, 16), 107 / 108), ((81, 2, 11, 14), 95 / 108), ((20, 1, 0, 19), 0.975)],  # TIIF-Bench paper, A7 and A6
)
def test_confusion_tables_of_the_tiif_paper(counts: tuple[int, int, int, int], accuracy: float) -> None:
    found = element_agreement(table(*counts))
    assert list(found) == ["all"]
    assert list(found["all"].confusion.values()) == list(counts)
    assert found["all"].accuracy == pytest.approx(accuracy)
    interval = found["all"].interval
    assert interval is not None
    assert interval[0] < accuracy < interval[1]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["0", "1", "2", "n/a"]), st.sampled_from(["0", "1", "2", "n/a"])), min_size=2))  # fmt: skip
def test_kappa_is_the_brute_force_one(rows: list[tuple[str, str, str]]) -> None:
    found = element_agreement(ElementLabels(prompt, "k", judge, people) for prompt, judge, people in rows)["all"]
    observed = sum(judge == people for _, judge, people in rows) / len(rows)
    chance = (
        sum(
            sum(judge == value for _, judge, _ in rows) * sum(people == value for _, _, people in rows)
            for value in ("0", "1", "2", "n/a")
        )
        / len(rows) ** 2
    )
    if chance > 1 - 1e-12:
        assert found.kappa is None
    else:
        assert found.kappa == pytest.approx((observed - chance) / (1 - chance))
    assert found.elements == len(rows)


def test_kinds_stand_beside_all_of_them() -> None:
    found = element_agreement([ElementLabels("p", "entity", "yes", "yes"), ElementLabels("q", "relation", "no", "yes")])
    assert {kind: each.accuracy for kind, each in found.items()} == {"all": 0.5, "entity": 1.0, "relation": 0.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elements")
    cli(
        folder, "judge", "--suite", "known-answer", "--metric", "graph-alignment", "--metric", "yes-no", "--out", "run",
        "--no-report",
    )  # fmt: skip
    return folder


def test_the_command_on_graphs_and_questions(run: Path) -> None:
    scores = read_lines(run / "run/scores.jsonl")
    graph = next(score for score in scores if score["metric"] == "graph-alignment")
    rows = [
        {"image": graph["item"], "element": " | ".join(element), "value": "yes" if met else "no"}
        for marks in graph["parts"]["alignment"].values()
        for element, met in marks
    ]
    rows[0]["value"] = "no" if rows[0]["value"] == "yes" else "yes"
    (run / "marks.jsonl").write_text(
        "\n".join(map(json.dumps, [*rows, {"image": "x", "element": "y", "value": "yes"}]))
    )
    told = cli(
        run, "judges", "elements", "run", "--human", "marks.jsonl", "--metric", "graph-alignment", "--json", "e.json"
    )
    found = json.loads((run / "e.json").read_text())["elements"]
    assert found["all"]["accuracy"] == pytest.approx(1 - 1 / len(rows))
    assert found["all"]["recall"] == found["all"]["TP"] / (found["all"]["TP"] + found["all"]["FN"])
    assert set(found) == {"all", "entity", "attribute", "relation"}
    assert "1 of people's marks are on elements that the judge has not marked" in told
    asked = next(score for score in scores if score["metric"] == "yes-no")
    lines = ["image,element,value"]
    lines += [f'{asked["item"]},"{question}",{int(answer == "yes")}' for question, answer in
              zip(asked["parts"]["questions"], asked["parts"]["preds"], strict=True)]  # fmt: skip
    (run / "marks.csv").write_text("\n".join(lines))
    cli(run, "judges", "elements", "run", "--human", "marks.csv", "--metric", "yes-no", "--json", "q.json")
    assert json.loads((run / "q.json").read_text())["elements"]["all"]["accuracy"] == 1


@pytest.mark.parametrize(
    ("content", "arguments", "reason"),
    [
        (
            '{"image": "a", "element": "b", "value": "perhaps"}',
            [],
            "m.jsonl:1: the value must be yes, no, 0, 1, 2 or n/a",
        ),
        ('{"image": "a", "element": "b"}', [], "m.jsonl:1"),
        (
            '{"image": "a", "element": "b", "value": "no"}',
            ["--metric", "yes-no"],
            "none of its elements is an element of yes-no",
        ),
        (
            '{"image": "a", "element": "b", "value": "no"}\n{"image": "a", "element": "b", "value": "yes"}',
            ["--metric", "yes-no"],
            "m.jsonl:2: 'b' of 'a' has another value in row 1",
        ),
    ],
)
def test_errors_are_one_line(run: Path, content: str, arguments: list[str], reason: str) -> None:
    (run / "m.jsonl").write_text(content)
    assert reason in cli(run, "judges", "elements", "run", "--human", "m.jsonl", *arguments, code=2)


def test_the_commands_on_elements_that_a_learned_metric_scores(tmp_path: Path) -> None:
    """A stored run of fga-blip2: people against scores of .5 or more, and a mean by type for each generator."""
    items = [Item(f"{by}{p}", "a red cube", None, by, f"p{p}") for p in range(6) for by in ("one", "two")]
    scores = [
        Score(
            item.id,
            "fga-blip2",
            value=3.0,
            prompt_id=item.prompt_id,
            parts={"elements": {"red (color)": 0.75 if item.generator == "one" else 0.25, "cube": 0.5, "dog": None}},
        )
        for item in items
    ]
    record = {"fga-blip2": {"version": "1", "range": [1, 5], "higher_is_better": True}}
    write_run(tmp_path / "run", items, scores, metrics=record)
    rows = [f"{item.id},{name},yes" for item in items for name in ("red (color)", "cube", "dog")]
    (tmp_path / "marks.csv").write_text("\n".join(["image,element,value", *rows]))
    told = cli(tmp_path, "judges", "elements", "run", "--human", "marks.csv", "--json", "e.json")
    found = json.loads((tmp_path / "e.json").read_text())["elements"]
    assert {kind: (each["TP"], each["FN"]) for kind, each in found.items()} == {
        "all": (18, 6),
        "color": (6, 6),
        "element": (12, 0),
    }
    assert "12 of people's marks are on elements that the judge has not marked" in told
    cli(tmp_path, "compare", "generators", "run", "--by", "element", "--json", "g.json")
    (pair,) = json.loads((tmp_path / "g.json").read_text())["pairs"]
    assert {kind: each["difference"] for kind, each in pair["by"]["element"].items()} == {"color": 0.5, "element": 0.0}
