import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.numbers import finite
from titjudge.core.types import InvalidItem, Item, Score, Status
from titjudge.metrics.longt2ibench_text import CATEGORIES, target_text
from titjudge.suites.longt2ibench.statistics import MATCHINGS, Recall, by_interval, correlate, interval, kind_of, words
from titjudge.suites.longt2ibench.suite import (
    Annotated,
    LongT2IBench,
    aggregate_generations,
    aggregate_predictions,
    aggregate_run,
    generation_results,
    prediction_results,
    read_annotation,
    read_split,
)

RAW = {
    "entities": ["cat", "mat", "dog"],
    "entity_scores": {"cat": 1, "mat": 0, "dog": 2},
    "attribute_scores": {"cat": {"black": 1, "small": 1, "old": 0, "odd": None}, "mat": {"red": 0}},
    "relation_scores": [
        {"entity1": "cat", "relation": "lies on", "entity2": "mat", "score": 0},
        {"entity1": "cat", "relation": "sees", "entity2": "dog", "score": 1},
        {"entity1": "dog", "relation": "by", "entity2": "mat"},
    ],
}
READY = {
    "entities": ["cat", "mat", "dog"],
    "entity_alignment": {"align": ["cat"], "misalign": ["mat"]},
    "attribute_alignment": {"align": ["[black, small]cat"], "misalign": ["[old]cat", "[red]mat"]},
    "relation_alignment": {"align": ["cat[sees]dog"], "misalign": ["cat[lies on]mat", "dog[by]mat"]},
}


def element(prompt: str = "a cat on a mat", image: str = "a/1.png", ratio: Any = 0.5, **more: Any) -> dict[str, Any]:
    return {"en_prompt_text": prompt, "img_path": image, "Align ratio": ratio, "en_structured_data": READY, **more}


def text(structure: dict[str, Any]) -> str:
    lines = ["all entity:\n " + ",".join(structure["entities"])]
    for category in CATEGORIES:
        lists = structure[f"{category}_alignment"]
        lines.append(
            f"{category}_score:\n  align: [{', '.join(lists['align'])}]\n  misalign: [{', '.join(lists['misalign'])}]"
        )
    return "\n\n".join(lines)


def generated(place: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "id": place, "image_path": "data/a/1.png", "input_text": "a cat on a mat", "generated_text": text(READY),
        "ground_truth_score": 0.5, "success": True, "retries": 0, **more,
    }  # fmt: skip


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def saved(tmp_path: Path, *results: Any) -> Path:
    return write(tmp_path / "generation_results.json", {"config": {}, "summary": {}, "results": list(results)})


# -- annotations -------------------------------------------------------------------------------------------------------


def test_a_raw_annotation_is_read_with_the_asymmetry_of_the_official_conversion() -> None:
    written = target_text(read_annotation(RAW)[0])
    assert written.partition("\n\n")[2] == text(READY).partition("\n\n")[2]  # the names of entities stand before it


def test_both_shapes_say_the_same() -> None:
    raw, ready = read_annotation(RAW), read_annotation(READY)
    for category in CATEGORIES:
        assert set(raw[0][category]) == set(ready[0][category])
    assert raw[1] == ready[1] == ("cat", "mat", "dog")
    assert [problem.split(":")[0] for problem in raw[2]] == ["dog", "cat / odd"]


@pytest.mark.parametrize(
    "structure",
    [
        {},
        {"entity_scores": [1]},
        {"entity_scores": {}, "attribute_scores": []},
        {"entity_scores": {}, "attribute_scores": {"cat": 1}},
        {"entity_scores": {}, "relation_scores": {}},
        {"entity_scores": {}, "relation_scores": [{"entity1": "a"}]},
        {**READY, "relation_alignment": {"align": "x"}},
        {**READY, "attribute_alignment": None},
    ],
)
def test_annotations_of_neither_shape(structure: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        read_annotation(structure)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        ("0.75", 0.75),
        (" 1 ", 1),
        (True, None),
        (None, None),
        ("x", None),
        ("nan", None),
        (math.inf, None),
        ([], None),
    ],
)
def test_ratios(value: Any, expected: float | None) -> None:
    assert finite(value) == expected


