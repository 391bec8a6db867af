"""Read from a stored run what the statistics of trust need: the judge's preferences beside people's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from titjudge.core import registry
from titjudge.core.errors import ConfigError, DataError, nearest
from titjudge.core.grouping import grouped
from titjudge.core.types import Item, Pair
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.stats.bootstrap import LEVEL
from titjudge.stats.equality import same
from titjudge.stats.pairwise_accuracy import Values
from titjudge.stats.ppi.ppi_leaderboard import PeopleBoard, people_board
from titjudge.stats.scores.families import Families, families_of_pairs, family_notes
from titjudge.stats.verdict.judged_runs import joined, stored_run


def people_study(
    run: RunFolder, human: Sequence[Pair], metric: str | None = None, *, level: float = LEVEL
) -> tuple[str, PeopleBoard]:
    """Join people's pairs with the preferences of a metric over all pairs of a run, to the leaderboard that people would give.

    A pair of which an image has no score is a tie of the judge, whether people compared it or not: if the two kinds were
    treated differently, the interval would not hold its level. Warnings of the leaderboard count these, and pairs of other images.

    Args:
        run: The run folder.
        human: People's pairs.
        metric: The metric that is the judge; None for the first.
        level: Confidence level of the intervals.

    Returns:
        The metric, and the leaderboard.

    Raises:
        ConfigError: No such metric.
        DataError: No run folder, fewer than two generators, or no human pair of the run's images.
    """
    judged, warnings = stored_run(run, str(run.path)), list[str]()
    frame, items = joined([judged]), list(judged.items.values())
    name = choose_metric(frame.metrics, metric, run.path, warnings)
    generator_of = {item.id: item.generator for item in items}
    if len(set(generator_of.values())) < 2:
        raise DataError("its images name fewer than two generators: there is nothing to rank", run.path)
    prompt_of = {item.id: frame.prompt(item) for item in items}
    prompts, declared = list(dict.fromkeys(prompt_of.values())), frame.families()
    warnings += family_notes(prompts, declared)
    if not declared:
        declared = families_of_pairs(replace(pair, prompt_id=prompt_of.get(pair.a, "")) for pair in human)
        warnings += family_notes(prompts, declared)
    pairs = [
        replace(pair, prompt_id=declared.get(prompt_of[pair.a], prompt_of[pair.a]))
        for pair in human
        if pair.a in prompt_of and prompt_of[pair.a] == prompt_of.get(pair.b)
    ]
    if not any(generator_of[pair.a] != generator_of[pair.b] for pair in pairs):
        named = f"; a pair names '{human[0].a}', the run '{items[0].id}'" if human and not pairs else ""
        raise DataError(f"no human pair has two images of one prompt by two generators of this run{named}", run.path)
    judge, unscored = _preferences(items, prompt_of, frame.values(name), declared)
    board = people_board(pairs, judge, generator_of, level=level)
    warnings += board.warnings
    if unscored:
        warnings.append(f"{unscored} of {len(judge)} pairs lack a score of the judge: counted as its ties")
    unknown = [f"{p.a} / {p.b}" for p in human if prompt_of.get(p.a) is None or prompt_of[p.a] != prompt_of.get(p.b)]
    excluded = {"not two images of one prompt in this run": {"": unknown}} if unknown else {}
    return name, replace(board, warnings=tuple(warnings), excluded=excluded, families=bool(declared))


def choose_metric(names: Sequence[str], metric: str | None, run: Path, notes: list[str] | None = None) -> str:
    """Choose one of the metrics of a run.

    Args:
        names: The metrics to choose from, in the order of the run.
        metric: The one that was named; None for the first (`registry.first_metric`).
        run: The run folder.
        notes: Gets a line where the first of several was chosen; without it several are an error, as for training, which the
            wrong metric would spoil.

    Raises:
        ConfigError: There is no such metric; or none was named of several, without `notes`.
        DataError: The run has no score.
    """
    available = sorted(set(names))
    listed = ", ".join(available)
    if not available:
        raise DataError("it holds no score to look at", run)
    if metric is not None and metric not in available:
        raise ConfigError(f"{run} has no metric '{metric}'.{nearest(metric, available)} (it has {listed})")
    if metric is not None or len(available) == 1:
        return metric or available[0]
    if notes is None:
        raise ConfigError(f"{run} has several metrics: choose one with --metric ({listed})")
    chosen = registry.first_metric(names)
    notes.append(f"by {chosen}; --metric takes another: {', '.join(name for name in available if name != chosen)}")
    return chosen


def _preferences(
    items: Sequence[Item], prompt_of: Mapping[str, str], values: Values, declared: Families
) -> tuple[list[Pair], int]:
    """Return the preference of the judge over each pair, under the family of its prompt, and how many pairs lack a score."""
    pairs, unscored = [], 0
    for prompt, members in grouped(items, lambda item: prompt_of[item.id]).items():
        for a, b in combinations(members, 2):
            if a.generator == b.generator:
                continue
            x, y = values.get(a.id), values.get(b.id)
            unscored += x is None or y is None
            preferred = "tie" if x is None or y is None or same(x, y) else "a" if x > y else "b"
            pairs.append(Pair(declared.get(prompt, prompt), a.id, b.id, preferred))
    return pairs, unscored
