"""The changes of an edit: the result compared with its source, pixel by pixel, outside the region that may change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.data.image_decoding import eight_bits, on_white, open_image, upright
from titjudge.data.images import read

Mask = Path | Sequence[int]
"""The region that an edit may change: an image of it, or runs of pixels."""
THRESHOLD = 24
"""Of 255 levels of a colour: difference up to which a pixel counts as unchanged, because of JPEG and resizing."""
_SIGMA, _RADIUS, _C1, _C2 = 1.5, 5, (0.01 * 255) ** 2, (0.03 * 255) ** 2  # as in the paper on SSIM
_OTHER_SHAPE = 0.02  # by which two ratios of width and height may differ where sizes are rounded
_GRID = 512  # pixels of a side of PIE-Bench's masks
_TWO_COLOURS = 0.99  # share of black and white pixels from which an image is a mask, and not a picture
_at_once = threading.BoundedSemaphore(4)  # each comparison takes about 30 bytes a pixel


@dataclass(frozen=True, slots=True)
class EditPixels:
    """A source and its result at the size of the source.

    Attributes:
        before: The source: array of uint8, shape (height, width, 3), RGB.
        after: The result, likewise.
        outside: Which pixels should stay as they are: array of bool, shape (height, width).
        resized: Whether the result had another size.
    """

    before: Any
    after: Any
    outside: Any
    resized: bool

    def differences(self) -> Any:
        """Compute the largest difference of a pixel's three colours: array of uint8, shape (height, width)."""
        import numpy as np

        return (np.maximum(self.before, self.after) - np.minimum(self.before, self.after)).max(axis=2)

    def kept(self, threshold: int = THRESHOLD) -> float:
        """Compute the share of the pixels outside the mask, 0 to 1, that differ by at most `threshold` of 255 levels."""
        return float((self.differences() <= threshold)[self.outside].mean())

    def l1(self) -> float:
        """Compute the mean absolute difference of the colours outside the mask, 0 to 1."""
        import numpy as np

        difference = np.abs(self.before.astype(np.int16) - self.after)
        return float(difference[self.outside].mean()) / 255

    def ssim(self) -> float:
        """Compute the mean structural similarity of the luminance outside the mask, -1 to 1 (Wang et al. 2004).

        Gaussian window of 11 x 11 pixels with sigma 1.5, K1 = 0.01, K2 = 0.03, at the pixels that a whole window
        surrounds; the image is not scaled down before. Masked pixels count as unchanged, so that windows that reach into
        the mask show no change there.

        Raises:
            DataError: The image is smaller than a window, or no such pixel lies outside the mask.
        """
        import numpy as np

        inner = self.outside[_RADIUS:-_RADIUS, _RADIUS:-_RADIUS]
        if not inner.any():
            raise DataError("too few pixels are outside the mask: SSIM needs windows of 11 x 11. Make the mask smaller")
        after = np.where(self.outside[:, :, None], self.after, self.before)
        ssim = _ssim(_luminance(self.before), _luminance(after))
        return float(ssim[_RADIUS:-_RADIUS, _RADIUS:-_RADIUS][inner].mean())


def edit_pixels(source: Path, result: Path, mask: Mask | None = None) -> EditPixels:
    """Read a source and its result, and scale the result to the size of the source (bicubic).

    Args:
        source: The image that was edited.
        result: The edited image.
        mask: An image of the region that may change: black and white, where white may change; or partly transparent, as
            in MagicBrush, where transparent pixels may; or, as PIE-Bench has it, its runs [start, length, ...] in a grid
            of 512 x 512, to which the grid's border belongs.

    Raises:
        DataError: One cannot be read, the shape of the result differs from the source, or the mask is not a mask or
            leaves nothing.
    """
    import numpy as np
    from PIL import Image

    before, after = _opened(source), _opened(result)
    ratio = (after.width / after.height) / (before.width / before.height)
    if abs(ratio - 1) > _OTHER_SHAPE:
        sizes = f"{after.width} x {after.height} pixels and the source {before.width} x {before.height}"
        raise DataError(f"the result has {sizes}. Give images of the same shape to compare pixels")
    resized = after.size != before.size
    if resized:
        after = after.resize(before.size, Image.Resampling.BICUBIC)
    outside = np.ones(before.size[::-1], bool) if mask is None else _outside(mask, before.size)
    return EditPixels(np.asarray(before), np.asarray(after), outside, resized)


def measured(
    source: Path, result: Path, mask: Mask | None, measure: Callable[[EditPixels], float]
) -> tuple[float, EditPixels]:
    """Apply `measure` to the pixels of an edit, few edits at a time; returns its value and the pixels.

    Raises:
        DataError: As `edit_pixels` and the measure.
    """
    with _at_once:
        pixels = edit_pixels(source, result, mask)
        return measure(pixels), pixels


def _opened(path: Path) -> Any:
    with open_image(read(path), path) as image:
        try:
            return on_white(upright(image)).convert("RGB")
        except (OSError, SyntaxError) as error:
            raise DataError("the file is truncated or cannot be decoded. Save it again", path) from error


def _outside(mask: Mask, size: tuple[int, int]) -> Any:
    import numpy as np
    from PIL import Image

    stays, path = (_stays_by_image(mask), mask) if isinstance(mask, Path) else (_stays_by_runs(mask), None)
    outside = np.asarray(Image.fromarray(stays).resize(size, Image.Resampling.NEAREST))
    if not outside.any():
        raise DataError("the mask covers the whole image. Cover only the part to edit", path)
    return outside


def _stays_by_runs(runs: Sequence[int]) -> Any:
    """Decode runs of pixels that may change (`mask_decode` of PIE-Bench, evaluation/evaluate.py); True where nothing may."""
    import numpy as np

    may_change = np.zeros(_GRID * _GRID, bool)
    for start, length in zip(runs[::2], runs[1::2], strict=False):
        may_change[start : start + length] = True
    stays = ~may_change.reshape(_GRID, _GRID)
    stays[[0, -1], :] = stays[:, [0, -1]] = False
    return stays


def _stays_by_image(mask: Path) -> Any:
    """Read the image of a region that may change; True where nothing may."""
    import numpy as np

    with open_image(read(mask), mask) as image:
        plain = upright(image)
    transparent = plain.mode == "RGBA" and plain.getchannel("A").getextrema()[0] < 128
    grey = np.asarray(plain.getchannel("A") if transparent else eight_bits(plain.convert("L")))
    if not transparent and np.mean((grey < 32) | (grey > 223)) < _TWO_COLOURS:
        raise DataError("the mask is neither black and white nor partly transparent. Save it as one of these", mask)
    return grey >= 128 if transparent else grey < 128


def _luminance(rgb: Any) -> Any:
    """Compute the luminance as Rec. 601 has it, 0 to 255: array of float32."""
    import numpy as np

    return (rgb @ np.array([0.299, 0.587, 0.114], np.float32)).astype(np.float32)


def _ssim(first: Any, second: Any) -> Any:
    """Compute SSIM at each pixel of two arrays of luminance."""
    import numpy as np
    from scipy.ndimage import gaussian_filter

    def mean(values: Any) -> Any:
        return gaussian_filter(values.astype(np.float64), _SIGMA, radius=_RADIUS)

    a, b = mean(first), mean(second)
    variances = mean(first.astype(np.float64) ** 2) - a * a + mean(second.astype(np.float64) ** 2) - b * b
    covariance = mean(first.astype(np.float64) * second) - a * b
    return ((2 * a * b + _C1) * (2 * covariance + _C2)) / ((a * a + b * b + _C1) * (variances + _C2))
