"""The section of generators against each other, for each metric: gaps, tiers and categories; at its end what to plan the next run by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf, isnan

from titjudge.core.errors import DataError, unknown
from titjudge.core.tables import Table, plain
from titjudge.core.types import prompt_of
from titjudge.core.words import percentage
from titjudge.report.drawing import COLOURS, Chart
from titjudge.report.model import JudgedMetric, Loaded, Report
from titjudge.report.plots import heat_map, power_chart, radar
from titjudge.report.sections import Block, Charts, Part, Section
from titjudge.stats.generators.comparison_tables import (
    CATEGORIES,
    Comparison,
    Scale,
    compared_with_best,
    short_and_long,
    slice_means,
    slice_tables,
    standings_table,
)
from titjudge.stats.generators.planning import Outlook, outlook
from titjudge.stats.generators.sequential import replay_best, replay_tables
from titjudge.stats.ppi.bridging import bridge, bridge_table
from titjudge.stats.scores.scores_table import ScoreTable
from titjudge.stats.significance import POWER
from titjudge.stats.verdict.judged_runs import joined_table
from titjudge.stats.verdict.verdict import apart

MOST = 4  # metrics; the command line shows all
_CELLS = 60, 30  # values and generators of a heat map
_AXES = 12  # of a radar


def generators(report: Report) -> Section | None:
    """Make the section, with a part for each of the first metrics of each run whose generators share enough prompts.

    Raises:
        DataError: The baseline is in none of the runs.
    """
    names = {entry.generator or report.runs[run].name for entry in report.entries for run in entry.runs}
    if report.baseline and report.baseline not in names:
        raise DataError(f"--baseline: {unknown('generator', report.baseline, sorted(names))}")
    scores = _scores(report)
    compared = {
        place: comparison
        for place, table in scores.items()
        if (comparison := _compared(report, place, table)) is not None
    }
    parts = [_part(report, place, scores[place], comparison) for place, comparison in compared.items()]
    if bridges := _across_judges(report, scores):
        parts.append(Part("Across judges", tuple(bridges)))
    if plans := [block for place, comparison in compared.items() for block in _next_run(report, place, comparison)]:
        parts.append(Part("Plan the next run", tuple(plans), folded=True))
    introduction = "Compared prompt by prompt. Intervals are 95%, for prompts like these."
    title = "Generators against each other"
    return Section("generators", "Generators", title, introduction, tuple(parts)) if parts else None


def _scores(report: Report) -> dict[int, ScoreTable]:
    """Arrange the scores of the first metrics of each run, by the number of the judge; of a run for each checkpoint together."""
    tables = {}
    for number, run in enumerate(report.runs):
        judges = [place for place, judge in report.judges_of(number) if " [" not in judge.metric]
        for place in judges[:MOST]:
            scores = score_table_of(run, report.judges[place])
            if scores is not None:
                tables[place] = scores
    return tables or _of_all_runs(report)


def _of_all_runs(report: Report) -> dict[int, ScoreTable]:
    """Join the scores of runs of one generator each that one judge has judged, by the number of the first run's judge."""
    runs, tables = report.runs, {}
    for place, judge in report.judges_of(0)[:MOST] if len(runs) > 1 else ():
        if all(judge.metric in run.metrics for run in runs) and not apart(runs, judge.metric):
            table = joined_table(runs, judge.metric)
            if table is not None:
                tables[place] = table
    return tables


def score_table_of(run: Loaded, judge: JudgedMetric) -> ScoreTable | None:
    """Arrange the scores of one metric by prompt and generator, with categories as slices; None with a single generator."""
    table = joined_table([replace(run, listed=[item for item in run.listed if item.generator])], judge.metric)
    return table if table is not None and table.scored_generators > 1 else None


def _compared(report: Report, place: int, table: ScoreTable) -> Comparison | None:
    """Compare the generators by one metric of one run; None if it has too few prompts of a fixed sample."""
    run = report.runs[report.judges[place].run]
    if run.manifest.status == "settled":  # stopped at a verdict: intervals for a fixed sample are not valid
        return None
    return compared_with_best(replace(table, slices={}), report.baseline)


def _part(report: Report, place: int, table: ScoreTable, comparison: Comparison) -> Part:
    """Make the part of one metric of one run, or of all together."""
    judge, run = report.judges[place], report.runs[report.judges[place].run]
    scores, order = comparison.scores, comparison.order
    table = table.only(scores.generators)
    scale = run.scale(judge.metric, of_prompts=True) if table.per_prompt.counts else judge.scale
    prompts = {prompt_of(item): item for item in run.items.values()}
    charts = tuple(_charts(table, order[:COLOURS], order, scale, f"generators-{place}"))
    blocks: tuple[Block, ...] = (
        standings_table(comparison, scale),
        *([Charts(charts, tuple(table.generators[k] for k in order[:COLOURS]))] if charts else []),
        *slice_tables(table, comparison.against, comparison.tier_names, scale),
        *(short_and_long(prompts, scores, scale) if prompts.keys() >= set(scores.prompts) else ()),
    )
    return Part(_label(report, judge, table), blocks)


