"""Known edits: each result shows exactly what its name says, and the folder is one that can be judged."""

from collections import Counter
from pathlib import Path

import pytest
from builders import read_lines
from scene_stubs import noise, unseen

from titjudge.apps.scenes.edits import EditPlan, changed, make_edits, plan_edit
from titjudge.apps.scenes.errors import MISSING
from titjudge.apps.scenes.scene import Options, Scene
from titjudge.core.types import Item
from titjudge.suites.folder import Folder
from titjudge.suites.known_answer.suite import DONE, OUTCOMES

SMALL = Options(7, 24, 1, ())


@pytest.fixture(scope="module", params=range(6))
def plan(request: pytest.FixtureRequest) -> EditPlan:
    return plan_edit(7, request.param, unseen)


def test_a_done_edit_changes_the_thing_that_the_instruction_names_and_nothing_else(plan: EditPlan) -> None:
    assert changed(plan.results["not_done"], plan.results["done"]) == {plan.error.element[0]}
    assert plan.error.element[0] in plan.instruction
    assert (plan.edit_type == "remove") is (plan.error.kind == MISSING)


def test_an_edit_elsewhere_leaves_that_thing_alone_and_changes_another(plan: EditPlan) -> None:
    other = changed(plan.results["not_done"], plan.results["elsewhere"])
    assert len(other) == 1
    assert plan.error.element[0] not in other


def test_collateral_damage_is_one_further_change(plan: EditPlan) -> None:
    further = changed(plan.results["done"], plan.results["collateral"])
    assert len(further) == 1
    assert plan.error.element[0] not in further


def test_an_over_edit_does_what_is_asked_and_changes_much_else(plan: EditPlan) -> None:
    over, done = plan.results["over_edit"], plan.results["done"]
    name, *attribute = plan.error.element
    if plan.error.kind == MISSING:
        assert over.get(name) is None
    else:
        shown, wanted = over.get(name), done.get(name)
        assert shown is not None
        assert wanted is not None
        assert shown.traits[attribute[0]] == wanted.traits[attribute[0]]
    assert len(changed(done, over)) >= 3


def test_the_same_seed_plans_the_same_edit() -> None:
    assert plan_edit(7, 0, unseen) == plan_edit(7, 0, unseen)
    assert plan_edit(7, 0, unseen) != plan_edit(8, 0, unseen)


def test_a_folder_of_edits_is_read_with_sources_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    renders: list[Scene] = []

    def render(scene: Scene) -> object:
        renders.append(scene)
        return noise(scene)

    for edits in (1, 2):
        make_edits(tmp_path, edits, SMALL, look=unseen, render=render, watch=lambda _: None)
    assert len(renders) == 2 * len(OUTCOMES)
    items = [item for item in Folder().load(tmp_path) if isinstance(item, Item)]
    assert Counter(item.generator for item in items) == dict.fromkeys(OUTCOMES, 2)
    for item in items:
        assert item.prompt.endswith(".")
        assert item.image is not None
        same = item.sources[0].read_bytes() == item.image.read_bytes()
        assert same is (item.generator == "not_done")
    assert len(read_lines(tmp_path / "metadata.jsonl")) == 10
    assert "--edits --scenes 2 --seed 7" in (tmp_path / "README.md").read_text()


def test_what_is_done_is_preferred_to_each_other_outcome_and_nothing_is_said_of_those(tmp_path: Path) -> None:
    make_edits(tmp_path, 2, SMALL, look=unseen, render=noise, watch=lambda _: None)
    outcome = {item.id: item.generator for item in Folder().load(tmp_path) if isinstance(item, Item)}
    pairs = Folder().pairs(tmp_path)
    preferred = [(pair.a, pair.b) if pair.preference == "a" else (pair.b, pair.a) for pair in pairs]
    assert Counter((outcome[better], outcome[worse]) for better, worse in preferred) == {
        (DONE, other): 2 for other in OUTCOMES[1:]
    }
    assert {line["source"] for line in read_lines(tmp_path / "pairs.jsonl")} == {"construction"}


@pytest.mark.slow
def test_rendered_results_differ_from_their_source_by_what_was_changed(plan: EditPlan) -> None:
    pytest.importorskip("mitsuba")
    from titjudge.apps.scenes.render import Stage

    source = Stage(plan.results["not_done"], 48).picture(4).astype(int)
    changed_share = {
        outcome: (abs(Stage(plan.results[outcome], 48).picture(4).astype(int) - source).max(axis=2) > 24).mean()
        for outcome in ("not_done", "done", "elsewhere", "over_edit")
    }
    assert changed_share["not_done"] == 0
    assert 0 < changed_share["done"] < 0.2
    assert 0 < changed_share["elsewhere"] < 0.2
    assert changed_share["done"] < changed_share["over_edit"]
