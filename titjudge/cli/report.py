"""`report`: write the page of runs again, or export their tables; `view`: serve them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.commands import Command
from titjudge.cli.option_table import PATH
from titjudge.cli.options import JSON, Sinks, gathered, options, say_address
from titjudge.cli.output import show_tables, write_json
from titjudge.cli.terminal import say
from titjudge.core.errors import ConfigError, not_combined
from titjudge.web import PageAddress
from titjudge.web.view import PORT

if TYPE_CHECKING:
    from titjudge.core.types import Table
    from titjudge.runs.folder.run_folder import RunFolder


_SUFFIX = {"latex": "tex", "markdown": "md"}


@click.command(cls=Command)
@click.argument("runs", nargs=-1, required=True, type=PATH)
@options(kind="html", out=None, reference=None, baseline=None, full_images=None, title=None)
@gathered("sinks", Sinks)
@JSON
def report(
    runs: tuple[Path, ...],
    out: Path | None,
    kind: str,
    reference: str | None,
    baseline: str | None,
    full_images: bool,
    title: str | None,
    sinks: Sinks,
    json_file: Path | None,
) -> int:
    """Write one self-contained HTML report of one or several runs, or a folder of many images.

    The report is report.html in the first run, or --out. --format folder writes RUN/report or --out: index.html, and images
    and data in files that it loads (for more images than one file lists, 25,000). --format site writes a board for any web
    server into the folder board or --out: the page, thumbnails, scores, and the runs, which `verify` accepts. An existing
    board keeps its runs and gets these in addition. The other formats are those of the tables.

    \b
    Examples:
      python cli.py report runs/first
      python cli.py report runs/first runs/second --out both.html
      python cli.py report runs/first --format markdown --out summary.md
      python cli.py report runs/first --baseline old-checkpoint
      python cli.py report runs/large --format folder
      python cli.py report runs/first --format site --out board \\
        --title "Our generators"
      python cli.py report runs/first --reference qwen-image-bench
      python cli.py report runs/first --sink wandb:my_model/run7 --step 4000
    """
    from titjudge.core.paths import distinct_paths
    from titjudge.report import export
    from titjudge.runs.folder.journal import damage_lines
    from titjudge.runs.folder.run_folder import RunFolder

    folders = list(map(RunFolder, distinct_paths(runs)))
    for run in folders:
        run.check()
    if reference is not None and kind not in ("html", "folder"):
        raise ConfigError(not_combined("--reference", f"--format {kind}"))
    if baseline and kind not in ("html", "folder", *_SUFFIX):
        raise ConfigError(
            f"--baseline requires --format html, folder, latex or markdown, not {kind}. Remove one of them"
        )
    if title is not None and kind != "site":
        raise ConfigError("--title requires --format site")
    if kind == "site":
        if sinks.sinks:
            raise ConfigError(not_combined("--sink", "--format site"))
        return _write_site(runs, out or Path("board"), title or "Leaderboard", full_images, json_file)
    placed = _standings(folders[0], reference) if reference is not None else []
    name = "report.html" if kind == "html" else f"export.{_SUFFIX.get(kind, kind)}"
    place = runs[0] / name if out is None else out / name if out.is_dir() else out
    if kind in ("html", "folder"):
        place = (out or runs[0] / "report") if kind == "folder" else place
        given = {"baseline": baseline or "", "full_images": full_images, "keep_images": True}
        written = _write_page(folders, place, placed, kind == "folder", **given)
    else:
        written = export(folders, kind, place, baseline=baseline or "")
    for line in (line for run in folders for line in damage_lines(run.damage)):
        say(f"  note: {line}", err=True)
    show_tables(placed)
    say(f"report {written}")
    write_json(json_file, [run.results().to_json() for run in folders])
    sent = [sinks.send(run) for run in runs]  # all of them, even if some fail
    return 0 if all(sent) else 1


def _write_site(runs: Sequence[Path], place: Path, title: str, full_images: bool, json_file: Path | None) -> int:
    """Write a board, and print the next step."""
    from titjudge.runs.publishing import publish

    board = publish(runs, place, title=title, full_images=full_images)
    say(f"board {board.index}")
    say(f"  files: {board.written:,} written, {board.unchanged:,} unchanged, {board.removed:,} removed")
    for run in board.runs:
        say(f"  check it with `verify {run}`")
    write_json(json_file, {"index": str(board.index), "runs": [str(run) for run in board.runs],
               "written": board.written, "unchanged": board.unchanged, "removed": board.removed})  # fmt: skip
    return 0


def _standings(run: RunFolder, reference: str) -> list[Table]:
    """Put a run among the rows of a published table."""
    from titjudge.runs.study.reference import standings
    from titjudge.stats.generators.published_tables import published

    return standings(run, published(reference))


def _write_page(
    folders: Sequence[RunFolder], place: Path, placed: Sequence[Table], as_folder: bool, **options: Any
) -> Path:
    """Write the HTML page, and report how many images it does not show."""
    from dataclasses import asdict

    from titjudge.report import write_report, write_report_folder
    from titjudge.report.html import images_in, listed_in

    more = None
    if placed:
        tables = folders[0].results().to_json().get("tables", [])
        more = {"tables": [*tables, *(asdict(table) for table in placed)]}
    write = write_report_folder if as_folder else write_report
    written = write(folders, place, agreement_json=more, **options)
    page = written.read_bytes()
    listed, images = listed_in(page)
    if listed < images:
        more_in = "" if as_folder else ": `--format folder` writes a folder that lists more"
        click.echo(f"the page lists {listed:,} of {images:,} images{more_in}", err=True)
    count, missing = images_in(page)
    if missing:
        click.echo(f"{len(missing):,} of {count + len(missing):,} images are not shown: {missing[0]}", err=True)
    return written


@click.command(cls=Command)
@click.argument("runs", type=PATH, default=Path("runs"))
@gathered("at", PageAddress, port={"shown": PORT})
def view(runs: Path, at: PageAddress) -> int:
    """Serve a page with the runs of a folder: scores, progress and cost, images as they are judged, and reports.

    Two runs that are ticked can be compared side by side.

    \b
    Example:
      python cli.py view runs
    """
    from titjudge.runs.folder.run_folder import RunFolder
    from titjudge.web.view.server import serve_view

    def ready(links: list[str]) -> None:
        say_address([f"{links[0]}  (Ctrl-C ends)"], links[0], PORT, at.port)

    serve_view(runs, open_run=RunFolder, at=at, ready=ready)
    return 0
