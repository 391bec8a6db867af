"""Read votes of an arena: `model_a`, `model_b` and `winner` (model_a, model_b, tie, "tie (bothbad)") on a prompt.

The prompt is `prompt_id`, `question_id` or the text `prompt`. Images are `image_a` and `image_b`, or those that the two models
made of the prompt. A vote on an image that is not there is still a pair, which counts as one without a score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from titjudge.core.errors import DataError
from titjudge.core.types import Item, Pair
from titjudge.core.words import truncated
from titjudge.data.tables import first_row, read_table
from titjudge.stats.people.votes import pair_of, read_choice

COLUMNS = ("model_a", "model_b", "winner")
_PROMPTS = ("prompt_id", "question_id", "prompt")


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
