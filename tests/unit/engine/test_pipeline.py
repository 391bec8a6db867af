"""The pipeline with stand-in models: what is asked, kept, shared, repaired, charged."""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gated import GatedFake
from PIL import Image
from pydantic import BaseModel

from titjudge.core.config import RunConfig, load_config
from titjudge.core.errors import ConfigError, DataError, FatalProviderError, Unanswered
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Failure, FailureKind, Item, Message, Reply, Request, Score, Status, Usage
from titjudge.engine.ask import BoundAsk, problem_of
from titjudge.engine.budget import Budget
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine, Interrupted, ReplyRules
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import score_item
from titjudge.metrics import metric
from titjudge.metrics.tit import lmm_score
from titjudge.providers import Capabilities
from titjudge.providers.fake import Fake
from titjudge.providers.local.base import make_reply

REMOTE = Capabilities()


class Mark(BaseModel):
    score: float


class Hosted(GatedFake):
    """A fake that counts as hosted: priced, limited, retried, cached."""

    def classify(self, error: Exception) -> Failure:
        kinds = {"fatal": FailureKind.FATAL, "refused": FailureKind.REFUSED, "rejected": FailureKind.REJECTED}
        return Failure(kinds.get(str(error), FailureKind.RETRY), str(error), retry_after=0.0)


def build(
    tmp_path: Path, answers: Any = None, *, budget: Budget | None = None, journal: Any = None, **config: Any
) -> tuple[Engine, Hosted]:
    fake = Hosted(None, answers, capabilities=REMOTE)
    made = load_config(
        None, {"captioner": "fake/m", "judge": "fake/m", "prices": {"m": {"input": 1.0, "output": 1.0}}, **config}
    )
    roles = Roles(made, make=lambda _: fake)
    return Engine(roles, PromptLibrary(), AnswerCache(tmp_path / "cache"), budget, journal=journal), fake


def item(tmp_path: Path, name: str = "a.png", colour: int = 0) -> Item:
    Image.new("RGB", (8, 8), (colour, 0, 0)).save(tmp_path / name)
    return Item(name, "a red square", tmp_path / name, "g", "p")


async def ask_mark(engine: Engine, who: Item, prompt: str = "p") -> Reply:
    ask = BoundAsk(engine, who)
    return await ask("tit/compare", role="judge", schema=Mark, prompt=prompt, description="d")


def run(work: Callable[[], Any]) -> Any:
    return asyncio.run(work())


def test_identical_questions_in_flight_share_one_request(tmp_path: Path) -> None:
    async def work() -> None:
        engine, fake = build(tmp_path, lambda r: '{"score": 5}')
        fake.latency = 0.02
        who = item(tmp_path)
        replies = await asyncio.gather(*(ask_mark(engine, who) for _ in range(20)))
        assert len(fake.requests) == 1
        assert {reply.data.score for reply in replies} == {5}
        await engine.aclose()

    run(work)


def test_a_kept_answer_is_not_asked_again_and_costs_nothing(tmp_path: Path) -> None:
    async def work() -> tuple[int, float, float]:
        engine, fake = build(tmp_path, lambda r: '{"score": 5}')
        reply = await ask_mark(engine, item(tmp_path))
        assert reply.data == Mark(score=5)
        spent, listed = engine.budget.spent, engine.budget.list_cost
        await engine.aclose()
        return len(fake.requests), spent, listed

    first, second = run(work), run(work)
    assert first[0] == 1
    assert second[0] == 0
    assert first[1] == first[2] == second[2] > 0
    assert second[1] == 0


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Reply("", Status.REFUSED, "no"), Status.REFUSED),
        (Reply('{"score": 5}', Status.TRUNCATED), Status.TRUNCATED),
        ("not an object", Status.UNPARSED),
        (ValueError("refused"), Status.REFUSED),
        (ValueError("rejected"), Status.FAILED),
    ],
)
def test_what_is_no_answer_is_never_a_score_and_never_paid_twice(tmp_path: Path, answer: Any, status: Status) -> None:
    @metric("m", roles=("judge",), range=(0, 1))
    async def mark(who: Item, ask: Any) -> Score:
        reply = await ask("tit/compare", role="judge", schema=Mark, prompt="p", description="d")
        return Score.of(reply.data.score)

    async def work(failed: Any = "keep", answer: Any = answer) -> tuple[int, Score]:
        engine, fake = build(tmp_path, lambda r: answer)
        engine = Engine(engine.roles, engine.library, engine.cache, failed=failed)
        score = await score_item(engine, item(tmp_path), "m", mark)
        again = await score_item(engine, item(tmp_path), "m", mark)  # another metric may ask the same question
        assert (again.value, again.status) == (score.value, score.status)
        await engine.aclose()
        return len(fake.requests), score

    once = 2 if status is Status.UNPARSED else 1
    asked, score = run(work)
    assert (score.value, score.status) == (None, status)
    assert score.reason
    if status is Status.FAILED:  # nobody answered: tomorrow somebody may
        assert (asked, run(work)[0]) == (2, 2)
        return
    assert asked == once
    assert run(work) == (0, score)
    assert run(lambda: work("again"))[0] == once
    asked, score = run(lambda: work("again", '{"score": 1}'))
    assert (asked, score.value) == (1, 1.0)
    assert run(work)[1].value == 1.0


