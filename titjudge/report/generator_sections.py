"""Comparison of generators for each metric: gaps, tiers, categories, worst prompts, and sample sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from titjudge.core.errors import ConfigError, DataError, nearest
from titjudge.core.score_parts import LEVELS
from titjudge.core.types import Item
from titjudge.report.charts import MAX_METRICS, Chart
from titjudge.report.generator_questions import across_judges, planning, settling
from titjudge.report.generator_slices import (
    COLUMNS,
    FEWEST,
    categories,
    mean_cell,
    negated,
    short_and_long,
    slice_tables,
)
from titjudge.report.model import Judge, Loaded, Report
from titjudge.report.svg import heat_map, radar
from titjudge.report.table_cells import DASH, Json, cell, measured, number, p_value, table
from titjudge.stats.bootstrap import Floats
from titjudge.stats.equality import with_ties
from titjudge.stats.generators.generator_differences import GeneratorDifference, generator_differences
from titjudge.stats.generators.slices import averages, first_places, tiers
from titjudge.stats.scores.part_scores import part_scores
from titjudge.stats.scores.per_prompt import PerPrompt
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table

MOST = 4  # metrics; the command line shows all
WORST = 6  # prompts
_IMAGES = 6  # of a prompt among the worst
_CELLS = 60, 30  # values and generators of a heat map
_AXES = 12  # of a radar


@dataclass(frozen=True, slots=True)
class Section:
    """Charts, tables and worst prompts of one metric of one run. `names` are the generators with a colour, in its order."""

    title: str
    names: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: list[Json] = field(default_factory=list)
    worst: list[Json] = field(default_factory=list)

    def to_json(self) -> Json:
        """Return what the scripts of the page draw."""
        return {"tables": self.tables, "worst": self.worst}


def generator_sections(report: Report) -> list[Section]:
    """Make a section for each of the first metrics of each run whose generators share enough prompts.

    Raises:
        DataError: The baseline is in none of the runs.
    """
    known = {entry.generator for entry in report.entries} - {""}
    if report.baseline and report.baseline not in known:
        there = ", ".join(sorted(known)[:20]) or "none is named"
        raise DataError(f"no generator '{report.baseline}'.{nearest(report.baseline, known)} Known: {there}")
    sections, tables = [], {}
    for at, run in enumerate(report.runs):
        judges = [place for place, judge in report.judges_of(at) if " [" not in judge.metric]
        for place in judges[:MOST]:
            scores = score_table_of(run, report.judges[place])
            if scores is not None:
                tables[place] = scores
                if run.manifest.status != "settled":  # stopped at a verdict: intervals for a fixed sample are not valid
                    sections += _section(report, place, scores)
    bridges = across_judges(report, tables)
    return [*sections, Section("Across judges", tables=bridges)] if bridges else sections


def score_table_of(run: Loaded, judge: Judge) -> ScoreTable | None:
    """Arrange the scores of one metric by prompt and generator, with categories as slices; None with a single generator."""
    items = {item.id: item for item in run.items if isinstance(item, Item) and item.generator}
    scores = {id: score for (id, metric), score in run.scores.items() if metric == judge.metric and id in items}
    entries = [
        Entry(item.prompt_id or id, item.generator, id, score.value)
        for id, item in items.items()
        if (score := scores.get(id)) is not None
    ]
    if len({entry.generator for entry in entries if entry.value is not None}) < 2:
        return None
    try:
        by_part = part_scores(items, scores.values())
    except DataError:  # a claim that is malformed: `compare forgetting` names it
        by_part = part_scores(items, scores.values(), LEVELS)
    parts = {
        column: [
            (items[id].prompt_id or id, items[id].generator, value, each)
            for id, values in by_item.items()
            for value, each in values.items()
        ]
        for column, by_item in by_part.items()
    }
    cost = (run.list_cost or 0.0) / len(entries) if len(run.manifest.metrics) == 1 else None
    try:
        made = score_table(
            entries, metric=judge.metric, source=run.name, bounds=judge.range, higher_is_better=judge.higher,
            categories=categories(list(items.values())), parts=parts, cost=cost or None,
            per_prompt=PerPrompt.parse(run.results.per_prompt or "mean"),
        )  # fmt: skip
    except ConfigError:  # the rule needs a score from which an image is right
        return None
    enough = {
        name: {
            value: means for value, means in made.slices[name].items() if np.isfinite(means).any(axis=1).sum() >= FEWEST
        }
        for name in [*parts, *made.slices]
    }
    slices = {name: values for name, values in enough.items() if len(values) > 1}
    return replace(made, slices=dict(list(slices.items())[:COLUMNS]))


def _section(report: Report, place: int, cut: ScoreTable) -> list[Section]:
    judge, run = report.judges[place], report.runs[report.judges[place].run]
    scores, counts = replace(cut, slices={}), np.isfinite(cut.means).sum(axis=0)
    means = with_ties(averages(scores.means))
    best = scores.generators[int(np.argmax(np.where(counts >= FEWEST, means, -np.inf)))]
    against = [best, *([report.baseline] if report.baseline in set(scores.generators) - {best} else [])]
    try:
        gaps = [generator_differences(scores, baseline=name, chosen=name == best) for name in against]
    except DataError:  # no two share two prompts
        return []
    if not any(each.prompts >= FEWEST for each in gaps[0]):
        return []
    parts = tiers(np.where(counts >= FEWEST, scores.means, np.nan))
    prompts = {item.prompt_id or item.id: item for item in run.items if isinstance(item, Item)}
    order = [k for tier in parts for k in tier]
    planned, power = planning(scores, best, order, judge)
    charts = _charts(cut, order[:MAX_METRICS], order, judge)
    return [
        Section(
            judge.label,
            tuple(scores.generators[k] for k in order[:MAX_METRICS]),
            tuple(each for each in (*charts, power) if each is not None),
            [
                _board(scores, gaps, against, parts, judge),
                *slice_tables(cut, against, [[cut.generators[k] for k in tier] for tier in parts], judge),
                *short_and_long(prompts, scores, judge),
                *settling(scores, best),
                *planned,
            ],
            _worst(report, place),
        )
    ]


def _board(
    scores: ScoreTable, gaps: Sequence[Sequence[GeneratorDifference]], against: Sequence[str],
    parts: Sequence[Sequence[int]], judge: Judge,
) -> Json:  # fmt: skip
    """Tabulate each generator: mean, tier, first places, gaps to the best and the baseline, and the test against the best."""
    firsts, sign = first_places(scores.means), 1.0 if judge.higher else -1.0
    by_name = [{each.a: each for each in of} for of in gaps]
    rows = []
    for tier, members in enumerate(parts, 1):
        for k in members:
            name, own = scores.generators[k], scores.means[np.isfinite(scores.means[:, k]), k]
            mean = mean_cell(own, scores.bounds, judge.digits, sign)
            (gap, *test), *others = (_gap(of.get(name), judge.digits) for of in by_name)
            rows.append([name, mean, tier, int(firsts[k]), gap, *(other[0] for other in others), *test, len(own)])
    columns = ["generator", "mean", "tier", "first", *(f"behind {name}" for name in against), "won / same / lost", "p", "p best",
               "would have shown", "prompts"]  # fmt: skip
    notes = [
        f"Behind: score minus that of {' or '.join(against)}, paired by prompt, with its 95% interval"
        + negated(judge)
        + f". Won, same, lost, p and what these prompts would have shown with 80% power are against {against[0]}; p by exchange "
        "within prompts, as in `compare`.",
        f"{against[0]} has the highest mean on these very prompts, so gaps to it are a little flattered: p best allows for the choice, "
        f"and the intervals behind {against[0]} are so wide that all hold together.",
        *scores.missing_notes((scores.generators.index(against[0]), k) for k in range(len(scores.generators))),
        "A tier ends before the first generator that is clearly worse than the tier's best. First: prompts on which none scores higher.",
    ]
    return table("Prompt by prompt", columns, rows, notes=notes)


def _gap(each: GeneratorDifference | None, digits: int) -> list[object]:
    """Make the cells of a difference: its value, wins / ties / losses, p, p best, and what would have been detected."""
    if each is None or each.prompts < FEWEST:
        return [DASH, DASH, DASH, DASH, DASH]
    p, p_best = (
        cell(p_value(one).removeprefix("p ").removeprefix("= ") or DASH, sort=one) for one in (each.p, each.p_adjusted)
    )
    shown = DASH if each.detectable is None else cell(number(each.detectable, digits + 1), sort=each.detectable)
    return [
        measured(each.difference, digits + 1, each.interval), f"{each.wins} / {each.same} / {each.losses}",
        p, p_best, shown,
    ]  # fmt: skip


def _charts(cut: ScoreTable, drawn: Sequence[int], order: Sequence[int], judge: Judge) -> list[Chart]:
    """Draw a heat map for each category, and a radar for those with few values."""
    charts = []
    sign = 1.0 if judge.higher else -1.0
    for column, slices in cut.slices.items():
        title, values = column.replace("_", " "), list(slices)
        board: Floats = sign * np.stack([averages(means) for means in slices.values()], axis=1)
        digits = 2 if float(np.nanmax(np.abs(board))) <= 2 else 1
        rows = tuple(
            (cut.generators[k], value, DASH if np.isnan(board[k, at]) else f"{board[k, at]:.{digits + 1}f}")
            for k in order
            for at, value in enumerate(values)
        )
        columns = ("generator", title, "mean")
        names, shown = [cut.generators[k] for k in order[: _CELLS[1]]], values[: _CELLS[0]]
        note = "Mean scores; within each column the stronger the colour the higher." + (
            "" if len(names) * len(shown) == board.size else " The first of them: the table has all."
        )
        svg = heat_map(names, shown, board[order][: _CELLS[1], : _CELLS[0]], digits)
        charts.append(Chart(f"Generators by {title}", note, svg, columns, rows))
        if 3 <= len(values) <= _AXES:
            svg, (low, high) = radar([cut.generators[k] for k in drawn], values, board[list(drawn)])
            note = f"Mean scores from {low:.{digits}f} in the middle to {high:.{digits}f} at the rim: gaps look larger than they are."
            charts.append(Chart(f"Profiles by {title}", note, svg, columns, rows))
    return charts


def _worst(report: Report, place: int) -> list[Json]:
    """Find the prompts with the lowest mean scores, worst first, with their images."""
    sign = 1.0 if report.judges[place].higher else -1.0
    by_prompt: dict[str, list[tuple[float, int]]] = {}
    for at, entry in enumerate(report.entries):
        score = entry.scores.get(place)
        if score is not None and score.value is not None and entry.generator and entry.prompt:
            by_prompt.setdefault(entry.prompt_id or entry.id, []).append((sign * score.value, at))
    most = max(map(len, by_prompt.values()), default=0)
    means = {
        prompt: sum(value for value, _ in each) / len(each)
        for prompt, each in by_prompt.items()
        if 2 * len(each) >= most
    }
    lowest = sorted(means, key=lambda prompt: means[prompt])[:WORST]
    digits = report.judges[place].digits
    return [
        {"mean": number(sign * means[prompt], digits), "items": [at for _, at in sorted(by_prompt[prompt])[:_IMAGES]],
         "of": len(by_prompt[prompt]), "judge": place}
        for prompt in lowest
    ]  # fmt: skip
