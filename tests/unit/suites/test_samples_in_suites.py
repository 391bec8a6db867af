"""No suite drops the second image of a prompt: columns, fields of paths, and numbers at the end of names."""

from pathlib import Path
from typing import Any

import pytest
from builders import write_lines

from titjudge.core.numbers import as_sample
from titjudge.core.serialization import item_from, item_record
from titjudge.core.types import Item
from titjudge.suites.folder import read_items
from titjudge.suites.image_tree import ImageTree
from titjudge.suites.lpg_bench import LpgBench
from titjudge.suites.samples import split_sample
from titjudge.suites.tiif import dataset


def found(items: Any) -> list[tuple[str, str, int]]:
    listed = list(items)
    assert all(isinstance(item, Item) for item in listed), listed
    return [(item.generator, item.prompt_id, item.sample) for item in listed]


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_same_named_texts_serve_several_images(tmp_path: Path) -> None:
    touch(tmp_path, "g/cat_0.png", "g/cat_1.png", "g/dog.png", "g/x-7.png")
    for name in ("cat", "dog", "g/x"):
        (tmp_path / f"{name}.txt").write_text(f"a {name}")
    assert found(read_items(tmp_path)) == [("g", "cat", 0), ("g", "cat", 1), ("g", "dog", 0), ("g", "x", 7)]


@pytest.mark.parametrize(("cells", "sample"), [("3,", 3), (",17", 17), ("3,17", 3), (",", 0), ("x,", 0), ("2.0,", 0)])
def test_a_column_sample_or_seed(tmp_path: Path, cells: str, sample: int) -> None:
    touch(tmp_path, "a.png")
    (tmp_path / "m.csv").write_text(f"image,prompt,prompt_id,sample,seed\na.png,a cat,p,{cells}\n")
    assert found(read_items(tmp_path / "m.csv")) == [("", "p", sample)]
    (tmp_path / "m.csv").write_text("image,prompt,run\na.png,a cat,9\n")
    (item,) = read_items(tmp_path / "m.csv", columns={"sample": ["run"]})
    assert isinstance(item, Item)
    assert item.sample == 9


def test_numbers_that_are_none() -> None:
    assert [as_sample(value) for value in (2.0, 2.5, True, "9" * 30, -1, None)] == [2, 0, 0, 0, 0, 0]
    assert [split_sample(name) for name in ("a_1", "a-02", "1", "_1", "a1")] == [("a", 1), ("a", 2), None, None, None]


def test_listed_images_and_trees(tmp_path: Path) -> None:
    touch(tmp_path, "a/p_0.png", "a/p_11.png")
    (tmp_path / "p.csv").write_text("id,prompt\np,a cat\n")
    tree = ImageTree("{generator}/{prompt_id}_{sample}.png", str(tmp_path / "p.csv"))
    assert found(tree.items(tmp_path, (), {})) == [("a", "p", 0), ("a", "p", 11)]
    (tmp_path / "prompts.jsonl").write_text('{"prompt_id": "p", "prompt": "a cat"}\n')
    rows = [{"image": f"a/p_{k}.png", "prompt_id": "p", "generator": "a", "seed": k} for k in (0, 11)]
    write_lines(tmp_path / "images.jsonl", *rows)
    assert found(read_items(tmp_path)) == [("a", "p", 0), ("a", "p", 11)]


def test_lpg_bench_and_tiif_read_numbered_names(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt_id": "p_1", "prompt": "a cat"}\n')
    touch(tmp_path, "images/g/p_1.png", "images/g/p_1_2.png")
    assert found(LpgBench().load(tmp_path)) == [("g", "p_1", 0), ("g", "p_1", 2)]
    touch(tmp_path, "text/g/short_description/3_0.png", "text/g/short_description/3_1.png")
    images = dataset.read_images(tmp_path, "")["g", "text", "short"]
    assert {number: [path.name for path in files] for number, files in images.by_number.items()}[3] == [
        "3_0.png",
        "3_1.png",
    ]
    assert images.unplaced == []


def test_a_run_keeps_it() -> None:
    item = Item("a", "a cat", None, "g", "p", {"k": 1}, 7)
    assert item_from(item_record(item)) == item
    assert "sample" not in item_record(Item("a", "a cat", None))  # as runs have had it: their scores still hold
