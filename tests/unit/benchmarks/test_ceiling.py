"""The benchmark of judges, pools and people on ImagenHub, and the study of docs/measurements/study.md, over tables with known numbers."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import ceiling, study
from benchmarks.verdicts import HUMAN


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Lay out 30 prompts as VIEScore's repository does: two judges and two people know the truth, a third says the opposite."""
    rng = np.random.default_rng(0)
    people = tmp_path / "paper_implementation" / "_human_annotations" / "ImagenHub_human_eval_results" / ceiling.TASK
    people.mkdir(parents=True)
    truth = rng.permuted(np.tile(np.linspace(0, 1, 5), (30, 1)), axis=1)
    rated = [truth, truth, (1 - truth) / 2]  # the third person says the opposite, less loudly
    for k, values in enumerate(rated, 1):
        rows = ["\t".join(["uid", *ceiling.GENERATORS, "Other"])]
        rows += ["\t".join([f"p{p}", *(f"[{value}, 0.5]" for value in row), "[0, 0]"]) for p, row in enumerate(values)]
        (people / f"Text-To-Image_rater{k}.tsv").write_text("\n".join(rows) + "\n")
    judges = {"gpt4o_1shot": truth, "gpt4v_0shot": truth, "gemini_0shot": 0 * truth}
    for name, values in judges.items():
        for g, generator in enumerate(ceiling.GENERATORS):
            folder = tmp_path / "paper_implementation" / "_answers" / f"results_{name}" / ceiling.TASK / generator
            folder.mkdir(parents=True)
            scores = {f"p{p}": {"score": [10 * row[g], 10]} for p, row in enumerate(values)}
            scores["p0"] = {"score": "I cannot say"}
            (folder / "SC.json").write_text(json.dumps(scores))
    return tmp_path


def test_judges_and_people_of_a_known_table(checkout: Path) -> None:
    found = ceiling.reached(checkout)
    right = (29 + 0.5) / 30  # of the first prompt nothing is known: half
    assert found["judge gpt4o_1shot"] == found["best judge"] == pytest.approx(right)
    assert found["judge gemini_0shot"] == 0.5
    assert found["mean of three judges"] == pytest.approx(right)
    assert found["person 3"] == 0.0


def page(folder: Path, part: str) -> Path:
    """Write a page of the study with one part, not filled yet."""
    folder.mkdir()
    marker = f"<!-- measured: python -m benchmarks.study {part} --write -->"
    (folder / "study.md").write_text(f"before\n{marker}\n<!-- end measured -->\nafter\n")
    return folder


def test_the_study_tells_judges_from_one_person(checkout: Path, tmp_path: Path) -> None:
    docs = page(tmp_path / "docs", "judges")
    asked = ["judges", "--viescore", str(checkout)]
    with pytest.raises(SystemExit, match=r"not current: study.md \(judges\), study-judges.svg"):
        study.main([*asked, "--check"], docs)
    study.main([*asked, "--write"], docs)
    study.main([*asked, "--check"], docs)
    text = (docs / "study.md").read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    rows = {line.split(" | ")[0]: line.split(" | ")[1:] for line in text.splitlines()}
    assert rows["| gpt4o_1shot"][0] == "96.7%"  # one prompt of 30 without a number
    assert rows["| gpt4o_1shot"][2].startswith("98.3%")
    assert rows["| gemini_0shot"][1].startswith("100.0%")  # equal scores everywhere
    assert rows["| gemini_0shot"][4].startswith("0 / 0")
    assert "One person orders 0.0%, 100.0%, 100.0% of pairs" in text
    assert (docs / "study-judges.svg").read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')


def test_one_person_is_held_against_the_same_two_as_a_judge() -> None:
    images = [(g, f"p{k}") for k in range(10) for g in "ab"]
    people = np.tile([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]], (10, 1))
    gain, _ = ceiling.against_two(images, people, [people[:, 0]] * 3)
    assert gain == 0.0
    loss, _ = ceiling.against_two(images, people, [1 - people[:, 0]] * 3)
    assert loss == -1.0
    coin, _ = ceiling.against_two(images, people, [np.zeros(20)] * 3)
    assert coin == -0.5


def test_judges_are_chosen_on_other_prompts_than_they_are_marked_on() -> None:
    images = [(g, f"p{k}") for k in range(60) for g in "abc"]
    rng = np.random.default_rng(1)
    truth = rng.random(180)
    pairs = ceiling.pairs_of(images, truth)
    noise = {f"n{k}": ceiling.named(images, rng.random(180)) for k in range(30)}
    best = max(ceiling.accuracy(images, truth, np.array(list(column.values()))) for column in noise.values())
    assert study.chosen_elsewhere(pairs, noise, 1) < best - 0.03  # the luck of the best of thirty is not counted
    assert study.chosen_elsewhere(pairs, noise | {"knows": ceiling.named(images, truth)}, 1) == 1.0


def test_a_part_without_its_data_is_skipped_and_said_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TITJUDGE_STUDY_DATA", raising=False)
    docs = page(tmp_path / "docs", "judges")
    study.main(["judges", "--write"], docs)
    assert "skipped: judges: name its data with --viescore" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        study.main(["judges", "--viescore", str(tmp_path / "nowhere")], docs)
    assert "nowhere: no such file or folder" in capsys.readouterr().err


def test_the_prices_of_the_study_are_current() -> None:
    study.main(["price", "--check"])


@pytest.mark.skipif(not HUMAN.is_file(), reason="the marks of people are not beside the project")
def test_the_prompts_of_the_study_are_current() -> None:
    study.main(["prompts", "--check"])
