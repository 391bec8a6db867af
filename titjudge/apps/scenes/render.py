"""Render images and object ids with Mitsuba 3, variant scalar_rgb: the same scene always gives the same bits.

The grain of a path-traced image is removed by an edge-avoiding filter over the light without the surface colours: the image is
divided by the albedo, smoothed where neighbours have the same surface, direction and about the same light, and multiplied again
(the A-trous scheme: Dammertz et al., Edge-Avoiding A-Trous Wavelet Transform, 2010).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from math import cos, pi, radians
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial.transform import Rotation

from titjudge.apps.scenes import layout, textures
from titjudge.apps.scenes.layout import Finish, Primitive, placed
from titjudge.apps.scenes.scene import PALETTE, Scene
from titjudge.apps.scenes.textures import Pixels
from titjudge.core.errors import MissingExtra
from titjudge.core.grouping import grouped
from titjudge.core.signals import interrupts_noticed
from titjudge.core.types import Json

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
    """Cut a profile at its edges."""
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


Ids = NDArray[np.int32]

VARIANT = "scalar_rgb"
_DEPTH = 7  # bounces
_GUIDE = 4  # rays a pixel for the surfaces that guide the filter


def mitsuba() -> Any:
    """Import the renderer.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        import mitsuba as mi
    except ImportError as error:
        raise MissingExtra("mitsuba", "scenes", "rendering scenes") from error
    mi.set_variant(VARIANT)
    mi.set_log_level(mi.LogLevel.Error)
    return mi


class Stage:
    """A scene in the renderer."""

    def __init__(self, scene: Scene, size: int) -> None:
        self._mi, self._scene, self._size = mitsuba(), scene, size
        self.objects = list(placed(scene))
        self._outlines: Json = {}

    def picture(self, samples: int) -> Pixels:
        """Path-trace the image with `samples` rays per pixel: (size, size, 3) sRGB."""
        shapes = self._room() | self._painted_shapes()
        lit = shapes | self._light() | {"integrator": {"type": "path", "max_depth": _DEPTH}}
        light = self._rendered(lit | {"sensor": self._sensor(samples)})
        guides = {"type": "aov", "aovs": "paint:albedo,facing:sh_normal"}
        guide = self._rendered(shapes | {"integrator": guides, "sensor": self._sensor(_GUIDE)})
        return _developed(denoise(light[..., :3], guide[..., :3], guide[..., 3:6], samples))

    def ids(self, only: str | None = None) -> Ids:
        """Return for each pixel 1 + the index in `objects` of the object that it shows; 0 for table, wall and nothing.

        Shape (size, size). `only`: the label of an object to be shown alone.
        """
        shapes = self._room() if only is None else {}
        for number, thing in enumerate(self.objects, 1):
            if only in (None, thing.label):
                if thing.label not in self._outlines:  # each glows as brightly as its number
                    self._outlines[thing.label] = self._mesh(thing.body, emitter=_glow((number, number, number)))
                shapes[thing.label] = self._outlines[thing.label]
        seen = self._rendered(shapes | {"integrator": {"type": "path", "max_depth": 1}, "sensor": self._sensor(1)})
        return np.asarray(np.rint(seen[..., 0]), np.int32)

    def _painted_shapes(self) -> Json:
        """Make the shapes of all objects; parts of one finish become one shape where possible, which is faster."""
        groups = grouped((part for thing in self.objects for part in thing.body), lambda part: part.finish)
        shapes: list[Any] = []
        for finish, parts in groups.items():
            look = {"emitter": _glow(finish.colour)} if finish.kind == "glow" else {"bsdf": self._bsdf(finish)}
            if finish.kind in ("words", "wood", "glass"):
                shapes += [self._single(part) | look for part in parts]
            else:
                shapes.append(self._mesh(parts, **look))
        return {f"shape-{number}": shape for number, shape in enumerate(shapes)}

    def _rendered(self, parts: Json) -> Any:
        """Render a scene, and once more where SIGINT has cut it short in a process that ignores SIGINT.

        Mitsuba stops at SIGINT and returns the part it has, also in a background job of a script, where the signal is ignored.
        Shapes are neither merged nor loaded in parallel, so that they keep their order.
        """
        scene = self._mi.load_dict({"type": "scene", **parts}, parallel=False, optimize=False)
        while True:
            with interrupts_noticed() as interrupts:
                pixels = np.asarray(self._mi.render(scene), dtype=np.float32)
            if not interrupts:
                return np.nan_to_num(pixels)

    def _sensor(self, samples: int) -> Json:
        transform = self._mi.ScalarTransform4f()
        film = {"type": "hdrfilm", "width": self._size, "height": self._size, "pixel_format": "rgb"}
        return {
            "type": "perspective",
            "fov": layout.FOV,
            "to_world": transform.look_at(list(layout.eye(self._scene)), list(layout.TARGET), [0, 0, 1]),
            "film": {**film, "rfilter": {"type": "box"}},
            "sampler": {"type": "multijitter" if samples > 3 else "independent", "sample_count": samples, "seed": 7},
        }

    def _light(self) -> Json:
        where, colour, ambient = PALETTE["lamps"][self._scene.view.light]
        transform = self._mi.ScalarTransform4f
        lamp = transform().look_at(where, [0, 0.5, 0.4], [0, 1, 0.01]).scale(2.1)
        around = {"type": "envmap", "bitmap": self._mi.Bitmap(_surroundings(ambient))}
        return {
            "lamp": {"type": "rectangle", "to_world": lamp, "emitter": _glow(colour)},
            "ambient": {**around, "to_world": transform().rotate([1, 0, 0], 90)},
        }

    def _room(self) -> Json:
        transform, view = self._mi.ScalarTransform4f, self._scene.view
        half = 7.0
        table = transform().translate([0, layout.WALL_Y - half, 0]).scale([half, half, 1])
        wall = transform().translate([0, layout.WALL_Y, 5]).rotate([1, 0, 0], 90).scale([half, 5, 1])
        top, back = (textures.surface(name, view.grain) for name in (self._scene.surface, self._scene.wall))
        return {
            "table": {"type": "rectangle", "to_world": table, "bsdf": self._painted(top)},
            "wall": {"type": "rectangle", "to_world": wall, "bsdf": self._painted(back)},
        }

    def _painted(self, pixels: Pixels) -> Json:
        bitmap = {"type": "bitmap", "bitmap": self._mi.Bitmap(np.array(pixels[::-1])), "wrap_mode": "clamp"}
        return {"type": "diffuse", "reflectance": bitmap}

    def _single(self, part: Primitive) -> Json:
        """Make the shape of a part with places for a texture."""
        placing = self._mi.ScalarTransform4f().translate(list(part.at)).rotate([0, 0, 1], part.turn)
        if part.form == "face":
            return {"type": "rectangle", "to_world": placing.rotate([1, 0, 0], 90).scale([*part.size[:2], 1])}
        return {"type": {"box": "cube"}.get(part.form, part.form), "to_world": placing.scale(list(part.size))}

    def _mesh(self, parts: Iterable[Primitive], **look: Json) -> Any:
        """Make one mesh of parts."""
        vertices, normals, faces = merged(parts)
        properties = self._mi.Properties()
        for name, said in look.items():
            properties[name] = self._mi.load_dict(said, parallel=False)
        mesh = self._mi.Mesh("", len(vertices), len(faces), props=properties, has_vertex_normals=True)
        arrays = self._mi.traverse(mesh)
        arrays["vertex_positions"], arrays["vertex_normals"] = (
            np.float32(each).ravel() for each in (vertices, normals)
        )
        arrays["faces"] = faces.ravel()
        arrays.update()
        return mesh

    def _bsdf(self, finish: Finish) -> Json:
        if finish.kind == "glass":
            return {"type": "dielectric", "int_ior": 1.5, "ext_ior": 1.0}
        if finish.kind == "metal":
            tint = {"material": "none", "specular_reflectance": _rgb(finish.colour)}
            return _both({"type": "roughconductor", "alpha": 0.06, **tint})
        if finish.kind == "words":
            return self._painted(textures.words(finish.value))
        if finish.kind == "wood":
            return _both(self._painted(textures.light_wood(self._scene.view.grain)))
        if finish.kind == "matte":
            return _both({"type": "diffuse", "reflectance": _rgb(finish.colour)})
        return _both({"type": "plastic", "diffuse_reflectance": _rgb(finish.colour)})


