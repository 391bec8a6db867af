"""`report`: write a run's tables and page again."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.options import JSON, PATH


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option("--out", type=PATH, metavar="FILE", help="The page to write  [default: report.html in the first run].")
@click.option("--full-images", is_flag=True, help="Embed large pictures (a large file).")
@JSON
def report(runs: tuple[Path, ...], out: Path | None, full_images: bool, json_file: Path | None) -> int:
    """Write one self-contained HTML report of one or several runs.

    \b
    Examples:
      python cli.py report runs/first
      python cli.py report runs/first runs/second --out both.html
    """
    from titjudge.cli.show import write_json
    from titjudge.report import write_report
    from titjudge.run import RunFolder

    folders = [RunFolder(run) for run in runs]
    for folder in folders:
        folder.manifest()
    written = write_report(folders, out or runs[0] / "report.html", full_images=full_images)
    click.echo(f"report {written}")
    write_json(json_file, [folder.results() for folder in folders])
    return 0
