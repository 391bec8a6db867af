"""Compute results.json and its tables from items and scores. It reads no file, so that `verify` can repeat it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.numbers import known_sum, mean
from titjudge.core.registry import base_metric
from titjudge.core.run_records import (
    SCHEMA_VERSION,
    CutRecord,
    DescriptionsRecord,
    FailureRecord,
    InvalidRecord,
    PairRecord,
    QuestionsRecord,
    Results,
    TableRecord,
)
from titjudge.core.score_parts import description_words, question_counts, steadiness, texts_cut
from titjudge.core.types import InvalidItem, Item, Note, Pair, Score, Status, Table
from titjudge.engine.budget import Spending
from titjudge.metrics import Metric
from titjudge.stats.intervals import WAY
from titjudge.stats.pairwise_accuracy import Undecided, undecided
from titjudge.stats.people.agreement_tables import agreement_tables
from titjudge.stats.ranking.bradley_terry import duel_tables
from titjudge.stats.scores.families import families, in_families
from titjudge.stats.scores.frame import images_of, not_applicable
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt
from titjudge.stats.scores.withheld import withheld
from titjudge.suites.base import Suite

STEADINESS = Declaration("steadiness", "answers of a judge to one question", Population.SCORED_IMAGES, Unit.IMAGE)

WORDS = 250, 350  # of a description: TIT-Score paper, A.4.1
LEAST_IN_RANGE = 0.5

_NOBODY = "These preferences follow from how the images were made. No person was asked."
CONSTRUCTED = Note("nobody_asked", _NOBODY)


def summarize(
    listed: Sequence[Item | InvalidItem],
    scores: Iterable[Score],
    suite: Suite,
    pairs: Sequence[Pair],
    metrics: dict[str, Metric],
    *,
    status: str,
    money: Spending,
    extra_warnings: Sequence[Note] = (),
    per_prompt: PerPrompt = MEAN,
) -> tuple[Results, list[Table]]:
    """Compute results.json, and its tables. Scores of other items or metrics are left out."""
    items = [item for item in listed if isinstance(item, Item)]
    invalid = [item for item in listed if isinstance(item, InvalidItem)]
    judged, doubts = withheld(_in_order(scores, items, metrics), items)
    images = images_of(listed)
    declared = families(items, pairs=pairs)
    pairs = in_families(pairs, declared)
    excluded = not_applicable(images, judged, metrics)
    agreed = _agreement(images, judged, pairs, suite, metrics, excluded, per_prompt, settled=status == "settled")
    agreed = agreed.joined(Results(descriptions=_descriptions(judged)))
    undecided_pairs = undecided(pairs, judged)
    tables = [*agreement_tables(agreed), *_steadiness(judged), *duel_tables(items, judged, declared)]
    tables += suite.aggregate(items, judged)
    cut, questions = _cut(judged), _question_counts(judged)
    warnings = [*agreed.warnings, *extra_warnings, *doubts, *_cut_warnings(cut), *_question_warnings(questions)]
    warnings += _length_warnings(agreed.descriptions)
    warnings += _undecided_warnings(undecided_pairs)
    warnings += [
        Note("applies_to_no_image", f"{name} applies to no image: none has {' and '.join(metrics[name].needs)}")
        for name, ids in excluded.items()
        if items and ids.issuperset(item.id for item in items)
    ]
    return agreed.joined(
        _money(money),
        Results(
            schema_version=SCHEMA_VERSION,
            status=status,
            items=len(items),
            bad_items=[InvalidRecord(id=item.id, reason=item.reason) for item in invalid],
            failures=_failures(invalid, judged),
            pairs=[PairRecord.of_pair(pair) for pair in pairs],
            cut=cut,
            questions=questions,
            intervals=WAY,
            per_prompt=str(per_prompt),
            not_applicable={name: len(ids) for name, ids in excluded.items()},
            tables=[TableRecord.of_table(table) for table in tables],
            warnings=[*warnings, *([CONSTRUCTED] if agreed.constructed else [])],
        ),
    ), tables


def _agreement(
    images: Sequence[Item | InvalidItem],
    scores: Sequence[Score],
    pairs: Sequence[Pair],
    suite: Any,
    metrics: Mapping[str, Metric],
    excluded: Mapping[str, frozenset[str]],
    per_prompt: PerPrompt,
    *,
    settled: bool,
) -> Results:
    from titjudge.stats.people.agreement import agreement

    plugins = {name: metrics[base_metric(name)] for name in dict.fromkeys(score.metric for score in scores)}
    return agreement(
        images,
        scores,
        pairs,
        negate={name for name, plugin in plugins.items() if not plugin.higher_is_better},
        marks_judge={name for name in plugins if base_metric(name) in suite.MARKS_JUDGE},
        ranges={name: plugin.range for name, plugin in plugins.items()},
        not_applicable=excluded,
        per_prompt=per_prompt,
        settled=settled,
    )


def _money(money: Spending) -> Results:
    sums = Results(spent=known_sum(money.spent, money.unpriced), list_cost=known_sum(money.list_cost, money.unlisted))
    return sums.joined(Results(unpriced=money.unpriced)) if money.unpriced else sums


def _failures(invalid: Sequence[InvalidItem], scores: Sequence[Score]) -> list[FailureRecord]:
    unread = (Score(item.id, "", None, Status.BAD_INPUT, item.reason) for item in invalid)
    return [
        FailureRecord(item=s.item_id, status=str(s.status), reason=s.reason, cause=str(s.cause or s.status))
        for s in (*unread, *scores)
        if s.value is None
    ]


def _cut_warnings(cut: Mapping[str, CutRecord]) -> list[Note]:
    return [
        Note(
            "texts_cut",
            f"{name}: {texts.scores} texts were cut to the model's {texts.read} tokens (the longest has {texts.longest})",
        )
        for name, texts in cut.items()
    ]


def _length_warnings(descriptions: Mapping[str, DescriptionsRecord]) -> list[Note]:
    """Warn about metrics that read mostly descriptions of another length; once if several read the same ones."""
    metrics: dict[tuple[int, float, float], list[str]] = {}
    for name, read in descriptions.items():
        if read.in_range < LEAST_IN_RANGE:
            metrics.setdefault((read.images, read.words, read.in_range), []).append(name)
    return [
        Note(
            "descriptions_of_other_length",
            f"{', '.join(names)}: {share:.0%} of {images:,} descriptions have {WORDS[0]} to {WORDS[1]} words (mean {words:.0f}), as the "
            "template asks (TIT-Score paper, A.4.1). Compare scores only between captioners with similar lengths",
        )
        for (images, words, share), names in metrics.items()
    ]


def _undecided_warnings(undecided_pairs: Mapping[str, Undecided]) -> list[Note]:
    return [
        Note(
            "pairs_undecided",
            f"{name}: {count.undecided:,} of {count.scored:,} pairs are not decided: what stayed open of their scores could reverse their "
            "order; they are counted by their scores",
        )
        for name, count in undecided_pairs.items()
        if count.undecided
    ]


def _question_warnings(questions: Mapping[str, QuestionsRecord]) -> list[Note]:
    return [
        Note(
            "questions_without_answer",
            f"{name}: {count.skipped:,} of {count.asked:,} questions about the scored images have no answer: the scores are "
            f"made of the others ({count.images:,} images)",
        )
        for name, count in questions.items()
        if count.skipped
    ]


def _in_order(scores: Iterable[Score], items: Sequence[Item], metrics: Mapping[str, Metric]) -> list[Score]:
    """Sort the scores of these items and metrics by item and metric, as nothing may depend on the order of the answers."""
    place = {item.id: position for position, item in enumerate(items)}
    turns = {name: position for position, name in enumerate(metrics)}
    scores = list(scores)
    turn = {name: turns.get(base_metric(name)) for name in {score.metric for score in scores}}
    kept = [score for score in scores if score.item_id in place and turn[score.metric] is not None]
    kept.sort(key=lambda score: (place[score.item_id], turn[score.metric]))
    return kept


_STEADINESS = {
    "disagreement": "mean disagreement of the panel",
    "spread": "mean spread of repeats",
    "order_effect": "decided by the order",
    "first_advantage": "advantage of the first",
}


def _steadiness(scores: Sequence[Score]) -> list[Table]:
    """Tabulate how steady the judges are over panels, repeats and orders; no table if no score shows it."""
    rows = []
    for name in sorted({score.metric for score in scores}):
        measures = [steadiness(score.parts) for score in scores if score.metric == name]
        means = [mean(measure.get(key) for measure in measures) for key in _STEADINESS]
        if any(value is not None for value in means):
            rows.append((name, *means))
    if not rows:
        return []
    explanation = Note(
        "about_steadiness",
        "disagreement: highest minus lowest judge; spread: standard deviation over repeats; decided by the order: share of "
        "comparisons in which exchanging the sides exchanged the answer; all averaged over images",
    )
    return [
        Table(
            "Steadiness of the judges",
            ("metric", *_STEADINESS.values()),
            tuple(rows),
            explanation=(explanation,),
            declared=STEADINESS.over(len({score.item_id for score in scores if score.value is not None})),
        )
    ]


def _question_counts(scores: Sequence[Score]) -> dict[str, QuestionsRecord]:
    """Count for each metric the questions behind its scores, those without an answer, and the images that have such."""
    counts: dict[str, QuestionsRecord] = {}
    for score in scores:
        asked, skipped = question_counts(score.parts) if score.value is not None else (0, 0)
        if asked:
            count = counts.get(score.metric, QuestionsRecord())
            counts[score.metric] = QuestionsRecord(
                asked=count.asked + asked, skipped=count.skipped + skipped, images=count.images + (skipped > 0)
            )
    return counts


def _descriptions(scores: Sequence[Score]) -> dict[str, DescriptionsRecord]:
    """Measure for each metric the lengths of the descriptions behind its scores."""
    lengths: dict[str, list[int]] = {}
    for score in scores:
        if score.value is not None and (count := description_words(score.parts)):
            lengths.setdefault(score.metric, []).append(count)
    return {
        name: DescriptionsRecord(
            images=len(found),
            words=fmean(found),
            in_range=sum(WORDS[0] <= count <= WORDS[1] for count in found) / len(found),
        )
        for name, found in lengths.items()
    }


def _cut(scores: Sequence[Score]) -> dict[str, CutRecord]:
    """Count for each metric the texts that were cut to the model's limit, with the longest one, in tokens."""
    cut: dict[str, CutRecord] = {}
    for score in scores:
        for text in texts_cut(score.parts):
            entry = cut.get(score.metric, CutRecord(read=text.used))
            cut[score.metric] = CutRecord(
                scores=entry.scores + 1, read=entry.read, longest=max(entry.longest, text.total)
            )
    return cut
