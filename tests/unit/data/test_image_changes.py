"""What an edit changed: shares and similarities that are known, outside masks of both kinds."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from titjudge.core.errors import DataError
from titjudge.data.image_changes import edit_pixels


def _saved(path: Path, array: object) -> Path:
    Image.fromarray(np.asarray(array)).save(path)
    return path


@pytest.fixture
def photo() -> np.ndarray:
    """Waves and noise, 48 x 64."""
    rows, columns = np.mgrid[:48, :64]
    waves = np.stack([np.sin(rows / 5), np.cos(columns / 7), np.sin((rows + columns) / 9)], axis=2)
    noise = np.random.default_rng(0).normal(0, 8, waves.shape)
    return np.clip(128 + 90 * waves + noise, 0, 255).astype(np.uint8)


def _edited(photo: np.ndarray) -> np.ndarray:
    """A quarter of the picture is another: its upper left."""
    edited = photo.copy()
    edited[:24, :32] = 255 - edited[:24, :32] // 4
    return edited


def test_what_is_changed_is_counted_and_the_rest_is_kept(tmp_path: Path, photo: np.ndarray) -> None:
    source, result = _saved(tmp_path / "s.png", photo), _saved(tmp_path / "r.png", _edited(photo))
    pixels = edit_pixels(source, result)
    expected = np.abs(photo.astype(int) - _edited(photo)).max(axis=2)
    assert pixels.kept() == pytest.approx(np.mean(expected <= 24))
    assert 0.75 <= pixels.kept() < 0.80
    assert pixels.l1() == pytest.approx(np.abs(photo / 255 - _edited(photo) / 255).mean())
    same = edit_pixels(source, source)
    assert (same.kept(0), same.l1(), same.ssim()) == (1, 0, pytest.approx(1))


def test_a_threshold_is_the_last_difference_that_counts_as_none(tmp_path: Path) -> None:
    source = _saved(tmp_path / "s.png", np.full((16, 16, 3), 100, np.uint8))
    for difference, kept in ((24, 1), (25, 0)):
        changed = np.full((16, 16, 3), 100, np.uint8)
        changed[:, :, 1] -= difference
        assert edit_pixels(source, _saved(tmp_path / "r.png", changed)).kept() == kept


def test_the_similarity_is_that_of_the_formula_computed_window_by_window(tmp_path: Path, photo: np.ndarray) -> None:
    source, result = _saved(tmp_path / "s.png", photo), _saved(tmp_path / "r.png", _edited(photo))
    weights = np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    window = np.outer(weights, weights) / weights.sum() ** 2
    first, second = (array @ np.array([0.299, 0.587, 0.114]) for array in (photo, _edited(photo)))
    found = []
    for row in range(48 - 10):
        for column in range(64 - 10):
            a, b = (array[row : row + 11, column : column + 11] for array in (first, second))
            mean_a, mean_b = (window * a).sum(), (window * b).sum()
            var_a, var_b = (window * (a - mean_a) ** 2).sum(), (window * (b - mean_b) ** 2).sum()
            covariance = (window * (a - mean_a) * (b - mean_b)).sum()
            c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
            found.append(
                (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
                / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
            )  # fmt: skip
    assert edit_pixels(source, result).ssim() == pytest.approx(np.mean(found), abs=1e-5)


def test_the_similarity_is_that_of_scikit_image(tmp_path: Path, photo: np.ndarray) -> None:
    metrics = pytest.importorskip("skimage.metrics")
    grey, other = (array.mean(axis=2).astype(np.uint8) for array in (photo, _edited(photo)))
    source, result = _saved(tmp_path / "s.png", grey), _saved(tmp_path / "r.png", other)
    reference = metrics.structural_similarity(
        grey, other, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=255
    )
    assert edit_pixels(source, result).ssim() == pytest.approx(reference, abs=1e-4)


@pytest.mark.parametrize("kind", ["white", "transparent", "small"])
def test_inside_the_mask_anything_may_change(tmp_path: Path, photo: np.ndarray, kind: str) -> None:
    source, result = _saved(tmp_path / "s.png", photo), _saved(tmp_path / "r.png", _edited(photo))
    region = np.zeros((48, 64), np.uint8)
    region[:24, :32] = 255
    if kind == "transparent":  # as in MagicBrush: the source, without the region
        region = np.dstack([photo, 255 - region])
    elif kind == "small":
        region = region[::2, ::2]
    mask = _saved(tmp_path / "m.png", region)
    pixels = edit_pixels(source, result, mask)
    assert (pixels.kept(0), pixels.l1(), pixels.outside.mean()) == (1, 0, 0.75)
    assert pixels.ssim() == pytest.approx(1)


def test_what_cannot_be_compared_has_a_reason_and_no_number(tmp_path: Path, photo: np.ndarray) -> None:
    source = _saved(tmp_path / "s.png", photo)
    with pytest.raises(DataError, match="of the same shape"):
        edit_pixels(source, _saved(tmp_path / "r.png", photo[:, :48]))
    with pytest.raises(DataError, match="neither black and white nor"):
        edit_pixels(source, source, source)
    with pytest.raises(DataError, match="covers the whole image"):
        edit_pixels(source, source, _saved(tmp_path / "m.png", np.full((48, 64), 255, np.uint8)))
    tiny = _saved(tmp_path / "tiny.png", photo[:9, :12])
    with pytest.raises(DataError, match="too few pixels"):
        edit_pixels(tiny, tiny).ssim()


def test_a_result_of_another_size_is_scaled_to_that_of_the_source(tmp_path: Path, photo: np.ndarray) -> None:
    source = _saved(tmp_path / "s.png", photo)
    larger = Image.fromarray(photo).resize((128, 96), Image.Resampling.BICUBIC)
    pixels = edit_pixels(source, _saved(tmp_path / "r.png", larger))
    assert pixels.resized
    assert pixels.after.shape == (48, 64, 3)
    assert pixels.kept() > 0.95


def test_runs_of_a_mask_are_decoded_in_a_grid_whose_border_may_change(tmp_path: Path) -> None:
    """`mask_decode` of PIE-Bench; at other sizes the nearest pixel of the grid counts."""
    Image.new("RGB", (512, 512)).save(tmp_path / "source.png")
    Image.new("RGB", (512, 512)).save(tmp_path / "result.png")
    outside = edit_pixels(
        tmp_path / "source.png", tmp_path / "result.png", [512 * 10 + 20, 30, 512 * 511, 9_999]
    ).outside
    expected = np.ones((512, 512), bool)
    expected[10, 20:50] = False
    expected[[0, -1], :] = expected[:, [0, -1]] = False
    assert np.array_equal(outside, expected)
    with pytest.raises(DataError, match="covers the whole image"):
        edit_pixels(tmp_path / "source.png", tmp_path / "result.png", [0, 512 * 512])


def test_a_background_that_an_edit_made_transparent_has_changed(tmp_path: Path, photo: np.ndarray) -> None:
    """Its colours are still there, but nobody sees them."""
    source = _saved(tmp_path / "s.png", photo)
    alpha = np.full(photo.shape[:2], 255, np.uint8)
    alpha[:24] = 0
    result = edit_pixels(source, _saved(tmp_path / "r.png", np.dstack([photo, alpha])))
    assert (result.after[:24] == 255).all()
    assert (result.after[24:] == result.before[24:]).all()