def test_bad_elements_are_named(tmp_path: Path) -> None:
    rows = [
        element(),
        7,
        {"en_prompt_text": "x"},
        element(prompt=" "),
        element(en_structured_data={}),
        element(ratio="?"),
    ]
    found = list(read_split(write(tmp_path / "test.json", rows)))
    assert [each.id for each in found if isinstance(each, InvalidItem)] == [f"test.json[{k}]" for k in (1, 2, 3, 4)]
    assert isinstance(found[5], Annotated)
    assert found[5].ratio is None
    for bad in (b"{}", b"[", b"\xff"):
        (tmp_path / "bad.json").write_bytes(bad)
        with pytest.raises(DataError, match=r"bad\.json"):
            list(read_split(tmp_path / "bad.json"))


# -- recall ------------------------------------------------------------------------------------------------------------

TRUTH = {
    "entity": [(("Red  cat",), True), (("the mat",), False)],
    "attribute": [(("cat", "black"), True), (("cat", "small"), True), (("mat", "red"), False)],
    "relation": [(("cat", "on", "mat"), False)],
}


def recall(predicted: dict[str, Any], matching: str) -> dict[str, Any]:
    counted = Recall(matching)
    counted.add(TRUTH, {"entity": [], "attribute": [], "relation": [], **predicted})
    return counted.to_json()


@pytest.mark.parametrize(
    ("matching", "names"),
    [("exact", []), ("casefold", ["red cat"]), ("loose", ["red cat", "mat"]), ("loose-group", ["red cat", "mat"])],
)
def test_matching_rules(matching: str, names: list[str]) -> None:
    found = recall({"entity": [(("red cat",), True), (("Mat!",), False)]}, matching)["entity"]
    assert (found["align"], found["misalign"]) == (float("red cat" in names), float("mat" in names))


def test_single_and_grouped_attributes() -> None:
    predicted = {"attribute": [(("cat", "black"), True), (("mat", "red"), False)]}
    assert recall(predicted, "casefold")["attribute"]["align"] == 0.5
    grouped = recall(predicted, "casefold-group")["attribute"]
    assert (grouped["align"], grouped["counts"]["align"]) == (0, [0, 1])
    assert grouped["misalign"] == 1


def test_extra_elements_cost_nothing_and_contradictions_find_nothing() -> None:
    predicted = {"relation": [(("cat", "on", "mat"), False), (("cat", "by", "mat"), False)]}
    assert recall(predicted, "exact")["relation"]["misalign"] == 1
    predicted["relation"].append((("cat", "on", "mat"), True))
    assert recall(predicted, "exact")["relation"]["misalign"] == 0


def test_the_wrong_list_is_not_found() -> None:
    found = recall({"attribute": [(("cat", "black"), False), (("cat", "small"), True)]}, "casefold")
    assert found["attribute"]["overall"] == 1 / 3
    assert found["all"]["overall"] == 1 / 6
    assert found["relation"]["align"] is None


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(ConfigError, match="casefold"):
        Recall("casfold")
    assert len(MATCHINGS) == 6


ELEMENTS = st.lists(st.tuples(st.tuples(st.sampled_from("abcdE")), st.booleans()), max_size=8)


@given(st.lists(st.tuples(ELEMENTS, ELEMENTS), max_size=4))
def test_recall_against_the_slow_way(images: list[Any]) -> None:
    counted = Recall("casefold")
    hits, total = {True: 0, False: 0}, {True: 0, False: 0}
    for truth, predicted in images:
        counted.add(
            {"entity": truth, "attribute": [], "relation": []}, {"entity": predicted, "attribute": [], "relation": []}
        )
        for (name,), aligned in truth:
            total[aligned] += 1
            right = any(name.lower() == other.lower() and verdict is aligned for (other,), verdict in predicted)
            wrong = any(name.lower() == other.lower() and verdict is not aligned for (other,), verdict in predicted)
            hits[aligned] += right and not wrong
    found = counted.to_json()["entity"]
    for status, aligned in (("align", True), ("misalign", False)):
        assert found[status] == (hits[aligned] / total[aligned] if total[aligned] else None)
    both = sum(total.values())
    assert found["overall"] == (sum(hits.values()) / both if both else None)


