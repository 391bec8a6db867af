"""Agreement inside each prompt: rank correlation and nDCG of the images of one prompt, averaged over prompts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from titjudge.core.run_records import PromptAgreement
from titjudge.core.types import Pair
from titjudge.stats.bootstrap import Floats, Ints, table_sums
from titjudge.stats.equality import rankdata, with_ties
from titjudge.stats.intervals import mean_intervals
from titjudge.stats.pairwise_accuracy import PairIndex, Values, pair_index

STATISTICS = ("srcc", "krcc", "ndcg", "ndcg_chance", "ndcg_paper_fit", "ndcg_paper_fit_chance")

HumanScores = Mapping[str, Mapping[str, float]]
"""Prompt -> image -> score in [0, 1]: the share of the other images that it beats, a tie counting half."""

GAIN = "gain = human score = (wins + ties/2) / comparisons, in [0, 1]"
PAPER_FIT_GAIN = (
    "gain = human score squared: fitted to the values of Table 2 of the TIT-Score paper, which gives no gain, "
    "and not the paper's definition"
)
TIE_HANDLING = (
    "images with equal metric scores: expectation over all orders of the tied images; discount 1/log2(1 + position)"
)


def human_scores(pairs: Sequence[Pair] | PairIndex) -> dict[str, dict[str, float]]:
    """Compute the Copeland score of each image within its prompt: (wins + ties/2) / comparisons.

    With every pair of the prompt judged once, as in LPG-Bench, this is the classical Copeland count scaled to [0, 1];
    with fewer pairs it is the win rate over the comparisons there are. Images that were not compared are absent.
    """
    index = pair_index(pairs)
    images = len(index.ids)
    keys = np.concatenate([index.group * images + index.a, index.group * images + index.b])
    points = np.concatenate([(1 + index.preference) / 2, (1 - index.preference) / 2])
    distinct, where = np.unique(keys, return_inverse=True)
    scores = np.bincount(where, weights=points) / np.bincount(where) if len(keys) else np.empty(0)
    by_prompt: dict[str, dict[str, float]] = {group: {} for group in index.groups}
    for key, score in zip(distinct.tolist(), scores.tolist(), strict=True):
        by_prompt[index.groups[key // images]][index.ids[key % images]] = score
    return by_prompt


def ranks_to_pairs(ranks: Mapping[str, Mapping[str, float]]) -> list[Pair]:
    """Turn ranks with ties (prompt -> image -> rank, 1 is best) into all pairs of images of each prompt.

    LPG-Bench: 13 ranks a prompt become 78 pairs, 15,600 over 200 prompts, 12,832 of them no ties.
    """
    return [
        Pair(
            group,
            a,
            b,
            "tie" if images[a] == images[b] else "a" if images[a] < images[b] else "b",
            "ranks",
            ranks=(float(images[a]), float(images[b])),
        )
        for group, images in ranks.items()
        for a, b in combinations(images, 2)
    ]


def given_ranks(pairs: Iterable[Pair]) -> dict[str, float] | None:
    """Return the rank that people gave to each image, from pairs made of ranks; None unless all pairs are."""
    ranks: dict[str, float] = {}
    for pair in pairs:
        if pair.ranks is None:
            return None
        ranks[pair.a], ranks[pair.b] = pair.ranks
    return ranks or None


def prompt_statistics(
    human: HumanScores, values: Values, *, intervals: bool = True, unit: Ints | None = None
) -> PromptAgreement:
    """Compute SRCC, KRCC (tau-b) and nDCG within each prompt, and their means over prompts with 95% intervals.

    A prompt is left out of all three with fewer than two images that have both scores, or when people rank them all equal;
    out of SRCC and KRCC also when the metric scores them all equal (nDCG then is its expectation over random orders).

    The TIT paper (Table 2) names neither its tau variant, nor its treatment of ties and constant scores, nor its gain;
    ours are stated in the result. Of 13 images with every sixth pair tied a random order reaches an nDCG of 0.82, while
    the paper's metrics at chance are at 0.73: the scales of that column and of the paper differ. With the human score
    squared as gain it is 0.73, and 0.84 for a metric with an accuracy of 67%, which fits the paper's table:
    `ndcg_paper_fit`.

    Args:
        human: From `human_scores`.
        values: Metric score by image, higher is better; missing ones are left out of their prompt.
        intervals: Whether to compute intervals over prompts.
        unit: Number of the family of each prompt of `human`; None if each prompt is a unit.
    """
    table = per_prompt_statistics(human, values)
    defined = np.isfinite(table)
    sums, counts = np.where(defined, table, 0.0), defined.sum(axis=0).tolist()
    by_unit, sizes = (table_sums(columns, unit) for columns in (sums, defined * 1.0))
    means = {name: float(sums[:, k].sum() / counts[k]) if counts[k] else None for k, name in enumerate(STATISTICS)}
    ends = {
        name: mean_intervals(by_unit[:, k], sizes[:, k], (0.0 if name.startswith("ndcg") else -1.0, 1.0))[0]
        if intervals
        else None
        for k, name in enumerate(STATISTICS)
    }
    srcc_prompts, krcc_prompts, ndcg_prompts, *_ = counts
    reason = "" if human else "no human preferences"
    if human and not srcc_prompts:
        reason = "no prompt has two scored images that both people and the metric distinguish"
    return PromptAgreement(
        srcc=means["srcc"],
        srcc_interval=ends["srcc"],
        srcc_prompts=srcc_prompts,
        krcc=means["krcc"],
        krcc_interval=ends["krcc"],
        krcc_prompts=krcc_prompts,
        ndcg=means["ndcg"],
        ndcg_interval=ends["ndcg"],
        ndcg_prompts=ndcg_prompts,
        ndcg_gain=GAIN,
        ndcg_ties=TIE_HANDLING,
        ndcg_chance=means["ndcg_chance"],
        ndcg_paper_fit=means["ndcg_paper_fit"],
        ndcg_paper_fit_interval=ends["ndcg_paper_fit"],
        ndcg_paper_fit_chance=means["ndcg_paper_fit_chance"],
        ndcg_paper_fit_gain=PAPER_FIT_GAIN,
        prompts=len(human),
        reasons={"srcc": reason} if reason else {},
    )


def per_prompt_statistics(human: HumanScores, values: Values) -> Floats:
    """Compute the statistics of each prompt, NaN if undefined: shape (prompts, `STATISTICS`).

    Prompts with equally many images are computed together.
    """
    out = np.full((len(human), len(STATISTICS)), np.nan)
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
        any_order = np.zeros_like(people)
        out[rows, 2] = expected_ndcg(people, metric)
        out[rows, 3] = expected_ndcg(people, any_order)
        out[rows, 4] = expected_ndcg(people**2, metric)
        out[rows, 5] = expected_ndcg(people**2, any_order)
    return out


def _correlations(people: Floats, metric: Floats) -> Floats:
    """Compute srcc and tau-b of each row: shape (rows, 2), NaN for a constant row of `metric`; none of `people` is constant."""
    from scipy.stats import kendalltau, pearsonr

    out = np.full((len(people), 2), np.nan)
    varied = np.ptp(metric, axis=1) > 0
    if varied.any():
        x, y = rankdata(people[varied]), rankdata(metric[varied])
        out[varied, 0] = pearsonr(x, y, axis=1).statistic
        out[varied, 1] = [kendalltau(a, b).statistic for a, b in zip(x, y, strict=True)]
    return out


def expected_ndcg(gains: Floats, scores: Floats) -> Floats:
    """Compute the nDCG of each row, equal scores by expectation over their orders (McSherry and Najork 2008); shape (rows,).

    Args:
        gains: At least 0, with something above 0 in each row; shape (rows, images).
        scores: Higher is ranked first; same shape.
    """
    discount = 1 / np.log2(np.arange(gains.shape[1]) + 2)
    reached = np.concatenate(([0.0], np.cumsum(discount)))
    last = rankdata(-scores, method="max").astype(int)
    before = rankdata(-scores, method="min").astype(int) - 1
    share = (reached[last] - reached[before]) / (last - before)
    ideal = np.sort(gains, axis=1)[:, ::-1] @ discount
    ndcg: Floats = (gains * share).sum(axis=1) / ideal
    return ndcg


def predicted_pairs(pairs: Iterable[Pair], values: Values) -> list[Pair]:
    """Return the pairs with the preferences of a metric: the higher score, a tie if equal; pairs without both scores drop."""
    listed = list(pairs)
    names = {1.0: "a", 0.0: "tie", -1.0: "b"}
    return [
        replace(pair, preference=names[sign], source="metric", both_bad=False, ranks=None)
        for pair, sign in zip(listed, PairIndex.from_pairs(listed).predictions(values).tolist(), strict=True)
        if sign in names
    ]
