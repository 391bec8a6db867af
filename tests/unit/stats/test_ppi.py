from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from titjudge.core.errors import DataError
from titjudge.core.types import Pair
from titjudge.stats.bootstrap import codes
from titjudge.stats.ppi.ppi_leaderboard import (
    Estimate,
    Fit,
    PairRows,
    PreferenceArrays,
    fit,
    join,
    more_labels,
    people_board,
    win_rate,
)

RUNS = 1000


def biased(
    rng: np.random.Generator, size: int, prompts: int, truth: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """People who prefer `first` with probability `truth` (by prompt: Beta), and a judge that favours it unduly."""
    group = rng.integers(0, prompts, size)
    chance = rng.beta(4 * truth, 4 * (1 - truth), prompts)[group]
    people = (rng.random(size) < chance).astype(float)
    judge = np.where(people == 1, rng.random(size) < 0.95, rng.random(size) < 0.3).astype(float)
    return people, judge, group


def fitted(people: Any, judge: Any, rest: Any, groups: Any = None, rest_groups: Any = None) -> Fit:
    """One mean; without groups every pair is its own prompt."""
    labels = [*(groups if groups is not None else range(len(people))), *(rest_groups or map(str, range(len(rest))))]
    wins = np.concatenate([judge, rest])[:, None].astype(float)
    people = np.asarray(people, dtype=float)[:, None]
    return fit(PreferenceArrays(people, wins, np.ones(wins.shape), codes(labels)[0]))


def ppi_mean(*columns: Any) -> Estimate:
    return fitted(*columns).estimate(0)


def simulate(seed: int, truth: float = 0.55) -> Estimate:
    rng = np.random.default_rng(seed)
    people, judge, group = biased(rng, 120, 60, truth)
    _, rest, rest_group = biased(rng, 3000, 400, truth)
    return ppi_mean(people, judge, rest, [f"l{g}" for g in group], [f"r{g}" for g in rest_group])


@pytest.mark.slow
def test_with_a_biased_judge_ours_covers_and_is_narrower_than_people_alone_and_the_naive_one_misses() -> None:
    """95% intervals in 1,000 runs: a share below 0.93 is 2.9 standard errors away."""
    found = [simulate(seed) for seed in range(RUNS)]

    def covers(interval: tuple[float, float] | None) -> bool:
        assert interval is not None
        return interval[0] <= 0.55 <= interval[1]

    ours = sum(covers(each.interval) for each in found) / RUNS
    naive = sum(covers(each.naive_interval) for each in found) / RUNS
    alone = sum(covers(each.people_interval) for each in found) / RUNS
    assert ours >= 0.93
    assert alone >= 0.93
    assert naive < 0.05
    width = [
        np.mean([i[1] - i[0] for e in found if (i := pick(e))])
        for pick in (lambda e: e.interval, lambda e: e.people_interval)
    ]
    assert width[0] < 0.85 * width[1]
    assert np.mean([each.worth for each in found]) > 150  # 120 labels do the work of more


def test_with_few_labels_the_variance_told_is_the_true_one_although_the_weight_is_fitted_on_them() -> None:
    rng = np.random.default_rng(1)
    told, values = [], []
    for _ in range(400):
        judge = rng.normal(size=65)
        people = 0.7 * judge + 0.5 * rng.normal(size=65)
        found = fitted(people[:5], judge[:5], judge[5:]).joint
        told.append(found.spread[0, 0])
        values.append(found.value[0])
    assert 0.95 < np.mean(told) / np.var(values) < 1.3


def test_two_labels_fit_no_weight() -> None:
    assert ppi_mean([0.2, 0.9], [0.1, 0.8], [0.3, 0.5, 0.6]).power == 0.0


def test_a_judge_that_guesses_gets_no_weight_and_costs_nothing() -> None:
    rng = np.random.default_rng(1)
    people = (rng.random(400) < 0.6).astype(float)
    found = ppi_mean(people, rng.random(400), rng.random(4000))
    assert found.power < 0.2
    assert found.interval is not None
    assert found.people_interval is not None
    assert found.interval[1] - found.interval[0] <= found.people_interval[1] - found.people_interval[0] + 1e-12


def test_the_closed_form_without_clusters() -> None:
    """lambda = cov(y, f) / ((1 + n / N) var f) of PPI++; the jackknife counts n - 1 and N - 1."""
    people, judge = np.array([1.0, 0, 1, 1, 0, 1, 0, 0]), np.array([1.0, 0, 1, 0, 0, 1, 1, 0])
    rest = np.tile(judge, 4)
    found = ppi_mean(people, judge, rest)
    cov, var = np.cov(people, judge)[0, 1], judge.var(ddof=1)
    assert found.power == pytest.approx(cov / (var + (len(people) - 1) / (len(rest) - 1) * rest.var(ddof=1)))
    assert found.value == pytest.approx(people.mean() + found.power * (rest.mean() - judge.mean()))


def test_pairs_of_one_prompt_hang_together() -> None:
    rng = np.random.default_rng(0)
    people = np.repeat(rng.integers(0, 2, 30), 10).astype(float)
    rest = rng.integers(0, 2, 300).astype(float)
    groups = [f"p{k // 10}" for k in range(300)]
    clustered, apart = ppi_mean(people, rest, rest, groups), ppi_mean(people, rest, rest)
    assert clustered.people_interval is not None
    assert apart.people_interval is not None
    ratio = np.ptp(clustered.people_interval) / np.ptp(apart.people_interval)
    assert 2.5 < ratio < 4  # the square root of 10, and a little for t


@pytest.mark.parametrize(
    ("people", "groups", "word"),
    [([], [], "no pair"), ([1.0, 0.0], ["p", "p"], "two prompts"), ([1.0, 1.0, 1.0], ["p", "q", "r"], "equal")],
)
def test_what_is_undefined_is_none_and_says_why(people: list[float], groups: list[str], word: str) -> None:
    found = ppi_mean(people, people, [1.0, 0.0], groups, ["x", "y"])
    assert found.interval is None
    assert found.people_interval is None
    assert word in found.reason


def test_without_further_pairs_people_alone_remain() -> None:
    found = ppi_mean([1.0, 0.0, 1.0], [1.0, 0.0, 0.0], [])
    assert found.power == 0
    assert found.interval == found.people_interval


def test_answers_that_are_missing_as_ties_everywhere_do_no_harm() -> None:
    """A judge that refuses most of what people like: ties among labelled and other pairs alike; 3 standard errors."""

    def draw(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        people = (rng.random(size) < 0.6).astype(float)
        said = np.where(rng.random(size) < 0.9, people, 1 - people)
        return people, np.where(rng.random(size) < 0.8 * people, 0.5, said)

    hits = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        people, judge = draw(rng, 150)
        low, high = ppi_mean(people, judge, draw(rng, 3000)[1]).interval or (2, 2)
        hits.append(low <= 0.6 <= high)
    assert np.mean(hits) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 300)


def test_pairs_match_whichever_way_round_and_a_silent_judge_is_a_tie() -> None:
    human = [Pair("p", "y", "x", "a"), Pair("p", "x", "z", "tie")]
    judge = [Pair("p", "x", "y", "b"), Pair("p", "y", "x", "b"), Pair("q", "v", "w", "b")]
    found = join(human, judge)
    assert found.labelled == {("p", "x", "y"): (0.0, 0.5), ("p", "x", "z"): (0.5, 0.5)}
    assert found.rest == {("q", "v", "w"): 0.0}
    assert found.unjudged == 1
    with pytest.raises(DataError, match="preference"):
        join([Pair("p", "x", "y", "left")], [])


def study(
    seed: int, strengths: dict[str, float], prompts: int, labelled: int
) -> tuple[list[Pair], list[Pair], dict[str, str]]:
    """Every couple on every prompt; the judge leans to generator `a`; people label the pairs of a random sample."""
    rng = np.random.default_rng(seed)
    human, judge, names = [], [], {f"{g}/{p}": g for g in strengths for p in range(prompts)}
    couples = [(x, y) for x in strengths for y in strengths if x < y]
    for p in range(prompts):
        for x, y in couples:
            win = rng.random() < 1 / (1 + np.exp(strengths[y] - strengths[x]))
            seen = win if rng.random() < 0.85 else rng.random() < 0.5
            seen = seen or (x == "a" and rng.random() < 0.4)
            human.append(Pair(str(p), f"{x}/{p}", f"{y}/{p}", "a" if win else "b"))
            judge.append(Pair(str(p), f"{y}/{p}", f"{x}/{p}", "b" if seen else "a"))
    picked = rng.permutation(len(human))[:labelled]
    return [human[k] for k in picked], judge, names


STRENGTHS = {"a": 0.0, "b": 0.5, "c": 1.5}


def test_the_board_ranks_as_people_do_where_the_judge_is_partial() -> None:
    human, judge, names = study(0, STRENGTHS, 800, 600)
    board = people_board(human, judge, names)
    assert [s.generator for s in board.standings] == ["c", "b", "a"]
    assert [s.ranks for s in board.standings] == [(1, 1), (2, 2), (3, 3)]
    naive = {s.generator: s.win_rate.naive for s in board.standings}
    assert naive["a"] > naive["b"]  # the judge alone has it the wrong way round
    assert board.warnings == ()
    assert [len(table.rows) for table in board.tables()] == [3, 3, 2]
    assert board.to_json()["generators"][0]["generator"] == "c"


def rate_of_two(human: list[Pair], judge: list[Pair], names: dict[str, str], first: str, second: str) -> Estimate:
    return win_rate(PairRows.of(join(human, judge), [first, second], names), 0, 1)


def test_each_couple_of_the_board_is_its_own_win_rate() -> None:
    human, judge, names = study(1, STRENGTHS, 300, 300)
    board = people_board(human, judge, names)
    assert [(c.first, c.second) for c in board.couples] == [("c", "b"), ("c", "a"), ("b", "a")]
    for each in board.couples:
        assert each.win_rate == rate_of_two(human, judge, names, each.first, each.second)


def test_a_wider_level_is_wider_and_is_named() -> None:
    human, judge, names = study(1, STRENGTHS, 300, 300)
    usual, sure = (people_board(human, judge, names, level=level) for level in (0.95, 0.999))
    for one, other in zip(usual.standings, sure.standings, strict=True):
        assert one.win_rate.interval is not None
        assert other.win_rate.interval is not None
        assert np.ptp(other.win_rate.interval) > 1.4 * np.ptp(one.win_rate.interval)
    assert "99.9% intervals" in sure.tables()[0].notes[0]


@pytest.mark.slow
def test_board_intervals_cover_peoples_win_rates() -> None:
    def rate(x: str, y: str) -> float:
        return float(1 / (1 + np.exp(STRENGTHS[y] - STRENGTHS[x])))

    truth = {x: np.mean([rate(x, y) for y in STRENGTHS if y != x]) for x in STRENGTHS}
    hits = []
    for seed in range(200):
        for each in people_board(*study(seed, STRENGTHS, 100, 90)).standings:
            low, high = each.win_rate.interval or (2, 2)
            hits.append(low <= truth[each.generator] <= high)
    assert np.mean(hits) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 200)  # three generators of one run hang together


