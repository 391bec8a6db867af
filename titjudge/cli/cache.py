"""`cache stats` and `cache clear`: the answers kept on disk."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from titjudge.cli.commands import Group
from titjudge.cli.options import JSON, option
from titjudge.cli.output import show_results
from titjudge.cli.terminal import say

if TYPE_CHECKING:
    from titjudge.engine.cache import AnswerCache

_CACHE = option("--cache", "The cache folder  [default: $TITJUDGE_CACHE or cache/].", "DIR", name="folder")


@click.group(cls=Group)
def cache() -> None:
    """Show or clear the cache: answers, embeddings and image checks, kept on disk so that nothing is paid twice.

    \b
    Examples:
      python cli.py cache stats
      python cli.py cache clear --yes
    """


def _open(folder: Path | None) -> AbstractContextManager[AnswerCache]:
    from titjudge.engine.cache import open_cache

    return open_cache(folder)


@cache.command()
@_CACHE
@JSON
def stats(folder: Path | None, json_file: Path | None) -> int:
    """Show the folder of the cache, its size and entries."""
    from titjudge.core.types import Table

    with _open(folder) as opened:
        kinds = Counter(key.partition(":")[0] for key in opened.keys())  # noqa: SIM118
        size = opened.size()
        names = {"ask": "answers", "embed": "embeddings", "image": "image verdicts"}
        rows = tuple((names.get(kind, kind), count) for kind, count in sorted(kinds.items()))
        notes = (f"{size / 2**20:.1f} MiB on disk", *opened.warnings)
        table = Table(f"cache {opened.folder}", ("kind", "entries"), rows, notes)
        show_results([table], {"folder": str(opened.folder), "bytes": size, "entries": dict(kinds)}, json_file)
    return 0


@cache.command()
@_CACHE
@option("--yes", "Do not ask for confirmation.", is_flag=True)
def clear(folder: Path | None, yes: bool) -> int:
    """Delete all entries. Answers that were paid for are lost."""
    with _open(folder) as opened:
        if not yes:
            click.confirm(f"Forget {len(opened)} entries in {opened.folder}?", abort=True)
        say(f"{opened.clear()} entries forgotten")
    return 0