def test_a_kept_answer_that_could_not_be_read_is_read_again(tmp_path: Path) -> None:
    async def work(lenient: bool) -> Reply:
        engine, _ = build(tmp_path, lambda r: "{'score': 5")
        engine.roles.config = engine.roles.config.model_copy(update={"lenient": lenient})
        engine = Engine(engine.roles, engine.library, engine.cache)
        try:
            return await ask_mark(engine, item(tmp_path))
        finally:
            await engine.aclose()

    with pytest.raises(Unanswered, match="could not be read"):
        run(lambda: work(False))
    reply = run(lambda: work(True))
    assert (reply.cached, reply.data.score, reply.status) == (True, 5, Status.OK)


def test_a_repair_turn_goes_on_from_the_answer_that_was_paid(tmp_path: Path) -> None:
    async def work(answers: Any) -> tuple[Any, list[Request]]:
        engine, fake = build(tmp_path, answers)
        found = await asyncio.gather(ask_mark(engine, item(tmp_path)), return_exceptions=True)
        await engine.aclose()
        return found[0], fake.requests

    stopped, requests = run(lambda: work(["five, I think", ValueError("fatal")]))
    assert isinstance(stopped, FatalProviderError)
    assert len(requests) == 2
    reply, requests = run(lambda: work(['{"score": 5}']))
    assert reply.data.score == 5
    assert [request.attempt for request in requests] == [1]


