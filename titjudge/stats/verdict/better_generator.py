"""The better generator, the difference and its certainty, the weak spot of the loser, and prompts that show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from titjudge.core.errors import DataError
from titjudge.core.run_records import (
    BetterGenerator,
    JudgedExample,
    PromptExample,
    PromptsNeeded,
    RankedGenerator,
    SettledPair,
    WeakPart,
    WeakSpot,
)
from titjudge.core.score_parts import contradicted, missing, weakest
from titjudge.core.types import Score
from titjudge.stats.generators.comparison_tables import Comparison, compared_with_best
from titjudge.stats.generators.generator_differences import GeneratorDifference, generator_differences
from titjudge.stats.generators.planning import plan_like, usable_pilot
from titjudge.stats.generators.slices import averages, in_order, rank_ranges
from titjudge.stats.ranking.leaderboard import rank_correlation
from titjudge.stats.scores.families import counted_units
from titjudge.stats.scores.part_scores import ELEMENT, PARTS
from titjudge.stats.scores.population import FEWEST, scores_of_all, shared_prompts
from titjudge.stats.scores.scores_table import ScoreTable
from titjudge.stats.significance import ALPHA, POWER
from titjudge.stats.verdict.judged_runs import JudgedRun, joined, joined_table

EXAMPLES = 3  # prompts won, and lost
SAME, OPPOSITE, OPEN = "same", "opposite", "open"
_LEAST = 0.01  # of the scale: the smallest difference that prompts are planned for
_OTHERS = 4  # other metrics whose verdict is reported
_REASON = 400  # characters


def better_generator(
    runs: Sequence[JudgedRun], metric: str, *, baseline: str = "", settled: SettledPair | None = None
) -> BetterGenerator | None:
    """Compare the best generator with the runner-up, or with the baseline; None without any score.

    Difference, interval and p are as in `compare generators --baseline SECOND` for two generators, and in `--baseline
    FIRST` for more; the latter allow for the first being chosen on the same prompts.

    Args:
        runs: The runs, judged alike.
        metric: The metric that decides.
        baseline: A generator; the empty name for none.
        settled: The verdict at which the run has stopped: no other interval or p is valid then.
    """
    table = joined_table(runs, metric)
    if table is None:
        return None
    scale = runs[0].scale(metric, of_prompts=True)
    plain = replace(table, slices={})
    comparison = None if settled else compared_with_best(plain, baseline)
    columns = [k for k in in_order(plain) if np.isfinite(plain.means[:, k]).any()]
    order = [plain.generators[k] for k in columns]
    record = BetterGenerator(
        metric=metric,
        metric_range=scale.range,
        higher_is_better=scale.higher,
        ranking=_ranking(plain, columns, comparison, {} if settled else _ranks(runs, plain)),
        set_aside={},
    )
    if not settled:
        record = record.joined(_aside(runs, plain, order, comparison))
    if len(order) < 2:
        return record
    first, second = _two(order, baseline, settled)
    pair = table.only((first, second))
    record = record.joined(_examples(runs, pair), BetterGenerator(first=first, second=second))
    if settled:
        return record.joined(BetterGenerator(better=settled.verdict == first))
    alone = next(iter(_differences(pair)), None)
    if comparison is None or alone is None or alone.units < FEWEST:
        return record.joined(BetterGenerator(prompts=len(pair.differences(0, 1)), reason=_too_few(pair)))
    decided = _difference(comparison, first, second, alone).joined(_images(pair))
    reason = pair.unequally_missing(0, 1)
    better = decided.p is not None and decided.p < ALPHA and (decided.difference or 0.0) > 0
    if not pair.decides(0, 1):
        better, record = False, record.with_(to_judge=[*record.to_judge, *pair.to_judge((first,))])
    return record.joined(
        decided,
        BetterGenerator(better=better, reason=reason, needed=None if better or reason else _needed(pair)),
        BetterGenerator(weak=_weak_spot(alone, better), weakest=_weakest_part(pair) if scale.higher else None),
        BetterGenerator(others=_others(runs, metric, first, second)),
    )


def _ranking(
    table: ScoreTable,
    order: Sequence[int],
    comparison: Comparison | None,
    ranks: Mapping[str, tuple[int, int]],
) -> list[RankedGenerator]:
    """List the generators in order, with their means over one set of prompts, their tiers and ranks."""
    tiers = comparison.tier_names if comparison else ()
    tier = {name: number for number, members in enumerate(tiers, 1) for name in members}
    means = averages(scores_of_all(table.means, table.unit))
    listed = []
    for k in order:
        place = RankedGenerator(
            generator=table.generators[k],
            mean=table.sign * float(means[k]),
            prompts=table.prompts_of[k],
            tier=tier.get(table.generators[k]),
        )
        listed.append(place.ranked(ranks.get(place.generator)))
    return listed


def _ranks(runs: Sequence[JudgedRun], table: ScoreTable) -> dict[str, tuple[int, int]]:
    """Return the ranks that the tests leave open, as the leaderboard of one run has them."""
    board = runs[0].results.leaderboard if len(runs) == 1 else []
    places = {standing.generator: standing.metrics.get(table.metric) for standing in board}
    known = {name: place.ranks for name, place in places.items() if place and place.ranks}
    return known or {table.generators[k]: ranks for k, ranks in rank_ranges(table).items()}


def _aside(
    runs: Sequence[JudgedRun], table: ScoreTable, order: Sequence[str], comparison: Comparison | None
) -> BetterGenerator:
    """Find the generators that are not compared: they share too few prompts, or families, with the best one, or have no score."""
    frame = joined(runs)
    images = [frame.generator(name, image) for name, images in frame.images.items() for image in images.values()]
    unscored = [name for name in (*table.generators, *images) if name not in order]
    aside = dict.fromkeys([*(comparison.aside if comparison else order[2:]), *unscored], 0)
    if not aside:
        return BetterGenerator()
    shared = shared_prompts(table.means, table.unit)[table.column(order[0])]
    known = {name: int(shared[table.column(name)]) for name in aside if name in table.generators}
    lines = [*(table.to_judge([*known]) if known else ()), *(f"judge {name}" for name in aside if name not in known)]
    return BetterGenerator(set_aside=aside | known, to_judge=lines)


def _two(order: Sequence[str], baseline: str, settled: SettledPair | None) -> tuple[str, str]:
    """Choose the two to compare: the best, or the winner of a race, and the runner-up or the baseline."""
    names = list(order)
    if settled:
        names = [name for name in names if name in settled.names]
        names.sort(key=lambda name: name != settled.verdict)
    first = names[0]
    return first, baseline if baseline in names[1:] else names[1]


def _differences(pair: ScoreTable) -> list[GeneratorDifference]:
    """Compare the two generators of a table, by slice too; nothing with fewer than two common prompts."""
    try:
        return generator_differences(pair, baseline=pair.generators[1])
    except DataError:
        return []


def _too_few(pair: ScoreTable) -> str:
    """Write how few prompts the two share, and which prompts each of them needs."""
    shared = int(shared_prompts(pair.means, pair.unit)[0, 1])
    few = f"they share {counted_units(shared, pair.unit)} with a score, and at least {FEWEST} are needed"
    return "; ".join((few, *pair.to_judge()))


def _difference(comparison: Comparison, first: str, second: str, alone: GeneratorDifference) -> BetterGenerator:
    """Return the difference of the two as `compare generators` has it; of several generators as one of all of them."""
    reported = alone
    if len(comparison.scores.generators) > 2:
        below = next((difference for difference in comparison.differences[0] if difference.a == second), None)
        if below is not None and below.difference is not None:
            low, high = below.interval or (0.0, 0.0)
            ends = None if below.interval is None else (-high, -low)
            reported = replace(alone, interval=ends, p=below.p_adjusted, doubt=below.doubt)
    optional = {name: value for name in ("doubt", "families") if (value := getattr(reported, name))}
    return BetterGenerator(
        difference=reported.difference,
        interval=reported.interval,
        p=reported.p,
        prompts=reported.prompts,
        wins=reported.wins,
        same=reported.same,
        losses=reported.losses,
        detectable=reported.detectable,
        **optional,
    )


def _images(pair: ScoreTable) -> BetterGenerator:
    """Count the images of the common prompts, if they are unequal."""
    counts = pair.images[np.isfinite(pair.means).all(axis=1)]
    return BetterGenerator(images=(int(counts.min()), int(counts.max()))) if np.ptp(counts) else BetterGenerator()


def _needed(pair: ScoreTable) -> PromptsNeeded | None:
    """Plan how many prompts would show a difference of this size, or of 1% of the scale if it is smaller.

    None if these prompts are too few to plan from, or do not show it.
    """
    pilot = usable_pilot(pair, *pair.generators)
    if pilot is None:
        return None
    size = max(abs(float(pair.differences(0, 1).mean())), _LEAST * pair.length)
    plan = plan_like(pilot, size, POWER)
    return PromptsNeeded(difference=size, prompts=plan.prompts, range=plan.range)


def _weak_spot(alone: GeneratorDifference, better: bool) -> WeakSpot | None:
    """Find a category where the winner is shown to lose, otherwise the one where the loser is shown to be furthest behind."""
    spots = [
        (difference.difference, column, value, difference)
        for column, values in alone.by.items()
        for value, difference in values.items()
        if difference.difference is not None and difference.units >= FEWEST and (difference.p_adjusted or 1.0) < ALPHA
    ]
    if not spots:
        return None
    by_gap = sorted(spots, key=lambda spot: spot[0])
    gap, column, value, difference = by_gap[0] if by_gap[0][0] < 0 else by_gap[-1]
    if better and column != ELEMENT and 0 < gap <= (alone.difference or 0.0):
        return None  # the loser is not further behind there than everywhere
    return WeakSpot(
        column=column,
        value=value,
        generator=difference.a if gap < 0 else difference.b,
        behind=abs(gap),
        p=difference.p_adjusted,
        prompts=difference.prompts,
    )


def _weakest_part(pair: ScoreTable) -> WeakPart | None:
    """Find the kind of claim, or part of a score, in which the first of two generators does worst."""
    column = next((name for name in PARTS if name in pair.slices), None)
    if column is None:
        return None
    means = {value: float(averages(means)[0]) for value, means in pair.slices[column].items()}
    defined = {value: mean for value, mean in means.items() if np.isfinite(mean)}
    if not defined:
        return None
    value = min(defined, key=lambda name: defined[name])
    return WeakPart(column=column, value=value, generator=pair.generators[0], mean=defined[value])


def _others(runs: Sequence[JudgedRun], metric: str, first: str, second: str) -> dict[str, str]:
    """Return which of two generators is better by each of the other metrics that all runs have: `SAME`, `OPPOSITE` or `OPEN`."""
    shared = [name for name in runs[0].metrics if name != metric and all(name in run.metrics for run in runs)]
    return {name: answer for name in shared[:_OTHERS] if (answer := opinion(runs, name, first, second))}


def opinion(runs: Sequence[JudgedRun], metric: str, first: str, second: str) -> str:
    """Return the result of a metric for `first` against `second`: `SAME` (it is better), `OPPOSITE`, `OPEN`; empty if it cannot compare them."""
    table = joined_table(runs, metric, sliced=False)
    if table is None or not {first, second} <= set(table.generators):
        return ""
    difference = next(iter(_differences(table.only((first, second)))), None)
    if difference is None or difference.difference is None:
        return ""
    if difference.p is None or difference.p >= ALPHA:
        return OPEN
    return SAME if difference.difference > 0 else OPPOSITE


def second_opinion(record: BetterGenerator, name: str, run: JudgedRun, other: BetterGenerator) -> tuple[str, str]:
    """Write in one sentence whether the judge of another run agrees with a verdict, and in a second how their orders correlate.

    Both are empty if it cannot compare the two generators.

    Args:
        record: The verdict.
        name: The run of the verdict.
        run: The other run.
        other: Its verdict.
    """
    answer = opinion([run], other.metric, record.first, record.second)
    if not answer:
        return "", ""
    srcc = rank_correlation(record.signed_means, other.signed_means)
    two = f"{record.first} and {record.second}"
    if answer == OPPOSITE:
        said = f"disagree: {run.name} finds {record.second} better"
    elif record.better and other.better and record.first != other.first:
        said = f"disagree: {name} finds {record.first} best, {run.name} finds {other.first} best"
    elif srcc is not None and srcc < 0:
        said = "disagree on the order of the generators"
    elif record.better:
        said = (
            f"agree: both find {record.first} better"
            if answer == SAME
            else f"differ: {run.name} cannot distinguish {two}"
        )
    else:
        said = (
            f"agree: neither distinguishes {two}"
            if answer == OPEN
            else f"differ: only {run.name} finds {record.first} better"
        )
    said = f"The judges of {name} and {run.name} {said}."
    return said, "" if srcc is None else f"Their orders of the generators correlate by {srcc:.2f} (SRCC)."


# -- prompts that show it ----------------------------------------------------------------------------------------------


def _examples(runs: Sequence[JudgedRun], pair: ScoreTable) -> BetterGenerator:
    """Find the prompts on which the first of two generators is furthest ahead and furthest behind, with their images."""
    gaps = pair.means[:, 0] - pair.means[:, 1]
    lost, won = pair.furthest_behind(0, 1, EXAMPLES), pair.furthest_behind(1, 0, EXAMPLES)
    judged = _judged(runs, pair, {pair.prompts[row] for row in (*lost, *won)})
    examples = {
        row: PromptExample(
            prompt_id=pair.prompts[row],
            difference=float(gaps[row]),
            first=_extreme(judged[pair.prompts[row], pair.generators[0]], best=gaps[row] > 0, several=len(runs) > 1),
            second=_extreme(judged[pair.prompts[row], pair.generators[1]], best=gaps[row] < 0, several=len(runs) > 1),
        )
        for row in (*lost, *won)
    }
    return BetterGenerator(won=[examples[row] for row in won], lost=[examples[row] for row in lost])


Judged = tuple[float, JudgedRun, str, str]  # score, more is better; run, item and metric


def _judged(runs: Sequence[JudgedRun], pair: ScoreTable, prompts: set[str]) -> Mapping[tuple[str, str], list[Judged]]:
    """List the scored images of some prompts, by prompt and generator."""
    run_of = {run.name: run for run in runs}
    judged: dict[tuple[str, str], list[Judged]] = {}
    for entry in joined(runs).entries(pair.metric):
        if entry.prompt in prompts and entry.value is not None:
            run = run_of[entry.run]
            value = run.scale(pair.metric).sign * entry.value
            judged.setdefault((entry.prompt, entry.generator), []).append((value, run, entry.image, pair.metric))
    return judged


def _extreme(judged: Sequence[Judged], *, best: bool, several: bool) -> JudgedExample:
    """Choose the image with the best or the worst score of several images of a prompt."""
    sign = -1.0 if best else 1.0
    _, run, item, metric = min(judged, key=lambda each: (sign * each[0], each[1].name, each[2]))
    score = run.scores.whole(item, metric)
    example = JudgedExample(item=item, score=score.value, reason=reason_of(score))
    return example.joined(JudgedExample(run=run.name)) if several else example


def reason_of(score: Score) -> str:
    """Return the explanation of the judge for an image: its reason, or the details that it found missing or contradicted."""
    reason = score.reason or "; ".join(_details(score))
    return reason if len(reason) <= _REASON else f"{reason[: _REASON - 1].rstrip()}…"


def _details(score: Score) -> Iterator[str]:
    """Yield the missing details, the contradicted ones, and the sentence with the worst match."""
    weak = [entry["sentence"] for entry in weakest(score.parts)[:1]]
    listed_as = {"missing": missing(score.parts), "contradicted": contradicted(score.parts), "weakest match": weak}
    for what, listed in listed_as.items():
        if listed:
            yield f"{what}: {', '.join(map(str, listed))}"
