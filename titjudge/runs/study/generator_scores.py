"""Read the scores of stored runs by prompt and generator, with the categories that their suites give prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from titjudge.core import registry
from titjudge.core.comparable_runs import judged_differently
from titjudge.core.errors import DataError, UserError
from titjudge.core.run_records import Manifest
from titjudge.probes.canary import refuse_drift
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.human_study import choose_metric
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt
from titjudge.stats.scores.scores_table import ScoreTable
from titjudge.stats.verdict.judged_runs import joined, stored_run


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
    frame = joined([stored_run(run, name) for name, run in folders.items()])
    chosen = choose_metric(frame.metrics, metric, folder, notes)
    notes += _differences(manifests, chosen, allow_drift)
    plugin = registry.metric_of(chosen)
    if not plugin.higher_is_better and not per_prompt.counts:
        notes.append(f"{chosen}: less is better, so its scores are negated: a positive difference favours a")
    table = frame.table(
        chosen,
        by,
        answers=True,
        bounds=plugin.range,
        higher_is_better=plugin.higher_is_better,
        per_prompt=per_prompt,
        cost=sum(run.money().list_cost for run in folders.values()),
    )
    if not table.prompts:
        raise DataError(f"no score of {chosen}", first)
    partial = [f"{name}: {manifest.status}" for name, manifest in manifests.items() if manifest.incomplete]
    return replace(table, notes=(*notes, *table.notes), incomplete="; ".join(partial))


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
