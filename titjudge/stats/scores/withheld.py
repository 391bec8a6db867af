"""Scores that results do not count, because the replies of the whole run show that they cannot be right."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from titjudge.core.refusals import addresses_someone
from titjudge.core.score_parts import description, unread_as
from titjudge.core.types import Item, Score, Status

_SAME = 3  # different images, of different prompts, from which one description for all is worth a warning
_ONE_SIDED = 2  # unreadable replies from which it matters that all of them say the same


def counted(scores: Iterable[Score], items: Callable[[], Iterable[Item]]) -> dict[tuple[str, str], Score]:
    """Return the scores by item and metric as every table counts them; `items` are read only if a score is in doubt."""
    kept = list(scores)
    texts = [(score.metric, text) for score in kept if (text := description(score.parts))]
    if len(set(texts)) < len(texts) or any(unread_as(score.parts) for score in kept):
        kept, _ = withheld(kept, items())
    return {(score.item_id, score.metric): score for score in kept}


def withheld(scores: Sequence[Score], items: Iterable[Item]) -> tuple[list[Score], list[str]]:
    """Return the scores, without a value where it cannot be right, and warnings.

    A text that speaks to someone and describes different images, word for word, is a refusal. If all unreadable replies of
    a metric are of one kind, such as denials, the mean of the other replies would be wrong, so no score of it counts.
    """
    of_item = {item.id: item for item in items}
    images: dict[tuple[str, str], set[object]] = defaultdict(set)
    prompts: dict[tuple[str, str], set[str]] = defaultdict(set)
    unread: dict[str, list[str]] = defaultdict(list)
    for score in scores:
        if (item := of_item.get(score.item_id)) is None:
            continue
        if text := description(score.parts):
            images[score.metric, text].add(item.image or (item.id if item.prompt else None))  # a slim item has neither
            prompts[score.metric, text].add(item.prompt_id)
        unread[score.metric] += unread_as(score.parts) if score.value is None else []
    repeated = {key for key, shown in images.items() if len(shown) > 1 and addresses_someone(key[1])}
    one_sided = {}
    for name, kinds in unread.items():
        ((kind, count),) = Counter(kinds).most_common(1) or [("", 0)]
        if kind and count >= max(_ONE_SIDED, len(kinds) / 2) and set(kinds) <= {kind, ""}:
            one_sided[name] = kind
    counted = [_counted(score, repeated, one_sided) for score in scores]
    warnings = [
        f"{metric}: {len(images[metric, text])} images of {len(found)} prompts have the same description, word for word: {text[:60]!r}"
        for (metric, text), found in prompts.items()
        if len(found) >= _SAME and len(images[metric, text]) >= _SAME
    ]
    warnings += [
        f"{name}: {len(unread[name])} replies cannot be read, and {unread[name].count(kind)} of them begin like a {kind}; a mean of the others would be wrong"
        for name, kind in one_sided.items()
    ]
    return counted, [*warnings, *_refusals(counted)]


def _counted(score: Score, repeated: Collection[tuple[str, str]], one_sided: Mapping[str, str]) -> Score:
    if score.value is None:
        return score
    if (score.metric, description(score.parts)) in repeated:
        reason = "the captioner said the same of different images, and describes none of them"
        return replace(score, value=None, status=Status.REFUSED, reason=reason)
    if kind := one_sided.get(score.metric):
        reason = f"not counted: the unreadable replies begin like a {kind}"
        return replace(score, value=None, status=Status.UNPARSED, reason=reason)
    return score


def _refusals(scores: Iterable[Score]) -> list[str]:
    """Count refusals by metric and generator, as filters refuse some generators more than others."""
    all_of: dict[str, Counter[str]] = defaultdict(Counter)
    refused: dict[str, Counter[str]] = defaultdict(Counter)
    for score in scores:
        all_of[score.metric][score.generator] += 1
        refused[score.metric][score.generator] += score.status is Status.REFUSED
    lines = []
    for metric, counts in refused.items():
        if counts.total():
            shares = (
                f"{name or 'unnamed'} {count} of {all_of[metric][name]}" for name, count in sorted(counts.items())
            )
            lines.append(f"{metric}: refused images by generator: {', '.join(shares)}")
    return lines
