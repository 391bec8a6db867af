"""The first lines of the page: the verdict in sentences, and the prompts that show it, both images side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from titjudge.core.run_records import BetterGenerator, JudgedExample, PromptExample, Verdict
from titjudge.core.words import number
from titjudge.report.model import Loaded, Report
from titjudge.report.sections import Opening, PromptDuel, PromptDuels, Side
from titjudge.stats.verdict.sentences import digits_of, sentences
from titjudge.stats.verdict.verdict import verdict

_UNKNOWN = "How far these scores agree with people is not known: there are no human pairs of these images."
_NOTHING = "No image got a score."
_PROMPT = 600  # characters shown


def verdict_of(report: Report) -> Verdict:
    """Return the verdict recorded by a single run; compute it for several runs, for a run that recorded none, and for a baseline."""
    recorded = report.runs[0].results.verdict if len(report.runs) == 1 and not report.baseline else None
    return recorded or verdict(report.runs, report.baseline)


def opening(report: Report, counts: str, computed: Verdict | None = None) -> Opening:
    """Make the first lines of the page: for one run, or for several together.

    Args:
        report: The runs.
        counts: How much was judged.
        computed: Their verdict, where it was computed before.
    """
    whole = computed or verdict_of(report)
    lines = _sentences(report.runs[0], whole) if len(report.runs) == 1 else sentences(whole)
    notes = [counts, *([] if any(run.results.pairs for run in report.runs) else [_UNKNOWN])]
    if not lines:
        lines = [_NOTHING] if not any(run.scores for run in report.runs) else notes[1:]
        notes = notes[:1]
    if whole.apart:
        lines = _apart(report, whole)
    return Opening(tuple(lines), tuple(filter(None, notes)), _duels(report, whole.generators))


def _apart(report: Report, whole: Verdict) -> list[str]:
    """Say the verdict of each run where they cannot be joined, and why."""
    why = f"The generators of these runs are not compared with each other: {'; '.join(whole.apart)}."
    verdicts = {run.name: run.results.verdict or verdict([run]) for run in report.runs}
    lines = [f"{run.name}: {line}" for run in report.runs for line in _sentences(run, verdicts[run.name])[:1]]
    return [*sentences(whole), *lines, why]


def _sentences(run: Loaded, record: Verdict) -> list[str]:
    return sentences(record, run.results.settle, run.manifest.lacking)


# -- prompts that show it ----------------------------------------------------------------------------------------------


def _duels(report: Report, record: BetterGenerator | None) -> tuple[PromptDuels, ...]:
    """Show the prompts on which the first of the two generators was furthest ahead, and furthest behind."""
    if record is None or not record.second:
        return ()
    examples = [side for prompt in (*record.won, *record.lost) for side in (prompt.first, prompt.second)]
    places = _places(report, {(example.run, example.item) for example in examples})
    lists = (
        PromptDuels(
            f"What {record.first} {outcome} most against {record.second}",
            tuple(_duel(report, record, prompt, places) for prompt in prompts),
        )
        for outcome, prompts in (("won", record.won), ("lost", record.lost))
    )
    return tuple(duels for duels in lists if duels.duels)


def _duel(
    report: Report, record: BetterGenerator, example: PromptExample, places: Mapping[tuple[str, str], int]
) -> PromptDuel:
    """Show one prompt with the images of the two generators."""
    sides = [
        _side(name, record, image, places)
        for name, image in ((record.first, example.first), (record.second, example.second))
    ]
    prompts = [report.entries[side.image].prompt for side in sides if side.image is not None]
    prompt = prompts[0].strip() if prompts else example.prompt_id
    return PromptDuel(prompt[:_PROMPT], (sides[0], sides[1]), ahead=0 if example.difference > 0 else 1)


def _side(name: str, record: BetterGenerator, example: JudgedExample, places: Mapping[tuple[str, str], int]) -> Side:
    score = "" if example.score is None else number(example.score, digits_of(record))
    return Side(name, places.get((example.run, example.item)), score, example.reason)


def _places(report: Report, images: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Find the entries of images, by the name of the run (empty where there is one) and the item."""
    names: Sequence[str] = [run.name for run in report.runs] if len(report.runs) > 1 else [""]
    return {
        (names[run], entry.id): place
        for place, entry in enumerate(report.entries)
        for run in entry.runs
        if (names[run], entry.id) in images
    }
