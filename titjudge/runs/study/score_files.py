"""Read tables of scores: a row for each image, or each answer of the judge."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, DataError, nearest
from titjudge.core.names import id_of, plain
from titjudge.core.numbers import missing_code
from titjudge.data.tables import read_table
from titjudge.stats.scores.frame import DERIVED
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt
from titjudge.stats.scores.scores_table import IMAGE_COLUMNS, Entry, ScoreTable, score_table

REQUIRED = ("prompt_id", "generator")
SAMPLE_COLUMNS = ("sample", "repeat")  # tell the answers to one image apart
FORMATS = (".csv", ".csv.gz", ".jsonl", ".parquet")
LARGEST = 1e60  # of a score: fourth powers, as the kurtosis needs them, are finite up to here


def read_scores(
    path: Path,
    metric: str | None = None,
    by: Sequence[str] = (),
    per_prompt: PerPrompt = MEAN,
    bounds: tuple[float, float] | None = None,
) -> ScoreTable:
    """Read a table with `prompt_id`, `generator` and a score for each image, and any further columns as categories.

    Several images of a prompt need a column that tells them apart (`image`, `item`, `seed`, ...; where there is none of
    these, `sample`), several answers to one image a column `repeat`, or `sample` beside such a column. An empty score is a
    missing one.

    Args:
        path: CSV, JSON lines or parquet.
        metric: The column with the scores [score].
        by: Columns with categories of prompts.
        per_prompt: How the images of a prompt become one score; more is better in a table.
        bounds: Ends of the scale of a score, where they are known.

    Raises:
        DataError: A duplicate, a score outside the bounds, a text where a number belongs, a category that differs within a
            prompt; names file and row.
        MissingExtra: Parquet without pyarrow.
        ConfigError: An unknown column.
    """
    rows = _Rows(path, metric or "score", bounds, {column: {} for column in by if column not in DERIVED})
    for line, record in _records(path):
        rows.add(line, record)
    if not rows.entries:
        raise DataError("no row with a score", path)
    rows.check_missing()
    return score_table(
        rows.entries,
        metric=rows.metric,
        source=str(path),
        categories={column: rows.category(column) for column in by},
        per_prompt=per_prompt.of_metric(bounds, True, str(path)),
        bounds=bounds,
        texts={prompt: hash(text) for prompt, text in rows.texts.items()},
    )


@dataclass(slots=True)
class _Rows:
    """The rows of a table that have been read.

    Attributes:
        path: The table.
        metric: The column with the scores.
        bounds: Ends of the scale of a score, where they are known.
        categories: Column -> prompt -> value.
        columns: Names of the columns.
        texts: Prompt id -> text.
    """

    path: Path
    metric: str
    bounds: tuple[float, float] | None
    categories: dict[str, dict[str, str]]
    entries: list[Entry] = field(default_factory=list)
    columns: dict[str, None] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    _lines: dict[tuple[str, ...], int] = field(default_factory=dict)

    def add(self, line: int, record: Mapping[str, Any]) -> None:
        """Add a row."""
        self._check_columns(line, record)
        prompt, generator = (_text(record.get(name), name, self.path, line) for name in REQUIRED)
        prompt = id_of(prompt)
        image, sample = _image_and_sample(record)
        before = self._lines.setdefault((prompt, generator, image, sample), line)
        if before != line:
            hint = "" if image.strip("/") else "; several images of a prompt need a column 'image' or 'seed'"
            what = f"prompt '{prompt}' has generator '{generator}' a second time (first in row {before}){hint}"
            raise DataError(what, self.path, line)
        self.entries.append(Entry(prompt, generator, image, self._value(line, record)))
        self._add_categories(line, prompt, record)
        if isinstance(record.get("prompt"), str):
            self.texts[prompt] = record["prompt"]

    def _check_columns(self, line: int, record: Mapping[str, Any]) -> None:
        """Check that there is a score; each line of JSON may have other columns."""
        if self.columns and self.path.suffix.lower() != ".jsonl":
            return
        self.columns |= dict.fromkeys(map(str, record))
        if self.metric not in self.columns:
            hint = f"choose one with --metric (there are: {', '.join(self.columns)})"
            raise DataError(f"the column '{self.metric}' is missing: {hint}", self.path, line)

    def _value(self, line: int, record: Mapping[str, Any]) -> float | None:
        value = _number(record.get(self.metric), self.metric, self.path, line)
        if value is not None and self.bounds is not None and not self.bounds[0] <= value <= self.bounds[1]:
            scale = f"outside the scale from {self.bounds[0]:g} to {self.bounds[1]:g}"
            raise DataError(f"'{self.metric}' is {value:g}, {scale}", self.path, line)
        return value

    def check_missing(self) -> None:
        """Check that no number stands for missing scores, unless the ends of the scale are known.

        Raises:
            DataError: One occurs several times and is the only negative one.
        """
        values = [entry.value for entry in self.entries if entry.value is not None]
        code = missing_code(values)
        if self.bounds is None and code is not None and code < 0 and values.count(code) > 1:
            what = f"{values.count(code):,} of {len(values):,} scores are {code:g}, and no other is negative"
            raise DataError(
                f"'{self.metric}': {what}: leave the cells of missing scores empty, or name the scale (--range)",
                self.path,
            )

    def _add_categories(self, line: int, prompt: str, record: Mapping[str, Any]) -> None:
        for column, values in self.categories.items():
            value = _stripped(record.get(column))
            if values.setdefault(prompt, value) != value:
                what = f"'{column}' is '{value}' here and '{values[prompt]}' in another row of prompt '{prompt}'"
                raise DataError(what, self.path, line)

    def category(self, column: str) -> Mapping[str, str]:
        """Return the category of each prompt by a column, or by its text.

        Raises:
            ConfigError: There is no such column, or there are no texts.
        """
        if column in DERIVED:
            if not self.texts:
                raise ConfigError(f"{self.path}: --by {column} needs a column 'prompt' with the texts of the prompts")
            return {prompt: DERIVED[column](text) for prompt, text in self.texts.items()}
        if column not in self.columns:
            hint = f"{nearest(column, self.columns)} There are: {', '.join(self.columns)}"
            raise ConfigError(f"{self.path}: no column '{column}'.{hint}")
        return self.categories[column]


def _image_and_sample(record: Mapping[str, Any]) -> tuple[str, str]:
    """Name the image of a row, and the answer to it."""
    images = [name for name in IMAGE_COLUMNS if name in record] or ["sample"]
    samples = [name for name in SAMPLE_COLUMNS if name not in images]

    def joined(names: Sequence[str]) -> str:
        return "/".join(_stripped(record[name]) for name in names if name in record)

    return joined(images), joined(samples)


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows of a table with their line, or record, numbers."""
    if not path.exists():
        raise DataError("no such file, or run folder", path)
    name = path.name.lower()
    if not name.endswith(FORMATS):
        raise DataError(f"a table of scores is one of {', '.join(FORMATS)}", path)
    return read_table(path, REQUIRED)


def _stripped(value: Any) -> str:
    return "" if value is None else plain(str(value))


def _text(value: Any, name: str, path: Path, line: int) -> str:
    text = _stripped(value)
    if not text:
        raise DataError(f"'{name}' is empty", path, line)
    return text


def _number(value: Any, name: str, path: Path, line: int) -> float | None:
    """Read a finite number; None for an empty cell, or a NaN of a binary table."""
    if not _stripped(value) or (isinstance(value, float) and math.isnan(value)):
        return None
    try:
        number = float(value) if "_" not in str(value) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"'{name}' is a number, not '{str(value)[:80]}'", path, line)
    if abs(number) > LARGEST:
        raise DataError(f"'{name}' is too large to compute with: {number:g}", path, line)
    return number
