"""Agreement inside each prompt: rank correlation and nDCG of the images of one prompt, averaged over prompts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from titjudge.core.types import Pair
from titjudge.stats.bootstrap import Floats, Interval, number
from titjudge.stats.equality import with_ties
from titjudge.stats.intervals import mean_intervals
from titjudge.stats.pairwise_accuracy import PairIndex, Values, pair_index
from titjudge.stats.rankdata import rankdata

HumanScores = Mapping[str, Mapping[str, float]]
"""Prompt -> image -> score in [0, 1]: the share of the other images that it beats, a tie counting half."""

GAIN = "gain = human score = (wins + ties/2) / comparisons, in [0, 1]"
TIE_HANDLING = (
    "images with equal metric scores: expectation over all orders of the tied images; discount 1/log2(1 + position)"
)


def human_scores(pairs: Sequence[Pair] | PairIndex) -> dict[str, dict[str, float]]:
    """Copeland score of each image among the images of its prompt: (wins + ties/2) / comparisons.

    With every pair of the prompt judged once, as in LPG-Bench, this is the classical Copeland count scaled to [0, 1];
    with fewer pairs it is the win rate over the comparisons there are. Images nobody compared are absent.
    """
    index = pair_index(pairs)
    images = len(index.ids)
    keys = np.concatenate([index.group * images + index.a, index.group * images + index.b])
    points = np.concatenate([(1 + index.preference) / 2, (1 - index.preference) / 2])
    distinct, where = np.unique(keys, return_inverse=True)
    scores = np.bincount(where, weights=points) / np.bincount(where) if len(keys) else np.empty(0)
    found: dict[str, dict[str, float]] = {group: {} for group in index.groups}
    for key, score in zip(distinct.tolist(), scores.tolist(), strict=True):
        found[index.groups[key // images]][index.ids[key % images]] = score
    return found


def ranks_to_pairs(ranks: Mapping[str, Mapping[str, float]], source: str = "ranks") -> list[Pair]:
    """All pairs of images of each prompt, from ranks with ties (prompt -> image -> rank, 1 is best).

    LPG-Bench: 13 ranks a prompt become 78 pairs, 15,600 over 200 prompts, 12,832 of them no ties.
    """
    return [
        Pair(group, a, b, "tie" if images[a] == images[b] else "a" if images[a] < images[b] else "b", source)
        for group, images in ranks.items()
        for a, b in combinations(images, 2)
    ]


@dataclass(frozen=True, slots=True)
class PromptStatistics:
    """Rank agreement averaged over prompts: `srcc`, `krcc` in [-1, 1], `ndcg` in [0, 1]; None if never defined.

    `*_prompts` counts the prompts that the mean is over. A prompt is left out of all three with fewer than two images
    that have both scores, or when people rank them all equal; out of SRCC and KRCC also when the metric scores them all
    equal (nDCG then has its expected value for a random order). KRCC is tau-b. `per_prompt` holds the parts: prompt ->
    (srcc, krcc, ndcg).
    """

    prompts: int
    srcc: float | None
    srcc_interval: Interval | None
    srcc_prompts: int
    krcc: float | None
    krcc_interval: Interval | None
    krcc_prompts: int
    ndcg: float | None
    ndcg_interval: Interval | None
    ndcg_prompts: int
    ndcg_gain: str
    ndcg_ties: str
    reason: str
    per_prompt: Mapping[str, tuple[float | None, float | None, float | None]]


def prompt_statistics(human: HumanScores, values: Values, *, intervals: bool = True) -> PromptStatistics:
    """Compute SRCC, KRCC (tau-b) and nDCG within each prompt, averaged over prompts, with 95% intervals over prompts.

    The TIT paper (Table 2) names neither its tau variant, nor its treatment of ties and constant scores, nor its gain;
    ours are stated in the result. For scale: 13 images, a tenth of the pairs tied, in random order have an expected
    nDCG of about .80 (with an exponential gain .57); the paper's weakest metrics lie at .72 to .73.

    Args:
        human: From `human_scores`.
        values: Metric score by image, higher is better; missing ones are left out of their prompt.
        intervals: Whether to compute intervals over prompts.
    """
    groups = list(human)
    each = _each_prompt(human, values)
    defined = np.isfinite(each)
    sums = np.where(defined, each, 0.0)
    counts = defined.sum(axis=0)
    mean = [float(sums[:, k].sum() / counts[k]) if counts[k] else None for k in range(3)]
    ends = ((-1.0, 1.0), (-1.0, 1.0), (0.0, 1.0))
    found = [
        mean_intervals(sums[:, k], defined[:, k].astype(np.float64), ends[k])[0] if intervals else None
        for k in range(3)
    ]
    return PromptStatistics(
        prompts=len(groups),
        srcc=mean[0],
        srcc_interval=found[0],
        srcc_prompts=int(counts[0]),
        krcc=mean[1],
        krcc_interval=found[1],
        krcc_prompts=int(counts[1]),
        ndcg=mean[2],
        ndcg_interval=found[2],
        ndcg_prompts=int(counts[2]),
        ndcg_gain=GAIN,
        ndcg_ties=TIE_HANDLING,
        reason=_reason(len(groups), counts[0]),
        per_prompt={
            group: (number(row[0]), number(row[1]), number(row[2])) for group, row in zip(groups, each, strict=True)
        },
    )


def _reason(prompts: int, defined: int) -> str:
    if not prompts:
        return "no human preferences"
    if not defined:
        return "no prompt has two scored images that both people and the metric tell apart"
    return ""


def _each_prompt(human: HumanScores, values: Values) -> Floats:
    """Shape (prompts, 3): srcc, krcc, ndcg, NaN where undefined. Prompts with equally many images go together."""
    out = np.full((len(human), 3), np.nan)
    by_size: defaultdict[int, list[tuple[int, list[float], list[float]]]] = defaultdict(list)
    for row, images in enumerate(human.values()):
        both = [(score, value) for id, score in images.items() if (value := values.get(id)) is not None]
        both = [(score, value) for score, value in both if np.isfinite(value)]
        if len({score for score, _ in both}) > 1:
            by_size[len(both)].append((row, [h for h, _ in both], [v for _, v in both]))
    for entries in by_size.values():
        rows = [entry[0] for entry in entries]
        people = np.array([entry[1] for entry in entries])
        metric = with_ties(np.array([entry[2] for entry in entries]))
        out[rows, :2] = _correlations(people, metric)
        out[rows, 2] = expected_ndcg(people, metric)
    return out


def _correlations(people: Floats, metric: Floats) -> Floats:
    """Row by row (srcc, tau-b): shape (rows, 2); NaN for a constant metric row; no row of `people` is constant."""
    from scipy.stats import kendalltau, pearsonr

    out = np.full((len(people), 2), np.nan)
    varied = np.ptp(metric, axis=1) > 0
    if varied.any():
        x, y = rankdata(people[varied]), rankdata(metric[varied])
        out[varied, 0] = pearsonr(x, y, axis=1).statistic
        out[varied, 1] = [kendalltau(a, b).statistic for a, b in zip(x, y, strict=True)]
    return out


def expected_ndcg(gains: Floats, scores: Floats) -> Floats:
    """nDCG of each row, equal scores by the expectation over their orders (McSherry and Najork 2008); shape (rows,).

    Args:
        gains: at least 0, with something above 0 in each row; shape (rows, images).
        scores: higher is placed first; same shape.
    """
    discount = 1 / np.log2(np.arange(gains.shape[1]) + 2)
    reached = np.concatenate(([0.0], np.cumsum(discount)))
    last = rankdata(-scores, method="max").astype(int)
    before = rankdata(-scores, method="min").astype(int) - 1
    share = (reached[last] - reached[before]) / (last - before)
    ideal = np.sort(gains, axis=1)[:, ::-1] @ discount
    found: Floats = (gains * share).sum(axis=1) / ideal
    return found


def predicted_pairs(pairs: Iterable[Pair], values: Values) -> list[Pair]:
    """Write the same pairs as the metric sees them: higher score preferred, equal scores a tie, missing scores left out."""
    index = PairIndex.of(list(pairs))
    names = {1.0: "a", 0.0: "tie", -1.0: "b"}
    return [
        Pair(index.groups[group], index.ids[a], index.ids[b], names[sign], "metric")
        for group, a, b, sign in zip(
            index.group.tolist(), index.a.tolist(), index.b.tolist(), index.predictions(values).tolist(), strict=True
        )
        if sign in names
    ]
