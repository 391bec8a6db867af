"""Scores of generators by prompt: read from a plain table, averaged over the images of a prompt."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from titjudge.core.errors import ConfigError, DataError, nearest
from titjudge.core.files import read_table
from titjudge.stats.bootstrap import Floats, Interval, Ints, codes
from titjudge.stats.equality import score_differences
from titjudge.stats.part_scores import ELEMENT
from titjudge.stats.per_prompt import MEAN, PerPrompt, pooled

REQUIRED = ("prompt_id", "generator")
IMAGE_COLUMNS = (
    "image",
    "image_id",
    "image_index",
    "image_path",
    "item",
    "seed",
    "file",
    "filename",
)  # tell the images of one prompt apart
SAMPLE_COLUMNS = ("sample", "repeat")  # tell the answers of one judge to one image apart
FORMATS = (".csv", ".csv.gz", ".jsonl", ".parquet")
LARGEST = 1e60  # of a score in a file: fourth powers, as the kurtosis needs them, are finite up to here


@dataclass(frozen=True, slots=True)
class Entry:
    """One score of one image; `value` is None where there is none."""

    prompt: str
    generator: str
    image: str
    value: float | None


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Mean scores by prompt and generator.

    Attributes:
        means: shape (prompts, generators), the images of a prompt joined by `per_prompt`; NaN where there is no score.
        images: how many images each mean has, same shape.
        seed_variance: variance between the images of one prompt, by generator; None where no prompt has two.
        judge_variance: variance between the answers to one image, by generator; None where no image has two.
        samples: answers to an image, on average.
        slices: column -> value -> means of the prompts (or of the questions) that have this value, shaped as `means`.
        bounds: what a score cannot leave, as far as known.
        part_bounds: the same for the columns of slices that are on a scale of their own.
        cost: USD for one judged image, as far as known.
    """

    generators: tuple[str, ...]
    prompts: tuple[str, ...]
    means: Floats
    images: Ints
    seed_variance: tuple[float | None, ...]
    judge_variance: tuple[float | None, ...]
    samples: float
    metric: str
    source: str
    missing: int = 0
    bounds: Interval | None = None
    cost: float | None = None
    slices: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    per_prompt: PerPrompt = MEAN
    part_bounds: Mapping[str, Interval | None] = field(default_factory=dict)

    def on_scale_of(self, column: str) -> ScoreTable:
        """Return the table with the bounds that the slices of `column` have."""
        return replace(self, bounds=self.part_bounds[column]) if column in self.part_bounds else self

    def column(self, generator: str) -> int:
        """Return the column of a generator.

        Raises:
            DataError: there is no such generator; names the file and those that are there.
        """
        if generator not in self.generators:
            known = ", ".join(self.generators[:20]) + (", ..." if len(self.generators) > 20 else "")
            hint = nearest(generator, self.generators)
            raise DataError(f"no generator '{generator}'.{hint} Known: {known}", self.source)
        return self.generators.index(generator)

    def differences(self, a: int, b: int) -> Floats:
        """Score of `a` minus score of `b` on each prompt that both have, equal scores exactly 0; shape (prompts,)."""
        x, y = self.means[:, a], self.means[:, b]
        both = np.isfinite(x) & np.isfinite(y)
        return score_differences(x[both], y[both])

    def too_few(self, generators: Sequence[str], prompts: int, needed: str) -> DataError:
        """Make the error that generators have fewer than two prompts in common; `needed` ends the message."""
        names, plural = "' and '".join(generators), "" if prompts == 1 else "s"
        return DataError(f"'{names}' have {prompts} prompt{plural} with a score in common: {needed}", self.source)

    def spans(self, *, declared: bool = False) -> Interval | None:
        """Return the ends between which a difference of two scores must lie.

        Args:
            declared: Only what the metric says; else from the scores themselves where nobody says. None where unknown.
        """
        known = self.means[np.isfinite(self.means)]
        if self.bounds is None and (declared or not len(known)):
            return None
        low, high = self.bounds or (float(known.min()), float(known.max()))
        return (low - high, high - low) if math.isfinite(high - low) and high > low else None


