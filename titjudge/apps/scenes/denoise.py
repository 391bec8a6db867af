"""Remove the grain of a path-traced image by an edge-avoiding filter over the light without the surface colours.

The image is divided by the albedo, smoothed where neighbours have the same surface, direction and about the same
light, and multiplied again (the A-trous scheme: Dammertz et al., Edge-Avoiding A-Trous Wavelet Transform, 2010).
It is plain numpy, so the same pixels always give the same pixels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.float32]

_KERNEL = (1 / 16, 1 / 4, 3 / 8, 1 / 4, 1 / 16)
_STEPS = (1, 2, 4)
_DARK = 0.02  # added to the albedo before dividing
_LIGHT, _ALBEDO, _NORMAL = 0.35, 0.05, 0.12  # differences at which a neighbour counts little


def denoise(picture: Image, albedo: Image, normal: Image, samples: int) -> Image:
    """Return a smoothed copy of a rendered image in linear light.

    Args:
        picture: The image, (height, width, 3).
        albedo: The colour of the surface at each of its pixels, of the same shape.
        normal: The direction of the surface at each of its pixels, of the same shape.
        samples: Rays per pixel; the fewer, the larger the differences in light that count as grain.
    """
    light = _without_sparks(picture / (albedo + _DARK))
    guide = np.concatenate([albedo / _ALBEDO, normal / _NORMAL], axis=2).astype(np.float32)
    noise = _LIGHT * (16 / max(samples, 1)) ** 0.5
    for number, step in enumerate(_STEPS):
        light = _pass(light, guide, step, noise / 1.6**number)
    return (light * (albedo + _DARK)).astype(np.float32)


def _without_sparks(light: Image) -> Image:
    """Limit each pixel by the third brightest of its neighbours."""
    around = np.stack([_shifted(light, y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)])
    calm: Image = np.minimum(light, 1.15 * np.partition(around, -3, axis=0)[-3] + 0.02)
    return calm


def _pass(light: Image, guide: Image, step: int, noise: float) -> Image:
    total, weights = np.zeros_like(light), np.zeros(light.shape[:2], dtype=np.float32)
    tone = np.log(light.mean(axis=2) + 0.05) / noise
    for i, ky in enumerate(_KERNEL):
        for j, kx in enumerate(_KERNEL):
            y, x = (i - 2) * step, (j - 2) * step
            distance = ((_shifted(guide, y, x) - guide) ** 2).sum(axis=2) + (_shifted(tone, y, x) - tone) ** 2
            weight = (ky * kx * np.exp(-distance)).astype(np.float32)
            total += weight[..., None] * _shifted(light, y, x)
            weights += weight
    return total / weights[..., None]


def _shifted(image: Image, y: int, x: int) -> Image:
    """Shift the image by whole pixels, repeating its border."""
    height, width = image.shape[:2]
    rows = np.clip(np.arange(height) + y, 0, height - 1)
    columns = np.clip(np.arange(width) + x, 0, width - 1)
    return image[rows][:, columns]
