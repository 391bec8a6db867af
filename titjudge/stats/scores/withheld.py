"""Scores that results do not count, because the replies of the whole run show that they cannot be right."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from titjudge.core.refusals import addresses_someone
from titjudge.core.score_parts import description, unread_as
from titjudge.core.types import Item, Note, Score, Status

_SAME = 3  # different images, of different prompts, from which one description for all is worth a warning
_ONE_SIDED = 2  # unreadable replies from which it matters that all of them are alike


def counted(scores: Iterable[Score], items: Callable[[], Iterable[Item]]) -> dict[tuple[str, str], Score]:
    """Return the scores by item and metric as every table counts them; `items` are read only if a score is in doubt."""
    kept = list(scores)
    if _repeated(kept) or any(score.parts.get("unread_as") for score in kept):
        kept, _ = withheld(kept, items())
    return {(score.item_id, score.metric): score for score in kept}


def withheld(scores: Sequence[Score], items: Iterable[Item]) -> tuple[list[Score], list[Note]]:
    """Return the scores, without a value if it cannot be right, and warnings.

    A text that speaks to someone and describes different images, word for word, is a refusal. If all unreadable replies of
    a metric are of one kind, such as denials, the mean of the other replies would be wrong, so no score of it counts.
    """
    often = _repeated(scores)
    of_item = {  # a slim item has neither image nor prompt
        item.id: (hash(item.image) if item.image else item.id if item.prompt else None, item.prompt_id)
        for item in items
    }
    images: dict[tuple[str, str], set[object]] = defaultdict(set)
    prompts: dict[tuple[str, str], set[str]] = defaultdict(set)
    unread: dict[str, list[str]] = defaultdict(list)
    for score in scores:
        if score.item_id not in of_item:
            continue
        if often and (key := (score.metric, description(score.parts))) in often:
            image, prompt = of_item[score.item_id]
            images[key].add(image)
            prompts[key].add(prompt)
        unread[score.metric] += unread_as(score.parts) if score.value is None else []
    repeated = {key for key, shown in images.items() if len(shown) > 1 and addresses_someone(key[1])}
    one_sided = {}
    for name, kinds in unread.items():
        ((kind, count),) = Counter(kinds).most_common(1) or [("", 0)]
        if kind and count >= max(_ONE_SIDED, len(kinds) / 2) and set(kinds) <= {kind, ""}:
            one_sided[name] = kind
    counted = [_counted(score, repeated, one_sided) for score in scores]
    warnings = [
        Note(
            "same_description",
            f"{metric}: {len(images[metric, text])} images of {len(found)} prompts have the same description, word for word: {text[:60]!r}",
        )
        for (metric, text), found in prompts.items()
        if len(found) >= _SAME and len(images[metric, text]) >= _SAME
    ]
    warnings += [
        Note(
            "unread_of_one_kind",
            f"{name}: {len(unread[name])} replies cannot be read, and {unread[name].count(kind)} of them begin like a {kind}; a mean of the others would be wrong",
        )
        for name, kind in one_sided.items()
    ]
    return counted, [*warnings, *_refusals(counted)]


def _repeated(scores: Iterable[Score]) -> set[tuple[str, str]]:
    """Find metric and description of which there are several scores."""
    counts = Counter((score.metric, description(score.parts)) for score in scores)
    return {key for key, count in counts.items() if count > 1 and key[1]}


def _counted(score: Score, repeated: Collection[tuple[str, str]], one_sided: Mapping[str, str]) -> Score:
    if score.value is None:
        return score
    if repeated and (score.metric, description(score.parts)) in repeated:
        reason = "the captioner gave different images the same description, and describes none of them"
        return replace(score, value=None, status=Status.REFUSED, reason=reason)
    if kind := one_sided.get(score.metric):
        reason = f"not counted: the unreadable replies begin like a {kind}"
        return replace(score, value=None, status=Status.UNPARSED, reason=reason)
    return score


def _refusals(scores: Sequence[Score]) -> list[Note]:
    """Count refusals by generator, as filters refuse some generators more than others; metrics with equal counts in one line."""
    judged = Counter((score.metric, score.generator) for score in scores)
    refused = Counter((score.metric, score.generator) for score in scores if score.status is Status.REFUSED)
    metrics: dict[str, list[str]] = {}
    for metric in dict.fromkeys(metric for metric, _ in filter(refused.__contains__, judged)):
        shares = ", ".join(
            f"{name or 'unnamed'} {refused[metric, name]} of {count}"
            for (of, name), count in sorted(judged.items())
            if of == metric
        )
        metrics.setdefault(shares, []).append(metric)
    return [
        Note("refused_by_generator", f"{', '.join(names)}: refused images by generator: {shares}")
        for shares, names in metrics.items()
    ]
