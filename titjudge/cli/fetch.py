"""`fetch`: download the published prompt files of a suite."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.commands import Command
from titjudge.cli.options import option
from titjudge.cli.terminal import say


@click.command(cls=Command, resumed=True)
@click.argument("suite")
@option("-o", "Folder to write to  [default: the name of the suite].", "DIR", name="folder")
@option(
    "--include", "Files of the hub repository to download instead of those the suite needs.", "PATTERN", multiple=True
)
@option("--revision", "Commit, branch or tag on the hub instead of the pinned one.", "SHA", default="")
def fetch(suite: str, folder: Path | None, include: tuple[str, ...], revision: str) -> int:
    """Download the published files of a suite at a pinned revision, and verify their checksums.

    Files that exist are verified and not downloaded again; a broken download is resumed. Most files come from GitHub,
    without images: you make these. HF_ENDPOINT names another hub, HF_TOKEN holds a token for it. A data set whose revision
    is not pinned by titjudge is pinned by the first download, in fetched.json. Without a network, the message names the
    files, their repository, and where to put them.

    \b
    Examples:
      python cli.py fetch geneval2
      python cli.py fetch tiif -o tiif_data
      python cli.py fetch qwen-image-bench --include 'images/gpt-image-2/*'
      python cli.py fetch lpg-bench
    """
    from titjudge.suites.official_files import fetch_suite

    folder = folder or Path(suite.rpartition("/")[2])
    count = fetch_suite(suite, folder, say, include=include, revision=revision)
    say(f"{count:,} files downloaded into {folder}")
    return 0
