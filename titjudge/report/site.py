"""Write a published board: the report as a folder for any web server, its images by their content, and the scores.

index.html             the report
files/0012.js          all about a hundred images
thumbnails/, images/   named by the content of the image
runs/NAME/             the run itself, which `verify` accepts
scores.csv, results.json
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from titjudge.core.errors import ConfigError
from titjudge.core.prompts import PromptLibrary
from titjudge.core.run_records import StoredRun
from titjudge.core.serialization import json_bytes
from titjudge.core.types import Json
from titjudge.report.contents import contents
from titjudge.report.folder import FILES, INDEX, LISTED, write_data
from titjudge.report.html import entries_to_list, page_with, shown_images, with_images
from titjudge.report.model import Loaded, load
from titjudge.report.sections import Block, FoldedText, Links, Opening, Section
from titjudge.report.site_folder import SiteFolder
from titjudge.report.site_images import write_images
from titjudge.report.standings import Cells
from titjudge.report.verdict import verdict_of

_FILES = ("manifest.json", "results.json", "items.jsonl.gz", "replies.jsonl.gz", "scores.jsonl.gz")


def write_site(
    runs: Sequence[StoredRun],
    site: SiteFolder,
    originals: Mapping[Path, Path],
    *,
    title: str,
    full_images: bool = False,
) -> Path:
    """Write the page, the data and the images of a board; returns the path of its page, which is written last.

    Args:
        runs: The runs as the board has them, in folders below it.
        site: The board.
        originals: The path on this machine of each image that the runs name.
        title: The title of the board.
        full_images: Whether to publish images as they are, beside thumbnails.

    Raises:
        DataError: A run is damaged.
    """
    report = load(runs, deciding_first=True)
    overlays = {loaded.name: run.path / "prompts" for loaded, run in zip(report.runs, runs, strict=True)}
    files = [block for run in report.runs for block in _files(run, overlays[run.name], site)]
    sections = contents(report, [Links("The scores", ("scores.csv", "results.json")), *files])
    numbers = entries_to_list(report, sections, LISTED)
    images = shown_images(report, numbers)
    published = write_images(site, list(images), originals, full=full_images)
    data = write_data(report, images, numbers, lambda name, content: site.put(f"{FILES}/{name}", content))
    page = with_images(page_with(report, sections, data, numbers, title=title, folder=True), published)
    site.put("scores.csv", Cells.of(report, verdict_of(report)).csv())
    site.put("results.json", json_bytes(_record(report.runs, sections) | {"verdict": verdict_of(report).to_json()}))
    site.put(INDEX, page)
    return site.path / INDEX


def _record(runs: Sequence[Loaded], sections: Sequence[Section]) -> Json:
    """Return the content of results.json of the leaderboard."""
    openings = [block for block in sections[0].blocks if isinstance(block, Opening)]
    tables = [*(table for first in openings for table in first.charts), *sections[0].tables]
    return {
        "runs": [{"name": run.name, "folder": f"runs/{run.name}", "status": run.manifest.status} for run in runs],
        "tables": [
            {"columns": table.columns, "rows": table.plain_rows, "notes": table.all_notes, **table.declaration}
            for table in tables
        ],
    }


def _files(run: Loaded, overlay: Path, site: SiteFolder) -> Iterator[Block]:
    """Yield the links to the files of a run, and to the questions of its judge."""
    folder = f"runs/{run.name}"
    links = tuple(f"{folder}/{name}" for name in _FILES if (site.path / folder / name).is_file())
    yield Links(
        f"The run {run.name}",
        links,
        f"`titjudge verify FOLDER/{folder}` computes its scores and tables again, without a key.",
    )
    library = PromptLibrary(overlay if overlay.is_dir() else None)
    for name, digest in run.manifest.prompts.items():
        try:
            same = library.get(name).sha256 == digest
        except ConfigError:
            continue
        files = (root / f"{name}.md" for root in library.roots) if same else ()
        if file := next(filter(Path.is_file, files), None):
            yield FoldedText(f"Prompt template: {name}", file.read_text(encoding="utf-8"))
