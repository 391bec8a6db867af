"""Triangle meshes of turned profiles, rings, ellipsoids and boxes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from titjudge.apps.scenes.shapes import Primitive

Mesh = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.uint32]]  # vertices, normals (n, 3); faces (m, 3)

_AROUND, _TUBE = 64, 32
_CREASE = math.cos(math.radians(40.0))  # profile corners sharper than this stay edges


def mesh(part: Primitive) -> Mesh:
    """Make the mesh of a part at its place in the scene."""
    if part.form == "lathe":
        vertices, normals, faces = _lathe(part.profile)
    elif part.form == "ring":
        vertices, normals, faces = _ring(part.size[0], part.size[1])
    elif part.form == "sphere":
        vertices, normals, faces = _ellipsoid(part.size)
    else:
        vertices, normals, faces = _box((part.size[0], 0.0, part.size[1]) if part.form == "face" else part.size)
    rotation = _rotation(part.turn, part.tilt)
    return vertices @ rotation.T + np.array(part.at), normals @ rotation.T, faces


def merged(parts: Iterable[Primitive]) -> Mesh:
    """Make one mesh of several parts."""
    vertices, normals, faces = zip(*map(mesh, parts), strict=True)
    starts = np.cumsum([0, *map(len, vertices[:-1])], dtype=np.uint32)
    shifted = [face + start for face, start in zip(faces, starts, strict=True)]
    return np.concatenate(vertices), np.concatenate(normals), np.concatenate(shifted)


def write_ply(file: Path, made: Mesh) -> None:
    """Write a mesh as a binary PLY file."""
    vertices, normals, faces = made
    fields = "".join(f"property float {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz"))
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(vertices)}\n{fields}"
    head += f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    rows = np.empty(len(faces), dtype=[("n", "u1"), ("v", "<i4", 3)])
    rows["n"], rows["v"] = 3, faces
    file.write_bytes(head.encode() + np.hstack([vertices, normals]).astype("<f4").tobytes() + rows.tobytes())


def _rotation(turn: float, tilt: float) -> NDArray[np.float64]:
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    about_z = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    c, s = math.cos(math.radians(tilt)), math.sin(math.radians(tilt))
    about_x = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    return np.asarray(about_z @ about_x)


def _grid(rows: int, columns: int, offset: int = 0) -> NDArray[np.uint32]:
    """Return the triangles of a grid of vertices; they face outward where rows run up and columns counter-clockwise."""
    i, j = np.meshgrid(np.arange(rows - 1), np.arange(columns - 1), indexing="ij")
    a = (i * columns + j).ravel() + offset
    b, c, d = a + 1, a + columns, a + columns + 1
    return np.concatenate([np.stack([a, b, d], 1), np.stack([a, d, c], 1)]).astype(np.uint32)


def _around(radius: NDArray[np.float64], height: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return circles of these radii at these heights, shape (rows, _AROUND + 1, 3)."""
    angle = np.linspace(0, 2 * math.pi, _AROUND + 1)
    x, y = radius[:, None] * np.cos(angle), radius[:, None] * np.sin(angle)
    return np.stack([x, y, np.broadcast_to(height[:, None], x.shape)], axis=2)


def _lathe(profile: tuple[tuple[float, float], ...]) -> Mesh:
    points = np.array(profile, dtype=np.float64)
    steps = np.diff(points, axis=0)
    slopes = np.stack([steps[:, 1], -steps[:, 0]], axis=1)
    slopes /= np.linalg.norm(slopes, axis=1, keepdims=True)
    vertices, normals, faces = [], [], []
    for k, slope in enumerate(slopes):
        before, after = (slopes[j] if 0 <= j < len(slopes) else slope for j in (k - 1, k + 1))
        ends = np.stack([_smooth(slope, before), _smooth(slope, after)])
        pair = points[k : k + 2]
        faces.append(_grid(2, _AROUND + 1, 2 * (_AROUND + 1) * k))
        vertices.append(_around(pair[:, 0], pair[:, 1]).reshape(-1, 3))
        normals.append(_around(ends[:, 0], ends[:, 1]).reshape(-1, 3))
    return np.concatenate(vertices), np.concatenate(normals), np.concatenate(faces)


def _smooth(slope: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    if float(slope @ other) < _CREASE:
        return slope
    both = slope + other
    return np.asarray(both / np.linalg.norm(both))


def _ring(radius: float, tube: float) -> Mesh:
    angle = np.linspace(-math.pi, math.pi, _TUBE + 1)
    vertices = _around(radius + tube * np.cos(angle), tube * np.sin(angle)).reshape(-1, 3)
    normals = _around(np.cos(angle), np.sin(angle)).reshape(-1, 3)
    return vertices, normals, _grid(_TUBE + 1, _AROUND + 1)


def _ellipsoid(size: tuple[float, float, float]) -> Mesh:
    angle = np.linspace(-math.pi / 2, math.pi / 2, _TUBE + 1)
    unit = _around(np.cos(angle), np.sin(angle)).reshape(-1, 3)
    normals = unit / np.array(size)
    return (
        unit * np.array(size),
        normals / np.linalg.norm(normals, axis=1, keepdims=True),
        _grid(_TUBE + 1, _AROUND + 1),
    )


def _box(half: tuple[float, float, float]) -> Mesh:
    vertices: list[NDArray[np.float64]] = []
    normals: list[NDArray[np.float64]] = []
    faces: list[NDArray[np.int64]] = []
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)], dtype=np.float64)
    for axis in range(3):
        for side in (-1.0, 1.0):
            square = np.insert(corners, axis, side, axis=1)
            outward = np.zeros(3)
            outward[axis] = side
            quad = np.array([(0, 1, 2), (0, 2, 3)]) + 4 * len(vertices)
            turned = np.cross(square[1] - square[0], square[2] - square[0]) @ outward < 0
            vertices.append(square * np.array(half))
            normals.append(np.tile(outward, (4, 1)))
            faces.append(quad[:, ::-1] if turned else quad)
    return np.concatenate(vertices), np.concatenate(normals), np.concatenate(faces).astype(np.uint32)