# -- correlation -------------------------------------------------------------------------------------------------------


def test_correlations() -> None:
    found = correlate([(0.1, 1), (0.2, 4), (0.3, 2), (0.9, 3)])
    assert found["srcc"] == pytest.approx(0.4)
    assert found["plcc"] == pytest.approx(0.45 / math.sqrt(0.3875 * 5))
    assert found["average"] == pytest.approx((found["srcc"] + found["plcc"]) / 2)


def test_values_that_are_almost_constant_warn_nobody() -> None:
    assert correlate([(1.0, 1), (1.0 + 2e-16, 2), (1.0, 3)])["n"] == 3


@pytest.mark.parametrize("rows", [[], [(1.0, 2.0)], [(1.0, 2.0), (1.0, 3.0)], [(1.0, 2.0), (3.0, 2.0)]])
def test_undefined_correlations_are_none(rows: list[tuple[float, float]]) -> None:
    assert correlate(rows) == {"srcc": None, "plcc": None, "average": None, "n": len(rows)}


@pytest.mark.parametrize(
    ("count", "name"),
    [
        (29, ""),
        (30, "30-50"),
        (49, "30-50"),
        (50, "50-70"),
        (90, "90-110"),
        (109, "90-110"),
        (110, "110+"),
        (999, "110+"),
    ],
)
def test_intervals(count: int, name: str) -> None:
    assert interval(count) == name
    assert words("word " * count) == count


def test_each_row_is_in_one_interval() -> None:
    rows = [("w " * count, count / 200, (count % 7) / 7) for count in range(0, 150, 10)]
    found = by_interval(rows)
    assert found["overall"]["n"] == 15
    assert [found[name]["n"] for name in ("30-50", "50-70", "70-90", "90-110", "110+")] == [2, 2, 2, 2, 4]


# -- saved answers -----------------------------------------------------------------------------------------------------


def test_saved_generations(tmp_path: Path) -> None:
    split = write(
        tmp_path / "test.json",
        [element(), element(prompt="other", image="a/2.png", ratio="0.25", en_structured_data=RAW)],
    )
    half = {**READY, "entity_alignment": {"align": ["cat", "mat"], "misalign": []}}
    other = {"input_text": "other", "image_path": "./data/a/2.png"}
    result, tables = aggregate_generations(
        saved(tmp_path, generated(), generated(1, **other, generated_text=text(half))), split
    )
    found = result["interpretation"]
    assert found["entity"]["counts"] == {"align": [2, 2], "misalign": [1, 2]}
    assert found["attribute"]["overall"] == found["relation"]["overall"] == 1
    assert found["all"]["overall"] == 17 / 18
    assert result["correlation"]["overall"]["n"] == 2
    assert result["correlation"]["overall"]["srcc"] == pytest.approx(-1)
    assert result["short_prompts"] == 2
    assert [table.title.partition(": ")[2] for table in tables[:3]] == [
        "interpretation accuracy", "alignment score against people", "coverage",
    ]  # fmt: skip
    assert [problem["name"] for problem in result["problems"]] == ["test.json[1]", "test.json[1]"]


def test_what_cannot_be_used_is_counted_and_named(tmp_path: Path) -> None:
    split = write(tmp_path / "test.json", [element()])
    path = saved(
        tmp_path,
        generated(),
        generated(),
        generated(1, success=False, generated_text=None, error="no memory"),
        generated(2, generated_text="I cannot see it."),
        generated(3, generated_text=text(READY)[:-25]),
        generated(4, input_text="another prompt"),
        generated(5, generated_text=["a"]),
        "nothing",
    )
    result, _ = aggregate_generations(path, split)
    assert result["coverage"] == {
        "results": 8, "parsed": 4, "incomplete": 1, "unparsed": 1, "failed": 3, "duplicates": 1, "compared": 3, "scored": 3,
    }  # fmt: skip
    named = {problem["name"]: problem["reason"] for problem in result["problems"]}
    assert named["result 1"] == "no memory"
    assert "cut off" in named["result 3"]
    assert "no element" in named["result 4"]


