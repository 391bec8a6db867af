"""Run the battery over a judge, through an engine, and write its card."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from titjudge.engine import Engine
from titjudge.errors import DataError
from titjudge.metrics import Metric
from titjudge.panel import SAMPLE_STEP
from titjudge.suites.known_answer import KnownAnswer
from titjudge.trust import battery
from titjudge.trust.battery import Test
from titjudge.trust.card import FEWEST, Card, Line, line, rate_line, with_verdicts
from titjudge.trust.edits import KINDS
from titjudge.trust.exchange import NAME as SELF_PREFERENCE
from titjudge.trust.exchange import exchange
from titjudge.trust.prober import Again, Prober
from titjudge.types import Ask, Item, Pair, Score, Status

ACCURATE = 0.7  # least share of known answers
ORDER = 0.1  # most advantage of the image that is shown first
UNUSABLE = 0.05  # most refusals, and most answers that cannot be read
STEADY = 0.02  # least step of the order effect: 36 comparisons that all agree are enough to rule out one of 0.1


async def probe(
    engine: Engine,
    name: str,
    metric: Metric,
    data: Path,
    work: Path,
    *,
    repeats: int = 3,
    edits: int = battery.MOST,
    pairwise: Metric | None = None,
    rivals: Sequence[str] = (),
    on_score: Any = None,
    on_items: Any = None,
) -> Card:
    """Probe a judge and return its card.

    Args:
        metric: the metric whose models are probed, called `name`.
        data: a known-answer folder. work: where changed pictures are written.
        repeats: how often the same question is asked for the spread between repetitions.
        edits: errors of each kind that are planted in the prompt, one at a time, for each image.
        pairwise: a pairwise metric of the same judge, for the order effect: it finds the other images of the prompt in
            `meta["siblings"]` and leaves `shown_first` and `shown_second`, 0 to 1, in each of its `parts["duels"]`.
        rivals: names of further roles whose models describe the images and judge, for the self-preference.
        on_score: called with each score. on_items: called with the items that are judged.
    Raises:
        DataError: the folder holds no known answers.
        FatalProviderError, ConfigError: as the engine raises them.
    """
    truth = [item for item in KnownAnswer().load(data) if isinstance(item, Item)]
    if not truth:
        raise DataError("no image with known answers", data)
    items = [battery.adherence_item(item) for item in truth]
    run = Prober(engine, name, metric, on_score, prompts=len({item.group for item in items}))
    await run.score(items)
    skipped: dict[str, str] = {}
    tests = [*battery.severity(items), battery.instructions(items)]
    if "questions" in metric.needs:
        skipped |= dict.fromkeys(KINDS, "this metric asks its questions whatever the prompt says")
    else:
        tests += battery.sensitivity(items, edits)
    tests += await asyncio.to_thread(battery.pictures, items, work)
    told = [(item, str(run.scores[item.id].parts["description"])) for item in items
            if run.scores[item.id].parts.get("description")]  # fmt: skip
    tests += battery.descriptions(told) if told else []
    if on_items is not None:
        on_items([*items, *_distinct(tests)])
    await run.score(_distinct(tests))
    await _repeat(run, items, repeats)
    span = run.span(items)
    step = run.step(span)
    lines = [*await _accuracy(run, truth, items, KnownAnswer().pairs(data)), _errors(run, tests)]
    for test in tests:
        found = _tested(run, test, span, step)
        if isinstance(found, str):
            skipped[test.name] = found
        else:
            lines.append(found)
    lines.append(_spread(run, items, repeats, span, step))
    if not told:
        skipped["description"] = "this metric reads no description"
    lines += _failures(run.scores.values())
    costs = _costs(run)
    if pairwise is None:
        skipped["order of two images"] = "no pairwise metric was given"
    else:
        lines.append(await _order(run, pairwise, items))
    if told and "judge" in metric.roles:
        lines.append(await exchange(run, items, rivals))
    else:
        skipped[SELF_PREFERENCE] = "this metric has no judge that reads what models write"
    kept = [each for each in lines if each is not None]
    return _card(run, with_verdicts(kept), span, skipped, costs)


def _distinct(tests: Iterable[Test]) -> list[Item]:
    return list(
        {item.id: item for test in tests for trial in test.trials for item in (trial.base, trial.changed)}.values()
    )


async def _repeat(run: Prober, items: Sequence[Item], repeats: int) -> None:
    for k in range(1, repeats):

        async def again(item: Item, ask: Ask, k: int = k) -> Score:
            return await run.metric(item, Again(ask, k * SAMPLE_STEP))

        await run.score([replace(item, id=_repeated(item, k)) for item in battery.attacked(items)], again)


def _repeated(item: Item, k: int) -> str:
    return f"{item.id}#again {k}" if k else item.id


async def _accuracy(run: Prober, truth: Sequence[Item], items: Sequence[Item], pairs: Sequence[Pair]) -> list[Line]:
    """Known answers: questions where the metric answers some, else pairs ordered as construction does (ties half)."""
    if "gold_answers" in run.metric.needs:
        exam = [replace(item, id=f"{item.id}#exam") for item in truth]
        await run.score(exam)
        return [_exam(run, exam, each) for each in ("yes", "no")]
    known = [pair for pair in pairs if pair.preference != "tie"]
    rows = []
    for pair in known:
        a, b = run.value(pair.a), run.value(pair.b)
        if a is not None and b is not None:
            rows.append((pair.group, _right(a, b) if pair.preference == "a" else _right(b, a)))
    return [_share("known pairs, share right", rows, len(known))]


def _exam(run: Prober, exam: Sequence[Item], answer: str) -> Line:
    """How many of the questions whose true answer is yes, or no, were answered so: who always says yes knows half."""
    rows, failed = [], 0
    for item in exam:
        score = run.scores[item.id]
        given = score.parts.get("preds") or ()
        failed += score.value is None
        for gold, said in zip(item.meta["gold_answers"], given, strict=False) if score.value is not None else ():
            if gold == answer:
                rows.append((item.group, float(said == gold)))
    return _share(f"known answers that are '{answer}', share right", rows, len(rows) + failed)


def _right(better: float, worse: float) -> float:
    return 0.5 if better == worse else float(better > worse)


def _share(name: str, rows: Sequence[tuple[str, float]], total: int) -> Line:
    step = 0.5 if any(right == 0.5 for _, right in rows) else 1.0
    failed = total - len(rows)
    return line("sees", name, rows, rule="at least", limit=ACCURATE, failed=failed, step=step, bounds=(0, 1))


def _errors(run: Prober, tests: Sequence[Test]) -> Line | None:
    """How often the prompt that an image was made from does better than the same with an error in it (ties half)."""
    trials = [trial for test in tests if test.name in KINDS for trial in test.trials]
    both = [(trial.base.group, run.value(trial.base), run.value(trial.changed)) for trial in trials]
    rows = [(group, _right(a, b)) for group, a, b in both if a is not None and b is not None]
    return _share("prompts with an error, share found out", rows, len(trials)) if rows else None


def _tested(run: Prober, test: Test, span: float, step: float) -> Line | str:
    """The line of a test, or why this judge cannot take it."""
    rows, reasons = [], []
    for trial in test.trials:
        before, after = run.value(trial.base), run.value(trial.changed)
        if before is None or after is None:
            score = run.scores[trial.changed.id if after is None else trial.base.id]
            reasons.append((score.status, score.reason))
            continue
        rows.append((trial.base.group, (before - after if test.rule == "at least" else after - before) / span))
    if not test.trials:
        return "the known answers have no such case"
    if not rows and all(status is Status.MISSING for status, _ in reasons):
        return "no answer is recorded for what was changed"
    unable = [reason for status, reason in reasons if status is Status.BAD_INPUT]
    if not rows and unable:
        return unable[0]
    prompts = len({trial.base.group for trial in test.trials})
    if prompts < FEWEST <= run.prompts:
        return f"only {prompts} of the {run.prompts} prompts have such a case"
    return line(test.family, test.name, rows, rule=test.rule, limit=test.limit, failed=len(reasons), step=step)


def _spread(run: Prober, items: Sequence[Item], repeats: int, span: float, step: float) -> Line:
    """Mean absolute difference between two answers to the same question."""
    rows, failed = [], 0
    for item in battery.attacked(items):
        values = [run.value(_repeated(item, k)) for k in range(repeats)]
        given = [value for value in values if value is not None]
        failed += len(values) - len(given)
        gaps = [abs(x - y) for i, x in enumerate(given) for y in given[i + 1 :]]
        if gaps:
            rows.append((item.group, sum(gaps) / len(gaps) / span))
    name = "difference between repeated answers"
    return line("is not moved", name, rows, rule="at most", limit=battery.ROBUST, failed=failed, step=step)


async def _order(probed: Prober, pairwise: Metric, items: Sequence[Item]) -> Line:
    """How far a pairwise judge prefers whichever image is shown first: 0 not at all, 1 always."""
    run = Prober(probed.engine, pairwise.name, pairwise)
    families = {item.group: tuple(each for each in items if each.group == item.group) for item in items}
    await run.score(replace(item, meta={**item.meta, "siblings": families[item.group]}) for item in items)
    probed.stopped = probed.stopped or run.stopped
    duels = [(s.group, duel) for s in run.scores.values() if s.value is not None for duel in s.parts.get("duels", ())
             if s.item_id < duel["other"]]  # fmt: skip
    rows = [(group, float(duel["shown_first"]) - float(duel["shown_second"])) for group, duel in duels]
    failed = sum(score.value is None for score in run.scores.values())
    name = "order of two images"
    return line("is not moved", name, rows, rule="within", limit=ORDER, failed=failed, step=STEADY, bounds=(-1, 1))


def _failures(scores: Iterable[Score]) -> list[Line]:
    """Refusals, and answers that cannot be read, among the questions that a judge could answer."""
    outside = (Status.BAD_INPUT, Status.MISSING, Status.BUDGET)
    states = [score.status for score in scores if score.status not in outside]
    refused = sum(state is Status.REFUSED for state in states)
    unread = sum(state in (Status.UNPARSED, Status.TRUNCATED, Status.FAILED) for state in states)
    return [
        rate_line("answers", "refusals", refused, len(states), limit=UNUSABLE),
        rate_line("answers", "answers that cannot be read, or do not come", unread, len(states), limit=UNUSABLE),
    ]


def _costs(run: Prober) -> tuple[float | None, float | None]:
    """(USD, seconds of model time) for 1,000 scores; None for what is unknown, or when all came from the cache."""
    price: float | None = 0.0
    seconds = 0.0
    for role in run.engine.roles.open():
        if not role.tally.asked:
            return None, None
        share = (role.tally.asked + role.tally.cached) / role.tally.asked / len(run.scores) * 1000
        known = role.price is not None or role.provider.capabilities.local
        price = price + role.tally.spent * share if known and price is not None else None
        seconds += role.tally.seconds * share
    return price, seconds


def _card(
    run: Prober,
    lines: Sequence[Line],
    span: float,
    skipped: Mapping[str, str],
    costs: tuple[float | None, float | None],
) -> Card:
    roles = [role for role in run.engine.roles.open() if role.name in run.metric.roles]
    models = {role.name: role.label for role in roles}
    versions = {role.name: sorted({version for version, _ in role.tally.versions if version}) for role in roles}
    notes = (run.stopped,) if run.stopped else ()
    return Card(run.name, models, versions, tuple(lines), span, len(run.scores), *costs, dict(skipped), notes)
