"""Colours, materials and words: which of them look alike, and which would be hard to see against which."""

from __future__ import annotations

Colour = tuple[float, float, float]

COLOURS: dict[str, Colour] = {  # linear RGB, 0 to 1
    "red": (0.62, 0.015, 0.012),
    "orange": (0.92, 0.22, 0.008),
    "yellow": (0.93, 0.66, 0.02),
    "green": (0.02, 0.30, 0.035),
    "blue": (0.012, 0.06, 0.50),
    "purple": (0.17, 0.02, 0.33),
    "pink": (0.92, 0.24, 0.40),
    "white": (0.86, 0.86, 0.84),
    "black": (0.008, 0.008, 0.009),
}
METALS: dict[str, Colour] = {"gold": (0.98, 0.58, 0.10), "copper": (0.86, 0.27, 0.11), "silver": (0.90, 0.90, 0.91)}

_NEAR = {  # a colour planted as an error is never one that could pass for the colour asked for
    "red": {"orange", "pink"},
    "orange": {"red", "yellow", "pink"},
    "yellow": {"orange", "white"},
    "blue": {"purple", "black"},
    "purple": {"blue", "pink", "black"},
    "pink": {"red", "purple", "orange", "white"},
    "white": {"yellow", "pink", "silver"},
    "black": {"blue", "purple"},
    "gold": {"copper"},
    "copper": {"gold", "wood"},
    "silver": {"clear glass"},
    "clear glass": {"silver"},
    "wood": {"copper"},
    "golden": {"white"},
    "coffee": set[str](),
}

SURFACES = ("brown wooden planks", "white marble", "black and white checkerboard", "plain green cloth")
WALLS = ("red brick", "pale blue", "pale green", "cream", "pale pink")

_ON_SURFACE = {  # what would not stand out on the table
    "brown wooden planks": {"wood", "copper"},
    "white marble": {"white", "silver", "clear glass"},
    "black and white checkerboard": {"white", "black"},
    "plain green cloth": {"green", "gold", "golden", "copper"},  # polished metal mirrors the cloth
}
_PALE = {"white", "silver", "clear glass"}
_BEFORE_WALL = {  # what would not stand out against the wall
    "red brick": {"red", "orange", "copper", "wood", "clear glass"},
    "pale blue": _PALE,
    "pale green": _PALE,
    "cream": {*_PALE, "yellow"},
    "pale pink": {*_PALE, "pink"},
}

NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip

SIGN_FIRST = ("FRESH", "HAPPY", "GRAND", "QUIET", "SUNNY", "NORTH", "SMALL", "BRIGHT", "GOLDEN", "SIMPLE", "FAMOUS")
SIGN_SECOND = ("MARKET", "GARDEN", "CORNER", "STUDIO", "KITCHEN", "MUSEUM", "WINTER", "SUMMER", "HARBOUR", "PLANET")


def near(a: str, b: str) -> bool:
    """Tell whether two colours or materials could be taken for each other."""
    return a == b or b in _NEAR.get(a, ()) or a in _NEAR.get(b, ())


def lost_on(value: str, surface: str) -> bool:
    """Tell whether a thing of that colour or material would be hard to see on that table."""
    return value in _ON_SURFACE[surface]


def lost_before(value: str, wall: str) -> bool:
    """Tell whether a thing of that colour or material would be hard to see against that wall."""
    return value in _BEFORE_WALL[wall]
