"""Tables of agreement: percentages to one decimal, coefficients to three, intervals in brackets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.run_records import (
    BradleyTerryRecord,
    DescriptionsRecord,
    MetricResult,
    PairAgreement,
    PeopleAgreement,
    PlaceRecord,
    PopulationRecord,
    PromptAgreement,
    Results,
    StandingRecord,
)
from titjudge.core.tables import Cell, Table, Value, p_value, percent, plain, rank_range
from titjudge.core.types import PEOPLE, Note
from titjudge.core.words import WIDE, score_digits
from titjudge.stats.ranking.leaderboard import LEADERBOARD

_RANKS = "rank: the ranks that the tests by the first metric leave open; mean rank: 1 is best; images: scored/all"
LEGEND = Note("about_leaderboard", _RANKS)
SPREAD = Note("about_spread", "spread: standard deviation of the images of one prompt by one generator")
FIRSTS = "{}: mean of their ranks as given, and the prompts on which no generator has a better one"
UNNAMED = "(unnamed)"  # a generator without a name
COEFFICIENTS = "srcc", "krcc", "ndcg", "ndcg_chance", "fit", "fit_chance"
AGREEMENT = Declaration(
    "agreement",
    "agreement of each metric with {people}",
    Population.OWN_PAIRS,
    Unit.PROMPT,
    order="order of the metrics",
    by_column=dict.fromkeys(COEFFICIENTS, Population.IMAGES_OF_BOTH),
    counts="pairs",
)
OWN_ACCURACY = "own accuracy"
AGREEMENT_IN_COMMON = replace(
    AGREEMENT,
    population=Population.COMMON_PAIRS,
    by_column={"own_accuracy": Population.OWN_PAIRS, "coverage": Population.ALL_IMAGES}
    | dict.fromkeys(COEFFICIENTS, Population.COMMON_IMAGES),
)
"""Of metrics that have scored different images."""
METRICS = Declaration(
    "metrics",
    "mean score of each metric",
    Population.SCORED_IMAGES,
    Unit.PROMPT,
    order="order of the metrics",
    counts="scored",
)
WITH_PEOPLE = replace(
    LEADERBOARD,
    by_column={
        **dict.fromkeys(("reference_mean_rank", "reference_first"), Population.RANKED_PROMPTS),
        "reference_srcc": Population.IMAGES_OF_COMMON,
        **LEADERBOARD.by_column,
    },
)
IN_COLUMN: dict[str, str] = {
    Population.SAME_PROMPTS: Population.SAME_IN_COLUMN,
    Population.COMMON_OF_ALL: Population.COMMON_IN_COLUMN,
}
"""Populations of a leaderboard whose metrics have scores on different prompts."""
STRENGTHS = Declaration(
    "strengths", "Bradley-Terry strength of each generator", Population.HUMAN_PAIRS, Unit.PROMPT, order="strength"
)
_COLUMNS = {  # by key
    "metric": "metric", "accuracy": "accuracy", "ties": "ties", "pairs": "pairs", "threshold": "chance threshold",
    "srcc": "SRCC", "krcc": "KRCC", "ndcg": "nDCG", "ndcg_chance": "nDCG chance", "fit": "paper fit",
    "fit_chance": "paper fit chance", "prompts": "prompts", "coverage": "coverage", "words": "description words",
}  # fmt: skip
_SECONDARY = tuple("words fit_chance fit ndcg_chance ndcg krcc ties prompts srcc coverage".split())


def agreement_tables(agreed: Results, *, correlations: bool = True) -> list[Table]:
    """Make the main table, the leaderboard if generators have names, and Bradley-Terry strengths on request.

    Args:
        agreed: The results.
        correlations: Whether the leaderboard ends with a row of the rank correlations with people.
    """
    explanation, notes = tuple(agreed.notes[: agreed.explained]), agreed.notes[agreed.explained :]
    tables = [_metrics(agreed, (*notes, *agreed.warnings), explanation)]
    if agreed.leaderboard:
        tables.append(_leaderboard(agreed, correlations))
    flags = {"families": _over(agreed, AGREEMENT, {}).unit == Unit.FAMILY, "constructed": agreed.constructed}
    fits = {agreed.reference if name == PEOPLE else name: fit for name, fit in agreed.bradley_terry.items()}
    return [*tables, *(strengths_table(name, fit, **flags) for name, fit in fits.items())]


def _over(agreed: Results, declaration: Declaration, sizes: Mapping[str, list[int]]) -> Declaration:
    """Fill in the results' facts about the population of a table; without missing scores the `sizes`."""
    record, board = (agreed.populations.get(id, PopulationRecord()) for id in (declaration.id, LEADERBOARD.id))
    images = [result.images or 0 for result in agreed.metrics.values()]
    known: dict[str, list[int]] = dict.fromkeys((Population.IMAGES_OF_BOTH, Population.IMAGES_OF_COMMON), images)
    known |= {**sizes, **board.sizes, **record.sizes}
    if Population.SAME_IN_COLUMN in record.sizes:
        own = {column: IN_COLUMN.get(name, name) for column, name in declaration.by_column.items()}
        declaration = replace(declaration, population=Population.SAME_IN_COLUMN, by_column=own)
    declared = declaration.over(known, record.excluded, families=record.families, constructed=agreed.constructed)
    return replace(declared, doubts=record.doubts)


