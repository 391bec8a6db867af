"""`view`: the runs folder in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.commands import Command
from titjudge.cli.options import PATH, page_options, say_address
from titjudge.web.view import PORT


@click.command(cls=Command)
@click.argument("runs", type=PATH, default=Path("runs"))
@page_options(PORT)
def view(runs: Path, host: str, port: int | None, url: str) -> int:
    """Serve a page with the runs of a folder: scores, progress and cost, images as they are judged, and reports.

    Two runs that are ticked can be compared side by side.

    \b
    Example:
      python cli.py view runs
    """
    from titjudge.runs.folder.run_folder import RunFolder
    from titjudge.web.view.server import serve_view

    def ready(links: list[str]) -> None:
        say_address([f"{links[0]}  (Ctrl-C ends)"], links[0], PORT, port)

    serve_view(runs, open_run=RunFolder, host=host, port=port, url=url, ready=ready)
    return 0
