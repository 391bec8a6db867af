"""What is composed, asked, planted and annotated, without a renderer: from many seeds, each property by itself."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scene_stubs import planned, unseen

from titjudge.apps.scenes import annotation
from titjudge.apps.scenes.composition import LONGEST, SHORTEST, count_words
from titjudge.apps.scenes.errors import BANDS, KINDS_OF_ERROR, MISSING, RELATION
from titjudge.apps.scenes.generate import ScenePlan, plan
from titjudge.apps.scenes.scene import KINDS, LEVELS, SIGN, TABLE, Options, phrase
from titjudge.core.errors import DataError

ROOT = Path(__file__).resolve().parents[3]
NUMBERS = range(25)


@pytest.fixture(params=NUMBERS)
def scene(request: pytest.FixtureRequest) -> ScenePlan:
    return planned(request.param)


def image(scene: ScenePlan, level: int) -> dict[str, object]:
    return annotation.image_record(scene.shown[level], scene.graph, scene.asks)


def test_the_prompt_is_long_and_asks_for_every_element(scene: ScenePlan) -> None:
    assert SHORTEST <= count_words(scene.prompt) <= LONGEST
    for thing in scene.asked.things:
        assert (
            phrase(thing.kind, thing.traits) in scene.prompt
            or phrase(thing.kind, thing.traits).capitalize()[1:] in scene.prompt
        )
        if thing.kind == SIGN:
            assert f'"{thing.traits["text"]}"' in scene.prompt
    surface = "checkerboard" if "checker" in scene.asked.surface else scene.asked.surface.split()[-1]
    assert surface in scene.prompt
    assert scene.asked.wall in scene.prompt
    for a, word, b in scene.graph.relations:
        assert b in scene.prompt
        assert a in scene.prompt
        said = {"inside": "nside", "on": "table", "on top of": "on top of"}.get(word, word.split()[0])
        assert said in scene.prompt.replace("On top", "on top").replace("Behind", "behind")


def test_level_0_is_what_was_asked(scene: ScenePlan) -> None:
    first = image(scene, 0)
    assert (first["alignment"], first["errors"]) == (1.0, [])
    prompt = scene.prompt_record()
    assert first["answers"] == prompt["gold_answers"]
    assert first["text_present"] == prompt["text_words"]


def test_levels_fall_and_lie_in_their_bands(scene: ScenePlan) -> None:
    alignments = [float(str(image(scene, level)["alignment"])) for level in LEVELS]
    assert alignments == sorted(set(alignments), reverse=True)
    for level, (low, high) in BANDS.items():
        assert 1 - high - 1e-4 <= alignments[level] <= 1 - low + 1e-4


def test_level_1_has_one_error_of_the_kind_whose_turn_it_is(scene: ScenePlan) -> None:
    kind = KINDS_OF_ERROR[int(scene.prompt_id[-4:]) % 5 - 1]
    shown = scene.shown[1]
    assert {error.kind for error in shown.errors} == {kind}
    assert len(shown.errors) <= (2 if kind == RELATION else 1)
    found = annotation.marks(scene.graph, shown.scene)
    assert found is not None
    assert 1 <= found.wrong <= (4 if kind == MISSING else 2)


def test_errors_name_elements_that_are_marked_wrong(scene: ScenePlan) -> None:
    for level in LEVELS:
        record = json.loads(json.dumps(image(scene, level)))
        relations = {(r["entity1"], r["relation"], r["entity2"]): r["score"] for r in record["relation_scores"]}
        for error in record["errors"]:
            element = error["element"]
            assert error["asked"] != error["shown"]
            if error["kind"] == MISSING:
                assert record["entity_scores"][element[0]] == 0
            elif error["kind"] == RELATION:
                assert relations[tuple(element)] == 0
            else:
                assert record["attribute_scores"][element[0]][element[1]] == 0


def test_every_wrong_mark_has_an_error_or_hangs_on_a_missing_entity(scene: ScenePlan) -> None:
    for shown in scene.shown:
        found = annotation.marks(scene.graph, shown.scene)
        assert found is not None
        named = {error.element for error in shown.errors}
        gone = {name for name, there in found.entities.items() if not there}
        assert {(name,) for name in gone} <= named
        for name, each in found.attributes.items():
            assert all(so or name in gone or (name, key) in named for key, so in each.items())
        for relation, so in found.relations.items():
            assert so or gone & {relation[0], relation[2]} or relation in named


def test_a_missing_entity_takes_its_attributes_and_relations_with_it(scene: ScenePlan) -> None:
    record = json.loads(json.dumps(image(scene, 3)))
    gone = {name for name, score in record["entity_scores"].items() if not score}
    assert gone
    for name in gone:
        assert not any(record["attribute_scores"].get(name, {}).values())
    assert not any(r["score"] for r in record["relation_scores"] if gone & {r["entity1"], r["entity2"]})


def test_questions_have_both_answers_and_fit_the_marks(scene: ScenePlan) -> None:
    gold = [question.answer(scene.asked) for question in scene.asks]
    assert 9 <= len(gold) <= 12
    assert gold.count("no") >= 3
    assert len({question.text for question in scene.asks}) == len(scene.asks)
    for shown in scene.shown:
        found = annotation.marks(scene.graph, shown.scene)
        assert found is not None
        for question in scene.asks:
            about, answer = question.about, question.answer(shown.scene)
            if question.relation:
                assert (answer == "yes") == found.relations[about]  # type: ignore[index]
            elif len(about) == 3 and scene.graph.attributes[about[0]][about[1]] == about[2]:
                assert (answer == "yes") == found.attributes[about[0]][about[1]]


def test_nothing_in_a_scene_could_pass_for_another(scene: ScenePlan) -> None:
    for shown in scene.shown:
        families = [KINDS[thing.kind].family for thing in shown.scene.things]
        assert len(set(families)) == len(families)
        places = [(t.column, t.row, t.place) for t in shown.scene.things if t.place == "table"]
        assert len(set(places)) == len(places)


def test_the_graph_names_only_what_is_there(scene: ScenePlan) -> None:
    names = set(scene.graph.entities)
    assert len(scene.graph) == len(names) + sum(map(len, scene.graph.attributes.values())) + len(scene.graph.relations)
    assert {name for a, _, b in scene.graph.relations for name in (a, b)} <= names
    assert {relation[2] for relation in scene.graph.relations if relation[1] == "on"} == {TABLE}


def test_every_kind_of_error_and_every_kind_of_thing_comes_up() -> None:
    scenes = [planned(number) for number in NUMBERS]
    kinds = {error.kind for scene in scenes for shown in scene.shown for error in shown.errors}
    assert kinds == set(KINDS_OF_ERROR)
    things = {thing.kind for scene in scenes for shown in scene.shown for thing in shown.scene.things}
    assert len(things) >= len(KINDS) - 3


def test_prompts_are_grammatical_where_words_are_put_together() -> None:
    for number in NUMBERS:
        text = planned(number).prompt
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]|\.\.|  |[{}]", text), text
        assert not re.search(r"\b(apples|books|balls|lemons|oranges|blocks|flowers),? on its", text), text
        assert all(sentence[0].isupper() for sentence in text.split(". "))


def test_prompts_are_worded_differently() -> None:
    firsts = {planned(number).prompt.split(". ")[0] for number in NUMBERS}
    assert len(firsts) > len(NUMBERS) // 2


def test_a_scene_is_the_same_again_in_another_process_with_other_hashes() -> None:
    code = (
        "import sys, hashlib; sys.path.insert(0, 'tests')\n"
        "from scene_stubs import planned\n"
        "from titjudge.apps.scenes.layout import placed\n"
        "p = planned(3); text = repr((p, [list(placed(s.scene)) for s in p.shown]))\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_seeds_and_numbers_differ() -> None:
    assert len({planned(0).prompt, planned(1).prompt, planned(0, seed=8).prompt}) == 3


def test_the_bound_on_draws_is_kept() -> None:
    calls: list[int] = []

    def blind(*_: object) -> list[str]:
        calls.append(1)
        return ["hidden"]

    with pytest.raises(DataError, match="--seed"):
        plan(Options(7), 0, blind)
    assert 0 < len(calls) < 500


def test_levels_can_be_chosen() -> None:
    assert [shown.level for shown in plan(Options(7, levels=(1, 3)), 0, unseen).shown] == [1, 3]