def test_the_journal_gets_an_unusable_answer_once(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []

    async def work(known: dict[str, bool]) -> None:
        engine, _ = build(tmp_path, lambda r: Reply("", Status.REFUSED, "no"))
        engine = Engine(
            engine.roles, engine.library, engine.cache,
            journal=lambda kind, record: lines.append(dict(record)) if kind == "reply" else None, known=known,
        )  # fmt: skip
        for _ in range(2):
            with pytest.raises(Unanswered):
                await ask_mark(engine, item(tmp_path))
        await engine.aclose()

    run(lambda: work({}))
    run(lambda: work({lines[0]["key"]: False}))
    assert [line["status"] for line in lines] == ["refused"]


def test_a_failure_is_retried_and_every_attempt_is_one_request(tmp_path: Path) -> None:
    async def work() -> None:
        engine, fake = build(tmp_path, [ConnectionError("x"), ConnectionError("x"), '{"score": 5}'])
        assert (await ask_mark(engine, item(tmp_path))).data.score == 5
        assert len(fake.requests) == 3
        await engine.aclose()

    run(work)


def test_one_repair_turn_shows_the_model_its_answer(tmp_path: Path) -> None:
    async def work() -> list[Request]:
        engine, fake = build(tmp_path, ["five, I think", '{"score": 5}'])
        reply = await ask_mark(engine, item(tmp_path))
        assert reply.data.score == 5
        assert "repaired" in reply.flags
        again = await ask_mark(engine, item(tmp_path))
        assert again.cached
        assert again.data.score == 5
        await engine.aclose()
        return fake.requests

    first, second = run(work)
    assert (first.attempt, second.attempt) == (0, 1)
    assert second.messages[-2].text == "five, I think"
    assert "could not be read" in second.messages[-1].text


def test_a_repaired_answer_may_stand_in_the_answer_it_repairs(tmp_path: Path) -> None:
    async def work() -> None:
        engine, fake = build(tmp_path, ['{"result": {"score": 5}, "note": "wrapped"}', '{"score": 5}'])
        assert (await ask_mark(engine, item(tmp_path))).data.score == 5
        assert len(fake.requests) == 2
        await engine.aclose()

    run(work)


def test_a_wrong_key_stops_everything_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        engine, fake = build(tmp_path, lambda r: ValueError("fatal"), limits={"concurrency": 2})
        fake.latency = 0.01
        who = item(tmp_path)
        results = await asyncio.gather(*(ask_mark(engine, who, f"p{i}") for i in range(50)), return_exceptions=True)
        assert all(isinstance(result, FatalProviderError | Interrupted) for result in results)
        assert len(fake.requests) <= 2
        await engine.aclose()

    run(work)


def test_stop_keeps_what_was_asked_and_asks_nothing_new(tmp_path: Path) -> None:
    async def work() -> None:
        engine, fake = build(tmp_path, lambda r: '{"score": 5}', limits={"concurrency": 3})
        fake.gate = asyncio.Event()
        who = item(tmp_path)
        asked = [asyncio.create_task(ask_mark(engine, who, f"p{i}")) for i in range(10)]
        while len(fake.requests) < 3:
            await asyncio.sleep(0)
        engine.stop()
        fake.gate.set()
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(result, Reply) for result in results) == len(fake.requests) == 3
        assert sum(isinstance(result, Interrupted) for result in results) == 7
        assert len(list(filter(lambda key: key.startswith("ask:"), engine.cache.keys()))) == 3  # type: ignore[union-attr]
        await engine.aclose()

    run(work)


def test_a_server_that_tells_no_usage_is_charged_the_worst_case(tmp_path: Path) -> None:
    async def work() -> None:
        budget = Budget(max_cost=100)
        engine, _ = build(tmp_path, lambda r: Reply('{"score": 5}', flags=("usage-missing",)), budget=budget)
        await ask_mark(engine, item(tmp_path))
        assert budget.spent > 0.001  # 2,048 tokens of output at a dollar a million
        await engine.aclose()

    run(work)


def test_a_missing_picture_is_named_and_not_asked(tmp_path: Path) -> None:
    async def work() -> None:
        engine, fake = build(tmp_path)
        ask = BoundAsk(engine, Item("x", "p", tmp_path / "none.png"))
        with pytest.raises(Unanswered, match="no such image") as caught:
            await ask("tit/describe", role="captioner", images=[tmp_path / "none.png"])
        assert caught.value.status == Status.BAD_INPUT
        assert fake.requests == []
        await engine.aclose()

    run(work)


def test_a_role_nobody_plays_says_which_flag_is_missing(tmp_path: Path) -> None:
    async def work() -> None:
        engine = Engine(Roles(RunConfig()), PromptLibrary())
        with pytest.raises(ConfigError, match="--judge PROVIDER/MODEL"):
            await ask_mark(engine, item(tmp_path))

    run(work)


def test_the_journal_gets_every_answer_once_with_what_was_sent(tmp_path: Path) -> None:
    async def work() -> None:
        records: list[tuple[str, dict[str, Any]]] = []
        engine, _ = build(
            tmp_path, lambda r: '{"score": 5}', journal=lambda kind, record: records.append((kind, dict(record)))
        )
        who = item(tmp_path)
        await ask_mark(engine, who)
        await ask_mark(engine, who)
        (before, entry), (paid, bill), (kind, record) = records
        assert (before, entry["id"], entry["role"]) == ("sent", bill["id"], "judge")
        assert entry["worst"] >= bill["cost"] > 0
        assert (paid, bill["role"], bill["tokens"]) == ("bill", "judge", 15)
        assert (kind, record["text"], record["status"]) == ("reply", '{"score": 5}', "ok")
        assert "a red square" not in str(record["messages"])
        assert record["messages"][1][0] == "user"
        await engine.aclose()

    run(work)


