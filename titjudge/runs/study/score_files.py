"""Read tables of scores: a row for each image, or each answer of the judge."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, DataError, must_be, unknown
from titjudge.core.names import id_of, plain
from titjudge.core.numbers import missing_code
from titjudge.core.types import Item
from titjudge.data.tables import read_table
from titjudge.stats.scores.families import DECLARED, READ, Alike, cluster_of, families
from titjudge.stats.scores.frame import DERIVED
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt
from titjudge.stats.scores.scores_table import IMAGE_COLUMNS, Entry, ScoreTable, score_table

REQUIRED = ("prompt_id", "generator")
SCORE = "score"  # default column of the scores
SAMPLE_COLUMNS = ("sample", "repeat")  # distinguish the answers to one image
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

    Its columns declare families of prompts like columns of other data (`families`).

    Several images of a prompt need a column that distinguishes them (`image`, `item`, `seed`, ...; if there is none of
    these, `sample`), several answers to one image a column `repeat`, or `sample` beside such a column. An empty score is
    a missing one.

    Args:
        path: CSV, JSON lines or parquet.
        metric: The column with the scores [score].
        by: Columns with categories of prompts.
        per_prompt: How the images of a prompt become one score; more is better in a table.
        bounds: Ends of the scale of a score, if they are known.

    Raises:
        DataError: A duplicate, a score outside the bounds, a text where a number belongs, a category that differs within a
            prompt; names file and row.
        MissingExtra: Parquet without pyarrow.
        ConfigError: An unknown column.
    """
    metric = metric or SCORE
    entries: list[Entry] = []
    columns: dict[str, None] = {}
    texts: dict[str, str] = {}
    categories: dict[str, dict[str, str]] = {column: {} for column in by if column not in DERIVED}
    declaring, alike = list[Item](), Alike()
    clusters: dict[str, str] = {}
    for line, record, entry in score_rows(path, metric, bounds):
        columns |= dict.fromkeys(map(str, record))
        entries.append(entry)
        cluster_of(record, entry.prompt, clusters, path, line)
        if not DECLARED.keys().isdisjoint(record):
            meta = {column: _stripped(record[column]) for column in READ if column in record}
            declaring.append(Item("", "", None, entry.generator, entry.prompt, meta))
        for column, values in categories.items():
            category, prompt = _stripped(record.get(column)), entry.prompt
            if values.setdefault(prompt, category) != category:
                what = f"'{column}' is '{category}' here and '{values[prompt]}' in another row of prompt '{prompt}'. Correct one of them"
                raise DataError(what, path, line)
        if isinstance(record.get("prompt"), str):
            texts[entry.prompt] = record["prompt"]
            alike.compare(entry.prompt, record["prompt"], record)
    for column in by:
        if column in DERIVED:
            if not texts:
                raise ConfigError(f"{path}: --by {column} requires the texts of the prompts. Add a column 'prompt'")
            categories[column] = {prompt: DERIVED[column](text) for prompt, text in texts.items()}
        elif column not in columns:
            raise ConfigError(f"{path}: {unknown('column', column, columns)}")
    table = score_table(
        entries,
        metric=metric,
        source=str(path),
        categories={column: categories[column] for column in by},
        per_prompt=per_prompt.of_metric(bounds, True, str(path)),
        bounds=bounds,
        texts={prompt: hash(text) for prompt, text in texts.items()},
        families=families(declaring),
    )
    return replace(table, notes=(*table.notes, *alike.notes()))


def score_rows(
    path: Path, metric: str, bounds: tuple[float, float] | None = None
) -> Iterator[tuple[int, Mapping[str, Any], Entry]]:
    """Yield number, content and score of each row of a table; the arguments and errors are as in `read_scores`."""
    values: list[float] = []
    columns: dict[str, None] = {}
    lines: dict[tuple[str, ...], int] = {}
    for line, record in _records(path):
        if not columns or path.suffix.lower() == ".jsonl":  # each line of JSON may have other columns
            columns |= dict.fromkeys(map(str, record))
            if metric not in columns:
                choice = f"Choose another with --metric (there are: {', '.join(columns)})"
                raise DataError(f"the column '{metric}' is missing. {choice}", path, line)
        prompt, generator = (_text(record.get(name), name, path, line) for name in REQUIRED)
        prompt = id_of(prompt)
        image, sample = _image_and_sample(record)
        before = lines.setdefault((prompt, generator, image, sample), line)
        if before != line:
            hint = "" if image.strip("/") else "; several images of a prompt need a column 'image' or 'seed'"
            what = f"prompt '{prompt}' has generator '{generator}' a second time (first in row {before}){hint}. Remove one of the rows"
            raise DataError(what, path, line)
        value = _number(record.get(metric), metric, path, line)
        if value is not None and bounds is not None and not bounds[0] <= value <= bounds[1]:
            raise DataError(must_be(f"'{metric}'", f"from {bounds[0]:g} to {bounds[1]:g}", value), path, line)
        values += [] if value is None else [value]
        yield line, record, Entry(prompt, generator, image, value)
    if not lines:
        raise DataError("no row has a score. Fill the column of the metric", path)
    if bounds is None:
        _check_missing(values, metric, path)


def _check_missing(values: Sequence[float], metric: str, path: Path) -> None:
    """Check that no number stands for missing scores.

    Raises:
        DataError: One occurs several times and is the only negative one.
    """
    code = missing_code(values)
    if code is not None and code < 0 and values.count(code) > 1:
        what = f"{values.count(code):,} of {len(values):,} scores are {code:g}, and no other is negative"
        raise DataError(
            f"'{metric}': {what}. Leave the cells of missing scores empty, or give the scale with --range", path
        )


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
        raise DataError("no such file or run folder. Correct the path", path)
    name = path.name.lower()
    if not name.endswith(FORMATS):
        raise DataError(must_be("a table of scores", f"one of {', '.join(FORMATS)}", path.suffix), path)
    return read_table(path, REQUIRED)


def _stripped(value: Any) -> str:
    return "" if value is None else plain(str(value))


def _text(value: Any, name: str, path: Path, line: int) -> str:
    text = _stripped(value)
    if not text:
        raise DataError(f"'{name}' is empty. Fill the cell", path, line)
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
        raise DataError(
            f"{must_be(f'{name!r}', 'a number', value)}. Leave the cell empty if there is no score", path, line
        )
    if abs(number) > LARGEST:
        raise DataError(f"'{name}' is too large: {number:g}. Use another unit", path, line)
    return number
