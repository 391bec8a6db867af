"""Runs compared with people and with each other."""

from pathlib import Path

import pytest
from report_runs import score, write_run

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import Item
from titjudge.runs.study.compared_runs import ComparedRuns


def run(folder: Path, shift: float = 0.0) -> Path:
    """Two generators, three prompts; the scores are 0 to 5, and `shift` more."""
    items = [
        Item(f"{name}{n}.png", f"prompt {n}", None, name, f"p{n}", meta={"theme": "sea"})
        for name in "ab"
        for n in range(3)
    ]
    return write_run(
        folder,
        items,
        [score(item, "tit-llm", place + shift) for place, item in enumerate(items)],
        results={"pairs": [], "spent": 0.25, "list_cost": 0.5},
    ).path


def test_a_metric_of_several_runs_bears_the_name_of_its_run(tmp_path: Path) -> None:
    compared = ComparedRuns([run(tmp_path / "one"), run(tmp_path / "two", 1)])
    assert {score.metric for score in compared.scores} == {"tit-llm (one)", "tit-llm (two)"}
    (difference,) = compared.differences([])
    assert (difference.first, difference.second, difference.difference) == ("two", "one", 1.0)
    assert compared.costs() == {"spent": 0.5, "list_cost": 1.0}


def test_the_generators_of_one_run_are_compared_prompt_by_prompt(tmp_path: Path) -> None:
    compared = ComparedRuns([run(tmp_path / "one")])
    (difference,) = compared.differences(compared.pairs(None))
    assert (difference.first, difference.second, difference.n, difference.difference) == ("b", "a", 3, 3.0)


def test_human_scores_are_of_images_of_the_runs_and_a_slice_of_a_column(tmp_path: Path) -> None:
    compared = ComparedRuns([run(tmp_path / "one")])
    human = tmp_path / "human.csv"
    human.write_text("image,score\na0.png,1\na1.png,2\nb0.png,3\n")
    (found,), raters = compared.correlations(human, "theme")
    assert (found.images.n, found.images.srcc, sorted(found.generators)) == (3, 1.0, ["", "sea"])
    assert raters == {"score": "1"}
    with pytest.raises(ConfigError, match=r"unknown column 'them'\. Did you mean 'theme'"):
        compared.correlations(human, "them")
    human.write_text("image,score\nelsewhere.png,1\n")
    with pytest.raises(DataError, match="none of its images is in the runs"):
        compared.correlations(human, None)
