"""Names of annotators, numbered or given."""

import pytest

from titjudge.apps.label.store import annotators_of, folded, name_of, names_of
from titjudge.core.errors import DataError, UserError


def test_annotators_are_numbered_or_named() -> None:
    assert names_of(annotators_of("2"), "annotator") == ["annotator-01", "annotator-02"]
    assert names_of(annotators_of("anna, Ben B.,zoë@lab.org"), "annotator") == ["anna", "Ben B.", "zoë@lab.org"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("0", "from 1 to 1000"),
        ("1001", "from 1 to 1000"),
        ("anna,Anna", "same name"),
        ("anna,", "cannot be the name"),
        ("expert-01", "cannot be the name"),
        ("=1+1", "cannot be the name"),
        ("a" * 41, "cannot be the name"),
        ("a\nb", "cannot be the name"),
    ],
)
def test_what_cannot_be_a_name_is_refused(given: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        names_of(annotators_of(given), "annotator")


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("  Anna   Maria ", "Anna Maria"),
        ("Zoe\u0308", "Zoë"),
        ("नेहा", "नेहा"),
        ("สมชาย ใจดี", "สมชาย ใจดี"),
        ("小林", "小林"),
        ("a" * 40, "a" * 40),
    ],
)
def test_a_typed_name_is_kept_as_it_is_but_for_slips(typed: str, name: str) -> None:
    assert name_of(typed) == name


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("", "Type your name"),
        (" \t\n", "Type your name"),
        ("a" * 41, "41 characters"),
        ("a" * 60_000, "60,000 characters"),
        ("<b>anna</b>", "cannot be the name"),
        ("../../etc/passwd", "cannot be the name"),
        ("anna\u202ebob", "cannot be the name"),
        ("\u0308anna", "cannot be the name"),
        ("\u0308", "cannot be the name"),
        ("anna\x00", "cannot be the name"),
        ("Expert-01", "cannot be the name"),
        ("=HYPERLINK", "cannot be the name"),
    ],
)
def test_a_typed_name_that_cannot_be_one_is_refused_in_words(typed: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        name_of(typed)


def test_spellings_of_a_name_are_the_same_person() -> None:
    assert folded("ANNA") == folded("ａｎｎａ") == folded("anna")
    assert folded("anna") != folded("änna")
