"""WebDataset archives, saved folders of `datasets`, and prompts that stand in the images themselves."""

import io
import json
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from builders import read_lines
from commands import cli
from loading import loaded_with_notes
from PIL import Image, PngImagePlugin

from titjudge.core.errors import DataError
from titjudge.data import arrow_files, containers, images, tar_files
from titjudge.data.embedded_prompts import embedded_prompt


def png(number: int, kind: str = "PNG", **texts: str) -> bytes:
    out, chunks = io.BytesIO(), PngImagePlugin.PngInfo()
    for keyword, text in texts.items():
        chunks.add_itxt(keyword, text, zip=keyword == "parameters")
    Image.new("RGB", (8, 8), (number, 0, 0)).save(out, kind, **({"pnginfo": chunks} if texts else {}))
    return out.getvalue()


def archive(file: Path, members: dict[str, bytes], mode: Any = "w") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file


def test_samples_of_an_archive_are_rows(tmp_path: Path) -> None:
    about = json.dumps({"caption": "no", "seed": 9, "model": "flux", "image": "../x.png"}).encode()
    file = archive(tmp_path / "a.tar", {
        "x/1.png": png(1), "x/1.txt": "ein Hüt\n".encode(), "x/2.json": about, "x/2.webp": png(2, "WEBP"), "x/2.cls": b"4",
        "x/3.txt": b"no image", "x/4.jpg": png(4, "JPEG"), "x/5.png": png(5), "x/5.txt": b"\xff", "x/6.json": b"[]",
    })  # fmt: skip
    items, bad, notes = loaded_with_notes(file)
    assert [(item.id, item.prompt, item.generator, item.sample) for item in items] == [
        ("a.tar:1", "ein Hüt", "", 0),
        ("a.tar:2", "no", "flux", 9),
    ]
    assert items[1].meta["image_path"] == "x/2.webp"
    for item, content in zip(items, (png(1), png(2, "WEBP")), strict=True):
        assert item.image is not None
        assert images.read(item.image) == content
        images.check_header(item.image)
    assert set(bad) == {f"a.tar:{row}" for row in (3, 4, 5, 6)}
    assert "neither 'image'" in bad["a.tar:3"]
    assert "the key 'prompt' is missing" in bad["a.tar:4"]
    assert "'x/5.txt' cannot be read" in bad["a.tar:5"]
    assert "'x/6.json' is not a JSON object" in bad["a.tar:6"]
    assert "'txt' is read as prompt" in notes[0]


def test_images_of_several_generators_in_a_sample(tmp_path: Path) -> None:
    file = archive(tmp_path / "a.tar", {"1.flux.png": png(1), "1.sd3.png": png(2), "1.txt": b"a cat"})
    items, bad, _ = loaded_with_notes(file, image=["flux", "sd3"])
    assert ([(item.id, item.generator) for item in items], bad) == (
        [("a.tar:1:flux", "flux"), ("a.tar:1:sd3", "sd3")],
        {},
    )


def test_archives_that_cannot_be_read(tmp_path: Path) -> None:
    packed = archive(tmp_path / "b.tar", {"1.png": png(1), "1.txt": b"a cat"}, "w:xz")
    with pytest.raises(DataError, match=r"b\.tar: cannot be read as a tar archive"):
        loaded_with_notes(packed)
    whole = archive(tmp_path / "c.tar", {"1.txt": b"a cat", "1.png": png(1)})
    (item,), _, _ = loaded_with_notes(whole)
    assert item.image is not None
    whole.write_bytes(whole.read_bytes()[:1600])
    with pytest.raises(DataError, match="the archive ends within the image"):
        images.read(item.image)
    (tmp_path / "d.tar").write_bytes(b"no archive at all")
    with pytest.raises(DataError, match="cannot be read as a tar archive"):
        loaded_with_notes(tmp_path / "d.tar")
    twice = archive(tmp_path / "e.tar", {"1.png": png(1), "1.jpg": png(1, "JPEG"), "1.txt": b" " * (2**20 + 1)})
    assert "'1.jpg' is a second image of its sample" in loaded_with_notes(twice)[1]["e.tar:1"]
    long = archive(tmp_path / "f.tar", {"1.png": png(1), "1.txt": b" " * (2**20 + 1)})
    assert "MiB of text, more than 1" in loaded_with_notes(long)[1]["f.tar:1"]
    link = tarfile.TarInfo("1.png")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "g.tar", "w") as tar:
        tar.addfile(link)
        tar.addfile(tarfile.TarInfo("1.txt"))
    assert loaded_with_notes(tmp_path / "g.tar")[0] == []


