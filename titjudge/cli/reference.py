"""`reference`: leaderboards published in papers."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.commands import Group
from titjudge.cli.options import JSON
from titjudge.cli.output import show_results


@click.group(cls=Group)
def reference() -> None:
    """List or show leaderboards published in papers; `report RUN --reference NAME` puts a run among their rows.

    \b
    Examples:
      python cli.py reference list
      python cli.py reference show qwen-image-bench
      python cli.py report runs/first --reference qwen-image-bench
    """


@reference.command(name="list")
@JSON
def list_(json_file: Path | None) -> int:
    """List the published tables."""
    from titjudge.stats.generators.published_tables import list_table, published_names

    table = list_table(published_names())
    show_results([table], table.records, json_file)
    return 0


@reference.command()
@click.argument("name")
@JSON
def show(name: str, json_file: Path | None) -> int:
    """Show one table, with its judge, protocol, date and source."""
    from titjudge.stats.generators.published_tables import published

    leaderboard = published(name)
    table = leaderboard.table()
    facts = ("name", "title", "of", "source", "date", "scale", "judge", "protocol", "prompts", "prompts_of", "script", "differs",
             "remarks")  # fmt: skip
    record = {key: getattr(leaderboard, key) for key in facts} | {"rows": table.records}
    show_results([table], record, json_file)
    return 0
