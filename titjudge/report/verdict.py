"""The first lines of the page: the verdict in sentences, and the prompts that show it, both images side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from titjudge.core.declarations import NEEDS_BOTH, Declaration, Population, Unit
from titjudge.core.run_records import BetterGenerator, JudgedExample, PromptExample, Verdict
from titjudge.core.tables import Note, Table, plain
from titjudge.core.words import number
from titjudge.report.model import Loaded, Report
from titjudge.report.sections import Opening, PromptDuel, PromptDuels, Side
from titjudge.report.standings import ranking
from titjudge.stats.verdict.better_generator import second_opinion
from titjudge.stats.verdict.sentences import digits_of, headline, sentences
from titjudge.stats.verdict.verdict import verdict

_UNKNOWN = (
    "Agreement with people is not known: there are no human pairs of these images. "
    "Give some with --pairs, or collect them with `titjudge label`."
)
_NOTHING = "No image got a score."
_PROMPT = 600  # characters shown
MARGIN = Declaration(
    "margin", "mean scores of the first two generators, as in the verdict", Population.COMMON_OF_TWO, Unit.PROMPT, NEEDS_BOTH,
    correction="interval and p of the verdict, over all compared generators",
)  # fmt: skip


def verdict_of(report: Report) -> Verdict:
    """Return the verdict recorded by a single run; compute it for several runs, for a run that recorded none, and for a baseline."""
    if report.verdict is None:
        recorded = report.runs[0].results.verdict if len(report.runs) == 1 and not report.baseline else None
        report.verdict = recorded or verdict(report.runs, report.baseline)
    return report.verdict


def opening(report: Report, counts: str, whole: Verdict) -> Opening:
    """Make the first lines of the page: for one run, or for several together.

    Args:
        report: The runs.
        counts: How much was judged.
        whole: The verdict on them.
    """
    known = any(run.results.pairs for run in report.runs)
    first = _apart(report, whole) if whole.apart else _joint(report, whole)
    if not first.headline:
        first = replace(first, headline=_NOTHING if known or not any(run.scores for run in report.runs) else _UNKNOWN)
    unknown = [] if known or first.headline == _UNKNOWN else [Note("not_compared_with_people", _UNKNOWN)]
    notes = [Note("counts_of_run", counts), *unknown, *(note for table in first.charts for note in table.notes)]
    return replace(first, notes=tuple(filter(None, notes)))


def _joint(report: Report, whole: Verdict) -> Opening:
    """Write the verdict on one run, or on several together."""
    only = report.runs[0] if len(report.runs) == 1 else None
    incomplete = ", ".join(run.name for run in report.runs if run.manifest.lacking)
    state = (only.results.settle, only.manifest.lacking) if only is not None else (None, incomplete)
    lines = sentences(whole, *state)
    short, numbers = headline(whole, *state)
    charts = _charts(report, report.runs, whole.generators)
    return Opening(
        short or "".join(lines[:1]), numbers, charts, tuple(lines[1:]), examples=_duels(report, whole.generators)
    )


def _charts(report: Report, runs: Sequence[Loaded], record: BetterGenerator | None) -> tuple[Table, ...]:
    """Make the table of means with intervals, and the margin of the best below it."""
    tables = list(ranking(report, runs, record))
    if record is not None and tables and record.difference is not None:
        margin = plain(record.difference, record.interval, digits_of(record), bar=True)
        row = ((f"{record.first} minus {record.second}", margin),)
        doubts = {row[0][0]: record.doubt}
        declared = MARGIN.over(record.prompts, families=record.families is not None, doubts=doubts)
        tables.append(Table("Margin of the best", ("", "difference"), row, axis=(0.0, 0.0), declared=declared))
    return tuple(tables)


def _apart(report: Report, whole: Verdict) -> Opening:
    """Write whether the judges of runs that cannot be joined agree, the verdict of each run, and why they are not joined."""
    why = f"The generators of these runs are not compared with each other: {'; '.join(whole.apart)}."
    found = {run.name: run.results.verdict or verdict([run]) for run in report.runs}
    first, *others = report.runs
    record = found[first.name].generators
    said = [
        second_opinion(record, first.name, run, theirs)
        for run in others
        if record is not None and (theirs := found[run.name].generators) is not None
    ]
    (short, numbers), *more = [opinion for opinion in said if opinion[0]] or [("", "")]
    each = [(run.name, headline(found[run.name], run.results.settle, run.manifest.lacking)) for run in report.runs]
    lines = [
        *(" ".join(opinion) for opinion in more),
        *sentences(whole),
        *(f"{name}: {' '.join(words)}" for name, words in each if words[0]),
        *([why] if short else []),
    ]
    charts = (table for run in report.runs for table in _charts(report, [run], found[run.name].generators))
    return Opening(short or why, numbers, tuple(charts), tuple(lines), examples=_duels(report, record, first.name))


# -- prompts that show it ----------------------------------------------------------------------------------------------


def _duels(report: Report, record: BetterGenerator | None, run: str = "") -> tuple[PromptDuels, ...]:
    """Show the prompts on which the first of the two generators was furthest ahead, and furthest behind.

    Args:
        report: The runs.
        record: The verdict.
        run: The run of the verdict, if that does not name it and there are several.
    """
    if record is None or not record.second:
        return ()
    examples = [side for prompt in (*record.won, *record.lost) for side in (prompt.first, prompt.second)]
    places = _places(report, {(example.run or run, example.item) for example in examples})
    lists = (
        PromptDuels(
            f"What {record.first} {outcome} most against {record.second}",
            tuple(_duel(report, record, prompt, run, places) for prompt in prompts),
        )
        for outcome, prompts in (("won", record.won), ("lost", record.lost))
    )
    return tuple(duels for duels in lists if duels.duels)


def _duel(
    report: Report, record: BetterGenerator, example: PromptExample, run: str, places: Mapping[tuple[str, str], int]
) -> PromptDuel:
    """Show one prompt with the images of the two generators."""
    sides = [
        _side(name, record, image, places.get((image.run or run, image.item)))
        for name, image in ((record.first, example.first), (record.second, example.second))
    ]
    prompts = [report.entries[side.image].prompt for side in sides if side.image is not None]
    prompt = prompts[0].strip() if prompts else example.prompt_id
    return PromptDuel(prompt[:_PROMPT], (sides[0], sides[1]), ahead=0 if example.difference > 0 else 1)


def _side(name: str, record: BetterGenerator, example: JudgedExample, place: int | None) -> Side:
    score = "" if example.score is None else number(example.score, digits_of(record))
    return Side(name, place, score, example.reason)


def _places(report: Report, images: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Find the entries of images, by the name of the run (empty if there is only one) and the item."""
    names: Sequence[str] = [run.name for run in report.runs] if len(report.runs) > 1 else [""]
    return {
        (names[run], entry.id): place
        for place, entry in enumerate(report.entries)
        for run in entry.runs
        if (names[run], entry.id) in images
    }
