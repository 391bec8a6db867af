"""Which images a run that settles a question judges next, and when it cannot tell."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from titjudge.core.errors import DataError
from titjudge.core.run_records import SettleRecord
from titjudge.core.types import Item, Score
from titjudge.metrics import Metric
from titjudge.runs.loop import RunLoop
from titjudge.runs.study.settling import Settling, SettlingQuestion
from titjudge.stats.verdict.sentences import settled_words

PROMPTS, IN_FLIGHT = 277, 8


async def never_called(item: Item, ask: Any) -> Score:
    raise AssertionError


def metric(low: float = 0.0, high: float = 100.0) -> Metric:
    return Metric(
        name="m", function=never_called, roles=(), range=(low, high), version="1", source="", needs=(),
        higher_is_better=True, summary="",
    )  # fmt: skip


def question(*names: str, **ends: float) -> Settling:
    items = [Item(f"{name}{p}", "x", None, generator=name, prompt_id=str(p)) for p in range(PROMPTS) for name in names]
    return Settling(SettlingQuestion(names), items, {"m": metric(**ends)})


def judged(settling: Settling, value: Callable[[str, int], float | None]) -> SettleRecord:
    """Judge in the order that it asks for; `value` is the score of a generator's image of a prompt."""
    for item in settling.order():
        settling.take(Score(item.id, "m", value(item.generator, int(item.id[len(item.generator) :]))))
    return settling.record(1.0, 1.0)


def test_collapses_that_have_not_come_yet_settle_nothing() -> None:
    """`a` is 2 points better and blank on one prompt in 50: equal; 60 sets of 277 prompts."""
    rng = np.random.default_rng(1)
    false = 0
    for _ in range(60):
        blank = rng.random(PROMPTS) < 1 / 49
        record = judged(question("a", "b"), lambda g, p, blank=blank: (0 if blank[p] else 98) if g == "a" else 96)  # type: ignore[misc]
        false += record.pairs[0].verdict != "open"
    assert false <= 60 * 0.05 + 2 * (60 * 0.05 * 0.95) ** 0.5


