"""The verdict on one or several runs: which generator is better, and which metric can be trusted."""

from __future__ import annotations

from collections.abc import Sequence

from titjudge.core.registry import first_metric
from titjudge.core.run_records import Verdict
from titjudge.stats.comparable_runs import drift_between, judged_differently
from titjudge.stats.verdict.best_judge import best_judge
from titjudge.stats.verdict.better_generator import better_generator
from titjudge.stats.verdict.judged_runs import JudgedRun


def verdict(runs: Sequence[JudgedRun], baseline: str = "") -> Verdict:
    """Say which generator is better by the first metric (`registry.first_metric`), and which metric agrees best with people.

    Several runs are joined where one judge judged different images: a run for each checkpoint. Two judges on the same images
    say nothing of generators together; `apart` says why runs are not joined.

    Args:
        runs: One run or several, with different names.
        baseline: A generator to compare the best one with; by default the runner-up.
    """
    several = Verdict(runs=[run.name for run in runs]) if len(runs) > 1 else Verdict()
    judged = several.joined(Verdict(judges=best_judge(runs)))
    metrics = [name for name in runs[0].metrics if all(name in run.metrics for run in runs)]
    if not metrics:
        return judged.joined(Verdict(apart=["they share no metric"])) if len(runs) > 1 else judged
    metric = first_metric(metrics)
    if reasons := apart(runs, metric):
        return judged.joined(Verdict(apart=reasons))
    settled = runs[0].results.settle
    pair = settled.pairs[0] if settled and settled.pairs else None
    return judged.joined(Verdict(generators=better_generator(runs, metric, baseline=baseline, settled=pair)))


def apart(runs: Sequence[JudgedRun], metric: str) -> list[str]:
    """Say why the scores of several runs are not those of one comparison."""
    if len(runs) == 1:
        return []
    manifests = {run.name: run.manifest for run in runs}
    reasons = [*judged_differently(manifests, metric), *drift_between(manifests)]
    reasons += [f"{run.name} stopped when its question was settled" for run in runs if run.results.settle]
    images = [{(item.id, item.generator, item.image) for item in run.items.values()} for run in runs]
    if len(set[object]().union(*images)) < sum(map(len, images)):
        reasons.append("they judged the same images")
    return reasons
