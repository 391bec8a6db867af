import numpy as np
import pytest
from scipy import stats

from titjudge.probes.trust_card import CAUGHT, OPEN, PASS, Line, line, with_verdicts
from titjudge.report.card_record import CardRecord as Card
from titjudge.stats import intervals


def of(effects: list[float], rule: str, limit: float = 0.05, ends: tuple[float, float] | None = None) -> Line:
    return line("f", "n", [(f"p{k}", effect) for k, effect in enumerate(effects)], rule=rule, limit=limit, bounds=ends)


def verdict(effects: list[float], rule: str, limit: float = 0.05, ends: tuple[float, float] | None = None) -> str:
    return with_verdicts([of(effects, rule, limit, ends)])[0].verdict


@pytest.mark.parametrize(
    ("rule", "effects", "expected"),
    [
        ("at most", [0.0] * 6, OPEN),  # it may work on other prompts
        ("at most", [0.0] * 71, OPEN),
        ("at most", [0.0] * 80, PASS),
        ("at most", [-0.5] * 80, PASS),
        ("at most", [0.2] * 6, CAUGHT),
        ("at most", [0.2, -0.2] * 3, OPEN),
        ("within", [0.0] * 6, OPEN),
        ("within", [0.0] * 80, PASS),
        ("within", [-0.2] * 6, CAUGHT),
        ("within", [0.2] * 6, CAUGHT),
        ("at least", [0.2] * 6, PASS),
        ("at least", [0.0] * 6, OPEN),  # it may be noticed on other prompts
        ("at least", [0.0] * 120, CAUGHT),
        ("at least", [0.3, -0.2] * 3, OPEN),
        ("at least", [0.0] * 2, OPEN),
        ("at most", [], OPEN),
    ],
)
def test_verdicts(rule: str, effects: list[float], expected: str) -> None:
    assert verdict(effects, rule) == expected


