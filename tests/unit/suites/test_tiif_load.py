import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines, write_lines
from loading import sorted_out

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import Item, Score
from titjudge.suites.tiif.suite import Tiif

FULL = {"style": 60, "real_world": 100, "text": 40, "numeracy": 75}
MINI = {"style": 30, "real_world": 25, "text": 30, "numeracy": 8}
MAP = {"style": [2 * n for n in range(30)], "real_world": [(n * 7) % 100 for n in range(25)]}


def line(kind: str, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    asked = (
        [f"Is the text '{word}{number}' in the image?" for word in "ab"] if kind == "text" else [f"{kind} {number}? "]
    )
    prompt = {"type": kind, "short_description": f"{kind} {number}", "long_description": f"{kind} {number}, at length"}
    return prompt, {"type": kind, "yn_question_list": asked, "yn_answer_list": ["Yes"] * len(asked)}


def write_set(place: Path, name: str) -> None:
    for kind, count in (FULL if name == "test" else MINI).items():
        numbers = list(range(count)) if name == "test" else MAP.get(kind, list(range(count)))
        rows = [line(kind, number) for number in numbers]
        if kind == "real_world" and name == "testmini":
            rows = [(prompt, {**asked, "corrspond_idx": n}) for (prompt, asked), n in zip(rows, numbers, strict=True)]
        for part, at in ((f"{name}_prompts", 0), (f"{name}_eval_prompts", 1)):
            path = place / part / f"{kind}_{'eval_' if at else ''}prompts.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_lines(path, *(row[at] for row in rows))


def image(
    folder: Path, kind: str, number: int | str, generator: str = "g", length: str = "short", suffix: str = "png"
) -> Path:
    path = folder / "images" / kind / generator / f"{length}_description" / f"{number}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"not looked at here")
    return path


def load(folder: Path, **options: Any) -> tuple[dict[str, Item], dict[str, str]]:
    found = list(Tiif(**options).load(folder))
    items, bad = sorted_out(found)
    good = {item.id: item for item in items}
    assert len(good) + len(bad) == len(found)
    return good, bad


@pytest.fixture
def mini(tmp_path: Path) -> Path:
    write_set(tmp_path, "testmini")
    for kind, count in MINI.items():
        for number in range(count):
            image(tmp_path, kind, number)
    return tmp_path


def test_items_of_testmini(mini: Path) -> None:
    for kind, count in MINI.items():
        for number in range(count):
            image(mini, kind, number, length="long", suffix="webp")
    good, bad = load(mini)
    assert bad == {}
    assert len(good) == 2 * sum(MINI.values())
    item = good["g/text/long/3"]
    assert (item.prompt, item.generator, item.prompt_id) == ("text 3, at length", "g", "text/long/3")
    assert item.image == mini / "images/text/g/long_description/3.webp"
    assert item.meta["questions"] == ["Is the text 'a3' in the image?", "Is the text 'b3' in the image?"]
    assert item.meta["gold_answers"] == ["Yes", "Yes"]
    assert item.meta["text_words"] == ["a3", "b3"]
    assert (item.meta["set"], item.meta["numbering"], item.meta["index"]) == ("testmini", "file", 3)
    assert "text_words" not in good["g/style/short/0"].meta
    assert good["g/style/short/1"].prompt == "style 2"


def test_the_data_may_lie_in_a_folder_data(tmp_path: Path) -> None:
    write_set(tmp_path / "data", "testmini")
    image(tmp_path, "text", 0)
    assert list(load(tmp_path)[0]) == ["g/text/short/0"]


def test_missing_images_are_named_and_absent_lengths_are_not(mini: Path) -> None:
    (mini / "images/text/g/short_description/4.png").unlink()
    good, bad = load(mini)
    assert list(bad) == ["g/text/short/4"]
    assert "short_description/4.png, .jpg, .jpeg or .webp is missing. Add it" in bad["g/text/short/4"]
    assert all(item.meta["length"] == "short" for item in good.values())
    image(mini, "text", 0, generator="other")
    assert sum(name.startswith("other/") for name in load(mini)[1]) == sum(MINI.values()) - 1


def test_stray_and_double_images_are_named(mini: Path) -> None:
    image(mini, "text", 0, suffix="jpg")
    image(mini, "text", 30)
    image(mini, "text", "cover")
    (mini / "images/text/g/short_description/Thumbs.db").write_bytes(b"")
    good, bad = load(mini)
    assert [good[name].image.name for name in ("g/text/short/0", "g/text/short/0 (2)")] == ["0.jpg", "0.png"]  # type: ignore[union-attr]
    assert good["g/text/short/0 (2)"].prompt_id == good["g/text/short/0"].prompt_id
    assert "no prompt of this number" in bad["g/text/short/30"]
    assert "must be the number of a prompt" in bad["g/text/short/cover.png"]
    assert len(bad) == 2


def test_several_images_of_a_prompt_count_as_one_with_their_mean(mini: Path) -> None:
    image(mini, "text", 0, suffix="jpg")
    good, _ = load(mini)
    gold = good["g/text/short/0"].meta["gold_answers"]

    def score(item: str, preds: list[str]) -> Score:
        return Score(item, "yes-no", 1.0, parts={"preds": preds, "gold": gold})

    wrong = ["no" if each == "yes" else "yes" for each in gold]
    both = [score("g/text/short/0", gold), score("g/text/short/0 (2)", wrong)]
    found = Tiif().summary(list(good.values()), both)["generators"]["g"]["short"]
    assert found["types"]["text"] == 50.0
    assert found["per_image"]["types"]["text"] == 50.0
    assert (found["files"], found["questions"], found["correct"]) == (1, len(gold), len(gold) / 2)
    assert found["coverage"]["scored"] == 1


def test_full_set_and_images_decide_between_both(tmp_path: Path) -> None:
    write_set(tmp_path, "test")
    write_set(tmp_path, "testmini")
    for number in range(40):
        image(tmp_path, "text", number)
    good, _ = load(tmp_path)
    assert {item.meta["set"] for item in good.values()} == {"full"}
    assert {item.meta["set"] for item in load(tmp_path, subset="testmini")[0].values()} == {"testmini"}


def test_testmini_images_with_the_numbers_of_the_full_set(tmp_path: Path) -> None:
    write_set(tmp_path, "test")
    write_set(tmp_path, "testmini")
    for kind, numbers in MAP.items():
        for number in numbers:
            image(tmp_path, kind, number)
    good, bad = load(tmp_path)
    assert good["g/real_world/short/84"].prompt == "real_world 84"
    assert good["g/style/short/58"].meta["numbering"] == "full"
    assert {name.split("/")[1] for name in bad} == {"text", "numeracy"}


def test_real_world_is_mapped_without_the_full_set(tmp_path: Path) -> None:
    write_set(tmp_path, "testmini")
    for number in MAP["real_world"]:
        image(tmp_path, "real_world", number)
    good, _ = load(tmp_path)
    assert good["g/real_world/short/7"].prompt == "real_world 7"


def test_style_numbered_as_the_full_set_is_not_guessed(tmp_path: Path) -> None:
    write_set(tmp_path, "testmini")
    for number in MAP["style"]:
        image(tmp_path, "style", number)
    good, bad = load(tmp_path)
    assert good == {}
    assert "Add test_prompts and test_eval_prompts" in bad["g/style/short/line-0"]


def test_two_numberings_are_refused(tmp_path: Path) -> None:
    write_set(tmp_path, "testmini")
    for number, full in enumerate(MAP["real_world"]):
        image(tmp_path, "real_world", number, generator="a")
        image(tmp_path, "real_world", full, generator="b")
    with pytest.raises(
        DataError, match="the same number means different prompts: real_world/a/short_description is numbered like"
    ):
        load(tmp_path)


def test_two_numberings_in_one_folder_are_refused(tmp_path: Path) -> None:
    write_set(tmp_path, "testmini")
    for number, full in enumerate(MAP["real_world"]):
        image(tmp_path, "real_world", number)
        image(tmp_path, "real_world", full)
    with pytest.raises(DataError, match="fit neither"):
        load(tmp_path)


def test_testmini_images_beside_full_prompts_are_refused(tmp_path: Path) -> None:
    write_set(tmp_path, "test")
    for kind in MAP:
        for number in range(MINI[kind]):
            image(tmp_path, kind, number)
    with pytest.raises(DataError, match="Use the testmini set"):
        load(tmp_path)


def test_sample_index_file(tmp_path: Path) -> None:
    write_set(tmp_path, "test")
    sample = {kind: [5, 1] for kind in FULL}
    (tmp_path / "sample.json").write_text(json.dumps(sample))
    for kind in FULL:
        for number in (1, 5, 6):
            image(tmp_path, kind, number)
    good, bad = load(tmp_path, sample_idx_file=str(tmp_path / "sample.json"))
    assert bad == {}
    assert [name for name in good if "/text/" in name] == ["g/text/short/5", "g/text/short/1"]
    assert good["g/text/short/5"].prompt == "text 5"


@pytest.mark.parametrize(
    ("sample", "match"),
    [
        ("[]", "must be an object"),
        ("{", "not JSON"),
        ("{}", "must be a list of numbers"),
        (json.dumps({kind: [0, 0] for kind in FULL}), "a number occurs twice"),
        (json.dumps({kind: [1000] for kind in FULL}), "must be a line number"),
        (json.dumps({kind: [True] for kind in FULL}), "must be a line number"),
    ],
)
def test_bad_sample_files(tmp_path: Path, sample: str, match: str) -> None:
    write_set(tmp_path, "test")
    image(tmp_path, "text", 0)
    (tmp_path / "s.json").write_text(sample)
    with pytest.raises(DataError, match=match):
        load(tmp_path, sample_idx_file=tmp_path / "s.json")


def test_postfix_and_separate_images(tmp_path: Path) -> None:
    write_set(tmp_path / "data", "testmini")
    image(tmp_path / "out", "text_v2", 0)
    good, _ = load(tmp_path / "data", images=tmp_path / "out" / "images", postfix="_v2")
    assert list(good) == ["g/text/short/0"]


def edit(folder: Path, name: str, change: Callable[[list[Any]], None], *, raw: bytes | None = None) -> None:
    path = folder / name
    rows = read_lines(path)
    change(rows)
    path.write_bytes(raw if raw is not None else "".join(json.dumps(row) + "\n" for row in rows).encode())


QUESTIONS, PROMPTS = "testmini_eval_prompts/text_eval_prompts.jsonl", "testmini_prompts/text_prompts.jsonl"


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        (QUESTIONS, lambda rows: rows.pop(), "29 lines of questions do not fit 30 prompts in text_prompts"),
        (QUESTIONS, lambda rows: rows[2].update(type="style"), r"jsonl:3: type is style"),
        (PROMPTS, lambda rows: rows[2].update(type="style"), r"prompts\.jsonl:3: type is style"),
        (QUESTIONS, lambda rows: rows[0].update(yn_answer_list=["yes"]), r"jsonl:1: 2 questions do not fit 1 answers"),
        (QUESTIONS, lambda rows: rows[0].update(yn_answer_list=["yes", "maybe"]), "must be yes or no"),
        (QUESTIONS, lambda rows: rows[0].update(yn_question_list=[]), "lists that are not empty"),
        (QUESTIONS, lambda rows: rows[0].update(yn_question_list=["a", 1]), "a question must be a text"),
        (QUESTIONS, lambda rows: rows[1].pop("yn_answer_list"), r"jsonl:2: the key 'yn_answer_list' is missing"),
        (PROMPTS, lambda rows: rows[1].update(long_description=" "), "long_description must be a text"),
        (PROMPTS, lambda rows: rows.clear(), "do not fit 0 prompts"),
    ],
)
def test_malformed_prompt_files(mini: Path, name: str, change: Callable[[list[Any]], None], match: str) -> None:
    edit(mini, name, change)
    with pytest.raises(DataError, match=match):
        load(mini)