def _metrics(agreed: Results, notes: tuple[Note, ...], explanation: tuple[Note, ...]) -> Table:
    """Tabulate the agreement of the metrics; without pairs their means and coverage."""
    metrics = agreed.metrics
    if any(result.pairs for result in metrics.values()):
        common = [result.common for result in metrics.values() if result.common]
        rows = tuple(
            (*_metric_row(name, result, own=bool(common)), description_words(agreed.descriptions.get(name)))
            for name, result in metrics.items()
        )
        columns = dict(list(_COLUMNS.items())[:2]) | {"own_accuracy": OWN_ACCURACY} | _COLUMNS if common else _COLUMNS
        pairs = [agreement.pairs_scored or 0 for agreement in common]
        return Table(
            f"Agreement with {agreed.reference}",
            tuple(columns.values()),
            rows,
            notes,
            explanation=explanation,
            secondary=_SECONDARY,
            estimates=True,
            declared=_over(agreed, AGREEMENT_IN_COMMON if common else AGREEMENT, {Population.COMMON_PAIRS: pairs}),
            keys=tuple(columns),
        )
    rows = tuple(
        (
            name,
            plain(result.mean, digits=score_digits([result.mean or 0.0])),
            result.scored,
            percent(result.coverage),
            description_words(agreed.descriptions.get(name)),
        )
        for name, result in metrics.items()
    )
    columns = {key: _COLUMNS.get(key, key) for key in ("metric", "mean", "scored", "coverage", "words")}
    return Table("Metrics", tuple(columns.values()), rows, notes, declared=METRICS, secondary=("words",),
                 keys=tuple(columns))  # fmt: skip


def _metric_row(name: str, result: MetricResult, *, own: bool) -> tuple[Any, ...]:
    """Return the cells of a metric under `_COLUMNS`; with `own` its separate accuracy is next to the common one."""
    shown = (result.common or PeopleAgreement()) if own else result
    coefficients = (
        shown.srcc,
        shown.krcc,
        shown.ndcg,
        shown.ndcg_chance,
        shown.ndcg_paper_fit,
        shown.ndcg_paper_fit_chance,
    )
    return (
        name,
        percent(shown.accuracy, shown.accuracy_interval),
        *([own_accuracy(result)] if own else []),
        percent(shown.tie_rate),
        Cell(f"{shown.pairs_scored or 0} of {result.pairs}", sort=shown.pairs_scored or 0) if result.pairs else None,
        chance_level(shown),
        *map(plain, coefficients),
        _correlated(shown),
        percent(result.coverage),
    )


def own_accuracy(result: PairAgreement) -> Value:
    """Make the cell of the accuracy on all pairs that a row has scored, with their number."""
    return percent(result.accuracy, result.accuracy_interval, note=f"{result.pairs_scored or 0} pairs")


def description_words(read: DescriptionsRecord | None) -> Value:
    """Make the cell of the mean length of the descriptions, and the share of these with the length asked for."""
    return read and Cell(f"{read.words:.0f}, {read.in_range:.0%} in 250 to 350")


def _correlated(result: PromptAgreement) -> str | None:
    """Write on how many of the prompts SRCC and nDCG are defined."""
    ndcg = "" if result.ndcg_prompts == result.srcc_prompts else f" (nDCG {result.ndcg_prompts})"
    return f"{result.srcc_prompts or 0}{ndcg}/{result.prompts}" if result.prompts else None


def chance_level(result: PairAgreement) -> Value:
    """Make the cell of the accuracy that is reached without skill, and how often the metric's own is: `55.3%, p 0.002`.

    If no accuracy is that rare without skill, there is no threshold: `p 0.67`.
    """
    threshold, scored, p = result.threshold_05, result.pairs_scored, p_value(result.p_value)
    return Cell(f"{100 * threshold / scored:.1f}%, p {p}") if threshold and scored else p and Cell(f"p {p}")


class _Column(NamedTuple):
    """A column of the leaderboard.

    Attributes:
        key: Its key.
        title: Its title.
        cell: Makes its cell in the row of a generator.
        srcc: Its cell in the last row, of the rank correlations with people.
    """

    key: str
    title: str
    cell: Callable[[StandingRecord], Any]
    srcc: Any = None


