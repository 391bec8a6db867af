"""The first section of a report: verdict, main numbers, agreement with people, differences between runs, leaderboards, tables of suites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from titjudge.core.declarations import NEEDS_ALL, Declaration, Population, Unit
from titjudge.core.numbers import several
from titjudge.core.run_records import Manifest, SettleRecord
from titjudge.core.tables import Cell, CellFormat, Table, dollars, plain, rounded, says_something
from titjudge.core.types import Item, Json, Note
from titjudge.core.words import DASH, number, percentage, spending
from titjudge.report.model import JudgedMetric, Loaded, Report
from titjudge.report.sections import Fact, Headline, Section, fragment, linked, single
from titjudge.report.side_by_side import comparisons
from titjudge.report.standings import Cells
from titjudge.report.verdict import opening, verdict_of
from titjudge.stats.people.agreement_tables import AGREEMENT, METRICS, STRENGTHS, agreement_tables
from titjudge.stats.ranking.leaderboard import LEADERBOARD
from titjudge.stats.scores.families import families, family_notes
from titjudge.stats.scores.per_prompt import PerPrompt

SETTLING = Declaration(
    "settled", "verdicts at which the run stopped", Population.COMMON_OF_RACE, Unit.PROMPT, NEEDS_ALL, counts="of"
)

_NOTE = Note(
    "about_agreement",
    "Agreement: how often the metric gives the higher score to the preferred image; equal scores count as wrong. "
    "In brackets the 95% interval. Guessing reaches 50%, or less where scores are equal.",
)
_DRAWN = {table.id for table in (AGREEMENT, METRICS, LEADERBOARD, STRENGTHS)}


def overview(report: Report) -> Section:
    """Make the section."""
    headlines = [_headline(report, number) for number in range(len(report.runs))]
    whole = verdict_of(report)
    first = opening(report, counts_of(report.runs[0]) if len(report.runs) == 1 else "", whole)
    order = [str(row[0]) for table in first.charts[:1] for row in table.rows]
    facts = list(Cells.of(report, whole).facts(order))
    parts = single(first, facts, headlines, overview_tables(report))
    return Section("overview", "Overview", "Overview", titled=False, parts=parts)


def overview_tables(report: Report) -> list[Table]:
    """Make the tables of the section."""
    recorded = [table for number in range(len(report.runs)) for table in _result_tables(report, number)]
    return [
        *(table for table in recorded if table.declared.id == AGREEMENT.id),
        *comparisons(report),
        *(table for run in report.runs for table in _settled(run)),
        *(table for table in recorded if table.declared.id != AGREEMENT.id),
        *_cards(report),
    ]


# -- headline ----------------------------------------------------------------------------------------------------------


def _headline(report: Report, place: int) -> Headline:
    """Make the main numbers of a run: agreement of its first metrics, coverage and cost."""
    run, judges = report.runs[place], report.judges_of(place)
    facts = [
        _agreement_fact(run, position, judge)
        for position, judge in judges[:4]
        if run.metric(judge.metric).accuracy is not None
    ]
    return Headline(
        run.name if len(report.runs) > 1 else "",
        counts_of(run) if len(report.runs) > 1 else "",
        run.manifest.status,
        (*facts, *_run_facts(run)),
        tuple(dict.fromkeys([*run.results.warnings, *family_notes([], report.families)])),
    )


def _agreement_fact(run: Loaded, place: int, judge: JudgedMetric) -> Fact:
    found = run.metric(judge.metric)
    shown = found.common or found
    cell = Cell(shown.accuracy or 0.0, CellFormat.PERCENT, interval=shown.accuracy_interval)
    note = f"{cell.aside}, 95% interval" if cell.interval else "no interval: too few prompts"
    if any(result.common for result in run.results.metrics.values()):
        population = Population.COMMON_PAIRS if found.common else Population.OWN_PAIRS
        note += f", {shown.pairs_scored or 0:,} {population.words}"
    return Fact(f"agreement with {run.results.reference}, {judge.metric}", cell.text, note, fragment("pairs", m=place))


def _run_facts(run: Loaded) -> tuple[Fact, Fact]:
    """Make the numbers of coverage and cost, with links to missing scores."""
    metric, scored, expected = run.covered
    share = percentage(scored / expected) if expected else DASH
    link = fragment("images", s="none") if scored < expected else fragment("images")
    price = f"list price {spending(run.list_cost, run.unpriced)}"
    return (
        Fact("coverage", share, f"{scored:,} of {expected:,} images, {metric}", link),
        Fact("spent", spending(run.spent, run.unpriced), price, "#failures"),
    )


def counts_of(run: Loaded) -> str:
    """Summarise the size of a run, its suite and its date in one line."""
    prompts = len({item.prompt_id for item in run.listed if item.prompt_id})
    makers = len({item.generator for item in run.listed if item.generator})
    images = [item for item in run.listed if isinstance(item, Item) or item.is_image]  # as results.json counts them
    unusable = sum(not isinstance(item, Item) for item in images)
    counts = [
        several(len(images), "image") + (f" ({unusable:,} of them unusable)" if unusable else ""),
        several(prompts, "prompt"),
        *([several(makers, "generator")] if makers else []),
    ]
    pairs = len(run.results.pairs or ())
    if pairs:
        counts.append(f"{pairs:,} pairs" if run.results.constructed else f"{pairs:,} human pairs")
    suite = run.manifest.suite.name or str(run.manifest.identity.get("suite") or "")
    named = "" if suite in ("", "folder") else f"Suite {suite}, {run.manifest.protocol} protocol"
    return ". ".join(filter(None, (", ".join(counts), named, _day(run.manifest))))


def _day(manifest: Manifest) -> str:
    when = manifest.updated
    return "" if when is None else datetime.fromtimestamp(when, UTC).strftime("%-d %B %Y, %H:%M UTC")


# -- tables of the record ----------------------------------------------------------------------------------------------


def _result_tables(report: Report, place: int) -> list[Table]:
    """Make the tables of a run's record: agreement with links, and the tables that suites and comparisons recorded."""
    run = report.runs[place]
    judges = {judge.metric: (position, judge) for position, judge in report.judges_of(place)}
    results = run.results.with_(warnings=[], notes=run.results.notes or [_NOTE])
    drawn = agreement_tables(results, correlations=False)
    tables = [_linked(table, run, judges) for table in drawn if table.rows]
    tables += [record.table() for record in run.results.tables if record.id not in _DRAWN]
    several = len(report.runs) > 1
    return [replace(table, title=f"{table.title}, {run.name}") for table in tables] if several else tables


