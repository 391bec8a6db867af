"""Manifests that are one JSON value: an array of objects, COCO captions, DiffusionDB's parts; and cells that hold no path."""

import base64
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from commands import cli
from loading import loaded
from PIL import Image

from titjudge.core.errors import DataError
from titjudge.core.types import InvalidItem, Item
from titjudge.data import json_tables
from titjudge.data.tables import scan_table
from titjudge.suites.base import SuiteInputs
from titjudge.suites.folder import Folder

ROWS = [{"image": "a.png", "prompt": "a cat", "model": "x"}, {"image": "b.png", "prompt": "a dog", "seed": 4}]
COCO: dict[str, Any] = {
    "info": {"year": 2014},
    "images": [
        {"id": 7, "file_name": "a.png", "width": 8},
        {"id": 8, "file_name": "b.png"},
        {"id": 9, "file_name": "c.png"},
    ],
    "annotations": [
        {"id": 1, "image_id": 7, "caption": "a cat"},
        {"id": 2, "image_id": 7, "caption": "a red cat"},
        {"id": 3, "image_id": 8, "caption": "a dog"},
        {"id": 4, "image_id": 66, "caption": "lost"},
        "damage",
    ],
}
DIFFUSION_DB = {
    "a.png": {"p": "a cat", "se": 38753269, "c": 12.0, "st": 50, "sa": "k_lms"},
    "b.png": {"p": "a dog", "se": 5},
    "c.png": "damage",
}


def saved(path: Path, content: Any, **form: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in ("a", "b", "c"):
        Image.new("RGB", (8, 8), "red").save(path.parent / f"{name}.png")
    path.write_text(json.dumps(content, **form), encoding="utf-8")
    return path


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("mark", ["", "\ufeff\n"])
def test_an_array_of_objects_is_a_manifest(tmp_path: Path, indent: int | None, mark: str) -> None:
    file = saved(tmp_path / "m.json", [ROWS[0], "damage", {"prompt": "x"}, {"image": "a.png"}, ROWS[1]], indent=indent)
    file.write_text(mark + file.read_text(), encoding="utf-8")
    items, bad = loaded(file)
    assert [(item.id, item.prompt, item.generator, item.sample) for item in items] == [
        ("a.png", "a cat", "x", 0),
        ("b.png", "a dog", "", 4),
    ]
    assert list(bad) == ["m.json:2", "m.json:3", "m.json:4"]
    assert "must be a JSON object" in bad["m.json:2"]
    assert "the key 'prompt' is missing" in bad["m.json:4"]


def test_half_an_emoji_in_an_array_costs_its_row_alone(tmp_path: Path) -> None:
    file = saved(tmp_path / "m.json", ROWS)
    file.write_text('[{"image": "a.png", "prompt": "\\ud83d"}, {"image": "b.png", "prompt": "a dog", "x": NaN}]')
    items, bad = loaded(file)
    assert [item.id for item in items] == ["b.png"]
    assert "m.json:1: not JSON: a text is not UTF-8, or has half of an emoji" in bad["m.json:1"]


def test_json_lines_in_a_json_file_stay_what_they_were(tmp_path: Path) -> None:
    file = saved(tmp_path / "m.json", ROWS[0])
    assert [item.id for item in loaded(file)[0]] == ["a.png"]
    file.write_text("\n".join([json.dumps(ROWS[0]), "{no", json.dumps(ROWS[1])]))
    items, bad = loaded(file)
    assert ([item.id for item in items], list(bad)) == (["a.png", "b.png"], ["m.json:2"])
    file.write_text("{no\n" + json.dumps(ROWS[1]))
    assert ([item.id for item in loaded(file)[0]], list(loaded(file)[1])) == (["b.png"], ["m.json:1"])


def test_an_imagefolder_may_have_its_metadata_as_one_array(tmp_path: Path) -> None:
    saved(tmp_path / "train" / "metadata.json", [{"file_name": "a.png", "text": "a cat"}])
    (item,), bad = loaded(tmp_path)
    assert (item.id, item.prompt, bad) == ("train/a.png", "a cat", {})


@pytest.mark.parametrize("indent", [None, 1])
def test_the_captions_of_coco_are_rows(tmp_path: Path, indent: int | None) -> None:
    file = saved(tmp_path / "captions_val.json", COCO, indent=indent)
    rows = list(scan_table(file))
    assert [row if isinstance(row, DataError) else (row["file_name"], row["caption"], row["id"]) for _, row in rows][
        :3
    ] == [
        ("a.png", "a cat", 1),
        ("a.png", "a red cat", 2),
        ("b.png", "a dog", 3),
    ]
    items, bad = loaded(file)
    assert {(item.image, item.prompt) for item in items} >= {
        (tmp_path / "a.png", "a cat"),
        (tmp_path / "b.png", "a dog"),
    }
    assert items[0].meta["width"] == 8
    assert "there is no image with the id 66" in bad["captions_val.json:4"]
    assert "the annotation must be a JSON object, not" in bad["captions_val.json:5"]
    assert "the image with the id 9 has no caption" in bad["captions_val.json:6"]


def test_the_images_of_coco_may_lie_in_another_folder(tmp_path: Path) -> None:
    saved(tmp_path / "val2014" / "unused.json", [])
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "captions.json").write_text(
        json.dumps({**COCO, "annotations": COCO["annotations"][:1]})
    )
    suite = Folder(SuiteInputs(image_roots=(tmp_path / "val2014",)))
    items = [item for item in suite.load(tmp_path / "annotations" / "captions.json") if isinstance(item, Item)]
    assert [(item.id, item.image) for item in items] == [("a.png", tmp_path / "val2014" / "a.png")]


