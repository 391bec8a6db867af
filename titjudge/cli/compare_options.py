"""Where the `compare` commands read scores from, and the files they write."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from titjudge.cli.options import JSON, PATH, TABLE_FILE, option, with_options
from titjudge.cli.output import check_writable, show_notes, show_tables, write_json
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError

if TYPE_CHECKING:
    from titjudge.core.tables import Table
    from titjudge.report.drawing import Chart
    from titjudge.stats.scores.scores_table import ScoreTable

METRIC = option("--metric", "The metric to look at, if the run has several.", "NAME")
SCORE_METRIC = option("--metric", "Metric of the runs, or column of the score in a table  [default: score].", "NAME")


class ScoreSource(NamedTuple):
    """The scores that a command compares: of run folders, or of one table."""

    runs: Sequence[Path] = ()
    scores: Path | None = None
    metric: str | None = None
    allow_drift: bool = False
    per_prompt: str = "mean"
    range: tuple[float, float] | None = None

    def read(self, by: Sequence[str] = ()) -> ScoreTable:
        """Read the scores, with the category columns that `by` names.

        Raises:
            ConfigError: Neither runs nor a table are given, or both, or one in the place of the other.
        """
        from titjudge.stats.scores.per_prompt import PerPrompt

        rule = PerPrompt.parse(self.per_prompt)
        if bool(self.runs) == (self.scores is not None):
            both = ", not both" if self.runs else ""
            raise ConfigError(f"name run folders, or a table with --scores FILE{both}")
        if table := next((path for path in self.runs if path.is_file()), None):
            raise ConfigError(f"{table} is no run folder: a table of scores is given with --scores {table}")
        if self.scores is not None and self.scores.is_dir():
            raise ConfigError(f"{self.scores} is a folder: a run is named without --scores")
        if self.scores is not None:
            from titjudge.runs.study.score_files import read_scores

            return read_scores(self.scores, self.metric, by, rule, self.range)
        if self.range is not None:
            raise ConfigError("--range goes with --scores: a run knows the scale of its metric")
        from titjudge.runs.study.generator_scores import run_scores

        return run_scores(self.runs, self.metric, by, allow_drift=self.allow_drift, per_prompt=rule)


def read_judged(path: Path, metric: str | None) -> ScoreTable:
    """Read the scores of one judge: from a run folder, or from a table."""
    source = ScoreSource([path], metric=metric) if path.is_dir() else ScoreSource(scores=path, metric=metric)
    return source.read()


class OutputFiles(NamedTuple):
    """The files that `--plot`, `--out` and `--json` name; None where the flag is missing."""

    plot: Path | None
    out: Path | None
    json_file: Path | None

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
            tables: What is printed, and written to `--out`.
            record: What is written to `--json`.
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
        write_json(self.json_file, record)


def _ends(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[float, float] | None:
    """Read two numbers, the lower one first."""
    if value is None:
        return None
    try:
        low, high = (float(number) for number in value.split(","))
    except ValueError:
        low = high = math.nan
    if not (math.isfinite(high - low) and low < high):
        raise ConfigError(f"--range takes two numbers with a comma between, the lower first, not '{value}'")
    return low, high


def scores_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options that name its scores; it is called with `source`."""

    @wraps(function)
    def command(**flags: Any) -> int:
        source = ScoreSource(**{name: flags.pop(name) for name in ScoreSource._fields})
        return function(source=source, **flags)

    return with_options(
        click.argument("runs", nargs=-1, type=PATH, metavar="[RUN ...]"),
        option(
            "--scores",
            "A table instead of runs: prompt_id, generator, score, and columns of categories (.csv, .csv.gz, .jsonl, .parquet).",
            "FILE",
            type=PATH,
        ),
        SCORE_METRIC,
        option(
            "--range",
            "Ends of the scale of a table's scores, as 0,100: what unseen prompts can do.",
            "LOW,HIGH",
            callback=_ends,
        ),
        option("--allow-drift", "Compare runs even if the judge, its version or the protocol differs.", is_flag=True),
        option(
            "--per-prompt",
            "What several images of a prompt count as: their mean, the best, any or all of them right (any:0.8: right from "
            "that score on).",
            "HOW",
            default="mean",
        ),
    )(command)


def file_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command `--plot`, `--out` and `--json`; it is called with `files`, which have been checked."""

    @wraps(function)
    def command(**flags: Any) -> int:
        files = OutputFiles(**{name: flags.pop(name) for name in OutputFiles._fields})
        files.check()
        return function(files=files, **flags)

    return with_options(
        option("--plot", "Draw a chart (.svg or .png).", "FILE", type=PATH),
        TABLE_FILE,
        JSON,
    )(command)
