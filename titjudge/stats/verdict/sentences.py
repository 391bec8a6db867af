"""A verdict in plain sentences, the same in the terminal and in the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from titjudge.core.declarations import Doubt
from titjudge.core.numbers import several, sum_words
from titjudge.core.run_records import BestJudge, BetterGenerator, SettledPair, SettleRecord, Verdict
from titjudge.core.tables import rank_range
from titjudge.core.types import CONSTRUCTION
from titjudge.core.words import first_of, interval, number, p_value, percentage, score_digits
from titjudge.stats.generators.sequential import ASYMPTOTIC, EQUIVALENT, OPEN
from titjudge.stats.people.agreement import GUESSING
from titjudge.stats.scores.families import counted, too_few
from titjudge.stats.scores.part_scores import ELEMENT, PARTS
from titjudge.stats.scores.population import FEWEST
from titjudge.stats.verdict import better_generator

_NAMED = 6  # names in a sentence
_LEVEL = "cannot be distinguished"
COMMAND = "python cli.py judge DATA --out RUN"  # with the options that the run had


def sentences(
    verdict: Verdict, settle: SettleRecord | None = None, lacking: str = "", command: str = COMMAND
) -> list[str]:
    """Write the verdict, the most important sentence first; nothing if there is no score.

    Args:
        verdict: The verdict.
        settle: The question that the run was to settle.
        lacking: Why not all images of the data are judged (from the manifest).
        command: The command that judges missing images; it may appear on a page for others, so that it names no place by
            default.
    """
    lines: list[str] = []
    if settle is not None and settle.pairs:
        lines.append(_sentence(settled_words(settle)))
    elif verdict.generators is not None:
        lines += _of_generators(verdict.generators, command)
    if lines and lacking:
        lines = [f"So far: {lines[0]}", *lines[1:], f"The run is incomplete: {lacking}."]
    return [*lines, *(_of_judges(verdict.judges) if verdict.judges is not None else ())]


def headline(verdict: Verdict, settle: SettleRecord | None = None, lacking: str = "") -> tuple[str, str]:
    """Write the verdict in one short sentence, and its numbers in a line below it; both empty without a verdict on generators."""
    record = verdict.generators
    if settle is not None and settle.pairs:
        short, numbers = _settled(settle)
    elif record is not None and record.second:
        numbers = "; ".join(_numbers(record))
        short, numbers = _short(record), f"{numbers[:1].upper()}{numbers[1:]}"
    else:
        short, numbers = next(_alone(record), "").removesuffix(".") if record is not None else "", ""
        if not short:
            return "", ""
    if lacking:
        short = f"So far: {short}"
    return _sentence(short), numbers and _sentence(numbers.strip(", "))


def is_undecided(verdict: Verdict, settle: SettleRecord | None = None) -> bool:
    """Return True if two generators cannot be distinguished by the first of the `sentences`."""
    record = verdict.generators
    return (
        not (settle is not None and settle.pairs) and record is not None and bool(record.second) and not record.better
    )


def _sentence(words: str) -> str:
    return f"{words}."


# -- generators --------------------------------------------------------------------------------------------------------


def _of_generators(record: BetterGenerator, command: str) -> Iterator[str]:
    """Yield the sentences on the generators: the lead, their order, missing scores, and the results of other metrics."""
    if record.second:
        yield _lead(record)
    else:
        yield from _alone(record)
    if _compared(record) > 2 and len(tiers := _tiers(record)) > 1:
        yield f"In order: {'; '.join(tiers)}. Generators listed together {_LEVEL}."
    if record.set_aside:
        unit, units = ("prompt", "prompts") if record.families is None else ("family", "families")
        shared = ", ".join(
            f"{name} ({count:,} {unit if count == 1 else units})" for name, count in record.set_aside.items()
        )
        yield f"Not compared, because they share fewer than {FEWEST} {units} with the others: {shared}."
    if record.to_judge:
        yield f"Missing scores: {'; '.join(record.to_judge)}."
    too_few = record.second and record.difference is None
    if record.to_judge or (too_few and any(ranked.prompts > record.prompts for ranked in record.ranking)):
        yield f"Add the images that do not exist, then judge them: {command}"
    if record.others:
        yield _sentence("; ".join(f"{name} {_SAID[answer]}" for name, answer in record.others.items()))


_SAID = {
    better_generator.SAME: "says the same",
    better_generator.OPPOSITE: "says the opposite: look at both",
    better_generator.OPEN: "cannot tell the two apart",
}


def _alone(record: BetterGenerator) -> Iterator[str]:
    """Write the mean of the only generator."""
    for only in record.ranking[:1]:
        if only.mean is not None:
            yield f"The mean score is {_amount(record, only.mean)} on {several(only.prompts, 'prompt')} ({record.metric})."
            if not record.set_aside:
                yield "Images of a second generator for the same prompts would show which is better."


def _lead(record: BetterGenerator) -> str:
    """Write which of the two is better, by how much, and its weak spot; or that and how they cannot yet be distinguished."""
    if record.difference is None:
        return _sentence(f"{_two(record)}: {record.reason}")
    gap, *others = _numbers(record)
    finding = f"{record.first} beats {_beaten(record)}" if record.better else _level(record)
    return _sentence("; ".join([f"{finding} {gap}", *others]))


def _short(record: BetterGenerator) -> str:
    """Write the verdict on the two without its numbers."""
    if not record.better:
        return f"No clear winner between {record.first} and {record.second}"
    alone = _beaten(record) == record.second
    return f"{record.first} beats {record.second if alone else f'the {_compared(record) - 1} others'}"


def _numbers(record: BetterGenerator) -> list[str]:
    """Write the difference of the two with its test, the weak spot of the better one, and how to distinguish them if undecided."""
    if record.difference is None:
        return [record.reason]
    prompts = several(record.prompts, "prompt")
    if record.images is not None:
        prompts += f" with {record.images[0]:,} to {record.images[1]:,} images each"
    prompts += f" in {counted(record.families)}" if record.families is not None else too_few(record.prompts)
    if record.better:
        found = [f"by {_gap(record)} on {prompts} ({_test(record)})", _doubt(record), record.reason, _weakness(record)]
    else:
        found = [
            f"on {prompts} (difference {_gap(record)}, {_test(record)})",
            _doubt(record),
            _weakness(record),
            _what_would_tell(record),
        ]
    return [text for text in found if text]


def _doubt(record: BetterGenerator) -> str:
    """Write the reason why the level is not reliable; empty if it is, or if the number of prompts shows it."""
    if record.doubt in ("", Doubt.FEW_UNITS):
        return ""
    return f"the level is not reliable: {Doubt(record.doubt).words}"


def _two(record: BetterGenerator) -> str:
    return f"{record.first} and {record.second} {_LEVEL}"


def _beaten(record: BetterGenerator) -> str:
    """Name the generators that the best one beats: if there are several, all others and the next one, otherwise its opponent."""
    if _compared(record) > 2 and record.second == record.ranking[1].generator:
        return f"the {_compared(record) - 1} others, and {record.second}, the next,"
    return record.second


def _level(record: BetterGenerator) -> str:
    """Write which generators cannot be distinguished: the two, and with more generators whether these are all."""
    if _compared(record) > 2 and len(_tiers(record)) < 2:
        two = f"{record.first} and {record.second}"
        return f"No generator is shown to be better than the others: {two}, the first two, {_LEVEL}"
    return _two(record)


def _what_would_tell(record: BetterGenerator) -> str:
    """Write why the two cannot be distinguished: missing scores, or too few prompts; empty if neither is known."""
    if record.reason:
        return f"{record.reason}, and what is left out may decide"
    if record.needed is not None and record.needed.prompts > record.prompts:
        this = abs(record.difference or 0.0) >= record.needed.difference * 0.999
        size = "this size" if this else number(record.needed.difference, digits_of(record))
        return f"about {record.needed.prompts:,} prompts would show a difference of {size}"
    if record.detectable is not None:
        return f"these prompts can only show a difference of {number(record.detectable, digits_of(record))} or more"
    return ""


def _weakness(record: BetterGenerator) -> str:
    """Write where the winner loses, where the loser is furthest behind, or where both fail."""
    spot, part = record.weak, record.weakest
    if spot is not None:
        place = _place(spot.column, spot.value)
        by = "" if spot.column == ELEMENT else f" (by {_amount(record, spot.behind)})"
        if spot.generator == record.first:
            return f"{'it' if record.better else record.first} loses {place}{by}"
        return f"{spot.generator} is furthest behind {place}{by}"
    if part is not None:
        mean = percentage(part.mean, 0) if part.column == ELEMENT else _amount(record, part.mean)
        if mean == percentage(1.0, 0):  # it fails at nothing
            return ""
        return f"{'it' if record.better else record.first} does worst at {part.value} ({mean})"
    return ""


def _place(column: str, value: str) -> str:
    if column in PARTS:
        return f"at {value}"
    if column == "prompt_length":
        return f"on prompts of {value}"
    return f"where {column.replace('_', ' ')} is {value}"


def _compared(record: BetterGenerator) -> int:
    """Count the generators that are compared."""
    return sum(ranked.tier is not None for ranked in record.ranking)


def _tiers(record: BetterGenerator) -> list[str]:
    """Name the generators by rank, best first, with their ranks if these overlap with ranks of others."""
    tiers: dict[tuple[int, int], list[str]] = {}
    for ranked in record.ranking:
        if ranked.tier is not None:
            tiers.setdefault(ranked.ranks or (ranked.tier, ranked.tier), []).append(ranked.generator)
    overlap = any(before[1] >= after[0] for before, after in pairwise(tiers))
    return [f"{_names(names)} ({rank_range(ranks)})" if overlap else _names(names) for ranks, names in tiers.items()]


def _gap(record: BetterGenerator) -> str:
    """Write the difference with its interval, which is left out if it disagrees with the test."""
    assert record.difference is not None
    ends = record.interval
    agrees = ends is not None and (ends[0] > 0 or ends[1] < 0) == record.better
    digits = digits_of(record)
    bracket = f" {interval(*(number(end, digits) for end in ends))}" if ends is not None and agrees else ""
    value, scale = number(record.difference, digits), _scale(record)
    return f"{value}{scale}{bracket}" if scale.startswith(" of") else f"{value}{bracket}{scale}"


def _test(record: BetterGenerator) -> str:
    return record.metric if record.p is None else f"{record.metric}, p {p_value(record.p)}"


def _amount(record: BetterGenerator, value: float) -> str:
    """Write a number of points of the scale: `9.6 of 100`."""
    return f"{number(value, digits_of(record))}{_scale(record)}"


def _scale(record: BetterGenerator) -> str:
    """Write the scale of a number of points; empty if the scale has no ends."""
    if record.metric_range is None:
        return ""
    low, high = record.metric_range
    return f" of {high:g}" if low == 0 else f" on a scale from {low:g} to {high:g}"


def digits_of(record: BetterGenerator) -> int:
    """Return the decimals that the scores of a verdict are written with."""
    return score_digits(record.metric_range or [ranked.mean or 0.0 for ranked in record.ranking])


def _names(names: Sequence[str]) -> str:
    """Join names: `a`, `a and b`, `a, b and 3 more`."""
    if len(names) > _NAMED:
        return first_of(names, _NAMED - 1)
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


# -- metrics -----------------------------------------------------------------------------------------------------------


def _of_judges(record: BestJudge) -> Iterator[str]:
    """Yield the sentences on the metrics: how well the best agrees with people, and which are no better than guessing."""
    constructed = record.reference == CONSTRUCTION
    first = record.ranking[0]
    guessing = [judge.metric for judge in record.ranking if judge.p is not None and judge.p >= GUESSING]
    if not record.second:
        whose = "that is better by construction" if constructed else "that people prefer"
        guess = f": no better than guessing (p {p_value(first.p or 1.0)})" if guessing else ""
        yield f"{first.metric} prefers the image {whose} in {percentage(first.accuracy or 0.0)} of {several(first.pairs, 'pair')}{guess}."
        return
    people = "how the images were made" if constructed else "people"
    both = f"{several(record.pairs, 'pair')} that both scored"
    p = "" if record.p is None else f" (p {p_value(record.p)})"
    shares = [
        percentage(share) if share is not None else "no" for share in (record.first_accuracy, record.second_accuracy)
    ]
    if not record.pairs:
        yield f"{record.first} and {record.second} have scored no pair in common: which agrees better with {people} is not known."
    elif record.better:
        yield f"{record.first} agrees with {people} more often than {record.second}: in {shares[0]} against {shares[1]} of the {both}{p}."
    else:
        yield f"{record.first} ({shares[0]}) and {record.second} ({shares[1]}) {_LEVEL} on the {both}{p}."
    if guessing:
        yield f"No better than guessing: {_names(guessing)}."


# -- a question that was settled ---------------------------------------------------------------------------------------


def settled_words(record: SettleRecord) -> str:
    """Write in one line the verdict at which a run stopped."""
    return "".join(_settled(record))


def _settled(record: SettleRecord) -> tuple[str, str]:
    """Return the verdict at which a run stopped, and its numbers."""
    (pair,) = record.pairs
    share = f"{record.images:,} of {record.of_images:,} images judged"
    missing = ", ".join(f"{name} {count}" for name, count in pair.without_score.items() if count)
    missing = f"; left out for want of a score: {missing} prompts" if missing else ""
    ends = _interval_words(pair)
    if pair.reason:
        return f"cannot tell: {pair.reason}, and what is left out may decide", f"{ends} ({share}{missing})"
    if pair.verdict == OPEN:
        unbeaten = f"; still in: {', '.join(pair.left)}" if pair.left else ""
        spent = sum_words(record.spent, 0, f"${record.spent or 0.0:.4f}")
        return f"not settled for {spent}: {' or '.join(pair.names)}", f"{ends}{unbeaten} ({share}{missing})"
    saved = f", about ${record.saved:.4f} saved" if record.saved else ""
    if pair.verdict == EQUIVALENT:
        equal = " and ".join(pair.left or pair.names)
        short = f"settled: {equal} are equivalent within {record.margin:g}"
    else:
        short = f"settled: {pair.verdict} is the better one"
    return short, f"{ends} ({share}{saved}{missing})"


def _interval_words(pair: SettledPair) -> str:
    """Write the interval of the difference of two; empty if there is none."""
    if pair.interval is None:
        return ""
    (low, high), (first, second, *_) = pair.interval, pair.names
    asymptotic = " (asymptotic: this scale has no ends)" if pair.method == ASYMPTOTIC else ""
    return f", {first} - {second} between {low:.4g} and {high:.4g}{asymptotic}"
