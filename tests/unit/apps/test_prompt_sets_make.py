"""`prompts make`: every recipe with a scripted language model, good, bad and repeated drafts."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import read_lines
from commands import cli

from tests.kit import Seen, Server
from titjudge.apps.prompt_sets.audit import EmbeddedTexts
from titjudge.apps.prompt_sets.recipes._drafts import keeps, kept_share, not_english
from titjudge.apps.prompt_sets.recipes.facet_map import FACETS
from titjudge.apps.prompt_sets.recipes.seeds import INTERVALS, POOL_TASKS, RECIPES, THEMES, TIIF_TYPES, seeds
from titjudge.apps.prompt_sets.recipes.tiif import meta_prompt
from titjudge.suites.tiif.layout import TYPES

BLOCK = "{0} shown with {1} and {1} again, beside all the {1} there. "
SCENES = {"harbour": "ships, ropes and gulls over cold water", "fox": "snowy burrows, whiskers and red fur in a forest"}
NAMES = ("core_subject", "environment", "composition", "lighting", "style", "details")


def make(folder: Path, server: Server, recipe: str, *more: str, code: int = 0) -> str:
    judge = ("--judge", "openai/gpt-4o", "--base-url", server.openai)
    return cli(
        folder,
        "prompts",
        "make",
        "--recipe",
        recipe,
        "-o",
        "made.jsonl",
        *judge,
        *more,
        code=code,
        OPENAI_API_KEY="sk-x",
    )


def lines(folder: Path) -> list[dict[str, Any]]:
    return read_lines(folder / "made.jsonl")


def between(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0]


def six_blocks(seen: Seen) -> str:
    """Answers to the templates of six-block; the first draft of a theme about foxes is too short."""
    if "Think of one theme" in seen.text:
        return json.dumps({"theme": f"A theme of {re.search(r'number ([0-9]+)', seen.text)[1]} {hash(seen.text)}"})  # type: ignore[index]
    if "strict editor" in seen.text:
        good = "sour" not in seen.text
        return json.dumps({"fluent": good, "consistent": True, "problems": [] if good else ["sour notes"]})
    theme = between(seen.text, "theme")
    blocks = {name: BLOCK.format(name, SCENES.get(theme.split()[-1], theme)) for name in NAMES}
    text = " ".join(blocks.values()) * (1 if "fox" in theme and "fewer than 250" not in seen.text else 5)
    return json.dumps({**blocks, "prompt": text + (" sour" if "sour" in theme else "")})


def test_six_blocks_from_themes(tmp_path: Path) -> None:
    (tmp_path / "themes.csv").write_text(
        "id,prompt,theme_class\na,A harbour,Urban\nb,A red fox,Nature\nc,A sour note,Surreal\n"
    )
    with Server(six_blocks) as server:
        told = make(tmp_path, server, "six-block", "--themes", "themes.csv")
        asked = server.count()
        assert asked == (1 + 1) + (2 + 1) + (3 + 1)  # the same draft is reviewed once
        make(tmp_path, server, "six-block", "--themes", "themes.csv")
        assert server.count() == asked
    assert "c: unparsed: all 3 drafts failed the checks: sour notes" in told
    made = lines(tmp_path)
    assert [(line["prompt_id"], line["theme"], line["theme_class"]) for line in made] == [
        ("a", "A harbour", "Urban"),
        ("b", "A red fox", "Nature"),
    ]
    assert all(len(line["prompt"].split()) >= 250 and set(line["blocks"]) == set(NAMES) for line in made)
    assert made[0]["checks"][-1] == "unique at a cosine of 0.85"
    assert made[0]["provenance"]["models"] == {"judge": "openai/gpt-4o"}
    assert set(made[0]["provenance"]["templates"]) == {"recipes/six_block", "recipes/review"}


def test_prompts_that_say_the_same_are_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "themes.txt").write_text("A lion king\nThe lion king\n")
    with Server(six_blocks) as server:
        told = make(tmp_path, server, "six-block", "--themes", "themes.txt")
    assert "1: skipped, near-duplicate of 0" in told
    assert "prompts 1 of 2 seeds in made.jsonl" in told


def tiif(seen: Seen) -> str:
    concepts = re.findall(r"^[0-9]+\. (.+)$", seen.text, re.MULTILINE)
    if "Compose one natural sentence" in seen.text:
        return json.dumps({"prompt": f"See {' and '.join(concepts)}." if "problems" in seen.text else "See a moon."})
    if "professional writer" in seen.text:
        short = seen.text.partition("\nYou are a professional writer")[0].strip()
        return (
            short
            + " Behold how all of this quietly rests there, lit by a gentle and forgiving light, unhurried and plain."
        )
    if "Write yes / no questions" in seen.text:
        asked = [{"concept": n, "question": f"Is there {c}?", "answer": "yes"} for n, c in enumerate(concepts, 1)]
        no = [{"concept": 1, "question": "Is it raining?", "answer": "no"}] if "problems" in seen.text else []
        return json.dumps({"questions": [*asked, *no]})
    return json.dumps({"answers": ["no" if "raining" in each else "yes" for each in concepts]})


def test_tiif_makes_short_and_long_prompts_with_questions_that_hold(tmp_path: Path) -> None:
    with Server(tiif) as server:
        told = make(tmp_path, server, "tiif", "--number", "3", "--seed", "7")
    assert "prompts 6 of 3 seeds in made.jsonl" in told
    assert "balance 3 types, each 2 times, evenness 1.00" in told
    made = lines(tmp_path)
    drawn = seeds("tiif", 3, 7)
    assert [line["type"] for line in made[::2]] == [seed["type"] for seed in drawn]
    for line in made:
        assert all(keeps(line["prompt"], concept) for concept in line["concepts"])
        assert {"yes", "no"} == set(line["gold_answers"])
        assert len(line["questions"]) == len(line["gold_answers"]) == len(line["concepts"]) + 1
    assert [line["length"] for line in made[:2]] == ["short", "long"]
    assert made[0]["pair"] == made[1]["pair"]


def test_every_combination_of_pools_has_a_meta_prompt_of_its_own() -> None:
    assert len(TIIF_TYPES) == 36 + 3
    assert {pool for pools in TIIF_TYPES.values() for pool in pools} == set(POOL_TASKS)
    assert len(POOL_TASKS) == 10 + 3
    told = {kind: meta_prompt(kind) for kind in TIIF_TYPES}
    assert len(set(told.values())) == 36 + 3
    assert told["color+2d"].endswith("a thing has a colour; things stand left, right, above or below in the picture")


def test_gold_answers_that_the_text_does_not_give_are_refused(tmp_path: Path) -> None:
    def wrong(seen: Seen) -> str:
        answer = tiif(seen)
        return answer.replace('"yes"', '"unsaid"', 1) if "Answer each question" in seen.text else answer

    with Server(wrong) as server:
        told = make(tmp_path, server, "tiif", "--number", "1", code=1)
    assert "is answered unsaid from the text, not yes" in told
    assert lines(tmp_path) == []


def facets(seen: Seen) -> str:
    """Prompts that end with the numbers of their facets, from which these are named again; the first draft has none."""
    names = list(FACETS)
    listed = re.findall(r"^- (.+ / .+ / .+?): ", seen.text, re.MULTILINE)
    if "Which facets of the list" in seen.text:
        found = [names[int(number)] for number in re.findall(r"[0-9]+", between(seen.text, "prompt"))]
        return json.dumps({"facets": [{"facet": name, "note": "n"} for name in found]})
    if "Write a longer version" in seen.text:
        plain = "problems" not in seen.text
        english = between(seen.text, "prompt_en") + " with boats" * (1 if plain else 30)
        return json.dumps({"prompt_en": english, "prompt_zh": "一张图" * 30})
    drawn = " ".join(str(names.index(name)) for name in listed) if "problems" in seen.text else ""
    notes = [{"facet": name, "note": "here"} for name in listed]
    return json.dumps({"prompt_en": f"A quiet harbour. {drawn}", "prompt_zh": "一张图" * 5, "notes": notes})


def test_facets_are_found_again_in_bilingual_prompts_and_in_their_longer_versions(tmp_path: Path) -> None:
    with Server(facets) as server:
        told = make(tmp_path, server, "facets", "--number", "1", "--seed", "4")
    made = lines(tmp_path)
    assert [line["prompt_id"] for line in made] == ["facets_001_short", "facets_001_long"], told
    (seed,) = seeds("facets", 1, 4)
    for line in made:
        assert line["targets"] == seed["facets"]
        assert set(seed["facets"]) <= set(line["dims_en"].split("; "))
        assert len(line["facets"]) >= 3
        assert (len(line["prompt"]) > 235, len(line["prompt_zh"]) > 70) == (line["length"] == "long",) * 2
        assert line["pair"] == "facets_001"
    assert "the short prompt kept" in made[1]["checks"]


@pytest.mark.parametrize(
    ("longer", "reason"),
    [
        ("A quiet harbour 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", "facets to the test"),
        ("A quiet harbour 0 1 2", "it does not put"),
        ("Ten cats", "it leaves out much of what the short prompt says"),
    ],
)
def test_a_longer_version_keeps_the_prompt_and_its_facets_and_adds_five_at_most(
    tmp_path: Path, longer: str, reason: str
) -> None:
    def answer(seen: Seen) -> str:
        if "Write a longer version" in seen.text:
            return json.dumps({"prompt_en": longer + " with boats" * 30, "prompt_zh": "一张图" * 30})
        return facets(seen)

    with Server(answer) as server:
        told = make(tmp_path, server, "facets", "--number", "1", "--seed", "4", code=1)
    assert reason in told
    assert lines(tmp_path) == []


GRAPH = {"entities": [{"name": "cat", "attributes": ["black"]}, {"name": "mat", "attributes": []}],
         "relations": [{"subject": "cat", "relation": "on", "object": "mat"}]}  # fmt: skip


def long_graph(seen: Seen) -> str:
    if "Write one prompt" in seen.text:
        fewest = int(re.search(r"of ([0-9]+) to", seen.text)[1])  # type: ignore[index]
        subject = re.search(r'about "(.+)"', seen.text)[1]  # type: ignore[index]
        text = f"A black cat sits on a mat in {subject}. " + f"There is {subject}, and calm. " * fewest
        return json.dumps({"prompt": " ".join(text.split()[: fewest + 2])})
    if "Check it as a second pair" in seen.text:
        return json.dumps({"complete": True, "faithful": True, "problems": [], "categories": ["spatial"]})
    if "Correct the graph" in seen.text and "Known problems" not in seen.text:
        ghost = {"name": "ghost", "attributes": []}
        return json.dumps({**GRAPH, "entities": [*GRAPH["entities"], ghost]})
    return json.dumps(GRAPH)


def test_long_graphs_are_refined_and_qualified(tmp_path: Path) -> None:
    with Server(long_graph) as server:
        make(tmp_path, server, "long-graph", "--number", "2")
    made = lines(tmp_path)
    assert [line["interval"] for line in made] == ["30-50", "50-70"]
    assert made[0]["graph"] == {
        "entities": ["cat", "mat"],
        "attributes": [["cat", "black"]],
        "relations": [["cat", "on", "mat"]],
    }
    assert made[0]["relation_categories"] == ["spatial"]


def elements(seen: Seen) -> str:
    """Answers to the steps of elements; the first graph has a thing that the prompt does not say."""
    if "Which facets of the list" in seen.text:
        named = list(FACETS)[:1] * 3 if "A fish" in seen.text else list(FACETS)[:3]
        return json.dumps({"facets": [{"facet": name, "note": "n"} for name in named]})
    if "Write yes / no questions" in seen.text or "Answer each question" in seen.text:
        return tiif(seen)
    return long_graph(seen)


def test_prompts_get_the_elements_that_they_lack(tmp_path: Path) -> None:
    own = {"prompt_id": "own", "prompt": "A black cat on a mat, calm.", "graph": {"entities": ["cat"]}, "type": "pets"}
    own |= {"checks": ["read by me"], "provenance": {"models": {"judge": "me"}}}
    bare = {"prompt_id": "bare", "prompt": "One black cat sleeps on a woollen mat in the sun."}
    (tmp_path / "p.jsonl").write_text(f"{json.dumps(own)}\n{json.dumps(bare)}\n")
    price = ("--themes", "p.jsonl", "--dry-run", "--json", "d.json")
    with Server(elements) as server:
        make(tmp_path, server, "elements", *price)
        assert (
            json.loads((tmp_path / "d.json").read_text())["roles"]["judge"]["requests"] == 2 * (1 + 2) + 3
        )  # facets and questions of both, the graph of one
        told = make(tmp_path, server, "elements", "--themes", "p.jsonl")
        assert "Add --themes FILE" in make(tmp_path, server, "elements", code=2)
        assert "gone.csv: cannot be read: No such file or directory. Correct the path" in make(
            tmp_path, server, "elements", "--themes", "gone.csv", code=2
        )
        (tmp_path / "odd.jsonl").write_text('{"prompt_id": "odd", "prompt": "A cat.", "graph": "a cat"}')
        assert "odd: bad_input: the item's graph does not have the form" in make(
            tmp_path, server, "elements", "--themes", "odd.jsonl", "-o", "odd_made.jsonl", code=1
        )
        (tmp_path / "fish.jsonl").write_text(json.dumps({**own, "prompt_id": "fish", "prompt": "A fish."}))
        fish = make(tmp_path, server, "elements", "--themes", "fish.jsonl", "-o", "fish_made.jsonl", code=1)
        assert "fish: unparsed: the answer names 1 facets" in fish
    made = {line["prompt_id"]: line for line in lines(tmp_path)}
    assert set(made) == {"own", "bare"}, told
    assert (made["own"]["graph"], made["own"]["type"]) == (own["graph"], "pets")
    assert made["own"]["written"] == own["provenance"]
    assert made["own"]["checks"][0] == "read by me"
    assert "refined" not in made["own"]["checks"]
    assert made["bare"]["graph"]["entities"] == ["cat", "mat"]
    for line in made.values():
        assert len(line["questions"]) == len(line["gold_answers"]) == len(line["graph"]["entities"]) + 1
        assert sum(map(len, line["facets"].values())) == 3


def test_a_recipe_from_recorded_answers(tmp_path: Path) -> None:
    """Round by round, until every question is answered; then the set is made without a model."""
    recorded = ("--judge", "recorded")
    cli(tmp_path, "prompts", "make", "--recipe", "tiif", "--number", "2", "-o", "made.jsonl", *recorded, code=2)
    run = ("--data", "made.seeds.jsonl", "--suite", "prompts", "--metric", "tiif", *recorded)
    for _ in range(9):
        cli(tmp_path, "answers", "export", *run, "--out", "open.jsonl")
        asked = read_lines(tmp_path / "open.jsonl")
        if not asked:
            break
        answers = [{"custom_id": each["custom_id"], "text": tiif(Asked(each["question"]))} for each in asked]  # type: ignore[arg-type]
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, answers)))
        cli(tmp_path, "answers", "record", *run, "--author", "me", "--out", "answers.jsonl", "a.jsonl")
    cli(tmp_path, "prompts", "make", "--recipe", "tiif", "--number", "2", "-o", "made.jsonl", *recorded)
    assert len(lines(tmp_path)) == 4


@dataclass
class Asked:
    text: str


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_dry_run_prices_every_step_and_writes_nothing(tmp_path: Path, recipe: str) -> None:
    each = {"six-block": 3, "tiif": 5, "facets": 4, "long-graph": 4}[recipe]
    judge = ("--judge", "openai/gpt-4o", "--dry-run", "--json", "d.json")
    said = cli(
        tmp_path,
        "prompts",
        "make",
        "--recipe",
        recipe,
        "--number",
        "40",
        "-o",
        "made.jsonl",
        *judge,
        OPENAI_API_KEY="k",
    )
    found = json.loads((tmp_path / "d.json").read_text())
    assert found["roles"]["judge"]["requests"] == 40 * each
    assert "over 40 items; unit: request" in said
    assert not list(tmp_path.glob("made*"))


def test_a_small_cap_stops_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    (tmp_path / "made.jsonl").write_text("{}\n")
    with Server(long_graph) as server:
        told = make(
            tmp_path, server, "long-graph", "--number", "4", "--set", "max_requests=14", "--concurrency", "1", code=3
        )
        assert "higher cap" in told
        assert "made.part.jsonl is incomplete: run the command again to finish made.jsonl" in told
        assert (tmp_path / "made.jsonl").read_text() == "{}\n", "what was there is not replaced by a part"
        assert len((tmp_path / "made.part.jsonl").read_text().splitlines()) < 4
        told = make(tmp_path, server, "long-graph", "--number", "4")
    assert len(lines(tmp_path)) + told.count("left out") == 4
    assert not (tmp_path / "made.part.jsonl").exists()
    assert {line["provenance"]["seed"] for line in lines(tmp_path)} == {0}


def test_telling_prompts_apart_keeps_to_what_the_run_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hosted embedder is paid, too: it has no second cap of its own."""
    limits: list[float | None] = []

    async def embedded(config: Any, texts: list[str]) -> Any:
        limits.append(config.limits.max_cost)
        return EmbeddedTexts({text: np.eye(len(texts))[at] for at, text in enumerate(texts)}, {}, "", clip=False)

    monkeypatch.setattr("titjudge.apps.prompt_sets.make.embed_texts", embedded)
    with Server(long_graph) as server:
        make(tmp_path, server, "long-graph", "--number", "2", "--max-cost", "1", "--price", "gpt-4o=2.5,10")
    (run,) = (tmp_path / "runs").iterdir()
    assert limits == [pytest.approx(1 - json.loads((run / "manifest.json").read_text())["spent"], abs=1e-6)]
    assert limits[0] is not None
    assert limits[0] < 1