def test_without_a_split_there_are_scores_only(tmp_path: Path) -> None:
    result, tables = aggregate_generations(saved(tmp_path, generated(), generated(1, ground_truth_score=None)))
    assert (result["interpretation"], result["coverage"]["scored"]) == ({}, 1)
    assert len(tables) == 2


@pytest.mark.parametrize("raw", [b"[]", b"{}", b'{"results": 1}', b"\xff", b""])
def test_files_that_are_no_generations(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "g.json").write_bytes(raw)
    with pytest.raises(DataError, match=r"g\.json"):
        aggregate_generations(tmp_path / "g.json")


def test_saved_predictions(tmp_path: Path) -> None:
    rows = [{"original_text": "w " * 40, "true_score": i / 9, "predicted_score": i * i / 81} for i in range(9)]
    result, _ = aggregate_predictions(write(tmp_path / "p.json", [*rows, {"true_score": 1}, 3]))
    assert result["correlation"]["30-50"]["srcc"] == pytest.approx(1)
    assert result["coverage"] == {"results": 11, "used": 9, "scored": 9}
    assert len(result["problems"]) == 2
    with pytest.raises(DataError):
        aggregate_predictions(write(tmp_path / "p.json", {}))


# -- the suite ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("place", "images"), [("split", "image_prompts_1st"), ("data/split", "imgs"), (".", "imgs")])
def test_loading(tmp_path: Path, place: str, images: str) -> None:
    rows = [
        element(),
        element(),
        element(image="../x.png"),
        {},
        element(prompt="p", image="b.png", en_structured_data=RAW),
    ]
    file = write(tmp_path / place / "test.json", rows)
    root = file.parent.parent if "split" in place else tmp_path
    (root / images).mkdir()
    (root / images / "b.png").write_bytes(b"")
    loaded = list(LongT2IBench().load(tmp_path))
    assert [each.id for each in loaded] == ["a/1.png", "a/1.png (2)", "../x.png", "test.json[3]", "b.png"]
    assert [isinstance(each, InvalidItem) for each in loaded] == [False, False, True, True, False]
    first, last = loaded[0], loaded[4]
    assert isinstance(first, Item)
    assert isinstance(last, Item)
    assert (first.image, last.image) == (root / "a" / "1.png", root / images / "b.png")
    assert first.prompt_id != last.prompt_id
    assert first.meta["graph"]["attributes"] == [["cat", "black"], ["cat", "small"], ["cat", "old"], ["mat", "red"]]
    assert first.meta["align_ratio"] == 0.5
    assert len(last.meta["annotation_problems"]) == 2
    assert [each.id for each in LongT2IBench().load(file)] == [each.id for each in loaded]


def test_nothing_to_load(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"val\.json is missing"):
        list(LongT2IBench(split="val").load(tmp_path))
    with pytest.raises(ConfigError):
        LongT2IBench(split="dev")
    assert LongT2IBench().pairs(tmp_path) == []


def test_aggregating_scores(tmp_path: Path) -> None:
    rows = [element(), element(prompt="p", image="b.png", ratio=0.75), element(prompt="q", image="c.png", ratio=None)]
    write(tmp_path / "split" / "test.json", rows)
    suite = LongT2IBench()
    items = [each for each in suite.load(tmp_path) if isinstance(each, Item)]
    truth = items[0].meta["annotation"]
    wrong = {**truth, "entity": [[name, not aligned] for name, aligned in truth["entity"]]}
    scores = [
        Score("a/1.png", "graph-alignment", 0.4, parts={"alignment": truth}),
        Score("b.png", "graph-alignment", 0.9, parts={"alignment": wrong}),
        Score("c.png", "graph-alignment", None, Status.REFUSED, "no"),
        Score("a/1.png", "tit", 0.1),
    ]
    found = suite.summary(items, scores)
    assert found["interpretation"]["entity"]["overall"] == 0.5
    assert found["correlation"]["overall"]["srcc"] == pytest.approx(1)
    assert found["coverage"] == {"items": 3, "answered": 2, "unanswered": 1, "scored": 2}
    assert found["problems"] == [{"name": "c.png", "reason": "refused: no"}]
    assert len(suite.aggregate(items, scores)) == 6
    assert len(suite.aggregate(items, [])) == 3


