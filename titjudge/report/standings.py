"""The generators of a report: images by prompt, ranks with intervals, and the costs and missing elements of their images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.files import csv_text
from titjudge.core.run_records import BetterGenerator, Verdict
from titjudge.core.tables import Cell, Table, says_something
from titjudge.core.types import Note, Status
from titjudge.core.words import percentage
from titjudge.report.model import ImageEntry, Loaded, Report
from titjudge.report.sections import fragment
from titjudge.stats.generators.comparison_tables import making, ranked_means
from titjudge.stats.verdict.judged_runs import joined, joined_table

_COUNTS = ("images", "refused", "without a score", "no image")
_MADE = ("USD per image", "seconds per image", "vendor", "licence")
_KEYS = ("generator", "images", "refused", "missing", "no_image", "price", "seconds", "vendor", "licence")
IMAGES = Declaration(
    "images", "images of each generator, and their making", Population.ALL_IMAGES, Unit.IMAGE, counts="images"
)
_EXPLAINED = Note(
    "about_images_of_generators",
    "Without a score: images that were not judged, or whose judgement has no value; they are in no mean. No image: "
    "prompts without an image of the generator, such as prompts that its service refused.",
)


def ranking(report: Report, runs: Sequence[Loaded], record: BetterGenerator | None) -> Iterator[Table]:
    """Make the table of ranks and means by the metric that decides, with links to the images; nothing without scores."""
    if record is None or (scores := joined_table(runs, record.metric, sliced=False)) is None:
        return
    settled = any(run.manifest.status == "settled" for run in runs)
    table = ranked_means(scores, runs[0].scale(record.metric, of_prompts=True), record.ranking, settled=settled)
    names = {entry.generator for entry in report.entries}
    rows = [
        (Cell(name, link=fragment("images", g=name)) if name in names else name, *others)
        for name, *others in table.rows
    ]
    of_run = f", {runs[0].name}" if len(runs) < len(report.runs) else ""
    columns = (*table.columns[:2], f"mean by {record.metric}{of_run}" + ("" if settled else " [95% interval]"))
    same = tuple(
        note for note in scores.notes if note.id == "identical_files" and len(runs) > 1
    )  # one run warns of them
    title = f"Mean score by {record.metric}{of_run}"
    yield replace(table, title=title, columns=columns, rows=tuple(rows), notes=same)


@dataclass(slots=True)
class Cells:
    """The images of a report by prompt and generator, named as the joined table of the runs names them.

    Attributes:
        report: The runs.
        columns: The name of each judge in a table of scores.
        entries: The images of a prompt by a generator.
    """

    report: Report
    columns: list[str]
    entries: dict[tuple[str, str], list[ImageEntry]]

    @classmethod
    def of(cls, report: Report, verdict: Verdict) -> Cells:
        """Arrange the images of a report; runs that are not one comparison keep their generators' own names."""
        frame, entries = joined(report.runs), dict[tuple[str, str], list[ImageEntry]]()
        for entry in report.entries:
            run = report.runs[entry.runs[0]]
            item = run.items.get(entry.id)
            prompt = frame.prompt(item) if item is not None else entry.prompt_id or entry.id
            name = entry.generator or run.name
            if item is not None and not verdict.apart:
                name = frame.generator(run.name, item)
            entries.setdefault((prompt, name), []).append(entry)
        columns = [judge.label if verdict.apart else judge.metric for judge in report.judges]
        return cls(report, columns, entries)

    def facts(self, order: Sequence[str]) -> Iterator[Table]:
        """Make the table of images that are refused or missing, and of prices, vendors and licences; nothing if none is known."""
        metrics = [run.covered[0] for run in self.report.runs]
        places = {place for place, judge in enumerate(self.report.judges) if judge.metric == metrics[judge.run]}
        prompts = len({prompt for prompt, _ in self.entries})
        rows = []
        for name in dict.fromkeys([*order, *(name for _, name in self.entries)]):
            listed = [entries for (_, generator), entries in self.entries.items() if generator == name]
            images = [entry for entries in listed for entry in entries]
            if not images:
                continue
            states = Counter(_state(entry, places) for entry in images)
            missing = sum(states.values()) - states[""]
            share = percentage(missing / len(images))
            lost = Cell(f"{missing:,}", note=share, sort=missing) if missing else None
            counts = len(images), states[str(Status.REFUSED)] or None, lost, prompts - len(listed) or None
            rows.append((name, *counts, *making(images)))
        columns = ("generator", *_COUNTS, *_MADE)
        kept = [says_something(cells) for cells in zip(*rows, strict=True)]
        if len(rows) > 1 and any(kept[2:]):
            cells = tuple(tuple(compress(row, kept)) for row in rows)
            yield Table(
                "Images of each generator",
                tuple(compress(columns, kept)),
                cells,
                (_EXPLAINED,),
                declared=IMAGES,
                keys=tuple(compress(_KEYS, kept)),
            )

    def csv(self) -> bytes:
        """Return the scores as `compare generators` reads them: a row for each image, a column for each metric."""
        metrics = list(dict.fromkeys(self.columns))
        rows = []
        for (prompt, generator), entries in self.entries.items():
            for entry in entries:
                values = {self.columns[place]: score.value for place, score in entry.scores.items()}
                runs = "+".join(self.report.runs[run].name for run in entry.runs)
                rows.append((prompt, generator, f"{runs}/{entry.id}", *map(values.get, metrics)))
        return csv_text(("prompt_id", "generator", "image", *metrics), rows).encode(errors="replace")


def _state(entry: ImageEntry, places: set[int]) -> str:
    """Return the text that replaces a missing score; empty if there is a score."""
    scores = [score for place, score in entry.scores.items() if place in places]
    if entry.bad or not scores:
        return "bad"
    return "" if any(score.value is not None for score in scores) else str(scores[0].status)
