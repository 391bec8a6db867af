"""`fetch`: the published prompt files of a suite."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.options import PATH, option
from titjudge.cli.terminal import say


@click.command()
@click.argument("suite")
@option("-o", "Where they go  [default: a folder named as the suite].", "DIR", name="folder", type=PATH)
def fetch(suite: str, folder: Path | None) -> int:
    """Download the published prompt files of a suite, at a pinned revision, each checked by its SHA-256.

    What is there already is checked and not downloaded again. No images come: they are yours. Where there is no network,
    the message says which files of which repository to put where.

    \b
    Examples:
      python cli.py fetch geneval2
      python cli.py fetch tiif -o tiif_data
    """
    from titjudge.suites.official_files import fetch_suite

    folder = folder or Path(suite)
    came = fetch_suite(suite, folder, say)
    say(f"{came} files downloaded into {folder}")
    return 0
