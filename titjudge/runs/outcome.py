"""The end of a run: make tables, results.json and report from its folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from titjudge.core.run_records import Results, Verdict
from titjudge.core.types import Pair, Score, Table
from titjudge.engine.budget import Spending
from titjudge.metrics import Metric, everywhere
from titjudge.runs.folder.journal import damage_lines
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.results import summarize
from titjudge.stats.people.agreement_tables import UNNAMED
from titjudge.stats.scores.per_prompt import PerPrompt
from titjudge.stats.verdict.judged_runs import JudgedRun, RunScores, stored_run
from titjudge.stats.verdict.verdict import verdict
from titjudge.suites.base import Suite

MOST_WITH_TEXTS = 100_000  # images


def verdict_on(folder: RunFolder, results: Results, again: Mapping[tuple[str, str], Score] | None = None) -> Verdict:
    """Compute the verdict on a run from its items and scores.

    Above 100,000 images it has no categories and no reasons: their texts would fill the memory.

    Args:
        folder: The run.
        results: Its other results.
        again: Its scores as they came out when they were computed again; by default those of the folder count.
    """
    if (results.items or 0) > MOST_WITH_TEXTS:
        scores = RunScores(folder.scores(slim=True) if again is None else again)
        return verdict([JudgedRun(UNNAMED, folder.manifest(), results, list(folder.items(slim=True)), scores)])
    run = stored_run(folder, UNNAMED, results)
    if again is not None:
        values = {key: replace(run.scores.get(key, score), value=score.value) for key, score in again.items()}
        run.scores.clear()
        run.scores.update(values)
    return verdict([run])


MOST_REPORTED = (
    100_000  # images of a run that gets its report by itself: beyond it the page costs more than the judging
)


@dataclass(slots=True)
class Outcome:
    """Results of a run that is finished or was interrupted.

    Attributes:
        status: How the run ended, as its manifest says it.
        folder: The run folder.
        results: What results.json holds.
        tables: The tables for people.
        failures: Item, status and reason of each score that is missing.
        warnings: What people should know of the results.
        report: The page; None where there is none.
        no_report: Why there is no page although one was asked for, and the command that writes it.
        lists: How many of the images the page lists, where not all, and the command that lists more.
        reason: Why a cap ended the run.
        mixed: Warnings about models that answered in place of those asked.
        uncertain: USD that requests without an answer may have cost, besides what was spent.
    """

    status: str
    folder: Path
    results: Results
    tables: list[Table]
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    report: Path | None = None
    no_report: str = ""
    lists: str = ""
    reason: str = ""
    mixed: list[str] = field(default_factory=list)
    uncertain: float = 0.0

    @property
    def covered(self) -> tuple[str, int, int] | None:
        """The metric that scored the smallest share of the images: its name, images scored, all images."""
        counts = [
            (name, result.scored or 0, result.images)
            for name, result in self.results.metrics.items()
            if " [" not in name and result.images
        ]
        return min(counts, key=lambda count: count[1] / count[2], default=None)

    @property
    def answered(self) -> tuple[str, int, int] | None:
        """The metric with the smallest share of questions answered: its name, questions answered, all questions."""
        counts = [
            (name, count.asked - count.skipped, count.asked)
            for name, count in self.results.questions.items()
            if " [" not in name
        ]
        return min(counts, key=lambda count: count[1] / count[2], default=None)


def slimness(suite: Suite, metrics: Mapping[str, Metric]) -> tuple[bool, bool]:
    """Tell whether the tables of a run can do with slim items, and with slim scores (`RunFolder.items`, `scores`)."""
    slim = not suite.AGGREGATES
    return slim and all(metric.applies is everywhere for metric in metrics.values()), slim


def finish(
    folder: RunFolder,
    suite: Suite,
    pairs: Sequence[Pair],
    metrics: dict[str, Metric],
    *,
    status: str,
    extra_warnings: Sequence[str] = (),
    report: bool = True,
    per_prompt: str = "mean",
    findings: Callable[[Results], Results] | None = None,
    money: Spending | None = None,
) -> Outcome:
    """Write results.json and report.html from what a run folder holds.

    A run of more than 100,000 images gets no report by itself: `no_report` of the outcome says so. `findings` returns further
    keys for the results; `money` is `folder.money()`, where the caller has read it already.
    """
    slim_items, slim = slimness(suite, metrics)
    items = list(folder.items(slim=slim_items))
    results, tables = summarize(
        items,
        list(folder.scores(slim=slim).values()),
        suite,
        pairs,
        metrics,
        status=status,
        money=money or folder.money(),
        per_prompt=PerPrompt.parse(per_prompt),
        extra_warnings=[*extra_warnings, *damage_lines(folder.damage)],  # known once items and scores are read
    )
    folder.check_in_place()  # the tables may have taken a while
    if findings is not None:
        results = results.joined(findings(results))
    results = results.joined(Results(verdict=verdict_on(folder, results)))
    file = folder.path / "results.json"
    before = file.read_bytes() if file.is_file() else b""
    results.write(file)
    same = file.read_bytes() == before
    failures = [(failure.item, failure.status, failure.reason) for failure in results.failures]
    outcome = Outcome(status, folder.path, results, tables, failures, results.warnings)
    if report:
        _report(folder, outcome, len(items), same)
    return outcome


def _report(folder: RunFolder, outcome: Outcome, images: int, same: bool) -> None:
    """Write the page, unless there are too many images or it is there (`same`: with these results)."""
    command = f"`python cli.py report {shlex.quote(str(folder.path))} --folder`"
    if images > MOST_REPORTED:
        outcome.no_report = f"none by itself for {images:,} images: {command} writes it"
        return
    from titjudge.report import write_report
    from titjudge.report.html import LISTED

    outcome.report = folder.path / "report.html"
    if images > LISTED:
        outcome.lists = f"it lists {LISTED:,} of {images:,} images: {command} lists more"
    if not (same and outcome.report.is_file()):  # a resumed run without new scores keeps its page
        folder.check_in_place()
        write_report([folder], outcome.report)
