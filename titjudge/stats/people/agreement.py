"""Agreement of metrics with people: what `judge` and `compare` print, write as JSON and put into the report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from titjudge.core.registry import base_metric
from titjudge.core.types import InvalidItem, Item, Pair, Score
from titjudge.stats.bootstrap import codes
from titjudge.stats.intervals import WAY
from titjudge.stats.pairwise_accuracy import (
    PairIndex,
    PairwiseAccuracy,
    Values,
    negated,
    pairwise_accuracy,
    tie_optimised_accuracy,
    values_by_metric,
)
from titjudge.stats.people.pair_conflicts import distinct
from titjudge.stats.ranking.leaderboard import (
    FEWEST_FOR_SRCC,
    Leaderboard,
    Place,
    leaderboard,
    leaderboard_by_ranks,
    rank_correlation,
    unplaced,
)
from titjudge.stats.ranking.rank_agreement import (
    GAIN,
    PAPER_FIT_GAIN,
    TIE_HANDLING,
    HumanScores,
    PromptStatistics,
    given_ranks,
    human_scores,
    predicted_pairs,
    prompt_statistics,
)
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt

if TYPE_CHECKING:
    from titjudge.stats.ranking.bradley_terry import BradleyTerry

NO_PAIRS = "there are no human pairs of these images"
GUESSING = 0.05
MARKS_JUDGE = "the score marks the judge and not the image"
PEOPLE = "people"
NOTES = (
    "Accuracy: share of the human pairs with a preference that the metric orders the same way; a predicted tie is "
    "wrong, a pair without both scores is left out and counted.",
    f"Intervals: 95%, the prompt being the unit ({WAY}). To beat guessing: the share that the metric's own scores, "
    "exchanged within prompts, reach one time in twenty; p likewise, one-sided.",
    "SRCC, KRCC (tau-b) and nDCG: within each prompt, then averaged over the prompts that define them.",
)

Image = tuple[str, str, str]  # id, generator, prompt


@dataclass(frozen=True, slots=True)
class Agreement:
    """Results as JSON-ready dictionaries.

    Attributes:
        metrics: Name -> statistics; what is undefined is None and has an entry under `reasons`.
        leaderboard: One entry a generator, in the order of people, or of the first metric where there are no pairs.
        leaderboard_srcc: Spearman correlation of each metric's leaderboard with that of people.
        strengths: Bradley-Terry fits by name, where asked for.
    """

    metrics: Mapping[str, Mapping[str, Any]]
    leaderboard: Sequence[Mapping[str, Any]]
    leaderboard_srcc: Mapping[str, float | None]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    strengths: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """`{"metrics", "leaderboard", "leaderboard_srcc", "notes", "warnings"}`, JSON types only, unrounded."""
        record: dict[str, Any] = {
            "metrics": self.metrics,
            "leaderboard": self.leaderboard,
            "leaderboard_srcc": self.leaderboard_srcc,
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }
        return deepcopy(record | ({"bradley_terry": self.strengths} if self.strengths else {}))


def agreement(
    items: Sequence[Item | InvalidItem],
    scores: Sequence[Score],
    pairs: Sequence[Pair] = (),
    *,
    negate: Collection[str] = (),
    marks_judge: Collection[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    not_applicable: Mapping[str, Collection[str]] | None = None,
    strengths: bool = False,
    resamples: int = 2000,
    seed: int = 0,
    per_prompt: PerPrompt = MEAN,
) -> Agreement:
    """Compute the agreement of each metric with people, and the leaderboards of generators under each metric and under people.

    Args:
        items: Every image that should have been judged, invalid ones included: the base of coverage.
        scores: Any number of metrics; of several scores of one item under one metric the last counts.
        pairs: Human preferences between item ids; without them only scores, leaderboard and coverage are reported.
        negate: Names of metrics where less is better.
        marks_judge: Names of metrics whose scores do not rank images: they get their mean and coverage only.
        ranges: Name -> (low, high) of metrics on a bounded scale; intervals are cut to it.
        not_applicable: Metric -> ids of images to which it does not apply; they do not count for its coverage.
        strengths: Also fit Bradley-Terry strengths (about a second a metric).
        resamples: Bootstrap draws of prompts for the strengths; 0 for no intervals at all.
        seed: Of the random draws.
        per_prompt: How several images of one prompt by one generator become one score, in the leaderboard.

    Raises:
        DataError: A preference that is not a, b or tie; an image paired with itself.
    """
    images, warnings = _images(items, scores)
    own, several = _values(images, scores)
    warnings += several
    values = {name: negated(each) if name in negate else each for name, each in own.items()}
    grouped, notes = distinct(_with_prompts(pairs, images))
    warnings += notes
    ranked = {name: each for name, each in values.items() if name not in marks_judge}
    index = PairIndex.of(grouped)
    human = human_scores(index)
    warnings += _pair_warnings(index, images)
    if bad := sum(pair.both_bad for pair in grouped):
        warnings.append(f"people find both images bad in {bad} of {len(grouped)} pairs: they count as ties")
    base = {name: _without(images, (not_applicable or {}).get(base_metric(name), ())) for name in own}
    standings = {
        name: leaderboard(
            base[name],
            own[name],
            higher_is_better=name not in negate,
            bounds=(ranges or {}).get(name),
            intervals=resamples > 0,
            name=name,
            per_prompt=per_prompt,
        )
        for name in ranked
    }
    human_score = {id: score for scores in human.values() for id, score in scores.items()}
    people = None
    if ranks := given_ranks(grouped):
        people = leaderboard_by_ranks(images, ranks, PEOPLE)
    elif len(index):
        people = leaderboard(images, human_score, intervals=False, name=PEOPLE)
    srcc = {
        name: rank_correlation(each.mean_ranks(), people.mean_ranks()) if people else None
        for name, each in standings.items()
    }
    metrics = {
        name: (_metric(index, human, values[name], resamples > 0, seed) if name in ranked else _unranked(values[name]))
        | _means(own[name], base[name])
        | {"higher_is_better": name not in negate}
        for name in values
    }
    for name, each in standings.items():
        warnings += each.warnings
        if srcc[name] is None:
            reason = f"fewer than {FEWEST_FOR_SRCC} generators ranked by both, or all of them equal"
            metrics[name]["reasons"]["leaderboard_srcc"] = reason if people else NO_PAIRS
    warnings += people.warnings if people else ()
    named = any(image[1] for image in images)
    return Agreement(
        metrics=metrics,
        leaderboard=_leaderboard(standings, people) if named else [],
        leaderboard_srcc=srcc,
        notes=_notes(metrics, len(index), named, per_prompt),
        warnings=tuple(dict.fromkeys(warnings)),
        strengths=_strengths(grouped, ranked, images, resamples, seed) if strengths else {},
    )


def _images(items: Sequence[Item | InvalidItem], scores: Sequence[Score]) -> tuple[list[Image], list[str]]:
    """List the images of the items, or of the scores where there are no items, with warnings."""
    warnings = []
    known = {item.id: (item.id, item.generator, item.prompt_id or item.id) for item in items}
    if not items:
        known = {s.item_id: (s.item_id, s.generator, s.prompt_id or s.item_id) for s in scores}
    strangers = {score.item_id for score in scores if score.item_id not in known}
    if strangers:
        warnings.append(f"{len(strangers)} scored images are not in the data and left out, the first: {min(strangers)}")
    return list(known.values()), warnings


def _without(images: Sequence[Image], ids: Collection[str]) -> Sequence[Image]:
    return [image for image in images if image[0] not in ids] if ids else images


def _values(images: Sequence[Image], scores: Sequence[Score]) -> tuple[dict[str, Values], list[str]]:
    """Return metric -> image -> score for the images, and a warning where one image has several scores."""
    values: dict[str, Values] = dict(values_by_metric(scores))
    warnings = []
    if sum(map(len, values.values())) < len(scores):
        repeated = [key for key, n in Counter((s.item_id, s.metric) for s in scores).items() if n > 1]
        warnings.append(f"{len(repeated)} images have several scores of one metric, the last counts: {repeated[0][0]}")
    known = {image[0] for image in images}
    for name, each in values.items():
        if not each.keys() <= known:
            values[name] = {id: value for id, value in each.items() if id in known}
    return values, warnings


def _with_prompts(pairs: Sequence[Pair], images: Sequence[Image]) -> Sequence[Pair]:
    """Give pairs that name no prompt that of their first image."""
    if all(pair.prompt_id for pair in pairs):
        return pairs
    prompt = {image[0]: image[2] for image in images}
    return [pair if pair.prompt_id else replace(pair, prompt_id=prompt.get(pair.a, "")) for pair in pairs]


def _pair_warnings(index: PairIndex, images: Sequence[Image]) -> list[str]:
    known = {image[0] for image in images}
    strangers = [id for id in index.ids if id not in known]
    text = f"{len(strangers)} images of the human pairs are not in the data, the first: "
    return [text + strangers[0]] if strangers else []


def _metric(index: PairIndex, human: HumanScores, values: Values, intervals: bool, seed: int) -> dict[str, Any]:
    """Compute the statistics of one metric against people."""
    pairs = pairwise_accuracy(index, values, intervals=intervals, seed=seed)
    tied = tie_optimised_accuracy(index, values)
    ranks = prompt_statistics(human, values, intervals=intervals)
    reasons = {"accuracy": pairs.reason, "tie_optimised_accuracy": tied.reason, "srcc": ranks.reason}
    if not len(index):
        reasons = dict.fromkeys(reasons, NO_PAIRS)
    return {
        **_fields(pairs, "prompts", "reason"),
        "tie_optimised_accuracy": tied.accuracy,
        "tie_epsilon": tied.epsilon,
        **_fields(ranks, "reason", "per_prompt"),
        "reasons": {name: reason for name, reason in reasons.items() if reason},
    }


def _fields(statistic: PairwiseAccuracy | PromptStatistics, *omitted: str) -> dict[str, Any]:
    """Return the other fields by name, intervals as lists."""
    values = {name: getattr(statistic, name) for name in statistic.__dataclass_fields__ if name not in omitted}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _unranked(values: Values) -> dict[str, Any]:
    """Return the statistics of a metric that does not rank images: as without pairs, with the reason."""
    record = _metric(PairIndex.of(()), {}, values, False, 0)
    return record | {"reasons": dict.fromkeys(record["reasons"], MARKS_JUDGE)}


def _means(values: Values, images: Sequence[Image]) -> dict[str, Any]:
    """Compute the mean over prompts and generators, and the coverage."""
    scored = [(image, value) for image in images if (value := values.get(image[0])) is not None]
    cell, cells = codes(image[1:] for image, _ in scored)
    means = MEAN.combine(cell, np.array([value for _, value in scored], dtype=np.float64), len(cells))
    return {
        "mean": float(means.mean()) if scored else None,
        "images": len(images),
        "scored": len(scored),
        "coverage": len(scored) / len(images) if images else None,
    }


def _list(interval: tuple[float, float] | None) -> list[float] | None:
    return list(interval) if interval else None


def _leaderboard(standings: Mapping[str, Leaderboard], people: Leaderboard | None) -> list[dict[str, Any]]:
    every = [*([people] if people else []), *standings.values()]
    order = dict.fromkeys(place.generator for each in every for place in each.places)
    by_name = {name: {place.generator: place for place in each.places} for name, each in standings.items()}
    ranked = [place for place in people.places if place.rank is not None] if people else []
    human = {
        place.generator: {"mean_rank": place.mean_rank, "rank": place.rank}
        | ({} if place.first_places is None else {"first_places": place.first_places})
        for place in ranked
    }
    return [
        {
            "generator": generator,
            "metrics": {name: _place(places.get(generator) or unplaced(generator)) for name, places in by_name.items()},
            "human": human.get(generator),
        }
        for generator in order
    ]


def _place(place: Place) -> dict[str, Any]:
    return {
        "mean": place.mean,
        "interval": _list(place.interval),
        "mean_rank": place.mean_rank,
        "mean_rank_interval": _list(place.mean_rank_interval),
        "rank": place.rank,
        "coverage": place.coverage,
        "images": place.images,
        "scored": place.scored,
        "prompts": place.prompts,
        **({} if place.spread is None else {"spread": place.spread}),
    }


def _notes(metrics: Mapping[str, Mapping[str, Any]], pairs: int, named: bool, per_prompt: PerPrompt) -> tuple[str, ...]:
    notes = list(NOTES) if pairs else [f"Agreement with people is undefined: {NO_PAIRS}."]
    if pairs and metrics:
        notes.append(f"nDCG: {GAIN}; {TIE_HANDLING}.")
        notes.append(f"Paper fit: nDCG with {PAPER_FIT_GAIN}. Chance: a random order.")
    for name, each in metrics.items():
        if MARKS_JUDGE in each["reasons"].values():
            notes.append(f"{name}: {MARKS_JUDGE}, so no pair is compared.")
        if left_out := each["prompts"] - each["srcc_prompts"]:
            notes.append(f"{name}: SRCC and KRCC are undefined on {left_out} of {each['prompts']} prompts, left out.")
        if each["p_value"] is not None and each["p_value"] >= GUESSING:
            notes.append(f"{name}: no better than guessing (p {each['p_value']:.2g}).")
        if lost := each["pairs"] - each["pairs_scored"]:
            notes.append(f"{name}: {lost} of {each['pairs']} pairs lack a score, left out.")
    if named and per_prompt.kind != "mean":
        notes.append(f"Leaderboard: {per_prompt.about}.")
    if not named:
        notes.append("No leaderboard: the images name no generator.")
    return tuple(notes)


def _strengths(
    pairs: Sequence[Pair], values: Mapping[str, Values], images: Sequence[Image], resamples: int, seed: int
) -> dict[str, Any]:
    from titjudge.stats.ranking.bradley_terry import bradley_terry

    generator_of = {id: generator for id, generator, _ in images if generator}
    pairs_by_name = {PEOPLE: list(pairs)} | {name: predicted_pairs(pairs, each) for name, each in values.items()}
    return {
        name: _strength(bradley_terry(each, generator_of, resamples=resamples, seed=seed))
        for name, each in pairs_by_name.items()
    }


def _ends(interval: tuple[float, float] | None) -> list[float | None] | None:
    """Return an interval as a list, None for an infinite end (JSON has no infinity)."""
    return [end if math.isfinite(end) else None for end in interval] if interval else None


def _strength(fit: BradleyTerry) -> dict[str, Any]:
    return {
        "generators": [
            {"generator": s.generator, "strength": s.strength, "interval": _ends(s.interval)} for s in fit.strengths
        ],
        "tie": fit.tie,
        "pairs": fit.pairs,
        "resamples": fit.resamples,
        "degenerate": fit.degenerate,
        "reason": fit.reason,
    }
