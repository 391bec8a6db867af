"""The words and tables around the pictures: headline, agreement, leaderboard, failures, cost, provenance."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from titjudge.core.types import Item
from titjudge.report import provenance, result_tables, table_cells, trust_card
from titjudge.report.manifest_access import deviations, either, identity, mapping, metric, strings
from titjudge.report.model import Judge, Loaded, Report
from titjudge.report.side_by_side import changes, differences
from titjudge.report.table_cells import DASH, Json, fragment, money
from titjudge.stats.agreement import GUESSING


def summary(report: Report) -> Json:
    """Everything of the page but items and pairs; all text is plain."""
    return {
        "title": " · ".join(run.name for run in report.runs) or "no run",
        "runs": [_headline(report, number) for number in range(len(report.runs))],
        "overview": [
            *result_tables.agreement(report),
            *_compared(report),
            *result_tables.leaderboards(report),
            *result_tables.official(report),
            *trust_card.cards(report),
        ],
        "failures": [*provenance.failures(report), provenance.cost(report)],
        "provenance": provenance.provenance(report),
        "deviations": [
            {"run": run.name, "protocol": str(run.manifest.get("protocol", "")), "list": deviations(run)}
            for run in report.runs
        ],
        "manifests": [
            {"run": run.name, "text": json.dumps(run.manifest, indent=2, ensure_ascii=False, default=str)}
            for run in report.runs
        ],
    }


# -- headline ----------------------------------------------------------------------------------------------------------


def _headline(report: Report, at: int) -> Json:
    run = report.runs[at]
    judges = [(place, judge) for place, judge in enumerate(report.judges) if judge.run == at]
    scored, wanted = _coverage(run, [judge for _, judge in judges])
    facts: list[Json] = []
    for place, judge in judges[:4]:
        about = metric(run, judge.metric)
        if table_cells.is_number(about.get("accuracy")):
            ends = table_cells.ends_of(about.get("accuracy_interval"))
            facts.append({
                "label": f"agreement with people, {judge.metric}", "value": f"{about['accuracy']:.1%}",
                "sub": f"{ends[0]:.1%} – {ends[1]:.1%}, 95% interval" if ends else "no interval: too few prompts",
                "h": fragment("pairs", m=place),
            })  # fmt: skip
    facts.append({
        "label": "coverage", "value": f"{scored / wanted:.1%}" if wanted else DASH,
        "sub": f"{scored:,} of {wanted:,} scores", "h": fragment("images", s="none") if scored < wanted else fragment("images"),
    })  # fmt: skip
    facts.append({
        "label": "spent", "value": money(either(run, "spent")), "sub": f"list price {money(either(run, 'list_cost'))}", "h": "#failures",
    })  # fmt: skip
    return {
        "name": run.name,
        "lead": _lead(run, [judge for _, judge in judges]),
        "status": str(run.manifest.get("status") or "unknown"),
        "facts": facts,
        "counts": _counts(report, run),
        "warnings": strings(run.results.get("warnings")),
    }


def _coverage(run: Loaded, judges: list[Judge]) -> tuple[int, int]:
    """Scores there are, and scores there would be had nothing failed; input that could not be used counts as failed."""
    scored = sum(score.value is not None for score in run.scores.values())
    told = [metric(run, judge.metric) for judge in judges]
    if told and all(
        table_cells.is_number(about.get("images")) and table_cells.is_number(about.get("scored")) for about in told
    ):
        return sum(about["scored"] for about in told), sum(about["images"] for about in told)
    return scored, max(scored, len(run.items) * len(judges))


def _lead(run: Loaded, judges: list[Judge]) -> str:
    """One sentence that says what was found."""
    agreed = [(about["accuracy"], judge.metric, about) for judge in judges
              if table_cells.is_number((about := metric(run, judge.metric)).get("accuracy"))]  # fmt: skip
    if not agreed:
        why = "no pair has scores to compare" if run.results.get("pairs") else "there are no human pairs"
        return f"How far these scores agree with people is not known: {why}."
    best, name, about = max(agreed, key=lambda one: one[0])
    pairs = about.get("pairs_scored") or about.get("pairs")
    of = f" of {pairs:,} pairs" if isinstance(pairs, int) else " of the pairs"
    among = f", the most of {len(agreed)} metrics" if len(agreed) > 1 else ""
    whose = "that is better by construction" if run.results.get("reference") == "construction" else "that people prefer"
    p = about.get("p_value")
    guess = f": no better than guessing (p {p:.2g})" if isinstance(p, float) and p >= GUESSING else ""
    return f"{name} prefers the image {whose} in {best:.1%}{of}{among}{guess}."


def _counts(report: Report, run: Loaded) -> str:
    prompts = len({item.prompt_id for item in run.items if item.prompt_id})
    makers = len({item.generator for item in run.items if item.generator})
    images = [item for item in run.items if isinstance(item, Item) or item.is_image]  # as results.json counts them
    unusable = sum(not isinstance(item, Item) for item in images)
    said = [
        _count(len(images), "image") + (f" ({unusable:,} of them unusable)" if unusable else ""),
        _count(prompts, "prompt"),
        *([_count(makers, "generator")] if makers else []),
    ]
    pairs = len(run.results.get("pairs") or ())
    if pairs:
        said.append(f"{pairs:,} pairs" if run.results.get("reference") == "construction" else f"{pairs:,} human pairs")
    suite, protocol, day = _suite(run), run.manifest.get("protocol"), _day(run)
    return (
        ", ".join(said)
        + (f". Suite {suite}" if suite else "")
        + (f", {protocol} protocol" if protocol else "")
        + (f". {day}" if day else "")
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _day(run: Loaded) -> str:
    when = run.manifest.get("updated")
    if not table_cells.is_number(when):
        return ""
    return datetime.fromtimestamp(when, UTC).strftime("%-d %B %Y, %H:%M UTC")


def _suite(run: Loaded) -> str:
    about = mapping(run.manifest.get("suite"))
    name, version = about.get("name") or identity(run).get("suite") or "", about.get("version")
    return f"{name} (version {version})" if name and version else str(name)


def _compared(report: Report) -> list[Json]:
    return [*differences(report), *changes(report)] if len(report.runs) > 1 else []
