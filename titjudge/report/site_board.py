"""What the pages of a published board show: generators and prompts over all runs, images between them, standings, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from titjudge.core.files import csv_text
from titjudge.core.registry import first_metric
from titjudge.core.run_records import Verdict
from titjudge.core.tables import Cell, Table
from titjudge.core.types import Status
from titjudge.core.words import number, percentage
from titjudge.report.model import ImageEntry, Report
from titjudge.report.site_folder import slug
from titjudge.report.verdict import verdict_of
from titjudge.stats.generators.comparison_tables import TIER, compared_table
from titjudge.stats.verdict.judged_runs import JudgedRun, joined, joined_table

MOST = 4  # metrics with a table
_COUNTS = ("images", "refused", "without a score", "no image")
_EXPLAINED = (
    "Without a score: images that were not judged, or whose judgement has no value; they are in no mean. No image: prompts of this board "
    "without an image of the generator, such as those that its service refused."
)


@dataclass(frozen=True, slots=True)
class ShownScore:
    """One score as a page shows it.

    Attributes:
        metric: The metric; empty where nothing was judged.
        value: The value, or what stands for it.
        reason: What the judge said, or why there is none.
        scored: Whether there is a value.
    """

    metric: str
    value: str
    reason: str
    scored: bool = False


@dataclass(slots=True)
class Board:
    """All that the pages show.

    Attributes:
        report: The runs.
        verdict: The verdict on them; where they are not one comparison, `verdict.apart` says why.
        prompts: The text of each prompt by its id, in the order of the data.
        cells: The images of a prompt by a generator.
        generators: Names, best first.
        standings: A table for each metric, of all runs or of each.
    """

    report: Report
    verdict: Verdict
    prompts: dict[str, str]
    cells: dict[tuple[str, str], list[ImageEntry]]
    generators: list[str]
    standings: list[Table]

    @classmethod
    def from_report(cls, report: Report) -> Board:
        """Arrange runs for the pages."""
        verdict = verdict_of(report)
        prompts: dict[str, str] = {}
        cells: dict[tuple[str, str], list[ImageEntry]] = {}
        label, key = _names(report, joint=not verdict.apart)
        for entry in report.entries:
            prompt = key(entry)
            prompts[prompt] = prompts.get(prompt) or entry.prompt
            cells.setdefault((prompt, label(entry)), []).append(entry)
        generators = list(dict.fromkeys(generator for _, generator in cells))
        board = cls(report, verdict, prompts, cells, generators, [])
        board.standings = list(_standings(board))
        ranked = [str(row[0]) for table in board.standings[:1] for row in table.rows]
        board.generators = [
            *(name for name in ranked if name in generators),
            *(name for name in generators if name not in ranked),
        ]
        return board

    def of_generator(self, name: str) -> list[tuple[str, ImageEntry]]:
        """Return the images of a generator with the ids of their prompts, in the order of the prompts."""
        return [(prompt, entry) for prompt in self.prompts for entry in self.cells.get((prompt, name), ())]

    def without_image(self, name: str) -> list[str]:
        """Return the prompts without an image of a generator."""
        return [prompt for prompt in self.prompts if (prompt, name) not in self.cells]

    def scores(self, entry: ImageEntry, *, reasons: bool = True) -> list[ShownScore]:
        """Return the scores of an image; an image that could not be used has none."""
        if entry.bad:
            return [ShownScore("", "not usable", entry.bad)]
        scores = []
        for place, score in entry.scores.items():
            judge = self.report.judges[place]
            value = _status(score.status) if score.value is None else number(score.value, judge.scale.digits)
            reason = self.report.whole(place, score).reason if reasons else score.reason
            scores.append(ShownScore(self.column(place), value, reason, score.value is not None))
        return scores or [ShownScore("", "not judged", "")]

    def column(self, place: int) -> str:
        """Name a judge: by its metric, and by its run where the runs are not one comparison."""
        judge = self.report.judges[place]
        return judge.label if self.verdict.apart else judge.metric

    def csv(self) -> bytes:
        """Return the scores as `compare generators --scores` reads them: a row for each image, a column for each metric."""
        metrics = list(dict.fromkeys(map(self.column, range(len(self.report.judges)))))
        rows = []
        for (prompt, generator), entries in self.cells.items():
            for entry in entries:
                values = {self.column(place): score.value for place, score in entry.scores.items()}
                runs = "+".join(self.report.runs[run].name for run in entry.runs)
                cells = ["" if (value := values.get(name)) is None else value for name in metrics]
                rows.append((prompt, generator, f"{runs}/{entry.id}", *cells))
        return csv_text(("prompt_id", "generator", "image", *metrics), rows).encode(errors="replace")

    def record(self) -> dict[str, object]:
        """Return what results.json of the board holds."""
        return {
            "verdict": self.verdict.to_json(),
            "runs": [{"name": run.name, "folder": f"runs/{run.name}", "status": run.manifest.status} for run in self.report.runs],
            "tables": [
                {"title": table.title, "columns": table.columns, "rows": table.plain_rows, "notes": table.all_notes,
                 **table.declaration}
                for table in self.standings
            ],
        }  # fmt: skip


Name = Callable[[ImageEntry], str]


def _names(report: Report, *, joint: bool) -> tuple[Name, Name]:
    """Return functions that name generator and prompt of an entry, as the joined table of the runs does where there is one."""
    frame = joined(report.runs)

    def label(entry: ImageEntry) -> str:
        run = report.runs[entry.runs[0]]
        item = run.items.get(entry.id)
        return frame.generator(run.name, item) if joint and item is not None else entry.generator or run.name

    def key(entry: ImageEntry) -> str:
        item = report.runs[entry.runs[0]].items.get(entry.id)
        return frame.prompt(item) if item is not None else entry.prompt_id or entry.id

    return label, key


# -- standings -----------------------------------------------------------------------------------------------------------


def _standings(board: Board) -> Iterator[Table]:
    """Make the tables of the metrics: of all runs together where they are one comparison, else of each run."""
    groups = [[run] for run in board.report.runs] if board.verdict.apart else [board.report.runs]
    for runs in groups:
        shared = [name for name in runs[0].metrics if all(name in run.metrics for run in runs)]
        if shared:
            first = first_metric(shared)
            for metric in [first, *(name for name in shared if name != first)][:MOST]:
                yield from _standing(board, runs, metric)


def _standing(board: Board, runs: Sequence[JudgedRun], metric: str) -> Iterator[Table]:
    """Compare the generators by one metric, with counts of images and failures; nothing without scores."""
    scores = joined_table(runs, metric, sliced=False)
    if scores is None:
        return
    settled = any(run.manifest.status == "settled" for run in runs)
    table = compared_table(scores, runs[0].prompt_scale(metric), settled=settled)
    title = f"Leaderboard: {metric}" + (f", {runs[0].name}" if board.verdict.apart else "")
    columns, rows = table.columns, []
    split = 4 if TIER in columns else 3
    for row in table.rows:
        name = str(row[0])
        mean = replace(row[2], bar=True) if isinstance(row[2], Cell) else row[2]
        rows.append(
            (
                Cell(name, link=generator_page(name)),
                row[1],
                mean,
                *row[3:split],
                *_failed(board, name, runs, metric),
                *row[split:],
            )
        )
    yield replace(
        table,
        title=title,
        columns=(*columns[:split], *_COUNTS, *columns[split:]),
        rows=tuple(rows),
        notes=(*table.notes, _EXPLAINED),
    )


def _failed(board: Board, name: str, runs: Sequence[JudgedRun], metric: str) -> tuple[int, int, Cell, int]:
    """Count the images of a generator, those whose judgement was refused, those without a score, and prompts without an image."""
    names = {run.name for run in runs}
    report = board.report
    places = {
        position
        for position, judge in enumerate(report.judges)
        if judge.metric == metric and report.runs[judge.run].name in names
    }
    entries = [
        entry for _, entry in board.of_generator(name) if any(report.runs[run].name in names for run in entry.runs)
    ]
    states = Counter(_state(entry, places) for entry in entries)
    missing = sum(states.values()) - states[""]
    share = percentage(missing / len(entries)) if missing else ""
    counted = Cell(f"{missing:,}", note=share, sort=missing)
    return len(entries), states[str(Status.REFUSED)], counted, len(board.without_image(name))


def _state(entry: ImageEntry, places: set[int]) -> str:
    """Return what stands in place of a score; empty where there is one."""
    scores = [score for place, score in entry.scores.items() if place in places]
    if entry.bad or not scores:
        return "bad"
    return "" if any(score.value is not None for score in scores) else str(scores[0].status)


def _status(status: Status) -> str:
    return str(status).replace("_", " ")


# -- places of pages -----------------------------------------------------------------------------------------------------


def generator_page(name: str) -> str:
    """Name the page of a generator."""
    return f"generators/{slug(name)}.html"


def prompt_page(prompt: str) -> str:
    """Name the page of a prompt."""
    return f"prompts/{slug(prompt)}.html"
