"""Names of annotators, numbered or given."""

from __future__ import annotations

import pytest

from titjudge.apps.label.people import annotators_of, names_of
from titjudge.core.errors import UserError


def test_annotators_are_numbered_or_named() -> None:
    assert names_of(annotators_of("2"), "annotator") == ["annotator-01", "annotator-02"]
    assert names_of(annotators_of("anna, Ben B.,zoë@lab.org"), "annotator") == ["anna", "Ben B.", "zoë@lab.org"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("0", "between 1 and 1000"),
        ("1001", "between 1 and 1000"),
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
