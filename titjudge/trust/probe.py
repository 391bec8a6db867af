"""Run the battery over a judge, through an engine, and write its card."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from titjudge.engine import Engine, measure
from titjudge.errors import BudgetExhausted, DataError
from titjudge.metrics import Metric
from titjudge.panel import SAMPLE_STEP
from titjudge.suites.known_answer import KnownAnswer
from titjudge.trust import battery
from titjudge.trust.battery import Test
from titjudge.trust.card import FEWEST, Card, Line, line, rate_line, with_verdicts
from titjudge.types import Ask, Item, Pair, Score, Status

ACCURATE = 0.7  # least share of known answers
ORDER = 0.1  # most advantage of the image that is shown first
UNUSABLE = 0.05  # most refusals, and most answers that cannot be read
IN_FLIGHT = 64
GRAIN = 0.001  # a score is believed to a thousandth of the metric's range


class _Again:
    """An `ask` whose samples count from another number: everything is asked anew."""

    def __init__(self, ask: Ask, sample: int) -> None:
        self._ask, self._sample, self.protocol = ask, sample, ask.protocol

    async def __call__(self, template: str, *, sample: int = 0, **rest: Any) -> Any:
        return await self._ask(template, sample=sample + self._sample, **rest)

    def has_tools(self, role: str) -> bool:
        return self._ask.has_tools(role)

    async def embed(self, texts: Sequence[str]) -> Any:
        return await self._ask.embed(texts)


@dataclass(slots=True)
class Prober:
    """Scores items once each, many at a time.

    Args:
        engine, name, metric: who is probed. on_score: called with each score as it comes.
    """

    engine: Engine
    name: str
    metric: Metric
    on_score: Any = None
    scores: dict[str, Score] = field(default_factory=dict)
    prompts: int = 0
    stopped: str = ""

    async def score(self, items: Iterable[Item], metric: Any = None) -> None:
        """Score items that have no score yet. After the cap is reached there are none with a value."""
        gate = asyncio.Semaphore(IN_FLIGHT)
        wanted = {item.id: item for item in items if item.id not in self.scores}

        async def one(item: Item) -> None:
            async with gate:
                try:
                    found = await measure(self.engine, item, self.name, metric or self.metric)
                except BudgetExhausted as error:
                    self.stopped = f"incomplete: {error}"
                    found = replace(Score.none(Status.BUDGET, str(error)), item_id=item.id, group=item.group)
                finally:
                    if item.image is not None:
                        self.engine.pictures.forget(item.image)
            self.scores[item.id] = found
            if self.on_score is not None:
                self.on_score(found)

        try:
            async with asyncio.TaskGroup() as tasks:
                for item in wanted.values():
                    tasks.create_task(one(item))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    def value(self, item: Item | str) -> float | None:
        """The value of an item, more is better; None without one."""
        score = self.scores.get(item if isinstance(item, str) else item.id)
        if score is None or score.value is None:
            return None
        return score.value if self.metric.higher_is_better else -score.value


async def probe(
    engine: Engine,
    name: str,
    metric: Metric,
    data: Path,
    work: Path,
    *,
    repeats: int = 3,
    pairwise: Metric | None = None,
    on_score: Any = None,
    on_items: Any = None,
) -> Card:
    """Probe a judge and return its card.

    Args:
        metric: the metric whose models are probed, called `name`.
        data: a known-answer folder. work: where changed pictures are written.
        repeats: how often the same question is asked for the spread between repetitions.
        pairwise: a pairwise metric of the same judge, for the order effect: it finds the other images of the prompt in
            `meta["siblings"]` and leaves `shown_first` and `shown_second`, 0 to 1, in each of its `parts["duels"]`.
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
    tests = [*battery.severity(items), *battery.sensitivity(items), battery.instructions(items)]
    tests += await asyncio.to_thread(battery.pictures, items, work)
    told = [(item, str(run.scores[item.id].parts["description"])) for item in battery.attacked(items)
            if run.scores[item.id].parts.get("description")]  # fmt: skip
    tests += battery.descriptions(told) if told else []
    if on_items is not None:
        on_items([*items, *_distinct(tests)])
    await run.score(_distinct(tests))
    await _repeat(run, items, repeats)
    span = _span(run, items)
    floor = GRAIN * (metric.range[1] - metric.range[0]) / span
    lines = [await _accuracy(run, truth, items, KnownAnswer().pairs(data))]
    skipped: dict[str, str] = {}
    for test in tests:
        found = _tested(run, test, span, floor)
        if isinstance(found, str):
            skipped[test.name] = found
        else:
            lines.append(found)
    lines.append(_spread(run, items, repeats, span, floor))
    if not told:
        skipped["description"] = "this metric reads no description"
    lines += _failures(run.scores.values())
    costs = _costs(run)
    if pairwise is None:
        skipped["order of two images"] = "no pairwise metric was given"
    else:
        lines.append(await _order(engine, pairwise, items))
    return _card(run, with_verdicts(lines), span, skipped, costs)


