import asyncio
import base64
import hashlib
import io
import re
import struct
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from PIL.ImageFile import ImageFile as Pixels
from PIL.PngImagePlugin import PngInfo

import titjudge
from titjudge.core.errors import DataError
from titjudge.core.types import ImageFile
from titjudge.data import image_decoding, image_process, images
from titjudge.data.image_decoding import inspect, open_image, upright
from titjudge.data.images import ImageFiles


def opened(path: Path, facts: object = None) -> ImageFile:
    return asyncio.run(ImageFiles(facts).open(path))  # type: ignore[arg-type]


def image(path: Path, mode: str = "RGB", **options: object) -> Path:
    Image.new(mode, (40, 30), 7 if mode in ("L", "P", "I") else None).save(path, **options)
    return path


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp", "ünïcödé 🍎.png"])
def test_common_files_go_out_as_they_are(tmp_path: Path, name: str) -> None:
    picture = opened(image(tmp_path / name))
    assert picture.load() == (tmp_path / name).read_bytes()
    assert (picture.width, picture.height) == (40, 30)


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC"), (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x1cftyphevc", "HEIC"), (b"\xff\x0a\x7f\x01", "JPEG XL"), (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"), (b"%PDF-1.7", "PDF"), (b"8BPS\0\1", "Photoshop"),
        (b'<?xml version="1.0"?>\n<!-- Made by a program -->\n<svg xmlns="x">', "SVG"), (b"<svg>", "SVG"),
        (b"\n<!DOCTYPE html><html>", "web page"), (b"<html lang='de'>", "web page"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ending", ["jpg", "png"])
def test_a_file_of_a_known_format_that_is_not_read_is_called_by_it(
    tmp_path: Path, start: bytes, name: str, ending: str
) -> None:
    (file := tmp_path / f"a.{ending}").write_bytes(start + bytes(200))
    for refuse in (opened, images.check_header):
        with pytest.raises(DataError, match=f"{name}.*PNG or JPEG"):
            refuse(file)


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

        def later(self, key: str, value: dict[str, object], /) -> None:
            assert key not in facts
            facts[key] = value

    first = opened(image(tmp_path / "a.png"), Remember())
    (tmp_path / "copy.png").write_bytes((tmp_path / "a.png").read_bytes())
    assert opened(tmp_path / "copy.png", Remember()).sha256 == first.sha256
    assert len(facts) == 1


def test_an_image_that_changes_during_a_run_is_not_sent(tmp_path: Path) -> None:
    Image.effect_noise((300, 300), 90).save(tmp_path / "a.png")
    picture = opened(tmp_path / "a.png")
    image(tmp_path / "a.png", "L")
    with pytest.raises(DataError, match="changed"):
        picture.load()


def test_what_was_inspected_of_a_small_file_is_what_is_sent(tmp_path: Path) -> None:
    before = image(tmp_path / "a.png").read_bytes()
    picture = opened(tmp_path / "a.png")
    image(tmp_path / "a.png", "L")
    assert picture.load() == before
    assert hashlib.sha256(picture.load()).hexdigest() == picture.sha256


def test_sixteen_bits_a_pixel_stay_grey_when_converted(tmp_path: Path) -> None:
    Image.new("I;16", (8, 8), 40 * 257).save(tmp_path / "deep.tiff")
    picture = opened(tmp_path / "deep.tiff")
    assert picture.media_type == "image/png"
    with Image.open(io.BytesIO(picture.load())) as sent:
        assert sent.convert("L").getpixel((3, 3)) == 40


def test_image_files_are_opened_in_one_place_only() -> None:
    package = Path(titjudge.__file__).parent
    elsewhere = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "Image.open(" in path.read_text("utf-8")
    ]
    assert elsewhere == ["data/image_decoding.py"]


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 40 40\n%%EndComments\nshowpage\n%%EOF\n"


def other_format(kind: str) -> bytes:
    if kind == "EPS":
        return POSTSCRIPT
    out = io.BytesIO()
    Image.new("RGB", (8, 8)).save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["EPS", "PPM", "TGA", "ICO", "JPEG2000"])
def test_formats_nobody_needs_are_not_opened_whatever_the_name_says(tmp_path: Path, kind: str) -> None:
    from titjudge.report.judged_images import Judged
    from titjudge.report.thumbnails import thumbnail

    file = tmp_path / "a.png"
    file.write_bytes(other_format(kind))
    with pytest.raises(DataError, match=r"not an image|titjudge does not read"):
        opened(file)
    assert re.search(
        "not an image|titjudge does not read", str(thumbnail(Judged(file, (file.stat().st_size, 0)), 100, 50))
    )


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "MPO", "AVIF"])
def test_the_usual_formats_are_opened(tmp_path: Path, kind: str) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.img", kind, **({"save_all": True} if kind == "MPO" else {}))
    assert opened(tmp_path / "a.img").width == 8


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """16 bits a pixel, in the upper half 10,000 and in the lower 50,000."""
    rows = np.repeat(np.array([10_000, 50_000], dtype="uint16"), 32)
    Image.fromarray(np.repeat(rows[:, None], 64, axis=1)).save(tmp_path / "deep.png")
    return tmp_path / "deep.png"


