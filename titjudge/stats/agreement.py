"""Everything about agreement at once: what `judge` and `compare` print, write as JSON and put into the report."""

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
from titjudge.stats.leaderboard import FEWEST_FOR_SRCC, Place, Standing, rank_correlation, standing, unplaced
from titjudge.stats.pair_conflicts import distinct
from titjudge.stats.pairwise_accuracy import (
    PairIndex,
    Values,
    pairwise_accuracy,
    tie_optimised_accuracy,
    values_by_metric,
)
from titjudge.stats.per_prompt import MEAN, PerPrompt
from titjudge.stats.rank_agreement import HumanScores, human_scores, predicted_pairs, prompt_statistics

if TYPE_CHECKING:
    from titjudge.stats.bradley_terry import BradleyTerry

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

Image = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Agreement:
    """The result: JSON-ready dictionaries, and the same as tables.

    `metrics`: name -> numbers, with None and an entry under `reasons` for what is undefined. `leaderboard`: one entry a
    generator, in the order of people (or of the first metric). `strengths`: Bradley-Terry, where asked for.
    """

    metrics: Mapping[str, Mapping[str, Any]]
    leaderboard: Sequence[Mapping[str, Any]]
    leaderboard_srcc: Mapping[str, float | None]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    strengths: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """`{"metrics", "leaderboard", "leaderboard_srcc", "notes", "warnings"}`, JSON types only, unrounded."""
        found: dict[str, Any] = {
            "metrics": {name: dict(each) for name, each in self.metrics.items()},
            "leaderboard": [dict(each) for each in self.leaderboard],
            "leaderboard_srcc": dict(self.leaderboard_srcc),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }
        if self.strengths:
            found["bradley_terry"] = dict(self.strengths)
        return deepcopy(found)


NOTHING: Mapping[str, Collection[str]] = {}


