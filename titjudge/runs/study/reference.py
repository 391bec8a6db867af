"""Rank a run among the rows of a published table, and flag what differs between the two."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from titjudge.core import registry
from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.errors import UserError
from titjudge.core.run_records import Manifest, Results
from titjudge.core.score_parts import question_counts
from titjudge.core.types import InvalidItem, Item, Note, Table, prompt_of
from titjudge.core.words import script
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.stats.generators.published_tables import Counterpart, PublishedTable
from titjudge.stats.verdict.judged_runs import JudgedRun, stored_run

REFERENCE = Declaration(
    "reference",
    "numbers of the run and published numbers",
    Population.BENCHMARK,
    Unit.IMAGE,
    order="number, best first",
)

_LEAST = 0.95  # share of a row's images, and of the questions about them, that a rank takes


@dataclass(frozen=True, slots=True)
class ReferenceMark:
    """Something that differs between a run and a published table.

    Attributes:
        what: What differs, in a word for a table cell: `suite`, `judge`, `count`, ...
        words: The difference, in words.
        void: Whether it makes them incomparable, so that there is no rank.
    """

    what: str
    words: str
    void: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.words}{' (no rank)' if self.void else ''}"


def standings(folder: RunFolder, reference: PublishedTable) -> list[Table]:
    """Sort the rows of a run into the rows of a published table, in a table for each column that both have.

    A row gets a rank (1 is best, among itself and the published rows that are made on as many prompts) only if no flag
    makes it void: another suite or variant of it, judge, template, protocol, script of the prompts or set of prompts, or
    too few scores or answers.

    Raises:
        UserError: The run has no number that belongs into this table.
    """
    if not reference.counterparts:
        raise UserError(
            f"{reference.name} ({reference.title}) cannot be compared with a run. Print it with `suites published`"
        )
    run = stored_run(folder, str(folder.path), whole=True)
    manifest, results = run.manifest, run.results
    tables: list[Table] = []
    for counterpart in reference.counterparts:
        items = _items_behind(counterpart, run.listed, results)
        if rows := _own_rows(manifest, results, reference, counterpart):
            tables.append(_table(reference, counterpart, rows, _flags(manifest, reference, items), items, run))
    if not tables:
        needed = f"results of {reference.metric or 'a metric with an accuracy'} on {reference.suite}"
        raise UserError(f"{folder.path} has no numbers for {reference.name}. Give a run with {needed}")
    return tables


def _items_behind(
    counterpart: Counterpart, items: Sequence[Item | InvalidItem], results: Results
) -> Sequence[Item | InvalidItem]:
    """Select the items of a table's row: for example the items of its `length`, or all if no item has the row's value.

    The agreement with people rests on the prompts whose images people compared.
    """
    if not counterpart.table and results.pairs:
        compared = {id for pair in results.pairs for id in (pair.a, pair.b)}
        prompts = {prompt_of(item) for item in items if item.id in compared}
        items = [item for item in items if prompt_of(item) in prompts]
    for key, text in counterpart.where:
        if any(isinstance(item, Item) and item.meta.get(key) == text for item in items):
            items = [item for item in items if isinstance(item, InvalidItem) or item.meta.get(key, text) == text]
    return items


def _own_rows(
    manifest: Manifest, results: Results, reference: PublishedTable, counterpart: Counterpart
) -> list[tuple[str, float]]:
    """List name and number of the rows of the run that belong into a column."""
    rows: list[tuple[str, Any]] = []
    if not counterpart.table:
        for metric, result in results.metrics.items():
            rows.append((_judge_name(manifest, metric), getattr(result, counterpart.key, None)))
    for table in results.tables:
        names = table.keys or table.columns
        if counterpart.table and table.id == counterpart.table and counterpart.key in names:
            for row in table.rows:
                cells = dict(zip(names, row, strict=False))
                if all(cells[column] == text for column, text in counterpart.where):
                    name = row[0] if reference.of == "generator" else _judge_name(manifest, reference.metric)
                    rows.append((str(name), cells[counterpart.key]))
            break
    return [(name, counterpart.times * value) for name, value in rows if isinstance(value, int | float)]


def _judge_name(manifest: Manifest, metric: str) -> str:
    models = _models(manifest, metric)
    return f"{metric} ({', '.join(models)})" if models else metric


def _models(manifest: Manifest, metric: str) -> list[str]:
    """List the models that a metric asked, with all judges of a panel (`judge`, `judge 2`, ...)."""
    name = registry.base_metric(metric)
    loaded = registry.load("metrics", name) if name in registry.names("metrics") else None
    roles = () if loaded is None else (*loaded.roles, *loaded.optional_roles)
    return [record.model for role, record in manifest.roles.items() if role.partition(" ")[0] in roles]


def _flags(manifest: Manifest, reference: PublishedTable, items: Sequence[Item | InvalidItem]) -> list[ReferenceMark]:
    """Flag what differs for every row of the run."""
    flags = []
    if manifest.suite.name != reference.suite:
        flags.append(ReferenceMark("suite", f"{manifest.suite.name or 'none'}, not {reference.suite}", True))
    options = manifest.identity.get("suite_options") or {}
    for key, value in reference.options.items():
        if options.get(key) != value:
            flags.append(ReferenceMark("suite", f"{key}={options.get(key)}, not {value}", True))
    if (template := options.get("template")) not in (None, "", "random"):
        flags.append(ReferenceMark("template", f"the judge was asked with {template}, not as published", True))
    models = _models(manifest, reference.metric)
    if reference.judges and not (models and all(_is_judge(model, reference.judges) for model in models)):
        flags.append(ReferenceMark("judge", f"{', '.join(models) or 'unknown'}, not {reference.judge}", True))
    flags += [ReferenceMark("judge", line, True) for line in manifest.mixed]
    if reference.protocol and manifest.protocol != reference.protocol:
        flags.append(ReferenceMark("protocol", f"{manifest.protocol or 'unknown'}, not {reference.protocol}", True))
    prompts, unread, basis = _prompts(reference, items)
    scripts = Counter(script(prompt) for prompt in prompts.values())
    usual = max(sorted(scripts), key=scripts.__getitem__, default="")
    if usual != reference.script:
        words = f"prompts in {usual or 'LATIN'}, not {reference.script or 'LATIN'} letters"
        flags.append(ReferenceMark("language", words, True))
    if basis is None:
        counts = sorted({reference.prompts_behind(row) or 0 for row, _ in reference.cells} - {0})
        published = " or ".join(f"{count:,}" for count in counts)
        theirs = f"not {published}" if counts else "and how many theirs are is not printed"
        flags.append(ReferenceMark("subset", f"{len(prompts):,} prompts, {theirs}", True))
    elif unread and len(prompts) != basis:
        words = f"{len(unread):,} of {basis:,} prompts could not be judged"
        flags.append(ReferenceMark("count", words, len(prompts) < _LEAST * basis))
    if basis and (others := sum(reference.prompts_behind(row) != basis for row, _ in reference.cells)):
        words = (
            f"{others:,} of {len(reference.cells):,} published rows are not of this run's {basis:,} prompts: no rank"
        )
        flags.append(ReferenceMark("rows", words, False))
    if reference.differs:
        flags.append(ReferenceMark(*reference.differs, False))
    return flags


def _prompts(
    reference: PublishedTable, items: Sequence[Item | InvalidItem]
) -> tuple[dict[str, str], set[str], int | None]:
    """Return the judged prompts, the prompts that could not be judged, and how many it shares with published rows, if any."""
    prompts = {prompt_of(item): item.prompt for item in items if isinstance(item, Item)}
    unread = {item.prompt_id for item in items if isinstance(item, InvalidItem) and item.prompt_id} - set(prompts)
    published = {reference.prompts_behind(row) for row, _ in reference.cells}
    basis = next((count for count in (len(prompts) + len(unread), len(prompts)) if count in published), None)
    return prompts, unread, basis


def _is_judge(model: str, patterns: Sequence[str]) -> bool:
    name = model.rpartition("/")[2].lower()
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _table(
    reference: PublishedTable,
    counterpart: Counterpart,
    mine: Sequence[tuple[str, float]],
    flags: Sequence[ReferenceMark],
    items: Sequence[Item | InvalidItem],
    run: JudgedRun,
) -> Table:
    published: dict[str, float] = {
        name: value for name, value in reference.column(counterpart.column).items() if value is not None
    }
    counts = _counts(reference, items, run)
    _, _, basis = _prompts(reference, items)
    comparable = {name for name in published if basis in (None, reference.prompts_behind(name))}

    def rank(value: float) -> int:
        return 1 + sum(published[name] > value for name in comparable)

    rows: list[tuple[int | None, str, float, str, str]] = [
        (rank(value), name, value, "published", "") if name in comparable else (None, name, value, "published", "rows")
        for name, value in published.items()
    ]
    for name, value in sorted(mine):
        marks = [*flags, *counts.get(name, ())]
        differs = ", ".join(dict.fromkeys(flag.what for flag in marks))
        rows.append((None if any(flag.void for flag in marks) else rank(value), name, value, "this run", differs))
    rows.sort(key=lambda row: -row[2])
    source = f"{reference.source}; {reference.date}; {reference.scale}; judge: {reference.judge}"
    differing = dict.fromkeys(str(flag) for name, _ in mine for flag in (*flags, *counts.get(name, ())))
    notes = (
        Note("source_of_reference", source),
        Note("ranks_among_published", "a rank is among the published rows that are made on as many prompts"),
        *(Note("differs_from_reference", line) for line in differing),
    )
    columns = ("rank", reference.of, counterpart.column, "whose", "differs in")
    return Table(
        f"This run among published rows: {reference.title}, {counterpart.column}",
        columns,
        tuple(rows),
        notes,
        declared=REFERENCE,
    )


def _counts(
    reference: PublishedTable, items: Sequence[Item | InvalidItem], run: JudgedRun
) -> dict[str, list[ReferenceMark]]:
    """Flag generators with missing scores or missing answers, or with several images per prompt."""
    if reference.of != "generator":
        return {}
    scored = {
        item_id: question_counts(score.parts)
        for (item_id, metric), score in run.scores.items()
        if metric == reference.metric and score.value is not None
    }
    images, with_score, prompts = Counter[str](), Counter[str](), dict[str, set[str]]()
    questions, skipped = Counter[str](), Counter[str]()
    for item in items:
        if isinstance(item, Item) or item.is_image:
            images[item.generator] += 1
            with_score[item.generator] += item.id in scored
            asked, unanswered = scored.get(item.id, (0, 0))
            questions[item.generator] += asked
            skipped[item.generator] += unanswered
            prompts.setdefault(item.generator, set()).add(prompt_of(item))
    flags_of: dict[str, list[ReferenceMark]] = {}
    for name, count in images.items():
        flags = flags_of.setdefault(name, [])
        if with_score[name] < count:
            words = f"{name}: {with_score[name]:,} of {count:,} images have a score"
            flags.append(ReferenceMark("count", words, with_score[name] < _LEAST * count))
        if skipped[name]:
            words = f"{name}: {skipped[name]:,} of {questions[name]:,} questions about its scored images have no answer"
            flags.append(ReferenceMark("questions", words, questions[name] - skipped[name] < _LEAST * questions[name]))
        if count > len(prompts[name]):
            flags.append(ReferenceMark("count", f"{name}: {count:,} images of {len(prompts[name]):,} prompts", False))
    return flags_of
