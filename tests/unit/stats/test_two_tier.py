"""A cheap judge on all prompts and a dear one on a part: closed forms, validity, and what cannot be joined."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.commands import cli
from titjudge.core.errors import DataError
from titjudge.stats.ppi.inference import ppi_mean
from titjudge.stats.ppi.two_tier import two_tier
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table


def table(scores: dict[str, np.ndarray], prompts: list[str], source: str = "table") -> ScoreTable:
    entries = [
        Entry(prompt, name, f"{name}/{prompt}", None if np.isnan(value) else float(value))
        for name, values in scores.items()
        for prompt, value in zip(prompts, values, strict=True)
    ]
    return score_table(entries, metric="score", source=source)


def judges(prompts: int, part: int, seed: int, scale: float = 100.0) -> tuple[ScoreTable, ScoreTable]:
    """Two generators whose true means are .5 and .3; the cheap judge follows the dear one with noise on another scale."""
    rng = np.random.default_rng(seed)
    names = [f"p{k}" for k in range(prompts)]
    dear = {"a": 0.5 + rng.normal(size=prompts), "b": 0.3 + rng.normal(size=prompts)}
    cheap = {name: scale * (values + 0.8 * rng.normal(size=prompts)) + 7 for name, values in dear.items()}
    chosen = np.sort(rng.choice(prompts, part, replace=False))
    some = {name: values[chosen] for name, values in dear.items()}
    return table(cheap, names, "cheap"), table(some, [names[k] for k in chosen], "dear")


def test_equal_to_prediction_powered_inference_by_hand() -> None:
    cheap, dear = judges(200, 50, 1)
    found = two_tier(cheap, dear)
    (a,) = [each for each in found.generators if each.names == ("a",)]
    known = dict(zip(dear.prompts, dear.means[:, dear.column("a")], strict=True))
    low = dict(zip(cheap.prompts, cheap.means[:, cheap.column("a")], strict=True))
    y, f = np.array(list(known.values())), np.array([low[p] for p in known])
    factor = y.std() / f.std()
    byhand = ppi_mean(y, factor * f, factor * np.array([v for p, v in low.items() if p not in known]), skewed=True)
    assert a.estimate.value == pytest.approx(byhand.value)
    assert a.estimate.interval == pytest.approx(byhand.interval)
    assert a.estimate.people == pytest.approx(y.mean())
    assert (a.estimate.labelled, a.estimate.unlabelled) == (50, 150)


def test_the_unit_of_the_cheap_judge_does_not_matter() -> None:
    one, other = (two_tier(*judges(200, 50, 2, scale)) for scale in (100.0, 0.001))
    for x, y in zip((*one.generators, *one.differences), (*other.generators, *other.differences), strict=True):
        assert x.estimate.value == pytest.approx(y.estimate.value)
        assert x.estimate.interval == pytest.approx(y.estimate.interval)


def test_intervals_hold_for_the_dear_judge_and_are_narrower_than_alone() -> None:
    held, saved = [], []
    for seed in range(200):
        (difference,) = two_tier(*judges(300, 60, seed)).differences
        low, high = difference.estimate.interval or (0.0, 0.0)
        truth = 0.2 if difference.names == ("a", "b") else -0.2
        held.append(low <= truth <= high)
        saved.append(difference.saved or 0.0)
    assert 0.90 <= np.mean(held) <= 0.99
    assert np.mean(saved) > 0.3  # correlation .78: 1 / 1.64 of the variance is known, over four fifths of the prompts


def near_the_ceiling(
    share: float, agreement: float, part: int, rng: np.random.Generator
) -> tuple[ScoreTable, ScoreTable]:
    """Yes / no answers of a dear judge on a random part of 1,000 prompts, and of a cheap one that agrees in a share of them."""
    yes = rng.random(1000) < share
    cheap = np.where(rng.random(1000) < agreement, yes, ~yes).astype(float)
    names = [f"p{k}" for k in range(1000)]
    chosen = rng.choice(1000, part, replace=False)
    some = [names[k] for k in chosen]
    return table({"a": cheap}, names, "cheap"), table({"a": yes[chosen].astype(float)}, some, "dear")


@pytest.mark.slow
@pytest.mark.parametrize(("share", "agreement", "part"), [(0.98, 0.97, 30), (0.98, 0.97, 60), (0.95, 0.9, 30)])
def test_yes_and_no_near_an_end_of_the_scale_are_covered_where_there_is_an_interval(
    share: float, agreement: float, part: int
) -> None:
    rng = np.random.default_rng(1)
    held = []
    for _ in range(150):
        (found,) = two_tier(*near_the_ceiling(share, agreement, part, rng)).generators
        if found.estimate.interval is not None:
            held.append(found.estimate.interval[0] <= share <= found.estimate.interval[1])
    assert np.mean(held) >= 0.95 - 3 * (0.05 * 0.95 / len(held)) ** 0.5


def test_judges_that_agree_on_the_whole_part_do_not_make_the_interval_collapse() -> None:
    names = [f"p{k}" for k in range(400)]
    cheap = np.where(np.arange(400) % 10 == 0, 0.0, 1.0)
    part = [names[k] for k in range(30)]
    (found,) = two_tier(table({"a": cheap}, names), table({"a": cheap[:30]}, part)).generators
    assert found.estimate.interval == found.estimate.people_interval
    assert found.saved == 0
    assert any(
        "a: the two judges differ in the same way" in note
        for note in two_tier(table({"a": cheap}, names), table({"a": cheap[:30]}, part)).notes
    )


def test_a_useless_cheap_judge_leaves_the_dear_one_alone() -> None:
    cheap, dear = judges(100, 40, 3)
    flat = table({name: np.zeros(100) for name in cheap.generators}, list(cheap.prompts))
    for each in two_tier(flat, dear).generators:
        assert each.estimate.value == each.estimate.people
        assert each.estimate.interval == each.estimate.people_interval


def test_a_part_that_is_not_random_is_named() -> None:
    cheap, dear = judges(300, 299, 4)
    worst = np.argsort(cheap.means.mean(axis=1))[:60]
    part = table(
        {name: dear.means[worst % 299, dear.column(name)] for name in dear.generators},
        [cheap.prompts[k] for k in worst], "part",
    )  # fmt: skip
    assert any("no random part" in note for note in two_tier(cheap, part).notes)
    assert not any("no random part" in note for note in two_tier(*judges(300, 60, 5)).notes)


def test_what_only_one_of_them_has_is_left_out_and_said() -> None:
    cheap, dear = judges(50, 20, 6)
    more = table(
        {"a": np.append(dear.means[:, dear.column("a")], 1.0), "z": np.ones(21)}, [*dear.prompts, "new"], "dear"
    )
    found = two_tier(cheap, more)
    assert [each.names for each in found.generators] == [("a",)]
    assert found.differences == ()
    assert any(note.startswith("1 prompts of dear") for note in found.notes)
    assert any("left out: b, z" in note for note in found.notes)
    with pytest.raises(DataError, match="0 generators"):
        two_tier(cheap, table({"z": np.ones(20)}, list(dear.prompts)))


def test_one_common_prompt_a_generator_is_too_few() -> None:
    cheap = table({"a": np.arange(4.0), "b": np.arange(4.0)}, list("pqrs"))
    dear = table({"a": np.array([1.0, np.nan]), "b": np.array([np.nan, 2.0])}, list("pq"))
    with pytest.raises(DataError, match="more than 1 prompt with a score in common"):
        two_tier(cheap, dear)


def test_on_the_command_line(tmp_path: Path) -> None:
    for name, found in zip(("cheap", "dear"), judges(120, 40, 7), strict=True):
        lines = [
            f"{prompt},{generator},{found.means[row, column]}"
            for row, prompt in enumerate(found.prompts)
            for column, generator in enumerate(found.generators)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["prompt_id,generator,score", *lines]))
    said = cli(tmp_path, "compare", "people", "cheap.csv", "--gold", "dear.csv", "--json", "out.json",
               "--out", "out.md", "--plot", "out.svg")  # fmt: skip
    assert "**Differences of neighbours**" in (tmp_path / "out.md").read_text()
    words = "".join(ElementTree.parse(tmp_path / "out.svg").getroot().itertext())
    assert "the dear judge with the help of the cheap one" in words
    assert ".svg or .png" in cli(
        tmp_path, "compare", "people", "cheap.csv", "--gold", "dear.csv", "--plot", "x.pdf", code=2
    )
    assert "as the dear judge would score them" in said
    found = json.loads((tmp_path / "out.json").read_text())
    assert {each["generators"][0] for each in found["generators"]} == {"a", "b"}
    assert all(each["labelled"] == 40 and each["unlabelled"] == 80 for each in found["generators"])
    assert found["differences"][0]["dear_interval"] is not None
    (tmp_path / "dear.csv").write_text((tmp_path / "dear.csv").read_text().replace(",score", ",marks"))
    again = cli(tmp_path, "compare", "people", "cheap.csv", "--gold", "dear.csv", "--gold-metric", "marks")
    assert again.splitlines()[:4] == said.splitlines()[:4]
    assert "goes with --gold" in cli(tmp_path, "compare", "people", "cheap.csv", "--gold-metric", "marks", code=2)
    assert "--pairs" in cli(
        tmp_path, "compare", "people", "cheap.csv", "--gold", "dear.csv", "--pairs", "x.csv", code=2
    )


def test_hard_prompts_without_a_dear_score_promote_no_generator() -> None:
    rng = np.random.default_rng(5)
    names, hard = [f"p{k}" for k in range(100)], np.arange(100) % 2 == 1
    level = np.where(hard, 30.0, 70.0) + rng.normal(0, 2, 100)
    dear = {name: level + shift + rng.normal(0, 2, 100) for name, shift in (("a", 0.0), ("b", 5.0), ("c", -5.0))}
    cheap = {name: values + rng.normal(0, 8, 100) for name, values in dear.items()}
    part = {name: np.where(hard & (name == "a"), np.nan, values)[:40] for name, values in dear.items()}
    found = two_tier(table(cheap, names, "cheap"), table(part, names[:40], "dear"))
    assert [tier.names[0] for tier in found.generators] == ["b", "a", "c"]
    assert found.generators[1].estimate.value == pytest.approx(dear["a"].mean(), abs=3)
    assert any("a 20" in note for note in found.notes)