def test_prompts_of_a_family_enter_the_test_together() -> None:
    items = [Item(f"{name}{p}", "x", None, name, str(p), {"cluster": str(p // 4)}) for p in range(40) for name in "ab"]
    settling = Settling(SettlingQuestion(("a", "b")), items, {"m": metric()})
    families = [int(item.prompt_id) // 4 for item in settling.order()]
    assert [families[k] for k in range(0, 80, 8)] == list(dict.fromkeys(families))
    record = judged(settling, lambda g, p: 100.0 if g == "a" else float(p % 4 == 0) * 100)
    (pair,) = record.pairs
    assert pair.of == 40
    assert pair.verdict == "a"
    assert pair.used % 4 == 0
    assert 0 < pair.used < 40
    with pytest.raises(DataError, match="family"):
        Settling(SettlingQuestion(("a", "b")), items[:8], {"m": metric()})


def test_a_scale_without_ends_is_said_to_be_one() -> None:
    record = judged(question("a", "b", low=-np.inf, high=np.inf), lambda g, p: p % 7 + 10 * (g == "a"))
    assert record.pairs[0].method == "asymptotic"
    assert "a is the better one" in settled_words(record)
    assert "asymptotic: this scale has no ends" in settled_words(record)
    bounded = judged(question("a", "b"), lambda g, p: p % 7 + 10 * (g == "a"))
    assert bounded.pairs[0].method == "betting"
    assert "asymptotic" not in settled_words(bounded)


def test_where_one_generator_lacks_the_scores_there_is_no_verdict() -> None:
    """`a` has no score where it does badly."""
    rng = np.random.default_rng(1)
    level = rng.normal(60, 20, PROMPTS)
    a, b = np.clip(level + rng.normal(0, 10, PROMPTS), 0, 100), np.clip(level - 6 + rng.normal(0, 10, PROMPTS), 0, 100)
    lost = a < level - 4
    record = judged(question("a", "b"), lambda g, p: (None if lost[p] else float(a[p])) if g == "a" else float(b[p]))
    (pair,) = record.pairs
    assert pair.verdict == "open"
    assert pair.without_score["a"] > 5
    said = settled_words(record)
    assert said.startswith("cannot tell: a lacks a score on ")
    assert f"left out for want of a score: a {pair.without_score['a']} prompts" in said


def test_scores_that_both_lack_at_random_are_named_and_left_out() -> None:
    record = judged(question("a", "b"), lambda g, p: None if p % 6 == (g == "a") else 50 + 30 * (g == "a"))
    (pair,) = record.pairs
    assert (pair.verdict, pair.reason) == ("a", "")
    assert "a is the better one" in settled_words(record)
    assert f"left out for want of a score: a {pair.without_score['a']}" in settled_words(record)


class Gated:
    """A panel that scores at once, but for one image, whose score waits for `gate`."""

    def __init__(self, slow: str) -> None:
        self.slow, self.gate = slow, asyncio.Event()
        self.asked: list[str] = []

    async def score(self, engine: Any, item: Item, name: str, metric: Metric, reservation: Any) -> list[Score]:
        self.asked.append(item.id)
        await asyncio.sleep(0)
        if item.id == self.slow:
            await self.gate.wait()
        return [Score(item.id, "m", 100.0 if item.generator == "a" else 0.0)]


async def run(settling: Settling, panel: Gated, done: Sequence[str] = ()) -> tuple[int, int]:
    """Images asked for while the slow one is awaited, and at the end."""
    engine = SimpleNamespace(
        sender=SimpleNamespace(disk=None, stopping=False, fatal=None), flush=lambda: None, stop=lambda: None
    )
    loop = RunLoop(engine, {"m": metric()}, panel=panel, done={(id, "m") for id in done}, on_score=lambda score, digest: None,  # type: ignore[arg-type]
                   in_flight=64)  # fmt: skip
    loop.until(settling.take, settling.ahead, IN_FLIGHT)
    task = asyncio.create_task(loop.run(settling.order()))
    for _ in range(2000):
        await asyncio.sleep(0)
    waited = len(panel.asked)
    panel.gate.set()
    assert await task == "settled"
    return waited, len(panel.asked)


@pytest.mark.parametrize("place", [0, 5])
def test_a_slow_answer_does_not_let_the_run_pay_far_ahead(place: int) -> None:
    settling = question("a", "b")
    order = [item.id for item in question("a", "b").order()]
    waited, asked = asyncio.run(run(settling, Gated(order[place])))
    (pair,) = settling.record(1.0, 1.0).pairs
    assert pair.verdict == "a"
    assert waited <= place + 2 * IN_FLIGHT
    assert asked <= 2 * pair.used + 2 * IN_FLIGHT


def test_an_image_that_never_gets_a_score_does_not_hold_the_run_up() -> None:
    """Its score counts as stored already, and is not: the others are judged all the same."""
    settling = question("a", "b")
    first = next(iter(question("a", "b").order())).id
    panel = Gated("")

    async def whole() -> str:
        engine = SimpleNamespace(
            sender=SimpleNamespace(disk=None, stopping=False, fatal=None), flush=lambda: None, stop=lambda: None
        )
        loop = RunLoop(
            engine, {"m": metric()}, panel=panel, done={(first, "m")}, on_score=lambda score, digest: None, in_flight=64
        )  # type: ignore[arg-type]
        loop.until(settling.take, settling.ahead, IN_FLIGHT)
        return await loop.run(settling.order())

    assert asyncio.run(whole()) == "complete"
    assert len(panel.asked) == 2 * PROMPTS - 1


def test_names_with_commas_stay_whole() -> None:
    def value(name: str, prompt: int) -> float:
        return 50.0 + prompt % 3 + 9 * (name == "b")

    whole = question("a, large", "b")
    named = Settling(SettlingQuestion(("a", " large", "b")), [*whole.order()], {"m": metric()})
    assert named.names == ("a, large", "b")
    assert judged(named, value) == judged(whole, value)
