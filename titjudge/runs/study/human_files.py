"""Ratings of images by people, CSV or JSON lines; pairs as the lines of a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from titjudge.core.errors import DataError, must_be
from titjudge.core.names import id_of, plain
from titjudge.core.numbers import as_sample, missing_code
from titjudge.core.types import Item, Note, Pair, Values
from titjudge.data.opinions import RATERS, Opinions, column_of, number_reader, opinion_columns, opinions_in
from titjudge.data.tables import read_table
from titjudge.stats.people.score_correlation import SCORE

_SCORES = (
    SCORE,
    "rating",
    "human_score",
    "human_rating",
    "mean_rating",
    "mean_score",
    "mos",
    "mean_opinion_score",
    "stars",
)
_IMAGES = tuple("image image_id image_name image_path img item item_id file_name filename file path".split())
_PROMPTS, _GENERATORS, _SAMPLES = ("prompt_id", "prompt"), ("generator", "model", "system"), ("sample", "seed")
_FEWEST, _SCALES = 5, 4  # ratings of one person; times that one scale is longer than another
_SHARED = 5  # the same for images that several people rate


@dataclass(frozen=True, slots=True)
class HumanRatings:
    """Ratings of images by people.

    Attributes:
        means: Part -> image -> mean over the people who rate it.
        raters: Part -> image -> how many they are.
        notes: How ratings were joined, and unusual facts about them.
    """

    means: dict[str, dict[str, float]] = field(default_factory=dict)
    raters: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)


def pair_records(pairs: Sequence[Pair]) -> list[dict[str, str]]:
    """Return pairs as the lines of a `pairs.jsonl`, or the rows of a `pairs.csv`."""
    return [
        {"prompt_id": p.prompt_id, "image_a": p.a, "image_b": p.b, "preference": p.choice, "source": p.source}
        for p in pairs
    ]


def read_human_scores(
    path: Path | str, parts: Collection[str] = (), items: Mapping[str, Item] | None = None
) -> HumanRatings:
    """Read human scores of images from JSON lines or CSV: `image` and `score`, or columns of parts.

    Several people may have a row each (with or without `annotator`), a column each (`rater1`, `rater2`) or a list in one
    cell; the mean of an image counts. `prompt_id` and `generator` may be given instead of `image`.

    Args:
        path: The table.
        parts: Further columns, such as pillars, by the names that the judge gives them; case does not matter. Their cells
            may be empty.
        items: The judged images, which `prompt_id` and `generator` name.

    Raises:
        DataError: A column is missing, a score is not a finite number, one person gives an image two scores, or people
            use different scales; names file and line.
    """
    path = Path(path)
    part_names = {part.casefold(): part for part in parts}
    read_number = number_reader(path)
    made: dict[tuple[str, str], list[Item]] = {}
    for item in (items or {}).values():
        for prompt in {item.prompt_id, plain(item.prompt)}:
            made.setdefault((prompt, item.generator), []).append(item)
    said: Opinions[tuple[str, str], float] = Opinions(path)
    for line, record in read_table(path):
        image = _image(record, made, path, line)
        named = {
            column: part_names[str(column).casefold()] for column in record if str(column).casefold() in part_names
        }
        scores = opinion_columns([column for column in record if column not in named], _SCORES)
        if not named and not scores:
            others = f"; or a column for {', '.join(parts)}" if parts else ""
            raise DataError(
                f"the column '{SCORE}' is missing (there are: {', '.join(record)}). Add it{others}", path, line
            )
        rater = column_of(record, RATERS)
        who = "" if rater is None or record[rater] is None else plain(str(record[rater]))
        said.unused |= dict.fromkeys(
            column for column in opinion_columns(record, ()) if column not in (*scores, *named)
        )
        for column in (*scores, *named):
            cell = record[column]
            numbers = opinions_in(cell, read_number)
            blank = numbers == [] and scores == [column]
            said.blanks += blank
            if numbers is None or (blank and rater is None):
                raise DataError(must_be(f"the {column}", "a number", "" if cell is None else cell), path, line)
            for name, number in numbers:
                person = " ".join(filter(None, (who, column if column in scores[1:] or len(scores) > 1 else "", name)))
                said.add((named.get(column, SCORE), image), person, number, line, f"'{image}'")
    _check_scales(said, path)
    return _joined(said)


def _image(record: Values, made: Mapping[tuple[str, str], Sequence[Item]], path: Path, line: int) -> str:
    """Name the image of a row.

    Raises:
        DataError: The row names none, or `prompt_id` and `generator` have several.
    """
    column = column_of(record, _IMAGES)
    if column is not None and record[column] not in (None, ""):
        return plain(str(record[column]))
    prompt, generator = column_of(record, _PROMPTS), column_of(record, _GENERATORS)
    if column is not None or prompt is None or generator is None:
        there = f" (there are: {', '.join(record)})"
        raise DataError(
            f"the column 'image' is missing or empty{there}. Add it, or prompt_id and generator", path, line
        )
    key = (id_of(record[prompt]), plain(str(record[generator])))
    sample = column_of(record, _SAMPLES)
    images = [item for item in made.get(key, ()) if sample is None or item.sample == as_sample(record[sample])]
    if len(images) > 1:
        what = f"there are {len(images)} images of '{key[0]}' by '{key[1]}'"
        raise DataError(f"{what}. Add a column 'image' or 'sample'", path, line)
    return images[0].id if images else f"{key[1]}: {key[0]}"


def _check_scales(said: Opinions[tuple[str, str], float], path: Path) -> None:
    """Refuse to average a rating on 1 to 5 with one on 0 to 100.

    Raises:
        DataError: The highest rating of one person is many times the highest rating of another person, who uses several
            values; or one rates the same images many times as high as the others.
    """
    _check_shared(said, path)
    given: dict[tuple[str, str], list[float]] = {}
    for (part, _), by_person in said.of.items():
        for person, number in by_person.items():
            given.setdefault((part, person), []).append(number)
    scales: dict[str, list[tuple[float, str]]] = {}
    for (part, person), numbers in given.items():
        if len(numbers) >= _FEWEST and len({*numbers}) > 2 and max(numbers) > 0:
            scales.setdefault(part, []).append((max(numbers), person))
    for part, highest in scales.items():
        (low, low_name), (high, high_name) = min(highest), max(highest)
        if high >= _SCALES * low:
            what = f"{part}: '{low_name}' rates up to {low:g} and '{high_name}' up to {high:g}"
            raise DataError(f"{what}. Bring their ratings to one scale", path)


def _not_rated(said: Opinions[tuple[str, str], float]) -> list[Note]:
    """Report a lowest rating that may stand for none."""
    given: dict[str, list[float]] = {}
    for (part, _), by_person in said.of.items():
        given.setdefault(part, []).extend(by_person.values())
    notes = []
    for part, numbers in given.items():
        if (code := missing_code(numbers)) is not None:
            low, high = (end(number for number in numbers if number > code) for end in (min, max))
            what = f"{numbers.count(code):,} of {len(numbers):,} are {code:g}, and the others are {low:g} to {high:g}"
            line = f"{said.path}: {part}: {what}. If {code:g} means 'not rated', leave these cells empty"
            notes.append(Note("may_be_not_rated", line))
    return notes


def _check_shared(said: Opinions[tuple[str, str], float], path: Path) -> None:
    """Check the ratings of one person against the ratings of others for the same images.

    Raises:
        DataError: They are many times as high, or as low.
    """
    shared: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (part, _), by_person in said.of.items():
        for person, number in by_person.items() if len(by_person) > 1 else ():
            others = (sum(by_person.values()) - number) / (len(by_person) - 1)
            shared.setdefault((part, person), []).append((number, others))
    for (part, person), both in shared.items():
        own, others = (sum(numbers) for numbers in zip(*both, strict=True))
        if len({*both}) > 1 and min(own, others) > 0 and own >= _SHARED * others:
            what = f"{part}: '{person}' rates {len(both)} images {own / others:.0f} times as high as the others do"
            raise DataError(f"{what}. Bring the ratings to one scale", path)


def _joined(said: Opinions[tuple[str, str], float]) -> HumanRatings:
    """Average over people."""
    ratings = HumanRatings(notes=[*said.notes("ratings"), *_not_rated(said)])
    for (part, image), by_person in said.of.items():
        ratings.means.setdefault(part, {})[image] = fmean(by_person.values())
        ratings.raters.setdefault(part, {})[image] = len(by_person)
    total, images = sum(map(len, said.of.values())), len({image for _, image in said.of})
    if total > len(said.of):
        line = f"{said.path}: {total:,} ratings of {images:,} images by several people: the mean of each image counts"
        ratings.notes.append(Note("ratings_averaged", line))
    return ratings
