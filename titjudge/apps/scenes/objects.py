"""The kinds of objects (names, attributes, where each may stand and what it may carry), and which colours look alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from titjudge.core.files import read_yaml

Colour = tuple[float, float, float]

PALETTE = read_yaml(Path(__file__).with_name("palette.yaml"), "a palette")
COLOURS, METALS = (
    {name: (red, green, blue) for name, (red, green, blue) in PALETTE[key].items()} for key in ("colours", "metals")
)
SURFACES, WALLS, NUMBERS, SIGN_FIRST, SIGN_SECOND = (
    tuple(map(str, PALETTE[key])) for key in ("surfaces", "walls", "numbers", "sign_first", "sign_second")
)


CROWD = read_yaml(Path(__file__).with_name("crowd.yaml"), "what crowds are made of")


def near(a: str, b: str) -> bool:
    """Tell whether two colours or materials could be taken for each other."""
    return a == b or b in PALETTE["near"].get(a, ()) or a in PALETTE["near"].get(b, ())


def lost_on(value: str, surface: str) -> bool:
    """Tell whether a thing of that colour or material would be hard to see on that table."""
    return value in PALETTE["on_surface"][surface]


def lost_before(value: str, wall: str) -> bool:
    """Tell whether a thing of that colour or material would be hard to see against that wall."""
    return value in PALETTE["before_wall"][wall]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object.

    Attributes:
        name: The entity in the graph ("apples"); plural where it comes in numbers.
        family: Kinds of one family could pass for one another; a scene has at most one of them.
        rows: Where it may stand: tall things in "back", things under 0.95 units in "front"; empty: only on or in others.
        traits: Its attributes and their values. `finish` is named "colour" or "material" in the graph, by its value.
        phrase: The noun phrase of the prompt with {attribute} fields.
        carries: Kinds that may be "on" or "in" it.
        one: The singular of a plural name; else empty.
    """

    name: str
    family: str
    rows: Sequence[str]
    traits: Mapping[str, Sequence[str]]
    phrase: str
    carries: Mapping[str, str] = field(default_factory=dict)
    one: str = ""

    @property
    def plural(self) -> bool:
        return bool(self.one)

    def question(self) -> str:
        """Ask whether such a thing is there at all."""
        if self.plural:
            return f"Are there any {self.name} in the image?"
        return f"Is there {article(self.name)} {self.name} in the image?"


def article(phrase: str) -> str:
    return "an" if phrase[0] in "aeiou" else "a"


OF_QUESTIONS = read_yaml(Path(__file__).with_name("kinds.yaml"), "kinds")
KINDS = {kind["name"]: Kind(**kind) for kind in OF_QUESTIONS.pop("kinds")}

_METALLIC = {"gold", "copper", "silver"}


def finish_name(value: str) -> str:
    """Return what the graph calls a finish: "colour" or "material"."""
    return "material" if value in _METALLIC or value in ("wood", "clear glass") else "colour"


def finish_phrase(value: str) -> str:
    """Word the finish after a noun: "of polished gold", "in plain red"."""
    if value in _METALLIC:
        return f"of polished {value}"
    return f"made of {value}" if finish_name(value) == "material" else f"in plain {value}"


def phrase(kind: str, traits: Mapping[str, str]) -> str:
    """Word the noun phrase of a thing as the prompt gives it, with its article where it has one."""
    finish = finish_phrase(traits.get("material") or traits.get("colour") or "")
    text = KINDS[kind].phrase.format(**traits, finish=finish)
    if KINDS[kind].plural:
        return text
    return f"{article(text)} {text}"