def test_themes_go_with_six_block_alone(tmp_path: Path) -> None:
    (tmp_path / "themes.txt").write_text("A lion\n")
    (tmp_path / "none.txt").write_text("\n")
    with Server() as server:
        assert "--themes requires --recipe six-block" in make(
            tmp_path, server, "tiif", "--themes", "themes.txt", code=2
        )
        assert "no themes found" in make(tmp_path, server, "six-block", "--themes", "none.txt", code=2)
        (tmp_path / "made.jsonl").write_text('{"prompt_id": "1", "prompt": "A lion."}\n')
        told = make(tmp_path, server, "elements", "--themes", "made.jsonl", code=2)
        assert "made.jsonl is an input of this command. Choose another file to write" in told
        assert server.count() == 0


def test_seeds_are_balanced_and_the_same_again() -> None:
    for recipe in RECIPES:
        drawn = seeds(recipe, 180, 3)
        assert drawn == seeds(recipe, 180, 3)
        assert drawn != seeds(recipe, 180, 4)
        assert len({str(sorted(seed.items(), key=lambda of: of[0])) for seed in drawn}) == 180
    assert set(TIIF_TYPES) == set(TYPES)
    assert set(Counter(seed["theme_class"] for seed in seeds("six-block", 60, 0)).values()) == {60 // len(THEMES)}
    assert set(Counter(seed["fewest"] for seed in seeds("long-graph", 50, 0)).values()) == {50 // len(INTERVALS)}
    drawn = seeds("facets", 112, 0)
    counted = Counter(name for seed in drawn for name in seed["facets"])
    assert set(counted) == set(FACETS)
    assert all(
        len({FACETS[name][0] for name in seed["facets"]}) >= 3 and len(set(seed["facets"])) >= 3 for seed in drawn
    )


def test_facets_and_pillars_are_drawn_about_equally_often() -> None:
    drawn = seeds("facets", 200, 0)
    by_facet = Counter(name for seed in drawn for name in seed["facets"])
    by_pillar = Counter(pillar for seed in drawn for pillar in {FACETS[name][0] for name in seed["facets"]})
    assert len(by_facet) == len(FACETS)
    # Both cannot be exact: the pillars have 6 to 20 facets.
    assert (min(by_facet.values()), max(by_facet.values())) == (16, 24)
    assert (min(by_pillar.values()), max(by_pillar.values())) == (138, 195)


def test_facet_seeds_span_as_many_pillars_as_the_published_prompts() -> None:
    drawn = seeds("facets", 1000, 0)
    assert Counter(len({FACETS[name][0] for name in seed["facets"]}) for seed in drawn) == {3: 146, 4: 603, 5: 251}
    assert sum(len(seed["facets"]) for seed in drawn) == 5169  # of bench_metadata.json
    assert all(len(set(seed["facets"])) == len(seed["facets"]) for seed in drawn)


def test_types_of_tiif_have_the_shares_of_the_paper() -> None:
    whole = Counter(seed["type"] for seed in seeds("tiif", 2238, 0))
    assert sum(whole.values()) == 2238  # TIIF-Bench paper, Table 1
    assert [whole[kind] for kind in ("shape+color", "color+texture", "action+3d", "negation", "action+color")] == [
        100,
        50,
        75,
        75,
        50,
    ]
    assert [whole[kind] for kind in ("color+2d", "numeracy+3d", "text", "style", "real_world")] == [
        33,
        40,
        150,
        150,
        100,
    ]
    part = Counter(seed["type"] for seed in seeds("tiif", 1119, 0))
    assert all(abs(2 * part[kind] - whole[kind]) <= 2 for kind in whole)
    assert len(seeds("tiif", 1, 0)[0]["concepts"]) == 1


@pytest.mark.parametrize(
    ("text", "phrase", "kept"),
    [
        ("Two red cubes stand there.", "red cube", True),
        ("A child carrying a vase", "child carries vase", True),
        ("A reddish cube", "red cube", False),
        ("The cat is left of it", "cat right of it", False),
    ],
)
def test_words_of_a_concept(text: str, phrase: str, kept: bool) -> None:
    assert keeps(text, phrase) is kept


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("Three red cubes beneath glowing lamps, watercolour, rainy Zürich", True),
        ("Une tour rouge brille sous la pluie, près d'une rivière calme et d'un pont de pierre. " * 4, False),
        ("A tall red tower glows in the rain, beside a calm river and a bridge of stone. " * 4, True),
        ("Ein roter Turm leuchtet im Regen, neben einem Fluss und einer Bruecke aus Stein. " * 4, False),
        ("一座红色的塔在雨中发光", False),
        ("Красная башня сияет под дождём", False),
    ],
)
def test_a_prompt_in_another_language_is_known(text: str, english: bool) -> None:
    assert (not_english(text) == []) is english


def test_share_of_a_block_that_is_kept() -> None:
    assert kept_share("A marble statue glows", "marble statues under painted ceilings") == pytest.approx(2 / 5)
    assert kept_share("anything", "a to of") == 1.0
