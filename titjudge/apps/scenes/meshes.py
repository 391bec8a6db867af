"""Triangle meshes of turned profiles, rings, ellipsoids and boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from math import cos, pi, radians
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from titjudge.apps.scenes.shapes import Primitive

Points = NDArray[np.float64]
Mesh = tuple[Points, Points, NDArray[np.uint32]]  # vertices, normals (n, 3); faces (m, 3)

_AROUND, _TUBE = 64, 32
_CREASE = cos(radians(40.0))  # profile corners sharper than this stay edges
_SQUARE = np.array([[(-1.0, -1.0), (1.0, -1.0)], [(-1.0, 1.0), (1.0, 1.0)]])


def mesh(part: Primitive) -> Mesh:
    """Make the mesh of a part at its place in the scene."""
    vertices, normals, faces = _joined(map(_patch, _grids(part)))
    rotation = Rotation.from_euler("xz", (part.tilt, part.turn), degrees=True)
    return rotation.apply(vertices) + np.array(part.at), rotation.apply(normals), faces


def merged(parts: Iterable[Primitive]) -> Mesh:
    """Make one mesh of several parts."""
    return _joined(map(mesh, parts))


def _joined(meshes: Iterable[Mesh]) -> Mesh:
    vertices, normals, faces = zip(*meshes, strict=True)
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


def _grids(part: Primitive) -> Iterator[Points]:
    """Yield the smooth surfaces of a part as grids of points (rows, columns, 3): rows run up and columns counter-clockwise."""
    turn = np.linspace(-pi, pi, _TUBE + 1)
    size = np.array((part.size[0], 0.0, part.size[1]) if part.form == "face" else part.size)
    if part.form == "lathe":
        yield from map(_turned, _smooth(np.array(part.profile)))
    elif part.form == "ring":
        yield _turned(np.stack([size[0] + size[1] * np.cos(turn), size[1] * np.sin(turn)], axis=1))
    elif part.form == "sphere":
        yield _turned(np.stack([np.cos(turn / 2), np.sin(turn / 2)], axis=1)) * size
    else:
        for axis, side in ((1, -1),) if part.form == "face" else product(range(3), (1, -1)):
            yield np.roll(np.insert(_SQUARE[:, ::side], 0, side, axis=2), axis, axis=2) * size


def _smooth(profile: Points) -> Iterator[Points]:
    """Cut a profile where it has an edge."""
    steps = np.diff(profile, axis=0)
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    edges = [number + 1 for number, (a, b) in enumerate(pairwise(steps)) if a @ b < _CREASE]
    for first, last in pairwise((0, *edges, len(steps))):
        yield profile[first : last + 1]


def _turned(profile: Points) -> Points:
    """Turn a profile, (radius, height) in each row, about the vertical."""
    angle = np.linspace(0, 2 * pi, _AROUND + 1)
    radius, height = profile[:, :1], np.broadcast_to(profile[:, 1:], (len(profile), len(angle)))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=2)


def _patch(grid: Points) -> Mesh:
    """Make the mesh of a grid of points; normals are means of the triangles around, by area."""
    rows, columns = grid.shape[:2]
    number, vertices = np.arange(rows * columns).reshape(rows, columns), grid.reshape(-1, 3)
    a, b, c, d = number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:]
    faces = np.stack([a, b, d, a, d, c], axis=2).reshape(-1, 3)
    corners, normals = vertices[faces], np.zeros((rows * columns, 3))
    areas = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    for corner in faces.T:
        np.add.at(normals, corner, areas)
    if np.allclose(grid[:, 0], grid[:, -1]):  # closed: its first and last column are one
        around = normals.reshape(grid.shape)
        around[:, 0] = around[:, -1] = around[:, 0] + around[:, -1]
    return (
        vertices,
        normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12),
        faces.astype(np.uint32),
    )
