"""Write a published board: plain pages for any web server that read without scripts, images in files, and the scores.

index.html             the verdict, the leaderboard
prompts.html, prompts/ the prompts, and a page of each with all its images
generators/            a page of each generator
matrix.html            prompts down, generators across; more pages where there are many prompts
methods.html           models, prompts of the judge, dates, price, agreement with people
failures.html          what has no score, and why
thumbnails/, images/   named by the content of the image
runs/NAME/             the run itself, which `verify` accepts
scores.csv, results.json
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError
from titjudge.core.prompts import PromptLibrary
from titjudge.core.run_records import StoredRun
from titjudge.core.serialization import json_bytes
from titjudge.core.tables import Cell, Table
from titjudge.core.words import truncated
from titjudge.report.html import fill, joined
from titjudge.report.judged_images import Judged
from titjudge.report.model import ImageEntry, Loaded, Report, load
from titjudge.report.overview import counts_of, overview_tables
from titjudge.report.provenance import COST, failures, provenance
from titjudge.report.sections import FoldedText
from titjudge.report.site_board import Board, ShownScore, generator_page, prompt_page
from titjudge.report.site_folder import SiteFolder
from titjudge.report.site_images import EDGE, BoardImage, shown_in, write_images
from titjudge.report.verdict import opening
from titjudge.stats.people.agreement_tables import AGREEMENT
from titjudge.stats.ranking.leaderboard import LEADERBOARD

_STYLES = ("base.css", "opening.css", "site.css")
_MATRIX_ROWS = 25
_CELLS = 1500  # of a page of the matrix
_FAILED = 2000  # images listed
_BRIEF = 200  # characters of a prompt in a list


@dataclass(frozen=True, slots=True)
class _Picture:
    """An image with what a page says of it: whose it is, of which prompt, its sources, its scores."""

    generator: str
    prompt: str
    image: BoardImage
    sources: tuple[BoardImage, ...]
    scores: tuple[ShownScore, ...]


def write_site(
    runs: Sequence[StoredRun],
    site: SiteFolder,
    originals: Mapping[Path, Path],
    *,
    title: str,
    full_images: bool = False,
) -> Path:
    """Write the pages and images of a board; returns the path of its first page, which is written last.

    Args:
        runs: The runs as the board has them, in folders below it.
        site: The board.
        originals: The file of each image that the runs name, where it is on this machine.
        title: The title of the board.
        full_images: Whether to publish images as they are, beside thumbnails.

    Raises:
        DataError: A run is damaged.
    """
    report = load(runs)
    with ThreadPoolExecutor(max_workers=1) as statistics:  # beside the images, which other threads make
        making = statistics.submit(Board.from_report, report)
        images = shown_in((entry.shown, entry.sources) for entry in report.entries)
        published = write_images(site, images, originals, full=full_images)
        board = making.result()
    site.put("style.css", joined(_STYLES).encode())
    site.put("scores.csv", board.csv())
    site.put("results.json", json_bytes(board.record()))
    overlays = {loaded.name: run.path / "prompts" for loaded, run in zip(report.runs, runs, strict=True)}
    for name, page in _Pages(board, published, title, overlays).all():
        site.put(name, page.encode(errors="replace"))
    return site.path / "index.html"


class _Pages:
    """The pages of a board."""

    def __init__(
        self, board: Board, published: Mapping[Judged, BoardImage], title: str, overlays: Mapping[str, Path]
    ) -> None:
        self._board, self._published, self._title, self._overlays = board, published, title, overlays
        self._report: Report = board.report
        self._failures = sum(score.value is None for run in self._report.runs for score in run.scores.values())

    def all(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each page and the page."""
        yield from self._prompts()
        yield from self._generators()
        yield from self._matrix()
        yield "methods.html", self._methods()
        yield "failures.html", self._failed()
        yield "index.html", self._index()

    def _page(self, template: str, heading: str, *, up: str = "", here: str = "", **content: Any) -> str:
        common = {"title": self._title, "heading": heading, "up": up, "here": here, "edge": EDGE}
        return fill(
            f"site_{template}.html", generator_page=generator_page, prompt_page=prompt_page, **common, **content
        )

    # -- the first page --------------------------------------------------------------------------------------------------

    def _index(self) -> str:
        """Make the first page: the verdict with its examples, warnings, and the standings."""
        runs, report = self._report.runs, self._report
        first = opening(report, counts_of(runs[0]) if len(runs) == 1 else "", self._board.verdict)
        by_number = {number: entry for number, entry in enumerate(report.entries) if number in first.images}
        pictures = {number: self._picture(entry).image for number, entry in by_number.items()}
        links = {
            number: prompt_page(prompt)
            for prompt, entry in self._entries()
            for number, example in by_number.items()
            if example is entry
        }
        warnings = [(run.name if len(runs) > 1 else "", warning) for run in runs for warning in run.results.warnings]
        open_runs = [(run.name, run.manifest.status) for run in runs if run.manifest.incomplete]
        return self._page(
            "index", self._title, here="index.html", first=first, pictures=pictures, links=links, warnings=warnings,
            open_runs=open_runs, standings=self._board.standings, missing=self._failures,
        )  # fmt: skip

    def _entries(self) -> Iterator[tuple[str, ImageEntry]]:
        return ((prompt, entry) for (prompt, _), entries in self._board.cells.items() for entry in entries)

    # -- prompts, generators, matrix -------------------------------------------------------------------------------------

    def _prompts(self) -> Iterator[tuple[str, str]]:
        """Yield a page for each prompt, then their list."""
        names = list(self._board.prompts)
        for number, prompt in enumerate(names):
            pictures = [self._picture(entry, name, prompt) for name, entry in self._of_prompt(prompt)]
            around = {
                "before": names[number - 1] if number else None,
                "after": names[number + 1] if number + 1 < len(names) else None,
            }
            yield prompt_page(prompt), self._page(
                "prompt", f"Prompt {number + 1} of {len(names)}", up="../", here="prompts.html", prompt=prompt,
                text=self._board.prompts[prompt], pictures=pictures, **around,
            )  # fmt: skip
        listed = [(prompt, self._brief(prompt), sum(1 for _ in self._of_prompt(prompt))) for prompt in names]
        yield "prompts.html", self._page("prompts", "Prompts", here="prompts.html", prompts=listed)

    def _of_prompt(self, prompt: str) -> Iterator[tuple[str, ImageEntry]]:
        return ((name, entry) for name in self._board.generators for entry in self._board.cells.get((prompt, name), ()))

    def _generators(self) -> Iterator[tuple[str, str]]:
        """Yield a page for each generator."""
        for name in self._board.generators:
            pictures = [self._picture(entry, name, prompt) for prompt, entry in self._board.of_generator(name)]
            rows = [self._row_of(table, name) for table in self._board.standings]
            texts = {picture.prompt: self._brief(picture.prompt) for picture in pictures}
            yield (
                generator_page(name),
                self._page(
                    "generator",
                    name,
                    up="../",
                    pictures=pictures,
                    texts=texts,
                    standings=[row for row in rows if row.rows],
                ),
            )

    def _row_of(self, table: Table, name: str) -> Table:
        rows = tuple(_unlinked(row) for row in table.rows if str(row[0]) == name)
        return replace(table, rows=rows, notes=())

    def _matrix(self) -> Iterator[tuple[str, str]]:
        """Yield the pages of the matrix, each with so many prompts that it opens fast."""
        names, prompts = self._board.generators, list(self._board.prompts)
        size = max(1, min(_MATRIX_ROWS, _CELLS // max(1, len(names))))
        starts = range(0, max(1, len(prompts)), size)
        pages = ["matrix.html", *(f"matrix-{number}.html" for number in range(2, len(starts) + 1))]
        for page, start in zip(pages, starts, strict=True):
            rows = [
                (prompt, self._brief(prompt), [self._cell(prompt, name) for name in names])
                for prompt in prompts[start : start + size]
            ]
            yield (
                page,
                self._page("matrix", "Matrix", here="matrix.html", generators=names, rows=rows, pages=pages, page=page),
            )

    def _cell(self, prompt: str, name: str) -> list[_Picture]:
        return [
            self._picture(entry, name, prompt, reasons=False) for entry in self._board.cells.get((prompt, name), ())
        ]

    def _picture(self, entry: ImageEntry, generator: str = "", prompt: str = "", *, reasons: bool = True) -> _Picture:
        """Return an image of the board with what a page says of it; without its scores where no generator is named."""
        image = entry.shown
        nothing = BoardImage(missing=entry.bad or "there is no image")
        sources = tuple(self._published.get(source, nothing) for source in entry.sources)
        scores = tuple(self._board.scores(entry, reasons=reasons)) if generator else ()
        return _Picture(
            generator, prompt, nothing if image is None else self._published.get(image, nothing), sources, scores
        )

    def _brief(self, prompt: str) -> str:
        return truncated(" ".join(self._board.prompts[prompt].split()), _BRIEF)

    # -- methods and failures --------------------------------------------------------------------------------------------

    def _methods(self) -> str:
        """Make the page of models, prompts, agreement and cost."""
        report = self._report
        blocks = [block for block in provenance(report).blocks if not isinstance(block, FoldedText)]
        details = [_plain(block) if isinstance(block, Table) else block for block in blocks]
        tables = overview_tables(report)
        agreement = [_plain(table) for table in tables if table.declared.id == AGREEMENT.id]
        others = [_plain(table) for table in tables if table.declared not in (AGREEMENT, LEADERBOARD)]
        cost = [_plain(table) for table in failures(report).tables if table.declared is COST]
        runs = [(run.name, counts_of(run)) for run in report.runs]
        texts = list(chain.from_iterable(_templates(run, self._overlays[run.name]) for run in report.runs))
        return self._page(
            "methods", "Methods", here="methods.html", runs=runs, agreement=agreement, others=others, cost=cost, details=details,
            templates=dict(texts),
        )  # fmt: skip

    def _failed(self) -> str:
        """Make the page of what has no score or no image, and why."""
        tables = [_plain(table) for table in failures(self._report).tables if table.declared is not COST]
        rows = []
        for (prompt, name), entries in self._board.cells.items():
            for entry in entries:
                rows += [
                    (name, prompt, score) for score in self._board.scores(entry, reasons=False) if not score.scored
                ]
        none = ShownScore("", "no image", "")
        rows += [(name, prompt, none) for name in self._board.generators for prompt in self._board.without_image(name)]
        return self._page(
            "failures", "Failures", here="failures.html", tables=tables, rows=rows[:_FAILED], count=len(rows)
        )


def _templates(run: Loaded, overlay: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of the templates of the judge that are still those of the run."""
    library = PromptLibrary(overlay if overlay.is_dir() else None)
    for name, digest in run.manifest.prompts.items():
        try:
            same = library.get(name).sha256 == digest
        except ConfigError:
            continue
        for root in library.roots if same else ():
            if (file := root / f"{name}.md").is_file():
                yield name, file.read_text(encoding="utf-8")
                break


def _plain(table: Table) -> Table:
    """Take the links out of a table, which lead into a report, and show it unfolded."""
    return replace(table, rows=tuple(map(_unlinked, table.rows)), folded=False)


def _unlinked(row: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(replace(value, link="") if isinstance(value, Cell) else value for value in row)
