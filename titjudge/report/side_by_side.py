"""Several runs side by side: paired differences with their significance, and what changed between the configurations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from titjudge.core.numbers import is_number
from titjudge.core.types import Pair
from titjudge.report.human_agreement import value
from titjudge.report.model import Loaded, Report
from titjudge.report.table_cells import DASH, Json, cell, measured, number, table


def differences(report: Report) -> list[Json]:
    """Compare every other run with the first, by each metric they share, on the same pairs and the same images.

    Accuracies where there are pairs, mean scores always; intervals and p-values are over prompts.
    """
    rows = [row for metric in _shared(report) for row in _of(report, metric)]
    notes = [
        "Each run minus the first, over what both scored. Interval and p by prompts; p adjusted after "
        "Benjamini–Hochberg over the runs of one metric.",
        _pictures(report),
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
        "p adjusted",
    ]
    return [
        table("Runs compared", columns, rows, text=4, notes=notes if rows else [], empty="The runs share no metric.")
    ]


def _pictures(report: Report) -> str:
    """Say that runs judged different images of one name, where they did: differences are the images', too."""
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
    from titjudge.stats.paired_differences import mean_differences, paired_differences

    columns = [(judge, at) for at, judge in enumerate(report.judges) if judge.metric == metric]
    values: dict[str, dict[str, float | None]] = {}
    for judge, at in columns:  # by slot: two checkpoints fill the same one with different images
        scored = [(str(entry.slot), entry) for entry in report.entries if at in entry.scores]
        values[report.runs[judge.run].name] = {slot: value(entry, at, report.judges) for slot, entry in scored}
    baseline, digits = next(iter(values)), columns[0][0].digits
    letters = {1: "a", 0: "tie", -1: "b"}
    found: list[Any] = []
    if report.pairs:
        pairs = [
            Pair(report.entries[a].prompt_id, str(report.entries[a].slot), str(report.entries[b].slot), letters[sign])
            for a, b, sign in report.pairs
        ]
        pairs = list(dict.fromkeys(pairs))
        found += paired_differences(pairs, values, baseline=baseline)
    groups = {str(entry.slot): entry.prompt_id for entry in report.entries}
    found += mean_differences(groups, values, baseline=baseline)
    return [_row(metric, one, digits) for one in found]


def _row(metric: str, one: Any, digits: int) -> list[Any]:
    share = one.what == "accuracy"
    return [metric, one.first, one.second, "agreement" if share else one.what, _shown(one.first_value, share, digits),
            _shown(one.second_value, share, digits), _difference(one, share, digits), one.n, measured(one.p_value), measured(one.p_adjusted)]  # fmt: skip


def _shown(what: float | None, share: bool, digits: int) -> Any:
    if not is_number(what) or what is None:
        return DASH
    return cell(f"{what:.1%}" if share else number(float(what), digits), sort=what)


def _difference(one: Any, share: bool, digits: int) -> Any:
    if one.difference is None:
        return cell(DASH, sub=one.reason)
    scale, unit = (100, " pts") if share else (1, "")
    places = 1 if share else digits
    ends = f"{one.interval[0] * scale:+.{places}f} – {one.interval[1] * scale:+.{places}f}" if one.interval else ""
    return cell(f"{one.difference * scale:+.{places}f}{unit}", sub=ends, sort=one.difference)


def changes(report: Report) -> list[Json]:
    """Tabulate what is not the same in the runs: configuration, models that answered, prompts, metric versions, software."""
    flat = [_facts(run) for run in report.runs]
    names = list(dict.fromkeys(name for facts in flat for name in facts))
    rows = [
        [name, *(facts.get(name, DASH) for facts in flat)]
        for name in names
        if len({facts.get(name) for facts in flat}) > 1
    ]
    columns = ["what", *(run.name for run in report.runs)]
    return [
        table(
            "What changed between the runs",
            columns,
            rows,
            text=len(columns),
            empty="Nothing: same configuration, models and prompts.",
        )
    ]


def _facts(run: Loaded) -> dict[str, str]:
    """Flatten the manifest to `place: value`, without what differs between any two runs (money, time, counts)."""
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
    facts |= _flat(
        {name: record.version for name, record in manifest.metrics.items()},
        "version of metric ",
    )
    if manifest.titjudge:
        facts["titjudge"] = manifest.titjudge
    return facts


def _flat(record: Mapping[str, Any], prefix: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, content in record.items():
        if isinstance(content, Mapping):
            found |= _flat(content, f"{prefix}{key}.")
        elif content not in (None, "", []):
            found[f"{prefix}{key}"] = (
                content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
            )
    return found
