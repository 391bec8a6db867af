"""The sources of scores of the `compare` commands, and the files they write."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from titjudge.cli.options import EXPLAIN, JSON, PATH, TABLE_FILE, F, gathered, option, with_options
from titjudge.cli.output import check_writable, declared, show_notes, show_tables, write_json
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, must_be

if TYPE_CHECKING:
    from titjudge.core.tables import Table
    from titjudge.report.drawing import Chart
    from titjudge.stats.scores.scores_table import ScoreTable

METRIC = option("--metric", "The metric  [default: tit-llm if the run has it, otherwise its first metric].", "NAME")
SCORE_METRIC = option(
    "--metric",
    "Metric of the runs  [default: tit-llm if they have it, otherwise their first], or column of the score in a table "
    "[default: score].",
    "NAME",
)


class ScoreSource(NamedTuple):
    """The scores that a command compares: of run folders, or of one table.

    Attributes:
        runs: Run folders.
        scores: A table of scores, in their place.
        metric: The metric; None for the first.
        allow_drift: Whether runs whose models have changed are compared all the same.
        per_prompt: How several images of a prompt become one score.
        range: The ends of the scale of the scores in a table.
    """

    runs: Sequence[Path] = ()
    scores: Path | None = None
    metric: str | None = None
    allow_drift: bool = False
    per_prompt: str = "mean"
    range: tuple[float, float] | None = None

    def check(self) -> None:
        """Check that runs are given, or a table.

        Raises:
            ConfigError: Neither is given, or both, or one instead of the other.
        """
        if bool(self.runs) == (self.scores is not None):
            both = ", not both" if self.runs else ""
            raise ConfigError(f"give run folders, or a table with --scores FILE{both}")
        if table := next((path for path in self.runs if path.is_file()), None):
            raise ConfigError(f"{table} is a file, not a run folder. Give a table of scores with --scores {table}")
        if self.scores is not None and self.scores.is_dir():
            raise ConfigError(
                f"--scores {self.scores} must be a file, not a folder. Give a run folder without --scores"
            )
        if self.scores is None and self.range is not None:
            raise ConfigError("--range requires --scores: the scale of a run is given by its metric")

    def read(self, by: Sequence[str] = ()) -> ScoreTable:
        """Read the scores, with the category columns that `by` names."""
        from titjudge.runs.study.compared_runs import run_scores
        from titjudge.runs.study.score_files import read_scores
        from titjudge.stats.scores.families import few_prompts
        from titjudge.stats.scores.per_prompt import PerPrompt

        rule = PerPrompt.parse(self.per_prompt)
        if self.scores is not None:
            table = read_scores(self.scores, self.metric, by, rule, self.range)
        else:
            table = run_scores(self.runs, self.metric, by, allow_drift=self.allow_drift, per_prompt=rule)
        return replace(table, notes=(*table.notes, *few_prompts(table.scored_prompts))) if table.unit is None else table

    def unknown_ends(self, table: ScoreTable, consequence: str) -> list[str]:
        """Return the note about scores whose scale has unknown ends, if they are unknown."""
        ends = "; --range LOW,HIGH names them" if self.scores else ""
        return [f"the ends of the scale are unknown: {consequence}{ends}"] if table.width is None else []


def read_judged(path: Path, metric: str | None) -> ScoreTable:
    """Read the scores of one judge: from a run folder, or from a table."""
    source = ScoreSource([path], metric=metric) if path.is_dir() else ScoreSource(scores=path, metric=metric)
    return source.read()


class OutputFiles(NamedTuple):
    """The files that `--plot`, `--out` and `--json` name; None if the flag is missing.

    Attributes:
        out: The tables.
        json_file: The results as JSON.
        plot: The chart; None also of a command without `--plot`.
    """

    out: Path | None
    json_file: Path | None
    plot: Path | None = None

    def check(self) -> None:
        """Check that the files can be written, before anything is computed.

        Raises:
            UserError: One cannot be written, or has an unknown ending.
        """
        if self.plot is not None:
            from titjudge.report.drawing import check_chart

            check_chart(self.plot)
        if self.out is not None:
            from titjudge.report.tables import check_table_file

            check_table_file(self.out)
        check_writable(self.plot)
        check_writable(self.out)

    def finish(
        self,
        tables: Sequence[Table],
        record: Any,
        *,
        notes: Iterable[str] = (),
        lines: Iterable[str] = (),
        chart: Callable[[], Chart] | None = None,
    ) -> None:
        """Print tables, notes and lines, and write the files.

        Args:
            tables: The tables to print, and to write to `--out`.
            record: The content for `--json`.
            notes: Printed below the tables, unless a table has the same note.
            lines: Printed last.
            chart: Makes the chart of `--plot`.
        """
        show_tables(tables)
        show_notes(notes, tables)
        for line in lines:
            say(line)
        if self.plot is not None and chart is not None:
            from titjudge.report.drawing import write_chart

            write_chart(chart(), self.plot)
            say(f"plot   {self.plot}")
        if self.out is not None:
            from titjudge.report.tables import write_tables

            write_tables(tables, self.out)
            say(f"tables {self.out}")
        write_json(self.json_file, declared(record, tables))


def _ends(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[float, float] | None:
    """Read two numbers, the lower one first."""
    if value is None:
        return None
    try:
        low, high = (float(number) for number in value.split(","))
    except ValueError:
        low = high = math.nan
    if not (math.isfinite(high - low) and low < high):
        raise ConfigError(must_be("--range", "two numbers with a comma between, the lower first", value))
    return low, high


scores_options: Callable[[F], F] = gathered(
    "source",
    ScoreSource,
    click.argument("runs", nargs=-1, type=PATH, metavar="[RUN ...]"),
    option(
        "--scores",
        "A table instead of runs: prompt_id, generator, score, and columns of categories (.csv, .csv.gz, .jsonl, .parquet).",
        "FILE",
    ),
    SCORE_METRIC,
    option(
        "--range",
        "Lowest and highest possible score, such as 0,100.",
        "LOW,HIGH",
        callback=_ends,
    ),
    option("--allow-drift", "Compare runs even if the judge, its version or the protocol differs.", is_flag=True),
    option(
        "--per-prompt",
        "How several images of a prompt become one score: their mean, the best, any or all right (any:0.8: right from "
        "a score of 0.8).",
        "HOW",
        default="mean",
    ),
)
table_options: Callable[[F], F] = gathered("files", OutputFiles, TABLE_FILE, JSON)
file_options: Callable[[F], F] = with_options(
    gathered("files", OutputFiles, option("--plot", "Draw a chart (.svg or .png).", "FILE"), TABLE_FILE, JSON), EXPLAIN
)