def score_table(
    entries: Sequence[Entry],
    *,
    metric: str,
    source: str,
    categories: Mapping[str, Mapping[str, str]] | None = None,
    bounds: Interval | None = None,
    cost: float | None = None,
    parts: Mapping[str, Iterable[tuple[str, str, str, float]]] | None = None,
    notes: Sequence[str] = (),
    per_prompt: PerPrompt = MEAN,
) -> ScoreTable:
    """Average the answers to each image, and join the images of each prompt and generator to one score.

    Args:
        entries: One score of one image each.
        metric: Its name.
        source: Where the scores come from, for messages.
        categories: Column -> prompt -> value, for what is told of prompts.
        bounds: The metric's range, where it has ends.
        cost: USD for the judgement of one image, where it is known.
        parts: Column -> (prompt, generator, value, number) of each image, for what is told of parts of a score.
        notes: Further things to tell the reader.
        per_prompt: How the images of a prompt become one score, fitted to the metric.
    """
    known = [entry for entry in entries if entry.value is not None]
    generator, generators = codes(entry.generator for entry in entries)
    prompt, prompts = codes(entry.prompt for entry in entries)
    scored = np.array([entry.value is not None for entry in entries], dtype=bool)
    generator, prompt = generator[scored], prompt[scored]
    value = np.array([entry.value for entry in known], dtype=np.float64)
    image, _ = codes((entry.prompt, entry.generator, entry.image) for entry in known)
    of_image, within_images, answers = pooled(image, value, generator, len(generators))
    first = np.unique(image, return_index=True)[1] if len(image) else image
    shape = (len(prompts), len(generators))
    cell = prompt[first] * shape[1] + generator[first]
    images: Ints = np.bincount(cell, minlength=shape[0] * shape[1])
    failed = _without_score(entries, generators, prompts)
    means = per_prompt.combine(
        np.concatenate((cell, failed)), np.concatenate((of_image, np.full(len(failed), np.nan))), len(images)
    ).reshape(shape)
    part_bounds = {column: (0.0, 1.0) if column == ELEMENT else bounds for column in parts or ()}
    bounds = (0.0, 1.0) if per_prompt.counts else bounds
    _, within_prompts, _ = pooled(codes(cell.tolist())[0], of_image, generator[first], len(generators))
    slices: dict[str, dict[str, Floats]] = {}
    for column, value_of in (categories or {}).items():
        values = [value_of.get(each, "") for each in prompts]
        slices[column] = {
            name: np.where(np.array([each == name for each in values])[:, None], means, np.nan)
            for name in sorted(set(values) - {""})
        }
    row = {name: at for at, name in enumerate(prompts)}
    place = {name: at for at, name in enumerate(generators)}
    for column, told in (parts or {}).items():
        marks: dict[str, dict[tuple[int, int], list[float]]] = {}
        for of_prompt, of_generator, name, number in told:
            marks.setdefault(name, {}).setdefault((row[of_prompt], place[of_generator]), []).append(number)
        slices[column] = {name: np.full(shape, np.nan) for name in sorted(marks)}
        for name, cells in marks.items():
            for at, numbers in cells.items():
                slices[column][name][at] = sum(numbers) / len(numbers)
    return ScoreTable(
        generators=tuple(generators),
        prompts=tuple(prompts),
        means=means,
        images=images.reshape(shape),
        seed_variance=within_prompts,
        judge_variance=within_images,
        samples=answers,
        metric=metric,
        source=source,
        missing=len(entries) - len(known),
        bounds=bounds,
        cost=cost,
        slices=slices,
        notes=(
            *notes,
            *per_prompt.warnings(np.bincount(np.concatenate((cell, failed)), minlength=len(images)), metric),
        ),
        per_prompt=per_prompt,
        part_bounds=part_bounds,
    )


def _without_score(entries: Sequence[Entry], generators: Sequence[str], prompts: Sequence[str]) -> Ints:
    """List the cells of the images without any score, a number for each."""
    known = {(e.prompt, e.generator, e.image) for e in entries if e.value is not None}
    lost = {(e.prompt, e.generator, e.image) for e in entries if e.value is None} - known
    row, column = ({name: at for at, name in enumerate(names)} for names in (prompts, generators))
    return np.array([row[p] * len(generators) + column[g] for p, g, _ in lost], dtype=np.int64)


