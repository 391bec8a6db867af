"""`aggregate`: compute the official tables of a benchmark from answers that exist already."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.commands import COMPARE, Group
from titjudge.cli.options import JSON, PATH, option, with_options
from titjudge.cli.output import show_results
from titjudge.cli.terminal import say
from titjudge.core import registry
from titjudge.core.errors import ConfigError
from titjudge.suites.aggregation import Aggregation, Flag

if TYPE_CHECKING:
    from titjudge.core.types import Item, Score


@click.group(cls=Group, section=COMPARE)
def aggregate() -> None:
    """Compute the official tables of a benchmark from files that its scripts, or a run, have written. No model is asked.

    \b
    Examples:
      python cli.py aggregate tiif --answers eval_results --json tiif.json
      python cli.py aggregate tiif-text --ocr ocr.json
      python cli.py aggregate qwen-image-bench --responses r.jsonl \\
        --metadata bench_metadata.json
    """


def make_command(name: str, aggregation: Aggregation) -> click.Command:
    """Make the command of what a suite announces."""
    options = with_options(*map(_option, aggregation.flags), JSON)
    run = options(functools.partial(_run, aggregation))
    return click.command(name, help=aggregation.help, short_help=aggregation.summary)(run)


def _option(flag: Flag) -> Any:
    names = {"name": f"--{flag.alias}"} if flag.alias else {"name": flag.parameter}
    paths = flag.metavar in ("FILE", "DIR", "RUN")
    kind = click.Choice(flag.choices) if flag.choices else PATH if paths else click.STRING
    return option(
        f"--{flag.name}", flag.help, flag.metavar, **names, type=kind, default=flag.default, multiple=flag.several,
        required=flag.required,
    )  # fmt: skip


def _run(aggregation: Aggregation, json_file: Path | None, **values: Any) -> int:
    """Compute what the flags say, and show the results."""
    for flag in aggregation.flags:
        if flag.metavar == "RUN" and values[flag.parameter] is not None:
            values[flag.parameter] = functools.partial(_judged, values[flag.parameter], aggregation.metrics)
    found = aggregation.compute(**values)
    for line in found.written:
        say(line)
    show_results(found.tables, found.results, json_file)
    return 0


def _judged(run: Path, metrics: tuple[str, ...]) -> tuple[list[Item], list[Score]]:
    """Read the items of a run, and its scores by these metrics."""
    from titjudge.runs.folder.run_folder import RunFolder

    folder = RunFolder(run)
    folder.manifest()
    scores = [score for score in folder.scores().values() if score.metric in metrics]
    return list(folder.judged()), scores


for _name in registry.names("aggregations"):
    try:
        aggregate.add_command(make_command(_name, registry.load("aggregations", _name)))
    except ConfigError as error:  # another package's
        say(f"{error}", err=True)