def greys(content: bytes) -> list[int]:
    with Image.open(io.BytesIO(content)) as image:
        grey = image.convert("L")
        return [grey.getpixel((grey.width // 2, grey.height * k // 4)) for k in (1, 3)]  # type: ignore[misc]


def test_zooms_thumbnails_and_attacks_show_sixteen_bits_a_pixel_as_they_are(deep: Path, tmp_path: Path) -> None:
    from titjudge.metrics.agent.looks import crop
    from titjudge.probes.battery import changed_image
    from titjudge.report.judged_images import Judged
    from titjudge.report.thumbnails import thumbnail

    shown = thumbnail(Judged(deep, (deep.stat().st_size, 0)), 64, 90)
    assert isinstance(shown, bytes)
    attacked = changed_image(deep, "recompressed", "prompt", tmp_path / "out").read_bytes()
    for content in (*crop(deep, [(0, 0, 1, 1)]), shown, attacked):
        assert greys(content) == pytest.approx([10_000 / 257, 50_000 / 257], abs=4)


def test_an_attacked_picture_is_turned_as_its_tag_says(tmp_path: Path) -> None:
    from titjudge.probes.battery import changed_image

    exif = Image.Exif()
    exif[0x0112] = 6
    attacked = changed_image(image(tmp_path / "a.jpg", exif=exif), "recompressed", "prompt", tmp_path / "out")
    with Image.open(attacked) as shown:
        assert shown.size == (30, 40)


def test_large_pictures_wait_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_decoding, "_pixel_limit", image_decoding._PixelLimit(1_000_000))
    out = io.BytesIO()
    Image.new("L", (700, 700)).save(out, "PNG")
    open_now, most, lock, pair = 0, 0, threading.Lock(), threading.Barrier(2)

    def look(_: int) -> None:
        nonlocal open_now, most
        with open_image(out.getvalue(), Path("a.png")) as shown:
            with lock:
                open_now += 1
                most = max(most, open_now)
            shown.load()
            pair.wait(60)  # there is room for two
            with lock:
                open_now -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(look, range(16)))
    assert most == 2


def test_a_picture_of_more_pixels_than_are_ever_decoded_at_once_is_refused(tmp_path: Path) -> None:
    Image.new("1", (8000, 6251)).save(tmp_path / "wide.png")
    with pytest.raises(DataError, match="8000 x 6251 pixels, more than 50,000,000"):
        opened(tmp_path / "wide.png")


@pytest.mark.parametrize("name", ["noise.png", "turned.jpg", "packed.png"])
def test_pictures_are_read_hashed_and_encoded_aside_from_the_event_loop(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their bytes, not only by their pixels."""
    from titjudge.providers.hosted.base import _Encoded

    if name == "noise.png":
        Image.effect_noise((600, 600), 90).save(tmp_path / name, compress_level=0)
    elif name == "turned.jpg":
        exif = Image.Exif()
        exif[0x0112] = 6
        image(tmp_path / name).unlink()
        Image.new("RGB", (500, 500)).save(tmp_path / name, exif=exif)
    else:
        text = PngInfo()
        text.add_text("key", "a" * 900_000, zip=True)
        image(tmp_path / name, pnginfo=text)
    threads: dict[str, list[str]] = {}

    def noting(kind: str, work: Any) -> Any:
        def noted(*args: Any, **more: Any) -> Any:
            threads.setdefault(kind, []).append(threading.current_thread().name)
            return work(*args, **more)

        return noted

    monkeypatch.setattr(images, "inspect", noting("inspect", images.inspect))
    monkeypatch.setattr(Pixels, "load", noting("decode", Pixels.load))
    if name != "packed.png":
        monkeypatch.setattr("titjudge.providers.hosted.base._base64", noting("encode", base64.b64encode))
    if name == "noise.png":
        monkeypatch.setattr(images, "_hashed", noting("hash", images._hashed))

    async def send() -> None:
        await _Encoded(1).get(await ImageFiles().open(tmp_path / name))

    asyncio.run(send())
    assert threads
    assert all("MainThread" not in names for names in threads.values()), threads


def test_no_piece_of_the_work_on_a_large_picture_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding and base64 keep other threads, the event loop's among them, waiting while a piece is worked on."""
    from titjudge.providers.hosted import base

    raw = bytes(range(256)) * 20_000
    pieces: list[int] = []
    monkeypatch.setattr(base, "b64encode", lambda piece: pieces.append(len(piece)) or base64.b64encode(piece))
    assert base._base64(raw) == base64.b64encode(raw)
    assert max(pieces) < 2**20
    out = io.BytesIO()
    Image.new("RGB", (3000, 3000)).save(out, "PNG")
    given: list[int] = []
    real = Image._getdecoder

    class Noting:
        def __init__(self, decoder: Any) -> None:
            self._decoder = decoder

        def __getattr__(self, name: str) -> Any:
            return getattr(self._decoder, name)

        def decode(self, data: bytes) -> Any:
            given.append(len(data))
            return self._decoder.decode(data)

    monkeypatch.setattr(Image, "_getdecoder", lambda *args: Noting(real(*args)))
    with open_image(out.getvalue(), Path("a.png")) as picture:
        picture.load()
    assert given
    assert max(given) < 2**14


@pytest.fixture
def large_webp(tmp_path: Path) -> Path:
    file = tmp_path / "large.webp"
    Image.new("RGB", (1200, 1000), (9, 8, 7)).save(file)
    return file


def test_a_large_webp_is_decoded_in_another_process(large_webp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its decoder lets no other thread of this one run."""
    here = image_decoding.inspect(large_webp.read_bytes(), large_webp)
    monkeypatch.setattr(images, "inspect", None)
    picture = opened(large_webp)
    assert (picture.sha256, picture.media_type, picture.width) == (here["sha256"], "image/webp", 1200)
    large_webp.write_bytes(large_webp.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"large\.webp: the file .* or is not an image"):
        opened(large_webp)
    avif = large_webp.with_suffix(".avif")
    Image.new("RGB", (1200, 1000), (9, 8, 7)).save(avif)
    monkeypatch.setattr(images, "as_png", None)
    picture = opened(avif)
    assert picture.media_type == "image/png"
    with Image.open(io.BytesIO(picture.load())) as sent:
        assert (sent.format, sent.size) == ("PNG", (1200, 1000))


def test_a_large_png_is_decoded_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Giving back its memory would stop the event loop."""
    jobs: list[str] = []
    monkeypatch.setattr(image_process, "call", lambda job, raw, path: jobs.append(job) or b"{}")
    for side, asked in ((2048, []), (2049, ["inspect"])):
        file = tmp_path / f"{side}.png"
        Image.new("1", (side, side)).save(file)
        images._inspected(file.read_bytes(), file, "", decode=True)
        assert jobs == asked


def test_where_no_process_can_be_started_the_work_is_done_here(
    large_webp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_process.close()
    monkeypatch.setattr(image_process, "_CODE", "raise SystemExit")
    assert opened(large_webp).width == 1200
    monkeypatch.setattr(image_process.sys, "executable", "/nowhere/python")  # type: ignore[attr-defined]
    assert opened(large_webp).width == 1200
    assert image_process._running == []


@pytest.mark.parametrize(("mode", "most"), [("I", 255), ("I", 65_535), ("I;16", 65_535), ("F", 1.0), ("F", 255.0)])
def test_a_grey_image_of_many_bits_keeps_its_brightness(tmp_path: Path, mode: str, most: float) -> None:
    kind = {"I": np.int32, "I;16": np.uint16, "F": np.float32}[mode]
    ramp = np.tile(np.linspace(0, most, 256), (8, 1)).astype(kind)
    Image.fromarray(ramp).save(tmp_path / "ramp.tif")
    with open_image((tmp_path / "ramp.tif").read_bytes(), tmp_path / "ramp.tif") as image:
        assert image.mode == mode
        shown = np.asarray(upright(image)).astype(int)
    assert abs(shown - np.arange(256)).max() <= 1
    assert (shown[0, 0], shown[0, -1]) == (0, 255)


@pytest.mark.parametrize(
    "values", [[0, 70_000], [-1, 255], [-1.0, 1.0], [0.0, 256.0], [0.0, float("nan")], [0.0, float("inf")]]
)
def test_grey_values_outside_of_what_is_read_are_refused_and_never_black(tmp_path: Path, values: list[float]) -> None:
    whole = all(isinstance(value, int) for value in values)
    Image.fromarray(np.array([values] * 4, dtype=np.int32 if whole else np.float32)).save(tmp_path / "odd.tif")
    with pytest.raises(DataError, match=r"odd\.tif: the image has grey values from"):
        inspect((tmp_path / "odd.tif").read_bytes(), tmp_path / "odd.tif")


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("size", [(40, 30), (900, 700)])
@pytest.mark.parametrize("alpha", [0, 128, 254, 255])
def test_what_is_transparent_is_sent_on_white(tmp_path: Path, kind: str, size: tuple[int, int], alpha: int) -> None:
    path = tmp_path / "a.img"
    Image.new("RGBA", size, (200, 0, 0, alpha)).save(
        path, kind, **({"lossless": True, "exact": True} if kind == "WEBP" else {})
    )
    sent = opened(path)
    if alpha == 255 and kind != "TIFF":
        assert sent.load() == path.read_bytes()
    assert hashlib.sha256(sent.load()).hexdigest() == sent.sha256
    with Image.open(io.BytesIO(sent.load())) as seen:
        white = 255 - alpha
        assert seen.convert("RGB").getpixel((3, 3)) == pytest.approx([white + 200 * alpha / 255, white, white], abs=1)
    with Image.open(io.BytesIO(images.scaled(path.read_bytes(), path, (20, 15)))) as small:
        assert small.mode == "RGB"


def test_sixteen_bits_a_pixel_are_sent_as_eight(deep: Path) -> None:
    sent = opened(deep)
    assert greys(sent.load()) == pytest.approx([10_000 / 257, 50_000 / 257], abs=1)
    assert (sent.media_type, sent.width, sent.height) == ("image/png", 64, 64)