def _label(report: Report, judge: JudgedMetric, table: ScoreTable) -> str:
    """Name a metric of a run; of all runs together only the metric."""
    return judge.label if table.source == report.runs[judge.run].name else judge.metric


def _next_run(report: Report, place: int, comparison: Comparison) -> list[Block]:
    """Make the blocks on sample sizes by one metric: power, when a sequential test would have stopped, and plans for the next run."""
    judge, scores, best = report.judges[place], comparison.scores, comparison.against[0]
    label = _label(report, judge, scores)
    runner_up = next(scores.generators[k] for k in comparison.order if scores.generators[k] != best)
    next_run = outlook(scores, best, runner_up, judge.scale.digits)
    tables = [*replay_tables(replay_best(scores, best), [], scores), *([next_run.table] if next_run else [])]
    charts = [Charts((_power_chart(f"generators-{place}", label, next_run),))] if next_run else []
    return [*charts, *(replace(table, title=f"{table.title}: {label}") for table in tables)]


def _power_chart(id: str, label: str, next_run: Outlook) -> Chart:
    marks = zip(next_run.curves, ("disc", "square", "triangle"), strict=True)
    differences = ", ".join(f"{curve.label} ({mark})" for curve, mark in marks)
    return power_chart(
        next_run.curves,
        POWER,
        "prompts",
        id=f"{id}-power",
        title=f"Power by number of prompts: {label}",
        what="difference",
        note=f"Of showing {differences}; dotted: {percentage(POWER, 0)}.",
        most=next_run.most,
        declared=next_run.table.declared,
    )


def _charts(table: ScoreTable, drawn: Sequence[int], order: Sequence[int], scale: Scale, id: str) -> list[Chart]:
    """Chart each category as a heat map, and categories with few values also as profiles."""
    charts = []
    for number, (column, slices) in enumerate(table.slices.items()):
        title, values = column.replace("_", " "), list(slices)
        board = slice_means(table, column)
        digits = 2 if max((abs(mean) for mean in board.flat if not isnan(mean)), default=inf) <= 2 else 1
        rows = tuple(
            (table.generators[k], value, None if isnan(board[k, place]) else plain(board[k, place], digits=digits + 1))
            for k in order
            for place, value in enumerate(values)
        )
        numbers = Table(
            f"Generators by {title}", ("generator", title, "mean"), rows, declared=table.over(CATEGORIES, sized=False)
        )
        names, columns = [table.generators[k] for k in order[: _CELLS[1]]], values[: _CELLS[0]]
        note = "Mean scores; within each column the stronger the colour the higher." + (
            "" if len(names) * len(columns) == board.size else " The first of them: the table has all."
        )
        part = board[order][: _CELLS[1], : _CELLS[0]]
        charts.append(heat_map(f"{id}-cells-{number}", numbers.title, note, names, columns, part, digits, numbers))
        if 3 <= len(values) <= _AXES:
            note = f"Mean scores from {{low:.{digits}f}} in the middle to {{high:.{digits}f}} at the rim: gaps look larger than they are."
            profiles = replace(numbers, title=f"Profiles by {title}")
            names = [table.generators[k] for k in drawn]
            charts.append(
                radar(f"{id}-profiles-{number}", profiles.title, note, names, values, board[list(drawn)], profiles)
            )
    return charts


def _across_judges(report: Report, scores: Mapping[int, ScoreTable]) -> list[Table]:
    """Tabulate combinations of two runs by different judges: a transferred leaderboard."""
    combined: list[Table] = []
    for (first, old), (second, new) in pairwise(scores.items()):
        first_run, second_run = (report.runs[report.judges[place].run] for place in (first, second))
        if first_run is second_run or not _judges_differ(first_run, second_run):
            continue
        if not set(old.generators) - set(new.generators):
            continue
        try:
            table = bridge_table(bridge(old, new))
        except DataError:  # too little in common: the command prints the details
            continue
        both = f"{report.judges[first].label} and {report.judges[second].label}"
        combined.append(replace(table, title=f"{table.title}: {both}"))
    return combined


def _judges_differ(first: Loaded, second: Loaded) -> bool:
    models = [{role: record.model for role, record in run.manifest.roles.items()} for run in (first, second)]
    return models[0] != models[1] or set(first.manifest.metrics) != set(second.manifest.metrics)
