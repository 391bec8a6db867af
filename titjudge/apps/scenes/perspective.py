"""A camera: where points of a scene with depth are in the image, and how large things look there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]  # (..., 3)


@dataclass(frozen=True, slots=True)
class Camera:
    """A camera that looks at the middle of a scene (x to the right, y up, z away from it).

    Attributes:
        turn: Degrees around the vertical; a scene seen from its left has a positive turn.
        tilt: Degrees that it looks down.
        distance: From the middle, in the units of the scene.
    """

    turn: float
    tilt: float
    distance: float

    def project(self, points: Points) -> Points:
        """Return x to the right, y down, and how large things look; 1 at the middle of the scene."""
        x, y, z = np.moveaxis(points, -1, 0)
        turn, tilt = math.radians(self.turn), math.radians(self.tilt)
        x, z = x * math.cos(turn) - z * math.sin(turn), x * math.sin(turn) + z * math.cos(turn)
        y, z = y * math.cos(tilt) + z * math.sin(tilt), z * math.cos(tilt) - y * math.sin(tilt)
        scale = self.distance / (self.distance + z)
        return np.stack([x * scale, -y * scale, scale], axis=-1)
