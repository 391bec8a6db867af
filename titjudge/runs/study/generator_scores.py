"""Read the scores of stored runs by prompt and generator, with the categories that their suites give prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from titjudge.core import registry
from titjudge.core.comparable_runs import judged_differently
from titjudge.core.errors import ConfigError, DataError, UserError, nearest
from titjudge.core.run_records import Manifest
from titjudge.core.types import Item, Score
from titjudge.probes.canary import refuse_drift
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.prompt_languages import script
from titjudge.runs.study.human_study import choose_metric
from titjudge.stats.scores.joined_runs import Items, prompt_keys, run_labels
from titjudge.stats.scores.part_scores import PARTS, part_scores
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt
from titjudge.stats.scores.scores_table import DERIVED, Entry, ScoreTable, score_table

LANGUAGE = "language"
Cell = tuple[str, str]  # run and item id, or prompt and generator


def run_scores(
    paths: Sequence[Path],
    metric: str | None = None,
    by: Sequence[str] = (),
    *,
    allow_drift: bool = False,
    per_prompt: PerPrompt = MEAN,
) -> ScoreTable:
    """Join the scores of runs to one table of generators and prompts.

    A run that names no generator is one itself; a generator of several runs is told apart by the name of the run. Prompts
    are joined by their ids where these mean the same texts, else by their texts. The scores of a metric of which less is
    better are negated.

    Args:
        paths: The run folders.
        metric: Its name; None for the first (`choose_metric`), which a note names.
        by: Categories to slice by: keys of the items' meta (`type`, `theme`, ...), `prompt_length`, `language`, `element`
            (claims by kind), `pillar`, `sub_capability`, `facet`.
        allow_drift: Join runs whose models have drifted or differ, with a note.
        per_prompt: How several images of a prompt become one score.

    Raises:
        UserError: Another judge, protocol or version of the metric, unless `allow_drift`.
        ConfigError: No such metric or category.
        DataError: A folder is no run.
    """
    folders = {str(path): RunFolder(path) for path in paths}
    first, folder = next(iter(folders.items()))
    manifests = {name: run.manifest() for name, run in folders.items()}
    notes = refuse_drift(manifests, allow=allow_drift)
    notes += [
        f"{name} stopped when a question was settled: its intervals do not allow for that (results.json has one that does)"
        for name, manifest in manifests.items()
        if manifest.status == "settled"
    ]
    items: dict[str, dict[str, Item]] = {}
    scores: dict[str, list[Score]] = {}
    for name, run in folders.items():
        items[name], _, stored = run.compared()
        scores[name] = list(stored.values())
    chosen = choose_metric({score.metric for judged in scores.values() for score in judged}, metric, folder, notes)
    for name, judged in scores.items():
        scores[name] = [score for score in judged if score.metric == chosen and score.item_id in items[name]]
    notes += _differences(manifests, chosen, allow_drift)
    plugin = registry.metric_of(chosen)
    if not plugin.higher_is_better and not per_prompt.counts:
        notes.append(f"{chosen}: less is better, so its scores are negated: a positive difference favours a")
    label, key = run_labels(items), prompt_keys(items)
    cells: dict[Cell, Cell] = {
        (name, id): (key(item), label(name, item)) for name, images in items.items() for id, item in images.items()
    }
    categories = {column: _categories(items, key, column) for column in by if column not in PARTS}
    parts = {column: _part_scores(items, scores, cells, column) for column in by if column in PARTS}
    if empty := [column for column, numbers in parts.items() if not numbers]:
        what = f"the scores of {chosen} hold no {PARTS[empty[0]]}: --by {empty[0]} has nothing to show"
        raise ConfigError(f"{first}: {what}")
    entries = [
        Entry(*cells[name, score.item_id], f"{name}/{score.item_id}", value)
        for name, judged in scores.items()
        for score in judged
        for value in _values(score)
    ]
    if not entries:
        raise DataError(f"no score of {chosen}", first)
    texts = {key(item): hash(item.prompt) for images in items.values() for item in images.values()}
    del items, scores, cells, label, key  # a long run leaves no room for them beside the table
    cost = sum(run.money().list_cost for run in folders.values())
    table = score_table(
        entries, metric=chosen, source=", ".join(folders), categories=categories, notes=notes, parts=parts,
        bounds=plugin.range, higher_is_better=plugin.higher_is_better, per_prompt=per_prompt, texts=texts,
        cost=cost / len({entry.image for entry in entries}) or None,
    )  # fmt: skip
    partial = [f"{name}: {manifest.status}" for name, manifest in manifests.items() if manifest.incomplete]
    return replace(table, incomplete="; ".join(partial))


def judged_items(folders: Mapping[str, RunFolder]) -> dict[str, dict[str, Item]]:
    """Read the valid items of runs, by run and item id."""
    return {name: {item.id: item for item in folder.judged()} for name, folder in folders.items()}


def _values(score: Score) -> list[float | None]:
    """Return the value of a score, or the several answers of the judge whose mean it is."""
    if score.value is None:
        return [None]
    samples = [value for value in score.parts.get("samples") or () if isinstance(value, int | float)]
    of_samples = len(samples) > 1 and abs(sum(samples) / len(samples) - score.value) < 1e-9
    return [*samples] if of_samples else [score.value]


def _differences(manifests: Mapping[str, Manifest], metric: str, allow: bool) -> list[str]:
    """Note in what the judging of runs by a metric differs.

    Raises:
        UserError: It differs, and may not.
    """
    reasons = judged_differently(manifests, metric)
    if reasons and not allow:
        raise UserError(
            f"these runs are not comparable: {'; '.join(reasons)}. Compare them all the same with --allow-drift"
        )
    return [f"compared although {reason}" for reason in reasons]


def _categories(items: Items, key: Callable[[Item], str], column: str) -> dict[str, str]:
    """Map each prompt to its category; empty where it has none.

    Raises:
        ConfigError: No prompt has one.
    """
    listed = [item for of_run in items.values() for item in of_run.values()]
    categories: dict[str, str] = {}
    for item in listed:
        categories.setdefault(key(item), _category(item, column))
    if not any(categories.values()):
        named = dict.fromkeys(str(name) for item in listed for name in item.meta if _category(item, name))
        names = dict.fromkeys((*DERIVED, LANGUAGE, *PARTS, *named))
        what = f"its prompts have no '{column}'.{nearest(column, names)} Known: {', '.join(names)}"
        raise ConfigError(f"{next(iter(items))}: {what}")
    return categories


def _part_scores(
    items: Items, scores: Mapping[str, Sequence[Score]], cells: Mapping[Cell, Cell], column: str
) -> list[tuple[str, str, str, float]]:
    """List prompt, generator, value of `column` and number of the parts of scores."""
    return [
        (*cells[name, id], value, number)
        for name, judged in scores.items()
        for id, numbers in part_scores(items[name], judged, [column]).get(column, {}).items()
        for value, number in numbers.items()
    ]


def _category(item: Item, column: str) -> str:
    if column in item.meta:
        value = item.meta[column]
        return str(value) if isinstance(value, str | int | float) and column != "generator" else ""
    if column in DERIVED:
        return DERIVED[column](item.prompt)
    return f"{script(item.prompt) or 'LATIN'} letters" if column == LANGUAGE else ""
