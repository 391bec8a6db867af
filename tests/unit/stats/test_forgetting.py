from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from titjudge.core.errors import DataError
from titjudge.core.tables import percent
from titjudge.core.types import Item, Score, Status
from titjudge.report.drawing import write_chart
from titjudge.report.plots import forgetting_chart
from titjudge.stats.scores.claims import claims_of, place_of
from titjudge.stats.scores.forgetting import BINS, ClaimOutcome, forgetting

KINDS = ("entity", "attribute", "relation")


def claims(
    seed: int, prompts: int, each: int, *, stops: float = 1.0, met: float = 0.85, name: str = "g"
) -> list[ClaimOutcome]:
    """A generator that meets claims with probability `met` up to `stops` in the prompt, and with 0.1 behind it."""
    rng = np.random.default_rng(seed)
    found = []
    for p in range(prompts):
        for position in np.sort(rng.random(each)):
            chance = met if position < stops else 0.1
            kind = KINDS[int(rng.integers(3))]
            found.append(
                ClaimOutcome(
                    "c", kind, float(position), bool(rng.random() < chance), name, f"p{p}", 150 + 100 * (p % 3)
                )
            )
    return found


@pytest.mark.parametrize("seed", range(5))
def test_a_generator_that_ignores_the_last_30_percent_stops_at_070(seed: int) -> None:
    (step,) = forgetting(claims(seed, 60, 20, stops=0.7), resamples=200).steps
    assert step.position == pytest.approx(0.7, abs=0.05)
    assert step.interval is not None
    assert step.interval[0] <= 0.7 + 0.05
    assert step.interval[1] >= 0.7 - 0.05
    assert step.p_value is not None
    assert step.p_value <= 0.01
    assert step.before == pytest.approx(0.85, abs=0.06)
    assert step.after == pytest.approx(0.1, abs=0.08)
    assert step.within_kinds == pytest.approx(0.75, abs=0.1)


def test_a_generator_that_reads_to_the_end_has_no_step() -> None:
    found = [forgetting(claims(seed, 30, 15), resamples=0).steps[0] for seed in range(40)]
    wrong = sum(step.position is not None for step in found)
    assert wrong <= 7  # 40 tests at 5%: more than 7 has a probability of 0.1%
    assert "beyond chance" in next(step for step in found if step.position is None).reason


def test_a_generator_that_gets_better_has_no_step_down() -> None:
    turned = [
        ClaimOutcome(c.claim, c.kind, 1 - c.position, c.met, c.generator, c.prompt_id, c.words)
        for c in claims(0, 40, 20, stops=0.7)
    ]
    assert forgetting(turned, resamples=0).steps[0].position is None


def test_a_fall_that_is_only_in_the_kind_is_told_from_one_within_kinds() -> None:
    """Style stands last and is met less, but early style no more than late style."""
    rng = np.random.default_rng(0)
    found = []
    for p in range(80):
        for position in rng.random(20):
            style = rng.random() < (0.9 if position > 0.7 else 0.1)
            met = bool(rng.random() < (0.3 if style else 0.9))
            found.append(ClaimOutcome("c", "style" if style else "entity", float(position), met, "g", f"p{p}", 200))
    (step,) = forgetting(found, resamples=0).steps
    assert step.position is None
    assert "beyond chance" in step.reason
    assert forgetting([replace(claim, kind="claim") for claim in found], resamples=0).steps[
        0
    ].position == pytest.approx(0.7, abs=0.05)


