"""The eye of the ladder: it reads from pixels, so it sees what is sharp and does not see what scaling has taken away."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.ladder_eye import eye_for, insides
from titjudge.apps.scenes.cabinet import Cabinet
from titjudge.apps.scenes.generate import ScenePlan, plan
from titjudge.apps.scenes.ladder import TEMPLATES


@pytest.fixture(scope="module")
def made() -> ScenePlan:
    return plan(1, 2, (0, 3), lambda *_: [], difficulty=1)


def verdicts(made: ScenePlan, share: float) -> list[bool]:
    """Tell of each planted error, other than of heaps, whether the eye accepts the right box and notices the wrong one."""
    template = TEMPLATES[made.asked.template]
    rung = template.rungs[1]
    eye = eye_for(made.asked, rung, share)
    right, wrong = (insides(made.asked, rung, eye.sees(template.picture(shown.scene, rung), 0)) for shown in made.shown)
    found = []
    for error in made.shown[1].errors:
        thing = made.asked.get(error.element[0])
        assert thing is not None
        if thing.kind not in ("count", "text"):
            found += [eye.accepts(right[thing.name], thing), not eye.accepts(wrong[thing.name], thing)]
    return found


def test_it_sees_every_error_at_full_size(made: ScenePlan) -> None:
    assert len(verdicts(made, 1.0)) >= 10
    assert all(verdicts(made, 1.0))


def test_it_misses_errors_where_too_few_pixels_are_left(made: ScenePlan) -> None:
    found = verdicts(made, 0.1)
    assert found.count(True) < 0.8 * len(found)


def test_what_it_sees_is_as_large_as_the_image_and_less_sharp(made: ScenePlan) -> None:
    rung = Cabinet.rungs[1]
    picture = Cabinet().picture(made.asked, rung)
    eyes = [eye_for(made.asked, rung, share) for share in (0.25, 0.5, 1.0)]
    seen = [eye.sees(picture, 0) for eye in eyes]
    assert {each.shape for each in seen} == {picture.shape}
    edges = [np.abs(np.diff(each, axis=0)).mean() for each in seen]
    assert edges[0] < edges[1] < edges[2]
