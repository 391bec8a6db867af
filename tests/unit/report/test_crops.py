"""Crops where claims were settled: small, of the judged image alone, and within the room that a report has."""

import base64
import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from titjudge.report.crops import EDGE, MOST, ClaimCrops
from titjudge.report.judged_images import Judged


@pytest.fixture
def judged(tmp_path: Path) -> Judged:
    image = Image.new("RGB", (1000, 500), (0, 0, 255))
    image.paste((255, 0, 0), (500, 250, 600, 350))
    image.save(tmp_path / "image.png")
    raw = (tmp_path / "image.png").read_bytes()
    return Judged(tmp_path / "image.png", None, None, frozenset({hashlib.sha256(raw).hexdigest()}))


def claim(number: int, verdict: str = "not_met", place: Any = (0.5, 0.5, 0.6, 0.7), **more: Any) -> dict[str, Any]:
    return {"number": number, "claim": "x", "verdict": verdict, "place": place, **more}


def opened(crop: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(crop))).convert("RGB")


def test_a_crop_shows_the_place_with_some_of_what_is_around_it(judged: Judged) -> None:
    crops, crop_of = ClaimCrops().of_claims({"claims": [claim(3)]}, judged)
    image = opened(crops[crop_of[3]])
    assert max(image.size) <= EDGE
    red = image.getpixel((image.width // 2, image.height // 2))
    blue = image.getpixel((2, 2))
    assert red[0] > 200 > blue[0]
    assert blue[2] > 200 > red[2]


def test_claims_of_one_place_share_a_crop_and_claims_that_are_not_met_come_first(judged: Judged) -> None:
    corner = (0, 0, 0.1, 0.1)
    rows = [claim(1, "met", corner), claim(2), claim(3), claim(4, "met"), claim(5, "met", place=None)]
    crops, crop_of = ClaimCrops().of_claims({"claims": rows}, judged)
    assert (len(crops), crop_of) == (2, {2: 0, 3: 0, 4: 0, 1: 1})
    many = [claim(n, "met", place=(0.05 * n, 0, 0.05 * n + 0.1, 0.2)) for n in range(MOST)]
    assert ClaimCrops().of_claims({"claims": [*many, claim(99)]}, judged)[1][99] == 0


def test_an_image_that_is_not_the_judged_one_is_not_shown(judged: Judged) -> None:
    assert judged.path is not None
    Image.new("RGB", (10, 10)).save(judged.path)
    assert ClaimCrops().of_claims({"claims": [claim(1)]}, judged) == ([], {})
    judged.path.unlink()
    assert ClaimCrops().of_claims({"claims": [claim(1)]}, judged) == ([], {})
    assert ClaimCrops().of_claims({"claims": [claim(1)]}, None) == ([], {})


@pytest.mark.parametrize("place", [None, [], [0, 0, 1], [0, 0, 2, 1], [0.5, 0, 0.5, 1], ["a", 0, 1, 1], [float("nan"), 0, 1, 1], "0011"])  # fmt: skip
def test_what_is_no_place_has_no_crop(place: Any, judged: Judged) -> None:
    assert ClaimCrops().of_claims({"claims": [claim(1, place=place)]}, judged) == ([], {})


def test_crops_of_an_image_and_of_a_report_are_bounded(judged: Judged) -> None:
    rows = [claim(n, place=(0.05 * n, 0, 0.05 * n + 0.1, 0.2)) for n in range(MOST + 4)]
    crops, crop_of = ClaimCrops().of_claims({"claims": rows}, judged)
    assert len(crops) == len(crop_of) == MOST
    small = ClaimCrops(room=10)
    assert small.of_claims({"claims": rows}, judged)[0]
    assert small.of_claims({"claims": rows}, judged) == ([], {})
