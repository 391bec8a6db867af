"""The kinds of objects: names, attributes, where each may stand and what it may carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_VIVID = ("red", "orange", "yellow", "green", "blue", "purple", "pink")
_PLAIN = ("red", "yellow", "green", "blue", "white", "purple", "orange")
_SOLID = ("red", "yellow", "green", "blue", "purple", "gold", "copper")
_COUNTS = ("two", "three", "four")


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
    rows: tuple[str, ...]
    traits: Mapping[str, tuple[str, ...]]
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


_ALL = (
    Kind("bottle", "bottle", ("back",), {"colour": _VIVID}, "tall {colour} bottle with a slender neck"),
    Kind("vase", "bottle", ("back",), {"colour": _VIVID}, "round-bellied {colour} vase", {"flowers": "in"}),
    Kind("lamp", "lamp", ("back",),
        {"shade colour": ("red", "yellow", "green", "blue", "purple"), "stem colour": ("golden", "black")},
        "table lamp with a {stem colour} stem and a conical {shade colour} shade"),
    Kind("candle", "cylinder", ("back",), {"colour": _VIVID}, "thick {colour} candle with a small burning flame"),
    Kind("cone", "cone", ("back",), {"finish": _SOLID}, "tall upright cone {finish}"),
    Kind("cylinder", "cylinder", ("back",), {"finish": _SOLID}, "tall cylinder {finish}"),
    Kind("snowman", "snowman", ("back",),
        {"hat colour": ("black", "red", "blue", "green"), "scarf colour": ("red", "blue", "green", "purple")},
        "little snowman figure with a {hat colour} top hat and a {scarf colour} scarf"),
    Kind("plant", "plant", ("back",), {"pot colour": ("red", "orange", "yellow", "blue", "purple", "pink")},
        "round green plant in a {pot colour} pot"),
    Kind("blocks", "box", ("back",),
        {"colour": ("red", "orange", "yellow", "green", "blue", "purple"), "count": ("three", "four", "five")},
        "{count} {colour} toy blocks stacked into a tower", one="block"),
    Kind("mug", "mug", ("front",), {"colour": _PLAIN, "contents": ("coffee", "milk")},
        "{colour} mug filled with {contents}"),
    Kind("bowl", "bowl", ("front",), {"colour": _PLAIN}, "wide {colour} bowl",
        {"oranges": "in", "lemons": "in", "apples": "in"}),
    Kind("cube", "box", ("front",), {"finish": ("red", "yellow", "green", "blue", "purple", "wood", "copper")},
        "large cube {finish}", {"small cone": "on", "sphere": "on", "mug": "on"}),
    Kind("books", "books", ("front",),
        {"colour": ("red", "green", "blue", "purple", "orange", "black"), "count": _COUNTS},
        "{count} thick {colour} books with cream pages, stacked flat on top of one another",
        {"sphere": "on", "small cone": "on", "mug": "on"}, one="book"),
    Kind("ring", "ring", ("front",), {"colour": _VIVID}, "thick {colour} ring lying flat"),
    Kind("sphere", "ball", ("front",),
        {"finish": ("gold", "copper", "silver", "clear glass", "red", "blue", "green", "purple", "yellow")},
        "smooth sphere {finish}"),
    Kind("balls", "ball", ("front",),
        {"colour": ("red", "green", "blue", "purple", "pink"), "count": ("two", "three", "four", "five")},
        "{count} small {colour} balls", one="ball"),
    Kind("apples", "apples", ("front",), {"colour": ("red", "green"), "count": _COUNTS},
        "{count} shiny {colour} apples with short brown stems", one="apple"),
    Kind("oranges", "oranges", ("front",), {"count": _COUNTS}, "{count} round oranges", one="orange"),
    Kind("lemons", "lemons", ("front",), {"count": _COUNTS}, "{count} yellow lemons with pointed tips", one="lemon"),
    Kind("small cone", "cone", (), {"finish": _SOLID}, "small cone {finish}"),
    Kind("flowers", "plant", (), {"colour": ("red", "yellow", "pink", "purple", "blue", "orange"), "count": _COUNTS},
        "{count} {colour} flowers on green stems", one="flower"),
    Kind("sign", "sign", (), {"text": (), "frame colour": ("black", "red", "blue", "green")},
        "rectangular white sign with a {frame colour} frame"),
)  # fmt: skip
KINDS = {kind.name: kind for kind in _ALL}

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
