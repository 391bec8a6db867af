"""The scores of stored runs by prompt and generator, with what their suites know of the prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core import registry
from titjudge.core.errors import ConfigError, DataError, UserError, nearest
from titjudge.core.run_records import Manifest
from titjudge.core.types import Item, Score
from titjudge.probes.canary import refuse_drift
from titjudge.runs.human_study import choose
from titjudge.runs.prompt_languages import script
from titjudge.runs.run_folder import RunFolder
from titjudge.stats.part_scores import ELEMENT, PARTS, part_scores
from titjudge.stats.per_prompt import MEAN, PerPrompt
from titjudge.stats.scores_table import DERIVED, Entry, ScoreTable, score_table

LANGUAGE = "language"


def run_scores(
    paths: Sequence[Path],
    metric: str | None = None,
    by: Sequence[str] = (),
    *,
    allow_drift: bool = False,
    per_prompt: PerPrompt = MEAN,
) -> ScoreTable:
    """Join runs to one table: every generator of each, over the prompts.

    A run that names no generator is one itself; a generator of several runs is told apart by the name of the run. Prompts
    are joined by their ids where these mean the same texts, else by their texts. Of a metric of which less is better the
    scores are negated.

    Args:
        paths: the run folders.
        metric: its name; needed where the runs have several.
        allow_drift: join runs whose models have drifted or differ, with a note.
        by: `type`, `theme`, ... (what the suite knows of a prompt), `prompt_length`, `language`, `element`
            (claims by kind), `pillar`, `sub_capability`, `facet`.
        per_prompt: how several images of a prompt become one score.

    Raises:
        UserError: another judge, protocol or version of the metric, unless `allow_drift`.
        ConfigError: no such metric or category. DataError: a folder is no run.
    """
    folders = {str(path): RunFolder(path) for path in paths}
    manifests = {name: folder.manifest() for name, folder in folders.items()}
    notes = refuse_drift(manifests, allow=allow_drift)
    notes += [
        f"{name} stopped when a question was settled: its intervals do not allow for that (results.json has one that does)"
        for name, manifest in manifests.items()
        if manifest.status == "settled"
    ]
    items = {name: {item.id: item for item in folder.judged()} for name, folder in folders.items()}
    stored = {name: list(folder.scores().values()) for name, folder in folders.items()}
    names = {score.metric for scores in stored.values() for score in scores}
    chosen = choose(names, metric, next(iter(folders.values())))
    if reasons := _judged_otherwise(manifests, chosen):
        if not allow_drift:
            raise UserError(
                f"these runs are not comparable: {'; '.join(reasons)}. Compare them all the same with --allow-drift"
            )
        notes += [f"compared although {reason}" for reason in reasons]
    plugin = registry.metric_of(chosen)
    sign = 1.0 if plugin.higher_is_better else -1.0
    rule = per_prompt.of_metric(plugin.range, plugin.higher_is_better, chosen)
    if sign < 0 and not rule.counts:
        notes.append(f"{chosen}: less is better, so its scores are negated: a positive difference favours a")
    label = run_labels(items)
    key = prompt_keys(items)
    entries: list[Entry] = []
    categories: dict[str, dict[str, str]] = {column: {} for column in by if column not in PARTS}
    parts: dict[str, list[tuple[str, str, str, float]]] = {column: [] for column in by if column in PARTS}
    known: dict[str, None] = dict.fromkeys((*DERIVED, LANGUAGE, *PARTS))
    for name, scores in stored.items():
        listed = items[name]
        for item in listed.values():
            known |= dict.fromkeys(map(str, item.meta))
            for column, values in categories.items():
                values.setdefault(key(item), _category(item, column))
        mine = [score for score in scores if score.metric == chosen and score.item_id in listed]
        for score in mine:
            item = listed[score.item_id]
            place = key(item), label(name, item), f"{name}/{item.id}"
            entries += [Entry(*place, value) for value in _values(score, sign)]
        for column, told in part_scores(listed, mine, parts).items():
            parts[column] += [
                (key(listed[id]), label(name, listed[id]), value, number if column == ELEMENT else sign * number)
                for id, values in told.items()
                for value, number in values.items()
            ]
    for column, values in categories.items():
        if not any(values.values()):
            raise ConfigError(f"{next(iter(folders))}: its prompts have no '{column}'.{nearest(column, known)} "
                              f"Known: {', '.join(known)}")  # fmt: skip
    for column, told_of in parts.items():
        if not told_of:
            raise ConfigError(
                f"{next(iter(folders))}: the scores of {chosen} hold no {PARTS[column]}: --by {column} has nothing to show"
            )
    if not entries:
        raise DataError(f"no score of {chosen}", next(iter(folders)))
    low, high = plugin.range
    costs = [folder.money()["list_cost"] for folder in folders.values()]
    return score_table(
        entries, metric=chosen, source=", ".join(folders), categories=categories, notes=notes,
        bounds=(low, high) if sign > 0 else (-high, -low), cost=sum(costs) / len({(e.prompt, e.generator, e.image) for e in entries}) or None,
        parts=parts,
        per_prompt=rule if sign > 0 else rule.negated(),
    )  # fmt: skip


def _values(score: Score, sign: float) -> list[float | None]:
    """Give the score, or the judge's several answers where their plain mean is the score."""
    if score.value is None:
        return [None]
    told = [each for each in score.parts.get("samples") or () if isinstance(each, int | float)]
    if len(told) > 1 and abs(sum(told) / len(told) - score.value) < 1e-9:
        return [sign * each for each in told]
    return [sign * score.value]


