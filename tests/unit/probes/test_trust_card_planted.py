"""The trust card catches judges with a planted flaw, and no judge without one."""

from pathlib import Path

import pytest

from benchmarks.planted_judges import JUDGES, Judge, cards
from titjudge.probes.trust_card import CAUGHT, PASS

pytestmark = pytest.mark.slow
BY_NAME = {judge.name: judge for judge in JUDGES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("known")


def caught(judge: Judge, copies: int, number: int, folder: Path) -> list[set[str]]:
    return [
        {line.name for line in card.lines if line.verdict == CAUGHT} for card in cards(judge, copies, number, folder)
    ]


@pytest.mark.parametrize("name", ["blind to counts", "ignores the second half"])
def test_twelve_prompts_catch_a_judge_that_is_blind_to_a_kind_of_error_or_to_half_of_the_prompt(
    name: str, folder: Path
) -> None:
    judge = BY_NAME[name]
    made = cards(judge, 2, 10, folder)
    verdicts = [line.verdict for card in made for line in card.lines if line.name in judge.lines]
    assert verdicts.count(CAUGHT) >= 8  # 100 of 120 cards, and nearly all
    assert PASS not in verdicts


def test_a_clean_judge_is_caught_on_no_card(folder: Path) -> None:
    assert caught(BY_NAME["clean"], 2, 10, folder) == [set()] * 10


def test_a_noisy_judge_is_caught_by_its_repeated_answers_alone(folder: Path) -> None:
    found = caught(BY_NAME["noisy: .1 of its span a score"], 2, 5, folder)
    assert set().union(*found) == {"difference between repeated answers"}