def test_rates_by_place_kind_and_length() -> None:
    base = {"generator": "g", "prompt_id": "p"}
    found = forgetting(
        [
            {"claim": "a", "kind": "entity", "position": 0.0, "met": True, "words": 100, **base},
            {"claim": "b", "kind": "entity", "position": 0.05, "met": False, "words": 100, **base},
            {
                "claim": "c",
                "kind": "style",
                "position": 1.0,
                "met": None,
                "words": 101,
                "generator": "g",
                "prompt_id": "q",
            },
        ]
    )
    places = {rate.label: rate for rate in found.places}
    assert (places["0-10%"].rate, places["0-10%"].claims) == (0.5, 2)
    assert (places["90-100%"].rate, places["90-100%"].claims, places["90-100%"].unseen) == (None, 0, 1)
    assert {rate.label: rate.rate for rate in found.kinds} == {"entity": 0.5, "style": None}
    assert [rate.label for rate in found.lengths] == ["1-100", "101-200"]
    assert found.steps[0].position is None
    assert "two prompts" in found.steps[0].reason
    first = found.tables()[0]
    assert first.rows[0] == ("0-10%", percent(0.5), 2)
    assert "1 claims cannot be seen" in first.notes[0]
    assert found.kinds[0].rate == 0.5


def test_generators_are_told_apart_and_intervals_are_by_prompt() -> None:
    found = forgetting(claims(0, 30, 12, name="a") + claims(1, 30, 12, met=0.5, name="b"), resamples=200)
    assert {rate.generator for rate in found.places} == {"a", "b"}
    for rate in found.places:
        assert rate.interval is not None
        assert rate.rate is not None
        assert rate.interval[0] <= rate.rate <= rate.interval[1]


@pytest.mark.parametrize("met", [True, False])
def test_where_all_claims_agree_the_interval_is_that_of_so_many_prompts(met: bool) -> None:
    from scipy.stats import binomtest

    found = forgetting([ClaimOutcome("c", "entity", 0.1, met, "g", f"p{p}", 50) for p in range(25) for _ in range(3)])
    exact = binomtest(25 * met, 25).proportion_ci()
    assert found.kinds[0].interval == pytest.approx((exact.low, exact.high))
    assert forgetting([ClaimOutcome("c", "entity", 0.1, met, "g", "p", 50)]).kinds[0].interval is None


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"position": 1.5}, "0 to 1"),
        ({"position": True}, "0 to 1"),
        ({"met": "yes"}, "true, false"),
        ({"words": 0}, "words"),
        ({"prompt_id": None}, "id"),
    ],
)
def test_a_record_that_is_wrong_is_named(change: dict[str, object], word: str) -> None:
    record = {
        "claim": "a red cat",
        "kind": "entity",
        "position": 0.5,
        "met": True,
        "words": 5,
        "prompt_id": "p",
    } | change
    with pytest.raises(DataError, match=f"a red cat.*{word}"):
        forgetting([record])


def test_nothing_at_all() -> None:
    assert forgetting([]).steps == ()
    assert all(table.rows == () for table in forgetting([]).tables())


def test_the_chart_is_the_same_twice_and_names_are_text(tmp_path: Path) -> None:
    found = forgetting(claims(0, 10, 10, name="<b>$x_1$</b>") + claims(1, 10, 10, name="_b"), resamples=100)
    files = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for file in files:
        write_chart(forgetting_chart(found, BINS), file)
    first = files[0].read_text(encoding="utf-8")
    assert first == files[1].read_text(encoding="utf-8")
    ElementTree.fromstring(first)
    assert "<b>" not in first
    assert "$x_1$" in first


def test_claims_out_of_scores() -> None:
    item = Item("i", "A cat sits on two red mats.", None, "g", "p")
    graph = Score(
        "i",
        "graph-alignment",
        0.5,
        parts={"alignment": {"entity": [[["cat"], True], [["dog"], True]], "attribute": [[["big mat", "red"], False]]}},
    )
    agent = Score(
        "i",
        "tit-agent",
        0.5,
        parts={
            "claims": [
                {"claim": "a cat", "kind": "entity", "met": None, "span": [13, 20]},
                {"claim": "no place", "met": True},
            ]
        },
    )
    found = claims_of([item], [graph, agent, Score("other", "graph-alignment", 1.0)])
    assert [(claim.claim, claim.met) for claim in found] == [("cat", True), ("big mat red", False), ("a cat", None)]
    assert found[0].position == pytest.approx(2 / 27)
    assert found[1].position == pytest.approx(22 / 27)
    assert found[2].position == pytest.approx(13 / 27)
    assert found[0].words == 7


