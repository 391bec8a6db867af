"""Scores as a data frame of pandas or polars."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from titjudge.core.errors import MissingExtra
from titjudge.core.paths import distinct_paths
from titjudge.core.run_records import SCHEMA_VERSION, Manifest, Results
from titjudge.core.types import InvalidItem, Item, Score, Status
from titjudge.runs.api.judged_scores import Scores
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.score_files import REQUIRED, SCORE, score_rows
from titjudge.stats.verdict.judged_runs import JudgedRun, RunScores, joined, stored_run

COLUMNS = tuple("run generator prompt_id prompt image sample metric value status reason".split())

Row = dict[str, object]


def frame(
    scores: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Scores,
    library: Literal["pandas", "polars"] = "pandas",
    metric: str | None = None,
) -> Any:
    """Return scores as a data frame with a row for each image and metric, images without a score included.

        scores = titjudge.frame("runs/first")
        scores.groupby(["metric", "generator"])["value"].mean()

    The columns are run, generator, prompt_id, prompt, image, sample, metric, value, status and reason, then the columns of the data
    (theme, ...). `value` is missing if there is no score; then `status` is the cause, `missing` if the run has not judged the image.
    Generators and prompts of several runs have the names that `compare generators` gives them.

    Args:
        scores: A run folder or a table of scores, as `compare generators` reads them, several of both, or the scores
            that `Judge` returned.
        library: `pandas` or `polars`.
        metric: The only metric to list, or the column of the scores in tables; by default all metrics, and `score`.

    Returns:
        A `pandas.DataFrame` or a `polars.DataFrame`.

    Raises:
        DataError: A folder is not a run, or a run or table is damaged or given twice.
        MissingExtra: The library is not installed.
    """
    try:
        frames = importlib.import_module(library)
    except ImportError:
        raise MissingExtra(library, library, f"frame() with library='{library}'") from None
    if isinstance(scores, Scores):
        rows = [_row(score, "", score.generator, score.prompt_id, score.prompt) for score in scores]
    else:
        rows = list(_of_paths([scores] if isinstance(scores, str | os.PathLike) else scores, metric))
    if metric is not None:
        rows = [row for row in rows if row["metric"] == metric]
    names = dict.fromkeys([*COLUMNS, *(name for row in rows for name in row)])
    columns = {name: [row.get(name) for row in rows] for name in names}
    if library == "polars":
        return frames.DataFrame(columns, schema_overrides={"value": frames.Float64}, strict=False)
    return frames.DataFrame(columns).astype({"value": "float64"})


def _of_paths(paths: Sequence[str | os.PathLike[str]], metric: str | None) -> Iterator[Row]:
    """Yield the rows of runs and tables, in the order of their items and metrics."""
    runs = [_read(path, metric) for path in distinct_paths(paths)]
    table = joined(runs)
    rows: dict[tuple[str, str], list[Row]] = {(run, id): [] for run, images in table.images.items() for id in images}
    for name in dict.fromkeys([*(name for run in runs for name in run.manifest.metrics), *table.metrics]):
        for run, image, score in table.cells(name):
            place = run, table.generator(run, image), table.prompt(image, run)
            valid = (image.prompt, image.sample) if isinstance(image, Item) else ("", 0)
            rows[run, image.id].append(_row(score, *place, *valid) | _covariates(image))
    yield from chain.from_iterable(rows.values())


def _read(path: Path, metric: str | None) -> JudgedRun:
    if path.is_dir():
        return stored_run(RunFolder(path), str(path), whole=True)
    items, scores = [], RunScores()
    for line, record, (prompt, generator, _, value, _) in score_rows(path, name := metric or SCORE):
        meta = {key: cell for key, cell in record.items() if key not in (*REQUIRED, "prompt", name)}
        item = Item(f"row {line}", str(record.get("prompt") or ""), None, generator, prompt, meta)
        items.append(item)
        scores[item.id, name] = Score(item.id, name, value, Status.MISSING if value is None else Status.OK)
    return JudgedRun(str(path), Manifest(schema_version=SCHEMA_VERSION), Results(), items, scores)


def _row(score: Score, run: str, generator: str, prompt_id: str, prompt: str, sample: int = 0) -> Row:
    cells = (
        run,
        generator,
        prompt_id,
        prompt,
        score.item_id,
        sample,
        score.metric,
        score.value,
        str(score.status),
        score.reason,
    )
    return dict(zip(COLUMNS, cells, strict=True))


def _covariates(image: Item | InvalidItem) -> Row:
    """Return the columns of the data; one with the name of another column is called `data_NAME`."""
    return {
        f"data_{name}" if name in COLUMNS else name: value
        for name, value in (image.meta.items() if isinstance(image, Item) else ())
        if isinstance(value, str | int | float)
    }
