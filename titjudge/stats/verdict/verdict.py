"""The verdict on one or several runs: which generator is better, and which metric can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from titjudge.core.registry import first_metric
from titjudge.core.run_records import BestJudge, MetricResult, RankedJudge, Verdict
from titjudge.stats.comparable_runs import drift_between, judged_differently
from titjudge.stats.generators.paired_differences import (
    Difference,
    below_the_best,
    common_accuracy,
    paired_differences,
)
from titjudge.stats.pairwise_accuracy import PairIndex, Values, values_by_metric
from titjudge.stats.significance import ALPHA
from titjudge.stats.verdict.better_generator import better_generator
from titjudge.stats.verdict.judged_runs import JudgedRun


def verdict(runs: Sequence[JudgedRun], baseline: str = "") -> Verdict:
    """Write which generator is better by the first metric (`registry.first_metric`), and which metric agrees best with people.

    Several runs are joined if the same judge judged different images: a run for each checkpoint. Two judges on the same
    images cannot be combined to rank generators; `apart` gives the reason why runs are not joined.

    Args:
        runs: One run or several, with different names.
        baseline: A generator to compare the best one with; by default the runner-up.
    """
    several = Verdict(runs=[run.name for run in runs]) if len(runs) > 1 else Verdict()
    judged = several.joined(Verdict(judges=best_judge(runs)))
    metrics = [name for name in runs[0].metrics if all(name in run.metrics for run in runs)]
    if not metrics:
        return judged.joined(Verdict(apart=["they share no metric"])) if len(runs) > 1 else judged
    metric = first_metric(metrics, {name for run in runs for name in run.results.unscored})
    if reasons := apart(runs, metric):
        return judged.joined(Verdict(apart=reasons))
    settled = runs[0].results.settle
    pair = settled.pairs[0] if settled and settled.pairs else None
    return judged.joined(Verdict(generators=better_generator(runs, metric, baseline=baseline, settled=pair)))


def apart(runs: Sequence[JudgedRun], metric: str) -> list[str]:
    """Write why the scores of several runs cannot be compared."""
    if len(runs) == 1:
        return []
    manifests = {run.name: run.manifest for run in runs}
    reasons = [*judged_differently(manifests, metric), *drift_between(manifests)]
    reasons += [f"{run.name} stopped when its question was settled" for run in runs if run.results.settle]
    images = [{(item.id, item.generator, item.image) for item in run.items.values()} for run in runs]
    if len(set[object]().union(*images)) < sum(map(len, images)):
        reasons.append("they judged the same images")
    return reasons


Judge = tuple[MetricResult, Values]


def best_judge(runs: Sequence[JudgedRun]) -> BestJudge | None:
    """Compare the metrics of one or several runs by their agreement with people; None without pairs that they share.

    Difference, interval and p of two metrics come from `judges agreement RUN`; p of more allows for the best being chosen
    on these pairs (`paired_differences.below_the_best`).
    """
    pairs = runs[0].results.human_pairs
    judges = _judges(runs)
    if not judges or any(set(run.results.human_pairs) != set(pairs) for run in runs[1:]):
        return None
    index = PairIndex.from_pairs(pairs)
    order = _order(index, judges)
    record = BestJudge(
        reference=runs[0].results.reference,
        first=order[0],
        ranking=[_ranked(name, judges[name][0]) for name in order],
    )
    if len(order) < 2 or not pairs:
        return record
    values = {name: judges[name][1] for name in order}
    ps = below_the_best(index, list(values.values()))
    (two,) = paired_differences(index, {name: values[name] for name in order[:2]})
    level = [name for name, p in zip(order[1:], ps, strict=True) if p is not None and p >= ALPHA]
    level = level or (order[1:2] if ps[0] is None else [])
    return record.joined(_difference(two, ps[0], level))


def _judges(runs: Sequence[JudgedRun]) -> dict[str, Judge]:
    """Return result and values of each metric that agrees with people on some pair; with the name of the run if there are several."""
    judges: dict[str, Judge] = {}
    for run in runs:
        names = [name for name in run.metrics if run.results.metrics[name].accuracy is not None]
        lower = [name for name in names if not run.scale(name).higher]
        values = values_by_metric((score for score in run.scores.values() if score.metric in names), negate=lower)
        for name in names:
            label = name if len(runs) == 1 else f"{name} ({run.name})"
            judges[label] = run.results.metrics[name], values.get(name, {})
    return judges


def _order(index: PairIndex, judges: Mapping[str, Judge]) -> list[str]:
    """Sort the metrics by accuracy on the pairs that all compared ones have scored; uncompared ones come last."""
    names = list(judges)
    ranked = common_accuracy(index, [values for _, values in judges.values()])
    return [names[k] for k in (*ranked.order, *ranked.aside)]


def _ranked(name: str, result: MetricResult) -> RankedJudge:
    return RankedJudge(
        metric=name, accuracy=result.accuracy, pairs=result.pairs_scored or result.pairs or 0, p=result.p_value
    )


def _difference(two: Difference, p: float | None, level: list[str]) -> BestJudge:
    """Return the facts on the best and the runner-up, and the metrics that cannot be distinguished from the best."""
    return BestJudge(
        second=two.second,
        better=not level,
        first_accuracy=two.first_value,
        second_accuracy=two.second_value,
        difference=two.difference,
        interval=two.interval,
        p=p,
        pairs=two.n,
        level_with=level,
    )
