from pathlib import Path
from typing import Any

import pytest
from builders import write_lines
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.errors import DataError
from titjudge.core.types import InvalidItem, Item, Score, Status
from titjudge.suites.lpg_bench import LpgBench, read_ranks

GENERATORS = [f"g{i}" for i in range(13)]


def lines(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_lines(path, *rows)
    return path


def listed(folder: Path, prompts: int = 2, generators: list[str] = GENERATORS) -> None:
    lines(folder / "prompts.jsonl", [{"prompt_id": i, "prompt": f"prompt {i}"} for i in range(prompts)])
    images = [{"image": f"{g}/{i}.png", "prompt_id": i, "generator": g} for i in range(prompts) for g in generators]
    lines(folder / "images.jsonl", images)


def preferences(folder: Path) -> dict[tuple[str, str], str]:
    return {(pair.a, pair.b): pair.preference for pair in LpgBench().pairs(folder)}


def test_listed_images(tmp_path: Path) -> None:
    listed(tmp_path, 1, ["g0", "g1", ""])
    with (tmp_path / "images.jsonl").open("a") as file:
        file.write('{"image": "again.png", "prompt_id": 0, "generator": "g0"}\n{"image": "x.png", "prompt_id": 9}\n')
    loaded = list(LpgBench().load(tmp_path))
    assert loaded[0] == Item("g0/0.png", "prompt 0", tmp_path / "g0/0.png", "g0", "0", {"generator": "g0"})
    bad = {each.id: each.reason for each in loaded if isinstance(each, InvalidItem)}
    assert list(bad) == ["/0.png", "x.png"]
    assert [
        (each.id, each.generator, each.prompt_id)
        for each in loaded
        if isinstance(each, Item) and each.id == "again.png"
    ]


def test_images_without_a_generator_are_named(tmp_path: Path) -> None:
    lines(tmp_path / "prompts.jsonl", [{"prompt_id": 1, "prompt": "p"}])
    lines(tmp_path / "images.jsonl", [{"image": "a.png", "prompt_id": 1}])
    (item,) = LpgBench().load(tmp_path)
    assert isinstance(item, InvalidItem)
    assert (item.id, item.generator, item.prompt_id) == ("a.png", "", "1")
    assert "Name it in a column" in item.reason


def test_a_tree_of_images(tmp_path: Path) -> None:
    lines(tmp_path / "prompts.jsonl", [{"prompt_id": "a", "prompt": "A"}, {"prompt_id": "b", "prompt": "B"}])
    for name in ("g0/a.png", "g0/b.jpg", "g0/b.png", "g1/a.webp", "g1/c.png", "g1/notes.txt"):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).touch()
    loaded = {each.id: each for each in LpgBench().load(tmp_path)}
    assert [name for name, each in loaded.items() if isinstance(each, Item)] == [
        "images/g0/a.png",
        "images/g0/b.jpg",
        "images/g0/b.png",
        "images/g1/a.webp",
    ]
    reasons = {name: each.reason for name, each in loaded.items() if isinstance(each, InvalidItem)}
    assert list(reasons) == ["images/g1/c.png", "images/g1/b"]
    assert reasons["images/g1/c.png"] == "prompts.jsonl has no prompt 'c'. Add it, or rename the image"