def agreement(
    items: Sequence[Item | InvalidItem],
    scores: Sequence[Score],
    pairs: Sequence[Pair] = (),
    *,
    negate: Collection[str] = (),
    marks_judge: Collection[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    apart: Mapping[str, Collection[str]] = NOTHING,
    strengths: bool = False,
    resamples: int = 2000,
    seed: int = 0,
    per_prompt: PerPrompt = MEAN,
) -> Agreement:
    """Compute how far each metric agrees with people, and the order of the generators under each metric and under people.

    Args:
        items: Every image that should have been judged, invalid ones included: the base of coverage.
        scores: Any number of metrics; of several scores of one item under one metric the last counts.
        pairs: Human preferences between item ids; without them only scores, leaderboard and coverage are reported.
        negate: Names of metrics where less is better.
        marks_judge: Names of metrics whose scores say nothing of which image is better: they get their mean and coverage.
        ranges: Name -> (low, high) of metrics whose scores have ends; no interval leaves them.
        apart: For a metric the images to which it does not apply: they are no part of its base.
        strengths: Also fit Bradley-Terry strengths (about a second a metric).
        resamples: Bootstrap draws of prompts for the strengths; 0 for no intervals at all.
        seed: Of everything drawn at random.
        per_prompt: How several images of one prompt by one generator become one score, in the leaderboard.

    Raises:
        DataError: A preference that is not a, b or tie; an image paired with itself.
    """
    images, warnings = _images(items, scores)
    own, several = _values(images, scores)
    warnings += several
    values = {name: _flipped(each) if name in negate else each for name, each in own.items()}
    grouped, doubled = distinct(_grouped(pairs, images))
    warnings += doubled
    ranked = {name: each for name, each in values.items() if name not in marks_judge}
    index = PairIndex.of(grouped)
    human = human_scores(index)
    warnings += _pair_warnings(index, images)
    bad = sum(pair.both_bad for pair in grouped)
    warnings += [f"people find both images bad in {bad} of {len(grouped)} pairs: they count as ties"] if bad else []
    base = {name: _without(images, apart.get(base_metric(name), ())) for name in own}
    standings = {
        name: standing(
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
    people = standing(images, _flat(human), intervals=False, name=PEOPLE) if len(index) else None
    srcc = {name: _leaderboard_srcc(each, people) for name, each in standings.items()}
    metrics = {
        name: (_metric(index, human, values[name], resamples > 0, seed) if name in ranked else _unranked(values[name]))
        | _means(own[name], base[name])
        | {"higher_is_better": name not in negate}
        for name in values
    }
    for name, each in standings.items():
        warnings += each.warnings
        if srcc[name] is None:
            metrics[name]["reasons"]["leaderboard_srcc"] = _no_srcc(people)
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
    """(id, generator, prompt) of every image; without items those that the scores name."""
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
    """Score by image for each metric, and a warning where there were several for one image."""
    found: dict[str, Values] = dict(values_by_metric(scores))
    warnings = []
    if sum(map(len, found.values())) < len(scores):
        repeated = [key for key, n in Counter((s.item_id, s.metric) for s in scores).items() if n > 1]
        warnings.append(f"{len(repeated)} images have several scores of one metric, the last counts: {repeated[0][0]}")
    known = {image[0] for image in images}
    for name, each in found.items():
        if not each.keys() <= known:
            found[name] = {id: value for id, value in each.items() if id in known}
    return found, warnings


def _flipped(values: Values) -> Values:
    return {id: None if value is None else -value for id, value in values.items()}


def _grouped(pairs: Sequence[Pair], images: Sequence[Image]) -> Sequence[Pair]:
    """Pairs that name no prompt get the one of their first image."""
    if all(pair.prompt_id for pair in pairs):
        return pairs
    prompt = {image[0]: image[2] for image in images}
    return [pair if pair.prompt_id else replace(pair, prompt_id=prompt.get(pair.a, "")) for pair in pairs]


def _pair_warnings(index: PairIndex, images: Sequence[Image]) -> list[str]:
    known = {image[0] for image in images} if len(index) else set()
    strangers = [id for id in index.ids if id not in known] if len(index) else []
    if not strangers:
        return []
    return [f"{len(strangers)} images of the human pairs are not in the data, the first: {strangers[0]}"]


def _flat(human: HumanScores) -> dict[str, float | None]:
    return {id: score for images in human.values() for id, score in images.items()}


def _metric(
    index: PairIndex,
    human: HumanScores,
    values: Values,
    intervals: bool,
    seed: int,
) -> dict[str, Any]:
    pairs = pairwise_accuracy(index, values, intervals=intervals, seed=seed)
    tied = tie_optimised_accuracy(index, values)
    ranks = prompt_statistics(human, values, intervals=intervals)
    asked = bool(len(index))
    reasons = {"accuracy": pairs.reason, "tie_optimised_accuracy": tied.reason, "srcc": ranks.reason}
    return {
        "accuracy": pairs.accuracy,
        "accuracy_interval": _list(pairs.accuracy_interval),
        "tie_rate": pairs.tie_rate,
        "half_credit_accuracy": pairs.half_credit_accuracy,
        "half_credit_interval": _list(pairs.half_credit_interval),
        "pairs": pairs.pairs,
        "pairs_scored": pairs.pairs_scored,
        "pair_coverage": pairs.pair_coverage,
        "human_ties": pairs.human_ties,
        "correct": pairs.correct,
        "wrong": pairs.wrong,
        "ties": pairs.ties,
        "threshold_05": pairs.threshold_05,
        "threshold_001": pairs.threshold_001,
        "p_value": pairs.p_value,
        "paper_threshold_05": pairs.paper_threshold_05,
        "paper_threshold_001": pairs.paper_threshold_001,
        "tie_optimised_accuracy": tied.accuracy,
        "tie_epsilon": tied.epsilon,
        "srcc": ranks.srcc,
        "srcc_interval": _list(ranks.srcc_interval),
        "srcc_prompts": ranks.srcc_prompts,
        "krcc": ranks.krcc,
        "krcc_interval": _list(ranks.krcc_interval),
        "krcc_prompts": ranks.krcc_prompts,
        "ndcg": ranks.ndcg,
        "ndcg_interval": _list(ranks.ndcg_interval),
        "ndcg_prompts": ranks.ndcg_prompts,
        "ndcg_gain": ranks.ndcg_gain,
        "ndcg_ties": ranks.ndcg_ties,
        "prompts": ranks.prompts,
        "reasons": {name: text if asked else NO_PAIRS for name, text in reasons.items() if text or not asked},
    }


def _unranked(values: Values) -> dict[str, Any]:
    """As `_metric` without pairs, and why."""
    found = _metric(PairIndex.of(()), {}, values, False, 0)
    return found | {"reasons": dict.fromkeys(found["reasons"], MARKS_JUDGE)}


def _means(values: Values, images: Sequence[Image]) -> dict[str, Any]:
    found = [(image, value) for image in images if (value := values.get(image[0])) is not None]
    prompts, names = codes(image[1:] for image, _ in found)
    means = MEAN.combine(prompts, np.array([value for _, value in found], dtype=np.float64), len(names))
    return {
        "mean": float(means.mean()) if found else None,
        "images": len(images),
        "scored": len(found),
        "coverage": len(found) / len(images) if images else None,
    }


def _list(interval: tuple[float, float] | None) -> list[float] | None:
    return list(interval) if interval else None


def _leaderboard_srcc(metric: Standing, people: Standing | None) -> float | None:
    return rank_correlation(metric.mean_ranks(), people.mean_ranks()) if people else None


def _no_srcc(people: Standing | None) -> str:
    if people is None:
        return NO_PAIRS
    return f"fewer than {FEWEST_FOR_SRCC} generators ranked by both, or all of them equal"


def _leaderboard(standings: Mapping[str, Standing], people: Standing | None) -> list[dict[str, Any]]:
    leading = [people] if people else []
    leading += list(standings.values())
    order = dict.fromkeys(place.generator for each in leading for place in each.places)
    by_name = {name: {place.generator: place for place in each.places} for name, each in standings.items()}
    human = {place.generator: place for place in people.places} if people else {}
    return [
        {
            "generator": generator,
            "metrics": {name: _place(places.get(generator) or unplaced(generator)) for name, places in by_name.items()},
            "human": _human_place(human[generator]) if generator in human else None,
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


def _human_place(place: Place) -> dict[str, Any] | None:
    return None if place.rank is None else {"mean_rank": place.mean_rank, "rank": place.rank}


def _notes(metrics: Mapping[str, Mapping[str, Any]], pairs: int, named: bool, per_prompt: PerPrompt) -> tuple[str, ...]:
    notes = list(NOTES) if pairs else [f"Agreement with people is undefined: {NO_PAIRS}."]
    for each in list(metrics.values())[:1] if pairs else []:
        notes.append(f"nDCG: {each['ndcg_gain']}; {each['ndcg_ties']}.")
    for name, each in metrics.items():
        if MARKS_JUDGE in each["reasons"].values():
            notes.append(f"{name}: {MARKS_JUDGE}, so no pair is compared.")
        left_out = each["prompts"] - each["srcc_prompts"]
        if left_out:
            notes.append(f"{name}: SRCC and KRCC are undefined on {left_out} of {each['prompts']} prompts, left out.")
        if each["p_value"] is not None and each["p_value"] >= GUESSING:
            notes.append(f"{name}: no better than guessing (p {each['p_value']:.2g}).")
        lost = each["pairs"] - each["pairs_scored"]
        if lost:
            notes.append(f"{name}: {lost} of {each['pairs']} pairs lack a score, left out.")
    if named and per_prompt.kind != "mean":
        notes.append(f"Leaderboard: {per_prompt.about}.")
    if not named:
        notes.append("No leaderboard: the images name no generator.")
    return tuple(notes)


def _strengths(
    pairs: Sequence[Pair], values: Mapping[str, Values], images: Sequence[Image], resamples: int, seed: int
) -> dict[str, Any]:
    from titjudge.stats.bradley_terry import bradley_terry

    generator_of = {id: generator for id, generator, _ in images if generator}
    seen = {PEOPLE: list(pairs)} | {name: predicted_pairs(pairs, each) for name, each in values.items()}
    return {
        name: _strength(bradley_terry(each, generator_of, resamples=resamples, seed=seed))
        for name, each in seen.items()
    }


def _ends(interval: tuple[float, float] | None) -> list[float | None] | None:
    """Write an interval for JSON, which knows no infinity: None is an infinite end."""
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
