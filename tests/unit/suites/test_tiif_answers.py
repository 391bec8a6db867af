import json
import os
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from titjudge.core.errors import DataError
from titjudge.core.types import Item, Score, Status
from titjudge.suites.tiif.answers import answers_as_scores, read_answers, results, tables, write_answers
from titjudge.suites.tiif.layout import TYPES
from titjudge.suites.tiif.suite import Tiif

SLOW: dict[str, list[str]] = {  # written out once more, on purpose
    "attribute": ["shape+color", "color+texture", "texture+color", "shape+texture"],
    "relation": ["2d_spatial_relation", "3d_spatial_relation", "action+2d", "action+3d"],
    "reasoning": ["numeracy", "negation", "differentiation", "comparison"],
    "attribute+relation": [
        *["action+color", "action+texture", "color+2d", "color+3d"],
        *["shape+2d", "shape+3d", "texture+2d", "texture+3d"],
    ],
    "attribute+reasoning": [
        *["numeracy+color", "numeracy+texture", "comparison+color", "comparison+texture"],
        *["differentiation+color", "differentiation+texture", "negation+color", "negation+texture"],
    ],
    "relation+reasoning": [
        *["numeracy+2d", "numeracy+3d", "comparison+2d", "comparison+3d"],
        *["differentiation+2d", "differentiation+3d", "negation+2d", "negation+3d"],
    ],
    "style": ["style"],
    "text": ["text"],
    "real_world": ["real_world"],
}

Record = dict[str, Any]


def aggregated(folder: Path) -> dict[str, Any]:
    return results(read_answers(folder))


def record(gold: list[str], preds: list[str], **more: Any) -> Record:
    return {"gt_answers": gold, "model_pred": preds, **more}


def put(folder: Path, place: str, content: Record | bytes | str) -> Path:
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def slow(tree: dict[tuple[str, str], list[tuple[list[str], list[str]]]], length: str) -> dict[str, Any]:
    """Everything by the letter of the rule, without any shortcut; `tree` is by type and length."""
    types: dict[str, float] = {}
    images: dict[str, float] = {}
    for (kind, where), files in tree.items():
        if where == length:
            hits = [[g.strip().lower() == p.strip().lower() for g, p in zip(*file, strict=True)] for file in files]
            flat = [hit for file in hits for hit in file]
            types[kind] = 100 * flat.count(True) / len(flat)
            images[kind] = 100 * fmean(file.count(True) / len(file) for file in hits)

    def up(values: dict[str, float]) -> dict[str, Any]:
        def average(kinds: list[str]) -> float | None:
            present = [values[kind] for kind in kinds if kind in values]
            return sum(present) / len(present) if present else None

        dimensions = {name: average(kinds) for name, kinds in SLOW.items()}
        known = [value for value in dimensions.values() if value is not None]
        return {
            "overall": sum(known) / len(known) if known else None,
            "basic": average(SLOW["attribute"] + SLOW["relation"] + SLOW["reasoning"]),
            "advanced": average([kind for name in list(SLOW)[3:8] for kind in SLOW[name]]),
            "dimensions": dimensions,
        }

    return {**up(types), "per_image": up(images), "types": types}


