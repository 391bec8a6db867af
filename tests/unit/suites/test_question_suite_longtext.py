"""LongText-Bench and OneIG-Bench: what they read, what they refuse, what text counts."""

import asyncio
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core import registry
from titjudge.core.errors import ConfigError, DataError, Unanswered
from titjudge.core.types import InvalidItem, Item, Reply, Score, Status
from titjudge.metrics.text_reading import Wanted, compare, letters, lost_letters, text_reading


class Reader:
    """Reads the same text in every image."""

    siblings = ()

    def __init__(self, text: str, protocol: str = "strict") -> None:
        self.text, self.protocol = text, protocol

    async def __call__(self, template: str, **given: Any) -> Reply:
        return Reply(self.text)


def reading(
    text: str, protocol: str = "strict", rule: str = "words", texts: tuple[str, ...] = ("No Entry", "text")
) -> Score:
    item = Item("a", "p", Path("a.png"), meta={"text": {"texts": list(texts), "rule": rule}})
    return asyncio.run(text_reading(item, Reader(text, protocol)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "strict", "official"),
    [
        ("no entry TEXT", 1.0, 1.0),
        ("entry, addCriterion", 1 / 3, 1 / 3),
        ("No text recognized.", 0.0, 0.0),
        ("No text recognized", 0.0, 2 / 3),  # the script takes it for text
        ("'No text recognized'", 0.0, 2 / 3),
        ("<think>no entry</think>text", 1 / 3, 0.0),
    ],
)
def test_what_counts_as_text(text: str, strict: float, official: float) -> None:
    assert reading(text).value == pytest.approx(strict)
    assert reading(text, "official").value == pytest.approx(official)


def test_signs_and_edits() -> None:
    assert reading("新鲜", rule="signs", texts=("新鲜烘焙",)).value == 0.5
    assert reading("Text", rule="oneig", texts=("text",)).parts == {
        "read": "Text",
        "matched": 0,
        "wanted": 1,
        "distance": 1,
    }
    assert reading("text", texts=("!?",)).status == Status.BAD_INPUT
    bad = Item("a", "p", Path("a.png"), meta={"text": {"texts": [], "rule": "words"}})
    with pytest.raises(Unanswered, match="the item's text: texts: ") as refused:
        asyncio.run(text_reading(bad, Reader("x")))  # type: ignore[arg-type]
    assert refused.value.status == Status.BAD_INPUT


@pytest.mark.parametrize(
    ("asked", "read", "rule"),
    [
        ("こんにちは世界", "さようなら世界", "signs"), ("こんにちは世界", "さようなら世界", "oneig"), ("こんにちは", "さようなら", "words"),
        ("Открыто 24", "Закрыто 24", "words"), ("안녕 OPEN", "잘가 OPEN", "words"), ("año nuevo", "ao nuevo", "words"),
        ("مفتوح الآن", "مغلق الآن", "words"), ("नमस्ते दुनिया", "नमस्त दुनिया", "words"), ("เปิด", "ปิด", "oneig"), ("Ανοιχτό 7", "Κλειστό 7", "words"),
        ("שלום עולם", "עולם", "words"), ("Kürbißbrot", "Kurbisbrot", "words"), ("ĐÓNG CỬA", "DONG CUA", "words"), ("Łódź", "Lodz", "words"),
        ("𠮷野家", "吉野家", "signs"), ("ÅNGSTRÖM", "ANGSTROM", "words"), ("x² metres", "x metres", "words"), ("ٱلسَّلَام 1", "1", "words"),
    ],
)  # fmt: skip
def test_letters_of_every_script_count(asked: str, read: str, rule: str) -> None:
    """Strict: what is wrong is not 1 and what is right is 1. Official: as published, and lost letters are named."""
    right = reading(f"'{unicodedata.normalize('NFD', asked)}'!", rule=rule, texts=(asked,))
    wrong = reading(read, rule=rule, texts=(asked,))
    assert (right.value, right.parts.get("distance", 0)) == (1, 0)
    assert wrong.value is not None
    assert wrong.value < 1 or wrong.parts["distance"] > 0
    official = reading(asked, "official", rule=rule, texts=(asked,))
    lost = lost_letters(asked)
    assert (lost != "") == (official.reason != "")
    if lost:
        assert lost[:19] in official.reason
        assert official.status in (Status.OK, Status.BAD_INPUT)


