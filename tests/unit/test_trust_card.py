from __future__ import annotations

import numpy as np
import pytest

from titjudge.trust.card import CAUGHT, OPEN, PASS, Card, line, rate_line, with_verdicts


def verdict(effects: list[float], rule: str, limit: float = 0.05) -> str:
    rows = [(f"p{k}", effect) for k, effect in enumerate(effects)]
    return with_verdicts([line("f", "n", rows, rule=rule, limit=limit, step=0.001)])[0].verdict


@pytest.mark.parametrize(
    ("rule", "effects", "expected"),
    [
        ("at most", [0.0] * 6, PASS),
        ("at most", [-0.5] * 6, PASS),
        ("at most", [0.2] * 6, CAUGHT),
        ("at most", [0.2, -0.2] * 3, OPEN),
        ("within", [0.0] * 6, PASS),
        ("within", [-0.2] * 6, CAUGHT),
        ("within", [0.2] * 6, CAUGHT),
        ("at least", [0.2] * 6, PASS),
        ("at least", [0.0] * 6, CAUGHT),
        ("at least", [0.3, -0.2] * 3, OPEN),
        ("at least", [0.0] * 2, OPEN),
        ("at most", [], OPEN),
    ],
)
def test_verdicts(rule: str, effects: list[float], expected: str) -> None:
    assert verdict(effects, rule) == expected


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["at most", "at least", "within"])
def test_a_judge_exactly_at_the_limit_is_caught_once_in_a_hundred(rule: str) -> None:
    """2,000 simulated lines of six prompts: 1% give or take three standard errors."""
    rng = np.random.default_rng(0)
    found = [verdict(rng.normal(0.05, 0.1, 6).tolist(), rule) for _ in range(2000)]
    assert found.count(CAUGHT) <= 20 + 3 * np.sqrt(20)
    if rule != "within":
        assert found.count(CAUGHT) >= 20 - 3 * np.sqrt(20)
        assert found.count(PASS) <= 50 + 3 * np.sqrt(50)


def test_the_prompt_is_the_unit_whatever_the_number_of_trials() -> None:
    few = line("f", "n", [("a", 0.0), ("b", 0.1), ("c", 0.2)], rule="at most", limit=0.05)
    many = line(
        "f",
        "n",
        [(group, effect) for group, effect in [("a", 0.0), ("b", 0.1), ("c", 0.2)] for _ in range(50)],
        rule="at most",
        limit=0.05,
    )
    assert many.interval == pytest.approx(few.interval)
    assert many.p_value == pytest.approx(few.p_value)
    assert (many.trials, many.prompts) == (150, 3)


def test_equal_effects_are_not_certain() -> None:
    found = line("f", "n", [("a", 0.2), ("b", 0.2), ("c", 0.2)], rule="at most", limit=0.05, step=0.1)
    assert found.interval is not None
    assert found.interval[1] - found.interval[0] > 0.01
    assert found.p_value is not None
    assert found.p_value > 0


def test_an_interval_stays_where_the_effect_can_be() -> None:
    found = line("f", "n", [("a", 1.0), ("b", 0.8), ("c", 0.9)], rule="at least", limit=0.7, bounds=(0, 1))
    assert found.interval is not None
    assert found.interval[1] == 1


def test_rates() -> None:
    assert with_verdicts([rate_line("f", "n", 0, 200, limit=0.05)])[0].verdict == PASS
    assert with_verdicts([rate_line("f", "n", 40, 200, limit=0.05)])[0].verdict == CAUGHT
    assert with_verdicts([rate_line("f", "n", 0, 5, limit=0.05)])[0].verdict == OPEN
    assert with_verdicts([rate_line("f", "n", 0, 0, limit=0.05)])[0].effect is None


def test_p_values_after_holm() -> None:
    lines = [rate_line("f", str(bad), bad, 100, limit=0.05) for bad in (0, 12, 30)]
    adjusted = [each.adjusted or 0.0 for each in with_verdicts(lines)]
    raw = [each.p_value or 0.0 for each in lines]
    assert adjusted[2] == pytest.approx(3 * raw[2])
    assert adjusted[1] == pytest.approx(2 * raw[1])
    assert adjusted[0] == 1.0


def test_a_rule_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="no such rule"):
        line("f", "n", [], rule="roughly", limit=0.1)


def test_the_table_groups_what_was_not_tested() -> None:
    card = Card("m", {}, {}, (), None, 0, None, None, {"border": "no picture", "upscaled": "no picture"})
    (table,) = card.tables()
    assert "not tested: border, upscaled: no picture" in table.notes
    assert card.caught == []


def test_a_line_without_a_verdict_says_how_many_prompts_it_lacks() -> None:
    rng = np.random.default_rng(1)
    rows = [(f"p{k}", effect) for k, effect in enumerate([0.1, 0.02, 0.06, 0.0, 0.09, 0.05])]
    (open_line,) = with_verdicts([line("f", "n", rows, rule="at least", limit=0.02)])
    assert open_line.verdict == OPEN
    assert open_line.more is not None
    assert open_line.effect is not None
    assert open_line.deviation is not None
    size = open_line.prompts + open_line.more
    draws = rng.normal(open_line.effect, open_line.deviation, (400, size))
    decided = [verdict(list(each), "at least", 0.02) != OPEN for each in draws]
    assert np.mean(decided) >= 0.8 - 3 * (0.8 * 0.2 / 400) ** 0.5


def test_what_is_at_the_limit_never_has_enough() -> None:
    rows = [("a", 0.0), ("b", 0.1), ("c", 0.0501)]
    (found,) = with_verdicts([line("f", "n", rows, rule="at most", limit=0.05)])
    assert (found.verdict, found.more) == (OPEN, None)
    card = Card("m", {}, {}, (found,), None, 0, None, None)
    assert "over 1000 prompts" in card.tables()[0].rows[0][-1]


def test_equal_answers_in_large_steps_are_no_proof() -> None:
    """Six prompts, one trial each, scores in steps of a whole span: no movement is likely at a limit of 0.05."""
    still = [(f"p{k}", 0.0) for k in range(6)]
    assert with_verdicts([line("f", "n", still, rule="within", limit=0.05, step=1)])[0].verdict == OPEN
    assert with_verdicts([line("f", "n", still, rule="within", limit=0.05, step=0.001)])[0].verdict == PASS
    shares = [(f"p{k}", right) for k in range(6) for right in (1.0, 1.0, 0.0)]
    assert with_verdicts([line("f", "n", shares, rule="at least", limit=0.7, step=1)])[0].verdict == OPEN
