"""Where a run stands among the rows of a published table, and what differs between the two."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from titjudge.core import registry
from titjudge.core.errors import UserError
from titjudge.core.run_records import Manifest, Results
from titjudge.core.types import InvalidItem, Item, Table
from titjudge.runs.prompt_languages import script
from titjudge.runs.run_folder import RunFolder
from titjudge.stats.published_tables import Counterpart, Published

_LEAST = 0.95  # of a row's images: with fewer scores it takes no rank


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that differs between a run and a published table; a `void` one leaves nothing to compare."""

    what: str
    words: str
    void: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.words}" + ("" if not self.void else " (no rank)")


def standings(folder: RunFolder, reference: Published) -> list[Table]:
    """Put the rows of a run among those of a published table, a table for each column that both have.

    A row takes a rank (1 is best, among the published rows and itself) only where no flag makes the comparison void:
    another suite or variant of it, judge, protocol, script of the prompts or set of prompts, or too few scores.

    Raises:
        UserError: a run has nothing that stands in this table.
    """
    if not reference.counterparts:
        raise UserError(f"a run has no counterpart of {reference.name} ({reference.title}): `reference show` prints it")
    manifest, results = folder.manifest(), folder.results()
    found: list[Table] = []
    for counterpart in reference.counterparts:
        where = dict(counterpart.where)
        items = [
            item
            for item in folder.items()
            if isinstance(item, InvalidItem) or all(item.meta.get(key, text) == text for key, text in where.items())
        ]
        if rows := _mine(manifest, results, reference, counterpart):
            found.append(_table(reference, counterpart, rows, _flags(manifest, reference, items), items, folder))
    if not found:
        needed = f"results of {reference.metric or 'a metric with an accuracy'} on {reference.suite}"
        raise UserError(f"{folder.path} has nothing to put into {reference.name}: it takes {needed}")
    return found


def _mine(
    manifest: Manifest, results: Results, reference: Published, counterpart: Counterpart
) -> list[tuple[str, float]]:
    """Find the numbers of the run that belong into a column, by row."""
    found: list[tuple[str, Any]] = []
    if not counterpart.start:
        for metric, result in results.metrics.items():
            found.append((_judge_name(manifest, metric), getattr(result, counterpart.key, None)))
    for table in results.tables:
        if counterpart.start and table.title.startswith(counterpart.start) and counterpart.key in table.columns:
            at = {column: place for place, column in enumerate(table.columns)}
            for row in table.rows:
                if all(row[at[column]] == text for column, text in counterpart.where):
                    name = row[0] if reference.of == "generator" else _judge_name(manifest, reference.metric)
                    found.append((str(name), row[at[counterpart.key]]))
            break
    return [(name, counterpart.times * value) for name, value in found if isinstance(value, int | float)]


def _judge_name(manifest: Manifest, metric: str) -> str:
    models = _models(manifest, metric)
    return f"{metric} ({', '.join(models)})" if models else metric


def _models(manifest: Manifest, metric: str) -> list[str]:
    """List the models that a metric asked, all judges of a panel (`judge`, `judge 2`, ...) among them."""
    name = registry.base_metric(metric)
    roles = registry.load("metrics", name).roles if name in registry.names("metrics") else ()
    return [record.model for role, record in manifest.roles.items() if role.partition(" ")[0] in roles]