def _surroundings(ambient: tuple[float, float, float]) -> Any:
    """Make the surroundings, dim walls with tall bright windows: metal that mirrors nothing looks like paint."""
    room = np.full((48, 96, 3), 0.62, dtype=np.float32)
    for left in range(4, 96, 16):
        room[4:22, left : left + 5] = 2.6
    return np.asarray(room * np.array(ambient, dtype=np.float32))


def _both(bsdf: Json) -> Json:
    return {"type": "twosided", "bsdf": bsdf}


def _glow(colour: Iterable[float]) -> Json:
    return {"type": "area", "radiance": _rgb(colour)}


def _rgb(colour: Iterable[float]) -> Json:
    return {"type": "rgb", "value": list(colour)}


def _developed(light: Any) -> Pixels:
    """Convert linear light, (height, width, 3), to sRGB, with highlights rolled off."""
    rolled = np.where(light > 0.75, 0.75 + 0.25 * np.tanh((light - 0.75) / 0.25), light)
    srgb = np.where(rolled <= 0.0031308, 12.92 * rolled, 1.055 * np.maximum(rolled, 1e-8) ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(np.clip(srgb, 0, 1) * 255), dtype=np.uint8)


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
    around = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], bool)[..., None]
    third = ndimage.rank_filter(light, -3, footprint=around, mode="nearest")
    return np.asarray(np.minimum(light, 1.15 * third + 0.02))


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
    return image[np.clip(np.arange(height) + y, 0, height - 1)][:, np.clip(np.arange(width) + x, 0, width - 1)]
