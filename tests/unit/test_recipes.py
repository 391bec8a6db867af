"""The recipes in examples/recipes do what their first lines promise."""

import json
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from commands import ROOT
from report_runs import PROMPT, reply, score, write_run

from titjudge.core.types import Item
from titjudge.stats.intervals import mean_interval
from titjudge.suites.pair_files import read_pairs

RECIPES = ROOT / "examples" / "recipes"
Run = Callable[..., str]


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        runpy.run_path(str(RECIPES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


def annotation(person: int, choice: str, **more: object) -> dict[str, Any]:
    result = [{"type": "choices", "from_name": "vote", "to_name": "prompt", "value": {"choices": [choice]}}]
    return {"completed_by": person, "result": result, "was_cancelled": False, **more}


def test_a_recipe_has_at_most_forty_lines() -> None:
    lengths = {file.name: len(file.read_text().splitlines()) for file in RECIPES.glob("*.py")}
    assert {name: length for name, length in lengths.items() if length > 40} == {}


def test_tasks_for_label_studio_come_back_as_votes_that_judge_reads(example: Path, tmp_path: Path, recipe: Run) -> None:
    recipe("label_studio", "tasks", example, tmp_path / "tasks.json", "/data/?d=")
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert len(tasks) == 36
    assert all(task["data"]["left"] == "/data/?d=" + task["data"]["image_a"] for task in tasks)
    interface = ElementTree.parse(tmp_path / "tasks.xml")
    shown = {tag.attrib["value"].removeprefix("$") for tag in interface.iter() if tag.tag in ("Text", "Image")}
    assert shown <= tasks[0]["data"].keys()
    choices = [tag.attrib["value"] for tag in interface.iter("Choice")]
    for number, task in enumerate(tasks):
        task["annotations"] = [annotation(person, choices[number % 4]) for person in (1, 2)]
    tasks[0]["annotations"] = [
        annotation(1, "right", updated_at="2026-03-09T12:00:00Z"),
        annotation(1, "left", updated_at="2026-03-09T11:00:00Z"),
        annotation(2, "right"),
        annotation(3, "left", was_cancelled=True),
        {"completed_by": 4, "result": []},
    ]
    (tmp_path / "exported.json").write_text(json.dumps(tasks))
    recipe("label_studio", "votes", tmp_path / "exported.json", tmp_path / "votes.csv")
    pairs = {(pair.prompt_id, pair.a, pair.b): pair for pair in read_pairs(tmp_path / "votes.csv")}
    read = [pairs[task["data"]["prompt_id"], task["data"]["image_a"], task["data"]["image_b"]] for task in tasks]
    expected = {"left": "a", "right": "b", "tie": "tie", "both_bad": "tie"}
    assert [pair.preference for pair in read[1:]] == [expected[choices[n % 4]] for n in range(1, 36)]
    assert read[0].preference == "b"
    assert [n for n, pair in enumerate(read) if pair.both_bad] == [n for n in range(36) if choices[n % 4] == "both_bad"]


def sweep(folder: Path, noise: dict[str, float], prompts: int = 60, family: int = 1) -> Path:
    """A sweep of judges who see quality through noise; all read one description, which is most of the price.

    The prompts of a family are alike in all that is told of them.
    """
    rng = np.random.default_rng(3)
    items = [
        Item(f"{p}/{k}.png", PROMPT, None, f"g{k}", f"p{p}", {"cluster": p // family})
        for p in range(prompts)
        for k in range(3)
    ]
    drawn: dict[tuple[str, int, str], float] = {}

    def draw(what: str, item: Item) -> float:
        key = what, item.meta["cluster"], item.generator
        return drawn[key] if key in drawn else drawn.setdefault(key, rng.normal())

    quality = {item.id: draw("", item) for item in items}
    pairs = [
        {"prompt_id": f"p{p}", "a": (a := f"{p}/{i}.png"), "b": (b := f"{p}/{j}.png"),
         "preference": "a" if quality[a] > quality[b] else "b"}
        for p in range(prompts) for i in range(3) for j in range(i)
    ]  # fmt: skip
    rows = []
    for name, sigma in noise.items():
        scores, replies = [], []
        for item in items:
            keys = [f"caption {item.id}", f"{name} {item.id}"]
            value = round(quality[item.id] + sigma * draw(name, item), 3)
            scores.append(score(item, "tit-llm", value, replies=keys))
            cost = 0.02 if name == "large" else 0.001
            replies += [
                reply(keys[0], "a bowl", item=item.id, role="captioner", model="eye", list_cost=0.03),
                reply(keys[1], "80", item=item.id, model=name, list_cost=cost),
            ]
        write_run(folder / name, items, scores, replies=replies, results={"pairs": pairs})
        rows.append({"metric": "tit-llm", "judge": f"x/{name}", "run": name})
    (folder / "sweep.json").write_text(json.dumps({"status": "complete", "rows": rows}))
    return folder


def test_a_cascade_asks_the_small_judge_first_and_pays_the_description_once(tmp_path: Path, recipe: Run) -> None:
    folder = sweep(tmp_path, {"small": 0.9, "large": 0.1})
    told = recipe("cascade", folder / "small", folder / "large", "tit-llm", 0.02)
    share, accuracy, unseen, price = map(
        float, re.search(r": (.*)% of pairs\naccuracy (.*) on these pairs, (.*) on prompts.*\n.*: (.*)", told).groups()
    )
    assert 10 < share < 80
    assert unseen == pytest.approx(accuracy, abs=0.05)
    assert accuracy > 0.9
    assert price == pytest.approx(2000 * (0.031 + 0.02 * share / 100), rel=0.01)
    worst = recipe("cascade", folder / "small", folder / "large", "tit-llm", 1)
    assert "0.0% of pairs" in worst
    assert "USD per 1,000 pairs: 62" in worst


def test_three_weak_judges_agree_better_with_people_together(tmp_path: Path, recipe: Run) -> None:
    told = recipe("judge_pool", sweep(tmp_path, {"one": 1.0, "two": 1.0, "three": 1.0, "noise": 50.0}, prompts=120))
    assert all(name in told for name in ("tit-llm (one)", "tit-llm (two)", "tit-llm (three)"))
    assert "(noise)" not in told
    alone, together, unseen = map(float, re.findall(r"(?:accuracy|in it:) (0[.]\d+)", told))
    assert together > alone + 0.02
    assert unseen == pytest.approx(together, abs=0.05)


def test_choosing_among_noise_earns_nothing_on_prompts_that_were_not_seen(tmp_path: Path, recipe: Run) -> None:
    told = recipe("judge_pool", sweep(tmp_path, {f"j{k}": 1e6 for k in range(6)}, prompts=120))
    assert float(re.findall(r"in it: (0[.]\d+)", told)[0]) == pytest.approx(0.5, abs=0.08)


def test_prompts_of_a_family_have_no_say_in_a_choice_for_each_other(tmp_path: Path, recipe: Run) -> None:
    folder = sweep(tmp_path, {f"j{k}": 1e6 for k in range(12)}, prompts=200, family=5)
    found = recipe("judge_pool", folder)
    best, unseen = (
        float(re.findall(rf"{place} (0[.]\d+)", found)[0]) for place in ("together: .*: accuracy", "in it:")
    )
    assert unseen < 0.6 < best
    assert recipe("cascade", folder / "j0", folder / "j1", "tit-llm", 0)


def test_two_judges_estimate_what_the_expensive_one_would_give(tmp_path: Path, recipe: Run) -> None:
    rng = np.random.default_rng(8)
    dear = {"a": 0.5 + rng.normal(size=300), "b": 0.3 + rng.normal(size=300)}
    cheap = {name: 100 * (values + 0.8 * rng.normal(size=300)) + 7 for name, values in dear.items()}
    for file, scores, prompts in (("cheap", cheap, range(300)), ("dear", dear, rng.choice(300, 60, replace=False))):
        rows = [f"p{k},{name},{values[k]}" for name, values in scores.items() for k in prompts]
        (tmp_path / f"{file}.csv").write_text("\n".join(["prompt_id,generator,score", *rows]))
    told = dict(
        line.split("\t") for line in recipe("two_judges", tmp_path / "cheap.csv", tmp_path / "dear.csv").splitlines()
    )
    assert list(told) == ["a", "b", "a - b"]
    for name, truth in (("a", dear["a"].mean()), ("b", dear["b"].mean()), ("a - b", (dear["a"] - dear["b"]).mean())):
        value, low, high = map(float, re.findall(r"-?[\d.]+", told[name]))
        assert low < value < high
        assert low < truth < high
        assert high - low < 3.92 / 60**0.5 * (2**0.5 if "-" in name else 1)  # the width of the expensive judge alone


@pytest.fixture(scope="module")
def estimate() -> Any:
    return runpy.run_path(str(RECIPES / "two_judges.py"))["estimate"]


def part_of(values: np.ndarray, part: int, rng: np.random.Generator) -> np.ndarray:
    chosen = rng.choice(len(values), part, replace=False)
    return np.where(np.isin(np.arange(len(values)), chosen), values, np.nan)


def test_intervals_hold_for_the_expensive_judge(estimate: Any) -> None:
    held = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        dear = 0.5 + rng.normal(size=300)
        _, low, high = estimate(part_of(dear, 60, rng), 0.001 * (dear + 0.8 * rng.normal(size=300)))
        held.append(low <= 0.5 <= high)
    assert 0.90 <= np.mean(held) <= 0.99


def test_intervals_of_the_expensive_judge_hold_for_families(estimate: Any) -> None:
    held, unit = np.zeros(2), np.arange(200) // 4
    for seed in range(150):
        rng = np.random.default_rng(seed)
        dear = 0.5 + rng.normal(size=50)[unit]
        judged = np.isin(unit, rng.choice(50, 20, replace=False))
        for k, of in enumerate((unit, None)):
            cheap = dear + 0.8 * rng.normal(size=50)[unit]
            _, low, high = estimate(np.where(judged, dear, np.nan), cheap, unit=of)
            held[k] += low <= 0.5 <= high
    assert held[0] >= 0.89 * 150
    assert held[1] <= 0.8 * 150


@pytest.mark.parametrize(("share", "agreement", "part"), [(0.98, 0.97, 30), (0.98, 0.97, 60), (0.95, 0.9, 30)])
def test_yes_and_no_near_an_end_of_the_scale_are_covered(
    estimate: Any, share: float, agreement: float, part: int
) -> None:
    rng, held = np.random.default_rng(1), []
    for _ in range(150):
        yes = rng.random(1000) < share
        cheap = np.where(rng.random(1000) < agreement, yes, ~yes).astype(float)
        _, low, high = estimate(part_of(yes.astype(float), part, rng), cheap, (0.0, 1.0))
        held.append(low <= share <= high)
    assert np.mean(held) >= 0.95 - 3 * (0.05 * 0.95 / len(held)) ** 0.5


def test_a_useless_cheap_judge_leaves_the_expensive_one_alone(estimate: Any) -> None:
    rng = np.random.default_rng(3)
    dear = part_of(rng.normal(size=100), 40, rng)
    value, low, high = estimate(dear, np.zeros(100))
    assert value == pytest.approx(np.nanmean(dear))
    assert (low, high) == pytest.approx(mean_interval(dear[np.isfinite(dear)]))


def claim_rows(rng: np.random.Generator, stops: float, count: int = 20) -> list[dict[str, Any]]:
    return [
        {"claim": f"claim {k}", "kind": "entity" if k % 2 else "attribute", "position": float(at),
         "verdict": "met" if rng.random() < (0.85 if at < stops else 0.1) else "not_met"}
        for k, at in enumerate(np.sort(rng.random(count)))
    ]  # fmt: skip


def test_the_place_where_a_generator_stops_reading(tmp_path: Path, recipe: Run) -> None:
    rng = np.random.default_rng(0)
    items = [Item(f"{g}{p}", PROMPT, None, f"model_{g}", f"p{p}") for p in range(40) for g in "ab"]
    stops = {"model_a": 0.7, "model_b": 1.0}
    scores = [score(item, "tit-agent", 50.0, claims=claim_rows(rng, stops[item.generator])) for item in items]
    write_run(tmp_path / "run", items, scores)
    a, b = recipe("forgetting", tmp_path / "run", "tit-agent").splitlines()
    assert float(re.findall(r"behind (\d+)%", a)[0]) == pytest.approx(70, abs=5)
    shares = [float(each) for each in re.findall(r"(\d+)%", a)[:10]]
    assert min(shares[:7]) > 70
    assert max(shares[7:]) < 25
    assert "no fall beyond chance" in b


@pytest.mark.parametrize("family", [1, 4])
def test_kinds_that_are_harder_and_stand_last_are_no_place_to_stop(tmp_path: Path, recipe: Run, family: int) -> None:
    """20 generators whose last claims are of a harder kind: at 5%, more than 4 falls have a probability of 0.3%."""
    rng = np.random.default_rng(0)
    items = [
        Item(f"{g}-{p}", PROMPT, None, f"g{g:02}", f"p{p}", {"cluster": p // family})
        for g in range(20)
        for p in range(10 if family == 1 else 12)
    ]
    scores = []
    for item in items:
        if int(item.prompt_id[1:]) % family == 0:
            rows = [
                {"claim": f"{k}", "kind": kind, "position": (k + 0.5) / 20,
                 "verdict": "met" if rng.random() < (0.4 if kind == "style" else 0.85) else "not_met"}
                for k in range(20) for kind in ["style" if k >= 16 and family == 1 else "object"]
            ]  # fmt: skip
        scores.append(score(item, "tit-agent", 50.0, claims=rows))
    write_run(tmp_path / "run", items, scores)
    assert recipe("forgetting", tmp_path / "run", "tit-agent").count("fewer are met") <= 4