def test_claims_of_the_agentic_judge() -> None:
    rows = [
        {"claim": c, "kind": "entity", "position": 0.5, "verdict": c}
        for c in ("met", "not_met", "cannot_be_seen", "open")
    ]
    item = Item("i", "A cat.", None, "g", "p")
    found = claims_of([item], [Score("i", "tit-agent", 50.0, parts={"claims": rows})])
    assert [claim.met for claim in found] == [True, False, None, None]
    failed = claims_of([item], [Score("i", "tit-agent", None, Status.UNPARSED, parts={"claims": rows})])
    assert {claim.met for claim in failed} == {None}


def test_questions_stand_where_the_prompt_names_what_they_are_about() -> None:
    item = Item("i", "A cat sits on two red mats.", None, "g", "p")
    dsg = [
        {"tuple": "1 | entity - whole (cat)", "question": "Is there a cat?", "yes": True, "valid": True},
        {"tuple": "attribute - color (mats, red)", "question": "Are the mats red?", "yes": True, "valid": False},
        {"tuple": "entity - whole (dog)", "question": "Is there a dog?", "yes": True, "valid": True},
        {"question": "no tuple", "yes": True},
        "odd",
    ]
    tifa = [{"element": "mats", "type": "object", "question": "What is there?", "right": False}]
    scores = [Score("i", "dsg", 0.5, parts={"questions": dsg}), Score("i", "tifa", 0.0, parts={"questions": tifa})]
    found = [(claim.claim, claim.kind, claim.met, round(27 * claim.position)) for claim in claims_of([item], scores)]
    assert found == [
        ("Is there a cat?", "entity", True, 2),
        ("Are the mats red?", "attribute", False, 22),
        ("What is there?", "object", False, 22),
    ]
    assert (
        claims_of(
            [item], [Score("i", "x", 0.5, parts={"questions": 7, "alignment": {"entity": [1, ["a"], [[], True]]}})]
        )
        == []
    )


def test_the_place_of_a_name() -> None:
    assert place_of("apples", "the apple falls") == pytest.approx(4 / 15)
    assert place_of("cat", "concatenate") is None
    assert place_of("", "a cat") is None


def test_kinds_that_are_harder_and_stand_last_are_no_step() -> None:
    """20 generators whose last claims are of a harder kind: at 5%, more than 4 steps have a probability of 0.3%."""
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        told = [
            ClaimOutcome(
                "c", kind, (k + 0.5) / 20, bool(rng.random() < (0.4 if kind == "style" else 0.85)), "g", f"p{p}", 300
            )
            for p in range(10)
            for k in range(20)
            for kind in ["style" if k >= 16 else "object"]
        ]
        found += forgetting(told, resamples=0).steps[0].position is not None
    assert found <= 4


@pytest.mark.parametrize(("shared", "places"), [(20, {"A": 0.9, "B": 0.95}), (0, {"A": 0.9, "B": 0.75})])
def test_generators_with_other_prompts_are_compared_on_common_ones(shared: int, places: dict[str, float]) -> None:
    """A has the short prompts only, which are easy: 90% are met; B meets 95% of these, and 55% of the long ones."""
    found = [
        ClaimOutcome("c", "object", k / 20, k / 20 < (0.9 if g == "A" else 0.95 if p < 20 else 0.55), g,
                     f"{p}" if shared or g == "B" else f"own{p}", 50)
        for p in range(40) for k in range(20) for g in "AB" if not (g == "A" and p >= 20)
    ]  # fmt: skip
    curve = forgetting(found, bins=1, resamples=0)
    assert {rate.generator: rate.rate for rate in curve.places} == pytest.approx(places)
    assert sum(rate.claims for rate in curve.places) == (800 if shared else 1200)
    assert all(note in table.notes for note in curve.notes for table in curve.tables())
    assert [any(name in note for note in curve.notes) for name in ("A, B", "20 of 40")] == [not shared, bool(shared)]
    alone = forgetting([claim for claim in found if claim.generator == "B"], bins=1, resamples=0)
    assert alone.notes == ()