@pytest.mark.parametrize(
    ("asked", "read"), [("OPEN", "ＯＰＥＮ"), ("ＯＰＥＮ 24", "open ２４"), ("ガラス", "ｶﾞﾗｽ"), ("Café", "Cafe\u0301")]
)
def test_width_and_composition_do_not_matter(asked: str, read: str) -> None:
    assert reading(read, texts=(asked,)).value == 1
    assert reading(asked, texts=(read,)).value == 1


@given(st.text(max_size=40))
def test_what_is_read_exactly_is_right(text: str) -> None:
    if letters(text, signs=True):
        for rule in ("words", "signs", "oneig"):
            counts = compare(Wanted(texts=[text], rule=rule), text, official=False)
            assert counts is not None
            assert counts["matched"] == counts["wanted"]
            assert counts.get("distance", 0) == 0


def pictures(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def test_longtext_bench_names_bad_lines(tmp_path: Path) -> None:
    suite = registry.load("suites", "longtext-bench")
    with pytest.raises(DataError, match=r"no prompts found here or in textbench/. Add text_prompts\.jsonl"):
        list(suite().load(tmp_path))
    with pytest.raises(ConfigError, match=r"unknown variant 'fr'\. Known: zh"):
        suite(variant="fr")
    good = {"prompt_id": 0, "prompt": "a sign", "text": ["STOP"], "category": "sign", "length": "short"}
    wrong = [
        good,
        {**good, "prompt_id": 1, "text": "STOP"},
        {**good, "prompt_id": 2, "text": ["..."]},
        {"prompt_id": 3},
    ]
    lines = [json.dumps(each) for each in [good, *wrong]]
    (tmp_path / "text_prompts.jsonl").write_text("\n".join([*lines, "{"]))
    pictures(tmp_path, "gen/0000_1.png", "gen/0000_2.png", "gen/0009_1.png")
    made = suite()
    found = list(made.load(tmp_path))
    assert [each.reason for each in found if isinstance(each, InvalidItem)][:4] == [
        "text_prompts.jsonl:2: duplicate prompt '0'. Remove one of the rows",
        "text_prompts.jsonl:3: 'text' must be a list of texts, not 'STOP'",
        "text_prompts.jsonl:4: 'text' has no words. Add the text to render",
        "text_prompts.jsonl:5: the key 'prompt' is missing. Add it",
    ]
    items = [each for each in found if isinstance(each, Item)]
    assert [(each.id, each.sample) for each in items] == [("gen/0000_1.png", 1), ("gen/0000_2.png", 2)]
    score = Score(items[0].id, "text-reading", 1.0, parts={"matched": 1, "wanted": 1})
    (table,) = made.aggregate(items, [score])
    assert table.columns[3:] == ("text score", "length short", "category sign")
    assert table.rows == (("gen", 2, 1, 1.0, 1.0, 1.0),)


@pytest.fixture
def oneig(tmp_path: Path) -> Path:
    entry = {
        "question": json.dumps({"1": "Is there a cat?", "2": "Is it red?"}),
        "dependency": json.dumps({"1": [0], "2": [1]}),
    }
    questions = {"000": entry, "001": {"question": "{"}, "002": {**entry, "dependency": {"1": [7]}}, "009": entry}
    for name in ("anime", "human", "object"):
        path = tmp_path / f"scripts/alignment/Q_D/{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(questions if name == "anime" else {}))
    for name, text in (("text/text_content.csv", 'id,text_content\n000,"[\'STOP\']"\n001,STOP\n'),
                       ("reasoning/gt_answer.json", '{"000": "The answer."}')):  # fmt: skip
        path = tmp_path / "scripts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    rows = ["category,id,prompt_en,type,prompt_length,class"]
    rows += [f"Anime_Stylization,{n},a red cat,NP,short," for n in ("000", "001", "002")]
    rows += ["Text_Rendering,000,a sign,NP,short,", "Knowledge_Reasoning,000,what is it?,NP,short,physics"]
    (tmp_path / "OneIG-Bench.csv").write_text("\n".join(rows))
    pictures(tmp_path, "anime/gen/000_0.webp", "anime/gen/000_1.webp", "text/gen/000.webp", "reasoning/gen/000.webp")
    return tmp_path


def test_oneig_without_any_image_is_an_error(oneig: Path) -> None:
    (oneig / "images").rename(oneig / "elsewhere")
    with pytest.raises(DataError, match=r"no images found. Name them images/\{class\}/\{generator\}/"):
        list(registry.load("suites", "oneig-bench")().load(oneig))


def test_oneig_reads_three_tasks_and_names_what_is_wrong(oneig: Path) -> None:
    suite = registry.load("suites", "oneig-bench")()
    found = list(suite.load(oneig))
    reasons = [each.reason for each in found if isinstance(each, InvalidItem)]
    assert sorted(reason.split(": ")[0] for reason in reasons) == [
        "anime.json:001", "anime.json:002", "anime.json:009", "text_content.csv:3",
    ]  # fmt: skip
    assert "'dependency' is missing" in reasons[0]
    assert any(reason.endswith("has the parent 7, which does not exist. Correct them") for reason in reasons)
    items = {each.id: each for each in found if isinstance(each, Item)}
    assert list(items) == [
        "anime/gen/000_0.webp",
        "anime/gen/000_1.webp",
        "reasoning/gen/000.webp",
        "text/gen/000.webp",
    ]
    assert items["reasoning/gen/000.webp"].prompt == "The answer."
    assert items["anime/gen/000_0.webp"].prompt_id == "anime/000"
    scores = [
        Score("anime/gen/000_0.webp", "questions", 1.0), Score("anime/gen/000_1.webp", "questions", 0.5),
        Score("text/gen/000.webp", "text-reading", 0.5, parts={"matched": 1, "wanted": 2, "distance": 10}),
        Score("reasoning/gen/000.webp", "clipscore", 0.25),
    ]  # fmt: skip
    tables = suite.aggregate(list(items.values()), scores)
    assert [table.title.partition(": ")[2] for table in tables] == [
        "alignment by class", "alignment by prompt length", "alignment by type", "text", "reasoning, by clipscore",
    ]  # fmt: skip
    assert tables[0].rows == (("gen", 2, 2, 0.75, 0.75),)
    assert tables[3].rows == (("gen", 1, 1, 10.0, 0.0, 0.5, pytest.approx(0.95)),)
    assert tables[4].rows == (("gen", 1, 1, 0.25, 0.25),)


def test_oneig_says_which_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"OneIG-Bench\.csv"):
        list(registry.load("suites", "oneig-bench")().load(tmp_path))
    with pytest.raises(ConfigError, match=r"unknown variant 'FR'\. Known: en, zh"):
        registry.load("suites", "oneig-bench")(variant="FR")
    with pytest.raises(ConfigError, match=r"must contain \{class\}"):
        registry.load("suites", "oneig-bench")(images="out/{generator}/{prompt_id}.png")


def test_where_images_of_the_reading_suites_belong(oneig: Path, tmp_path: Path) -> None:
    places = registry.load("suites", "oneig-bench")().prompts(oneig)
    found = [each for each in places if not isinstance(each, InvalidItem)]
    assert found[0].path(1, 4, 0) == "images/anime/{generator}/000_1.png"
    assert (found[-1].prompt_id, found[-1].prompt) == ("reasoning/000", "what is it?")
    line = {"prompt_id": 7, "prompt": "a sign", "text": ["STOP"]}
    (tmp_path / "text_prompts.jsonl").write_text(json.dumps(line))
    (place,) = registry.load("suites", "longtext-bench")().prompts(tmp_path)
    assert place.path(0, 4, 0) == "images/{generator}/0007_0.png"