@pytest.mark.slow
def test_the_number_of_further_labels_gives_the_power_it_promises() -> None:
    """Planned from a pilot's scatter and the true difference: 80% of 150 studies, give or take 3 standard errors."""
    strengths = {"a": 0.0, "b": 0.3}
    human, judge, names = study(3, strengths, 1500, 300)
    pilot = fit(PairRows.of(join(human, judge), sorted(strengths), names).columns([0, 1]))
    truth = 1 / (1 + np.exp(-0.3))
    pilot = replace(pilot, joint=pilot.joint._replace(value=np.array([1 - truth, truth])))
    more, reason = more_labels(pilot, 0, 1)
    assert reason == ""
    assert more is not None
    apart = [people_board(*study(seed, strengths, 1500, 300 + more)).gaps[0].separated for seed in range(10, 160)]
    assert np.mean(apart) == pytest.approx(0.8, abs=3 * np.sqrt(0.16 / 150))


def test_a_gap_that_is_open_says_how_many_labels_it_takes() -> None:
    human, judge, names = study(3, {"a": 0.0, "b": 0.22}, 1500, 100)
    (gap,) = people_board(human, judge, names).gaps
    assert not gap.separated
    assert gap.interval is not None
    assert gap.interval[0] < 0 < gap.interval[1]
    assert gap.more_labels is not None
    assert 0 < gap.more_labels <= 1400


