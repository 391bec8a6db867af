"""The verdict on a run folder: which generator is better, and which metric can be trusted."""

from __future__ import annotations

from collections.abc import Mapping

from titjudge.core.run_records import Results, Verdict
from titjudge.core.serialization import lean_item
from titjudge.core.types import Item, Score
from titjudge.report.model import StoredScores
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.stats.verdict.judged_runs import JudgedRun, Scores
from titjudge.stats.verdict.verdict import verdict


def verdict_on(folder: RunFolder, results: Results) -> Verdict:
    """Compute the verdict on a run from its items and scores; `results` are the others of the run."""
    items = {item.id: item for item in map(lean_item, folder.items()) if isinstance(item, Item)}
    return _verdict(folder, results, items, StoredScores(folder))


def verdict_without_texts(folder: RunFolder, results: Results) -> Verdict:
    """Compute the verdict on a long run without categories and reasons, whose texts would fill the memory."""
    items = {item.id: item for item in folder.items(slim=True) if isinstance(item, Item)}
    return _verdict(folder, results, items, _SlimScores(folder.scores(slim=True)))


def _verdict(folder: RunFolder, results: Results, items: Mapping[str, Item], scores: Scores) -> Verdict:
    return verdict([JudgedRun(folder.path.name, folder.manifest(), results, items, scores)])


class _SlimScores(dict[tuple[str, str], Score]):
    """Scores without their reasons."""

    def whole(self, item: str, metric: str) -> Score:
        """Return a score as it is."""
        return self[item, metric]
