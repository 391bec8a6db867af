"""The verdict on a run folder: which generator is better, and which metric can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from titjudge.core.run_records import Results, Verdict
from titjudge.core.serialization import lean_item
from titjudge.core.types import Item, Score
from titjudge.report.model import StoredScores
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.stats.people.agreement_tables import UNNAMED
from titjudge.stats.verdict.judged_runs import JudgedRun, RunScores
from titjudge.stats.verdict.verdict import verdict

MOST_WITH_TEXTS = 100_000  # images


def verdict_on(folder: RunFolder, results: Results, again: Mapping[tuple[str, str], Score] | None = None) -> Verdict:
    """Compute the verdict on a run from its items and scores.

    Above 100,000 images it has no categories and no reasons: their texts would fill the memory.

    Args:
        folder: The run.
        results: Its other results.
        again: Its scores as they came out when they were computed again; by default those of the folder count.
    """
    if (results.items or 0) > MOST_WITH_TEXTS:
        slim = {item.id: item for item in folder.items(slim=True) if isinstance(item, Item)}
        return _verdict(folder, results, slim, _SlimScores(folder.scores(slim=True) if again is None else again))
    items = {item.id: item for item in map(lean_item, folder.items()) if isinstance(item, Item)}
    stored = StoredScores(folder)
    return _verdict(folder, results, items, stored if again is None else _ScoresAgain(stored, again))


def _verdict(folder: RunFolder, results: Results, items: Mapping[str, Item], scores: RunScores) -> Verdict:
    return verdict([JudgedRun(UNNAMED, folder.manifest(), results, items, scores)])


class _SlimScores(dict[tuple[str, str], Score]):
    """Scores without their reasons."""

    def whole(self, item: str, metric: str) -> Score:
        """Return a score as it is."""
        return self[item, metric]


class _ScoresAgain(dict[tuple[str, str], Score]):
    """The values of scores that were computed again, with the stored texts."""

    def __init__(self, stored: StoredScores, again: Mapping[tuple[str, str], Score]) -> None:
        super().__init__({key: replace(stored.get(key, score), value=score.value) for key, score in again.items()})
        self._stored = stored

    def whole(self, item: str, metric: str) -> Score:
        """Return a score with its reason and all parts."""
        score = self[item, metric]
        return replace(self._stored.whole(item, metric), value=score.value) if (item, metric) in self._stored else score