def read_scores(
    path: Path, metric: str | None = None, by: Sequence[str] = (), per_prompt: PerPrompt = MEAN
) -> ScoreTable:
    """Read a table with `prompt_id`, `generator` and a score for each image, and any further columns as categories.

    Several images of a prompt need a column that tells them apart (`image`, `item`, `seed`, ...; where there is none of
    these, `sample`), several answers to one image a column `repeat`, or `sample` beside such a column. An empty score is a
    missing one.

    Args:
        path: CSV, JSON lines or parquet.
        metric: The column with the scores [score].
        by: Columns with the categories of prompts that are asked for.
        per_prompt: How the images of a prompt become one score; more is better in a table.

    Raises:
        DataError: Names the file and the row: a duplicate, a text where a number belongs, a category that differs
            within a prompt.
        MissingExtra: Parquet without pyarrow.
        ConfigError: An unknown column.
    """
    wanted = metric or "score"
    entries: list[Entry] = []
    seen: dict[tuple[str, ...], int] = {}
    columns: dict[str, None] = {}
    categories: dict[str, dict[str, str]] = {column: {} for column in by if column not in DERIVED}
    texts: dict[str, str] = {}
    for line, record in _rows(path):
        if not columns or path.suffix.lower() == ".jsonl":
            columns |= dict.fromkeys(map(str, record))
            if wanted not in columns:
                raise _no_column(path, line, wanted, columns)
        prompt, generator = (_text(record.get(name), name, path, line) for name in REQUIRED)
        known = [name for name in IMAGE_COLUMNS if name in record] or ["sample"]
        image, sample = (
            "/".join(_shown(record[name]) for name in names if name in record)
            for names in (known, [name for name in SAMPLE_COLUMNS if name not in known])
        )
        if (before := seen.setdefault((prompt, generator, image, sample), line)) != line:
            hint = "" if image.strip("/") else "; several images of a prompt need a column 'image' or 'seed'"
            raise DataError(
                f"prompt '{prompt}' has generator '{generator}' a second time (first in row {before}){hint}", path, line
            )
        entries.append(Entry(prompt, generator, image, _number(record.get(wanted), wanted, path, line)))
        for column, values in categories.items():
            value = _shown(record.get(column))
            if values.setdefault(prompt, value) != value:
                raise DataError(
                    f"'{column}' is '{value}' here and '{values[prompt]}' in another row of prompt '{prompt}'",
                    path,
                    line,
                )
        if isinstance(record.get("prompt"), str):
            texts[prompt] = record["prompt"]
    if not entries:
        raise DataError("no row with a score", path)
    for column in categories:
        if column not in columns:
            raise ConfigError(
                f"{path}: no column '{column}'.{nearest(column, columns)} There are: {', '.join(columns)}"
            )
    if wordless := [column for column in by if column in DERIVED and not texts]:
        raise ConfigError(f"{path}: --by {wordless[0]} needs a column 'prompt' with the texts of the prompts")
    categories |= {
        column: {each: DERIVED[column](text) for each, text in texts.items()} for column in by if column in DERIVED
    }
    return score_table(
        entries,
        metric=wanted,
        source=str(path),
        categories={column: categories[column] for column in by},
        per_prompt=per_prompt.of_metric(None, True, str(path)),
    )


def length_of(prompt: str) -> str:
    """Name the length of a prompt in words, in steps that sort in order."""
    words = len(prompt.split())
    return next(name for most, name in ((15, "1 to 15 words"), (40, "16 to 40 words"), (100, "41 to 100 words"),
                                        (math.inf, "more than 100 words")) if words <= most)  # fmt: skip


DERIVED = {"prompt_length": length_of}  # categories that a prompt's text tells


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows of a table with their numbers: lines of a text file, records of a binary one."""
    if not path.exists():
        raise DataError("no such file, or run folder", path)
    name = path.name.lower()
    if not name.endswith(FORMATS):
        raise DataError(f"a table of scores is one of {', '.join(FORMATS)}", path)
    return read_table(path, REQUIRED)


def _no_column(path: Path, line: int, wanted: str, columns: Iterable[str]) -> DataError:
    there = ", ".join(columns)
    return DataError(f"the column '{wanted}' is missing: choose one with --metric (there are: {there})", path, line)


def _shown(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _text(value: Any, name: str, path: Path, line: int) -> str:
    text = _shown(value)
    if not text:
        raise DataError(f"'{name}' is empty", path, line)
    return text


def _number(value: Any, name: str, path: Path, line: int) -> float | None:
    """Read a finite number; None for an empty cell, or a NaN of a binary table."""
    if (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, str) and not value.strip())
    ):
        return None
    try:
        found = float(value) if "_" not in str(value) else math.nan
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise DataError(f"'{name}' is a number, not '{str(value)[:80]}'", path, line)
    if abs(found) > LARGEST:
        raise DataError(f"'{name}' is too large to compute with: {found:g}", path, line)
    return found