def test_equal_generators_are_told_apart_by_no_number_of_labels() -> None:
    human, judge, names = study(5, {"a": 0.0, "b": 0.02}, 200, 100)
    (gap,) = people_board(human, judge, names).gaps
    assert gap.more_labels is None
    assert "not be enough" in gap.reason


def test_a_couple_that_people_saw_too_often_is_noticed() -> None:
    human, judge, names = study(0, STRENGTHS, 300, 900)
    chosen = [pair for pair in human if {names[pair.a], names[pair.b]} == {"a", "b"}]
    assert any(warning.id == "labels_not_random" for warning in people_board(chosen, judge, names).warnings)


def test_a_win_rate_of_two_and_a_board_without_people() -> None:
    human, judge, names = study(1, STRENGTHS, 400, 300)
    found = rate_of_two(human, judge, names, "c", "a")
    mirrored = rate_of_two(human, judge, names, "a", "c")
    assert found.value is not None
    assert mirrored.value is not None
    assert found.value + mirrored.value == pytest.approx(1)
    assert people_board([], judge, names).standings == ()


def test_a_difference_of_shares_of_which_nothing_is_known_has_no_interval() -> None:
    """Labels of two prompts that contradict each other: Student's t would print thousands of percent."""
    names = {f"{p}{g}": g for p in "pqr" for g in "xy"}
    human = [Pair("p", "px", "py", "a"), Pair("q", "qx", "qy", "b"), Pair("q", "qx", "qy", "tie")]
    judge = [Pair(p, f"{p}x", f"{p}y", "a") for p in "pqr"]
    (gap,) = people_board(human, judge, names).gaps
    assert gap.interval is None
    assert "too few labelled prompts" in gap.reason


