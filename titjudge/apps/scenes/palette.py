"""Colours, materials and words: which of them look alike, and which would be hard to see against which."""

from __future__ import annotations

from pathlib import Path

from titjudge.core.files import read_yaml

Colour = tuple[float, float, float]

_READ = read_yaml(Path(__file__).with_name("palette.yaml"), "a palette")
COLOURS, METALS = (
    {name: (red, green, blue) for name, (red, green, blue) in _READ[key].items()} for key in ("colours", "metals")
)
SURFACES, WALLS, NUMBERS, SIGN_FIRST, SIGN_SECOND = (
    tuple(map(str, _READ[key])) for key in ("surfaces", "walls", "numbers", "sign_first", "sign_second")
)


def near(a: str, b: str) -> bool:
    """Tell whether two colours or materials could be taken for each other."""
    return a == b or b in _READ["near"].get(a, ()) or a in _READ["near"].get(b, ())


def lost_on(value: str, surface: str) -> bool:
    """Tell whether a thing of that colour or material would be hard to see on that table."""
    return value in _READ["on_surface"][surface]


def lost_before(value: str, wall: str) -> bool:
    """Tell whether a thing of that colour or material would be hard to see against that wall."""
    return value in _READ["before_wall"][wall]
