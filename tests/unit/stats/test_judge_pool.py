"""Pools of judges, and what one person reaches against the others."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from titjudge.core.types import Pair
from titjudge.stats.people.votes import Vote, aggregate_votes, human_ceiling
from titjudge.stats.ppi.judge_pool import best_pool

PROMPTS, IMAGES = 60, 4


def judged(noise: dict[str, float], seed: int = 0) -> tuple[list[Pair], dict[str, dict[str, float | None]]]:
    """Human pairs of images whose true quality judges see through noise, each on a scale of its own."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(PROMPTS, IMAGES))
    pairs = [
        Pair(f"p{p}", f"{p}-{i}", f"{p}-{j}", "a" if truth[p, i] > truth[p, j] else "b")
        for p in range(PROMPTS)
        for i in range(IMAGES)
        for j in range(i + 1, IMAGES)
    ]
    values: dict[str, dict[str, float | None]] = {
        name: {
            f"{p}-{i}": float(10 ** (k - 1) * (truth[p, i] + sigma * rng.normal()))
            for p in range(PROMPTS)
            for i in range(IMAGES)
        }
        for k, (name, sigma) in enumerate(noise.items())
    }
    return pairs, values


def test_three_weak_judges_are_better_together() -> None:
    pairs, values = judged({"one": 1.0, "two": 1.0, "three": 1.0, "noise": 50.0})
    found = best_pool(pairs, values)
    assert found is not None
    assert set(found.judges) == {"one", "two", "three"}
    assert found.accuracy > found.single_accuracy + 0.02
    assert found.interval is not None
    assert found.interval[0] < found.accuracy < found.interval[1]
    assert (found.pairs, found.prompts) == (PROMPTS * 6, PROMPTS)
    assert "pool of 3" in found.line()


def test_huge_scores_are_compared_like_others() -> None:
    pairs, values = judged({"one": 1.0, "two": 1.0})
    scaled = {
        name: {item: value and value * 1e200 for item, value in scores.items()} for name, scores in values.items()
    }
    expected, found = best_pool(pairs, values), best_pool(pairs, scaled)
    assert expected is not None
    assert found is not None
    assert (found.judges, found.accuracy) == (expected.judges, expected.accuracy)


def test_choosing_among_noise_earns_nothing_on_prompts_that_were_not_seen() -> None:
    cross_fitted = []
    for seed in range(12):
        pairs, values = judged({f"j{k}": 1e6 for k in range(8)}, seed)
        found = best_pool(pairs, values, seed=seed)
        assert found is not None
        cross_fitted.append(found.accuracy)
    assert np.mean(cross_fitted) == pytest.approx(0.5, abs=0.03)


def test_no_pool_is_named_where_one_judge_knows() -> None:
    pairs, values = judged({"knows": 0.0, "noise": 50.0})
    found = best_pool(pairs, values)
    assert found is not None
    assert found.judges == ("knows",)
    assert found.accuracy == 1.0
    assert "no pool is better than knows alone" in found.line()


def test_too_little_has_no_pool() -> None:
    pairs, values = judged({"one": 1.0, "two": 1.0})
    assert best_pool(pairs, {"one": values["one"]}) is None
    assert best_pool(pairs[: 4 * 6], values) is None
    assert best_pool([], values) is None
    missing: dict[str, dict[str, float | None]] = {**values, "two": dict.fromkeys(values["two"])}
    assert best_pool(pairs, missing) is None


def test_the_ceiling_is_leave_one_out_by_brute_force() -> None:
    rng = np.random.default_rng(1)
    votes = [
        Vote(f"p{k // 6}", *(("x", "y") if rng.random() < 0.5 else ("y", "x")), f"n{who}", str(rng.choice(["a", "b", "tie"])))
        for k in range(60)
        for who in range(5)
    ]  # fmt: skip
    votes = [
        Vote(f"{vote.prompt_id}-{at // 5}", vote.a, vote.b, vote.annotator, vote.choice)
        for at, vote in enumerate(votes)
    ]
    turned = {"a": "b", "b": "a", "tie": "tie"}
    hits = trials = 0
    for vote in votes:
        same = [one for one in votes if one.prompt_id == vote.prompt_id and one.annotator != vote.annotator]
        others = Counter(one.choice if one.a == vote.a else turned[one.choice] for one in same)
        if others["a"] != others["b"]:
            trials += 1
            hits += vote.choice == ("a" if others["a"] > others["b"] else "b")
    found = human_ceiling(votes)
    assert (found.accuracy, found.votes, found.annotators) == (pytest.approx(hits / trials), trials, 5)
    summary = aggregate_votes(votes, annotators=5)
    assert summary.to_json()["human_ceiling"]["accuracy"] == found.accuracy
    assert "human ceiling: one person prefers" in summary.table().notes[0]


def test_one_person_alone_has_no_ceiling() -> None:
    found = human_ceiling([Vote("p", "x", "y", "n1", "a")])
    assert (found.accuracy, found.line()) == (None, "")