def _linked(table: Table, run: Loaded, judges: Mapping[str, tuple[int, JudgedMetric]]) -> Table:
    """Lead from the numbers of a table to their pairs and images, and leave out columns without any value."""
    rows = table.records
    if table.declared.id == AGREEMENT.id:
        rows, table = [_linked_metric(row, run, judges) for row in rows], replace(table, axis=(0.5, 1.0), folded=True)
    elif table.declared.id == LEADERBOARD.id:
        notes = (*table.notes, *_leaderboard_notes(run))
        table = replace(table, notes=notes, folded=True)
        names = [standing.generator for standing in run.results.leaderboard]
        rows = [_linked_generator(row, name, judges) for row, name in zip(rows, names, strict=True)]
    titles = dict(zip(table.ids, table.columns, strict=True))
    keys = tuple(key for key in titles if says_something([row[key] for row in rows]))
    columns, values = tuple(titles[key] for key in keys), ([row[key] for row in rows] for key in keys)
    cells = tuple(zip(*(rounded(column) if table.estimates else column for column in values), strict=True))
    return replace(table, columns=columns, rows=cells, keys=keys)


def _linked_metric(row: Json, run: Loaded, judges: Mapping[str, tuple[int, JudgedMetric]]) -> Json:
    """Link the cells of a metric to its pairs and images, and add the intervals of its coefficients."""
    if row["metric"] not in judges:
        return row
    place, _ = judges[row["metric"]]
    pairs, images, result = fragment("pairs", m=place), fragment("images", m=place), run.metric(row["metric"])
    intervals = {"srcc": result.srcc_interval, "krcc": result.krcc_interval}
    return row | {
        **{name: replace(row[name], interval=ends) for name, ends in intervals.items() if row[name] is not None},
        **_beside_chance(row, "ndcg"),
        **_beside_chance(row, "fit"),
        "accuracy": linked(row["accuracy"], pairs, bar=True),
        "pairs": linked(row["pairs"], pairs),
        "coverage": linked(row["coverage"], images),
    }


