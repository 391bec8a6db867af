"""Lists of images in a row, as roll-outs have them: each image is an item, and a sample of the row's prompt."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from builders import image_file, read_lines
from commands import cli
from loading import loaded

from titjudge.core.errors import DataError
from titjudge.data import images, parquet
from titjudge.data.tables import scan_table

arrow: Any = pytest.importorskip("pyarrow", reason="needs `pip install 'titjudge[parquet]'`")
tables: Any = pytest.importorskip("pyarrow.parquet")
STRUCT = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
COUNTS = (2, 3, 0, 1)


def as_parquet(file: Path, columns: dict[str, Any]) -> Path:
    tables.write_table(arrow.table(columns), file, row_group_size=3)
    return file


def as_arrow(file: Path, columns: dict[str, Any]) -> Path:
    file = file.with_suffix(".arrow")
    table = arrow.table(columns)
    with arrow.ipc.new_stream(str(file), table.schema) as writer:
        for start in (0, 3):
            writer.write_table(table.slice(start, 3))
    return file


def rows_of(make: Callable[[int], Any]) -> list[Any]:
    """Return lists of 2, 3, 0 and 1 images, and a null."""
    return [*([make(10 * row + at) for at in range(count)] for row, count in enumerate(COUNTS)), None]


KINDS: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "structs": (arrow.list_(STRUCT), lambda number: {"bytes": image_file(number), "path": f"{number}.png"}),
    "bytes": (arrow.list_(arrow.binary()), image_file),
    "large lists": (arrow.large_list(arrow.large_binary()), image_file),
    "structs without paths": (
        arrow.list_(arrow.struct([("bytes", arrow.binary())])),
        lambda number: {"bytes": image_file(number)},
    ),
}


@pytest.mark.parametrize("write", [as_parquet, as_arrow])
@pytest.mark.parametrize("kind", KINDS)
def test_each_image_of_a_list_is_a_sample(
    tmp_path: Path, write: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_KEPT", 0)
    monkeypatch.setattr(parquet, "_IMAGES", 1)
    type_, make = KINDS[kind]
    prompts = [f"a cat {row}" for row in range(5)]
    file = write(tmp_path / "a.parquet", {"images": arrow.array(rows_of(make), type_), "prompt": prompts})
    items, bad = loaded(file)
    expected = [(row, at) for row, count in enumerate(COUNTS) for at in range(count)]
    assert [(item.id, item.prompt, item.sample) for item in items] == [
        (f"{file.name}:{row + 1}.{at}", f"a cat {row}", at) for row, at in expected
    ]
    assert list(bad) == [f"{file.name}:3", f"{file.name}:5"]
    assert ("image_path" in items[0].meta) == (kind == "structs")
    for index in (0, 5, 2, 4, 1, 3, 0):
        place = items[index].image
        assert place is not None
        assert images.read(place) == image_file(10 * expected[index][0] + expected[index][1])
    for row in ("2.3", "3.0", "5.0"):
        with pytest.raises(DataError, match=rf":{row[0]}: 'images' contains no image"):
            images.read(file / "images" / row)
    with pytest.raises(DataError, match="no such row"):
        images.read(file / "images" / "1.x")


@pytest.mark.parametrize("write", [as_parquet, as_arrow])
def test_images_of_a_list_that_are_not_there_are_named_and_paths_are_paths(tmp_path: Path, write: Any) -> None:
    (tmp_path / "1.png").write_bytes(image_file(1))
    filled = [[{"bytes": image_file(3), "path": None}, None], [{"bytes": None, "path": "1.png"}]]
    paths = [[{"bytes": None, "path": "1.png"}, {"bytes": None, "path": "/etc/x.png"}], [None]]
    for name, content in (("a", filled), ("b", paths)):
        column = arrow.array(content, arrow.list_(STRUCT))
        file = write(tmp_path / f"{name}.parquet", {"image": column, "prompt": ["x", "y"]})
        items, bad = loaded(file)
        if name == "a":
            assert items[0].id == f"{file.name}:1.0"
            assert bad == {f"{file.name}:1.1": f"{file.name}:1: 'image' has no image here. Add its path"}
        else:
            assert [(item.id, item.sample) for item in items] == [("1.png", 0)]
            assert list(bad) == ["/etc/x.png", f"{file.name}:2.0"]


def test_lists_of_paths_are_samples_in_any_table(tmp_path: Path) -> None:
    for name in ("1.png", "2.png"):
        (tmp_path / name).write_bytes(image_file(1))
    table = as_parquet(tmp_path / "a.parquet", {"images": [["1.png", "2.png"]], "caption": ["a cat"], "seed": [3]})
    row = {"images": ["1.png", "2.png"], "caption": "a cat", "seed": 3}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "a.json").write_text(json.dumps([row]))
    for file in (table, tmp_path / "a.jsonl", tmp_path / "a.json"):
        items, bad = loaded(file)
        assert [(item.id, item.sample) for item in items] == [("1.png", 6), ("2.png", 7)]
        assert bad == {}


def test_the_sample_of_a_long_seed_still_fits_64_bits(tmp_path: Path) -> None:
    row = {"image": [f"{k}.png" for k in range(100)], "prompt": "a cat", "seed": 10**17 + 3}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    assert all(item.sample < 2**63 for item in loaded(tmp_path / "a.jsonl")[0])


def test_pixels_in_a_table_are_one_short_line(tmp_path: Path) -> None:
    pixels = [[[1, 2, 3]] * 48] * 40
    items, bad = loaded(as_parquet(tmp_path / "a.parquet", {"image": [pixels], "prompt": ["a cat"]}))
    assert (items, list(bad)) == ([], ["a.parquet:1"])
    assert "must be a path" in bad["a.parquet:1"]
    assert len(bad["a.parquet:1"]) < 200


def test_lists_of_images_that_are_not_judged_stay_out_of_the_items(tmp_path: Path) -> None:
    type_, make = KINDS["bytes"]
    columns = {"image": [image_file(1)], "inputs": arrow.array([[make(2)]], type_), "prompt": ["a cat"], "n": [[1, 2]]}
    (item,), _ = loaded(as_parquet(tmp_path / "a.parquet", columns))
    assert item.meta == {"n": [1, 2]}


def test_a_row_group_without_rows_is_passed_over(tmp_path: Path) -> None:
    type_, make = KINDS["structs"]
    table = arrow.table({"image": arrow.array([[make(1)]], type_), "prompt": ["a cat"]})
    with tables.ParquetWriter(tmp_path / "a.parquet", table.schema) as writer:
        for part in (table.slice(0, 0), table, table.slice(0, 0), table):
            writer.write_table(part)
    assert [item.id for item in loaded(tmp_path / "a.parquet")[0]] == ["a.parquet:1.0", "a.parquet:2.0"]


@pytest.mark.parametrize("kind", ["structs", "bytes"])
def test_every_damaged_table_of_lists_gives_rows_or_one_error(tmp_path: Path, kind: str) -> None:
    type_, make = KINDS[kind]
    file = as_parquet(tmp_path / "a.parquet", {"images": arrow.array(rows_of(make), type_), "prompt": list("abcde")})
    whole, random = file.read_bytes(), Random(6)
    for _ in range(100):
        damaged = bytearray(whole)
        for _ in range(random.choice([1, 1, 3])):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        file.write_bytes(damaged)
        assert all("\n" not in said for said in read_all(file))


def read_all(file: Path) -> list[str]:
    """Read the rows and images of a table; return what is wrong with it."""
    said = []
    try:
        for _, record in scan_table(file):
            assert isinstance(record, dict)
            for cell in record.get("images") or ():
                if cell is not None:
                    images.read(cell.place)
    except DataError as error:
        said.append(str(error))
    return said


def test_roll_outs_are_judged(tmp_path: Path) -> None:
    type_, make = KINDS["structs"]
    as_parquet(tmp_path / "a.parquet", {"images": arrow.array(rows_of(make)[:2], type_), "prompt": ["x", "y"]})
    ask = ("judge", "--data", "a.parquet", "--captioner", "fake/c", "--metric", "tit")
    assert "'images' is read as image" in cli(tmp_path, *ask, "--dry-run")
    cli(tmp_path, *ask, "--no-report", "--out", "run")
    lines = read_lines(tmp_path / "run" / "scores.jsonl")
    assert sorted(line["item"] for line in lines) == [f"a.parquet:{at}" for at in ("1.0", "1.1", "2.0", "2.1", "2.2")]
    assert all(line["value"] is not None for line in lines)