def _leaderboard(agreed: Results, correlations: bool) -> Table:
    """Tabulate the generators, and in the last row their rank correlation with people if `correlations`."""
    standings, srcc, reference = agreed.leaderboard, agreed.leaderboard_srcc, agreed.reference
    names = list(standings[0].metrics)
    scored = [name for name in names if any(_place(standing, name).scored for standing in standings)]
    people = any(standing.human for standing in standings)
    firsts = any(standing.human and standing.human.first_places is not None for standing in standings)
    ranked = any(_place(standing, name).ranks for standing in standings for name in names[:1])
    wide = len(names) > WIDE
    spread = {name for name in names if not wide and any(_place(s, name).spread is not None for s in standings)}
    rank, first = f"{reference}: mean rank", f"{reference}: first"
    columns = [
        _Column("generator", "generator", lambda s: s.generator or Cell(UNNAMED), Cell(f"SRCC with {reference}")),
        *([_Column("rank", "rank", lambda s: rank_range(_place(s, names[0]).ranks))] if ranked else []),
        _Column("prompts", "prompts", lambda standing: _prompts([_place(standing, name) for name in scored])),
    ]
    if people:
        columns.append(_Column("reference_mean_rank", rank, lambda s: s.human and plain(s.human.mean_rank, digits=2)))
    if firsts:
        columns.append(_Column("reference_first", first, lambda s: s.human and s.human.first_places))
    board = agreed.populations.get(LEADERBOARD.id, PopulationRecord())
    counts = board.sizes.get(Population.IMAGES_OF_COMMON) or [0]
    for name, count in zip(names, counts * len(names), strict=False):
        note = f"{count:,} images" if len({*counts}) > 1 else ""
        columns += _metric_columns(name, plain(srcc.get(name), note=note), wide=wide, spread=name in spread)
    rows = [tuple(column.cell(standing) for column in columns) for standing in standings]
    titles_of_rows: dict[str, str] = {}
    if people and names and correlations:
        rows.append(tuple(column.srcc for column in columns))
        titles_of_rows["reference_srcc"] = str(columns[0].srcc)
    legend = (
        LEGEND,
        *([Note("about_first_places", FIRSTS.format(reference))] if firsts else []),
        *([SPREAD] if spread else []),
    )
    secondary = [f"{name}:{key}" for key in ("spread", "images") for name in names]
    secondary += ["reference_first", "prompts"] + ([] if wide else [f"{name}:mean_rank" for name in reversed(names)])
    keys, titles, *_ = zip(*columns, strict=True)
    prompts = {_place(standing, name).prompts or 0 for standing in standings for name in scored}
    populations = Population.SAME_PROMPTS, Population.COMMON_OF_ALL, Population.RANKED_PROMPTS
    sizes = {str(population): [*prompts] for population in populations if len(prompts) == 1}
    declared = _over(agreed, WITH_PEOPLE if people else LEADERBOARD, sizes)
    return Table("Leaderboard", titles, tuple(rows), explanation=legend, secondary=tuple(secondary), estimates=True,
                 declared=declared, keys=keys, row_titles=titles_of_rows)  # fmt: skip


def _place(standing: StandingRecord, metric: str) -> PlaceRecord:
    return standing.metrics.get(metric, PlaceRecord())


def _metric_columns(name: str, srcc: Cell | None, *, wide: bool, spread: bool) -> Iterator[_Column]:
    """Yield the columns of one metric; only the mean rank if the table is `wide`."""

    def column(key: str, title: str, cell: Callable[[PlaceRecord], Any], srcc: Any = None) -> _Column:
        return _Column(f"{name}:{key}", f"{name}: {title}", lambda standing: cell(_place(standing, name)), srcc)

    yield column("mean_rank", "mean rank", lambda place: plain(place.mean_rank, digits=2), srcc)
    if wide:
        return
    yield column("mean", "mean", lambda place: plain(place.mean, place.interval, digits=4))
    yield column("images", "images", lambda place: None if place.images is None else f"{place.scored}/{place.images}")
    if spread:
        yield column("spread", "spread", lambda place: plain(place.spread, digits=4))


def _prompts(places: Sequence[PlaceRecord]) -> str | None:
    """Show the number of prompts, or the lowest and highest if metrics have different ones."""
    counts = sorted({place.prompts or 0 for place in places})
    return "-".join(map(str, dict.fromkeys([*counts[:1], *counts[-1:]]))) or None


def strengths_table(name: str, fit: BradleyTerryRecord, *, families: bool = False, constructed: bool = False) -> Table:
    """Tabulate the strengths of generators under a metric, or people."""
    rows = tuple((row.generator, plain(row.strength, row.interval, digits=2)) for row in fit.generators)
    notes = [Note("about_strengths", "natural logarithm, mean 0; 95% interval by resampling")]
    if fit.degenerate:
        line = f"{fit.degenerate} resamples have no finite fit: who never loses there counts as infinitely strong"
        notes.append(Note("infinite_strengths", line))
    if fit.reason:
        notes.append(Note("no_strengths", fit.reason))
    return Table(f"Bradley-Terry strength: {name}", ("generator", "strength"), rows, tuple(notes),
                 declared=STRENGTHS.over(fit.pairs, families=families, constructed=constructed))  # fmt: skip