def test_generators_from_keys_and_folders(tmp_path: Path) -> None:
    def named(*rows: dict[str, Any]) -> list[str]:
        write(tmp_path / "split" / "test.json", list(rows))
        return [item.generator for item in LongT2IBench().load(tmp_path) if isinstance(item, Item)]

    assert named(element(image="img/flux/1.png"), element(image="img/sd3/1.png", model="sd3-large")) == [
        "flux",
        "sd3-large",
    ]
    assert named(element(image="img/1.png"), element(image="img/2.png"), element(image="img/3.png", generator="g")) == [
        "",
        "",
        "g",
    ]


def judged_run(tmp_path: Path) -> tuple[list[Item], list[Score]]:
    rows = [
        element(prompt=f"cat {i} " + "w " * 40 * (i % 2), image=f"data/{'ab'[i % 2]}/{i}.png", ratio=i / 7)
        for i in range(6)
    ]
    write(tmp_path / "split" / "test.json", rows)
    items = [each for each in LongT2IBench().load(tmp_path) if isinstance(each, Item)]
    scores = []
    for i, item in enumerate(items[:-1]):
        truth = item.meta["annotation"]
        said = {category: [[name, n < i] for n, (name, _) in enumerate(truth[category])] for category in CATEGORIES}
        value = sum(good for marks in said.values() for _, good in marks) / 9
        scores.append(Score(item.id, "graph-alignment", value, parts={"alignment": said, "graph_from": "the data"}))
    scores.append(Score(items[-1].id, "graph-alignment", None, Status.REFUSED, "no"))
    return items, scores


def test_a_run_in_the_official_form_reads_back_to_the_same(tmp_path: Path) -> None:
    items, scores = judged_run(tmp_path)
    ours, tables = aggregate_run(items, scores)
    generations = generation_results(items, scores)
    assert generations["summary"] == {"total_samples": 6, "successful": 5, "failed": 1, "retried_samples": 0}
    assert generations["results"][5]["generated_text"] is None
    assert generations["results"][5]["error"] == "refused: no"
    back, _ = aggregate_generations(write(tmp_path / "g.json", generations), tmp_path / "split" / "test.json")
    for key in ("interpretation", "alignment"):
        assert back[key] == ours[key]
    back, _ = aggregate_predictions(write(tmp_path / "p.json", prediction_results(items, scores)))
    assert back["correlation"] == ours["correlation"]
    assert back["correlation"]["overall"]["n"] == 5
    assert any(table.title.endswith("by generator") for table in tables)


def test_the_official_files_of_a_run(tmp_path: Path) -> None:
    items, scores = judged_run(tmp_path)
    assert LongT2IBench().write_official(items, scores, tmp_path / "out") == 2
    assert json.loads((tmp_path / "out/generation_results.json").read_text())["summary"]["successful"] == 5
    back, _ = aggregate_predictions(tmp_path / "out/prediction_results.json")
    assert back["correlation"]["overall"]["n"] == 5


def test_the_judges_own_text_is_kept_from_its_first_list_on(tmp_path: Path) -> None:
    items, _ = judged_run(tmp_path)
    said = f"I see. {text(READY)}"
    parts = {"alignment": items[0].meta["annotation"], "graph_from": "the judge", "output": said}
    cut = Score(items[1].id, "graph-alignment", None, Status.TRUNCATED, "cut", parts={"output": "all entity: cat"})
    results = generation_results(items[:2], [Score(items[0].id, "graph-alignment", 0.5, parts=parts), cut])["results"]
    assert [result["generated_text"] for result in results] == [text(READY), "all entity: cat"]


