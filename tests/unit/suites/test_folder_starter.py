"""The starter set: every bundled prompt passes the checks of its recipe again, and images of them are judged at once."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines
from commands import cli
from PIL import Image

from titjudge.apps.prompt_sets.make import _unique
from titjudge.apps.prompt_sets.recipes._drafts import words
from titjudge.apps.prompt_sets.recipes.facet_map import FACETS, FEWEST, by_pillar
from titjudge.apps.prompt_sets.recipes.facets import MOST_MORE
from titjudge.apps.prompt_sets.recipes.long_graph import CATEGORIES, ENTITIES_SAID, IN_INTERVAL
from titjudge.apps.prompt_sets.recipes.tiif import CONCEPTS_KEPT
from titjudge.apps.prompt_sets.review.server import check_again
from titjudge.core.config import RunConfig
from titjudge.core.paths import starter_file
from titjudge.core.types import InvalidItem, Item
from titjudge.metrics.graph_alignment import PromptGraph
from titjudge.suites.base import SuiteInputs
from titjudge.suites.folder import Folder, Starter

LINES: list[dict[str, Any]] = read_lines(starter_file())


def of(recipe: str) -> list[dict[str, Any]]:
    return [line for line in LINES if line["category"] == recipe]


def test_twenty_prompts_five_of_each_recipe() -> None:
    named = {(line["category"], line.get("pair", line["prompt_id"])) for line in LINES}
    assert Counter(recipe for recipe, _ in named) == {"six-block": 5, "tiif": 5, "facets": 5, "long-graph": 5}
    assert len({line["prompt_id"] for line in LINES}) == len(LINES) == 25


@pytest.mark.slow
def test_no_two_prompts_say_the_same() -> None:
    """The prompts of 250 words and more take a minute of a busy processor; they say so of themselves alone."""
    short = [line for line in reversed(LINES) if line["category"] != "six-block"]
    kept, alike = _unique(
        RunConfig(), {str(line.get("pair", line["prompt_id"])): str(line["prompt"]) for line in short}
    )
    assert (len(kept), alike) == (15, [])
    assert all("unique at a cosine of 0.85" in line["checks"] for line in LINES)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["prompt_id"])
def test_every_prompt_has_questions_facets_and_a_graph(line: dict[str, Any]) -> None:
    assert len(line["questions"]) == len(set(line["questions"])) == len(line["gold_answers"]) >= 4
    assert set(line["gold_answers"]) == {"yes", "no"}
    assert set(line["notes"]) <= set(FACETS)
    assert line["facets"] == by_pillar(line["notes"])
    assert len(line["notes"]) >= FEWEST
    graph = line["graph"]
    said: dict[str, list[str]] = {name: [] for name in graph["entities"]}
    for name, text in graph["attributes"]:
        said[name].append(text)
    relations = [{"subject": one, "relation": how, "object": other} for one, how, other in graph["relations"]]
    entities = [{"name": name, "attributes": texts} for name, texts in said.items()]
    PromptGraph.model_validate({"entities": entities, "relations": relations})
    assert len(line["relation_categories"]) == len(relations)
    assert set(line["relation_categories"]) <= set(CATEGORIES)


def test_each_recipe_would_take_its_prompts_again() -> None:
    ran: Counter[str] = Counter()
    for line in LINES:
        checked = check_again(line)
        assert not any(checked.values()), checked
        ran.update(name for name, problems in checked.items() if problems is not None)
    assert ran[ENTITIES_SAID] == 25
    assert ran[CONCEPTS_KEPT] == 10
    assert {ran[name] for name in ("all six blocks", IN_INTERVAL, "length", "languages")} == {5}
    for short, long in zip(of("tiif")[::2], of("tiif")[1::2], strict=True):
        assert (short["length"], long["length"], short["pair"]) == ("short", "long", long["pair"])
        assert len(words(long["prompt"])) >= 1.5 * len(words(short["prompt"]))
        assert (short["questions"], short["gold_answers"]) == (long["questions"], long["gold_answers"])
    for line in of("facets"):
        assert set(line["targets"]) <= set(line["notes"])
        assert len(line["notes"]) <= len(line["targets"]) + MOST_MORE


def paint(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32), (number, 0, 0)).save(folder / name)


def test_images_of_a_generator_are_judged_with_no_data_of_ones_own(tmp_path: Path) -> None:
    told = cli(tmp_path, "prompts", "export", "--suite", "starter", "-o", "todo.jsonl")
    assert "25 images of 25 prompts" in told
    todo = read_lines(tmp_path / "todo.jsonl")
    paint(tmp_path / "out", *(line["image"].replace("{generator}", "mine") for line in todo))
    judge = ("judge", "--suite", "starter", "--judge", "openai/gpt-4o", "--dry-run", "--json", "d.json")
    for data in (("--data", "out"), ("--images", "out/{generator}/{prompt_id}.png")):
        cli(tmp_path, *judge, *data, OPENAI_API_KEY="k")
        found = json.loads((tmp_path / "d.json").read_text())
        pillars = sum(len(line["facets"]) for line in LINES)
        assert found["roles"]["judge"]["requests"] == 25 + 25 + pillars  # yes-no, graph-alignment, checklist
    assert "the folder has prompts, but no images" in cli(tmp_path, *judge, code=2, OPENAI_API_KEY="k")


def test_images_are_known_by_any_table_and_strangers_are_named(tmp_path: Path) -> None:
    paint(tmp_path, "a.png", "b.png", "c.png")
    first = {"file_name": "a.png", "text": LINES[0]["prompt"], "prompt_id": LINES[0]["prompt_id"], "generator": "mine"}
    other = {**first, "file_name": "b.png", "text": "A cat."}
    stranger = {**first, "file_name": "c.png", "prompt_id": "nobody"}
    (tmp_path / "metadata.jsonl").write_text("\n".join(map(json.dumps, (first, other, stranger))), encoding="utf-8")
    good, *bad = Starter().load(tmp_path)
    assert isinstance(good, Item)
    assert (good.generator, good.meta["graph"]) == ("mine", LINES[0]["graph"])
    assert [each.id for each in bad if isinstance(each, InvalidItem)] == ["b.png", "c.png"]


def test_columns_of_any_prompt_file_stay_with_the_images_of_a_tree(tmp_path: Path) -> None:
    paint(tmp_path, "mine/p.png")
    line = {"prompt_id": "p", "prompt": "A cat.", "questions": ["A cat?"], "gold_answers": ["yes"]}
    (tmp_path / "made.jsonl").write_text(json.dumps(line))
    suite = Folder(SuiteInputs(images="{generator}/{prompt_id}.png", prompt_file=str(tmp_path / "made.jsonl")))
    (item,) = suite.load(tmp_path)
    assert isinstance(item, Item)
    assert item.meta["questions"] == ["A cat?"]