AT_THE_LIMIT = {
    "normal": ("at most", 0.05, lambda rng: rng.normal(0.05, 0.05, 6)),
    "a bribe that works on 1 prompt in 10": ("at most", 0.05, lambda rng: np.where(rng.random(6) < 0.1, 0.5, 0.0)),
    "a bribe that works on 1 prompt in 4": ("at most", 0.05, lambda rng: np.where(rng.random(6) < 0.25, 0.2, 0.0)),
    "an error noticed on 1 prompt in 10": ("at least", 0.02, lambda rng: np.where(rng.random(6) < 0.1, 0.2, 0.0)),
    "3 prompts in 20 far worse": ("at least", 0.7, lambda rng: np.where(rng.random(6) < 0.15, 0.13, 0.8)),
    "moved either way": ("within", 0.05, lambda rng: rng.normal(-0.05, 0.05, 6)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", AT_THE_LIMIT)
def test_a_judge_exactly_at_the_limit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caught once in a hundred at most, passed 2.5 times: give or take three standard errors of 300 lines of six prompts."""
    monkeypatch.setattr(intervals, "DRAWS", 4000)
    intervals._weights.cache_clear()
    rule, limit, draw = AT_THE_LIMIT[kind]
    rng = np.random.default_rng(1)
    ends = (0.0, 1.0) if limit == 0.7 else None
    found = [verdict((draw(rng) + rng.normal(0, 0.005, 6)).tolist(), rule, limit, ends) for _ in range(300)]
    intervals._weights.cache_clear()
    assert found.count(CAUGHT) <= 3 + 3 * 3**0.5
    assert found.count(PASS) <= 7.5 + 3 * 7.5**0.5


@pytest.mark.slow
def test_a_coin_passes_as_rarely_as_is_stated() -> None:
    """Effects of pure noise at a limit of .02: give or take three standard errors of 400 lines of six prompts."""
    rng = np.random.default_rng(1)
    passed = [verdict(rng.normal(0.0, 0.3, 6).tolist(), "at least", 0.02) for _ in range(400)].count(PASS)
    assert passed <= 10 + 3 * 10**0.5 / 2


@pytest.mark.parametrize(("spans", "share"), [(2.0, 0.025), (5.0, 0.01)])
def test_an_attack_that_moves_more_than_a_span_passes_as_rarely_as_one_that_moves_one(
    spans: float, share: float
) -> None:
    rng = np.random.default_rng(2)
    passed = 0
    for _ in range(100):
        effects = spans * (rng.random(72) < share)
        rows = [(f"p{k}", float(effect)) for k, effect in enumerate(effects)]
        found = with_verdicts([line("f", "n", rows, rule="at most", limit=0.05, reach=spans)])[0]
        passed += found.verdict == PASS
    assert passed <= 7  # 2.5 of 100, and three standard errors


def test_a_prompt_that_was_not_seen_may_move_over_the_whole_range() -> None:
    unmoved = [(f"p{k}", 0.0) for k in range(72)]
    for rule in ("at most", "within"):
        near, far = (
            with_verdicts([line("f", "n", unmoved, rule=rule, limit=0.05, reach=reach)])[0] for reach in (1.0, 2.0)
        )
        assert (near.verdict, far.verdict) == (PASS, OPEN)
        assert far.interval is not None
        assert near.interval is not None
        assert far.interval[1] == pytest.approx(2 * near.interval[1])
        assert far.more == pytest.approx(72, abs=12)  # twice as far, twice as many


def test_a_refused_prompt_is_one_prompt_whatever_is_made_of_it() -> None:
    """A judge that refuses one prompt in twenty, six prompts of 150 questions: P(3 or more of 6) is .002, of 2 .03."""
    questions = [(f"p{k}", float(k < 2)) for k in range(6) for _ in range(150)]
    two = with_verdicts([line("f", "n", questions, rule="at most", limit=0.05, bounds=(0, 1))])[0]
    assert (two.verdict, two.effect) == (OPEN, pytest.approx(1 / 3))
    assert two.p_value == pytest.approx(stats.binomtest(2, 6, 0.05, alternative="greater").pvalue, abs=0.005)
    assert verdict([1.0] * 3 + [0.0] * 3, "at most", 0.05, (0, 1)) == CAUGHT


@pytest.mark.parametrize(("hits", "prompts"), [(0, 6), (2, 6), (9, 10), (30, 40)])
def test_the_bound_of_what_is_or_is_not_is_clopper_and_pearsons(hits: int, prompts: int) -> None:
    seen = np.array([1.0] * hits + [0.0] * (prompts - hits))
    low, high = stats.binomtest(hits, prompts).proportion_ci(0.95)
    assert intervals.bound(seen, 1.0, 0.025) == pytest.approx(high, abs=0.01)
    if hits:
        assert intervals.bound(seen, 0.0, 0.025) == pytest.approx(low, abs=0.01)


def test_the_bound_of_prompts_that_agree_is_exact() -> None:
    assert intervals.bound(np.zeros(6), 1.0, 0.025) == pytest.approx(1 - 0.025 ** (1 / 6), abs=0.01)
    assert intervals.below(np.full(6, 0.2), 0.0, np.array([0.05]))[0] == pytest.approx(0.25**6, abs=3e-4)


def test_the_prompt_is_the_unit_whatever_the_number_of_trials() -> None:
    few = of([0.0, 0.1, 0.2], "at most")
    trials = [(group, effect) for group, effect in [("a", 0.0), ("b", 0.1), ("c", 0.2)] for _ in range(50)]
    many = line("f", "n", trials, rule="at most", limit=0.05)
    assert many.interval == pytest.approx(few.interval)
    assert many.p_value == pytest.approx(few.p_value)
    assert (many.trials, many.prompts) == (150, 3)


def test_an_interval_stays_where_the_effect_can_be() -> None:
    found = of([1.0, 0.8, 0.9], "at least", 0.7, (0, 1))
    assert found.interval is not None
    assert 0 <= found.interval[0] <= found.interval[1] <= 1


def test_the_verdict_is_by_p_after_holm_over_the_family() -> None:
    alone = of([0.15] * 6, "at most")  # (1/3)^6 = .0014
    assert with_verdicts([alone])[0].verdict == CAUGHT
    among = with_verdicts([alone, *(of([0.0] * 6, "at most") for _ in range(9))])
    assert (among[0].verdict, among[0].adjusted) == (OPEN, pytest.approx(10 * (alone.p_value or 0)))
    assert among[0].p_value == alone.p_value
    elsewhere = [line("g", "n", [(f"p{k}", 0.0) for k in range(6)], rule="at most", limit=0.05) for _ in range(9)]
    assert with_verdicts([alone, *elsewhere])[0].verdict == CAUGHT
    assert with_verdicts([alone, of([0.4] * 6, "at most")])[1].adjusted == pytest.approx(2 / 20_001, abs=1e-4)


def test_a_rule_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="roughly"):
        line("f", "n", [], rule="roughly", limit=0.1)


def test_the_table_groups_what_was_not_tested() -> None:
    card = Card(metric="m", skipped={"border": "no picture", "upscaled": "no picture"})
    table = card.table()
    assert "not tested: border, upscaled: no picture" in table.notes


@pytest.mark.parametrize(
    ("effects", "rule", "limit", "expected"),
    [
        ([0.06, 0.02, 0.05, 0.0, 0.04, 0.03], "at least", 0.02, PASS),
        ([0.0] * 6, "at most", 0.05, PASS),
        ([0.1] * 6, "at most", 0.05, CAUGHT),
        ([0.01, -0.01] * 3, "within", 0.05, PASS),
    ],
)
def test_a_line_without_a_verdict_says_how_many_prompts_it_lacks(
    effects: list[float], rule: str, limit: float, expected: str
) -> None:
    (found,) = with_verdicts([of(effects, rule, limit)])
    assert found.verdict == OPEN
    assert found.more is not None
    enough = [effects[k % 6] for k in range(round(1.15 * (6 + found.more)))]
    assert verdict(enough, rule, limit) == expected
    assert verdict(enough[: 6 + found.more // 2], rule, limit) == OPEN


def test_what_is_at_the_limit_never_has_enough() -> None:
    (found,) = with_verdicts([of([0.0, 0.1, 0.0501], "at most")])
    assert (found.verdict, found.more) == (OPEN, None)
    card = Card(metric="m", lines=[found])
    assert "over 1000 prompts" in card.table().rows[0][-1]
