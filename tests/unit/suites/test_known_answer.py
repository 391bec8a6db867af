import json
from dataclasses import replace
from pathlib import Path

import pytest

from titjudge.core.tables import percent
from titjudge.core.types import InvalidItem, Item, Score, Status, Table
from titjudge.suites.known_answer.suite import KnownAnswer

pytestmark = pytest.mark.slow  # many in all, each of them short


@pytest.fixture
def items(example: Path) -> list[Item]:
    found = list(KnownAnswer().load(example))
    assert not [item for item in found if isinstance(item, InvalidItem)]
    return [item for item in found if isinstance(item, Item)]


def answered(item: Item, metric: str, value: float | None, **parts: object) -> Score:
    status = Status.OK if value is not None else Status.REFUSED
    return Score(item.id, metric, value, status, "", parts, (), item.generator, item.prompt_id)


def table(found: list[Table], word: str) -> Table:
    return next(each for each in found if word in each.title)


def test_what_a_metric_finds_is_true_of_the_image(items: list[Item]) -> None:
    subtle = next(item for item in items if item.prompt_id == "ka_01" and item.meta["level"] == 1)
    assert subtle.meta["prompt_answers"][1] == "yes"  # the prompt asks for exactly three apples
    assert subtle.meta["gold_answers"][1] == "no"  # the image has two
    wrong = next(item for item in items if item.prompt_id == "ka_01" and item.meta["level"] == 2)
    assert wrong.meta["text_words"] == ["FRESH", "FARM", "FRIUT"]
    assert wrong.meta["prompt_words"] == ["FRESH", "FARM", "FRUIT"]


def test_the_graph_and_its_truth_give_the_alignment(items: list[Item]) -> None:
    for item in items:
        truth = [verdict for part in item.meta["graph_truth"].values() for verdict in part]
        assert sum(truth) / len(truth) == pytest.approx(item.meta["alignment"], abs=5e-5)
        graph = item.meta["graph"]
        assert len(graph["entities"] + graph["attributes"] + graph["relations"]) == len(truth)


def test_the_graph_is_one_that_the_metric_takes(items: list[Item]) -> None:
    graph = pytest.importorskip("titjudge.metrics.graph_alignment").Graph.from_json(items[0].meta["graph"])
    assert ("apples", "count: three") in graph.attributes
    assert ("oranges", "inside", "bowl") in graph.relations


def test_a_metric_that_knows_the_truth_correlates_perfectly_and_a_failure_is_missing(items: list[Item]) -> None:
    scores = [answered(item, "tit", None if k == 0 else item.meta["alignment"]) for k, item in enumerate(items)]
    (found,) = KnownAnswer().aggregate(items, scores)
    row = found.rows[0]
    assert row[0] == "tit"
    assert str(row[1]).startswith("1.000 [")
    assert row[4:] == (23, 1)


def test_yes_no_is_marked_against_the_image_and_correlated_by_what_the_prompt_requires(items: list[Item]) -> None:
    eagle = [answered(item, "yes-no", 1.0, preds=item.meta["gold_answers"]) for item in items]
    found = KnownAnswer().aggregate(items, eagle)
    assert table(found, "alignment").rows[0][1] is not None
    rows = {row[1]: row for row in table(found, "yes / no").rows}
    assert rows["all"][4].text == "100.0%"
    assert set(rows) == {"all", "level 0", "level 1", "level 2", "level 3"}
    polite = [answered(item, "yes-no", 0.5, preds=["yes"] * len(item.meta["questions"])) for item in items]
    row = table(KnownAnswer().aggregate(items, polite), "yes / no").rows[0]
    assert [str(cell) for cell in row[5:]] == ["100.0%", "0.0%"]  # always yes instead of no, never no instead of yes


def test_graph_verdicts_are_marked_element_by_element(items: list[Item]) -> None:
    def blind(item: Item) -> Score:
        graph = item.meta["graph"]
        elements = {"entity": [[name] for name in graph["entities"]], "attribute": graph["attributes"]}
        alignment = {key: [[element, True] for element in each] for key, each in elements.items()}
        alignment["entity"].append([["unicorn"], True])  # an element that nobody annotated
        return answered(item, "graph-alignment", 1.0, alignment=alignment)

    rows = {row[1]: row for row in table(KnownAnswer().aggregate(items, [blind(i) for i in items]), "graph").rows}
    assert set(rows) == {"all", "attribute", "entity"}
    assert rows["entity"][2] == sum(len(item.meta["graph"]["entities"]) for item in items)
    assert rows["all"][5:] == (percent(1), percent(0))


def test_words_are_marked_against_those_drawn_and_say_nothing_of_adherence(items: list[Item]) -> None:
    scores = [answered(i, "text-rendering", 0.0 if i.meta["text_words"] else None, recall=1.0) for i in items]
    found = KnownAnswer().aggregate(items, scores)
    assert [each.title for each in found] == ["Known answers: words"]
    assert found[0].rows[0][1].text == "0.000"
    assert found[0].rows[0][3:] == (16, 16)


def test_members_of_a_panel_are_marked_apart(items: list[Item]) -> None:
    scores = [answered(item, "yes-no [x/y]", 1.0, preds=item.meta["gold_answers"]) for item in items]
    assert table(KnownAnswer().aggregate(items, scores), "yes / no").rows[0][0] == "yes-no [x/y]"


def test_scores_of_unknown_items_and_nothing_at_all(items: list[Item]) -> None:
    assert KnownAnswer().aggregate([], []) == []
    stray = [replace(answered(items[0], "tit", 0.4), item_id="elsewhere.png")]
    assert KnownAnswer().aggregate(items, stray) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"alignment": 1.2}, "between 0 and 1"),
        ({"alignment": None}, "not a number"),
        ({"answers": ["yes"]}, "not as long"),
        ({"questions": None}, "'questions' is missing. Make the folder with `probe images`"),
        ({"answers": ["maybe"] * 10}, "neither yes nor no"),
        ({"entity_scores": {}}, "do not cover the graph"),
        ({"relation_scores": None}, "do not cover the graph"),
    ],
)
def test_an_annotation_that_is_wrong_is_named_and_not_judged(
    example: Path, tmp_path: Path, change: dict[str, object], word: str
) -> None:
    first = json.loads((example / "images.jsonl").read_text().splitlines()[0])
    (tmp_path / "prompts.jsonl").write_text((example / "prompts.jsonl").read_text())
    (tmp_path / "images.jsonl").write_text(json.dumps(first | change) + "\n")
    (found,) = KnownAnswer().load(tmp_path)
    assert isinstance(found, InvalidItem)
    assert word in found.reason


def test_pairs_are_those_of_the_folder(example: Path, tmp_path: Path) -> None:
    assert len(KnownAnswer().pairs(example)) == 36
    assert KnownAnswer().pairs(tmp_path) == []