def test_nothing_to_load(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        list(LpgBench().load(tmp_path))
    lines(tmp_path / "prompts.jsonl", [{"prompt_id": "a", "prompt": "A"}])
    with pytest.raises(DataError, match="no images"):
        list(LpgBench().load(tmp_path))
    assert LpgBench().pairs(tmp_path) == []


def test_the_full_set_has_its_published_size(tmp_path: Path) -> None:
    listed(tmp_path, 200)
    ranks = [{"prompt_id": i, **{g: 1 + (j + i) % 5 for j, g in enumerate(GENERATORS)}} for i in range(200)]
    lines(tmp_path / "ranks.jsonl", ranks)
    suite = LpgBench()
    items = [item for item in suite.load(tmp_path) if isinstance(item, Item)]
    assert len(suite.pairs(tmp_path)) == 15_600
    (table,) = suite.aggregate(items, [])
    rows = (("prompts", 200, 200, 1000), ("generators", 13, 13, 13), ("images", 2600, 2600, 13000))
    assert table.rows == rows
    assert table.notes == ()
    assert suite.aggregate(items[:5], [])[0].notes[0].id == "lpg_other_set"


def test_the_data_set_of_today_is_known(tmp_path: Path) -> None:
    """1,000 prompts, of which the paper's 200 have ranks."""
    items = [Item(f"{g}/{n}", "p", None, g, str(n)) for g in GENERATORS for n in range(1000)]
    (table,) = LpgBench().aggregate(items, [])
    assert table.notes == ("The full set of today; people's ranks, and the paper's tables, are of 200 of its prompts.",)


def test_people_ranked_the_first_of_several_images(tmp_path: Path) -> None:
    listed(tmp_path, 1, ["g0", "g1"])
    with (tmp_path / "images.jsonl").open("a") as file:
        file.write('{"image": "again.png", "prompt_id": 0, "generator": "g0"}\n')
    lines(tmp_path / "ranks.jsonl", [{"prompt_id": 0, "g0": 1, "g1": 2}])
    assert sum(isinstance(each, Item) for each in LpgBench().load(tmp_path)) == 3
    (pair,) = LpgBench().pairs(tmp_path)
    assert {pair.a, pair.b} == {"g0/0.png", "g1/0.png"}


@pytest.mark.parametrize("shape", ["long.jsonl", "wide.jsonl", "long.csv", "wide.csv"])
def test_four_ways_to_write_ranks(tmp_path: Path, shape: str) -> None:
    listed(tmp_path, 1, ["g0", "g1", "g2"])
    if shape == "long.csv":
        (tmp_path / "ranks.csv").write_text(
            "\ufeffprompt_id,generator,rank\n0,g0,2\n0,g1,1\n0,g2,2.0\n", encoding="utf-8"
        )
    elif shape == "wide.csv":
        (tmp_path / "ranks.csv").write_text("prompt_id,g0,g1,g2,g3\n0,2,1,2,\n")
    elif shape == "long.jsonl":
        lines(
            tmp_path / "ranks.jsonl",
            [{"prompt_id": 0, "generator": f"g{i}", "rank": r} for i, r in enumerate((2, 1, 2))],
        )
    else:
        lines(tmp_path / "ranks.jsonl", [{"prompt_id": 0, "g0": 2, "g1": 1, "g2": 2, "g3": None}])
    assert preferences(tmp_path) == {
        ("g0/0.png", "g1/0.png"): "b",
        ("g0/0.png", "g2/0.png"): "tie",
        ("g1/0.png", "g2/0.png"): "a",
    }


def test_ranks_of_another_column(tmp_path: Path) -> None:
    listed(tmp_path, 1, ["g0", "g1"])
    (tmp_path / "ranks.csv").write_text("prompt_id,generator,rank,sort_rank\n0,g0,1,2\n0,g1,2,1\n")
    assert [LpgBench(rank=name).pairs(tmp_path)[0].preference for name in ("rank", "sort_rank")] == ["a", "b"]
    with pytest.raises(DataError, match=r"ranks\.csv:2: unknown column 'place' next to generator"):
        LpgBench(rank="place").pairs(tmp_path)


def test_ranked_images_that_are_not_there_stay_in_the_pairs(tmp_path: Path) -> None:
    listed(tmp_path, 1, ["g0"])
    lines(tmp_path / "ranks.jsonl", [{"prompt_id": 0, "g0": 1, "g7": 2}])
    assert preferences(tmp_path) == {("g0/0.png", "g7/0 (no image)"): "a"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"prompt_id": 0, "g0": 0}], "ranks.jsonl:1: the rank of g0 must be a number of at least 1, not 0"),
        ([{"prompt_id": 0, "g0": "best"}], "'best'"),
        ([{"prompt_id": 0, "g0": True}], "True"),
        ([{"prompt_id": 0, "g0": [1]}], "at least 1"),
        (
            [{"prompt_id": 0, "g0": 1}, {"prompt_id": 0, "g0": 1}],
            "ranks.jsonl:2: a second rank of g0 for prompt 0 (the first is in row 1)",
        ),
        ([{"prompt_id": 0}], "no ranks"),
        ([{"g0": 1}], "prompt_id"),
        ([{"prompt_id": "zero", "g0": 1}], "no rank belongs to an image"),
    ],
)
def test_ranks_that_cannot_be(tmp_path: Path, rows: list[Any], message: str) -> None:
    listed(tmp_path, 1, ["g0"])
    lines(tmp_path / "ranks.jsonl", rows)
    with pytest.raises(DataError) as caught:
        LpgBench().pairs(tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize("raw", [b"prompt_id,g0\n0,\xff\n", b"a,b\n1,2\n", b"prompt_id,g0\n0,1,2\n"])
def test_tables_that_cannot_be_read(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "ranks.csv").write_bytes(raw)
    with pytest.raises(DataError, match=r"ranks\.csv"):
        read_ranks(tmp_path / "ranks.csv")


@pytest.mark.parametrize(
    "text",
    [
        "prompt_id,annotator,generator,rank\n0,a,g0,1\n0,a,g1,3\n0,a,g2,2\n0,b,g0,2\n0,b,g1,3\n0,b,g2,1\n",
        "prompt_id,annotator,g0,g1,g2\n0,a,1,3,2\n0,b,2,3,1\n",
        "prompt_id;rater;g0;g1;g2\n0;a;1,0;3;2\n0;b;2;3,0;1\n",
    ],
)
def test_the_mean_of_the_ranks_of_several_people_counts(tmp_path: Path, text: str) -> None:
    (tmp_path / "ranks.csv").write_text(text)
    notes: dict[str, None] = {}
    assert read_ranks(tmp_path / "ranks.csv", notes=notes) == {"0": {"g0": 1.5, "g1": 3.0, "g2": 1.5}}
    assert len(notes) == 1
    (tmp_path / "ranks.csv").write_text("prompt_id,annotator,g0\n0,a,1\n0,a,2\n")
    with pytest.raises(DataError, match=r"'a' has .* row 2"):
        read_ranks(tmp_path / "ranks.csv")


def test_pairs_instead_of_ranks(tmp_path: Path) -> None:
    listed(tmp_path, 1, ["g0", "g1"])
    lines(
        tmp_path / "pairs.jsonl", [{"prompt_id": 0, "image_a": "g0/0.png", "image_b": "g1/0.png", "preference": "tie"}]
    )
    assert preferences(tmp_path) == {("g0/0.png", "g1/0.png"): "tie"}
    lines(tmp_path / "ranks.jsonl", [{"prompt_id": 0, "g0": 1}])
    with pytest.raises(DataError, match="Remove all but one"):
        LpgBench().pairs(tmp_path)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=13))
