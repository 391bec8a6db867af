"""Names are compared in Unicode NFC, without outer blanks and what nobody sees."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.names import id_of, is_nothing, plain, split_names


@pytest.mark.parametrize(
    "written", ["{}", " {}", "{} ", "\u00a0{}", "{}\u200b", "\ufeff{}\u3000 ", "\u200b \u2060{}\t"]
)
@pytest.mark.parametrize("name", ["flux", "modèle", "고양이", "ガラス", "a b", "👩‍💻", "می‌خواهم"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_spellings_of_a_name_are_one(name: str, written: str, form: str) -> None:
    assert plain(written.format(unicodedata.normalize(form, name))) == unicodedata.normalize("NFC", name)


@pytest.mark.parametrize(
    "written", ["my\u00a0model", "my\u202fmodel", "my m\u200bodel", "my mo\u00addel", "m\u2060y mod\ufeffel\u00a0"]
)
def test_nothing_invisible_inside_a_name_makes_another(written: str) -> None:
    assert plain(written) == "my model"


@pytest.mark.parametrize(
    ("one", "other"), [("flux", "Flux"), ("a b", "a  b"), ("a\u200db", "ab"), ("１", "1"), ("ﬁ", "fi")]
)
def test_names_that_look_different_stay_different(one: str, other: str) -> None:
    assert plain(one) != plain(other)


@given(st.text())
def test_a_plain_name_stays_as_it_is(text: str) -> None:
    assert plain(plain(text)) == plain(text)


@pytest.mark.parametrize("text", ["", " ", "\u200b", "nan", "NaN", "None", "NULL", "NA", " null ", "<NA>", "N/A"])
def test_what_stands_for_a_missing_text_is_nothing(text: str) -> None:
    assert is_nothing(text)


@pytest.mark.parametrize("text", ["a nan", "none of them", "0", "no", "-", "名"])
def test_a_text_is_not_nothing(text: str) -> None:
    assert not is_nothing(text)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (7, "7"),
        (7.0, "7"),
        ("7.0", "7"),
        (" 7 ", "7"),
        (0.0, "0"),
        ("07.0", "07.0"),
        ("007", "007"),
        ("v1.0", "v1.0"),
        (7.5, "7.5"),
        ("1e5", "1e5"),
        (1e22, "1e+22"),
        ("7.00", "7.00"),
    ],
)
def test_whole_numbers_as_ids_have_no_decimals(value: object, name: str) -> None:
    assert id_of(value) == name


@pytest.mark.parametrize(
    ("text", "names"),
    [("z9, large,m 5", ("z9, large", "m 5")), ("a,b", ("a,b",)), ("a,b, a", ("a,b", "a")), ("ab ,x,", ("ab", "x", "")), ("", ("",))],
)  # fmt: skip
def test_names_are_split_at_the_commas_between_them(text: str, names: tuple[str, ...]) -> None:
    assert split_names(text, ["z9, large", "m 5", "a", "a,b", "ab"]) == names