QUALITY = {"a": 60.0, "b": 57.0, "c": 45.0, "d": 30.0}


@pytest.mark.parametrize(
    ("met", "groups", "order"),
    [
        ((("a", "b"), ("c", "d")), 2, "abcd"),
        ((("b", "d"), ("a", "c")), 2, "acbd"),
        ((("a", "b"), ("b", "c"), ("c", "d")), 1, "abcd"),
        ((("a", "b"), ("a", "c"), ("a", "d")), 1, "abcd"),
    ],
)
def test_generators_that_met_unlike_opponents_are_not_ordered_by_win_rate(
    met: tuple[tuple[str, str], ...], groups: int, order: str
) -> None:
    rng = np.random.default_rng(5)
    human, judge, names = [], [], {f"{g}/{p}": g for g in QUALITY for p in range(120)}
    for p in range(120):
        x, y = met[p % len(met)]
        win = rng.random() < 1 / (1 + np.exp((QUALITY[y] - QUALITY[x]) / 20))
        human.append(Pair(str(p), f"{x}/{p}", f"{y}/{p}", "a" if win else "b"))
        judge += [
            Pair(str(p), f"{g}/{p}", f"{h}/{p}", "a" if QUALITY[g] > QUALITY[h] else "b")
            for g, h in combinations(QUALITY, 2)
        ]
    board = people_board(human, judge, names)
    assert "".join(s.generator for s in board.standings) == order
    assert [s.rank for s in board.standings] == ([1, 2, 1, 2] if groups == 2 else [1, 2, 3, 4])
    assert all(s.ranks for s in board.standings)
    assert [s.strength is not None for s in board.standings] == [groups == 1] * 4
    assert {(g.first, g.second) for g in board.gaps} == (set(met) if groups == 2 else set())
    assert {(c.first, c.second) for c in board.couples} == set(met)
    assert len(board.warnings) == 1


def test_who_never_lost_among_unlike_opponents_has_no_place() -> None:
    names = {f"{g}/{p}": g for g in "abc" for p in range(20)}
    human = [Pair(str(p), f"{x}/{p}", f"{y}/{p}", "a") for p in range(20) for x, y in (("a", "b"), ("b", "c"))]
    board = people_board(human, [], names)
    assert [(s.rank, s.ranks) for s in board.standings] == [(None, (1, 3))] * 3


def test_who_won_every_pair_is_first_with_a_range_of_ranks() -> None:
    names = {f"{g}/{p}": g for g in "abc" for p in range(20)}
    rng = np.random.default_rng(0)
    human = [
        Pair(str(p), f"{x}/{p}", f"{y}/{p}", "a" if x == "a" or rng.random() < 0.5 else "b")
        for p in range(20)
        for x, y in (("a", "b"), ("a", "c"), ("b", "c"))
    ]
    (first, *_) = people_board(human, [], names).standings
    assert (first.generator, first.rank, first.ranks) == ("a", 1, (1, 3))


def test_a_rate_is_cut_to_0_to_1_and_the_order_stays() -> None:
    rng = np.random.default_rng(14)
    names = {f"{name}/{p}": name for name in "abc" for p in range(40)}
    judge = [
        Pair(str(p), f"{x}/{p}", f"{y}/{p}", "a" if rng.random() < 0.5 else "b")
        for p in range(40)
        for x, y in (("a", "b"), ("a", "c"), ("b", "c"))
    ]
    human = [replace(pair, preference="a") if pair.a.startswith("a") else pair for pair in judge[:12]]
    rows = PairRows.of(join(human, judge), [*"abc"], names)
    raw = fit(rows.columns(range(3))).joint.value
    assert raw.max() > 1
    board = people_board(human, judge, names)
    assert [each.generator for each in board.standings] == ["abc"[k] for k in np.argsort(-raw)]
    rates = [each.win_rate for each in board.standings]
    assert [rate.value for rate in rates] == pytest.approx(np.clip(np.sort(raw)[::-1], 0, 1))
    assert all(0 <= low <= high <= 1 for rate in rates for low, high in [rate.interval or (0, 1)])
