"""Records become JSON in one way, and items and scores are read no larger than a table needs them."""

import json
from pathlib import Path

from titjudge.core.serialization import json_value, lean_item, lean_score, score_record
from titjudge.core.types import Item, Score
from titjudge.stats.generators.generator_differences import Gate
from titjudge.stats.people.votes import Ceiling


def test_a_record_is_written_by_its_fields_or_as_it_says_itself() -> None:
    content = {"ceiling": Ceiling(0.9, (0.8, 1.0), 12, 3), "gate": Gate(0.1, {"new": "worse"}), "file": Path("a.csv")}
    written = json.loads(json.dumps(content, default=json_value))
    assert written["ceiling"] == {"accuracy": 0.9, "interval": [0.8, 1.0], "votes": 12, "annotators": 3}
    assert (written["gate"]["verdicts"], written["gate"]["outcome"]) == ({"new": "worse"}, "worse")
    assert written["file"] == "a.csv"


def test_a_counted_score_has_only_the_parts_that_tables_sum_up() -> None:
    score = Score("i", "m", 0.5, reason="why", parts={"claims": [1], "transcript": ["long"], "questions_skipped": 2})
    compared, counted = lean_score(score_record(score)), lean_score(score_record(score), counted=True)
    assert (compared.value, compared.reason, dict(compared.parts)) == (0.5, "", {"claims": [1], "questions_skipped": 2})
    assert dict(counted.parts) == {"questions_skipped": 2}


def test_a_lean_score_tells_the_replies_of_others_from_its_own() -> None:
    kept = [
        lean_score(score_record(Score("i", "m", 0.5, replies=keys)), counted=counted).replies
        for keys in (("a", "b"), ("b", "a"), ("a", "c"), ())
        for counted in (False, True)
    ]
    assert kept[0] == kept[1] == kept[2] == kept[3] != kept[4] == kept[5]
    assert [len(replies) for replies in kept] == [1] * 6 + [0, 0]


def test_of_a_long_description_only_a_digest_is_kept() -> None:
    items = [Item(name, "a cat", None, "g", "p", {"description": "long " * 50 + tail}) for name, tail in ("ax", "by")]
    first, second = map(lean_item, items)
    assert isinstance(first, Item)
    assert isinstance(second, Item)
    assert len(first.meta["description"]) == len(second.meta["description"]) == 32
    assert first.meta != second.meta
    assert lean_item(items[0], alone=True).meta == {}  # type: ignore[union-attr]
    assert lean_item(items[0], counted=True) == Item("a", "", None, "g", "p", {})
