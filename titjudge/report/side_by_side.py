"""Several runs side by side: paired differences with p-values, and changes of the configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from titjudge.core.types import Pair
from titjudge.report.human_agreement import value
from titjudge.report.model import Loaded, Report, as_text
from titjudge.report.table_cells import DASH, Json, cell, measured, percent, table


def comparisons(report: Report) -> list[Json]:
    """Tabulate the differences between several runs; nothing for one."""
    return [*differences(report), *changes(report)] if len(report.runs) > 1 else []


def differences(report: Report) -> list[Json]:
    """Compare every other run with the first by each shared metric: accuracy where there are pairs, and mean score."""
    rows = [row for metric in _shared(report) for row in _of(report, metric)]
    notes = [
        "Each run minus the first, over what both scored. Interval and p by prompts; p BH adjusted by "
        "Benjamini and Hochberg over the runs of one metric.",
        _images_differ(report),
    ]
    columns = [
        "metric",
        "run",
        "against",
        "measure",
        "its value",
        "first’s value",
        "difference",
        "n",
        "p",
        "p BH",
    ]
    return [
        table("Runs compared", columns, rows, text=4, notes=notes if rows else [], empty="The runs share no metric.")
    ]


def _images_differ(report: Report) -> str:
    """Note that runs judged different images of one name: the differences are between these images, too."""
    slots = Counter(entry.slot for entry in report.entries)
    several = sum(count > 1 for count in slots.values())
    if not several:
        return ""
    return (
        f"{several:,} of {len(slots):,} images have the same name and prompt in several runs and are different files: "
        "there a difference is one between the images, and each stands with its own scores."
    )


def _shared(report: Report) -> list[str]:
    """List the metrics of the first run that another run has too."""
    first = [judge.metric for judge in report.judges if judge.run == 0]
    others = {judge.metric for judge in report.judges if judge.run > 0}
    return [metric for metric in first if metric in others]


def _of(report: Report, metric: str) -> list[list[Any]]:
    from titjudge.stats.generators.paired_differences import mean_differences, paired_differences

    columns = [(judge, at) for at, judge in enumerate(report.judges) if judge.metric == metric]
    values: dict[str, dict[str, float | None]] = {}
    for judge, at in columns:  # by slot: two checkpoints have different images in the same one
        scored = [(str(entry.slot), entry) for entry in report.entries if at in entry.scores]
        values[report.runs[judge.run].name] = {slot: value(entry, at, report.judges) for slot, entry in scored}
    baseline, digits = next(iter(values)), columns[0][0].digits
    letters = {1: "a", 0: "tie", -1: "b"}
    compared: list[Any] = []
    if report.pairs:
        pairs = [
            Pair(report.entries[a].prompt_id, str(report.entries[a].slot), str(report.entries[b].slot), letters[sign])
            for a, b, sign in report.pairs
        ]
        pairs = list(dict.fromkeys(pairs))
        compared += paired_differences(pairs, values, baseline=baseline)
    groups = {str(entry.slot): entry.prompt_id for entry in report.entries}
    compared += mean_differences(groups, values, baseline=baseline)
    return [_row(metric, one, digits) for one in compared]


def _row(metric: str, one: Any, digits: int) -> list[Any]:
    share = one.what == "accuracy"
    first, second = (
        percent(value) if share else measured(value, digits) for value in (one.first_value, one.second_value)
    )
    return [metric, one.first, one.second, "agreement" if share else one.what, first, second,
            _difference(one, share, digits), one.n, measured(one.p_value), measured(one.p_adjusted)]  # fmt: skip


def _difference(one: Any, share: bool, digits: int) -> Any:
    if one.difference is None:
        return cell(DASH, sub=one.reason)
    scale, unit = (100, " pts") if share else (1, "")
    places = 1 if share else digits
    ends = f"{one.interval[0] * scale:+.{places}f} – {one.interval[1] * scale:+.{places}f}" if one.interval else ""
    return cell(f"{one.difference * scale:+.{places}f}{unit}", sub=ends, sort=one.difference)


def changes(report: Report) -> list[Json]:
    """Tabulate what differs between the runs: configuration, models that answered, prompts, versions of metrics and titjudge."""
    flat = [_facts(run) for run in report.runs]
    names = list(dict.fromkeys(name for facts in flat for name in facts))
    rows = [
        [name, *(facts.get(name, DASH) for facts in flat)]
        for name in names
        if len({facts.get(name) for facts in flat}) > 1
    ]
    columns = ["what", *(run.name for run in report.runs)]
    empty = "Nothing: same configuration, models and prompts."
    return [table("What changed between the runs", columns, rows, text=len(columns), empty=empty)]


def _facts(run: Loaded) -> dict[str, str]:
    """Flatten the manifest to `name: value`, without what differs between any two runs (money, time, counts)."""
    manifest = run.manifest
    facts = _flat(manifest.identity, "")
    for name, role in manifest.roles.items():
        facts[f"{name}: model asked"] = role.model or DASH
        versions = sorted({one.version or DASH for one in role.answered})
        if versions:
            facts[f"{name}: version that answered"] = ", ".join(versions)
    facts |= _flat(manifest.pins, "what answered as ")
    facts |= _flat(manifest.recordings, "recording ")
    facts |= _flat(manifest.prompts, "prompt ")
    facts |= _flat({name: record.version for name, record in manifest.metrics.items()}, "version of metric ")
    if manifest.titjudge:
        facts["titjudge"] = manifest.titjudge
    return facts


def _flat(record: Mapping[str, Any], prefix: str) -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, content in record.items():
        if isinstance(content, Mapping):
            flat |= _flat(content, f"{prefix}{key}.")
        elif content not in (None, "", []):
            flat[f"{prefix}{key}"] = as_text(content)
    return flat
