"""`compare bridge`: an old judge's leaderboard, carried over to a new judge."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.compare_generators import check_files, file_options, read_judged, write_out
from titjudge.cli.options import PATH, option
from titjudge.cli.terminal import say


@click.command(short_help="Carry a leaderboard over to another judge, by generators that both have judged.")
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@option("--metric", "The metric of the runs, or the score's column in the tables  [default: score].", "NAME")
@file_options
def bridge(
    old: Path, new: Path, metric: str | None, plot: Path | None, out: Path | None, json_file: Path | None
) -> int:
    """Put generators that only the old judge has judged onto the new judge's board, when a judge has died or changed.

    OLD and NEW are runs, or tables of scores (prompt_id, generator, score), by two judges over the same prompts. Generators
    that both have judged are the anchors: a rising line through them maps old scores to new ones, and each carried score
    has a 95% prediction interval. Ten anchors or more make it narrow.

    \b
    Examples:
      python cli.py compare bridge runs/gpt-4o runs/qwen
      python cli.py compare bridge old.csv new.csv --plot bridge.svg
    """
    from titjudge.cli.output import show_notes, show_tables, write_json
    from titjudge.stats.bridging import bridge as build
    from titjudge.stats.bridging import bridge_table

    check_files(plot, out)
    tables = [read_judged(path, metric) for path in (old, new)]
    found = build(*tables)
    shown = bridge_table(found)
    show_tables([shown])
    show_notes([note for table in tables for note in table.notes], [shown])
    if plot is not None:
        from titjudge.report.verdict_charts import write_bridge

        write_bridge(found, plot, str(old), str(new))
        say(f"plot   {plot}")
    write_out([shown], out)
    write_json(json_file, {"old": str(old), "new": str(new), **found.to_json()})
    return 0


COMMANDS = (bridge,)
