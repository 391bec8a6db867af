"""Agreement of metrics with people: what `judge` and `judges agreement` print, write as JSON and put into the report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from titjudge.core.declarations import RELIABLE, Doubt, Exclusion, Population, Unit
from titjudge.core.registry import base_metric, first_metric
from titjudge.core.run_records import (
    BradleyTerryRecord,
    MeanScore,
    MetricResult,
    PairAgreement,
    PeopleAgreement,
    PlaceRecord,
    PopulationRecord,
    PromptAgreement,
    Results,
    StandingRecord,
    TieAgreement,
)
from titjudge.core.types import CONSTRUCTION, PEOPLE, InvalidItem, Item, Note, Pair, Score
from titjudge.core.words import truncated
from titjudge.stats.bootstrap import codes
from titjudge.stats.equality import rankdata
from titjudge.stats.generators.paired_differences import common_accuracy
from titjudge.stats.intervals import IN_WORDS
from titjudge.stats.pairwise_accuracy import (
    PairIndex,
    Values,
    negated,
    pairwise_accuracy,
    tie_optimised_accuracy,
    values_by_metric,
)
from titjudge.stats.people.agreement_tables import AGREEMENT, IN_COLUMN
from titjudge.stats.ranking.bradley_terry import bradley_terry, opponents
from titjudge.stats.ranking.leaderboard import (
    FEWEST_FOR_SRCC,
    LEADERBOARD,
    UNPLACED,
    Leaderboard,
    leaderboard,
    leaderboard_by_ranks,
    rank_correlation,
)
from titjudge.stats.ranking.rank_agreement import (
    GAIN,
    PAPER_FIT_GAIN,
    TIE_HANDLING,
    HumanScores,
    given_ranks,
    human_scores,
    predicted_pairs,
    prompt_statistics,
)
from titjudge.stats.scores.families import (
    Families,
    annotators_note,
    families,
    families_of_pairs,
    family_notes,
    in_families,
)
from titjudge.stats.scores.frame import identical_files
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt

NO_PAIRS = "there are no human pairs of these images"
GUESSING = 0.05
_SUSPICIOUS = 6  # images with one score
MARKS_JUDGE = "the score marks the judge and not the image"
EXPLANATION = (  # of the columns, as it is in the notes of every result with human pairs
    Note(
        "about_accuracy",
        "Accuracy: share of the pairs with a preference that the metric orders the same way; a predicted tie is "
        "wrong, a pair without both scores is left out and counted.",
    ),
    Note(
        "about_intervals",
        f"Intervals: 95% ({IN_WORDS}). Chance threshold: the accuracy that scores without skill (the metric's "
        "own, exchanged within prompts) reach one time in twenty, below 50% where many of them are equal; p: how often they reach "
        "the metric's accuracy, one-sided.",
    ),
    Note(
        "about_coefficients",
        "SRCC, KRCC (tau-b) and nDCG: within each prompt, then averaged over the prompts that define them.",
    ),
    Note("about_ndcg", f"nDCG: {GAIN}; {TIE_HANDLING}."),
    Note("about_paper_fit", f"Paper fit: nDCG with {PAPER_FIT_GAIN}. Chance: a random order."),
)

Image = tuple[str, str, str]  # id, generator, prompt


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
    per_prompt: PerPrompt = MEAN,
    settled: bool = False,
) -> Results:
    """Compute the agreement of each metric with people, and the leaderboards of generators under each metric and under people.

    Args:
        items: Every image that should have been judged, invalid ones included: the base of coverage.
        scores: Any number of metrics; of several scores of one item under one metric the last counts.
        pairs: Human preferences between item ids; without them only scores, leaderboard and coverage are reported.
        negate: Names of metrics for which less is better.
        marks_judge: Names of metrics whose scores do not rank images: they get their mean and coverage only.
        ranges: Name -> (low, high) of metrics on a bounded scale; intervals are cut to it.
        not_applicable: Metric -> ids of images to which it does not apply; they do not count for its coverage.
        strengths: Also fit Bradley-Terry strengths (about a second a metric).
        resamples: Bootstrap draws of prompts for the strengths; 0 for no intervals at all.
        per_prompt: How several images of one prompt by one generator become one score, in the leaderboard.
        settled: Whether the judging stopped at a verdict, so that no other test is valid.

    Returns:
        The part of results.json that this is: per metric its statistics (undefined ones are None with an entry under
            `reasons`), the leaderboard, its correlation with the leaderboard of people, notes and warnings, and fits on
            request.

    Raises:
        DataError: A preference that is not a, b or tie; an image paired with itself.
    """
    images, warnings = _images(items, scores)
    pairs = _with_prompts(pairs, images)
    declared = families(items, pairs=pairs)
    unsigned, repeated = _values(images, scores)
    values = {name: negated(by_image) if name in negate else by_image for name, by_image in unsigned.items()}
    kept = in_families(pairs, declared)
    index = PairIndex.from_pairs(kept)
    human = human_scores(index)
    applicable = {name: _without(images, (not_applicable or {}).get(base_metric(name), ())) for name in values}
    standings = {
        name: leaderboard(
            applicable[name],
            unsigned[name],
            higher_is_better=name not in negate,
            bounds=(ranges or {}).get(name),
            intervals=resamples > 0,
            name=name,
            per_prompt=per_prompt,
            families=declared,
            tested=resamples > 0 and not settled,
        )
        for name in values
        if name not in marks_judge
    }
    if not standings:
        warnings += family_notes(list(dict.fromkeys(prompt for _, _, prompt in images)), declared)
    people = _people(images, kept, human)
    srcc = {name: _srcc_with_people(images, kept, human, values[name]) for name in standings}
    common = common_agreement(index, {name: values[name] for name in standings}, intervals=resamples > 0)
    without = f"fewer than {FEWEST_FOR_SRCC} generators ranked by both, or all of them equal" if people else NO_PAIRS
    metrics = {}
    for name in values:
        ranked = name in standings
        reasons = {"leaderboard_srcc": without} if ranked and srcc[name] is None else {}
        metrics[name] = _metric(
            _mean_score(unsigned[name], applicable[name], name not in negate, reasons),
            index if ranked else PairIndex.from_pairs(()),
            human if ranked else {},
            values[name],
            NO_PAIRS if ranked else MARKS_JUDGE,
            resamples > 0,
            ({"common": common[name]} if name in common else {}) if ranked else {"ranks_images": False},
        )
    boards = [*standings.values(), *([people] if people else [])]
    warnings += [*repeated, *_pair_warnings(index, kept, images, declared)]
    warnings += [warning for board in boards for warning in board.warnings]
    warnings += [
        warning for name in standings for warning in _other_scale(name, unsigned[name], (ranges or {}).get(name))
    ]
    cell_of = {id: (generator, prompt) for id, generator, prompt in images}
    warnings += identical_files((*cell_of[score.item_id], score) for score in scores if score.item_id in cell_of)
    named = any(generator for _, generator, _ in images)
    populations = _populations(images, index, values, standings, given_ranks(kept) or _human_scores(human), common)
    explanation = EXPLANATION[: (len(EXPLANATION) if metrics else 3) if len(index) else 0]
    agreed = Results(
        metrics=metrics,
        leaderboard=_leaderboard(standings, people) if named else [],
        leaderboard_srcc=srcc,
        notes=[*explanation, *_notes(metrics, len(index), named, per_prompt)],
        explained=len(explanation),
        warnings=list(dict.fromkeys(warnings)),
        # by construction if all pairs come from how the images were made
        reference=CONSTRUCTION if pairs and all(pair.source == CONSTRUCTION for pair in pairs) else PEOPLE,
    )
    if populations:
        agreed = agreed.joined(Results(populations=populations))
    if not strengths:
        return agreed
    fits = _strengths(kept, {name: values[name] for name in standings}, images, resamples)
    return agreed.joined(Results(bradley_terry=fits))


def _populations(
    images: Sequence[Image],
    index: PairIndex,
    values: Mapping[str, Values],
    boards: Mapping[str, Leaderboard],
    ranked: Mapping[str, float],
    common: Collection[str],
) -> dict[str, PopulationRecord]:
    """Write the populations of the tables, if scores or human preferences are missing or prompts are in families."""

    def label(generator: str, name: str) -> str:
        if len(boards) < 2:
            return generator
        return f"{generator} ({name})" if generator else name

    sizes: dict[str, list[int]] = {}
    excluded: dict[str, dict[str, list[str]]] = {}
    scored = [name for name in _in_order(boards) if any(value is not None for value in values[name].values())]
    for name, board in boards.items():
        if name in scored:
            for population, size in board.declared.sizes.items():
                sizes.setdefault(population, []).extend(size)
        for reason, of in board.declared.excluded.items():
            excluded.setdefault(reason, {}).update(
                {label(generator, name): sorted(ids) for generator, ids in of.items()}
            )
    if ranked:
        sizes[Population.RANKED_PROMPTS] = [len({prompt for id, _, prompt in images if id in ranked})]
        both = [sum(id in ranked and values[name].get(id) is not None for id, _, _ in images) for name in scored]
        sizes |= dict.fromkeys((Population.IMAGES_OF_BOTH, Population.IMAGES_OF_COMMON), both)
    prompts = [{prompt for id, _, prompt in images if values[name].get(id) is not None} for name in scored]
    apart = any(judged != prompts[0] for judged in prompts)
    if apart:
        sizes = {IN_COLUMN.get(name, name): size for name, size in sizes.items()}
    families = any(board.declared.unit == Unit.FAMILY for board in boards.values())
    doubts = {
        label(generator, name): why
        for name, board in boards.items()
        for generator, why in board.declared.doubts.items()
    }
    found = {}
    if excluded or families or apart or doubts or {*sizes.get(Population.IMAGES_OF_BOTH, ())} - {len(images)}:
        found[LEADERBOARD.id] = PopulationRecord(sizes=sizes, excluded=excluded, families=families)
        if doubts:
            found[LEADERBOARD.id] = found[LEADERBOARD.id].with_(doubts=doubts)
    without = {name: ids for name in boards if (ids := unscored(index, values[name]))}
    families = index.in_families
    few = dict.fromkeys(boards, Doubt.FEW_PEOPLE.value) if 0 < index.annotators < RELIABLE else {}
    if without or families:
        no_score = {Exclusion.NO_SCORE.value: without} if without else {}
        found[AGREEMENT.id] = PopulationRecord(excluded=no_score, families=families)
    if common:
        images_of_all = len(common_images(index, [values[name] for name in common]))
        known = found.get(AGREEMENT.id, PopulationRecord())
        found[AGREEMENT.id] = known.with_(sizes={Population.COMMON_IMAGES.value: [images_of_all]})
    if few:
        found[AGREEMENT.id] = found.get(AGREEMENT.id, PopulationRecord()).with_(doubts=few)
    return found


def common_agreement(
    index: PairIndex, values: Mapping[str, Values], *, intervals: bool = True
) -> dict[str, PeopleAgreement]:
    """Compute the agreement over the images that all compared metrics have scored, the most accurate metric first.

    Metrics with scores on fewer than half of the pairs are not compared. Empty if all metrics with a score have scored the
    same images.
    """
    values = {name: by_image for name, by_image in values.items() if common_images(index, [by_image])}
    if not values or not len(index):
        return {}
    compared = [list(values)[k] for k in common_accuracy(index, list(values.values())).order]
    both = common_images(index, [values[name] for name in compared])
    if all(common_images(index, [by_image]) == both for by_image in values.values()):
        return {}
    human = human_scores(index)
    return {
        name: PeopleAgreement.model_validate(
            _joined(_with_people(index, human, {id: values[name][id] for id in both}, intervals))
        )
        for name in compared
    }


def common_images(index: PairIndex, values: Sequence[Values]) -> list[str]:
    """List the images of human pairs that all metrics have scored."""
    scored = np.isfinite(np.stack([index.scores(by_image) for by_image in values])).all(axis=0)
    return [index.ids[place] for place in np.flatnonzero(scored).tolist()]


def unscored(index: PairIndex, values: Values) -> list[str]:
    """List the pairs with a preference of which an image has no score."""
    return index.names((index.preference != 0) & np.isnan(index.predictions(values)))


def _other_scale(name: str, values: Values, ends: tuple[float, float] | None) -> list[Note]:
    """Warn of scores that look as if the judge answered on a scale to 1 or 10 although a scale to 100 is asked for."""
    scored = [value for value in values.values() if value is not None]
    if ends is None or min(ends) != 0 or max(ends) != 100 or len(scored) < _SUSPICIOUS or not any(scored):
        return []
    parts = sum(0 < value < 1 for value in scored)
    if max(scored) <= 10:
        what = f"no score of {len(scored)} is above {max(scored):g}"
    elif parts and parts == sum(not value.is_integer() for value in map(float, scored)):
        what = f"{parts} of {len(scored)} scores are between 0 and 1"
    else:
        return []
    line = f"{name}: {what}, on a scale to 100. Check in some answers which scale the judge uses."
    return [Note("scores_on_other_scale", line)]


def _people(images: Sequence[Image], pairs: Sequence[Pair], human: HumanScores) -> Leaderboard | None:
    """Rank generators by the ranks that people gave, otherwise by their pairs; None without pairs."""
    if ranks := given_ranks(pairs):
        return leaderboard_by_ranks(images, ranks, PEOPLE)
    scores = _human_scores(human)
    if not scores:
        return None
    board = leaderboard(images, scores, intervals=False, name=PEOPLE, common=False)
    return _by_opponents(board, pairs, _generators(image for image in images if image[0] in scores))


def _generators(images: Iterable[Image]) -> dict[str, str]:
    return {id: generator for id, generator, _ in images if generator}


def _groups(pairs: Sequence[Pair], generator_of: Mapping[str, str]) -> list[tuple[list[str], bool]]:
    """Group the generators whose images people compared; see `bradley_terry.opponents`."""
    known = (pair for pair in pairs if pair.a in generator_of and pair.b in generator_of)
    return opponents((generator_of[pair.a], generator_of[pair.b]) for pair in known)


def _by_opponents(board: Leaderboard, pairs: Sequence[Pair], generator_of: Mapping[str, str]) -> Leaderboard:
    """Order generators that met unlike opponents by their Bradley-Terry strength; not at all if no pairs connect them."""
    groups = _groups(pairs, generator_of)
    if not groups or (len(groups) == 1 and groups[0][1]):
        return board
    (group, complete), *others = groups
    warnings: list[Note] = []
    places = {name: place if name in group else _unranked_place(place) for name, place in board.places.items()}
    if others:
        apart = "; ".join(", ".join(names) for names, _ in groups)
        line = f"{PEOPLE}: generators of different groups never met and have no common order ({apart})"
        warnings.append(Note("groups_never_met", line))
        if len(others[0][0]) == len(group):
            return Leaderboard({name: _unranked_place(place) for name, place in places.items()}, tuple(warnings))
    if not complete:
        inside = {id: generator for id, generator in generator_of.items() if generator in group}
        fit = bradley_terry(pairs, inside, resamples=0)
        strengths = {row.generator: -row.strength for row in fit.generators}
        ranks = rankdata(np.array([strengths.get(name, np.nan) for name in group]))
        for name, rank in zip(group, ranks.tolist(), strict=True):
            place = None if math.isnan(rank) else rank
            places[name] = places[name].with_(mean_rank=place, rank=place and math.floor(place))
        by = f"not ranked, as there is {fit.reason}" if fit.reason else "ranked by Bradley-Terry strength"
        line = f"{PEOPLE}: not every two generators met, so they are {by} (add --strengths to see it)"
        warnings.append(Note("unlike_opponents", line))
    return Leaderboard(places, tuple(warnings))


def _unranked_place(place: PlaceRecord) -> PlaceRecord:
    return place.with_(mean_rank=None, rank=None)


def _human_scores(human: HumanScores) -> dict[str, float]:
    """Return the score that people gave each image, over all prompts."""
    return {id: score for by_image in human.values() for id, score in by_image.items()}


def _srcc_with_people(
    images: Sequence[Image], pairs: Sequence[Pair], human: HumanScores, values: Values
) -> float | None:
    """Correlate the leaderboards of a metric and of people over the images that both have; None if it is undefined.

    Mean ranks are compared only if every generator has every prompt, otherwise means for the same prompts.
    """
    judged = given_ranks(pairs) or _human_scores(human)
    both = [image for image in images if image[0] in judged and values.get(image[0]) is not None]
    ids = {image[0] for image in both}
    people = _people(both, pairs, {prompt: {i: s for i, s in by.items() if i in ids} for prompt, by in human.items()})
    if people is None:
        return None
    metric, prompts = leaderboard(both, values, intervals=False, common=False), {prompt for *_, prompt in both}
    groups, given = _groups(pairs, _generators(both)), bool(given_ranks(pairs))
    fitted = not given and bool(groups) and not groups[0][1]  # ranks are of strengths
    even = all(place.prompts == len(prompts) for place in metric.places.values())
    ranks = metric.mean_ranks() if even and not fitted else metric.means()
    return rank_correlation(ranks, people.mean_ranks() if even or given or fitted else people.means())


def _images(items: Sequence[Item | InvalidItem], scores: Sequence[Score]) -> tuple[list[Image], list[Note]]:
    """List the images of the items, or of the scores if there are no items, with warnings."""
    warnings = []
    image_of = {item.id: (item.id, item.generator, item.prompt_id or item.id) for item in items}
    if not items:
        image_of = {s.item_id: (s.item_id, s.generator, s.prompt_id or s.item_id) for s in scores}
    strangers = {score.item_id for score in scores if score.item_id not in image_of}
    if strangers:
        line = f"{len(strangers)} scored images are not in the data and not counted, the first: {min(strangers)}"
        warnings.append(Note("scored_images_unknown", line))
    return list(image_of.values()), warnings


def _without(images: Sequence[Image], ids: Collection[str]) -> Sequence[Image]:
    return [image for image in images if image[0] not in ids] if ids else images


def _values(images: Sequence[Image], scores: Sequence[Score]) -> tuple[dict[str, Values], list[Note]]:
    """Return metric -> image -> score for the images, and a warning if an image has several scores."""
    values: dict[str, Values] = dict(values_by_metric(scores))
    warnings = []
    if sum(map(len, values.values())) < len(scores):
        repeated = [key for key, n in Counter((s.item_id, s.metric) for s in scores).items() if n > 1]
        line = f"{len(repeated)} images have several scores of one metric, the last counts: {repeated[0][0]}"
        warnings.append(Note("several_scores", line))
    ids = {image[0] for image in images}
    for name, by_image in values.items():
        if not by_image.keys() <= ids:
            values[name] = {id: value for id, value in by_image.items() if id in ids}
    return values, warnings


def _with_prompts(pairs: Sequence[Pair], images: Sequence[Image]) -> Sequence[Pair]:
    """Give pairs without a prompt the prompt of their first image."""
    if all(pair.prompt_id for pair in pairs):
        return pairs
    prompt = {image[0]: image[2] for image in images}
    return [pair if pair.prompt_id else replace(pair, prompt_id=prompt.get(pair.a, "")) for pair in pairs]


def _pair_warnings(index: PairIndex, pairs: Sequence[Pair], images: Sequence[Image], declared: Families) -> list[Note]:
    """Warn of pairs whose images are not in the data, that are both bad, or on which preferences differ; note their families."""
    ids = {image[0] for image in images}
    warnings = []
    if strangers := [id for id in index.ids if id not in ids]:
        line = f"{len(strangers)} images of the human pairs are not in the data, the first: {truncated(min(strangers), 80)}"
        warnings.append(Note("pairs_of_unknown_images", line))
    prompts, own = list(index.groups), families_of_pairs(pairs)
    warnings += [] if declared else [Note(note.id, f"human pairs: {note}") for note in family_notes(prompts, own)]
    if index.annotators:
        warnings.append(annotators_note(index.annotators, allowed=index.annotators > 1, what="intervals of shares"))
    if bad := sum(pair.both_bad for pair in pairs):
        line = f"people find both images bad in {bad} of {len(pairs)} pairs: they count as ties"
        warnings.append(Note("both_bad", line))
    winners: dict[tuple[str, frozenset[str]], set[str]] = {}
    for pair in pairs:
        winner = {"a": pair.a, "b": pair.b}.get(pair.preference, "")
        winners.setdefault((pair.prompt_id, frozenset((pair.a, pair.b))), set()).add(winner)
    if opposed := [pair for pair, chosen in winners.items() if len(chosen) > 1]:
        example = " / ".join(truncated(image, 80) for image in min(sorted(images) for _, images in opposed))
        line = f"{len(opposed)} image pairs have conflicting preferences; all of them count: {example}"
        warnings.append(Note("conflicting_preferences", line))
    return warnings


def _metric(
    means: MeanScore,
    index: PairIndex,
    human: HumanScores,
    values: Values,
    why: str,
    intervals: bool,
    more: dict[str, Any],
) -> MetricResult:
    """Compute the statistics of one metric; without pairs each that is undefined has the reason `why`."""
    joined = _joined((means, *_with_people(index, human, values, intervals)))
    reasons = joined["reasons"] if len(index) else dict.fromkeys(joined["reasons"], why)
    return MetricResult(**joined | more | {"reasons": reasons})


def _with_people(
    index: PairIndex, human: HumanScores, values: Values, intervals: bool
) -> tuple[PairAgreement, TieAgreement, PromptAgreement]:
    """Compute all statistics of the agreement with people."""
    return (
        pairwise_accuracy(index, values, intervals=intervals),
        tie_optimised_accuracy(index, values),
        prompt_statistics(human, values, intervals=intervals, unit=index.units),
    )


def _joined(parts: Iterable[MeanScore | PairAgreement | TieAgreement | PromptAgreement]) -> dict[str, Any]:
    """Join the fields of records, and their reasons."""
    parts = list(parts)
    reasons = {key: reason for part in parts for key, reason in part.reasons.items()}
    return {name: value for part in parts for name, value in part} | {"reasons": reasons}


def _mean_score(values: Values, images: Sequence[Image], higher: bool, reasons: dict[str, str]) -> MeanScore:
    """Compute the mean over prompts and generators, and the coverage."""
    scored = [(image, value) for image in images if (value := values.get(image[0])) is not None]
    cell, cells = codes(image[1:] for image, _ in scored)
    means = MEAN.combine(cell, np.array([value for _, value in scored], dtype=np.float64), len(cells))
    return MeanScore(
        mean=float(means.mean()) if scored else None,
        images=len(images),
        scored=len(scored),
        coverage=len(scored) / len(images) if images else None,
        higher_is_better=higher,
        reasons=reasons,
    )


def _in_order(standings: Mapping[str, Leaderboard]) -> list[str]:
    """List the metrics, the one that decides first."""
    unscored = [name for name, board in standings.items() if not any(place.scored for place in board.places.values())]
    return list(dict.fromkeys([*([first_metric(standings, unscored)] if standings else []), *standings]))


def _leaderboard(standings: Mapping[str, Leaderboard], people: Leaderboard | None) -> list[StandingRecord]:
    """Join the leaderboards, in the order of the metric that decides, whose columns come first."""
    metrics = _in_order(standings)
    boards = [*(standings[name] for name in metrics), *([people] if people else [])]
    listed = dict.fromkeys(generator for board in boards for generator in board.places)
    return [
        StandingRecord(
            generator=generator,
            metrics={name: standings[name].places.get(generator, UNPLACED) for name in metrics},
            human=_human_place(people.places.get(generator, UNPLACED)) if people else None,
        )
        for generator in listed
    ]


def _human_place(place: PlaceRecord) -> PlaceRecord | None:
    """Keep the ranks of a place; None if people gave none."""
    if place.rank is None:
        return None
    ranks = PlaceRecord(mean_rank=place.mean_rank, rank=place.rank)
    return ranks if place.first_places is None else ranks.with_(first_places=place.first_places)


def _notes(metrics: Mapping[str, MetricResult], pairs: int, named: bool, per_prompt: PerPrompt) -> list[Note]:
    """List the notes below the tables: special facts about a metric, how the leaderboard was computed."""
    notes = [] if pairs else [Note("agreement_undefined", f"Agreement with people is undefined: {NO_PAIRS}.")]
    for name, result in metrics.items():
        notes += _metric_notes(name, result)
    if not named:
        notes.append(Note("no_leaderboard", "No leaderboard: the images name no generator."))
    elif per_prompt.kind != "mean":
        notes.append(Note("rule_of_leaderboard", f"Leaderboard: {per_prompt.about}."))
    return notes


def _metric_notes(name: str, result: MetricResult) -> list[Note]:
    """List what the reader of a metric's numbers should know: whether they rank images, and are above chance."""
    notes = []
    if not result.ranks_images:
        notes.append(Note("marks_judge", f"{name}: {MARKS_JUDGE}, so no pair is compared."))
    if result.p_value is not None and result.p_value >= GUESSING:
        notes.append(Note("no_better_than_guessing", f"{name}: no better than guessing (p {result.p_value:.2g})."))
    return notes


def _strengths(
    pairs: Sequence[Pair], values: Mapping[str, Values], images: Sequence[Image], resamples: int
) -> dict[str, BradleyTerryRecord]:
    """Fit Bradley-Terry strengths to the pairs of people, and to the preferences of each metric in the same pairs."""
    generator_of = _generators(images)
    predicted = {name: predicted_pairs(pairs, by_image) for name, by_image in values.items()}
    return {
        name: bradley_terry(preferences, generator_of, resamples=resamples)
        for name, preferences in {PEOPLE: list(pairs), **predicted}.items()
    }