def _flags(manifest: Manifest, reference: Published, items: Sequence[Item | InvalidItem]) -> list[Flag]:
    """Say what differs for every row of the run."""
    found = []
    if manifest.suite.name != reference.suite:
        found.append(Flag("suite", f"{manifest.suite.name or 'none'}, not {reference.suite}", True))
    options = manifest.identity.get("suite_options") or {}
    for key, value in reference.options.items():
        if options.get(key) != value:
            found.append(Flag("suite", f"{key}={options.get(key)}, not {value}", True))
    asked = _models(manifest, reference.metric)
    if reference.judges and not (asked and all(_is_judge(model, reference.judges) for model in asked)):
        found.append(Flag("judge", f"{', '.join(asked) or 'unknown'}, not {reference.judge}", True))
    found += [Flag("judge", line, True) for line in manifest.mixed]
    if reference.protocol and manifest.protocol != reference.protocol:
        found.append(Flag("protocol", f"{manifest.protocol or 'unknown'}, not {reference.protocol}", True))
    prompts = {item.prompt_id or item.id: item.prompt for item in items if isinstance(item, Item)}
    scripts = Counter(script(prompt) for prompt in prompts.values())
    usual = scripts.most_common(1)[0][0] if scripts else ""
    if usual != reference.script:
        found.append(
            Flag("language", f"prompts in {usual or 'LATIN'}, not {reference.script or 'LATIN'} letters", True)
        )
    unread = {item.prompt_id for item in items if isinstance(item, InvalidItem) and item.prompt_id} - set(prompts)
    if unread and len(prompts) + len(unread) == reference.prompts:
        words = f"{len(unread):,} of {reference.prompts:,} prompts could not be judged"
        found.append(Flag("count", words, len(prompts) < _LEAST * reference.prompts))
    elif len(prompts) != reference.prompts:
        theirs = f"not {reference.prompts:,}" if reference.prompts else "and how many theirs are is not printed"
        found.append(Flag("subset", f"{len(prompts):,} prompts, {theirs}", True))
    if reference.differs:
        what, _, words = reference.differs.partition(": ")
        found.append(Flag(what, words, False))
    return found


def _is_judge(model: str, patterns: Sequence[str]) -> bool:
    name = model.rpartition("/")[2].lower()
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _table(
    reference: Published, counterpart: Counterpart, mine: Sequence[tuple[str, float]], flags: Sequence[Flag],
    items: Sequence[Item | InvalidItem], folder: RunFolder,
) -> Table:  # fmt: skip
    theirs = {name: value for name, value in reference.column(counterpart.column).items() if value is not None}
    counts = _counts(reference, items, folder)
    rows: list[tuple[int | None, str, float, str, str]] = [
        (1 + sum(other > value for other in theirs.values()), name, value, "published", "")
        for name, value in theirs.items()
    ]
    for name, value in mine:
        own = [*flags, *counts.get(name, ())]
        rank = None if any(flag.void for flag in own) else 1 + sum(other > value for other in theirs.values())
        rows.append((rank, name, value, "this run", ", ".join(dict.fromkeys(flag.what for flag in own))))
    rows.sort(key=lambda row: -row[2])
    told = dict.fromkeys(str(flag) for name, _ in mine for flag in (*flags, *counts.get(name, ())))
    notes = (
        f"{reference.source}; {reference.date}; {reference.scale}; judge: {reference.judge}",
        "a rank is among the published rows",
        *told,
    )
    columns = ("rank", reference.of, counterpart.column, "whose", "differs in")
    return Table(f"Where this run stands: {reference.title}, {counterpart.column}", columns, tuple(rows), notes)


def _counts(reference: Published, items: Sequence[Item | InvalidItem], folder: RunFolder) -> dict[str, list[Flag]]:
    """Flag generators that lack scores, or have several images a prompt."""
    if reference.of != "generator":
        return {}
    scored = {
        item_id
        for (item_id, metric), score in folder.scores(slim=True).items()
        if metric == reference.metric and score.value is not None
    }
    images, good, prompts = Counter[str](), Counter[str](), dict[str, set[str]]()
    for item in items:
        if isinstance(item, Item) or item.is_image:
            images[item.generator] += 1
            good[item.generator] += item.id in scored
            prompts.setdefault(item.generator, set()).add(item.prompt_id or item.id)
    found: dict[str, list[Flag]] = {}
    for name, count in images.items():
        flags = found.setdefault(name, [])
        if good[name] < count:
            words = f"{name}: {good[name]:,} of {count:,} images have a score"
            flags.append(Flag("count", words, good[name] < _LEAST * count))
        if count > len(prompts[name]):
            flags.append(Flag("count", f"{name}: {count:,} images of {len(prompts[name]):,} prompts", False))
    return found