def test_pairs_against_the_slow_way(tmp_path_factory: pytest.TempPathFactory, ranks: list[int]) -> None:
    folder = tmp_path_factory.mktemp("lpg")
    listed(folder, 1, GENERATORS[: len(ranks)])
    lines(folder / "ranks.jsonl", [{"prompt_id": 0, **dict(zip(GENERATORS, ranks, strict=False))}])
    expected = {}
    for i, one in enumerate(ranks):
        for j, two in enumerate(ranks):
            if i < j:
                expected[f"g{i}/0.png", f"g{j}/0.png"] = "tie" if one == two else "a" if one < two else "b"
    assert preferences(folder) == expected


def test_agreement_with_the_pairs(tmp_path: Path) -> None:
    """The suite's pairs and items are what titjudge.stats takes."""
    agreement = pytest.importorskip("titjudge.stats.people.agreement").agreement
    from titjudge.core.types import Score

    listed(tmp_path, 3, GENERATORS[:4])
    lines(tmp_path / "ranks.jsonl", [{"prompt_id": i, "g0": 1, "g1": 2, "g2": 2, "g3": 3} for i in range(3)])
    suite = LpgBench()
    items = [item for item in suite.load(tmp_path) if isinstance(item, Item)]
    value = {"g0": 0.9, "g1": 0.5, "g2": 0.4, "g3": 0.6}
    scores = [
        Score(item.id, "tit", value[item.generator], generator=item.generator, prompt_id=item.prompt_id)
        for item in items
    ]
    found = agreement(items, scores, suite.pairs(tmp_path), resamples=10).to_json()
    assert found["metrics"]["tit"]["accuracy"] == pytest.approx(3 / 5)


def test_a_prompt_with_several_themes_counts_in_each(tmp_path: Path) -> None:
    prompts = [
        {"prompt_id": i, "prompt": f"p{i}", "theme": ["people", "nature"] if i % 2 else ["people"]} for i in range(8)
    ]
    lines(tmp_path / "prompts.jsonl", prompts)
    for i in range(8):
        image = tmp_path / "images" / "g0" / f"{i}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.touch()
    suite = LpgBench()
    items = [item for item in suite.load(tmp_path) if isinstance(item, Item)]
    (_, table) = suite.aggregate(items, [Score(f"images/g0/{i}.png", "tit", i % 2) for i in range(8)])
    assert table.columns == ("generator", "first places", "mean", "nature", "people")
    assert table.rows == (("g0", 0, 0.5, 1.0, 0.5),)


@pytest.mark.parametrize(("metric", "best"), [("tit", "g0"), ("text-rendering", "g2")])
def test_first_places_and_means_by_theme(tmp_path: Path, metric: str, best: str) -> None:
    themes = ["people", "people", "nature"] * 5
    prompts = [{"prompt_id": i, "prompt": f"p{i}", "theme": theme} for i, theme in enumerate(themes)]
    lines(tmp_path / "prompts.jsonl", prompts)
    values = {"g0": (0.9, 0.9, 0.5), "g1": (0.9, 0.1, 0.5), "g2": (0.1, 0.0, None)}
    scores = []
    for name, of in values.items():
        for i, value in enumerate(of * 5):
            image = tmp_path / "images" / name / f"{i}.png"
            image.parent.mkdir(parents=True, exist_ok=True)
            image.touch()
            status = Status.REFUSED if value is None else Status.OK
            scores.append(Score(f"images/{name}/{i}.png", metric, value, status))
    suite = LpgBench()
    items = [item for item in suite.load(tmp_path) if isinstance(item, Item)]
    (_, table) = suite.aggregate(items, scores)
    assert table.columns == ("generator", "first places", "mean", "nature", "people")
    found = {row[0]: row[1:] for row in table.rows}
    assert table.rows[0][0] == best
    assert found["g0"] == (10 if best == "g0" else 0, pytest.approx(2.3 / 3), pytest.approx(0.5), pytest.approx(0.9))
    assert found["g2"] == (
        0 if best == "g0" else 10,
        pytest.approx(-0.05 / 3),
        None,
        pytest.approx(0.05),
    )  # 0.65 below the others on people
    assert len(suite.aggregate(items, [])) == 1