def test_other_encodings_and_missing_files(mini: Path) -> None:
    edit(mini, PROMPTS, lambda rows: None, raw=b'{"type": "text", "short_description": "\xe9"}\n')
    with pytest.raises(DataError, match="UTF-8"):
        load(mini)
    (mini / PROMPTS).unlink()
    (mini / "testmini_prompts/shape+2d_prompts.jsonl").write_text("")
    with pytest.raises(
        DataError, match=r"only one of testmini_prompts and testmini_eval_prompts has .*: shape\+2d, text"
    ):
        load(mini)


def test_folders_that_are_not_tiif(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a TIIF-Bench folder"):
        load(tmp_path)
    write_set(tmp_path, "testmini")
    with pytest.raises(DataError, match="no images found"):
        load(tmp_path)
    with pytest.raises(DataError, match="not a TIIF-Bench folder"):
        load(tmp_path, subset="full")
    image(tmp_path, "text", 0)
    image(tmp_path / "images" / "..", "text", 0).rename(tmp_path / "x.png")
    (tmp_path / "more" / "text").mkdir(parents=True)
    with pytest.raises(DataError, match="several folders have images"):
        load(tmp_path)


@pytest.mark.parametrize("options", [{"subset": "mini"}, {"template": 4}, {"template": "x"}, {"seed": "one"}])
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Tiif(**options)


def test_options_reach_the_items(mini: Path) -> None:
    good, _ = load(mini, template="2", seed="7")
    item = good["g/text/short/0"]
    assert (item.meta["template"], item.meta["template_seed"]) == (2, 7)


def test_suite_facts() -> None:
    suite = Tiif()
    assert suite.name == "tiif"
    assert suite.VERSION
    assert suite.metrics == ("yes-no", "text-rendering")
    assert len(suite.DEVIATIONS) > 5
    assert suite.pairs(Path()) == []


def test_coverage_counts_images_that_are_no_items(mini: Path) -> None:
    good, _ = load(mini)
    found = Tiif().summary(list(good.values()), [])["generators"]["g"]["short"]
    assert found["coverage"]["expected"] == 277
    assert found["overall"] is None