def test_a_local_answer_without_a_word_is_a_refusal_but_for_what_takes_it(tmp_path: Path) -> None:
    async def work() -> None:
        engine, fake = build(tmp_path, lambda r: make_reply("", "", Usage(1, 0), "stop"))
        fake.capabilities = Capabilities(direct=True)
        ask = BoundAsk(engine, item(tmp_path))
        given: dict[str, Any] = {"role": "judge", "prompt": "p", "description": "d"}
        with pytest.raises(Unanswered, match="without a word"):
            await ask("tit/compare", **given)
        assert (await ask("tit/compare", accept_empty=True, **given)).text == ""

    run(work)


def test_a_fault_in_the_code_of_a_direct_provider_names_its_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        engine, fake = build(tmp_path, lambda r: {"a": "b"}["role"])
        fake.capabilities = Capabilities(direct=True)
        with caplog.at_level("WARNING", "titjudge"), pytest.raises(Unanswered) as failed:
            await ask_mark(engine, item(tmp_path))
        assert failed.value.reason.startswith("KeyError: 'role' (tests/gated.py:")  # which calls the answer
        assert any(record.exc_info for record in caplog.records)

    run(work)


def test_what_a_thinking_model_thinks_comes_on_top_of_max_tokens(tmp_path: Path) -> None:
    async def work(capabilities: Capabilities, **judge: Any) -> dict[str, Any]:
        fake = Fake(None, lambda r: '{"score": 5}', capabilities=capabilities)
        config = load_config(None, {"judge": {"model": "fake/m", **judge}})
        engine = Engine(Roles(config, make=lambda _: fake), PromptLibrary())
        await ask_mark(engine, item(tmp_path))
        return dict(fake.requests[0].params)

    thinker = Capabilities(direct=True, thinking=8192, omit=frozenset({"temperature"}))
    assert asyncio.run(work(thinker, max_tokens=500)) == {"max_tokens": 8692}
    assert asyncio.run(work(thinker, max_tokens=500, thinking_budget=100))["max_tokens"] == 600
    assert asyncio.run(work(Capabilities(direct=True), max_tokens=500)) == {"max_tokens": 500, "temperature": 0}


def panel_answers(values: dict[str, float | str]) -> Callable[[Request], str]:
    def answer(request: Request) -> str:
        value = values[request.model]
        return (
            value
            if isinstance(value, str)
            else f'{{"missing": [], "contradicted": [], "reason": "r", "score": {value}}}'
        )

    return answer


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        ({"a": 10, "b": 20, "c": 60}, {}, 30),
        ({"a": 10, "b": 20, "c": 60}, {"vote": "median"}, 20),
        ({"a": 10, "b": 10, "c": 60}, {"vote": "majority"}, 10),
        ({"a": 10, "b": 20, "c": 60}, {"vote": "majority"}, None),
        ({"a": 10, "b": 20, "c": "no"}, {}, 15),
        ({"a": 10, "b": "no", "c": "no"}, {}, None),
        ({"a": 10, "b": "no", "c": "no"}, {"quorum": 1}, 10),
        ({"a": 10, "b": 20, "c": "no"}, {"quorum": 3}, None),
    ],
)
def test_a_panel_votes_with_a_quorum_that_is_enforced(
    tmp_path: Path, values: dict[str, float | str], options: dict[str, Any], expected: float | None
) -> None:
    from titjudge.engine.scoring import Panel
    from titjudge.metrics.tit import tit_llm

    async def work() -> list[Score]:
        fake = Fake(None, panel_answers({**values, "m": "words"}))
        config = load_config(None, {"captioner": "fake/m", "judge": ["fake/a", "fake/b", "fake/c"], **options})
        engine = Engine(Roles(config, make=lambda _: fake), PromptLibrary())
        return await Panel.from_config(config).score(engine, item(tmp_path), "tit-llm", tit_llm)

    together, *each = run(work)
    assert together.value == (None if expected is None else pytest.approx(expected))
    assert [score.metric for score in each] == ["tit-llm [fake/a]", "tit-llm [fake/b]", "tit-llm [fake/c]"]
    numbers = [value for value in values.values() if not isinstance(value, str)]
    assert together.parts["disagreement"] == max(numbers) - min(numbers)
    if expected is None:
        assert "quorum" in together.reason or "majority" in together.reason


