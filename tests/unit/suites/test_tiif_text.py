import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from commands import cli
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.kit import Server
from titjudge.core import registry
from titjudge.core.config import load_config
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import Item, Reply, Request, Score, Status, Usage
from titjudge.metrics.ocr import text_errors, words_from_questions, words_read
from titjudge.providers import Capabilities, Provider
from titjudge.runs.resolve import resolve
from titjudge.runs.session import Session
from titjudge.suites.tiif.suite import Tiif
from titjudge.suites.tiif.text_rendering import aggregate_text, strings_of

BOX = [[0, 0], [1, 0], [1, 1], [0, 1]]


def distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, last = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y)))
    return row[-1]


def slow(gold: list[str], read: list[str]) -> tuple[float, float]:
    """By the formula, over all assignments."""
    words = [word for string in read or [""] for word in string.lower().split(" ")]
    gold = [word.lower() for word in gold]

    def ned(a: str, b: str) -> float:
        return distance(a, b) / max(len(a), len(b)) if a or b else 0.0

    few, many = sorted((gold, words), key=len)
    best = min(sum(ned(a, b) for a, b in zip(few, chosen, strict=True)) for chosen in permutations(many, len(few)))
    free, hits = list(words), 0
    for word in gold:
        hit = next((other for other in free if ned(word, other) <= 0.3), None)
        if hit is not None:
            free.remove(hit)
            hits += 1
    return (best + abs(len(words) - len(gold))) / len(many), hits / len(gold)


word = st.text("abC", min_size=1, max_size=4)


@settings(deadline=None)
@given(
    st.lists(word, min_size=1, max_size=4), st.lists(st.one_of(word, st.sampled_from(["a b", "a  b", ""])), max_size=3)
)
def test_equals_the_slow_implementation(gold: list[str], read: list[str]) -> None:
    gned, recall, _ = text_errors(gold, read)
    assert (gned, recall) == pytest.approx(slow(gold, read))
    assert 0 <= gned <= 1
    assert 0 <= recall <= 1


def test_nothing_read_is_the_worst_score() -> None:
    assert text_errors(["a", "b"], [])[:2] == (1.0, 0.0)
    assert words_read([]) == [""]


def test_case_spaces_and_repetitions() -> None:
    assert text_errors(["Tea", "TEA"], ["tea tea"])[:2] == (0.0, 1.0)
    assert text_errors(["tea", "tea"], ["tea"])[:2] == (0.5, 0.5)
    assert words_read(["A  b\tc"]) == ["a", "", "b\tc"]


def test_recall_threshold_is_inclusive() -> None:
    assert text_errors(["abcdefghij"], ["abcdefg"])[:2] == (0.3, 1.0)


def test_no_gold_words_is_an_error() -> None:
    with pytest.raises(ValueError, match="the prompt has no text to render"):
        text_errors([], ["a"])


def test_words_from_questions_keep_order_and_repetitions() -> None:
    asked = [
        "Is the text 'b' in the image? ",
        "Is it red?",
        "Is the text 'it's' in the image?",
        "Is the text 'b' in the image?",
    ]
    assert words_from_questions(asked) == ["b", "it's", "b"]


@pytest.mark.parametrize(
    ("result", "strings"),
    [
        (None, []),
        ([], []),
        ([[BOX, ["Hello World", 0.98]], [BOX, ["x", 0.5]]], ["Hello World", "x"]),
        ([[[BOX, ["a", 0.9]], [BOX, ["b", 0.9]]]], ["a", "b"]),
        ([[[BOX, ["a", 0.9]]]], ["a"]),
        ([None], []),
        (["a", "b c"], ["a", "b c"]),
        ("a b", ["a b"]),
        ({"rec_texts": ["a", "b"], "rec_scores": [0.9, 0.8]}, ["a", "b"]),
        ([{"rec_texts": ["a"]}, {"rec_texts": []}], ["a"]),
        ({"res": {"rec_texts": ["a"]}}, ["a"]),
    ],
)
def test_shapes_of_ocr_results(result: Any, strings: list[str]) -> None:
    assert strings_of(result) == strings


@pytest.mark.parametrize(
    "result",
    [
        1,
        True,
        {},
        {"rec_texts": None},
        {"rec_texts": [1]},
        {"res": []},
        [1],
        [[BOX]],
        [[BOX, "a"]],
        [[BOX, []]],
        [[BOX, [0.9, "a"]]],
    ],
)
def test_other_shapes_are_errors(result: Any) -> None:
    with pytest.raises(ValueError):
        strings_of(result)


