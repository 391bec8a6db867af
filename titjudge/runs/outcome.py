"""The end of a run: make tables, results.json and report from its folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from titjudge.core.run_records import Manifest, Results, Verdict
from titjudge.core.types import Note, Pair, Table
from titjudge.engine.budget import Spending
from titjudge.metrics import Metric, everywhere
from titjudge.runs.folder.journal import damage_lines
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.results import summarize
from titjudge.stats.people.agreement_tables import UNNAMED
from titjudge.stats.scores.per_prompt import PerPrompt
from titjudge.stats.verdict.judged_runs import stored_run
from titjudge.stats.verdict.verdict import verdict
from titjudge.suites.base import Suite

MOST_WITH_TEXTS = 100_000  # images


def verdict_on(folder: RunFolder, results: Results) -> Verdict:
    """Compute the verdict on a run from its items and scores.

    Above 100,000 images it has no categories: their texts would fill the memory.
    """
    return verdict([stored_run(folder, UNNAMED, results, slim=(results.items or 0) > MOST_WITH_TEXTS)])


MOST_REPORTED = (
    100_000  # images of a run that gets its report by itself: beyond it the page costs more than the judging
)


@dataclass(slots=True)
class Outcome:
    """Results of a run that is finished or was interrupted.

    Attributes:
        status: How the run ended, as in its manifest.
        folder: The run folder.
        results: Content of results.json.
        tables: The tables for people.
        failures: Item, status and reason of each score that is missing.
        warnings: Warnings about the results.
        report: The page; None if there is none.
        no_report: Why there is no page although one was asked for, and the command that writes it.
        lists: The number of images in the page if it does not have all, and the command that lists more.
        reason: Why a cap ended the run.
        mixed: Warnings about models that answered instead of the configured ones.
        uncertain: USD that requests without an answer may have cost, besides what was spent.
    """

    status: str
    folder: Path
    results: Results
    tables: list[Table]
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    warnings: list[Note] = field(default_factory=list)
    report: Path | None = None
    no_report: str = ""
    lists: str = ""
    reason: str = ""
    mixed: list[Note] = field(default_factory=list)
    uncertain: float = 0.0

    @property
    def lacking(self) -> str:
        """Why not all images of the data are judged, as in the manifest."""
        return RunFolder(self.folder).manifest().lacking

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


def slimness(manifest: Manifest, suite: Suite, metrics: Mapping[str, Metric]) -> dict[str, bool]:
    """Return the way to read a run for its tables (`readers`): with texts only if the suite needs them, or there are few images."""
    total = manifest.progress.total if manifest.progress else None
    slim = (total or 0) > MOST_WITH_TEXTS and all(metric.applies is everywhere for metric in metrics.values())
    return {"whole": suite.AGGREGATES, "slim": slim}


def finish(
    folder: RunFolder,
    suite: Suite,
    pairs: Sequence[Pair],
    metrics: dict[str, Metric],
    *,
    status: str,
    extra_warnings: Sequence[Note] = (),
    report: bool = True,
    per_prompt: str = "mean",
    findings: Callable[[Results], Results] | None = None,
    money: Spending | None = None,
) -> Outcome:
    """Write results.json and report.html from the content of a run folder.

    A run of more than 100,000 images gets no report by itself: `no_report` of the outcome gives the reason. `findings`
    returns further keys for the results; `money` is `folder.money()`, if the caller has read it already.
    """
    run = stored_run(folder, UNNAMED, Results(), **slimness(folder.manifest(), suite, metrics))
    results, tables = summarize(
        run.listed,
        run.scores.values(),
        suite,
        pairs,
        metrics,
        status=status,
        money=money or folder.money(),
        per_prompt=PerPrompt.parse(per_prompt),
        extra_warnings=[*extra_warnings, *damage_lines(folder.damage)],  # known once items and scores are read
    )
    folder.check_in_place()  # the tables may have taken a while
    run.results = results.joined(findings(results)) if findings else results
    results = run.results.joined(Results(verdict=verdict([run])))
    file = folder.path / "results.json"
    before = file.read_bytes() if file.is_file() else b""
    results.write(file)
    same = file.read_bytes() == before
    failures = [(failure.item, failure.status, failure.reason) for failure in results.failures]
    outcome = Outcome(status, folder.path, results, tables, failures, results.warnings)
    if report:
        _report(folder, outcome, len(run.listed), same)
    return outcome


def _report(folder: RunFolder, outcome: Outcome, images: int, same: bool) -> None:
    """Write the page, unless there are too many images or it is there (`same`: with these results)."""
    command = f"`python cli.py report {shlex.quote(str(folder.path))} --format folder`"
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