def test_a_panel_that_is_silent_for_one_reason_gives_that_reason(tmp_path: Path) -> None:
    from titjudge.engine.scoring import Panel
    from titjudge.metrics.tit import tit_llm

    def score(answers: dict[str, float | str], image: Item) -> Score:
        config = load_config(None, {"captioner": "fake/m", "judge": ["fake/a", "fake/b"]})
        fake = Fake(None, panel_answers({**answers, "m": "words"}))
        engine = Engine(Roles(config, make=lambda _: fake), PromptLibrary())
        return run(lambda: Panel.from_config(config).score(engine, image, "tit-llm", tit_llm))[0]

    there = item(tmp_path)
    gone = score({"a": 1, "b": 1}, replace(there, image=tmp_path / "gone.png"))
    assert (gone.status, gone.reason.rpartition(": ")[2]) == (Status.BAD_INPUT, "no such image file. Correct the path")
    one = score({"a": 1, "b": "no"}, there)
    assert re.fullmatch(r"no quorum: 1 of 2 judges answered, 2 are needed \(.+\)", one.reason)


def test_samples_are_separate_questions_with_a_spread(tmp_path: Path) -> None:
    from titjudge.engine.scoring import Panel
    from titjudge.metrics.tit import tit_llm

    async def work() -> tuple[Score, list[Request]]:
        values: Iterable[float] = iter([10.0, 20.0, 30.0])
        fake = Fake(None, lambda r: panel_answers({"m": "words", "j": next(values) if r.schema else "words"})(r))
        config = load_config(None, {"captioner": "fake/m", "judge": "fake/j", "samples": 3})
        engine = Engine(Roles(config, make=lambda _: fake), PromptLibrary(), AnswerCache(tmp_path / "cache"))
        (score,) = await Panel.from_config(config).score(engine, item(tmp_path), "tit-llm", tit_llm)
        return score, fake.requests

    score, requests = run(work)
    assert score.value == 20
    assert score.parts["spread"] == 10
    assert len({request.sample for request in requests if request.model == "j"}) == 3
    assert len([request for request in requests if request.model == "m"]) == 1


def test_a_question_that_two_read_in_different_ways_is_asked_once(tmp_path: Path) -> None:
    cut = Reply("a red", Status.TRUNCATED, "the answer reached its token limit", Usage(5, 5), "length")

    async def ask() -> tuple[Any, Any, int]:
        engine, fake = build(tmp_path, lambda request: cut)
        async with contextlib.aclosing(engine):
            role = engine.roles["judge"]
            request = engine.request(role, (Message("user", ("what is it?",)),), params={})
            asking = [engine.answer(role, request, ReplyRules(truncated=truncated)) for truncated in (True, False)]
            taken, refused = await asyncio.gather(*asking, return_exceptions=True)
            return taken, refused, len(fake.requests)

    taken, refused, asked = asyncio.run(ask())
    assert (taken.text, refused.status, asked) == ("a red", Status.TRUNCATED, 1)


@pytest.mark.parametrize(
    ("name", "path", "told"),
    [
        ("a/1.png", "data/a/1.png", "no such image file"),
        ("a/1.png", "data/sources/1.png", "sources/1.png: no such image file"),
        ("a/1.png", "/elsewhere/1.png", "/elsewhere/1.png: no such image file"),
    ],
)
def test_a_file_of_an_item_is_named_by_its_path_below_the_data_folder(
    tmp_path: Path, name: str, path: str, told: str
) -> None:
    whose = Item(name, "a red square", tmp_path / "data" / name, "g", "p")
    assert problem_of(DataError("no such image file", tmp_path / path), whose) == told


def test_a_missing_file_has_the_same_form_of_path_as_an_empty_prompt(tmp_path: Path) -> None:
    async def work() -> Score:
        engine, _ = build(tmp_path)
        whose = Item("a/1.png", "a red square", tmp_path / "a" / "1.png", "g", "p")
        try:
            return await score_item(engine, whose, "lmm-score", lmm_score)
        finally:
            await engine.aclose()

    score = run(work)
    assert (score.status, score.item_id, score.reason) == (
        Status.BAD_INPUT,
        "a/1.png",
        "no such image file. Correct the path",
    )
