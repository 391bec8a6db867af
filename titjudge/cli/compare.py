"""`compare`: the better generator, the certainty of that, and the cost of a plan; scores mapped to a new judge."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli import compare_generators
from titjudge.cli.commands import Group
from titjudge.cli.compare_options import OutputFiles, file_options, read_judged
from titjudge.cli.option_table import PATH
from titjudge.cli.options import options
from titjudge.core.paths import distinct_paths


@click.group(cls=Group, default="generators")
def compare() -> None:
    """Compare the mean scores of generators (`compare RUN...`), plan a comparison, replay early stopping, or map scores to a new judge.

    \b
    Examples:
      python cli.py compare runs/first
      python cli.py compare runs/first --baseline base
      python cli.py compare early-stopping runs/first --pair old,new --orders 20
      python cli.py compare plan runs/pilot --difference 0.02 --pair old,new
      python cli.py compare bridge runs/old runs/new
    """


for command in compare_generators.COMMANDS:
    compare.add_command(command)


@compare.command(short_help="Estimate the scores of a new judge from the scores of an old judge.")
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@options("metric")
@file_options
def bridge(old: Path, new: Path, metric: str | None, files: OutputFiles) -> int:
    """Estimate the new judge's scores of generators that only the old judge has judged, when a judge was retired or changed.

    OLD and NEW are runs, or tables of scores (prompt_id, generator, score), by two judges over the same prompts. Generators
    that both have judged are the anchors: a rising line fitted through them maps old scores to new ones, and each mapped
    score has a 95% prediction interval. It takes ten anchors or more to make it narrow.

    \b
    Examples:
      python cli.py compare bridge runs/old runs/new
      python cli.py compare bridge old.csv new.csv --plot bridge.svg
    """
    from titjudge.report.plots import bridge_chart
    from titjudge.stats.ppi.bridging import bridge as build
    from titjudge.stats.ppi.bridging import bridge_table

    tables = [read_judged(path, metric) for path in distinct_paths((old, new))]
    built = build(*tables)
    notes = [note for table in tables for note in table.notes]
    record = {"old": str(old), "new": str(new), **built.to_json()}
    files.finish([bridge_table(built)], record, notes=notes, chart=lambda: bridge_chart(built, str(old), str(new)))
    return 0
