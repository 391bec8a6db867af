"""The bundled example of known answers, cut down to what a test can probe in a second."""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from answers import verdict
from builders import read_lines, write_lines
from PIL import Image

from tests.kit import Seen
from titjudge.core.types import Item
from titjudge.probes import battery

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "known_answer"


def small(folder: Path) -> Path:
    """All known answers with images of 48 pixels, as a data folder."""
    (folder / "images").mkdir(parents=True)
    for name in ("prompts.jsonl", "images.jsonl", "pairs.jsonl", "descriptions.jsonl"):
        shutil.copy(EXAMPLE / name, folder / name)
    for path in (EXAMPLE / "images").iterdir():
        _shrink(path, folder / "images" / path.name)
    return folder


def _shrink(source: Path, target: Path) -> None:
    with Image.open(source) as image:
        image.draft("RGB", (96, 96))
        image.resize((48, 48)).save(target)


@contextlib.contextmanager
def planted_once() -> Iterator[None]:
    """Look for the errors that can be planted in the same prompts once, and not for every probe: they are the same."""
    plant, known = battery.sensitivity, dict[Any, list[battery.Test]]()

    def once(items: Sequence[Item], most: int = battery.MOST) -> list[battery.Test]:
        key = most, *((item.id, item.image, item.prompt) for item in items)
        if key not in known:
            known[key] = plant(items, most)
        return known[key]

    with mock.patch.object(battery, "sensitivity", once):
        yield


def first_prompt(folder: Path) -> Path:
    """The images of the example's first prompt, small, in a data folder."""
    (folder / "images").mkdir(parents=True)
    for name in ("prompts.jsonl", "pairs.jsonl"):
        shutil.copy(EXAMPLE / name, folder / name)
    records = read_lines(EXAMPLE / "images.jsonl")
    kept = [record for record in records if record["prompt_id"] == records[0]["prompt_id"]]
    write_lines(folder / "images.jsonl", *kept)
    for record in kept:
        _shrink(EXAMPLE / record["image"], folder / record["image"])
    return folder


def answer(seen: Seen) -> str:
    """A judge of descriptions, alone and in pairs, and one who describes."""
    if seen.images:
        return f"A table with fruit, {seen.digest.hex()[:8]}."
    return verdict(70, better="first")