answer = st.sampled_from(["yes", "no", "Yes", " no ", "YES"])
pairs = st.lists(st.tuples(answer, answer), min_size=1, max_size=4).map(
    lambda rows: tuple(map(list, zip(*rows, strict=True)))
)
trees = st.dictionaries(
    st.tuples(st.sampled_from(TYPES), st.sampled_from(["short", "long"])),
    st.lists(pairs, min_size=1, max_size=3),
    min_size=1,
    max_size=30,
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees)
def test_equals_the_slow_implementation(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[tuple[str, str], list[tuple[list[str], list[str]]]]
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    for (kind, length), files in tree.items():
        for number, (gold, preds) in enumerate(files):
            put(folder, f"g/{kind}/{length}/{number}.json", record(gold, preds))
    found = aggregated(folder)["generators"]["g"]
    for length in ("short", "long"):
        ours, wanted = found[length], slow(tree, length)
        for one, other in ((ours, wanted), (ours["per_image"], wanted["per_image"])):
            for name in ("overall", "basic", "advanced"):
                assert one[name] == (None if other[name] is None else pytest.approx(other[name]))
            for name, value in other["dimensions"].items():
                assert one["dimensions"][name] == (None if value is None else pytest.approx(value))
        assert {kind: value for kind, value in ours["types"].items() if value is not None} == pytest.approx(
            wanted["types"]
        )


def test_nothing_answered_is_none_and_never_zero(tmp_path: Path) -> None:
    put(tmp_path, "g/style/short/0.json", record(["yes"], ["no"]))
    found = aggregated(tmp_path)["generators"]["g"]
    assert found["short"]["dimensions"]["style"] == 0.0
    assert found["short"]["dimensions"]["text"] is None
    assert found["short"]["basic"] is None
    assert found["long"]["overall"] is None
    assert found["long"]["files"] == 0


BAD: list[tuple[str, Record | bytes | str, str]] = [
    ("truncated", '{"gt_answers": ["yes"], "model_pr', "not JSON"),
    ("empty", b"", "not JSON"),
    (
        "latin",
        '{"gt_answers": ["yes"], "model_pred": ["yes"], "model_output": "é"}'.encode("latin-1"),
        "not JSON",
    ),
    ("bom", b'\xef\xbb\xbf{"gt_answers": ["yes"], "model_pred": ["yes"]}', "not JSON"),
    ("infinity", '{"gt_answers": ["yes"], "model_pred": [Infinity]}', "not JSON"),
    ("two", '{"gt_answers": ["yes"], "model_pred": ["yes"]}{}', "not JSON"),
    ("list", '["yes"]', "must be a JSON object, not"),
    ("null", "null", "must be a JSON object, not"),
    ("keys", "{}", "must be lists"),
    ("number", record(["yes"], 1), "must be lists"),  # type: ignore[arg-type]
    ("string", record(["yes"], "yes"), "must be lists"),  # type: ignore[arg-type]
    ("short", record(["yes", "no"], ["yes"]), "1 answers to 2 questions"),
    ("none", record([], []), "no questions"),
    ("language", record(["yes"], ["oui"]), "must be yes or no, not"),
    ("bool", record(["yes"], [True]), "must be yes or no, not"),  # type: ignore[list-item]
    ("nested", record(["yes"], [["yes"]]), "not a text"),  # type: ignore[list-item]
    ("gold", record(["perhaps"], ["yes"]), "must be yes or no, not"),
    ("questions", record(["yes"], ["yes"], questions=["a?", "b?"]), "as long as"),
    ("index", record(["yes"], ["yes"], line_idx=7), "line_idx must be 1, as in the path, not 7"),
    ("attribute", record(["yes"], ["yes"], attribute="style"), "attribute must be text, as in the path, not 'style'"),
    (
        "desc",
        record(["yes"], ["yes"], desc="long_description"),
        "desc must be short_description, as in the path, not 'long_description'",
    ),
]


@pytest.mark.parametrize(("content", "reason"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_file_is_named_and_not_scored(tmp_path: Path, content: Record | bytes | str, reason: str) -> None:
    put(tmp_path, "g/text/short/0.json", record(["yes"], ["yes"]))
    put(tmp_path, "g/text/short/1.json", content)
    found = aggregated(tmp_path)
    short = found["generators"]["g"]["short"]
    assert (short["files"], short["questions"], short["types"]["text"]) == (1, 1, 100.0)
    assert short["coverage"]["unusable"] == 1
    [problem] = short["problems"]
    assert problem["path"] == "g/text/short/1.json"
    assert reason in problem["reason"]
    assert any("g/text/short/1.json" in note for note in tables(found)[0].notes)


@pytest.mark.parametrize("name", ["x.json", "01.json", "-1.json", "1 (copy).json", ".json", "²" + ".json"])
def test_a_file_name_that_is_no_number_is_named(tmp_path: Path, name: str) -> None:
    put(tmp_path, "g/text/short/0.json", record(["yes"], ["yes"]))
    put(tmp_path, f"g/text/short/{name}", record(["yes"], ["yes"]))
    short = aggregated(tmp_path)["generators"]["g"]["short"]
    assert short["files"] == 1
    assert "number of a prompt" in short["problems"][0]["reason"]


def test_folders_that_do_not_belong_are_named(tmp_path: Path) -> None:
    put(tmp_path, "g/text/short/0.json", record(["yes"], ["yes"]))
    put(tmp_path, "g/texture/short/0.json", record(["yes"], ["no"]))
    put(tmp_path, "g/text/medium/0.json", record(["yes"], ["no"]))
    put(tmp_path, "result_summary.xlsx", b"x")
    found = aggregated(tmp_path)
    assert [problem["path"] for problem in found["problems"]] == ["g/text/medium", "g/texture"]


def test_a_pipe_or_folder_named_like_an_answer_does_not_hang(tmp_path: Path) -> None:
    put(tmp_path, "g/text/short/0.json", record(["yes"], ["yes"]))
    (tmp_path / "g/text/short/1.json").mkdir()
    os.mkfifo(tmp_path / "g/text/short/2.json")
    short = aggregated(tmp_path)["generators"]["g"]["short"]
    assert (short["files"], short["coverage"]["unusable"]) == (1, 2)


def test_a_long_file_is_read_to_its_end(tmp_path: Path) -> None:
    put(tmp_path, "g/text/short/0.json", record(["yes"], ["no"], model_output="no " * 100_000))
    assert aggregated(tmp_path)["generators"]["g"]["short"]["questions"] == 1


def test_no_answers_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        aggregated(tmp_path / "nowhere")
    put(tmp_path, "evaluator/g/text/short/0.json", record(["yes"], ["yes"]))
    with pytest.raises(DataError, match="no answers found"):
        aggregated(tmp_path)


def test_coverage_and_warnings(tmp_path: Path) -> None:
    for number in range(8):
        put(tmp_path, f"a/numeracy/short/{number}.json", record(["yes"], ["yes"]))
    put(tmp_path, "b/numeracy/short/0.json", record(["yes"], ["yes"]))
    found = aggregated(tmp_path)
    assert found["set"] == "testmini"
    coverage = found["generators"]["b"]["short"]["coverage"]
    assert (coverage["scored"], coverage["expected"]) == (1, 277)
    assert coverage["incomplete_types"] == {"numeracy": [1, 8]}
    assert len(coverage["missing_types"]) == 38
    assert any(warning.id == "tiif_coverage_differs" for warning in found["warnings"])
    assert set(found["warnings"]) <= set(tables(found)[0].notes)
    put(tmp_path, "a/numeracy/short/8.json", record(["yes"], ["yes"]))
    assert aggregated(tmp_path)["set"] == "full"


def test_mixed_numbering_is_refused(tmp_path: Path) -> None:
    full = [[f"Does it show thing {n}?", "Is it bright?" + str(n)] for n in range(30)]
    for number in (0, 27, 8):  # keeps the numbers of the full set
        put(tmp_path, f"a/real_world/short/{number}.json", record(["yes"] * 2, ["yes"] * 2, questions=full[number]))
    for number, line in enumerate((27, 0, 8)):  # numbered by the testmini file
        put(tmp_path, f"b/real_world/short/{number}.json", record(["yes"] * 2, ["yes"] * 2, questions=full[line]))
    with pytest.raises(DataError, match=r"a/real_world/short/0\.json and b/real_world"):
        aggregated(tmp_path)


def test_same_numbering_or_made_up_questions_are_not_refused(tmp_path: Path) -> None:
    for generator, length in (("a", "short"), ("a", "long"), ("b", "short")):
        for number in range(3):
            put(tmp_path, f"{generator}/style/{length}/{number}.json", record(["yes"], ["no"], questions=["Is it?"]))
            unique = [f"{generator} {length} {number}?"]
            put(tmp_path, f"{generator}/real_world/{length}/{number}.json", record(["yes"], ["no"], questions=unique))
    assert aggregated(tmp_path)["generators"]["b"]["short"]["files"] == 6


def items_and_scores() -> tuple[list[Item], list[Score]]:
    items, scores = [], []
    for kind in ("style", "text"):
        for number in range(2):
            questions = ["Is the text 'a' in the image?", "Ünï?"]
            meta = {
                "type": kind,
                "length": "short",
                "index": number,
                "questions": questions,
                "gold_answers": ["Yes", "no"],
            }
            name = f"g/{kind}/short/{number}"
            items.append(Item(name, "p", None, "g", name[2:], meta))
            parts = {"preds": ["yes", "yes"], "gold": ["yes", "no"], "questions": questions, "output": "yes é\nyes"}
            scores.append(Score(name, "yes-no", 0.5, parts=parts, generator="g"))
    scores[-1] = Score(items[-1].id, "yes-no", None, Status.REFUSED, "content filter", generator="g")
    return items, scores


def test_scores_aggregate_like_the_tree_they_write(tmp_path: Path) -> None:
    items, scores = items_and_scores()
    assert write_answers(tmp_path, items, scores) == 3
    assert write_answers(tmp_path, items, scores) == 0  # what is there is kept
    from_tree = aggregated(tmp_path)["generators"]["g"]["short"]
    from_scores = Tiif().summary(items, scores)["generators"]["g"]["short"]
    for key in ("overall", "basic", "advanced", "dimensions", "types", "files", "questions", "correct", "per_image"):
        assert from_tree[key] == from_scores[key]
    assert from_scores["coverage"]["expected"] == 4
    assert from_scores["problems"] == [{"path": "g/text/short/1", "reason": "refused: content filter"}]


def test_the_official_files_of_a_run(tmp_path: Path) -> None:
    items, scores = items_and_scores()
    assert Tiif().write_official(items, scores, tmp_path) == 3
    assert Tiif().write_official(items, scores, tmp_path) == 3  # those of this run
    assert aggregated(tmp_path / "eval_results")["generators"]["g"]["short"]["files"] == 3


def test_a_panels_votes_count_and_are_no_answers_of_one_judge(tmp_path: Path) -> None:
    items, scores = items_and_scores()
    panel = [replace(score, parts={"votes": []}) for score in scores]
    assert write_answers(tmp_path, items, panel) == 0
    one, several = (Tiif().summary(items, each)["generators"]["g"]["short"] for each in (scores, panel))
    assert several["types"] == one["types"]
    assert several["correct"] == one["correct"]


def test_the_written_file_is_the_official_one(tmp_path: Path) -> None:
    write_answers(tmp_path, *items_and_scores())
    text = (tmp_path / "g/style/short/1.json").read_text(encoding="utf-8")
    keys = ["attribute", "desc", "jsonl_file", "line_idx", "questions", "gt_answers", "model_pred", "model_output"]
    assert list(json.loads(text)) == keys
    assert text.startswith('{\n  "attribute": "style",\n  "desc": "short_description",')
    assert "Ünï" in text
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".json"] == []


def test_answers_come_back_as_scores(tmp_path: Path) -> None:
    items, scores = items_and_scores()
    write_answers(tmp_path, items, scores)
    put(tmp_path, "g/text/short/1.json", b"broken")
    back = {score.item_id: score for score in answers_as_scores(tmp_path)}
    assert set(back) == {item.id for item in items[:3]}
    assert all(score.value == 0.5 and score.prompt_id == score.item_id[2:] for score in back.values())
    assert back["g/text/short/0"].parts["gold"] == ["yes", "no"]


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "", "a\\b"])
def test_a_generator_cannot_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    items, scores = items_and_scores()
    item = Item(items[0].id, "p", None, name, "", items[0].meta)
    with pytest.raises(DataError, match="generator"):
        write_answers(tmp_path / "out", [item], scores[:1])


def test_reading_counts_every_cell(tmp_path: Path) -> None:
    put(tmp_path, "g/text/long/0.json", record(["yes", "no", "no"], ["Yes", "no", "yes"]))
    put(tmp_path, "g/text/long/3.json", record(["no"], ["no"]))
    cell = read_answers(tmp_path).cells["g", "long"]["text"]
    assert (cell.files, cell.questions, cell.correct) == (2, 4, 3)
    assert cell.accuracy() == 75.0
    assert cell.accuracy(per_image=True) == pytest.approx(100 * (2 / 3 + 1) / 2)
