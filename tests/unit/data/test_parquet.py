"""Data sets of Hugging Face: images inside of parquet tables are judged without a copy of them."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from builders import image_file, read_lines
from commands import cli
from loading import loaded
from pages import page_text

from titjudge.core.errors import DataError
from titjudge.data import containers, images, parquet
from titjudge.report.html import images_in
from titjudge.suites.folder import Folder

arrow: Any = pytest.importorskip("pyarrow", reason="needs `pip install 'titjudge[parquet]'`")
tables: Any = pytest.importorskip("pyarrow.parquet")
STRUCT = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])


def table(file: Path, columns: dict[str, Any], rows: int = 3) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    tables.write_table(arrow.table(columns), file, row_group_size=rows)
    return file


def structs(count: int) -> Any:
    return arrow.array([{"bytes": image_file(each), "path": f"{each}.png"} for each in range(count)], STRUCT)


def test_images_of_a_table_are_read_in_any_order(tmp_path: Path) -> None:
    prompts = [f"a cat {each}" for each in range(8)]
    file = table(tmp_path / "train.parquet", {"image": structs(8), "text": prompts, "seed": list(range(8))})
    items, bad = loaded(file)
    assert [item.id for item in items] == [f"train.parquet:{row}" for row in range(1, 9)]
    assert (items[2].prompt, dict(items[2].meta), bad) == ("a cat 2", {"seed": 2, "image_path": "2.png"}, {})
    for at in (0, 7, 3, 2, 7, 0):
        place = items[at].image
        assert place is not None
        assert images.read(place) == image_file(at)
        images.check_header(place)


def test_rows_far_apart_are_read_when_little_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_KEPT", 0)
    monkeypatch.setattr(parquet, "_IMAGES", 2)
    monkeypatch.setattr(containers, "_OPEN", 1)
    file = table(
        tmp_path / "a.parquet", {"image": [image_file(each) for each in range(20)], "b/c": structs(20)}, rows=7
    )
    for at in (0, 1, 19, 5, 6, 3, 13, 14, 0):
        for column in ("image", "b%2Fc"):
            assert images.read(file / column / str(at + 1)) == image_file(at)


def test_what_is_no_image_is_named_with_file_and_row(tmp_path: Path) -> None:
    content = [
        {"bytes": image_file(1), "path": None},
        {"bytes": None, "path": "x.png"},
        None,
        {"bytes": b"", "path": ""},
    ]
    file = table(tmp_path / "a.parquet", {"image": arrow.array(content, STRUCT), "prompt": ["a", "b", "c", None]}, 4)
    items, bad = loaded(file)
    assert [item.id for item in items] == ["a.parquet:1", "a.parquet:2"]
    assert set(bad) == {"a.parquet:3", "a.parquet:4"}
    assert (bad["a.parquet:4"], "neither 'image'" in bad["a.parquet:3"]) == (
        "the prompt must be a text, not None",
        True,
    )
    for row, reason in ((2, "a.parquet:2: 'image' contains no image"), (4, "is empty"), (5, "no such row")):
        with pytest.raises(DataError, match=reason):
            images.read(file / "image" / str(row))
    table(file, {"image": structs(1), "words": ["a cat"]})
    with pytest.raises(DataError, match=r"'prompt' is missing \(there are: image, words\)\. Name .* --columns prompt"):
        loaded(file)
    file.write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        loaded(file)
    table(file, {"jpg_0": structs(1), "caption": ["a cat"]})
    with pytest.raises(DataError, match=r"'image' is missing \(there are: jpg_0, caption\). .* --columns image=COLUMN"):
        loaded(file)


def test_a_table_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    file = table(tmp_path / "a.parquet", {"image": [image_file(1)], "prompt": ["a cat"]})
    assert images.read(file / "image" / "1") == image_file(1)
    table(file, {"image": [image_file(2)], "prompt": ["a cat"], "more": [1]})
    assert images.read(file / "image" / "1") == image_file(2)


def test_paths_in_a_table_are_paths(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(image_file(1))
    nothing = arrow.array([{"bytes": None, "path": name} for name in ("1.png", "/etc/x.png")], STRUCT)
    for name, column in (("a", nothing), ("b", ["1.png", "/etc/x.png"])):
        items, bad = loaded(table(tmp_path / f"{name}.parquet", {"image": column, "prompt": ["a", "b"]}))
        assert [(item.id, item.image) for item in items] == [("1.png", tmp_path / "1.png")]
        assert "--image-root" in bad["/etc/x.png"]


def test_several_image_columns_and_several_files(tmp_path: Path) -> None:
    for part in ("data/train-0.parquet", "data/train-1.parquet"):
        columns = {"flux": structs(1), "sd": structs(1), "prompt": ["a cat"], "audio": [b"x"]}
        table(tmp_path / "set" / part, columns)
    items, bad = loaded(tmp_path / "set", image=["flux", "sd"])
    assert [(item.id, item.generator) for item in items] == [
        (f"data/train-{part}.parquet:1:{column}", column) for part in (0, 1) for column in ("flux", "sd")
    ]
    assert bad == {}
    outside = table(tmp_path / "out.parquet", {"image": structs(1), "prompt": ["a cat"]})
    (tmp_path / "set" / "link.parquet").symlink_to(outside)
    with pytest.raises(DataError, match="the table is a link that leads outside"):
        loaded(tmp_path / "set")


def test_a_table_is_judged_verified_and_shown(tmp_path: Path) -> None:
    table(tmp_path / "set.parquet", {"image": structs(5), "caption": [f"a cat {each}" for each in range(5)]}, rows=2)
    run = ("judge", "--data", "set.parquet", "--captioner", "fake/any", "--metric", "tit", "--out", "run")
    assert "'caption' is read as prompt" in cli(tmp_path, *run)
    scores = read_lines(tmp_path / "run" / "scores.jsonl")
    assert sorted(score["item"] for score in scores) == [f"set.parquet:{row}" for row in range(1, 6)]
    assert all(score["status"] == "ok" for score in scores)
    replies = (tmp_path / "run" / "replies.jsonl").read_text()
    assert all(hashlib.sha256(image_file(each)).hexdigest() in replies for each in range(5))
    assert not list(tmp_path.rglob("*.png"))
    cli(tmp_path, "verify", "run")
    assert images_in((tmp_path / "run" / "report.html").read_bytes()) == (5, [])


def test_a_run_over_a_download_of_links_shows_its_images(tmp_path: Path) -> None:
    table(tmp_path / "blobs" / "a.parquet", {"image": structs(2), "prompt": ["a cat", "a dog"]}).rename(
        tmp_path / "blobs" / "0f"
    )
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.parquet").symlink_to("../blobs/0f")
    run = ("judge", "--data", "set", "--captioner", "fake/any", "--metric", "tit", "--out", "run")
    assert "the table is a link that leads outside" in cli(tmp_path, *run, code=2)
    cli(tmp_path, *run, "--image-root", "blobs")
    assert images_in((tmp_path / "run" / "report.html").read_bytes()) == (2, [])
    assert "2 images" in cli(tmp_path, "verify", "run")


def test_a_path_below_a_file_that_is_no_table_is_no_image(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a cat")
    with pytest.raises(DataError, match="no such image file"):
        images.read(tmp_path / "notes.txt" / "image" / "1")


def test_the_command_of_the_page_on_data_runs(tmp_path: Path) -> None:
    page = page_text("judge-images")
    (command,) = re.findall(r"^python cli\.py (judge --data train\.parquet .*)", page, re.MULTILINE)
    table(tmp_path / "train.parquet", {"image": structs(2), "caption": ["a cat", None]})
    assert "2 items found: 1 usable, 1 refused" in cli(tmp_path, *command.split(), GEMINI_API_KEY="none")


def test_the_layout_of_pick_a_pic_names_generators_and_preferences(tmp_path: Path) -> None:
    file = table(
        tmp_path / "validation.parquet",
        {
            "jpg_0": [image_file(0), image_file(1), image_file(2), image_file(3)],
            "jpg_1": [image_file(4), image_file(5), image_file(6), image_file(7)],
            "label_0": [1.0, 0.0, 0.5, 1.0],
            "label_1": [0.0, 1.0, 0.5, 0.0],
            "model_0": ["sdxl", "dream", "sdxl", "sdxl"],
            "model_1": ["dream", "sdxl", "dream", "dream"],
            "caption": ["a cat", "a cat", "a dog", "a fox"],
            "has_label": [True, True, True, False],
        },
    )
    items, bad = loaded(file)
    assert [(item.id.rpartition(":")[2], item.generator, item.prompt) for item in items[:4]] == [
        ("jpg_0", "sdxl", "a cat"), ("jpg_1", "dream", "a cat"), ("jpg_0", "dream", "a cat"), ("jpg_1", "sdxl", "a cat"),
    ]  # fmt: skip
    assert bad == {}
    rows = [(pair.prompt_id, pair.a, pair.b, pair.preference) for pair in Folder().pairs(file)]
    assert rows == [
        ("a cat", "validation.parquet:1:jpg_0", "validation.parquet:1:jpg_1", "a"),
        ("a cat", "validation.parquet:2:jpg_0", "validation.parquet:2:jpg_1", "b"),
        ("a dog", "validation.parquet:3:jpg_0", "validation.parquet:3:jpg_1", "tie"),
    ]
    assert {name for row in rows for name in row[1:3]} <= {item.id for item in items}
