"""Several runs side by side: paired differences with p-values, and changes of the configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from titjudge.core.declarations import FACTS
from titjudge.core.tables import Table
from titjudge.core.types import Note, Pair
from titjudge.report.model import Loaded, Report, is_set, setting
from titjudge.stats.generators.paired_differences import (
    Difference,
    adjusted_together,
    differences_table,
    mean_differences,
    paired_differences,
)

_LETTERS = {1: "a", 0: "tie", -1: "b"}


def comparisons(report: Report) -> list[Table]:
    """Tabulate the differences between several runs; nothing for one."""
    return [*_differences(report), _changes(report)] if len(report.runs) > 1 else []


def _differences(report: Report) -> list[Table]:
    """Compare every other run with the first by each shared metric: accuracy if there are pairs, and mean score.

    No table of runs that share metrics but no image or pair: *Generators* compares them by prompt.
    """
    shared = _shared(report)
    means = [difference for metric in shared for difference in _of_metric(report, metric, _mean_differences)]
    accuracies = [difference for metric in shared for difference in _of_metric(report, metric, _accuracy_differences)]
    together = [
        difference for difference in (*adjusted_together(accuracies), *adjusted_together(means)) if difference.n
    ]
    if shared and not together:
        return []
    table = differences_table(together, "Runs compared", families=bool(report.families))
    notes = tuple(filter(None, (*table.notes, _images_differ(report)))) if together else ()
    return [replace(table, notes=notes, empty="The runs share no metric.")]


def _images_differ(report: Report) -> Note | None:
    """Note that runs judged different images of one name: the differences are between these images, too."""
    slots = Counter(entry.slot for entry in report.entries)
    several = sum(count > 1 for count in slots.values())
    if not several:
        return None
    return Note(
        "images_differ_between_runs",
        f"{several:,} of {len(slots):,} images have the same name and prompt in several runs and are different files: "
        "there, a difference is between the images, and each image is shown with the scores of its run.",
    )


def _shared(report: Report) -> list[str]:
    """List the metrics of the first run that another run has too."""
    first = [judge.metric for judge in report.judges if judge.run == 0]
    others = {judge.metric for judge in report.judges if judge.run > 0}
    return [metric for metric in first if metric in others]


Scores = dict[str, dict[str, float | None]]  # run -> slot of an image -> score


def _of_metric(report: Report, metric: str, compare: Any) -> list[Difference]:
    """Compare the runs by a metric; by slot, as two checkpoints have different images in the same one."""
    scores: Scores = {}
    for place, judge in enumerate(report.judges):
        if judge.metric == metric:
            scored = [(str(entry.slot), entry) for entry in report.entries if place in entry.scores]
            scores[report.runs[judge.run].name] = {slot: report.value(entry, place) for slot, entry in scored}
    return [replace(difference, what=f"{difference.what} of {metric}") for difference in compare(report, scores)]


def _accuracy_differences(report: Report, scores: Scores) -> list[Difference]:
    entries = report.entries
    pairs = [
        Pair(report.unit(entries[a]), str(entries[a].slot), str(entries[b].slot), _LETTERS[sign])
        for a, b, sign in report.pairs
    ]
    return paired_differences(list(dict.fromkeys(pairs)), scores, with_first=True) if pairs else []


def _mean_differences(report: Report, scores: Scores) -> list[Difference]:
    prompts = {str(entry.slot): report.unit(entry) for entry in report.entries}
    return mean_differences(prompts, scores)


def _changes(report: Report) -> Table:
    """Tabulate what differs between the runs: configuration, models that answered, prompts, versions of metrics and titjudge."""
    runs = [_facts(run) for run in report.runs]
    names = dict.fromkeys(name for facts in runs for name in facts)
    rows = tuple(
        (name, *(facts.get(name) for facts in runs)) for name in names if len({facts.get(name) for facts in runs}) > 1
    )
    columns = ("what", *(run.name for run in report.runs))
    empty = "Nothing: same configuration, models and prompts."
    return Table("Changes between the runs", columns, rows, empty=empty, declared=FACTS)


def _facts(run: Loaded) -> dict[str, str]:
    """Flatten the manifest to `name: value`, without what differs between any two runs (money, time, counts)."""
    manifest = run.manifest
    facts = _flat(manifest.identity, "")
    for name, role in manifest.roles.items():
        facts |= _flat({"model asked": role.model}, f"{name}: ")
        versions = sorted({record.version or "not told" for record in role.answered})
        facts |= _flat({"version that answered": ", ".join(versions)}, f"{name}: ")
    facts |= _flat(manifest.pins, "what answered as ")
    facts |= _flat(manifest.recordings, "recording ")
    facts |= _flat(manifest.prompts, "prompt ")
    facts |= _flat({name: record.version for name, record in manifest.metrics.items()}, "version of metric ")
    return facts | _flat({"titjudge": manifest.titjudge}, "")


def _flat(record: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """Flatten a record to `key.key: value`, without what is empty."""
    flat: dict[str, str] = {}
    for key, content in record.items():
        if isinstance(content, Mapping):
            flat |= _flat(content, f"{prefix}{key}.")
        elif is_set(content):
            flat[f"{prefix}{key}"] = setting(content)
    return flat
