"""The eye of the ladder: it reads from pixels, so it sees what is sharp and does not see what scaling has taken away."""

import numpy as np
import pytest

from benchmarks.ladder_eye import eye_for, insides
from titjudge.apps.scenes.generate import ScenePlan, plan
from titjudge.apps.scenes.ladder import TEMPLATES
from titjudge.apps.scenes.scene import Options


@pytest.fixture(scope="module", params=TEMPLATES)
def made(request: pytest.FixtureRequest) -> ScenePlan:
    return plan(Options(1, levels=(0, 3), ladder=1, template=request.param), 2, lambda *_: [])


def verdicts(made: ScenePlan, share: float) -> list[bool]:
    """Tell of each planted error, other than of heaps, whether the eye accepts the right box and notices the wrong one."""
    template = TEMPLATES[made.asked.template]
    rung = template.rungs[1]
    eye = eye_for(made.asked, rung, share)
    right, wrong = (insides(made.asked, rung, eye.sees(template.picture(shown.scene, rung), 0)) for shown in made.shown)
    accepted = []
    for error in made.shown[1].errors:
        thing = made.asked.get(error.element[0])
        assert thing is not None
        if thing.form not in ("count", "text"):
            accepted += [eye.accepts(right[thing.name], thing), not eye.accepts(wrong[thing.name], thing)]
    return accepted


def test_it_sees_every_error_at_full_size(made: ScenePlan) -> None:
    noticed = verdicts(made, 1.0)
    assert len(noticed) >= 10
    assert all(noticed)


def test_it_misses_errors_where_too_few_pixels_are_left(made: ScenePlan) -> None:
    noticed = verdicts(made, 0.07 if made.asked.template == "shelves" else 0.1)  # a pixel and a half or two a thing
    assert noticed.count(True) < 0.8 * len(noticed)


def test_what_it_sees_is_as_large_as_the_image_and_less_sharp(made: ScenePlan) -> None:
    template = TEMPLATES[made.asked.template]
    rung = template.rungs[1]
    picture = template.picture(made.asked, rung)
    eyes = [eye_for(made.asked, rung, share) for share in (0.25, 0.5, 1.0)]
    seen = [eye.sees(picture, 0) for eye in eyes]
    assert {field.shape for field in seen} == {picture.shape}
    edges = [np.abs(np.diff(field, axis=0)).mean() for field in seen]
    assert edges[0] < edges[1] < edges[2]


@pytest.mark.parametrize("name", ["stand", "shelves"])
def test_crowds_are_counted_from_what_shows_of_each_and_not_where_they_are_blurred(name: str) -> None:
    template, scene = TEMPLATES[name], plan(Options(1, levels=(0,), ladder=1, template=name), 0, lambda *_: []).asked
    picture = template.picture(scene, template.rungs[1])
    crowds = [thing for thing in scene.things if thing.kind == "count"]
    assert crowds
    right = {}
    for share in (1.0, 0.15):
        eye = eye_for(scene, template.rungs[1], share)
        seen = insides(scene, template.rungs[1], eye.sees(picture, 0))
        right[share] = [eye.accepts(seen[thing.name], thing) for thing in crowds]
    assert all(right[1.0])
    assert not any(right[0.15])
