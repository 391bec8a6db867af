"""`cache stats` and `cache clear`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from titjudge.cli.options import JSON, PATH, option
from titjudge.cli.terminal import say

_CACHE = option("--cache", "The cache folder  [default: $TITJUDGE_CACHE or cache/].", "DIR", name="folder", type=PATH)


@click.group()
def cache() -> None:
    """Answers, embeddings and image verdicts kept on disk, so that nothing is paid twice.

    \b
    Examples:
      python cli.py cache stats
      python cli.py cache clear --yes
    """


def _open(folder: Path | None):  # type: ignore[no-untyped-def]
    from titjudge.core.paths import cache_folder
    from titjudge.engine.cache import AnswerCache

    return AnswerCache(cache_folder(folder))


@cache.command()
@_CACHE
@JSON
def stats(folder: Path | None, json_file: Path | None) -> int:
    """How much is kept, and where."""
    from titjudge.cli.output import show_tables, write_json
    from titjudge.core.types import Table

    opened = _open(folder)
    kinds = Counter(key.partition(":")[0] for key in opened.keys())  # noqa: SIM118
    names = {"ask": "answers", "embed": "embeddings", "image": "image verdicts"}
    rows = tuple((names.get(kind, kind), count) for kind, count in sorted(kinds.items()))
    size = opened.size()
    show_tables(
        [
            Table(
                f"cache {opened.folder}",
                ("kind", "entries"),
                rows,
                (f"{size / 2**20:.1f} MiB on disk", *opened.warnings),
            )
        ]
    )
    write_json(json_file, {"folder": str(opened.folder), "bytes": size, "entries": dict(kinds)})
    opened.close()
    return 0


@cache.command()
@_CACHE
@option("--yes", "Do not ask.", is_flag=True)
def clear(folder: Path | None, yes: bool) -> int:
    """Forget every answer. What was paid for them is lost."""
    opened = _open(folder)
    if not yes:
        click.confirm(f"Forget {len(opened)} entries in {opened.folder}?", abort=True)
    say(f"{opened.clear()} entries forgotten")
    opened.close()
    return 0