def test_many_samples_do_not_stay_in_memory(tmp_path: Path) -> None:
    members = {f"{k}.{end}": b"x" * 10 for k in range(300) for end in ("png", "txt")}
    rows = tar_files.rows(archive(tmp_path / "a.tar", members))
    next(rows)
    held = [each.gi_frame.f_locals["archive"] for each in (rows,)]
    assert sum(1 for _ in rows) == 299
    assert len(held[0].members) <= 1


@pytest.mark.slow
def test_a_folder_of_archives_is_judged(tmp_path: Path) -> None:
    for shard in range(2):
        members = {f"{k}.png": png(2 * shard + k) for k in range(2)} | {f"{k}.txt": b"a cat" for k in range(2)}
        archive(tmp_path / "data" / f"{shard:03}.tar", dict(sorted(members.items())))
    ask = ("--captioner", "fake/c", "--metric", "tit")
    said = cli(tmp_path, "judge", "--data", "data", *ask, "--dry-run")
    assert "'txt' is read as prompt" in said
    cli(tmp_path, "judge", "--data", "data", *ask, "--no-report", "--out", "run")
    lines = read_lines(tmp_path / "run" / "scores.jsonl")
    assert sorted(line["item"] for line in lines) == ["000.tar:1", "000.tar:2", "001.tar:1", "001.tar:2"]
    assert all(line["value"] is not None for line in lines)


@pytest.mark.parametrize("kind", ["stream", "file"])
def test_arrow_files_of_datasets(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_files, "_MAPPED", 100)
    arrow: Any = pytest.importorskip("pyarrow", reason="needs `pip install 'titjudge[parquet]'`")
    struct = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    cells = [{"bytes": png(k), "path": f"{k}.png"} for k in range(4)]
    cells += [{"bytes": None, "path": "on/disk.png"}, None]
    table = arrow.table(
        {"image": arrow.array(cells, struct), "raw": [png(k) for k in range(6)], "text": list("abcdef")}
    )
    file = tmp_path / "train" / "data-00000-of-00001.arrow"
    file.parent.mkdir()
    make = arrow.ipc.new_stream if kind == "stream" else arrow.ipc.new_file
    with make(str(file), table.schema) as writer:
        for start in (0, 3):
            writer.write_table(table.slice(start, 3))
    (file.parent / "cache-123.arrow").write_bytes(b"")
    items, bad, _ = loaded_with_notes(tmp_path)
    place = f"train/{file.name}"
    assert [(item.id, item.prompt) for item in items] == [
        *((f"{place}:{k + 1}", "abcd"[k]) for k in range(4)),
        ("train/on/disk.png", "e"),
    ]
    assert list(bad) == [f"{place}:6"]
    for at in (3, 0, 2):
        assert (images.read(file / "image" / str(at + 1)), images.read(file / "raw" / str(at + 1))) == (
            png(at),
            png(at),
        )
    with pytest.raises(DataError, match=r"arrow:5: 'image' contains no image"):
        images.read(file / "image" / "5")
    with pytest.raises(DataError, match="no such row"):
        images.read(file / "image" / "7")
    assert containers.holder(file / "image" / "1") == str(file)
    file.write_bytes(b"\xff\xff\xff\xff nonsense")
    with pytest.raises(DataError, match="cannot be read as arrow"):
        loaded_with_notes(tmp_path)


GRAPH = {
    "3": {
        "class_type": "KSampler",
        "inputs": {"seed": 42, "positive": ["9", 0], "negative": ["7", 0], "model": ["4", 0]},
    },
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "xl\\juggernaut.safetensors"}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": ["10", 0], "clip": ["4", 1]}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "bad hands"}},
    "9": {"class_type": "FluxGuidance", "inputs": {"guidance": 3.5, "conditioning": ["6", 0]}},
    "10": {"class_type": "PrimitiveString", "inputs": {"value": " a red fox "}},
}
LOOP = {
    "1": {"inputs": {"positive": ["2", 0]}},
    "2": {"inputs": {"conditioning": ["1", 0], "conditioning_1": ["2", 0]}},
}
TWO = {
    "1": {"class_type": "CLIPTextEncode", "inputs": {"text": "a"}},
    "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "b"}},
}
A1111 = "a cat,\n(sitting:1.2)\nNegative prompt: dog\nSteps: 20, Sampler: Euler, Seed: 77, Model hash: 1f, Model: sd_xl, Size: 8x8"


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({"prompt": json.dumps(GRAPH), "workflow": "{}"}, ("a red fox", "ComfyUI", 42, "juggernaut")),
        ({"parameters": A1111}, ("a cat,\n(sitting:1.2)", "A1111", 77, "sd_xl")),
        ({"parameters": "only words"}, ("only words", "A1111", 0, "")),
        ({"parameters": '{"prompt": "a fox", "seed": "5"}'}, ("a fox", "A1111", 5, "")),
        ({"prompt": "a plain dog", "seed": "8"}, ("a plain dog", "its text chunk", 8, "")),
        ({"invokeai_metadata": '{"positive_prompt": "a hen", "seed": 3}'}, ("a hen", "its text chunk", 3, "")),
        ({"prompt": json.dumps(LOOP)}, None),
        ({"prompt": json.dumps(TWO)}, None),
        ({"prompt": "{}"}, None),
        ({"Software": "GIMP"}, None),
        ({"parameters": "x" * (2**20 + 1)}, None),
    ],
)
def test_prompts_that_programs_leave(texts: dict[str, str], found: Any, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(1, **texts))
    told = embedded_prompt(tmp_path / "a.png")
    assert (told and (told.prompt, told.source, told.seed, told.model)) == found


