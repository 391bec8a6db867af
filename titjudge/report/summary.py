"""The words and tables around the pictures: headline, agreement, leaderboard, failures, cost, provenance."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from titjudge.report import cells
from titjudge.report.cells import DASH, Json, cell, fragment, measured, money, number, percent, ranged, table
from titjudge.report.model import Judge, Loaded, Report
from titjudge.report.side_by_side import changes, differences

_AGREEMENT = (
    ("half_credit_accuracy", "ties count half", True), ("tie_rate", "tied scores", True), ("pairs_scored", "pairs", None),
    ("pairs", "pairs", None), ("srcc", "SRCC", False), ("krcc", "KRCC", False), ("ndcg", "nDCG", False),
    ("coverage", "coverage", True),
)  # fmt: skip


def summary(report: Report) -> Json:
    """Everything of the page but items and pairs; all text is plain."""
    return {
        "title": " · ".join(run.name for run in report.runs) or "no run",
        "runs": [_headline(report, number) for number in range(len(report.runs))],
        "overview": [*_agreement(report), *_side_by_side(report), *_leaderboards(report), *_official(report)],
        "failures": [*_failures(report), _bad(report), _cost(report)],
        "provenance": [one for run in report.runs for one in _provenance(run, several=len(report.runs) > 1)],
        "deviations": [
            {"run": run.name, "protocol": str(run.manifest.get("protocol", "")), "list": _deviations(run)}
            for run in report.runs
        ],
        "manifests": [
            {"run": run.name, "text": json.dumps(run.manifest, indent=2, ensure_ascii=False, default=str)}
            for run in report.runs
        ],
        "pair_note": f"{report.lost_pairs:,} pairs name images that are not in the run" if report.lost_pairs else "",
    }


# -- headline ----------------------------------------------------------------------------------------------------------


def _headline(report: Report, at: int) -> Json:
    run = report.runs[at]
    judges = [(place, judge) for place, judge in enumerate(report.judges) if judge.run == at]
    wanted = (
        sum(1 for entry in report.entries if not entry.bad) * len(judges) if len(report.runs) == 1 else len(run.scores)
    )
    scored = sum(score.value is not None for score in run.scores.values())
    facts: list[Json] = []
    for place, judge in judges[:4]:
        about = _metric(run, judge.metric)
        if cells.is_number(about.get("accuracy")):
            ends = cells.ends_of(about.get("accuracy_interval"))
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
        "label": "spent", "value": money(_either(run, "spent")), "sub": f"list price {money(_either(run, 'list_cost'))}", "h": "#failures",
    })  # fmt: skip
    return {
        "name": run.name,
        "lead": _lead(run, [judge for _, judge in judges]),
        "status": str(run.manifest.get("status") or "unknown"),
        "facts": facts,
        "counts": _counts(report, run),
        "warnings": [str(one) for one in run.results.get("warnings") or ()],
        "notes": [str(one) for one in run.results.get("notes") or ()],
    }


def _lead(run: Loaded, judges: list[Judge]) -> str:
    """One sentence that says what was found."""
    agreed = [(about["accuracy"], judge.metric, about) for judge in judges
              if cells.is_number((about := _metric(run, judge.metric)).get("accuracy"))]  # fmt: skip
    if not agreed:
        return "Judged without human pairs, so how far the scores agree with people is not known here."
    best, name, about = max(agreed, key=lambda one: one[0])
    pairs = about.get("pairs_scored") or about.get("pairs")
    of = f" of {pairs:,} pairs" if isinstance(pairs, int) else " of the pairs"
    among = f", the most of {len(agreed)} metrics" if len(agreed) > 1 else ""
    return f"{name} prefers the image that people prefer in {best:.1%}{of}{among}."


def _counts(report: Report, run: Loaded) -> str:
    prompts = len({item.group for item in run.items if item.group})
    makers = len({item.generator for item in run.items if item.generator})
    said = [f"{len(run.items):,} images", f"{prompts:,} prompts", f"{makers:,} generators"]
    pairs = len(run.results.get("pairs") or ())
    if pairs:
        said.append(f"{pairs:,} human pairs")
    suite, protocol = _identity(run).get("suite"), run.manifest.get("protocol")
    return ", ".join(said) + (f". Suite {suite}" if suite else "") + (f", {protocol} protocol" if protocol else "")


# -- tables --------------------------------------------------------------------------------------------------------------


def _agreement(report: Report) -> list[Json]:
    found = [(place, judge, _metric(report.runs[judge.run], judge.metric)) for place, judge in enumerate(report.judges)]
    if not any(cells.is_number(about.get("accuracy")) or cells.is_number(about.get("srcc")) for _, _, about in found):
        return []
    keys = [key for key in _AGREEMENT if any(about.get(key[0]) is not None for _, _, about in found)]
    if any(key[0] == "pairs_scored" for key in keys):
        keys = [key for key in keys if key[0] != "pairs"]
    rows = []
    for place, judge, about in found:
        row: list[Any] = [
            judge.label,
            percent(about.get("accuracy"), about.get("accuracy_interval"), link=fragment("pairs", m=place), bar=True),
        ]
        for key, _, kind in keys:
            value = about.get(key)
            if kind is None:
                row.append(
                    cell(f"{value:,}", sort=value, link=fragment("pairs", m=place)) if isinstance(value, int) else DASH
                )
            else:
                row.append(percent(value) if kind else measured(value))
        rows.append(row)
    notes = ["Agreement: how often the metric gives the higher score to the image that people prefer; equal scores count as wrong. "
             "Brackets are 95% intervals that resample prompts. Guessing reaches 50%."]  # fmt: skip
    return [
        table(
            "Agreement with people",
            ["metric", "agreement", *(name for _, name, _ in keys)],
            rows,
            notes=notes,
            span=(0.5, 1.0),
        )
    ]


def _leaderboards(report: Report) -> list[Json]:
    return [_leaderboard(report, number) for number, run in enumerate(report.runs) if run.results.get("leaderboard")]


def _leaderboard(report: Report, at: int) -> Json:
    run = report.runs[at]
    board = run.results["leaderboard"]
    judges = [(place, judge) for place, judge in enumerate(report.judges) if judge.run == at]
    people = any(row.get("human") for row in board)
    columns = ["generator", *(["people: mean rank"] if people else [])]
    for _, judge in judges:
        columns += [judge.metric, "rank"]
    rows = []
    for one in board:
        name = str(one.get("generator", ""))
        row: list[Any] = [cell(name or "(no name)", link=fragment("images", g=name))]
        if people:
            row.append(measured((one.get("human") or {}).get("mean_rank"), 2))
        for place, judge in judges:
            about = (one.get("metrics") or {}).get(judge.metric) or {}
            row.append(
                ranged(about.get("mean"), about.get("interval"), judge.digits, link=fragment("images", g=name, m=place))
            )
            rank, share = about.get("rank"), about.get("coverage")
            said = cells.plain(rank)
            if cells.is_number(share) and share < 1 and isinstance(said, dict):
                said["s"] = f"{share:.0%} covered"
            row.append(said)
        rows.append(row)
    title = "Generators" if len(report.runs) == 1 else f"Generators, {run.name}"
    return table(title, columns, rows, notes=["Mean score and 95% interval over prompts.", *_board_notes(run)])


def _board_notes(run: Loaded) -> list[str]:
    found = run.results.get("leaderboard_srcc")
    if not isinstance(found, Mapping):
        return []
    said = []
    for name, about in found.items():
        value = about.get("srcc", about.get("value")) if isinstance(about, Mapping) else about
        if cells.is_number(value):
            said.append(f"{name} {value:.3f}")
    return [f"Rank correlation (SRCC) of the generators with people’s order: {', '.join(said)}."] if said else []


def _official(report: Report) -> list[Json]:
    """Tables that a suite or the comparison wrote."""
    made = []
    for run in report.runs:
        for one in run.results.get("tables") or ():
            title = str(one.get("title", ""))
            made.append(table(title if len(report.runs) == 1 else f"{title}, {run.name}", [str(c) for c in one.get("columns") or ()],
                              one.get("rows") or (), notes=[str(note) for note in one.get("notes") or ()]))  # fmt: skip
    return made


def _side_by_side(report: Report) -> list[Json]:
    return [*differences(report), *changes(report)] if len(report.runs) > 1 else []


def _failures(report: Report) -> list[Json]:
    tables = []
    for at, run in enumerate(report.runs):
        found: Counter[tuple[str, str, str, str]] = Counter()
        asked: Counter[str] = Counter()
        places = {judge.metric: place for place, judge in enumerate(report.judges) if judge.run == at}
        for score in run.scores.values():
            asked[score.generator] += 1
            if score.value is None:
                found[score.generator, score.metric, str(score.status), _brief(score.reason)] += 1
        rows = [
            [cell(generator or "(no name)", link=fragment("images", g=generator, m=places.get(metric), s=status)), metric, status,
             reason or DASH, cell(f"{count:,}", sub=f"{count / asked[generator]:.1%} of its scores", sort=count)]
            for (generator, metric, status, reason), count in found.most_common()
        ]  # fmt: skip
        title = "Without a score" if len(report.runs) == 1 else f"Without a score, {run.name}"
        tables.append(table(title, ["generator", "metric", "status", "reason", "scores"], rows, text=4, empty="Every image got its score.",
                            notes=["A failure is never counted as a low score: it is left out, and shown here."] if rows else []))  # fmt: skip
    return tables


def _brief(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= 160 else line[:159] + "…"


def _bad(report: Report) -> Json:
    rows = [[entry.id, entry.generator or DASH, entry.bad] for entry in report.entries if entry.bad]
    return table(
        "Input that could not be used", ["item", "generator", "reason"], rows, text=3, empty="All of it could be used."
    )


def _cost(report: Report) -> Json:
    rows: list[list[Any]] = []
    several = len(report.runs) > 1
    for run in report.runs:
        for name, about in _mapping(run.manifest.get("roles")).items():
            tokens = _mapping(about.get("tokens"))
            row = [name, str(about.get("model", "")), *(about.get(key) for key in ("asked", "cached", "errors", "unusable")),
                   *(tokens.get(key) for key in ("input", "output", "thinking")), _dollars(about.get("spent"))]  # fmt: skip
            rows.append([run.name, *row] if several else row)
        total = ["all roles", "", *[None] * 7, _dollars(_either(run, "spent"))]
        rows.append([run.name, *total] if several else total)
    columns = [
        "role",
        "model",
        "asked",
        "from cache",
        "errors",
        "unusable",
        "input tokens",
        "output tokens",
        "thinking",
        "spent",
    ]
    notes = [
        f"{run.name}: at list price, cached answers included, {money(_either(run, 'list_cost'))}."
        for run in report.runs
    ]
    return table("Cost", ["run", *columns] if several else columns, rows, notes=notes, text=3 if several else 2)


def _dollars(value: Any) -> Any:
    return cell(money(value), sort=float(value)) if cells.is_number(value) else DASH


# -- provenance ------------------------------------------------------------------------------------------------------------


def _provenance(run: Loaded, *, several: bool) -> list[Json]:
    end = f", {run.name}" if several else ""
    answered, prompts, metrics = [], [], []
    for name, about in _mapping(run.manifest.get("roles")).items():
        for version in about.get("answered") or [{}]:
            count = version.get("answers")
            answered.append([name, str(about.get("model", "")), version.get("version") or DASH,
                             version.get("endpoint") or about.get("base_url") or DASH, count])  # fmt: skip
    for name, about in _mapping(run.manifest.get("prompts")).items():
        told = _mapping(about)
        digest = str(told.get("sha256") or told.get("hash") or (about if isinstance(about, str) else ""))
        prompts.append([name, str(told.get("version", DASH)), str(told.get("source", DASH)), digest or DASH])
    for name, about in _mapping(run.manifest.get("metrics")).items():
        told = _mapping(about)
        span = told.get("range")
        limits = f"{span[0]} to {span[1]}" if isinstance(span, list | tuple) and len(span) == 2 else DASH
        metrics.append([name, str(told.get("version", DASH)), limits, str(told.get("source", DASH))])
    settings = [[key, _setting(value)] for key, value in _identity(run).items() if value not in (None, {}, [], "")]
    return [
        table(f"Who answered{end}", ["role", "model asked", "version that answered", "endpoint", "answers"], answered, text=4,
              empty="No model was asked, or the manifest does not say."),
        table(f"Prompts{end}", ["prompt", "version", "source", "SHA-256"], prompts, text=4, empty="None used."),
        table(f"Metrics{end}", ["metric", "version", "range", "source"], metrics, text=4, empty="None named."),
        table(f"Configuration{end}", ["setting", "value"], [*settings, ["titjudge", str(run.manifest.get("titjudge", DASH))]], text=2),
    ]  # fmt: skip


def _setting(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {_setting(one)}" for key, one in value.items() if one not in (None, {}, [], ""))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _deviations(run: Loaded) -> list[str]:
    found = (
        run.manifest.get("deviations")
        or run.results.get("deviations")
        or _mapping(run.manifest.get("suite")).get("deviations")
    )
    return [str(one) for one in found] if isinstance(found, list | tuple) else []


def _identity(run: Loaded) -> Mapping[str, Any]:
    return _mapping(run.manifest.get("identity"))


def _metric(run: Loaded, name: str) -> Mapping[str, Any]:
    return _mapping(_mapping(run.results.get("metrics")).get(name))


def _either(run: Loaded, key: str) -> Any:
    """A sum from the results, else from the manifest."""
    found = run.results.get(key)
    return run.manifest.get(key) if found is None else found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


__all__ = ["number", "summary"]
