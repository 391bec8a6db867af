import math
from dataclasses import replace
from pathlib import Path

import pytest

from titjudge.core.types import Item
from titjudge.metrics.tit import lmm_score
from titjudge.probes import battery, item_scorer, prompt_edits
from titjudge.probes.canary import Canary, _report
from titjudge.suites.known_answer.suite import KnownAnswer

LOGITS = (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("values", "limits", "expected"),
    [([0.2, 0.5, 0.3], (-1.0, 1.0), 0.3), ([0.4, 0.4], (0.0, 1.0), 1.0), ([], (0.0, 100.0), 100.0),
     ([2.0, -7.0], LOGITS, 9.0), ([3.0, 3.0], LOGITS, 1.0), ([0.3, 0.1 + 0.2], LOGITS, 1.0), ([-5.0, 150.0], (0.0, 100.0), 100.0)],
)  # fmt: skip
def test_spread(values: list[float], limits: tuple[float, float], expected: float) -> None:
    assert item_scorer.spread(values, limits) == pytest.approx(expected)


def test_the_span_is_the_distance_between_best_and_worst_where_they_are_kept_apart() -> None:
    assert item_scorer.span({0: [0.9, 0.88], 1: [0.5], 3: [0.8, 0.78]}, (-1, 1)) == pytest.approx(0.1)
    assert item_scorer.span({0: [5.0], 3: [-3.0]}, LOGITS) == 8
    blind = {0: [0.80, 0.84], 3: [0.84, 0.80]}
    assert item_scorer.span(blind, (-1, 1)) == pytest.approx(0.04)  # not 2: nothing would ever be seen to move
    assert item_scorer.span({0: [0.1], 3: [0.9]}, (0, 1)) == pytest.approx(0.8)
    assert item_scorer.span({}, (0, 1)) == 1


@pytest.mark.parametrize(("shift", "state"), [(0.001, "same"), (0.05, "drift")])
def test_canaries_of_a_metric_without_a_range_drift_by_their_own_scale(shift: float, state: str) -> None:
    metric = replace(lmm_score, name="logit", range=LOGITS)
    canaries = [Canary(f"i{k}", "logit", 0.01 * k, (0.01 * k, 0.01 * k)) for k in range(20)]
    now = {(each.item, "logit"): (each.value or 0.0) + shift for each in canaries}
    report = _report(canaries, now, {"logit": metric}, {}, {}, "f", "p")
    assert report.state == state
    assert report.effect == pytest.approx(shift / 0.38)


def test_only_what_an_image_shows_can_be_made_wrong(example: Path) -> None:
    items = [item for item in KnownAnswer().load(example) if isinstance(item, Item)]
    worst = next(item for item in items if item.id.endswith("b452d4d591.jpg"))  # no oranges, no lemons, another sign
    facts = worst.prompt, worst.meta["annotation"], worst.meta["prompt_words"]
    seen = battery.shown(worst)
    assert seen is not None
    assert ("attribute", "apples", "count") in seen
    assert ("attribute", "oranges", "count") not in seen
    assert {each.element for each in prompt_edits.edits(*facts, "wrong count", 99, seen)} == {
        ("attribute", "apples", "count")
    }
    assert prompt_edits.edits(*facts, "misspelt text", 99, seen) == []
    assert len(prompt_edits.edits(*facts, "missing entity", 99, seen)) == 8
    perfect = next(item for item in items if item.meta["level"] == 0 and item.prompt_id == worst.prompt_id)
    assert battery.shown(perfect) is None
    assert len(prompt_edits.edits(*facts, "wrong count", 99, None)) > 2


def test_every_place_is_taken_before_any_is_taken_again(example: Path) -> None:
    items = [item for item in KnownAnswer().load(example) if isinstance(item, Item) and item.meta["level"] == 0]
    for item in items:
        facts = item.prompt, item.meta["annotation"], item.meta["prompt_words"]
        found = prompt_edits.edits(*facts, "wrong attribute", 99)
        places = [each.element for each in found]
        assert len(set(places[: len(set(places))])) == len(set(places))
        assert prompt_edits.edits(*facts, "wrong attribute", 4) == found[:4]


def test_a_perfect_image_has_most_trials_of_every_kind_and_every_image_has_some(example: Path) -> None:
    items = [item for item in KnownAnswer().load(example) if isinstance(item, Item)]
    tests = {test.name: test for test in battery.sensitivity(items)}
    assert {trial.base.id for trial in tests["missing entity"].trials} == {f"{item.id}#as asked" for item in items}
    for kind in prompt_edits.KINDS:
        assert len({trial.changed.id for trial in tests[kind].trials}) == len(tests[kind].trials)
        assert len(battery.sensitivity(items, 2)[2 * prompt_edits.KINDS.index(kind)].trials) < len(tests[kind].trials)
