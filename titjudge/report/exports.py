"""Exports of one or several runs: csv, json and parquet for programs, LaTeX for papers, Markdown for pull requests."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.errors import ConfigError, MissingExtra, unknown
from titjudge.core.files import csv_text, write_atomic
from titjudge.core.run_records import StoredRun
from titjudge.core.score_parts import contradicted, description, missing
from titjudge.core.tables import Table
from titjudge.core.types import Item, Json
from titjudge.core.words import spending
from titjudge.report.generators import generators
from titjudge.report.model import Report, load
from titjudge.report.overview import overview_tables
from titjudge.report.sections import strings
from titjudge.report.tables import escape_markdown, latex, markdown

COLUMNS = tuple(
    (
        "run item generator prompt_id metric value status reason missing contradicted description prompt "
        "image sample sources"
    ).split()
)
_SCHEMA_VERSION = 1


def export(runs: Sequence[StoredRun], kind: str, out: Path, *, baseline: str = "") -> Path:
    """Write the runs to `out` as `kind`; returns the path.

    `csv` and `parquet` have one row per score (columns `COLUMNS`; lists as JSON in csv). A csv cell of text that a
    spreadsheet would run as a formula gets an apostrophe in front. `json` has manifests, results and scores. `latex` and
    `markdown` have the tables of agreement, of the leaderboard and of generators against each other, with intervals.

    Args:
        runs: Run folders.
        kind: One of `KINDS`.
        out: The file.
        baseline: A generator that the tables compare the others with besides the best.

    Raises:
        ConfigError: `kind` is unknown.
        MissingExtra: pyarrow is not installed.
        DataError: A folder is not a run, or there is no such baseline.
    """
    if kind not in KINDS:
        raise ConfigError(unknown("export", kind, KINDS))
    write_atomic(out, KINDS[kind](load(runs, baseline=baseline)))
    return out


def _rows(report: Report) -> Iterator[Json]:
    """Yield one row per score, in the order of the items and of the metrics."""
    for number, run in enumerate(report.runs):
        metrics = [judge.metric for _, judge in report.judges_of(number)]
        items = {item.id: (position, item) for position, item in enumerate(run.listed)}
        last = len(items)
        scores = sorted(
            run.scores.values(),
            key=lambda score: (items.get(score.item_id, (last, None))[0], score.item_id, metrics.index(score.metric)),
        )
        for lean in scores:
            score = run.scores.whole(lean.item_id, lean.metric)
            _, item = items.get(score.item_id, (last, None))
            of_item: tuple[Any, ...] = ("", "", None, [])
            if isinstance(item, Item):
                of_item = item.prompt, str(item.image or ""), item.sample, list(map(str, item.sources))
            of_score = (
                run.name, score.item_id, score.generator, score.prompt_id, score.metric, score.value, str(score.status),
                score.reason, strings(missing(score.parts)), strings(contradicted(score.parts)), description(score.parts),
            )  # fmt: skip
            yield dict(zip(COLUMNS, (*of_score, *of_item), strict=True))


# -- for programs ----------------------------------------------------------------------------------------------------------


def _csv(report: Report) -> bytes:
    def cell(value: Any) -> Any:
        return (orjson.dumps(value).decode() if value else "") if isinstance(value, list) else value

    return csv_text(COLUMNS, ([cell(value) for value in row.values()] for row in _rows(report))).encode(
        errors="replace"
    )


def _json(report: Report) -> bytes:
    """Write manifests, results and scores of all runs."""
    from titjudge.core.serialization import score_record

    record = {
        "schema_version": _SCHEMA_VERSION,
        "runs": [
            {
                "name": run.name,
                "manifest": run.manifest.to_json(),
                "results": run.results.to_json(),
                "scores": [score_record(run.scores.whole(*key)) for key in run.scores],
            }
            for run in report.runs
        ],
    }
    return orjson.dumps(record, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _parquet(report: Report) -> bytes:
    """Write one row per score; needs pyarrow."""
    try:
        pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "the parquet export") from error
    strings_ = pyarrow.list_(pyarrow.string())
    special = {"value": pyarrow.float64(), "sample": pyarrow.int64()}
    special |= dict.fromkeys(("missing", "contradicted", "sources"), strings_)
    schema = pyarrow.schema([(name, special.get(name, pyarrow.string())) for name in COLUMNS])
    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(_rows(report)), schema=schema), out)
    return out.getvalue()


# -- for people --------------------------------------------------------------------------------------------------------------


def _tables(report: Report) -> list[Table]:
    """Make the tables of results, and of generators against each other."""
    tables = overview_tables(report)
    if (section := generators(report)) is not None:
        tables += [
            block if part.folded else replace(block, title=f"{block.title}: {part.title}")
            for part in section.parts
            for block in part.blocks
            if isinstance(block, Table)
        ]
    return [table for table in tables if table.rows]


def _markdown(report: Report) -> bytes:
    """Write status, spending and warnings of each run, then the tables."""
    lines = []
    for run in report.runs:
        lines += [f"### titjudge: {escape_markdown(run.name)}", ""]
        lines.append(
            f"Status **{escape_markdown(run.manifest.status)}**, spent {spending(run.spent, run.unpriced)}, "
            f"list price {spending(run.list_cost, run.unpriced)}."
        )
        lines += ["", *(f"> {escape_markdown(warning)}" for warning in run.results.warnings), ""]
    return ("\n".join([*lines, markdown(_tables(report))]).rstrip() + "\n").encode(errors="replace")


def _latex(report: Report) -> bytes:
    tables = _tables(report)
    nothing = "" if tables else "% nothing to tabulate: results.json has neither agreement nor leaderboard\n"
    return (latex(tables) + nothing).encode(errors="replace")


KINDS: dict[str, Callable[[Report], bytes]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
    "latex": _latex,
    "markdown": _markdown,
}