def test_aligned_elements_by_generator_and_length(tmp_path: Path) -> None:
    items, scores = judged_run(tmp_path)
    rates = aggregate_run(items, scores)[0]["alignment"]
    assert list(rates["generator"]) == ["a", "b"]
    assert list(rates["words"]) == ["30-50"]
    a = rates["generator"]["a"]
    assert a["images"] == 3  # 0, 2 and 4: none, two and all of up to four elements are aligned
    score = pytest.approx((0 + 6 / 9 + 1) / 3)  # the mean of the images' shares
    assert a["judge"] == {"entity": 4 / 6, "attribute": 6 / 12, "relation": 5 / 9, "score": score}
    assert a["people"] == {
        "entity": 0.5,
        "attribute": 0.5,
        "relation": pytest.approx(1 / 3),
        "score": pytest.approx(4 / 9),
    }
    assert a["quartiles"] == pytest.approx([4 / 9] * 3)


@pytest.mark.parametrize(
    ("relation", "kind"),
    [
        ("lies on", "spatial"),
        ("next to", "spatial"),
        ("Connected to", "connection"),
        ("has", "possession"),
        ("filled with", "possession"),
        ("walking toward", "from/to"),
        ("resembles", "description"),
        ("chases", "action"),
        ("", "action"),
        ("看着", "action"),
    ],
)
def test_the_words_of_a_relation_say_its_category(relation: str, kind: str) -> None:
    assert kind_of(relation) == kind


def test_aligned_relations_by_category(tmp_path: Path) -> None:
    items, scores = judged_run(tmp_path)
    result, found = aggregate_run(items, scores)
    rates = result["relations"]
    assert sum(of["relations"] for of in rates.values()) == 15
    assert rates["spatial"]["people"] == 0.0  # lies on, by: people saw neither
    assert rates["action"]["people"] == 1.0  # sees
    (table,) = [each for each in found if each.title == "LongT2IBench: aligned relations by category"]
    assert [row[0] for row in table.rows] == ["action", "spatial"]
    assert {row[0]: row[3] for row in table.rows} == {"action": 100.0, "spatial": 0.0}


def test_names_with_commas_in_saved_answers_are_those_of_the_split(tmp_path: Path) -> None:
    raw = {
        "entities": ["tree, bare", "lamp"],
        "entity_scores": {"tree, bare": 1, "lamp": 1},
        "attribute_scores": {"tree, bare": {"made of tin, rusty": 1, "red": 0}},
        "relation_scores": [{"entity1": "lamp", "relation": "on", "entity2": "tree, bare", "score": 1}],
    }
    said = {
        "entities": raw["entities"],
        "entity_alignment": {"align": ["tree, bare", "lamp"], "misalign": []},
        "attribute_alignment": {"align": ["[made of tin, rusty]tree, bare"], "misalign": ["[red]tree, bare"]},
        "relation_alignment": {"align": ["lamp[on]tree, bare"], "misalign": []},
    }
    split = write(tmp_path / "test.json", [element(en_structured_data=raw)])
    result, _ = aggregate_generations(saved(tmp_path, generated(generated_text=text(said))), split)
    assert result["interpretation"]["all"]["counts"] == {"align": [4, 4], "misalign": [1, 1]}


@pytest.mark.parametrize("names", [["tit"], ["tit", "graph-alignment"], ["text-rendering-vlm", "lmm-score"]])
def test_every_metric_is_compared_with_people(tmp_path: Path, names: list[str]) -> None:
    items, scores = judged_run(tmp_path)
    sign = {"text-rendering-vlm": -1}
    scores = scores if "graph-alignment" in names else []
    scores += [
        Score(item.id, name, sign.get(name, 1) * item.meta["align_ratio"])
        for name in names
        if name != "graph-alignment"
        for item in items
    ]
    tables = LongT2IBench().aggregate(items, scores)
    rows = [row for table in tables for row in table.rows if "metric" in table.columns]
    others = [name for name in names if name != "graph-alignment"]
    assert [row[0] for row in rows] == [name for name in others for _ in range(6)]
    assert all(row[2] == pytest.approx(1) and row[5] == 6 for row in rows if row[1] == "overall")
    assert any(table.title.endswith("interpretation accuracy") for table in tables) == ("graph-alignment" in names)
