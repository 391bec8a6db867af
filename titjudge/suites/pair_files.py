"""Read the preferences of people: tables of pairs of images, and votes of an arena.

A vote of an arena has `model_a`, `model_b` and `winner` (model_a, model_b, tie, "tie (bothbad)") on a prompt:
`prompt_id`, `question_id` or the text `prompt`. Its images are `image_a` and `image_b`, or those that the two models made of the
prompt. A vote on an image that is not there is still a pair, which counts as one without a score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from titjudge.core.errors import DataError
from titjudge.core.types import Item, Pair
from titjudge.core.words import truncated
from titjudge.data.tables import first_row, read_table
from titjudge.stats.people.votes import pair_of, read_choice

COLUMNS = ("model_a", "model_b", "winner")
_PROMPTS = ("prompt_id", "question_id", "prompt")


def read_pairs(
    file: Path,
    images: Mapping[str, Mapping[str, str]] | None = None,
    items: Callable[[], Iterable[Item]] | None = None,
) -> list[Pair]:
    """Read pairs from a table with prompt_id, image_a, image_b, preference, or from votes of an arena (see `read_battles`).

    Args:
        file: The file of pairs.
        images: Image -> prompt id -> item id, where they are known: a pair must name a prompt of its images.
        items: Reads the images of battles that name models and no images.

    Raises:
        DataError: A line is malformed, or its images belong to another prompt; names file and line.
    """
    if is_battles(file):
        return read_battles(file, items)
    pairs = []
    for number, record in read_table(file, ("prompt_id", "image_a", "image_b", "preference")):
        choice = read_choice(record["preference"])
        if choice is None:
            raise DataError(f"the preference is a, b, tie or both_bad, not '{record['preference']}'", file, number)
        if record["image_a"] == record["image_b"]:
            raise DataError(f"'{record['image_a']}' is paired with itself", file, number)
        named, both = str(record["prompt_id"]), []
        for image in (str(record["image_a"]), str(record["image_b"])):
            ids = (images or {}).get(image, {})
            if ids and named and named not in ids:
                raise DataError(f"'{image}' is an image of the prompt '{next(iter(ids))}', not '{named}'", file, number)
            both.append(ids.get(named, image))
        a, b = both
        pairs.append(pair_of(named, a, b, choice, str(record.get("source", ""))))
    return pairs


def is_battles(file: Path) -> bool:
    """Tell whether the first good line of a table is a battle."""
    first = first_row(file)
    return all(name in first for name in COLUMNS)


def read_battles(file: Path, items: Callable[[], Iterable[Item]] | None = None) -> list[Pair]:
    """Read battles as pairs, without those of a model with itself.

    Args:
        file: The table.
        items: Reads the images; called where a battle names none.

    Raises:
        DataError: A winner is unknown, a model has several images of a prompt, or no battle has both its images; names file
            and line.
    """
    pairs, lacking, complete = [], "", False
    images: _Images | None = None
    for number, record in read_table(file, COLUMNS):
        choice = read_choice(record["winner"], "model_a", "model_b")
        if choice is None:
            names = "model_a, model_b, tie or 'tie (bothbad)'"
            raise DataError(f"the winner is {names}, not '{record['winner']}'", file, number)
        models = str(record["model_a"]), str(record["model_b"])
        if models[0] == models[1]:
            continue
        prompt = next((str(record[name]) for name in _PROMPTS if record.get(name) not in (None, "")), None)
        if prompt is None:
            raise DataError(f"a battle needs one of {', '.join(_PROMPTS)}", file, number)
        judge = str(record.get("judge") or record.get("source") or "")
        if record.get("image_a") and record.get("image_b"):
            prompt_id, a, b = prompt, str(record["image_a"]), str(record["image_b"])
        elif items is None:
            raise DataError("here battles need the columns image_a and image_b", file, number)
        else:
            images = images or _Images(items())
            try:
                sides = [images.find(prompt, model) for model in models]
            except LookupError as error:
                raise DataError(f"{error}", file, number) from error
            prompt_id = next((item.prompt_id for item in sides if item), prompt)
            a, b = (item.id if item else _unknown(prompt, model) for item, model in zip(sides, models, strict=True))
            complete |= all(sides)
            if not all(sides) and not lacking:
                lacking = f"{file}:{number}: there is no image of {b if sides[0] else a}"
        pairs.append(pair_of(prompt_id, a, b, choice, judge))
    if lacking and not complete:
        raise DataError(f"{lacking}, nor both images of any other battle")
    return pairs


def _unknown(prompt: str, model: str) -> str:
    return f"'{truncated(prompt, 60)}' by '{model}'"


class _Images:
    """The images of a data set by prompt (its id or its text) and generator."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._by_prompt: dict[tuple[str, str], list[Item]] = {}
        for item in items:
            for prompt in {item.prompt_id, item.prompt}:
                self._by_prompt.setdefault((prompt, item.generator), []).append(item)

    def find(self, prompt: str, model: str) -> Item | None:
        """Find the image; None where there is none.

        Raises:
            LookupError: There are several.
        """
        matches = self._by_prompt.get((prompt, model), [])
        if len(matches) > 1:
            raise LookupError(f"there are {len(matches)} images of {_unknown(prompt, model)}: name image_a and image_b")
        return matches[0] if matches else None
