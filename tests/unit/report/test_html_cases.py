"""Claims, transcripts and the trust card as a report holds them."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import PROMPT, agent_parts, agent_run, small_run

from titjudge.core.tables import Table, text_of
from titjudge.report.card_record import CardRecord
from titjudge.report.model import as_json, load
from titjudge.report.overview import overview
from titjudge.report.transcripts import Texts, case
from titjudge.runs.folder.run_folder import RunFolder

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def units(text: str, start: int, end: int) -> str:
    """A slice as JavaScript takes it."""
    return text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


@pytest.mark.parametrize("prompt", [PROMPT, f"\N{BOWL WITH SPOON}\N{GRINNING FACE} {PROMPT}", f"Äpfel. {PROMPT}"])
def test_spans_are_where_the_browser_finds_them(prompt: str) -> None:
    texts = Texts()
    found = case(agent_parts(prompt), prompt, texts)
    assert found is not None
    assert [units(prompt, *claim["at"]) for claim in found["claims"]][1:3] == [
        "three bright oranges",
        "three glossy red apples",
    ]
    first, second = found["claims"][:2]
    assert (texts.get(first["t"]), first["kind"], first["level"], first["verdict"]) == (
        "There is a bowl",
        "entity",
        "macro",
        "met",
    )
    assert second["before"] == ["met (E1)"]
    assert found["stopped"] == "no progress"


def test_looks_keep_their_box_question_result_and_failure() -> None:
    texts = Texts()
    found = case(agent_parts(PROMPT), PROMPT, texts)
    assert found is not None
    describe, count, zoom, read = found["evidence"]
    assert (describe["tool"], describe["cut"], "box" in describe) == ("describe", 1, False)
    assert texts.get(count["t"]).endswith("Count: 2")
    assert (zoom["box"], zoom["question"]) == ([0.5, 0.0, 1.0, 0.45], "What does the chalkboard say?")
    assert (read["failed"], "t" in read) == ("refused", False)
    assert found["rounds"][1]["looks"] == ["E2", "E3", "E4"]
    assert found["rounds"][2]["settled"][0] == [2, "not_met", "E2"]
    assert "x-ray" in found["rounds"][1]["refused"][0]


@given(claims=JSON, evidence=JSON, transcript=JSON, known=JSON)
def test_whatever_the_parts_hold_a_report_can_be_written(
    claims: Any, evidence: Any, transcript: Any, known: Any
) -> None:
    parts = {"claims": [{"verdict": known, "span": known, "before": claims, "claim": claims}, claims],
             "evidence": [{"box": known, "text": evidence}, evidence], "transcript": [{"settled": [transcript]}, transcript]}  # fmt: skip
    assert json.dumps(case(parts, "A short prompt.", Texts()))
    assert case({"claims": evidence}, "A prompt.", Texts()) is None or isinstance(evidence, list)


def test_what_a_case_shows_is_not_among_the_receipts(tmp_path: Path) -> None:
    report = load([agent_run(tmp_path / "run", prompts=2)])
    record = as_json(report, {})["items"][0]["s"][0]
    assert record["ag"]["claims"]
    assert {name for name, _ in record["x"]} == {"stopped", "counts", "prompt_words"}


def test_a_card_in_the_run_or_beside_it_is_shown(tmp_path: Path) -> None:
    run = small_run(tmp_path / "runs" / "one")
    assert cards(run) == []
    line = {"family": "sees", "name": "known pairs", "rule": "at least", "limit": 0.7, "effect": 0.9, "interval": [0.8, 1.0],
            "p_value": 0.5, "verdict": "pass", "trials": 30, "prompts": 10}  # fmt: skip
    card = {"metric": "tit", "models": {"judge": "x/y"}, "lines": [line, "odd"], "skipped": {"order": "none given"}}
    (tmp_path / "runs" / "card.json").write_bytes(orjson.dumps(card))
    (table,) = cards(run)
    assert list(map(text_of, table.rows[0])) == [
        "sees", "known pairs", "0.900 [0.800, 1.000]", "at least 0.7", "0.5", "pass", "30 of 10 prompts", "–"
    ]  # fmt: skip
    assert "not tested: order: none given" in table.notes
    record = CardRecord.of_json(card)
    assert record is not None
    assert table == record.table(), "the report and `probe` say the same"
    (run.path / "card.json").write_text("{")
    assert len(cards(run)) == 1
    (run.path / "card.json").write_bytes(orjson.dumps({**card, "lines": []}))
    assert cards(run) == []


def cards(run: RunFolder) -> list[Table]:
    return [table for table in overview(load([run])).tables if table.title == "Trust card"]