def _category(item: Item, column: str) -> str:
    if column in item.meta:
        value = item.meta[column]
        return str(value) if isinstance(value, str | int | float) else ""
    if column in DERIVED:
        return DERIVED[column](item.prompt)
    return f"{script(item.prompt) or 'LATIN'} letters" if column == LANGUAGE else ""


def run_labels(items: Mapping[str, Mapping[str, Item]]) -> Any:
    """Name the generator of an item of a run, so that no two are called the same."""
    in_runs: dict[str, set[str]] = {}
    for name, listed in items.items():
        for item in listed.values():
            in_runs.setdefault(item.generator, set()).add(name)
    short = [Path(name).resolve().name for name in items]
    shown = dict(zip(items, short if len(set(short)) == len(short) else items, strict=True))

    def label(name: str, item: Item) -> str:
        if not item.generator:
            return shown[name]
        return item.generator if len(in_runs[item.generator]) == 1 else f"{item.generator} ({shown[name]})"

    return label


def prompt_keys(items: Mapping[str, Mapping[str, Item]]) -> Any:
    """Name the prompt of an item: by its id, or by its text where ids of two runs do not mean the same prompts."""
    texts: dict[str, str] = {}
    ids = [{item.prompt_id or item.id for item in listed.values()} for listed in items.values()]
    alike = len(ids) < 2 or bool(set.intersection(*ids))
    for listed in items.values():
        for item in listed.values():
            alike = alike and texts.setdefault(item.prompt_id or item.id, item.prompt) == item.prompt
    return (lambda item: item.prompt_id or item.id) if alike or len(ids) < 2 else (lambda item: item.prompt)


def _judged_otherwise(manifests: Mapping[str, Manifest], metric: str) -> list[str]:
    """Say why scores of these runs are not on one scale: another model in a role, another protocol, another metric version."""
    plugin = registry.metric_of(metric)
    reasons = []
    facts: dict[str, Iterable[Any]] = {
        "the protocol": [manifest.protocol or None for manifest in manifests.values()],
        f"the version of {metric}": [
            record.version for manifest in manifests.values() if (record := manifest.metrics.get(plugin.name))
        ],
    }
    for role in plugin.roles:
        records = [manifest.roles[role] for manifest in manifests.values() if role in manifest.roles]
        facts[f"the {role}"] = [record.model for record in records]
    for what, values in facts.items():
        told = [str(value) for value in values if value is not None]
        if len(set(told)) > 1:
            reasons.append(f"{what} differs ({', '.join(dict.fromkeys(told))})")
    return reasons