@pytest.mark.parametrize("length", [0, 7, 20, 60, 100])
def test_torn_and_foreign_files_hold_no_prompt(length: int, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(1, prompt="a cat")[:length])
    told = embedded_prompt(tmp_path / "a.png")
    assert told is None or told.prompt == "a cat"[: len(told.prompt)]
    (tmp_path / "b.png").write_bytes(zlib.compress(b"no png"))
    assert embedded_prompt(tmp_path / "b.png") is None


def test_a_folder_of_such_images_needs_no_texts(tmp_path: Path) -> None:
    (tmp_path / "ComfyUI_00001_.png").write_bytes(png(1, prompt=json.dumps(GRAPH)))
    (tmp_path / "0002.png").write_bytes(png(2, parameters=A1111))
    (tmp_path / "0003.png").write_bytes(png(3, parameters=A1111))
    (tmp_path / "0003.txt").write_text("a text goes first")
    (tmp_path / "0004.png").write_bytes(png(4))
    items, bad, notes = loaded_with_notes(tmp_path)
    assert [(item.id, item.prompt, item.generator, item.sample) for item in items] == [
        ("0002.png", "a cat,\n(sitting:1.2)", "sd_xl", 77),
        ("0003.png", "a text goes first", "", 0),
        ("ComfyUI_00001_.png", "a red fox", "juggernaut", 42),
    ]
    assert list(bad) == ["0004.png"]
    assert notes == ["2 prompts are read from the images themselves (A1111 1, ComfyUI 1)"]


READ_ALL = """
import sys
from pathlib import Path
from titjudge.data import arrow_files
from titjudge.core.errors import DataError

for file in sorted(Path(sys.argv[1]).glob("*.arrow")):
    try:
        rows = [record["prompt"] for _, record in arrow_files.rows(file)]
        window = arrow_files.ArrowImages(file, "image")
        [window.read(number) for number in range(len(rows))]
    except (DataError, KeyError):
        continue
    assert all(len(text or "") < 20 for text in rows), "the text of another column, or of other memory"
"""


@pytest.mark.parametrize("kind", ["stream", "file"])
def test_damaged_arrow_files_are_refused_and_never_followed_out_of_the_file(tmp_path: Path, kind: str) -> None:
    arrow: Any = pytest.importorskip("pyarrow", reason="needs `pip install 'titjudge[parquet]'`")
    cells = [{"bytes": png(number), "path": f"{number}.png"} for number in range(4)]
    table = arrow.Table.from_pylist([{"image": cell, "prompt": f"a thing {k}"} for k, cell in enumerate(cells)])
    whole = tmp_path / "whole"
    with getattr(arrow.ipc, f"new_{kind}")(str(whole), table.schema) as writer:
        writer.write_table(table)
    content, random = whole.read_bytes(), Random(3)
    for number in range(120):
        damaged = bytearray(content)
        for _ in range(random.choice([1, 1, 2, 4])):
            damaged[random.randrange(len(damaged))] = random.choice([0, 255, 127, 128, random.randrange(256)])
        (tmp_path / f"{number}.arrow").write_bytes(damaged)
    offsets = b"".join(place.to_bytes(4, "little") for place in range(0, 45, 9))
    at = content.index(offsets)
    for number, length in enumerate((64, 200, 4_000, 100_000, 2**30)):
        damaged = content[: at + 16] + length.to_bytes(4, "little") + content[at + 20 :]
        (tmp_path / f"far-{number}.arrow").write_bytes(damaged)
        with pytest.raises(DataError, match="cannot be read as arrow"):
            list(arrow_files.rows(tmp_path / f"far-{number}.arrow"))
    ended = subprocess.run([sys.executable, "-c", READ_ALL, str(tmp_path)], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