def _beside_chance(row: Json, name: str) -> Json:
    """Put what a random order reaches below the number, instead of a separate column."""
    value, chance = row[name], row[f"{name}_chance"]
    return (
        {}
        if value is None or chance is None
        else {name: replace(value, note=f"chance {chance}"), f"{name}_chance": None}
    )


def _linked_generator(row: Json, generator: str, judges: Mapping[str, tuple[int, JudgedMetric]]) -> Json:
    """Link the cells of a generator to its images."""
    cells = row | {"generator": linked(row["generator"], fragment("images", g=generator))}
    for metric, (place, judge) in judges.items():
        mean = linked(row.get(f"{metric}:mean"), fragment("images", g=generator, m=place), bar=True)
        if mean is not None:
            cells[f"{metric}:mean"] = replace(mean, digits=judge.scale.digits)
    return cells


def _leaderboard_notes(run: Loaded) -> Iterator[Note]:
    """Yield how images of a prompt became one score, and the rank correlations."""
    results = run.results
    if results.per_prompt:
        yield Note("rule_of_means", f"Mean: {PerPrompt.parse(results.per_prompt).about}.")
    found = [f"{name} {plain(srcc)}" for name, srcc in results.leaderboard_srcc.items() if srcc is not None]
    if found and any(standing.human for standing in results.leaderboard):
        line = f"Rank correlation (SRCC) of the generators with the order of {results.reference}: {', '.join(found)}."
        yield Note("rank_correlations", line)


# -- the question of a run with early stopping, and the reliability of its judge
# -----------------------------------------------------------


def _settled(run: Loaded) -> list[Table]:
    """Tabulate the verdicts of a run that was to settle a question."""
    record = run.results.settle or SettleRecord()
    rows, unequal = [], []
    for pair in record.pairs:
        interval = f"[{number(pair.interval[0])}, {number(pair.interval[1])}]" if pair.interval else None
        if pair.reason:
            unequal.append(Note("open_as_missing", f"Open, as what is left out may decide: {pair.reason}."))
        rows.append((", ".join(pair.names), pair.verdict, pair.used, pair.of, interval, record.images, record.of_images,
                     dollars(record.spent), dollars(record.saved)))  # fmt: skip
    columns = ("generators", "better", "prompts", "of", "first minus second", "images", "of all", "spent", "spared")
    keys = ("generators", "better", "prompts", "of", "difference", "images", "of_images", "spent", "spared")
    line = "The interval is valid at every moment at once, so that the run could stop at the verdict."
    notes = (Note("interval_at_every_moment", line), *unequal)
    declared = SETTLING.over(families=bool(families(run.items.values(), pairs=run.results.human_pairs)))
    return (
        [Table("Question of early stopping", columns, tuple(rows), notes, declared=declared, keys=keys)] if rows else []
    )


def _cards(report: Report) -> list[Table]:
    """Tabulate the trust cards in the run folders or beside them."""
    tables = [(run, run.card.table()) for run in report.runs if run.card.lines]
    several = len(report.runs) > 1
    return [replace(table, title=f"{table.title}, {run.name}") if several else table for run, table in tables]
