from __future__ import annotations

import asyncio
import io
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image

from titjudge.errors import DataError
from titjudge.images import Pictures
from titjudge.types import Picture


def opened(path: Path, facts: object = None) -> Picture:
    return asyncio.run(Pictures(facts).open(path))  # type: ignore[arg-type]


def image(path: Path, mode: str = "RGB", **options: object) -> Path:
    Image.new(mode, (40, 30), 7 if mode in ("L", "P", "I") else None).save(path, **options)
    return path


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp", "ünïcödé 🍎.png"])
def test_common_files_go_out_as_they_are(tmp_path: Path, name: str) -> None:
    picture = opened(image(tmp_path / name))
    assert picture.load() == (tmp_path / name).read_bytes()
    assert (picture.width, picture.height) == (40, 30)


@pytest.mark.parametrize(("name", "mode"), [("a.bmp", "RGB"), ("a.tif", "CMYK"), ("a.gif", "P"), ("a.jpg", "CMYK")])
def test_others_are_converted_to_png_once_and_for_all(tmp_path: Path, name: str, mode: str) -> None:
    first, second = opened(image(tmp_path / name, mode)), opened(tmp_path / name)
    assert first.media_type == "image/png"
    assert first.load() == second.load()
    assert Image.open(io.BytesIO(first.load())).size == (40, 30)


def test_a_turned_picture_is_sent_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = opened(image(tmp_path / "a.jpg", exif=exif))
    assert (picture.width, picture.height) == (30, 40)


def bomb() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


def bad_files(folder: Path) -> dict[str, str]:
    image(folder / "whole.jpg")
    Image.effect_noise((200, 200), 90).save(folder / "noise.png")
    (folder / "truncated.png").write_bytes((folder / "noise.png").read_bytes()[:2000])
    (folder / "empty.png").write_bytes(b"")
    (folder / "text.png").write_text("not an image")
    (folder / "bomb.png").write_bytes(bomb())
    (folder / "folder.png").mkdir()
    return {
        "missing.png": "no such image file",
        "truncated.png": "truncated|cannot be decoded",
        "empty.png": "empty",
        "text.png": "not an image",
        "bomb.png": "decompression bomb",
        "folder.png": "not a file",
    }


def test_what_cannot_be_used_is_named_with_its_reason(tmp_path: Path) -> None:
    for name, reason in bad_files(tmp_path).items():
        with pytest.raises(DataError, match=reason) as caught:
            opened(tmp_path / name)
        assert name in str(caught.value)


def test_a_verdict_is_remembered_by_content(tmp_path: Path) -> None:
    facts: dict[str, dict[str, object]] = {}

    class Remember:
        def get(self, key: str, /) -> dict[str, object] | None:
            return facts.get(key)

        async def put(self, key: str, value: dict[str, object], /) -> None:
            assert key not in facts
            facts[key] = value

    first = opened(image(tmp_path / "a.png"), Remember())
    (tmp_path / "copy.png").write_bytes((tmp_path / "a.png").read_bytes())
    assert opened(tmp_path / "copy.png", Remember()).sha256 == first.sha256
    assert len(facts) == 1


def test_an_image_that_changes_during_a_run_is_not_sent(tmp_path: Path) -> None:
    picture = opened(image(tmp_path / "a.png"))
    image(tmp_path / "a.png", "L")
    with pytest.raises(DataError, match="changed"):
        picture.load()


def test_sixteen_bits_a_pixel_stay_grey_when_converted(tmp_path: Path) -> None:
    Image.new("I;16", (8, 8), 40 * 257).save(tmp_path / "deep.tiff")
    picture = opened(tmp_path / "deep.tiff")
    assert picture.media_type == "image/png"
    with Image.open(io.BytesIO(picture.load())) as sent:
        assert sent.convert("L").getpixel((3, 3)) == 40
