"""Files that are cut or damaged are refused, also where a PNG or a JPEG is known to be whole without being decoded."""

import hashlib
import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from titjudge.core.errors import DataError
from titjudge.data.image_decoding import (
    as_png,
    inspect,
    inspect_by_header,
    inspect_small,
    is_whole_png,
    quietly,
    without_pixels,
)

NOISE = np.random.default_rng(3).integers(0, 256, (18, 10, 4), np.uint8)
RGB = Image.fromarray(NOISE[:, :, :3])


def saved(image: Image.Image, format: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def with_thumbnail() -> bytes:
    """A JPEG that holds another one, with an end of its own, in its EXIF data."""
    inner = saved(RGB.resize((8, 8)), "JPEG")
    return saved(RGB, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0" + inner)


FILES = {
    "rgb.png": saved(RGB, "PNG"),
    "rgba.png": saved(Image.fromarray(NOISE), "PNG"),
    "grey.png": saved(RGB.convert("L"), "PNG"),
    "grey-alpha.png": saved(RGB.convert("LA"), "PNG"),
    "sixteen.png": saved(Image.fromarray(NOISE[:, :, 0].astype(np.uint16) * 257), "PNG"),
    "palette.png": saved(RGB.quantize(16), "PNG"),
    "bits.png": saved(RGB.convert("1"), "PNG"),
    "many-chunks.png": saved(Image.fromarray(np.tile(NOISE[:, :, :3], (2, 1, 1))), "PNG", compress_level=0),
    "rgb.jpg": saved(RGB, "JPEG"),
    "best.jpg": saved(RGB, "JPEG", quality=100, subsampling=0, optimize=True),
    "grey.jpg": saved(RGB.convert("L"), "JPEG"),
    "progressive.jpg": saved(RGB, "JPEG", progressive=True),
    "restarts.jpg": saved(RGB, "JPEG", restart_marker_blocks=1),
    "thumbnail.jpg": with_thumbnail(),
    "profile.jpg": saved(RGB, "JPEG", icc_profile=b"\xff\xd9" * 200, comment=b"\xff\xda\xff\xd9"),
}
WITHOUT_DECODING = ["rgb.png", "rgba.png", "grey.png", "grey-alpha.png", "sixteen.png", "many-chunks.png"]
WITHOUT_PIXELS = ["rgb.jpg", "best.jpg", "grey.jpg", "thumbnail.jpg", "profile.jpg"]


def decodes(raw: bytes) -> bool:
    """Tell whether the decoder takes the whole file."""
    try:
        with quietly(), Image.open(io.BytesIO(raw), formats=["PNG", "JPEG"]) as image:
            image.load()
    except Exception:
        return False
    return True


def is_refused(raw: bytes) -> bool:
    try:
        inspect(raw, Path("a.png"))
    except DataError:
        return True
    return False


@pytest.mark.parametrize("name", WITHOUT_DECODING)
def test_ordinary_files_need_no_decoding(name: str) -> None:
    assert is_whole_png(FILES[name])
    assert is_whole_png(FILES[name] + b"what is after the end")


@pytest.mark.parametrize("name", WITHOUT_PIXELS)
def test_ordinary_jpegs_are_decoded_without_their_pixels(name: str) -> None:
    short = without_pixels(FILES[name])
    assert short is not None
    assert len(short) < len(FILES[name])
    assert short == without_pixels(FILES[name] + b"what is after the end")
    with Image.open(io.BytesIO(short)) as opened:
        opened.load()
        assert opened.size == RGB.size


@pytest.mark.parametrize("name", ["progressive.jpg", "restarts.jpg", "rgb.png"])
def test_any_other_file_is_decoded_with_its_pixels(name: str) -> None:
    assert without_pixels(FILES[name]) is None


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_anywhere_is_refused_wherever_the_decoder_refuses_it(name: str) -> None:
    raw = FILES[name]
    for length in range(len(raw)):
        cut = raw[:length]
        assert not is_whole_png(cut), length
        assert without_pixels(cut) is None, length
        if not decodes(cut):
            assert is_refused(cut), length
    assert not is_refused(raw)


def damaged(raw: bytes, times: int) -> Iterator[bytes]:
    """The file with a byte changed, left out or put in, or a piece of it repeated or moved."""
    numbers = random.Random(hashlib.sha256(raw).digest())
    for _ in range(times):
        at, other, length = numbers.randrange(len(raw)), numbers.randrange(len(raw)), numbers.randrange(1, 40)
        yield raw[:at] + bytes([raw[at] ^ numbers.randrange(1, 256)]) + raw[at + 1 :]
        yield raw[:at] + raw[at + length :]
        yield raw[:at] + raw[other : other + length] + raw[at:]


@pytest.mark.parametrize("name", FILES)
def test_what_is_known_to_be_whole_the_decoder_takes(name: str) -> None:
    for raw in damaged(FILES[name], 400):
        whole = decodes(raw)
        assert whole or not is_whole_png(raw)
        if (short := without_pixels(raw)) is not None:
            assert decodes(short) == whole
        if not whole:
            assert is_refused(raw)


def test_an_image_that_may_have_to_be_turned_animated_or_large_is_decoded() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert not is_whole_png(saved(RGB, "PNG", exif=exif))
    assert not is_whole_png(saved(RGB, "PNG", save_all=True, append_images=[RGB.transpose(0)]))
    assert not is_whole_png(saved(Image.new("L", (2049, 2048)), "PNG"))
    turned = saved(RGB, "JPEG", exif=exif)
    facts = inspect_small(turned, Path("a.jpg"), "")
    assert facts is not None
    assert (facts["converted"], facts["width"]) == (True, 18)
    assert facts["sha256"] == hashlib.sha256(as_png(turned, Path("a.jpg"))).hexdigest()


@pytest.mark.parametrize("name", WITHOUT_PIXELS)
def test_an_ordinary_jpeg_is_inspected_by_its_header_as_it_would_be_by_its_pixels(name: str) -> None:
    raw = FILES[name]
    restarted = raw[:-2] + b"\xff\xd0\xff\xd9"  # which is decoded with its pixels
    by_header = inspect_by_header(raw, "0" * 64)
    assert by_header is not None
    assert inspect_by_header(restarted, "0" * 64) is None
    assert inspect(restarted, Path("a.jpg"), sha256="0" * 64) == by_header


def test_a_jpeg_that_is_converted_is_not_inspected_by_its_header() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for raw in (saved(RGB, "JPEG", exif=exif), saved(RGB.convert("CMYK"), "JPEG")):
        assert without_pixels(raw) is not None
        assert inspect_by_header(raw, "0" * 64) is None
