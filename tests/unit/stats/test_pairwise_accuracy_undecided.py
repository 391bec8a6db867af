"""Pairs that a metric does not decide: by what is not known of two scores."""

import pytest

from titjudge.core.types import Pair, Score, Status
from titjudge.stats.pairwise_accuracy import Undecided, undecided

PAIRS = [Pair("p", "a", "b", "a"), Pair("p", "a", "c", "a"), Pair("p", "b", "c", "tie"), Pair("p", "a", "d", "a")]


def score(name: str, value: float | None, *bounds: float, metric: str = "tit-agent") -> Score:
    status = Status.OK if value is not None else Status.REFUSED
    return Score(name, metric, value, status, parts=dict(zip(("lower", "upper"), bounds, strict=False)))


def test_pairs_whose_bounds_overlap_are_not_decided() -> None:
    scores = [score("a", 92, 90, 95), score("b", 94, 93, 97), score("c", 80, 70, 90), score("d", None)]
    assert undecided(PAIRS, scores) == {"tit-agent": Undecided(1, 3)}


@pytest.mark.parametrize(("value", "count"), [(91, 1), (90, 0), (95, 0), (96, 0)])
def test_a_score_without_bounds_is_its_own(value: float, count: int) -> None:
    scores = [score("a", 92, 90, 95), score("b", value)]
    assert undecided(PAIRS, scores) == {"tit-agent": Undecided(count, 1)}


def test_a_metric_whose_scores_have_no_bounds_decides_all() -> None:
    scores = [score("a", 92, metric="tit"), score("b", 91, metric="tit"), score("a", 9, 8, 10), score("b", 9, 8, float("nan"))]  # fmt: skip
    assert undecided(PAIRS, scores) == {"tit-agent": Undecided(1, 1)}