def test_boxes_of_coco_are_no_captions(tmp_path: Path) -> None:
    file = saved(tmp_path / "instances.json", {"images": COCO["images"], "annotations": [{"image_id": 7, "bbox": [1]}]})
    with pytest.raises(DataError, match=r"instances\.json: COCO annotations without a caption"):
        loaded(file)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_part_of_diffusion_db_is_read_by_its_file_or_its_folder(tmp_path: Path, indent: int | None) -> None:
    file = saved(tmp_path / "part-000001" / "part-000001.json", DIFFUSION_DB, indent=indent)
    for place, below in ((file, ""), (tmp_path / "part-000001", ""), (tmp_path, "part-000001/")):
        items, bad = loaded(place)
        assert [(item.id, item.prompt, item.sample) for item in items] == [
            (f"{below}a.png", "a cat", 38753269),
            (f"{below}b.png", "a dog", 5),
        ]
        assert items[0].meta["sa"] == "k_lms"
        assert "'c.png' must be an object, not" in bad[f"{below}part-000001.json:3"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[", "not JSON"),
        (b'[{"image": "a.png"}] []', "not JSON"),
        (b'{"a": 1,\n"b": 2}', "one JSON object, but neither COCO captions nor objects by file name or id"),
        (b"[" * 100_000, "not JSON"),
        (b'[{"image": "\xe4.png"}]', "not UTF-8 text"),
        (b"\xff\xfe[\0]\0", "UTF-16"),
    ],
)
def test_a_damaged_json_file_is_one_error(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        loaded(tmp_path / "m.json")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_objects_by_their_ids_are_rows_with_an_id(tmp_path: Path) -> None:
    """As PIE-Bench's mapping_file.json."""
    content = {f"{n:012d}": {"editing_instruction": f"edit {n}", "mask": [n, 2]} for n in range(3)}
    for text in (json.dumps(content), json.dumps(content, indent=1)):
        (tmp_path / "mapping_file.json").write_text(text)
        rows = [row for _, row in json_tables.rows(tmp_path / "mapping_file.json")]
        assert rows == [{"id": key, **value} for key, value in content.items()]


def test_an_array_of_a_size_that_memory_cannot_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_tables, "_LARGEST", 50)
    with pytest.raises(DataError, match=r"Write one object per line"):
        loaded(saved(tmp_path / "m.json", ROWS))


def rows_or_error(file: Path) -> tuple[list[Item | InvalidItem], str]:
    try:
        return list(Folder().load(file)), ""
    except DataError as error:
        return [], str(error)


@pytest.mark.parametrize("content", [ROWS, COCO, DIFFUSION_DB])
def test_every_damaged_file_gives_rows_or_one_error(tmp_path: Path, content: Any) -> None:
    whole, random = json.dumps(content).encode(), Random(5)
    file = tmp_path / "m.json"
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(random.choice([1, 1, 2, 5])):
            damaged[random.randrange(len(damaged))] = random.choice([*b'{}[]",:0\n', random.randrange(256)])
        file.write_bytes(damaged[: random.choice([len(damaged), random.randrange(len(damaged))])])
        found, said = rows_or_error(file)
        assert "\n" not in said
        assert all(isinstance(item, Item | InvalidItem) for item in found)


@pytest.mark.parametrize("kind", ["coco", "array"])
def test_the_command_judges_such_a_manifest(tmp_path: Path, kind: str) -> None:
    saved(tmp_path / "data" / "m.json", ROWS if kind == "array" else {**COCO, "annotations": COCO["annotations"][2:3]})
    asked = ("judge", "--data", "data/m.json", "--captioner", "fake/any", "--metric", "tit", "--dry-run")
    said = cli(tmp_path, *asked)
    assert ("'file_name' is read as image" in said) == (kind == "coco")


@pytest.mark.parametrize("prefix", ["", "data:image/png;base64,"])
def test_an_image_in_a_cell_of_text_is_named_in_one_short_line(tmp_path: Path, prefix: str) -> None:
    cell = prefix + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20_000)).decode()
    (tmp_path / "m.csv").write_text(f'image,prompt,model\n"{cell}",a cat,x\nnone.png,a dog,x\n')
    items, bad = loaded(tmp_path / "m.csv")
    assert [item.id for item in items] == ["none.png"]
    assert list(bad) == ["m.csv:2"]
    assert f"'image' must be a path, not {len(cell):,} characters ({cell[:20]}...)" in bad["m.csv:2"]
    assert len(bad["m.csv:2"]) < 200


def test_pixels_in_a_cell_are_named_in_one_short_line(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text(json.dumps({"image": [[[1, 2, 3]] * 48] * 40, "prompt": "a cat"}) + "\n")
    items, bad = loaded(tmp_path / "m.jsonl")
    assert (items, list(bad)) == ([], ["m.jsonl:1"])
    assert "must be a path" in bad["m.jsonl:1"]
    assert len(bad["m.jsonl:1"]) < 200


def test_a_prompt_that_is_a_table_is_named_in_one_short_line(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text(json.dumps({"image": "a.png", "prompt": list(range(9_000))}) + "\n")
    (bad,) = Folder().load(tmp_path / "m.jsonl")
    assert isinstance(bad, InvalidItem)
    assert len(bad.reason) + len(bad.prompt_id) < 100
