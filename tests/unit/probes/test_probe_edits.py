"""The trust card of a judge of edits: which outcomes it tells from an edit that is done."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from scene_stubs import noise, unseen

from titjudge.apps.scenes.edits import make_edits
from titjudge.apps.scenes.scene import Options
from titjudge.core.config import RunConfig, load_config
from titjudge.core.errors import DataError
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Request
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.metrics import Metric
from titjudge.metrics.tit import lmm_score
from titjudge.metrics.viescore import viescore_edit
from titjudge.probes.probe import probe
from titjudge.probes.trust_card import CAUGHT, OPEN, PASS
from titjudge.providers.fake import Fake
from titjudge.report.card_record import CardRecord as Card
from titjudge.runs.probe_run import dry_run, run_probe
from titjudge.suites.known_answer.suite import WRONG, is_known_edits, known_edits

EDITS = 24
RATINGS = {"done": (9, 9), "not_done": (0, 10), "elsewhere": (1, 5), "collateral": (9, 6), "over_edit": (9, 2)}
Ratings = Callable[[str], tuple[int, int]]  # success and freedom from over-editing, by the outcome


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edits")
    return make_edits(folder, EDITS, Options(7, 24, 1, ()), look=unseen, render=noise, watch=lambda _: None)


def judged(data: Path, rate: Ratings = RATINGS.__getitem__, metric: Metric = viescore_edit) -> Card:
    outcome = {item.image: item.generator for item in known_edits(data)}

    def answer(request: Request) -> str:
        ratings = rate(outcome[request.images[-1].path]) if len(request.images) == 2 else (8, 8)
        return f'{{"score": {list(ratings)}, "reasoning": "r"}}'

    async def go() -> Card:
        config = RunConfig.model_validate({"judge": "fake/mind"})
        engine = Engine(Roles(config, make=lambda role: Fake(answers=answer)), PromptLibrary())
        try:
            return await probe(engine, metric.name, metric, data, data)
        finally:
            await engine.aclose()

    return asyncio.run(go())


def verdicts(card: Card) -> dict[str, str]:
    return {line.name.partition(",")[0]: line.verdict for line in card.lines if line.family == "edits"}


def test_a_judge_that_sees_all_outcomes_passes_every_line(data: Path) -> None:
    card = judged(data)
    assert verdicts(card) == dict.fromkeys(WRONG.values(), PASS)
    assert "caught" not in [line.verdict for line in card.lines]
    assert card.scores == 5 * EDITS
    assert "effects shares" in card.table().notes[1]


@pytest.mark.parametrize("outcome", WRONG)
def test_a_judge_that_takes_one_outcome_for_done_is_caught_in_that_line_alone(data: Path, outcome: str) -> None:
    card = judged(data, lambda shown: RATINGS["done" if shown == outcome else shown])
    assert verdicts(card) == dict.fromkeys(WRONG.values(), PASS) | {WRONG[outcome]: CAUGHT}


def test_few_edits_are_not_enough_and_the_line_says_how_many_more_are(tmp_path: Path) -> None:
    make_edits(tmp_path, 3, Options(7, 24, 1, ()), look=unseen, render=noise, watch=lambda _: None)
    card = judged(tmp_path)
    assert set(verdicts(card).values()) == {OPEN}
    assert all(line.more for line in card.lines if line.family == "edits")


def test_a_metric_that_does_not_look_at_sources_is_refused_before_anything_is_asked(data: Path) -> None:
    with pytest.raises(DataError, match="known edits"):
        judged(data, metric=lmm_score)


def test_images_with_known_answers_are_no_known_edits(data: Path, small_known: Path) -> None:
    assert is_known_edits(data)
    assert not is_known_edits(small_known)


def test_the_command_of_a_probe_reads_known_edits_and_its_price_is_known_before(data: Path, tmp_path: Path) -> None:
    options = {"metrics": ["viescore-edit"], "judge": "fake/mind", "data": str(data), "out": str(tmp_path / "run")}
    config = load_config(None, options | {"cache": str(tmp_path / "cache")})
    assert dry_run(config).to_json()["items"] == 5 * EDITS
    card, folder = run_probe(config)
    assert (folder / "card.json").is_file()
    assert set(verdicts(card)) == set(WRONG.values())