def _distinct(tests: Iterable[Test]) -> list[Item]:
    return list(
        {item.id: item for test in tests for trial in test.trials for item in (trial.base, trial.changed)}.values()
    )


async def _repeat(run: Prober, items: Sequence[Item], repeats: int) -> None:
    for k in range(1, repeats):

        async def again(item: Item, ask: Ask, k: int = k) -> Score:
            return await run.metric(item, _Again(ask, k * SAMPLE_STEP))

        await run.score([replace(item, id=_repeated(item, k)) for item in battery.attacked(items)], again)


def _repeated(item: Item, k: int) -> str:
    return f"{item.id}#again {k}" if k else item.id


def _span(run: Prober, items: Sequence[Item]) -> float:
    """The distance between the judge's means for the best and the worst level; its whole range when that is not positive."""
    levels = sorted({item.meta["level"] for item in items if "level" in item.meta})
    means = []
    for level in (levels[:1] + levels[-1:]) if len(levels) > 1 else []:
        values = [v for item in items if item.meta.get("level") == level and (v := run.value(item)) is not None]
        means.append(sum(values) / len(values) if values else None)
    whole = run.metric.range[1] - run.metric.range[0]
    if len(means) == 2 and means[0] is not None and means[1] is not None and means[0] - means[1] > 0.02 * whole:
        return means[0] - means[1]
    return whole


async def _accuracy(run: Prober, truth: Sequence[Item], items: Sequence[Item], pairs: Sequence[Pair]) -> Line:
    """Known answers: questions where the metric answers some, else pairs ordered as construction does (ties half)."""
    if "gold_answers" in run.metric.needs:
        exam = [replace(item, id=f"{item.id}#exam") for item in truth]
        await run.score(exam)
        marks = [(item.group, value) for item in exam if (value := run.value(item)) is not None]
        failed = len(exam) - len(marks)
        return line(
            "sees", "known answers, share right", marks, rule="at least", limit=ACCURATE, failed=failed, floor=GRAIN
        )
    rows = []
    for pair in pairs:
        a, b = run.value(pair.a), run.value(pair.b)
        if a is not None and b is not None and pair.preference != "tie":
            right = 0.5 if a == b else float((a > b) == (pair.preference == "a"))
            rows.append((pair.group, right))
    failed = sum(pair.preference != "tie" for pair in pairs) - len(rows)
    return line(
        "sees",
        "known pairs, share right",
        rows,
        rule="at least",
        limit=ACCURATE,
        failed=failed,
        floor=GRAIN,
        bounds=(0, 1),
    )


def _tested(run: Prober, test: Test, span: float, floor: float) -> Line | str:
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
    if test.family == "notices" and "questions" in run.metric.needs and not test.name.startswith("level"):
        return "this metric asks its questions whatever the prompt says"
    return line(test.family, test.name, rows, rule=test.rule, limit=test.limit, failed=len(reasons), floor=floor)


def _spread(run: Prober, items: Sequence[Item], repeats: int, span: float, floor: float) -> Line:
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
    return line("is not moved", name, rows, rule="at most", limit=battery.ROBUST, failed=failed, floor=floor)


async def _order(engine: Engine, pairwise: Metric, items: Sequence[Item]) -> Line:
    """How far a pairwise judge prefers whichever image is shown first: 0 not at all, 1 always."""
    run = Prober(engine, pairwise.name, pairwise)
    families = {item.group: tuple(each for each in items if each.group == item.group) for item in items}
    await run.score(replace(item, meta={**item.meta, "siblings": families[item.group]}) for item in items)
    duels = [(s.group, duel) for s in run.scores.values() if s.value is not None for duel in s.parts.get("duels", ())]
    rows = [(group, float(duel["shown_first"]) - float(duel["shown_second"])) for group, duel in duels]
    failed = sum(score.value is None for score in run.scores.values())
    return line(
        "is not moved",
        "order of two images",
        rows,
        rule="within",
        limit=ORDER,
        failed=failed,
        floor=GRAIN,
        bounds=(-1, 1),
    )


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
    roles = run.engine.roles.open()
    models = {role.name: role.label for role in roles}
    versions = {role.name: sorted({version for version, _ in role.tally.versions if version}) for role in roles}
    notes = (run.stopped,) if run.stopped else ()
    return Card(run.name, models, versions, tuple(lines), span, len(run.scores), *costs, dict(skipped), notes)