def put(folder: Path, content: Any) -> Path:
    path = folder / "ocr.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def entry(name: str = "0.png", **more: Any) -> dict[str, Any]:
    base = {"image_name": name, "short_image_ocr_results": ["tea"], "long_image_ocr_results": None, "text": ["tea"]}
    return {**base, **more}


def test_means_over_images(tmp_path: Path) -> None:
    found, tables = aggregate_text(put(tmp_path, [entry(), entry("1.png", short_image_ocr_results=["tex"])]))
    assert found["gned_short"] == pytest.approx((0 + 1 / 3) / 2)
    assert (found["recall_short"], found["gned_long"], found["recall_long"]) == (0.5, 1.0, 0.0)
    assert (found["images"], found["without_text_short"], found["without_text_long"]) == (2, 0, 2)
    assert tables[0].rows[0][0] == "short"


def test_a_length_nobody_has_is_none(tmp_path: Path) -> None:
    only = entry()
    del only["long_image_ocr_results"]
    found, _ = aggregate_text(put(tmp_path, [only]))
    assert (found["gned_short"], found["gned_long"], found["recall_long"]) == (0.0, None, None)


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in entry("bad.png").items() if name != key}


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"[", "not JSON"),
        (b'["\xe9"]', "not UTF-8"),
        ({}, "must be a JSON list"),
        ([], "must be a JSON list"),
        ([1], "entry 0 must be an object"),
        ([without("image_name")], "entry 0 has no image_name"),
        ([entry(), entry()], r"duplicate image 0\.png"),
        ([entry(), without("text")], r"image bad\.png: 'text' must be a list of words"),
        ([entry("bad.png", text=[])], r"image bad\.png: 'text' must be a list of words"),
        ([entry("bad.png", text="tea")], r"image bad\.png: 'text' must be a list of words"),
        ([entry("bad.png", text=["tea", None])], r"image bad\.png: 'text' must be a list of words"),
        ([entry(), without("long_image_ocr_results")], r"image bad\.png: long_image_ocr_results is missing"),
        ([entry("bad.png", short_image_ocr_results=[[BOX]])], r"image bad\.png: short_image_ocr_results has a line"),
        ([entry("bad.png", short_image_ocr_results=3)], r"image bad\.png: .*a int where"),
    ],
)
def test_malformed_files_are_errors_and_never_perfect(tmp_path: Path, content: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        aggregate_text(put(tmp_path, content))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        aggregate_text(tmp_path / "none.json")


def test_gold_words_from_the_questions(tmp_path: Path) -> None:
    questions = tmp_path / "text_eval_prompts.jsonl"
    questions.write_text(json.dumps({"yn_question_list": ["Is the text 'tea' in the image?"]}) + "\n")
    path = put(tmp_path, [without("text") | {"image_name": "0.png"}])
    assert aggregate_text(path, questions)[0]["gned_short"] == 0.0
    with pytest.raises(DataError, match="must be the number of a line"):
        aggregate_text(put(tmp_path, [without("text")]), questions)


def test_table_from_scores() -> None:
    meta = {"type": "text", "length": "short", "text_words": ["a"], "questions": ["?"], "gold_answers": ["yes"]}
    items = [Item(f"g/text/short/{n}", "p", None, "g", "", {**meta, "index": n}) for n in range(3)]
    scores = [Score(items[n].id, "text-rendering", 0.5 * n, parts={"recall": 1.0, "pned": float(n)}) for n in range(2)]
    scores.append(Score(items[2].id, "text-rendering", None, Status.BAD_INPUT, "unreadable"))
    table = Tiif().aggregate(items, scores)[-1]
    assert table.rows == (("g", "short", "OCR", 0.25, 1.0, 0.5, 2, 3),)


def test_pned_is_gned_before_it_is_divided() -> None:
    """cal_pned_and_recall.py of LeX-Art: the best assignment of words, plus one for each too many or missing."""
    assert text_errors(["tea", "cake"], ["tea", "cat", "dog"]) == (pytest.approx(1.5 / 3), 0.5, pytest.approx(1.5))
    assert text_errors(["a"], ["a"]).pned == 0


def test_several_files_and_the_official_keys(tmp_path: Path) -> None:
    for name, read in (("one", ["tea"]), ("two", ["toe"])):
        (tmp_path / f"{name}.json").write_text(json.dumps([entry(short_image_ocr_results=read)]))
    cli(
        tmp_path,
        "suites",
        "aggregate",
        "tiif-text",
        "one.json",
        "two.json",
        "--official-files",
        ".",
    )
    found = json.loads((tmp_path / "gned.json").read_text())
    assert [list(each) for each in found] == [
        ["file_name", "GNED_score_short", "GNED_score_long", "Recall_score_short", "Recall_score_long"]
    ] * 2
    assert [(each["file_name"], each["GNED_score_short"]) for each in found] == [("one.json", 0), ("two.json", 2 / 3)]


def test_what_a_run_has_read_is_written_as_upstream_does_and_read_again(tmp_path: Path) -> None:
    """A vision model reads in the place of OCR; the file has the lines of PaddleOCR 2."""
    small_set(tmp_path)
    with Server(lambda seen: "Tea\nTime" if "Recognize the text" in seen.text else "yes") as server:
        cli(
            tmp_path, "judge", "--suite", "tiif", "--data", ".", "--metric", "text-rendering-vlm", "--captioner",
            "openai/gpt-4o", "--base-url", server.openai, "--out", "run", "--no-report", "--set", "squash=64", "--official-files",
            "files", OPENAI_API_KEY="sk-x",
        )  # fmt: skip
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["ocr"]
    told = cli(tmp_path, "suites", "aggregate", "tiif-text", "run", "--official-files", ".", "--json", "t.json")
    assert "1 files written to ocr" in told
    (row,) = json.loads((tmp_path / "ocr/g.json").read_text())
    assert [row] == json.loads((tmp_path / "files/ocr/g.json").read_text())
    assert row["short_image_ocr_results"] == [[None, ["Tea", 1.0]], [None, ["Time", 1.0]]]
    found = json.loads((tmp_path / "t.json").read_text())
    assert (found["gned_short"], found["recall_short"], found["pned_short"]) == (0.5, 1.0, 1.0)


def test_official_files_of_a_suite_that_has_none_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    told = cli(tmp_path, "judge", "--official-files", "files", code=2)
    assert "the suite folder has no official files" in told


def test_a_source_is_required(tmp_path: Path) -> None:
    assert "SOURCE" in cli(tmp_path, "suites", "aggregate", "tiif-text", code=2)


# -- in a run ----------------------------------------------------------------------------------------------------------


class Yes(Provider):
    """A judge that says yes to everything."""

    name = account = "yes"
    capabilities = Capabilities(images=True, schema=False, direct=True)

    def __init__(self, settings: Any) -> None:
        self.model = settings.model

    async def complete(self, request: Request) -> Reply:
        return Reply("yes\n" * request.messages[-1].text.count("Is "), usage=Usage(1, 1), model_version="yes")


def test_text_rendering_runs_along_where_words_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command; images without words are neither failures nor a loss of coverage."""
    monkeypatch.setitem(registry.TABLES, "providers", {**registry.TABLES["providers"], "yes": f"{__name__}:Yes"})
    monkeypatch.setattr("titjudge.metrics.ocr.read_text", lambda path: ["Tea"])
    monkeypatch.setattr("titjudge.runs.resolve._installed", lambda metric: True)
    small_set(tmp_path)
    settings = {"data": tmp_path, "suite": "tiif", "judge": "yes/x", "out": tmp_path / "run", "report": False}
    outcome = Session(load_config(None, settings)).run()
    assert outcome.failures == []
    assert outcome.results.not_applicable == {"text-rendering": 1}
    told = {name: (each.scored, each.images, each.coverage) for name, each in outcome.results.metrics.items()}
    assert told == {"yes-no": (2, 2, 1.0), "text-rendering": (1, 1, 1.0)}
    titles = [table.title for table in outcome.results.tables]
    assert any("accuracy in percent" in title for title in titles)
    (rows,) = [each.rows for each in outcome.results.tables if "text rendering" in each.title]
    assert [tuple(row) for row in rows] == [("g", "short", "OCR", 0.0, 1.0, 0.0, 1, 1)]


def small_set(tmp_path: Path) -> None:
    """One prompt that asks for a word, one that asks for none, an image for each."""
    asked = {"text": "Is the text 'Tea' in the image?", "style": "Is it a drawing?"}
    for kind, question in asked.items():
        write(tmp_path / f"testmini_prompts/{kind}_prompts.jsonl", {
            "type": kind, "short_description": f"{kind}", "long_description": f"{kind}, at length",
        })  # fmt: skip
        write(tmp_path / f"testmini_eval_prompts/{kind}_eval_prompts.jsonl", {
            "type": kind, "yn_question_list": [question], "yn_answer_list": ["Yes"],
        })  # fmt: skip
        folder = tmp_path / "images" / kind / "g" / "short_description"
        folder.mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(folder / "0.png")


def test_a_run_without_a_judge_is_no_run_of_its_texts_alone(tmp_path: Path) -> None:
    small_set(tmp_path)
    config = load_config(None, {"data": tmp_path, "suite": "tiif"})
    with pytest.raises(ConfigError, match="yes-no needs a judge"):
        resolve(config)


def write(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
