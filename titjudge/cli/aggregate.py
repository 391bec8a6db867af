"""`suites aggregate`: compute the official tables of a benchmark from answers that exist already."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import click

from titjudge.cli.commands import Broken, Command, Group
from titjudge.cli.logs import add_log_options
from titjudge.cli.option_table import PATH
from titjudge.cli.options import JSON, key_values, option, with_options
from titjudge.cli.output import show_tables, write_json
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, unknown

if TYPE_CHECKING:
    from titjudge.suites.aggregation import Aggregation, Judged


class _Aggregations(Group):
    """The commands that suites announce, each loaded when it is used or listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from titjudge.core import registry

        return registry.names("aggregations")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command_of(cmd_name) if cmd_name in self.list_commands(ctx) else None


@click.group(cls=_Aggregations, short_help="Compute the official tables of a benchmark.")
def aggregate() -> None:
    """Compute the official tables of a benchmark from files that its scripts, or a run, have written. No model is asked.

    \b
    Examples:
      python cli.py suites aggregate tiif eval_results --json tiif.json
      python cli.py suites aggregate tiif-text ocr.json
      python cli.py suites aggregate qwen-image-bench r.jsonl bench_metadata.json
    """


@functools.cache
def _command_of(name: str) -> click.Command:
    from titjudge.core import registry

    try:
        command = make_command(name, registry.load("aggregations", name))
    except ConfigError as error:  # another package's
        return Broken(name, str(error))
    add_log_options(command)
    return command


def make_command(name: str, aggregation: Aggregation) -> click.Command:
    """Make the command of an aggregation that a suite announces."""
    adds = [click.argument("sources", nargs=-1, required=True, type=PATH, metavar="SOURCE...")]
    adds += [option("suite_options")] if aggregation.options else []
    adds += [option("official_files")] if aggregation.metrics else []
    run = with_options(*adds, JSON)(functools.partial(_run, aggregation))
    return click.command(name, cls=Command, help=aggregation.help, short_help=aggregation.summary)(run)


def _run(
    aggregation: Aggregation,
    sources: tuple[Path, ...],
    json_file: Path | None,
    official_files: Path | None = None,
    suite_options: tuple[str, ...] = (),
) -> int:
    """Compute the aggregation with the given flags, and show the results."""
    from titjudge.suites.aggregation import Source

    options = _values(aggregation, key_values("--suite-option", suite_options))
    if aggregation.metrics and len(sources) == 1 and (sources[0] / "manifest.json").is_file():
        source = Source((), _judged(sources[0], aggregation.metrics), official_files)
    else:
        source = Source(sources, None, official_files)
    computed = aggregation.compute(source, **options)
    for line in computed.written:
        say(line)
    show_tables(computed.tables)
    write_json(json_file, computed.results)  # the benchmark's own form
    return 0


def _values(aggregation: Aggregation, given: dict[str, str]) -> dict[str, str]:
    """Return the value of each option of an aggregation.

    Raises:
        ConfigError: There is no such option, or no such value of it.
    """
    for key, value in given.items():
        if key not in aggregation.options:
            raise ConfigError(f"--suite-option: {unknown('option', key, aggregation.options)}")
        if (known := aggregation.options[key]) and value not in known:
            raise ConfigError(f"--suite-option {key}: {unknown('value', value, known)}")
    return {key: next(iter(known), "") for key, known in aggregation.options.items()} | given


def _judged(run: Path, metrics: tuple[str, ...]) -> Judged:
    """Read the items of a run, and its scores by these metrics."""
    from titjudge.runs.folder.run_folder import RunFolder
    from titjudge.stats.verdict.judged_runs import whole_frame

    frame = whole_frame(RunFolder(run))
    scores = [score for name in frame.metrics if name in metrics for *_, score in frame.rows(name)]
    return frame.items(str(run)), scores
