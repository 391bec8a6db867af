"""The summary of a report: headline, agreement, leaderboard, failures, cost, provenance."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from titjudge.core.types import Item
from titjudge.report import provenance, result_tables, trust_card
from titjudge.report.model import Judge, Loaded, Report
from titjudge.report.side_by_side import comparisons
from titjudge.report.table_cells import DASH, Json, fragment, spending
from titjudge.stats.people.agreement import GUESSING


def summary(report: Report) -> Json:
    """Return the data of the page besides items and pairs; all texts are plain."""
    return {
        "title": " · ".join(run.name for run in report.runs) or "no run",
        "runs": [_headline(report, number) for number in range(len(report.runs))],
        "overview": [
            *result_tables.agreement(report),
            *comparisons(report),
            *result_tables.settled(report),
            *result_tables.leaderboards(report),
            *result_tables.official(report),
            *trust_card.cards(report),
        ],
        "failures": [*provenance.failures(report), provenance.cost(report)],
        "provenance": provenance.provenance(report),
        "deviations": [
            {"run": run.name, "protocol": run.manifest.protocol, "list": run.manifest.suite.deviations}
            for run in report.runs
        ],
        "manifests": [
            {"run": run.name, "text": json.dumps(run.manifest.to_json(), indent=2, ensure_ascii=False)}
            for run in report.runs
        ],
    }


# -- headline ----------------------------------------------------------------------------------------------------------


def _headline(report: Report, at: int) -> Json:
    run = report.runs[at]
    judges = report.judges_of(at)
    scored, wanted = _coverage(run, [judge for _, judge in judges])
    facts: list[Json] = []
    for place, judge in judges[:4]:
        result = run.metric(judge.metric)
        if result.accuracy is not None:
            ends = result.accuracy_interval
            facts.append({
                "label": f"agreement with people, {judge.metric}", "value": f"{result.accuracy:.1%}",
                "sub": f"{ends[0]:.1%} – {ends[1]:.1%}, 95% interval" if ends else "no interval: too few prompts",
                "h": fragment("pairs", m=place),
            })  # fmt: skip
    facts.append({
        "label": "coverage", "value": f"{scored / wanted:.1%}" if wanted else DASH,
        "sub": f"{scored:,} of {wanted:,} scores", "h": fragment("images", s="none") if scored < wanted else fragment("images"),
    })  # fmt: skip
    facts.append({
        "label": "spent", "value": spending(run.spent, run.unpriced),
        "sub": f"list price {spending(run.list_cost, run.unpriced)}", "h": "#failures",
    })  # fmt: skip
    return {
        "name": run.name,
        "lead": _lead(run, [judge for _, judge in judges]),
        "status": run.manifest.status,
        "facts": facts,
        "counts": _counts(run),
        "warnings": run.results.warnings,
    }


def _coverage(run: Loaded, judges: list[Judge]) -> tuple[int, int]:
    """Return the numbers of scores and of scores without any failure; invalid items count as failures."""
    scored = sum(score.value is not None for score in run.scores.values())
    counts = [(result.scored, result.images) for result in (run.metric(judge.metric) for judge in judges)]
    known = [(done, of) for done, of in counts if done is not None and of is not None]
    if judges and len(known) == len(judges):
        return sum(done for done, _ in known), sum(of for _, of in known)
    return scored, max(scored, len(run.items) * len(judges))


def _lead(run: Loaded, judges: list[Judge]) -> str:
    """Summarise the agreement with people in one sentence."""
    results = {judge.metric: run.metric(judge.metric) for judge in judges}
    agreed = [(one.accuracy, name, one) for name, one in results.items() if one.accuracy is not None]
    if not agreed:
        why = "no pair has scores to compare" if run.results.pairs else "there are no human pairs"
        return f"How far these scores agree with people is not known: {why}."
    best, name, result = max(agreed, key=lambda one: one[0])
    pairs = result.pairs_scored or result.pairs
    of = f" of {pairs:,} pairs" if pairs is not None else " of the pairs"
    among = f", the most of {len(agreed)} metrics" if len(agreed) > 1 else ""
    whose = "that is better by construction" if run.results.reference == "construction" else "that people prefer"
    p = result.p_value
    guess = f": no better than guessing (p {p:.2g})" if p is not None and p >= GUESSING else ""
    return f"{name} prefers the image {whose} in {best:.1%}{of}{among}{guess}."


def _counts(run: Loaded) -> str:
    """Summarise the size of a run, its suite and its date in one line."""
    prompts = len({item.prompt_id for item in run.items if item.prompt_id})
    makers = len({item.generator for item in run.items if item.generator})
    images = [item for item in run.items if isinstance(item, Item) or item.is_image]  # as results.json counts them
    unusable = sum(not isinstance(item, Item) for item in images)
    counts = [
        _count(len(images), "image") + (f" ({unusable:,} of them unusable)" if unusable else ""),
        _count(prompts, "prompt"),
        *([_count(makers, "generator")] if makers else []),
    ]
    pairs = len(run.results.pairs or ())
    if pairs:
        counts.append(f"{pairs:,} pairs" if run.results.reference == "construction" else f"{pairs:,} human pairs")
    suite, protocol, day = _suite(run), run.manifest.protocol, _day(run)
    return (
        ", ".join(counts)
        + (f". Suite {suite}" if suite else "")
        + (f", {protocol} protocol" if protocol else "")
        + (f". {day}" if day else "")
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _day(run: Loaded) -> str:
    when = run.manifest.updated
    return "" if when is None else datetime.fromtimestamp(when, UTC).strftime("%-d %B %Y, %H:%M UTC")


def _suite(run: Loaded) -> str:
    suite = run.manifest.suite
    name, version = suite.name or run.manifest.identity.get("suite") or "", suite.version
    return f"{name} (version {version})" if name and version else str(name)
