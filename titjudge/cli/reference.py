"""`reference`: the leaderboards that papers have published."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.options import JSON


@click.group()
def reference() -> None:
    """List or show the tables that papers have published; `report RUN --reference NAME` puts a run among their rows.

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
    from titjudge.cli.output import show_tables, write_json
    from titjudge.stats.published_tables import list_table, published_names

    shown = list_table(published_names())
    show_tables([shown])
    write_json(json_file, [dict(zip(shown.columns, row, strict=True)) for row in shown.rows])
    return 0


@reference.command()
@click.argument("name")
@JSON
def show(name: str, json_file: Path | None) -> int:
    """Show one, with its judge, protocol, date and source."""
    from titjudge.cli.output import show_tables, write_json
    from titjudge.stats.published_tables import published

    found = published(name)
    shown = found.table()
    show_tables([shown])
    facts = ("name", "title", "of", "source", "date", "scale", "judge", "protocol", "prompts", "script", "differs")
    rows = [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
    write_json(json_file, {key: getattr(found, key) for key in facts} | {"rows": rows})
    return 0
