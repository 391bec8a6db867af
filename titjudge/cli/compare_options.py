"""Groups of options that several commands share: the scores that they read, the files that they write, when they stop or fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from titjudge.cli.option_table import PATH
from titjudge.cli.options import EXPLAIN, JSON, F, gathered, with_options
from titjudge.cli.output import check_writable, declared, show_notes, show_tables, write_json
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, must_be, not_combined
from titjudge.core.types import Note

if TYPE_CHECKING:
    from titjudge.core.config import RunConfig
    from titjudge.core.tables import Table
    from titjudge.report.drawing import Chart
    from titjudge.runs.study.settling import SettlingQuestion
    from titjudge.stats.scores.scores_table import ScoreTable


class ScoreSource(NamedTuple):
    """The scores that a command compares: of run folders, or of one table.

    Attributes:
        runs: Run folders, or one table of scores.
        metric: The metric; None for the first.
        allow_drift: Whether runs whose models have changed are compared all the same.
        per_prompt: How several images of a prompt become one score.
        range: The ends of the scale of the scores in a table.
    """

    runs: Sequence[Path]
    metric: str | None = None
    allow_drift: bool = False
    per_prompt: str = "mean"
    range: tuple[float, float] | None = None

    @property
    def table(self) -> Path | None:
        """The table of scores; None if the scores are those of runs."""
        return next((path for path in self.runs if path.is_file()), None)

    def check(self) -> None:
        """Check that run folders are given, or one table.

        Raises:
            ConfigError: Neither is given, or both, or several tables, or a scale for runs.
        """
        if not self.runs:
            raise ConfigError("RUNS is missing. Give run folders, or one table of scores")
        if self.table is not None and len(self.runs) > 1:
            raise ConfigError(
                f"{self.table} is a table of scores, so nothing else can be given. Give one table, or run folders"
            )
        if self.table is None and self.range is not None:
            raise ConfigError("--range requires a table of scores: the scale of a run is given by its metric")

    def read(self, by: Sequence[str] = ()) -> ScoreTable:
        """Read the scores, with the category columns that `by` names."""
        from titjudge.runs.study.compared_runs import run_scores
        from titjudge.runs.study.score_files import read_scores
        from titjudge.stats.scores.families import few_prompts
        from titjudge.stats.scores.per_prompt import PerPrompt

        rule = PerPrompt.parse(self.per_prompt)
        if self.table is not None:
            table = read_scores(self.table, self.metric, by, rule, self.range)
        else:
            table = run_scores(self.runs, self.metric, by, allow_drift=self.allow_drift, per_prompt=rule)
        return replace(table, notes=(*table.notes, *few_prompts(table.scored_prompts))) if table.unit is None else table

    def unknown_ends(self, table: ScoreTable, consequence: str) -> list[Note]:
        """Return the note about scores whose scale has unknown ends, if they are unknown."""
        ends = "; --range LOW,HIGH names them" if self.table else ""
        line = f"the ends of the scale are unknown: {consequence}{ends}"
        return [Note("scale_without_ends", line)] if table.width is None else []


def read_judged(path: Path, metric: str | None) -> ScoreTable:
    """Read the scores of one judge: from a run folder, or from a table."""
    return ScoreSource([path], metric).read()


class OutputFiles(NamedTuple):
    """The files that `--plot`, `--out` and `--json` name; None if the flag is missing.

    Attributes:
        plot: The chart; None also of a command without `--plot`.
        out: The tables.
        json_file: The results as JSON.
    """

    plot: Path | None = None
    out: Path | None = None
    json_file: Path | None = None

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
        notes: Iterable[Note] = (),
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
    runs=click.argument("runs", nargs=-1, type=PATH, metavar="SOURCE..."),
    range={"callback": _ends},
)
table_options: Callable[[F], F] = gathered("files", OutputFiles, plot=None, json_file=JSON)
file_options: Callable[[F], F] = with_options(gathered("files", OutputFiles, json_file=JSON), EXPLAIN)


class SettleFlags(NamedTuple):
    """What `--settle` and `--margin` say.

    Attributes:
        settle: The generators, with commas between.
        margin: The difference below which two are equivalent.
    """

    settle: str | None = None
    margin: float | None = None

    def check(self) -> None:
        """Check that the flags go together.

        Raises:
            ConfigError: They do not.
        """
        if self.settle is None and self.margin is not None:
            raise ConfigError("--margin requires --settle A,B")

    def question(self, config: RunConfig) -> SettlingQuestion | None:
        """Make the question of the flags; None without them.

        Raises:
            ConfigError: They do not go with the other options.
        """
        if self.settle is None:
            return None
        from titjudge.runs.study.settling import SettlingQuestion

        for clash, flag in (
            (config.limits.batch, "--batch"),
            (config.shard, "--shard"),
            (config.engine == "ray", "--set engine=ray"),
        ):
            if clash:
                raise ConfigError(not_combined("--settle", flag))
        if config.per_prompt != "mean":
            raise ConfigError("--settle averages the images of a prompt. Remove --per-prompt")
        return SettlingQuestion(tuple(self.settle.split(",")), self.margin)


class GateRule(NamedTuple):
    """The generator that no other may be worse than.

    Attributes:
        baseline: The generator that the others are compared with; None for all pairs.
        fail_if_worse: By how much a generator may be worse; None for no gate.
        strict: Whether prompts that are too few to tell count as a failure.
    """

    baseline: str | None = None
    fail_if_worse: float | None = None
    strict: bool = False

    def check(self) -> None:
        """Check that the flags go together.

        Raises:
            ConfigError: They do not.
        """
        if self.baseline is None and (self.fail_if_worse is not None or self.strict):
            raise ConfigError("--fail-if-worse requires --baseline GENERATOR")
        if self.strict and self.fail_if_worse is None:
            raise ConfigError("--strict requires --fail-if-worse DELTA")
