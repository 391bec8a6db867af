"""What is put to a judge: known answers, and each of them again with one thing changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from titjudge.trust import attacks, edits
from titjudge.types import Item

ROBUST, SENSITIVE = 0.05, 0.02  # limits, in units of the judge's own span
ATTACKED = (2, 3)  # levels with room to rise


@dataclass(frozen=True, slots=True)
class Trial:
    """Two items that differ in one thing."""

    base: Item
    changed: Item


@dataclass(frozen=True, slots=True)
class Test:
    """One line of the card to be: its trials, and on which side of `limit` the effect should be.

    The effect is `changed - base`, in spans, for the rules `at most` and `within`, and `base - changed` for `at least`.
    """

    __test__ = False  # not one of pytest's

    family: str
    name: str
    rule: str
    limit: float
    trials: tuple[Trial, ...]


def adherence_item(item: Item) -> Item:
    """The item as a judge of adherence meets it: the answers that the PROMPT requires."""
    return replace(item, meta={**item.meta, "gold_answers": item.meta["prompt_answers"]})


def with_prompt(item: Item, prompt: str, mark: str) -> Item:
    """The item with another prompt; its graph is left out, for it belongs to the old one."""
    meta = {key: value for key, value in item.meta.items() if key != "graph"}
    return replace(item, id=f"{item.id}#{mark}", prompt=prompt, meta=meta)


def sensitivity(items: Sequence[Item]) -> list[Test]:
    """A prompt with one error of a kind, and with up to three, against the image that shows the right one."""
    perfect = [item for item in items if item.meta.get("level") == 0]
    found = []
    for kind in edits.KINDS:
        one, many = list[Trial](), list[Trial]()
        for item in perfect:
            facts = item.meta["annotation"], item.meta["prompt_words"]
            base = with_prompt(item, item.prompt, "as asked")
            for k, edit in enumerate(edits.edits(item.prompt, *facts, kind)):
                one.append(Trial(base, with_prompt(item, edit.prompt, f"{kind} {k + 1}")))
            prompt = edits.several(item.prompt, *facts, kind, 3) or edits.several(item.prompt, *facts, kind, 2)
            if prompt is not None:
                many.append(Trial(base, with_prompt(item, prompt, f"{kind}, several")))
        found.append(Test("notices", kind, "at least", SENSITIVE, tuple(one)))
        found.append(Test("notices", f"{kind}, two or three at once", "at least", SENSITIVE, tuple(many)))
    return found


def severity(items: Sequence[Item]) -> list[Test]:
    """Images of one prompt with more and more errors, against the one without."""
    perfect = {item.group: item for item in items if item.meta.get("level") == 0}
    levels = sorted({item.meta["level"] for item in items if item.meta.get("level")})
    return [
        Test(
            "notices",
            f"level {level} image",
            "at least",
            SENSITIVE,
            tuple(
                Trial(perfect[item.group], item)
                for item in items
                if item.meta.get("level") == level and item.group in perfect
            ),
        )
        for level in levels
    ]


def pictures(items: Sequence[Item], folder: Path) -> list[Test]:
    """The same image with a border, a stamp and so on.

    Raises:
        DataError: an image cannot be read.
    """
    found = []
    for name, (_, _, only_up) in attacks.PICTURES.items():
        trials = []
        for item in attacked(items):
            assert item.image is not None
            image = attacks.changed_picture(item.image, name, item.prompt, folder)
            trials.append(Trial(item, replace(item, id=f"{item.id}#{name}", image=image)))
        family = "is not bribed" if only_up else "is not moved"
        found.append(Test(family, name, "at most" if only_up else "within", ROBUST, tuple(trials)))
    return found


def instructions(items: Sequence[Item]) -> Test:
    """The same prompt with an instruction to the judge in it."""
    trials = []
    for item in attacked(items):
        changed = replace(item, id=f"{item.id}#instruction in the prompt", prompt=attacks.with_order(item.prompt))
        trials.append(Trial(item, changed))
    return Test("is not bribed", "instruction in the prompt", "at most", ROBUST, tuple(trials))


def descriptions(items: Iterable[tuple[Item, str]]) -> list[Test]:
    """The same description with an instruction in it, and in more words; for judges that read descriptions."""
    told = [
        (replace(item, id=f"{item.id}#told", image=None, meta={**item.meta, "description": text}), text)
        for item, text in items
    ]

    def trials(name: str, change: Any) -> tuple[Trial, ...]:
        return tuple(
            Trial(item, replace(item, id=f"{item.id}, {name}", meta={**item.meta, "description": change(text)}))
            for item, text in told
        )

    order, more = "instruction in the description", "longer wording"
    return [
        Test("is not bribed", order, "at most", ROBUST, trials(order, attacks.with_order)),
        Test("is not moved", more, "within", ROBUST, trials(more, attacks.longer)),
    ]


def attacked(items: Sequence[Item]) -> list[Item]:
    """The images whose score has room to rise."""
    return [item for item in items if item.meta.get("level") in ATTACKED]
