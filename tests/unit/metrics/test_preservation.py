"""Preservation of an edit: nothing is asked, the mask of the data counts, and what cannot be compared has no score."""

from dataclasses import replace
from pathlib import Path

import pytest
from builders import png
from PIL import Image, ImageDraw

from titjudge.core.types import Item, Status
from titjudge.metrics.preservation import preservation, preservation_l1, preservation_ssim
from titjudge.testing import score_one


@pytest.fixture
def edit(tmp_path: Path) -> Item:
    """A square of 32 whose left half turned from red to blue."""
    source = png(tmp_path / "before.png", (255, 0, 0), 32)
    with Image.open(source) as image:
        image.paste((0, 0, 255), (0, 0, 16, 32))
        image.save(tmp_path / "after.png")
    return Item("after.png", "make the left half blue", tmp_path / "after.png", sources=(source,))


def test_the_share_that_stayed_is_the_score_and_no_model_is_asked(edit: Item) -> None:
    kept = score_one(preservation, edit)
    assert (kept.score.value, kept.requests) == (0.5, [])
    assert score_one(preservation_l1, edit).score.value == pytest.approx(1 / 3)
    assert 0.4 < float(score_one(preservation_ssim, edit).score.value or 0) < 0.8


def test_inside_the_mask_of_the_data_anything_may_change(edit: Item, tmp_path: Path) -> None:
    mask = Image.new("L", (32, 32))
    mask.paste(255, (0, 0, 16, 32))
    mask.save(tmp_path / "mask.png")
    masked = replace(edit, meta={"mask": str(tmp_path / "mask.png")})
    score = score_one(preservation, masked).score
    assert (score.value, score.parts) == (1, {"outside": 0.5, "resized": False})


def test_a_threshold_is_an_option(edit: Item) -> None:
    assert score_one(preservation.configured({"threshold": "254"}), edit).score.value == 0.5
    png(edit.sources[0], (240, 0, 15), 32)
    assert score_one(preservation.configured({"threshold": "0"}), edit).score.value == 0


@pytest.mark.parametrize(("outlines", "least", "most"), [(0, 0.9995, 1), (4, 0.95, 0.995)])
def test_jpeg_alone_counts_as_a_change_at_hard_edges(tmp_path: Path, outlines: int, least: float, most: float) -> None:
    image = Image.linear_gradient("L").convert("RGB")
    for at in range(outlines):
        ImageDraw.Draw(image).ellipse((8 * at, 8 * at, 8 * at + 40, 8 * at + 40), "red", "blue")
    image.save(tmp_path / "before.png")
    image.save(tmp_path / "after.jpg", quality=75)
    edit = Item("after.jpg", "leave it", tmp_path / "after.jpg", sources=(tmp_path / "before.png",))
    assert least <= float(score_one(preservation, edit).score.value or 0) <= most


@pytest.mark.parametrize("kind", ["no source", "two sources", "of the same shape", "no image"])
def test_what_cannot_be_compared_has_no_score(edit: Item, tmp_path: Path, kind: str) -> None:
    odd = {
        "no source": replace(edit, sources=()),
        "two sources": replace(edit, sources=(*edit.sources, edit.sources[0])),
        "of the same shape": edit,
        "no image": edit,
    }[kind]
    if kind == "of the same shape":
        Image.new("RGB", (40, 20)).save(tmp_path / "after.png")
    elif kind == "no image":
        (tmp_path / "after.png").write_bytes(b"none")
    for each in (preservation, preservation_l1, preservation_ssim):
        score = score_one(each, odd).score
        assert (score.value, score.status) == (None, Status.BAD_INPUT)


@pytest.mark.parametrize("mask", [[1], [1, -2], [1.5, 2], ["1", 2], {"a": 1}])
def test_what_is_no_mask_is_no_score(edit: Item, mask: object) -> None:
    score = score_one(preservation, replace(edit, meta={"mask": mask})).score
    assert (score.value, score.status) == (None, Status.BAD_INPUT)
    assert "runs of pixels" in score.reason
