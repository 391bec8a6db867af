"""`suites aggregate`: compute the official tables of a benchmark from answers that exist already."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.commands import Broken, Command, Group
from titjudge.cli.logs import add_log_options
from titjudge.cli.options import JSON, PATH, option, with_options
from titjudge.cli.output import show_tables, write_json
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError

if TYPE_CHECKING:
    from titjudge.core.types import Item, Score
    from titjudge.suites.aggregation import Aggregation, Flag


class _Aggregations(Group):
    """What suites announce, each loaded when it is used or listed."""

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
      python cli.py suites aggregate tiif --answers eval_results --json tiif.json
      python cli.py suites aggregate tiif-text --ocr ocr.json
      python cli.py suites aggregate qwen-image-bench --responses r.jsonl \\
        --metadata bench_metadata.json
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
    """Make the command of what a suite announces."""
    options = with_options(*map(_option, aggregation.flags), JSON)
    run = options(functools.partial(_run, aggregation))
    return click.command(name, cls=Command, help=aggregation.help, short_help=aggregation.summary)(run)


def _option(flag: Flag) -> Any:
    names = {"name": f"--{flag.alias}"} if flag.alias else {"name": flag.parameter}
    paths = flag.metavar in ("FILE", "DIR", "RUN")
    kind = click.Choice(flag.choices) if flag.choices else PATH if paths else click.STRING
    return option(
        f"--{flag.name}",
        flag.help,
        flag.metavar,
        **names,
        type=kind,
        default=flag.default,
        multiple=flag.several,
        required=flag.required,
    )


def _run(aggregation: Aggregation, json_file: Path | None, **values: Any) -> int:
    """Compute what the flags say, and show the results."""
    for flag in aggregation.flags:
        if flag.metavar == "RUN" and values[flag.parameter] is not None:
            values[flag.parameter] = functools.partial(_judged, values[flag.parameter], aggregation.metrics)
    computed = aggregation.compute(**values)
    for line in computed.written:
        say(line)
    show_tables(computed.tables)
    write_json(json_file, computed.results)  # the benchmark's own form
    return 0


def _judged(run: Path, metrics: tuple[str, ...]) -> tuple[list[Item], list[Score]]:
    """Read the items of a run, and its scores by these metrics."""
    from titjudge.runs.folder.run_folder import RunFolder
    from titjudge.stats.verdict.judged_runs import whole_frame

    frame = whole_frame(RunFolder(run))
    scores = [score for name in frame.metrics if name in metrics for *_, score in frame.rows(name)]
    return list(frame.items[str(run)].values()), scores
