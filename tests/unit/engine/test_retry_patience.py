"""A server that is away for a while: what a run loses is decided by the patience it was given, not by the status."""

import asyncio
import time
from typing import Any

import pytest
from gated import GatedFake
from virtual_time import VirtualLoop, clock, run_virtual

from titjudge.core.config import load_config
from titjudge.core.errors import FatalProviderError
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Embedding, Failure, Item, Reply, Request
from titjudge.engine.ask import BoundAsk
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.providers import Capabilities, Embedder
from titjudge.providers.hosted.failures import ProviderFailure, classify, kind_of_status
from titjudge.providers.hosted.http import Unreachable

REFUSED = 0  # in place of an HTTP status


@pytest.fixture(autouse=True)
def _virtual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.monotonic

    def now() -> float:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return real()
        return loop.time() if isinstance(loop, VirtualLoop) else real()

    monkeypatch.setattr(time, "monotonic", now)


class Spell:
    """Answers in a tenth of a second; from `start` on fails for `seconds`."""

    def __init__(self, status: int, seconds: float, start: float = 0.3) -> None:
        self.status, self.start, self.end = status, start, start + seconds
        self.requests = 0

    async def check(self) -> None:
        self.requests += 1
        await asyncio.sleep(0.1)
        if self.start <= clock() < self.end:
            if self.status == REFUSED:
                raise Unreachable("cannot connect")
            raise ProviderFailure(Failure(kind_of_status(self.status), f"HTTP {self.status}"))


class Hosted(GatedFake):
    spell: Spell

    async def complete(self, request: Request) -> Reply:
        await self.spell.check()
        return Reply("yes")

    def classify(self, error: Exception) -> Failure:
        return classify(error)


class Vectors(Embedder):
    name, local, max_tokens = "openai/vectors", False, 100

    def __init__(self, spell: Spell) -> None:
        self.spell = spell

    async def embed(self, texts: Any) -> list[Embedding]:
        await self.spell.check()
        return [Embedding([1.0], 1, 1) for _ in texts]

    def classify(self, error: Exception) -> Failure:
        return classify(error)


def outcomes(
    spell: Spell, questions: int = 60, *, at_once: int = 8, vectors: bool = False, **limits: float
) -> list[Any]:
    """Ask so many questions of different items, some at a time, and return replies and errors."""

    async def work() -> list[Any]:
        config = load_config(None, {"judge": "fake/m", "limits": {"concurrency": 8, **limits}})
        fake = Hosted(None, None, capabilities=Capabilities())
        fake.spell = spell
        engine = Engine(Roles(config, make=lambda _: fake, embedder=lambda _: Vectors(spell)), PromptLibrary())
        gate = asyncio.Semaphore(at_once)

        async def one(number: int) -> Any:
            item = Item(f"i{number}", f"p{number}", None, "g", "p")
            ask = BoundAsk(engine, item)
            async with gate:
                if vectors:
                    return await engine.embed([item.prompt])
                return await ask("tit/compare", role="judge", prompt=item.prompt, description="d")

        try:
            return await asyncio.gather(*map(one, range(questions)), return_exceptions=True)
        finally:
            await engine.aclose()

    return run_virtual(work())


def lost(found: list[Any]) -> int:
    return sum(isinstance(each, BaseException) for each in found)


@pytest.mark.parametrize("start", [0.0, 0.3])
@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_server_that_is_overloaded_for_a_while_loses_no_answer(status: int, start: float) -> None:
    assert lost(outcomes(Spell(status, 90, start))) == 0


@pytest.mark.parametrize("status", [503, REFUSED])
def test_vectors_are_waited_for_as_answers_are(status: int) -> None:
    assert lost(outcomes(Spell(status, 90), vectors=True)) == 0


@pytest.mark.parametrize("status", [429, 503, 529, REFUSED])
def test_a_night_is_survived_where_the_patience_is_a_night(status: int) -> None:
    assert lost(outcomes(Spell(status, 5 * 3600), 12, at_once=2, patience=6 * 3600)) == 0


def test_an_overloaded_server_gets_no_more_requests_than_a_limiting_one() -> None:
    counts = []
    for status in (429, 503):
        spell = Spell(status, 90)
        outcomes(spell)
        counts.append(spell.requests)
    assert counts[1] <= 1.3 * counts[0]


@pytest.mark.parametrize("status", [500, 503, REFUSED])
def test_a_server_that_stays_away_for_longer_than_patience_ends_the_run(status: int) -> None:
    found = outcomes(Spell(status, 10**9), patience=60)
    assert any(isinstance(each, FatalProviderError) and "no answer for 60 seconds" in str(each) for each in found)


def test_one_item_that_is_always_put_off_ends_nothing_but_itself() -> None:
    class One(Spell):
        async def check(self) -> None:
            self.end = 0.0 if self.requests < 1 else 10**9  # the second item alone
            await super().check()

    found = outcomes(One(503, 0, 0.0), 2, patience=60, concurrency=1)
    assert [type(each).__name__ for each in found] == ["Reply", "Unanswered"]
    assert "still overloaded" in str(found[1])


@pytest.mark.parametrize("status", [500, 502, 504])
def test_faults_use_up_as_many_attempts_as_are_allowed(status: int) -> None:
    assert lost(outcomes(Spell(status, 90), attempts=2)) > 0
    assert lost(outcomes(Spell(status, 90), attempts=100)) == 0


def test_an_idle_hour_before_an_outage_does_not_count_as_part_of_it() -> None:
    async def work() -> Any:
        spell = Spell(REFUSED, 60, 3600.0)
        config = load_config(None, {"judge": "fake/m"})
        fake = Hosted(None, None, capabilities=Capabilities())
        fake.spell = spell
        engine = Engine(Roles(config, make=lambda _: fake), PromptLibrary())
        for number in range(2):
            ask = BoundAsk(engine, Item(f"i{number}", "p", None, "g", "p"))
            reply = await ask("tit/compare", role="judge", prompt=f"p{number}", description="d")
            await asyncio.sleep(3600)
        await engine.aclose()
        return reply

    assert run_virtual(work()).text == "yes"
