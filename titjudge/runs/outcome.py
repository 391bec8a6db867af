"""The end of a run: tables, results.json and report of what its folder holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from titjudge.core.types import Pair, Table
from titjudge.metrics import Metric, everywhere
from titjudge.runs.journal import told
from titjudge.runs.results import summarize
from titjudge.runs.run_folder import RunFolder
from titjudge.stats.per_prompt import PerPrompt


@dataclass(slots=True)
class Outcome:
    """A finished, or well interrupted, run."""

    status: str
    folder: Path
    results: dict[str, Any]
    tables: list[Table]
    failures: list[tuple[str, str, str]] = field(default_factory=list)  # item, status, reason
    warnings: list[str] = field(default_factory=list)
    report: Path | None = None
    reason: str = ""  # why a cap ended the run
    mixed: list[str] = field(default_factory=list)  # models that answered in place of those asked
    uncertain: float = 0.0  # USD that requests without an answer may have cost beside what was spent

    @property
    def covered(self) -> tuple[str, int, int] | None:
        """The metric that scored the smallest share of the images: its name, how many it scored, and of how many."""
        found = [
            (name, each["scored"], each["images"])
            for name, each in self.results["metrics"].items()
            if " [" not in name and each["images"]
        ]
        return min(found, key=lambda each: each[1] / each[2], default=None)


def finish(
    folder: RunFolder,
    suite: Any,
    pairs: Sequence[Pair],
    metrics: dict[str, Metric],
    *,
    status: str,
    extra_warnings: Sequence[str] = (),
    report: bool = True,
    per_prompt: str = "mean",
    findings: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    money: dict[str, Any] | None = None,
) -> Outcome:
    """Write results.json and report.html from what a run folder holds; `findings` adds to the results.

    `money` is what `folder.money()` says now, where that is known.
    """
    slim, money = not suite.AGGREGATES, money or folder.money()
    scores = list(folder.scores(slim=slim).values())
    items = list(folder.items(slim=slim and all(metric.applies is everywhere for metric in metrics.values())))
    extra_warnings = [*extra_warnings, *told(folder.damage)]
    results, tables = summarize(
        items,
        scores,
        suite,
        pairs,
        metrics,
        status=status,
        money=money,
        extra_warnings=extra_warnings,
        per_prompt=PerPrompt.parse(per_prompt),
    )
    if findings is not None:
        results |= findings(results)
    before = (folder.path / "results.json").read_bytes() if (folder.path / "results.json").is_file() else b""
    same = folder.write("results.json", results).read_bytes() == before
    failures = [(each["item"], each["status"], each["reason"]) for each in results["failures"]]
    outcome = Outcome(status, folder.path, results, tables, failures, results["warnings"])
    if report:
        outcome.report = folder.path / "report.html"
        if not (same and outcome.report.is_file()):  # a run that found nothing new keeps its page
            from titjudge.report import write_report

            write_report([folder], outcome.report)
    return outcome
