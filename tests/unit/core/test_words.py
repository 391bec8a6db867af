"""Words of prompts in several scripts, texts cut short, lists of texts."""

from typing import Any

import pytest

from titjudge.core.words import count_words, first_of, is_texts, truncated
from titjudge.stats.scores.frame import DERIVED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("A well-known cat,  don't you think?", 6),
        ("一只猫坐在红色的沙发上。", 11),
        ("写着“OPEN 24”的招牌，和 two dogs", 10),
        ("赤いソファーの上の猫", 10),
        ("빨간 소파 위의 고양이", 4),
    ],
)
def test_signs_without_blanks_count_as_words(text: str, words: int) -> None:
    assert count_words(text) == words


def test_a_long_prompt_in_chinese_is_long() -> None:
    assert DERIVED["prompt_length"]("一座白色的灯塔。" * 20) == "more than 100 words"


def test_short_prompts_have_the_characters_of_qwen_image_bench() -> None:
    of = DERIVED["prompt_characters"]
    assert [of("a" * 235), of("a" * 236), of("塔" * 70), of("塔" * 71)] == ["short", "long", "short", "long"]


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("12345", "12345"), ("123456", "1234…")])
def test_a_long_text_is_cut_to_its_length(text: str, shown: str) -> None:
    assert truncated(text, 5) == shown


@pytest.mark.parametrize(
    ("value", "texts"), [([], True), (["a", ""], True), (["a", None], False), ("ab", False), (("a",), False)]
)
def test_lists_of_texts(value: Any, texts: bool) -> None:
    assert is_texts(value) is texts


def test_names_in_a_list_are_short() -> None:
    assert first_of(["p" * 500, "b"]) == f"{'p' * 59}…, b"
    assert first_of(list("abcdefgh")) == "a, b, c, d, e, f and 2 more"
