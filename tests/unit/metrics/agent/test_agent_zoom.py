"""Zooming: boxes as models give them, crops as they are sent."""

import asyncio
import io
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from titjudge.core.errors import DataError
from titjudge.metrics.agent.looks import SMALLEST, Box, Crops, crop, fit_box


def gradient(path: Path, size: tuple[int, int] = (200, 100)) -> Path:
    image = Image.new("RGB", size)
    image.putdata([(x % 256, y % 256, 7) for y in range(size[1]) for x in range(size[0])])
    image.save(path)
    return path


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


@pytest.mark.parametrize(
    ("box", "problem"),
    [
        ([], "four numbers"),
        ([0, 0, 1], "four numbers"),
        ([0, 0, 1, 1, 1], "four numbers"),
        ([0, 0, math.nan, 1], "four numbers"),
        ([0, 0, math.inf, 1], "four numbers"),
        ([100, 200, 300, 400], "outside"),
        ([-0.5, 0, 0.5, 1], "outside"),
        ([0.2, 0.2, 0.2, 0.9], "empty"),
        ([0.9, 0.2, 0.2, 0.9], "empty"),
        ([1.0, 0, 1.04, 1], "empty"),
        ([0.2, 0.2, 0.21, 0.9], "too small"),
    ],
)
def test_boxes_that_show_nothing_are_refused(box: list[float], problem: str) -> None:
    found = fit_box(box)
    assert found.box is None
    assert problem in found.problem


def test_a_box_a_little_outside_is_moved_to_the_edge() -> None:
    assert fit_box([-0.04, 0.5, 0.5, 1.05]).box == (0, 0.5, 0.5, 1)
    assert fit_box([-0.04, 0.5, 0.5, 1.05]).clamped
    assert not fit_box([0, 0.5, 0.5, 1]).clamped


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=6))
def test_a_box_is_inside_the_image_or_there_is_none(box: list[float]) -> None:
    found = fit_box(box)
    assert (found.box is None) == bool(found.problem)
    if found.box is not None:
        left, top, right, bottom = found.box
        assert 0 <= left < right <= 1
        assert 0 <= top < bottom <= 1
        assert right - left >= SMALLEST


def test_a_crop_of_a_large_picture_keeps_every_pixel(tmp_path: Path) -> None:
    Image.new("RGB", (3000, 2000)).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        image.putpixel((1500, 200), (9, 8, 7))
        image.save(tmp_path / "a.png")
    part = opened(*crop(tmp_path / "a.png", [(0.5, 0.1, 1, 0.9)]))
    assert part.size == (1500, 1600)
    assert part.getpixel((0, 0)) == (9, 8, 7)


@pytest.mark.parametrize(
    ("whole", "box", "size"),
    [
        ((768, 768), (0, 0, 0.3, 0.4), (576, 768)),  # to the longer side of the image
        ((768, 768), (0, 0, 0.1, 0.1), (308, 308)),  # at most fourfold
        ((2000, 2000), (0, 0, 0.4, 0.3), (1024, 768)),  # to 1,024
        ((2000, 2000), (0, 0, 0.6, 0.3), (1200, 600)),  # larger than that: as it is
        ((1024, 256), (0, 0, 0.25, 1), (512, 512)),  # never more pixels than the image has
        ((200, 100), (0, 0, 0.5, 1), (141, 141)),
        ((200, 100), (0, 0, 0.05, 0.1), (64, 64)),  # but 64 in any case
        ((1, 3), (0.4, 0, 0.5, 1), (64, 192)),
    ],
)
def test_a_crop_is_enlarged_towards_the_size_of_the_image(
    tmp_path: Path, whole: tuple[int, int], box: Box, size: tuple[int, int]
) -> None:
    Image.new("L", whole).save(tmp_path / "a.png")
    assert opened(*crop(tmp_path / "a.png", [box])).size == size


def test_a_picture_on_its_side_is_turned_first(tmp_path: Path) -> None:
    image = Image.open(gradient(tmp_path / "a.png"))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.png", exif=exif)
    assert opened(*crop(tmp_path / "turned.png", [(0, 0, 1, 1)])).size == (100, 200)


@pytest.mark.parametrize("mode", ["P", "L", "CMYK", "RGBA", "I;16", "1"])
def test_any_kind_of_picture_can_be_cut(tmp_path: Path, mode: str) -> None:
    file = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    Image.new(mode, (100, 100)).save(file)
    assert opened(*crop(file, [(0, 0, 1, 1)])).mode in ("L", "RGB", "RGBA")


def test_what_is_no_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("not an image")
    with pytest.raises(DataError, match="not an image"):
        crop(tmp_path / "a.png", [(0, 0, 1, 1)])
    with pytest.raises(DataError, match="no such image"):
        crop(tmp_path / "b.png", [(0, 0, 1, 1)])


def test_crops_are_named_by_content_and_gone_at_the_end(tmp_path: Path) -> None:
    source = gradient(tmp_path / "a.png")

    async def work() -> list[Path]:
        with Crops() as crops:
            boxes = [(0.0, 0.0, 0.5, 0.5), (0.0, 0.0, 0.5, 0.5), (0.5, 0.5, 1.0, 1.0)]
            files = [file for (file,) in await asyncio.gather(*(crops.cut(source, [box]) for box in boxes))]
            assert files == await crops.cut(source, boxes)
            assert all(file.is_file() for file in files)
            return files

    one, same, other = asyncio.run(work())
    assert one == same != other
    assert not one.exists()
    assert not one.parent.exists()


def test_crops_are_gone_after_an_error(tmp_path: Path) -> None:
    kept: list[Path] = []

    async def work() -> None:
        with Crops() as crops:
            kept.extend(await crops.cut(gradient(tmp_path / "a.png"), [(0, 0, 1, 1)]))
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        asyncio.run(work())
    assert not kept[0].exists()


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_a_box_that_is_extended_is_large_enough(sides: list[float]) -> None:
    left, right = sorted(sides[:2])
    top, bottom = sorted(sides[2:])
    fit = fit_box([left, top, right, bottom], grown=True)
    assert (fit.box is None) == (left == right or top == bottom)
