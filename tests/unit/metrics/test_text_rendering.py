import asyncio
import functools
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders import read_lines

from titjudge.core.errors import MissingExtra
from titjudge.core.types import Item, Score, Status
from titjudge.metrics import ocr
from titjudge.metrics.text_rendering import gold_words, text_rendering


def score(item: Item, protocol: str = "strict") -> Score:
    ask = SimpleNamespace(protocol=protocol)  # asks no model
    return asyncio.run(text_rendering(item, ask))  # type: ignore[arg-type]


def item(image: Path | None = Path("x.png"), **meta: Any) -> Item:
    return Item("i", "p", image, meta=meta)


def test_gold_words_come_from_the_item_or_its_questions() -> None:
    assert gold_words(item(text_words=["a", "a"])) == ["a", "a"]
    assert gold_words(item(questions=["Is the text 'Tea' in the image?", "Is it red?"])) == ["Tea"]
    assert gold_words(item()) == []
    assert gold_words(item(text_words="tea")) is None


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        (item(), Status.MISSING),
        (item(text_words=[]), Status.MISSING),
        (item(text_words=["a", ""]), Status.BAD_INPUT),
    ],
)
def test_items_that_cannot_be_scored(bad: Item, status: Status) -> None:
    result = score(bad)
    assert (result.value, result.status) == (None, status)


def test_value_is_gned_and_recall_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "read_text", lambda path: ["TEA cake"])
    result = score(item(text_words=["tea", "cakes"]))
    assert result.value == pytest.approx(0.1)
    assert result.parts["recall"] == 1.0
    assert result.parts["read"] == ["TEA cake"]
    assert not text_rendering.higher_is_better


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        (["Hello, World!"], ["Hello, World!"]), (["Café déjà"], ["Cafe\u0301 déjà"]), (["Привет, мир"], ["Привет, мир"]),
        (["HELLO"], ["hello"]), (["OPEN"], ["ＯＰＥＮ"]), (["Grand  Opening", "Sale"], ["Grand", "Opening\tSale"]), (["営業中　本日"], ["営業中 本日"]),
        (["Straße"], ["STRASSE"]),
    ],
)  # fmt: skip
def test_a_phrase_that_is_read_exactly_is_perfect(
    asked: list[str], read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ocr, "read_text", lambda path: read)
    result = score(item(text_words=asked))
    assert (result.value, result.parts["recall"], result.parts["pned"]) == (0, 1, 0)
    wrong = score(item(text_words=[*asked, "and more words"]))
    assert wrong.value is not None
    assert wrong.value > 0.2


def test_the_official_protocol_splits_only_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "read_text", lambda path: ["Hello, World!"])
    result = score(item(text_words=["Hello, World!"]), "official")
    assert result.value == pytest.approx(0.77, abs=0.01)
    assert score(item(text_words=["  "])).value is None


def test_without_rapidocr_the_install_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    ocr._engine.cache_clear()
    with pytest.raises(MissingExtra, match=r"titjudge\[ocr\]"):
        score(item(text_words=["a"]))
    ocr._engine.cache_clear()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the OCR packages themselves
def test_real_ocr_on_the_bundled_images(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rapidocr", reason="the extra 'ocr' is not installed")
    monkeypatch.setattr(ocr, "read_text", functools.cache(ocr.read_text))  # a second each
    records = read_lines(example / "images.jsonl")
    with_text = [record for record in records if record["text_present"]][:4]
    for record in with_text:
        result = score(item(image=example / record["image"], text_words=record["text_present"]))
        assert (result.value, result.parts["recall"]) == (0.0, 1.0), record["image"]
    wrong = score(item(image=example / with_text[0]["image"], text_words=["SOMETHING", "ELSE", "ENTIRELY"]))
    assert wrong.value is not None
    assert wrong.value > 0.5
    blank = next(record for record in records if not record["text_present"])
    assert score(item(image=example / blank["image"], text_words=["WORD"])).value == 1.0


@pytest.mark.filterwarnings("ignore")
def test_an_unreadable_image_has_no_score(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr", reason="the extra 'ocr' is not installed")
    (tmp_path / "x.png").write_bytes(b"no image")
    for path in (tmp_path / "x.png", tmp_path / "none.png"):
        result = score(item(image=path, text_words=["a"]))
        assert (result.value, result.status) == (None, Status.BAD_INPUT)
