"""`fetch`: the published prompt files of a suite."""

from __future__ import annotations

from pathlib import Path

import click

from titjudge.cli.options import PATH, option
from titjudge.cli.terminal import say


@click.command()
@click.argument("suite")
@option("-o", "Where they go  [default: a folder named as the suite].", "DIR", name="folder", type=PATH)
@option(
    "--include", "Files of the hub's repository that fit, instead of those the suite needs.", "PATTERN", multiple=True
)
@option("--revision", "Commit, branch or tag on the hub, instead of the pinned one.", "SHA", default="")
def fetch(suite: str, folder: Path | None, include: tuple[str, ...], revision: str) -> int:
    """Download the published files of a suite, at a pinned revision, each checked by its checksum.

    What is there already is checked and not downloaded again; a download that broke is gone on with. Most files are on GitHub
    and come without images: these are yours. HF_ENDPOINT names another hub, HF_TOKEN a token for it. Where we could pin no
    revision of a data set on the hub, the first download does, in fetched.json. Where there is no network, the message says
    which files of which repository to put where.

    \b
    Examples:
      python cli.py fetch geneval2
      python cli.py fetch tiif -o tiif_data
      python cli.py fetch qwen-image-bench --include 'images/gpt-image-2/*'
      python cli.py fetch lpg-bench
    """
    from titjudge.suites.official_files import fetch_suite

    folder = folder or Path(suite.rpartition("/")[2])
    came = fetch_suite(suite, folder, say, include=include, revision=revision)
    say(f"{came:,} files downloaded into {folder}")
    return 0
